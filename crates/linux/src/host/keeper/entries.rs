//! Lines of the keeper: the changes, and the way back.

use crate::host::said::say;
use crate::host::stopped;
use crate::host::threads::{self, ThreadChange};
use crate::sys;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

const DEBUGFS: &str = "debugfs:";
/// Mark of a line: the last setting was not changed after all.
pub(super) const FORGET: &str = "@forget";
/// Prefix of the path of a directory that was made.
pub(super) const DIRECTORY: &str = "@directory\t";
/// Prefix of the number of a solocore; its stopped jobs are to go on.
pub(super) const GO_ON: &str = "@go-on\t";
/// Prefix of the path of a socket; its file goes when nobody listens there.
pub(super) const SOCKET: &str = "@socket\t";
/// Prefix of a change to a thread.
pub(super) const THREAD: &str = "@thread\t";
/// Attempts at an action while the kernel says that something is busy (`EBUSY`).
const ATTEMPTS: u32 = 10;
/// Time between two of them.
const PAUSE: Duration = Duration::from_millis(10);

fn open(debugfs: Option<&OwnedFd>, path: &str, for_writing: bool) -> io::Result<fs::File> {
    match path.strip_prefix(DEBUGFS) {
        None if for_writing => fs::OpenOptions::new().write(true).open(path),
        None => fs::File::open(path),
        Some(path) => {
            let dir = debugfs.ok_or_else(|| io::Error::other("debugfs cannot be opened"))?;
            sys::open_at(dir, path, for_writing)
        }
    }
}

pub(super) fn read(debugfs: Option<&OwnedFd>, path: &str) -> io::Result<String> {
    let mut text = String::new();
    open(debugfs, path, false)?.read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn write(debugfs: Option<&OwnedFd>, path: &str, value: &str) -> io::Result<()> {
    // An empty list is written as an empty line: zero bytes would be not a write.
    // resctrl takes whole lines only.
    let value =
        if value.is_empty() || path.ends_with("/schemata") { &format!("{value}\n") } else { value };
    open(debugfs, path, true)?.write_all(value.as_bytes())
}

/// Repeats an action that the kernel refuses for a moment (`EBUSY`), because a process of a group
/// is about to end. Returns the last refusal.
pub(super) fn patiently<T>(mut action: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match action() {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => sleep(PAUSE),
            done => return done,
        }
    }
    action()
}

/// A line that the keeper undoes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Setting(String, String),
    Directory(String),
    GoOn(u32),
    Socket(String),
    Thread(ThreadChange),
}

impl Entry {
    /// The line, without its end.
    pub fn line(&self) -> String {
        match self {
            Self::Setting(path, value) => format!("{path}\t{value}"),
            Self::Directory(path) => format!("{DIRECTORY}{path}"),
            Self::GoOn(starter) => format!("{GO_ON}{starter}"),
            Self::Socket(path) => format!("{SOCKET}{path}"),
            Self::Thread(change) => format!("{THREAD}{}", change.encode()),
        }
    }
}

/// The entries of the keeper's input, without the withdrawn ones.
pub(super) fn entries(lines: impl Iterator<Item = String>) -> Vec<Entry> {
    let mut entries = Vec::new();
    lines.for_each(|line| add(&mut entries, &line));
    entries
}

/// Adds the entry of a line, or withdraws the last one.
pub(super) fn add(entries: &mut Vec<Entry>, line: &str) {
    if line == FORGET {
        entries.pop();
    } else if let Some(change) = line.strip_prefix(THREAD) {
        entries.extend(ThreadChange::decode(change).map(Entry::Thread));
    } else if let Some(starter) = line.strip_prefix(GO_ON) {
        entries.extend(starter.parse().map(Entry::GoOn));
    } else if let Some(path) = line.strip_prefix(SOCKET) {
        entries.push(Entry::Socket(path.to_owned()));
    } else if let Some(path) = line.strip_prefix(DIRECTORY) {
        entries.push(Entry::Directory(path.to_owned()));
    } else if let Some((path, value)) = line.split_once('\t') {
        entries.push(Entry::Setting(path.to_owned(), value.to_owned()));
    }
}

/// Removes a directory of the kernel's that was made.
fn remove(path: &str) -> io::Result<()> {
    match patiently(|| fs::remove_dir(path)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Tells the user of a path that cannot be removed. Returns whether it cannot.
fn refused(path: &str, command: &str, removed: io::Result<()>) -> bool {
    removed
        .inspect_err(|e| {
            say(format_args!(
                "solocore: {path} cannot be removed: {e}; remove it by hand ({command})"
            ));
        })
        .is_err()
}

/// Removes the file of a socket. A socket on which another daemon listens by then stays, as does a
/// file of another kind.
fn remove_socket(path: &str) -> io::Result<()> {
    let left = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type().is_socket(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => false,
        Err(e) => return Err(e),
    };
    let dead = |e: io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
    if left && UnixStream::connect(path).is_err_and(dead) { fs::remove_file(path) } else { Ok(()) }
}

/// Undoes all entries, last first. Returns those that failed, in their order.
pub(super) fn put_back(entries: Vec<Entry>) -> Vec<Entry> {
    let debugfs = sys::debugfs().ok();
    let mut failed = Vec::new();
    let mut changes = Vec::new();
    for entry in entries.into_iter().rev() {
        let fails = match &entry {
            Entry::Thread(change) => {
                changes.push(change.clone());
                false
            }
            Entry::GoOn(starter) => {
                stopped::let_go_on(*starter);
                false
            }
            Entry::Directory(path) => refused(path, "rmdir", remove(path)),
            Entry::Socket(path) => refused(path, "rm", remove_socket(path)),
            Entry::Setting(path, value) => unset(debugfs.as_ref(), path, value),
        };
        failed.extend(fails.then_some(entry));
    }
    failed.reverse();
    failed.extend(threads::put_back(&changes).into_iter().map(Entry::Thread));
    failed
}

/// Puts a setting back. Returns whether it cannot be, and tells the user so.
fn unset(debugfs: Option<&OwnedFd>, path: &str, value: &str) -> bool {
    let controller = path.strip_suffix("/cgroup.subtree_control").filter(|_| value == "-cpuset");
    let once = || write(debugfs, path, value);
    // A controller that is enabled further below stays busy.
    let written = if controller.is_some() { once() } else { patiently(once) };
    let Err(e) = written else { return false };
    // An interrupt goes with its device, a control group with its maker; settings of debugfs do
    // not.
    let gone = e.kind() == io::ErrorKind::NotFound && !path.starts_with(DEBUGFS);
    if gone {
        return false;
    }
    if let Some(group) = controller.filter(|_| e.kind() == io::ErrorKind::ResourceBusy)
        && let Ok(stay) = widen(Path::new(group))
    {
        return stay > 0;
    }
    say(format_args!(
        "solocore: {path} cannot be put back to {value}: {e}; write it there by hand"
    ));
    true
}

/// A controller that is enabled further below cannot be removed. Then each group below that has a
/// list gets all CPUs of its parent, so that it limits nothing. Returns the number of groups that
/// stay limited, each of which is named.
fn widen(group: &Path) -> io::Result<usize> {
    let all = fs::read_to_string(group.join("cpuset.cpus.effective"))?;
    let below = fs::read_dir(group)?.flatten().map(|e| e.path()).filter(|p| p.is_dir());
    let mut lists: Vec<PathBuf> = below.map(|p| p.join("cpuset.cpus")).collect();
    lists.sort();
    Ok(lists.iter().filter(|list| stays_limited(list, all.trim())).count())
}

/// Writes all CPUs into a group's list. Returns whether it cannot be, and tells the user so.
fn stays_limited(list: &Path, all: &str) -> bool {
    let gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    let limits = fs::read_to_string(list).map_or_else(|e| !gone(&e), |is| !is.trim().is_empty());
    if !limits {
        return false;
    }
    let path = list.display().to_string();
    match patiently(|| write(None, &path, all)) {
        Err(e) if !gone(&e) => {
            say(format_args!(
                "solocore: {path} cannot be set to {all}: {e}; write it there by hand"
            ));
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::{Mutator, inputs};
    use crate::sys::seqpacket;
    use std::io::BufRead;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_was_not_changed_is_not_put_back() {
        let lines = [
            "/a\t1",
            "/b\t2 3",
            "@forget",
            "noise",
            "/c\t",
            "@directory\t/d",
            "@go-on\t42",
            "@go-on\t",
            "@socket\t/s",
            "@thread\t7\t99\tcpus\t0-1\t1",
        ];
        let found = entries(lines.map(str::to_owned).into_iter());
        let change = ThreadChange::decode("7\t99\tcpus\t0-1\t1").unwrap();
        let setting = |path: &str, value: &str| Entry::Setting(path.to_owned(), value.to_owned());
        assert_eq!(
            found,
            [
                setting("/a", "1"),
                setting("/c", ""),
                Entry::Directory("/d".to_owned()),
                Entry::GoOn(42),
                Entry::Socket("/s".to_owned()),
                Entry::Thread(change)
            ]
        );
        let again: Vec<String> = found.iter().map(Entry::line).collect();
        assert_eq!(entries(again.into_iter()), found, "a line is read as it was written");
    }

    #[test]
    fn each_group_is_widened_whatever_became_of_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let list = |group: &str| dir.path().join(group).join("cpuset.cpus");
        fs::write(dir.path().join("cpuset.cpus.effective"), "0-3\n").unwrap();
        for group in ["a", "c", "d", "e", "f", "z"] {
            fs::create_dir(dir.path().join(group)).unwrap();
        }
        // A folder in place of the file refuses to be written.
        fs::create_dir(list("a")).unwrap();
        fs::create_dir(list("z")).unwrap();
        fs::write(list("c"), "0,2\n").unwrap();
        fs::write(list("d"), "\n").unwrap();
        fs::write(list("e"), "0-2\n").unwrap();
        assert_eq!(widen(dir.path()).unwrap(), 2);
        let is = |group: &str| fs::read_to_string(list(group)).unwrap().trim().to_owned();
        assert_eq!([is("c"), is("d"), is("e")], ["0-3", "", "0-3"]);
        assert!(!list("f").exists(), "a group without the controller");
        assert!(widen(&dir.path().join("gone")).is_err());
    }

    #[test]
    fn what_is_busy_is_tried_again_and_nothing_else_is() {
        let tried = |results: &[io::ErrorKind]| {
            let mut times = 0;
            let done = patiently(|| {
                times += 1;
                results.get(times - 1).map_or(Ok(()), |&kind| Err(kind.into()))
            });
            (done.map_err(|e| e.kind()), times)
        };
        let (busy, denied) = (io::ErrorKind::ResourceBusy, io::ErrorKind::PermissionDenied);
        assert_eq!(tried(&[]), (Ok(()), 1));
        assert_eq!(tried(&[busy, busy]), (Ok(()), 3));
        assert_eq!(tried(&[busy, denied]), (Err(denied), 2));
        assert_eq!(tried(&[busy; 100]), (Err(busy), ATTEMPTS as usize));
    }

    #[test]
    fn a_socket_goes_when_nobody_listens() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let listens = UnixListener::bind(at("alive")).unwrap();
        drop(UnixListener::bind(at("dead")).unwrap());
        let clients = seqpacket::listen(Path::new(&at("clients"))).unwrap();
        drop(seqpacket::listen(Path::new(&at("gone"))).unwrap());
        fs::write(at("file"), "").unwrap();
        let names = ["alive", "dead", "clients", "gone", "file", "never"];
        assert_eq!(put_back(names.map(|name| Entry::Socket(at(name))).into()), []);
        let left = names.map(|name| Path::new(&at(name)).exists());
        assert_eq!(left, [true, false, true, false, true, false]);
        drop((listens, clients));
    }

    /// Any journal is read to its end, and has at most one entry a line.
    #[test]
    fn any_journal_is_read() {
        let base = b"/a\t1\n/b\t2 3\n@forget\n@directory\t/d\n@go-on\t42\n\
            @socket\t/s\n@thread\t7\t99\tcpus\t0-1\t1\n@thread\t7\t99\tscheduling\t1 0\t0 0\n";
        let words: [&[u8]; 9] = [
            b"@forget\n",
            b"@thread\t",
            b"\tcpus\t",
            b"0-4294967295",
            b"4294967296",
            b"18446744073709551615",
            b"\t",
            b"\xff\n",
            b"-1",
        ];
        let mut mutator = Mutator::new(7);
        let mut threads = 0;
        for _ in 0..inputs() {
            let journal = mutator.bytes(base, &words);
            let found = entries(journal.lines().map_while(Result::ok));
            assert!(found.len() <= journal.lines().count());
            for entry in &found {
                if let Entry::Thread(change) = entry {
                    // What was read is what would be written.
                    let again = ThreadChange::decode(&change.encode());
                    assert_eq!(again.as_ref(), Some(change));
                    threads += 1;
                }
            }
        }
        assert!(threads > 0, "no change of a thread was read, so nothing was tested");
    }
}
