//! Management schemes `x|y`: `x` places message buffers, `y` I/O buffers (the paper, section 6.1).

use serde::{Deserialize, Serialize};
use std::fmt;

/// Place of the message buffers of levels A and B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ipc {
    /// R: in random banks.
    Random,
    /// C: in the banks of level C, cacheable.
    LevelC,
    /// O: locked in the cache (CL), in the core's own bank if sender and receiver share a core
    /// (CE), else in the banks of level C and uncacheable (SBP).
    Optimized,
}

/// Place of the I/O buffers of levels A and B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Io {
    /// R: in random banks.
    Random,
    /// C: in the banks of level C.
    LevelC,
    /// C+A/B-All: in the banks of their tasks' cores.
    All,
    /// C+A/B-LP: as All for the half of the I/O tasks of each level with the longest periods, else
    /// in the banks of C.
    LongPeriods,
    /// C+A/B-SP: the same for the shortest periods.
    ShortPeriods,
    /// opt: the better bank for each buffer.
    PerBuffer,
}

/// A scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Scheme {
    /// Message buffers.
    pub ipc: Ipc,
    /// I/O buffers.
    pub io: Io,
}

/// The paper's nine schemes, then O|opt.
const NAMES: [(&str, Scheme); 10] = [
    ("R|R", Scheme { ipc: Ipc::Random, io: Io::Random }),
    ("C|C", Scheme { ipc: Ipc::LevelC, io: Io::LevelC }),
    ("O|C", Scheme { ipc: Ipc::Optimized, io: Io::LevelC }),
    ("C|C+A/B-All", Scheme { ipc: Ipc::LevelC, io: Io::All }),
    ("C|C+A/B-LP", Scheme { ipc: Ipc::LevelC, io: Io::LongPeriods }),
    ("C|C+A/B-SP", Scheme { ipc: Ipc::LevelC, io: Io::ShortPeriods }),
    ("O|C+A/B-All", Scheme { ipc: Ipc::Optimized, io: Io::All }),
    ("O|C+A/B-LP", Scheme { ipc: Ipc::Optimized, io: Io::LongPeriods }),
    ("O|C+A/B-SP", Scheme { ipc: Ipc::Optimized, io: Io::ShortPeriods }),
    ("O|opt", Scheme { ipc: Ipc::Optimized, io: Io::PerBuffer }),
];

/// The error that no scheme has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no scheme is called `{name}`; choose from {names}")]
pub struct UnknownScheme {
    name: String,
    names: String,
}

impl Scheme {
    /// Every scheme: the paper's nine, and O|opt.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(_, scheme)| *scheme)
    }

    /// The nine schemes of the paper.
    pub fn paper() -> impl Iterator<Item = Self> {
        Self::all().filter(|s| s.io != Io::PerBuffer)
    }

    /// Its name. Schemes that are not among the paper's combinations have no name and are never
    /// made here.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, s)| *s == self).map_or("?", |(name, _)| name)
    }

    /// The scheme of a name, in letters of either case.
    ///
    /// # Errors
    /// [`UnknownScheme`] with the known names.
    pub fn parse(name: &str) -> Result<Self, UnknownScheme> {
        let wanted = name.trim().to_lowercase();
        let found = NAMES.iter().find(|(n, _)| n.to_lowercase() == wanted);
        found.map(|(_, scheme)| *scheme).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(n, _)| *n).collect();
            UnknownScheme { name: name.trim().to_owned(), names: names.join(", ") }
        })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for scheme in Scheme::all() {
            assert_eq!(Scheme::parse(&scheme.name().to_uppercase()).unwrap(), scheme);
        }
        assert_eq!((Scheme::all().count(), Scheme::paper().count()), (10, 9));
        assert!(Scheme::parse("X|C").unwrap_err().to_string().contains("`X|C`"));
    }
}
