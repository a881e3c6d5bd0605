//! State of the prefetchers of this machine's cores, and a switch that turns them off for a while.
//!
//! Rule: Intel's cores say so in MSR 0x1a4, whose four low bits each turn one off; it is read of
//! every CPU through the kernel's `msr` device. Source: Intel, "Disclosure of Hardware Prefetcher
//! Control on Some Intel Processors".
//! Does not cover: other vendors, whose switches differ by model, and prefetchers of the shared
//! cache. [`switch_off`] alone changes something, and puts it back when its value is dropped; a
//! process that is killed (SIGKILL) leaves them off.

use crate::host::machine;
use solocore_model::plan::{Answer, Promise};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The register, and its bits of prefetchers of the first two levels.
const CONTROL: u64 = 0x1a4;
const ALL_OFF: u64 = 0xf;

/// Contents of the register on all CPUs.
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

/// The state, from a machine's files below `root`.
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

/// Answer to the promise that no prefetcher adds traffic.
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

/// Prefetchers that are off as long as this lives.
#[derive(Debug)]
pub struct SwitchedOff {
    root: PathBuf,
    before: Vec<(u32, u64)>,
}

/// Switches the prefetchers of all CPUs off; `None`: they were off already.
///
/// # Errors
/// The reason why they stay on, in words that fit behind "prefetchers are on:".
pub fn switch_off(root: &Path) -> Result<Option<SwitchedOff>, String> {
    match state(root) {
        State::Off => return Ok(None),
        State::Other => return Err("this CPU has no known switch for them".to_owned()),
        State::Refused(e) => {
            return Err(format!("MSR 0x1a4 cannot be read ({e}); load the kernel's msr module"));
        }
        State::On(_) => {}
    }
    let before = registers(root).map_err(|e| format!("MSR 0x1a4 cannot be read ({e})"))?;
    // From here on a failure restores the old values.
    let off = SwitchedOff { root: root.to_owned(), before };
    for &(cpu, bits) in &off.before {
        write(&off.root, cpu, bits | ALL_OFF)
            .map_err(|e| format!("MSR 0x1a4 of CPU {cpu} cannot be written ({e})"))?;
    }
    // A hypervisor may accept the write and ignore it.
    match state(root) {
        State::Off => Ok(Some(off)),
        _ => Err("MSR 0x1a4 does not keep what is written".to_owned()),
    }
}

fn write(root: &Path, cpu: u32, bits: u64) -> io::Result<()> {
    let path = root.join(format!("dev/cpu/{cpu}/msr"));
    fs::OpenOptions::new().write(true).open(path)?.write_all_at(&bits.to_le_bytes(), CONTROL)
}

impl Drop for SwitchedOff {
    fn drop(&mut self) {
        for &(cpu, bits) in &self.before {
            // A CPU that went offline has nothing to be put back.
            let _ = write(&self.root, cpu, bits);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs with these registers, as files.
    fn machine(vendor: &str, values: [u64; 2]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        put("proc/cpuinfo", format!("vendor_id : {vendor}\n").as_bytes());
        put("sys/devices/system/cpu/online", b"0-1\n");
        for (cpu, value) in values.iter().enumerate() {
            let mut bytes = vec![0; 0x1a4];
            bytes.extend(value.to_le_bytes());
            put(&format!("dev/cpu/{cpu}/msr"), &bytes);
        }
        root
    }

    fn values(root: &Path) -> Vec<u64> {
        registers(root).unwrap().into_iter().map(|(_, bits)| bits).collect()
    }

    #[test]
    fn prefetchers_are_off_as_long_as_asked_and_come_back() {
        let root = machine("GenuineIntel", [0x10, 0x22]);
        let off = switch_off(root.path()).unwrap().unwrap();
        assert_eq!(values(root.path()), [0x1f, 0x2f]);
        drop(off);
        assert_eq!(values(root.path()), [0x10, 0x22]);
        let root = machine("GenuineIntel", [0xf, 0xf]);
        assert!(switch_off(root.path()).unwrap().is_none());
    }

    #[test]
    fn a_failure_halfway_puts_back() {
        let root = machine("GenuineIntel", [0, 0]);
        let second = root.path().join("dev/cpu/1/msr");
        let bytes = fs::read(&second).unwrap();
        // The second register vanishes: file modes do not bind root, and no file loses a written
        // value.
        fs::remove_file(&second).unwrap();
        assert!(switch_off(root.path()).unwrap_err().contains("0x1a4"));
        fs::write(&second, bytes).unwrap();
        assert_eq!(values(root.path()), [0, 0]);
        assert!(
            switch_off(machine("AuthenticAMD", [0, 0]).path()).unwrap_err().contains("no known")
        );
    }
}
