//! The interface between the engine and a memory system.

/// A request that reached main memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Core that waits for it.
    pub core: u32,
    /// Physical line number.
    pub line: u64,
    /// A dirty line written back.
    pub write: bool,
}

/// Main memory as the engine sees it. Every core has at most one request under way.
///
/// Protocol: [`MemoryModel::submit`] hands a request over at a time; [`MemoryModel::next_event`] says
/// when something happens next; [`MemoryModel::advance`] moves to that time and names the cores whose
/// requests are complete. Times are picoseconds and never go back.
pub trait MemoryModel {
    /// A request arrives.
    fn submit(&mut self, now_ps: u64, request: Request);
    /// Time of the next event, if any request is under way.
    fn next_event(&self) -> Option<u64>;
    /// Moves to `now_ps`; pushes the cores whose requests completed at or before it.
    fn advance(&mut self, now_ps: u64, done: &mut Vec<u32>);
}
