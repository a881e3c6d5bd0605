//! A verdict on a whole system: levels A and B on each core, level C on all.

use super::harmonic::{AnalysedCore, CoreVerdict};
use super::level_c::{Form, LevelCVerdict, explain_level_c, level_c};
use super::{Level, LevelsTask, hyperperiod, level_a, level_b};
use crate::Derivation;
use serde::{Deserialize, Serialize};

/// Outcome for a system: the first thing that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A and B meet all deadlines, the tardiness of C is bounded.
    Schedulable,
    /// Level A or B of a core fails.
    Core {
        /// The core.
        core: usize,
        /// The part that failed.
        verdict: CoreVerdict,
    },
    /// Level C fails.
    LevelC(LevelCVerdict),
}

/// Is the system schedulable under MC2, each level with its own PETs?
#[must_use]
pub fn verdict(cores: &[AnalysedCore], c: &[LevelsTask], form: Form) -> Verdict {
    for (index, core) in cores.iter().enumerate() {
        let verdict = match level_a(core.a) {
            CoreVerdict::Schedulable => level_b(core.a, core.b, &core.noise),
            failure => failure,
        };
        if verdict != CoreVerdict::Schedulable {
            return Verdict::Core { core: index, verdict };
        }
    }
    match level_c(cores, c, form) {
        LevelCVerdict::Bounded => Verdict::Schedulable,
        failure => Verdict::LevelC(failure),
    }
}

/// The verdict in the sharp form, with one reason per core and level.
#[must_use]
pub fn explain(cores: &[AnalysedCore], c: &[LevelsTask]) -> Derivation {
    let mut whole = Derivation::new(
        "levels A and B hold on each core, and the tardiness of level C is bounded",
        "MC2: Kim et al., section 2",
    );
    for (index, core) in cores.iter().enumerate() {
        let a = level_a(core.a);
        let table = Derivation::new("sum C_A/T <= 1 over level A", "analysis::levels::harmonic")
            .input("core", u64::try_from(index).ok())
            .step("hyperperiod", hyperperiod(core.a))
            .step("utilization", utilization(core.a, Level::A))
            .step("verdict", format!("{a:?}"))
            .result(a == CoreVerdict::Schedulable);
        let b = level_b(core.a, core.b, &core.noise);
        let rate = Derivation::new(
            "for each task of level B: D_i + noise(T_i) <= T_i",
            "analysis::levels::harmonic",
        )
        .input("core", u64::try_from(index).ok())
        .step("utilization of A", utilization(core.a, Level::B))
        .step("utilization of B", utilization(core.b, Level::B))
        .step(
            "noise in the shortest window",
            core.b.first().and_then(|task| core.noise.within(task.period)),
        )
        .step("verdict", format!("{b:?}"))
        .result(b == CoreVerdict::Schedulable);
        whole = whole.because(table).because(rate);
    }
    whole
        .because(explain_level_c(cores, c))
        .result(verdict(cores, c, Form::Sharp) == Verdict::Schedulable)
}

/// For reading only.
fn utilization(tasks: &[LevelsTask], level: Level) -> f64 {
    tasks.iter().map(|task| task.pets.at(level) as f64 / task.period as f64).sum()
}
