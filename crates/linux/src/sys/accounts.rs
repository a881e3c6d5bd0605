//! Users and groups of the machine, by name.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::zeroed;

/// Size of the buffer for the strings of an entry, bytes.
const STRINGS: usize = 65_536;
/// Maximum number of groups of one user (`NGROUPS_MAX`).
const MOST_GROUPS: usize = 65_536;

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
        let c_name = CString::new(name).ok()?;
        let mut strings = vec![0u8; STRINGS];
        let mut result = std::ptr::null_mut();
        // SAFETY: a zeroed entry is one of empty strings; the strings go into the buffer, whose
        // length is told; all live through the call, and the home is copied before they go.
        let (uid, gid, home) = unsafe {
            let mut entry: libc::passwd = zeroed();
            let (at, room) = (strings.as_mut_ptr().cast(), strings.len());
            let code = libc::getpwnam_r(c_name.as_ptr(), &raw mut entry, at, room, &raw mut result);
            if code != 0 || result.is_null() {
                return None;
            }
            let home = CStr::from_ptr(entry.pw_dir).to_string_lossy().into_owned();
            (entry.pw_uid, entry.pw_gid, home)
        };
        let mut groups = vec![0u32; MOST_GROUPS];
        let mut count = libc::c_int::try_from(MOST_GROUPS).ok()?;
        // SAFETY: the kernel's library writes at most `count` groups, which is the vector's length.
        let code = unsafe {
            libc::getgrouplist(c_name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count)
        };
        groups.truncate(if code < 0 { 0 } else { usize::try_from(count).unwrap_or(0) });
        Some(Self { name: name.to_owned(), uid, gid, groups, home })
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
    let name = CString::new(name).ok()?;
    let mut buffer = vec![0u8; STRINGS];
    let mut result = std::ptr::null_mut();
    // SAFETY: a zeroed entry is one without members; the strings go into the buffer, whose length
    // is told; all live through the call.
    unsafe {
        let mut entry: libc::group = zeroed();
        let space = buffer.as_mut_ptr().cast();
        let code =
            libc::getgrnam_r(name.as_ptr(), &raw mut entry, space, buffer.len(), &raw mut result);
        (code == 0 && !result.is_null()).then_some(entry.gr_gid)
    }
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
    }

    #[test]
    fn users_are_found_and_become() {
        assert_eq!(Account::named("no such user"), None);
        assert_eq!(Account::named("a\0b"), None);
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
