//! Loads the programs of the engines, writes their settings, and binds them to the counters. Both
//! engines share this.
//!
//! All or nothing: after a failure, everything that was opened is closed again, and the kernel is
//! as before. Only the program at changes of tasks may be refused (hook.rs). The kernel takes the
//! events from a CPU that goes offline, and does not give them back: they are opened again
//! ([`Attached::rearm`]).

use super::asked;
use super::bpf::{inside, load_object, map};
use super::dynamic::DynamicRegulation;
use super::hook;
use super::lock::{self, LockRegulation};
use super::paced::{Paced, no_event};
use super::regulation::{CoreBudget, Regulation};
use super::shared::{self, Counts, Settings};
use crate::contract::{self, run_core};
use crate::error::LinuxError;
use crate::sys::{self, PerfAttr, Whom, seqpacket};
use libbpf_rs::{Link, Object, OpenObject};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

const PERF_SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
/// Longer than the coarsest step of a kernel's clock, a jiffy of 10 ms.
const STANDS: Duration = Duration::from_millis(12);

/// Opens an object of an engine, applies `change`, and loads it.
fn load(
    bytes: &[u8],
    settings: &Settings,
    change: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, LinuxError> {
    load_object(bytes, |open| {
        for mut map in open.maps_mut() {
            if map.name().to_string_lossy().ends_with(".rodata") {
                let place = map
                    .initial_value_mut()
                    .and_then(|value| value.get_mut(..size_of::<Settings>()));
                if let Some(place) = place {
                    place.copy_from_slice(settings.as_bytes());
                }
            }
            if map.name() == "history" {
                map.set_max_entries(settings.cpus.max(1))?;
            }
        }
        change(open)
    })
}

/// The kernel's `prio` of a task is below this if it is real-time: 99 less its priority.
pub(crate) const NOT_REAL_TIME: i32 = 100;

/// What was loaded for a regulation.
pub(crate) struct Loaded {
    pub object: Object,
    /// The program at changes of tasks is there.
    pub hook: bool,
    /// If the kernel refused that program: the function that is missing, for the user.
    pub note: Option<String>,
}

/// As [`load`], for plain regulation, dynamic budgets or the bandwidth lock. The program at changes
/// of tasks is for the first and the last of them, and only there if the kernel takes it.
pub(crate) fn load_for(
    bytes: &[u8],
    settings: &Settings,
    lock: Option<&LockRegulation>,
    dynamic: Option<&DynamicRegulation>,
) -> Result<Loaded, LinuxError> {
    let with = |hook: bool| {
        load(bytes, settings, |open| {
            for mut map in open.maps_mut() {
                if map.name() == ".rodata.lock" {
                    map.set_initial_value(lock::settings(lock, dynamic).as_bytes())?;
                }
            }
            for mut map in open.maps_mut().filter(|m| m.name() == "dynamic_cores") {
                map.set_max_entries(dynamic.map_or(1, |d| d.cpus))?;
            }
            for mut program in open.progs_mut() {
                if program.name() == hook::AT_SWITCHES {
                    program.set_autoload(hook);
                }
                if hook::AFTER_COUNTERS.iter().any(|name| program.name() == *name) {
                    program.set_autoload(settings.puts_off != 0);
                }
            }
            Ok(())
        })
    };
    if dynamic.is_some() {
        return Ok(Loaded { object: with(false)?, hook: false, note: None });
    }
    match with(true) {
        Ok(object) => Ok(Loaded { object, hook: true, note: None }),
        Err(e) => {
            let note = Some(hook::without(lock.is_some(), &e));
            Ok(Loaded { object: with(false)?, hook: false, note })
        }
    }
}

/// Writes the loader's part of every CPU.
pub(crate) fn fill_cores(object: &Object, regulation: &Regulation) -> Result<(), LinuxError> {
    let cores = map(object, "cores")?;
    for core in &regulation.cores {
        let value = shared::core(
            (core.budget, core.sample, core.tolerance),
            regulation.flags(core.cpu),
            core.writes.map(|w| (w.write_budget, w.write_sample)),
        );
        contract::put(&cores, core.cpu, &value)
            .map_err(|e| inside(&format!("the budget of CPU {} cannot be set: {e}", core.cpu)))?;
    }
    Ok(())
}

/// The counts of every regulated CPU.
pub(crate) fn counts(object: &Object, cpus: &[u32]) -> Result<Vec<(u32, Counts)>, LinuxError> {
    let cores = map(object, "cores")?;
    let of = |&cpu: &u32| match contract::look_up(&cores, cpu) {
        Ok(Some(core)) => Ok((cpu, Counts::of(&core))),
        Ok(None) => Err(inside(&format!("CPU {cpu} has no counts"))),
        Err(e) => Err(inside(&format!("the counts of CPU {cpu} cannot be read: {e}"))),
    };
    cpus.iter().map(of).collect()
}

/// A program that is called at each overflow of an event of a CPU, until this is dropped.
pub(crate) struct CpuLink {
    cpu: u32,
    link: Option<Link>,
}

impl Drop for CpuLink {
    fn drop(&mut self) {
        let link = self.link.take();
        sys::on_cpu(self.cpu, || drop(link));
    }
}

/// Opens an event on a CPU, and attaches a program to its overflows. `share` sees the event before
/// that.
fn bind(
    object: &Object,
    (program, what): (&str, &str),
    cpu: u32,
    attr: &PerfAttr,
    share: impl FnOnce(&OwnedFd) -> Result<(), LinuxError>,
) -> Result<CpuLink, LinuxError> {
    let found = object.progs_mut().find(|p| p.name() == program);
    let program = found.ok_or_else(|| inside(&format!("there is no program `{program}`")))?;
    let link = sys::on_cpu(cpu, || {
        let event = sys::perf_open(attr, Whom::Cpu(cpu)).map_err(|e| no_event(what, cpu, &e))?;
        share(&event)?;
        // The link closes the event when it goes.
        program.attach_perf_event(event.into_raw_fd()).map_err(|e| {
            LinuxError::Machine(format!(
                "the kernel does not call a BPF program for {what}: {e}; choose another --event"
            ))
        })
    })?;
    Ok(CpuLink { cpu, link: Some(link) })
}

/// Links to the events that call the programs.
#[derive(Default)]
pub(crate) struct Attached {
    /// By CPU: its counters, then its tick.
    links: BTreeMap<u32, Vec<CpuLink>>,
    /// The links at the change of tasks, and after the programs of the counters.
    _hooks: Vec<CpuLink>,
    /// If the kernel refused the link at the change of tasks: the function that is missing, for the
    /// user.
    pub note: Option<String>,
    /// Counters of accesses in hardware.
    pub counters: Vec<Paced>,
    /// Counters of accesses of any kind.
    sampled: Vec<Paced>,
    write_counters: Vec<Paced>,
    pub ticks: Vec<Paced>,
}

/// Signs of life of a CPU's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The timer stands still: the kernel has taken the event from the CPU, or an attempt to open
    /// the CPU's events again has failed.
    pub stands: bool,
    /// Times that a counter could not be read as a period ended.
    pub unread: u64,
    /// The kernel has put a counter in error.
    pub error: bool,
    /// The CPU is stopped, because its budget is used up.
    pub stopped: bool,
}

impl Attached {
    /// Signs of life of the events of these CPUs. One wait serves all of them: a machine with many
    /// CPUs that slept has its timers again as soon as one with few.
    pub fn pulses(&self, object: &Object, cpus: &[u32]) -> BTreeMap<u32, Pulse> {
        let standing = standing(self.ticks.iter().filter(|tick| cpus.contains(&tick.cpu)));
        let failed = |e: &io::Error| e.kind() == io::ErrorKind::UnexpectedEof;
        let pulse = |&cpu: &u32| {
            let state = core(object, cpu);
            let pulse = Pulse {
                stands: standing.contains(&cpu) || !self.links.contains_key(&cpu),
                unread: state.as_ref().map_or(0, |core| core.unread),
                stopped: state.as_ref().is_some_and(|c| c.started != 0 && c.guard.throttled != 0),
                error: [&self.counters, &self.write_counters]
                    .into_iter()
                    .flatten()
                    .filter(|counter| counter.cpu == cpu)
                    .any(|counter| counter.count().is_err_and(|e| failed(&e))),
            };
            (cpu, pulse)
        };
        cpus.iter().map(pulse).collect()
    }

    /// Opens the events of a CPU again. Its counts go on, and it begins as at its first tick.
    pub fn rearm(
        &mut self,
        object: &Object,
        regulation: &Regulation,
        cpu: u32,
    ) -> Result<(), LinuxError> {
        let Some(core) = regulation.cores.iter().find(|core| core.cpu == cpu) else {
            return Ok(());
        };
        // From here on, no program of the CPU's events changes its state.
        self.links.remove(&cpu);
        begin_again(object, cpu)?;
        let renew = |events: &[Paced]| {
            let event = events.iter().find(|e| e.cpu == cpu).cloned();
            move |opened: &OwnedFd| event.map_or(Ok(()), |event| event.renew(opened))
        };
        let mut links = vec![open_counter(object, regulation, core, renew(&self.sampled))?];
        let writes = renew(&self.write_counters);
        links.extend(open_write_counter(object, regulation, core, writes)?);
        links.push(open_tick(object, regulation, cpu, renew(&self.ticks))?);
        self.links.insert(cpu, links);
        Ok(())
    }

    /// Gives the counter of a CPU another sample. At no time an overflow reports more than one
    /// sample of the counter, so the CPU is not stopped before its budget. The thread goes to that
    /// CPU, so that no program there makes accesses between the two changes. One that preempts the
    /// thread just then can exceed its budget; the count of its period says so.
    pub fn resample(&self, object: &Object, cpu: u32, sample: u64) -> Result<(), LinuxError> {
        let Some(counter) = self.sampled.iter().find(|c| c.cpu == cpu) else { return Ok(()) };
        let smaller = sample < counter.own();
        let report = || asked::report(object, cpu, sample);
        let pace = || {
            counter.take(sample).map_err(|e| {
                inside(&format!("the counter of CPU {cpu} takes no sample of {sample}: {e}"))
            })
        };
        sys::on_cpu(cpu, || {
            if smaller { report().and_then(|()| pace()) } else { pace().and_then(|()| report()) }
        })
    }
}

/// The CPUs of these events whose counts do not change for [`STANDS`]. The count of a timer is its
/// CPU's time.
fn standing<'p>(events: impl Iterator<Item = &'p Paced>) -> BTreeSet<u32> {
    let first = |event: &'p Paced| Some((event, event.count().ok()?));
    let mut still: Vec<(&Paced, u64)> = events.filter_map(first).collect();
    let since = Instant::now();
    loop {
        still.retain(|(event, first)| event.count().is_ok_and(|count| count == *first));
        if still.is_empty() || since.elapsed() >= STANDS {
            return still.into_iter().map(|(event, _)| event.cpu).collect();
        }
        std::thread::sleep(STANDS / 8);
    }
}

/// The state of a CPU.
fn core(object: &Object, cpu: u32) -> Option<run_core> {
    contract::look_up(&map(object, "cores").ok()?, cpu).ok()?
}

/// Makes the next tick of a CPU its first one. The program at changes of tasks goes on meanwhile,
/// and this may undo its latest change: until the next one, accesses count as those of programs.
fn begin_again(object: &Object, cpu: u32) -> Result<(), LinuxError> {
    let fail = || inside(&format!("CPU {cpu} cannot begin again"));
    let before = core(object, cpu).ok_or_else(fail)?;
    let runs = before.runs.min(u64::from(contract::RUNS_LIMITED));
    let state = run_core { started: 0, runs, ..before };
    contract::put(&map(object, "cores")?, cpu, &state).map_err(|_| fail())
}

/// Opens counters and ticks on every regulated CPU, and starts the programs on them. `hook`: also
/// at each change of tasks.
pub(crate) fn attach(
    object: &Object,
    regulation: &Regulation,
    hook: bool,
) -> Result<Attached, LinuxError> {
    if let Some(dynamic) = &regulation.dynamic {
        dynamic.fill(&map(object, "dynamic_tasks")?)?;
    }
    let first = regulation.cores.first().map_or(0, |c| c.cpu);
    let mut hooks = Vec::new();
    if catches_up(object) {
        for name in hook::AFTER_COUNTERS {
            hooks.push(CpuLink { cpu: first, link: Some(hook::attach(object, name)?) });
        }
    }
    let (mut links, mut counters, mut sampled) = (BTreeMap::new(), Vec::new(), Vec::new());
    for core in &regulation.cores {
        let keep = |counter: &OwnedFd| {
            let paced = Paced::of(core.cpu, counter, core.sample)?;
            // Interrupts of software events cost nothing, and the kernel reloads them once more
            // with the last period before it takes the new one.
            if !regulation.event.is_software() {
                counters.push(paced.clone());
            }
            sampled.push(paced);
            Ok(())
        };
        links.insert(core.cpu, vec![open_counter(object, regulation, core, keep)?]);
    }
    let mut write_counters = Vec::new();
    for core in &regulation.cores {
        let keep = |counter: &OwnedFd| {
            if regulation.write_event.as_ref().is_some_and(|event| !event.is_software()) {
                let sample = core.writes.map_or(0, |w| w.write_sample);
                write_counters.push(Paced::of(core.cpu, counter, sample)?);
            }
            Ok(())
        };
        let link = open_write_counter(object, regulation, core, keep)?;
        links.entry(core.cpu).or_default().extend(link);
    }
    let attached = hook.then(|| hook::attach(object, hook::AT_SWITCHES));
    let (link, note) = hook::or_without(attached, regulation.lock.is_some());
    hooks.extend(link.map(|link| CpuLink { cpu: first, link: Some(link) }));
    let mut ticks = Vec::new();
    // Last: a CPU is regulated from its first tick on.
    for core in &regulation.cores {
        let keep = |event: &OwnedFd| {
            ticks.push(Paced::of(core.cpu, event, regulation.period_ns)?);
            Ok(())
        };
        let tick = open_tick(object, regulation, core.cpu, keep)?;
        links.entry(core.cpu).or_default().push(tick);
    }
    Ok(Attached { links, _hooks: hooks, note, counters, sampled, write_counters, ticks })
}

/// Whether programs are loaded that do what those of the counters put off.
fn catches_up(object: &Object) -> bool {
    object.progs().any(|p| p.name() == hook::AFTER_COUNTERS[0] && p.autoload())
}

/// Shares a counter with the programs of its CPU.
fn share_counter(
    object: &Object,
    name: &str,
    cpu: u32,
    counter: &OwnedFd,
) -> Result<(), LinuxError> {
    if catches_up(object) {
        seqpacket::raise_interrupts(counter)
            .map_err(|e| inside(&format!("the counter of CPU {cpu} raises no interrupt: {e}")))?;
    }
    contract::put(&map(object, name)?, cpu, &counter.as_raw_fd())
        .map_err(|e| inside(&format!("a counter of CPU {cpu} cannot be shared: {e}")))
}

/// Opens the counter of a CPU. `keep` sees it before any program is called.
fn open_counter(
    object: &Object,
    regulation: &Regulation,
    core: &CoreBudget,
    keep: impl FnOnce(&OwnedFd) -> Result<(), LinuxError>,
) -> Result<CpuLink, LinuxError> {
    let event = &regulation.event;
    let share = |counter: &OwnedFd| {
        keep(counter)?;
        share_counter(object, "counters", core.cpu, counter)
    };
    let attributes = event.attributes(core.cpu, core.sample);
    bind(object, ("overflow", event.name()), core.cpu, &attributes, share)
}

/// Opens the counter of a CPU's writes, where they are counted apart. `keep` sees it before any
/// program is called.
fn open_write_counter(
    object: &Object,
    regulation: &Regulation,
    core: &CoreBudget,
    keep: impl FnOnce(&OwnedFd) -> Result<(), LinuxError>,
) -> Result<Option<CpuLink>, LinuxError> {
    let (Some(event), Some(writes)) = (&regulation.write_event, core.writes) else {
        return Ok(None);
    };
    let cpu = core.cpu;
    let share = |counter: &OwnedFd| {
        keep(counter)?;
        share_counter(object, "write_counters", cpu, counter)
    };
    let attributes = event.attributes(cpu, writes.write_sample);
    bind(object, ("write_overflow", event.name()), cpu, &attributes, share).map(Some)
}

/// Opens the timer of a CPU. `keep` sees it before the program is called.
fn open_tick(
    object: &Object,
    regulation: &Regulation,
    cpu: u32,
    keep: impl FnOnce(&OwnedFd) -> Result<(), LinuxError>,
) -> Result<CpuLink, LinuxError> {
    let tick = PerfAttr {
        kind: PERF_SOFTWARE,
        config: CPU_CLOCK,
        sample_period: regulation.period_ns,
        flags: sys::PERF_DISABLED,
        ..PerfAttr::default()
    };
    bind(object, ("tick", "the cpu-clock timer"), cpu, &tick, keep)
}
