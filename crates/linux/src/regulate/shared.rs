//! `bpf/intf.h` seen from here: what the loader writes for the programs, and reads of what they wrote.
//!
//! Values are encoded and decoded byte by byte at the offsets below, so nothing rests on how this compiler lays out a
//! struct; a test compares every offset with the type information in the compiled objects.

/// No limit (`SC_UNLIMITED`).
pub const UNLIMITED: u64 = u64::MAX;
/// Most CPUs of a machine (`SC_MAX_CPUS`).
pub const MAX_CPUS: u32 = 256;

/// Bytes of `struct run_settings`.
pub(crate) const SETTINGS_BYTES: usize = 48;
/// Bytes of `struct run_core`.
pub(crate) const CORE_BYTES: usize = 312;
/// Bytes of `struct run_exit`.
#[cfg(test)]
pub(crate) const EXIT_BYTES: usize = 392;

/// Fields of `struct run_core`, by offset.
pub(crate) mod core_at {
    pub const RESERVATION: usize = 0;
    pub const SAMPLE: usize = 8;
    pub const FLAGS: usize = 16;
    pub const STARTED: usize = 20;
    pub const GUARD: usize = 24;
    pub const PERIODS: usize = 168;
    pub const THROTTLED: usize = 176;
    pub const THROTTLED_NS: usize = 184;
    pub const ACCESSES: usize = 192;
    pub const MOST: usize = 200;
    pub const OVER: usize = 208;
    pub const SKIPPED: usize = 216;
    pub const UNSEEN: usize = 224;
    pub const LONGEST_NS: usize = 232;
    pub const HELD: usize = 248;
    pub const WRITE_RESERVATION: usize = 256;
    pub const WRITE_SAMPLE: usize = 264;
    pub const WRITES: usize = 280;
    pub const MOST_WRITES: usize = 288;
    pub const OVER_WRITES: usize = 296;
    pub const UNSEEN_WRITES: usize = 304;
    /// Field `throttled` of `guard`.
    pub const GUARD_THROTTLED: usize = GUARD + 100;
}

/// What is decided once, before the programs are loaded (`struct run_settings`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub period_ns: u64,
    pub slice_ns: u64,
    pub chunk: u64,
    pub hold_ns: u64,
    pub cpus: u32,
    pub regulated: u32,
    pub sharing: u32,
    pub loader_pid: u32,
}

impl Settings {
    pub fn encode(&self) -> [u8; SETTINGS_BYTES] {
        let mut bytes = [0; SETTINGS_BYTES];
        for (place, value) in bytes.chunks_exact_mut(8).zip([self.period_ns, self.slice_ns, self.chunk, self.hold_ns]) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        let words = [self.cpus, self.regulated, self.sharing, self.loader_pid];
        for (place, value) in bytes[32..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }
}

/// The loader's part of a CPU (`struct run_core`); the rest is zero. `writes`: their reservation and sample.
pub(crate) fn encode_core(reservation: u64, sample: u64, flags: u32, writes: Option<(u64, u64)>) -> [u8; CORE_BYTES] {
    let mut bytes = [0; CORE_BYTES];
    bytes[core_at::RESERVATION..][..8].copy_from_slice(&reservation.to_ne_bytes());
    bytes[core_at::SAMPLE..][..8].copy_from_slice(&sample.to_ne_bytes());
    bytes[core_at::FLAGS..][..4].copy_from_slice(&flags.to_ne_bytes());
    if let Some((reservation, sample)) = writes {
        bytes[core_at::WRITE_RESERVATION..][..8].copy_from_slice(&reservation.to_ne_bytes());
        bytes[core_at::WRITE_SAMPLE..][..8].copy_from_slice(&sample.to_ne_bytes());
    }
    bytes
}

/// What happened on a CPU since the start, in whole periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Periods that have ended.
    pub periods: u64,
    /// Periods in which the CPU was throttled.
    pub throttled_periods: u64,
    /// How long it was throttled, in all.
    pub throttled_ns: u64,
    /// Accesses, by the counter itself.
    pub accesses: u64,
    /// Most accesses in one period.
    pub max_accesses_per_period: u64,
    /// Periods with more accesses than the budget and one sample.
    pub periods_over_budget: u64,
    /// Periods whose start was never seen because the timer came too late; their budgets were lost, not saved.
    pub periods_skipped: u64,
    /// Accesses whose overflow was not reported when it happened, and that were accounted later.
    pub accesses_reported_late: u64,
    /// Longest time between two ticks.
    pub longest_period_ns: u64,
    /// How often a task was held because the kernel did not let the helper thread in.
    pub times_held: u64,
    /// Writes, where they are counted apart.
    #[serde(flatten)]
    pub writes: Option<WriteCounts>,
    /// Has the CPU seen its first tick?
    #[serde(skip)]
    pub started: bool,
}

/// What happened to writes on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WriteCounts {
    /// In all, by their counter itself.
    pub writes: u64,
    /// Most in one period.
    pub max_writes_per_period: u64,
    /// Periods with more than the write budget and one sample.
    pub periods_over_write_budget: u64,
    /// Writes whose overflow was not reported when it happened, and that were accounted later.
    pub writes_reported_late: u64,
}

impl Counts {
    /// Of the bytes of a `struct run_core`; zeros where there are too few.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| bytes.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().unwrap_or([0; 8])));
        Self {
            periods: word(core_at::PERIODS),
            throttled_periods: word(core_at::THROTTLED),
            throttled_ns: word(core_at::THROTTLED_NS),
            accesses: word(core_at::ACCESSES),
            max_accesses_per_period: word(core_at::MOST),
            periods_over_budget: word(core_at::OVER),
            periods_skipped: word(core_at::SKIPPED),
            accesses_reported_late: word(core_at::UNSEEN),
            longest_period_ns: word(core_at::LONGEST_NS),
            times_held: word(core_at::HELD),
            writes: (word(core_at::WRITE_SAMPLE) != 0).then(|| WriteCounts {
                writes: word(core_at::WRITES),
                max_writes_per_period: word(core_at::MOST_WRITES),
                periods_over_write_budget: word(core_at::OVER_WRITES),
                writes_reported_late: word(core_at::UNSEEN_WRITES),
            }),
            started: bytes.get(core_at::STARTED).is_some_and(|&b| b != 0),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use libbpf_rs::HasSize;
    use libbpf_rs::btf::{Btf, types::Struct};

    /// Byte offset of a member of a struct in the type information of an object.
    pub(crate) fn offset(object: &[u8], of: &str, member: &str) -> usize {
        let btf = Btf::from_raw("object", object).unwrap().expect("compiled with -g");
        let whole: Struct = btf.type_by_name(of).unwrap_or_else(|| panic!("no struct {of}"));
        let found = whole.iter().find(|m| m.name.is_some_and(|n| n == member));
        match found.unwrap_or_else(|| panic!("{of} has no {member}")).attr {
            libbpf_rs::btf::types::MemberAttr::Normal { offset } => offset as usize / 8,
            libbpf_rs::btf::types::MemberAttr::BitField { .. } => panic!("{of}.{member} is a bit field"),
        }
    }

    pub(crate) fn size(object: &[u8], of: &str) -> usize {
        let btf = Btf::from_raw("object", object).unwrap().expect("compiled with -g");
        let whole: Struct = btf.type_by_name(of).unwrap_or_else(|| panic!("no struct {of}"));
        whole.size()
    }

    #[test]
    fn every_offset_is_that_of_the_objects() {
        for object in [crate::regulate::bpf::SCHED_EXT, crate::regulate::bpf::HELPER] {
            for (member, at) in [
                ("reservation", core_at::RESERVATION),
                ("sample", core_at::SAMPLE),
                ("flags", core_at::FLAGS),
                ("started", core_at::STARTED),
                ("guard", core_at::GUARD),
                ("periods", core_at::PERIODS),
                ("throttled", core_at::THROTTLED),
                ("throttled_ns", core_at::THROTTLED_NS),
                ("accesses", core_at::ACCESSES),
                ("most", core_at::MOST),
                ("over", core_at::OVER),
                ("skipped", core_at::SKIPPED),
                ("unseen", core_at::UNSEEN),
                ("longest_ns", core_at::LONGEST_NS),
                ("held", core_at::HELD),
                ("write_reservation", core_at::WRITE_RESERVATION),
                ("write_sample", core_at::WRITE_SAMPLE),
                ("writes", core_at::WRITES),
                ("most_writes", core_at::MOST_WRITES),
                ("over_writes", core_at::OVER_WRITES),
                ("unseen_writes", core_at::UNSEEN_WRITES),
            ] {
                assert_eq!(offset(object, "run_core", member), at, "{member}");
            }
            let throttled = offset(object, "sc_memguard_core", "throttled");
            assert_eq!(core_at::GUARD + throttled, core_at::GUARD_THROTTLED);
            assert_eq!(size(object, "run_core"), CORE_BYTES);
            assert_eq!(size(object, "run_settings"), SETTINGS_BYTES);
            let words = ["period_ns", "slice_ns", "chunk", "hold_ns", "cpus", "regulated", "sharing", "loader_pid"];
            for (member, at) in words.iter().zip([0, 8, 16, 24, 32, 36, 40, 44]) {
                assert_eq!(offset(object, "run_settings", member), at, "{member}");
            }
        }
        assert_eq!(size(crate::regulate::bpf::SCHED_EXT, "run_exit"), EXIT_BYTES);
        assert_eq!(offset(crate::regulate::bpf::SCHED_EXT, "run_exit", "reason"), 8);
        assert_eq!(offset(crate::regulate::bpf::SCHED_EXT, "run_exit", "message"), 136);
    }

    #[test]
    fn counts_are_where_they_are_read() {
        assert_eq!(Counts::decode(&encode_core(100, 12, 4, None)).writes, None);
        let apart = encode_core(100, 12, 4, Some((50, 7)));
        assert_eq!(apart[256..264], 50u64.to_ne_bytes());
        assert_eq!(Counts::decode(&apart).writes, Some(WriteCounts::default()));
        let mut bytes = encode_core(100, 12, 4, None);
        assert_eq!(bytes[..8], 100u64.to_ne_bytes());
        assert_eq!(bytes[8..16], 12u64.to_ne_bytes());
        assert_eq!(bytes[16..20], 4u32.to_ne_bytes());
        bytes[core_at::MOST] = 7;
        bytes[core_at::STARTED] = 1;
        let counts = Counts::decode(&bytes);
        assert_eq!(counts.max_accesses_per_period, 7);
        assert!(counts.started);
        assert_eq!(Counts::decode(&[]), Counts::default());
    }
}
