//! The sched_ext engine (bpf/sched_ext.bpf.c).

use super::interface::{Engine, Served};
use super::ranker::Ranker;
use super::rate;
use crate::error::LinuxError;
use crate::host::cgroup;
use crate::host::keeper::Changes;
use crate::host::server::{self, Server};
use crate::regulate::asked;
use crate::regulate::attach::{self, Attached, Pulse};
use crate::regulate::bpf;
use crate::regulate::dynamic::{self, RunHardTask};
use crate::regulate::event::Event;
use crate::regulate::handover::Budgets;
use crate::regulate::history::{History, Taken};
use crate::regulate::lock::Serving;
use crate::regulate::regulation::Regulation;
use crate::regulate::shared::{Counts, Settings};
use libbpf_rs::{Link, MapCore, Object};
use std::collections::BTreeMap;

/// Time slice of a task while others wait: that of the kernel's own scheduler.
const SLICE_NS: u64 = 3_000_000;

pub(crate) struct SchedExt {
    // Dropped in this order: first the kernel's scheduler takes over, then no CPU is throttled any
    // more.
    /// None only after the kernel has refused it.
    scheduler: Option<Link>,
    events: Attached,
    history: History,
    object: Object,
    regulation: Regulation,
    cpus: Vec<u32>,
    serving: Option<Serving>,
    notes: Vec<String>,
    /// The kernel's ways to take time from analysed tasks.
    holes: Vec<String>,
    /// Dropped last.
    _changes: Changes,
}

/// Plain MemGuard on a machine with this number of CPUs, none of them regulated.
pub(crate) fn settings(period_ns: u64, cpus: u32) -> Settings {
    let loader_pid = std::process::id();
    Settings {
        period_ns,
        slice_ns: SLICE_NS,
        chunk: 1,
        hold_ns: 0,
        cpus,
        regulated: 1,
        sharing: 0,
        loader_pid,
        exempt_prio: attach::NOT_REAL_TIME.unsigned_abs(),
        puts_off: 0,
    }
}

/// Loads the programs; the scheduler is not installed yet.
pub(crate) fn load(settings: &Settings) -> Result<Object, LinuxError> {
    attach::load_for(bpf::SCHED_EXT, settings, None, None).map(|loaded| loaded.object)
}

/// Makes the scheduler of this object the kernel's.
fn install(object: &mut Object) -> Result<Link, LinuxError> {
    object
        .maps_mut()
        .find(|m| m.name() == "solocore_ops")
        .ok_or_else(|| bpf::inside("the BPF object holds no scheduler"))?
        .attach_struct_ops()
        .map_err(|e| {
            LinuxError::Machine(format!(
                "the kernel refuses the scheduler: {e}; see the kernel's log (dmesg), or use \
                    --engine helper"
            ))
        })
}

/// Whether a hardware counter interrupts all else here. Since Linux 7.3 its program may not kick a
/// CPU, and puts it off to the next ordinary interrupt.
pub(crate) const COUNTERS_INTERRUPT_ALL: bool = cfg!(target_arch = "x86_64");

/// Whether programs of counters put kicks off.
fn puts_off(regulation: &Regulation) -> bool {
    let hardware = |event: &Event| !event.is_software();
    COUNTERS_INTERRUPT_ALL
        && (hardware(&regulation.event) || regulation.write_event.as_ref().is_some_and(hardware))
}

impl SchedExt {
    pub fn start(regulation: &Regulation) -> Result<Self, LinuxError> {
        let settings = Settings {
            chunk: regulation.chunk(),
            sharing: regulation.sharing_number(),
            regulated: u32::try_from(regulation.cores.len()).unwrap_or(0),
            puts_off: u32::from(puts_off(regulation)),
            ..settings(regulation.period_ns, regulation.cpus)
        };
        let lock = regulation.lock;
        let attach::Loaded { mut object, hook, note } = attach::load_for(
            bpf::SCHED_EXT,
            &settings,
            lock.as_ref(),
            regulation.dynamic.as_ref(),
        )?;
        attach::fill_cores(&object, regulation)?;
        let history = History::open(&object, regulation.cpus, &regulation.regulated())?;
        let mut changes = Changes::begin()?;
        let lowers = rate::allow(&mut changes, regulation)?;
        let on = Server::Ext.turn_off(&mut changes, &regulation.regulated());
        let on = on.map(|e| server::takes_time(&e));
        let scheduler = install(&mut object)?;
        let events = attach::attach(&object, regulation, hook)?;
        let shares = cgroup::note(
            &[cgroup::WEIGHT],
            "the sched-ext engine",
            "--engine helper leaves them to the kernel",
        );
        let (cpus, notes) = (
            regulation.regulated(),
            note.iter()
                .cloned()
                .chain(events.note.clone())
                .chain(lowers)
                .chain(on.clone())
                .chain(shares)
                .collect(),
        );
        let serving = regulation.serving();
        Ok(Self {
            scheduler: Some(scheduler),
            events,
            history,
            object,
            regulation: regulation.clone(),
            cpus,
            serving,
            notes,
            // A CPU without the program learns of a holder at its next look only.
            holes: on.into_iter().chain(note.filter(|_| lock.is_some())).collect(),
            _changes: changes,
        })
    }
}

impl Engine for SchedExt {
    fn name(&self) -> &'static str {
        "sched-ext"
    }

    fn counts(&self) -> Result<Vec<(u32, Counts)>, LinuxError> {
        attach::counts(&self.object, &self.cpus)
    }

    fn check(&mut self) -> Result<bool, LinuxError> {
        if !bpf::ended_for_now(&self.object)? {
            return Ok(false);
        }
        // In this order: the kernel has one scheduler at a time.
        self.scheduler = None;
        bpf::forget_end(&self.object)?;
        self.scheduler = Some(install(&mut self.object)?);
        Ok(true)
    }

    fn pulses(&self, cpus: &[u32]) -> BTreeMap<u32, Pulse> {
        self.events.pulses(&self.object, cpus)
    }

    fn rearm(&mut self, cpu: u32) -> Result<(), LinuxError> {
        self.events.rearm(&self.object, &self.regulation, cpu)
    }

    fn ask(&self, budgets: &[(u32, Budgets)]) -> Result<(), LinuxError> {
        asked::ask(&self.object, budgets)
    }

    fn ask_for_jobs(&self, tasks: &[RunHardTask]) -> Result<(), LinuxError> {
        dynamic::others(&bpf::map(&self.object, "dynamic_others")?, tasks)
    }

    fn resample(&self, cpu: u32, sample: u64) -> Result<(), LinuxError> {
        self.events.resample(&self.object, cpu, sample)
    }

    fn expect(&self, cpu: u32, accesses: u64) -> Result<(), LinuxError> {
        asked::report(&self.object, cpu, accesses)
    }

    fn tolerate(&self, tolerances: &[(u32, u64)]) -> Result<(), LinuxError> {
        asked::tolerate(&self.object, tolerances)
    }

    fn in_force(&self, cpu: u32) -> Result<Option<Budgets>, LinuxError> {
        asked::in_force(&self.object, cpu)
    }

    fn periods(&self) -> Vec<Taken> {
        self.history.take()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn holes(&self) -> &[String] {
        &self.holes
    }

    /// Ranks exist only where a throttled CPU stops all tasks alike.
    fn ranks(&self) -> bool {
        self.serving.is_none()
    }

    fn ranker(&self) -> Result<Option<Ranker>, LinuxError> {
        self.ranks().then(|| Ranker::new(&bpf::map(&self.object, "ranks")?)).transpose()
    }

    fn served(&self) -> Option<Served<'_>> {
        Some(Served {
            object: &self.object,
            events: &self.events,
            policy: self.serving.as_ref(),
            priority: 0,
        })
    }
}
