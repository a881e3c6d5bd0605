//! State of the prefetchers of this machine's cores, and a switch that turns them off for a while.
//!
//! Rule: each of four low bits of MSR 0x1a4 turns one prefetcher of an Intel core off. On AMD's
//! Zen 4 and Zen 5, bits 0 (L1 stream), 1 (L1 stride), 2 (L1 region), 3 (L2 stream) and 5 (up/down,
//! L2) of MSR 0xc0000108 do. The register of every CPU is read through the kernel's `msr` device.
//! Sources: Intel, "Disclosure of Hardware Prefetcher Control on Some Intel Processors"; AMD,
//! Processor Programming Reference 55901 (family 19h, model 11h) and 57238 (family 1Ah, model 02h),
//! MSRC000_0108. The models of Zen 4 and Zen 5 are those of Linux, `arch/x86/kernel/cpu/amd.c`.
//! Does not cover: other vendors and older cores of AMD, whose switches differ by model, and
//! prefetchers of the shared cache. Only [`switch_off`] changes something, and puts it back when
//! its value is dropped; a process that is killed (SIGKILL) leaves them off.

use crate::host::machine;
use solocore_model::plan::{Answer, Promise};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A register, and its bits that turn off the prefetchers of the first two levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    register: u64,
    all_off: u64,
}

const INTEL: Control = Control { register: 0x1a4, all_off: 0xf };
const AMD: Control = Control { register: 0xc000_0108, all_off: 0x2f };

impl Control {
    /// That of the CPUs of a machine.
    fn of(root: &Path) -> Option<Self> {
        let text = fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
        if text.contains("GenuineIntel") {
            return Some(INTEL);
        }
        let number = |key: &str| {
            let line = text.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == key).then_some(value)
            });
            line?.trim().parse::<u32>().ok()
        };
        let known = match (number("cpu family")?, number("model")?) {
            (0x19, model) => matches!(model, 0x10..=0x1f | 0x60..=0xaf),
            (0x1a, model) => matches!(model, 0x00..=0x2f | 0x40..=0x4f | 0x70..=0x7f),
            _ => false,
        };
        (text.contains("AuthenticAMD") && known).then_some(AMD)
    }

    /// The register in words.
    pub(crate) fn name(self) -> String {
        format!("MSR {:#x}", self.register)
    }

    /// The command that turns them off.
    pub(crate) fn command(self) -> String {
        format!("wrmsr --all {:#x} {:#x}", self.register, self.all_off)
    }
}

/// Contents of the register on all CPUs.
pub(crate) enum State {
    /// All prefetchers are off.
    Off(Control),
    /// Some are on, on these CPUs.
    On(Control, Vec<u32>),
    /// The register cannot be read.
    Refused(Control, io::Error),
    /// The CPU has no such register.
    Other,
}

/// The state, from a machine's files below `root`.
pub(crate) fn state(root: &Path) -> State {
    let Some(control) = Control::of(root) else { return State::Other };
    match registers(root, control) {
        Ok(all) => {
            let off = control.all_off;
            let on = all.into_iter().filter(|(_, bits)| bits & off != off);
            let on: Vec<u32> = on.map(|(cpu, _)| cpu).collect();
            if on.is_empty() { State::Off(control) } else { State::On(control, on) }
        }
        Err(e) => State::Refused(control, e),
    }
}

/// Whether nobody but the user can know that no prefetcher adds traffic: this CPU has no register
/// that tells it.
#[must_use]
pub fn is_unknown_here() -> bool {
    matches!(state(Path::new("/")), State::Other)
}

/// Answer to the promise that no prefetcher adds traffic.
pub(crate) fn answer(promise: &Promise) -> Answer {
    let vouch = "turn them off in the firmware and give --vouch prefetchers";
    match state(Path::new("/")) {
        State::Off(control) => {
            let why = format!("{} says that all are off", control.name());
            Answer::kept(promise, "firmware", true, why)
        }
        State::On(control, _) => Answer::open(
            promise,
            true,
            format!(
                "{} says that prefetchers are on; turn them off: {}",
                control.name(),
                control.command()
            ),
        ),
        State::Refused(control, e) => {
            let msr = control.name();
            let why =
                format!("{msr} cannot be read ({e}); load the kernel's msr module, or {vouch}");
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
    control: Control,
    before: Vec<(u32, u64)>,
}

/// Switches the prefetchers of all CPUs off; `None`: they were off already.
///
/// # Errors
/// The reason why they stay on, in words that fit behind "prefetchers are on:".
pub fn switch_off(root: &Path) -> Result<Option<SwitchedOff>, String> {
    let control = match state(root) {
        State::Off(_) => return Ok(None),
        State::Other => return Err("this CPU has no known switch for them".to_owned()),
        State::Refused(control, e) => {
            let msr = control.name();
            return Err(format!("{msr} cannot be read ({e}); load the kernel's msr module"));
        }
        State::On(control, _) => control,
    };
    let msr = control.name();
    let before = registers(root, control).map_err(|e| format!("{msr} cannot be read ({e})"))?;
    // From here on a failure restores the old values.
    let off = SwitchedOff { root: root.to_owned(), control, before };
    for &(cpu, bits) in &off.before {
        write(&off.root, control, cpu, bits | control.all_off)
            .map_err(|e| format!("{msr} of CPU {cpu} cannot be written ({e})"))?;
    }
    // A hypervisor may accept the write and ignore it.
    match state(root) {
        State::Off(_) => Ok(Some(off)),
        _ => Err(format!("{msr} does not keep written values")),
    }
}

fn write(root: &Path, control: Control, cpu: u32, bits: u64) -> io::Result<()> {
    let path = root.join(format!("dev/cpu/{cpu}/msr"));
    let file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all_at(&bits.to_le_bytes(), control.register)
}

impl Drop for SwitchedOff {
    fn drop(&mut self) {
        for &(cpu, bits) in &self.before {
            // A CPU that went offline has nothing to be put back.
            let _ = write(&self.root, self.control, cpu, bits);
        }
    }
}

/// The register of each CPU that is online.
fn registers(root: &Path, control: Control) -> io::Result<Vec<(u32, u64)>> {
    let online = fs::read_to_string(root.join("sys/devices/system/cpu/online"))?;
    let read = |cpu: u32| {
        let mut bytes = [0; 8];
        let file = fs::File::open(root.join(format!("dev/cpu/{cpu}/msr")))?;
        file.read_exact_at(&mut bytes, control.register)?;
        Ok((cpu, u64::from_le_bytes(bytes)))
    };
    machine::parse_cpu_list(&online).into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs with these registers, as files.
    fn machine(cpu: &str, control: Control, values: [u64; 2]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        put("proc/cpuinfo", cpu.as_bytes());
        put("sys/devices/system/cpu/online", b"0-1\n");
        for (cpu, value) in values.iter().enumerate() {
            let path = format!("dev/cpu/{cpu}/msr");
            // A file with a hole as large as the register's number.
            put(&path, &[]);
            write(root.path(), control, u32::try_from(cpu).unwrap(), *value).unwrap();
        }
        root
    }

    const XEON: &str = "vendor_id : GenuineIntel\n";

    fn amd(family: u32, model: u32) -> String {
        format!(
            "vendor_id : AuthenticAMD\ncpu family : {family}\nmodel : {model}\nmodel name : 7\n"
        )
    }

    fn values(root: &Path) -> Vec<u64> {
        let control = Control::of(root).unwrap();
        registers(root, control).unwrap().into_iter().map(|(_, bits)| bits).collect()
    }

    #[test]
    fn prefetchers_are_off_as_long_as_asked_and_come_back() {
        let root = machine(XEON, INTEL, [0x10, 0x22]);
        let off = switch_off(root.path()).unwrap().unwrap();
        assert_eq!(values(root.path()), [0x1f, 0x2f]);
        drop(off);
        assert_eq!(values(root.path()), [0x10, 0x22]);
        let root = machine(XEON, INTEL, [0xf, 0xf]);
        assert!(switch_off(root.path()).unwrap().is_none());
        // Zen 5: what the register has besides (the aggressiveness) stays.
        let root = machine(&amd(0x1a, 2), AMD, [0x3c0, 0x3c1]);
        let off = switch_off(root.path()).unwrap().unwrap();
        assert_eq!(values(root.path()), [0x3ef, 0x3ef]);
        drop(off);
        assert_eq!(values(root.path()), [0x3c0, 0x3c1]);
    }

    #[test]
    fn only_cores_whose_register_is_documented_have_one() {
        let of = |family, model| Control::of(machine(&amd(family, model), AMD, [0; 2]).path());
        for (family, model) in [(0x19, 0x11), (0x19, 0x61), (0x19, 0xa0), (0x1a, 2), (0x1a, 0x44)] {
            assert_eq!(of(family, model), Some(AMD), "{family:#x} {model:#x}");
        }
        // Zen 2 and Zen 3.
        for (family, model) in [(0x17, 0x31), (0x19, 1), (0x19, 0x21), (0x19, 0x50)] {
            assert_eq!(of(family, model), None, "{family:#x} {model:#x}");
        }
    }

    #[test]
    fn a_failure_halfway_puts_back() {
        let root = machine(XEON, INTEL, [0, 0]);
        let second = root.path().join("dev/cpu/1/msr");
        let bytes = fs::read(&second).unwrap();
        // The second register vanishes: file modes do not bind root, and no file loses a written
        // value.
        fs::remove_file(&second).unwrap();
        assert!(switch_off(root.path()).unwrap_err().contains("0x1a4"));
        fs::write(&second, bytes).unwrap();
        assert_eq!(values(root.path()), [0, 0]);
        assert!(
            switch_off(machine(&amd(0x17, 1), AMD, [0, 0]).path())
                .unwrap_err()
                .contains("no known")
        );
    }
}
