//! The structs of `bpf/vcpu_intf.h` in Rust.

use crate::contract::{self, SC_NONE, sc_vcpu_core, vcpu_info};
use crate::error::LinuxError;
use crate::regulate::bpf;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use zerocopy::FromZeros;

pub(super) use contract::{vcpu_request as Request, vcpu_settings as Settings};

/// Maximum number of VCPUs of a machine, including the best-effort ones of its CPUs (`SC_MAX_TASKS`
/// of the object).
pub const MAX_VCPUS: u32 = 1024;
const _: fn(&sc_vcpu_core) -> &[contract::sc_vcpu; MAX_VCPUS as usize] = |core| &core.vcpu;

/// An empty request.
pub(super) fn nothing() -> Request {
    Request::new_zeroed()
}

/// The map's entry of a VCPU that does not exist: threads of this generation belong to no VCPU.
pub(super) fn absent(generation: u32) -> vcpu_info {
    vcpu_info { core: SC_NONE, to: SC_NONE, generation, ..vcpu_info::new_zeroed() }
}

/// Offset of the kernel's timeout for the scheduler, among its callbacks.
pub(super) fn place_of_timeout() -> Result<usize, LinuxError> {
    let btf = Btf::from_raw("vcpu", bpf::VCPU).ok().flatten();
    let callbacks = btf.as_ref().and_then(|btf| btf.type_by_name::<Struct<'_>>("sched_ext_ops"));
    let mut members = callbacks.iter().flat_map(Struct::iter);
    match members.find(|m| m.name.is_some_and(|name| name == "timeout_ms")).map(|m| m.attr) {
        Some(MemberAttr::Normal { offset }) => Ok(offset as usize / 8),
        _ => Err(bpf::inside("the BPF object of VCPUs does not describe its scheduler")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_callbacks_or_more_lie_before_the_timeout() {
        assert!(place_of_timeout().unwrap() > 64);
    }
}
