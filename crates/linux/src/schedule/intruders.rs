//! Real-time threads beside a scheduler of solocore: `bpf/intruders.h` seen from here.
//!
//! Rule: the kernel runs `SCHED_FIFO`, `SCHED_RR` and `SCHED_DEADLINE` threads before all others; the schedulers see them at the change of
//! threads and keep them by thread, up to 256. What each scheduler says of who lost the time is its own.

use crate::regulate::bpf;
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Bytes of `struct sched_intruder`.
#[cfg(test)]
pub(crate) const BYTES: usize = 104;
/// Where `lost_ns` lies in it.
pub(crate) const LOST: usize = 24;
/// `SCHED_DEADLINE`.
const DEADLINE: u32 = 6;

/// The 64-bit word at an offset; 0 beyond the end.
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// The 32-bit word at an offset; 0 beyond the end.
pub(crate) fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// A real-time thread that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its number.
    pub thread: u32,
    /// Its process.
    pub process: u32,
    /// Its name.
    pub name: String,
    /// `SCHED_FIFO`, `SCHED_RR` or `SCHED_DEADLINE`.
    pub policy: Cow<'static, str>,
    /// Real-time priority; 0 for `SCHED_DEADLINE`.
    pub priority: u32,
    /// How often it ran.
    pub times: u64,
    /// For how long in all.
    pub ran_ns: u64,
    /// For how long at most.
    pub max_ns: u64,
}

impl Seen {
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let name: Vec<u8> = bytes.get(88..104).unwrap_or_default().iter().copied().take_while(|&b| b != 0).collect();
        let policy = match half(bytes, 80) {
            2 => "SCHED_RR",
            DEADLINE => "SCHED_DEADLINE",
            _ => "SCHED_FIFO",
        };
        Self {
            thread: half(bytes, 72),
            process: half(bytes, 76),
            name: String::from_utf8_lossy(&name).into_owned(),
            policy: policy.into(),
            priority: half(bytes, 84),
            times: word(bytes, 8),
            ran_ns: word(bytes, 0),
            max_ns: word(bytes, 16),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        format!(
            "{} ({}, {} {}) ran {} times for {:.3} ms, at most {:.3} ms at a time",
            self.name,
            self.thread,
            self.policy,
            self.priority,
            self.times,
            self.ran_ns as f64 / 1e6,
            self.max_ns as f64 / 1e6,
        )
    }
}

/// Has the scheduler see them, until the link is dropped; or why it does not, for the user.
pub(crate) fn watch(object: &Object, beside: &str) -> Result<Link, String> {
    let found = object.progs_mut().find(|p| p.name() == "intruders");
    found
        .ok_or_else(|| "there is no program `intruders`".to_owned())
        .and_then(|program| program.attach().map_err(|e| e.to_string()))
        .map_err(|e| format!("real-time threads beside {beside} are not seen: {e}"))
}

/// What was seen, as it lies in the map.
pub(crate) fn raw(object: &Object) -> Vec<Vec<u8>> {
    let Ok(map) = bpf::map(object, "sched_intruders") else { return Vec::new() };
    map.keys().filter_map(|key| map.lookup(&key, MapFlags::ANY).ok().flatten()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::regulate::bpf::{LEVELS, VCPU};
    use crate::regulate::shared::tests::{offset, size};

    #[test]
    fn every_offset_is_that_of_the_objects() {
        for object in [LEVELS, VCPU] {
            assert_eq!(size(object, "sched_intruder"), BYTES);
            for (member, at) in [
                ("ns", 0),
                ("times", 8),
                ("longest_ns", 16),
                ("lost_ns", LOST),
                ("pid", 72),
                ("tgid", 76),
                ("policy", 80),
                ("priority", 84),
                ("name", 88),
            ] {
                assert_eq!(offset(object, "sched_intruder", member), at, "{member}");
            }
        }
    }

    /// One that ran 3 times for 2.5 ms, of which 1.5 ms were those of whoever is first.
    pub(crate) fn rude() -> [u8; BYTES] {
        let mut bytes = [0u8; BYTES];
        bytes[..8].copy_from_slice(&2_500_000u64.to_ne_bytes());
        bytes[8] = 3;
        bytes[LOST..LOST + 8].copy_from_slice(&1_500_000u64.to_ne_bytes());
        bytes[72] = 42;
        bytes[80] = 1;
        bytes[84] = 50;
        bytes[88..92].copy_from_slice(b"rude");
        bytes
    }

    #[test]
    fn one_is_described() {
        let said = Seen::decode(&rude()).text();
        assert_eq!(said, "rude (42, SCHED_FIFO 50) ran 3 times for 2.500 ms, at most 0.000 ms at a time");
    }
}
