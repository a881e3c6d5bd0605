//! Changes of the simulated system that must refute verdicts.
//!
//! Problem: a claim that still stands when its mechanism is off, or its cost doubled, was never
//! tested. Rule: a [`Mutation`] is one such change. Most are made where a board becomes a machine
//! (`mutate.rs`), so that an experiment neither knows nor can evade them. The others are
//! asked for by the one experiment whose mechanism they turn off ([`crate::Context::mutated`]).

use serde::{Deserialize, Serialize};

/// A mechanism that is turned off, or a cost that is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mutation {
    /// Tasks of other cores than the first task's do not run; devices move nothing by themselves.
    Quiet,
    /// No regulator stops a core.
    Unregulated,
    /// Both of these.
    Alone,
    /// All pages lie in one bank of the DRAM.
    OneBank,
    /// All pages lie anywhere in the DRAM.
    AnyBank,
    /// All pages are cached, in all ways of the shared cache and in all of its colours.
    SharedCache,
    /// Rows of the DRAM take twice as long to open, to read and to close.
    SlowMemory,
    /// The bound of eq. (1) has no stall.
    NoStall,
    /// Nothing is reclaimed and nothing shared.
    NoReclaim,
    /// No VCPU has background time.
    NoBackground,
    /// The VCPU that has background time keeps it.
    KeptBackground,
    /// Background time is not throttled.
    Unthrottled,
    /// The rate rule throttles by latency.
    OneRule,
    /// VCPUs stay where they are.
    Unbalanced,
    /// Tasks that start together start half a period apart.
    Apart,
    /// Levels A and B have their pages in level C's bank.
    SharedBanks,
    /// The load that a figure varies stays the same.
    SameLoad,
    /// I/O buffers lie in the bank of the task that uses them, or that they are compared with.
    OwnBuffer,
    /// All message buffers are placed alike; or both searches are the same.
    OnePolicy,
}

impl Mutation {
    /// The change in words.
    #[must_use]
    pub const fn says(self) -> &'static str {
        match self {
            Self::Quiet => "nothing runs on other cores, and devices are idle",
            Self::Unregulated => "no core is regulated",
            Self::Alone => "nothing runs on other cores, and no core is regulated",
            Self::OneBank => "all pages lie in one bank",
            Self::AnyBank => "all pages lie in any bank",
            Self::SharedCache => "all pages are cached, and the cache is shared",
            Self::SlowMemory => "the DRAM is half as fast",
            Self::NoStall => "the bound has no stall",
            Self::NoReclaim => "nothing is reclaimed or shared",
            Self::NoBackground => "there is no background time",
            Self::KeptBackground => "background time stays with one VCPU",
            Self::Unthrottled => "background time is not throttled",
            Self::OneRule => "the rate rule throttles by latency",
            Self::Unbalanced => "VCPUs stay where they are",
            Self::Apart => "tasks start half a period apart",
            Self::SharedBanks => "levels A and B lie in level C's bank",
            Self::SameLoad => "the load does not vary",
            Self::OwnBuffer => "I/O buffers always lie in the task's own bank",
            Self::OnePolicy => "both sides are the same: one policy, or one search",
        }
    }
}
