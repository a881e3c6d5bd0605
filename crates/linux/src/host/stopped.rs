//! Jobs that are stopped while solocore ends go on.
//!
//! Rule: every job carries the number of the solocore that started it in its environment
//! ([`MARK`]). All stopped processes with this mark are continued. The kernel lets a reader of an
//! environment wait as long as the process changes its memory. One that does not answer within
//! [`PATIENCE`] is passed over: no process may keep solocore from its work.
//! Does not cover: a job that wiped its environment.

use super::threads::{numbers, start_of};
use crate::sys::tasks;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// How long a process may keep its environment to itself.
const PATIENCE: Duration = Duration::from_secs(1);
const PROC: &str = "/proc";
/// Variable in the environment of every job: the number of the solocore that started it.
pub(crate) const MARK: &str = "SOLOCORE_JOB";

/// Continues every stopped process that the solocore with this number has started.
pub(crate) fn let_go_on(starter: u32) {
    for (pid, by) in jobs().marked {
        if by == starter && is_stopped(&Path::new(PROC).join(pid.to_string())) {
            tasks::signal_one(pid, Signal::CONT);
        }
    }
}

/// Ends every process that a dead solocore started as a job. Returns their number, and the
/// processes that did not say.
pub(crate) fn end_left_over() -> (usize, Vec<u32>) {
    let Jobs { mut marked, silent } = jobs();
    marked.retain(|&(job, starter)| outlived(job, starter));
    marked.iter().for_each(|&(pid, _)| tasks::signal_one(pid, Signal::KILL));
    (marked.len(), silent)
}

/// Whether a job's solocore is dead. A process that began later only has its number.
fn outlived(job: u32, starter: u32) -> bool {
    let begun = |pid: u32| start_of(pid, pid);
    let later = begun(starter).zip(begun(job)).is_some_and(|(starter, job)| starter > job);
    later || is_dead(starter)
}

/// Whether no process with this number runs. One that its parent has not waited for is dead.
pub(crate) fn is_dead(pid: u32) -> bool {
    start_of(pid, pid).is_none()
}

/// The processes with a mark, each with the solocore that started it, and those that did not
/// answer.
#[derive(Debug, Default, PartialEq)]
struct Jobs {
    marked: Vec<(u32, u32)>,
    silent: Vec<u32>,
}

/// All except this one.
fn jobs() -> Jobs {
    let mut all = numbers(Path::new(PROC));
    all.retain(|&pid| pid != std::process::id());
    jobs_of(Path::new(PROC), all, PATIENCE)
}

/// Those of these processes. A thread reads their environments; where it waits for longer than
/// `patience`, it is left behind, and another one goes on with the next process.
fn jobs_of(proc: &Path, mut processes: Vec<u32>, patience: Duration) -> Jobs {
    let mut found = Jobs::default();
    while !processes.is_empty() {
        let (tell, told) = mpsc::channel();
        let paths: Vec<PathBuf> = processes.iter().map(|pid| proc.join(pid.to_string())).collect();
        let read = move || {
            let _ = paths.iter().try_for_each(|path| tell.send(starter_of(path)));
        };
        // This thread itself cannot leave a process that does not answer.
        if std::thread::Builder::new().name("environments".into()).spawn(read).is_err() {
            found.silent.append(&mut processes);
            return found;
        }
        let mut answered = 0;
        while let Ok(starter) = told.recv_timeout(patience) {
            found.marked.extend(starter.map(|starter| (processes[answered], starter)));
            answered += 1;
        }
        found.silent.extend(processes.get(answered));
        processes.drain(..(answered + 1).min(processes.len()));
    }
    found
}

/// The solocore with the mark that a process carries.
fn starter_of(process: &Path) -> Option<u32> {
    let environment = std::fs::read(process.join("environ")).ok()?;
    let mark = format!("{MARK}=");
    let value = environment.split(|&b| b == 0).find_map(|v| v.strip_prefix(mark.as_bytes()))?;
    str::from_utf8(value).ok()?.parse().ok()
}

fn is_stopped(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The name before it may hold anything.
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()) == Some("T")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn jobs_end_with_the_next_start_once_their_solocore_is_dead() {
        let sleeper = |starter: u32| {
            let mut command = Command::new("/bin/sleep");
            command.arg("100").env(MARK, starter.to_string()).spawn().unwrap()
        };
        let (mut orphan, mut child) = (sleeper(u32::MAX - 9), sleeper(std::process::id()));
        let since = Instant::now();
        while orphan.try_wait().unwrap().is_none() {
            // Just after its start a program has no environment that others could read. Another
            // solocore that starts just now may also have been quicker.
            end_left_over();
            assert!(since.elapsed() < Duration::from_secs(5), "it goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(child.try_wait().unwrap().is_none(), "its solocore lives");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_does_not_answer_is_passed_over() {
        let proc = tempfile::tempdir().unwrap();
        let environ = |pid: u32| {
            let process = proc.path().join(pid.to_string());
            std::fs::create_dir(&process).unwrap();
            process.join("environ")
        };
        for pid in [3, 5, 8] {
            std::fs::write(environ(pid), format!("HOME=/\0{MARK}=1{pid}\0")).unwrap();
        }
        std::fs::write(environ(4), "HOME=/\0").unwrap();
        // Whoever opens a pipe waits until somebody writes into it.
        for pid in [2, 6, 7, 9] {
            assert!(Command::new("mkfifo").arg(environ(pid)).status().unwrap().success());
        }
        let processes: Vec<u32> = (2..=9).collect();
        let patience = Duration::from_millis(300);
        let expected = Jobs { marked: vec![(3, 13), (5, 15), (8, 18)], silent: vec![2, 6, 7, 9] };
        assert_eq!(jobs_of(proc.path(), processes, patience), expected);
        assert_eq!(jobs_of(proc.path(), vec![], patience), Jobs::default());
        assert_eq!(jobs_of(proc.path(), vec![4], patience), Jobs::default());
    }

    #[test]
    fn a_process_that_nobody_has_waited_for_is_dead_and_a_later_one_is_another() {
        let me = std::process::id();
        assert!(!is_dead(me) && is_dead(u32::MAX - 9));
        // Its start differs by some ticks of 10 ms.
        std::thread::sleep(Duration::from_millis(50));
        let mut child = Command::new("/bin/sleep").arg("100").spawn().unwrap();
        assert!(!outlived(child.id(), me), "its solocore lives");
        assert!(outlived(me, child.id()), "a later process has the number of a dead solocore");
        child.kill().unwrap();
        let since = Instant::now();
        while !is_dead(child.id()) {
            assert!(since.elapsed() < Duration::from_secs(5), "a zombie counts as alive");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.wait().unwrap();
    }

    #[test]
    fn what_a_dead_solocore_stopped_goes_on() {
        // A starter that lives: the test above ends the processes of dead ones.
        let starter = 1;
        let mut child =
            Command::new("/bin/sleep").arg("100").env(MARK, starter.to_string()).spawn().unwrap();
        let mut other = Command::new("/bin/sleep").arg("100").spawn().unwrap();
        let process = |pid: u32| Path::new("/proc").join(pid.to_string());
        for pid in [child.id(), other.id()] {
            tasks::signal_one(pid, Signal::STOP);
            let since = Instant::now();
            while !is_stopped(&process(pid)) {
                assert!(since.elapsed() < Duration::from_secs(5), "it does not stop");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let_go_on(starter);
        let since = Instant::now();
        while is_stopped(&process(child.id())) {
            assert!(since.elapsed() < Duration::from_secs(5), "it stays stopped");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(is_stopped(&process(other.id())), "this one is not ours");
        for child in [&mut child, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
