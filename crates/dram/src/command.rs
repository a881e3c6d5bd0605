//! Commands on a channel's command bus, as recorded in a trace.

use std::fmt;

/// Kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Open a row.
    Act,
    /// Read a line of the open row.
    Rd,
    /// Write a line of the open row.
    Wr,
    /// Close the row.
    Pre,
    /// Refresh a rank with all banks closed.
    Ref,
}

impl CommandKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Act, Self::Rd, Self::Wr, Self::Pre, Self::Ref];

    /// The name in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Act => "ACT",
            Self::Rd => "RD",
            Self::Wr => "WR",
            Self::Pre => "PRE",
            Self::Ref => "REF",
        }
    }
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Clock cycle.
    pub cycle: u64,
    /// Kind of command.
    pub kind: CommandKind,
    /// Channel.
    pub channel: u32,
    /// Rank of the channel.
    pub rank: u32,
    /// Bank of the rank, over its bank groups; 0 for REF.
    pub bank: u32,
    /// Row; 0 for PRE and REF.
    pub row: u32,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cycle, kind, channel, rank, bank, row } = self;
        write!(f, "{cycle},{},{channel},{rank},{bank},{row}", kind.name())
    }
}
