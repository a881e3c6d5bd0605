//! A group: its mode, its numbers, and all that it has.

use std::collections::BTreeSet;

/// What a group's ways are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Others may have some of them as well.
    Shareable,
    /// Nobody else has.
    Exclusive,
    /// A schemata that is written now is pseudo-locked.
    LockSetup,
    /// They are.
    Locked,
}

impl Mode {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Shareable => "shareable",
            Self::Exclusive => "exclusive",
            Self::LockSetup => "pseudo-locksetup",
            Self::Locked => "pseudo-locked",
        }
    }
}

/// A group for control and monitoring. The masks are by line (one, or code and data) and cache.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub name: String,
    pub closid: u32,
    pub rmid: u32,
    pub mode: Mode,
    pub cpus: BTreeSet<u32>,
    pub tasks: BTreeSet<u32>,
    pub masks: Vec<Vec<u32>>,
    pub bandwidth: Vec<u32>,
    /// What is pseudo-locked: index of the cache, mask.
    pub locked: Option<(usize, u32)>,
    pub monitors: Vec<Monitor>,
}

/// A group for monitoring only.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    pub name: String,
    pub rmid: u32,
    pub cpus: BTreeSet<u32>,
    pub tasks: BTreeSet<u32>,
}
