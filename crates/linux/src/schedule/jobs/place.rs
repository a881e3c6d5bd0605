//! Tasks that are bound to their cores again.
//!
//! Problem: when a core goes offline, the kernel lets the threads that are bound to it run
//! anywhere, and does not take that back when the core returns.
//! Rule: the threads of each task are compared with its core: the one that starts its jobs, those
//! of the running job and of all its children, those of an attached process. The ones that may run
//! elsewhere are bound again, and each time counts.
//! Does not cover: tasks under a scheduler of solocore, which are bound to no core.

use super::{Jobs, Task};
use crate::host::threads::{self, Thread, family};
use crate::schedule::placed::How;
use crate::sys::tasks;
use std::collections::BTreeMap;
use std::path::Path;

/// Most searches for threads that are elsewhere, one after the other.
const PASSES: u32 = 8;

impl Jobs {
    /// Binds what is elsewhere to its core again. `attached`: the start times of attached
    /// processes, as another process may have such a number by now.
    pub fn back_in_place(&self, attached: &BTreeMap<u32, u64>) {
        for task in self.tasks.iter().filter(|t| !t.placed.free && t.placed.how != How::NotRun) {
            // A child may begin meanwhile, with the CPUs that its parent had.
            let bound = (0..PASSES).take_while(|_| bind_again(task, attached) > 0).count();
            task.state().run.displaced += u64::from(bound > 0);
        }
    }
}

/// Binds the threads of a task to its core that may run elsewhere. Returns their number.
fn bind_again(task: &Task, attached: &BTreeMap<u32, u64>) -> usize {
    let core = task.placed.core;
    let elsewhere = |tid: &u32| tasks::affinity_of(*tid).is_ok_and(|cpus| cpus != [core]);
    of_task(task, &threads::all(Path::new("/proc"), None), attached)
        .into_iter()
        .filter(elsewhere)
        // It fails while the core is away.
        .filter(|&tid| tasks::bind(tid, &[core]).is_ok())
        .count()
}

/// The threads of a task, among all threads of the machine.
fn of_task(task: &Task, all: &[Thread], attached: &BTreeMap<u32, u64>) -> Vec<u32> {
    let me = std::process::id();
    let (starter, leader) = {
        let state = task.state();
        (state.thread, state.running.map(|(leader, _)| leader))
    };
    let is_root = |t: &&Thread| match task.placed.how {
        How::Attach(pid) => t.tid == pid && attached.get(&pid) == Some(&t.start),
        _ => Some(t.tid) == leader && t.parent == me,
    };
    let mine = |t: &&Thread| Some(t.tid) == starter && t.tgid == me;
    let starter = all.iter().find(mine).map(|t| t.tid);
    let family = all.iter().find(is_root).map_or_else(Vec::new, |root| family(all, root.tgid));
    starter.into_iter().chain(family).collect()
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
    }
}
