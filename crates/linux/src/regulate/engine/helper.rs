//! The helper engine (bpf/helper.bpf.c): a `SCHED_FIFO` thread per CPU that occupies it while it is
//! throttled.
//!
//! Priority 1, the lowest, lets every other real-time task pass by. Where a plan's budgets bind its
//! analysed tasks as well, the priority lies above theirs and below that of the threads that keep
//! windows. A core that has used its budget up then stops as a whole; this includes every other
//! real-time task below that priority.
//! The hole: the kernel does not give a CPU to real-time tasks for ever. Since Linux 6.8 its fair
//! server runs ordinary tasks for 50 ms of each second in which they would get less. Kernels with
//! real-time groups, and older ones, throttle real-time tasks for 50 ms of each second instead.
//! Throttled tasks would run in that time. Both are turned off while this engine runs
//! (`fair_server/cpuN/runtime` of debugfs, `kernel.sched_rt_runtime_us`) and put back at its end;
//! by the keeper if it is killed (`host::keeper`). Where the kernel does not allow it, the overflow
//! program holds such tasks itself if it counts a software event; for hardware counters the hole
//! remains, and `notes` says so. After a lost tick, a helper releases its CPU after two periods: no
//! CPU stays throttled.

use super::interface::{Engine, Served};
use super::rate;
use crate::contract::{self, run_core};
use crate::error::LinuxError;
use crate::host::keeper::Changes;
use crate::host::server::Server;
use crate::regulate::asked;
use crate::regulate::attach::{self, Attached, Pulse};
use crate::regulate::bpf;
use crate::regulate::dynamic::{self, RunHardTask};
use crate::regulate::handover::Budgets;
use crate::regulate::history::{History, Taken};
use crate::regulate::lock::Serving;
use crate::regulate::regulation::{Regulation, Sharing};
use crate::regulate::shared::{Counts, MAX_CPUS, Settings};
use crate::sys::{self, Mapped, Scheduling, tasks};
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapHandle, MapType, Object, ProgramInput, RingBufferBuilder};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Below every other real-time task.
const BELOW_ALL: i32 = 1;
/// Above a plan's tasks and drivers, below the threads that keep windows.
const ABOVE_TASKS: i32 = 92;
/// Longest time for which an overflow program holds a task; tasks are held again until the period
/// ends.
const LONGEST_HOLD_NS: u64 = 1_000_000;
/// Size of a CPU's ring in bytes; a message takes 16.
const RING_BYTES: u32 = 4096;

pub(crate) struct Helper {
    // Dropped in this order, after the threads have ended: first no CPU is stopped any more, then
    // all settings are put back.
    events: Option<Attached>,
    object: Arc<Object>,
    history: History,
    _changes: Changes,
    stop: Arc<AtomicBool>,
    /// Longest time for which a CPU is occupied.
    longest_ns: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    /// Numbers of the helpers, by CPU.
    helpers: BTreeMap<u32, u32>,
    regulation: Regulation,
    cpus: Vec<u32>,
    notes: Vec<String>,
    /// Ways in which programs can exceed their budgets.
    holes: Vec<String>,
    serving: Option<Serving>,
    /// The priority of the daemon, which must run while helpers occupy all CPUs.
    priority: i32,
    /// Scheduling of the caller before.
    before: Option<Scheduling>,
}

/// A task whose `prio` is below this passes a helper of this priority.
fn passes(priority: i32) -> u32 {
    (attach::NOT_REAL_TIME - 1 - priority).unsigned_abs()
}

/// Plain MemGuard for this number of CPUs.
pub(crate) fn settings(period_ns: u64, regulated: u32) -> Settings {
    let loader_pid = std::process::id();
    Settings {
        period_ns,
        slice_ns: 0,
        chunk: 1,
        hold_ns: 0,
        cpus: regulated,
        regulated,
        sharing: 0,
        loader_pid,
        exempt_prio: passes(BELOW_ALL),
        puts_off: 0,
    }
}

/// Loads the programs; no event calls them yet.
pub(crate) fn load(settings: &Settings) -> Result<Object, LinuxError> {
    attach::load_for(bpf::HELPER, settings, None, None).map(|loaded| loaded.object)
}

/// State of a helper thread.
struct Post {
    cpu: u32,
    priority: i32,
    ring: MapHandle,
    cores: Arc<Mapped>,
    object: Arc<Object>,
    stop: Arc<AtomicBool>,
    longest_ns: Arc<AtomicU64>,
    shares: bool,
}

impl Helper {
    pub fn start(regulation: &Regulation) -> Result<Self, LinuxError> {
        let priority = if regulation.stops_fifo() { ABOVE_TASKS } else { BELOW_ALL };
        let settings = Settings {
            chunk: regulation.chunk(),
            exempt_prio: passes(priority),
            hold_ns: if regulation.event.is_software() { LONGEST_HOLD_NS } else { 0 },
            cpus: regulation.cpus,
            sharing: regulation.sharing_number(),
            ..settings(regulation.period_ns, u32::try_from(regulation.cores.len()).unwrap_or(0))
        };
        let lock = regulation.lock;
        let attach::Loaded { object, hook, note } =
            attach::load_for(bpf::HELPER, &settings, lock.as_ref(), regulation.dynamic.as_ref())?;
        let object = Arc::new(object);
        attach::fill_cores(&object, regulation)?;
        let length = MAX_CPUS as usize * size_of::<run_core>();
        let cores = Arc::new(Mapped::new(&bpf::map(&object, "cores")?, length)?);
        let stop = Arc::new(AtomicBool::new(false));
        let mut engine = Self {
            events: None,
            object: Arc::clone(&object),
            history: History::open(&object, regulation.cpus, &regulation.regulated())?,
            _changes: Changes::default(),
            stop: Arc::clone(&stop),
            longest_ns: Arc::new(AtomicU64::new(regulation.longest_stop_ns())),
            threads: Vec::new(),
            helpers: BTreeMap::new(),
            regulation: regulation.clone(),
            cpus: regulation.regulated(),
            notes: Vec::new(),
            holes: Vec::new(),
            serving: regulation.serving(),
            priority: priority + 1,
            before: None,
        };
        let (ready, reports) = channel();
        for core in &regulation.cores {
            let post = Post {
                cpu: core.cpu,
                priority,
                ring: ring_of(&object, core.cpu)?,
                cores: Arc::clone(&cores),
                object: Arc::clone(&object),
                stop: Arc::clone(&stop),
                longest_ns: Arc::clone(&engine.longest_ns),
                shares: regulation.sharing != Sharing::None,
            };
            engine.threads.push(spawn(post, ready.clone())?);
        }
        drop(ready);
        for _ in &regulation.cores {
            let placed = reports.recv().map_err(|_| bpf::inside("a helper thread ended"))?;
            engine.helpers.extend([placed?]);
        }
        let (mut changes, notes) = close_hole(&engine.cpus, settings.hold_ns != 0)?;
        engine.notes.clone_from(&notes);
        engine.holes = notes;
        engine.notes.extend(rate::allow(&mut changes, regulation)?);
        engine._changes = changes;
        // A CPU without the program learns of a holder at its next look only.
        engine.holes.extend(note.clone().filter(|_| lock.is_some()));
        engine.notes.extend(note);
        engine.before = Some(Scheduling::mine().map_err(|e| no_priority(&e))?);
        Scheduling::fifo(engine.priority).apply().map_err(|e| no_priority(&e))?;
        let events = attach::attach(&object, regulation, hook)?;
        engine.notes.extend(events.note.clone());
        engine.events = Some(events);
        Ok(engine)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // A thread that panicked has let go of its CPU as well.
            let _ = thread.join();
        }
        if let Some(before) = self.before.take() {
            // The old scheduling is always allowed again.
            let _ = before.apply();
        }
    }
}

impl Engine for Helper {
    fn name(&self) -> &'static str {
        "helper"
    }

    fn counts(&self) -> Result<Vec<(u32, Counts)>, LinuxError> {
        attach::counts(&self.object, &self.cpus)
    }

    fn check(&mut self) -> Result<bool, LinuxError> {
        match self.threads.iter().position(JoinHandle::is_finished) {
            None => Ok(false),
            Some(at) => Err(bpf::inside(&format!("the helper of CPU {} has ended", self.cpus[at]))),
        }
    }

    fn pulses(&self, cpus: &[u32]) -> BTreeMap<u32, Pulse> {
        self.events.as_ref().map_or_else(BTreeMap::new, |e| e.pulses(&self.object, cpus))
    }

    fn rearm(&mut self, cpu: u32) -> Result<(), LinuxError> {
        // The kernel lets the helper of a CPU that goes offline run elsewhere.
        if let Some(&helper) = self.helpers.get(&cpu) {
            tasks::bind(helper, &[cpu]).map_err(|e| no_place(cpu, &e))?;
        }
        let events = self.events.as_mut();
        events.map_or(Ok(()), |e| e.rearm(&self.object, &self.regulation, cpu))
    }

    fn ask(&self, budgets: &[(u32, Budgets)]) -> Result<(), LinuxError> {
        asked::ask(&self.object, budgets)
    }

    fn ask_for_jobs(&self, tasks: &[RunHardTask]) -> Result<(), LinuxError> {
        // Jobs of the earlier budgets go on, so no stop becomes shorter.
        let lengths = tasks.iter().fold(0, |sum: u64, task| sum.saturating_add(task.length_ns));
        let longest = self.regulation.period_ns.saturating_mul(2).saturating_add(lengths);
        self.longest_ns.fetch_max(longest, Ordering::Relaxed);
        dynamic::others(&bpf::map(&self.object, "dynamic_others")?, tasks)
    }

    fn resample(&self, cpu: u32, sample: u64) -> Result<(), LinuxError> {
        let events = self.events.as_ref();
        events.map_or(Ok(()), |e| e.resample(&self.object, cpu, sample))
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

    fn can_keep_awake(&self) -> bool {
        true
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

    fn served(&self) -> Option<Served<'_>> {
        let events = self.events.as_ref()?;
        Some(Served {
            object: &self.object,
            events,
            policy: self.serving.as_ref(),
            priority: self.priority,
        })
    }
}

fn no_priority(error: &std::io::Error) -> LinuxError {
    LinuxError::of_io(
        "a real-time thread is refused",
        error,
        "CAP_SYS_NICE is needed, and a cgroup with a real-time budget (cpu.rt_runtime_us) where \
            the kernel groups real-time tasks",
    )
}

/// Makes a CPU's ring, and gives it to the programs.
fn ring_of(object: &Object, cpu: u32) -> Result<MapHandle, LinuxError> {
    let options =
        bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as u64, ..Default::default() };
    let ring = MapHandle::create(MapType::RingBuf, Some("wakeup"), 0, 0, RING_BYTES, &options)
        .map_err(|e| {
            LinuxError::Machine(format!("a ring buffer is refused: {e}; free some memory"))
        })?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&ring));
    contract::put(&bpf::map(object, "wakeups")?, cpu, &fd)
        .map_err(|e| bpf::inside(&format!("the ring of CPU {cpu} cannot be set: {e}")))?;
    Ok(ring)
}

fn no_place(cpu: u32, error: &std::io::Error) -> LinuxError {
    LinuxError::of_io(&format!("CPU {cpu}"), error, "is it in this process's cpuset?")
}

/// Starts a helper; once it is ready, it reports its CPU and its number.
fn spawn(
    post: Post,
    ready: Sender<Result<(u32, u32), LinuxError>>,
) -> Result<JoinHandle<()>, LinuxError> {
    let name = format!("solocore/{}", post.cpu);
    std::thread::Builder::new()
        .name(name)
        .spawn(move || {
            let placed = sys::pin_to(post.cpu).map_err(|e| no_place(post.cpu, &e)).and_then(|()| {
                Scheduling::fifo(post.priority).apply().map_err(|e| no_priority(&e))
            });
            let failed = placed.is_err();
            let _ = ready.send(placed.map(|()| (post.cpu, tasks::thread_number())));
            if !failed {
                watch(&post);
            }
        })
        .map_err(|e| {
            LinuxError::of_io(
                "a helper thread is refused",
                &e,
                "raise the limit of threads (ulimit -u)",
            )
        })
}

/// Waits to be woken, and then occupies the CPU for as long as it is throttled.
fn watch(post: &Post) {
    let mut builder = RingBufferBuilder::new();
    let Ok(_) = builder.add(&post.ring, |_| 0) else { return };
    let Ok(ring) = builder.build() else { return };
    while !post.stop.load(Ordering::Relaxed) {
        if ring.poll_raw(Duration::from_millis(50)) > 0 {
            occupy(post);
        }
    }
}

fn occupy(post: &Post) {
    let throttled =
        post.cpu as usize * size_of::<run_core>() + offset_of!(run_core, guard.throttled);
    let since = Instant::now();
    while post.cores.word(throttled) != 0 && !post.stop.load(Ordering::Relaxed) {
        let longest = Duration::from_nanos(post.longest_ns.load(Ordering::Relaxed));
        if since.elapsed() > longest {
            return;
        }
        if post.shares {
            ask_again(&post.object);
        }
        std::hint::spin_loop();
    }
}

/// Asks whether a shared round has begun. The program that knows it runs on this CPU.
fn ask_again(object: &Object) {
    if let Some(program) = object.progs_mut().find(|p| p.name() == "ask_again") {
        // If it fails, the CPU is occupied until its period ends, as without sharing.
        let _ = program.test_run(ProgramInput::default());
    }
}

/// Keeps the kernel from running ordinary tasks beside the helpers. Returns the changes, and the
/// ones that are not possible.
fn close_hole(cpus: &[u32], held: bool) -> Result<(Changes, Vec<String>), LinuxError> {
    let mut changes = Changes::begin()?;
    let mut notes = Vec::new();
    if let Err(e) = changes.set("/proc/sys/kernel/sched_rt_runtime_us", "-1") {
        notes.push(format!(
            "real-time tasks are throttled for 5 % of the time, and nothing is regulated then: {e}"
        ));
    }
    if let Some(e) = Server::Fair.turn_off(&mut changes, cpus) {
        notes.push(if held {
            format!(
                "the kernel's fair server stays on ({e}): tasks that it runs are held one \
                sample after their budget"
            )
        } else {
            format!(
                "the kernel's fair server stays on ({e}): ordinary tasks that get less than 5 % of \
                    a CPU run unregulated for up to 50 ms of each second"
            )
        });
    }
    Ok((changes, notes))
}
