//! A lane with hundreds of stops.
//!
//! Problem: the regulator may stop a core in each of hundreds of periods; drawn one by one, the
//! stops are a pattern that depends on the pixels. Rule: where a lane has more than [`STOPS`] of
//! them, a task's bar goes on over its stops. A strip at its foot has the share of the time stopped
//! in each of [`COLUMNS`] equal spans. The single stops are in the page, too; `zoom.js` shows
//! them once they are as far apart as in other lanes.

use super::run::{Run, length};
use crate::{format, svg};
use maud::{Markup, html};
use solocore_model::results::{Activity, Segment};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most stops of a lane that are drawn one by one.
pub const STOPS: usize = 200;
/// Height of the strip where all of a span was stopped, in percent of the bar.
pub const HEIGHT_PERCENT: u64 = 40;
/// Spans of the strip.
const COLUMNS: u64 = 250;

/// A bar of a task, over its stops.
#[derive(Debug, PartialEq, Eq)]
pub struct Bar {
    pub task: u32,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// Length of a span.
pub fn span_ns(end_ns: u64) -> u64 {
    end_ns.div_ceil(COLUMNS).max(1)
}

/// Number of stops among the segments of a lane.
pub fn stops(segments: &[&Segment]) -> usize {
    segments.iter().filter(|s| s.activity == Activity::Throttled).count()
}

/// Does any lane of the run have too many stops to draw them one by one?
pub fn anywhere(run: &Run) -> bool {
    let mut stops: BTreeMap<u32, usize> = BTreeMap::new();
    for segment in run.segments.iter().filter(|s| s.activity == Activity::Throttled) {
        *stops.entry(segment.core).or_default() += 1;
    }
    stops.into_values().any(|stops| stops > STOPS)
}

/// The bars of a lane: a task's stretches, stopped or not, that follow each other within a span.
pub fn bars(segments: &[&Segment], end_ns: u64) -> Vec<Bar> {
    let near = span_ns(end_ns);
    let mut bars: Vec<Bar> = Vec::new();
    for s in segments.iter().filter(|s| s.activity != Activity::Prefetch) {
        match bars.last_mut() {
            Some(bar) if bar.task == s.task && s.start_ns <= bar.end_ns.saturating_add(near) => {
                bar.end_ns = bar.end_ns.max(s.end_ns);
            }
            _ => bars.push(Bar { task: s.task, start_ns: s.start_ns, end_ns: s.end_ns }),
        }
    }
    bars
}

/// Time stopped in each span.
fn stopped(segments: &[&Segment], end_ns: u64) -> Vec<u64> {
    let span = span_ns(end_ns);
    let mut stopped = vec![0; end_ns.div_ceil(span) as usize];
    for s in segments.iter().filter(|s| s.activity == Activity::Throttled && length(s) > 0) {
        for column in s.start_ns / span..=(s.end_ns - 1) / span {
            let (from, to) = (s.start_ns.max(column * span), s.end_ns.min((column + 1) * span));
            if let Some(sum) = stopped.get_mut(column as usize) {
                *sum += to.saturating_sub(from);
            }
        }
    }
    stopped
}

/// The strip, in a drawing of height 10 with nanoseconds across.
pub fn strip(core: u32, segments: &[&Segment], end_ns: u64) -> Markup {
    let span = span_ns(end_ns);
    let mut d = String::new();
    for (column, ns) in (0u64..).zip(stopped(segments, end_ns)).filter(|(_, ns)| *ns > 0) {
        let (start, height) =
            (column * span, HEIGHT_PERCENT as f64 / 10.0 * svg::fraction(ns, span));
        let _ = write!(d, "M{start} 10v-{height:.2}h{span}V10z");
    }
    let all: u64 =
        segments.iter().filter(|s| s.activity == Activity::Throttled).map(|s| length(s)).sum();
    html! {
        path.stopped d=(d) data-share-core=(core) data-span-ns=(span) {
            title { "core " (core) ": throttled for " (format::time(all)) " in all" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_become_bars_and_shares() {
        let of = |task, start_ns, end_ns, activity| Segment {
            core: 0,
            task,
            start_ns,
            end_ns,
            activity,
        };
        let (run, stop) = (Activity::Run, Activity::Throttled);
        let lane =
            [of(1, 0, 30, run), of(1, 30, 100, stop), of(1, 100, 110, run), of(2, 110, 150, run)];
        let lane: Vec<&Segment> = lane.iter().collect();
        let bar = |task, start_ns, end_ns| Bar { task, start_ns, end_ns };
        assert_eq!(bars(&lane, 1000), [bar(1, 0, 110), bar(2, 110, 150)]);
        assert_eq!((span_ns(1000), stops(&lane)), (4, 1));
        let shares = stopped(&lane, 1000);
        assert_eq!((shares.len(), shares.iter().sum::<u64>()), (250, 70));
        assert_eq!(shares[6..9], [0, 2, 4], "span 7 is from 28 to 32");
        assert!(
            strip(0, &lane, 1000).into_string().contains("M28 10v-2.00h4V10zM32 10v-4.00h4V10z")
        );
    }
}
