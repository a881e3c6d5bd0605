//! Tasks that are bound to their cores again.
//!
//! Problem: when a core goes offline, the kernel lets the threads that are bound to it run
//! anywhere, and does not take that back when the core returns. Another program may bind them
//! elsewhere at any time (taskset, a change of control groups on Linux before 6.2).
//! Rule: the threads of each task are compared with its core: the one that starts its jobs, those
//! of the running job and of all its children, those of an attached process. The ones that may run
//! elsewhere are bound again, and each time counts. While all CPUs stay, a driver may bind itself,
//! and so may children that an attached process had before.
//! Does not cover: tasks under a scheduler of solocore, which are bound to no core.

use super::Jobs;
use super::job_task::JobTask;
use crate::host::threads::{self, Thread, family};
use crate::schedule::placed::How;
use crate::sys::tasks;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Most searches for threads that are elsewhere, one after the other.
const PASSES: u32 = 8;

impl Jobs {
    /// Binds what is elsewhere to its core again. `attached`: the start times of attached
    /// processes, as another process may have such a number by now; `changed`: whether a CPU went
    /// or came back.
    pub fn back_in_place(&self, attached: &BTreeMap<u32, u64>, changed: bool) {
        let placed = |t: &&Arc<JobTask>| match t.placed.how {
            How::NotRun => false,
            How::Drive(_) => changed && !t.placed.free,
            How::Start(_) | How::Attach(_) => !t.placed.free,
        };
        let mut tasks: Vec<&Arc<JobTask>> = self.tasks.iter().filter(placed).collect();
        for pass in 0..PASSES {
            let all = threads::all(Path::new("/proc"), None);
            // A child may have begun meanwhile, with the CPUs that its parent had.
            tasks.retain(|task| bind_again(task, of_task(task, &all, attached, changed)) > 0);
            if tasks.is_empty() {
                break;
            }
            if pass == 0 {
                tasks.iter().for_each(|task| task.state().run.displaced += 1);
            }
        }
    }
}

/// Binds those of a task's threads to its core that may run elsewhere. Returns their number.
fn bind_again(task: &JobTask, threads: Vec<u32>) -> usize {
    let core = task.placed.core;
    let elsewhere = |tid: &u32| tasks::affinity_of(*tid).is_ok_and(|cpus| cpus != [core]);
    threads
        .into_iter()
        .filter(elsewhere)
        // It fails while the core is away.
        .filter(|&tid| tasks::bind(tid, &[core]).is_ok())
        .count()
}

/// The threads of a task, among all threads of the machine; `changed`: also the children of an
/// attached process.
fn of_task(
    task: &JobTask,
    all: &[Thread],
    attached: &BTreeMap<u32, u64>,
    changed: bool,
) -> Vec<u32> {
    let me = std::process::id();
    let (starter, leader) = {
        let state = task.state();
        (state.thread, state.running.map(|(leader, _)| leader).or(state.prepared))
    };
    let is_root = |t: &&Thread| match task.placed.how {
        How::Attach(pid) => t.tid == pid && attached.get(&pid) == Some(&t.start),
        _ => Some(t.tid) == leader && t.parent == me,
    };
    let mine = |t: &&Thread| Some(t.tid) == starter && t.tgid == me;
    let starter = all.iter().find(mine).map(|t| t.tid);
    let alone = !changed && matches!(task.placed.how, How::Attach(_));
    let below = |root: &Thread| {
        if alone { threads_of(all, root.tgid) } else { family(all, root.tgid) }
    };
    let threads = all.iter().find(is_root).map_or_else(Vec::new, below);
    starter.into_iter().chain(threads).collect()
}

/// The threads of one process.
fn threads_of(all: &[Thread], process: u32) -> Vec<u32> {
    all.iter().filter(|t| t.tgid == process).map(|t| t.tid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_all_children_and_nobody_else() {
        let thread = |tid, tgid, parent| Thread { tid, tgid, parent, start: 0, kernel: false };
        // Grandchildren may have lower numbers; 20 is a thread of 10, 30 a stranger.
        let all = [
            thread(5, 5, 9),
            thread(9, 9, 10),
            thread(10, 10, 1),
            thread(20, 10, 1),
            thread(30, 30, 1),
        ];
        assert_eq!(family(&all, 10), [5, 9, 10, 20]);
        assert_eq!(family(&all, 9), [5, 9]);
        assert_eq!(family(&all, 7), Vec::<u32>::new());
        assert_eq!(threads_of(&all, 10), [10, 20]);
    }
}
