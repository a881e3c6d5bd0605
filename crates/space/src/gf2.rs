//! Linear algebra over GF(2): an XOR function of address bits is a mask, its value the parity of
//! the masked address.

/// The value of a function at an address.
pub fn parity(mask: u64, address: u64) -> bool {
    (mask & address).count_ones() % 2 == 1
}

/// The values of several functions, the first in bit 0.
pub fn values(masks: &[u64], address: u64) -> u32 {
    masks
        .iter()
        .enumerate()
        .fold(0, |class, (i, &mask)| class | u32::from(parity(mask, address)) << i)
}

/// A basis in reduced row echelon form: each vector has a leading (highest) bit that no other has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Basis {
    rows: Vec<u64>,
}

impl Basis {
    /// The span of the vectors.
    pub fn of(vectors: impl IntoIterator<Item = u64>) -> Self {
        let mut basis = Self::default();
        for v in vectors {
            basis.insert(v);
        }
        basis
    }

    /// The rest of a vector without its part in the span; 0 for a vector of the span.
    pub fn reduce(&self, mut v: u64) -> u64 {
        for &row in &self.rows {
            if v >> leading(row) & 1 == 1 {
                v ^= row;
            }
        }
        v
    }

    /// Adds a vector; false if it was in the span already.
    pub fn insert(&mut self, v: u64) -> bool {
        let v = self.reduce(v);
        if v == 0 {
            return false;
        }
        for row in &mut self.rows {
            if *row >> leading(v) & 1 == 1 {
                *row ^= v;
            }
        }
        self.rows.push(v);
        self.rows.sort_unstable_by(|a, b| b.cmp(a));
        true
    }

    /// Dimension of the span.
    pub fn rank(&self) -> usize {
        self.rows.len()
    }

    /// The vectors, highest first.
    pub fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// The functions that are 0 on the whole span, of the given bits.
    pub fn complement(&self, bits: u64) -> Self {
        let pivots = self.rows.iter().fold(0, |all, &row| all | 1u64 << leading(row));
        let free = (0..64).filter(|&bit| bits >> bit & 1 == 1 && pivots >> bit & 1 == 0);
        Self::of(free.map(|bit| {
            self.rows
                .iter()
                .filter(|&&row| row >> bit & 1 == 1)
                .fold(1 << bit, |f, &row| f | 1u64 << leading(row))
        }))
    }
}

fn leading(v: u64) -> u32 {
    63 - v.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn complements_are_orthogonal_and_complete(vectors in prop::collection::vec(any::<u64>(), 0..40)) {
            let bits = 0xffff_ffff_ff00;
            let basis = Basis::of(vectors.iter().map(|v| v & bits));
            let dual = basis.complement(bits);
            prop_assert_eq!(basis.rank() + dual.rank(), bits.count_ones() as usize);
            for f in dual.rows() {
                for v in &vectors {
                    prop_assert!(!parity(*f, v & bits));
                }
            }
            prop_assert_eq!(dual.complement(bits), basis);
        }

        #[test]
        fn a_basis_spans_what_it_was_made_of(vectors in prop::collection::vec(any::<u64>(), 1..20), pick in any::<u32>()) {
            let basis = Basis::of(vectors.iter().copied());
            let sum = vectors.iter().enumerate().filter(|(i, _)| pick >> i & 1 == 1).fold(0, |s, (_, v)| s ^ v);
            prop_assert_eq!(basis.reduce(sum), 0);
        }
    }
}
