//! A count of all frames of the machine, by colour, bank and kind of use.
//!
//! Problem: moving programs to their colours leaves the kernel's own pages, the page cache and
//! page tables wherever they are, and no tool tells how many lie in a colour. Rule: the kernel
//! says for each frame what it is (/proc/kpageflags) and how often it is mapped
//! (/proc/kpagecount). Each frame is counted under its colour and bank, if it lies in memory
//! (/proc/iomem). Since Linux 6.17 or so, a hole reads as a frame without flags. Source:
//! Documentation/admin-guide/mm/pagemap.rst of Linux.
//! Does not cover: frames that firmware keeps, which have no entry; frames in the kernel's short
//! lists of each CPU, which look like its own; who has a page.

use crate::error::SpaceError;
use crate::gf2::values;
use crate::map::{Choice, Map, PAGE_BITS};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};

/// Bits of an entry of /proc/kpageflags (include/uapi/linux/kernel-page-flags.h, and 32 of
/// include/linux/kernel-page-flags.h).
mod bit {
    pub const LRU: u64 = 1 << 5;
    pub const SLAB: u64 = 1 << 7;
    pub const BUDDY: u64 = 1 << 10;
    pub const MMAP: u64 = 1 << 11;
    pub const ANON: u64 = 1 << 12;
    pub const SWAPBACKED: u64 = 1 << 14;
    pub const HUGE: u64 = 1 << 17;
    pub const HWPOISON: u64 = 1 << 19;
    pub const NOPAGE: u64 = 1 << 20;
    pub const OFFLINE: u64 = 1 << 23;
    pub const PGTABLE: u64 = 1 << 26;
    pub const RESERVED: u64 = 1 << 32;
}

/// The use of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// In the kernel's lists of free memory.
    Free,
    /// Private memory of programs.
    Anonymous,
    /// Shared memory, and files of tmpfs.
    SharedMemory,
    /// The page cache: contents of files.
    File,
    /// A part of a huge page of hugetlbfs.
    Huge,
    /// Small objects of the kernel.
    Slab,
    /// Page tables.
    PageTable,
    /// Other memory of the kernel: stacks, buffers, modules, pipes, and what a CPU keeps ready.
    Kernel,
    /// Reserved at boot: the kernel's image, and its table of frames.
    Reserved,
    /// Frames that a balloon has, that are offline, or that are broken.
    Unusable,
}

/// The kinds, in the order of tables.
pub const KINDS: [Kind; 10] = [
    Kind::Free,
    Kind::Anonymous,
    Kind::SharedMemory,
    Kind::File,
    Kind::Huge,
    Kind::Slab,
    Kind::PageTable,
    Kind::Kernel,
    Kind::Reserved,
    Kind::Unusable,
];

impl Kind {
    /// The kind of a frame with these flags; `None`: there is no such frame.
    pub fn of(flags: u64) -> Option<Self> {
        let has = |bits: u64| flags & bits != 0;
        Some(match () {
            () if has(bit::NOPAGE) => return None,
            () if has(bit::HWPOISON | bit::OFFLINE) => Self::Unusable,
            () if has(bit::BUDDY) => Self::Free,
            () if has(bit::PGTABLE) => Self::PageTable,
            () if has(bit::SLAB) => Self::Slab,
            () if has(bit::HUGE) => Self::Huge,
            () if has(bit::ANON) => Self::Anonymous,
            () if has(bit::RESERVED) => Self::Reserved,
            () if has(bit::SWAPBACKED) => Self::SharedMemory,
            () if has(bit::LRU) => Self::File,
            () => Self::Kernel,
        })
    }

    /// Its column in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Anonymous => "anonymous",
            Self::SharedMemory => "shared",
            Self::File => "file",
            Self::Huge => "huge",
            Self::Slab => "slab",
            Self::PageTable => "page table",
            Self::Kernel => "kernel",
            Self::Reserved => "reserved",
            Self::Unusable => "unusable",
        }
    }

    /// Whether the frame is the kernel's own, so that no program and no reserve gets it.
    pub fn is_kernels(self) -> bool {
        matches!(
            self,
            Self::Slab | Self::PageTable | Self::Kernel | Self::Reserved | Self::Unusable
        )
    }
}

/// Frames by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Free frames.
    pub free: u64,
    /// Private memory of programs.
    pub anonymous: u64,
    /// Shared memory, and files of tmpfs.
    pub shared_memory: u64,
    /// The page cache.
    pub file: u64,
    /// Of these, frames that programs have mapped: dropping the page cache leaves them.
    pub file_mapped: u64,
    /// Huge pages of hugetlbfs.
    pub huge: u64,
    /// Small objects of the kernel.
    pub slab: u64,
    /// Page tables.
    pub page_table: u64,
    /// Other memory of the kernel, with the pages that a CPU keeps ready.
    pub kernel: u64,
    /// Reserved at boot.
    pub reserved: u64,
    /// Frames of a balloon, offline or broken ones.
    pub unusable: u64,
}

impl Counts {
    /// Frames of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Free => self.free,
            Kind::Anonymous => self.anonymous,
            Kind::SharedMemory => self.shared_memory,
            Kind::File => self.file,
            Kind::Huge => self.huge,
            Kind::Slab => self.slab,
            Kind::PageTable => self.page_table,
            Kind::Kernel => self.kernel,
            Kind::Reserved => self.reserved,
            Kind::Unusable => self.unusable,
        }
    }

    /// All frames.
    pub fn all(&self) -> u64 {
        KINDS.iter().map(|&kind| self.of(kind)).sum()
    }

    /// Frames of the kernel itself.
    pub fn kernels(&self) -> u64 {
        KINDS.iter().filter(|kind| kind.is_kernels()).map(|&kind| self.of(kind)).sum()
    }

    fn add(&mut self, kind: Kind, frames: u64) {
        *match kind {
            Kind::Free => &mut self.free,
            Kind::Anonymous => &mut self.anonymous,
            Kind::SharedMemory => &mut self.shared_memory,
            Kind::File => &mut self.file,
            Kind::Huge => &mut self.huge,
            Kind::Slab => &mut self.slab,
            Kind::PageTable => &mut self.page_table,
            Kind::Kernel => &mut self.kernel,
            Kind::Reserved => &mut self.reserved,
            Kind::Unusable => &mut self.unusable,
        } += frames;
    }

    fn merge(&mut self, other: &Self) {
        for kind in KINDS {
            self.add(kind, other.of(kind));
        }
        self.file_mapped += other.file_mapped;
    }
}

/// Frames of a block in which Linux keeps movable memory apart from its own (`pageblock_order`): as
/// many as a huge page has.
pub const BLOCK: u64 = 512;

/// All frames, by colour and bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    colours: usize,
    banks: usize,
    /// By bank, and within it by colour.
    classes: Vec<Counts>,
    /// Frames that a choice allows, and the others.
    chosen: Option<[Counts; 2]>,
    /// By [`BLOCK`].
    kernels: Vec<bool>,
}

const FLAGS: &str = "/proc/kpageflags";
const MAPPED: &str = "/proc/kpagecount";
const IOMEM: &str = "/proc/iomem";

/// The ranges of frames that are memory, in order; all frames where no file tells.
fn memory_of(iomem: &str) -> Vec<std::ops::Range<u64>> {
    let mut ranges: Vec<_> = iomem
        .lines()
        .filter_map(|line| line.strip_suffix(" : System RAM"))
        .filter_map(|range| {
            let (first, last) = range.trim().split_once('-')?;
            let first = u64::from_str_radix(first, 16).ok()?.div_ceil(1 << PAGE_BITS);
            let end = (u64::from_str_radix(last, 16).ok()? + 1) >> PAGE_BITS;
            (first < end).then_some(first..end)
        })
        .collect();
    if ranges.is_empty() {
        ranges.push(0..u64::MAX);
    }
    ranges.sort_by_key(|range| range.start);
    ranges
}

impl Census {
    /// Counts the frames of this machine; those of `choice` apart, too. The machine goes on
    /// meanwhile.
    ///
    /// # Errors
    /// The kernel does not show its frames to this process.
    pub fn of_machine(map: &Map, choice: Option<&Choice>) -> Result<Self, SpaceError> {
        Self::in_pieces(map, choice, &mut || {})
    }

    /// As [`Census::of_machine`], and calls `between` before each piece of 8192 frames: a census of
    /// a large machine takes seconds, and the caller may have other work meanwhile.
    ///
    /// # Errors
    /// The kernel does not show its frames to this process.
    pub fn in_pieces(
        map: &Map,
        choice: Option<&Choice>,
        between: &mut dyn FnMut(),
    ) -> Result<Self, SpaceError> {
        let open = |path: &str| File::open(path).map_err(|e| hidden(path, &e));
        let iomem = std::fs::read_to_string(IOMEM).unwrap_or_default();
        let flags = Between { from: open(FLAGS)?, between };
        Self::of(map, choice, flags, open(MAPPED)?, &iomem).map_err(|e| hidden(FLAGS, &e))
    }

    /// Counts frames from the contents of both files, which have a word of 8 bytes for each frame,
    /// and the text of the map of addresses.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn of(
        map: &Map,
        choice: Option<&Choice>,
        flags: impl Read,
        mapped: impl Read,
        iomem: &str,
    ) -> io::Result<Self> {
        let memory = memory_of(iomem);
        let mut range = 0;
        let banks = map.page_banks();
        let (colours, bank_count) = (1 << map.colours.len(), 1 << banks.len());
        let mut census = Self {
            colours,
            banks: bank_count,
            classes: vec![Counts::default(); colours * bank_count],
            chosen: choice.map(|_| Default::default()),
            kernels: Vec::new(),
        };
        let (mut flags, mut mapped) = (Words::new(flags), Words::new(mapped));
        let mut frame = 0u64;
        while let Some(word) = flags.next()? {
            let count = mapped.next()?.unwrap_or(0);
            while memory.get(range).is_some_and(|r| r.end <= frame) {
                range += 1;
            }
            let there = memory.get(range).is_some_and(|r| r.contains(&frame));
            if let Some(kind) = Kind::of(word).filter(|_| there) {
                let address = frame << PAGE_BITS;
                let class =
                    values(&banks, address) as usize * colours + map.colour(address) as usize;
                let file_mapped =
                    u64::from(kind == Kind::File && (count > 0 || word & bit::MMAP != 0));
                let count = |counts: &mut Counts| {
                    counts.add(kind, 1);
                    counts.file_mapped += file_mapped;
                };
                count(&mut census.classes[class]);
                census.note_block(frame, kind);
                if let (Some(choice), Some(chosen)) = (choice, &mut census.chosen) {
                    count(&mut chosen[usize::from(!choice.allows(frame))]);
                }
            }
            frame += 1;
        }
        Ok(census)
    }

    fn note_block(&mut self, frame: u64, kind: Kind) {
        let block = usize::try_from(frame / BLOCK).unwrap_or(usize::MAX);
        if kind.is_kernels() {
            self.kernels.resize(self.kernels.len().max(block + 1), false);
            self.kernels[block] = true;
        }
    }

    /// By block of [`BLOCK`] frames, up to the last one with such frames: does the kernel have
    /// frames of its own there?
    pub fn blocks_of_kernel(self) -> Vec<bool> {
        self.kernels
    }

    /// Frames of each colour.
    pub fn colours(&self) -> Vec<Counts> {
        self.sums(self.colours, |class| class % self.colours)
    }

    /// Frames of each bank, or group of banks.
    pub fn banks(&self) -> Vec<Counts> {
        self.sums(self.banks, |class| class / self.colours)
    }

    /// All frames.
    pub fn all(&self) -> Counts {
        self.sums(1, |_| 0)[0]
    }

    /// Frames that the choice allows, and the others; `None` without a choice.
    pub fn chosen(&self) -> Option<[Counts; 2]> {
        self.chosen
    }

    fn sums(&self, n: usize, of: impl Fn(usize) -> usize) -> Vec<Counts> {
        let mut sums = vec![Counts::default(); n];
        for (class, counts) in self.classes.iter().enumerate() {
            sums[of(class)].merge(counts);
        }
        sums
    }
}

fn hidden(path: &str, error: &io::Error) -> SpaceError {
    SpaceError::of_io(
        path,
        error,
        "run as root, outside of a container, on a kernel with CONFIG_PROC_PAGE_MONITOR",
    )
}

/// A file, and a function that is called before each piece of it is read.
struct Between<'a, R> {
    from: R,
    between: &'a mut dyn FnMut(),
}

impl<R: Read> Read for Between<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (self.between)();
        self.from.read(to)
    }
}

/// Words of 8 bytes of a file of /proc, in large pieces.
struct Words<R> {
    from: R,
    bytes: Vec<u8>,
    at: usize,
    length: usize,
}

impl<R: Read> Words<R> {
    fn new(from: R) -> Self {
        Self { from, bytes: vec![0; 1 << 16], at: 0, length: 0 }
    }

    /// The next word; `None` at the end.
    fn next(&mut self) -> io::Result<Option<u64>> {
        if self.at + 8 > self.length {
            let rest = self.length - self.at;
            self.bytes.copy_within(self.at..self.length, 0);
            (self.at, self.length) = (0, rest);
            while self.length < 8 {
                // The kernel gives whole words only, and to buffers of whole words only.
                let room = (self.bytes.len() - self.length) / 8 * 8;
                let got = self.from.read(&mut self.bytes[self.length..][..room])?;
                if got == 0 {
                    return Ok(None);
                }
                self.length += got;
            }
        }
        let word = self.bytes[self.at..self.at + 8].try_into().unwrap_or_default();
        self.at += 8;
        Ok(Some(u64::from_ne_bytes(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in pieces of 3, unlike any file of the kernel.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(to.len()).min(3);
            to[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn flags_have_kinds() {
        // As Linux 6.19 shows them: uptodate is 3, dirty 4, referenced 2, head 15, mlocked 33.
        for (flags, kind) in [
            (1 << 20, None),
            (bit::BUDDY, Some(Kind::Free)),
            (0x28 | bit::MMAP | bit::ANON | bit::SWAPBACKED, Some(Kind::Anonymous)),
            (1 << 33 | 0x28 | bit::MMAP | bit::ANON | bit::SWAPBACKED, Some(Kind::Anonymous)),
            (0x38 | bit::SWAPBACKED, Some(Kind::SharedMemory)),
            (0x2c, Some(Kind::File)),
            (0x2c | bit::MMAP, Some(Kind::File)),
            (bit::HUGE | 1 << 15, Some(Kind::Huge)),
            (bit::SLAB, Some(Kind::Slab)),
            (bit::PGTABLE | bit::MMAP, Some(Kind::PageTable)),
            (bit::RESERVED, Some(Kind::Reserved)),
            (0, Some(Kind::Kernel)),
            (1 << 15, Some(Kind::Kernel)),
            (bit::HWPOISON | bit::ANON, Some(Kind::Unusable)),
            (bit::OFFLINE, Some(Kind::Unusable)),
        ] {
            assert_eq!(Kind::of(flags), kind, "{flags:#x}");
        }
    }

    #[test]
    fn each_frame_is_counted_once_in_its_colour_and_bank() {
        let map = Map { colours: vec![1 << 12, 1 << 13], banks: vec![1 << 14], slices: Vec::new() };
        // 10 frames: colours 0 1 2 3 0 1 2 3 0 1, banks 0 0 0 0 1 1 1 1 0 0.
        let kinds = [bit::BUDDY, 0, bit::SLAB, 1 << 20, 0x28, 0x28, bit::PGTABLE, 0, 0, bit::BUDDY];
        let (flags, mapped) = (bytes(&kinds), bytes(&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0]));
        let choice = Choice::new(&map, Some(&[1, 2]), Some(&[0])).expect("valid");
        let census =
            Census::of(&map, Some(&choice), Slow(&flags), mapped.as_slice(), "").expect("read");
        let all = census.all();
        assert_eq!((all.all(), all.free, all.kernel, all.slab), (9, 2, 3, 1));
        assert_eq!((all.file, all.file_mapped, all.page_table), (2, 1, 1));
        assert_eq!(all.kernels(), 5);
        let [chosen, others] = census.chosen().expect("chosen");
        // Frames 1, 2 and 9.
        assert_eq!((chosen.all(), chosen.free, chosen.kernel, chosen.slab), (3, 1, 1, 1));
        assert_eq!((others.all(), others.file_mapped), (6, 1));
        let by = |counts: Vec<Counts>| counts.iter().map(Counts::all).collect::<Vec<_>>();
        assert_eq!(by(census.colours()), [3, 3, 2, 1]);
        assert_eq!(by(census.banks()), [5, 4]);
        assert_eq!(census.colours()[1].free, 1);
    }

    #[test]
    fn holes_between_memory_are_no_frames() {
        let iomem = "00000000-00000fff : Reserved\n00001000-00003bff : System RAM\n  00002000-00002fff \
            : Kernel code\n00008000-00008fff : System RAM\n";
        assert_eq!(memory_of(iomem), [1..3, 8..9]);
        let flags = bytes(&[0; 12]);
        let census =
            Census::of(&Map::default(), None, flags.as_slice(), &[][..], iomem).expect("read");
        assert_eq!(census.all().all(), 3);
    }

    #[test]
    fn a_file_that_ends_early_ends_the_count() {
        let flags = [bytes(&[0x28; 512]), bytes(&[0, 0])].concat();
        let census = Census::of(&Map::default(), None, &flags[..4109], &[][..], "").expect("read");
        assert_eq!(census.all(), Counts { file: 512, kernel: 1, ..Counts::default() });
        assert_eq!(census.chosen(), None);
        assert_eq!(census.blocks_of_kernel(), [false, true]);
    }
}
