//! Misses side by side: of one core, of all cores, and of one beside the others' attack.
//!
//! Rule for `pipeline.mshrs`: the throughput of k dependent chains grows with k until the miss
//! registers are used up. The number is the first k for which no larger k is clearly faster, or, by
//! Little's law, the most loads under way at any k. The larger of the two is taken: more registers
//! make larger bounds. Where loads get longer before the end of the growth, the memory may be full
//! before the registers are; the number is then a lower bound, and a file that has more keeps it.
//! Rule for bandwidth: for each number of active cores the pattern with the least throughput, the
//! lower end of its interval. Does not cover: registers that a full memory hides; the CPU's manual
//! states them.

use super::effort::Effort;
use super::finding::{Finding, Key, Row, Side};
use super::levels::Levels;
use super::probe::{Access, Case, Order, Pattern, Probe};
use super::sampling::{Ended, LeftOut, Sampled, sample};
use solocore_buffers::median::Median;

/// Chains side by side.
const CHAINS: [u32; 23] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 24, 28, 32, 48, 64];
/// Throughput that counts as a gain, beyond the uncertainty of the intervals: by chance, some of
/// the many comparisons show a small gain.
const GAIN: f64 = 1.02;

/// Loads under way, by Little's law, as a share of the chains; below this value the memory is taken
/// to be full. Registers alone leave the latency unchanged.
const UNCROWDED: f64 = 0.9;

/// `pipeline.mshrs`; `stated`: value of the file.
///
/// # Errors
/// See [`Ended`].
pub fn mshrs<P: Probe + ?Sized>(
    probe: &mut P,
    stated: u32,
    effort: &Effort,
) -> Result<Finding, Ended> {
    let (mut rows, mut times) = (Vec::new(), Vec::new());
    let (mut left_out, mut samples) = (LeftOut::default(), 0);
    let share = effort.share(0.12 / CHAINS.len() as f64);
    for chains in CHAINS {
        let found =
            sample(probe, "pipeline.mshrs", effort.pieces, share, |p| Ok(vec![p.memory(chains)]))?;
        left_out = left_out.and(found.left_out);
        samples += found.median.samples;
        rows.push(Row::new(format!("ns a load, {chains} chains"), &found));
        times.push(found.median);
    }
    let knee = knee(&times);
    let alone = times[0];
    // A load of a chain waits for its own latency, so a core with k loads under way ends one in a
    // k-th of it.
    let little = times.iter().map(|t| alone.value / t.value).fold(1.0, f64::max);
    let value = f64::from(CHAINS[knee]).max((little - 0.05).ceil()).min(64.0);
    let mut finding = Finding::new(
        Key::Mshrs,
        &Sampled { median: alone.map(|_| value), least: value, worst: value, left_out },
        Side::High,
        "chains of dependent loads from memory side by side, until no more of them gain",
    );
    // The knee lies between the chains before and behind it.
    finding.ci_low = f64::from(CHAINS[knee.saturating_sub(1)]).min(value);
    finding.ci_high = f64::from(CHAINS[(knee + 1).min(CHAINS.len() - 1)]).max(value);
    (finding.samples, finding.rows) = (samples, rows);
    finding.notes.push(format!("{little:.1} loads are under way at most, by Little's law"));
    if little < UNCROWDED * value {
        finding.keep = value <= f64::from(stated);
        let kept = if finding.keep { ": the file keeps its value" } else { "" };
        finding.notes.push(format!(
            "loads get longer before all registers are used, so it is a lower bound{kept}; \
                the CPU's manual may state more"
        ));
    }
    Ok(finding)
}

/// The first number for which no later one is clearly faster.
fn knee(times: &[Median]) -> usize {
    let later = |i: usize, t: &Median| times[i + 1..].iter().any(|l| l.high * GAIN < t.low);
    times.iter().enumerate().position(|(i, t)| !later(i, t)).unwrap_or(times.len() - 1)
}

/// All patterns.
const PATTERNS: [(&str, Pattern); 4] = [
    ("reads in order", Pattern { access: Access::Read, order: Order::Lines }),
    ("writes in order", Pattern { access: Access::Write, order: Order::Lines }),
    ("reads anywhere", Pattern { access: Access::Read, order: Order::Random }),
    ("writes anywhere", Pattern { access: Access::Write, order: Order::Random }),
];

/// MB/s of one line of `line` bytes in `ns` nanoseconds.
fn megabytes(line: u64, ns: f64) -> f64 {
    line as f64 * 1e3 / ns
}

/// Bandwidth by the number of active cores.
///
/// # Errors
/// See [`Ended`].
pub fn bandwidth<P: Probe + ?Sized>(probe: &mut P, effort: &Effort) -> Result<Finding, Ended> {
    let cores = probe.cores();
    let share = effort.share(0.2 / f64::from(cores * 4));
    let (mut rows, mut left_out, mut samples) = (Vec::new(), LeftOut::default(), 0);
    let mut last: Option<Sampled> = None;
    for active in 1..=cores {
        let mut least: Option<(&str, Sampled)> = None;
        for (name, pattern) in PATTERNS {
            let found = sample(probe, "bandwidth", effort.pieces.min(41), share, |p| {
                Ok(vec![p.stream(active, &pattern)?])
            })?;
            left_out = left_out.and(found.left_out);
            samples += found.median.samples;
            let line = probe.line();
            let mut speed = found.map(|ns| megabytes(line, ns));
            // More time is less bandwidth.
            speed.median =
                Median { low: speed.median.high, high: speed.median.low, ..speed.median };
            if least.as_ref().is_none_or(|(_, l)| speed.median.low < l.median.low) {
                least = Some((name, speed));
            }
        }
        if let Some((name, speed)) = least {
            let cores = if active == 1 { "core" } else { "cores" };
            rows.push(Row::new(format!("{active} {cores}, {name}"), &speed));
            last = Some(speed);
        }
    }
    let Some(last) = last else {
        return Err(Ended::Failed(crate::error::MachineError::Machine(
            "bandwidth: no core was active; name one with --cpu".to_owned(),
        )));
    };
    let method = "lines touched by all active cores, in the slowest of four patterns; a written \
        line counts once";
    let mut finding = Finding::new(Key::Bandwidth, &last, Side::Low, method);
    (finding.samples, finding.left_out, finding.rows) = (samples, left_out, rows);
    if cores == 1 {
        finding.notes.push("there is only one CPU, so no other can be active".to_owned());
    }
    Ok(finding)
}

/// An access beside the attack of all other cores; `bound_ns`: the bound of the model, beyond the
/// shared cache.
///
/// # Errors
/// See [`Ended`].
pub fn attack<P: Probe + ?Sized>(
    probe: &mut P,
    levels: &Levels,
    offset: u64,
    bound_ns: Option<f64>,
    effort: &Effort,
) -> Result<Finding, Ended> {
    let mut rows = Vec::new();
    let (mut left_out, mut samples) = (LeftOut::default(), 0);
    let mut most: Option<Sampled> = None;
    let share = effort.share(0.03);
    for (name, pattern) in PATTERNS {
        probe.attack(Some(&pattern))?;
        let mean = sample(probe, "attack", effort.pieces, share, |p| Ok(vec![p.memory(1)]));
        let case = Case { offset, writes: 0, rows: [0; 3], gap_ns: 0, access: Access::Read };
        let single = probe.flushes().then(|| {
            sample(probe, "attack", 8 * effort.singles, share, |p| {
                Ok(p.single(case, effort.singles))
            })
        });
        probe.attack(None)?;
        let (mean, single) = (mean?, single.transpose()?);
        let service = |s: Sampled| levels.service(&s);
        for found in [Some(&mean), single.as_ref()].into_iter().flatten() {
            left_out = left_out.and(found.left_out);
            samples += found.median.samples;
        }
        let mut row = Row::new(format!("beside {name}: mean of many loads"), &service(mean));
        row.worst = Some(service(mean).worst);
        rows.push(row);
        if let Some(single) = single.map(service) {
            let row = Row::new(format!("beside {name}: single reads"), &single);
            rows.push(Row { worst: Some(single.worst), ..row });
        }
        if most.is_none_or(|m| service(mean).median.high > m.median.high) {
            most = Some(service(mean));
        }
    }
    let Some(most) = most else {
        return Err(Ended::Failed(crate::error::MachineError::Machine(
            "attack: no pattern was tried".to_owned(),
        )));
    };
    let method = "loads from memory while all other cores pass through it, beyond the shared cache";
    let mut finding = Finding::new(Key::Attack, &most, Side::High, method);
    (finding.samples, finding.left_out) = (samples, left_out);
    let worst = rows.iter().filter_map(|r| r.worst).fold(0.0, f64::max);
    finding.notes.push(match bound_ns {
        Some(bound) if worst > bound => format!(
            "the longest piece, {worst:.0} ns a load, is above the {bound:.0} ns that the model \
                allows one access beside {} cores. Something else uses this memory (devices, other \
                guests, firmware), or the model does not hold here",
            probe.cores() - 1
        ),
        Some(bound) => format!(
            "the longest piece, {worst:.0} ns a load, is within the {bound:.0} ns that the model \
                allows one access beside {} cores",
            probe.cores() - 1
        ),
        None => "the model has no bound for one access of this platform".to_owned(),
    });
    finding.rows = rows;
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: &[f64]) -> Vec<Median> {
        of.iter()
            .map(|&t| Median { value: t, low: t * 0.99, high: t * 1.01, samples: 41 })
            .collect()
    }

    #[test]
    fn the_knee_is_where_no_more_is_gained() {
        assert_eq!(knee(&times(&[100.0, 50.0, 33.0, 25.0, 25.1, 24.9])), 3);
        // A slow rise at the end is a gain, at any distance.
        assert_eq!(knee(&times(&[100.0, 50.0, 50.0, 50.0, 40.0])), 4);
        assert_eq!(knee(&times(&[100.0, 101.0, 99.0])), 0);
    }
}
