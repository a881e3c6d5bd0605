//! Keeps every regulated CPU regulated.
//!
//! Problem: a CPU loses its timer and counter when it is taken offline, also for a moment, when the
//! machine sleeps, or when the kernel puts a pinned counter in error. No message says so, and the
//! CPU would be unregulated for the rest of the run. Some kernels take no samples of the timer's
//! event while a CPU idles, and a host takes CPUs away from its guest for a while: such silence is
//! not a failure. Rule: periods of each CPU must go on while it runs. Where none has ended since
//! the last look, the CPU's events are examined. They are opened again if the timer stands still,
//! if the counter cannot be read, or if the CPU was offline. They are also opened again when the
//! CPU has run for [`PATIENCE`] and three periods without the end of one. The time that it has run
//! is that of the kernel's books (`host/cpu_time.rs`). Two kinds of CPUs count as running also
//! while they idle: one that is stopped for its budget, because only its timer can let it go on,
//! and one whose events work no longer. Time that is in no book counts by one part in
//! [`UNBOOKED`], for a CPU that keeps no books any more. After [`TRIES`] attempts and [`GIVE_UP`]
//! of such time without the end of a period, the run ends. It also ends if a CPU stays away for
//! [`AWAY`]. A look that comes late counts for [`LONGEST_STEP`]: a machine that stood still as a
//! whole did not fail. Each time without regulation is a lapse: it is counted, from the last
//! period before it to the first one after it.
//!
//! An idle CPU is regulated without periods. Its accesses are those of the moments in which it
//! runs. The overflow of the counter comes in such a moment too, and begins the period that is due
//! (`tick_lost` of bpf/core.h). With fewer accesses than a sample nothing is to be stopped. A CPU
//! that has been silent for [`ASLEEP`] is kept awake for a moment where the engine can do that
//! (regulate/awake.rs): its timer must come then, idle or not.
//! Does not cover: CPUs without a budget.

use crate::error::LinuxError;
use crate::host::cpu_time::CpuTime;
use crate::regulate::attach::Pulse;
use crate::regulate::history::Taken;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// Time that a CPU may run without the end of a period, unless three periods are longer.
const PATIENCE: Duration = Duration::from_millis(100);
/// Parts of time in no book of which one counts as run.
const UNBOOKED: u64 = 20;
/// Attempts to open a CPU's events again before the run ends.
const TRIES: u32 = 10;
/// Time that a CPU runs in vain before the run ends.
const GIVE_UP: Duration = Duration::from_secs(1);
/// Time for which a CPU may be offline. The machine needs up to some tenths of a second to take a
/// CPU away and back, so this is longer than the absence that a user asks for.
const AWAY: Duration = Duration::from_secs(2);
/// Longest time that one look counts for.
const LONGEST_STEP: Duration = Duration::from_millis(40);
/// Silence after which a CPU is kept awake, unless three periods are longer.
const ASLEEP: Duration = Duration::from_millis(500);

/// A duration in nanoseconds.
fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The state of the machine's CPUs at a look.
pub(crate) struct Look<'a> {
    /// Time by `CLOCK_MONOTONIC`.
    pub now_ns: u64,
    /// CPUs that are online.
    pub online: &'a [u32],
    /// The periods that have ended since the last look, by CPU.
    pub taken: &'a [Taken],
    /// Signs of life of a CPU's events.
    pub pulse: &'a dyn Fn(u32) -> Pulse,
    /// Time of a CPU by the kernel's books; `None`: it has none.
    pub time: &'a dyn Fn(u32) -> Option<CpuTime>,
}

/// The CPUs that are online and have ended no period since the last look: their events are asked
/// for signs of life, all at once.
pub(crate) fn silent(taken: &[Taken], online: &[u32]) -> Vec<u32> {
    let silent = |taken: &&Taken| !progress(taken) && online.contains(&taken.0);
    taken.iter().filter(silent).map(|taken| taken.0).collect()
}

/// Whether a period has ended.
fn progress((_, periods, lost): &Taken) -> bool {
    !periods.is_empty() || *lost > 0
}

/// The times without regulation of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lapses {
    /// Number of them, with one that goes on.
    pub times: u64,
    /// The longest one that has ended.
    pub longest_ns: u64,
    /// The CPU is not regulated now.
    pub now: bool,
    /// It is offline since this time, as far as was seen.
    pub away_ns: Option<u64>,
}

/// The progress of each CPU.
#[derive(Debug)]
pub(crate) struct Liveness {
    period_ns: u64,
    cpus: BTreeMap<u32, Cpu>,
    /// Beginnings and ends of lapses.
    changes: u64,
}

/// The time of a CPU since its last period, or since its events were opened again.
#[derive(Debug, Default)]
struct Silence {
    /// The books at the last look; `None`: none was looked at yet.
    books: Option<CpuTime>,
    /// Time that it ran.
    ran_ns: u64,
    /// Time in which it neither ran nor rested, by the books.
    unbooked_ns: u64,
}

impl Silence {
    /// Adds the time since the last look. `restless`: rest counts as well.
    fn add(&mut self, step_ns: u64, books: Option<CpuTime>, restless: bool) {
        let Some(now) = books else {
            self.ran_ns = self.ran_ns.saturating_add(step_ns);
            return;
        };
        // The first look only reads the books.
        let Some(before) = self.books.replace(now) else { return };
        let ran = now.ran_ns.saturating_sub(before.ran_ns);
        let rested = now.rested_ns.saturating_sub(before.rested_ns);
        // Sums of hundredths of a second come in steps; what is too much once is missing later.
        let unbooked = self.unbooked_ns.saturating_add(step_ns);
        self.unbooked_ns = unbooked.saturating_sub(ran.saturating_add(rested));
        let ran = if restless { ran.max(step_ns) } else { ran };
        self.ran_ns = self.ran_ns.saturating_add(ran);
    }

    /// Time that counts as run.
    fn spent_ns(&self) -> u64 {
        self.ran_ns.max(self.unbooked_ns / UNBOOKED)
    }

    /// Begins again, with the present books.
    fn forget(&mut self) {
        (self.ran_ns, self.unbooked_ns) = (0, 0);
    }
}

#[derive(Debug)]
struct Cpu {
    lapses: Lapses,
    /// End of the latest period.
    ended_ns: u64,
    /// Time of the last look.
    looked_ns: u64,
    /// Time of the last look with progress, or at which it was back.
    since_ns: u64,
    silence: Silence,
    /// Times that its events were opened again since then.
    tried: u32,
    /// Time that it ran before the latest of these attempts.
    vain_ns: u64,
    /// Time for which it has been offline, by looks.
    away_ns: u64,
    /// Ticks so far at which the counter could not be read.
    unread: u64,
}

impl Liveness {
    /// For regulation with this period.
    pub fn new(period_ns: u64) -> Self {
        Self { period_ns, cpus: BTreeMap::new(), changes: 0 }
    }

    /// A time, or three periods if that is longer.
    fn at_least(&self, time: Duration) -> u64 {
        ns(time).max(self.period_ns.saturating_mul(3))
    }

    /// The CPUs that are online and have been silent for [`ASLEEP`], and the time for which each is
    /// to be kept awake: its timer comes within a period.
    pub fn asleep(&self, now_ns: u64) -> (Vec<u32>, Duration) {
        let most = self.at_least(ASLEEP);
        let silent = |(_, cpu): &(&u32, &Cpu)| {
            cpu.lapses.away_ns.is_none() && now_ns.saturating_sub(cpu.since_ns) > most
        };
        let cpus = self.cpus.iter().filter(silent).map(|(&number, _)| number).collect();
        (cpus, Duration::from_nanos(self.period_ns).saturating_add(LOOK / 4))
    }

    /// The lapses of a CPU.
    pub fn lapses(&self, cpu: u32) -> Lapses {
        self.cpus.get(&cpu).map_or_else(Lapses::default, |cpu| cpu.lapses)
    }

    /// Beginnings and ends of lapses so far, of all CPUs.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Looks at the regulated CPUs. Returns the ones whose events are to be opened again.
    ///
    /// # Errors
    /// A CPU is no longer regulated.
    pub fn look(&mut self, look: &Look<'_>) -> Result<Vec<u32>, LinuxError> {
        let patience_ns = self.at_least(PATIENCE);
        let mut again = Vec::new();
        for taken in look.taken {
            let number = taken.0;
            let cpu = self.cpus.entry(number).or_insert_with(|| Cpu::new(look.now_ns));
            let before = cpu.lapses;
            if progress(taken) {
                cpu.goes_on(taken, look.now_ns);
            } else if cpu.needs_events(number, look, patience_ns)? {
                again.push(number);
            }
            cpu.looked_ns = look.now_ns;
            self.changes += u64::from(before.now != cpu.lapses.now);
        }
        Ok(again)
    }
}

impl Cpu {
    fn new(now_ns: u64) -> Self {
        Self {
            lapses: Lapses::default(),
            ended_ns: now_ns,
            looked_ns: now_ns,
            since_ns: now_ns,
            silence: Silence::default(),
            tried: 0,
            vain_ns: 0,
            away_ns: 0,
            unread: 0,
        }
    }

    fn goes_on(&mut self, (_, periods, _): &Taken, now_ns: u64) {
        if self.lapses.now {
            let again_ns = periods.first().map_or(now_ns, |p| p.start_ns);
            let lapse = again_ns.saturating_sub(self.ended_ns);
            self.lapses.longest_ns = self.lapses.longest_ns.max(lapse);
            self.lapses.now = false;
        }
        self.ended_ns = periods.last().map_or(now_ns, |p| p.end_ns);
        self.begins_again(now_ns);
    }

    /// Its silence so far is forgotten.
    fn begins_again(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        self.silence = Silence::default();
        (self.tried, self.vain_ns) = (0, 0);
        (self.lapses.away_ns, self.away_ns) = (None, 0);
    }

    fn lapse(&mut self) {
        self.lapses.times += u64::from(!self.lapses.now);
        self.lapses.now = true;
    }

    /// Whether a CPU without a new period needs its events opened again.
    fn needs_events(
        &mut self,
        number: u32,
        look: &Look<'_>,
        patience_ns: u64,
    ) -> Result<bool, LinuxError> {
        let step_ns = look.now_ns.saturating_sub(self.looked_ns).min(ns(LONGEST_STEP));
        if !look.online.contains(&number) {
            return self.is_away(number, look.now_ns, step_ns).map(|()| false);
        }
        if self.lapses.away_ns.is_some() {
            self.begins_again(look.now_ns);
            self.tried = 1;
            return Ok(true);
        }
        let pulse = (look.pulse)(number);
        let dead = self.dead(pulse);
        self.silence.add(step_ns, (look.time)(number), dead || pulse.stopped);
        let spent_ns = self.silence.spent_ns();
        if !dead && spent_ns <= patience_ns {
            return Ok(false);
        }
        let vain_ns = self.vain_ns.saturating_add(spent_ns);
        if self.tried >= TRIES && vain_ns > ns(GIVE_UP) {
            return Err(LinuxError::Machine(format!(
                "CPU {number} is regulated no longer: its timer has not come in {} ms that it ran, \
                and opening its events again did not help; start solocore again",
                vain_ns / 1_000_000
            )));
        }
        self.lapse();
        self.silence.forget();
        self.vain_ns = vain_ns;
        self.tried = self.tried.saturating_add(1);
        Ok(true)
    }

    /// It is offline.
    fn is_away(&mut self, number: u32, now_ns: u64, step_ns: u64) -> Result<(), LinuxError> {
        self.lapse();
        self.lapses.away_ns.get_or_insert(now_ns);
        self.away_ns = self.away_ns.saturating_add(step_ns);
        if self.away_ns <= ns(AWAY) {
            return Ok(());
        }
        Err(LinuxError::Machine(format!(
            "CPU {number} went offline and has not come back for {} ms; tasks go on unregulated, \
                start solocore again when the CPUs are as planned",
            AWAY.as_millis()
        )))
    }

    /// Whether the events work no longer, by their signs of life.
    fn dead(&mut self, pulse: Pulse) -> bool {
        let unread = pulse.unread > self.unread;
        self.unread = pulse.unread;
        pulse.stands || unread || pulse.error
    }
}
