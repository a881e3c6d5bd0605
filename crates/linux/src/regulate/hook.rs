//! Programs that the kernel calls at its own events: at each change of tasks (`switched` in
//! bpf/regulate.h), and after those of counters (`catch_up` in bpf/sched_ext.bpf.c). A run can do
//! without the first one. Without the others the engine does not start, and `auto` takes the next.
//!
//! Problem: a kernel may refuse to load the first one, or load it and then refuse to call it. Rule:
//! both end no run. The others of the programs go on as without it, and the user is told what is
//! missing. It is attached before the timers, so no CPU is regulated yet.
//! Does not cover: counters and timers, without which nothing is regulated.

use super::bpf::inside;
use crate::error::LinuxError;
use libbpf_rs::{Link, Object};

/// The program at each change of tasks.
pub(super) const AT_SWITCHES: &str = "switched";
/// The programs that are called after a counter interrupted, and do the rest.
pub(super) const AFTER_COUNTERS: [&str; 2] = ["catch_up_first", "catch_up_last"];

/// Note for the user on a run without the program. `lock`: under the bandwidth lock.
pub(super) fn without(lock: bool, refused: &LinuxError) -> String {
    let missing = if lock {
        "the holders of the bandwidth lock are known only at each check, not at each change of \
            tasks, so a slowdown that the plan keeps by lock = \"auto\" can be exceeded"
    } else {
        "accesses of threads without a budget are not counted apart"
    };
    format!("{missing}: {refused}")
}

/// The link, or a note for the user if the kernel refused it. `None`: the program is not loaded.
pub(super) fn or_without<T>(
    attached: Option<Result<T, LinuxError>>,
    lock: bool,
) -> (Option<T>, Option<String>) {
    match attached {
        None => (None, None),
        Some(Ok(link)) => (Some(link), None),
        Some(Err(refused)) => (None, Some(without(lock, &refused))),
    }
}

/// Has the kernel call a program at its event.
pub(super) fn attach(object: &Object, name: &str) -> Result<Link, LinuxError> {
    let found = object.progs_mut().find(|p| p.name() == name);
    let program = found.ok_or_else(|| inside(&format!("there is no program `{name}`")))?;
    program.attach().map_err(|e| {
        let (when, remedy) = match name {
            AT_SWITCHES => ("at the change of tasks", "`solocore doctor` says what it can do"),
            _ => ("at an interrupt", "use --engine helper"),
        };
        LinuxError::Machine(format!(
            "this kernel does not call a BPF program {when}: {e}; {remedy}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when a program that loads, and that the kernel does not call, ends a run or says
    /// nothing.
    #[test]
    fn a_refusal_is_a_note_and_no_end() {
        let refused = || Some(Err::<u8, _>(LinuxError::Machine("not called; why".to_owned())));
        for (lock, word) in [(false, "not counted apart"), (true, "lock = \"auto\"")] {
            let (link, note) = or_without(refused(), lock);
            let note = note.unwrap();
            assert_eq!(link, None);
            assert!(note.contains(word) && note.ends_with(": not called; why"), "{note}");
        }
        assert_eq!(or_without(Some(Ok(7)), false), (Some(7), None));
        assert_eq!(or_without::<u8>(None, true), (None, None), "its load was refused, and told");
    }
}
