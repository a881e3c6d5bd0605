//! A set of cores, as bits.

use solocore_policy::MAX_CPUS;

/// Cores below [`MAX_CPUS`]; others are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreSet([u64; MAX_CPUS / 64]);

impl CoreSet {
    /// Cores 0 to `count` - 1.
    pub fn all(count: usize) -> Self {
        let mut set = Self::default();
        (0..count).for_each(|core| set.insert(core));
        set
    }

    /// Adds a core.
    pub fn insert(&mut self, core: usize) {
        if let Some(word) = self.0.get_mut(core / 64) {
            *word |= 1 << (core % 64);
        }
    }

    /// Takes a core out.
    pub fn remove(&mut self, core: usize) {
        if let Some(word) = self.0.get_mut(core / 64) {
            *word &= !(1 << (core % 64));
        }
    }

    /// Adds the other set's.
    pub fn extend(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    /// The lowest.
    pub fn first(&self) -> Option<usize> {
        let at = self.0.iter().position(|&word| word != 0)?;
        Some(64 * at + self.0[at].trailing_zeros() as usize)
    }

    /// Takes the lowest out.
    pub fn pop(&mut self) -> Option<usize> {
        let core = self.first()?;
        self.remove(core);
        Some(core)
    }

    /// Iterates from the lowest core upwards.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self;
        std::iter::from_fn(move || rest.pop())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_walked_from_the_lowest() {
        let mut set = CoreSet::all(3);
        set.insert(200);
        set.insert(256);
        set.remove(1);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 2, 200]);
        assert_eq!((set.pop(), set.first()), (Some(0), Some(2)));
    }
}
