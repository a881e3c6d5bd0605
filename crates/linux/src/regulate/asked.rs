//! Other budgets for CPUs that are regulated: asked for here, and taken by the BPF programs.
//!
//! Problem: a CPU's own programs write its state (`run_core`) at any time, so the loader cannot put
//! a whole struct. Rule: the loader stores single words through a mapping. `asked` of the policy's
//! state holds for the next period (`sc_memguard_request` in solocore/memguard.h does the same).
//! The loader's own words hold for a CPU whose events are opened again. They are stored first, so a
//! CPU that begins again in between has the budget that it is asked for, one period early. Does not
//! cover: the period of a counter, which must be that of the sample stored here (attach.rs).

use super::bpf::map;
use super::handover::Budgets;
use super::shared::MAX_CPUS;
use crate::contract::run_core;
use crate::error::LinuxError;
use crate::sys::MappedWords;
use libbpf_rs::Object;
use std::mem::offset_of;

/// Places of the two kinds in an array of the policy (`SC_READ`, `SC_WRITE`).
const KINDS: [usize; 2] = [0, size_of::<u64>()];

/// The states of all CPUs, mapped.
fn cores(object: &Object) -> Result<MappedWords, LinuxError> {
    MappedWords::new(&map(object, "cores")?, place(MAX_CPUS))
}

/// Asks for budgets; each CPU takes them as its next period begins.
pub(crate) fn ask(object: &Object, asked: &[(u32, Budgets)]) -> Result<(), LinuxError> {
    if asked.is_empty() {
        return Ok(());
    }
    let cores = cores(object)?;
    for &(cpu, Budgets { accesses, writes }) in asked {
        let store = |field: usize, value| cores.store(place(cpu) + field, value);
        store(offset_of!(run_core, reservation), accesses);
        store(offset_of!(run_core, write_reservation), writes);
        // A CPU that looks for a wish for accesses alone takes both (`core_asked` of bpf/core.h).
        for (kind, value) in KINDS.into_iter().zip([accesses, writes]).rev() {
            store(offset_of!(run_core, guard.asked) + kind, value);
        }
    }
    Ok(())
}

/// Sets the accesses that each overflow of a CPU's counter reports.
pub(crate) fn report(object: &Object, cpu: u32, sample: u64) -> Result<(), LinuxError> {
    cores(object)?.store(place(cpu) + offset_of!(run_core, sample), sample);
    Ok(())
}

/// Sets the accesses beyond its budget that a CPU's period may have without counting as over it.
pub(crate) fn tolerate(object: &Object, tolerances: &[(u32, u64)]) -> Result<(), LinuxError> {
    if tolerances.is_empty() {
        return Ok(());
    }
    let cores = cores(object)?;
    for &(cpu, tolerance) in tolerances {
        cores.store(place(cpu) + offset_of!(run_core, tolerance), tolerance);
    }
    Ok(())
}

/// The budgets of a CPU's present period; `None` while it has not taken those that it was asked
/// for.
pub(crate) fn in_force(object: &Object, cpu: u32) -> Result<Option<Budgets>, LinuxError> {
    let cores = cores(object)?;
    let word = |field: usize| cores.double_word(place(cpu) + field);
    let waits = KINDS.into_iter().any(|kind| word(offset_of!(run_core, guard.asked) + kind) != 0);
    if waits || cores.word(place(cpu) + offset_of!(run_core, started)) == 0 {
        return Ok(None);
    }
    let [accesses, writes] = KINDS.map(|kind| word(offset_of!(run_core, guard.reservation) + kind));
    Ok(Some(Budgets { accesses, writes }))
}

/// Offset of a CPU's state.
fn place(cpu: u32) -> usize {
    cpu as usize * size_of::<run_core>()
}
