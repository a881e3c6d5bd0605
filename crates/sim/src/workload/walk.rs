//! Orders in which a program visits the lines of an array.
//!
//! Problem: the papers' programs differ mostly in the order of their accesses. Rule: a walk visits
//! lines `base` to `base + lines`; sequentially, in jumps, in a fixed random order, or at random
//! with repetition. All but the last visit every line exactly once in `lines` steps, and go round
//! and round.
//!
//! A fixed random order is a permutation computed from the step number (a bijection on the next
//! power of two: odd multiplications and shifted exclusive ors; numbers beyond the array are
//! skipped). It is the cycle that a pointer chase through a shuffled list takes, without the list.

use solocore_dram::random::Random;

/// A bijection on the numbers below `mask + 1`, a power of two.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    mask: u64,
    shift: u32,
    add: u64,
    multiply: [u64; 3],
}

impl Permutation {
    /// A permutation of at least `lines` numbers, drawn by `seed`.
    pub(super) fn new(lines: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mask = lines.max(2).next_power_of_two() - 1;
        let shift = mask.count_ones().div_ceil(2);
        Self { mask, shift, add: random.next(), multiply: [0; 3].map(|_| random.next() | 1) }
    }

    #[inline]
    fn at(&self, step: u64) -> u64 {
        let mut x = step.wrapping_add(self.add) & self.mask;
        for factor in self.multiply {
            x = x.wrapping_mul(factor) & self.mask;
            x ^= x >> self.shift;
        }
        x
    }
}

/// The order of a walk.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// Line after line.
    Sequential,
    /// Jumps by this number of lines; at the end it begins again from the start, one line further.
    Stride(u64),
    /// Every line once, in a random order, the same each time round.
    Shuffled(Permutation),
    /// Any line, each time again.
    Random(Random),
}

/// A walk and its position.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// First line.
    base: u64,
    /// Number of lines.
    lines: u64,
    /// Position: of a shuffled walk the step, else the line from the base.
    at: u64,
    order: Order,
}

impl Walk {
    /// `lines` is above zero, and a stride not above `lines`.
    pub(super) fn new(base: u64, lines: u64, order: Order) -> Self {
        Self { base, lines, at: 0, order }
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Goes back to the first line; random draws are not repeated.
    pub(super) fn reset(&mut self) {
        self.at = 0;
    }

    /// Calls `each` for the next `count` lines.
    #[inline]
    pub(super) fn run(&mut self, count: u64, mut each: impl FnMut(u64)) {
        let (base, lines, mut at) = (self.base, self.lines, self.at);
        match &mut self.order {
            Order::Sequential => {
                for _ in 0..count {
                    each(base + at);
                    at += 1;
                    at = if at == lines { 0 } else { at };
                }
            }
            Order::Stride(stride) => {
                let stride = *stride;
                for _ in 0..count {
                    each(base + at);
                    at += stride;
                    if at >= lines {
                        at = (at % stride + 1) % stride;
                    }
                }
            }
            Order::Shuffled(permutation) => {
                for _ in 0..count {
                    let line = loop {
                        let line = permutation.at(at);
                        at = (at + 1) & permutation.mask;
                        if line < lines {
                            break line;
                        }
                    };
                    each(base + line);
                }
            }
            Order::Random(random) => (0..count).for_each(|_| each(base + random.below(lines))),
        }
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(walk: &mut Walk, count: u64) -> Vec<u64> {
        let mut seen = Vec::new();
        walk.run(count, |line| seen.push(line));
        seen
    }

    #[test]
    fn every_line_once_in_each_round() {
        for lines in [1u64, 2, 3, 7, 64, 100, 1000, 4096] {
            let orders = [
                Order::Sequential,
                Order::Stride(lines.min(8)),
                Order::Stride(lines.div_ceil(3)),
                Order::Shuffled(Permutation::new(lines, lines)),
            ];
            for order in orders {
                let mut walk = Walk::new(10, lines, order);
                let first = visit(&mut walk, lines);
                let mut sorted = first.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (10..10 + lines).collect::<Vec<_>>(), "{walk:?}");
                // Pieces give the same walk as one call.
                let half = lines / 2;
                let mut again = visit(&mut walk, half);
                again.extend(visit(&mut walk, lines - half));
                assert_eq!(first, again);
                walk.run(lines / 3, |_| ());
                walk.reset();
                assert_eq!(visit(&mut walk, lines), first);
            }
        }
    }

    #[test]
    fn a_shuffled_order_has_no_pattern() {
        let lines = 1 << 14;
        let order =
            visit(&mut Walk::new(0, lines, Order::Shuffled(Permutation::new(lines, 1))), lines);
        let near = order.windows(2).filter(|w| w[0].abs_diff(w[1]) < 16).count();
        assert!(near < 100, "{near} steps to a neighbour; chance gives about 31");
        // The low bits are not periodic, as those of a congruential generator would be.
        let repeats = order.windows(129).filter(|w| w[0] & 127 == w[128] & 127).count();
        assert!(
            (60..250).contains(&repeats),
            "{repeats} equal low bits 128 steps apart; chance gives about 127"
        );
    }

    #[test]
    fn seeds_differ_and_repeat() {
        let of = |seed| {
            visit(&mut Walk::new(0, 1000, Order::Shuffled(Permutation::new(1000, seed))), 1000)
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
