//! Step 1: the properties that the method needs of the board, and the consequences where the board
//! lacks them.
//!
//! Rule: single-core-equivalence, section 3.1, step 1: last-level cache partitioning and locking,
//! counters for MemGuard; and from section 2.1 private DRAM banks, from section 3.2 a known
//! `L_max`. Counters are those that the instruction set's architecture defines; the platform file
//! names none. Not covered: whether the operating system gives access to them (`solocore doctor`).

use crate::resources::Resources;
use solocore_model::plan::windows::{HardwareItem, Has};
use solocore_model::platform::{Isa, Partition};
use solocore_model::system::{Policy, System};

fn item(what: &str, has: Has, follows: String) -> HardwareItem {
    HardwareItem { what: what.to_owned(), has, follows }
}

fn yes_if(holds: bool) -> Has {
    if holds { Has::Yes } else { Has::No }
}

/// Each question with its answer and the consequence.
pub fn check(system: &System, r: &Resources) -> Vec<HardwareItem> {
    vec![
        cache(system, r),
        room(system, r),
        banks(system, r),
        latency(system),
        counters(system),
        io_core(system, r),
    ]
}

fn cache(system: &System, r: &Resources) -> HardwareItem {
    let llc = &system.platform.llc;
    let ways = llc.ways / r.cores;
    let follows = match llc.partition {
        Partition::Lock => "pages are prefetched and stay until they are unlocked".to_owned(),
        Partition::Way => format!(
            "there is no lock instruction; each core has {ways} ways of its own by masks, and one \
                of them is kept for pages that are not locked"
        ),
        Partition::Colour => {
            "there is no lock instruction; each core has page colours of its own, \
            and one of them is kept for pages that are not locked"
                .to_owned()
        }
    };
    let has = if llc.partition == Partition::Lock { Has::Yes } else { Has::No };
    item("the last-level cache can be locked", has, follows)
}

fn room(system: &System, r: &Resources) -> HardwareItem {
    let p = &system.platform;
    let follows = match r.lock_capacity {
        0 => format!(
            "{} ways and {} colours leave no room for locked pages on {} cores: every access that \
                leaves the private caches counts as a miss",
            p.llc.ways,
            p.colours(),
            r.cores
        ),
        pages => format!(
            "{} ways and {} colours over {} cores: each core can lock {pages} pages",
            p.llc.ways,
            p.colours(),
            r.cores
        ),
    };
    item("colours and ways suffice for a share of each core", yes_if(r.lock_capacity > 0), follows)
}

fn banks(system: &System, r: &Resources) -> HardwareItem {
    let total = system.platform.total_banks();
    let follows = match r.banks(0) {
        Some((_, each)) => {
            format!("{total} banks over {} cores: each has {each} of its own", r.cores)
        }
        None => format!(
            "{total} banks are fewer than {} cores: they are shared, and L_max must bound an \
                access to a row that another core has closed",
            r.cores
        ),
    };
    item("each core can have DRAM banks of its own", yes_if(r.banks(0).is_some()), follows)
}

fn latency(system: &System) -> HardwareItem {
    let p = &system.platform;
    let follows = format!(
        "L_max = {} (platform file), so {} are guaranteed; replace it by a measured value",
        p.dram.latency_max,
        p.guaranteed_bandwidth()
    );
    item("the longest service of a DRAM access is known", Has::Yes, follows)
}

fn counters(system: &System) -> HardwareItem {
    let (has, which) = match system.platform.isa {
        Isa::X86_64 | Isa::I386 => {
            (Has::Yes, "the architectural event of last-level misses (event 2Eh, umask 41h)")
        }
        Isa::Aarch64 => (Has::Yes, "PMUv3's common event 17h, L2D_CACHE_REFILL"),
        Isa::Powerpc if system.platform.name == "p4080" => {
            (Has::Yes, "the P4080's event processing unit, the counter of the paper")
        }
        Isa::Arm => (
            Has::Unknown,
            "no architected event of last-level misses per core; an outer cache may count them",
        ),
        _ => (Has::Unknown, "no architected event of last-level misses"),
    };
    let follows = match system.regulation.policy {
        Policy::None => "not needed: the system file asks for no regulation, and every access is \
            charged with one of each other core"
            .to_owned(),
        _ => match has {
            Has::Yes => format!("{which}: budgets can be enforced"),
            _ => format!("{which}: the plan holds only if another mechanism enforces the budgets"),
        },
    };
    item("counters for regulation", has, follows)
}

fn io_core(system: &System, r: &Resources) -> HardwareItem {
    let devices = system.windows().map_or(0, |i| i.devices.len());
    let follows = match (devices, r.cores) {
        (0, m) => format!("no devices: all {m} active cores run partitions"),
        (n, m) => format!(
            "{n} devices: core {} moves their data and runs no partition; its DMA is paced to its \
                share of the bandwidth",
            m - 1
        ),
    };
    item("a core for I/O", Has::Yes, follows)
}
