//! Budgets of writes: a part of a core's budget that only writes may use.
//!
//! Problem: a write costs the other cores more than a read, as reads wait while the write queue is
//! drained. Rule: of a core's Q accesses per period W are for writes and Q - W for reads (MemGuard
//! counts the kinds apart, `memguard.h`), so that the others are charged W writes and Q - W reads.
//! A core's own tasks may be stopped by either budget; their bounds count both.
//! Source: single-core-equivalence, section 2.2; Yun et al., RTAS 2013. Does not cover: partitions
//! and levels.

use crate::error::PlanError;
use solocore_model::system::{Policy, Share};
use solocore_model::{Bandwidth, System};

/// Checks that the system's cores may have budgets of writes.
pub(crate) fn check(system: &System) -> Result<(), PlanError> {
    let Some(core) = system.cores.iter().find(|c| c.write_bandwidth.is_some()) else {
        return Ok(());
    };
    let what = match system.regulation.policy {
        _ if system.regulation.share() == Share::Optimal => {
            "needs [regulation] share = \"even\" or \"explicit\", because optimal shares choose \
            budgets of writes themselves"
        }
        Policy::Memguard if system.windows().is_none() && system.levels().is_none() => {
            return Ok(());
        }
        Policy::Memguard => "is for plans without partitions and levels",
        _ => "needs [regulation] policy = \"memguard\"",
    };
    Err(PlanError(format!("core {}: write_bandwidth {what}; remove it", core.id)))
}

/// Stated write budgets by core, given the whole budgets.
///
/// # Errors
/// When a write budget is not a part of its core's budget.
pub(crate) fn stated(system: &System, budgets: &[u64]) -> Result<Vec<Option<u64>>, PlanError> {
    let mut out = vec![None; budgets.len()];
    for entry in &system.cores {
        let Some(Bandwidth(bytes)) = entry.write_bandwidth else { continue };
        let id = entry.id;
        let line = u128::from(system.platform.llc.line.0).max(1);
        let accesses = u128::from(bytes) * u128::from(system.regulation.period.ps())
            / 1_000_000_000_000
            / line;
        let writes = u64::try_from(accesses).unwrap_or(u64::MAX);
        let all = budgets.get(id as usize).copied().unwrap_or(0);
        if writes == 0 || writes >= all {
            return Err(PlanError(format!(
                "core {id}: write_bandwidth comes to {writes} of its {all} accesses a period; give \
                    at least one access, and less than the whole"
            )));
        }
        out[id as usize] = Some(writes);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::{Demand, plan};
    use solocore_model::System;
    use std::path::Path;

    const SYSTEM: &str = "platform = \"p4080\"\n[regulation]\npolicy = \"memguard\"\nperiod = \"1 \
        ms\"\n\
        [[core]]\nid = 1\nwrite_bandwidth = \"64 MB/s\"\n\
        [[task]]\nname = \"a\"\ncore = 0\nperiod = \"100 ms\"\nwcet = \"1 ms\"\nmisses = 10\n\
        [[task]]\nname = \"d\"\ncore = 1\ncriticality = \"D\"\nwcet = \"1 ms\"\nmisses = 1\n";

    fn planned(text: &str) -> Result<solocore_model::Plan, String> {
        let system = System::parse(Path::new("system.toml"), text).map_err(|e| e.to_string())?;
        let demands: Vec<Demand> = system
            .tasks
            .iter()
            .map(|_| Demand::Given { wcet_ps: 1_000_000_000, misses: 10 })
            .collect();
        plan(&system, &demands).map_err(|e| e.to_string())
    }

    #[test]
    fn writes_are_a_part_of_the_budget() {
        let with = planned(SYSTEM).unwrap();
        let without = planned(&SYSTEM.replace("write_bandwidth = \"64 MB/s\"\n", "")).unwrap();
        assert_eq!(
            with.cores[1].write_budget_accesses,
            Some(1000),
            "64 MB/s in lines of 64 bytes a millisecond"
        );
        assert!(
            with.cores[1].budget_accesses >= without.cores[1].budget_accesses,
            "reads cost the others less"
        );
        assert!(with.tasks[0].wcrt_ns <= without.tasks[0].wcrt_ns);
        with.check().unwrap();
    }

    /// A core may have used its budget of writes long before its budget of reads: with few writes a
    /// period, its own task is stopped more often.
    #[test]
    fn a_budget_of_writes_stops_its_own_tasks() {
        let bound = |bandwidth: &str| {
            let text = SYSTEM
                .replace("id = 1", "id = 0")
                .replace("64 MB/s", bandwidth)
                .replace("misses = 10\n", "misses = 4000\n");
            let system = System::parse(Path::new("system.toml"), &text).unwrap();
            let demands: Vec<Demand> = system
                .tasks
                .iter()
                .map(|_| Demand::Given { wcet_ps: 1_000_000_000, misses: 4000 })
                .collect();
            plan(&system, &demands).unwrap().tasks[0].wcrt_ns.unwrap()
        };
        assert!(bound("6.4 MB/s") > 2 * bound("64 MB/s"), "40 periods of 100 writes, or 4 of 1000");
    }

    #[test]
    fn what_no_bound_covers_is_refused() {
        for (from, to, words) in [
            ("64 MB/s", "10 GB/s", "less than the whole"),
            ("64 MB/s", "1 kB/s", "at least one access"),
            ("\"memguard\"", "\"none\"", "memguard"),
        ] {
            let error = planned(&SYSTEM.replace(from, to)).unwrap_err();
            assert!(error.contains(words), "{from} -> {to}: {error}");
        }
    }
}
