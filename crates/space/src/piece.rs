//! Memory in which a reserve holds some pages.
//!
//! Problem: a frame that is given back is of use only to a program that gets this very frame next.
//! Rule: Linux hands out single frames before it breaks up blocks, and joins a free frame with its
//! neighbour if that is free as well. So a frame goes first if its neighbour is held and stays. Of
//! two neighbours the one goes that has an even number of ones. If it were always the first, all
//! frames that go would have the same lowest bit. That bit chooses colours, so a program would get
//! frames of half of its colours only, and half of its share of the cache.
//! Neighbours are looked for beside the page, where memory from a huge page, or from one block, has
//! them. Does not cover: neighbours in other places; such frames go last.

use crate::sys::Area;

/// An area, and the pages in it that are held, with their frames.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The addresses.
    pub area: Area,
    /// Pages by their number in the area, in ascending order, and their frames.
    pub pages: Vec<(u32, u64)>,
    /// Their frames were lent, and have come back.
    pub returned: bool,
    /// A look has found them in place. The kernel may have begun to move some before they were
    /// locked.
    pub settled: bool,
}

impl Piece {
    /// Gives back at most this number of pages, as far as their frames are `wanted`, from the end;
    /// with `single`, those alone whose neighbour stays. Returns their number.
    pub fn give(&mut self, most: u64, single: bool, wanted: &dyn Fn(u64) -> bool) -> u64 {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let all = (0..self.pages.len()).rev();
        let going =
            all.filter(|&at| wanted(self.pages[at].1) && (!single || self.stays(at, wanted)));
        let going: Vec<usize> = going.take(most).collect();
        let Some(&first) = going.last() else { return 0 };
        let mut next = going.iter().rev().copied().peekable();
        for (at, page) in (first..).zip(self.pages.split_off(first)) {
            if next.next_if_eq(&at).is_some() {
                self.area.give_back(page.0 as usize, 1);
            } else {
                self.pages.push(page);
            }
        }
        going.len() as u64
    }

    /// Does the neighbour of this frame stay? Of two that are both wanted, one does.
    fn stays(&self, at: usize, wanted: &dyn Fn(u64) -> bool) -> bool {
        let frame = self.pages[at].1;
        // Blocks lie in either direction.
        let around = at.saturating_sub(1)..self.pages.len().min(at + 2);
        self.pages[around].iter().any(|&(_, other)| other == frame ^ 1)
            && (frame.count_ones().is_multiple_of(2) || !wanted(frame ^ 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(piece: &Piece) -> Vec<u64> {
        piece.pages.iter().map(|&(_, frame)| frame).collect()
    }

    #[test]
    fn frames_whose_neighbour_stays_go_first() {
        let held = [40, 41, 42, 43, 7, 100, 101];
        let area = Area::reserved(held.len() * 4096).expect("mapped");
        let mut piece =
            Piece { area, pages: (0..).zip(held).collect(), returned: false, settled: false };
        let all = |_: u64| true;
        assert_eq!(piece.give(2, true, &all), 2);
        assert_eq!(frames(&piece), [40, 41, 42, 7, 100]);
        // Frame 41 alone is wanted, and 40 stays beside it.
        assert_eq!(piece.give(9, true, &|frame| frame == 41), 1);
        assert_eq!(piece.give(9, true, &all), 0, "none has a neighbour now");
        assert_eq!(piece.give(3, false, &all), 3);
        assert_eq!(frames(&piece), [40]);
        assert_eq!((piece.give(9, false, &|_| false), piece.give(0, false, &all)), (0, 0));
        assert_eq!(piece.give(u64::MAX, false, &all), 1);
        assert!(piece.pages.is_empty());
        piece.pages = vec![(0, 9), (1, 8)];
        assert_eq!(piece.give(9, true, &all), 1, "descending, too");
        assert_eq!(frames(&piece), [8]);
    }

    /// Fails if the same one of two neighbours always goes: its lowest bit is a bit of the colour.
    #[test]
    fn frames_of_all_colours_go() {
        let area = Area::reserved(256 * 4096).expect("mapped");
        let mut piece =
            Piece { area, pages: (0..256).zip(512..).collect(), returned: false, settled: false };
        assert_eq!(piece.give(128, true, &|_| true), 128);
        for colour in 0..32 {
            let left = frames(&piece).iter().filter(|&frame| frame % 32 == colour).count();
            assert_eq!(left, 4, "half of the frames of colour {colour}");
        }
    }
}
