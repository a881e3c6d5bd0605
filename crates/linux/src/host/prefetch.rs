//! Are the prefetchers of this machine's cores off?
//!
//! Rule: Intel's cores say so in MSR 0x1a4, whose four low bits each turn one off; it is read of
//! every CPU through the kernel's `msr` device. Source: Intel, "Disclosure of Hardware Prefetcher
//! Control on Some Intel Processors".
//! Does not cover: other vendors, whose switches differ by model, and prefetchers of the shared
//! cache. Nothing is changed here.

use crate::host::machine;
use solocore_model::plan::{Answer, Promise};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The register, and its bits of prefetchers of the first two levels.
const CONTROL: u64 = 0x1a4;
const ALL_OFF: u64 = 0xf;

/// What the register says on all CPUs.
pub(crate) enum State {
    /// All prefetchers are off.
    Off,
    /// Some are on, on these CPUs.
    On(Vec<u32>),
    /// The register cannot be read.
    Refused(io::Error),
    /// The CPU has no such register.
    Other,
}

/// Looks at a machine's files below `root`.
pub(crate) fn state(root: &Path) -> State {
    let intel = fs::read_to_string(root.join("proc/cpuinfo"));
    if !intel.is_ok_and(|text| text.contains("GenuineIntel")) {
        return State::Other;
    }
    match registers(root) {
        Ok(all) => {
            let on = all.into_iter().filter(|(_, bits)| bits & ALL_OFF != ALL_OFF);
            let on: Vec<u32> = on.map(|(cpu, _)| cpu).collect();
            if on.is_empty() { State::Off } else { State::On(on) }
        }
        Err(e) => State::Refused(e),
    }
}

/// Who keeps the promise that no prefetcher adds traffic.
pub(crate) fn answer(promise: &Promise) -> Answer {
    let vouch = "turn them off in the firmware and give --vouch prefetchers";
    match state(Path::new("/")) {
        State::Off => Answer::kept(promise, "firmware", true, "MSR 0x1a4 says that all are off"),
        State::On(_) => Answer::open(
            promise,
            true,
            "MSR 0x1a4 says that prefetchers are on; turn them off: wrmsr --all 0x1a4 0xf",
        ),
        State::Refused(e) => {
            let why =
                format!("MSR 0x1a4 cannot be read ({e}); load the kernel's msr module, or {vouch}");
            Answer::open(promise, false, why)
        }
        State::Other => {
            let why = format!("whether prefetchers are on cannot be read here; {vouch}");
            Answer::open(promise, false, why)
        }
    }
}

/// The register of each CPU that is online.
fn registers(root: &Path) -> io::Result<Vec<(u32, u64)>> {
    let online = fs::read_to_string(root.join("sys/devices/system/cpu/online"))?;
    let read = |cpu: u32| {
        let mut bytes = [0; 8];
        let file = fs::File::open(root.join(format!("dev/cpu/{cpu}/msr")))?;
        file.read_exact_at(&mut bytes, CONTROL)?;
        Ok((cpu, u64::from_le_bytes(bytes)))
    };
    machine::parse_cpu_list(&online).into_iter().map(read).collect()
}
