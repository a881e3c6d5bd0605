//! Frames of a plan's tasks, for `solocore reserve --plan`.
//!
//! Rule: a task has the frames of its core, as in `solocore exec --plan --task`: the colours that
//! stand for the core's ways, and its banks if the map has as many as the plan's board. Tasks of
//! level C have those of level C. A task whose core has none has no buffers; a plan without any
//! such core is refused. The frames of all tasks are those of any of them. Does not cover: keeping
//! level C's programs out of them: what is held is not theirs anyway.

use super::exec_coloured::{self, Lists};
use crate::fail::Failure;
use solocore_model::Plan;
use solocore_space::map::{Choice, Map};
use std::collections::BTreeMap;
use std::path::Path;

/// Frames by task.
pub type Tasks = BTreeMap<String, Choice>;

/// The frames of each task of a plan that has some.
pub fn tasks(path: &Path, map: &Map) -> Result<Tasks, Failure> {
    let refused = |why: String| Failure::Input(format!("--plan {}: {why}", path.display()));
    choices(lists(&Plan::load(path)?, map).map_err(refused)?, map)
}

fn choices(lists: Vec<(String, Lists)>, map: &Map) -> Result<Tasks, Failure> {
    // The same functions choose the frames of all.
    let banks = lists.iter().any(|(_, (_, banks))| banks.is_some());
    let every: Vec<u32> = (0..map.bank_count()).collect();
    let choice = |(name, (colours, own)): (String, Lists)| {
        let own = own.or_else(|| banks.then(|| every.clone()));
        Ok::<_, Failure>((name, Choice::new(map, Some(&colours), own.as_deref())?))
    };
    lists.into_iter().map(choice).collect()
}

/// Colours and banks of the tasks that have some; else why the first has none.
fn lists(plan: &Plan, map: &Map) -> Result<Vec<(String, Lists)>, String> {
    let (mut found, mut without) = (Vec::new(), None);
    for task in &plan.tasks {
        match exec_coloured::of_plan(plan, &task.name, map) {
            Ok(lists) => found.push((task.name.clone(), lists)),
            Err(why) => without = without.or(Some(why)),
        }
    }
    match without {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok(found),
    }
}

/// The frames of any of these tasks (at least one).
pub fn all(tasks: &Tasks) -> Result<Choice, Failure> {
    let mut choices = tasks.values();
    let first = choices.next().ok_or_else(|| Failure::Input("--plan: it has no tasks".into()))?;
    Ok(choices.fold(first.clone(), |mut sum, choice| {
        sum.allowed.iter_mut().zip(&choice.allowed).for_each(|(either, own)| *either |= own);
        sum
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cores of 32 colours; the first core has the first half; a map may have four banks.
    fn plan(banks: bool) -> Plan {
        let text = include_str!("../../../linux/tests/plan.json");
        let mut plan: Plan = serde_json::from_str(text).unwrap();
        plan.platform = solocore_model::Platform::find("core-i5-2500k", Path::new(".")).unwrap();
        (plan.platform.dram.ranks, plan.platform.dram.banks) = (1, 4);
        plan.cores.truncate(2);
        for (core, half) in plan.cores.iter_mut().zip(0..) {
            core.ways = 6;
            core.colours = Some((16 * half, 16));
            core.banks = (banks && half == 0).then_some((0, 2));
        }
        let one = plan.tasks[0].clone();
        let task = |name: &str, core| solocore_model::plan::PlanTask {
            name: name.to_owned(),
            core,
            ..one.clone()
        };
        plan.tasks = vec![task("one", 0), task("two", 1)];
        plan
    }

    fn map(banks: Vec<u64>) -> Map {
        Map { colours: (12..17).map(|bit| 1 << bit).collect(), banks, slices: Vec::new() }
    }

    #[test]
    fn tasks_have_their_cores_frames() {
        let map = map(Vec::new());
        let tasks = choices(lists(&plan(false), &map).unwrap(), &map).unwrap();
        assert_eq!(tasks.keys().collect::<Vec<_>>(), ["one", "two"]);
        assert!(tasks["one"].allows(15) && !tasks["one"].allows(16));
        assert!(tasks["two"].allows(16) && !tasks["two"].allows(15));
        assert!((all(&tasks).unwrap().share() - 1.0).abs() < 1e-9);
    }

    /// Both tasks are on core 0: one of level A, which has three of twelve ways, and one of level
    /// C, which has six.
    fn with_levels() -> Plan {
        use solocore_model::plan::levels::{LevelsCore, LevelsPlan, Ways};
        let core = |id: u32| LevelsCore {
            id,
            ways: Ways { first: 3 * id, count: 3 },
            bank: id,
            ..LevelsCore::default()
        };
        let levels = LevelsPlan {
            ways: 12,
            cores: vec![core(0), core(1)],
            level_c_ways: Ways { first: 6, count: 6 },
            ..LevelsPlan::default()
        };
        let mut plan = plan(false);
        plan.cores.iter_mut().for_each(|c| (c.colours, c.banks) = (None, Some((c.id, 1))));
        plan.tasks.iter_mut().for_each(|t| t.core = 0);
        plan.tasks[0].criticality = solocore_model::system::Criticality::A;
        plan.tasks[1].criticality = solocore_model::system::Criticality::C;
        plan.scheme = solocore_model::plan::Scheme::Levels(Box::new(levels));
        plan
    }

    #[test]
    fn a_task_of_level_c_does_not_have_the_frames_of_a_core() {
        let found = lists(&with_levels(), &map(vec![1 << 20, 1 << 21])).unwrap();
        let of = |name: &str| found.iter().find(|(task, _)| task == name).unwrap().1.clone();
        let want = |colours: std::ops::Range<u32>, banks: &[u32]| -> Lists {
            (colours.collect(), Some(banks.to_vec()))
        };
        assert_eq!(of("one"), want(0..8, &[0]));
        assert_eq!(of("two"), want(16..32, &[2, 3]));
    }

    #[test]
    fn frames_of_all_are_not_more_than_those_of_each() {
        let map = map(vec![1 << 20, 1 << 21]);
        let tasks = choices(lists(&plan(true), &map).unwrap(), &map).unwrap();
        let all = all(&tasks).unwrap();
        // Banks 0 and 1 of the first half, and every bank of the second.
        assert!((all.share() - 0.75).abs() < 1e-9, "{}", all.share());
        assert!(all.allows(1 << 8) && !all.allows(1 << 9) && all.allows(16 | 1 << 9));
    }

    #[test]
    fn a_plan_without_colours_is_refused() {
        let few = Map { colours: vec![1 << 12], banks: Vec::new(), slices: Vec::new() };
        let error = lists(&plan(false), &few).unwrap_err();
        assert!(error.contains("32 colours"), "{error}");
    }
}
