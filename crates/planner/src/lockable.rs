//! The pages that a share of the cache keeps locked.
//!
//! Problem: a plan locks pages in a core's share, and other pages must stay usable beside them.
//! Rule: a share is a number of ways. Where it cannot lock, a way or a colour of it is kept free,
//! and the colours are those that the plan gives for these ways. Not covered: ways that a board's
//! own software locks.

use solocore_model::Platform;
use solocore_model::plan::PlanCore;
use solocore_model::platform::Partition;

/// Pages that this number of ways of the shared cache can surely keep locked. Where the rest of the
/// share must stay usable for other pages, a way or a colour is kept for it. The whole colours that
/// stand for some ways are fewest from way 0 on.
pub fn lock_capacity(p: &Platform, ways: u32) -> u64 {
    let (_, colours) = PlanCore::colours_for(0, ways, p.llc.ways, p.colours());
    let (each, less) = match p.llc.partition {
        Partition::Lock => (p.pages_per_way(), ways),
        Partition::Way => (p.pages_per_way(), ways.saturating_sub(1)),
        Partition::Colour => (p.pages_per_colour(), PlanCore::colours_to_lock(colours)),
    };
    u64::from(each) * u64::from(less)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A core's locked pages leave one of the colours that the plan gives it. Of the Xeon X5650's
    /// 32 colours, five cores with two of twelve ways each get five or six, not six each.
    #[test]
    fn a_colour_is_kept_on_each_core() {
        for (board, cores) in [("xeon-x5650", 5), ("core-i5-2500k", 4), ("core-i5-2500k", 3)] {
            let p = Platform::find(board, Path::new(".")).unwrap();
            let ways = p.llc.ways / cores;
            let least = (0..cores)
                .map(|core| PlanCore::colours_for(core * ways, ways, p.llc.ways, p.colours()).1);
            let kept = u64::from(least.min().unwrap() - 1) * u64::from(p.pages_per_colour());
            assert_eq!(lock_capacity(&p, ways), kept, "{board}");
        }
    }
}
