//! Properties of every system and scheme, tried on random ones of all scenarios.

use solocore_analysis::levels::Verdict;
use solocore_planner::levels::optimiser::scheme::{Io, Ipc};
use solocore_planner::levels::optimiser::verify::verify;
use solocore_planner::levels::optimiser::{Allocator, Answer, Objective, Scheme, TaskSystem};
use solocore_study::generator::generate;
use solocore_study::{Parameters, Scenario};

/// Systems per scenario; more by SOLOCORE_STUDY_SYSTEMS for the nightly run.
fn systems() -> u64 {
    std::env::var("SOLOCORE_STUDY_SYSTEMS").ok().and_then(|n| n.parse().ok()).unwrap_or(4)
}

fn each_system(mut visit: impl FnMut(&Parameters, &TaskSystem, Scenario, u32)) {
    let p = Parameters::standard();
    let mut system = TaskSystem::default();
    for scenario in Scenario::all() {
        for index in 0..systems() {
            // Around the edge, where verdicts differ.
            let milli =
                800 + 400 * u32::try_from((index + u64::from(scenario.index())) % 10).unwrap();
            generate(&mut system, &p, 11, scenario, milli, index);
            visit(&p, &system, scenario, milli);
        }
    }
}

#[test]
fn what_is_called_schedulable_passes_the_independent_tests() {
    let mut checked = [0u32; 10];
    each_system(|p, system, scenario, milli| {
        let mut allocator = Allocator::new(p.machine());
        allocator.load(system);
        for (at, scheme) in Scheme::all().enumerate() {
            for goal in [Objective::Feasible, Objective::LeastLevelC, Objective::FewestWays] {
                if let Answer::Allocation(found) = allocator.allocate(system, scheme, goal) {
                    assert!(found.split.ways() <= p.machine.ways);
                    let verdict = verify(system, &mut allocator, &found);
                    assert_eq!(
                        verdict,
                        Verdict::Schedulable,
                        "{scenario} {milli} {scheme} {goal:?} {found:?}"
                    );
                    checked[at] += 1;
                }
            }
        }
    });
    assert!(checked.iter().all(|n| *n > 500), "{checked:?}");
}

#[test]
fn optimized_messages_never_lose() {
    each_system(|p, system, scenario, milli| {
        let mut allocator = Allocator::new(p.machine());
        allocator.load(system);
        for io in [Io::LevelC, Io::All, Io::LongPeriods, Io::ShortPeriods] {
            let mut best = |ipc| {
                let answer = allocator.allocate(system, Scheme { ipc, io }, Objective::LeastLevelC);
                if let Answer::Allocation(a) = answer {
                    a.split.level_c_utilization
                } else {
                    f64::INFINITY
                }
            };
            let (coarse, fine) = (best(Ipc::LevelC), best(Ipc::Optimized));
            assert!(fine <= coarse + 1e-9, "{scenario} {milli} {io:?}: {fine} {coarse}");
        }
    });
}

#[test]
fn per_buffer_placement_never_loses_and_goals_agree() {
    each_system(|p, system, scenario, milli| {
        let mut allocator = Allocator::new(p.machine());
        allocator.load(system);
        let opt = Scheme { ipc: Ipc::Optimized, io: Io::PerBuffer };
        let open = allocator.allocate(system, opt, Objective::Feasible);
        for scheme in Scheme::all() {
            let answers =
                [Objective::Feasible, Objective::LeastLevelC, Objective::FewestWays].map(|goal| {
                    matches!(allocator.allocate(system, scheme, goal), Answer::Allocation(_))
                });
            assert!(answers.iter().all(|a| *a == answers[0]), "{scenario} {milli} {scheme}");
            if scheme.ipc == Ipc::Optimized && answers[0] {
                assert!(matches!(open, Answer::Allocation(_)), "{scenario} {milli} {scheme}");
            }
        }
    });
}
