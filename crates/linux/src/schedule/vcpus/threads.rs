//! Threads and VCPUs in the kernel's tables.
//!
//! Rule: the functions need only the programs' maps, so that threads of this process that do not
//! own the scheduler can use them, too. Does not cover: the book ([`super::Vcpus`]).

use crate::contract::{self, SC_NONE, vcpu_info};
use crate::error::LinuxError;
use crate::regulate::bpf;
use crate::sys;
use libbpf_rs::Object;
use std::os::fd::AsRawFd;

/// The kernel's state of a VCPU; `None` if there is no such VCPU.
pub(super) fn info(object: &Object, id: u32) -> Option<vcpu_info> {
    let info: vcpu_info = contract::look_up(&bpf::map(object, "vcpus").ok()?, id).ok()??;
    (info.core != SC_NONE).then_some(info)
}

/// Puts a thread, and later its children, into a VCPU (`None`: best effort). `mark`: `VCPU_HELD`
/// or 0.
pub(super) fn put_in(
    object: &Object,
    tid: u32,
    id: Option<u32>,
    mark: u32,
) -> Result<(), LinuxError> {
    let fail =
        |e: std::io::Error| LinuxError::of_io(&format!("thread {tid}"), &e, "does it still run?");
    let pidfd = sys::tasks::open_thread(tid).map_err(fail)?;
    let found = id.and_then(|id| info(object, id));
    let value = id.map_or(0, |id| entry(id, found.map_or(0, |info| info.generation), mark));
    let (bound, key) = (bpf::map(object, "bound")?, pidfd.as_raw_fd().cast_unsigned());
    let refused = |e: libbpf_rs::Error| {
        LinuxError::Machine(format!("thread {tid} cannot be bound: {e}; does it still run?"))
    };
    // It may have inherited its VCPU.
    if contract::look_up(&bound, key).map_err(refused)? == Some(value) {
        return Ok(());
    }
    contract::put(&bound, key, &value).map_err(refused)?;
    // The kernel takes it off its queue and enqueues it again, now in that of its VCPU, when its
    // CPUs change.
    let allowed = sys::tasks::affinity_of(tid).map_err(fail)?;
    let core = found.map(|info| info.core).filter(|core| allowed.contains(core));
    if let (Some(core), 2..) = (core, allowed.len()) {
        sys::tasks::bind(tid, &[core]).map_err(fail)?;
        sys::tasks::bind(tid, &allowed).map_err(fail)?;
    }
    Ok(())
}

/// Is the thread in this VCPU? One that has ended is in none.
pub(super) fn is_in(object: &Object, tid: u32, id: u32) -> bool {
    let (Ok(pidfd), Ok(bound)) = (sys::tasks::open_thread(tid), bpf::map(object, "bound")) else {
        return false;
    };
    let of = contract::look_up::<u32>(&bound, pidfd.as_raw_fd().cast_unsigned());
    let generation = info(object, id).map(|info| info.generation);
    generation.is_some_and(|g| of.ok().flatten() == Some(entry(id, g, 0)))
}

/// The entry of a thread in the table of bound threads: `VCPU_BOUND`, and a mark.
fn entry(id: u32, generation: u32, mark: u32) -> u32 {
    (id + 1) | (generation & contract::VCPU_GENERATIONS) << 12 | mark
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when a thread that is only bound looks like one that its VCPU holds: the kernel's side
    /// would then hold the threads that start jobs.
    #[test]
    fn only_the_mark_makes_a_thread_a_held_one() {
        let (held, last) = (contract::VCPU_HELD, contract::VCPU_GENERATIONS);
        for (id, generation) in [(0, 0), (5, 3), (super::super::MAX_VCPUS - 1, last)] {
            let bound = entry(id, generation, 0);
            assert_eq!(bound & held, 0);
            assert_eq!((bound & 0xfff, bound >> 12), (id + 1, generation));
            assert_eq!(entry(id, generation, held), bound | held);
        }
        // As the kernel's side counts on.
        assert_eq!(entry(7, last + 1, 0), entry(7, 0, 0));
    }
}
