//! The time of a transfer by a DMA engine that pauses after every block.
//!
//! Problem: a DMA transfer at full speed takes memory bandwidth that the cores were promised. Rule:
//! the engine waits after every `b` bytes, b a power of two from 1 to 1024
//! (single-core-equivalence, section 2.4, for the P4080). A block and its wait together then keep
//! to the I/O core's share: b / (b / bus + wait) <= bandwidth. Not covered: the engine's start-up,
//! which belongs into the margin.

use crate::{Bandwidth, Bytes, Time};
use schemars::JsonSchema;
use serde::Deserialize;

const PS_PER_S: u128 = 1_000_000_000_000;
/// Largest block between waits, in bytes.
const LARGEST_BLOCK: u64 = 1024;
/// 24 hours in nanoseconds.
const LONGEST_NS: u128 = 24 * 3600 * 1_000_000_000;

/// `[dma]`: a transfer engine that pauses after each block.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DmaEntry {
    /// Bandwidth of a transfer within a block.
    bus: Bandwidth,
    /// Bytes between two pauses: a power of two from 1 B to 1024 B.
    block: Bytes,
    /// Pause after each block. The default is the shortest that keeps to the bandwidth, and none
    /// without a bandwidth.
    wait: Option<Time>,
    /// Bandwidth that blocks with their pauses must keep to. In a system file the default is the
    /// I/O core's share of the guaranteed bandwidth, which it may not exceed.
    bandwidth: Option<Bandwidth>,
}

/// A paced DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Bytes per second within a block.
    pub bus: u64,
    /// Bytes between waits.
    pub block: u64,
    /// Picoseconds of the wait after each block.
    pub wait_ps: u64,
    /// The I/O core's share of memory bandwidth, bytes per second, where stated.
    pub bandwidth: Option<u64>,
}

impl Dma {
    /// Checks the entry. Without `wait`, the shortest that keeps to `bandwidth` is taken; without
    /// both, none.
    pub(crate) fn of(entry: &DmaEntry) -> Result<Self, String> {
        let (bus, block, bandwidth) = (entry.bus.0, entry.block.0, entry.bandwidth.map(|b| b.0));
        if bus == 0 || bandwidth == Some(0) {
            return Err(
                "dma: bus and bandwidth must be above zero; write bus = \"1 GB/s\"".to_owned()
            );
        }
        if !block.is_power_of_two() || block > LARGEST_BLOCK {
            return Err(format!(
                "dma: block = {} is not a power of two from 1 B to {LARGEST_BLOCK} B; choose one",
                entry.block
            ));
        }
        // A block and its wait may not be shorter than the block at the pace of the share.
        let least = bandwidth.map_or(0, |share| {
            let paced = (u128::from(block) * PS_PER_S).div_ceil(u128::from(share));
            paced.saturating_sub(u128::from(block) * PS_PER_S / u128::from(bus))
        });
        let least = u64::try_from(least)
            .map_err(|_| "dma: bandwidth is too small; give more".to_owned())?;
        let wait_ps = entry.wait.map_or(least, Time::ps);
        if wait_ps < least {
            return Err(format!(
                "dma: blocks of {} with waits of {} exceed the bandwidth {} of the I/O core; wait \
                    at least {}",
                entry.block,
                Time::from_ps(wait_ps),
                Bandwidth(bandwidth.unwrap_or(0)),
                Time::from_ps(least)
            ));
        }
        Ok(Self { bus, block, wait_ps, bandwidth })
    }

    /// As [`Dma::of`], where the I/O core's share of memory bandwidth is known: missing values
    /// follow from it.
    pub(crate) fn within(entry: &DmaEntry, share: Bandwidth) -> Result<Self, String> {
        if let Some(stated) = entry.bandwidth.filter(|b| b.0 > share.0) {
            return Err(format!(
                "dma: bandwidth = {stated} is above {share}, the I/O core's share of the \
                    guaranteed bandwidth; lower it, or leave it out"
            ));
        }
        Self::of(&DmaEntry { bandwidth: entry.bandwidth.or(Some(share)), ..entry.clone() })
    }

    /// Nanoseconds, rounded up, for `bytes`: at bus speed, and a wait after each block that is
    /// begun. `None` above 24 hours.
    pub fn transfer_ns(&self, bytes: u64) -> Option<u64> {
        let moving = (u128::from(bytes) * PS_PER_S).div_ceil(u128::from(self.bus));
        let waiting = u128::from(bytes.div_ceil(self.block)) * u128::from(self.wait_ps);
        let ns = (moving + waiting).div_ceil(u128::from(Time::PS_PER_NS));
        (ns <= LONGEST_NS).then(|| u64::try_from(ns).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dma(text: &str) -> Result<Dma, String> {
        Dma::of(&toml::from_str(text).expect("parses"))
    }

    #[test]
    fn the_shortest_wait_keeps_to_the_share() {
        let d = dma("bus = \"1 GB/s\"\nblock = \"256 B\"\nbandwidth = \"150 MB/s\"").unwrap();
        // 256 B at 150 MB/s take 1706.67 ns, of which 256 ns move data.
        assert_eq!(d.wait_ps, 1_450_667);
        // 4 KiB: 16 blocks.
        assert_eq!(d.transfer_ns(4096), Some((4_096_000 + 16 * 1_450_667u64).div_ceil(1000)));
    }

    #[test]
    fn refuses_what_exceeds_the_share() {
        let text = "bus = \"1 GB/s\"\nblock = \"256 B\"\nwait = \"1 us\"\nbandwidth = \"150 MB/s\"";
        assert!(dma(text).unwrap_err().contains("wait at least 1.450667 us"));
        assert!(dma("bus = \"1 GB/s\"\nblock = \"48 B\"").unwrap_err().contains("power of two"));
        assert_eq!(dma("bus = \"1 GB/s\"\nblock = \"64 B\"").unwrap().wait_ps, 0);
    }
}
