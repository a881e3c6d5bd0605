//! The periods of each CPU (bpf/history.h), gathered during the run.
//!
//! Rule: the programs write each period into a ring; `History` takes the new ones, some twenty
//! times a second. `Recorder` keeps a series of equal spans of time for the whole run (at most
//! [`SPANS`]: when they do not suffice, two become one). If a trace is wanted, it keeps the latest
//! periods one by one. Periods that were overwritten before they were read are counted.
//! Does not cover: a period that has not ended.

use crate::contract::{self, run_history, run_period};
use crate::error::LinuxError;
use crate::regulate::bpf;
use crate::sys::Mapped;
use libbpf_rs::Object;
use solocore_model::run::RunSpan;
use std::collections::{BTreeMap, VecDeque};
use std::mem::offset_of;
use std::sync::Mutex;

/// `HISTORY_PERIODS`.
const PERIODS: u64 = contract::HISTORY_PERIODS as u64;
/// Bytes of a CPU's ring.
const HISTORY_BYTES: usize = size_of::<run_history>();
/// Maximum number of spans of a series.
pub const SPANS: usize = 600;
/// Maximum number of spans of a series in a look at the run, so that its text does not grow.
const SHOWN: usize = 75;
/// Shortest span, ns.
const SHORTEST_SPAN_NS: u64 = 10_000_000;
/// Maximum number of periods of each CPU that are kept one by one.
const TRACED: usize = 250_000;

/// A period of a CPU. Times by `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Begin of the period.
    pub start_ns: u64,
    /// End of the period.
    pub end_ns: u64,
    /// Begin of the throttling that lasted until the period's end.
    pub stopped_ns: Option<u64>,
    /// Accesses, as counted by the counter.
    pub accesses: u64,
}

/// Reads the rings.
pub(crate) struct History {
    map: Mapped,
    /// Entries read so far, by CPU.
    read: Mutex<BTreeMap<u32, u64>>,
}

/// A CPU's new periods, and the number of periods that were overwritten before they were read.
pub type Taken = (u32, Vec<Period>, u64);

impl History {
    /// The rings of a loaded object with this number of CPUs.
    pub fn open(object: &Object, cpus: u32, regulated: &[u32]) -> Result<Self, LinuxError> {
        let map = Mapped::new(&bpf::map(object, "history")?, cpus.max(1) as usize * HISTORY_BYTES)?;
        Ok(Self { map, read: Mutex::new(regulated.iter().map(|&cpu| (cpu, 0)).collect()) })
    }

    /// Takes the new periods.
    pub fn take(&self) -> Vec<Taken> {
        let mut read = self.read.lock().unwrap_or_else(|e| e.into_inner());
        read.iter_mut().map(|(&cpu, done)| self.take_cpu(cpu, done)).collect()
    }

    fn take_cpu(&self, cpu: u32, done: &mut u64) -> Taken {
        let base = cpu as usize * HISTORY_BYTES;
        let written = self.map.double_word(base);
        let from = (*done).max(written.saturating_sub(PERIODS));
        let periods: Vec<Period> = (from..written).map(|i| self.period(base, i)).collect();
        // Meanwhile the oldest period may have been overwritten, and the next one may be in the
        // making.
        let oldest = (self.map.double_word(base) + 1).saturating_sub(PERIODS);
        let spoilt =
            usize::try_from(oldest.saturating_sub(from)).unwrap_or(usize::MAX).min(periods.len());
        let lost = from - *done + spoilt as u64;
        *done = written;
        (cpu, periods[spoilt..].to_vec(), lost)
    }

    fn period(&self, base: usize, index: u64) -> Period {
        let place =
            offset_of!(run_history, periods) + size_of::<run_period>() * (index % PERIODS) as usize;
        let word = |field: usize| self.map.double_word(base + place + field);
        Period {
            start_ns: word(offset_of!(run_period, start_ns)),
            end_ns: word(offset_of!(run_period, end_ns)),
            stopped_ns: Some(word(offset_of!(run_period, stopped_ns))).filter(|&ns| ns != 0),
            accesses: word(offset_of!(run_period, accesses)),
        }
    }
}

fn add(sum: &mut RunSpan, other: RunSpan) {
    sum.periods += other.periods;
    sum.accesses += other.accesses;
    sum.most = sum.most.max(other.most);
    sum.throttled_ns += other.throttled_ns;
}

/// One span in place of these.
fn sum(spans: &[RunSpan]) -> RunSpan {
    spans.iter().fold(RunSpan::default(), |mut sum, &span| {
        add(&mut sum, span);
        sum
    })
}

/// Keeps the periods that [`History`] gives.
pub struct Recorder {
    /// Begin of the run.
    pub begun_ns: u64,
    /// Length of a span.
    pub span_ns: u64,
    /// Periods that were overwritten before they were read.
    pub lost: u64,
    series: BTreeMap<u32, Vec<RunSpan>>,
    traced: Option<BTreeMap<u32, VecDeque<Period>>>,
}

impl Recorder {
    /// Starts a record; `trace`: keep the latest periods one by one.
    pub fn new(begun_ns: u64, period_ns: u64, trace: bool) -> Self {
        Self {
            begun_ns,
            // Whole periods, so that spans hold equally many.
            span_ns: SHORTEST_SPAN_NS.div_ceil(period_ns.max(1)) * period_ns.max(1),
            lost: 0,
            series: BTreeMap::new(),
            traced: trace.then(BTreeMap::new),
        }
    }

    /// Adds new periods.
    pub fn add(&mut self, taken: Vec<Taken>) {
        for (cpu, periods, lost) in taken {
            self.lost += lost;
            for period in periods {
                self.add_period(cpu, period);
            }
        }
    }

    fn add_period(&mut self, cpu: u32, period: Period) {
        let since = period.end_ns.saturating_sub(self.begun_ns);
        while since / self.span_ns >= SPANS as u64 {
            self.merge();
        }
        let at = usize::try_from(since / self.span_ns).unwrap_or(SPANS - 1);
        let series = self.series.entry(cpu).or_insert_with(|| Vec::with_capacity(SPANS));
        if series.len() <= at {
            series.resize(at + 1, RunSpan::default());
        }
        let span = RunSpan {
            periods: 1,
            accesses: period.accesses,
            most: period.accesses,
            throttled_ns: period
                .stopped_ns
                .map_or(0, |stopped| period.end_ns.saturating_sub(stopped)),
        };
        add(&mut series[at], span);
        if let Some(traced) = &mut self.traced {
            let kept = traced.entry(cpu).or_default();
            if kept.len() == TRACED {
                kept.pop_front();
            }
            kept.push_back(period);
        }
    }

    /// Merges two spans into one, in the memory of the series.
    fn merge(&mut self) {
        self.span_ns *= 2;
        for series in self.series.values_mut() {
            let spans = series.len().div_ceil(2);
            for at in 0..spans {
                series[at] = sum(&series[2 * at..series.len().min(2 * at + 2)]);
            }
            series.truncate(spans);
        }
    }

    /// Number of spans that are one in a look at the run: the same for all CPUs.
    fn together(&self) -> usize {
        let longest = self.series.values().map(Vec::len).max().unwrap_or(0);
        longest.div_ceil(SHOWN).max(1)
    }

    /// A CPU's series in a look at the run, from the start of the run.
    pub fn shown(&self, cpu: u32) -> Vec<RunSpan> {
        self.series(cpu).chunks(self.together()).map(sum).collect()
    }

    /// Length of a span in a look at the run, ns.
    pub fn shown_span_ns(&self) -> u64 {
        self.span_ns * self.together() as u64
    }

    /// A CPU's series, from the start of the run.
    pub fn series(&self, cpu: u32) -> &[RunSpan] {
        self.series.get(&cpu).map_or(&[], Vec::as_slice)
    }

    /// The latest periods of a CPU, if they were wanted.
    pub fn traced(&self, cpu: u32) -> Vec<Period> {
        self.traced
            .as_ref()
            .and_then(|t| t.get(&cpu))
            .map_or_else(Vec::new, |p| p.iter().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(end_ns: u64, accesses: u64, throttled: u64) -> Period {
        let stopped_ns = (throttled > 0).then(|| end_ns - throttled);
        Period { start_ns: end_ns.saturating_sub(1_000_000), end_ns, stopped_ns, accesses }
    }

    #[test]
    fn nothing_is_lost_when_spans_become_one() {
        let mut recorder = Recorder::new(0, 1_000_000, true);
        assert_eq!(recorder.span_ns, 10_000_000);
        for i in 0..50_000u64 {
            recorder.add(vec![(3, vec![period((i + 1) * 1_000_000, i % 7, i % 3)], i % 2)]);
        }
        let series = recorder.series(3);
        assert!(
            series.len() <= SPANS && recorder.span_ns == 160_000_000,
            "{} {}",
            series.len(),
            recorder.span_ns
        );
        let sum = |of: fn(&RunSpan) -> u64| series.iter().map(of).sum::<u64>();
        assert_eq!(sum(|s| s.periods), 50_000);
        assert_eq!(sum(|s| s.accesses), (0..50_000u64).map(|i| i % 7).sum::<u64>());
        assert_eq!(sum(|s| s.throttled_ns), (0..50_000u64).map(|i| i % 3).sum::<u64>());
        assert!(series.iter().all(|s| s.most == 6) && recorder.lost == 25_000);
        assert_eq!(recorder.traced(3).len(), 50_000);
        assert!(recorder.series(4).is_empty() && recorder.traced(4).is_empty());
    }

    /// Fails where the series of a CPU, or what a look at the run shows of it, grows with the run.
    #[test]
    fn a_week_takes_the_memory_of_the_first_seconds() {
        let mut recorder = Recorder::new(0, 10_000_000, false);
        let at = |s: u64| vec![(3, vec![period(s * 1_000_000_000, 4, 5)], 0)];
        (1..=60).for_each(|s| recorder.add(at(s)));
        let place = |r: &Recorder| (r.series[&3].as_ptr(), r.series[&3].capacity());
        let before = place(&recorder);
        for s in 61..=7 * 24 * 3600u64 {
            recorder.add(at(s));
            if s % 7919 != 0 {
                continue;
            }
            let shown = recorder.shown(3);
            assert!(shown.len() <= SHOWN && shown.len() > SHOWN / 2, "{} at {s} s", shown.len());
            let sum = |of: fn(&RunSpan) -> u64| shown.iter().map(of).sum::<u64>();
            assert_eq!([sum(|s| s.periods), sum(|s| s.accesses)], [s, 4 * s]);
            let last = (shown.len() as u64 - 1) * recorder.shown_span_ns();
            let since = s * 1_000_000_000 - last;
            assert!(since < recorder.shown_span_ns(), "the span of {s} s is the last one");
        }
        assert_eq!(place(&recorder), before);
        assert!(recorder.traced(3).is_empty() && recorder.shown(4).is_empty());
    }

    #[test]
    fn only_the_latest_periods_are_kept_one_by_one() {
        let mut recorder = Recorder::new(0, 100_000, true);
        let all = (0..TRACED as u64 + 5).map(|i| period((i + 20) * 100_000, i, 0)).collect();
        recorder.add(vec![(0, all, 0)]);
        let kept = recorder.traced(0);
        assert_eq!((kept.len(), kept[0].accesses), (TRACED, 5));
    }
}
