//! The scheduler of levels, which has every CPU until it is dropped.
//!
//! Rule: the programs get all settings before they are attached. The kernel then hands every thread
//! over at once, and takes it back when the link is removed for any reason. Threads of tasks are
//! marked in their task storage; children inherit the mark.

use super::layout::{Layout, Level};
use super::shared::{self, Setup};
use crate::contract::{self, LEVEL_PARENT, level_member, levels_settings};
use crate::error::LinuxError;
use crate::host::cgroup;
use crate::host::keeper::Changes;
use crate::host::machine;
use crate::host::newcomers::each_thread;
use crate::host::server;
use crate::host::threads;
use crate::regulate::bpf::{self, inside};
use crate::schedule::intruders;
use crate::schedule::sched_trace::Rings;
use crate::sys::tasks;
use libbpf_rs::{Link, MapCore, Object, ProgramInput};
use solocore_model::run::{RunLevelCpu, RunLevelIntruder, RunLevelTask};
use solocore_model::sched_trace::{Event, Kind};
use std::os::fd::AsRawFd;
use zerocopy::IntoBytes;

/// Time between the load and the first release, ns; threads are handed over meanwhile.
const LEAD_NS: u64 = 200_000_000;

/// The loaded scheduler.
pub struct Scheduler {
    // Dropped first: the kernel's scheduler takes over.
    _link: Link,
    _intruders: Option<Link>,
    object: Object,
    rings: Option<Rings>,
    layout: Layout,
    /// CPUs of the machine, which may be more than the plan's cores.
    pub cpus: u32,
    /// Time of the first releases and of the tables' start, ns by `CLOCK_MONOTONIC`.
    pub origin_ns: u64,
    notes: Vec<String>,
    /// Dropped last.
    _changes: Changes,
}

impl Scheduler {
    /// Takes over all CPUs.
    ///
    /// # Errors
    /// This machine lacks something, or the kernel refuses. Nothing is left behind then.
    pub fn start(layout: &Layout, trace: bool) -> Result<Self, LinuxError> {
        machine::check_sched_ext()?;
        let cpus = u32::try_from(machine::online_cpus()?.len()).unwrap_or(u32::MAX);
        if layout.cores > cpus {
            return Err(LinuxError::Machine(format!(
                "the plan has {} cores and this machine {cpus} CPUs; plan for this machine",
                layout.cores
            )));
        }
        let mut object = load(layout, cpus, trace)?;
        let origin_ns = tasks::monotonic_ns() + LEAD_NS;
        tell(&object, layout, cpus, origin_ns)?;
        let rings = trace.then(|| Rings::open(&object, cpus)).transpose()?;
        let (changes, on) = server::without_ext(&(0..cpus).collect::<Vec<_>>())?;
        let shares = cgroup::note(
            &[cgroup::LIMIT, cgroup::WEIGHT],
            "the scheduler of levels",
            "the kernel keeps them again after the run",
        );
        let mut notes: Vec<String> = on.into_iter().chain(shares).collect();
        let intruders = intruders::watch(&object, "the levels").map_err(|note| notes.push(note));
        let link = object
            .maps_mut()
            .find(|m| m.name() == "levels_ops")
            .ok_or_else(|| inside("the BPF object holds no scheduler"))?
            .attach_struct_ops()
            .map_err(|e| {
                LinuxError::Machine(format!(
                    "the kernel refuses the scheduler: {e}; see the kernel's log (dmesg)"
                ))
            })?;
        let layout = layout.clone();
        Ok(Self {
            _link: link,
            _intruders: intruders.ok(),
            object,
            rings,
            layout,
            cpus,
            origin_ns,
            notes,
            _changes: changes,
        })
    }

    /// Adds a thread, or only its later children, to a task.
    ///
    /// # Errors
    /// The thread has ended, or the kernel has no memory.
    pub fn claim(&self, task: usize, thread: u32, children_only: bool) -> Result<(), LinuxError> {
        claim(&self.object, task, thread, children_only)
    }

    /// Adds all threads of a process to a task.
    ///
    /// # Errors
    /// There is no such process, or it is one of the kernel.
    pub fn attach(&self, task: usize, process: u32) -> Result<(), LinuxError> {
        let name = &self.layout.tasks[task].name;
        threads::to_attach(name, process)?;
        each_thread(process, |thread| self.attach_thread(task, thread.tid))
    }

    /// Adds one thread to a task.
    ///
    /// # Errors
    /// The thread may not run on the task's core, or it has ended.
    pub fn attach_thread(&self, task: usize, thread: u32) -> Result<(), LinuxError> {
        let wanted = &self.layout.tasks[task];
        // A chosen thread that the kernel does not let run there would keep the CPU from others.
        if let Ok(allowed) = tasks::affinity_of(thread) {
            let needed =
                if wanted.level == Level::C { 0..self.cpus } else { wanted.core..wanted.core + 1 };
            if let Some(core) = needed.into_iter().find(|core| !allowed.contains(core)) {
                return Err(LinuxError::Input(format!(
                    "task `{}` runs on CPU {core}, where thread {thread} may not run; let it run \
                        there (taskset -p)",
                    wanted.name
                )));
            }
        }
        self.claim(task, thread, false)
    }

    /// The number of a task.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.layout.tasks.iter().position(|t| t.name == name)
    }

    /// Adds a thread to the task of this name; see [`crate::clients::Join`].
    pub fn join(&self, name: &str, thread: u32) -> Option<bool> {
        let task = self.index(name)?;
        match self.task_of(thread) {
            Some(of) => (of == task).then_some(false),
            None => self.attach_thread(task, thread).ok().map(|()| true),
        }
    }

    /// The task that a thread belongs to.
    pub fn task_of(&self, thread: u32) -> Option<usize> {
        let fd = tasks::open_thread(thread).ok()?;
        let members = bpf::map(&self.object, "level_members").ok()?;
        let member: level_member =
            contract::look_up(&members, fd.as_raw_fd().cast_unsigned()).ok()??;
        (member.flags & LEVEL_PARENT == 0)
            .then(|| member.task.checked_sub(1))
            .flatten()
            .map(|t| t as usize)
    }

    /// Notes for the user.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether it sees real-time threads that run beside it.
    pub fn sees_intruders(&self) -> bool {
        self._intruders.is_some()
    }

    /// Checks that it still schedules.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn check(&self) -> Result<(), LinuxError> {
        bpf::check_ended(&self.object)
    }

    /// Counts of each task.
    ///
    /// # Errors
    /// The kernel refuses to be read.
    pub fn tasks(&self) -> Result<Vec<RunLevelTask>, LinuxError> {
        let map = bpf::map(&self.object, "level_tasks")?;
        let mut seen = Vec::new();
        for (id, task) in (0u32..).zip(&self.layout.tasks) {
            let counts = contract::look_up(&map, id).ok().flatten();
            let counts =
                counts.ok_or_else(|| inside(&format!("task `{}` has no counts", task.name)))?;
            let core = (task.level != Level::C).then_some(task.core);
            let mut run = RunLevelTask {
                name: task.name.clone(),
                level: task.level.name().into(),
                core,
                ..RunLevelTask::default()
            };
            shared::add_counts(&mut run, &counts);
            seen.push(run);
        }
        Ok(seen)
    }

    /// Counts of each CPU.
    ///
    /// # Errors
    /// The kernel refuses to be read.
    pub fn cpus(&self) -> Result<Vec<RunLevelCpu>, LinuxError> {
        let map = bpf::map(&self.object, "level_cpus")?;
        let of = |cpu: u32| {
            let counts = contract::look_up(&map, cpu).ok().flatten();
            counts
                .map(|seen| shared::cpu(cpu, &seen))
                .ok_or_else(|| inside(&format!("CPU {cpu} has no counts")))
        };
        (0..self.cpus).map(of).collect()
    }

    /// Real-time threads that ran beside the levels, the one with the most time first.
    pub fn intruders(&self) -> Vec<RunLevelIntruder> {
        let mut all: Vec<RunLevelIntruder> =
            intruders::all(&self.object).iter().map(shared::intruder).collect();
        all.sort_by_key(|i| (std::cmp::Reverse(i.seen.ran_ns), i.seen.thread));
        all
    }

    /// Events since the last call, and the number of lost ones.
    pub fn events(&self) -> (Vec<Event>, u64) {
        self.rings.as_ref().map_or((Vec::new(), 0), Rings::take)
    }

    /// First events of a trace: tasks and tables.
    pub fn first_events(&self) -> Vec<Event> {
        first_events(&self.layout, self.origin_ns)
    }
}

fn load(layout: &Layout, cpus: u32, trace: bool) -> Result<Object, LinuxError> {
    let many = [layout.tasks.len(), usize::from(layout.windows())]
        .map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let settings =
        levels_settings { cpus, loader_pid: std::process::id(), windows: many[1], tasks: many[0] };
    bpf::load_object(bpf::LEVELS, |open| {
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            match name.as_str() {
                ".rodata.levels" => map.set_initial_value(settings.as_bytes())?,
                ".rodata.trace" => map.set_initial_value(u32::from(trace).as_bytes())?,
                "level_cores" | "level_cpus" | "level_timers" => map.set_max_entries(cpus)?,
                "trace_rings" => map.set_max_entries(if trace { cpus } else { 1 })?,
                _ => {}
            }
        }
        Ok(())
    })
}

/// Passes CPUs, tasks and tables to the programs.
fn tell(object: &Object, layout: &Layout, cpus: u32, origin_ns: u64) -> Result<(), LinuxError> {
    let found = object.progs_mut().find(|p| p.name() == "setup");
    let program = found.ok_or_else(|| inside("there is no program `setup`"))?;
    let ask = |what: Setup| {
        let mut asked = what.encode();
        let input =
            ProgramInput { context_in: Some(asked.as_mut_bytes()), ..ProgramInput::default() };
        match program.test_run(input) {
            Ok(output) if output.return_value == 1 => Ok(()),
            Ok(_) => Err(inside(&format!("the programs refuse {what:?}"))),
            Err(e) => Err(LinuxError::Machine(format!(
                "the kernel does not run a program of type syscall: {e}; use a kernel from 6.14"
            ))),
        }
    };
    let now = tasks::monotonic_ns();
    (0..cpus).try_for_each(|cpu| ask(Setup::Core(cpu.into(), now)))?;
    for (id, task) in (0u64..).zip(&layout.tasks) {
        ask(Setup::Task {
            id,
            level: task.level.number(),
            core: task.core.into(),
            period_ns: task.period_ns,
            pet_ns: task.pet_ns,
            first_ns: origin_ns + task.first_ns,
            partition: if let Level::Window { partition } = task.level {
                partition.into()
            } else {
                0
            },
            rank: task.rank.into(),
        })?;
    }
    for table in &layout.tables {
        ask(Setup::Table(table.core.into(), origin_ns, table.frame_ns))?;
        for &(start, end, whose) in &table.slots {
            ask(Setup::Slot(table.core.into(), start, end, whose.into()))?;
        }
    }
    Ok(())
}

fn claim(object: &Object, task: usize, thread: u32, children_only: bool) -> Result<(), LinuxError> {
    let fail = |e: &dyn std::fmt::Display| {
        LinuxError::Machine(format!(
            "thread {thread} cannot be made a task of the plan: {e}; is it still running?"
        ))
    };
    let fd = tasks::open_thread(thread).map_err(|e| fail(&e))?;
    let number = u32::try_from(task + 1).map_err(|e| fail(&e))?;
    let member = level_member {
        task: number,
        flags: if children_only { LEVEL_PARENT } else { 0 },
        counted: 0,
        reserved: 0,
    };
    let members = bpf::map(object, "level_members")?;
    contract::put(&members, fd.as_raw_fd().cast_unsigned(), &member).map_err(|e| fail(&e))
}

/// Tasks and tables as events of a trace.
pub(super) fn first_events(layout: &Layout, origin_ns: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let at = |cpu: u32, event, id, a, b| Event { time_ns: 0, cpu, event, id, a, b };
    for (id, t) in (0u32..).zip(&layout.tasks) {
        let detail = match t.level {
            Level::Window { partition } => u64::from(partition) << 16 | u64::from(t.rank),
            _ => t.pet_ns,
        };
        let b = t.level.number() << 56 | u64::from(t.core) << 48 | detail;
        events.push(at(t.core, Kind::LevelAdd, id, t.period_ns, b));
    }
    for table in &layout.tables {
        events.push(at(table.core, Kind::LevelTable, 0, table.frame_ns, origin_ns));
        for &(start, end, whose) in &table.slots {
            events.push(at(table.core, Kind::LevelSlot, whose, start, end));
        }
    }
    events
}
