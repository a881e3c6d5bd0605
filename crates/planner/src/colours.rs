//! The colours and the DRAM banks of each core.
//!
//! Problem: on many boards the same address bits choose the colour and the bank of a page. A core
//! with some colours then has frames in some banks only, and a plan may give it others. Rule:
//! colours are given out in blocks such that no bank has frames in two of them, and the banks of a
//! core are those of its colours. Where each core's even share of the banks has frames of all
//! colours, a block is one colour and the even share stays. Source: PALLOC
//! (single-core-equivalence, section 2.3). Does not cover: banks that do not follow each other;
//! there the even share stays, and a run that finds no frames says so.

use solocore_dram::Spec;
use solocore_model::{Plan, Platform};
use std::collections::BTreeSet;
use std::ops::Range;

/// Bank functions of pages, and the bits of an address that choose a colour.
struct Bits {
    banks: Vec<u64>,
    first: u32,
    colours: u32,
}

impl Bits {
    fn of(p: &Platform) -> Option<Self> {
        let spec = Spec::of_platform(p).ok().filter(|s| s.one_bank_a_page(p.page.0))?;
        let colours = p.colours();
        let usual = colours.is_power_of_two() && colours > 1;
        usual.then(|| Self {
            banks: spec.bank_functions(),
            first: p.page.0.trailing_zeros(),
            colours,
        })
    }

    /// Bank bits of an address.
    fn bank(&self, address: u64) -> u32 {
        let bit = |(i, mask): (u32, &u64)| ((address & mask).count_ones() & 1) << i;
        (0..).zip(&self.banks).map(bit).sum()
    }

    /// Banks with frames of some colours.
    fn banks_of(&self, colours: Range<u32>) -> BTreeSet<u32> {
        let above = self.first + self.colours.trailing_zeros();
        // Parities are linear, so banks of a colour are those of its own bits, each XOR the sums of
        // the other bits' banks.
        let mut free = BTreeSet::from([0]);
        for bit in (0..self.first).chain(above..48) {
            let other = self.bank(1 << bit);
            let more: Vec<u32> = free.iter().map(|bank| bank ^ other).collect();
            free.extend(more);
        }
        let own = colours.map(|colour| self.bank(u64::from(colour) << self.first));
        own.flat_map(|own| free.iter().map(move |other| own ^ other).collect::<Vec<_>>()).collect()
    }
}

/// The least number of colours that cores get together, such that cores with other colours have
/// other banks; 1 where the even share of the banks has frames of all colours.
pub fn block(p: &Platform, cores: u32) -> u32 {
    let Some(bits) = Bits::of(p) else { return 1 };
    let each = p.total_banks() / cores.max(1);
    let met = |core: u32| {
        let share = core * each..(core + 1) * each;
        let finds = |colour| bits.banks_of(colour..colour + 1).iter().any(|b| share.contains(b));
        (0..bits.colours).all(finds)
    };
    if each > 0 && (0..cores).all(met) {
        return 1;
    }
    let apart = |size: &u32| {
        let blocks = (0..bits.colours / size).map(|at| at * size..(at + 1) * size);
        let counts: usize = blocks.clone().map(|block| bits.banks_of(block).len()).sum();
        counts == blocks.flat_map(|block| bits.banks_of(block)).collect::<BTreeSet<_>>().len()
    };
    let sizes = std::iter::successors(Some(1), |size| Some(size * 2));
    sizes.take_while(|size| *size < bits.colours).find(apart).unwrap_or(1)
}

/// Gives each core its colours, where the board divides its shared cache by them, and the banks in
/// which these lie.
pub fn give(plan: &mut Plan, block: u32) {
    let all = plan.platform.colours();
    if all <= 1 {
        return;
    }
    for at in 0..plan.cores.len() {
        let of = plan.colours_for_ways(plan.cores[at].id, all, block);
        plan.cores[at].colours = of.filter(|&(_, count)| count > 0);
    }
    if block <= 1 || plan.platform.dram.channels > 1 {
        return;
    }
    let Some(bits) = Bits::of(&plan.platform) else { return };
    let of = |colours: Option<(u32, u32)>| {
        let (first, count) = colours?;
        let banks = bits.banks_of(first..first + count);
        let (low, high) = (*banks.first()?, *banks.last()?);
        ((high - low) as usize + 1 == banks.len()).then_some((low, high - low + 1))
    };
    let banks: Option<Vec<_>> = plan.cores.iter().map(|core| of(core.colours)).collect();
    for (core, own) in plan.cores.iter_mut().zip(banks.into_iter().flatten()) {
        core.banks = core.banks.map(|_| own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::plan::PlanCore;
    use std::path::Path;

    fn board(name: &str) -> Platform {
        Platform::find(name, Path::new(".")).unwrap()
    }

    #[test]
    fn blocks_of_the_boards() {
        // Bits 12 to 16 are the colour, 13 to 16 the bank: two colours are a bank's.
        assert_eq!(block(&board("core-i5-2500k"), 4), 2);
        // Bits 12 to 15 are both.
        assert_eq!(block(&board("raspberry-pi-4"), 4), 1);
        // Rows of 128 KiB: the bits of the banks are above those of the colours.
        let mut apart = board("core-i5-2500k");
        apart.dram.row = solocore_model::units::Bytes(128 << 10);
        assert_eq!(block(&apart, 4), 1);
    }

    #[test]
    fn banks_are_those_of_the_colours() {
        let bits = Bits::of(&board("core-i5-2500k")).unwrap();
        for colour in 0..32 {
            assert_eq!(bits.banks_of(colour..colour + 1), BTreeSet::from([colour / 2]));
        }
        assert_eq!(bits.banks_of(8..20), (4..10).collect());
    }

    /// Fails when cores share a bank or a colour, or a core has colours that no bank of it has.
    #[test]
    fn no_bank_is_of_two_cores() {
        let text = include_str!("../../linux/tests/plan.json");
        let mut plan: Plan = serde_json::from_str(text).unwrap();
        plan.platform = board("core-i5-2500k");
        let core = PlanCore { banks: Some((0, 4)), ..plan.cores[0].clone() };
        for ways in [[3, 5, 2, 2], [3, 3, 3, 3], [1, 1, 9, 1], [2, 7, 1, 2], [4, 4, 4, 0]] {
            let own = |(id, ways)| PlanCore { id, ways, colours: None, ..core.clone() };
            plan.cores = (0..).zip(ways).map(own).collect();
            give(&mut plan, 2);
            let mut colours = BTreeSet::new();
            for core in &plan.cores {
                let Some((first, count)) = core.colours else { continue };
                assert!((first..first + count).all(|c| colours.insert(c)), "{ways:?}");
                // Beside a core without ways, and so without colours, all keep their even banks.
                let own = if ways[3] > 0 { (first / 2, count / 2) } else { (0, 4) };
                assert_eq!(core.banks, Some(own), "{ways:?}");
                assert!(u64::from(count) * 12 + 24 > u64::from(core.ways) * 32, "{ways:?}");
            }
            assert_eq!(colours.len(), 32, "{ways:?}");
        }
    }
}
