//! The VCPU scheduler of a core (`policy/include/solocore/vcpu.h`): sporadic servers by rate, and
//! policies for the remaining time (maracas, sections II and III).

use crate::NONE;
use crate::raw;
use crate::sporadic_server::{Config, Server};

/// A VCPU of a core.
pub use crate::raw::sc_vcpu as Vcpu;

/// A core and its VCPUs. 1.5 MiB: it lives in a box.
pub use crate::raw::sc_vcpu_core as VcpuCore;

/// Choice among the VCPUs without budget, when none has budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Background {
    /// The one with the least background time so far; it stays until a VCPU with budget runs.
    #[default]
    LeastTime = 0,
    /// The one that ran before, or else the one that is replenished first.
    Keep = 1,
    /// The least memory-intensive one.
    LeastMemory = 2,
}

/// State of a VCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no work.
    Blocked,
    /// It is runnable and has budget.
    Foreground,
    /// It is runnable and waits for its replenishment.
    Background,
}

/// Mode of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It runs no VCPU.
    Idle,
    /// It runs this VCPU, at the expense of its budget.
    Foreground(u32),
    /// It runs this VCPU in remaining time, without charging its budget.
    Background(u32),
}

/// Every method with a time first charges the time that passed to the running VCPU; a time before
/// the last one is read as the last one. It then decides again: see [`VcpuCore::mode`] and
/// [`VcpuCore::until_ns`].
impl VcpuCore {
    /// A core without VCPUs.
    pub fn new(policy: Background, now_ns: u64) -> Box<Self> {
        // SAFETY: it has only integers, which may all be zero.
        let mut core = unsafe { crate::zeroed::<Self>() };
        // SAFETY: `core` is zeroed and of the layout that both sides check.
        let ok = unsafe { raw::sc_vcpu_init(&raw mut *core, policy as u32, now_ns) };
        assert_ne!(ok, 0, "every policy of the enumeration is known to the C side");
        core
    }

    /// Adds a blocked VCPU with its whole capacity; false if the id is 4096 or above or taken, or
    /// the configuration out of range.
    pub fn add(&mut self, id: u32, config: Config, now_ns: u64) -> bool {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_add(self, id, &config.into(), now_ns) != 0 }
    }

    /// Adds a blocked VCPU that comes from another core, as [`Self::add`], with the times that it
    /// has run. By maracas, section III, a VCPU is tracked for the background time it has used so
    /// far, on any core. Its budget is whole.
    pub fn add_moved(&mut self, id: u32, config: Config, from: &Vcpu, now_ns: u64) -> bool {
        let added = self.add(id, config, now_ns);
        if let (true, Some(v)) = (added, self.vcpu.get_mut(id as usize)) {
            // It is blocked, so that no heap is ordered by them yet.
            (v.foreground_ns, v.background_ns) = (from.foreground_ns, from.background_ns);
            v.intensity = from.intensity;
        }
        added
    }

    /// Removes a VCPU with its budget from the core, for [`Self::put`] on another core; `None` if
    /// it is not there.
    pub fn take(&mut self, id: u32, now_ns: u64) -> Option<Vcpu> {
        let mut taken = self.vcpu(id)?.clone();
        // SAFETY: `self` is a valid core, and `taken` a VCPU to write to.
        let done = unsafe { raw::sc_vcpu_take(self, id, &raw mut taken, now_ns) != 0 };
        done.then_some(taken)
    }

    /// Adds a blocked VCPU that was removed from another core, with the budget that it had; false
    /// if the id is taken or too large.
    pub fn put(&mut self, id: u32, vcpu: &Vcpu, now_ns: u64) -> bool {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_put(self, id, vcpu, now_ns) != 0 }
    }

    /// The picked VCPU does not run from now on, and no VCPU is charged, until [`Self::resume`].
    /// Nothing is decided.
    pub fn pause(&mut self, now_ns: u64) {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_pause(self, now_ns) }
    }

    /// The picked VCPU runs from now on.
    pub fn resume(&mut self, now_ns: u64) {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_resume(self, now_ns) }
    }

    /// Removes a VCPU from the core; false if it is not there.
    pub fn remove(&mut self, id: u32, now_ns: u64) -> bool {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_remove(self, id, now_ns) != 0 }
    }

    /// The VCPU has work; false if it is not there.
    pub fn wake(&mut self, id: u32, now_ns: u64) -> bool {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_wake(self, id, now_ns) != 0 }
    }

    /// The VCPU has no more work; false if it is not there.
    pub fn block(&mut self, id: u32, now_ns: u64) -> bool {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_block(self, id, now_ns) != 0 }
    }

    /// Decides again at [`Self::until_ns`], or at any other time.
    pub fn tick(&mut self, now_ns: u64) {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_tick(self, now_ns) }
    }

    /// Whether VCPUs without budget may run; at first they may.
    pub fn allow_background(&mut self, allowed: bool, now_ns: u64) {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_allow(self, allowed.into(), now_ns) }
    }

    /// Sets the memory intensity of a VCPU, in any unit (0 at first), from the next decision on;
    /// false if it is not there.
    pub fn set_intensity(&mut self, id: u32, value: u64) -> bool {
        // SAFETY: `self` is a valid core.
        unsafe { raw::sc_vcpu_intensity(self, id, value) != 0 }
    }

    /// Present mode of the core.
    pub fn mode(&self) -> Mode {
        match (self.mode, self.current) {
            (_, NONE) | (0, _) => Mode::Idle,
            (1, id) => Mode::Foreground(id),
            (_, id) => Mode::Background(id),
        }
    }

    /// End of the present mode, in ns; then call [`Self::tick`]. [`crate::UNLIMITED`] if nothing is
    /// due.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Time of the last call, in ns.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Background time of all VCPUs so far, in ns, also of those that have left.
    pub fn background_ns(&self) -> u64 {
        self.background_ns
    }

    /// Number of runnable VCPUs with budget.
    pub fn with_budget(&self) -> usize {
        self.foreground.len()
    }

    /// Number of runnable VCPUs that wait for their replenishment.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A VCPU, if it is there.
    pub fn vcpu(&self, id: u32) -> Option<&Vcpu> {
        self.vcpu.get(id as usize).filter(|v| v.state != 0)
    }
}

impl Vcpu {
    /// State of the VCPU.
    pub fn state(&self) -> State {
        match self.state {
            1 => State::Blocked,
            2 => State::Foreground,
            _ => State::Background,
        }
    }

    /// A VCPU that comes from another core, for a replay of events.
    pub fn arriving(
        server: Server,
        foreground_ns: u64,
        background_ns: u64,
        intensity: u64,
    ) -> Self {
        Self { server, foreground_ns, background_ns, intensity, state: 1, reserved: 0 }
    }

    /// Its budget, as of the core's last call.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Time in ns that it ran with budget.
    pub fn foreground_ns(&self) -> u64 {
        self.foreground_ns
    }

    /// Time in ns that it ran without budget.
    pub fn background_ns(&self) -> u64 {
        self.background_ns
    }

    /// Its memory intensity, as stated.
    pub fn intensity(&self) -> u64 {
        self.intensity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNLIMITED;
    use proptest::prelude::*;

    unsafe extern "C" {
        static sc_size_vcpu: u64;
        static sc_size_vcpu_core: u64;
    }

    fn config(capacity_ns: u64, period_ns: u64) -> Config {
        Config { capacity_ns, period_ns, strict: false, limit: 8 }
    }

    fn core(policy: Background, vcpus: &[(u64, u64)]) -> Box<VcpuCore> {
        let mut c = VcpuCore::new(policy, 0);
        for (id, &(capacity, period)) in vcpus.iter().enumerate() {
            let id = u32::try_from(id).unwrap();
            assert!(c.add(id, config(capacity, period), 0) && c.wake(id, 0));
        }
        c
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: constants of the C side.
        let sizes = unsafe { [sc_size_vcpu, sc_size_vcpu_core] };
        assert_eq!(sizes, [size_of::<Vcpu>() as u64, size_of::<VcpuCore>() as u64]);
    }

    #[test]
    fn the_shortest_period_runs_until_its_budget_is_used_up() {
        let mut c = core(Background::LeastTime, &[(3, 20), (2, 10)]);
        assert_eq!((c.mode(), c.until_ns()), (Mode::Foreground(1), 2));
        c.tick(2);
        assert_eq!((c.mode(), c.until_ns()), (Mode::Foreground(0), 5));
        c.tick(5);
        assert_eq!(
            (c.mode(), c.until_ns()),
            (Mode::Background(0), 10),
            "equal background times: the lower id"
        );
        c.tick(10);
        assert_eq!((c.mode(), c.vcpu(0).unwrap().background_ns()), (Mode::Foreground(1), 5));
        c.tick(12);
        assert_eq!(
            (c.mode(), c.until_ns()),
            (Mode::Background(1), 20),
            "it had less background time"
        );
        c.allow_background(false, 13);
        assert_eq!((c.mode(), c.until_ns(), c.waiting()), (Mode::Idle, 20, 2));
    }

    #[test]
    fn the_one_that_ran_is_kept_or_the_first_to_be_replenished_runs() {
        let mut c = core(Background::Keep, &[(3, 20), (2, 10)]);
        c.tick(2);
        c.tick(5);
        assert_eq!(c.mode(), Mode::Background(0));
        c.block(0, 6);
        assert_eq!(c.mode(), Mode::Background(1));
        c.block(1, 7);
        assert_eq!((c.mode(), c.until_ns()), (Mode::Idle, UNLIMITED));
    }

    #[test]
    fn a_vcpu_takes_its_background_time_along() {
        let mut from = core(Background::LeastTime, &[(1, 10)]);
        from.tick(1);
        from.tick(10);
        let moved = from.vcpu(0).unwrap().clone();
        assert_eq!((moved.foreground_ns(), moved.background_ns()), (1, 9));
        let mut to = core(Background::LeastTime, &[(1, 10)]);
        assert!(to.add_moved(1, config(1, 10), &moved, 0) && to.wake(1, 0));
        assert!(!to.add_moved(1, config(1, 10), &moved, 0));
        to.tick(1);
        to.tick(2);
        assert_eq!(to.mode(), Mode::Background(0), "the other has had less");
    }

    #[test]
    fn nobody_is_charged_while_the_core_is_paused() {
        let mut c = VcpuCore::new(Background::LeastTime, 0);
        assert!(
            c.add(0, Config { capacity_ns: 4, period_ns: 10, strict: true, limit: 8 }, 0)
                && c.wake(0, 0)
        );
        c.tick(1);
        c.pause(1);
        c.resume(3);
        assert_eq!(
            (c.mode(), c.until_ns(), c.vcpu(0).unwrap().foreground_ns()),
            (Mode::Foreground(0), 6, 1)
        );
        c.tick(6);
        assert_eq!((c.mode(), c.until_ns()), (Mode::Background(0), 10), "the first ns comes back");
        c.tick(10);
        assert_eq!((c.mode(), c.until_ns()), (Mode::Foreground(0), 11));
        c.tick(11);
        assert_eq!(
            (c.mode(), c.until_ns()),
            (Mode::Background(0), 13),
            "and the others a period after they were used"
        );
    }

    #[test]
    fn a_vcpu_takes_its_budget_along() {
        let mut from = core(Background::LeastTime, &[(4, 10)]);
        from.tick(3);
        let moved = from.take(0, 3).unwrap();
        assert!(from.vcpu(0).is_none() && from.take(0, 3).is_none());
        let mut to = VcpuCore::new(Background::LeastTime, 0);
        assert!(to.put(5, &moved, 3) && !to.put(5, &moved, 3) && to.wake(5, 3));
        assert_eq!((to.mode(), to.until_ns()), (Mode::Foreground(5), 4));
        to.tick(4);
        assert_eq!(
            (to.mode(), to.until_ns(), to.vcpu(5).unwrap().foreground_ns()),
            (Mode::Background(5), 10, 4)
        );
    }

    #[test]
    fn the_least_memory_intensive_runs() {
        let mut c = core(Background::LeastMemory, &[(3, 20), (2, 10)]);
        assert!(c.set_intensity(0, 7) && !c.set_intensity(2, 7));
        c.tick(2);
        c.tick(5);
        assert_eq!(c.mode(), Mode::Background(1));
        c.set_intensity(1, 8);
        c.tick(6);
        assert_eq!(c.mode(), Mode::Background(0));
    }

    /// Runs a core until `end`, with a VCPU waking or blocking now and then. Returns the times when
    /// each ran with budget, as (start, end).
    fn simulate(
        vcpus: &[(u64, u64)],
        strict: bool,
        limit: u32,
        steps: &[(u32, bool, u64)],
        end: u64,
    ) -> Vec<Vec<(u64, u64)>> {
        let mut c = VcpuCore::new(Background::LeastTime, 0);
        for (id, &(capacity_ns, period_ns)) in (0u32..).zip(vcpus) {
            assert!(c.add(id, Config { capacity_ns, period_ns, strict, limit }, 0));
        }
        let mut ran = vec![Vec::new(); vcpus.len()];
        let mut now = 0;
        let mut steps = steps.iter().cycle();
        let mut change = 0;
        while now < end {
            if now == change {
                let &(id, wake, pause) = steps.next().unwrap();
                let id = id % u32::try_from(vcpus.len()).unwrap();
                assert!(if wake { c.wake(id, now) } else { c.block(id, now) });
                change = now + 1 + pause;
            }
            let until = c.until_ns().min(change);
            assert!(until > now, "until is after now");
            if let Mode::Foreground(id) = c.mode() {
                ran[id as usize].push((now, until));
            }
            now = until;
            c.tick(now);
        }
        for (id, ran) in (0u32..).zip(&ran) {
            assert_eq!(
                c.vcpu(id).unwrap().foreground_ns(),
                ran.iter().map(|(a, b)| b - a).sum::<u64>()
            );
        }
        ran
    }

    /// The longest execution in a window of `span`: windows that start where a run starts are the
    /// worst.
    fn most(ran: &[(u64, u64)], span: u64) -> u64 {
        let within = |from: u64| {
            ran.iter().map(|&(a, b)| b.min(from + span).saturating_sub(a.max(from))).sum::<u64>()
        };
        ran.iter().map(|&(start, _)| within(start)).max().unwrap_or(0)
    }

    proptest! {
        /// A strict server has at most its capacity in any window of its period, under any
        /// preemption.
        #[test]
        fn strict_servers_keep_to_their_capacity_in_every_window(
            vcpus in prop::collection::vec((1u64..30, 1u64..60), 1..5), limit in 1u32..=16,
            steps in prop::collection::vec((any::<u32>(), prop::bool::weighted(0.6), 0u64..20), 1..60),
        ) {
            let vcpus: Vec<_> = vcpus.into_iter().map(|(c, t)| (c.min(t), t)).collect();
            let ran = simulate(&vcpus, true, limit, &steps, 1000);
            for (ran, (capacity, period)) in ran.iter().zip(vcpus) {
                prop_assert!(most(ran, period) <= capacity, "{:?} of {} in {}", ran, capacity, period);
            }
        }

        /// VCPUs that never block, with harmonic periods and at most the whole core together, get
        /// their capacity in every period from the second one on (they wake during the first).
        #[test]
        fn what_fits_gets_its_capacity_in_every_period(shares in prop::collection::vec(1u64..12, 1..5)) {
            let vcpus: Vec<_> = shares.iter().zip([12u64, 24, 48, 96]).map(|(&s, t)| (s * t / 12 / shares.len() as u64, t))
                .filter(|v| v.0 > 0).collect();
            let steps: Vec<_> = (0u32..).zip(&vcpus).map(|(id, _)| (id, true, 0)).collect();
            if vcpus.is_empty() { return Ok(()); }
            let ran = simulate(&vcpus, false, 16, &steps, 96 * 6);
            for (ran, (capacity, period)) in ran.iter().zip(vcpus) {
                for k in 1..(96 * 6 / period) {
                    let (from, to) = (k * period, (k + 1) * period);
                    let got: u64 = ran.iter().map(|&(a, b)| b.min(to).saturating_sub(a.max(from))).sum();
                    prop_assert!(got >= capacity, "period {} of {}: {} of {}", k, period, got, capacity);
                }
            }
        }
    }
}
