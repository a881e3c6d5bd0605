//! Are the prefetchers of this machine's cores off?
//!
//! Rule: Intel's cores say so in MSR 0x1a4, whose four low bits each turn one off; it is read of
//! every CPU through the kernel's `msr` device. Source: Intel, "Disclosure of Hardware Prefetcher
//! Control on Some Intel Processors".
//! Does not cover: other vendors, whose switches differ by model, and prefetchers of the shared
//! cache. Nothing is changed here.

use crate::host::machine;
use solocore_model::plan::{Answer, Promise};
use std::os::unix::fs::FileExt;

/// The register, and its bits of prefetchers of the first two levels.
const CONTROL: u64 = 0x1a4;
const ALL_OFF: u64 = 0xf;

/// Who keeps the promise that no prefetcher adds traffic.
pub(crate) fn answer(promise: &Promise) -> Answer {
    let vouch = "turn them off in the firmware and give --vouch prefetchers";
    let intel = machine::cpuinfo().contains("GenuineIntel");
    if !intel {
        let why = format!("whether prefetchers are on cannot be read here; {vouch}");
        return Answer::open(promise, false, why);
    }
    match registers() {
        Ok(all) if all.iter().all(|bits| bits & ALL_OFF == ALL_OFF) => {
            Answer::kept(promise, "firmware", true, "MSR 0x1a4 says that all are off")
        }
        Ok(_) => Answer::open(
            promise,
            true,
            "MSR 0x1a4 says that prefetchers are on; turn them off: wrmsr --all 0x1a4 0xf",
        ),
        Err(e) => {
            let why =
                format!("MSR 0x1a4 cannot be read ({e}); load the kernel's msr module, or {vouch}");
            Answer::open(promise, false, why)
        }
    }
}

fn registers() -> std::io::Result<Vec<u64>> {
    let cpus = machine::online_cpus().map_err(|e| std::io::Error::other(e.to_string()))?;
    let read = |cpu: u32| {
        let mut bytes = [0; 8];
        let file = std::fs::File::open(format!("/dev/cpu/{cpu}/msr"))?;
        file.read_exact_at(&mut bytes, CONTROL)?;
        Ok(u64::from_le_bytes(bytes))
    };
    cpus.into_iter().map(read).collect()
}
