//! The ground truth: the actions of every vCPU, program and frame, from the model itself; written
//! as JSON at exit and when the guest asks.
//!
//! A program is an address space (CR3), named by itself with a magic `cpuid`; the kernel's work
//! while that address space is loaded counts as the program's. An idle CPU keeps the address space
//! of the program that ran last.

use crate::machine::{ALL, EVENTS, Machine};
use crate::replay::Latencies;
use crate::time::NOW_PS;
use crate::vcpu::{Totals, Vcpu};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// A program.
#[derive(Clone, Debug, Default)]
struct Program {
    name: String,
    cr3: u64,
    totals: Totals,
}

/// The counts.
#[derive(Debug)]
pub struct Truth {
    programs: Vec<Program>,
    by_cr3: FxHashMap<u64, usize>,
    /// Time of the last reset of the counts, and their values then.
    since_ps: u64,
    zero: Vec<Totals>,
    latencies: Vec<Latencies>,
    snapshots: u32,
}

/// Bits of CR3 that name an address space; with page-table isolation its two halves differ in bit
/// 12.
const SPACE: u64 = 0x000f_ffff_ffff_e000;

impl Default for Truth {
    fn default() -> Self {
        // Code that runs before any address space is known.
        let boot = Program { name: "boot".to_owned(), ..Program::default() };
        Self {
            programs: vec![boot],
            by_cr3: FxHashMap::default(),
            since_ps: 0,
            zero: Vec::new(),
            latencies: Vec::new(),
            snapshots: 0,
        }
    }
}

impl Truth {
    fn program(&mut self, cr3: u64) -> usize {
        let cr3 = cr3 & SPACE;
        *self.by_cr3.entry(cr3).or_insert_with(|| {
            self.programs.push(Program { cr3, ..Program::default() });
            self.programs.len() - 1
        })
    }

    /// Adds the actions of a vCPU to its program.
    pub fn settle(&mut self, vcpu: &mut Vcpu, totals: Totals) {
        let gone = totals.since(&vcpu.since);
        if let Some(program) = self.programs.get_mut(vcpu.program) {
            program.totals.add(&gone);
        }
        vcpu.since = totals;
    }

    /// Switches a vCPU to another address space.
    pub fn switch(&mut self, vcpu: &mut Vcpu, totals: Totals, cr3: u64) {
        self.settle(vcpu, totals);
        vcpu.program = self.program(cr3);
    }

    /// Names the program of an address space; its earlier counts stay with the old name.
    pub fn name(&mut self, vcpu: &mut Vcpu, totals: Totals, cr3: u64, name: &str) {
        self.settle(vcpu, totals);
        self.programs.push(Program {
            name: name.to_owned(),
            cr3: cr3 & SPACE,
            totals: Totals::default(),
        });
        self.by_cr3.insert(cr3 & SPACE, self.programs.len() - 1);
        vcpu.program = self.programs.len() - 1;
    }

    /// Resets the counts.
    pub fn reset(&mut self, vcpus: &mut [Vcpu], machine: &mut Machine) {
        self.zero = vcpus.iter().map(|v| v.totals(machine)).collect();
        self.latencies.clone_from(&machine.replayed().latencies);
        self.since_ps = NOW_PS.load(Relaxed);
        self.programs.iter_mut().for_each(|p| p.totals = Totals::default());
        for (vcpu, &totals) in vcpus.iter_mut().zip(&self.zero) {
            vcpu.since = totals;
        }
        machine.frames.iter_mut().for_each(|f| *f = crate::machine::FrameCounts::default());
    }

    /// Everything as JSON; `host` are the counts that depend on the host.
    pub fn json(
        &mut self,
        vcpus: &mut [Vcpu],
        machine: &mut Machine,
        host: &impl Serialize,
        label: &str,
    ) -> Value {
        let now = NOW_PS.load(Relaxed);
        for vcpu in vcpus.iter_mut() {
            let totals = vcpu.totals(machine);
            self.settle(vcpu, totals);
        }
        let none = Totals::default();
        let replay = machine.replayed();
        let (seen_all, uncore) = (replay.latencies.clone(), replay.uncore(now));
        let (largest, sum_of, lost) =
            (replay.largest_correction_ps, replay.sum_corrections_ps, replay.lost_ps);
        let vcpu = |v: &Vcpu| {
            let totals = v.totals(machine).since(self.zero.get(v.index).unwrap_or(&none));
            let mut object = counts(&totals);
            let seen = seen_all[v.index];
            let before = self.latencies.get(v.index).copied().unwrap_or_default();
            let lines = seen.lines - before.lines;
            object.insert("dram_reads".into(), lines.into());
            let mean = (seen.sum_ps - before.sum_ps).checked_div(lines).unwrap_or(0);
            object.insert("dram_read_mean_ps".into(), mean.into());
            object.insert("dram_read_max_ps".into(), seen.max_ps.into());
            object.insert("pmu_interrupts".into(), v.pmu.interrupts.into());
            object.insert("pmu_interrupts_masked".into(), v.masked.into());
            Value::Object(object)
        };
        let frames = machine.frames.iter().enumerate().filter(|(_, f)| f.fills + f.writebacks > 0);
        let program = |p: &Program| {
            let mut object = counts(&p.totals);
            object.insert("name".into(), p.name.clone().into());
            object.insert("cr3".into(), p.cr3.into());
            Value::Object(object)
        };
        let mut sum = none;
        vcpus.iter().for_each(|v| {
            sum.add(&v.totals(machine).since(self.zero.get(v.index).unwrap_or(&none)))
        });
        json!({
            "format": "solocore-board-truth-1",
            "label": label,
            "now_ps": now,
            "since_ps": self.since_ps,
            "total": counts(&sum),
            "vcpus": vcpus.iter().map(vcpu).collect::<Vec<_>>(),
            "programs": self.programs.iter().filter(|p| p.totals.busy_ps > 0).map(program).collect::<Vec<_>>(),
            "memory_controller": {
                "reads": uncore.reads, "writes": uncore.writes, "device": uncore.device,
                "read_occupancy_ps": uncore.read_occupancy_ps,
            },
            // QEMU gives sleeping vCPUs work of its own, so the number of quanta of an idle guest
            // differs from run to run.
            "host": host,
            "largest_correction_ps": largest,
            "lost_ps": lost,
            "sum_of_corrections_ps": sum_of,
            "frames": frames.map(|(n, f)| json!([n, f.fills, f.writebacks])).collect::<Vec<_>>(),
        })
    }

    /// Path of a snapshot, beside the final file: `PATH.LABEL`, or `PATH.N` without a label; and
    /// the label.
    pub fn place(&mut self, path: &Path, label: &str) -> (PathBuf, String) {
        self.snapshots += 1;
        let known = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        let label: String = label.chars().filter(|&c| known(c)).collect();
        let name = if label.is_empty() { self.snapshots.to_string() } else { label };
        let mut file = path.as_os_str().to_owned();
        file.push(format!(".{name}"));
        (file.into(), name)
    }
}

fn counts(totals: &Totals) -> Map<String, Value> {
    let mut object = Map::new();
    let [user, kernel] = totals.instructions;
    object.insert("instructions_user".into(), user.into());
    object.insert("instructions_kernel".into(), kernel.into());
    object.insert("busy_ps".into(), totals.busy_ps.into());
    for (event, count) in ALL.iter().zip(totals.events).take(EVENTS) {
        if let Ok(Value::String(name)) = serde_json::to_value(event) {
            object.insert(name, count.into());
        }
    }
    object
}

/// Writes a file as a whole: a reader finds the old one or the new one.
pub fn write(path: &Path, value: &Value) {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let result = serde_json::to_vec(value)
        .map_err(std::io::Error::from)
        .and_then(|text| std::fs::write(&part, text))
        .and_then(|()| std::fs::rename(&part, path));
    if let Err(error) = result {
        eprintln!("solocore-board: {}: {error}", path.display());
    }
}
