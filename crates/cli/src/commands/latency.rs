//! `solocore latency`: the latency of requests to memory, the requests of each CPU, and the
//! decisions of Algorithm 1.

use crate::args::Format;
use crate::args::latency::{LatencyArgs, Rule};
use crate::fail::Failure;
use crate::print::{print, print_if_read};
use crate::progress::stopped;
use crate::table;
use schemars::JsonSchema;
use serde::Serialize;
use solocore_linux::host::machine;
use solocore_linux::latency::calibrate::{self, Calibration};
use solocore_linux::latency::probe::Config;
use solocore_linux::latency::requests::CoreRequests;
use solocore_linux::latency::throttling::{self, InProcess, Settings, Throttling, Tick, Watched};
use solocore_linux::latency::{self, Cost, Unit, pmu};
use solocore_model::files;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Readings of the memory's latency, or of its requests.
#[derive(Serialize, JsonSchema)]
pub(super) struct Report {
    /// `solocore-latency/1`.
    format: &'static str,
    /// Source of the readings.
    source: String,
    /// Unit of a latency.
    unit: Unit,
    /// Reason why it is not the first choice.
    instead_of: Option<String>,
    /// The event that counts requests of a CPU; `None` if this process may not count.
    event: Option<String>,
    /// CPUs whose requests are counted.
    cpus: Vec<u32>,
    /// Rule of the decisions: `latency` or `rate`.
    rule: &'static str,
    /// Threshold of the rule, in its unit; `null`: no decision is made.
    threshold: Option<u64>,
    /// Readings, one for each period.
    readings: Vec<Shown>,
    /// Cost of the probe.
    cost: Option<Cost>,
}

/// A period.
#[derive(Serialize, JsonSchema)]
struct Shown {
    /// Mean latency of a request; `null`: there was none, or only requests are counted.
    latency: Option<f64>,
    #[serde(flatten)]
    tick: Tick,
}

#[derive(Serialize)]
struct CalibrationReport {
    format: &'static str,
    cpu: u32,
    factor: f64,
    #[serde(flatten)]
    found: Calibration,
}

/// Prints readings, or calibrates.
pub fn run(args: &LatencyArgs) -> Result<ExitCode, Failure> {
    if args.calibrate {
        return calibrate(args);
    }
    let settings = settings(args.rule, args.threshold, args.idle)?;
    let cpus = machine::online_cpus()?;
    let (cores, without) = cores(args, &cpus)?;
    let config = config(args)?;
    let choice = args.source;
    let sysfs = Path::new(pmu::SYSFS);
    let (watched, instead_of) =
        latency::watch(settings.rule, choice, sysfs, &machine::cpuinfo(), &config)?;
    let report = Report {
        format: "solocore-latency/1",
        source: watched.about(),
        unit: watched.unit(),
        instead_of,
        event: (!cores.cpus().is_empty()).then(|| cores.event().name().to_owned()),
        cpus: cores.cpus(),
        rule: if args.rule == Rule::Rate { "rate" } else { "latency" },
        threshold: args.threshold,
        readings: Vec::new(),
        cost: None,
    };
    let mechanism = InProcess::new(cores.cpus().len().max(1), &settings)?;
    let every = Duration::from_nanos(args.every.ns_ceil());
    let driver = Throttling::new(every, settings.rule, watched, cores, mechanism)?;
    show(args, report, driver, without.as_deref())
}

fn show(
    args: &LatencyArgs,
    mut report: Report,
    mut driver: Throttling<InProcess>,
    without: Option<&str>,
) -> Result<ExitCode, Failure> {
    let text = args.format == Format::Text;
    if text {
        print(&head(&report, without))?;
    }
    let (mut elapsed_ns, mut seen, mut failed) = (0, 0, None);
    driver.run(stopped, |tick| {
        elapsed_ns += tick.period_ns;
        if text {
            match print_if_read(&line(&report, tick, elapsed_ns)) {
                Ok(true) => {}
                // The reader has gone (`| head`).
                Ok(false) => return ControlFlow::Break(()),
                Err(e) => {
                    failed = Some(e);
                    return ControlFlow::Break(());
                }
            }
        }
        seen += 1;
        // Only the document has all of them.
        if !text {
            report.readings.push(Shown { latency: tick.reading.latency(), tick: tick.clone() });
        }
        if args.count.is_some_and(|count| seen >= count) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    if let Watched::Source(source) = driver.watched() {
        report.cost = source.cost();
    }
    if text {
        print(&report.cost.as_ref().map(cost_text).unwrap_or_default())?;
    } else {
        print(&files::to_json(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Settings of the rule; without a threshold memory is never contended.
pub fn settings(rule: Rule, threshold: Option<u64>, idle: f64) -> Result<Settings, Failure> {
    if !(0.0..=1.0).contains(&idle) {
        return Err(Failure::Input(format!("--idle {idle} is not a share from 0 to 1; give one")));
    }
    let rule = if rule == Rule::Rate { throttling::Rule::Rate } else { throttling::Rule::Latency };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    let idle_per_mille = (idle * 1000.0).round() as u32;
    Ok(Settings { rule, threshold: threshold.unwrap_or(u64::MAX), idle_per_mille })
}

/// Counters of the CPUs, or an empty set with the reason: no option needs them, and this process
/// may not count.
fn cores(args: &LatencyArgs, cpus: &[u32]) -> Result<(CoreRequests, Option<String>), Failure> {
    let cpuinfo = machine::cpuinfo();
    match CoreRequests::choose(args.event.as_deref(), &cpuinfo, cpus) {
        Ok(chosen) => Ok(chosen),
        Err(e)
            if args.event.is_none() && args.threshold.is_none() && args.rule == Rule::Latency =>
        {
            let (none, _) = CoreRequests::choose(Some("page-faults"), &cpuinfo, &[])?;
            Ok((none, Some(e.to_string())))
        }
        Err(e) => Err(e.into()),
    }
}

fn config(args: &LatencyArgs) -> Result<Config, Failure> {
    let cpus = match &args.cpu {
        Some(list) => parse_cpus(list)?,
        None => calibrate::usable_cpus()?,
    };
    Ok(Config { rate: args.rate, loads: args.loads, priority: args.priority, ..Config::on(&cpus) })
}

/// Reads a list such as `0-1,3`; every item must be valid.
fn parse_cpus(list: &str) -> Result<Vec<u32>, Failure> {
    let cpus = machine::parse_cpu_list(list);
    let parts_good = list.split(',').all(|part| !machine::parse_cpu_list(part).is_empty());
    if !parts_good || cpus.len() > 4096 {
        return Err(Failure::Input(format!(
            "--cpu {list} is not a list of CPUs; give one like 0-1,3"
        )));
    }
    Ok(cpus)
}

fn head(report: &Report, without: Option<&str>) -> String {
    let what = if report.unit == Unit::Requests { "requests" } else { "latency" };
    let mut out = format!("{what}: {}\n", report.source);
    if let Some(why) = &report.instead_of {
        out += &format!("  as {why}\n");
    }
    out += &match (&report.event, without) {
        (Some(event), None) => format!("requests of a CPU: {event}\n"),
        (Some(event), Some(why)) => format!("requests of a CPU: {event}\n  as {why}\n"),
        (None, why) => format!(
            "requests of a CPU: not counted\n  as {}\n",
            why.unwrap_or("this user may not count")
        ),
    };
    out += &format!("\n{:>10}", "s");
    if report.unit != Unit::Requests {
        out += &format!("  {:>8}", report.unit.short());
    }
    out += &format!("  {:>10}  {:>7}", "requests", "dropped");
    for cpu in &report.cpus {
        out += &format!("  {:>10}", format!("CPU {cpu}"));
    }
    if report.threshold.is_some() {
        out += "  contended  throttled";
    }
    out.push('\n');
    out
}

fn line(report: &Report, tick: &Tick, elapsed_ns: u64) -> String {
    let mut out = format!("{:>10.3}", elapsed_ns as f64 / 1e9);
    if report.unit != Unit::Requests {
        let latency = tick.reading.latency().map_or_else(|| "-".to_owned(), |l| format!("{l:.1}"));
        out += &format!("  {latency:>8}");
    }
    out += &format!("  {:>10}  {:>7}", tick.reading.requests, tick.reading.dropped);
    for requests in &tick.per_core {
        out += &format!("  {requests:>10}");
    }
    if report.threshold.is_some() {
        let contended = if tick.decision.contended { "yes" } else { "no" };
        out += &format!("  {contended:>9}  {:>9}", tick.decision.throttled);
    }
    out.push('\n');
    out
}

fn cost_text(cost: &Cost) -> String {
    format!(
        "\nthe probe took {:.2} % of a CPU and {:.2} MB/s for {} loads\n",
        cost.cpu_share * 100.0,
        cost.bytes_per_s / 1e6,
        cost.loads
    )
}

fn calibrate(args: &LatencyArgs) -> Result<ExitCode, Failure> {
    let cpus = calibrate::usable_cpus()?;
    let plan = calibrate::Plan {
        probe: config(args)?,
        cpus,
        span: Duration::from_nanos(args.span.ns_ceil()),
        factor: args.factor,
        hog: None,
    };
    let cpu = plan.probe.cpus.first().copied().unwrap_or(0);
    let found = calibrate::calibrate(&plan, &stopped, &|what| eprintln!("{what}"))?;
    let Some(found) = found else { return Err(Failure::Interrupted) };
    if args.format == Format::Json {
        let report = CalibrationReport {
            format: "solocore-latency-calibration/1",
            cpu,
            factor: args.factor,
            found,
        };
        print(&files::to_json(&report))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&calibration_text(&found, args.factor))?;
    Ok(ExitCode::SUCCESS)
}

fn calibration_text(found: &Calibration, factor: f64) -> String {
    let head = [
        "hogs",
        "ns",
        "lowest",
        "highest",
        "of alone",
        "95 % confidence",
        "hogs' GB/s",
        "dropped",
        "contended",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for level in &found.levels {
        rows.push(vec![
            level.hogs.to_string(),
            format!("{:.1}", level.latency_ns),
            format!("{:.1}", level.lowest_ns),
            format!("{:.1}", level.highest_ns),
            format!("{:.1} %", level.to_alone.ratio * 100.0),
            format!("{:.1} to {:.1}", level.to_alone.low * 100.0, level.to_alone.high * 100.0),
            format!("{:.2}", level.hog_bytes_per_s / 1e9),
            level.dropped.to_string(),
            format!("{:.0} %", level.contended * 100.0),
        ]);
    }
    let mut out = table::render(&rows);
    out += &format!(
        "\nthreshold: {} ns, {factor} times the latency alone; contended is the number of windows \
        that reach it\n",
        found.threshold_ns
    );
    if found.levels.iter().all(|l| l.contended == 0.0) {
        out += "no load of this measurement reaches it: these CPUs do not contend for this \
        memory, or --factor is too large\n";
    }
    let cost = &found.cost;
    out += &format!(
        "the probe took {:.2} % of its CPU and {:.2} MB/s\n",
        cost.cpu_share * 100.0,
        cost.bytes_per_s / 1e6
    );
    for loss in &found.losses {
        let place = if loss.same_cpu { "the probe's CPU" } else { "another CPU" };
        out += &format!(
            "a hog on {place} ran at {:.2} % with the probe (median of {} pairs; {:.2} to {:.2} \
                with 95 % confidence)\n",
            loss.speed.ratio * 100.0,
            loss.speed.pairs,
            loss.speed.low * 100.0,
            loss.speed.high * 100.0
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_linux::latency::Reading;

    #[test]
    fn a_list_of_cpus_is_taken_whole_or_not() {
        assert_eq!(parse_cpus("0-1,3").unwrap(), [0, 1, 3]);
        for wrong in ["", "x", "0,x", "1-", "3-1", "0,,1", "0-99999999"] {
            assert!(
                matches!(parse_cpus(wrong), Err(Failure::Input(t)) if t.contains("; give")),
                "{wrong}"
            );
        }
    }

    #[test]
    fn columns_stand_below_their_heads() {
        let tick = Tick {
            period_ns: 100_000_000,
            reading: Reading { occupancy: 1000, requests: 10, dma_included: true, dropped: 2 },
            per_core: vec![5, 7],
            decision: throttling::Decision {
                contended: true,
                throttled: 1,
                requests: 12,
                most_requests: 12,
            },
        };
        let report = Report {
            format: "",
            source: "s".to_owned(),
            unit: Unit::Nanoseconds,
            instead_of: None,
            event: Some("e".to_owned()),
            cpus: vec![0, 1],
            rule: "latency",
            threshold: Some(50),
            readings: vec![],
            cost: None,
        };
        let head = head(&report, None);
        let line = line(&report, &tick, 100_000_000);
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells, ["0.100", "100.0", "10", "2", "5", "7", "yes", "1"]);
        assert_eq!(head.lines().last().unwrap().len(), line.trim_end().len());
    }
}
