//! Loads the programs of the engines, writes their settings, and binds them to the counters. Both
//! engines share this.
//!
//! All or nothing: after a failure, everything that was opened is closed again, and the kernel is
//! as before.

use super::bpf::{inside, load_object, map};
use super::dynamic::DynamicRegulation;
use super::lock::{self, LockRegulation};
use super::regulation::Regulation;
use super::shared::{self, Counts, Settings};
use crate::contract;
use crate::error::LinuxError;
use crate::sys::{self, PerfAttr, Whom};
use libbpf_rs::{Link, Object, OpenObject};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use zerocopy::IntoBytes;

const PERF_SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;

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

/// As [`load`], for plain regulation or the bandwidth lock; with the parts of the latter that the
/// kernel refuses, for the user.
pub(crate) fn load_for(
    bytes: &[u8],
    settings: &Settings,
    lock: Option<&LockRegulation>,
    dynamic: Option<&DynamicRegulation>,
) -> Result<(Object, Option<String>), LinuxError> {
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
            for mut program in open.progs_mut().filter(|p| p.name() == "switched") {
                program.set_autoload(hook);
            }
            Ok(())
        })
    };
    match with(lock.is_some()) {
        Err(e) if lock.is_some() => Ok((
            with(false)?,
            Some(format!(
                "who holds the bandwidth lock is known as of the last look only, not of the last \
                    change of tasks: {e}"
            )),
        )),
        loaded => Ok((loaded?, None)),
    }
}

/// Writes the loader's part of every CPU.
pub(crate) fn fill_cores(object: &Object, regulation: &Regulation) -> Result<(), LinuxError> {
    let cores = map(object, "cores")?;
    for core in &regulation.cores {
        let value = shared::core(
            (core.budget, core.sample, core.tolerance),
            regulation.flags(),
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

fn no_event(what: &str, cpu: u32, error: &io::Error) -> LinuxError {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "run as root, or with CAP_PERFMON",
        Some(libc::EBUSY) => "another program has pinned the counter: stop it (perf, nmi_watchdog)",
        Some(libc::ENODEV | libc::ENXIO) => "is the CPU online?",
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)",
        _ => "choose another --event; `solocore doctor` lists those that count here",
    };
    LinuxError::Machine(format!("CPU {cpu}: {what} cannot be opened: {error}; {remedy}"))
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

/// An event of a CPU whose period can be changed.
pub(crate) struct Paced {
    pub cpu: u32,
    pub event: OwnedFd,
    /// Its period when it was opened.
    pub period: u64,
}

impl Paced {
    fn of(cpu: u32, event: &OwnedFd, period: u64) -> Result<Self, LinuxError> {
        let event = event.try_clone().map_err(|e| no_event("an event", cpu, &e))?;
        Ok(Self { cpu, event, period })
    }
}

/// Links to the events that call the programs.
pub(crate) struct Attached {
    pub _links: Vec<CpuLink>,
    pub counters: Vec<Paced>,
    pub ticks: Vec<Paced>,
}

/// Opens counters and ticks on every regulated CPU, and starts the programs on them. `hook`: also
/// at each change of tasks.
pub(crate) fn attach(
    object: &Object,
    regulation: &Regulation,
    hook: bool,
) -> Result<Attached, LinuxError> {
    let event = &regulation.event;
    if let Some(dynamic) = &regulation.dynamic {
        dynamic.fill(&map(object, "dynamic_tasks")?)?;
    }
    let by_cpu = map(object, "counters")?;
    let (mut links, mut counters) = (Vec::new(), Vec::new());
    for core in &regulation.cores {
        let share = |counter: &OwnedFd| {
            // Interrupts of software events cost nothing, and the kernel reloads them with the last
            // period, not the new one.
            if !event.is_software() {
                counters.push(Paced::of(core.cpu, counter, core.sample)?);
            }
            contract::put(&by_cpu, core.cpu, &counter.as_raw_fd()).map_err(|e| {
                inside(&format!("the counter of CPU {} cannot be shared: {e}", core.cpu))
            })
        };
        links.push(bind(
            object,
            ("overflow", event.name()),
            core.cpu,
            &event.attributes(core.cpu, core.sample),
            share,
        )?);
    }
    links.extend(attach_writes(object, regulation)?);
    let tick = PerfAttr {
        kind: PERF_SOFTWARE,
        config: CPU_CLOCK,
        sample_period: regulation.period_ns,
        flags: sys::PERF_DISABLED,
        ..PerfAttr::default()
    };
    if hook {
        let found = object.progs_mut().find(|p| p.name() == "switched");
        let program = found.ok_or_else(|| inside("there is no program `switched`"))?;
        let link = program.attach().map_err(|e| {
            LinuxError::Machine(format!(
                "the kernel does not call a BPF program at the change of \
                tasks: {e}; `solocore doctor` says what this kernel can do"
            ))
        })?;
        links
            .push(CpuLink { cpu: regulation.cores.first().map_or(0, |c| c.cpu), link: Some(link) });
    }
    let mut ticks = Vec::new();
    // Last: a CPU is regulated from its first tick on.
    for core in &regulation.cores {
        let keep = |event: &OwnedFd| {
            ticks.push(Paced::of(core.cpu, event, regulation.period_ns)?);
            Ok(())
        };
        links.push(bind(object, ("tick", "the cpu-clock timer"), core.cpu, &tick, keep)?);
    }
    Ok(Attached { _links: links, counters, ticks })
}

/// Opens the counters of writes, where they are counted apart.
fn attach_writes(object: &Object, regulation: &Regulation) -> Result<Vec<CpuLink>, LinuxError> {
    let Some(event) = &regulation.write_event else { return Ok(Vec::new()) };
    let by_cpu = map(object, "write_counters")?;
    let mut links = Vec::new();
    for (cpu, writes) in regulation.cores.iter().filter_map(|c| Some((c.cpu, c.writes?))) {
        let share = |counter: &OwnedFd| {
            contract::put(&by_cpu, cpu, &counter.as_raw_fd()).map_err(|e| {
                inside(&format!("the counter of writes of CPU {cpu} cannot be shared: {e}"))
            })
        };
        links.push(bind(
            object,
            ("write_overflow", event.name()),
            cpu,
            &event.attributes(cpu, writes.write_sample),
            share,
        )?);
    }
    Ok(links)
}
