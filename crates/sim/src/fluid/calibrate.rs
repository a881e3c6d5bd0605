//! Phases of a program, measured on a machine that computes every request.
//!
//! Rule. The program runs alone, once for each share of the cache that makes a difference and each
//! of three memory latencies. Its stream of operations is the same each time, so progress (cycles
//! of computation plus accesses) gives the program's position. The run with the whole cache and no
//! added latency cuts it into samples; neighbours whose rates differ little become one phase. In
//! the other runs the counters at the same progress are read off, between samples linearly. Time
//! against latency then gives each phase's slope (from the two added latencies) and the time that
//! is not overlapped. The locality is chosen by its idle latency, which must equal the measured
//! latency less the program's own queueing.
//!
//! Works with any [`Hardware`], the interval machine included.
//!
//! Not covered: phases shorter than a sample, and programs whose work depends on time.

use super::curve::MemoryCurve;
use super::program::{Demand, FluidError, FluidProgram, GoOn, Phase};
use crate::hardware::{Counters, Hardware, Notice, ProgramId};
use crate::program::Signal;

/// Configuration of the machine for one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Lines of the shared cache that the program can fill.
    pub cache_lines: u64,
    /// Added to the latency of every DRAM read, outside the controller, ps.
    pub extra_ps: u64,
}

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Time before the first sample, ps: caches fill.
    pub warm_ps: u64,
    /// Time that is sampled, ps; jobs that end within it are phases of their own.
    pub horizon_ps: u64,
    /// Time of a sample, ps.
    pub sample_ps: u64,
    /// Approximate upper limit of the phases between two signals of the kernel.
    pub phases: usize,
    /// Shares of the cache to measure, rising; the last is the whole of it.
    pub cache_lines: Vec<u64>,
    /// Lines that the program holds in each of these shares, rising, where they are known (sets are
    /// filled unevenly). Otherwise the shares themselves.
    pub holds: Vec<u64>,
    /// Lines of the private caches, if the program fills them.
    pub private_lines: u64,
    /// The part of the shared cache that the program will fill.
    pub partition: usize,
}

impl Calibration {
    /// Two milliseconds to warm up, two in samples of 50 us, and these shares of the cache.
    #[must_use]
    pub fn new(cache_lines: Vec<u64>) -> Self {
        Self {
            warm_ps: 2_000_000_000,
            horizon_ps: 2_000_000_000,
            sample_ps: 50_000_000,
            phases: 64,
            cache_lines,
            holds: Vec::new(),
            private_lines: 0,
            partition: 0,
        }
    }
}

/// Latencies added in the two runs that the slope comes from, ps.
const EXTRA_PS: [u64; 2] = [100_000, 200_000];
/// Runs give up after this multiple of the reference's time.
const PATIENCE: u64 = 64;

/// Counters and signal of a run at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    counters: Counters,
    occupancy_ps: u64,
    uncore_reads: u64,
    signal: Option<Signal>,
}

impl Point {
    fn of<H: Hardware>(hardware: &H, signal: Option<Signal>) -> Self {
        let uncore = hardware.uncore();
        Self {
            counters: hardware.program(ProgramId(0)),
            occupancy_ps: uncore.read_occupancy_ps,
            uncore_reads: uncore.reads,
            signal,
        }
    }

    fn progress(&self) -> u64 {
        self.counters.compute_cycles + self.counters.accesses
    }
}

/// Events between two moments.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    cycles: f64,
    accesses: f64,
    llc: f64,
    misses: f64,
    reads: f64,
    writes: f64,
    busy_ps: f64,
    latency_ps: f64,
}

/// Counters in a fixed order, for differences and interpolation.
fn values(p: &Point) -> [u64; 9] {
    let c = &p.counters;
    let head =
        [c.compute_cycles, c.accesses, c.llc_accesses, c.llc_misses, c.dram_reads, c.dram_writes];
    [
        head[0],
        head[1],
        head[2],
        head[3],
        head[4],
        head[5],
        c.busy_ps,
        p.occupancy_ps,
        p.uncore_reads,
    ]
}

fn span(from: &[f64; 9], to: &[f64; 9]) -> Span {
    let d: [f64; 9] = std::array::from_fn(|i| to[i] - from[i]);
    Span {
        cycles: d[0],
        accesses: d[1],
        llc: d[2],
        misses: d[3],
        reads: d[4],
        writes: d[5],
        busy_ps: d[6],
        latency_ps: if d[8] > 0.5 { d[7] / d[8] } else { 0.0 },
    }
}

/// Runs the program alone until it has made some progress or for some time; the points of the run.
fn run<H: Hardware>(
    hardware: &mut H,
    sample_ps: u64,
    until_ps: u64,
    until_progress: u64,
    go_on: GoOn<'_>,
) -> Result<Vec<Point>, FluidError> {
    let program = ProgramId(0);
    hardware.dispatch(0, Some(program), 0);
    let mut points = vec![Point::of(hardware, None)];
    let mut at = 0;
    while at < until_ps {
        at += sample_ps;
        if !go_on() {
            return Err(FluidError::Interrupted);
        }
        while let Some(notice) = hardware.advance(at) {
            if let Notice::Signal { signal, .. } = notice {
                points.push(Point::of(hardware, Some(signal)));
                hardware.dispatch(0, Some(program), 0);
            }
        }
        points.push(Point::of(hardware, None));
        if points.last().is_some_and(|p| p.progress() >= until_progress) {
            return Ok(points);
        }
    }
    if until_progress < u64::MAX {
        return Err(FluidError::Calibration(format!(
            "with less cache or more latency, the program made less progress in {until_ps} ps as \
                in the reference run; lower horizon_ps"
        )));
    }
    Ok(points)
}

/// The counters at a progress.
fn at_progress(points: &[Point], progress: u64) -> [f64; 9] {
    let after = points.partition_point(|p| p.progress() < progress).min(points.len() - 1);
    let (a, b) = (&points[after.saturating_sub(1)], &points[after]);
    let whole = b.progress().saturating_sub(a.progress());
    let x =
        if whole > 0 { progress.saturating_sub(a.progress()) as f64 / whole as f64 } else { 1.0 };
    let x = if x < 1.0 { x } else { 1.0 };
    let (a, b) = (values(a), values(b));
    std::array::from_fn(|i| a[i] as f64 + (b[i] - a[i]) as f64 * x)
}

/// A cut: the progress, and the signal there.
type Cut = (u64, Option<Signal>);

/// Points at which the program is cut: ends of whole jobs where it has jobs, else ends of samples.
fn cuts(points: &[Point], options: &Calibration) -> Result<Vec<Cut>, FluidError> {
    let warm = |p: &Point| p.counters.busy_ps >= options.warm_ps;
    let ends: Vec<usize> =
        (0..points.len()).filter(|&i| points[i].signal == Some(Signal::JobEnd)).collect();
    let first = ends.iter().copied().find(|&i| warm(&points[i]));
    let (first, last) = match (first, ends.last()) {
        (Some(first), Some(&last)) if first < last => (first, last),
        (None, None) => (points.iter().position(warm).unwrap_or(0), points.len() - 1),
        _ => {
            return Err(FluidError::Calibration(format!(
                "fewer than two jobs end between warm_ps = {} and {} ps more; raise horizon_ps",
                options.warm_ps, options.horizon_ps
            )));
        }
    };
    let mut cuts: Vec<Cut> = vec![(points[first].progress(), None)];
    for p in &points[first + 1..=last] {
        let first = cuts.len() == 1;
        match cuts.last_mut() {
            // A signal and a sample at one place; two signals are two cuts.
            Some(cut)
                if cut.0 == p.progress() && (p.signal.is_none() || cut.1.is_none() && !first) =>
            {
                cut.1 = cut.1.or(p.signal);
            }
            _ => cuts.push((p.progress(), p.signal)),
        }
    }
    if cuts.len() < 2 {
        return Err(FluidError::Calibration(
            "the program made no progress; give it computation or accesses".to_owned(),
        ));
    }
    Ok(cuts)
}

/// Do two pieces have about the same rates?
fn alike(a: &Span, b: &Span, tolerance: f64) -> bool {
    let rate = |s: &Span, n: f64| n / if s.busy_ps > 1.0 { s.busy_ps } else { 1.0 };
    // Below one a microsecond, a difference does not count.
    let near = |x: f64, y: f64| (x - y).abs() <= tolerance * x.max(y) + 1e-6;
    near(rate(a, a.reads), rate(b, b.reads))
        && near(rate(a, a.writes), rate(b, b.writes))
        && near(rate(a, a.llc), rate(b, b.llc))
        && near(rate(a, a.cycles), rate(b, b.cycles))
}

/// Joins neighbours that are alike, more and more coarsely until they are few.
fn join(points: &[Point], cuts: &[Cut], most: usize) -> Vec<Cut> {
    let signals = cuts.iter().filter(|c| c.1.is_some()).count();
    let mut tolerance = 0.05;
    loop {
        let mut joined = vec![cuts[0]];
        let mut before: Option<Span> = None;
        for &cut in &cuts[1..] {
            let last = joined[joined.len() - 1];
            let new = span(&at_progress(points, last.0), &at_progress(points, cut.0));
            if let (Some(old), None) = (&before, last.1)
                && joined.len() > 1
                && alike(old, &new, tolerance)
            {
                joined.pop();
            }
            let last = joined[joined.len() - 1];
            before = Some(span(&at_progress(points, last.0), &at_progress(points, cut.0)));
            joined.push(cut);
        }
        if joined.len() <= most.max(1) + signals + 1 || tolerance > 100.0 {
            return joined;
        }
        tolerance *= 2.0;
    }
}

/// Measures a program that `make` puts, as program 0, on a machine with the settings it is given.
///
/// # Errors
/// Errors of `make`; [`FluidError::Calibration`] where the runs do not give phases;
/// [`FluidError::Interrupted`].
pub fn calibrate<H: Hardware>(
    name: &str,
    curve: &MemoryCurve,
    options: &Calibration,
    go_on: GoOn<'_>,
    mut make: impl FnMut(Setting) -> Result<H, FluidError>,
) -> Result<FluidProgram, FluidError> {
    let Some(&whole) = options.cache_lines.last() else {
        return Err(FluidError::Calibration(
            "cache_lines is empty; give the shares to measure".to_owned(),
        ));
    };
    if options.sample_ps == 0 || !options.cache_lines.is_sorted_by(|a, b| a < b) {
        return Err(FluidError::Calibration(
            "sample_ps is 0, or cache_lines do not rise".to_owned(),
        ));
    }
    let until = options.warm_ps.saturating_add(options.horizon_ps);
    let mut hardware = make(Setting { cache_lines: whole, extra_ps: 0 })?;
    let reference = run(&mut hardware, options.sample_ps, until, u64::MAX, go_on)?;
    let cuts = join(&reference, &cuts(&reference, options)?, options.phases);
    let last = cuts[cuts.len() - 1].0;
    let run_with = |cache_lines, extra_ps| {
        let mut hardware = make(Setting { cache_lines, extra_ps })?;
        run(&mut hardware, options.sample_ps, until.saturating_mul(PATIENCE), last, go_on)
    };
    let mut phases: Vec<Phase> = vec![Phase::default(); cuts.len() - 1];
    measure_shares(curve, options, &cuts, &reference, &mut phases, run_with)?;
    for ((phase, s), cut) in phases.iter_mut().zip(spans(&reference, &cuts)).zip(&cuts[1..]) {
        (phase.compute_cycles, phase.accesses) = (whole_number(s.cycles), whole_number(s.accesses));
        phase.llc_accesses = whole_number(s.llc);
        phase.end = cut.1;
    }
    trim(&mut phases);
    let (private_lines, partition) = (options.private_lines, options.partition);
    Ok(FluidProgram { name: name.to_owned(), phases, private_lines, partition })
}

/// Events between the cuts.
fn spans(points: &[Point], cuts: &[Cut]) -> Vec<Span> {
    let at: Vec<[f64; 9]> = cuts.iter().map(|c| at_progress(points, c.0)).collect();
    at.windows(2).map(|w| span(&w[0], &w[1])).collect()
}

/// Lines moved by misses and write-backs.
fn lines(spans: &[Span]) -> f64 {
    spans.iter().map(|s| s.misses + s.writes).sum()
}

/// Adds to the phases their demand with each share of the cache. A share that moves as many lines
/// as the next larger one is taken to be equal to it, and is not measured at other latencies: a
/// single way shows effects of its own.
fn measure_shares(
    curve: &MemoryCurve,
    options: &Calibration,
    cuts: &[Cut],
    reference: &[Point],
    phases: &mut [Phase],
    mut run_with: impl FnMut(u64, u64) -> Result<Vec<Point>, FluidError>,
) -> Result<(), FluidError> {
    let whole = options.cache_lines.len() - 1;
    let with_whole = spans(reference, cuts);
    let least = if whole > 0 {
        spans(&run_with(options.cache_lines[0], 0)?, cuts)
    } else {
        with_whole.clone()
    };
    // If the least share is as good as the whole, so are those between.
    let streams = lines(&least) <= 1.02 * lines(&with_whole);
    let mut above = f64::NEG_INFINITY;
    for share in if streams { whole..=whole } else { 0..=whole }.rev() {
        let cache_lines = options.cache_lines[share];
        let none = match share {
            _ if share == whole => with_whole.clone(),
            0 => least.clone(),
            _ => spans(&run_with(cache_lines, 0)?, cuts),
        };
        let moved = lines(&none);
        let held = options.holds.get(share).copied().unwrap_or(cache_lines);
        let alike = moved < 1.01 * above;
        above = moved;
        if alike {
            for phase in phases.iter_mut() {
                let like = phase.demands.last().map(|d| Demand { cache_lines: held, ..*d });
                phase.demands.extend(like);
            }
            continue;
        }
        let some = spans(&run_with(cache_lines, EXTRA_PS[0])?, cuts);
        let more = spans(&run_with(cache_lines, EXTRA_PS[1])?, cuts);
        for (i, phase) in phases.iter_mut().enumerate() {
            phase.demands.push(demand(curve, held, [&none[i], &some[i], &more[i]]));
        }
    }
    phases.iter_mut().for_each(|p| p.demands.reverse());
    Ok(())
}

fn whole_number(x: f64) -> u64 {
    if x > 0.0 { (x + 0.5) as u64 } else { 0 }
}

/// The line of time against latency through the runs with added latency, and the time without.
fn demand(curve: &MemoryCurve, cache_lines: u64, [none, some, more]: [&Span; 3]) -> Demand {
    let n = if none.reads >= 1.0 { none.reads } else { none.writes };
    let latency = |s: &Span, extra: u64| s.latency_ps + extra as f64;
    let rise = latency(more, EXTRA_PS[1]) - latency(some, EXTRA_PS[0]);
    let slope = if rise > 0.0 { (more.busy_ps - some.busy_ps) / rise } else { 0.0 };
    let concurrency = if slope * 64.0 > n { n / slope } else { 64.0 };
    let concurrency = if concurrency > 1.0 { concurrency } else { 1.0 };
    let slope = n / concurrency;
    let on_line = some.busy_ps - slope * (latency(some, EXTRA_PS[0]) - none.latency_ps);
    // Clearly above the line: the time is not decided by memory.
    let (least, serial) = if none.busy_ps > 1.01 * on_line {
        (none.busy_ps, on_line - slope * none.latency_ps)
    } else {
        (0.0, none.busy_ps - slope * none.latency_ps)
    };
    Demand {
        cache_lines,
        llc_misses: whole_number(none.misses),
        dram_reads: whole_number(none.reads),
        dram_writes: whole_number(none.writes),
        least_ps: whole_number(least),
        serial_ps: if serial < 0.0 { -((0.5 - serial) as i64) } else { (serial + 0.5) as i64 },
        latency_ps: (none.reads >= 1.0).then_some(whole_number(none.latency_ps)),
        concurrency_milli: (concurrency * 1000.0) as u32,
        locality_milli: locality(curve, none),
    }
}

/// The locality, in thousandths, whose idle latency is nearest to the measured one without the
/// program's own queue.
fn locality(curve: &MemoryCurve, s: &Span) -> u32 {
    let lines = s.reads + s.writes;
    if s.reads < 1.0 || s.busy_ps < 1.0 {
        return 0;
    }
    let mut best = (f64::MAX, 0);
    for milli in (0..=1000u32).step_by(5) {
        let kind = curve.kind(s.writes / lines, f64::from(milli) / 1000.0);
        let u = lines * kind.line_ps / s.busy_ps;
        let u = if u < 0.98 { u } else { 0.98 };
        let off = (kind.idle_ps - s.latency_ps * (1.0 - u * u)).abs();
        if off < best.0 {
            best = (off, milli);
        }
    }
    best.1
}

/// Drops shares of the cache beyond the least one that is as good as the whole.
fn trim(phases: &mut [Phase]) {
    let shares = phases[0].demands.len();
    let misses = |i: usize| {
        phases.iter().map(|p| p.demands[i].llc_misses + p.demands[i].dram_writes).sum::<u64>()
    };
    let enough = misses(shares - 1) + misses(shares - 1) / 50 + misses(0) / 100;
    let keep = (0..shares).find(|&i| misses(i) <= enough).unwrap_or(shares - 1);
    // A program that misses just as much with all its streams through the cache fills the cache.
    let streams = keep == 0 && misses(0) > 0;
    for phase in phases {
        if streams {
            phase.demands.drain(..shares - 1);
        } else {
            phase.demands.truncate(keep + 1);
        }
    }
}
