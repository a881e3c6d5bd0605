//! Loads the scheduler of VCPUs, and installs it any number of times.
//!
//! Rule: everything is checked before anything changes. Loading takes the kernel's verifier
//! seconds, installing some milliseconds; a program that has seen the scheduler end may install it
//! again, as a new one that knows nothing of the former.

use super::groups::Groups;
use super::shared::{self, Request};
use super::{Entry, MAX_VCPUS, Options, Vcpus, admission, run};
use crate::contract::{self, vcpu_cpu};
use crate::error::LinuxError;
use crate::host::cgroup;
use crate::host::machine;
use crate::host::server;
use crate::latency::throttling::Rule;
use crate::regulate::bpf;
use crate::schedule::intruders;
use crate::schedule::sched_trace::Rings;
use crate::sys::Mapped;
use admission::Claim;
use libbpf_rs::{MapCore, MapFlags, Object};
use solocore_model::vcpus::Background;
use std::sync::Arc;
use zerocopy::{Immutable, IntoBytes};

/// Kernel functions that `bpf/vcpu.bpf.c` calls beside those of the regulating scheduler.
const KFUNCS: &[(&str, usize)] =
    &[("scx_bpf_dsq_nr_queued", 1), ("bpf_cpumask_test_cpu", 2), ("scx_bpf_error_bstr", 3)];

/// Shortest balance interval, ns: a shorter one would cost more than it gains.
const SHORTEST_BALANCE_NS: u64 = 100_000;

/// Number of a background rule: `SC_BACKGROUND_*`.
fn number(background: Background) -> u32 {
    match background {
        Background::LeastTime => 0,
        Background::Keep => 1,
        Background::LeastMemory => 2,
        Background::None => 3,
    }
}

/// Loads the programs. `timeout_ms`: time that a thread may wait before the kernel unloads the
/// scheduler; `None`: as compiled.
fn load(
    settings: &shared::Settings,
    traced: bool,
    timeout_ms: Option<u32>,
) -> Result<Object, LinuxError> {
    let place = timeout_ms.map(|ms| shared::place_of_timeout().map(|at| (ms, at))).transpose()?;
    bpf::load_object(bpf::VCPU, |open| {
        for mut map in open.maps_mut() {
            match map.name().to_string_lossy().as_ref() {
                "cpus" | "trace_rings" => map.set_max_entries(settings.cpus.max(1))?,
                ".rodata.vcpu" => map.set_initial_value(settings.as_bytes())?,
                ".rodata.trace" => map.set_initial_value(u32::from(traced).as_bytes())?,
                "vcpu_ops" => {
                    let value = map.initial_value_mut();
                    if let (Some((ms, at)), Some(value)) = (place, value)
                        && let Some(bytes) = value.get_mut(at..at + 4)
                    {
                        bytes.copy_from_slice(ms.as_bytes());
                    }
                }
                _ => {}
            }
        }
        let counts = settings.background == number(Background::LeastMemory);
        let counting = open.progs_mut().filter(|p| p.name() == "requested");
        counting.for_each(|mut program| program.set_autoload(counts));
        Ok(())
    })
}

/// Loads a program that the verifier must refuse: the entries of a table are shorter than its first
/// program reads. The refusal comes soon.
pub(super) fn spoilt() -> Result<Object, LinuxError> {
    bpf::load_object(bpf::VCPU, |open| {
        let mut table = open.maps_mut().filter(|m| m.name() == "vcpus");
        table.try_for_each(|mut map| map.set_value_size(8))
    })
}

/// Loads the programs, and unloads them.
pub(crate) fn try_load() -> Result<(), LinuxError> {
    Vcpus::load(Options::default(), None).map(drop)
}

impl Vcpus {
    /// Installs the scheduler, with the best-effort VCPUs only.
    ///
    /// # Errors
    /// This machine lacks something, or an option is wrong. Nothing is left behind then.
    pub fn start(options: Options) -> Result<Self, LinuxError> {
        let mut loaded = Self::load(options, None)?;
        loaded.install()?;
        Ok(loaded)
    }

    /// Loads the programs without installing the scheduler.
    pub(super) fn load(options: Options, timeout_ms: Option<u32>) -> Result<Self, LinuxError> {
        machine::check_sched_ext()?;
        machine::check_kfuncs(KFUNCS)?;
        let cpus = machine::online_cpus()?;
        let count = cpus.last().map_or(1, |last| last + 1);
        if count > MAX_VCPUS / 2 {
            let most = MAX_VCPUS / 2;
            return Err(LinuxError::Machine(format!(
                "{count} CPUs are more than the {most} that VCPUs support; boot with maxcpus={most}"
            )));
        }
        if cpus.len() as u32 != count {
            return Err(LinuxError::Machine(format!(
                "VCPUs need all CPUs from 0 to {} online; set the missing ones online, or boot \
                    with maxcpus={}",
                count - 1,
                cpus.len()
            )));
        }
        let (capacity_ns, period_ns) = options.scheduling.best_effort_ns;
        admission::admit(0, &[], Claim { id: 0, capacity_ns, period_ns }, 0)
            .map_err(|e| LinuxError::Input(format!("the best-effort VCPU: {e}")))?;
        let scheduling = &options.scheduling;
        let settings = shared::Settings {
            slice_ns: options.slice_ns,
            check_ns: options.throttling.map_or(0, |_| options.check_ns.max(1)),
            balance_ns: scheduling.balance_ns.map_or(0, |ns| ns.max(SHORTEST_BALANCE_NS)),
            overhead_ns: scheduling.overhead_ns,
            cpus: count,
            background: number(scheduling.background) % 3,
            allowed: u32::from(scheduling.background != Background::None),
            loader_pid: std::process::id(),
            moves: 1,
            colours: match (&scheduling.core_colours, scheduling.migration) {
                (None, _) => contract::VCPU_COLOURS_NONE,
                (Some(_), None) => contract::VCPU_COLOURS_FREE,
                (Some(_), Some(_)) => contract::VCPU_COLOURS_MOVE,
            },
        };
        let object = load(&settings, options.traced, timeout_ms)?;
        let mapped =
            Mapped::new(&bpf::map(&object, "cpus")?, size_of::<vcpu_cpu>() * count as usize)?;
        let rings = Rings::open(&object, count)?;
        let infos = bpf::map(&object, "vcpus")?;
        for id in 0..MAX_VCPUS {
            put(&infos, id, &shared::absent(0))?;
        }
        let (intruders, notes) = match intruders::watch(&object, "VCPUs") {
            Ok(link) => (Some(link), Vec::new()),
            Err(note) => (None, vec![note]),
        };
        let (scheduler, book) = (None, Vec::new());
        Ok(Self {
            scheduler,
            _intruders: intruders,
            notes,
            rings,
            mapped,
            object: Arc::new(object),
            cpus,
            options,
            book,
            groups: Groups::default(),
            changes: None,
        })
    }

    /// Installs the loaded scheduler, with the best-effort VCPUs only.
    pub(super) fn install(&mut self) -> Result<(), LinuxError> {
        prepare(&self.object, &self.options, &self.cpus)?;
        let (changes, on) = server::without_ext(&self.cpus)?;
        let shares = cgroup::note(
            &[cgroup::LIMIT, cgroup::WEIGHT],
            "the scheduler of VCPUs",
            "`solocore vcpu bind --cgroup` gives a group a VCPU",
        );
        let all = on.into_iter().chain(shares);
        let new: Vec<String> = all.filter(|note| !self.notes.contains(note)).collect();
        self.notes.extend(new);
        // No monitor has it yet, or any more.
        let object = Arc::get_mut(&mut self.object)
            .ok_or_else(|| bpf::inside("a monitor of a former scheduler still runs"))?;
        let scheduler = object
            .maps_mut()
            .find(|m| m.name() == "vcpu_ops")
            .ok_or_else(|| bpf::inside("the BPF object holds no scheduler"))?
            .attach_struct_ops()
            .map_err(|e| {
                LinuxError::Machine(format!(
                    "the kernel refuses the scheduler: {e}; see the kernel's log (dmesg)"
                ))
            })?;
        self.scheduler = Some(scheduler);
        self.changes = Some(changes);
        self.book = self.cpus.iter().map(|&cpu| best_effort(cpu, &self.options)).collect();
        Ok(())
    }

    /// Removes the scheduler, if the kernel has not done so, and forgets its VCPUs;
    /// [`Self::install`] may follow.
    pub(super) fn uninstall(&mut self) -> Result<(), LinuxError> {
        self.scheduler = None;
        self.changes = None;
        let infos = bpf::map(&self.object, "vcpus")?;
        self.book.clear();
        self.groups.clear();
        for id in 0..MAX_VCPUS {
            if let Some(info) = self.info(id) {
                put(&infos, id, &shared::absent(info.generation))?;
            }
        }
        for name in ["cpus", "balances", "throttles", "ended"] {
            let map = bpf::map(&self.object, name)?;
            let nothing = vec![0; map.value_size() as usize];
            for key in 0..map.max_entries() {
                map.update(key.as_bytes(), &nothing, MapFlags::ANY)
                    .map_err(|e| unfilled(&map, &e))?;
            }
        }
        Ok(())
    }
}

fn put(
    map: &libbpf_rs::Map<'_>,
    key: u32,
    value: &(impl IntoBytes + Immutable),
) -> Result<(), LinuxError> {
    contract::put(map, key, value).map_err(|e| unfilled(map, &e))
}

fn unfilled(map: &libbpf_rs::Map<'_>, error: &libbpf_rs::Error) -> LinuxError {
    bpf::inside(&format!("the table {} cannot be filled: {error}", map.name().to_string_lossy()))
}

/// Sets the throttling's rule, the free colours and the best-effort VCPUs, before the scheduler
/// runs.
fn prepare(object: &Object, options: &Options, cpus: &[u32]) -> Result<(), LinuxError> {
    let throttling = options.throttling;
    let begin = Request {
        server: throttling.map_or(0, |t| u32::from(t.rule == Rule::Rate)),
        occupancy: throttling.map_or(0, |t| t.threshold),
        limit: throttling.map_or(0, |t| t.idle_per_mille),
        ..shared::nothing()
    };
    if run(object, "vcpu_begin", &begin)? == 0 {
        let what = "the threshold of the throttling is 0, or it is to end above 1000 thousandths; \
            choose others";
        return Err(LinuxError::Input(what.to_owned()));
    }
    for &cpu in cpus {
        if let Some(colours) = options.scheduling.core_colours.as_ref().map(|c| c.of(cpu)) {
            run(object, "vcpu_report", &Request { cpu, flags: 1, colours, ..shared::nothing() })?;
        }
        let request = Request {
            capacity_ns: options.scheduling.best_effort_ns.0,
            period_ns: options.scheduling.best_effort_ns.1,
            id: cpu,
            cpu,
            flags: 1,
            server: u32::from(options.scheduling.strict),
            limit: options.scheduling.replenishments,
            ..shared::nothing()
        };
        if run(object, "vcpu_create", &request)? == 0 {
            return Err(bpf::inside("a best-effort VCPU is refused"));
        }
    }
    Ok(())
}

fn best_effort(cpu: u32, options: &Options) -> Entry {
    let (capacity_ns, period_ns) = options.scheduling.best_effort_ns;
    Entry { name: format!("best-effort/{cpu}"), claim: Claim { id: cpu, capacity_ns, period_ns } }
}
