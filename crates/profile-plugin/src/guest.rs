//! The emulated machine: its numbers of system calls, and its memory.
//!
//! Problem: pointers of the program have the width and the order of its instruction set. Rule: the
//! target's name says both; memory is read through the kernel, so that a wrong address is an error
//! and no fault.

use solocore_model::platform::Isa;
use std::ffi::c_void;

/// An instruction set that can be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    X86_64,
    I386,
    Arm,
    Aarch64,
    Riscv64,
    Ppc,
    Ppc64,
    Ppc64le,
}

impl Target {
    /// The target of QEMU's name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "x86_64" => Self::X86_64,
            "i386" => Self::I386,
            "arm" => Self::Arm,
            "aarch64" => Self::Aarch64,
            "riscv64" => Self::Riscv64,
            "ppc" => Self::Ppc,
            "ppc64" => Self::Ppc64,
            "ppc64le" => Self::Ppc64le,
            _ => return None,
        })
    }

    /// The name of a system call.
    pub fn syscall(self, number: usize) -> Option<&'static str> {
        use syscalls::{aarch64, arm, powerpc, powerpc64, riscv64, x86, x86_64};
        match self {
            Self::X86_64 => x86_64::Sysno::new(number).map(|n| n.name()),
            Self::I386 => x86::Sysno::new(number).map(|n| n.name()),
            Self::Arm => arm::Sysno::new(number).map(|n| n.name()),
            Self::Aarch64 => aarch64::Sysno::new(number).map(|n| n.name()),
            Self::Riscv64 => riscv64::Sysno::new(number).map(|n| n.name()),
            Self::Ppc => powerpc::Sysno::new(number).map(|n| n.name()),
            Self::Ppc64 | Self::Ppc64le => powerpc64::Sysno::new(number).map(|n| n.name()),
        }
    }

    /// The instruction set of the encodings.
    pub fn isa(self) -> Isa {
        match self {
            Self::X86_64 => Isa::X86_64,
            Self::I386 => Isa::I386,
            Self::Arm => Isa::Arm,
            Self::Aarch64 => Isa::Aarch64,
            Self::Riscv64 => Isa::Riscv64,
            Self::Ppc => Isa::Powerpc,
            Self::Ppc64 => Isa::Powerpc64,
            Self::Ppc64le => Isa::Powerpc64le,
        }
    }

    fn narrow(self) -> bool {
        matches!(self, Self::I386 | Self::Arm | Self::Ppc)
    }

    fn big_endian(self) -> bool {
        matches!(self, Self::Ppc | Self::Ppc64)
    }
}

/// Memory of the program.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Target that determines the pointers.
    pub target: Target,
    /// Host address of the program's address 0.
    pub base: u64,
}

impl Memory {
    /// The address on the host.
    fn host(self, address: u64) -> u64 {
        let address = if self.target.narrow() { address & 0xffff_ffff } else { address };
        self.base.wrapping_add(address)
    }

    /// The bytes of a string, without its NUL.
    pub fn string(self, address: u64) -> Option<Vec<u8>> {
        const LONGEST: usize = 1 << 17;
        let mut bytes = Vec::new();
        while bytes.len() < LONGEST {
            let at = self.host(address).wrapping_add(bytes.len() as u64);
            let mut chunk = [0u8; 256];
            let want = 256 - (at % 256) as usize;
            let got = read(at, &mut chunk[..want])?;
            if let Some(end) = chunk[..got].iter().position(|&b| b == 0) {
                bytes.extend_from_slice(&chunk[..end]);
                return Some(bytes);
            }
            bytes.extend_from_slice(&chunk[..got]);
        }
        None
    }

    /// The number of 64 bits at an address.
    pub fn number(self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (read(self.host(address), &mut bytes)? == 8).then_some(())?;
        let big = self.target.big_endian();
        Some(if big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// The strings of an array that a null pointer ends; none for a null array.
    pub fn strings(self, array: u64) -> Option<Vec<Vec<u8>>> {
        const MOST: u64 = 1 << 16;
        let width = if self.target.narrow() { 4 } else { 8 };
        let mut out = Vec::new();
        for at in 0..MOST {
            if array == 0 {
                return Some(out);
            }
            let mut bytes = [0; 8];
            let slot = &mut bytes[..width];
            (read(self.host(array + at * width as u64), slot)? == width).then_some(())?;
            if self.target.big_endian() {
                slot.reverse();
            }
            match u64::from_le_bytes(bytes) {
                0 => return Some(out),
                pointer => out.push(self.string(pointer)?),
            }
        }
        None
    }
}

/// Reads this process's memory; returns the number of bytes read.
fn read(address: u64, into: &mut [u8]) -> Option<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: into.len() };
    // SAFETY: `local` is the buffer of the caller; a bad remote address is an error return.
    let got = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(got).ok().filter(|&n| n > 0)
}
