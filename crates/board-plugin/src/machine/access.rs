//! Kinds of references, and their names in the trace.

use crate::trace::Kind;

/// A reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// Data, read.
    Load,
    /// Data, written.
    Store,
    /// An instruction.
    Fetch,
    /// An entry of a page table.
    Walk,
}

impl Access {
    /// The kind of its record in the trace.
    pub fn recorded(self) -> Kind {
        match self {
            Self::Load => Kind::Load,
            Self::Store => Kind::Store,
            Self::Fetch => Kind::Fetch,
            Self::Walk => Kind::Walk,
        }
    }
}
