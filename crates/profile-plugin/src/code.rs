//! The program's code: its instructions, and its translated blocks.

use solocore_cache::Ends;

/// An instruction.
#[derive(Debug)]
pub struct Code {
    pub region: u32,
    pub offset: u64,
}

/// A translated block.
#[derive(Debug)]
pub struct Block {
    /// Address of its first instruction.
    pub start: u64,
    /// Address after its last instruction.
    pub next: u64,
    pub first_line: u64,
    pub last_line: u64,
    pub instructions: u64,
    pub ends: Ends,
    /// Its first instruction, which fetch misses are attributed to.
    pub first: &'static Code,
    pub last: &'static Code,
}
