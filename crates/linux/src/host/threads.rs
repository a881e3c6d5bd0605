//! The CPUs and the scheduling of the machine's threads: looked up, changed, and put back.
//!
//! Problem: the children of a thread inherit its changed settings, and numbers of threads are used
//! again.
//! Rule: a change is recorded with the thread's start time before it is made. Putting back changes
//! a thread only if its state is as solocore left it: a thread that another program has changed
//! since is kept. A thread without a record takes that of its process, or of its nearest ancestor
//! that has one.
//! Does not cover: a thread that started in between and bound itself to exactly its ancestor's new
//! CPUs: it is put back with the others.

use crate::error::LinuxError;
use crate::host::machine::{cpu_list, parse_cpu_list};
use crate::host::said::say;
use crate::sys::{Scheduling, tasks};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::Path;

/// `PF_KTHREAD`.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Maximum length of a chain of ancestors.
const GENERATIONS: usize = 64;

/// A thread of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// The parent of its process.
    pub parent: u32,
    /// Start time, in ticks since boot.
    pub start: u64,
    pub kernel: bool,
}

/// The threads of a process that is to be a task of a plan (`--attach TASK=PID`).
///
/// # Errors
/// There is no such process, or it is one of the kernel.
pub(crate) fn to_attach(task: &str, pid: u32) -> Result<Vec<Thread>, LinuxError> {
    let all = all(Path::new("/proc"), Some(pid));
    if all.is_empty() || all.iter().any(|thread| thread.kernel) {
        return Err(LinuxError::Input(format!(
            "--attach {task}={pid}: this process does not exist, or it is the kernel's; give the \
            number of a running program"
        )));
    }
    Ok(all)
}

/// All threads below `/proc`, or those of one process.
pub(crate) fn all(proc: &Path, only: Option<u32>) -> Vec<Thread> {
    let mut threads = Vec::new();
    let processes = match only {
        Some(pid) => vec![pid],
        None => numbers(proc),
    };
    for tgid in processes {
        let tasks = proc.join(tgid.to_string()).join("task");
        for tid in numbers(&tasks) {
            let stat = fs::read_to_string(tasks.join(tid.to_string()).join("stat"));
            threads.extend(stat.ok().and_then(|s| parse(tid, tgid, &s)));
        }
    }
    threads
}

/// Entries of a directory that are numbers, in order.
pub(crate) fn numbers(dir: &Path) -> Vec<u32> {
    let mut found: Vec<u32> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

/// The threads of a process and of its children, their children, and so on.
pub(crate) fn family(all: &[Thread], root: u32) -> Vec<u32> {
    let mut processes = BTreeSet::from([root]);
    loop {
        let before = processes.len();
        let children: Vec<u32> =
            all.iter().filter(|t| processes.contains(&t.parent)).map(|t| t.tgid).collect();
        processes.extend(children);
        if processes.len() == before {
            return all.iter().filter(|t| processes.contains(&t.tgid)).map(|t| t.tid).collect();
        }
    }
}

/// Reads `/proc/PID/task/TID/stat`; the name in it may contain anything, also brackets and spaces.
fn parse(tid: u32, tgid: u32, stat: &str) -> Option<Thread> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    Some(Thread {
        tid,
        tgid,
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
        kernel: flags & KERNEL_THREAD != 0,
    })
}

/// The changed property of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// CPUs before and after. Equal lists: the thread was seen, and nothing is to be put back.
    Cpus(Vec<u32>, Vec<u32>),
    /// Policy and priority before and after.
    Scheduling((i32, i32), (i32, i32)),
}

impl What {
    /// Whether an earlier change of the same thread needs no way back beside this one: it led to
    /// the same state, which this one leaves for another.
    pub fn replaces(&self, earlier: &Self) -> bool {
        self == earlier
            || match (self, earlier) {
                (Self::Cpus(old, new), Self::Cpus(_, same)) => old != new && new == same,
                (Self::Scheduling(old, new), Self::Scheduling(_, same)) => {
                    old != new && new == same
                }
                _ => false,
            }
    }

    /// Whether this change begins at the state to which an earlier one led.
    pub fn follows(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::Cpus(old, new), Self::Cpus(_, state)) => old != new && old == state,
            (Self::Scheduling(old, new), Self::Scheduling(_, state)) => old != new && old == state,
            _ => false,
        }
    }
}

/// A change of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadChange {
    pub tid: u32,
    pub start: u64,
    pub what: What,
}

impl ThreadChange {
    /// Makes the change.
    pub fn make(&self) -> io::Result<()> {
        match &self.what {
            What::Cpus(_, new) => tasks::bind(self.tid, new),
            What::Scheduling(_, new) => Scheduling::from_numbers(new.0, new.1).apply_to(self.tid),
        }
    }

    /// The change on one line, for the keeper.
    pub fn encode(&self) -> String {
        let what = match &self.what {
            What::Cpus(old, new) => format!("cpus\t{}\t{}", cpu_list(old), cpu_list(new)),
            What::Scheduling(old, new) => {
                format!("sched\t{}\t{}\t{}\t{}", old.0, old.1, new.0, new.1)
            }
        };
        format!("{}\t{}\t{what}", self.tid, self.start)
    }

    /// The reverse of [`Self::encode`].
    pub fn decode(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split('\t').collect();
        let (tid, start) = (fields.first()?.parse().ok()?, fields.get(1)?.parse().ok()?);
        let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
        let what = match *fields.get(2)? {
            "cpus" => What::Cpus(parse_cpu_list(fields.get(3)?), parse_cpu_list(fields.get(4)?)),
            "sched" => What::Scheduling((number(3)?, number(4)?), (number(5)?, number(6)?)),
            _ => return None,
        };
        Some(Self { tid, start, what })
    }

    /// Whether its thread has ended. Nobody inherits from that one: the kernel has given its
    /// children another parent.
    pub fn has_ended(&self) -> bool {
        match fs::read_to_string(format!("/proc/{0}/task/{0}/stat", self.tid)) {
            Ok(stat) => parse(self.tid, self.tid, &stat).is_some_and(|t| t.start != self.start),
            Err(e) => e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH),
        }
    }

    /// Puts a thread back, if its state is the one that this change left, to it or to an ancestor.
    pub fn undo(&self, tid: u32) -> io::Result<()> {
        match &self.what {
            What::Cpus(old, new) if old != new && tasks::affinity_of(tid)? == *new => {
                tasks::bind(tid, old)
            }
            What::Scheduling(old, new) if old != new && Scheduling::of(tid)?.numbers() == *new => {
                Scheduling::from_numbers(old.0, old.1).apply_to(tid)
            }
            _ => Ok(()),
        }
    }
}

/// Puts all threads back, also those that started in between. `changes` are in the reverse order of
/// their making. Returns those that failed for some thread, in the order of their making.
pub(crate) fn put_back(changes: &[ThreadChange]) -> Vec<ThreadChange> {
    if changes.is_empty() {
        return Vec::new();
    }
    let mut records: HashMap<(u32, u64), Vec<&ThreadChange>> = HashMap::new();
    for change in changes {
        records.entry((change.tid, change.start)).or_default().push(change);
    }
    let threads = all(Path::new("/proc"), None);
    let by_tid: HashMap<u32, &Thread> = threads.iter().map(|t| (t.tid, t)).collect();
    let mut failed: Vec<&ThreadChange> = Vec::new();
    for thread in threads.iter().filter(|t| !t.kernel) {
        for change in inherited(thread, &records, &by_tid) {
            match change.undo(thread.tid) {
                Ok(()) => {}
                // The thread has ended meanwhile.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                Err(e) => {
                    say(format_args!(
                        "solocore: thread {} cannot be put back: {e}; set its affinity by hand \
                            (taskset)",
                        thread.tid
                    ));
                    failed.push(change);
                }
            }
        }
    }
    changes.iter().rev().filter(|change| failed.contains(change)).cloned().collect()
}

/// The record of the thread, its process, or its nearest ancestor that has one.
fn inherited<'c>(
    thread: &Thread,
    records: &HashMap<(u32, u64), Vec<&'c ThreadChange>>,
    by_tid: &HashMap<u32, &Thread>,
) -> Vec<&'c ThreadChange> {
    let mut at = Some(thread);
    for _ in 0..GENERATIONS {
        let Some(now) = at else { break };
        if let Some(found) = records.get(&(now.tid, now.start)) {
            return found.clone();
        }
        at = by_tid.get(if now.tid == now.tgid { &now.parent } else { &now.tgid }).copied();
    }
    Vec::new()
}

/// Time at which a thread of a process started, in hundredths of a second since boot. `None` if the
/// process has no such thread, or the thread is dead.
pub(crate) fn start_of(pid: u32, thread: u32) -> Option<u64> {
    started(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?)
}

fn started(stat: &str) -> Option<u64> {
    // The name may contain anything, but nothing after it contains a bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A name from another program, made safe for a log: it contains no line ends, no control
/// characters of a terminal, and none that turn the direction of the text.
pub(crate) fn printable(name: &str) -> String {
    let turns = ['\u{200e}', '\u{200f}', '\u{061c}'];
    let ranges = ['\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    let unsafe_in_a_log =
        |c: char| c.is_control() || turns.contains(&c) || ranges.iter().any(|r| r.contains(&c));
    name.chars().map(|c| if unsafe_in_a_log(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_line_is_read_whatever_its_name() {
        let stat = "7 (a) b (c) S 3 7 7 0 -1 2097216 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        let thread = parse(7, 7, stat).unwrap();
        assert_eq!(thread, Thread { tid: 7, tgid: 7, parent: 3, start: 4711, kernel: true });
        assert_eq!(parse(7, 7, "7 (x) S 3"), None);
        assert_eq!(parse(7, 7, ""), None);
        let me = all(Path::new("/proc"), Some(std::process::id()));
        assert!(me.iter().any(|t| t.tid == std::process::id() && !t.kernel && t.start > 0));
    }

    #[test]
    fn a_family_has_children_of_children_and_no_stranger() {
        let thread = |tid, tgid, parent| Thread { tid, tgid, parent, start: 0, kernel: false };
        let all =
            [thread(5, 5, 1), thread(9, 9, 7), thread(7, 7, 5), thread(8, 7, 5), thread(6, 6, 1)];
        assert_eq!(family(&all, 5), [5, 9, 7, 8]);
        assert_eq!(family(&all, 7), [9, 7, 8]);
    }

    #[test]
    fn a_name_is_one_line_that_moves_no_cursor() {
        assert_eq!(printable("x\n<2>lie\r\t\0"), "x?<2>lie???");
        assert_eq!(printable("\x1b[2J\u{9b}31m\x7f"), "?[2J?31m?");
        assert_eq!(printable("a\u{202e}b\u{2028}c\u{2066}d\u{200f}"), "a?b?c?d?");
        for plain in ["ffmpeg -i", "café", "\u{65e5}\u{672c}", "(a) [b]", ""] {
            assert_eq!(printable(plain), plain);
        }
    }

    #[test]
    fn changes_survive_the_keepers_pipe() {
        let cpus = ThreadChange { tid: 5, start: 9, what: What::Cpus(vec![0, 1, 2], vec![2]) };
        let sched = ThreadChange { tid: 5, start: 9, what: What::Scheduling((0, 0), (1, 89)) };
        for change in [cpus, sched] {
            assert_eq!(ThreadChange::decode(&change.encode()), Some(change));
        }
        for wrong in ["", "5", "5\t9", "5\t9\tcpus", "5\t9\tsched\t1\t2\t3", "x\t9\tcpus\t0\t1"] {
            assert_eq!(ThreadChange::decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_record_is_inherited_from_the_nearest() {
        let thread =
            |tid, tgid, parent| Thread { tid, tgid, parent, start: u64::from(tid), kernel: false };
        let all =
            [thread(1, 1, 0), thread(5, 5, 1), thread(6, 5, 1), thread(9, 9, 5), thread(11, 9, 5)];
        let by_tid: HashMap<u32, &Thread> = all.iter().map(|t| (t.tid, t)).collect();
        let of = |tid| ThreadChange {
            tid,
            start: u64::from(tid),
            what: What::Cpus(vec![0, 1], vec![tid]),
        };
        let (first, fifth) = (of(1), of(5));
        let stale = ThreadChange { start: 1234, ..of(9) };
        let mut records = HashMap::new();
        for change in [&first, &fifth, &stale] {
            records.entry((change.tid, change.start)).or_insert_with(Vec::new).push(change);
        }
        for (at, from) in [(0, 1), (1, 5), (2, 5), (3, 5), (4, 5)] {
            let found = inherited(&all[at], &records, &by_tid);
            assert_eq!(
                found.iter().map(|c| c.tid).collect::<Vec<_>>(),
                [from],
                "thread {}",
                all[at].tid
            );
        }
        assert!(inherited(&thread(7, 7, 0), &records, &by_tid).is_empty());
    }

    #[test]
    fn the_end_of_a_thread_is_known() {
        let me = std::process::id();
        let of = |tid: u32, start| ThreadChange { tid, start, what: What::Cpus(vec![0], vec![1]) };
        let start = start_of(me, me).unwrap();
        assert!(!of(me, start).has_ended());
        assert!(of(me, start + 1).has_ended(), "a later thread has its number");
        assert!(of(u32::MAX - 9, start).has_ended());
        std::thread::spawn(move || {
            let thread = tasks::thread_number();
            assert!(!of(thread, start_of(me, thread).unwrap()).has_ended(), "no leader");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_somebody_else_changed_stays() {
        std::thread::spawn(|| {
            let before = tasks::affinity_of(0).unwrap();
            let last = *before.last().unwrap();
            tasks::bind(0, &[last]).unwrap();
            let undo = |new: Vec<u32>| {
                let what = What::Cpus(before.clone(), new);
                ThreadChange { tid: 0, start: 0, what }.undo(0).unwrap();
                tasks::affinity_of(0).unwrap()
            };
            assert_eq!(undo(vec![last + 1]), [last], "it is not as it was left");
            assert_eq!(undo(vec![last]), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_threads_start_is_read_whatever_its_name() {
        let line = |state: &str| {
            let numbers: Vec<String> = (4..30).map(|n| n.to_string()).collect();
            format!("77 (a) b (x) {state} {}", numbers.join(" "))
        };
        assert_eq!(started(&line("S")), Some(22));
        assert_eq!(started(&line("Z")), None);
        assert_eq!(started(""), None);
        let me = std::process::id();
        assert!(start_of(me, me).is_some());
        assert_eq!(start_of(me, 1), None, "a thread of another process");
    }
}
