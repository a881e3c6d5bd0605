//! The optimiser's results for a system, and queries on them: the core and the ways of each task.

use super::optimiser::scheme::{Io, Ipc, Scheme};
use super::optimiser::verify::Checked;
use super::optimiser::{Allocation, Answer};
use super::translate::Translated;
use crate::error::PlanError;
use solocore_analysis::levels::{Level, LevelsTask, Pets, Verdict};
use solocore_model::System;
use solocore_model::levels::{BufferScheme, Contention, Isolation};
use solocore_model::plan::levels::Method;
use solocore_model::system::SystemTask;

/// Result of the optimiser, checked.
pub struct Found<'a> {
    pub system: &'a System,
    pub isolation: &'a Isolation,
    pub translated: &'a Translated,
    pub answer: Answer,
    /// The allocation, or one that shows the fault.
    pub allocation: Allocation,
    pub checked: Checked,
    /// Of tasks of levels A and B: is the I/O buffer in the bank of the core?
    pub own_bank: Vec<bool>,
    pub locked_from: Vec<usize>,
}

impl Found<'_> {
    pub fn schedulable(&self) -> bool {
        matches!(self.answer, Answer::Allocation(_)) && self.checked.verdict == Verdict::Schedulable
    }

    /// The optimiser's index of a task.
    pub fn place(&self, index: usize) -> Option<usize> {
        self.translated.shapes.iter().position(|s| s.index == index)
    }

    pub fn task(&self, at: usize) -> &SystemTask {
        &self.system.tasks[self.translated.shapes[at].index]
    }

    /// Core of a task of levels A and B.
    pub fn core(&self, at: usize) -> Option<usize> {
        self.checked.core.get(at).copied()
    }

    /// Ways that a task runs in.
    pub fn ways(&self, at: usize) -> usize {
        let split = &self.allocation.split;
        self.core(at).map_or(split.level_c, |core| split.cores[core])
    }

    /// Treatment of a message buffer.
    pub fn method(&self, edge: usize) -> Method {
        let (e, scheme) = (&self.translated.system.edges[edge], self.allocation.scheme);
        let optimized = scheme.ipc == Ipc::Optimized && edge < self.translated.system.bound_edges;
        match (optimized, self.locked_from.get(edge)) {
            (false, _) => Method::LevelC,
            (true, Some(&from)) if from <= self.allocation.split.locked => Method::Locked,
            _ if self.core(e.sender) == self.core(e.receiver) => Method::Together,
            _ => Method::Bypass,
        }
    }

    /// Time alone, ps, and lines that a job adds by message buffers outside the ways and the bank
    /// of its core.
    pub fn buffers(&self, at: usize) -> (u64, u64) {
        let t = self.translated;
        let mut out = (0u64, 0u64);
        for (e, edge) in t.system.edges[..t.system.bound_edges].iter().enumerate() {
            let outside = matches!(self.method(e), Method::Bypass | Method::LevelC);
            if outside && (edge.sender == at || edge.receiver == at) {
                let time = t.alone_ps[e][usize::from(edge.receiver == at)];
                out.0 = out.0.saturating_add(time);
                out.1 = out.1.saturating_add(t.lines[e]);
            }
        }
        out
    }

    /// `C_sce` of a job, fs: at level C its C-PET, above that its B-PET. `None` where it is not
    /// bounded.
    pub fn c_sce_fs(&self, at: usize) -> Option<u64> {
        let task = &self.checked.tasks[at];
        let c = self.translated.system.tasks[at].level == Level::C;
        Some(if c { task.pets.c } else { task.pets.b }).filter(|&fs| fs != u64::MAX)
    }

    /// Tasks of levels A and B of a core, in whole picoseconds, rounded up; B by period.
    pub fn on_core(&self, core: usize, level: Level) -> Vec<(usize, LevelsTask)> {
        let s = &self.translated.system;
        let own = (0..s.starts[1])
            .filter(|&at| self.core(at) == Some(core) && s.tasks[at].level == level);
        let mut out: Vec<(usize, LevelsTask)> =
            own.map(|at| (at, picoseconds(&self.checked.tasks[at]))).collect();
        out.sort_by_key(|(at, task)| (task.period, *at));
        out
    }
}

fn picoseconds(task: &LevelsTask) -> LevelsTask {
    let up = |fs: u64| fs.div_ceil(1000);
    LevelsTask {
        period: task.period / 1000,
        pets: Pets { a: up(task.pets.a), b: up(task.pets.b), c: up(task.pets.c) },
    }
}

pub fn scheme_of(scheme: BufferScheme) -> Result<Scheme, PlanError> {
    Scheme::parse(scheme.name()).map_err(|e| PlanError(format!("[levels]: {e}")))
}

/// A scheme with a fixed rule for its I/O buffers. O|opt chooses its rule itself, and the rule is
/// not known here.
pub fn fixed_io(scheme: Scheme) -> Scheme {
    if scheme.io == Io::PerBuffer { Scheme { io: Io::All, ..scheme } } else { scheme }
}

/// Utilization of level C, by C-PETs.
pub fn level_c(found: &Found) -> f64 {
    let global = &found.checked.tasks[found.translated.system.starts[1]..];
    global.iter().map(|t| t.pets.c as f64 / t.period as f64).fold(0.0, |sum, u| sum + u)
}

/// Is contention bounded, so that PETs are bounds?
pub fn bounded(found: &Found) -> bool {
    found.isolation.settings.contention == Contention::Bounded
}
