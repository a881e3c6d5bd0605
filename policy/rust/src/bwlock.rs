//! Memory bandwidth lock (`policy/include/solocore/bwlock.h`; bwlock, section 3): while a real-time
//! task is in a memory-performance critical section, other tasks have a small budget on every core.

use crate::raw::{
    self, sc_bwlock as Shared, sc_bwlock_core as LockCore, sc_bwlock_task as LockTask,
};
use crate::{MAX_CPUS, MAX_TASKS, NONE};

const NO_TASK: LockTask = LockTask { alive: 0, realtime: 0, depth: 0, core: NONE };

/// The lock, the cores that it protects from each other, and their tasks (numbers below
/// [`MAX_TASKS`]).
///
/// Methods that take a core answer `None` if there is no such core. "Go" is true if the core may
/// run its task, false if it must stop until the policy says otherwise.
#[derive(Clone, Debug)]
pub struct BwLock {
    shared: Shared,
    cores: Vec<LockCore>,
    /// The task that runs on a core.
    current: Vec<Option<u32>>,
    /// Tasks up to the highest number in use.
    tasks: Vec<LockTask>,
}

impl BwLock {
    /// A lock for this number of idle cores; their first periods start at `now_ns`. Budgets are
    /// accesses per period and core: `max_budget` while nobody holds the lock
    /// ([`UNLIMITED`](crate::UNLIMITED) for none), `min_budget` while a program does. `None` unless
    /// the period is 1 ns to 73 minutes (2^42 ns), 1 <= min <= max, the limited budgets are below
    /// 2^32, and there are 1 to 256 cores.
    pub fn new(
        period_ns: u64,
        max_budget: u64,
        min_budget: u64,
        cores: u32,
        now_ns: u64,
    ) -> Option<Self> {
        let mut shared = Shared::default();
        // SAFETY: `shared` is valid and of the layout that both sides check.
        let ok = unsafe { raw::sc_bwlock_init(&raw mut shared, period_ns, max_budget, min_budget) };
        if ok == 0 || cores == 0 || cores as usize > MAX_CPUS {
            return None;
        }
        let core = |id| {
            let mut core = LockCore::default();
            // SAFETY: both are valid.
            unsafe { raw::sc_bwlock_core_init(&raw const shared, &raw mut core, id, now_ns) };
            core
        };
        let all: Vec<LockCore> = (0..cores).map(core).collect();
        Some(Self { shared, current: vec![None; all.len()], cores: all, tasks: Vec::new() })
    }

    /// Another budget while a program holds the lock; each core has it from its next
    /// [`tick`](Self::tick), [`update`](Self::update) or [`switch`](Self::switch) on. False,
    /// without any change, unless 1 <= min <= max and it is below 2^32.
    pub fn limit(&mut self, min_budget: u64) -> bool {
        // SAFETY: the lock is valid.
        unsafe { raw::sc_bwlock_limit(&raw mut self.shared, min_budget) != 0 }
    }

    /// Adds a task, which does not run; false if the number is too large or taken.
    pub fn add(&mut self, task: u32, realtime: bool) -> bool {
        let at = task as usize;
        if at >= MAX_TASKS {
            return false;
        }
        if at >= self.tasks.len() {
            self.tasks.resize(at + 1, NO_TASK);
        }
        // SAFETY: the task is valid.
        unsafe { raw::sc_bwlock_task_init(&raw mut self.tasks[at], u32::from(realtime)) != 0 }
    }

    /// Calls `f` with the lock, the task's present core (or null), and the task; false if there is
    /// no such task.
    fn with_task(
        &mut self,
        task: u32,
        f: unsafe extern "C" fn(*mut Shared, *mut LockCore, *mut LockTask) -> u32,
    ) -> bool {
        let Some(t) = self.tasks.get_mut(task as usize) else {
            return false;
        };
        let core =
            self.cores.get_mut(t.core as usize).map_or(std::ptr::null_mut(), |c| &raw mut *c);
        // SAFETY: lock and task are valid and `f` is one of the functions above, which take a null
        // core.
        unsafe { f(&raw mut self.shared, core, t) != 0 }
    }

    /// The task enters a section. False if there is no such task, it is not real-time, or it is
    /// 2^32-1 sections deep. If [`holders`](Self::holders) has changed, the other cores should
    /// [`update`](Self::update).
    pub fn lock(&mut self, task: u32) -> bool {
        self.with_task(task, raw::sc_bwlock_lock)
    }

    /// The task leaves a section. False if there is no such task, or it is in no section. As for
    /// [`lock`](Self::lock) otherwise.
    pub fn unlock(&mut self, task: u32) -> bool {
        self.with_task(task, raw::sc_bwlock_unlock)
    }

    /// Removes the task; its core becomes idle if it ran. False if there is no such task. Its
    /// accesses must be [accounted](Self::account) before.
    pub fn exit(&mut self, task: u32) -> bool {
        let core = self.tasks.get(task as usize).map_or(NONE, |t| t.core);
        let done = self.with_task(task, raw::sc_bwlock_exit);
        if done && let Some(current) = self.current.get_mut(core as usize) {
            *current = None;
        }
        done
    }

    /// The core runs `next` from now on (`None`: nothing); the task before has made `accesses`
    /// since the last call. Returns whether to go; `None` if there is no such core, no such task,
    /// or it runs elsewhere.
    pub fn switch(&mut self, core: u32, next: Option<u32>, accesses: u64) -> Option<bool> {
        let c = self.cores.get_mut(core as usize)?;
        let current = &mut self.current[core as usize];
        if next.is_some_and(|n| n as usize >= self.tasks.len()) {
            return None;
        }
        let tasks = self.tasks.as_mut_ptr();
        let pointer = |task: Option<u32>| match task {
            // SAFETY: `next` was checked, and `current` when it was `next`; the vector never
            // shrinks.
            Some(n) => unsafe { tasks.add(n as usize) },
            None => std::ptr::null_mut(),
        };
        // SAFETY: lock and core are valid, the tasks are valid or null; they may be the same one.
        let ok = unsafe {
            raw::sc_bwlock_switch(
                &raw mut self.shared,
                c,
                pointer(*current),
                pointer(next),
                accesses,
            )
        };
        if ok == 0 {
            return None;
        }
        *current = next;
        Some(c.throttled == 0)
    }

    /// The running task has made `accesses` accesses since the last call. Returns whether to go.
    pub fn account(&mut self, core: u32, accesses: u64) -> Option<bool> {
        let c = self.cores.get_mut(core as usize)?;
        // SAFETY: the core is valid.
        Some(unsafe { raw::sc_bwlock_account(c, accesses) != 0 })
    }

    /// Checks the lock again, which another core has taken or released. Returns whether to go.
    pub fn update(&mut self, core: u32) -> Option<bool> {
        let c = self.cores.get_mut(core as usize)?;
        // SAFETY: both are valid.
        Some(unsafe { raw::sc_bwlock_update(&raw const self.shared, c) != 0 })
    }

    /// The timer of the core's period fired; true if a new period has begun. Checks the lock again,
    /// too.
    pub fn tick(&mut self, core: u32, now_ns: u64) -> Option<bool> {
        let c = self.cores.get_mut(core as usize)?;
        // SAFETY: both are valid.
        Some(unsafe { raw::sc_bwlock_tick(&raw const self.shared, c, now_ns) != 0 })
    }

    /// Number of accesses after which the core's counter must interrupt: 1 to 2^31-1.
    pub fn sample(&self, core: u32) -> Option<u64> {
        let c = self.cores.get(core as usize)?;
        // SAFETY: the core is valid.
        Some(unsafe { raw::sc_bwlock_sample(c) })
    }

    /// Whether the core must not run its task.
    pub fn throttled(&self, core: u32) -> Option<bool> {
        self.cores.get(core as usize).map(|c| c.throttled != 0)
    }

    /// Accesses of tasks that are not real-time, on the core in this period.
    pub fn used(&self, core: u32) -> Option<u64> {
        self.cores.get(core as usize).map(|c| c.used)
    }

    /// Accesses per period that the core may make, as of its last switch, tick or update.
    pub fn budget(&self, core: u32) -> Option<u64> {
        self.cores.get(core as usize).map(|c| c.budget)
    }

    /// Start of the core's next period, in ns.
    pub fn next_ns(&self, core: u32) -> Option<u64> {
        self.cores.get(core as usize).map(|c| c.next_ns)
    }

    /// Number of cores that run a task with the lock.
    pub fn holders(&self) -> u64 {
        self.shared.holders
    }

    /// Number of sections that the task is in; 0 if there is no such task.
    pub fn depth(&self, task: u32) -> u32 {
        self.tasks.get(task as usize).map_or(0, |t| t.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNLIMITED;

    unsafe extern "C" {
        static sc_size_bwlock: u64;
        static sc_size_bwlock_core: u64;
        static sc_size_bwlock_task: u64;
    }

    #[test]
    fn both_sides_have_the_same_layout() {
        // SAFETY: constants of the C side.
        let sizes = unsafe { [sc_size_bwlock, sc_size_bwlock_core, sc_size_bwlock_task] };
        assert_eq!(
            sizes,
            [size_of::<Shared>(), size_of::<LockCore>(), size_of::<LockTask>()].map(|n| n as u64)
        );
    }

    #[test]
    fn a_section_throttles_the_others_and_its_end_frees_them() {
        let mut l = BwLock::new(1000, UNLIMITED, 100, 2, 0).unwrap();
        assert!(l.add(0, true) && l.add(1, false) && !l.add(1, false) && !l.lock(1));
        assert_eq!((l.switch(0, Some(0), 0), l.switch(1, Some(1), 0)), (Some(true), Some(true)));
        assert_eq!(l.account(1, 250), Some(true));
        assert!(l.lock(0) && l.lock(0));
        assert_eq!((l.holders(), l.depth(0), l.update(1)), (1, 2, Some(false)));
        assert_eq!((l.account(0, 1 << 40), l.sample(1)), (Some(true), Some(1)));
        assert!(l.unlock(0) && l.unlock(0) && !l.unlock(0));
        assert_eq!((l.holders(), l.update(1), l.used(1)), (0, Some(true), Some(250)));
    }

    #[test]
    fn a_preempted_holder_releases_and_takes_it_again() {
        let mut l = BwLock::new(1000, 500, 100, 2, 0).unwrap();
        assert!(l.add(0, true) && l.add(1, true) && l.lock(0) && l.holders() == 0);
        assert_eq!((l.switch(0, Some(0), 0), l.holders()), (Some(true), 1));
        assert_eq!((l.switch(1, Some(0), 0), l.holders()), (None, 1), "it runs on core 0");
        assert_eq!((l.switch(0, Some(1), 0), l.holders()), (Some(true), 0));
        assert_eq!((l.switch(0, Some(0), 0), l.holders()), (Some(true), 1));
        assert!(l.exit(0) && !l.exit(0) && !l.lock(0));
        assert_eq!((l.holders(), l.switch(0, Some(0), 0)), (0, None), "it is gone");
        assert_eq!((l.switch(0, None, 0), l.budget(0)), (Some(true), Some(500)));
    }
}
