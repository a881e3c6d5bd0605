//! The answer for a scheme: by its rule for I/O buffers, or for each buffer
//! ([`super::per_buffer`]).

use super::allocate::{Allocation, Allocator, Answer};
use super::per_buffer;
use super::scheme::{Io, Scheme};
use super::tasks::{TaskSystem, own_bank};
use super::ways::Objective;

impl Allocator {
    /// An allocation of the loaded system, good for `goal`.
    pub fn allocate(&mut self, system: &TaskSystem, scheme: Scheme, goal: Objective) -> Answer {
        if scheme.io == Io::PerBuffer {
            return per_buffer::allocate(self, system, goal);
        }
        self.by_rule(system, scheme, goal).map_or(Answer::None, Answer::Allocation)
    }

    /// Is the I/O buffer of a task of levels A and B in its core's bank under that allocation? It
    /// must be the last that was made.
    #[must_use]
    pub fn own_bank(&self, system: &TaskSystem, allocation: &Allocation, task: usize) -> bool {
        match allocation.scheme.io {
            Io::PerBuffer => self.scratch.own_bank.get(task).copied().unwrap_or(false),
            io => own_bank(&system.tasks[task], io),
        }
    }
}
