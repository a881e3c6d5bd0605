//! Latency of the probe alone and under load, its cost, and a threshold that follows from them.
//!
//! Problem: MAX_MEM_LAT is a number of this machine: a threshold that is too low takes background
//! time away needlessly, and one that is too high never does.
//! Rule: the latency is measured beside no hog, and beside memory hogs on one, two, ... other CPUs,
//! in turn, again and again. The load of other programs changes slowly, so each round's ratios to
//! its own quiet window exclude it. An idle hog keeps its CPU busy without memory. The suggested
//! threshold is the latency alone times a factor. The result also has the share of windows that
//! would have counted as contended, alone and at the highest load. The cost of the probe is
//! measured in pairs: a hog runs at full speed for a moment with the probe at work and for a moment
//! without, in either order. The ratio of a pair is free of slow drifts.
//! Source: maracas, section VI (thresholds from a profile of latency against traffic); the factor
//! is a choice, no theorem.
//! Does not cover: the worst pattern for a bank (hogs stream through memory), and other programs on
//! the machine, which also run beside the probe "alone". A figure holds for this run.

use super::probe::{Config, Probe, last_level_bytes};
use super::source::{Cost, LatencySource};
use crate::error::LinuxError;
use crate::host::machine;
use crate::sys;
use solocore_buffers::BufferError;
use solocore_buffers::hog::Hog;
use solocore_buffers::median::Median;
use solocore_buffers::walk::Access;
use std::time::{Duration, Instant};

/// Windows of a level: its time is split into this number of pieces.
const WINDOWS: u32 = 40;
/// Pairs of moments with and without the probe.
const PAIRS: u32 = 100;

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Options of the probe; it stays on the first of its CPUs.
    pub probe: Config,
    /// CPUs for hogs: those of the machine that this process may use.
    pub cpus: Vec<u32>,
    /// Time for each level.
    pub span: Duration,
    /// Factor by which the threshold exceeds the latency alone.
    pub factor: f64,
    /// Bytes of a hog's buffer; `None`: twice the last-level cache.
    pub hog: Option<u64>,
}

/// The latency beside this number of hogs.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Level {
    /// Number of hogs beside the probe.
    pub hogs: usize,
    /// Average latency over the windows, ns per load.
    pub latency_ns: f64,
    /// Latency of the fastest window, ns per load.
    pub lowest_ns: f64,
    /// Latency of the slowest window, ns per load.
    pub highest_ns: f64,
    /// Share of the windows at or above the threshold.
    pub contended: f64,
    /// Bytes that the hogs read and wrote together, per second.
    pub hog_bytes_per_s: f64,
    /// Number of discarded batches.
    pub dropped: u64,
    /// Ratio of a window's latency to that of its round's quiet window.
    pub to_alone: Ratio,
    #[serde(skip)]
    windows: Vec<Option<f64>>,
    #[serde(skip)]
    bytes: u64,
    #[serde(skip)]
    time: Duration,
}

/// The median of several ratios, with its confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Ratio {
    /// The median.
    pub ratio: f64,
    /// Lower end of the 95 % confidence interval of the median (order statistics).
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// Number of pairs.
    pub pairs: usize,
}

/// Slowdown of a hog by the probe: speed with it over speed without, from pairs.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Loss {
    /// Whether the hog is on the probe's own CPU.
    pub same_cpu: bool,
    /// The ratio.
    #[serde(flatten)]
    pub speed: Ratio,
}

/// Result of a calibration.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Calibration {
    /// Levels of load, the one without hogs first.
    pub levels: Vec<Level>,
    /// Suggested threshold for the latency rule, ns per load.
    pub threshold_ns: u64,
    /// Cost of the probe meanwhile.
    pub cost: Cost,
    /// Slowdown of the hogs.
    pub losses: Vec<Loss>,
}

/// A hog that writes, so that each line is read and written back.
fn hog(cpu: u32, size: u64, stop: &dyn Fn() -> bool) -> Result<Hog, LinuxError> {
    let bytes = usize::try_from(size).unwrap_or(usize::MAX / 2);
    Hog::begin_unless(cpu, bytes, Access::Write.into(), stop).map_err(|e| match e {
        BufferError::Input(text) => LinuxError::Input(text),
        BufferError::Machine(text) => LinuxError::Machine(text),
    })
}

/// Bytes that a hog read and wrote.
fn moved(hog: &Hog) -> u64 {
    2 * hog.bytes()
}

/// Bytes per second over a time.
fn speed(hog: &Hog, time: Duration) -> f64 {
    let (before, begin) = (moved(hog), Instant::now());
    std::thread::sleep(time);
    (moved(hog) - before) as f64 / begin.elapsed().as_secs_f64()
}

/// Size of a hog's buffer in bytes, if the machine has room for this number of hogs.
fn hog_bytes(hogs: usize) -> Result<u64, LinuxError> {
    let size = last_level_bytes().saturating_mul(2);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let free = kilobytes.map_or(u64::MAX, |k| k.saturating_mul(1024));
    if size.saturating_mul(hogs as u64) > free / 2 {
        return Err(LinuxError::Machine(format!(
            "{hogs} hogs of {} MiB do not fit into half of the free memory; name fewer CPUs for \
                them (taskset)",
            size >> 20
        )));
    }
    Ok(size)
}

fn check(plan: &Plan) -> Result<(), LinuxError> {
    let wrong = |what: String| Err(LinuxError::Input(what));
    if !(1.0..=100.0).contains(&plan.factor) {
        return wrong(format!(
            "--factor: a factor of {} gives no threshold; choose 1 to 100",
            plan.factor
        ));
    }
    if !(Duration::from_millis(20)..=Duration::from_secs(600)).contains(&plan.span) {
        return wrong(format!(
            "--span: {:?} for each load is too short or too long; choose 20 ms to 600 s",
            plan.span
        ));
    }
    Ok(())
}

/// Measures; `None` if `stop` asks for the end. `said` gets each next step as a text.
///
/// # Errors
/// The plan is inconsistent, the probe cannot run, or there is no memory for the hogs.
pub fn calibrate(
    plan: &Plan,
    stop: &dyn Fn() -> bool,
    said: &dyn Fn(&str),
) -> Result<Option<Calibration>, LinuxError> {
    check(plan)?;
    let own = plan.probe.cpus.first().copied().unwrap_or(0);
    let config = Config { cpus: vec![own], ..plan.probe.clone() };
    let others: Vec<u32> = plan.cpus.iter().copied().filter(|&cpu| cpu != own).collect();
    let size = match plan.hog {
        Some(bytes) => bytes,
        None => hog_bytes(others.len().max(1))?,
    };
    if stop() {
        return Ok(None);
    }
    let mut probe = Probe::start(&config)?;
    said(&format!("latency on CPU {own} beside 0 to {} hog(s)", others.len()));
    let hogs = others.iter().map(|&cpu| hog(cpu, size, stop)).collect::<Result<Vec<_>, _>>()?;
    let Some(mut levels) = measure(&mut probe, &hogs, plan.span / WINDOWS, stop)? else {
        return Ok(None);
    };
    let cost = probe.cost().unwrap_or_default();
    drop(hogs);
    let threshold_ns = threshold(levels[0].latency_ns, plan.factor);
    for level in &mut levels {
        let measured: Vec<f64> = level.windows.iter().copied().flatten().collect();
        let above = measured.iter().filter(|&&w| w >= threshold_ns as f64).count();
        level.contended = above as f64 / measured.len() as f64;
    }
    let mut losses = Vec::new();
    for cpu in [Some(own), others.first().copied()].into_iter().flatten() {
        said(&format!("the loss of a hog on CPU {cpu} by the probe on CPU {own}"));
        let hog = hog(cpu, size, stop)?;
        let Some(speed) = loss(&probe, &hog, plan.span / PAIRS, stop) else { return Ok(None) };
        losses.push(Loss { same_cpu: cpu == own, speed });
    }
    Ok(Some(Calibration { levels, threshold_ns, cost, losses }))
}

/// Rounds to whole ns, at least 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time of ns, saturating"
)]
fn threshold(alone_ns: f64, factor: f64) -> u64 {
    ((alone_ns * factor).ceil() as u64).max(1)
}

/// The latency beside no hog, one, ... and all hogs, one window each in turn; at least one window
/// of each.
fn measure(
    probe: &mut Probe,
    hogs: &[Hog],
    window: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Vec<Level>>, LinuxError> {
    let mut levels: Vec<Level> =
        (0..=hogs.len()).map(|hogs| Level { hogs, ..Level::default() }).collect();
    for _ in 0..WINDOWS {
        for level in &mut levels {
            if stop() {
                return Ok(None);
            }
            hogs.iter().enumerate().for_each(|(i, hog)| hog.pause(i >= level.hogs));
            // The counts so far belong to another level.
            let _ = probe.read()?;
            let done = || hogs.iter().map(moved).sum::<u64>();
            let (before, begin) = (done(), Instant::now());
            std::thread::sleep(window);
            let reading = probe.read()?;
            level.bytes += done() - before;
            level.time += begin.elapsed();
            level.windows.push(reading.latency());
            level.dropped += reading.dropped;
        }
    }
    let alone = levels[0].windows.clone();
    levels.iter_mut().try_for_each(|level| summarise(level, &alone))?;
    Ok(Some(levels))
}

fn summarise(level: &mut Level, alone: &[Option<f64>]) -> Result<(), LinuxError> {
    let measured: Vec<f64> = level.windows.iter().copied().flatten().collect();
    if measured.is_empty() {
        return Err(LinuxError::Machine(format!(
            "the probe had no measurement beside {} hogs ({} batches were broken off); raise its \
                --rate or --priority, or leave its CPU free",
            level.hogs, level.dropped
        )));
    }
    level.latency_ns = measured.iter().sum::<f64>() / measured.len() as f64;
    level.lowest_ns = measured.iter().copied().fold(f64::INFINITY, f64::min);
    level.highest_ns = measured.iter().copied().fold(0.0, f64::max);
    level.hog_bytes_per_s = level.bytes as f64 / level.time.as_secs_f64();
    let ratios =
        level.windows.iter().zip(alone).filter_map(|(&window, &alone)| Some(window? / alone?));
    level.to_alone = Ratio::of(ratios.collect());
    Ok(())
}

fn loss(probe: &Probe, hog: &Hog, moment: Duration, stop: &dyn Fn() -> bool) -> Option<Ratio> {
    let mut ratios = Vec::new();
    for pair in 0..PAIRS {
        if stop() {
            return None;
        }
        let mut speeds = [0.0; 2];
        // In either order, so that a steady drift favours neither.
        for turn in 0..2 {
            let at_work = (turn + pair) % 2;
            probe.pause(at_work == 0);
            speeds[at_work as usize] = speed(hog, moment);
        }
        // In a short moment on a busy machine the hog may not run at all; such a pair is discarded,
        // whichever half it is.
        if speeds[0] > 0.0 && speeds[1] > 0.0 {
            ratios.push(speeds[1] / speeds[0]);
        }
    }
    probe.pause(false);
    Some(Ratio::of(ratios))
}

impl Ratio {
    fn of(ratios: Vec<f64>) -> Self {
        let none = Median { value: 1.0, low: 1.0, high: 1.0, samples: 0 };
        let median = Median::of(ratios).unwrap_or(none);
        Self { ratio: median.value, low: median.low, high: median.high, pairs: median.samples }
    }
}

/// CPUs for a plan: those that this process may use.
///
/// # Errors
/// The kernel refuses to tell them.
pub fn usable_cpus() -> Result<Vec<u32>, LinuxError> {
    let online = machine::online_cpus()?;
    let mine = sys::tasks::affinity_of(0)
        .map_err(|e| LinuxError::of_io("this process's CPUs", &e, "name them with --cpu"))?;
    Ok(mine.into_iter().filter(|cpu| online.contains(cpu)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let cpus = usable_cpus().unwrap();
        let probe = Config { rate: 2000, buffer: Some(1 << 20), ..Config::on(&cpus) };
        Plan { probe, cpus, span: Duration::from_millis(100), factor: 1.5, hog: Some(1 << 20) }
    }

    #[test]
    fn every_load_is_measured() {
        let plan = Plan { cpus: plan().cpus.into_iter().take(2).collect(), ..plan() };
        let found = match calibrate(&plan, &|| false, &|_| {}) {
            Ok(found) => found.unwrap(),
            // This happens on a machine without free CPU time.
            Err(e) => return assert!(e.to_string().contains("had no measurement"), "{e}"),
        };
        assert_eq!(found.levels.len(), plan.cpus.len());
        assert!(
            found
                .levels
                .iter()
                .zip(0..)
                .all(|(l, hogs)| l.hogs == hogs && l.windows.len() == WINDOWS as usize)
        );
        let alone = &found.levels[0];
        assert!(
            alone.lowest_ns <= alone.latency_ns && alone.latency_ns <= alone.highest_ns,
            "{alone:?}"
        );
        let bytes = |l: &Level| l.hog_bytes_per_s;
        assert!(found.levels[1..].iter().all(|l| bytes(l) > bytes(alone)), "{found:?}");
        assert_eq!(found.threshold_ns, threshold(alone.latency_ns, 1.5));
        assert!(
            found.losses[0].same_cpu
                && found.losses.iter().all(|l| l.speed.pairs <= 100 && l.speed.ratio > 0.0)
        );
        assert!(
            (alone.to_alone.ratio - 1.0).abs() < 1e-12 && alone.to_alone.low == alone.to_alone.high
        );
        assert!(found.cost.loads > 0);
    }

    #[test]
    fn it_stops_when_asked() {
        assert_eq!(calibrate(&plan(), &|| true, &|_| {}).unwrap(), None);
    }

    #[test]
    fn ratios_are_those_of_a_round() {
        // Memory got slower in the third round, for both; the second quiet window was not measured.
        let alone = [Some(100.0), None, Some(200.0), Some(100.0)];
        let windows = [Some(110.0), Some(500.0), Some(240.0), Some(130.0)].to_vec();
        let mut level =
            Level { hogs: 1, windows, time: Duration::from_secs(2), bytes: 10, ..Level::default() };
        summarise(&mut level, &alone).unwrap();
        assert_eq!((level.to_alone.ratio, level.to_alone.pairs), (1.2, 3));
        assert_eq!((level.latency_ns, level.lowest_ns, level.highest_ns), (245.0, 110.0, 500.0));
        assert_eq!(level.hog_bytes_per_s, 5.0);
        level.windows = vec![None, None];
        assert!(summarise(&mut level, &alone).unwrap_err().to_string().contains("; raise"));
    }

    #[test]
    fn thresholds_are_whole() {
        assert_eq!(
            [threshold(100.0, 1.5), threshold(33.4, 2.0), threshold(0.0, 1.0)],
            [150, 67, 1]
        );
    }

    #[test]
    fn senseless_plans_are_refused() {
        let good = plan();
        for (wrong, word) in [
            (Plan { factor: 0.5, ..good.clone() }, "a factor of 0.5"),
            (Plan { factor: f64::NAN, ..good.clone() }, "a factor of NaN"),
            (Plan { span: Duration::from_millis(1), ..good.clone() }, "1ms for each load"),
            (Plan { span: Duration::from_secs(601), ..good.clone() }, "601s for each load"),
        ] {
            let error = calibrate(&wrong, &|| false, &|_| {}).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("; choose"), "{error}");
        }
    }
}
