//! The kernel's servers, which run ordinary tasks before real-time ones, turned off.
//!
//! Problem: the fair server (Linux 6.8) and the ext server (Linux 7.0) each give up to 5 % of a CPU
//! to tasks of their class while real-time tasks want it. A throttled program then runs beside its
//! helper, and a driver or the thread of a window waits.
//! Rule: the runtime of a server is set to 0 on each CPU, and put back by the keeper. A kernel
//! without the server needs nothing; a refusal is returned, and the caller says what it means.
//! Source: Linux, kernel/sched/debug.c (`fair_server`, `ext_server`) and kernel/sched/deadline.c.
//! Does not cover: real-time throttling, `kernel.sched_rt_runtime_us`.

use super::keeper::Changes;
use crate::error::LinuxError;
use std::io;

/// A server of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Runs tasks of the kernel's own scheduler.
    Fair,
    /// Runs tasks of a sched_ext scheduler.
    Ext,
}

impl Server {
    fn folder(self) -> &'static str {
        match self {
            Self::Fair => "fair_server",
            Self::Ext => "ext_server",
        }
    }

    /// The first version of Linux that has it.
    fn since(self) -> (u32, u32) {
        match self {
            Self::Fair => (6, 8),
            Self::Ext => (7, 0),
        }
    }

    /// Turns it off on these CPUs for as long as the changes last. Returns the first refusal.
    pub fn turn_off(self, changes: &mut Changes, cpus: &[u32]) -> Option<io::Error> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        self.refusal(cpus, version(&release), |path| changes.set(path, "0").map(drop))
    }

    /// As [`Self::turn_off`], on this version of Linux; `set` sets a file to 0.
    fn refusal(
        self,
        cpus: &[u32],
        linux: Option<(u32, u32)>,
        mut set: impl FnMut(&str) -> io::Result<()>,
    ) -> Option<io::Error> {
        let refused = cpus.iter().find_map(|cpu| {
            let path = format!("debugfs:sched/{}/cpu{cpu}/runtime", self.folder());
            set(&path).err().filter(|e| e.kind() != io::ErrorKind::NotFound)
        })?;
        // Without debugfs every file is refused, also those of a server that does not exist.
        linux.is_none_or(|linux| linux >= self.since()).then_some(refused)
    }
}

/// Turns the ext server off for a scheduler that is about to be installed. Returns the changes, and
/// a note where the kernel refuses.
///
/// # Errors
/// The keeper does not start.
pub(crate) fn without_ext(cpus: &[u32]) -> Result<(Changes, Option<String>), LinuxError> {
    let mut changes = Changes::begin()?;
    let note = Server::Ext.turn_off(&mut changes, cpus).map(|e| takes_time(&e));
    Ok((changes, note))
}

/// Consequence of an ext server that stays on.
pub(crate) fn takes_time(error: &io::Error) -> String {
    format!(
        "the kernel's ext server stays on ({error}): ordinary tasks take up to 5 % of each CPU from \
            real-time ones, and therefore from drivers and windows"
    )
}

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_where_the_kernel_has_the_server() {
        let of = |server: Server, linux, kind: io::ErrorKind| {
            let mut tried = Vec::new();
            let refused = server.refusal(&[0, 2], linux, |path| {
                tried.push(path.to_owned());
                Err(kind.into())
            });
            (refused.map(|e| e.kind()), tried)
        };
        let (denied, none) = (io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound);
        let (refused, tried) = of(Server::Ext, Some((7, 0)), denied);
        assert_eq!((refused, tried.len()), (Some(denied), 1));
        assert_eq!(tried, ["debugfs:sched/ext_server/cpu0/runtime"]);
        let (refused, tried) = of(Server::Fair, Some((6, 12)), none);
        assert_eq!((refused, tried.len()), (None, 2), "each CPU is tried");
        assert_eq!(of(Server::Ext, Some((6, 19)), denied).0, None, "it came with 7.0");
        assert_eq!(of(Server::Fair, Some((6, 19)), denied).0, Some(denied));
        assert_eq!(of(Server::Ext, None, denied).0, Some(denied), "an unknown kernel");
    }

    #[test]
    fn releases_begin_with_two_numbers() {
        assert_eq!(version("7.0.13+deb13-amd64"), Some((7, 0)));
        assert_eq!(version("6.19.14-rt"), Some((6, 19)));
        assert_eq!(version("8.1-rc3"), Some((8, 1)));
        assert_eq!(version("none"), None);
    }
}
