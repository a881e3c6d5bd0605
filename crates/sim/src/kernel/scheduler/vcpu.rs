//! VCPUs (`vcpu.h`; maracas, sections II to V): sporadic servers by rate, background time, its throttling (`throttle.h`)
//! and balancing (`balance.h`).
//!
//! Inside a VCPU the most urgent task runs. A core that blocks or wakes a VCPU runs the migration thread that Algorithm 2
//! names. A VCPU takes its budget along: the destination gives a new VCPU its whole capacity, so the move that the policy
//! has decided is made when the capacity is whole; after four periods of waiting for that it is made anyway, which
//! grants at most one capacity too much. The background time it has had goes along (section III).
//! Not covered: the time of the migration threads' own VCPUs (a cost of the kernel instead).

use super::{Call, JobTimes, Overlap, Pick, Readings, Scheduler, id};
use crate::hardware::Uncore;
use crate::kernel::config::ThrottleSpec;
use crate::kernel::cores::CoreSet;
use crate::kernel::observer::RunMode;
use solocore_policy::balance::Balance;
use solocore_policy::ready_set::ReadySet;
use solocore_policy::sporadic_server::Config;
use solocore_policy::throttle::{Rule, Throttle};
use solocore_policy::vcpu::{Core, Mode};

/// Periods that a move waits for a whole budget.
const PATIENCE: u64 = 4;

/// A VCPU and its tasks.
pub struct Vcpu {
    pub core: usize,
    pub config: Config,
    /// Ranks of its tasks that have work.
    pub ready: ReadySet,
    /// Where the policy has sent it, and how long it waits for a whole budget, in ns.
    pub leaving: Option<(usize, u64)>,
    /// At the last monitor: transactions, time run in ns.
    pub seen: (u64, u64),
}

/// Throttling, and what it read last.
pub struct Throttling {
    pub spec: ThrottleSpec,
    pub policy: Box<Throttle>,
    pub uncore: Uncore,
    pub transactions: Vec<u64>,
    /// Background time of each core that has been told, in ns.
    pub background_ns: Vec<u64>,
}

/// See the module.
pub struct VcpuScheduler {
    pub cores: Vec<Box<Core>>,
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
    /// VCPUs that wait to move.
    pub leaving: usize,
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
            self.cores[core].wake(id(v), call.now_ns());
            self.rebalance(core, call);
        }
    }

    /// The migration thread of a core runs.
    fn rebalance(&mut self, from: usize, call: &mut Call<'_>) {
        let Some((balance, limit)) = &mut self.balance else { return };
        let Some(moves) = balance.rebalance(id(from), *limit) else { return };
        let now = call.now_ns();
        let mut moved = Vec::new();
        for (v, vcpu) in self.vcpus.iter_mut().enumerate() {
            // Also those that were on their way here: they are redirected.
            let target = vcpu.leaving.map_or(vcpu.core, |(to, _)| to);
            if target == from && balance.core_of(id(v)) == Some(moves.to) {
                self.leaving += usize::from(vcpu.leaving.is_none());
                vcpu.leaving = Some((moves.to as usize, now.saturating_add(PATIENCE * vcpu.config.period_ns)));
                moved.push(v);
            }
        }
        for v in moved {
            self.try_move(v, call);
        }
    }

    /// Makes a move that has been decided, if the VCPU has its whole budget.
    fn try_move(&mut self, v: usize, call: &mut Call<'_>) {
        let vcpu = &mut self.vcpus[v];
        let Some((to, give_up_ns)) = vcpu.leaving else { return };
        let (from, now) = (vcpu.core, call.now_ns());
        if to != from {
            self.cores[from].tick(now);
            let available = self.cores[from].vcpu(id(v)).map_or(0, |s| s.server().available_ns(now));
            if available < vcpu.config.capacity_ns && now < give_up_ns {
                return;
            }
            let moved = self.cores[from].vcpu(id(v)).cloned();
            self.cores[from].remove(id(v), now);
            match moved {
                Some(moved) => self.cores[to].add_moved(id(v), vcpu.config, &moved, now),
                None => self.cores[to].add(id(v), vcpu.config, now),
            };
            if !vcpu.ready.is_empty() {
                self.cores[to].wake(id(v), now);
            }
            vcpu.core = to;
            self.moves[from] += 1;
            call.observer.vcpu_migrated(v, from, to, call.now_ps);
            call.dirty.insert(from);
            call.dirty.insert(to);
        }
        vcpu.leaving = None;
        self.leaving -= 1;
    }

    /// Tells the throttling how long the core ran in the background, and asks whether it may go on.
    fn ask_throttling(&mut self, core: usize, now_ns: u64) {
        let Some(throttling) = &mut self.throttling else { return };
        let background = self.cores[core].background_ns();
        let ran = background - std::mem::replace(&mut throttling.background_ns[core], background);
        throttling.policy.ran(id(core), ran);
        let allowed = self.background && throttling.policy.allowed(id(core));
        if allowed != self.allowed[core] {
            self.allowed[core] = allowed;
            self.cores[core].allow_background(allowed, now_ns);
        }
    }

    /// When the core must ask again although the VCPU policy has nothing to do.
    fn next_check_ps(&self, core: usize, now_ps: u64) -> Option<u64> {
        let throttling = self.throttling.as_ref()?;
        let c = &self.cores[core];
        // Who has budget runs in any case, and with nobody or everybody throttled the answer stays the same.
        let open = throttling.policy.throttled() > 0 && throttling.policy.throttled() < throttling.policy.cpus();
        (open && c.with_budget() == 0 && c.waiting() > 0).then(|| now_ps.saturating_add(throttling.spec.check_ps))
    }

    fn monitor_intensity(&mut self, readings: &Readings<'_>) {
        let mut transactions = vec![0; self.vcpus.len()];
        self.vcpu.iter().zip(readings.tasks).for_each(|(&v, n)| transactions[v] += n);
        for (v, vcpu) in self.vcpus.iter_mut().enumerate() {
            let Some(state) = self.cores[vcpu.core].vcpu(id(v)) else { continue };
            let ran = state.foreground_ns() + state.background_ns();
            let (made, time) = (transactions[v] - vcpu.seen.0, ran.checked_sub(vcpu.seen.1).unwrap_or(ran));
            vcpu.seen = (transactions[v], ran);
            if time > 0 {
                // Transactions per ms: what a VCPU does when it runs, however seldom.
                let rate = u128::from(made) * 1_000_000 / u128::from(time);
                self.cores[vcpu.core].set_intensity(id(v), u64::try_from(rate).unwrap_or(u64::MAX));
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
            // Occupancy is that of reads.
            Rule::Latency => reads,
            Rule::Rate => reads + now.writes - then.writes,
        };
        self.policy.monitor(now.read_occupancy_ps - then.read_occupancy_ps, requests)
    }
}

impl Scheduler for VcpuScheduler {
    fn released(&mut self, task: usize, _: JobTimes, unfinished: bool, call: &mut Call<'_>) -> Overlap {
        if !unfinished {
            self.wake(task, call);
        }
        Overlap::Queue
    }

    fn next_job(&mut self, _: usize, _: JobTimes, _: &mut Call<'_>) {}

    fn unready(&mut self, task: usize, call: &mut Call<'_>) {
        let v = self.vcpu[task];
        let core = self.vcpus[v].core;
        self.vcpus[v].ready.remove(self.rank[task]);
        call.dirty.insert(core);
        if self.vcpus[v].ready.is_empty() {
            self.cores[core].block(id(v), call.now_ns());
            if let Some(trigger) = self.balance.as_ref().and_then(|(balance, _)| balance.trigger()) {
                self.rebalance(trigger as usize, call);
            }
        }
    }

    /// A VCPU whose only task has ended is no load any more (maracas, section VI-C: tasks terminate).
    fn ended(&mut self, task: usize) {
        let v = self.vcpu[task];
        let alone = self.vcpu.iter().filter(|&&of| of == v).count() == 1;
        if let (Some((balance, _)), true) = (&mut self.balance, alone) {
            balance.remove(id(v));
        }
    }

    fn woken(&mut self, task: usize, _: JobTimes, call: &mut Call<'_>) {
        self.wake(task, call);
    }

    fn pick(&mut self, core: usize, call: &mut Call<'_>) -> Pick {
        let now = call.now_ns();
        self.cores[core].tick(now);
        if self.leaving > 0 {
            (0..self.vcpus.len()).filter(|&v| self.vcpus[v].core == core).collect::<Vec<_>>().into_iter().for_each(
                |v| {
                    self.try_move(v, call);
                },
            );
            // Its own picks are in what follows; this core needs no other turn.
            call.dirty.remove(core);
        }
        self.ask_throttling(core, now);
        let (v, mode) = match self.cores[core].mode() {
            Mode::Idle => (None, RunMode::Foreground),
            Mode::Foreground(v) => (Some(v), RunMode::Foreground),
            Mode::Background(v) => (Some(v), RunMode::Background),
        };
        let rank = v.and_then(|v| self.vcpus[v as usize].ready.first());
        let mut pick = Pick::new(rank.map(|rank| self.order[rank as usize]), self.cores[core].until_ns());
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
        // What ran until now, background time too, belongs to the period that ends.
        for core in 0..self.cores.len() {
            self.cores[core].tick(call.now_ns());
            self.ask_throttling(core, call.now_ns());
        }
        if self.by_intensity {
            self.monitor_intensity(readings);
        }
        if let Some(throttling) = &mut self.throttling {
            let contended = throttling.monitor(readings);
            call.observer.monitored(contended, throttling.policy.throttled(), call.now_ps);
        }
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
