//! VCPUs (`vcpu.h`; maracas, sections II to V): sporadic servers by rate, background time, its
//! throttling (`throttle.h`) and balancing (`balance.h`).
//!
//! Inside a VCPU the most urgent task runs. A core that blocks or wakes a VCPU runs the migration
//! thread that Algorithm 2 names. A VCPU moves at once, with its budget and its background time
//! (section III), as on Linux (bpf/vcpu.bpf.c). Not covered: the time of the migration threads' own
//! VCPUs (a cost of the kernel instead).

use super::interface::{Call, JobTimes, Pick, Readings, Scheduler};
use super::places::id;
use super::vcpu_cores::Cores;
use crate::hardware::Uncore;
use crate::kernel::config::ThrottleSpec;
use crate::kernel::cores::CoreSet;
use crate::kernel::observer::RunMode;
use solocore_policy::balance::Balance;
use solocore_policy::ready_set::ReadySet;
use solocore_policy::sporadic_server::Config;
use solocore_policy::throttle::{Rule, Throttle};
use solocore_policy::vcpu::Mode;

/// A VCPU and its tasks.
pub struct Vcpu {
    pub core: usize,
    pub config: Config,
    /// Ranks of its tasks that have work.
    pub ready: ReadySet,
    /// At the last monitor: accesses, time run in ns.
    pub seen: (u64, u64),
}

/// Throttling, and its last readings.
pub struct Throttling {
    pub spec: ThrottleSpec,
    pub policy: Box<Throttle>,
    pub uncore: Uncore,
    pub transactions: Vec<u64>,
    /// Background time of each core that has been reported, ns.
    pub background_ns: Vec<u64>,
}

/// See the module.
pub struct VcpuScheduler {
    pub cores: Cores,
    pub vcpus: Vec<Vcpu>,
    /// VCPU of each task.
    pub vcpu: Vec<usize>,
    pub rank: Vec<u32>,
    pub order: Vec<usize>,
    /// Is background time used at all?
    pub background: bool,
    /// Do the VCPUs' intensities decide?
    pub by_intensity: bool,
    pub allowed: Vec<bool>,
    pub throttling: Option<Throttling>,
    pub balance: Option<(Box<Balance>, u32)>,
    pub monitor_ps: Option<u64>,
    /// By core: VCPUs that have moved off and are not yet reported.
    pub moves: Vec<u64>,
}

impl VcpuScheduler {
    fn wake(&mut self, task: usize, call: &mut Call<'_>) {
        let v = self.vcpu[task];
        self.vcpus[v].ready.add(self.rank[task]);
        let core = self.vcpus[v].core;
        call.dirty.insert(core);
        if self.vcpus[v].ready.len() == 1 {
            self.cores.wake(core, v, call.now_ns());
            self.rebalance(core, call);
        }
    }

    /// Runs the migration thread of a core.
    fn rebalance(&mut self, from: usize, call: &mut Call<'_>) {
        let Some((balance, limit)) = &mut self.balance else { return };
        let Some(moves) = balance.rebalance(id(from), *limit) else { return };
        let moved: Vec<usize> = (0..self.vcpus.len())
            .filter(|&v| self.vcpus[v].core == from && balance.core_of(id(v)) == Some(moves.to))
            .collect();
        for v in moved {
            self.move_to(v, moves.to as usize, call);
        }
    }

    /// Makes a move that has been decided.
    fn move_to(&mut self, v: usize, to: usize, call: &mut Call<'_>) {
        let vcpu = &mut self.vcpus[v];
        let (from, now) = (vcpu.core, call.now_ns());
        self.cores.move_to((from, to), v, vcpu.config, now);
        if !vcpu.ready.is_empty() {
            self.cores.wake(to, v, now);
        }
        vcpu.core = to;
        self.moves[from] += 1;
        call.observer.vcpu_migrated(v, from, to, call.now_ps);
        call.dirty.insert(from);
        call.dirty.insert(to);
    }

    /// Tells the throttling the time that the core ran in the background, and asks whether it may
    /// go on.
    fn ask_throttling(&mut self, core: usize, now_ns: u64) {
        let Some(throttling) = &mut self.throttling else { return };
        let background = self.cores[core].background_ns();
        let ran = background - std::mem::replace(&mut throttling.background_ns[core], background);
        throttling.policy.ran(id(core), ran);
        let allowed = self.background && throttling.policy.allowed(id(core));
        if allowed != self.allowed[core] {
            self.allowed[core] = allowed;
            self.cores.allow_background(core, allowed, now_ns);
        }
    }

    /// Time at which the core must ask again although the VCPU policy has no event, ps.
    fn next_check_ps(&self, core: usize, now_ps: u64) -> Option<u64> {
        let throttling = self.throttling.as_ref()?;
        let c = &self.cores[core];
        // A VCPU with budget runs in any case. If no core is throttled, or every core is, the
        // answer stays the same.
        let open = throttling.policy.throttled() > 0
            && throttling.policy.throttled() < throttling.policy.cpus();
        (open && c.with_budget() == 0 && c.waiting() > 0)
            .then(|| now_ps.saturating_add(throttling.spec.check_ps))
    }

    fn monitor_intensity(&mut self, readings: &Readings<'_>, now_ns: u64) {
        let mut transactions = vec![0; self.vcpus.len()];
        self.vcpu.iter().zip(readings.tasks).for_each(|(&v, n)| transactions[v] += n);
        for (v, vcpu) in self.vcpus.iter_mut().enumerate() {
            let Some(state) = self.cores[vcpu.core].vcpu(id(v)) else { continue };
            let ran = state.foreground_ns() + state.background_ns();
            let (made, time) =
                (transactions[v] - vcpu.seen.0, ran.checked_sub(vcpu.seen.1).unwrap_or(ran));
            vcpu.seen = (transactions[v], ran);
            if time > 0 {
                // Transactions per ms of execution: the traffic of a VCPU while it runs, even if it
                // runs seldom.
                let rate = u128::from(made) * 1_000_000 / u128::from(time);
                self.cores.set_intensity(
                    vcpu.core,
                    v,
                    u64::try_from(rate).unwrap_or(u64::MAX),
                    now_ns,
                );
            }
        }
    }
}

impl Throttling {
    fn monitor(&mut self, readings: &Readings<'_>) -> bool {
        for (core, (&now, then)) in readings.cores.iter().zip(&mut self.transactions).enumerate() {
            self.policy.report(id(core), now - std::mem::replace(then, now));
        }
        let (now, then) = (readings.uncore, std::mem::replace(&mut self.uncore, readings.uncore));
        let reads = now.reads - then.reads;
        let requests = match self.spec.rule {
            // Occupancy counts reads only.
            Rule::Latency => reads,
            Rule::Rate => reads + now.writes - then.writes,
        };
        self.policy.monitor(now.read_occupancy_ps - then.read_occupancy_ps, requests)
    }
}

impl Scheduler for VcpuScheduler {
    fn unready(&mut self, task: usize, call: &mut Call<'_>) {
        let v = self.vcpu[task];
        let core = self.vcpus[v].core;
        self.vcpus[v].ready.remove(self.rank[task]);
        call.dirty.insert(core);
        if self.vcpus[v].ready.is_empty() {
            self.cores.block(core, v, call.now_ns());
            if let Some(trigger) = self.balance.as_ref().and_then(|(balance, _)| balance.trigger())
            {
                self.rebalance(trigger as usize, call);
            }
            self.cores.tell(call);
        }
    }

    /// A VCPU whose only task has ended is not a load any more (maracas, section VI-C: tasks
    /// terminate).
    fn ended(&mut self, task: usize) {
        let v = self.vcpu[task];
        let alone = self.vcpu.iter().filter(|&&of| of == v).count() == 1;
        if let (Some((balance, _)), true) = (&mut self.balance, alone) {
            balance.remove(id(v));
        }
    }

    fn woken(&mut self, task: usize, _: JobTimes, call: &mut Call<'_>) {
        self.wake(task, call);
        self.cores.tell(call);
    }

    fn pick(&mut self, core: usize, call: &mut Call<'_>) -> Pick {
        let now = call.now_ns();
        self.cores.tick(core, now);
        self.ask_throttling(core, now);
        self.cores.tell(call);
        let (v, mode) = match self.cores[core].mode() {
            Mode::Idle => (None, RunMode::Foreground),
            Mode::Foreground(v) => (Some(v), RunMode::Foreground),
            Mode::Background(v) => (Some(v), RunMode::Background),
        };
        let rank = v.and_then(|v| self.vcpus[v as usize].ready.first());
        let mut pick =
            Pick::new(rank.map(|rank| self.order[rank as usize]), self.cores[core].until_ns());
        pick.mode = mode;
        if let Some(check) = self.next_check_ps(core, call.now_ps) {
            pick.until_ps = pick.until_ps.min(check);
        }
        pick
    }

    fn monitor_period_ps(&self) -> Option<u64> {
        self.monitor_ps
    }

    fn monitor(&mut self, readings: &Readings<'_>, call: &mut Call<'_>) {
        // Execution until now, with background time, belongs to the period that ends.
        for core in 0..self.cores.len() {
            self.cores.tick(core, call.now_ns());
            self.ask_throttling(core, call.now_ns());
        }
        if self.by_intensity {
            self.monitor_intensity(readings, call.now_ns());
        }
        if let Some(throttling) = &mut self.throttling {
            let contended = throttling.monitor(readings);
            call.observer.monitored(contended, throttling.policy.throttled(), call.now_ps);
        }
        self.cores.tell(call);
        call.dirty.extend(CoreSet::all(self.cores.len()));
    }

    fn has_modes(&self) -> bool {
        true
    }

    fn take_moves(&mut self, core: usize) -> u64 {
        std::mem::take(&mut self.moves[core])
    }

    fn home(&self, task: usize) -> usize {
        self.vcpus[self.vcpu[task]].core
    }
}
