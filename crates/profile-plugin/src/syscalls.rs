//! The system calls that change a program's address space or make new ones, by target.
//!
//! Numbers: Linux `arch/*/kernel/syscalls/*.tbl` and `include/uapi/asm-generic/unistd.h`.

/// A call the profiler has to follow.
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
}

/// Numbers of mmap, mmap2, munmap, mremap, brk, fork, vfork, clone, execve, execveat; -1 for none.
type Numbers = [i64; 10];

/// The table of a QEMU target name.
pub fn numbers(target: &str) -> Option<Numbers> {
    Some(match target {
        "x86_64" => [9, -1, 11, 25, 12, 57, 58, 56, 59, 322],
        "i386" => [-1, 192, 91, 163, 45, 2, 190, 120, 11, 358],
        "arm" => [-1, 192, 91, 163, 45, 2, 190, 120, 11, 387],
        "aarch64" | "riscv64" => [222, -1, 215, 216, 214, -1, -1, 220, 221, 281],
        "ppc" => [90, 192, 91, 163, 45, 2, 189, 120, 11, 362],
        "ppc64" | "ppc64le" => [90, -1, 91, 163, 45, 2, 189, 120, 11, 362],
        _ => return None,
    })
}

/// Which call a number is.
pub fn identify(table: &Numbers, number: i64) -> Option<Call> {
    let at = table.iter().position(|&n| n == number && n >= 0)?;
    Some(match at {
        0 => Call::Mmap(1),
        1 => Call::Mmap(4096),
        2 => Call::Munmap,
        3 => Call::Mremap,
        4 => Call::Brk,
        5 | 6 => Call::Fork,
        7 => Call::Clone,
        8 => Call::Execve,
        _ => Call::Execveat,
    })
}
