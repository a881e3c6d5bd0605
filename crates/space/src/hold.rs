//! Frames of chosen colours and banks, held so that nobody else gets them.
//!
//! Problem: a stock kernel gives any frame to any program, and to itself (MC2 patched its lists of
//! free memory, section 3.2). Rule: take memory step by step while others have enough, and note the
//! frame of each page. Frames of other colours go back, and those of the chosen ones stay, locked.
//! The kernel serves itself from the rest. Memory comes in huge pages first. What goes back of one
//! does not make another huge page, so that it can go back at once: nobody has to do without. Then
//! come small pages. Those of other colours stay until the end of the pass, or they would come
//! again. The kernel hands out small blocks first. Blocks between a few pages and a huge page lie
//! at the end of its lists, and no such pass meets them. They are asked for by their sizes
//! ([`Hold::pass_of_blocks`]). Held memory is advised against huge pages: khugepaged would
//! otherwise copy it into a new one, locked or not, with pages of other colours beside it. Frames
//! that go to programs are of the zone that programs get memory of first: others would come only
//! once that zone is used up. Of these they are of blocks in which the kernel has no frame of its
//! own: Linux keeps lists of free frames for such blocks apart, and serves programs from them. Does not cover: frames that the kernel had before; what moves locked
//! pages (compaction, unless vm.compact_unevictable_allowed is 0): [`Hold::look`] counts them and
//! lets them go.

use crate::brake::Brake;
pub use crate::brake::End;
use crate::census::BLOCK;
use crate::error::SpaceError;
use crate::map::{Choice, PAGE};
use crate::piece::Piece;
use crate::room::{self, Memory};
use crate::sys::{self, Area};
use serde::Serialize;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

/// Pages of one step.
const STEP: usize = 8192;
/// Pages of a huge page.
const HUGE: usize = 512;
/// Steps without a frame after which a pass ends.
const BARREN: usize = 16;

/// Result of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pass {
    /// Pages that were taken for a moment.
    pub taken: u64,
    /// Of these, frames that are held now.
    pub kept: u64,
    /// Why it ended.
    pub end: End,
    /// Duration in nanoseconds.
    pub ns: u64,
}

/// Blocks of free memory that a pass takes apart at once.
#[derive(Clone, Copy)]
struct Blocks {
    /// Pages of one.
    pages: usize,
    /// Does the pass end where there are no more?
    only: bool,
}

/// Held frames. They go back when it is dropped, or when the process ends for any reason.
#[derive(Debug)]
pub struct Hold {
    choice: Choice,
    pieces: Vec<Piece>,
    pagemap: File,
    held: u64,
    lost: u64,
    /// First frame of the zone that programs get memory of first.
    zone: u64,
    /// See [`Hold::avoid`].
    kernels: Vec<bool>,
    /// A page that is not locked, for [`Area::settle`].
    settled: Area,
    /// CPUs that this process could use when it began.
    cpus: Vec<u32>,
}

impl Hold {
    /// Holds nothing yet.
    ///
    /// # Errors
    /// The frames of this process are hidden from it.
    pub fn new(choice: Choice) -> Result<Self, SpaceError> {
        let settled = Area::populated(PAGE as usize, false)?;
        sys::frames_of(settled.start(), 1)?;
        let path = "/proc/self/pagemap";
        let pagemap = File::open(path).map_err(|e| SpaceError::of_io(path, &e, "mount /proc"))?;
        let zone = room::first_of_last_zone(Path::new("/"));
        let cpus = sys::usable_cpus();
        let (pieces, kernels) = (Vec::new(), Vec::new());
        Ok(Self { choice, pieces, pagemap, held: 0, lost: 0, zone, kernels, settled, cpus })
    }

    /// Blocks in which the kernel has frames of its own ([`blocks_of_kernel`](crate::census::Census::blocks_of_kernel)). A frame of
    /// these that is given back goes to a list from which the kernel takes its own pages, so they
    /// go to programs last.
    pub fn avoid(&mut self, kernels: Vec<bool>) {
        self.kernels = kernels;
    }

    /// Frames that are held.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Frames that the kernel took away so far, by moving their pages.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes at most `most` bytes of free memory for a moment, and holds the frames of the choice.
    ///
    /// # Errors
    /// Memory cannot be mapped or locked. All of it is given back then.
    pub fn pass(&mut self, most: u64, stop: &dyn Fn() -> bool) -> Result<Pass, SpaceError> {
        self.pass_of(most, Blocks { pages: HUGE, only: false }, stop)
    }

    /// The same for free memory in blocks of this number of pages, which the kernel must be set to
    /// give to areas with the advice for huge pages. It ends where there are no more blocks.
    ///
    /// # Errors
    /// As [`Hold::pass`].
    pub fn pass_of_blocks(
        &mut self,
        pages: usize,
        most: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Pass, SpaceError> {
        self.pass_of(most, Blocks { pages: pages.clamp(1, HUGE), only: true }, stop)
    }

    fn pass_of(
        &mut self,
        most: u64,
        blocks: Blocks,
        stop: &dyn Fn() -> bool,
    ) -> Result<Pass, SpaceError> {
        let begin = Instant::now();
        // Moves that had begun before the last pass have most likely ended.
        self.look()?;
        let free = Memory::of(Path::new("/"))?.free.min(most);
        let pages = usize::try_from(free / PAGE).unwrap_or(0) / STEP * STEP;
        let mut pass = Pass { taken: 0, kept: 0, end: End::Room, ns: 0 };
        if pages > 0 {
            let area = Area::reserved(pages * PAGE as usize)?;
            let kept = self.take(&area, pages, blocks, stop, &mut pass)?;
            let before = self.held;
            let first = self.pieces.len();
            self.keep(area, &kept, false)?;
            // What compaction moved before it was locked was never held.
            self.check(first)?;
            pass.kept = self.held - before;
        }
        pass.ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(pass)
    }

    /// Fills an area step by step. The pages in it that have frames of the choice, with these.
    fn take(
        &self,
        area: &Area,
        pages: usize,
        blocks: Blocks,
        stop: &dyn Fn() -> bool,
        pass: &mut Pass,
    ) -> Result<Vec<(u32, u64)>, SpaceError> {
        let (mut kept, mut barren, mut huge) = (Vec::new(), 0, true);
        let mut brake = Brake::new();
        let mut entries = vec![0u64; STEP];
        area.advise_huge(0, pages, true);
        for first in (0..pages).step_by(STEP) {
            if let Some(end) = brake.holds(STEP as u64 * PAGE, stop)? {
                pass.end = end;
                break;
            }
            // Another program may have been quicker.
            if !area.populate(first, STEP) {
                pass.end = End::Room;
                break;
            }
            sys::entries_of(&self.pagemap, area, first, &mut entries)?;
            let before = kept.len();
            kept.extend(self.chosen(first, &entries));
            pass.taken += STEP as u64;
            let mut found = false;
            let mut rest = &kept[before..];
            for at in (0..STEP).step_by(blocks.pages) {
                let end = at + blocks.pages;
                let n = rest.partition_point(|&(page, _)| (page as usize) < first + end);
                let (here, later) = rest.split_at(n);
                rest = later;
                if is_block(&entries[at..end]) {
                    found = true;
                    take_apart(area, first + at, blocks.pages, here);
                }
            }
            area.advise_huge(first, STEP, false);
            if blocks.only && !found {
                pass.end = End::Barren;
                break;
            }
            if huge && !found {
                // The search for huge pages would make others wait.
                huge = false;
                area.advise_huge(first + STEP, pages - first - STEP, false);
            }
            barren = if kept.len() - before <= STEP / 1024 { barren + 1 } else { 0 };
            if barren >= BARREN {
                pass.end = End::Barren;
                break;
            }
        }
        Ok(kept)
    }

    /// The pages from this one on whose entries have frames of the choice, with these.
    fn chosen(&self, first: usize, entries: &[u64]) -> impl Iterator<Item = (u32, u64)> {
        let page = move |at: usize| u32::try_from(first + at).unwrap_or(u32::MAX);
        let pages = entries.iter().enumerate();
        let pages = pages.filter_map(move |(at, &entry)| Some((page(at), sys::frame_of(entry)?)));
        pages.filter(move |&(_, frame)| self.choice.allows(frame))
    }

    /// Takes this number of pages, the latest ones that are free on this CPU, and holds those with
    /// frames of the choice. Returns their number. Other programs have what they had before.
    ///
    /// # Errors
    /// Memory cannot be mapped or locked. It is given back then.
    pub fn take_back(&mut self, pages: u64) -> Result<u64, SpaceError> {
        let pages = usize::try_from(pages).unwrap_or(0).min(STEP);
        if pages == 0 {
            return Ok(0);
        }
        let area = Area::reserved(pages * PAGE as usize)?;
        area.advise_huge(0, pages, false);
        let mut entries = vec![0u64; pages];
        if area.populate(0, pages) {
            sys::entries_of(&self.pagemap, &area, 0, &mut entries)?;
        }
        let kept: Vec<_> = self.chosen(0, &entries).collect();
        let (before, first) = (self.held, self.pieces.len());
        self.keep(area, &kept, true)?;
        self.check(first)?;
        Ok(self.held.saturating_sub(before))
    }

    /// Takes what CPUs have on lists of their own, and holds the frames of the choice. These lists
    /// have the pages that a running program freed, and its last ones. No pass meets them, and the
    /// kernel gives them to the next program or file on that CPU. At most 32 MiB of a list are
    /// taken, and only on CPUs that this process could use when it began. Returns the number of
    /// frames.
    ///
    /// # Errors
    /// Memory cannot be mapped or locked. It is given back then.
    pub fn take_lists(&mut self) -> Result<u64, SpaceError> {
        let (mut taken, room) = (0, Memory::of(Path::new("/"))?.room());
        for (cpu, pages) in room::lists_of_cpus(Path::new("/")) {
            if pages > 0 && pages * PAGE < room && self.cpus.contains(&cpu) {
                // A CPU that is refused would leave this thread at another's list.
                let there = |hold: &mut Self| match sys::this_cpu() == cpu {
                    true => hold.take_back(pages),
                    false => Ok(0),
                };
                taken += sys::on_cpu(cpu, || there(self))?;
            }
        }
        Ok(taken)
    }

    /// Gives back everything of an area but these pages, which it locks.
    fn keep(&mut self, area: Area, kept: &[(u32, u64)], returned: bool) -> Result<(), SpaceError> {
        let pages = area.bytes() / PAGE as usize;
        give_back_others(&area, 0, pages, kept);
        // Page tables of parts without a held page go back as well.
        let blocks = pages.div_ceil(HUGE);
        let mut used = vec![false; blocks];
        kept.iter().for_each(|&(page, _)| used[page as usize / HUGE] = true);
        let mut rest = kept;
        for (first, area) in area.parts(&used, HUGE) {
            let end = first + area.bytes() / PAGE as usize;
            let n = rest.iter().take_while(|&&(page, _)| (page as usize) < end).count();
            let (here, later) = rest.split_at(n);
            rest = later;
            area.lock()?;
            let offset = |page: u32| page - u32::try_from(first).unwrap_or(0);
            let pages: Vec<_> = here.iter().map(|&(page, frame)| (offset(page), frame)).collect();
            // The kernel puts its page of zeroes in the place of parts that are zero, also when it
            // splits a block later. It is no frame that is held, and may have one of the colours.
            pages.iter().for_each(|&(page, _)| area.mark(page as usize));
            self.held += pages.len() as u64;
            self.pieces.push(Piece { area, pages, returned, settled: false });
        }
        Ok(())
    }

    /// Looks at every held page again. Pages that the kernel has moved to frames of other colours
    /// are given back. Returns the number of frames that were lost. A page that has moved before
    /// the first look is none of these: the kernel may have taken it for a move before it was
    /// locked, and such a move goes on.
    ///
    /// # Errors
    /// The frames are hidden from this process.
    pub fn look(&mut self) -> Result<u64, SpaceError> {
        let lost = self.check(0)?;
        self.rest();
        self.lost += lost;
        Ok(lost)
    }

    /// The kernel has moved no page since the last look, nor since the pages were locked that are
    /// new since then.
    pub fn rest(&mut self) {
        self.pieces.iter_mut().for_each(|piece| piece.settled = true);
    }

    /// Looks at the pages of the pieces from this one on; returns how many of the settled ones have
    /// other frames.
    fn check(&mut self, first: usize) -> Result<u64, SpaceError> {
        let mut lost = 0;
        let mut entries = vec![0u64; HUGE];
        for piece in &mut self.pieces[first..] {
            let all = piece.area.bytes() / PAGE as usize;
            let mut read = usize::MAX;
            let mut failed = None;
            piece.pages.retain_mut(|(page, frame)| {
                let at = *page as usize;
                if at / HUGE != read {
                    read = at / HUGE;
                    let n = HUGE.min(all - read * HUGE);
                    let part = &mut entries[..n];
                    failed = sys::entries_of(&self.pagemap, &piece.area, read * HUGE, part)
                        .err()
                        .or(failed.take());
                }
                let now = sys::frame_of(entries[at % HUGE]);
                if now == Some(*frame) {
                    return true;
                }
                lost += u64::from(piece.settled);
                match now.filter(|&now| self.choice.allows(now)) {
                    Some(now) => *frame = now,
                    None => piece.area.give_back(at, 1),
                }
                now.is_some_and(|now| self.choice.allows(now))
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
        self.pieces.retain(|piece| !piece.pages.is_empty());
        self.held = self.pieces.iter().map(|p| p.pages.len() as u64).sum();
        Ok(lost)
    }

    /// Gives back some of the held frames, as far as they are `wanted`, for a program that is to
    /// have them. Returns their number. Frames of the zone that programs get memory of first come
    /// first, and in it those of blocks without frames of the kernel. Of these the first are those
    /// that programs had before, so that the same go round.
    /// Then come the ones whose neighbour stays held: the kernel cannot join them to larger blocks,
    /// which it hands out last.
    pub fn give(&mut self, frames: u64, wanted: &dyn Fn(u64) -> bool) -> u64 {
        let (mut left, zone) = (frames, self.zone);
        let kernels = &self.kernels;
        let of_kernel = |frame: u64| {
            let block = usize::try_from(frame / BLOCK).unwrap_or(usize::MAX);
            kernels.get(block).copied().unwrap_or_default()
        };
        let places = [(true, false), (true, true), (false, false), (false, true)];
        let kinds = [(true, false), (false, true), (false, false)];
        let rounds = places.map(|place| kinds.map(|kind| (place, kind)));
        for ((upper, avoided), (back, single)) in rounds.into_iter().flatten() {
            let wanted = |frame: u64| {
                (frame >= zone) == upper && of_kernel(frame) == avoided && wanted(frame)
            };
            for piece in self.pieces.iter_mut().rev().filter(|piece| piece.returned == back) {
                left -= piece.give(left, single, &wanted);
                if left == 0 {
                    break;
                }
            }
        }
        self.settled.settle();
        self.pieces.retain(|piece| !piece.pages.is_empty());
        self.held -= frames - left;
        frames - left
    }

    /// Gives held frames back one by one, as far as they are `wanted`, in the same order of zones.
    /// After each, `taken` takes memory on this CPU, which gets that very frame, and tells whether
    /// to go on.
    pub fn hand_over(&mut self, wanted: &dyn Fn(u64) -> bool, taken: &mut dyn FnMut() -> bool) {
        let mut more = true;
        for upper in [true, false] {
            for piece in &mut self.pieces {
                let area = &piece.area;
                piece.pages.retain(|&(page, frame)| {
                    if !more || (frame >= self.zone) != upper || !wanted(frame) {
                        return true;
                    }
                    area.give_back(page as usize, 1);
                    self.settled.settle();
                    self.held -= 1;
                    more = taken();
                    false
                });
            }
        }
        self.pieces.retain(|piece| !piece.pages.is_empty());
    }

    /// The held frames.
    pub fn frames(&self) -> impl Iterator<Item = u64> {
        self.pieces.iter().flat_map(|piece| piece.pages.iter().map(|&(_, frame)| frame))
    }
}

/// Splits a block of pages, keeps these, and gives the others back.
fn take_apart(area: &Area, first: usize, pages: usize, kept: &[(u32, u64)]) {
    // Linux 6.12 and newer puts the page of zeroes in the place of parts that are zero.
    kept.iter().for_each(|&(page, _)| area.mark(page as usize));
    // A part of a huge page does not go back before the page is split.
    area.split(first);
    // Without a kept page, the whole would come again as a huge page.
    if !kept.is_empty() {
        give_back_others(area, first, first + pages, kept);
    }
}

/// Gives back the pages of a range but for these.
fn give_back_others(area: &Area, first: usize, end: usize, kept: &[(u32, u64)]) {
    let mut from = first;
    for &(page, _) in kept {
        area.give_back(from, page as usize - from);
        from = page as usize + 1;
    }
    area.give_back(from, end - from);
}

/// Are these the entries of one block: frames side by side, from a multiple of its size?
fn is_block(entries: &[u64]) -> bool {
    let first = sys::frame_of(entries[0]).filter(|f| f.is_multiple_of(entries.len() as u64));
    first.is_some_and(|first| {
        (first..).zip(entries).all(|(frame, &entry)| sys::frame_of(entry) == Some(frame))
    })
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
