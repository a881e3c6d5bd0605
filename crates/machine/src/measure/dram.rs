//! The time that the controller adds, the worst time of an access by itself, and the cost of a
//! burst of writes for a read.
//!
//! Rule for `dram.overhead`: a load from memory, less first level, shared cache, the commands of
//! the file's timing, and the clocks that the model's controller takes beside the overhead. Where
//! banks are known, it is the larger of the results for an open row and for a row conflict. Else it
//! is the result for a load anywhere, which is taken not to contain a precharge. The model charges
//! refreshes apart, so their part of a long walk is subtracted ([`without_refreshes`]), and so is
//! the opening of a row that many loads share. Rule for
//! `dram.latency_max`: the upper end of the median of the longest case of [`longest`], and no less
//! than loads anywhere and rows by turns. Source: the head of platforms/*.toml for the meaning of
//! the keys. Does not cover: cases that were not tried. So the file gets no less than the value by
//! the memory's timing and the measured overhead ([`super::file`]).

use super::banks::Banks;
use super::effort::Effort;
use super::finding::{Finding, Key, Row, Side};
use super::levels::{Levels, beyond};
use super::longest::{self, Longest};
use super::probe::{Access, Case, Probe, Shape};
use super::sampling::{Ended, LeftOut, Sampled, sample};
use crate::error::MachineError;
use solocore_buffers::walk::Random;
use solocore_model::Platform;
use solocore_model::units::Time;

/// Lines written before a read.
const BURSTS: [u32; 8] = [0, 1, 2, 4, 8, 16, 32, 64];

fn ns(time: Time) -> f64 {
    time.ps() as f64 / 1000.0
}

/// Checks that a found time is longer than the commands of the file's memory.
///
/// # Errors
/// The key, the number, and the timing that it contradicts.
pub fn check_timing(key: &str, found: f64, parts: &[(&str, Time)]) -> Result<(), MachineError> {
    let least: f64 = parts.iter().map(|&(_, time)| ns(time)).sum();
    if found >= least {
        return Ok(());
    }
    let names: Vec<&str> = parts.iter().map(|&(name, _)| name).collect();
    Err(MachineError::Machine(format!(
        "{key}: {found:.1} ns beyond the shared cache are less than the {least:.1} ns of {} in the \
            file. The file's timing is of another memory, or other programs fill the shared cache; correct \
            dram, or measure while nothing else runs",
        names.join(" + ")
    )))
}

/// Times that the model charges beside `dram.overhead` and the commands of a load, in ns. 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Apart {
    /// The controller's way in and out.
    pub way_ns: f64,
    /// A refresh.
    pub refresh_ns: f64,
    /// From one refresh of a rank to the next.
    pub every_ns: f64,
}

/// Loads of a piece of a walk through memory, at the least (some 100 us).
const WALK: f64 = 500.0;
/// Refreshes that a piece has at the least if its median is to contain their share.
const REFRESHES: f64 = 4.0;

/// A load of a piece of `loads` without the refreshes of its rank, by their timing in the model.
/// During a refresh a load waits, unless it is still outside of the memory: in caches, interconnect
/// or controller. So each refresh costs the walk no less than its length without that time. No more
/// than that is subtracted, so the result is rather too long. Of short pieces half or more have no
/// refresh, and nothing is subtracted. `whole` contains a first-level hit, `commands` are in ns.
fn without_refreshes(whole: Sampled, commands: f64, loads: f64, apart: Apart) -> Sampled {
    let part = |ns: f64| {
        let outside = (ns - commands).max(0.0);
        let long = ns * loads >= REFRESHES * apart.every_ns;
        if long { (apart.refresh_ns - outside).max(0.0) / apart.every_ns.max(1.0) } else { 0.0 }
    };
    whole.map(|ns| ns * (1.0 - part(ns)))
}

/// A load of an open row, of a walk that opens a row every `loads` loads by a conflict.
fn without_opening(hit: Sampled, conflict: &Sampled, loads: u32) -> Sampled {
    let loads = f64::from(loads.max(2));
    let less = |ns: f64, conflict: f64| (ns * loads - conflict) / (loads - 1.0);
    let mut open = hit.map(|ns| less(ns, conflict.median.value));
    open.median.low = less(hit.median.low, conflict.median.high);
    open.median.high = less(hit.median.high, conflict.median.low);
    open
}

/// `dram.overhead`.
///
/// # Errors
/// See [`Ended`]; a time that the file's timing does not allow.
pub fn overhead(
    idle: &Sampled,
    levels: &Levels,
    banks: &Result<Banks, String>,
    platform: &Platform,
    (apart, pairs): (Apart, Shape),
) -> Result<Finding, Ended> {
    let d = &platform.dram;
    let service = |whole: &Sampled| levels.service(whole);
    let sum = |parts: &[Time]| parts.iter().map(|&time| ns(time)).sum::<f64>();
    let whole = beyond(*idle, levels.first);
    let commands = [("t_rcd", d.t_rcd), ("t_cl", d.t_cl), ("t_burst", d.t_burst)];
    check_timing("dram.overhead", service(idle).median.high, &commands)?;
    let idle =
        service(&without_refreshes(*idle, sum(&commands.map(|(_, time)| time)), WALK, apart));
    let less = |s: &Sampled, parts: &[Time]| s.map(|time| time - sum(parts) - apart.way_ns);
    let mut rows = vec![
        Row::new("a load anywhere, beyond the first level", &whole),
        Row::new("a load anywhere, beyond the shared cache, refreshes apart", &idle),
    ];
    let (found, method, mut notes) = match banks {
        Ok(banks) => {
            let all = [("t_rp", d.t_rp), commands[0], commands[1], commands[2]];
            check_timing("dram.overhead", service(&banks.conflict).median.high, &all)?;
            check_timing("dram.overhead", service(&banks.hit).median.high, &commands[1..])?;
            let closed = sum(&all.map(|(_, time)| time));
            let loads = f64::from(pairs.loads);
            let conflict = without_refreshes(banks.conflict, closed, loads, apart);
            let hit = without_refreshes(banks.hit, sum(&[d.t_cl, d.t_burst]), loads, apart);
            let hit = service(&without_opening(hit, &conflict, pairs.row_loads));
            let conflict = service(&conflict);
            rows.push(Row::new(
                "a load of an open row, beyond the shared cache, refreshes apart",
                &hit,
            ));
            rows.push(Row::new(
                "a row conflict, beyond the shared cache, refreshes apart",
                &conflict,
            ));
            let by_hit = less(&hit, &[d.t_cl, d.t_burst]);
            let by_conflict = less(&conflict, &[d.t_rp, d.t_rcd, d.t_cl, d.t_burst]);
            let between = (by_hit.median.value - by_conflict.median.value).abs();
            let notes = if between > 0.1 * by_hit.median.value.max(by_conflict.median.value) {
                vec![format!(
                    "an open row says {:.1} ns and a row conflict {:.1} ns: the timing of the file \
                        is not the memory's; the larger one is taken",
                    by_hit.median.value, by_conflict.median.value
                )]
            } else {
                Vec::new()
            };
            let larger =
                if by_hit.median.high >= by_conflict.median.high { by_hit } else { by_conflict };
            (
                larger,
                "pages read by turns: the larger value, of open rows and of row conflicts",
                notes,
            )
        }
        Err(why) => {
            let found = less(&idle, &commands.map(|(_, time)| time));
            let note = format!("banks cannot be distinguished: {why}");
            (
                found,
                "dependent loads from memory in random order, assumed to contain no precharge",
                vec![note],
            )
        }
    };
    let mut finding = Finding::new(Key::Overhead, &found, Side::High, method);
    if found.median.low < 0.0 {
        notes.push("its lower end is below zero: the file's timing takes all of the time".into());
    }
    finding.value = finding.value.max(0.0);
    finding.rows = rows;
    finding.notes = notes;
    Ok(finding)
}

/// Offsets of the other lines: those of the bank, else any.
fn neighbours<P: Probe + ?Sized>(
    probe: &P,
    banks: &Result<Banks, String>,
    count: usize,
) -> Vec<u64> {
    let mut random = Random::new(11);
    if let Ok(banks) = banks {
        let mut same = banks.same.clone();
        random.shuffle(&mut same);
        same.truncate(count);
        return same;
    }
    let step = probe.offset_step();
    let pages = usize::try_from(probe.offsets().max(64 * step) / step).unwrap_or(64);
    (0..count).map(|_| (1 + random.below(pages - 1)) as u64 * step).collect()
}

/// `dram.latency_max`.
///
/// # Errors
/// See [`Ended`]; a time that the file's timing does not allow.
pub fn latency_max<P: Probe + ?Sized>(
    probe: &mut P,
    idle: &Sampled,
    levels: &Levels,
    banks: &Result<Banks, String>,
    platform: &Platform,
    effort: &Effort,
) -> Result<Finding, Ended> {
    const KEY: &str = "dram.latency_max";
    // Without flushing, chains alone are possible.
    let count = if probe.flushes() { effort.neighbours } else { 0 };
    let offsets = neighbours(probe, banks, count);
    let (mut left_out, mut samples, mut worst) = (LeftOut::default(), 0, 0.0_f64);
    let mut candidates = Vec::new();
    let mut cases: Vec<(String, Longest)> = Vec::new();
    if let Some(found) = longest::search(probe, KEY, &offsets, effort)? {
        cases.push((longest::name(found.case), found));
    }
    if let Some(&offset) = offsets.first() {
        let same = banks.as_ref().map_or(&[][..], |banks| &banks.same);
        if let Some(found) = longest::behind_last(probe, KEY, offset, same, effort)? {
            let name = longest::name(found.case);
            cases.push((format!("right behind the last write served: {name}"), found));
        }
    }
    for (name, found) in cases {
        left_out = left_out.and(found.left_out);
        samples += found.samples;
        worst = worst.max(found.worst);
        candidates.push((name, found.best));
    }
    let alone = candidates.len();
    // These evict other lines from the caches, which a single access need not do.
    candidates.push(("loads in random order".to_owned(), *idle));
    if let Ok(banks) = banks {
        candidates.push(("pages of one bank by turns".to_owned(), banks.conflict));
    }
    for (_, found) in &candidates[alone..] {
        left_out = left_out.and(found.left_out);
        samples += found.median.samples;
    }
    let service = |found: &Sampled| levels.service(found);
    let rows: Vec<Row> = candidates
        .iter()
        .map(|(of, found)| Row {
            worst: Some(service(found).worst),
            ..Row::new(of, &service(found))
        })
        .collect();
    let most = candidates.iter().map(|(_, found)| service(found));
    let Some(service) = most.max_by(|a, b| a.median.high.total_cmp(&b.median.high)) else {
        return Err(Ended::Failed(MachineError::Machine(format!("{KEY}: no case was tried"))));
    };
    let d = &platform.dram;
    let commands = [("t_rp", d.t_rp), ("t_rcd", d.t_rcd), ("t_cl", d.t_cl), ("t_burst", d.t_burst)];
    check_timing(KEY, service.median.high, &commands)?;
    let mut finding = Finding::new(Key::LatencyMax, &service, Side::High, method(banks.is_ok()));
    finding.samples = samples;
    finding.left_out = left_out;
    finding.rows = rows;
    if alone > 0 {
        finding.notes.push(format!(
            "the longest single access was {:.0} ns beyond the shared cache; a time of a case \
            beyond its median is a refresh, a device or another guest; no counter shows the cause",
            worst - levels.first.median.value - levels.shared.least
        ));
    }
    if let Err(why) = banks {
        finding.notes.push(format!("lines of one bank are not known: {why}"));
    }
    if !probe.flushes() {
        finding.notes.push(
            "this CPU cannot flush single lines from the caches: no access was timed after writes"
                .to_owned(),
        );
    }
    Ok(finding)
}

fn method(banks: bool) -> &'static str {
    if banks {
        "single accesses after reads and writes of other rows of their bank: the longest case's \
            median"
    } else {
        "single accesses after reads and writes of other pages: the longest case's median"
    }
}

/// A read after a burst of writes to another row.
///
/// # Errors
/// See [`Ended`].
pub fn writes<P: Probe + ?Sized>(
    probe: &mut P,
    banks: &Result<Banks, String>,
    effort: &Effort,
) -> Result<Finding, Ended> {
    let offset = neighbours(probe, banks, 1).first().copied().unwrap_or(4096);
    let mut rows = Vec::new();
    let (mut left_out, mut samples) = (LeftOut::default(), 0);
    let mut alone: Option<Sampled> = None;
    let mut most: Option<Sampled> = None;
    for writes in BURSTS {
        let case = Case { offset, writes, rows: [0; 3], gap_ns: 0, access: Access::Read };
        let found = sample(probe, "writes", 8 * effort.singles, effort.share(0.01), |p| {
            Ok(p.single(case, effort.singles))
        })?;
        left_out = left_out.and(found.left_out);
        samples += found.median.samples;
        let base = *alone.get_or_insert(found);
        let added = beyond(found, base);
        rows.push(Row::new(format!("after {writes} writes"), &found));
        if most.is_none_or(|m| added.median.high > m.median.high) {
            most = Some(added);
        }
    }
    let most = most.or(alone).ok_or_else(|| {
        MachineError::Machine("writes: nothing was measured; give more --time".to_owned())
    })?;
    let method = "the largest time that a burst of writes to another row adds to the read behind \
        it";
    let mut finding = Finding::new(Key::Writes, &most, Side::High, method);
    (finding.samples, finding.left_out, finding.rows) = (samples, left_out, rows);
    Ok(finding)
}
