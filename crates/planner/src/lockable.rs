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
/// stand for some ways are counted from the way on from which they are fewest; `block` is the number
/// that cores get together ([`crate::colours::block`]).
pub fn lock_capacity(p: &Platform, ways: u32, block: u32) -> u64 {
    let of = |first| PlanCore::blocks_for(first, ways, p.llc.ways, p.colours(), block).1;
    // In blocks of one, from way 0 on.
    let last = if block > 1 { p.llc.ways.saturating_sub(ways) } else { 0 };
    let colours = (0..=last).map(of).min().unwrap_or(0);
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
        for (board, cores, block) in [
            ("xeon-x5650", 5, 1),
            ("core-i5-2500k", 4, 1),
            ("core-i5-2500k", 4, 2),
            ("core-i5-2500k", 3, 1),
        ] {
            let p = Platform::find(board, Path::new(".")).unwrap();
            let ways = p.llc.ways / cores;
            let colours = |core: u32| {
                PlanCore::blocks_for(core * ways, ways, p.llc.ways, p.colours(), block).1
            };
            let least = (0..cores).map(colours).min().unwrap();
            let kept = u64::from(least - 1) * u64::from(p.pages_per_colour());
            assert_eq!(lock_capacity(&p, ways, block), kept, "{board}");
        }
        // Five of twelve ways are 13 colours from way 0 on, and 12 in pairs; from way 2 on 12 too.
        let p = Platform::find("core-i5-2500k", Path::new(".")).unwrap();
        assert_eq!([1, 2].map(|block| lock_capacity(&p, 5, block)), [12 * 48, 11 * 48]);
    }
}
