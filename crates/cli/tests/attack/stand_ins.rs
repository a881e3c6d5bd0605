//! Programs that stand in for a plan's own: they keep to the plan's banks and to the numbers of
//! their system.

use solocore_experiments::attack::evaluate::planned;
use solocore_experiments::attack::program::{Beat, Job, ROWS, Rows, SHAPES, Shape};
use solocore_experiments::attack::system::{Analysed, Attack, POLICIES, Policy};
use solocore_model::results::Mode;
use solocore_sim::program::OpKind;
use solocore_sim::{Options, simulate, simulate_with};
use std::path::Path;

const OPTIONS: Options =
    Options { mode: Mode::Managed, duration_ns: 5_000_000, seed: 1, timeline_ns: 0 };

fn attack(policy: Policy) -> Attack {
    let job = Job {
        misses: 24,
        cycles: 0,
        read_rows: Rows::Conflicts,
        read: OpKind::LoadWait,
        write_each: 4,
        bank: 0,
        shape: Shape::Even,
        empty_each: 0,
    };
    let rival = Beat {
        read_rows: Rows::Banks,
        read: OpKind::Load,
        reads: 3,
        writes: 1,
        write_rows: Rows::Conflicts,
        write: OpKind::StoreLine,
        bank: 1,
        gap: 0,
        burst: 16,
        pause: 5_000,
        lead: 100,
    };
    Attack {
        policy,
        board: "imx6q".to_owned(),
        cores: 3,
        period_ns: 100_000,
        share: 300,
        knob: 12,
        victim: Analysed {
            job,
            compute_ns: 20_000,
            period_ns: 700_000,
            deadline_ps: None,
            phase_ns: 0,
        },
        mates: Vec::new(),
        jobs: None,
        write_part: 0,
        devices: 0,
        own: None,
        others: vec![Some(rival)],
        seed: 1,
    }
}

/// Jobs make as many accesses as the system states, in every shape and under every policy.
#[test]
fn jobs_make_the_stated_transactions() {
    for policy in POLICIES {
        for (rows, shape) in ROWS.into_iter().zip(SHAPES.into_iter().cycle()) {
            let mut attack = attack(policy);
            (attack.victim.job.read_rows, attack.victim.job.shape) = (rows, shape);
            let plan = planned(&attack, Path::new(".")).unwrap();
            let layout = solocore_sim::plan::layout(&plan).unwrap();
            let result =
                simulate_with(&plan, &OPTIONS, &attack.stand_ins(&plan, &layout), &|_| true)
                    .unwrap();
            let (victim, rival) = (&result.tasks[0], &result.tasks[1]);
            assert!(victim.jobs >= 5, "{policy:?}: {victim:?}");
            // A job may be under way at the end.
            let jobs = victim.accesses.div_ceil(attack.victim.job.misses);
            assert!(
                (victim.jobs..=victim.jobs + 1).contains(&jobs),
                "{policy:?} {rows:?} {shape:?}: {victim:?}"
            );
            assert!(rival.accesses > 500, "{policy:?}: {rival:?}");
            let solo = Options { mode: Mode::Solo, ..OPTIONS };
            let alone =
                simulate_with(&plan, &solo, &attack.stand_ins(&plan, &layout), &|_| true).unwrap();
            assert!(alone.tasks[0].jobs >= 5 && alone.tasks[1].jobs == 0, "{policy:?}: {alone:?}");
        }
    }
}

#[test]
fn without_stand_ins_nothing_changes() {
    for policy in [Policy::Even, Policy::Levels, Policy::Windows] {
        let plan = planned(&attack(policy), Path::new(".")).unwrap();
        let (with, without) = (
            simulate_with(&plan, &OPTIONS, &[], &|_| true).unwrap(),
            simulate(&plan, &OPTIONS, &|_| true).unwrap(),
        );
        assert_eq!(with.tasks, without.tasks);
        assert_eq!(with.requests, without.requests);
    }
}

#[test]
fn frames_of_other_cores_are_refused() {
    for policy in [Policy::Even, Policy::Levels] {
        let attack = attack(policy);
        let plan = planned(&attack, Path::new(".")).unwrap();
        let layout = solocore_sim::plan::layout(&plan).unwrap();
        let mut stand_ins = attack.stand_ins(&plan, &layout);
        let theirs = solocore_sim::plan::banks(&plan, 1).unwrap()[0];
        stand_ins[0].frames[1] = layout.frames_of(theirs, 3)[0];
        let error = simulate_with(&plan, &OPTIONS, &stand_ins, &|_| true).unwrap_err().to_string();
        assert!(
            error.contains("`victim`") && error.contains(&format!("in bank {theirs}")),
            "{error}"
        );
        // Without the plan no task has banks of its own.
        let unmanaged = Options { mode: Mode::Unmanaged, ..OPTIONS };
        simulate_with(&plan, &unmanaged, &stand_ins, &|_| true).unwrap();
        stand_ins[0].task = 1;
        let error =
            simulate_with(&plan, &unmanaged, &stand_ins, &|_| true).unwrap_err().to_string();
        assert!(error.contains("two stand-ins"), "{error}");
        stand_ins[0].task = 9;
        let error =
            simulate_with(&plan, &unmanaged, &stand_ins, &|_| true).unwrap_err().to_string();
        assert!(error.contains("task 9"), "{error}");
    }
}
