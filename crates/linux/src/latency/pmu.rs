//! Counters outside the cores, as the kernel shows them in `/sys/bus/event_source/devices`.
//!
//! Problem: an event of such a counter is a few named fields (`event=0x80,umask=0x1`), and the
//! place of each field in the attributes of `perf_event_open` differs from driver to driver.
//! Rule: every directory there is a counter unit. `type` is its number, `format/FIELD` the place of
//! a field (`config:0-7`, `config:0-7,32-35`, `config1:3`), `cpumask` the CPUs on which it is read
//! (one for each chip), and `events/NAME` an event that the driver names.
//! Source: Documentation/ABI/testing/sysfs-bus-event_source-devices-format and -events of Linux.
//! Does not cover: events with a parameter left open (`=?`), fields beyond `config2`, units and
//! scales of the driver.

use crate::error::LinuxError;
use crate::host::machine::parse_cpu_list;
use crate::sys::PerfAttr;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Directory of the counter units in sysfs.
pub const SYSFS: &str = "/sys/bus/event_source/devices";

/// The place of a field: a word of the attributes, and its bits, lowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    word: usize,
    /// First and last bit of each piece.
    pieces: Vec<(u32, u32)>,
}

/// One counter unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    /// Its directory's name.
    pub name: String,
    kind: u32,
    /// The CPUs to open its events on.
    pub cpus: Vec<u32>,
    fields: BTreeMap<String, Field>,
    dir: PathBuf,
}

fn refuse(path: &Path, what: &str) -> LinuxError {
    LinuxError::Machine(format!("{}: {what}; use --source probe", path.display()))
}

/// Reads a format such as `config1:0-7,32-35`.
fn parse_field(text: &str) -> Option<Field> {
    let (word, bits) = text.trim().split_once(':')?;
    let word = ["config", "config1", "config2"].iter().position(|name| *name == word)?;
    let mut pieces = Vec::new();
    for piece in bits.split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > 63 {
            return None;
        }
        pieces.push((first, last));
    }
    Some(Field { word, pieces })
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Field {
    /// Puts a value into the field; false if it does not fit.
    fn put(&self, words: &mut [u64; 3], value: u64) -> bool {
        let mut rest = value;
        for &(first, last) in &self.pieces {
            let width = last - first + 1;
            let mask = u64::MAX >> (64 - width);
            words[self.word] = words[self.word] & !(mask << first) | (rest & mask) << first;
            rest = rest.checked_shr(width).unwrap_or(0);
        }
        rest == 0
    }
}

impl Pmu {
    /// Every unit below `root` whose name is `stem`, or `stem` and a number after an underline.
    ///
    /// # Errors
    /// A unit's description is malformed.
    pub fn all(root: &Path, stem: &str) -> Result<Vec<Self>, LinuxError> {
        let Ok(entries) = fs::read_dir(root) else { return Ok(Vec::new()) };
        let mut names: Vec<String> = entries
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .filter(|name| {
                name.strip_prefix(stem).is_some_and(|rest| {
                    let number = rest.strip_prefix('_');
                    rest.is_empty()
                        || number.is_some_and(|n| {
                            !n.is_empty() && n.bytes().all(|b| b.is_ascii_hexdigit())
                        })
                })
            })
            .collect();
        names.sort();
        names.iter().map(|name| Self::read(root, name)).collect()
    }

    fn read(root: &Path, name: &str) -> Result<Self, LinuxError> {
        let dir = root.join(name);
        let text = |file: &str| fs::read_to_string(dir.join(file)).ok();
        let kind = text("type").and_then(|t| t.trim().parse().ok());
        let kind = kind.ok_or_else(|| refuse(&dir.join("type"), "is not a number"))?;
        // Without a mask any CPU will do: the driver moves the event to its own.
        let mut cpus = text("cpumask").map_or_else(|| vec![0], |t| parse_cpu_list(&t));
        if cpus.is_empty() {
            return Err(refuse(
                &dir.join("cpumask"),
                "names no CPU (the last CPU of the chip may be offline)",
            ));
        }
        cpus.dedup();
        let mut fields = BTreeMap::new();
        if let Ok(entries) = fs::read_dir(dir.join("format")) {
            for entry in entries.flatten() {
                let Ok(field) = entry.file_name().into_string() else { continue };
                // A field that cannot be read is skipped: it is refused when an event needs it.
                let parsed = fs::read_to_string(entry.path()).ok().and_then(|t| parse_field(&t));
                fields.extend(parsed.map(|p| (field, p)));
            }
        }
        Ok(Self { name: name.to_owned(), kind, cpus, fields, dir })
    }

    /// The text of an event that the driver names.
    pub fn named(&self, event: &str) -> Option<String> {
        let text = fs::read_to_string(self.dir.join("events").join(event)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The attributes of an event: a text like `event=0x80,umask=0x1`, a field alone stands for 1.
    ///
    /// # Errors
    /// A field that this unit lacks, a value that is none or does not fit.
    pub(crate) fn encode(&self, event: &str) -> Result<PerfAttr, LinuxError> {
        let fail = |what: String| refuse(&self.dir, &format!("event `{event}`: {what}"));
        let mut words = [0; 3];
        for term in event.split(',').map(str::trim) {
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            let value =
                parse_number(value).ok_or_else(|| fail(format!("`{value}` is not a number")))?;
            let raw = Field {
                word: ["config", "config1", "config2"]
                    .iter()
                    .position(|word| *word == name)
                    .unwrap_or(0),
                pieces: vec![(0, 63)],
            };
            let field = match name {
                "config" | "config1" | "config2" => &raw,
                _ => self
                    .fields
                    .get(name)
                    .ok_or_else(|| fail(format!("this unit has no field `{name}`")))?,
            };
            if !field.put(&mut words, value) {
                return Err(fail(format!("{value:#x} does not fit into `{name}`")));
            }
        }
        let [config, config1, config2] = words;
        Ok(PerfAttr { kind: self.kind, config, config1, config2, ..PerfAttr::default() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes a unit below `root`.
    pub(crate) fn make(
        root: &Path,
        name: &str,
        kind: u32,
        cpumask: &str,
        format: &[(&str, &str)],
        events: &[(&str, &str)],
    ) {
        let dir = root.join(name);
        for (sub, files) in [("format", format), ("events", events)] {
            fs::create_dir_all(dir.join(sub)).unwrap();
            for (file, text) in files {
                fs::write(dir.join(sub).join(file), format!("{text}\n")).unwrap();
            }
        }
        fs::write(dir.join("type"), format!("{kind}\n")).unwrap();
        if !cpumask.is_empty() {
            fs::write(dir.join("cpumask"), format!("{cpumask}\n")).unwrap();
        }
    }

    #[test]
    fn fields_lie_where_the_format_says() {
        let dir = tempfile::tempdir().unwrap();
        let format = [
            ("event", "config:0-7"),
            ("umask", "config:8-15,32-35"),
            ("edge", "config:18"),
            ("mask", "config1:0-44"),
            ("depth", "config2:3-8"),
            ("whole", "config1:0-63"),
            ("strange", "config9:0-3"),
            ("wrong", "config:9-3"),
        ];
        make(dir.path(), "uncore_x_0", 17, "0,4", &format, &[("cycles", "event=0xff")]);
        let pmu = &Pmu::all(dir.path(), "uncore_x").unwrap()[0];
        assert_eq!((pmu.kind, pmu.cpus.as_slice()), (17, [0, 4].as_slice()));
        let words = |event: &str| pmu.encode(event).map(|a| [a.config, a.config1, a.config2]);
        assert_eq!(words("event=0x80,umask=0x1").unwrap(), [0x180, 0, 0]);
        // The high bits of a field in pieces go on in the next piece.
        assert_eq!(words("event=5, umask=0xcff").unwrap(), [0xc_0000_ff05, 0, 0]);
        assert_eq!(words("event=0x2,edge").unwrap(), [0x4_0002, 0, 0]);
        assert_eq!(words("mask=0x1fffffffffff,depth=2").unwrap(), [0, 0x1fff_ffff_ffff, 0x10]);
        assert_eq!(words("whole=0xffffffffffffffff").unwrap()[1], u64::MAX);
        assert_eq!(words("config=0x12,config1=7").unwrap(), [0x12, 7, 0]);
        assert_eq!(pmu.named("cycles").as_deref(), Some("event=0xff"));
        assert_eq!(pmu.named("none"), None);
        for (wrong, why) in [
            ("event=0x100", "does not fit"),
            ("umask=0x1000", "does not fit"),
            ("edge=2", "does not fit"),
            ("event=?", "`?` is not a number"),
            ("event=", "is not a number"),
            ("strange=1", "no field `strange`"),
            ("wrong=1", "no field `wrong`"),
            ("", "no field ``"),
        ] {
            let error = words(wrong).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("; "), "{wrong}: {error}");
        }
    }

    #[test]
    fn units_are_found_by_their_stem() {
        let dir = tempfile::tempdir().unwrap();
        for (name, kind) in [
            ("uncore_imc_0", 20),
            ("uncore_imc_11", 21),
            ("uncore_imc_free_running_0", 22),
            ("uncore_imc", 23),
            ("arm_dsu_1f", 24),
        ] {
            make(dir.path(), name, kind, "", &[], &[]);
        }
        let names = |stem| -> Vec<String> {
            Pmu::all(dir.path(), stem).unwrap().into_iter().map(|p| p.name).collect()
        };
        assert_eq!(names("uncore_imc"), ["uncore_imc", "uncore_imc_0", "uncore_imc_11"]);
        assert_eq!(names("uncore_imc_free_running"), ["uncore_imc_free_running_0"]);
        assert_eq!(names("arm_dsu"), ["arm_dsu_1f"]);
        assert_eq!(
            Pmu::all(dir.path(), "arm_dsu").unwrap()[0].cpus,
            [0],
            "without a mask any CPU will do"
        );
        assert!(Pmu::all(&dir.path().join("nowhere"), "uncore_imc").unwrap().is_empty());
        fs::write(dir.path().join("uncore_imc_0/type"), "x").unwrap();
        assert!(Pmu::all(dir.path(), "uncore_imc").unwrap_err().to_string().contains("type"));
        fs::write(dir.path().join("uncore_imc_0/type"), "20").unwrap();
        fs::write(dir.path().join("uncore_imc_0/cpumask"), "\n").unwrap();
        assert!(Pmu::all(dir.path(), "uncore_imc").unwrap_err().to_string().contains("cpumask"));
    }
}
