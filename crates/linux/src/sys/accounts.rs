//! Users and groups of the machine, by name.
//!
//! `getent` asks the services of /etc/nsswitch.conf, so that a command without a dynamic C library
//! finds the users of a directory service too. Where there is no `getent`, the files have all
//! users.

use std::fs::read_to_string;
use std::io;
use std::process::{Command, Stdio};

/// The program that asks the machine's name services. Root trusts no `PATH`.
const GETENT: &str = "/usr/bin/getent";

/// User of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name of the user.
    pub name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    home: String,
}

impl Account {
    /// The user of this name; `None` if no user has it.
    pub fn named(name: &str) -> Option<Self> {
        let entry = entry("passwd", name)?;
        let [_, _, uid, gid, _, home, ..] = entry.split(':').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        let groups = groups(name, gid)?;
        Some(Self { name: name.to_owned(), uid, gid, groups, home: home.to_owned() })
    }

    /// Variables that a program of the user expects in its environment.
    pub fn environment(&self) -> [(&'static str, &str); 3] {
        [("HOME", &self.home), ("USER", &self.name), ("LOGNAME", &self.name)]
    }

    /// Makes the calling thread run as the user, for good. May be called between fork and exec: it
    /// allocates nothing.
    pub fn become_it(&self) -> io::Result<()> {
        let [uid, gid] = [self.uid, self.gid].map(|n| n as libc::uid_t);
        // SAFETY: the groups live through the call; the numbers are those of a user.
        let result = unsafe {
            if libc::setgroups(self.groups.len(), self.groups.as_ptr()) != 0
                || libc::setresgid(gid, gid, gid) != 0
            {
                -1
            } else {
                libc::setresuid(uid, uid, uid)
            }
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The number of a group; `None` if no group has this name.
pub(crate) fn group(name: &str) -> Option<u32> {
    entry("group", name)?.split(':').nth(2)?.parse().ok()
}

/// The line of a database that begins with this name.
fn entry(database: &str, name: &str) -> Option<String> {
    // `getent` takes a number for one, and the name of an account is not a number.
    if name.is_empty() || name.contains([':', '\0', '\n']) || name.parse::<u64>().is_ok() {
        return None;
    }
    let lines = match ask(database, name) {
        Some(lines) => lines,
        None => read_to_string(format!("/etc/{database}")).ok()?,
    };
    lines.lines().find(|l| l.split(':').next() == Some(name)).map(str::to_owned)
}

/// Groups of a user: its own one and those that name it as a member.
fn groups(name: &str, gid: u32) -> Option<Vec<u32>> {
    let mut groups = vec![gid];
    if let Some(answer) = ask("initgroups", name) {
        groups.extend(answer.split_whitespace().skip(1).filter_map(|n| n.parse::<u32>().ok()));
    } else {
        groups.extend(memberships(&read_to_string("/etc/group").ok()?, name));
    }
    groups.sort_unstable();
    groups.dedup();
    Some(groups)
}

/// Numbers of the groups that name this user, in a text like that of /etc/group.
fn memberships(text: &str, name: &str) -> Vec<u32> {
    let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let named = fields.filter_map(|fields| match fields[..] {
        [_, _, number, members] if members.split(',').any(|m| m == name) => number.parse().ok(),
        _ => None,
    });
    named.collect()
}

/// The answer of `getent`, empty for a name that no service knows. `None` where it cannot run.
fn ask(database: &str, name: &str) -> Option<String> {
    let mut command = Command::new(GETENT);
    command.args(["--", database, name]).env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    String::from_utf8(command.output().ok()?.stdout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn groups_have_numbers() {
        assert_eq!(group("root"), Some(0));
        assert_eq!(group("no such group"), None);
        assert_eq!(group("a\0b"), None);
        assert_eq!(group("0"), None);
        assert_eq!(group(""), None);
        assert_eq!(group("--help"), None);
    }

    #[test]
    fn a_user_is_in_the_groups_that_name_it() {
        let text = "root:x:0:\naudio:x:29:ann,bob\nvideo:x:44:bob\nbobs:x:50:bobby\nodd:x:y:bob\n";
        assert_eq!(memberships(text, "bob"), [29, 44]);
        assert_eq!(memberships(text, "ann"), [29]);
        assert!(memberships(text, "x").is_empty());
    }

    #[test]
    fn users_are_found_and_become() {
        assert_eq!(Account::named("no such user"), None);
        assert_eq!(Account::named("a\0b"), None);
        assert_eq!(Account::named("0"), None);
        let root = Account::named("root").expect("every machine has it");
        assert_eq!((root.uid, root.gid), (0, 0));
        let user = Account::named("nobody").expect("Debian has it");
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root becomes somebody else");
            return;
        }
        let mut command = Command::new("sh");
        command.args(["-c", "id -u; id -un; grep -E ^CapEff /proc/self/status; echo $HOME"]);
        command.envs(user.environment());
        let become_it = move || user.become_it();
        // SAFETY: it allocates nothing.
        unsafe { command.pre_exec(become_it) };
        let said = String::from_utf8(command.output().expect("sh").stdout).expect("text");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines, ["65534", "nobody", "CapEff:\t0000000000000000", "/nonexistent"]);
    }
}
