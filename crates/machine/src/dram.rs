//! The `[dram]` of a platform file.
//!
//! Problem: a running machine gives the size of its memory, and its firmware the modules. No file
//! gives the controller's time, or the longest time of a request, and few give the timing. Rule:
//! the modules' data are read: of SMBIOS, and their own (crate::spd), which also has the least
//! times. Banks, row, and what else the bounds use, are those of the memory of
//! crate::tables::memories that stands for their type. The rest is assumed on the side of a slow
//! memory. The memory model needs powers of two: channels are rounded down and ranks up, the sides
//! on which bounds are larger; rows have no part in bounds. Does not cover: modules that differ
//! from each other: a channel has as many ranks as the one with the most.

use crate::dmi::{self, Module};
use crate::domain::Domain;
use crate::known::{Fact, Known, Note};
use crate::machine::Machine;
use crate::spd::{self, Least, Spd};
use crate::tables::memories::{self, Fit, Memory};
use solocore_model::units::Frequency;
use solocore_model::{Bytes, Time};
use std::collections::BTreeMap;

/// Time beyond the DRAM commands. It is above that of every board that comes with solocore: the
/// slowest, raspberry-pi-4, has 113.633 ns.
const OVERHEAD: Time = Time::from_ns(120);
/// Largest usual number of ranks of a channel: two modules of two.
const MOST_RANKS: u64 = 4;
/// Most banks of a channel, rows of a bank, and channels that the memory model accepts.
const MOST_BANKS: u64 = 64;
const MOST_ROWS: u64 = 1 << 20;
const MOST_CHANNELS: u64 = 16;
/// More than any machine has.
const MOST_BYTES: u64 = 1 << 60;

const READ_SMBIOS: &str = "SMBIOS, read as root, or the board's manual";
const MEASURE: &str = "`solocore platform measure`";

/// Properties of the modules.
struct Modules {
    kind: Option<Known<String>>,
    speed: Option<u64>,
    channels: Option<Known<u64>>,
    ranks: Option<Known<u64>>,
    /// The least times, where the modules' own data are of that kind.
    least: Option<Known<Least>>,
}

/// The facts of `[dram]`; `None`: no file gives its size.
pub fn facts(
    machine: &Machine,
    domain: &Domain,
    clock: Frequency,
    notes: &mut Vec<Note>,
) -> Option<Vec<Fact>> {
    let modules = modules(machine);
    let kind = modules.kind.as_ref().map(|k| k.value.as_str());
    let least = modules.least.as_ref().map(|l| l.value);
    let (memory, fit) = memories::choose(kind, modules.speed, least);
    let channels = channels(&modules, memory, fit, notes);
    let ranks = ranks(&modules, memory, notes);
    let row_set = channels.value * ranks.value * u64::from(memory.banks) * memory.row;
    let capacity = capacity(machine, domain, row_set, notes)?;
    notes.extend(note_of_fit(&modules, memory, fit));
    notes.extend(note_of_kinds(machine));
    notes.extend(note_of_shape(machine, memory));
    let mut facts = vec![
        chosen(&modules, fit).fact("dram.memory", quoted(memory.name)),
        capacity.fact("dram.capacity", quoted(Bytes(capacity.value))),
        channels.fact("dram.channels", channels.value.to_string()),
        ranks.fact("dram.ranks", ranks.value.to_string()),
    ];
    facts.extend(timing(memory, fit, modules.least.as_ref()));
    facts.extend(latency(memory, clock));
    Some(facts)
}

fn quoted(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}

/// The source of the modules that the firmware lists.
fn smbios() -> String {
    format!("/{}, memory devices", dmi::PATH)
}

fn modules(machine: &Machine) -> Modules {
    let all = &machine.modules;
    let from = smbios();
    let own = own(&machine.spd);
    if all.is_empty() {
        let Some(chip) = machine.chip.filter(|_| own.kind.is_none()) else { return own };
        let (kind, speed) = chip.memory.unzip();
        let kind = kind.map(|kind| Known::table(kind.to_owned(), chip.cite));
        return Modules { kind, speed, ..own };
    }
    let kind = all.first().and_then(|m| m.kind).filter(|&k| all.iter().all(|m| m.kind == Some(k)));
    let kind = kind.map(|kind| Known::read(kind.to_owned(), from.clone()));
    let speeds: Option<Vec<u64>> = all.iter().map(|m| m.speed).collect();
    let ranks = by_channel(all).and_then(|c| {
        let of = |modules: &Vec<&Module>| modules.iter().map(|m| m.ranks).sum::<Option<u32>>();
        let ranks = c.values().map(of).collect::<Option<Vec<_>>>()?.into_iter().max()?;
        Some(Known::read(u64::from(ranks), from.clone()))
    });
    let same = |k: &Known<String>| own.kind.as_ref().is_some_and(|own| own.value == k.value);
    let agree = kind.as_ref().is_none_or(same);
    Modules {
        speed: speeds.and_then(|speeds| speeds.into_iter().min()),
        channels: by_channel(all).map(|c| share(machine, c.len() as u64, &from)),
        ranks: ranks.or(own.ranks),
        least: own.least.filter(|_| agree),
        kind: kind.or(own.kind),
    }
}

/// What the modules' own data say: not how fast they run, nor which of them share a channel.
fn own(modules: &[Spd]) -> Modules {
    let first = modules.first().filter(|first| modules.iter().all(|m| m.kind == first.kind));
    let from = spd::paths(modules);
    let ranks = modules.iter().map(|m| u64::from(m.ranks)).sum();
    let ranks = Known::read(ranks, from.clone());
    let ranks = match modules.len() {
        1 => ranks,
        _ => ranks.remark("those of all modules, which may share a channel"),
    };
    let least = modules.iter().fold(Least::default(), |least, m| least.max(m.least));
    let least = Known::read(least, format!("{from}, the least that the modules allow"));
    Modules {
        kind: first.map(|m| Known::read(m.kind.to_owned(), from)),
        speed: None,
        channels: None,
        ranks: first.map(|_| ranks),
        least: first.map(|_| least),
    }
}

/// The modules of each channel; `None`: some locator names no channel.
fn by_channel(all: &[Module]) -> Option<BTreeMap<String, Vec<&Module>>> {
    let mut channels: BTreeMap<String, Vec<&Module>> = BTreeMap::new();
    for module in all {
        channels.entry(dmi::channel(module)?).or_default().push(module);
    }
    (!channels.is_empty()).then_some(channels)
}

/// The channels of one socket.
fn share(machine: &Machine, channels: u64, from: &str) -> Known<u64> {
    let mut packages: Vec<u64> = machine.cpus.iter().map(|cpu| cpu.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let sockets = packages.len() as u64;
    let known = Known::read((channels / sockets.max(1)).max(1), from);
    if sockets > 1 {
        known.remark(&format!("{channels} channels of {sockets} sockets"))
    } else {
        known
    }
}

/// Fewer channels make larger bounds: the least there can be, or rounded down.
fn channels(modules: &Modules, memory: &Memory, fit: Fit, notes: &mut Vec<Note>) -> Known<u64> {
    let of_module = if fit == Fit::OtherType { 1 } else { u64::from(memory.channels) };
    let Some(found) = modules.channels.clone() else {
        return Known::assumed(of_module, "the fewest that there can be", READ_SMBIOS);
    };
    let all = match found.value.saturating_mul(of_module) {
        value if value == found.value => found,
        value => found.with(value).remark("with two subchannels of a module"),
    };
    let value = all.value.min(MOST_CHANNELS).checked_ilog2().map_or(1, |log| 1 << log);
    rounded(all, value, "dram.channels", "a power of two up to 16", notes)
}

/// More ranks make larger bounds, because a change of rank takes time: rounded up, to a number that
/// the memory model accepts.
fn ranks(modules: &Modules, memory: &Memory, notes: &mut Vec<Note>) -> Known<u64> {
    let most = (MOST_BANKS / u64::from(memory.banks).max(1)).min(MOST_RANKS);
    match modules.ranks.clone() {
        Some(found) => {
            let value = found.value.checked_next_power_of_two().unwrap_or(most).min(most);
            let takes = format!("a power of two up to {most}, and more would make larger bounds");
            rounded(found, value, "dram.ranks", &takes, notes)
        }
        None => {
            Known::assumed(most, "the usual maximum, because more make larger bounds", READ_SMBIOS)
        }
    }
}

/// Replaces a found value by another one, with a note.
fn rounded(
    found: Known<u64>,
    value: u64,
    key: &str,
    takes: &str,
    notes: &mut Vec<Note>,
) -> Known<u64> {
    if value == found.value {
        return found;
    }
    let text = format!(
        "{} were found; the memory model takes {takes}: {value} are described",
        found.value
    );
    notes.push(Note::new(key, text));
    let remark = format!("{}, rounded to a power of two", found.value);
    found.with(value).remark(&remark)
}

/// The memory of the domain, as a power of two of rows. The memory that a kernel manages lacks the
/// firmware's own part: less than an eighth below a power of two counts as that power.
fn capacity(
    machine: &Machine,
    domain: &Domain,
    row_set: u64,
    notes: &mut Vec<Note>,
) -> Option<Known<u64>> {
    let of_dmi = machine.modules.iter().map(|m| m.size);
    let of_spd = machine.spd.iter().map(|m| m.size).filter(|_| machine.modules.is_empty());
    let modules = of_dmi.chain(of_spd).try_fold(0, |sum: u64, size| sum.checked_add(size));
    let modules = modules.filter(|&sum| sum > 0);
    let (listed, named) = if machine.modules.is_empty() {
        (spd::paths(&machine.spd), "the modules themselves")
    } else {
        (smbios(), "the modules of SMBIOS")
    };
    let nodes = machine.nodes.iter().map(|n| n.bytes).try_fold(0_u64, |sum, b| sum.checked_add(b?));
    notes.extend(contradiction(machine, named, modules, u64::MAX));
    notes.extend(contradiction(machine, "the NUMA nodes", nodes.filter(|&sum| sum > 0), 100));
    let (found, exact) = match (of_nodes(machine, domain), modules) {
        (Some(of_nodes), _) => (of_nodes, false),
        (None, Some(sum)) => (Known::read(sum, listed), true),
        (None, None) => (machine.managed.clone()?, false),
    };
    let bytes = found.value.min(MOST_BYTES);
    let all = (bytes / row_set.max(1)).max(u64::from(!exact));
    let mut rows = 1 << all.checked_ilog2()?;
    let next = rows * 2 * row_set;
    if !exact && next - bytes <= next / 8 {
        rows *= 2;
    }
    let value = rows.min(MOST_ROWS) * row_set;
    if value == found.value {
        return Some(found);
    }
    let remark = format!("{}, as a power of two of at most 2^20 rows", Bytes(found.value));
    Some(found.with(value).remark(&remark))
}

/// A note if the parts sum to less than the kernel manages, by more than one part in `slack`.
fn contradiction(machine: &Machine, parts: &str, sum: Option<u64>, slack: u64) -> Option<Note> {
    let (managed, sum) = (machine.managed.as_ref()?, sum?);
    let least = managed.value - managed.value / slack;
    let text = format!(
        "{parts} have {}, less than the {} of {}",
        Bytes(sum),
        Bytes(managed.value),
        managed.from
    );
    (sum < least).then(|| Note::new("dram.capacity", text))
}

/// The memory of the nodes of the domain's CPUs, where there are several nodes.
fn of_nodes(machine: &Machine, domain: &Domain) -> Option<Known<u64>> {
    let ids = domain.ids();
    let own: Vec<_> =
        machine.nodes.iter().filter(|n| n.cpus.iter().any(|c| ids.contains(c))).collect();
    if own.is_empty() || own.len() == machine.nodes.len() {
        return None;
    }
    let bytes = own.iter().map(|n| n.bytes).try_fold(0_u64, |sum, b| sum.checked_add(b?))?;
    let names: Vec<String> = own.iter().map(|n| n.id.to_string()).collect();
    let from = format!("/sys/devices/system/node/node{}/meminfo, MemTotal", names.join(","));
    (bytes > 0).then(|| Known::read(bytes, from))
}

/// The reason why this memory stands for the machine's.
fn chosen(modules: &Modules, fit: Fit) -> Known<()> {
    let speed = modules.speed.map_or_else(String::new, |speed| format!("-{speed}"));
    match (&modules.kind, fit) {
        (Some(kind), Fit::Safe | Fit::SpeedUnknown | Fit::TooFast) => {
            let remark = match fit {
                Fit::TooFast => "the slowest known memory is faster",
                Fit::SpeedUnknown => "the speed is not known, and this is the slowest known one",
                _ => "equally fast, or the next slower known one",
            };
            kind.with(()).remark(&format!("{}{speed}; {remark}", kind.value))
        }
        (kind, _) => {
            let kind =
                kind.as_ref().map_or("the type of memory is not known", |k| k.value.as_str());
            let why = format!("{kind}: among the known memories, the one with the largest bounds");
            Known::assumed((), why, format!("{READ_SMBIOS} (at hand: {})", memory_names()))
        }
    }
}

fn memory_names() -> String {
    memories::MEMORIES.iter().map(|m| m.name).collect::<Vec<_>>().join(", ")
}

fn note_of_fit(modules: &Modules, memory: &Memory, fit: Fit) -> Option<Note> {
    let kind = modules.kind.as_ref().map_or("of unknown type", |k| k.value.as_str());
    let speed = modules.speed.map_or_else(String::new, |s| format!(" at {s} MT/s"));
    let text = match fit {
        Fit::Safe => return None,
        Fit::SpeedUnknown => {
            format!("the speed of the {kind} is not known; {} is described", memory.name)
        }
        Fit::TooFast => format!(
            "the machine's memory is {kind}{speed}, slower than {}: bounds of time may be too small",
            memory.name
        ),
        Fit::OtherType => {
            format!("the machine's memory is {kind}{speed}; {} stands for it", memory.name)
        }
    };
    Some(Note::new("dram.memory", text))
}

/// A note if SMBIOS and the modules differ in type.
fn note_of_kinds(machine: &Machine) -> Option<Note> {
    let of_dmi = machine.modules.first()?.kind?;
    let other = machine.spd.iter().find(|m| m.kind != of_dmi)?;
    let text = format!(
        "SMBIOS has {of_dmi}, and the module {} says {}; that of SMBIOS is described",
        other.place, other.kind
    );
    Some(Note::new("dram.memory", text))
}

/// A note if the modules' banks or rows are others than described.
fn note_of_shape(machine: &Machine, memory: &Memory) -> Option<Note> {
    let differs =
        |m: &&Spd| memory.types.contains(&m.kind) && (m.banks, m.row) != (memory.banks, memory.row);
    let other = machine.spd.iter().find(differs)?;
    let text = format!(
        "the module {} has {} banks of a rank and rows of {}; {} with {} and {} stands for it",
        other.place,
        other.banks,
        Bytes(other.row),
        memory.name,
        memory.banks,
        Bytes(memory.row)
    );
    Some(Note::new("dram.banks", text))
}

fn timing(memory: &Memory, fit: Fit, least: Option<&Known<Least>>) -> Vec<Fact> {
    let source = |what: &str| {
        let cite = format!("{}, {what}", memory.cite);
        if fit == Fit::Safe {
            Known::table((), cite)
        } else {
            Known::assumed((), cite, "the modules' SPD (`decode-dimms`)")
        }
    };
    let clocks = |key: &str, clocks: u64| {
        let what = format!("{clocks} clocks of {}", Time::from_ps(memory.clock));
        source(&what).fact(key, quoted(memory.clocks(clocks)))
    };
    let time = |key: &str, number: u64, of: fn(&Least) -> Time| match least {
        Some(least) => least.fact(key, quoted(of(&least.value))),
        None => clocks(key, number),
    };
    vec![
        source("banks of a rank").fact("dram.banks", memory.banks.to_string()),
        source("row of a rank").fact("dram.row", quoted(Bytes(memory.row))),
        time("dram.t_cl", memory.cl, |l| l.cl),
        time("dram.t_rcd", memory.rcd, |l| l.rcd),
        time("dram.t_rp", memory.rcd, |l| l.rp),
        time("dram.t_ras", memory.ras, |l| l.ras),
        clocks("dram.t_burst", memory.burst),
    ]
}

/// `latency_max` is that of crates/planner/src/memory.rs, rounded up to a tenth of a nanosecond; a
/// test compares.
fn latency(memory: &Memory, clock: Frequency) -> Vec<Fact> {
    let cycle = 1_000_000_000_000_u64.div_ceil(clock.0.max(1));
    let most = OVERHEAD.ps() + memory.clock * memory.service + cycle;
    let most = Time::from_ps(most.next_multiple_of(100));
    let row = memory.clocks(2 * memory.rcd + memory.cl + memory.burst);
    let conflict = Time::from_ps(OVERHEAD.ps() + row.ps());
    let overhead = Known::assumed((), "more than any board that comes with solocore has", MEASURE);
    let derived = |how: String| Known::assumed((), how, "as overhead");
    vec![
        overhead.fact("dram.overhead", quoted(OVERHEAD)),
        derived(format!(
            "overhead + {} clocks + a core cycle, a row conflict after a write",
            memory.service
        ))
        .fact("dram.latency_max", quoted(most)),
        derived("overhead + t_rp + t_rcd + t_cl + t_burst, a row conflict after a read".to_owned())
            .fact("dram.latency_max_paper", quoted(conflict)),
    ]
}

/// Properties of the modules, in words.
pub fn found(machine: &Machine) -> Vec<Fact> {
    let from = Known::read((), format!("/{}", dmi::PATH));
    let text = |m: &Module| {
        let place: Vec<&str> =
            m.place.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        let speed = m.speed.map_or_else(|| "speed unknown".to_owned(), |s| format!("{s} MT/s"));
        let ranks = m.ranks.map_or_else(|| "ranks unknown".to_owned(), |r| format!("ranks {r}"));
        let kind = m.kind.unwrap_or("type unknown");
        format!("{}: {kind}, {}, {speed}, {ranks}", place.join(" "), Bytes(m.size))
    };
    let own = |m: &Spd| {
        let Least { cl, rcd, rp, ras } = m.least;
        let text = format!(
            "{}: {}, {}, at most {} MT/s, ranks {}, t_cl {cl}, t_rcd {rcd}, t_rp {rp}, t_ras {ras}",
            m.place,
            m.kind,
            Bytes(m.size),
            m.speed,
            m.ranks
        );
        Known::read((), spd::paths(std::slice::from_ref(m))).fact("dram.module", text)
    };
    let listed = machine.modules.iter().map(|m| from.fact("dram.module", text(m)));
    listed.chain(machine.spd.iter().map(own)).collect()
}
