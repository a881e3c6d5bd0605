//! `bpf/vcpu_intf.h` seen from here. Offsets inside the large structs are taken from the type information in the compiled object;
//! the small ones are encoded byte by byte, and a test compares them with it.

use crate::error::LinuxError;
use crate::regulate::bpf;
use libbpf_rs::HasSize;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::btf::{Btf, TypeId};

/// `SC_MAX_TASKS` of the object: VCPUs of a machine, the best-effort ones of its CPUs included.
pub const MAX_VCPUS: u32 = 1024;
/// `SC_NONE`.
pub(super) const NONE: u32 = u32::MAX;
/// Bytes of `struct vcpu_info`.
pub(super) const INFO_BYTES: usize = 72;
/// Bytes of `struct vcpu_request`.
#[cfg(test)]
pub(super) const REQUEST_BYTES: usize = 64;
/// Where `done` lies in it.
const REQUEST_DONE: usize = 60;

/// `struct vcpu_settings`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub slice_ns: u64,
    pub check_ns: u64,
    pub balance_ns: u64,
    pub overhead_ns: u64,
    pub cpus: u32,
    pub background: u32,
    pub allowed: u32,
    pub loader_pid: u32,
    pub moves: u32,
    pub colours: u32,
}

impl Settings {
    pub fn encode(&self) -> Vec<u8> {
        let longs = [self.slice_ns, self.check_ns, self.balance_ns, self.overhead_ns];
        let words = [self.cpus, self.background, self.allowed, self.loader_pid, self.moves, self.colours];
        longs.iter().flat_map(|l| l.to_ne_bytes()).chain(words.iter().flat_map(|w| w.to_ne_bytes())).collect()
    }
}

/// `struct vcpu_request`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Request {
    pub capacity_ns: u64,
    pub period_ns: u64,
    pub colours: u64,
    pub occupancy: u64,
    pub requests: u64,
    pub id: u32,
    pub cpu: u32,
    pub flags: u32,
    pub server: u32,
    pub limit: u32,
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        let longs = [self.capacity_ns, self.period_ns, self.colours, self.occupancy, self.requests];
        let words = [self.id, self.cpu, self.flags, self.server, self.limit, 0];
        longs.iter().flat_map(|l| l.to_ne_bytes()).chain(words.iter().flat_map(|w| w.to_ne_bytes())).collect()
    }
}

/// `struct vcpu_request` as a program leaves it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answer {
    pub occupancy: u64,
    pub requests: u64,
    pub limit: u32,
    pub done: u32,
}

impl Answer {
    pub fn decode(bytes: &[u8]) -> Self {
        let long = |at: usize| bytes.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().unwrap_or([0; 8])));
        let word = |at: usize| bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().unwrap_or([0; 4])));
        Self { occupancy: long(24), requests: long(32), limit: word(56), done: word(REQUEST_DONE) }
    }
}

/// A VCPU as `struct vcpu_info` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Info {
    pub moves: u64,
    pub move_ns: u64,
    pub core: u32,
    pub generation: u32,
}

impl Info {
    /// `None` if there is no such VCPU.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let long = |at: usize| bytes.get(at..at + 8).map(|b| u64::from_ne_bytes(b.try_into().unwrap_or([0; 8])));
        let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_ne_bytes(b.try_into().unwrap_or([0; 4])));
        let info = Self { moves: long(24)?, move_ns: long(32)?, core: word(56)?, generation: word(68)? };
        (info.core != NONE).then_some(info)
    }

    /// What the map holds of a VCPU that was never there.
    pub fn absent() -> [u8; INFO_BYTES] {
        Self::absent_since(0)
    }

    /// What it holds of one that is no more: threads of this generation are nobody's.
    pub fn absent_since(generation: u32) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        bytes[68..72].copy_from_slice(&generation.to_ne_bytes());
        bytes[56..60].copy_from_slice(&NONE.to_ne_bytes());
        bytes[60..64].copy_from_slice(&NONE.to_ne_bytes());
        bytes
    }
}

/// Where things lie in `struct vcpu_cpu`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    /// Its size in the map.
    pub bytes: usize,
    pub background_ns: usize,
    /// Of the first VCPU, and from one to the next.
    pub vcpu: usize,
    pub vcpu_bytes: usize,
    /// Inside a VCPU.
    pub vcpu_foreground_ns: usize,
    pub vcpu_background_ns: usize,
    pub vcpu_state: usize,
    pub switches: usize,
    pub late: usize,
    pub late_ns: usize,
    pub most_late_ns: usize,
    pub strays: usize,
    pub moves: usize,
    pub errors: usize,
    pub intrusions: usize,
    pub intruder_ns: usize,
}

fn member(of: &Struct<'_>, name: &str) -> Option<(usize, TypeId)> {
    let found = of.iter().find(|m| m.name.is_some_and(|n| n == name))?;
    match found.attr {
        MemberAttr::Normal { offset } => Some((offset as usize / 8, found.ty)),
        MemberAttr::BitField { .. } => None,
    }
}

/// Where the kernel's patience with the scheduler lies among its callbacks.
pub(super) fn place_of_timeout() -> Result<usize, LinuxError> {
    Btf::from_raw("vcpu", bpf::VCPU)
        .ok()
        .flatten()
        .as_ref()
        .and_then(|btf| member(&btf.type_by_name::<Struct<'_>>("sched_ext_ops")?, "timeout_ms"))
        .map(|(at, _)| at)
        .ok_or_else(|| bpf::inside("the BPF object of VCPUs does not say how its scheduler is laid out"))
}

impl Layout {
    /// As compiled.
    pub fn of_object() -> Result<Self, LinuxError> {
        Btf::from_raw("vcpu", bpf::VCPU)
            .ok()
            .flatten()
            .as_ref()
            .and_then(Self::of)
            .ok_or_else(|| bpf::inside("the BPF object of VCPUs does not say how it is laid out"))
    }

    fn of(btf: &Btf<'_>) -> Option<Self> {
        let cpu: Struct<'_> = btf.type_by_name("vcpu_cpu")?;
        let core: Struct<'_> = btf.type_by_name("sc_vcpu_core")?;
        let vcpu: Struct<'_> = btf.type_by_name("sc_vcpu")?;
        let of_cpu = |name| member(&cpu, name).map(|(at, _)| at);
        let (core_at, _) = member(&cpu, "core")?;
        let of_core = |name| member(&core, name).map(|(at, _)| core_at + at);
        let of_vcpu = |name| member(&vcpu, name).map(|(at, _)| at);
        Some(Self {
            bytes: cpu.size().next_multiple_of(8),
            background_ns: of_core("background_ns")?,
            vcpu: of_core("vcpu")?,
            vcpu_bytes: vcpu.size(),
            vcpu_foreground_ns: of_vcpu("foreground_ns")?,
            vcpu_background_ns: of_vcpu("background_ns")?,
            vcpu_state: of_vcpu("state")?,
            switches: of_cpu("switches")?,
            late: of_cpu("late")?,
            late_ns: of_cpu("late_ns")?,
            most_late_ns: of_cpu("most_late_ns")?,
            strays: of_cpu("strays")?,
            moves: of_cpu("moves")?,
            errors: of_cpu("errors")?,
            intrusions: of_cpu("intrusions")?,
            intruder_ns: of_cpu("intruder_ns")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_object() {
        let btf = Btf::from_raw("vcpu", bpf::VCPU).unwrap().expect("compiled with -g");
        let struct_of = |name: &str| btf.type_by_name::<Struct<'_>>(name).unwrap();
        let at = |of: &str, name: &str| member(&struct_of(of), name).unwrap().0;
        let settings = Settings {
            slice_ns: 1,
            check_ns: 2,
            balance_ns: 3,
            overhead_ns: 10,
            cpus: 4,
            background: 5,
            allowed: 6,
            loader_pid: 7,
            moves: 8,
            colours: 9,
        };
        assert_eq!(settings.encode().len(), struct_of("vcpu_settings").size());
        assert_eq!((at("vcpu_settings", "overhead_ns"), at("vcpu_settings", "cpus")), (24, 32));
        assert_eq!((at("vcpu_settings", "loader_pid"), at("vcpu_settings", "colours")), (44, 52));
        assert_eq!(Request::default().encode().len(), REQUEST_BYTES);
        assert_eq!(struct_of("vcpu_request").size(), REQUEST_BYTES);
        assert_eq!((at("vcpu_request", "id"), at("vcpu_request", "done")), (40, REQUEST_DONE));
        let answered = ["occupancy", "requests", "limit"].map(|name| at("vcpu_request", name));
        assert_eq!(answered, [24, 32, 56]);
        assert_eq!(struct_of("vcpu_info").size(), INFO_BYTES);
        let info = ["moves", "move_ns", "core", "to", "generation"].map(|name| at("vcpu_info", name));
        assert_eq!(info, [24, 32, 56, 60, 68]);
        assert_eq!(Info::decode(&Info::absent()), None);
        // Eight callbacks or more lie before it.
        assert!(place_of_timeout().unwrap() > 64);
        let layout = Layout::of_object().unwrap();
        assert!(
            layout.vcpu + layout.vcpu_bytes * MAX_VCPUS as usize <= layout.switches && layout.errors < layout.bytes
        );
    }
}
