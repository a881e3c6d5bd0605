//! The prefetchers: they choose the line to fetch after a miss of the first data cache.
//!
//! Next line: the line after the missed one, in the same page. Stride: of each of the last 16 pages
//! the last miss and its distance to the one before are kept; when a distance repeats, the line at
//! that distance comes next, in the same page. The machines that run in time, the simulator's and
//! the board's, bring the line into the second level; it takes a miss register and is dropped when
//! there is none.
//! Not covered: degree and distance beyond one line, throttling by accuracy, prefetching across
//! pages.

use schemars::JsonSchema;
use serde::Deserialize;

/// Lines that are fetched before they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetcherKind {
    /// None.
    #[default]
    Off,
    /// The next line of the page at each miss of the first level.
    NextLine,
    /// Lines at the stride that two misses of a page repeat.
    Stride,
}

const PAGES: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Page {
    page: u64,
    last: u64,
    stride: i64,
}

/// A core's prefetcher.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    kind: PrefetcherKind,
    page_lines_shift: u32,
    pages: [Page; PAGES],
    next: usize,
}

impl Prefetcher {
    /// A prefetcher for pages of `1 << page_lines_shift` lines.
    pub fn new(kind: PrefetcherKind, page_lines_shift: u32) -> Self {
        Self {
            kind,
            page_lines_shift,
            pages: [Page { page: u64::MAX, last: 0, stride: 0 }; PAGES],
            next: 0,
        }
    }

    /// The line to fetch after a miss. Numbers of lines may have flags above the physical line, the
    /// same for all lines of a page.
    #[inline]
    pub fn next(&mut self, line: u64) -> Option<u64> {
        let next = match self.kind {
            PrefetcherKind::Off => return None,
            PrefetcherKind::NextLine => line + 1,
            PrefetcherKind::Stride => self.stride(line)?,
        };
        (next >> self.page_lines_shift == line >> self.page_lines_shift).then_some(next)
    }

    fn stride(&mut self, line: u64) -> Option<u64> {
        let page = line >> self.page_lines_shift;
        let Some(entry) = self.pages.iter_mut().find(|e| e.page == page) else {
            self.pages[self.next] = Page { page, last: line, stride: 0 };
            self.next = (self.next + 1) % PAGES;
            return None;
        };
        let stride = line.cast_signed().wrapping_sub(entry.last.cast_signed());
        let repeats = stride == entry.stride && stride != 0;
        (entry.last, entry.stride) = (line, stride);
        repeats.then(|| line.wrapping_add_signed(stride))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_line_stays_in_its_page() {
        let mut p = Prefetcher::new(PrefetcherKind::NextLine, 6);
        assert_eq!((p.next(0), p.next(62), p.next(63)), (Some(1), Some(63), None));
    }

    #[test]
    fn a_stride_must_repeat() {
        let mut p = Prefetcher::new(PrefetcherKind::Stride, 6);
        // Two pages at once.
        let lines = [0u64, 64, 3, 70, 6, 76, 9, 82];
        let got: Vec<_> = lines.iter().map(|&l| p.next(l)).collect();
        assert_eq!(got, [None, None, None, None, Some(9), Some(82), Some(12), Some(88)]);
        assert_eq!(p.next(60), None);
    }
}
