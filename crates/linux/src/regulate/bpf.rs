//! Objects of BPF programs: loads them with the kernel's messages, and reads them.
//!
//! Rule: one load at a time, with a log of its own; an error contains the verifier's last message.
//! Each scheduler and engine defines its programs and the structs that they share with this side.

use crate::contract::{self, run_exit};
use crate::error::LinuxError;
use libbpf_rs::{MapCore, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};
use std::sync::Mutex;
use zerocopy::FromZeros;

/// `bpf/sched_ext.bpf.c`.
pub(crate) const SCHED_EXT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sched_ext.o"));
/// `bpf/vcpu.bpf.c`.
pub(crate) const VCPU: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vcpu.o"));
/// `bpf/helper.bpf.c`.
pub(crate) const HELPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/helper.o"));
/// `bpf/functions.bpf.c`.
pub(crate) const FUNCTIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/functions.o"));
/// `bpf/levels.bpf.c`.
pub(crate) const LEVELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/levels.o"));

/// libbpf's messages during a load: they go to one function for the whole process.
static LOG: Mutex<String> = Mutex::new(String::new());

fn log(_: PrintLevel, message: String) {
    LOG.lock().unwrap_or_else(|e| e.into_inner()).push_str(&message);
}

/// The line of libbpf's or the verifier's log with the reason: the last one before the summary.
fn complaint(said: &str) -> String {
    let telling = |l: &&str| !l.is_empty() && !l.starts_with(';') && !l.starts_with("processed");
    let lines: Vec<&str> = said.lines().map(str::trim).filter(telling).collect();
    let verdict = lines.iter().rev().find(|l| !l.starts_with("libbpf:") && !l.starts_with("--"));
    verdict.or(lines.first()).map_or_else(String::new, |l| format!(" ({l})"))
}

/// Opens an object, applies `change`, and loads it.
pub(crate) fn load_object(
    bytes: &[u8],
    change: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, LinuxError> {
    /// One load at a time, so that each has its own log.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let before = set_print(Some((PrintLevel::Info, log)));
    LOG.lock().unwrap_or_else(|e| e.into_inner()).clear();
    let result = ObjectBuilder::default().open_memory(bytes).and_then(|mut open| {
        change(&mut open)?;
        open.load()
    });
    set_print(before);
    let said = std::mem::take(&mut *LOG.lock().unwrap_or_else(|e| e.into_inner()));
    result.map_err(|e| {
        LinuxError::Machine(format!(
            "the kernel refuses the BPF programs: {e}{}; `solocore doctor` says what this kernel \
                can do",
            complaint(&said)
        ))
    })
}

/// A map of the object.
pub(crate) fn map<'o>(object: &'o Object, name: &str) -> Result<libbpf_rs::Map<'o>, LinuxError> {
    object
        .maps()
        .find(|m| m.name() == name)
        .ok_or_else(|| inside(&format!("the BPF object holds no map `{name}`")))
}

/// An error that only a fault of this program can cause.
pub(crate) fn inside(what: &str) -> LinuxError {
    LinuxError::Machine(format!("{what}; this is a fault of solocore, please report it"))
}

/// `SCX_ECODE_ACT_RESTART`: the scheduler may be installed again at once.
const RESTART: u64 = 1 << 48;

fn exit_of(object: &Object) -> Result<run_exit, LinuxError> {
    let seen = contract::look_up::<run_exit>(&map(object, "ended")?, 0).ok().flatten();
    seen.ok_or_else(|| inside("the scheduler's state cannot be read"))
}

/// Whether the kernel has ended the scheduler of this object and would take it again: it does so
/// when a CPU comes or goes.
///
/// # Errors
/// The kernel has ended it for another reason.
pub(crate) fn ended_for_now(object: &Object) -> Result<bool, LinuxError> {
    if exit_of(object)?.code & RESTART == 0 {
        return check_ended(object).map(|()| false);
    }
    Ok(true)
}

/// Forgets why a scheduler ended, before it is installed again.
pub(crate) fn forget_end(object: &Object) -> Result<(), LinuxError> {
    contract::put(&map(object, "ended")?, 0, &run_exit::new_zeroed())
        .map_err(|e| inside(&format!("the scheduler's state cannot be written: {e}")))
}

/// Checks that the scheduler of this object is still the kernel's.
pub(crate) fn check_ended(object: &Object) -> Result<(), LinuxError> {
    let exit = exit_of(object)?;
    if exit.kind == 0 {
        return Ok(());
    }
    let (reason, message) = (contract::text(&exit.reason), contract::text(&exit.message));
    let message = if message.is_empty() { String::new() } else { format!(" ({message})") };
    Err(LinuxError::Machine(format!(
        "the kernel unloaded the scheduler: {reason}{message}; tasks go on under its own, start \
            solocore again"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_is_the_verifiers_last_word() {
        let said = "libbpf: prog 'x': BPF program load failed: -13\nlibbpf: -- BEGIN PROG LOAD LOG \
            --\n0: r0 = 0\ncalling kernel function scx is not allowed\nprocessed 3 insns\n-- END \
            PROG LOAD LOG --\nlibbpf: failed";
        assert_eq!(complaint(said), " (calling kernel function scx is not allowed)");
        assert_eq!(complaint("libbpf: only this\n"), " (libbpf: only this)");
        assert_eq!(complaint(""), "");
    }
}
