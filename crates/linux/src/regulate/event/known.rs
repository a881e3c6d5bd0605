//! Traffic of a known amount, to test an event.
//!
//! Problem: an event may count nothing, or leave out some kinds of traffic; its vendor does not
//! always say which.
//! Rule: each kind of traffic touches [`LINES`] lines of a target that no cache holds, as twice the
//! size of the last-level cache has been read since; the counts meanwhile are compared. An event
//! counts a kind if it sees at least half of it: some lines stay in the cache, and some come in by
//! traffic that this event leaves out.
//! Source: sizes of caches are those of `/sys/devices/system/cpu/cpuN/cache`.
//! Does not cover: caches beyond those (a system's cache), non-temporal stores of other instruction
//! sets than x86-64, and software prefetches of others than x86-64 and AArch64.

use crate::error::LinuxError;
use crate::sys;
use std::fs;
use std::hint::black_box;
use std::path::Path;

/// Number of lines that each kind touches.
pub(super) const LINES: usize = 1 << 16;
/// Words of a line.
const WORDS: usize = 8;
const LINE: usize = 64;
/// Lines of the target: random lines in it lie far apart, and few are touched twice.
const TARGET: usize = 1 << 19;
/// Size of the last-level cache where it is not known, bytes.
const CACHE_BYTES: usize = 96 << 20;
const LEAST_SWEEP_BYTES: usize = 16 << 20;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reads in random order, which no prefetcher predicts.
    Reads,
    /// Reads of one line after the other: most are made by prefetchers.
    ReadsInARow,
    /// Lines that the program asks for in random order, and does not read.
    Prefetches,
    /// Stores to a part of lines, in random order, which no prefetcher predicts.
    Stores,
    /// Stores of whole lines, one after the other.
    StoresInARow,
    /// Stores past the caches.
    NonTemporal,
}

pub(super) const KINDS: &[(Kind, &str)] = &[
    (Kind::Reads, "reads"),
    (Kind::ReadsInARow, "reads in a row (prefetched)"),
    (Kind::Prefetches, "software prefetches"),
    (Kind::Stores, "stores"),
    (Kind::StoresInARow, "stores of whole lines in a row"),
    (Kind::NonTemporal, "non-temporal stores"),
];

/// Counts of an event for a kind of traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The kind.
    pub what: &'static str,
    /// Lines that were touched.
    pub made: u64,
    /// Events that were counted.
    pub counted: u64,
}

impl Tried {
    /// Whether the event sees this kind.
    pub fn counts(&self) -> bool {
        self.counted >= self.made / 2
    }
}

/// A CPU, and the accesses that were made and counted there; `None`: this process may not go there.
pub type TriedCpu = (u32, Option<Result<(u64, u64), LinuxError>>);

/// Counts of an event for all kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedOn {
    /// A CPU of the tested type; `None`: all are of one type.
    pub cpu: Option<u32>,
    /// Kinds of traffic, without those that this instruction set cannot make.
    pub kinds: Vec<Tried>,
}

/// Memory in which the traffic is made.
pub(super) struct Memory {
    target: Vec<u64>,
    /// Memory that is read to push the target out of the caches.
    sweep: Vec<u64>,
}

impl Memory {
    /// Memory for a cache of this size, while the machine has the bytes free. Without `whole`, or
    /// where the size is not known, the memory that is available.
    fn of(cache: Option<usize>, available: usize, whole: bool) -> Result<Self, LinuxError> {
        let wanted = 2 * cache.unwrap_or(CACHE_BYTES);
        let rest = available.saturating_sub(TARGET * LINE);
        let sweep = if whole && cache.is_some() { wanted } else { wanted.min(rest) };
        let (sweep, cache) = (sweep.max(LEAST_SWEEP_BYTES), cache.unwrap_or(CACHE_BYTES));
        let needed = sweep + TARGET * LINE;
        if needed > available {
            return Err(LinuxError::Machine(format!(
                "untested: the last-level cache has {} MiB, so that a test needs {} MiB, and {} \
                    MiB of memory are available; free some",
                cache >> 20,
                needed >> 20,
                available >> 20
            )));
        }
        Ok(Self { target: vec![1; TARGET * WORDS], sweep: vec![1; sweep / 8] })
    }

    /// Memory for the largest last-level cache of these CPUs; a part of it is enough.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn for_cpus(cpus: &[u32]) -> Result<Self, LinuxError> {
        let all: Option<Vec<usize>> = cpus.iter().map(|&cpu| cache_of(cpu)).collect();
        let largest = all.and_then(|all| all.into_iter().max());
        Self::of(largest, available_bytes().unwrap_or(usize::MAX), false)
    }

    /// Memory for the last-level cache of a CPU of this machine. `whole`: fail rather than cover a
    /// part of the cache.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn for_cpu(cpu: u32, whole: bool) -> Result<Self, LinuxError> {
        Self::of(cache_of(cpu), available_bytes().unwrap_or(usize::MAX), whole)
    }

    fn out_of_order(&mut self, writes: bool) {
        let mut sum = 0u64;
        for at in random_words() {
            let word = &mut self.target[at];
            // The next index does not depend on the value read: many reads are under way.
            sum = sum.wrapping_add(*word);
            if writes {
                *word = word.wrapping_add(1);
            }
        }
        black_box(sum);
    }
}

/// Places of the first words of [`LINES`] random lines of the target.
fn random_words() -> impl Iterator<Item = usize> {
    let next = |at: &u64| {
        at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
    };
    let all = std::iter::successors(Some(next(&12_345)), move |at| Some(next(at)));
    all.take(LINES).map(|at| usize::try_from(at >> 40).unwrap_or(0) % TARGET * WORDS)
}

impl Maker for Memory {
    fn prepare(&mut self) {
        let sum = self.sweep.iter().step_by(WORDS).fold(0u64, |sum, &word| sum.wrapping_add(word));
        black_box(sum);
    }

    fn make(&mut self, kind: Kind) -> Option<u64> {
        let row = self.target.get_mut(..LINES * WORDS)?;
        match kind {
            Kind::Prefetches => {
                if !sys::stores::prefetch(random_words().filter_map(|at| self.target.get(at))) {
                    return None;
                }
            }
            Kind::Reads | Kind::Stores => self.out_of_order(kind == Kind::Stores),
            Kind::ReadsInARow => {
                black_box(
                    row.iter().step_by(WORDS).fold(0u64, |sum, &word| sum.wrapping_add(word)),
                );
            }
            Kind::StoresInARow => {
                black_box(row).fill(2);
            }
            Kind::NonTemporal => {
                if !sys::stores::store_past_caches(row, 3) {
                    return None;
                }
            }
        }
        Some(LINES as u64)
    }
}

/// Size of the last-level cache of a CPU of this machine, bytes.
fn cache_of(cpu: u32) -> Option<usize> {
    cache_bytes(Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}/cache")))
}

/// Size of the largest cache in a directory of sysfs, bytes.
fn cache_bytes(directory: &Path) -> Option<usize> {
    let size = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("size")).ok()?;
        let text = text.trim();
        let (number, unit) = match text.char_indices().last()? {
            (at, 'K') => (&text[..at], 1 << 10),
            (at, 'M') => (&text[..at], 1 << 20),
            _ => (text, 1),
        };
        number.parse::<usize>().ok()?.checked_mul(unit)
    };
    fs::read_dir(directory).ok()?.flatten().filter_map(size).max()
}

fn available_bytes() -> Option<usize> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1 << 10)
}

/// Lines that `make` touches, and the events that the counter sees meanwhile.
pub(super) fn measure(
    read: &mut impl FnMut() -> Result<u64, LinuxError>,
    make: impl FnOnce() -> Option<u64>,
) -> Result<Option<(u64, u64)>, LinuxError> {
    let before = read()?;
    let made = make();
    let counted = read()?.saturating_sub(before);
    Ok(made.map(|made| (made, counted)))
}

/// The threads that make traffic.
pub(super) trait Maker {
    /// Pushes the target out of the caches.
    fn prepare(&mut self);
    /// Makes traffic, and returns its number of lines; `None`: this instruction set cannot make it.
    fn make(&mut self, kind: Kind) -> Option<u64>;
}

/// Counts of a counter for each kind of traffic.
pub(super) fn try_all(
    read: &mut impl FnMut() -> Result<u64, LinuxError>,
    maker: &mut impl Maker,
) -> Result<Vec<Tried>, LinuxError> {
    let mut all = Vec::new();
    for &(kind, what) in KINDS {
        maker.prepare();
        let seen = measure(read, || maker.make(kind))?;
        all.extend(seen.map(|(made, counted)| Tried { what, made, counted }));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn small() -> Memory {
        Memory::of(Some(1 << 20), usize::MAX, true).unwrap()
    }

    #[test]
    fn each_kind_touches_its_lines() {
        let mut memory = small();
        memory.prepare();
        let written = |m: &Memory, value: u64| m.target.iter().filter(|&&w| w == value).count();
        assert_eq!(memory.make(Kind::Reads), Some(LINES as u64));
        assert_eq!(memory.make(Kind::ReadsInARow), Some(LINES as u64));
        let asks = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        assert_eq!(memory.make(Kind::Prefetches).is_some(), asks);
        assert_eq!(written(&memory, 1), TARGET * WORDS, "reads write nothing");
        assert_eq!(memory.make(Kind::Stores), Some(LINES as u64));
        let touched = TARGET * WORDS - written(&memory, 1);
        assert!(touched > LINES * 8 / 10, "{touched} lines");
        assert_eq!(memory.make(Kind::StoresInARow), Some(LINES as u64));
        assert!(memory.target[..LINES * WORDS].iter().all(|&w| w == 2));
        let made = memory.make(Kind::NonTemporal);
        assert_eq!(made.is_some(), cfg!(target_arch = "x86_64"));
        let written = if made.is_some() { 3 } else { 2 };
        assert!(memory.target[..LINES * WORDS].iter().all(|&w| w == written));
    }

    /// A counter like AMD's demand fills: it sees no prefetches and no non-temporal stores.
    struct Double<'a> {
        count: &'a Cell<u64>,
        prepared: usize,
        only_caches: bool,
    }

    impl Maker for Double<'_> {
        fn prepare(&mut self) {
            self.prepared += 1;
        }

        fn make(&mut self, kind: Kind) -> Option<u64> {
            let seen = matches!(kind, Kind::Reads | Kind::Stores | Kind::StoresInARow);
            self.count.set(self.count.get() + if seen { 950 } else { 120 });
            (!self.only_caches || kind != Kind::NonTemporal).then_some(1000)
        }
    }

    #[test]
    fn a_counter_that_leaves_something_out_is_found_out() {
        let count = Cell::new(7);
        let mut double = Double { count: &count, prepared: 0, only_caches: false };
        let all = try_all(&mut || Ok(count.get()), &mut double).unwrap();
        let counted: Vec<_> = all.iter().map(|t| (t.counted, t.counts())).collect();
        let (seen, unseen) = ((950, true), (120, false));
        assert_eq!(counted, [seen, unseen, unseen, seen, seen, unseen]);
        assert_eq!(double.prepared, KINDS.len());
        // A kind that cannot be made here is not reported.
        double.only_caches = true;
        let fewer = try_all(&mut || Ok(count.get()), &mut double).unwrap();
        assert_eq!(fewer.len(), KINDS.len() - 1);
        let mut broken = || Err(LinuxError::Machine("no".to_owned()));
        assert!(try_all(&mut broken, &mut double).is_err());
    }

    #[test]
    fn the_cache_decides_how_much_is_read() {
        let bytes = |m: &Memory| m.sweep.len() * 8;
        assert_eq!(bytes(&small()), LEAST_SWEEP_BYTES);
        assert_eq!(bytes(&Memory::of(Some(32 << 20), 1 << 30, true).unwrap()), 64 << 20);
        assert_eq!(bytes(&Memory::of(None, 1 << 30, true).unwrap()), 2 * CACHE_BYTES);
        let rest = (100 << 20) - TARGET * LINE;
        assert_eq!(bytes(&Memory::of(None, 100 << 20, true).unwrap()), rest);
        assert_eq!(bytes(&Memory::of(Some(384 << 20), 100 << 20, false).unwrap()), rest);
        assert!(Memory::of(None, 10 << 20, false).is_err());
        let error = Memory::of(Some(384 << 20), 500 << 20, true).err().unwrap().to_string();
        assert!(error.contains("untested") && error.contains("800 MiB"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(cache_bytes(dir.path()), None);
        for (index, size) in [("index0", "48K\n"), ("index3", "393216K\n"), ("index2", "2M")] {
            fs::create_dir(dir.path().join(index)).unwrap();
            fs::write(dir.path().join(index).join("size"), size).unwrap();
        }
        assert_eq!(cache_bytes(dir.path()), Some(384 << 20));
    }
}
