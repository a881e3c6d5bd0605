//! Criticality levels: the choice of the running task (`policy/include/solocore/levels.h`).

use crate::NONE;
use crate::raw::{
    self, sc_level_choice as RawChoice, sc_level_core as LevelCore, sc_levels as Shared,
};

/// A task and its state.
pub use crate::raw::sc_level_task as LevelTask;

/// Level of a task, hard to best effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// By a time table.
    A = 0,
    /// Rate monotonic on its core.
    B = 1,
    /// Global earliest deadline first.
    C = 2,
    /// Best effort.
    D = 3,
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no job.
    Idle,
    /// It has a job that runs or wants to.
    Ready,
    /// Its job used its execution time up and waits for the next release.
    Suspended,
}

/// The choice for a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The task; `None`: nothing.
    pub task: Option<u32>,
    /// Its level.
    pub level: Option<Level>,
    /// Latest time of the core's next pick, in ns; [`crate::UNLIMITED`]: at the next event.
    pub until_ns: u64,
}

/// The tasks and cores of a system with criticality levels.
pub struct Levels {
    shared: Box<Shared>,
    cores: Vec<Box<LevelCore>>,
    origin_ns: u64,
}

fn state_of(word: u32) -> Option<State> {
    match word {
        1 => Some(State::Idle),
        2 => Some(State::Ready),
        3 => Some(State::Suspended),
        _ => None,
    }
}

impl Levels {
    /// This number of cores (1 to 256) without tasks; time tables start at `now_ns`.
    pub fn new(cores: u32, now_ns: u64) -> Option<Self> {
        Self::with_origin(cores, now_ns, now_ns)
    }

    /// As [`Self::new`]; time tables start at `origin_ns`.
    pub fn with_origin(cores: u32, now_ns: u64, origin_ns: u64) -> Option<Self> {
        if cores == 0 || cores > 256 {
            return None;
        }
        // SAFETY: integers all the way down; zero is an empty system.
        let shared = unsafe { crate::zeroed::<Shared>() };
        let cores = (0..cores)
            .map(|number| {
                // SAFETY: as above.
                let mut core = unsafe { crate::zeroed::<LevelCore>() };
                // SAFETY: `core` is valid.
                unsafe { raw::sc_level_core_init(&raw mut *core, number, now_ns) };
                core
            })
            .collect();
        Some(Self { shared, cores, origin_ns })
    }

    /// Adds a task without a job; `core` does not matter at level C, `pet_ns` (execution time
    /// provisioned for a job at the task's own level) not at level D. False if a value is out of
    /// range or the id is taken.
    pub fn add(&mut self, id: u32, level: Level, core: u32, period_ns: u64, pet_ns: u64) -> bool {
        if level != Level::C && core as usize >= self.cores.len() {
            return false;
        }
        let core = if level == Level::C { 0 } else { core };
        let times = [period_ns, pet_ns];
        // SAFETY: the shared part is valid, and the times are two words.
        unsafe {
            raw::sc_level_add(&raw mut *self.shared, id, level as u32, core, times.as_ptr()) != 0
        }
    }

    /// Appends a slot for a level-A task to its core's table. All slots of a core name the same
    /// frame. False if the slot is empty, overlaps, leaves the frame, or the task is not of level A
    /// on this core.
    pub fn slot(
        &mut self,
        core: u32,
        start_ns: u64,
        end_ns: u64,
        task: u32,
        frame_ns: u64,
    ) -> bool {
        let Some(t) = self.shared.task.get(task as usize) else { return false };
        if t.state == 0
            || t.level != Level::A as u32
            || t.core != core
            || core as usize >= self.cores.len()
        {
            return false;
        }
        let table = &mut self.cores[core as usize].table;
        if table.frame_ns() == 0 {
            if start_ns >= end_ns || end_ns > frame_ns || !table.reset(self.origin_ns, frame_ns) {
                return false;
            }
        } else if table.frame_ns() != frame_ns {
            return false;
        }
        table.append(start_ns, end_ns, task)
    }

    /// The present core of the task, or else the one that it belongs to.
    fn core_of(&mut self, id: u32) -> Option<(&mut Shared, &mut LevelCore)> {
        let t = self.shared.task.get(id as usize)?;
        let core = if t.running == NONE { t.core } else { t.running };
        (t.state != 0).then(|| (&mut *self.shared, &mut *self.cores[core as usize]))
    }

    /// Releases a job of the task; returns the task's state then. `None` if there is no such task.
    pub fn release(&mut self, id: u32, now_ns: u64) -> Option<State> {
        let (shared, core) = self.core_of(id)?;
        // SAFETY: both are valid.
        state_of(unsafe { raw::sc_level_release(shared, core, id, now_ns) })
    }

    /// Completes the task's job; false if it had none.
    pub fn complete(&mut self, id: u32, now_ns: u64) -> bool {
        let Some((shared, core)) = self.core_of(id) else { return false };
        // SAFETY: both are valid.
        unsafe { raw::sc_level_complete(shared, core, id, now_ns) != 0 }
    }

    /// Chooses the task of a core from `now_ns` on. `None` if there is no such core.
    pub fn pick(&mut self, core: u32, now_ns: u64) -> Option<Choice> {
        let core = self.cores.get_mut(core as usize)?;
        let mut choice = RawChoice::default();
        // SAFETY: all three are valid.
        unsafe {
            raw::sc_level_pick(&raw mut *self.shared, &raw mut **core, now_ns, &raw mut choice)
        };
        let level = [Level::A, Level::B, Level::C, Level::D].get(choice.level as usize).copied();
        Some(Choice {
            task: (choice.task != NONE).then_some(choice.task),
            level,
            until_ns: choice.until_ns,
        })
    }

    /// Number of jobs of all tasks that used their execution time up, or at level A were not done
    /// at the next release.
    pub fn overruns(&self) -> u64 {
        self.shared.overruns
    }

    /// A task; `None` if there is no task with that number.
    pub fn task(&self, id: u32) -> Option<&LevelTask> {
        self.shared.task.get(id as usize).filter(|t| t.state != 0)
    }
}

impl LevelTask {
    /// State of the task.
    pub fn state(&self) -> State {
        state_of(self.state).unwrap_or(State::Idle)
    }

    /// Execution time of the present job in ns, up to the last decision.
    pub fn used_ns(&self) -> u64 {
        self.used_ns
    }

    /// Absolute deadline of the present job in ns.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Number of its jobs that overran.
    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    /// The core on which it runs.
    pub fn running(&self) -> Option<u32> {
        (self.running != NONE).then_some(self.running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        static sc_size_levels: u64;
        static sc_size_level_core: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: constants of the C side.
        let sizes = unsafe { [sc_size_levels, sc_size_level_core] };
        assert_eq!(sizes, [size_of::<Shared>() as u64, size_of::<LevelCore>() as u64]);
    }

    #[test]
    fn levels_are_strictly_prioritised() {
        let mut w = Levels::new(1, 0).unwrap();
        assert!(
            w.add(0, Level::A, 0, 100, 10)
                && w.add(1, Level::B, 0, 50, 20)
                && w.add(2, Level::C, 0, 40, 20)
        );
        assert!(w.add(3, Level::D, 0, 10, 0) && w.slot(0, 30, 40, 0, 100));
        for id in (0..4).rev() {
            assert_eq!(w.release(id, 0), Some(State::Ready));
        }
        let mut seen = Vec::new();
        for now in [0, 20, 30, 40, 50] {
            seen.push(w.pick(0, now).unwrap().task);
        }
        // B has used its 20 at 20 and is suspended; the slot of A starts at 30 and ends at 40.
        assert_eq!(seen, [Some(1), Some(2), Some(0), Some(2), Some(3)]);
        assert_eq!(w.overruns(), 3);
    }
}
