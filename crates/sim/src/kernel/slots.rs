//! The kernel's timers by name, and the slot of each.

use super::config::TransferSpec;

/// Event of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The counting period.
    Period,
    /// The first message arrives.
    Message,
    /// The scheduler's monitor.
    Monitor,
    /// An overflow's interrupt comes on a core.
    Overflow(usize),
    /// The regulator must be called for a core.
    Budget(usize),
    /// A task's job.
    Release(usize),
    /// A task has slept.
    Wake(usize),
    /// A task's time is over.
    Stop(usize),
    /// An order of the configuration's list.
    Transfer(usize),
    /// A core must pick.
    Pick(usize),
}

/// Timers in the order in which they fire at one time.
pub struct Slots {
    pub cores: usize,
    pub tasks: usize,
    pub transfers: Vec<TransferSpec>,
}

impl Slots {
    const FIRST: usize = 3;

    /// The slot of a timer.
    pub fn of(&self, timer: Timer) -> usize {
        let per_task = Self::FIRST + 2 * self.cores;
        let transfers = per_task + 3 * self.tasks;
        match timer {
            Timer::Period => 0,
            Timer::Message => 1,
            Timer::Monitor => 2,
            Timer::Overflow(core) => Self::FIRST + core,
            Timer::Budget(core) => Self::FIRST + self.cores + core,
            Timer::Release(task) => per_task + task,
            Timer::Wake(task) => per_task + self.tasks + task,
            Timer::Stop(task) => per_task + 2 * self.tasks + task,
            Timer::Transfer(at) => transfers + at,
            Timer::Pick(core) => transfers + self.transfers.len() + core,
        }
    }

    /// The timer of a slot.
    pub fn timer(&self, slot: usize) -> Timer {
        let groups = [
            (self.cores, Timer::Overflow as fn(usize) -> Timer),
            (self.cores, Timer::Budget),
            (self.tasks, Timer::Release),
            (self.tasks, Timer::Wake),
            (self.tasks, Timer::Stop),
            (self.transfers.len(), Timer::Transfer),
            (self.cores, Timer::Pick),
        ];
        let Some(mut rest) = slot.checked_sub(Self::FIRST) else {
            return [Timer::Period, Timer::Message, Timer::Monitor][slot];
        };
        for (length, make) in groups {
            if rest < length {
                return make(rest);
            }
            rest -= length;
        }
        Timer::Period
    }

    /// The number of slots.
    pub fn count(&self) -> usize {
        Self::FIRST + 3 * (self.cores + self.tasks) + self.transfers.len()
    }
}
