//! Finds the bank functions of a memory by timing alone.
//!
//! Problem: two addresses in one bank but different rows delay each other; nothing else about banks
//! is visible (DRAMA). Rule: times of random pairs must form two groups, and a pair must be in the
//! same group when it is timed again. Differences (XOR) of pairs in the slow group lie in the
//! kernel of all bank functions, so these are the orthogonal complement of their span. As some
//! pairs are in the wrong group, small random samples of differences propose functions, all
//! differences judge them, and pairs that had no part in it must agree before there is an answer. A
//! wrong function would put two programs into one bank although they count as separate, so each
//! doubt ends in a refusal. Source: DRAMA (Pessl et al. 2016), with linear algebra in place of its
//! search. Does not cover: the meaning of a function (channel, rank or bank); maps that are not
//! linear, as of three channels.

use crate::gf2::{Basis, parity};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Times pairs of addresses.
pub trait Timing {
    /// Physical addresses that can be timed, one a line of the cache.
    fn addresses(&self) -> &[u64];
    /// Time of reading both, by their numbers, so that both come from memory; in any unit.
    fn time(&mut self, a: usize, b: usize) -> f64;
}

/// Bank functions, and the evidence for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The functions, those of few bits first.
    pub banks: Vec<u64>,
    /// Times of the fast and of the slow group, and the limit between them.
    pub times: (f64, f64, f64),
    /// Slow pairs from which the functions were made, and the number of them that they explain.
    pub pairs: (usize, usize),
    /// Share of the new pairs that should be slow and were slow.
    pub slow_as_said: f64,
    /// Share of the new pairs that should be fast and were fast.
    pub fast_as_said: f64,
    /// Address bits in which the addresses differ; only these can be examined.
    pub bits: u64,
}

/// Reasons for which there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the timing does not separate: {0}; run it on the machine itself, with nothing beside it, or \
        give a map that is known"
)]
pub struct Unclear(pub String);

const PAIRS: usize = 4000;
const AGAIN: usize = 150;
const BASES: usize = 40;
const MOST_FUNCTIONS: usize = 10;

/// Finds the functions, or gives the reason why not. The same seed and the same times give the same
/// answer.
///
/// # Errors
/// The times do not separate, or no linear functions explain them.
pub fn solve(timing: &mut dyn Timing, seed: u64) -> Result<Found, Unclear> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let count = timing.addresses().len();
    if count < 1024 {
        return Err(Unclear(format!("{count} addresses are too few")));
    }
    let groups = separate(timing, &mut random)?;
    let differences = slow_differences(timing, &mut random, groups.limit);
    let addresses = timing.addresses();
    let all = Basis::of(addresses.iter().map(|a| a ^ addresses[0]));
    let bits = addresses.iter().fold(0, |bits, a| bits | (a ^ addresses[0]));
    let space = Space { trivial: all.complement(bits), rank: all.rank(), bits };
    let needed = space.rank * 2 + 32;
    if differences.len() < needed {
        return Err(Unclear(format!(
            "{} slow pairs were found, and {needed} are needed",
            differences.len()
        )));
    }
    let (functions, explained) = space.fit(&differences, &mut random)?;
    let (slow_as_said, fast_as_said) = verify(timing, &mut random, &functions, groups.limit)?;
    Ok(Found {
        banks: simplest(&functions),
        times: (groups.fast, groups.slow, groups.limit),
        pairs: (differences.len(), explained),
        slow_as_said,
        fast_as_said,
        bits,
    })
}

/// Two groups of times, and the limit between them; in the unit of the times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// Median of the fast group.
    pub fast: f64,
    /// Median of the slow group.
    pub slow: f64,
    /// Times above it are slow.
    pub limit: f64,
}

/// `amount` different numbers below `count`.
pub(crate) fn sample(random: &mut ChaCha8Rng, count: usize, amount: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    for i in 0..amount.min(count) {
        all.swap(i, random.random_range(i..count));
    }
    all.truncate(amount);
    all
}

fn pair(random: &mut ChaCha8Rng, count: usize) -> (usize, usize) {
    let a = random.random_range(0..count);
    let b = (a + random.random_range(1..count)) % count;
    (a, b)
}

fn median(timing: &mut dyn Timing, a: usize, b: usize) -> f64 {
    let mut times = [timing.time(a, b), timing.time(a, b), timing.time(a, b)];
    times.sort_unstable_by(f64::total_cmp);
    times[1]
}

/// Two groups of times, if there are two lasting ones.
fn separate(timing: &mut dyn Timing, random: &mut ChaCha8Rng) -> Result<Groups, Unclear> {
    let count = timing.addresses().len();
    let pairs: Vec<(usize, usize)> = (0..PAIRS).map(|_| pair(random, count)).collect();
    let times: Vec<f64> = pairs.iter().map(|&(a, b)| median(timing, a, b)).collect();
    let groups = split(&times)?;
    let slow: Vec<(usize, usize)> = pick(&pairs, &times, |t| t > groups.limit);
    let fast: Vec<(usize, usize)> = pick(&pairs, &times, |t| t <= groups.limit);
    let mut share = |pairs: &[(usize, usize)], slow: bool| {
        let same =
            pairs.iter().filter(|&&(a, b)| (median(timing, a, b) > groups.limit) == slow).count();
        same as f64 / pairs.len() as f64
    };
    let (slow_again, fast_again) = (share(&slow, true), share(&fast, false));
    if slow_again < 0.85 || fast_again < 0.95 {
        return Err(Unclear(format!(
            "of pairs that were slow {:.0} % are slow again, of fast ones {:.0} % fast again",
            slow_again * 100.0,
            fast_again * 100.0
        )));
    }
    Ok(groups)
}

fn pick(
    pairs: &[(usize, usize)],
    times: &[f64],
    which: impl Fn(f64) -> bool,
) -> Vec<(usize, usize)> {
    pairs.iter().zip(times).filter(|(_, t)| which(**t)).map(|(p, _)| *p).take(AGAIN).collect()
}

/// The limit between two groups that keeps each closest together (Otsu's), if there is a gap
/// between them.
///
/// # Errors
/// There is no gap, or the share of the slow group is not possible with banks.
pub fn split(times: &[f64]) -> Result<Groups, Unclear> {
    if times.is_empty() {
        return Err(Unclear("there are no times".into()));
    }
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    // Single interrupts must not make a group of their own.
    let top = sorted[sorted.len() - 1 - sorted.len() / 500];
    let n = sorted.len();
    sorted.iter_mut().for_each(|t| *t = t.min(top));
    let total: f64 = sorted.iter().sum();
    let (mut below, mut best, mut at) = (0.0, 0.0, 0);
    for i in 1..n {
        below += sorted[i - 1];
        let (low, high) = (below / i as f64, (total - below) / (n - i) as f64);
        let between = i as f64 * (n - i) as f64 * (high - low) * (high - low);
        if between > best {
            (best, at) = (between, i);
        }
    }
    let (fast, slow) = (quantile(&sorted[..at], 0.5), quantile(&sorted[at..], 0.5));
    let share = (n - at) as f64 / n as f64;
    let says =
        format!("fast pairs take {fast:.0}, slow ones {slow:.0}, {:.1} % are slow", share * 100.0);
    if !(0.0005..=0.6).contains(&share) || n - at < 8 {
        return Err(Unclear(format!("{says}; banks would give another share")));
    }
    // A gap: few of either group lie near the limit.
    let limit = (quantile(&sorted[..at], 0.95) + quantile(&sorted[at..], 0.1)) / 2.0;
    if quantile(&sorted[at..], 0.1) - quantile(&sorted[..at], 0.95) < 0.25 * (slow - fast)
        || slow < 1.03 * fast
    {
        return Err(Unclear(format!("{says}, with no gap between them")));
    }
    Ok(Groups { fast, slow, limit })
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted.get(((sorted.len().max(1) - 1) as f64 * q) as usize).copied().unwrap_or(0.0)
}

/// Differences of pairs that are slow three times.
fn slow_differences(timing: &mut dyn Timing, random: &mut ChaCha8Rng, limit: f64) -> Vec<u64> {
    let count = timing.addresses().len();
    let mut differences = Vec::new();
    for _ in 0..BASES {
        let base = random.random_range(0..count);
        for other in sample(random, count, count.min(2048)) {
            if other != base && (0..3).all(|_| timing.time(base, other) > limit) {
                differences.push(timing.addresses()[base] ^ timing.addresses()[other]);
            }
        }
        if differences.len() > 1500 {
            break;
        }
    }
    differences
}

/// The addresses' differences as a vector space.
struct Space {
    /// Functions that are the same for all addresses, and so give no information.
    trivial: Basis,
    rank: usize,
    bits: u64,
}

impl Space {
    /// Functions that nine of ten differences do not change, with the number of these differences.
    fn fit(&self, differences: &[u64], random: &mut ChaCha8Rng) -> Result<(Basis, usize), Unclear> {
        let mut best: Option<(Basis, usize)> = None;
        let explains = |f: &Basis, d: u64| f.rows().iter().all(|&mask| !parity(mask, d));
        for _ in 0..400 {
            let picked = sample(random, differences.len(), (self.rank + 6).min(differences.len()));
            let functions = self.functions(picked.iter().map(|&i| differences[i]));
            let explained = differences.iter().filter(|&&d| explains(&functions, d)).count();
            let rank = best.as_ref().map_or(0, |(f, _)| f.rank());
            if explained * 10 >= differences.len() * 9 && functions.rank() > rank {
                // The common functions of all differences that it explains, in place of those of a
                // sample.
                let kept = differences.iter().copied().filter(|&d| explains(&functions, d));
                best = Some((self.functions(kept), explained));
            }
        }
        let (functions, explained) = best.ok_or_else(|| {
            Unclear("no XOR functions of address bits explain the slow pairs".into())
        })?;
        if functions.rank() == 0 || functions.rank() > MOST_FUNCTIONS {
            return Err(Unclear(format!(
                "{} functions explain the slow pairs, which are not banks",
                functions.rank()
            )));
        }
        Ok((functions, explained))
    }

    fn functions(&self, differences: impl Iterator<Item = u64>) -> Basis {
        let all = Basis::of(differences).complement(self.bits);
        Basis::of(all.rows().iter().map(|&f| self.trivial.reduce(f)))
    }
}

/// Checks new pairs: those that should be slow are slow, slow ones should be slow, and their share
/// fits the number of banks.
fn verify(
    timing: &mut dyn Timing,
    random: &mut ChaCha8Rng,
    functions: &Basis,
    limit: f64,
) -> Result<(f64, f64), Unclear> {
    let count = timing.addresses().len();
    let same = |timing: &dyn Timing, a: usize, b: usize| {
        let d = timing.addresses()[a] ^ timing.addresses()[b];
        functions.rows().iter().all(|&mask| !parity(mask, d))
    };
    let is_slow = |timing: &mut dyn Timing, a, b| median(timing, a, b) > limit;
    let (mut expected, mut expected_slow, mut others, mut others_fast) = (0u32, 0u32, 0u32, 0u32);
    let (mut slow, mut slow_same) = (0u32, 0u32);
    for _ in 0..400_000 {
        let (a, b) = pair(random, count);
        let together = same(timing, a, b);
        // One of each kind in turn, while there are any.
        if (together && expected >= 300) || (!together && others >= 3000) {
            continue;
        }
        let s = is_slow(timing, a, b);
        if together {
            expected += 1;
            expected_slow += u32::from(s);
        } else {
            others += 1;
            others_fast += u32::from(!s);
        }
        if expected >= 300 && others >= 3000 {
            break;
        }
    }
    // Pairs that are slow, for any functions: a function too many would separate half of them.
    for _ in 0..20_000 {
        let (a, b) = pair(random, count);
        if is_slow(timing, a, b) {
            slow += 1;
            slow_same += u32::from(same(timing, a, b));
        }
        if slow >= 100 {
            break;
        }
    }
    let share = |part: u32, of: u32| f64::from(part) / f64::from(of.max(1));
    let (slow_as_said, fast_as_said) = (share(expected_slow, expected), share(others_fast, others));
    let known = share(slow_same, slow);
    if expected < 100 || slow < 20 || slow_as_said < 0.85 || fast_as_said < 0.97 || known < 0.85 {
        return Err(Unclear(format!(
            "{} functions were found, but of new pairs that they say are slow {:.0} % are, of fast \
                ones {:.0} %, and they know {:.0} % of the slow ones",
            functions.rank(),
            slow_as_said * 100.0,
            fast_as_said * 100.0,
            known * 100.0
        )));
    }
    Ok((slow_as_said, fast_as_said))
}

/// The same functions, by those of few and low bits.
fn simplest(functions: &Basis) -> Vec<u64> {
    let rows = functions.rows();
    let sums = (1u32..1 << rows.len()).map(|pick| {
        rows.iter()
            .enumerate()
            .filter(|(i, _)| pick >> i & 1 == 1)
            .fold(0, |sum, (_, row)| sum ^ row)
    });
    let mut sums: Vec<u64> = sums.collect();
    sums.sort_unstable_by_key(|sum| (sum.count_ones(), *sum));
    let mut basis = Basis::default();
    let mut chosen: Vec<u64> = sums.into_iter().filter(|&sum| basis.insert(sum)).collect();
    chosen.sort_unstable_by_key(|f| f.trailing_zeros());
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A memory whose functions are known.
    struct Oracle {
        addresses: Vec<u64>,
        banks: Vec<u64>,
        rows: u64,
        wrong: f64,
        jitter: f64,
        random: ChaCha8Rng,
        kind: Kind,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Linear,
        /// Slow by chance, each time again.
        Noise,
        /// Slow by a hash of the pair: lasting, and not linear.
        Hash,
        /// Three banks: the page number modulo 3.
        Three,
        /// One time for all.
        Flat,
    }

    impl Oracle {
        fn new(seed: u64, banks: Vec<u64>, kind: Kind) -> Self {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let addresses = (0..16_384).map(|_| random.random_range(0..1u64 << 34) & !63).collect();
            Self { addresses, banks, rows: !0 << 18, wrong: 0.005, jitter: 12.0, random, kind }
        }
    }

    impl Timing for Oracle {
        fn addresses(&self) -> &[u64] {
            &self.addresses
        }

        fn time(&mut self, a: usize, b: usize) -> f64 {
            let (x, y) = (self.addresses[a], self.addresses[b]);
            let conflict = match self.kind {
                Kind::Linear => {
                    self.banks.iter().all(|&m| !parity(m, x ^ y)) && (x ^ y) & self.rows != 0
                }
                Kind::Noise => self.random.random_bool(0.06),
                Kind::Hash => (x ^ y).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 == 3,
                Kind::Three => (x >> 12) % 3 == (y >> 12) % 3,
                Kind::Flat => false,
            };
            let conflict = conflict ^ self.random.random_bool(self.wrong);
            let noise: f64 = (0..4).map(|_| self.random.random_range(-1.0..1.0)).sum();
            (if conflict { 330.0 } else { 240.0 }) + noise / 2.0 * self.jitter
        }
    }

    fn mask(bits: &[u32]) -> u64 {
        bits.iter().fold(0, |m, b| m | 1 << b)
    }

    #[test]
    fn finds_the_functions_of_known_boards() {
        // From DRAMA's tables: Sandy Bridge with one DIMM, Skylake with two.
        for banks in [
            vec![mask(&[14, 18]), mask(&[15, 19]), mask(&[16, 20]), mask(&[17, 21])],
            vec![
                mask(&[7, 14]),
                mask(&[15, 19]),
                mask(&[16, 20]),
                mask(&[17, 21]),
                mask(&[18, 22]),
                mask(&[8, 9, 12, 13, 18, 19]),
            ],
        ] {
            let mut oracle = Oracle::new(1, banks.clone(), Kind::Linear);
            let found = solve(&mut oracle, 7).expect("separates");
            assert_eq!(Basis::of(found.banks.iter().copied()), Basis::of(banks.iter().copied()));
            assert!(found.slow_as_said > 0.95 && found.fast_as_said > 0.98, "{found:?}");
            assert_eq!(found.banks.len(), banks.len());
        }
    }

    #[test]
    fn finds_random_linear_maps_under_noise_or_refuses() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mut found_any = 0;
        for seed in 0..24 {
            let rank = random.random_range(1..=6);
            let mut basis = Basis::default();
            while basis.rank() < rank {
                basis.insert(random.random_range(0..1u64 << 34) & !63);
            }
            let banks = basis.rows().to_vec();
            let mut oracle = Oracle::new(seed, banks, Kind::Linear);
            oracle.wrong = [0.0, 0.01, 0.02][seed as usize % 3];
            match solve(&mut oracle, seed) {
                Ok(found) => {
                    assert_eq!(Basis::of(found.banks), basis, "seed {seed}");
                    found_any += 1;
                }
                Err(why) => assert!(oracle.wrong > 0.0, "seed {seed} without noise: {why}"),
            }
        }
        assert!(found_any >= 22, "only {found_any} of 24");
    }

    #[test]
    fn refuses_what_is_not_there() {
        for (kind, words) in [
            (Kind::Noise, "again"),
            (Kind::Flat, "separate"),
            (Kind::Hash, "separate"),
            (Kind::Three, "separate"),
        ] {
            for seed in 0..4 {
                let mut oracle = Oracle::new(seed, vec![], kind);
                oracle.wrong = 0.0;
                let why = solve(&mut oracle, seed).expect_err("nothing to find").to_string();
                assert!(why.contains(words) && why.contains("; run it"), "{why}");
            }
        }
    }

    #[test]
    fn refuses_what_noise_hides() {
        let banks = vec![mask(&[14, 18]), mask(&[15, 19]), mask(&[16, 20])];
        for (wrong, jitter) in [(0.3, 12.0), (0.005, 300.0)] {
            let mut oracle = Oracle::new(3, banks.clone(), Kind::Linear);
            (oracle.wrong, oracle.jitter) = (wrong, jitter);
            assert!(solve(&mut oracle, 1).is_err());
        }
        // A function that differs between no two addresses cannot be seen, and must not be
        // invented.
        let mut oracle = Oracle::new(3, banks, Kind::Linear);
        oracle.addresses.iter_mut().for_each(|a| *a &= !(1 << 18 | 1 << 14));
        let found = solve(&mut oracle, 1).expect("the others show");
        assert_eq!(Basis::of(found.banks), Basis::of([mask(&[15, 19]), mask(&[16, 20])]));
    }

    #[test]
    fn too_few_addresses() {
        let mut oracle = Oracle::new(3, vec![1 << 14], Kind::Linear);
        oracle.addresses.truncate(100);
        assert!(solve(&mut oracle, 1).expect_err("too few").to_string().contains("100 addresses"));
    }
}
