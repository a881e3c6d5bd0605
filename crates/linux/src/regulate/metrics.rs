//! Counters and gauges for Prometheus, of what regulation does.

use super::regulation::CoreBudget;
use super::shared::{Counts, UNLIMITED};
use std::fmt::Write as _;

/// One metric: name, kind, meaning, and its value of a core.
type Metric = (&'static str, &'static str, &'static str, fn(&CoreBudget, &Counts) -> f64);

const METRICS: &[Metric] = &[
    ("budget_accesses", "gauge", "Accesses per period that the CPU may make.", |b, _| {
        if b.budget == UNLIMITED { f64::INFINITY } else { b.budget as f64 }
    }),
    ("periods_total", "counter", "Regulation periods that have ended.", |_, c| c.periods as f64),
    ("throttled_periods_total", "counter", "Periods in which the CPU was throttled.", |_, c| {
        c.throttled_periods as f64
    }),
    ("throttled_seconds_total", "counter", "Time for which it was throttled.", |_, c| c.throttled_ns as f64 / 1e9),
    ("accesses_total", "counter", "Accesses, by the counter.", |_, c| c.accesses as f64),
    ("max_accesses_per_period", "gauge", "Most accesses in one period.", |_, c| c.max_accesses_per_period as f64),
    ("periods_over_budget_total", "counter", "Periods with more accesses than budget and one sample.", |_, c| {
        c.periods_over_budget as f64
    }),
    ("periods_skipped_total", "counter", "Periods whose start was never seen.", |_, c| c.periods_skipped as f64),
    ("longest_period_seconds", "gauge", "Longest time between two ticks.", |_, c| c.longest_period_ns as f64 / 1e9),
];

/// The same of a core whose writes are counted apart.
const WRITE_METRICS: &[Metric] = &[
    ("write_budget_accesses", "gauge", "Writes per period that the CPU may make.", |b, _| {
        b.writes
            .map_or(f64::INFINITY, |w| if w.write_budget == UNLIMITED { f64::INFINITY } else { w.write_budget as f64 })
    }),
    ("writes_total", "counter", "Writes, by their counter.", |_, c| c.writes.unwrap_or_default().writes as f64),
    ("max_writes_per_period", "gauge", "Most writes in one period.", |_, c| {
        c.writes.unwrap_or_default().max_writes_per_period as f64
    }),
    (
        "periods_over_write_budget_total",
        "counter",
        "Periods with more writes than their budget and one sample.",
        |_, c| c.writes.unwrap_or_default().periods_over_write_budget as f64,
    ),
];

/// Prometheus' text format.
pub fn prometheus(engine: &str, cores: &[(CoreBudget, Counts)]) -> String {
    let mut out = format!(
        "# HELP solocore_engine Which engine regulates.\n# TYPE solocore_engine gauge\nsolocore_engine{{engine=\"{engine}\"}} 1\n"
    );
    let apart = cores.iter().any(|(budget, _)| budget.writes.is_some());
    for (name, kind, meaning, value) in METRICS.iter().chain(if apart { WRITE_METRICS } else { &[] }) {
        let _ = writeln!(out, "# HELP solocore_{name} {meaning}\n# TYPE solocore_{name} {kind}");
        for (budget, counts) in cores {
            let value = value(budget, counts);
            let value = if value.is_infinite() { "+Inf".to_owned() } else { value.to_string() };
            let _ = writeln!(out, "solocore_{name}{{cpu=\"{}\"}} {value}", budget.cpu);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regulate::regulation::WriteBudget;

    #[test]
    fn metrics_have_a_line_per_cpu() {
        let budget = CoreBudget { cpu: 3, planned: 20, budget: 20, sample: 2, writes: None };
        let free = CoreBudget { cpu: 4, planned: u64::MAX, budget: UNLIMITED, sample: 1, writes: None };
        let counts = Counts { periods: 7, throttled_ns: 1_500_000_000, ..Counts::default() };
        let text = prometheus("helper", &[(budget, counts), (free, Counts::default())]);
        assert!(text.contains("solocore_engine{engine=\"helper\"} 1\n"));
        assert!(text.contains("solocore_periods_total{cpu=\"3\"} 7\n"));
        assert!(text.contains("solocore_throttled_seconds_total{cpu=\"3\"} 1.5\n"));
        assert!(text.contains("solocore_budget_accesses{cpu=\"4\"} +Inf\n"));
        assert_eq!(text.lines().filter(|l| l.starts_with("# TYPE")).count(), METRICS.len() + 1);
        let writes = WriteBudget { write_planned: 9, write_budget: 8, write_sample: 1 };
        let counted = Counts { writes: Some(crate::WriteCounts { writes: 70, ..Default::default() }), ..counts };
        let text = prometheus("helper", &[(CoreBudget { writes: Some(writes), ..budget }, counted)]);
        assert!(text.contains("solocore_write_budget_accesses{cpu=\"3\"} 8\n"));
        assert!(text.contains("solocore_writes_total{cpu=\"3\"} 70\n"));
        assert_eq!(text.lines().filter(|l| l.starts_with("# TYPE")).count(), METRICS.len() + WRITE_METRICS.len() + 1);
    }
}
