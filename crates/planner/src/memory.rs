//! The memory of a platform as the bounds see it, and who shares what of it.
//!
//! Problem: the interference model wants timings in clock cycles, queues, and who else uses a core's channel; a platform names a
//! memory of crates/dram and counts cores, channels and banks. Rule: the memory is the one that the simulator takes
//! (`Spec::of_platform`); each core can have its miss registers' reads and its write buffer under way; with banks of their own, cores
//! share a channel where their banks do. Not covered: controllers that differ from that of docs/dram.md.

use crate::resources::Resources;
use solocore_analysis::interference::{Memory, Queue, Requester, Sharing};
use solocore_analysis::memory::latency::{Controller, Dram};
use solocore_dram::{Limits, Spec};
use solocore_model::Platform;
use solocore_model::platform::Pipeline;
use std::ops::RangeInclusive;

/// The memory of a platform.
///
/// # Errors
/// Why there is none at command level: no bound can be given.
pub fn of(p: &Platform) -> Result<Memory, String> {
    let spec = Spec::of_platform(p).map_err(|e| e.to_string())?;
    let (o, t) = (&spec.organisation, &spec.timing);
    let c = |v: u32| u64::from(v);
    let limits = Limits::MODELLED;
    Ok(Memory {
        dram: Dram {
            clock_ps: t.clock.ps(),
            ranks: c(o.ranks),
            groups: c(o.bank_groups),
            banks: c(o.rank_banks()),
            burst: c(o.burst / 2),
            command: c(t.command_cycles),
            cl: c(t.cl),
            cwl: c(t.cwl),
            rcd: c(t.t_rcd),
            rp: c(t.t_rp),
            ras: c(t.t_ras),
            rfc: c(t.t_rfc),
            refi: c(t.t_refi),
            rrd_s: c(t.t_rrd_s),
            rrd_l: c(t.t_rrd_l),
            wtr_s: c(t.t_wtr_s),
            wtr_l: c(t.t_wtr_l),
            faw: c(t.t_faw),
            wr: c(t.t_wr),
            rtp: c(t.t_rtp),
            ccd_s: c(t.t_ccd_s),
            ccd_l: c(t.t_ccd_l),
            ccd_l_write: c(t.t_ccd_l_write),
            ppd: c(t.t_ppd),
            rtrs: c(t.t_rtrs),
        },
        controller: Controller { hit_cap: p.dram.row_hit_cap.limit().map(u64::from), ..Controller::default() },
        queue: Queue {
            writes: c(limits.writes),
            drain_most: c(limits.drain_most),
            bank_reads: c(limits.bank_reads),
            reads: c(limits.reads),
        },
        overhead_ps: p.dram.overhead.ps(),
        cycle_ps: p.cycles_to_ps(1),
    })
}

/// A core of the platform.
pub fn core(p: &Platform) -> Requester {
    Requester { reads: u64::from(p.pipeline.mshrs.max(1)), writes: u64::from(Pipeline::WRITE_BUFFER) }
}

/// The channels that a core's banks lie in; all of them where banks are shared.
fn channels(r: &Resources, core: u32) -> RangeInclusive<u32> {
    let p = &r.platform;
    match r.banks(core).filter(|_| r.private) {
        Some((first, count)) => {
            let each = (p.dram.ranks * p.dram.banks).max(1);
            first / each..=(first + count - 1) / each
        }
        None => 0..=p.dram.channels.max(1) - 1,
    }
}

/// The cores that use a channel of this core's.
pub fn rivals(r: &Resources, core: u32) -> Vec<u32> {
    let own = channels(r, core);
    let meets = |other: &u32| {
        let theirs = channels(r, *other);
        theirs.start() <= own.end() && own.start() <= theirs.end()
    };
    (0..r.cores).filter(|&other| other != core).filter(meets).collect()
}

/// Who shares the memory with a core; `devices` are the devices' engines besides.
pub fn sharing(r: &Resources, core: u32, devices: &[Requester]) -> Sharing {
    let own = self::core(&r.platform);
    let others = rivals(r, core).iter().map(|_| own).chain(devices.iter().copied()).collect();
    Sharing { own, others, private: r.private, cache_mshrs: r.platform.llc.mshrs.map(u64::from) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A preset's `latency_max` is that of its memory's timing, rounded up to a nanosecond at most.
    #[test]
    fn presets_state_the_latency_of_their_memory() {
        for (name, _) in solocore_model::platform::PRESETS {
            let p = Platform::find(name, Path::new(".")).unwrap();
            let derived = of(&p).unwrap().latency_ps().unwrap();
            let stated = p.dram.latency_max.ps();
            assert!((derived..derived + 1000).contains(&stated), "{name}: {stated} ps stated, {derived} ps derived");
        }
    }
}
