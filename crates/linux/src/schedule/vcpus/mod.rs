//! VCPUs on this machine (`bpf/vcpu.bpf.c`): created, moved and destroyed while they run.
//!
//! Problem: threads are promised C in T, and the remaining time is shared; a VCPU that does not fit
//! must be refused. Rule: this side keeps the promises to each VCPU in a book and admits new ones
//! (admission.rs) before anything changes. It then tells the scheduler in the kernel, which decides
//! alone from then on. When this is dropped, or the process ends in any way, the kernel's own
//! scheduler runs every thread again.
//! Source: maracas, sections II to V. Does not cover: the moving of pages ([`moving`]).

pub mod admission;
pub mod control;
pub mod drill;
mod groups;
pub(crate) mod load;
pub mod monitor;
pub mod moving;
pub(crate) mod requests;
mod shared;
mod threads;

use crate::contract::{self, SC_NONE, sc_vcpu, sched_intruder, vcpu_cpu, vcpu_info};
use crate::error::LinuxError;
use crate::host::keeper::Changes;
use crate::host::machine;
use crate::host::newcomers::each_thread;
use crate::latency::throttling::Settings;
use crate::regulate::bpf;
use crate::schedule::intruders;
use crate::schedule::sched_trace::Rings;
use crate::sys::Mapped;
use admission::{Claim, time};
use groups::{Groups, check_process};
use libbpf_rs::{Link, Object, ProgramInput};
use serde::{Deserialize, Serialize};
use shared::Request;
use solocore_model::Time;
use solocore_model::plan::VcpuScheduling;
use solocore_model::run::{RunVcpu, RunVcpuCpu, RunVcpuIntruder};
use solocore_model::sched_trace::Event;
use solocore_model::vcpus::{Background, MIGRATION, MONITOR};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

pub use admission::check_name;
pub use groups::Group;
pub use shared::MAX_VCPUS;

/// Options of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The plan's scheduling; its `throttle` is `throttling` here, in the units that this machine
    /// counts.
    pub scheduling: VcpuScheduling,
    /// Throttling of background time.
    pub throttling: Option<Settings>,
    /// Interval between two checks by a core in background mode whether it may go on, where
    /// background time is throttled.
    pub check_ns: u64,
    /// Time slice of a thread among those of its VCPU.
    pub slice_ns: u64,
    /// Whether decisions are recorded.
    pub traced: bool,
}

impl Default for Options {
    fn default() -> Self {
        let scheduling = VcpuScheduling::default();
        Self {
            scheduling,
            throttling: None,
            check_ns: 1_000_000,
            slice_ns: 3_000_000,
            traced: false,
        }
    }
}

/// A request for a VCPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Name of the VCPU.
    pub name: String,
    /// Capacity C.
    pub capacity_ns: u64,
    /// Period T.
    pub period_ns: u64,
    /// Its core; `None`: the first with the most room.
    pub core: Option<u32>,
    /// Whether it stays on its core.
    pub fixed: bool,
    /// Number of page colours that it needs.
    pub colours: u64,
}

impl Wanted {
    /// A request for a VCPU of solocore's own with C, T and its core, if that is stated. It stays
    /// there.
    fn own(name: &str, (capacity, period, core): (Time, Time, Option<u32>)) -> Self {
        Self {
            name: name.to_owned(),
            capacity_ns: capacity.ns_ceil(),
            period_ns: period.ns_ceil(),
            core,
            fixed: true,
            colours: 0,
        }
    }
}

/// A real-time thread.
fn intruder(seen: &sched_intruder) -> RunVcpuIntruder {
    let lost = |mode: u32| seen.lost_ns[mode as usize];
    RunVcpuIntruder {
        seen: intruders::decode(seen),
        lost_foreground_ns: lost(contract::SC_MODE_FOREGROUND),
        lost_background_ns: lost(contract::SC_MODE_BACKGROUND),
    }
}

/// A VCPU in the book.
struct Entry {
    name: String,
    claim: Claim,
}

/// The scheduler; it runs until this is dropped.
pub struct Vcpus {
    // Dropped first: the kernel's own scheduler takes over.
    scheduler: Option<Link>,
    _intruders: Option<Link>,
    notes: Vec<String>,
    rings: Rings,
    mapped: Mapped,
    object: Arc<Object>,
    cpus: Vec<u32>,
    options: Options,
    book: Vec<Entry>,
    groups: Groups,
    /// Settings of the kernel while it is installed. Dropped last.
    changes: Option<Changes>,
}

impl Vcpus {
    /// Checks that the scheduler still runs.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn check(&self) -> Result<(), LinuxError> {
        bpf::check_ended(&self.object)
    }

    /// Creates a VCPU and returns its number.
    ///
    /// # Errors
    /// The VCPU does not fit (the message has the numbers), or its times are wrong. Nothing has
    /// changed then.
    pub fn create(&mut self, wanted: &Wanted) -> Result<u32, LinuxError> {
        check_name(&wanted.name).map_err(LinuxError::Input)?;
        if self.book.iter().any(|e| e.name == wanted.name) {
            return Err(LinuxError::Input(format!(
                "there is a VCPU `{}` already; choose another name",
                wanted.name
            )));
        }
        let first = self.cpus.len() as u32;
        let id = (first..MAX_VCPUS)
            .find(|id| !self.book.iter().any(|e| e.claim.id == *id) && self.info(*id).is_none());
        let Some(id) = id else {
            return Err(LinuxError::Machine(format!(
                "all {} VCPUs are in use; destroy one",
                MAX_VCPUS - first
            )));
        };
        let claim = Claim { id, capacity_ns: wanted.capacity_ns, period_ns: wanted.period_ns };
        let core = self.admit(claim, wanted.core)?;
        let request = Request {
            capacity_ns: claim.capacity_ns,
            period_ns: claim.period_ns,
            colours: wanted.colours,
            id,
            cpu: core,
            flags: u32::from(wanted.fixed),
            server: u32::from(self.options.scheduling.strict),
            limit: self.options.scheduling.replenishments,
            ..shared::nothing()
        };
        self.ask("vcpu_create", &request)?;
        self.book.push(Entry { name: wanted.name.clone(), claim });
        Ok(id)
    }

    /// The core for a claim: the requested one, or the core with the least utilisation that admits
    /// it.
    fn admit(&self, claim: Claim, core: Option<u32>) -> Result<u32, LinuxError> {
        let fits = |core: u32| {
            admission::admit(
                core,
                &self.claims(core, claim.id),
                claim,
                self.options.scheduling.overhead_ns,
            )
        };
        if let Some(core) = core {
            if !self.cpus.contains(&core) {
                return Err(LinuxError::Input(format!(
                    "there is no core {core} online; there are {}",
                    machine::cpu_list(&self.cpus)
                )));
            }
            return fits(core).map(|()| core);
        }
        let load = |core: u32| -> f64 {
            self.claims(core, claim.id)
                .iter()
                .map(|c| c.capacity_ns as f64 / c.period_ns as f64)
                .sum()
        };
        let mut cores = self.cpus.clone();
        cores.sort_by(|&a, &b| load(a).total_cmp(&load(b)));
        let mut refused = None;
        for core in cores {
            match fits(core) {
                Ok(()) => return Ok(core),
                Err(e) => refused = refused.or(Some(e)),
            }
        }
        Err(refused.map_or_else(
            || bpf::inside("there is no CPU"),
            |e| LinuxError::Input(format!("no core has room; on the core with the most room: {e}")),
        ))
    }

    /// Claims on a core, except the claim of one VCPU. One that goes to a core has claims on both.
    fn claims(&self, core: u32, without: u32) -> Vec<Claim> {
        let on = |info: vcpu_info| info.core == core || info.to == core;
        let there = |e: &&Entry| e.claim.id != without && self.info(e.claim.id).is_some_and(on);
        self.book.iter().filter(there).map(|e| e.claim).collect()
    }

    fn core_of(&self, id: u32) -> Option<u32> {
        self.info(id).map(|info| info.core)
    }

    fn info(&self, id: u32) -> Option<vcpu_info> {
        threads::info(&self.object, id)
    }

    /// The number of the VCPU of this name or number; best-effort VCPUs and those of solocore's own
    /// are not found.
    ///
    /// # Errors
    /// There is no such VCPU.
    pub fn find(&self, name: &str) -> Result<u32, LinuxError> {
        let named = self.book.iter().find(|e| e.name == name || name.parse() == Ok(e.claim.id));
        match named {
            Some(e) if e.name == MONITOR => Err(LinuxError::Input(format!(
                "`{MONITOR}` belongs to solocore's monitor of the memory and stays; name another \
                VCPU"
            ))),
            Some(e) if e.name == MIGRATION && self.options.scheduling.migration.is_some() => {
                Err(LinuxError::Input(format!(
                    "`{MIGRATION}` belongs to solocore, which moves pages in it, and stays; name another \
                VCPU"
                )))
            }
            Some(e) if e.claim.id >= self.cpus.len() as u32 => Ok(e.claim.id),
            Some(e) => Err(LinuxError::Input(format!(
                "`{}` is best effort and stays; name another VCPU",
                e.name
            ))),
            None => Err(LinuxError::Input(format!(
                "there is no VCPU `{name}`; `solocore vcpu list` shows them"
            ))),
        }
    }

    /// Moves a VCPU with its budget to a core, if it fits there.
    ///
    /// # Errors
    /// The VCPU does not fit, or it is moving already. Nothing has changed then.
    pub fn move_to(&mut self, id: u32, core: u32) -> Result<(), LinuxError> {
        let claim = self.book.iter().find(|e| e.claim.id == id).map(|e| e.claim);
        let claim = claim.ok_or_else(|| LinuxError::Input(format!("there is no VCPU {id}")))?;
        if self.core_of(id) == Some(core) {
            return Ok(());
        }
        self.admit(claim, Some(core))?;
        self.ask("vcpu_move", &Request { id, cpu: core, ..shared::nothing() })
    }

    /// Destroys a VCPU; its threads become best effort.
    ///
    /// # Errors
    /// The VCPU is moving at the moment.
    pub fn destroy(&mut self, id: u32) -> Result<(), LinuxError> {
        self.ask("vcpu_move", &Request { id, cpu: SC_NONE, ..shared::nothing() })?;
        self.book.retain(|e| e.claim.id != id);
        self.groups.forget(id);
        Ok(())
    }

    /// Binds a thread and its later children to a VCPU (`None`: to best effort). The thread's
    /// affinity has its VCPU's core. A thread of this process is bound for its children only: it
    /// runs before every VCPU itself.
    ///
    /// # Errors
    /// There is no such thread, or the kernel does not let it be bound.
    pub fn bind_thread(&self, tid: u32, id: Option<u32>) -> Result<(), LinuxError> {
        self.put_in(tid, id, 0)
    }

    /// Has a VCPU hold a thread of this process to its budget, as it holds the threads of others.
    ///
    /// # Errors
    /// As [`Self::bind_thread`].
    pub fn hold_thread(&self, tid: u32, id: u32) -> Result<(), LinuxError> {
        self.put_in(tid, Some(id), contract::VCPU_HELD)
    }

    fn put_in(&self, tid: u32, id: Option<u32>, mark: u32) -> Result<(), LinuxError> {
        threads::put_in(&self.object, tid, id, mark)
    }

    /// Binds all threads of a process, as [`Self::bind_thread`] does.
    ///
    /// # Errors
    /// As [`Self::bind_thread`], or the process is this one. Then no thread is bound.
    pub fn bind_process(&self, pid: u32, id: Option<u32>) -> Result<(), LinuxError> {
        check_process(pid)?;
        each_thread(pid, |thread| self.bind_thread(thread.tid, id))
    }

    /// Binds all threads of a control group, and later those that are new in it, as
    /// [`Self::bind_thread`] does. Returns the group's path, and the number of its threads.
    ///
    /// # Errors
    /// There is no such group, it has this process, or a thread of it is refused.
    pub fn bind_group(
        &mut self,
        group: &Group,
        id: Option<u32>,
    ) -> Result<(String, usize), LinuxError> {
        let mut groups = std::mem::take(&mut self.groups);
        let bound = groups.add(group, id, &|tid, id| self.bind_thread(tid, id));
        self.groups = groups;
        bound
    }

    /// Binds the threads that are new in control groups.
    pub fn look_at_groups(&mut self) {
        let mut groups = std::mem::take(&mut self.groups);
        groups.look(&|tid, id| self.bind_thread(tid, id));
        self.groups = groups;
    }

    /// Every VCPU.
    pub fn list(&self) -> Vec<RunVcpu> {
        self.book.iter().map(|e| self.state_of(e)).collect()
    }

    fn state_of(&self, e: &Entry) -> RunVcpu {
        let info = self.info(e.claim.id);
        let core = info.map_or(0, |i| i.core);
        let vcpu = offset_of!(vcpu_cpu, core.vcpu) + e.claim.id as usize * size_of::<sc_vcpu>();
        let at = core as usize * size_of::<vcpu_cpu>() + vcpu;
        let state = match self.mapped.word(at + offset_of!(sc_vcpu, state)) {
            contract::SC_VCPU_BLOCKED => "blocked",
            contract::SC_VCPU_FOREGROUND => "foreground",
            contract::SC_VCPU_BACKGROUND => "background",
            _ => "moving",
        };
        RunVcpu {
            id: e.claim.id,
            name: e.name.clone(),
            core,
            capacity_ns: e.claim.capacity_ns,
            period_ns: e.claim.period_ns,
            state: state.to_owned(),
            foreground_ns: self.mapped.double_word(at + offset_of!(sc_vcpu, foreground_ns)),
            background_ns: self.mapped.double_word(at + offset_of!(sc_vcpu, background_ns)),
            moves: info.map_or(0, |i| i.moves),
            longest_move_ns: info.map_or(0, |i| i.move_ns),
            requests_per_ms: (self.options.scheduling.background == Background::LeastMemory)
                .then(|| info.map_or(0, |i| i.intensity)),
            groups: self.groups.of(e.claim.id),
        }
    }

    /// Counts of each CPU.
    pub fn counts(&self) -> Vec<RunVcpuCpu> {
        let of = |&cpu: &u32| {
            let word =
                |at: usize| self.mapped.double_word(cpu as usize * size_of::<vcpu_cpu>() + at);
            RunVcpuCpu {
                cpu,
                switches: word(offset_of!(vcpu_cpu, switches)),
                late: word(offset_of!(vcpu_cpu, late)),
                late_ns: word(offset_of!(vcpu_cpu, late_ns)),
                longest_late_ns: word(offset_of!(vcpu_cpu, most_late_ns)),
                strays: word(offset_of!(vcpu_cpu, strays)),
                moves: word(offset_of!(vcpu_cpu, moves)),
                background_ns: word(offset_of!(vcpu_cpu, core.background_ns)),
                errors: word(offset_of!(vcpu_cpu, errors)),
                intrusions: word(offset_of!(vcpu_cpu, intrusions)),
                intruder_ns: word(offset_of!(vcpu_cpu, intruder_ns)),
            }
        };
        self.cpus.iter().map(of).collect()
    }

    /// Real-time threads that ran beside the VCPUs, the one with the most time first.
    pub fn intruders(&self) -> Vec<RunVcpuIntruder> {
        let mut all: Vec<RunVcpuIntruder> =
            intruders::all(&self.object).iter().map(intruder).collect();
        all.sort_by_key(|i| (std::cmp::Reverse(i.seen.ran_ns), i.seen.thread));
        all
    }

    /// Notes for the user on this machine.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The events since the last call, if they are recorded, and the number of lost ones.
    pub fn events(&self) -> (Vec<Event>, u64) {
        self.rings.take()
    }

    /// The options at the start of the scheduler.
    pub fn options(&self) -> &Options {
        &self.options
    }

    fn ask(&self, program: &str, request: &Request) -> Result<(), LinuxError> {
        // Balancing may hold the book for a moment.
        for _ in 0..100 {
            if self.call(program, request)? != 0 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(LinuxError::Machine(format!(
            "VCPU {} or another one is on its way between cores; try again",
            request.id
        )))
    }

    fn call(&self, program: &str, request: &Request) -> Result<u32, LinuxError> {
        run(&self.object, program, request)
    }

    /// Description of a VCPU from the book, for messages.
    pub fn describe(&self, id: u32) -> String {
        let found = self.book.iter().find(|e| e.claim.id == id);
        found.map_or_else(
            || format!("VCPU {id}"),
            |e| {
                format!("{} ({} in {})", e.name, time(e.claim.capacity_ns), time(e.claim.period_ns))
            },
        )
    }
}

/// Runs a program of type syscall and returns its result; 0: the program refuses.
fn run(object: &Object, program: &str, request: &Request) -> Result<u32, LinuxError> {
    answer(object, program, request).map(|answer| answer.done)
}

/// Runs a program as [`run`] does, and returns its whole answer.
fn answer(object: &Object, program: &str, request: &Request) -> Result<Request, LinuxError> {
    let found = object.progs_mut().find(|p| p.name() == program);
    let program = found.ok_or_else(|| bpf::inside(&format!("there is no program `{program}`")))?;
    let mut answer = *request;
    let input = ProgramInput { context_in: Some(answer.as_mut_bytes()), ..ProgramInput::default() };
    program
        .test_run(input)
        .map_err(|e| bpf::inside(&format!("the kernel does not run a request: {e}")))?;
    Ok(answer)
}

#[cfg(test)]
mod tests;
