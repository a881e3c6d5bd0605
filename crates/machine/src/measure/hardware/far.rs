//! Where the huge pages of the timed lines lie in memory.
//!
//! Problem: two lines of one huge page may never share a bank, and a program does not know how the
//! addresses of two pages differ. Rule: /proc/self/pagemap says it to root. Pairs of pages are kept
//! by their difference (XOR). Source: Linux, Documentation/admin-guide/mm/pagemap.rst. Does not
//! cover: pages that the kernel moves later; a hypervisor's pages under a guest's.

use solocore_buffers::walk::Random;
use solocore_buffers::{HUGE, PAGE};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bits of an entry: the page is present, and the number of its frame.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
/// Pages that are compared with each other.
const MOST: usize = 64;

/// Pairs of huge pages by their difference in memory, in bytes. The numbers count huge pages of a
/// range of lines.
#[derive(Debug, Default)]
pub struct Far(BTreeMap<u64, Vec<(usize, usize)>>);

impl Far {
    /// Pairs of the huge pages that begin at these addresses of this process; none where the kernel
    /// does not show their frames.
    pub fn of(starts: &[usize]) -> Self {
        let Ok(pagemap) = File::open("/proc/self/pagemap") else { return Self::default() };
        let frame = |start: usize| {
            let mut entry = [0_u8; 8];
            let at = (start / PAGE) as u64 * 8;
            pagemap.read_exact_at(&mut entry, at).ok()?;
            let entry = u64::from_ne_bytes(entry);
            let frame = entry & FRAME;
            (entry & PRESENT != 0 && frame != 0).then_some(frame * PAGE as u64)
        };
        let known: Option<Vec<u64>> = starts.iter().take(MOST).map(|&start| frame(start)).collect();
        Self::between(&known.unwrap_or_default())
    }

    /// Pairs of huge pages at these places in memory. A page that is not aligned to its size is no
    /// huge page, and there are no pairs.
    fn between(places: &[u64]) -> Self {
        let mut pairs: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
        if places.iter().any(|place| !place.is_multiple_of(HUGE as u64)) {
            return Self(pairs);
        }
        for (second, high) in places.iter().enumerate() {
            for (first, low) in places[..second].iter().enumerate() {
                pairs.entry(high ^ low).or_default().push((first, second));
            }
        }
        Self(pairs)
    }

    /// The differences, each once.
    pub fn differences(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }

    /// A pair with this difference, in either order.
    pub fn pair(&self, difference: u64, random: &mut Random) -> Option<(usize, usize)> {
        let all = self.0.get(&difference)?;
        let &(first, second) = all.get(random.below(all.len()))?;
        Some(if random.below(2) == 0 { (first, second) } else { (second, first) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Breaks when pages are paired by the distance of their addresses in the program.
    #[test]
    fn pages_are_paired_by_their_places_in_memory() {
        let huge = HUGE as u64;
        let far = Far::between(&[4 * huge, 7 * huge, 5 * huge, 6 * huge]);
        assert_eq!(far.differences(), [huge, 2 * huge, 3 * huge]);
        let mut random = Random::new(1);
        for _ in 0..20 {
            let (a, b) = far.pair(3 * huge, &mut random).unwrap();
            assert!([(0, 1), (2, 3)].contains(&(a.min(b), a.max(b))), "{a} {b}");
        }
        assert_eq!(far.pair(8 * huge, &mut random), None);
        assert!(Far::between(&[0, huge + PAGE as u64]).differences().is_empty());
        assert!(Far::between(&[huge]).differences().is_empty());
    }
}
