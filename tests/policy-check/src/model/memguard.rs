//! MemGuard: each core may make Q memory accesses per period and is then stopped until the next
//! one; what a core is not predicted to need goes to a pool that others may reclaim from; when
//! every core has used what it reserved, the rest of the period is free for all (spare) or a
//! further round starts (proportional) (single-core-equivalence, section 2.2).
//!
//! Where `policy-spec` leaves a choice:
//! * the core whose account completes a round answers SC_GO_ALL even if it stays throttled itself,
//!   because the others must be told; the throttled word tells the difference;
//! * a chunk is a number of accesses, and as such at most SC_MAX_ACCESSES;
//! * the prediction of a kind without limit stands still.

use crate::{Answer, Event, World};

const MAX_CPUS: u64 = 8;
const MAX_TIME: u64 = 1 << 62;
const MAX_SPAN: u64 = 1 << 42;
const MAX_ACCESSES: u64 = 0xffff_ffff;
const MAX_SAMPLE: u64 = 0x7fff_ffff;
const UNLIMITED: u64 = u64::MAX;
const STOP: u64 = 0;
const GO: u64 = 1;
const GO_ALL: u64 = 2;
const HARD: u64 = 1;
const PREDICT: u64 = 2;
const RECLAIM: u64 = 4;
const SPARE: u64 = 1;
const PROPORTIONAL: u64 = 2;

fn valid_budget(q: u64) -> bool {
    (1..=MAX_ACCESSES).contains(&q) || q == UNLIMITED
}

/// Is epoch `word` older than `mine`, of numbers that wrap?
fn older(word: u32, mine: u32) -> bool {
    (1..=0x7fff_ffff).contains(&mine.wrapping_sub(word))
}

/// What the cores gave up in the period `epoch`.
#[derive(Default)]
struct Pool {
    epoch: u32,
    amount: u64,
}

impl Pool {
    fn donate(&mut self, epoch: u32, n: u64) {
        if older(self.epoch, epoch) {
            *self = Pool { epoch, amount: n };
        } else if self.epoch == epoch {
            self.amount = (self.amount + n).min(MAX_ACCESSES);
        }
    }

    fn take(&mut self, epoch: u32, want: u64) -> u64 {
        let got = if self.epoch == epoch { want.min(self.amount) } else { 0 };
        self.amount -= got;
        got
    }
}

/// How many cores have used what they reserved up to the round `round` of the period `epoch`.
#[derive(Default)]
struct Done {
    epoch: u32,
    round: u64,
    count: u64,
}

/// One kind of access (reads, writes) of a core.
#[derive(Default)]
struct Kind {
    reservation: u64,
    request: Option<u64>,
    budget: u64,
    used: u64,
    predicted: u64,
}

impl Kind {
    fn new(reservation: u64) -> Self {
        Kind { reservation, predicted: reservation, ..Kind::default() }
    }

    fn limited(&self) -> bool {
        self.reservation != UNLIMITED
    }

    /// The accesses reserved by the end of round `round`.
    fn reserved(&self, round: u64) -> u64 {
        self.reservation.saturating_mul(round + 1)
    }

    fn predict(&mut self) {
        if self.limited() {
            self.predicted = (3 * self.predicted + self.used.min(MAX_ACCESSES)).div_ceil(4);
        }
        if let Some(q) = self.request.take() {
            self.reservation = q;
            if q != UNLIMITED {
                self.predicted = q;
            }
        }
    }
}

struct ModelBudgetCore {
    flags: u64,
    next_ns: u64,
    epoch: u32,
    round: u64,
    counted: bool,
    throttled: bool,
    spare: bool,
    kind: [Kind; 2],
}

impl ModelBudgetCore {
    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Starts a period: the budget is the reservation, less what the prediction gives up.
    fn begin(&mut self, pool: &mut [Pool; 2]) {
        self.round = 0;
        self.counted = false;
        self.throttled = false;
        self.spare = false;
        let donates = self.has(PREDICT) && !self.has(HARD);
        for (kind, pool) in self.kind.iter_mut().zip(pool) {
            kind.used = 0;
            if !kind.limited() {
                kind.budget = UNLIMITED;
                continue;
            }
            kind.budget =
                if donates { kind.predicted.clamp(1, kind.reservation) } else { kind.reservation };
            pool.donate(self.epoch, kind.reservation - kind.budget);
        }
    }

    /// Joins the round that the done-word is in.
    fn join(&mut self, sharing: u64, round: u64) {
        self.round = round;
        self.counted = false;
        self.throttled = false;
        if sharing == SPARE {
            self.spare = true;
            return;
        }
        for kind in self.kind.iter_mut().filter(|kind| kind.limited()) {
            kind.budget = kind.budget.saturating_add(kind.reservation);
            self.throttled |= kind.used >= kind.budget;
        }
    }

    fn sample(&self, kind: usize) -> u64 {
        let kind = &self.kind[kind];
        if self.throttled {
            1
        } else if !kind.limited() || self.spare {
            MAX_SAMPLE
        } else {
            kind.budget.saturating_sub(kind.used).clamp(1, MAX_SAMPLE)
        }
    }
}

struct System {
    period: u64,
    chunk: u64,
    sharing: u64,
    cores: u64,
    pool: [Pool; 2],
    done: Done,
    core: Vec<Option<ModelBudgetCore>>,
}

impl System {
    fn new(event: &Event) -> Option<Self> {
        let &Event { a: period, b: chunk, c: sharing, d: cores, .. } = event;
        let valid = (1..=MAX_SPAN).contains(&period)
            && (1..=MAX_ACCESSES).contains(&chunk)
            && sharing <= 2
            && (1..=MAX_CPUS).contains(&cores);
        let core = (0..cores.min(MAX_CPUS)).map(|_| None).collect();
        valid.then(|| System {
            period,
            chunk,
            sharing,
            cores,
            pool: Default::default(),
            done: Done::default(),
            core,
        })
    }

    fn add(&mut self, event: &Event) -> [u64; 6] {
        let &Event { a: reads, b: writes, c: flags, .. } = event;
        let slot = &mut self.core[event.id as usize];
        if slot.is_some()
            || !valid_budget(reads)
            || !valid_budget(writes)
            || flags > HARD + PREDICT + RECLAIM
        {
            return [0; 6];
        }
        let mut core = ModelBudgetCore {
            flags,
            next_ns: event.now.min(MAX_TIME) + self.period,
            epoch: 0,
            round: 0,
            counted: false,
            throttled: false,
            spare: false,
            kind: [Kind::new(reads), Kind::new(writes)],
        };
        core.begin(&mut self.pool);
        *slot = Some(core);
        [1, 0, 0, 0, 0, 0]
    }

    /// Counts a core that used its reservation up. Does that complete the round?
    fn count(done: &mut Done, core: &ModelBudgetCore, cores: u64, sharing: u64) -> bool {
        if older(done.epoch, core.epoch) && core.round == 0 {
            *done = Done { epoch: core.epoch, round: 0, count: 1 };
        } else if done.epoch == core.epoch && done.round == core.round {
            done.count += 1;
        } else {
            return false;
        }
        let more = match sharing {
            SPARE => done.round == 0,
            PROPORTIONAL => done.round < 65535,
            _ => false,
        };
        if done.count < cores || !more {
            return false;
        }
        done.round += 1;
        done.count = 0;
        true
    }

    fn verdict(&mut self, id: usize, k: usize) -> u64 {
        let (cores, sharing, chunk) = (self.cores, self.sharing, self.chunk);
        let core = self.core[id].as_mut().expect("the caller has looked");
        if core.throttled {
            return STOP;
        }
        let reclaims = core.has(RECLAIM);
        let kind = &mut core.kind[k];
        if !kind.limited() || core.spare || kind.used < kind.budget {
            return GO;
        }
        let reserved = kind.reserved(core.round);
        if reclaims {
            let target =
                if kind.used < reserved { reserved } else { kind.used.saturating_add(chunk) };
            let want = target.saturating_sub(kind.budget).min(MAX_ACCESSES);
            kind.budget += self.pool[k].take(core.epoch, want);
            if kind.used < kind.budget {
                return GO;
            }
        }
        if kind.used >= reserved && !core.counted {
            core.counted = true;
            if Self::count(&mut self.done, core, cores, sharing) {
                core.join(sharing, self.done.round);
                return GO_ALL;
            }
        }
        core.throttled = true;
        STOP
    }

    fn account(&mut self, event: &Event) -> [u64; 6] {
        let id = event.id as usize;
        let (Some(core), Ok(k @ 0..=1)) = (&mut self.core[id], usize::try_from(event.a)) else {
            return [0; 6];
        };
        core.kind[k].used = core.kind[k].used.saturating_add(event.b);
        let verdict = self.verdict(id, k);
        let core = self.core[id].as_ref().expect("it was there");
        let kind = &core.kind[k];
        [verdict, core.sample(k), kind.used, kind.budget, u64::from(core.throttled), 0]
    }

    fn replenish(&mut self, event: &Event) -> [u64; 6] {
        let now = event.now.min(MAX_TIME);
        let Some(core) = &mut self.core[event.id as usize] else {
            return [0; 6];
        };
        let began = now >= core.next_ns;
        let was_throttled = began && core.throttled;
        if began {
            let periods = (now - core.next_ns) / self.period + 1;
            core.next_ns += periods * self.period;
            // The epoch is a 32-bit number that wraps.
            core.epoch = core.epoch.wrapping_add((periods & 0xffff_ffff) as u32);
            core.kind.iter_mut().for_each(Kind::predict);
            core.begin(&mut self.pool);
        }
        let amounts = self.pool[0].amount << 32 | self.pool[1].amount;
        let [reads, writes] = &core.kind;
        [
            u64::from(began),
            u64::from(was_throttled),
            reads.budget,
            writes.budget,
            core.next_ns,
            amounts,
        ]
    }

    fn resume(&mut self, event: &Event) -> [u64; 6] {
        let Some(core) = &mut self.core[event.id as usize] else {
            return [0; 6];
        };
        if self.done.epoch == core.epoch && self.done.round > core.round {
            core.join(self.sharing, self.done.round);
        }
        let verdict = if core.throttled { STOP } else { GO };
        [verdict, core.sample(0), core.sample(1), core.round, 0, 0]
    }

    fn request(&mut self, event: &Event) -> [u64; 6] {
        match (&mut self.core[event.id as usize], usize::try_from(event.a)) {
            (Some(core), Ok(k @ 0..=1)) if valid_budget(event.b) => {
                core.kind[k].request = Some(event.b);
                [1, 0, 0, 0, 0, 0]
            }
            _ => [0; 6],
        }
    }

    fn state(&self, event: &Event) -> [u64; 6] {
        self.core[event.id as usize].as_ref().map_or([0; 6], |core| {
            let [reads, writes] = &core.kind;
            [
                reads.used,
                writes.used,
                reads.budget,
                writes.budget,
                reads.predicted,
                writes.predicted,
            ]
        })
    }
}

#[derive(Default)]
struct MemGuard {
    system: Option<System>,
}

impl World for MemGuard {
    fn apply(&mut self, event: &Event) -> Answer {
        let Some(system) = &mut self.system else {
            if event.op == 0 {
                self.system = System::new(event);
            }
            return Answer { word: [u64::from(self.system.is_some()), 0, 0, 0, 0, 0] };
        };
        if u64::from(event.id) >= system.cores {
            return Answer::default();
        }
        let word = match event.op {
            1 => system.add(event),
            2 => system.account(event),
            3 => system.replenish(event),
            4 => system.resume(event),
            5 => system.request(event),
            6 => system.state(event),
            _ => [0; 6],
        };
        Answer { word }
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::new(MemGuard::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A period of 1000 ns and a chunk of 10.
    fn system(sharing: u64, cores: &[(u64, u64)]) -> Box<dyn World> {
        let mut world = world();
        let init = Event { a: 1000, b: 10, c: sharing, d: cores.len() as u64, ..Event::default() };
        assert_eq!(world.apply(&init).word[0], 1);
        for (id, &(q, flags)) in (0..).zip(cores) {
            let core = Event { op: 1, id, a: q, b: UNLIMITED, c: flags, ..Event::default() };
            assert_eq!(world.apply(&core).word[0], 1);
        }
        world
    }

    fn account(world: &mut dyn World, id: u32, reads: u64) -> [u64; 5] {
        let word = world.apply(&Event { op: 2, id, b: reads, ..Event::default() }).word;
        [word[0], word[1], word[2], word[3], word[4]]
    }

    fn replenish(world: &mut dyn World, id: u32, now: u64) -> [u64; 6] {
        world.apply(&Event { op: 3, id, now, ..Event::default() }).word
    }

    fn resume(world: &mut dyn World, id: u32) -> [u64; 4] {
        let word = world.apply(&Event { op: 4, id, ..Event::default() }).word;
        [word[0], word[1], word[2], word[3]]
    }

    #[test]
    fn a_core_is_stopped_at_its_budget_and_goes_on_in_the_next_period() {
        let mut world = system(0, &[(100, 0)]);
        assert_eq!(account(&mut *world, 0, 99), [GO, 1, 99, 100, 0]);
        assert_eq!(account(&mut *world, 0, 1), [STOP, 1, 100, 100, 1]);
        assert_eq!(replenish(&mut *world, 0, 999), [0, 0, 100, UNLIMITED, 1000, 0]);
        assert_eq!(replenish(&mut *world, 0, 3500), [1, 1, 100, UNLIMITED, 4000, 0]);
        assert_eq!(account(&mut *world, 0, 1), [GO, 99, 1, 100, 0]);
    }

    #[test]
    fn what_is_not_needed_is_reclaimed() {
        let mut world = system(0, &[(100, PREDICT), (50, RECLAIM)]);
        // predicted = ceil((3 * 100 + 0) / 4) = 75: core 0 gives 25 away.
        assert_eq!(replenish(&mut *world, 0, 1000), [1, 0, 75, UNLIMITED, 2000, 25 << 32]);
        assert_eq!(replenish(&mut *world, 1, 1000), [1, 0, 50, UNLIMITED, 2000, 25 << 32]);
        assert_eq!(account(&mut *world, 1, 50), [GO, 10, 50, 60, 0]);
        assert_eq!(account(&mut *world, 1, 10), [GO, 10, 60, 70, 0]);
        assert_eq!(account(&mut *world, 1, 10), [GO, 5, 70, 75, 0]);
        assert_eq!(account(&mut *world, 1, 5), [STOP, 1, 75, 75, 1]);
        // The donor needs more than predicted: 100 were reserved, 25 are gone.
        assert_eq!(account(&mut *world, 0, 75), [STOP, 1, 75, 75, 1]);
    }

    #[test]
    fn a_hard_core_never_donates() {
        let mut world = system(0, &[(100, HARD | PREDICT)]);
        assert_eq!(replenish(&mut *world, 0, 1000), [1, 0, 100, UNLIMITED, 2000, 0]);
    }

    #[test]
    fn spare_bandwidth_is_free_once_all_have_used_theirs() {
        let mut world = system(SPARE, &[(10, 0), (20, 0)]);
        assert_eq!(account(&mut *world, 0, 10), [STOP, 1, 10, 10, 1]);
        assert_eq!(account(&mut *world, 1, 21), [GO_ALL, MAX_SAMPLE, 21, 20, 0]);
        assert_eq!(resume(&mut *world, 0), [GO, MAX_SAMPLE, MAX_SAMPLE, 1]);
        assert_eq!(account(&mut *world, 0, 1000), [GO, MAX_SAMPLE, 1010, 10, 0]);
        assert_eq!(replenish(&mut *world, 0, 1000), [1, 0, 10, UNLIMITED, 2000, 0]);
    }

    #[test]
    fn a_proportional_round_adds_the_reservations() {
        let mut world = system(PROPORTIONAL, &[(10, 0), (20, 0)]);
        assert_eq!(account(&mut *world, 0, 10), [STOP, 1, 10, 10, 1]);
        assert_eq!(account(&mut *world, 1, 20), [GO_ALL, 20, 20, 40, 0]);
        assert_eq!(resume(&mut *world, 0), [GO, 10, MAX_SAMPLE, 1]);
        assert_eq!(account(&mut *world, 0, 9), [GO, 1, 19, 20, 0]);
        assert_eq!(account(&mut *world, 0, 1), [STOP, 1, 20, 20, 1]);
        assert_eq!(account(&mut *world, 1, 20), [GO_ALL, 20, 40, 60, 0]);
    }
}
