//! Ways that the kernel fills by itself and then takes out of use: pseudo-locking.
//!
//! Problem: lines stay in a cache only until other lines replace them.
//! Rule: a group is put in `pseudo-locksetup`. When its schemata is written, the kernel fills these
//! ways with memory of its own, and gives them to no group any more. It offers the memory as a
//! device (/dev/pseudo_lock/NAME) that a program on that cache's CPUs maps. The kernel does this on
//! three Intel models only, those on which it can switch the prefetchers off.
//! Source: resctrl.rst, "Cache Pseudo-Locking"; the models are those of Linux 6.19.
//! Does not cover: lines that leave by wbinvd, or by a CPU that sleeps deeply (the kernel prevents
//! this).

use super::tree::{Record, Tree};
use crate::error::LinuxError;
use std::path::PathBuf;

/// Family, model and name of each CPU on which the kernel can pseudo-lock.
const MODELS: &[(u32, u32, &str)] =
    &[(6, 0x4f, "Broadwell-X"), (6, 0x5c, "Goldmont"), (6, 0x7a, "Goldmont Plus")];

/// Name of the model, if the kernel can pseudo-lock on it.
pub(crate) fn model(cpuinfo: &str) -> Option<&'static str> {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|l| l.split(':').next().is_some_and(|k| k.trim() == name));
        line.and_then(|l| l.split_once(':')).map(|(_, value)| value.trim())
    };
    if field("vendor_id") != Some("GenuineIntel") {
        return None;
    }
    let (family, model) =
        (field("cpu family")?.parse::<u32>().ok()?, field("model")?.parse::<u32>().ok()?);
    MODELS.iter().find(|m| (m.0, m.1) == (family, model)).map(|m| m.2)
}

/// Finding for `solocore doctor`: whether the kernel can pseudo-lock, and a text.
pub(super) fn finding(cpuinfo: &str) -> (bool, String) {
    match model(cpuinfo) {
        Some(name) => (
            true,
            format!(
                "{name}: the kernel can pseudo-lock ways of its cache (`solocore bench lockdown`)"
            ),
        ),
        None => {
            let names: Vec<&str> = MODELS.iter().map(|m| m.2).collect();
            let found = format!(
                "the kernel pseudo-locks on {} only; elsewhere pages are prefetched into ways or \
                    colours that nobody else has (`solocore bench lockdown`)",
                names.join(", ")
            );
            (false, found)
        }
    }
}

/// Locks these ways of a cache and returns the device to be mapped. All or nothing.
///
/// # Errors
/// The kernel refuses; the message contains its reason.
pub(crate) fn lock(
    tree: &mut dyn Tree,
    name: &str,
    cache: u64,
    mask: u64,
    record: &mut dyn Record,
) -> Result<PathBuf, LinuxError> {
    let mut step = |tree: &mut dyn Tree| -> std::io::Result<()> {
        record.group(name)?;
        tree.make(name)?;
        tree.write(&format!("{name}/mode"), "pseudo-locksetup\n").and_then(|()| {
            tree.write(&format!("{name}/schemata"), &format!("L3:{cache}={mask:x}\n"))
        })
    };
    match step(tree) {
        Ok(()) => Ok(PathBuf::from(format!("/dev/pseudo_lock/{name}"))),
        Err(e) => {
            let said = tree.read("info/last_cmd_status").unwrap_or_default();
            if e.kind() != std::io::ErrorKind::AlreadyExists {
                // The group was made here, or it does not exist.
                let _ = tree.remove(name);
            }
            Err(LinuxError::Machine(format!(
                "the kernel does not pseudo-lock ways {mask:x}: {e} ({}); use exclusive ways and \
                    prefetching instead",
                said.trim()
            )))
        }
    }
}
