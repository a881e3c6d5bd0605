//! The system calls that the profiler follows, by target: those that change a program's address
//! space, make processes, look at files, or end a handler of a signal.
//!
//! Numbers are those of the crate `syscalls`, made of the kernel's tables.

use crate::files::How;
use crate::guest::Target;

/// A call that the profiler has to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `mmap`; the offset argument counts in units of this many bytes.
    Mmap(u64),
    Munmap,
    Mremap,
    Brk,
    Fork,
    Clone,
    Execve,
    Execveat,
    /// Waits for a child; returns its number.
    Wait,
    /// Waits for a child; the last argument but one has the options.
    WaitId,
    /// `open`: indices of the arguments for the directory (`None`: the working directory), the path
    /// and the flags.
    Open(Option<usize>, usize, usize),
    /// `openat2`: the flags lie in a structure.
    Openat2,
    /// Looks at a path: indices of the arguments for its directory and the path.
    Look(How, Option<usize>, usize),
    /// Status of a path; the flags in the argument at this index select a link itself.
    StatAt(usize),
    /// Moves or links a file: indices of the arguments for both directories and paths.
    Move([Option<usize>; 2], [usize; 2]),
    /// Lists the directory of the descriptor.
    List,
    /// Asks for something that no file contains.
    Asks(&'static str),
    /// The handler of a signal goes back to the program.
    Resume,
    /// A call without interest.
    Other,
}

const NO_FOLLOW: u64 = 0x100;
const CLOCK: &str = "time";
const RANDOM: &str = "random numbers";
const SOCKETS: &str = "sockets";
const SHARED: &str = "System V messages, semaphores and shared memory";
const MACHINE: &str = "CPUs, memory and name of this machine";

/// The call with this number.
pub fn identify(target: Target, number: i64) -> Call {
    use How::{Content, Create, Link, Remove, Replace, Status, Write};
    let Some(name) = usize::try_from(number).ok().and_then(|n| target.syscall(n)) else {
        return Call::Other;
    };
    match name {
        "mmap" => Call::Mmap(1),
        "mmap2" => Call::Mmap(4096),
        "munmap" => Call::Munmap,
        "mremap" => Call::Mremap,
        "brk" => Call::Brk,
        "fork" | "vfork" => Call::Fork,
        "clone" => Call::Clone,
        "execve" => Call::Execve,
        "execveat" => Call::Execveat,
        "wait4" | "waitpid" => Call::Wait,
        "waitid" => Call::WaitId,
        "open" => Call::Open(None, 0, 1),
        "openat" => Call::Open(Some(0), 1, 2),
        "creat" => Call::Look(Replace, None, 0),
        "openat2" => Call::Openat2,
        "stat" | "stat64" | "oldstat" | "access" | "chdir" | "chmod" | "chown" | "utime"
        | "utimes" | "statfs" | "statfs64" => Call::Look(Status, None, 0),
        "mkdir" | "mknod" => Call::Look(Create, None, 0),
        "mkdirat" | "mknodat" => Call::Look(Create, Some(0), 1),
        "rmdir" | "unlink" => Call::Look(Remove, None, 0),
        "unlinkat" => Call::Look(Remove, Some(0), 1),
        "truncate" | "truncate64" => Call::Look(Write, None, 0),
        "lstat" | "lstat64" | "oldlstat" | "readlink" | "lchown" => Call::Look(Link, None, 0),
        "faccessat" | "faccessat2" | "fchmodat" | "fchownat" | "futimesat" | "utimensat"
        | "utimensat_time64" => Call::Look(Status, Some(0), 1),
        "readlinkat" => Call::Look(Link, Some(0), 1),
        "newfstatat" | "fstatat" | "fstatat64" => Call::StatAt(3),
        "statx" => Call::StatAt(2),
        "uselib" => Call::Look(Content, None, 0),
        "rename" | "link" => Call::Move([None, None], [0, 1]),
        "renameat" | "renameat2" | "linkat" => Call::Move([Some(0), Some(2)], [1, 3]),
        "symlink" => Call::Look(Replace, None, 1),
        "symlinkat" => Call::Look(Replace, Some(1), 2),
        "getdents" | "getdents64" | "readdir" => Call::List,
        "time" | "gettimeofday" | "clock_gettime" | "clock_gettime64" | "times" => {
            Call::Asks(CLOCK)
        }
        "getrandom" => Call::Asks(RANDOM),
        "rt_sigreturn" | "sigreturn" => Call::Resume,
        "socket" | "socketcall" | "connect" => Call::Asks(SOCKETS),
        "shmget" | "msgget" | "semget" | "ipc" | "mq_open" => Call::Asks(SHARED),
        "uname" | "sysinfo" | "sched_getaffinity" | "getcpu" => Call::Asks(MACHINE),
        _ => Call::Other,
    }
}

/// The way in which `open` with these flags looks at a path. The flags used here are the same on
/// all targets.
pub fn how_opened(flags: u64) -> How {
    const WRITE_ONLY: u64 = 1;
    const MODES: u64 = 3;
    const CREATE: u64 = 0o100;
    const EXCLUSIVE: u64 = 0o200;
    const TRUNCATE: u64 = 0o1000;
    const PATH_ONLY: u64 = 0o10_000_000;
    if flags & PATH_ONLY != 0 {
        How::Status
    } else if flags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE {
        How::Create
    } else if flags & TRUNCATE != 0 && flags & MODES != 0 && flags & CREATE != 0 {
        How::Replace
    } else if flags & MODES == WRITE_ONLY {
        How::Write
    } else {
        How::Content
    }
}

/// The way in which a status call with these flags looks at a path.
pub fn how_seen(flags: u64) -> How {
    if flags & NO_FOLLOW != 0 { How::Link } else { How::Status }
}
