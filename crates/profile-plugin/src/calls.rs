//! The program's system calls: effects on its address space, its processes, and its files.
//!
//! Rule: files are looked at as a call begins, before it can change them; the address space and the
//! processes change as it returns.

use crate::files::How;
use crate::guest::Memory;
use crate::processes;
use crate::program::Program;
use crate::qemu::Id;
use crate::state::{Global, Pending, Thread, global, thread};
use crate::syscalls::{self, Call};
use std::ffi::{OsString, c_uint};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Called when a system call begins.
#[allow(clippy::many_single_char_names, reason = "the arguments have no names")]
pub extern "C" fn on_syscall(
    _: Id,
    vcpu: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    _: u64,
    _: u64,
) {
    let Some(t) = thread(vcpu) else { return };
    let Some(mut guard) = global() else { return };
    let g = &mut *guard;
    let Some(target) = g.target else { return };
    g.part.called();
    let call = syscalls::identify(target, number);
    match call {
        Call::Other => return,
        Call::Resume => {
            t.chains.resume();
            return;
        }
        _ => {}
    }
    let args = [a, b, c, d, e, f];
    let mut file = None;
    let mut opened = None;
    if let Some(memory) = g.guest_base.map(|base| Memory { target, base }) {
        match call {
            // MAP_ANONYMOUS is 0x20 on every target in the table.
            Call::Mmap(_) if d & 0x20 == 0 => {
                file = std::fs::read_link(format!("/proc/self/fd/{}", descriptor(e))).ok();
                if let Some(path) = file.as_ref().filter(|p| p.is_absolute()) {
                    g.files.look(path, How::Content);
                }
            }
            Call::Execve | Call::Execveat => execute(g, t, memory, call, args),
            _ => opened = looks(g, memory, call, args),
        }
    }
    t.pending = Some(Pending { call, args, file, opened });
}

/// Notes the files that a call looks at; returns the path that it opens for reading, if any.
fn looks(g: &mut Global, memory: Memory, call: Call, args: [u64; 6]) -> Option<PathBuf> {
    let mut look = |how: How, dir: Option<usize>, path: usize| {
        let path = path_of(memory, dir.map(|at| args[at]), args[path])?;
        let path = beneath(g.config.sysroot.as_deref(), path);
        g.files.look(&path, how);
        (how == How::Content).then_some(path)
    };
    match call {
        Call::Open(dir, path, flags) => look(syscalls::how_opened(args[flags]), dir, path),
        Call::Openat2 => look(syscalls::how_opened(memory.number(args[2])?), Some(0), 1),
        Call::Look(how, dir, path) => look(how, dir, path),
        Call::StatAt(flags) => look(syscalls::how_seen(args[flags]), Some(0), 1),
        Call::Move(dirs, paths) => {
            look(How::Content, dirs[0], paths[0]);
            look(How::Remove, dirs[0], paths[0]);
            look(How::Replace, dirs[1], paths[1]);
            None
        }
        Call::List => {
            let listed = std::fs::read_link(format!("/proc/self/fd/{}", descriptor(args[0])));
            g.files.look(&listed.ok()?, How::Entries);
            None
        }
        Call::Asks(what) => {
            g.files.not_covered(what);
            None
        }
        _ => None,
    }
}

/// Called when a system call has returned.
pub extern "C" fn on_syscall_return(_: Id, vcpu: c_uint, _number: i64, ret: i64) {
    let Some(t) = thread(vcpu) else { return };
    let pending = t.pending.take();
    let Some(mut guard) = global() else { return };
    let g = &mut *guard;
    if processes::forked() {
        g.begin_child(t);
        return;
    }
    let Some(pending) = pending else { return };
    let [a, b, c, d, _, f] = pending.args;
    if (-4095..0).contains(&ret) {
        return;
    }
    let ret = ret.cast_unsigned();
    match pending.call {
        Call::Mmap(unit) => {
            g.retire(t, ret, b);
            let writable = c & 2 != 0;
            let anonymous = d & 0x20 != 0;
            let file = pending.file.filter(|_| !anonymous).map(|path| (path, f.wrapping_mul(unit)));
            g.frames.regions.map(ret, b.next_multiple_of(4096), writable, file);
        }
        Call::Munmap => {
            g.retire(t, a, b);
            g.frames.regions.unmap(a, a.saturating_add(b.next_multiple_of(4096)));
        }
        Call::Mremap => {
            g.retire(t, a, b);
            g.frames.regions.unmap(a, a.saturating_add(b.next_multiple_of(4096)));
            g.frames.regions.map(ret, c.next_multiple_of(4096), true, None);
        }
        Call::Brk => g.frames.regions.set_break(ret),
        Call::Fork if ret > 0 => g.child_began(t),
        // CLONE_VM without CLONE_VFORK makes a thread; QEMU treats every vfork as a fork.
        Call::Clone if ret > 0 && (a & 0x100 == 0 || a & 0x4000 != 0) => g.child_began(t),
        Call::Wait if ret > 0 => g.child_ended(t),
        // It returns 0 for success: with WNOHANG or WNOWAIT that need not be an end.
        Call::WaitId if d & 0x0100_0001 == 0 => g.child_ended(t),
        Call::Open(..) | Call::Openat2 => {
            // The emulator may have opened another file than the path names.
            let real = std::fs::read_link(format!("/proc/self/fd/{ret}")).ok();
            if let (Some(named), Some(real)) = (pending.opened, real)
                && real.is_absolute()
                && named.canonicalize().is_ok_and(|named| named != real)
            {
                g.files.look(&real, How::Content);
            }
        }
        _ => {}
    }
}

/// Handles a program's request to be replaced by another: the emulator continues with the latter,
/// if it can.
fn execute(g: &mut Global, t: &mut Thread, memory: Memory, call: Call, args: [u64; 6]) {
    let (dir, [path, argv, envp]) = match call {
        Call::Execve => (None, [args[0], args[1], args[2]]),
        _ => (Some(args[0]), [args[1], args[2], args[3]]),
    };
    let path = path_of(memory, dir, path);
    let texts = memory.strings(argv).zip(memory.strings(envp));
    if let Some(path) = &path {
        g.files.look(path, How::Content);
    }
    let name = path.as_ref().map(|p| p.display().to_string());
    let Some((path, (arguments, environment))) = path.zip(texts) else {
        g.finish(t, Some(name.unwrap_or_else(|| "another program".to_owned())));
        return;
    };
    match Program::of(&path, arguments, &g.config.program) {
        // The call fails by itself.
        Ok(None) => {}
        Ok(Some(program)) => {
            for file in &program.files {
                g.files.look(file, How::Content);
            }
            g.finish(t, None);
            // Returns only where the kernel refuses; it then refuses the program's own call as
            // well.
            program.execute(&g.config, g.part.number, environment);
        }
        Err(why) => g.finish(t, Some(format!("{} ({why})", path.display()))),
    }
}

/// The path that a call names, absolute.
fn path_of(memory: Memory, dir: Option<u64>, path: u64) -> Option<PathBuf> {
    let text = PathBuf::from(OsString::from_vec(memory.string(path)?));
    if text.is_absolute() {
        return Some(text);
    }
    let start = match dir.map(descriptor) {
        None | Some(libc::AT_FDCWD) => std::fs::read_link("/proc/self/cwd").ok()?,
        Some(fd) => std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?,
    };
    // An empty path means the descriptor's own file, which is known since it was opened.
    (!text.as_os_str().is_empty() && start.is_absolute()).then(|| start.join(text))
}

/// The path that the emulator opens instead, where it has libraries of another machine.
fn beneath(sysroot: Option<&Path>, path: PathBuf) -> PathBuf {
    let inside = sysroot.and_then(|root| Some(root.join(path.strip_prefix("/").ok()?)));
    inside.filter(|p| p.exists()).unwrap_or(path)
}

/// A descriptor from an argument; descriptors have 32 bits.
#[allow(clippy::cast_possible_truncation, reason = "the kernel does the same")]
fn descriptor(argument: u64) -> i32 {
    (argument as u32).cast_signed()
}
