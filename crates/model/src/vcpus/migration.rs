//! `core_colours` and `migration` of `[maracas]`: the share of the shared cache of each core, and
//! the VCPU in which pages are moved.
//!
//! Problem: a VCPU that moves to another core leaves its pages in the colours of its old core,
//! where others work. To move them takes time that must come from nobody else. Rule: pages are
//! moved in a VCPU `(C_m, T_m)`, admitted as any other, for one VCPU in each T_m. A VCPU whose
//! pages do not fit into C_m stays: `C_m >= B + P E`, where P is the number of pages, E the cost of
//! one, and B that of the move without pages (`2 E_lock + E_struct`). Source: maracas, sections V
//! and V-B. Improvement: P is counted before each move; the paper takes the largest address space.
//! Does not cover: the refilling of caches after the move, which is in the VCPU's own time.

use crate::units::{Time, positive_time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `core_colours`: page colours of the cores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CoreColours {
    /// Of each core.
    Each(u64),
    /// Of the cores, from core 0 on.
    Of(Vec<u64>),
}

impl CoreColours {
    /// Colours of this core; a core that the list does not name has none.
    #[must_use]
    pub fn of(&self, core: u32) -> u64 {
        match self {
            Self::Each(colours) => *colours,
            Self::Of(list) => list.get(core as usize).copied().unwrap_or(0),
        }
    }

    /// Colours of the core, or of the one with the most.
    pub(super) fn most(&self, cores: u32, core: Option<u32>) -> u64 {
        core.map_or((0..cores).map(|c| self.of(c)).max().unwrap_or(0), |core| self.of(core))
    }

    /// The colours of a core, first and count, where the cores share them from core 0 on.
    #[must_use]
    pub fn range(&self, core: u32) -> (u64, u64) {
        let before = (0..core).map(|c| self.of(c)).fold(0, u64::saturating_add);
        (before, self.of(core))
    }

    /// Is there one number, or one for each core?
    ///
    /// # Errors
    /// The list has another length.
    pub fn check(&self, cores: u32) -> Result<(), String> {
        match self {
            Self::Of(list) if list.len() != cores as usize => Err(format!(
                "core_colours has {} numbers for {cores} cores; give one for each core, or one for all",
                list.len()
            )),
            _ => Ok(()),
        }
    }
}

/// `migration`: the VCPU in which the pages of others are moved (maracas, section V: migration
/// threads on VCPUs of their own). It moves those of one VCPU in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Migration {
    /// C_m: time on its core in each period.
    #[serde(deserialize_with = "positive_time")]
    pub capacity: Time,
    /// T_m: period of the capacity.
    #[serde(deserialize_with = "positive_time")]
    pub period: Time,
    /// E: largest cost of moving a page. `solocore recolor` and `bench colours` measure it.
    #[serde(default = "page_cost", deserialize_with = "positive_time")]
    pub page_cost: Time,
    /// B: largest cost of a move without pages.
    #[serde(default = "base_cost", deserialize_with = "positive_time")]
    pub base_cost: Time,
    /// Core, from 0. If it is left out, the planner places the VCPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
}

fn page_cost() -> Time {
    Time::from_ns(50_000)
}

fn base_cost() -> Time {
    Time::from_ns(500_000)
}

impl Migration {
    /// Most pages that fit into one capacity.
    #[must_use]
    pub fn most_pages(&self) -> u64 {
        let left = self.capacity.ps().saturating_sub(self.base_cost.ps());
        left / self.page_cost.ps().max(1)
    }

    /// Do a VCPU's pages fit into one capacity?
    pub(super) fn check_pages(&self, pages: u64) -> Result<(), String> {
        if pages <= self.most_pages() {
            return Ok(());
        }
        Err(format!(
            "its {pages} pages cannot be moved in the {} of [maracas] migration, which moves {} pages \
                of {} each after {}; give more capacity there, or set fixed",
            self.capacity,
            self.most_pages(),
            self.page_cost,
            self.base_cost
        ))
    }

    /// Are there colours between which pages move, and does a page fit? `colours`: of the shared
    /// cache, where it is divided by them; else 1.
    ///
    /// # Errors
    /// What does not fit, and the remedy.
    pub fn check(
        &self,
        have: Option<&CoreColours>,
        cores: u32,
        colours: u32,
    ) -> Result<(), String> {
        let Some(have) = have else {
            return Err(
                "migration moves pages to the colours of another core; add core_colours, or \
                        remove it"
                    .to_owned(),
            );
        };
        have.check(cores)?;
        let (first, count) = have.range(cores.saturating_sub(1));
        let sum = first.saturating_add(count);
        if colours < 2 {
            return Err(
                "migration moves pages between colours, but the board's shared cache is not \
                        divided by colours; remove it, or plan with a platform of partition = \
                        \"colour\""
                    .to_owned(),
            );
        }
        if sum > u64::from(colours) {
            return Err(format!(
                "the cores have {sum} colours, but the shared cache has {colours}; lower \
                    core_colours, or remove migration"
            ));
        }
        if self.most_pages() == 0 {
            return Err(format!(
                "migration: a page of {} after {} does not fit into its capacity of {}; give more",
                self.page_cost, self.base_cost, self.capacity
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_share_the_colours_from_the_first_on() {
        let list = CoreColours::Of(vec![4, 4, 10, 14]);
        assert_eq!([0, 1, 2, 3].map(|c| list.range(c)), [(0, 4), (4, 4), (8, 10), (18, 14)]);
        assert_eq!((list.of(4), list.most(4, None), list.most(4, Some(1))), (0, 14, 4));
        assert_eq!(CoreColours::Each(8).range(2), (16, 8));
        assert!(list.check(3).unwrap_err().contains("4 numbers for 3 cores"));
    }

    /// Fails when a VCPU may move whose pages take longer than the capacity of the migration.
    #[test]
    fn pages_that_fit_into_the_capacity() {
        let migration: Migration =
            serde_json::from_str(r#"{"capacity": "2 ms", "period": "50 ms", "page_cost": "4 us"}"#)
                .unwrap();
        // (2000 - 500) / 4
        assert_eq!(migration.most_pages(), 375);
        assert!(migration.check_pages(375).is_ok());
        assert!(migration.check_pages(376).unwrap_err().contains("376 pages cannot be moved"));
    }
}
