//! Message buffers of a plan with levels, in queues of unmodified programs.
//!
//! Problem: the plan says where the buffer of each message lies, and the programs make their queues
//! themselves. Rule: a queue that `--queues` names lies in frames of the program that makes it. So
//! a buffer under CE, between tasks of levels A and B of one core, and one of level C lie where the
//! plan has them if both tasks run in their frames. The promise is checked by the files of shared
//! memory that processes of both tasks map: one of them is a queue, and none has a page in another
//! frame. Before both tasks were looked at, it is kept by their frames alone. Buffers under SBP and
//! CL are not kept, because an unmodified program neither bypasses the cache nor locks lines.
//! Source: mc2-os-isolation, section 4.2. Does not cover: which of the queues between two tasks is
//! the message's (all have to lie right); messages by other means; I/O buffers.

use super::frames::Region;
use crate::schedule::coloured::SharedMemory;
use solocore_model::Plan;
use solocore_model::plan::levels::{LevelsMessage, Method};
use solocore_model::plan::{Promise, Subject};

/// Beginnings of the paths of queues (crates/space/preload/messages.c, sysv.c).
const QUEUES: [&str; 2] = ["/dev/shm/solocore-queue-", "/dev/shm/solocore-messages-"];

/// The task at an end of a message.
pub(super) struct End {
    /// Its region; `None`: the plan has no such task.
    pub region: Option<Region>,
    /// Whether solocore starts it.
    pub starts: bool,
    /// Shared memory that it was seen with; `None`: the run has not started yet.
    pub memory: Option<SharedMemory>,
}

/// The message that a promise is about.
pub(super) fn of<'p>(plan: &'p Plan, promise: &Promise) -> Option<&'p LevelsMessage> {
    let levels = plan.levels().filter(|_| promise.subject == Subject::Buffer)?;
    let named = |m: &&LevelsMessage| promise.resource == format!("message {} to {}", m.from, m.to);
    levels.messages.iter().find(named)
}

/// Whether queues of its tasks lie where the plan has the buffer.
pub(super) fn planned(
    message: &LevelsMessage,
    ends: &[End; 2],
    queues: bool,
) -> Result<(), String> {
    let programs = |what: &str| {
        Err(format!(
            "the plan has this buffer {what}, and a queue of an unmodified program cannot be that; \
                let the programs place it (solocore_ipc.h), and give --vouch buffer"
        ))
    };
    match message.method {
        Method::Bypass => return programs("uncacheable (SBP)"),
        Method::Locked => return programs("locked in the cache (CL)"),
        Method::Together | Method::LevelC => {}
    }
    if !queues {
        return Err(
            "queues lie in the kernel's memory, in any frames; name this one in --queues, or let \
                the programs place it and give --vouch buffer"
                .to_owned(),
        );
    }
    let idle = [&message.from, &message.to].into_iter().zip(ends).find(|(_, end)| !end.starts);
    if let Some((task, _)) = idle {
        return Err(format!(
            "solocore does not start `{task}`, so its queues are not in planned frames; give \
                --start, or --command {task}=COMMAND"
        ));
    }
    let there = match (message.method, ends[0].region) {
        (Method::LevelC, region) => region == Some(Region::LevelC),
        (_, Some(Region::Core(core))) => message.bank == Some(core),
        _ => false,
    };
    if !there || ends[0].region != ends[1].region {
        return Err(
            "its tasks have frames of their own each, so their queues are not where the plan has \
                this buffer; make the plan again"
                .to_owned(),
        );
    }
    Ok(())
}

/// The observations of its queue; the promise is kept by the frames of its tasks.
pub(super) fn measured(message: &LevelsMessage, ends: &[End; 2]) -> Result<String, String> {
    let (from, to) = (&message.from, &message.to);
    let looked = |end: &End| end.memory.clone().filter(|memory| memory.looks > 0);
    let (Some(one), Some(other)) = (looked(&ends[0]), looked(&ends[1])) else {
        return Ok(format!("queues of `{from}` and `{to}` lie in their frames"));
    };
    let is_queue = |path: &str| QUEUES.iter().any(|start| path.starts_with(start));
    let both = one.files.values().filter_map(|file| Some((file, other.files.get(&file.inode)?)));
    let queues: Vec<_> = both.filter(|(a, b)| is_queue(&a.path) || is_queue(&b.path)).collect();
    if queues.is_empty() {
        return Err(format!(
            "no queue that both `{from}` and `{to}` have mapped was seen; name it in --queues, and \
                leave it open until their jobs end"
        ));
    }
    let wrong: u64 = queues.iter().map(|(a, b)| a.pages.wrong.max(b.pages.wrong)).sum();
    let pages: u64 = queues.iter().map(|(a, b)| a.pages.resident.max(b.pages.resident)).sum();
    if wrong > 0 {
        return Err(format!(
            "{wrong} of {pages} pages of the queue between `{from}` and `{to}` were found in other \
                frames; remove a queue that an earlier program left, and start its programs as root"
        ));
    }
    Ok(format!("{pages} pages of the queue between `{from}` and `{to}` were found in their frames"))
}

#[cfg(test)]
mod tests {
    use super::super::frames::example;
    use super::*;
    use solocore_space::audit::{Share, SharedFile};

    fn message(from: &str) -> LevelsMessage {
        let plan = example::plan();
        let levels = plan.levels().unwrap();
        levels.messages.iter().find(|m| m.from == from).unwrap().clone()
    }

    fn end(region: Region) -> End {
        End { region: Some(region), starts: true, memory: None }
    }

    /// An end with a look at a process that has this file.
    fn seen(path: &str, wrong: u64) -> End {
        let pages = Share { resident: 5, wrong };
        let mut memory = SharedMemory::default();
        memory.add([SharedFile { inode: 7, path: path.to_owned(), pages }]);
        End { memory: Some(memory), ..end(Region::Core(0)) }
    }

    #[test]
    fn a_promise_names_its_message() {
        let plan = example::plan();
        let of = |subject, resource: &str| {
            let promise = Promise::new(subject, resource, Vec::new(), String::new());
            of(&plan, &promise).map(|m| (m.from.clone(), m.to.clone()))
        };
        let want = Some(("a".to_owned(), "b".to_owned()));
        assert_eq!(of(Subject::Buffer, "message a to b"), want);
        assert_eq!(of(Subject::Buffer, "message b to a"), None);
        assert_eq!(of(Subject::Buffer, "buffer camera of a"), None);
        assert_eq!(of(Subject::Place, "message a to b"), None);
    }

    #[test]
    fn queues_of_one_region_lie_where_the_plan_has_ce_and_c() {
        let (core, level_c) = (Region::Core(0), Region::LevelC);
        let (together, of_c) = (message("a"), message("c"));
        assert_eq!(planned(&together, &[end(core), end(core)], true), Ok(()));
        assert_eq!(planned(&of_c, &[end(level_c), end(level_c)], true), Ok(()));
        let open =
            |m: &LevelsMessage, ends: [End; 2], queues| planned(m, &ends, queues).unwrap_err();
        assert!(
            open(&together, [end(core), end(core)], false).contains("name this one in --queues")
        );
        let idle = End { starts: false, ..end(core) };
        assert!(open(&together, [end(core), idle], true).contains("does not start `b`"));
        // An edited plan has other cores.
        let apart = [end(core), end(Region::Core(1))];
        assert!(open(&together, apart, true).contains("make the plan again"));
        assert!(open(&together, [end(level_c), end(level_c)], true).contains("plan again"));
        assert!(open(&of_c, [end(core), end(core)], true).contains("plan again"));
    }

    #[test]
    fn what_no_queue_of_a_program_does_is_named() {
        let plan = example::plan();
        let messages = &plan.levels().unwrap().messages;
        let open = |method: Method| {
            let message = messages.iter().find(|m| m.method == method).unwrap();
            let ends = [end(Region::Core(0)), end(Region::Core(1))];
            planned(message, &ends, true).unwrap_err()
        };
        assert!(open(Method::Bypass).contains("uncacheable (SBP)"));
        let locked = open(Method::Locked);
        assert!(locked.contains("(CL)") && locked.contains("--vouch buffer"), "{locked}");
    }

    #[test]
    fn the_queue_of_both_tasks_is_what_is_checked() {
        let message = message("a");
        let queue = "/dev/shm/solocore-queue-frames";
        let before = measured(&message, &[end(Region::Core(0)), seen(queue, 0)]);
        assert!(before.unwrap().contains("lie in their frames"), "one of them was not seen yet");
        // Its maker has it without a name.
        let right = measured(&message, &[seen("/dev/shm/#7", 0), seen(queue, 0)]).unwrap();
        assert!(right.starts_with("5 pages of the queue between `a` and `b`"), "{right}");
        let system_v = "/dev/shm/solocore-messages-4026531839-key-4d2";
        assert!(measured(&message, &[seen(system_v, 0), seen(system_v, 0)]).is_ok());
        let wrong = measured(&message, &[seen("/dev/shm/#7", 2), seen(queue, 0)]).unwrap_err();
        assert!(wrong.contains("2 of 5 pages"), "{wrong}");
        let other = measured(&message, &[seen("/dev/shm/mine", 0), seen("/dev/shm/mine", 0)]);
        assert!(other.unwrap_err().contains("no queue that both"));
        let mut none = seen(queue, 0);
        none.memory = Some(SharedMemory { looks: 1, ..SharedMemory::default() });
        assert!(measured(&message, &[none, seen(queue, 0)]).is_err());
    }
}
