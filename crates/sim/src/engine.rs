//! Time, jobs and decisions.
//!
//! A core runs one job at a time and waits for each of its memory accesses, so a job's time is its
//! computation, the shared-cache look-ups of its reads, and the waits. Which job runs, and whether a
//! core may run at all, is decided by `solocore-policy`.

use crate::allocate::Allocator;
use crate::dram::Dram;
use crate::llc::SharedCache;
use crate::memory::{MemoryModel, Request};
use crate::source::{Recorded, Source, Spread};
use solocore_cache::trace::Kind;
use solocore_model::plan::{Plan, PlanTask};
use solocore_model::profile::PageName;
use solocore_model::results::{Activity, CoreResult, FORMAT, Mode, Segment, SimResult, TaskResult};
use solocore_model::system::Policy;
use solocore_model::{ModelError, Profile, files};
use solocore_policy::UNLIMITED;
use solocore_policy::memguard::{Core as Regulator, Kind as AccessKind, MemGuard, Role, Sharing};
use solocore_policy::ready_set::ReadySet;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::sync::Arc;

const PS: u64 = 1000;

/// Why a plan could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A file it refers to is missing or wrong.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A trace is missing or damaged, or the plan does not fit the board.
    #[error("{0}")]
    Input(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// How to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Alone, together, or together under the plan.
    pub mode: Mode,
    /// Simulated time.
    pub duration_ns: u64,
    /// Seed of page placement.
    pub seed: u64,
    /// Record the timeline of this first stretch.
    pub timeline_ns: u64,
}

/// A task's behaviour and its pages by frame number of the profile.
#[derive(Clone)]
pub struct Loaded {
    source: Source,
    page_names: Vec<Option<PageName>>,
}

/// Reads the profiles and traces a plan refers to.
///
/// # Errors
/// [`SimError`] with the file and the reason.
pub fn load(plan: &Plan) -> Result<Vec<Loaded>, SimError> {
    plan.tasks.iter().map(|task| load_task(plan, task)).collect()
}

fn load_task(plan: &Plan, task: &PlanTask) -> Result<Loaded, SimError> {
    let Some(path) = &task.profile else {
        let spread = Spread::new(&plan.platform, task.wcet_ns * PS, task.misses);
        return Ok(Loaded { source: Arc::new(spread), page_names: Vec::new() });
    };
    let profile: Profile = files::read_json(path)?;
    if profile.geometry != plan.platform.geometry() {
        return Err(SimError::Input(format!(
            "{}: was made for other caches than the plan's {}; plan again",
            path.display(),
            plan.platform.name
        )));
    }
    let Some(reference) = &profile.trace else {
        return Err(SimError::Input(format!("{}: has no trace to replay; profile again", path.display())));
    };
    let trace = files::parent_dir(path).join(&reference.file);
    let pages = u32::try_from(profile.pages.len()).unwrap_or(u32::MAX);
    let cycles = if reference.truncated { reference.cycles } else { profile.private_cycles };
    let lines = plan.platform.lines_per_page();
    let recorded = Recorded::load(&trace, reference.records, cycles, pages, lines)
        .map_err(|e| SimError::Input(format!("{}: {e}", trace.display())))?;
    let mut page_names = vec![None; profile.pages.len()];
    for page in profile.pages {
        if let Some(slot) = page_names.get_mut(page.frame as usize) {
            *slot = Some(page.name);
        }
    }
    Ok(Loaded { source: Arc::new(recorded), page_names })
}

/// Runs the tasks of a plan. `progress` is called now and then with the share done, 0 to 1, and
/// stops the simulation by returning false.
///
/// # Errors
/// [`SimError`].
pub fn simulate(
    plan: &Plan,
    loaded: &[Loaded],
    options: &Options,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Result<SimResult, SimError> {
    let started = std::time::Instant::now();
    let mut result = if options.mode == Mode::Solo {
        solo(plan, loaded, options, progress)?
    } else {
        Engine::new(plan, loaded, options, None)?.run(progress)?
    };
    result.wall_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(result)
}

/// Each task by itself; core counts add up.
fn solo(
    plan: &Plan,
    loaded: &[Loaded],
    options: &Options,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Result<SimResult, SimError> {
    let mut sum: Option<SimResult> = None;
    let count = plan.tasks.len() as f64;
    for task in 0..plan.tasks.len() {
        let step = |share: f64| progress((task as f64 + share) / count);
        let one = Engine::new(plan, loaded, options, Some(task))?.run(&step)?;
        let Some(total) = &mut sum else {
            sum = Some(one);
            continue;
        };
        total.tasks[task] = one.tasks[task].clone();
        total.requests += one.requests;
        for (a, b) in total.cores.iter_mut().zip(one.cores) {
            a.accesses += b.accesses;
            a.max_accesses_per_period = a.max_accesses_per_period.max(b.max_accesses_per_period);
        }
    }
    sum.ok_or_else(|| SimError::Input("the plan has no tasks".to_owned()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A regulation period begins.
    Tick,
    /// A job of the task is released.
    Release(usize),
    /// The core's computation is done, if it still has this number.
    Computed(usize, u64),
}

/// A job under way.
#[derive(Default)]
struct Job {
    release_ps: u64,
    /// Next step of the source.
    step: u64,
    /// Computation begun or done, in ps from the job's start.
    progress_ps: u64,
    /// Time left of the step's computation; `None` before it begins.
    stretch: Option<u64>,
    /// Lines to read again after a preemption.
    reload: Vec<u64>,
    /// The one being looked up, and the time left of that.
    reloading: Option<(u64, u64)>,
    /// Memory requests that the last access still needs.
    requests: VecDeque<(u64, bool)>,
    reads: u64,
    execution_ps: u64,
    /// Of `execution_ps`, what preemption cost: reloads, and throttling by budget that others used.
    recovery_ps: u64,
    /// Resumed, and since then no period has begun with the reload done.
    recovering: bool,
    reload_since: Option<u64>,
    /// The core's count of reads when the job was preempted.
    preempted_at_reads: Option<u64>,
}

struct Task {
    core: usize,
    source: Source,
    frames: Vec<u64>,
    locked: Vec<bool>,
    bypass: bool,
    period_ps: Option<u64>,
    deadline_ps: Option<u64>,
    waiting: VecDeque<u64>,
    job: Option<Job>,
    /// Place in the order of its core's priorities.
    rank: u32,
    result: TaskResult,
    execution_sum_ps: u128,
}

struct Core {
    /// Highest priority first.
    tasks: Vec<usize>,
    /// Ranks of the tasks that have a job.
    ready: ReadySet,
    running: Option<usize>,
    run_since: u64,
    /// Number of the computation under way; an event of another number is stale.
    version: u64,
    compute_since: Option<u64>,
    waiting_for_memory: bool,
    regulator: Option<Regulator>,
    throttled_since: Option<u64>,
    reads: u64,
    period_accesses: u64,
    result: CoreResult,
    segment_start: u64,
}

struct Engine<'a> {
    plan: &'a Plan,
    options: &'a Options,
    tasks: Vec<Task>,
    cores: Vec<Core>,
    memguard: Option<MemGuard>,
    memory: Box<dyn MemoryModel>,
    cache: SharedCache,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    now: u64,
    llc_ps: u64,
    lines_per_page: u64,
    private_lines: u64,
    requests: u64,
    timeline: Vec<Segment>,
}

/// Ways that locking leaves of each core's share, for its best-effort tasks.
fn free_ways(plan: &Plan) -> Vec<u32> {
    let per_way = u64::from(plan.platform.colours());
    let left = |c: &solocore_model::plan::PlanCore| {
        c.ways.saturating_sub(u32::try_from(c.locked_pages.div_ceil(per_way)).unwrap_or(u32::MAX))
    };
    plan.cores.iter().map(left).collect()
}

impl<'a> Engine<'a> {
    fn new(plan: &'a Plan, loaded: &[Loaded], options: &'a Options, only: Option<usize>) -> Result<Self, SimError> {
        let p = &plan.platform;
        let managed = options.mode == Mode::Managed;
        let mut allocator = Allocator::new(p, options.seed);
        let regulated = managed && plan.regulation.policy == Policy::Memguard;
        let count = u32::try_from(plan.cores.len()).unwrap_or(u32::MAX);
        let mut memguard = MemGuard::new(plan.regulation.period_ns, 1, Sharing::None, count);
        let private_banks = managed && plan.cores.iter().all(|c| c.banks.is_some());
        let mut cores: Vec<Core> = Vec::new();
        for c in &plan.cores {
            let budget = c.budget_accesses.filter(|_| regulated);
            let regulator = budget.map(|q| {
                // The plan's budget counts reads and write-backs together.
                let core = memguard.as_mut().and_then(|g| Regulator::new(g, q, UNLIMITED, Role::default(), 0));
                core.ok_or_else(|| {
                    SimError::Input(format!("core {}: a budget or period out of range; plan again", c.id))
                })
            });
            cores.push(Core::new(c.id, regulator.transpose()?));
        }
        let mut tasks = Vec::new();
        for (index, (t, l)) in plan.tasks.iter().zip(loaded).enumerate() {
            let core = t.core as usize;
            let Some(planned) = plan.cores.get(core) else {
                return Err(SimError::Input(format!("task `{}` is on core {core}, which the plan lacks", t.name)));
            };
            let banks = planned.banks.filter(|_| private_banks);
            let frames = allocator.take(l.source.pages(), banks).ok_or_else(|| {
                SimError::Input(format!(
                    "task `{}` does not fit in the banks of core {core}; use fewer tasks there",
                    t.name
                ))
            })?;
            if only.is_none_or(|o| o == index) {
                cores[core].tasks.push(index);
            }
            tasks.push(Task::new(t, l, frames, managed));
        }
        for core in &mut cores {
            core.tasks.sort_by_key(|&t| (plan.tasks[t].priority, t));
            for (rank, &t) in (0..).zip(&core.tasks) {
                tasks[t].rank = rank;
            }
        }
        let cache = if managed { SharedCache::parts(p, &free_ways(plan)) } else { SharedCache::whole(p) };
        // Where the plan gives every core its own banks, or has none to give, order of arrival rules.
        let hit_cap = if managed { 0 } else { Dram::HIT_CAP };
        let mut engine = Self {
            plan,
            options,
            tasks,
            cores,
            memguard,
            memory: Box::new(Dram::new(p, hit_cap)),
            cache,
            events: BinaryHeap::new(),
            sequence: 0,
            now: 0,
            llc_ps: p.cycles_to_ps(p.llc.latency.0),
            lines_per_page: u64::from(p.lines_per_page()),
            private_lines: p.private_lines(),
            requests: 0,
            timeline: Vec::new(),
        };
        engine.at(plan.regulation.period_ns * PS, Event::Tick);
        for task in 0..plan.tasks.len() {
            if only.is_none_or(|o| o == task) {
                engine.at(0, Event::Release(task));
            }
        }
        Ok(engine)
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    fn run(mut self, progress: &dyn Fn(f64) -> bool) -> Result<SimResult, SimError> {
        let end = self.options.duration_ns.saturating_mul(PS);
        let mut done = Vec::new();
        let mut count = 0u64;
        loop {
            let next = self.events.peek().map(|Reverse((t, _, _))| *t);
            let memory = self.memory.next_event();
            let time = match (next, memory) {
                (Some(a), Some(b)) => a.min(b),
                (Some(a), None) | (None, Some(a)) => a,
                (None, None) => end,
            };
            if time >= end {
                break;
            }
            self.now = time;
            count += 1;
            if count.is_multiple_of(1 << 20) && !progress(time as f64 / end as f64) {
                return Err(SimError::Interrupted);
            }
            if memory == Some(time) {
                self.memory.advance(time, &mut done);
                for core in done.drain(..) {
                    self.request_done(core as usize);
                }
                continue;
            }
            match self.events.pop() {
                Some(Reverse((_, _, Event::Tick))) => self.tick(),
                Some(Reverse((_, _, Event::Release(task)))) => self.release(task),
                Some(Reverse((_, _, Event::Computed(core, version)))) if self.cores[core].version == version => {
                    self.computed(core);
                }
                _ => {}
            }
        }
        self.now = end;
        Ok(self.finish())
    }

    fn tick(&mut self) {
        self.at(self.now + self.plan.regulation.period_ns * PS, Event::Tick);
        for core in 0..self.cores.len() {
            let c = &mut self.cores[core];
            c.result.max_accesses_per_period = c.result.max_accesses_per_period.max(c.period_accesses);
            c.period_accesses = 0;
            let mut resumes = false;
            if let (Some(regulator), Some(shared)) = (&mut c.regulator, &mut self.memguard) {
                let throttled = regulator.throttled();
                regulator.replenish(shared, self.now / PS);
                resumes = throttled && !regulator.throttled();
            }
            if resumes {
                self.mark(core);
            }
            let c = &mut self.cores[core];
            let throttled_since = if resumes { c.throttled_since.take() } else { None };
            if let Some(since) = throttled_since {
                c.result.throttled_ns += (self.now - since) / PS;
            }
            if let Some(job) = c.running.and_then(|task| self.tasks[task].job.as_mut()).filter(|j| j.recovering) {
                if let (Some(since), None) = (throttled_since, job.reload_since) {
                    job.recovery_ps += self.now - since.max(c.run_since);
                }
                job.recovering = job.reload_since.is_some();
            }
            if resumes {
                self.go_on(core);
            }
        }
    }

    fn release(&mut self, task: usize) {
        if let Some(period) = self.tasks[task].period_ps {
            self.at(self.now + period, Event::Release(task));
        }
        let t = &mut self.tasks[task];
        if t.job.is_none() {
            t.job = Some(Job::new(self.now));
            let core = t.core;
            self.cores[core].ready.add(t.rank);
            self.schedule(core);
        } else {
            t.waiting.push_back(self.now);
        }
    }

    /// Lets the policy choose; switches if it chose another job.
    fn schedule(&mut self, core: usize) {
        if self.cores[core].waiting_for_memory {
            return; // the core is stalled on a load; it switches when the line is there
        }
        let c = &self.cores[core];
        let chosen = c.ready.first().map(|rank| c.tasks[rank as usize]);
        if chosen == self.cores[core].running {
            return;
        }
        self.stop_running(core);
        let Some(task) = chosen else { return };
        let c = &mut self.cores[core];
        c.running = Some(task);
        c.run_since = self.now;
        c.segment_start = self.now;
        let foreign = self.tasks[task].job.as_mut().and_then(|j| j.preempted_at_reads.take()).map(|at| c.reads - at);
        if let Some(foreign) = foreign {
            self.reload_private_caches(task, foreign);
            if let Some(job) = &mut self.tasks[task].job {
                job.recovering = true;
                job.reload_since = (!job.reload.is_empty()).then_some(self.now);
            }
        }
        self.go_on(core);
    }

    /// Takes the running job off the core; its stretch of computation keeps what is left of it.
    fn stop_running(&mut self, core: usize) {
        self.mark(core);
        let c = &mut self.cores[core];
        let Some(task) = c.running.take() else { return };
        c.version += 1;
        let elapsed = c.compute_since.take().map_or(0, |since| self.now - since);
        if let Some(job) = &mut self.tasks[task].job {
            job.execution_ps += self.now - c.run_since;
            job.preempted_at_reads = Some(c.reads);
            match (job.reload_since.take(), c.throttled_since) {
                (Some(since), _) => job.recovery_ps += self.now - since,
                (None, Some(since)) if job.recovering => job.recovery_ps += self.now - since.max(c.run_since),
                _ => {}
            }
            if let Some((_, left)) = &mut job.reloading {
                *left -= elapsed;
            } else if let Some(left) = &mut job.stretch {
                *left -= elapsed;
            }
        }
    }

    /// What a preempted job lost of its private caches comes again through the shared cache: the last
    /// lines it read, at most as many as the caches hold; nothing if nobody else read.
    fn reload_private_caches(&mut self, task: usize, foreign_reads: u64) {
        let t = &mut self.tasks[task];
        let Some(job) = t.job.as_mut().filter(|_| t.source.reloads()) else { return };
        job.reload.clear();
        let want = if foreign_reads == 0 { 0 } else { job.reads.min(self.private_lines) };
        let (mut at, mut seen) = (job.step, HashSet::new());
        while at > 0 && (seen.len() as u64) < want {
            at -= 1;
            if let Some((line, Kind::Read | Kind::Fetch)) = t.source.step(at).access
                && seen.insert(line)
            {
                job.reload.push(line);
            }
        }
    }

    /// Starts or resumes whatever the running job does next, if the core may run.
    fn go_on(&mut self, core: usize) {
        let c = &self.cores[core];
        if c.waiting_for_memory || c.throttled_since.is_some() {
            return;
        }
        let Some(task) = c.running else { return };
        let t = &mut self.tasks[task];
        let Some(job) = &mut t.job else { return };
        if let Some((line, write)) = job.requests.pop_front() {
            self.submit(core, task, line, write);
            return;
        }
        if job.reloading.is_none() {
            if job.reload.is_empty()
                && let Some(since) = job.reload_since.take()
            {
                job.recovery_ps += self.now - since;
            }
            job.reloading = job.reload.pop().map(|line| (line, self.llc_ps));
        }
        let left = match (job.reloading, job.stretch) {
            (Some((_, left)), _) | (None, Some(left)) => left,
            (None, None) => {
                let step = t.source.step(job.step);
                let until = cycles_to_ps_floor(self.plan.platform.frequency.0, step.at_cycles);
                let look_up = if matches!(step.access, Some((_, Kind::Read | Kind::Fetch))) { self.llc_ps } else { 0 };
                let left = until.saturating_sub(job.progress_ps) + look_up;
                job.progress_ps = job.progress_ps.max(until);
                job.stretch = Some(left);
                left
            }
        };
        let c = &mut self.cores[core];
        c.version += 1;
        c.compute_since = Some(self.now);
        let event = Event::Computed(core, c.version);
        self.at(self.now + left, event);
    }

    /// The running job's stretch of computation is over.
    fn computed(&mut self, core: usize) {
        let c = &mut self.cores[core];
        c.compute_since = None;
        let Some(task) = c.running else { return };
        let t = &mut self.tasks[task];
        let Some(job) = &mut t.job else { return };
        if let Some((line, _)) = job.reloading.take() {
            let own = job.reads;
            self.access(core, task, line, Kind::Read);
            if let Some(job) = &mut self.tasks[task].job {
                job.reads = own;
            }
        } else {
            let step = t.source.step(job.step);
            job.step += 1;
            job.stretch = None;
            match step.access {
                Some((line, kind)) => self.access(core, task, line, kind),
                None => {
                    self.job_done(core, task);
                    return;
                }
            }
        }
        self.go_on(core);
    }

    /// An access to the shared cache; what it needs from memory is queued with the job.
    fn access(&mut self, core: usize, task: usize, line: u64, kind: Kind) {
        self.requests += 1;
        let t = &mut self.tasks[task];
        let Some(job) = &mut t.job else { return };
        let write = kind == Kind::Write;
        if !write {
            self.cores[core].reads += 1;
            job.reads += 1;
        }
        let page = usize::try_from(line / self.lines_per_page).unwrap_or(usize::MAX);
        if t.locked.get(page).copied().unwrap_or(false) {
            return;
        }
        let frame = t.frames.get(page).copied().unwrap_or(0);
        let physical = frame * self.lines_per_page + line % self.lines_per_page;
        let core = u32::try_from(core).expect("at most 256 cores");
        let answer = self.cache.access(core, physical, write, t.bypass);
        if answer.fill {
            job.requests.push_back((physical, false));
        }
        if let Some(victim) = answer.write_back {
            job.requests.push_back((victim, true));
        }
    }

    fn submit(&mut self, core: usize, task: usize, line: u64, write: bool) {
        let c = &mut self.cores[core];
        c.waiting_for_memory = true;
        c.result.accesses += 1;
        c.period_accesses += 1;
        if let (Some(regulator), Some(shared)) = (&mut c.regulator, &mut self.memguard) {
            regulator.account(shared, AccessKind::Read, 1);
        }
        self.tasks[task].result.accesses += 1;
        let core = u32::try_from(core).expect("at most 256 cores");
        self.memory.submit(self.now, Request { core, line, write });
    }

    fn request_done(&mut self, core: usize) {
        let c = &mut self.cores[core];
        c.waiting_for_memory = false;
        if c.throttled_since.is_none() && c.regulator.as_ref().is_some_and(Regulator::throttled) {
            self.mark(core);
            self.cores[core].throttled_since = Some(self.now);
        }
        let before = self.cores[core].running;
        self.schedule(core);
        if self.cores[core].running == before {
            self.go_on(core);
        }
    }

    fn job_done(&mut self, core: usize, task: usize) {
        self.stop_running(core);
        let now = self.now;
        let t = &mut self.tasks[task];
        let Some(job) = t.job.take() else { return };
        let response = now - job.release_ps;
        t.result.jobs += 1;
        let execution_ps = job.execution_ps - job.recovery_ps;
        t.result.moet_ns = t.result.moet_ns.max(execution_ps.div_ceil(PS));
        t.result.max_response_ns = t.result.max_response_ns.max(response.div_ceil(PS));
        t.result.misses_deadline += u64::from(t.deadline_ps.is_some_and(|d| response > d));
        t.execution_sum_ps += u128::from(execution_ps);
        let next = t.waiting.pop_front().or(t.period_ps.is_none().then_some(now));
        t.job = next.map(Job::new);
        if t.job.is_none() {
            self.cores[core].ready.remove(t.rank);
        }
        self.schedule(core);
    }

    /// Ends the timeline's stretch that began at `segment_start`.
    fn mark(&mut self, core: usize) {
        let limit = self.options.timeline_ns.saturating_mul(PS);
        let c = &mut self.cores[core];
        let start = std::mem::replace(&mut c.segment_start, self.now);
        let (Some(task), true) = (c.running, start < limit && self.now > start) else { return };
        let activity = if c.throttled_since.is_some() { Activity::Throttled } else { Activity::Run };
        let (start_ns, end_ns) = (start / PS, self.now.min(limit) / PS);
        let (core, task) = (c.result.id, u32::try_from(task).expect("tasks fit"));
        if end_ns > start_ns {
            self.timeline.push(Segment { core, task, start_ns, end_ns, activity });
        }
    }

    fn finish(mut self) -> SimResult {
        for core in 0..self.cores.len() {
            self.mark(core);
            let c = &mut self.cores[core];
            c.result.max_accesses_per_period = c.result.max_accesses_per_period.max(c.period_accesses);
            if let Some(since) = c.throttled_since.take() {
                c.result.throttled_ns += (self.now - since) / PS;
            }
        }
        let now = self.now;
        for t in &mut self.tasks {
            // Jobs that are late already count, finished or not.
            let open = t.job.iter().map(|j| j.release_ps).chain(t.waiting.iter().copied());
            let late = open.filter(|release| t.deadline_ps.is_some_and(|d| release + d < now)).count();
            t.result.misses_deadline += late as u64;
            let mean = t.execution_sum_ps / u128::from(t.result.jobs.max(1) * PS);
            t.result.acet_ns = u64::try_from(mean).unwrap_or(u64::MAX);
        }
        self.timeline.sort_by_key(|s| (s.core, s.start_ns));
        SimResult {
            format: FORMAT.to_owned(),
            mode: self.options.mode,
            seed: self.options.seed,
            tasks: self.tasks.into_iter().map(|t| t.result).collect(),
            cores: self.cores.into_iter().map(|c| c.result).collect(),
            simulated_ns: self.options.duration_ns,
            wall_ns: 0,
            requests: self.requests,
            timeline: self.timeline,
        }
    }
}

impl Job {
    fn new(release_ps: u64) -> Self {
        Self { release_ps, ..Self::default() }
    }
}

impl Task {
    fn new(t: &PlanTask, l: &Loaded, frames: Vec<u64>, managed: bool) -> Self {
        let names: HashSet<&PageName> = t.locked_pages.iter().collect();
        let is_locked = |name: &Option<PageName>| managed && name.as_ref().is_some_and(|n| names.contains(n));
        Self {
            core: t.core as usize,
            source: Arc::clone(&l.source),
            frames,
            locked: l.page_names.iter().map(is_locked).collect(),
            // The bounds count on no hit outside the locked pages; best effort may have them.
            bypass: managed && !t.best_effort(),
            period_ps: t.period_ns.map(|p| p * PS),
            deadline_ps: t.deadline_ns.map(|d| d * PS),
            waiting: VecDeque::new(),
            job: None,
            rank: 0,
            result: TaskResult {
                name: t.name.clone(),
                core: t.core,
                jobs: 0,
                misses_deadline: 0,
                moet_ns: 0,
                acet_ns: 0,
                max_response_ns: 0,
                accesses: 0,
            },
            execution_sum_ps: 0,
        }
    }
}

impl Core {
    fn new(id: u32, regulator: Option<Regulator>) -> Self {
        Self {
            tasks: Vec::new(),
            ready: ReadySet::new(),
            running: None,
            run_since: 0,
            version: 0,
            compute_since: None,
            waiting_for_memory: false,
            regulator,
            throttled_since: None,
            reads: 0,
            period_accesses: 0,
            result: CoreResult { id, accesses: 0, throttled_ns: 0, max_accesses_per_period: 0 },
            segment_start: 0,
        }
    }
}

/// Rounded down: steps are differences of these, so nothing is lost or added over a job.
fn cycles_to_ps_floor(frequency: u64, cycles: u64) -> u64 {
    u64::try_from(u128::from(cycles) * 1_000_000_000_000 / u128::from(frequency)).unwrap_or(u64::MAX)
}
