//! The anonymous mappings that the loader makes before a program.
//!
//! Problem: a profile numbers all anonymous mappings of a process, and the library that keeps a
//! program in its colours is there only after the loader has made the first ones. Their number
//! depends on the libraries. Rule: a copy of the program is started without the library and
//! followed (ptrace) until its first system call from outside of the loader; there it ends. It has
//! then executed at most instructions of its libraries' constructors that make no system call.
//! Mappings at a fixed address are parts of a file's mappings, and have its name. Does not cover:
//! mappings of later loads (dlopen), which the loader places over its own.

use crate::error::SpaceError;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Most system calls of a loader that are looked at.
const MOST_CALLS: usize = 1 << 16;
const AT_BASE: u64 = 7;
/// Requests; libc has them with types that differ by target.
const TRACEME: libc::c_long = 0;
const SYSCALL: libc::c_long = 24;
const SETOPTIONS: libc::c_long = 0x4200;
const GET_SYSCALL_INFO: libc::c_long = 0x420e;
/// System calls are told from signals, which requests about a call need; the child ends with this
/// process.
const OPTIONS: usize = 1 | 1 << 20;
const ENTRY: u64 = 1;

/// Words of the kernel's `struct ptrace_syscall_info`: kind, instruction, stack; at an entry also
/// the number of the call and its six arguments.
type Call = [u64; 11];

/// The number of anonymous mappings that the loader makes for this command, by `directory`.
///
/// # Errors
/// It cannot be started or followed.
pub fn mappings(command: &[String], directory: &Path) -> Result<u32, SpaceError> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| SpaceError::Input("the command is empty; name a program".into()))?;
    let mut start = Command::new(program);
    start.args(arguments).current_dir(directory).env_remove("LD_PRELOAD");
    start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the function makes one system call.
    unsafe { start.pre_exec(traced) };
    let failed = |e: io::Error| {
        SpaceError::of_io(
            &format!("`{program}` cannot be followed to count its loader's mappings"),
            &e,
            "allow ptrace (kernel.yama.ptrace_scope), or lock no pages of mmap regions",
        )
    };
    let mut child = start.spawn().map_err(failed)?;
    let counted = follow(&child);
    let _ = child.kill();
    let _ = child.wait();
    counted.map_err(failed)
}

fn traced() -> io::Result<()> {
    // SAFETY: this process asks to be followed by its parent; no memory is involved.
    unsafe { ptrace(TRACEME, 0, 0, 0) }
}

/// The system call.
///
/// # Safety
/// `data` is a number, or the address of memory that the request may write to.
unsafe fn ptrace(
    request: libc::c_long,
    pid: libc::pid_t,
    address: usize,
    data: usize,
) -> io::Result<()> {
    // SAFETY: the caller's.
    let result =
        unsafe { libc::syscall(libc::SYS_ptrace, request, libc::c_long::from(pid), address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Follows it from its first instruction on, which is the loader's.
fn follow(child: &Child) -> io::Result<u32> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    if !stopped(pid)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: the child is stopped; its end is tied to this process.
    unsafe { ptrace(SETOPTIONS, pid, 0, OPTIONS) }?;
    let loader = loader_of(child.id())?;
    let mut count = 0;
    for _ in 0..MOST_CALLS {
        // SAFETY: the child is stopped, and gets no signal.
        unsafe { ptrace(SYSCALL, pid, 0, 0) }?;
        if !stopped(pid)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut call: Call = [0; 11];
        let size = size_of::<Call>();
        // SAFETY: the kernel writes at most `size` bytes to `call`, which lives through the call.
        unsafe { ptrace(GET_SYSCALL_INFO, pid, size, call.as_mut_ptr() as usize) }?;
        let [kind, instruction, _, number, _, _, _, flags, ..] = call;
        if kind & 0xff != ENTRY {
            continue;
        }
        if !loader.contains(&instruction) {
            return Ok(count);
        }
        count += u32::from(is_anonymous(number, flags));
    }
    Err(io::Error::other("its loader does not end"))
}

/// Waits until it stops; false: it has ended.
fn stopped(pid: libc::pid_t) -> io::Result<bool> {
    let mut status = 0;
    // SAFETY: the kernel writes the status, which lives through the call.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(libc::WIFSTOPPED(status))
}

fn is_anonymous(number: u64, flags: u64) -> bool {
    let bit = |flag: libc::c_int| flags & u64::from(flag.cast_unsigned()) != 0;
    number == libc::SYS_mmap.cast_unsigned() && bit(libc::MAP_ANONYMOUS) && !bit(libc::MAP_FIXED)
}

/// The addresses of the loader: mappings of its file.
fn loader_of(pid: u32) -> io::Result<Range<u64>> {
    let auxiliary = fs::read(format!("/proc/{pid}/auxv"))?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let (words, _) = auxiliary.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let base = words.chunks_exact(2).find_map(|pair| match pair {
        [AT_BASE, base] => Some(*base),
        _ => None,
    });
    let base = base.filter(|&base| base != 0);
    base.and_then(|base| range_of(&maps, base))
        .ok_or_else(|| io::Error::other("it has no loader; it is linked statically"))
}

/// From the mapping that begins at `base` to the end of the last one of the same file.
fn range_of(maps: &str, base: u64) -> Option<Range<u64>> {
    let lines = || {
        maps.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
            Some((hexadecimal(start)?, hexadecimal(end)?, words.nth(4)?))
        })
    };
    let (_, _, file) = lines().find(|&(start, _, _)| start == base)?;
    let end = lines().filter(|&(_, _, of)| of == file).map(|(_, end, _)| end).max()?;
    Some(base..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_is_all_of_its_file() {
        let maps = "\
            5000-6000 r--p 00000000 08:01 5 /opt/job\n\
            7000-8000 r--p 00000000 08:01 6 /lib/ld.so\n\
            8000-a000 r-xp 00001000 08:01 6 /lib/ld.so\n\
            a000-b000 rw-p 00000000 00:00 0 \n\
            c000-d000 r-xp 00000000 00:00 0 [vdso]\n";
        assert_eq!(range_of(maps, 0x7000), Some(0x7000..0xa000));
        assert_eq!(range_of(maps, 0x9000), None);
        assert!(is_anonymous(libc::SYS_mmap.cast_unsigned(), 0x22));
        assert!(!is_anonymous(libc::SYS_mmap.cast_unsigned(), 0x32), "at a fixed address");
        assert!(!is_anonymous(libc::SYS_munmap.cast_unsigned(), 0x22));
    }

    /// One of glibc's for its own memory, and one for thread-local storage; more with more
    /// libraries.
    #[test]
    fn a_loader_makes_some_mappings() {
        let count = |program: &str| mappings(&[program.to_owned()], Path::new("/"));
        match count("/bin/sh") {
            Ok(n) => assert!((1..=16).contains(&n), "{n}"),
            // Where this process may follow no other.
            Err(e) => assert!(e.to_string().contains("Operation not permitted"), "{e}"),
        }
        assert!(count("/nowhere/at-all").is_err());
    }
}
