//! Memories by type: the values of a platform file's DRAM that no file of a running machine gives.
//!
//! Problem: the timing of DRAM stands in the modules' SPD, which few systems show, and in the
//! controller's registers, which none shows. Rule: a row is a memory of crates/dram, in its clock
//! cycles. Of the rows of a type, the fastest one is taken that is no faster than the machine's
//! memory, in transfers and in times; a type without a row gets [`WORST`]. Source: JEDEC standards,
//! by row; crates/dram/memories cites table by table. A test compares the rows with these files,
//! and `service` with the timing that the bounds derive from them. Does not cover: timings of a
//! machine's own modules.

use crate::spd::Least;
use solocore_model::Time;

/// A memory of crates/dram.
#[derive(Debug, PartialEq, Eq)]
pub struct Memory {
    /// Its name there.
    pub name: &'static str,
    /// The standard.
    pub cite: &'static str,
    /// Types that it stands for, as crate::dmi names them.
    pub types: &'static [&'static str],
    /// Millions of transfers a second.
    pub speed: u64,
    /// Channels that the 64 bits of a module form.
    pub channels: u32,
    /// Banks of a rank.
    pub banks: u32,
    /// Bytes of a row of a rank.
    pub row: u64,
    /// Clock period, ps.
    pub clock: u64,
    /// Read latency, in clocks.
    pub cl: u64,
    /// Activate to column command; precharge to activate is the same in every row.
    pub rcd: u64,
    /// Activate to precharge.
    pub ras: u64,
    /// Clocks of a line on the bus.
    pub burst: u64,
    /// Clocks of a request that finds its bank just written, with the controller's way in and out.
    pub service: u64,
}

impl Memory {
    /// Time of this number of its clocks.
    pub fn clocks(&self, clocks: u64) -> Time {
        Time::from_ps(self.clock * clocks)
    }

    /// Is none of its times below the least that the modules allow?
    fn takes(&self, least: &Least) -> bool {
        let own = [self.cl, self.rcd, self.rcd, self.ras].map(|n| self.clocks(n));
        own.into_iter().zip([least.cl, least.rcd, least.rp, least.ras]).all(|(own, of)| own >= of)
    }
}

/// The row for an unknown memory. No row has the largest bounds in every plan; the bounds of this
/// one are within 1 % of the largest, as a test of this crate measures.
pub const WORST: &str = "ddr5-4800";

/// The rows; of a type, the slowest first.
pub const MEMORIES: &[Memory] = &[
    Memory {
        name: "ddr3-1066",
        cite: "JESD79-3F, DDR3-1066F",
        types: &["DDR3"],
        speed: 1066,
        channels: 1,
        banks: 8,
        row: 8192,
        clock: 1875,
        cl: 7,
        rcd: 7,
        ras: 20,
        burst: 4,
        service: 48,
    },
    Memory {
        name: "ddr3-1333",
        cite: "JESD79-3F, DDR3-1333H",
        types: &["DDR3"],
        speed: 1333,
        channels: 1,
        banks: 8,
        row: 8192,
        clock: 1500,
        cl: 9,
        rcd: 9,
        ras: 24,
        burst: 4,
        service: 58,
    },
    Memory {
        name: "ddr4-2400",
        cite: "JESD79-4B, DDR4-2400R",
        types: &["DDR4"],
        speed: 2400,
        channels: 1,
        banks: 16,
        row: 8192,
        clock: 833,
        cl: 16,
        rcd: 16,
        ras: 39,
        burst: 4,
        service: 94,
    },
    Memory {
        name: "ddr5-4800",
        cite: "JESD79-5B, DDR5-4800B",
        types: &["DDR5"],
        speed: 4800,
        channels: 2,
        banks: 32,
        row: 4096,
        clock: 416,
        cl: 40,
        rcd: 39,
        ras: 77,
        burst: 8,
        service: 252,
    },
    Memory {
        name: "lpddr4-3200",
        cite: "JESD209-4B, LPDDR4-3200",
        types: &["LPDDR4"],
        speed: 3200,
        channels: 1,
        banks: 8,
        row: 4096,
        clock: 625,
        cl: 28,
        rcd: 29,
        ras: 68,
        burst: 8,
        service: 171,
    },
];

/// Relation of a row to a machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// As fast as the machine's, or slower.
    Safe,
    /// The type is right; the machine's speed is not known.
    SpeedUnknown,
    /// The type is right; the machine's memory is slower than every row.
    TooFast,
    /// No row of the type, or the type is not known.
    OtherType,
}

/// The row for a type, a speed, and the least times that the modules allow.
pub fn choose(
    kind: Option<&str>,
    speed: Option<u64>,
    least: Option<Least>,
) -> (&'static Memory, Fit) {
    let slow = |m: &Memory| least.is_none_or(|least| m.takes(&least));
    let of_type = || MEMORIES.iter().filter(|m| kind.is_some_and(|kind| m.types.contains(&kind)));
    let Some(slowest) = of_type().next() else { return (worst(), Fit::OtherType) };
    let Some(speed) = speed else {
        let fit = if slow(slowest) { Fit::SpeedUnknown } else { Fit::TooFast };
        return (slowest, fit);
    };
    match of_type().rfind(|m| m.speed <= speed && slow(m)) {
        Some(memory) => (memory, Fit::Safe),
        None => (slowest, Fit::TooFast),
    }
}

fn worst() -> &'static Memory {
    MEMORIES.iter().find(|m| m.name == WORST).unwrap_or(&MEMORIES[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_dram::Spec;
    use solocore_planner::memory::timings;

    #[test]
    fn rows_are_the_memories_of_the_simulator() {
        for m in MEMORIES {
            let spec = Spec::find(m.name).unwrap();
            let (o, t) = (&spec.organisation, &spec.timing);
            assert_eq!(m.clock, t.clock.ps(), "{}", m.name);
            assert_eq!(m.banks, o.rank_banks());
            assert_eq!(m.row, u64::from(o.lines_per_row()) * o.line_bytes());
            let table = [m.cl, m.rcd, m.rcd, m.ras, m.burst];
            let theirs = [t.cl, t.t_rcd, t.t_rp, t.t_ras, o.burst / 2].map(u64::from);
            assert_eq!(table, theirs, "{}", m.name);
            // The two subchannels of a module of DDR5 (JESD79-5B, section 2).
            assert_eq!(m.channels == 2, m.types == ["DDR5"], "{}", m.name);
            assert_eq!(timings(&spec).clock_ps, m.clock);
        }
        assert!(MEMORIES.is_sorted_by_key(|m| (m.types, m.speed)));
    }

    #[test]
    fn no_row_is_faster_than_the_machine_unless_it_is_said() {
        let chosen = |kind, speed| {
            let (memory, fit) = choose(kind, speed, None);
            (memory.name, fit)
        };
        assert_eq!(chosen(Some("DDR3"), Some(1600)), ("ddr3-1333", Fit::Safe));
        assert_eq!(chosen(Some("DDR3"), Some(1333)), ("ddr3-1333", Fit::Safe));
        assert_eq!(chosen(Some("DDR3"), Some(1066)), ("ddr3-1066", Fit::Safe));
        assert_eq!(chosen(Some("DDR3"), Some(800)), ("ddr3-1066", Fit::TooFast));
        assert_eq!(chosen(Some("DDR3"), None), ("ddr3-1066", Fit::SpeedUnknown));
        assert_eq!(chosen(Some("DDR4"), Some(2133)), ("ddr4-2400", Fit::TooFast));
        assert_eq!(chosen(Some("GDDR6"), Some(16000)), (WORST, Fit::OtherType));
        assert_eq!(chosen(None, None), (WORST, Fit::OtherType));
        // Slow modules of a fast kind: 13.5 ns are those of DDR3-1333H.
        let of = |ns: f64, speed| {
            let time = Time::from_ps((ns * 1000.0) as u64);
            let least = Least { cl: time, rcd: time, rp: time, ras: Time::from_ns(36) };
            let (memory, fit) = choose(Some("DDR3"), speed, Some(least));
            (memory.name, fit)
        };
        assert_eq!(of(13.125, Some(1600)), ("ddr3-1333", Fit::Safe));
        assert_eq!(of(13.5, Some(1600)), ("ddr3-1333", Fit::Safe));
        assert_eq!(of(13.6, Some(1600)), ("ddr3-1066", Fit::TooFast));
        assert_eq!(of(13.125, None), ("ddr3-1066", Fit::SpeedUnknown));
        assert_eq!(of(13.2, None), ("ddr3-1066", Fit::TooFast));
    }
}
