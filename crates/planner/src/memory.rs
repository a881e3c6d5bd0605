//! The memory of a platform as the bounds see it.
//!
//! Problem: the interference model wants timings in clock cycles and queues; a platform names a
//! memory of crates/dram. Rule: the memory is the one that the simulator takes
//! (`Spec::of_platform`); each core can have its miss registers' reads and its write buffer under
//! way. `resources` says which cores share it. Not covered: controllers that differ from that of
//! docs/dram.md.

use solocore_analysis::interference::{Memory, Queue, Requester, Sharing};
use solocore_analysis::memory::latency::{Controller, Dram};
use solocore_dram::{Limits, Spec};
use solocore_model::Platform;
use solocore_model::platform::Pipeline;

/// The memory of a platform.
///
/// # Errors
/// The reason why there is no memory at command level: then no bound can be given.
pub fn of(p: &Platform) -> Result<Memory, String> {
    let spec = Spec::of_platform(p).map_err(|e| e.to_string())?;
    let c = |v: u32| u64::from(v);
    let limits = Limits::MODELLED;
    Ok(Memory {
        dram: timings(&spec),
        controller: Controller {
            hit_cap: p.dram.row_hit_cap.limit().map(u64::from),
            ..Controller::default()
        },
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

/// The timing of a memory, in clock cycles.
#[must_use]
pub fn timings(spec: &Spec) -> Dram {
    let (o, t) = (&spec.organisation, &spec.timing);
    let c = |v: u32| u64::from(v);
    Dram {
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
    }
}

/// A core of the platform. Of several types, the one with most miss registers: what the others can
/// do, it can do too.
pub fn core(p: &Platform) -> Requester {
    Requester { reads: u64::from(p.most_mshrs().max(1)), writes: u64::from(Pipeline::WRITE_BUFFER) }
}

/// Time of the controller for taking in a read and handing out its data, ps, beside `dram.overhead`
/// and the memory's commands. `None`: there is no memory at command level.
#[must_use]
pub fn way_ps(p: &Platform) -> Option<u64> {
    let memory = of(p).ok()?;
    memory.dram.to_ps(memory.controller.way_in + memory.controller.way_out)
}

/// A refresh of a rank and the time from one to the next, ps. `None`: there is no memory at command
/// level.
#[must_use]
pub fn refresh_ps(p: &Platform) -> Option<(u64, u64)> {
    let dram = of(p).ok()?.dram;
    Some((dram.to_ps(dram.rfc)?, dram.to_ps(dram.refi)?))
}

/// Longest time of one access beyond the shared cache, ps, refreshes included, beside this number
/// of other cores that use memory without limit. `None`: there is no bound, or no memory at command
/// level.
pub fn access_beside(p: &Platform, others: u32) -> Option<u64> {
    let own = core(p);
    let costs = of(p).ok()?.costs(&Sharing {
        own,
        others: vec![own; others as usize],
        private: false,
        cache_mshrs: p.llc.mshrs.map(u64::from),
    })?;
    let time = costs.refresh.lengthen(costs.latency_ps.checked_add(costs.request_ps?)?);
    (time < u64::MAX).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn an_access_takes_longer_beside_more_cores() {
        let p = Platform::find("core-i5-2500k", Path::new(".")).unwrap();
        let times: Vec<u64> = (0..4).map(|others| access_beside(&p, others).unwrap()).collect();
        assert!(times[0] >= of(&p).unwrap().latency_ps().unwrap());
        assert!(times.is_sorted() && times[0] < times[1] && times[1] < times[3], "{times:?}");
    }

    /// A preset's `latency_max` is that of its memory's timing, rounded up to a nanosecond at most.
    #[test]
    fn presets_state_the_latency_of_their_memory() {
        for (name, _) in solocore_model::platform::PRESETS {
            let p = Platform::find(name, Path::new(".")).unwrap();
            let derived = of(&p).unwrap().latency_ps().unwrap();
            let stated = p.dram.latency_max.ps();
            assert!(
                (derived..derived + 1000).contains(&stated),
                "{name}: {stated} ps stated, {derived} ps derived"
            );
        }
    }
}
