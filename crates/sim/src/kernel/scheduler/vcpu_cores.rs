//! The policy cores of a VCPU scheduler, and a record of every call of them.
//!
//! Problem: a trace of the simulator is to be replayed by the same checker as one of the kernel. So
//! it must hold each call with its time and answer, in the order in which they were made. Rule: all
//! calls of a policy core are made here, and are reported to the observer after each event, if it
//! records them. A new VCPU arrives with its whole capacity. A VCPU moves as in the kernel: it
//! leaves and arrives with its budget (`solocore_model::sched_trace` has the events).

use super::interface::Call;
use super::places::id;
use solocore_model::sched_trace::{Event, Kind, NONE};
use solocore_policy::sporadic_server::Config;
use solocore_policy::vcpu::{Background, Mode, VcpuCore};
use std::ops::Index;

/// See the module.
pub struct Cores {
    cores: Vec<Box<VcpuCore>>,
    log: Vec<Event>,
    recording: bool,
}

impl Index<usize> for Cores {
    type Output = VcpuCore;

    fn index(&self, core: usize) -> &VcpuCore {
        &self.cores[core]
    }
}

impl Cores {
    /// `count` cores without VCPUs. Calls before the first observer is known are recorded for it.
    pub fn new(count: usize, policy: Background, now_ns: u64) -> Self {
        Self {
            cores: (0..count).map(|_| VcpuCore::new(policy, now_ns)).collect(),
            log: Vec::new(),
            recording: true,
        }
    }

    pub fn len(&self) -> usize {
        self.cores.len()
    }

    /// Reports the calls since the last time to the observer.
    pub fn tell(&mut self, call: &mut Call<'_>) {
        if !self.recording {
            return;
        }
        self.recording = call.observer.wants_decisions();
        if self.recording {
            self.log.drain(..).for_each(|event| call.observer.decided(event));
        } else {
            self.log = Vec::new();
        }
    }

    fn push(&mut self, core: usize, now_ns: u64, event: Kind, id_of: u32, (a, b): (u64, u64)) {
        if self.recording {
            self.log.push(Event { time_ns: now_ns, cpu: id(core), event, id: id_of, a, b });
        }
    }

    /// Records a call that has an answer.
    fn answered(&mut self, core: usize, now_ns: u64, event: Kind, id_of: u32) {
        if !self.recording {
            return;
        }
        let c = &self.cores[core];
        let (current, mode) = match c.mode() {
            Mode::Idle => (NONE, 0u64),
            Mode::Foreground(v) => (v, 1),
            Mode::Background(v) => (v, 2),
        };
        let answer = (u64::from(current) | mode << 32, c.until_ns());
        self.push(core, now_ns, event, id_of, answer);
    }

    pub fn tick(&mut self, core: usize, now_ns: u64) {
        self.cores[core].tick(now_ns);
        self.answered(core, now_ns, Kind::VcpuTick, NONE);
    }

    pub fn wake(&mut self, core: usize, vcpu: usize, now_ns: u64) {
        self.cores[core].wake(id(vcpu), now_ns);
        self.answered(core, now_ns, Kind::VcpuWake, id(vcpu));
    }

    pub fn block(&mut self, core: usize, vcpu: usize, now_ns: u64) {
        self.cores[core].block(id(vcpu), now_ns);
        self.answered(core, now_ns, Kind::VcpuBlock, id(vcpu));
    }

    pub fn allow_background(&mut self, core: usize, allowed: bool, now_ns: u64) {
        self.cores[core].allow_background(allowed, now_ns);
        self.answered(core, now_ns, Kind::VcpuAllow, u32::from(allowed));
    }

    /// False if the configuration is out of range.
    pub fn add(&mut self, core: usize, vcpu: usize, config: Config, now_ns: u64) -> bool {
        let added = self.cores[core].add(id(vcpu), config, now_ns);
        if added {
            self.arrived(core, vcpu, config, now_ns);
        }
        added
    }

    /// A VCPU leaves for another core, blocked, with its budget. It must be there.
    pub fn move_to(
        &mut self,
        (from, to): (usize, usize),
        vcpu: usize,
        config: Config,
        now_ns: u64,
    ) {
        let taken = self.cores[from].take(id(vcpu), now_ns);
        self.answered(from, now_ns, Kind::VcpuLeave, id(vcpu));
        match taken {
            Some(taken) => self.cores[to].put(id(vcpu), &taken, now_ns),
            None => self.cores[to].add(id(vcpu), config, now_ns),
        };
        self.arrived(to, vcpu, config, now_ns);
    }

    fn arrived(&mut self, core: usize, vcpu: usize, config: Config, now_ns: u64) {
        let Some(v) = self.cores[core].vcpu(id(vcpu)).filter(|_| self.recording).cloned() else {
            return;
        };
        self.push(core, now_ns, Kind::VcpuAdd, id(vcpu), (config.capacity_ns, config.period_ns));
        for r in v.server().replenishments() {
            self.push(core, now_ns, Kind::VcpuBudget, id(vcpu), (r.time_ns, r.amount_ns));
        }
        self.push(core, now_ns, Kind::VcpuArrive, id(vcpu), (v.foreground_ns(), v.background_ns()));
        if v.intensity() > 0 {
            self.push(core, now_ns, Kind::VcpuIntensity, id(vcpu), (v.intensity(), 0));
        }
    }

    pub fn set_intensity(&mut self, core: usize, vcpu: usize, value: u64, now_ns: u64) {
        self.cores[core].set_intensity(id(vcpu), value);
        self.push(core, now_ns, Kind::VcpuIntensity, id(vcpu), (value, 0));
    }
}
