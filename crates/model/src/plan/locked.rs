//! The colours of a core that its locked pages have to themselves.
//!
//! Problem: lines of locked pages stay in the shared cache only if no set gets more of them than it
//! has ways, and no other page of the core has lines there. Rule: locked pages get the last colours
//! of their core, one after the other in turn, and other pages get the rest, at least one colour. A
//! colour gets at most one page for each way: its lines then fit into one slice, for any hash.
//! Where the core has too few colours for that, a colour gets up to one page for each way of each
//! slice, as the planner counts them ([`crate::Platform::pages_per_colour`]). Where the functions of
//! the slices are known, its pages then have frames of each kind
//! ([`crate::Platform::slice_functions_of_pages`]) in turn, so that no set gets more of their lines
//! than it has ways. Source: single-core-equivalence, section 2.3 (Colored Lockdown). Does not
//! cover: slices whose hash is not known.

use super::core::PlanCore;
use super::task::PlanTask;
use crate::platform::Platform;
use crate::profile::PageName;

/// Colours for locked pages alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockColours {
    /// The first of them.
    pub first: u32,
    /// Their number; at least one.
    pub count: u32,
    /// Most pages of a colour.
    pub pages_each: u64,
    /// Kinds of frames of a colour, by the slices of their lines, that its pages get in turn; 1: any
    /// frames.
    pub kinds: u32,
    /// Each set gets at most as many of their lines as it has ways.
    pub fit: bool,
}

/// The frame that a locked page gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockFrame {
    /// Its colour.
    pub colour: u32,
    /// Its kind among the frames of this colour, below [`LockColours::kinds`].
    pub kind: u32,
}

impl LockColours {
    /// The colours for this number of pages, of a core with the colours `own` (first and count).
    ///
    /// # Errors
    /// They do not hold that many pages.
    pub fn of(platform: &Platform, own: (u32, u32), pages: u64) -> Result<Self, String> {
        let most = PlanCore::colours_to_lock(own.1);
        let ways = u64::from(platform.llc.ways.max(1));
        let room = u64::from(platform.pages_per_colour()) * u64::from(most);
        if pages > room {
            return Err(format!(
                "{pages} locked pages are more than the {room} that {most} of its {} colours hold; \
                    plan with fewer locked pages, or with more colours for the core",
                own.1
            ));
        }
        let count = u32::try_from(pages.div_ceil(ways)).unwrap_or(u32::MAX).clamp(1, most.max(1));
        let pages_each = pages.div_ceil(u64::from(count));
        let first = own.0 + own.1.saturating_sub(count);
        let known = platform.slice_functions_of_pages().len() as u32;
        let kinds = if pages_each > ways { 1 << known } else { 1 };
        Ok(Self { first, count, pages_each, kinds, fit: pages_each <= ways * u64::from(kinds) })
    }

    /// The frame of the page of this number, from 0.
    #[must_use]
    pub fn frame_of(&self, page: u64) -> LockFrame {
        let low = |n: u64| u32::try_from(n).unwrap_or(0);
        let count = u64::from(self.count.max(1));
        let kind = low(page / count % u64::from(self.kinds.max(1)));
        LockFrame { colour: self.first + low(page % count), kind }
    }

    /// Whether a colour is one of them.
    #[must_use]
    pub fn contain(&self, colour: u32) -> bool {
        (self.first..self.first + self.count).contains(&colour)
    }
}

/// The colours of a core for its locked pages; `None`: it has none of either.
pub(super) fn of_core(
    platform: &Platform,
    cores: &[PlanCore],
    tasks: &[PlanTask],
    core: u32,
) -> Result<Option<LockColours>, String> {
    let own = cores.iter().find(|c| c.id == core).and_then(|c| c.colours);
    let pages = on_core(tasks, core).map(|t| t.locked_pages.len() as u64).sum();
    match own {
        Some(own) if pages > 0 => LockColours::of(platform, own, pages).map(Some),
        _ => Ok(None),
    }
}

/// The locked pages of a task, each with its frame of those of its core.
pub(super) fn of_task(
    colours: LockColours,
    tasks: &[PlanTask],
    task: &PlanTask,
) -> Vec<(PageName, LockFrame)> {
    let before = on_core(tasks, task.core).take_while(|t| t.name != task.name);
    let first: u64 = before.map(|t| t.locked_pages.len() as u64).sum();
    let numbered = task.locked_pages.iter().zip(first..);
    numbered.map(|(page, n)| (page.clone(), colours.frame_of(n))).collect()
}

fn on_core(tasks: &[PlanTask], core: u32) -> impl Iterator<Item = &PlanTask> {
    tasks.iter().filter(move |t| t.core == core)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Twelve ways, four slices, 32 colours.
    fn board() -> Platform {
        Platform::find("core-i5-2500k", Path::new(".")).unwrap()
    }

    /// The same, and nothing is known of its slices.
    fn unknown() -> Platform {
        let mut board = board();
        board.llc.slice_functions.clear();
        board
    }

    #[test]
    fn a_colour_gets_a_page_for_each_way_while_there_are_colours() {
        let of = |pages| LockColours::of(&unknown(), (8, 8), pages).unwrap();
        let one = LockColours { first: 15, count: 1, pages_each: 1, kinds: 1, fit: true };
        assert_eq!(of(1), one);
        assert_eq!(of(12), LockColours { pages_each: 12, ..one });
        assert_eq!(of(13), LockColours { first: 14, count: 2, pages_each: 7, ..one });
        let seven = LockColours { first: 9, count: 7, pages_each: 12, ..one };
        assert_eq!(of(84), seven);
        // One colour stays for other pages, so that a set of one slice may get more than its ways.
        assert_eq!(of(85), LockColours { pages_each: 13, fit: false, ..seven });
        assert_eq!(of(336).pages_each, 48);
        let error = LockColours::of(&board(), (8, 8), 337).unwrap_err();
        assert!(
            error.contains("337 locked pages are more than the 336 that 7 of its 8"),
            "{error}"
        );
        assert!(LockColours::of(&board(), (8, 1), 1).is_err(), "none is left for other pages");
    }

    #[test]
    fn no_frames_of_a_kind_hold_more_pages_than_the_ways() {
        for pages in 1..=336 {
            let colours = LockColours::of(&board(), (8, 8), pages).unwrap();
            assert!(colours.fit && colours.kinds == if pages > 84 { 4 } else { 1 }, "{pages}");
            let mut counts = std::collections::BTreeMap::new();
            for page in 0..pages {
                *counts.entry(colours.frame_of(page)).or_insert(0u64) += 1;
            }
            assert!(counts.keys().all(|c| colours.contain(c.colour) && c.colour < 16), "{pages}");
            assert!(counts.keys().all(|c| c.kind < colours.kinds), "{pages}");
            assert!(counts.values().all(|&n| n <= 12), "{pages}: {counts:?}");
        }
    }
}
