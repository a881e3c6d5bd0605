//! A memory as data: organisation, timing in clock cycles, address map.
//!
//! Presets lie in `memories/*.toml`, every number with its source in a comment; users may pass a
//! file of the same form. They are checked when read: a set of times that no device can have, or an
//! address map that is not a bijection, is refused with the line and the reason.

use crate::map::{AddressMap, MapSpec};
use crate::organisation::Organisation;
use serde::Deserialize;
use solocore_model::{ModelError, Time, files};
use std::path::{Path, PathBuf};

/// Banks of one channel, over its ranks: one bit each in a `u64`.
pub const MAX_BANKS: u32 = 64;
/// Bank groups of one channel, over its ranks.
pub const MAX_GROUPS: u32 = 32;

/// JEDEC times, in clock cycles. `_s`: between different bank groups of a rank; `_l`: within one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Clock period; data move on both edges.
    pub clock: Time,
    /// Read command to first data.
    pub cl: u32,
    /// Write command to first data.
    pub cwl: u32,
    /// Activate to column command.
    pub t_rcd: u32,
    /// Precharge to activate.
    pub t_rp: u32,
    /// Activate to precharge.
    pub t_ras: u32,
    /// Refresh to the next command of the rank.
    pub t_rfc: u32,
    /// Mean time between refreshes of a rank.
    pub t_refi: u32,
    /// Activate to activate.
    pub t_rrd_s: u32,
    /// Activate to activate.
    pub t_rrd_l: u32,
    /// End of write data to read command.
    pub t_wtr_s: u32,
    /// End of write data to read command.
    pub t_wtr_l: u32,
    /// Window of at most four activates of a rank.
    pub t_faw: u32,
    /// End of write data to precharge.
    pub t_wr: u32,
    /// Read command to precharge.
    pub t_rtp: u32,
    /// Column command to column command.
    pub t_ccd_s: u32,
    /// Column command to column command.
    pub t_ccd_l: u32,
    /// Write to write, where it differs from `t_ccd_l` (DDR5); 0: it does not.
    #[serde(default)]
    pub t_ccd_l_write: u32,
    /// Precharge to precharge of a rank; 0 where the standard has none.
    #[serde(default)]
    pub t_ppd: u32,
    /// Idle cycles of the data bus when another rank, or the controller after a rank, drives it.
    pub t_rtrs: u32,
    /// Cycles that ACT, RD and WR take on the command bus.
    #[serde(default = "one")]
    pub command_cycles: u32,
}

fn one() -> u32 {
    1
}

/// A memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Speed bin and device.
    pub title: String,
    /// Sizes of the memory's parts.
    pub organisation: Organisation,
    /// Times.
    pub timing: Timing,
    /// Map from addresses to places.
    pub map: MapSpec,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// The memories that come with solocore: name and TOML text.
        pub const PRESETS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../memories/", $name, ".toml")))),*];
    };
}
presets!("ddr3-1066", "ddr3-1333", "ddr4-2400", "ddr5-4800", "lpddr4-3200");

/// A key and its fault.
type Fault = (&'static str, String);

impl Spec {
    /// Finds a preset by name, or reads a file (a name with `/` or `.toml` is a path).
    ///
    /// # Errors
    /// When there is no such preset or file, or its values are impossible.
    pub fn find(name: &str) -> Result<Self, ModelError> {
        if let Some((_, text)) = PRESETS.iter().find(|(preset, _)| *preset == name) {
            return Self::parse(&PathBuf::from(format!("memories/{name}.toml")), text);
        }
        if name.contains('/') || name.ends_with(".toml") {
            let path = Path::new(name);
            return Self::parse(path, &files::read_text(path)?);
        }
        let names: Vec<&str> = PRESETS.iter().map(|(preset, _)| *preset).collect();
        Err(ModelError::Invalid {
            path: PathBuf::from("memory"),
            line: None,
            message: format!(
                "no memory is called `{name}`; choose one of {}, or give the path of a file of \
                    that form",
                names.join(", ")
            ),
        })
    }

    /// Parses and checks the text of a memory file.
    ///
    /// # Errors
    /// [`ModelError::Parse`] or [`ModelError::Invalid`], with the line.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let spec: Self = toml::from_str(text).map_err(|e| ModelError::from_toml(path, text, &e))?;
        spec.check().map_err(|(key, message)| ModelError::Invalid {
            path: path.to_owned(),
            line: line_of(text, key),
            message,
        })?;
        Ok(spec)
    }

    /// Are the values possible, and do they fit together?
    ///
    /// # Errors
    /// The key at fault, the fault and the remedy.
    pub fn check(&self) -> Result<(), Fault> {
        self.check_organisation()?;
        self.check_timing()?;
        AddressMap::new(&self.organisation, &self.map).map(|_| ())
    }

    fn check_organisation(&self) -> Result<(), Fault> {
        let o = &self.organisation;
        let fields = [
            ("channels", o.channels, 16),
            ("ranks", o.ranks, 8),
            ("bank_groups", o.bank_groups, 8),
            ("banks", o.banks, 32),
            ("rows", o.rows, 1 << 20),
            ("columns", o.columns, 1 << 14),
            ("bus_bits", o.bus_bits, 1024),
            ("burst", o.burst, 64),
        ];
        for (key, value, most) in fields {
            if !value.is_power_of_two() || value > most {
                return Err((
                    key,
                    format!("{key} = {value}; give a power of two from 1 to {most}"),
                ));
            }
        }
        if o.bus_bits < 8 || o.burst < 2 || o.columns < o.burst {
            return Err((
                "columns",
                format!(
                    "columns = {}, bus_bits = {}, burst = {}; a bus has at least 8 bits, a burst \
                        at least 2 transfers, and a row at least one burst",
                    o.columns, o.bus_bits, o.burst
                ),
            ));
        }
        if o.channel_banks() > MAX_BANKS || o.channel_groups() > MAX_GROUPS {
            return Err((
                "banks",
                format!(
                    "ranks * bank_groups * banks = {}; a channel has at most {MAX_BANKS} banks and \
                        {MAX_GROUPS} bank groups, so lower one of them",
                    o.channel_banks()
                ),
            ));
        }
        if !(16..=1024).contains(&o.line_bytes()) {
            return Err((
                "burst",
                format!("bus_bits / 8 * burst = {} bytes a line; give 16 to 1024", o.line_bytes()),
            ));
        }
        Ok(())
    }

    fn check_timing(&self) -> Result<(), Fault> {
        let t = &self.timing;
        if !(100..=100_000).contains(&t.clock.ps()) {
            return Err((
                "clock",
                format!("clock = \"{}\"; give a period from 100 ps to 100 ns", t.clock),
            ));
        }
        for (key, value) in t.fields() {
            if !(1..=100_000).contains(&value) {
                return Err((key, format!("{key} = {value} cycles; give 1 to 100000")));
            }
        }
        for (key, value) in
            [("t_ccd_l_write", t.t_ccd_l_write), ("t_ppd", t.t_ppd), ("t_rtrs", t.t_rtrs)]
        {
            if value > 1000 {
                return Err((key, format!("{key} = {value} cycles; give 0 to 1000")));
            }
        }
        if !(1..=8).contains(&t.command_cycles) {
            return Err((
                "command_cycles",
                format!("command_cycles = {}; give 1 to 8", t.command_cycles),
            ));
        }
        let half_burst = self.organisation.burst / 2;
        let at_least = [
            (
                "t_ras",
                t.t_ras,
                "t_rcd",
                t.t_rcd,
                "a row would close before its first column command",
            ),
            (
                "t_rrd_l",
                t.t_rrd_l,
                "t_rrd_s",
                t.t_rrd_s,
                "one bank group cannot be faster than two",
            ),
            (
                "t_wtr_l",
                t.t_wtr_l,
                "t_wtr_s",
                t.t_wtr_s,
                "one bank group cannot be faster than two",
            ),
            (
                "t_ccd_l",
                t.t_ccd_l,
                "t_ccd_s",
                t.t_ccd_s,
                "one bank group cannot be faster than two",
            ),
            (
                "t_faw",
                t.t_faw,
                "t_rrd_s",
                t.t_rrd_s,
                "a window of four activates cannot be shorter than the gap of two",
            ),
            ("t_ccd_s", t.t_ccd_s, "burst / 2", half_burst, "bursts would overlap on the data bus"),
            (
                "cl",
                t.cl,
                "cwl",
                t.cwl,
                "no standard here has a write latency above its read latency",
            ),
        ];
        for (key, value, other, least, why) in at_least {
            if value < least {
                return Err((
                    key,
                    format!(
                        "{key} = {value} is below {other} = {least}: {why}; correct one of the two"
                    ),
                ));
            }
        }
        // A rank must be closed, refreshed, and usable before the next refresh is due.
        let busy =
            u64::from(t.t_rfc) + u64::from(t.t_ras) + u64::from(t.t_wr) + u64::from(t.t_rp) + 64;
        if busy * 2 > u64::from(t.t_refi) * 2 - u64::from(t.t_refi) / 4 {
            return Err((
                "t_rfc",
                format!(
                    "t_rfc = {} leaves no time for requests within t_refi = {}; correct one of the \
                        two",
                    t.t_rfc, t.t_refi
                ),
            ));
        }
        Ok(())
    }
}

impl Timing {
    /// Times that must be above zero.
    fn fields(&self) -> [(&'static str, u32); 17] {
        [
            ("cl", self.cl),
            ("cwl", self.cwl),
            ("t_rcd", self.t_rcd),
            ("t_rp", self.t_rp),
            ("t_ras", self.t_ras),
            ("t_rfc", self.t_rfc),
            ("t_refi", self.t_refi),
            ("t_rrd_s", self.t_rrd_s),
            ("t_rrd_l", self.t_rrd_l),
            ("t_wtr_s", self.t_wtr_s),
            ("t_wtr_l", self.t_wtr_l),
            ("t_faw", self.t_faw),
            ("t_wr", self.t_wr),
            ("t_rtp", self.t_rtp),
            ("t_ccd_s", self.t_ccd_s),
            ("t_ccd_l", self.t_ccd_l),
            ("command_cycles", self.command_cycles),
        ]
    }
}

/// The line, from 1, on which a key of the text is set.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let sets = |line: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    text.lines().position(sets).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_loads() {
        for (name, _) in PRESETS {
            let spec = Spec::find(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(spec.organisation.line_bytes(), 64, "{name}");
        }
    }

    /// The set-up with which the reference figures were measured.
    #[test]
    fn ddr3_1333_is_the_reference() {
        let spec = Spec::find("ddr3-1333").unwrap();
        assert_eq!(spec.organisation.capacity(), 8 << 30);
        assert_eq!(spec.organisation.lines_per_row() * 64, 8192);
        let t = &spec.timing;
        assert_eq!(
            (t.clock, t.cl, t.cwl, t.t_rcd, t.t_rp, t.t_ras),
            (Time::from_ps(1500), 9, 7, 9, 9, 24)
        );
        assert_eq!((t.t_rfc, t.t_refi, t.t_rrd_s, t.t_wtr_s, t.t_faw), (174, 5200, 4, 5, 20));
        assert_eq!((t.t_wr, t.t_rtp, t.t_ccd_s, t.t_rtrs), (10, 5, 4, 2));
    }

    #[test]
    fn impossible_memories_are_refused_with_their_line() {
        let (_, text) = PRESETS[1];
        let order =
            "order = [\"row\", \"bank\", \"bank_group\", \"rank\", \"column\", \"channel\"]";
        for (from, to, line, expect) in [
            ("t_ras = 24", "t_ras = 5", true, "t_ras = 5 is below t_rcd = 9"),
            ("t_rfc = 174", "t_rfc = 5000", true, "t_rfc = 5000 leaves no time"),
            ("t_ccd_s = 4", "t_ccd_s = 3", true, "overlap"),
            ("cl = 9", "cl = 0", true, "cl = 0 cycles"),
            ("cl = 9", "cl = -9", true, "invalid value"),
            ("cl = 9", "cl = 9\nt_magic = 4", true, "unknown field"),
            ("\"1.5 ns\"", "1500", true, "with its unit"),
            ("banks = 8", "banks = 7", true, "power of two"),
            ("banks = 8", "banks = 32\n", true, "ranks * bank_groups * banks = 64"),
            (order, "order = [\"row\", \"bank\"]", true, "column"),
        ] {
            assert!(text.contains(from), "the preset no longer has {from}");
            let got = Spec::parse(Path::new("x.toml"), &text.replacen(from, to, 1));
            if to == "banks = 32\n" {
                assert!(got.is_ok(), "64 banks are allowed");
                continue;
            }
            let error = got.unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
            assert_eq!(error.starts_with("x.toml:"), line, "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let unknown = Spec::find("ddr9").unwrap_err().to_string();
        assert!(unknown.contains("ddr3-1333"), "{unknown}");
    }
}
