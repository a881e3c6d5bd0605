//! Cores that phase 1 of the optimiser gives to the tasks of random systems.

use solocore_planner::levels::optimiser::TaskSystem;
use solocore_planner::levels::optimiser::placement::{Kind, Placement};
use solocore_planner::levels::optimiser::tables::Tables;
use solocore_study::generator::{CORES, generate};
use solocore_study::{Parameters, Scenario};

#[test]
fn chains_stay_together_while_there_is_room() {
    let p = Parameters::standard();
    let scenario = Scenario::parse("C-Light,Long,Light,Quick,Small,Low,Many").unwrap()[0];
    let (mut s, mut tables) = (TaskSystem::default(), Tables::new());
    for (milli, all) in [(1000, true), (7000, false)] {
        generate(&mut s, &p, 1, scenario, milli, 0);
        tables.load(&p.machine(), &s);
        let mut placement = Placement::default();
        placement.place(&s, &tables.weights, Kind::Together);
        let one_core = |&(from, to): &(usize, usize)| {
            s.order[from..to].windows(2).all(|w| placement.core[w[0]] == placement.core[w[1]])
        };
        assert_eq!(s.groups.iter().all(one_core), all, "{milli}");
        let load = |core: usize| placement.core.iter().filter(|&&c| c == core).count();
        assert!((0..CORES).all(|core| load(core) > 0));
    }
}

#[test]
fn tasks_apart_spread_evenly() {
    let p = Parameters::standard();
    let scenario = Scenario::parse("C-Light,Long,Light,Quick,Small,Low,Many").unwrap()[0];
    let (mut s, mut tables) = (TaskSystem::default(), Tables::new());
    generate(&mut s, &p, 1, scenario, 4000, 0);
    tables.load(&p.machine(), &s);
    let mut placement = Placement::default();
    placement.place(&s, &tables.weights, Kind::Apart);
    let mut load = [0.0; CORES];
    for (task, &core) in placement.core.iter().enumerate() {
        let e = tables.weights[task].estimate;
        load[core] += e.b + if core == 0 { e.interrupts } else { 0.0 };
    }
    let spread =
        load.iter().fold(0.0, |m: f64, l| m.max(*l)) - load.iter().fold(9.0, |m: f64, l| m.min(*l));
    assert!(spread < 0.01, "{load:?}");
}
