use super::*;
use crate::regulate::engine::quiet_engine;
use crate::regulate::handover::Budgets;
use proptest::prelude::*;
use std::cell::RefCell;

/// A budget and its length.
type Pair = (u64, u64);

/// A soft CPU, and its wish. Pairs are those of one task.
#[derive(Clone, Copy)]
struct Cpu {
    pair: Pair,
    shows: Budgets,
    asked: Option<Budgets>,
    /// The job that it saw last.
    job: usize,
    /// That of its counter, and the accesses that must be left.
    samples: (u64, u64),
}

/// Soft CPUs that look as bpf/dynamic.h does, when a test says so.
struct Soft {
    written: Pair,
    cpus: Vec<Cpu>,
    /// By job and CPU: the pair that the job has there.
    jobs: Vec<Vec<Option<Pair>>>,
    refuses: bool,
}

impl Soft {
    fn looks(&mut self, cpu: usize) {
        let of = &mut self.cpus[cpu];
        for job in &mut self.jobs[of.job..] {
            job[cpu] = Some(of.pair);
        }
        of.job = self.jobs.len();
        if let Some(shows) = of.asked.take() {
            (of.shows, of.pair) = (shows, self.written);
        }
    }
}

struct Asking(RefCell<Soft>);

impl Engine for Asking {
    quiet_engine!();

    fn ask(&self, asked: &[(u32, Budgets)]) -> Result<(), LinuxError> {
        let mut soft = self.0.borrow_mut();
        if soft.refuses {
            return Err(LinuxError::Machine("no mapping".to_owned()));
        }
        for &(cpu, budgets) in asked {
            soft.cpus[cpu as usize].asked = Some(budgets);
        }
        Ok(())
    }

    fn ask_for_jobs(&self, tasks: &[RunHardTask]) -> Result<(), LinuxError> {
        self.0.borrow_mut().written = (tasks[0].budget, tasks[0].length_ns);
        Ok(())
    }

    fn resample(&self, cpu: u32, sample: u64) -> Result<(), LinuxError> {
        self.0.borrow_mut().cpus[cpu as usize].samples = (sample, sample);
        Ok(())
    }

    fn expect(&self, cpu: u32, accesses: u64) -> Result<(), LinuxError> {
        self.0.borrow_mut().cpus[cpu as usize].samples.1 = accesses;
        Ok(())
    }

    fn tolerate(&self, _: &[(u32, u64)]) -> Result<(), LinuxError> {
        Ok(())
    }

    fn in_force(&self, cpu: u32) -> Result<Option<Budgets>, LinuxError> {
        let of = self.0.borrow().cpus[cpu as usize];
        Ok(of.asked.is_none().then_some(of.shows))
    }
}

fn task((budget, length_ns): Pair) -> Vec<RunHardTask> {
    vec![RunHardTask { name: "video".to_owned(), core: 0, budget, length_ns }]
}

fn core(cpu: u32, budget: u64) -> CoreBudget {
    let sample = budget.div_ceil(8);
    CoreBudget { cpu, planned: budget, budget, sample, tolerance: sample, writes: None }
}

fn soft(pair: Pair, cpus: u32) -> Asking {
    let of = |cpu| {
        let core = core(cpu, pair.0);
        let samples = (core.sample, core.sample);
        Cpu { pair, shows: core.enforced(), asked: None, job: 0, samples }
    };
    let cpus = (0..cpus).map(of).collect();
    Asking(RefCell::new(Soft { written: pair, cpus, jobs: Vec::new(), refuses: false }))
}

fn begin(engine: &Asking, old: Pair, new: Pair) -> Result<HandingJobs, LinuxError> {
    let cpus = u32::try_from(engine.0.borrow().cpus.len()).unwrap();
    let cores = (0..cpus).map(|cpu| (core(cpu, old.0), core(cpu, new.0))).collect();
    HandingJobs::begin(engine, (task(old), task(new)), cores, 0)
}

#[test]
fn the_smaller_budget_comes_with_the_longer_length_first() {
    for (old, new, middle) in [((9, 50), (4, 30), (4, 50)), ((4, 30), (9, 50), (4, 50))] {
        let engine = soft(old, 2);
        let mut handing = begin(&engine, old, new).unwrap();
        assert_eq!(engine.0.borrow().written, middle);
        engine.0.borrow_mut().looks(0);
        assert_eq!(handing.go_on(&engine, 1), Ok(None));
        assert_eq!(engine.0.borrow().written, middle, "CPU 1 has not looked");
        engine.0.borrow_mut().looks(1);
        assert_eq!(handing.go_on(&engine, 1), Ok(None));
        assert_eq!(engine.0.borrow().written, new);
        (0..2).for_each(|cpu| engine.0.borrow_mut().looks(cpu));
        assert_eq!(handing.go_on(&engine, 1), Ok(Some(End::Taken)));
        assert!(engine.0.borrow().cpus.iter().all(|cpu| cpu.pair == new));
        let changed = handing.changed();
        assert_eq!((changed[0].before, changed[0].budget), (old.0, new.0));
        assert_eq!((changed[0].length_before_ns, changed[0].length_ns), (old.1, new.1));
    }
}

#[test]
fn a_sample_changes_once_every_cpu_stops_early_enough() {
    let (old, new) = ((80, 50), (24, 30));
    let engine = soft(old, 2);
    let samples = || engine.0.borrow().cpus.iter().map(|cpu| cpu.samples).collect::<Vec<_>>();
    let mut handing = begin(&engine, old, new).unwrap();
    assert_eq!(samples(), [(10, 13); 2]);
    (0..2).for_each(|cpu| engine.0.borrow_mut().looks(cpu));
    assert_eq!(samples(), [(10, 13); 2]);
    assert_eq!(handing.go_on(&engine, 1), Ok(None));
    assert_eq!(samples(), [(3, 3); 2]);
    let mut handing = begin(&soft(old, 2), old, new).unwrap();
    let engine = soft(old, 2);
    assert_eq!(handing.go_on(&engine, PATIENCE_NS + 1), Ok(None));
    assert_eq!(engine.0.borrow().cpus[0].samples, (10, 10), "given up");
}

#[test]
fn a_cpu_that_does_not_look_leaves_the_old_budgets() {
    let engine = soft((9, 50), 2);
    let mut handing = begin(&engine, (9, 50), (4, 30)).unwrap();
    engine.0.borrow_mut().looks(0);
    assert_eq!(handing.go_on(&engine, PATIENCE_NS + 1), Ok(None), "it is given up");
    engine.0.borrow_mut().looks(0);
    assert_eq!(handing.go_on(&engine, 2 * PATIENCE_NS), Ok(None));
    assert_eq!(handing.go_on(&engine, 2 * PATIENCE_NS + 1), Ok(Some(End::GivenUp)));
    engine.0.borrow_mut().looks(1);
    assert!(engine.0.borrow().cpus.iter().all(|cpu| cpu.pair == (9, 50)));
}

#[test]
fn one_that_cannot_begin_leaves_what_is_written() {
    let engine = soft((9, 50), 1);
    engine.0.borrow_mut().refuses = true;
    assert!(begin(&engine, (9, 50), (4, 30)).is_err());
    assert_eq!(engine.0.borrow().written, (9, 50));
}

proptest! {
    /// No CPU is free while a job runs that another CPU slows. `events`: a CPU looks, a job begins,
    /// or the daemon looks. It fails without the middle step, and where a CPU takes another pair
    /// before it looks for jobs.
    #[test]
    fn no_length_ends_before_a_job_can(
        fewer in (1..50u64, 1..50u64),
        more in (0..50u64, 0..50u64),
        rises: bool,
        cpus in 1..4usize,
        events in prop::collection::vec(0..6usize, 0..80),
        patience in 0..120u64,
    ) {
        let more = (fewer.0 + more.0, fewer.1 + more.1);
        let (old, new) = if rises { (fewer, more) } else { (more, fewer) };
        let engine = soft(old, u32::try_from(cpus).unwrap());
        let mut handing = begin(&engine, old, new).unwrap();
        let (mut ended, mut now) = (None, 0);
        let settled = (0..20).flat_map(|_| [0, 1, 2, 5]);
        for (at, event) in (0..).zip(events.into_iter().chain(settled)) {
            if at == patience {
                now = PATIENCE_NS + 1;
            }
            match event {
                cpu if cpu < cpus => engine.0.borrow_mut().looks(cpu),
                4 => engine.0.borrow_mut().jobs.push(vec![None; cpus]),
                5 if ended.is_none() => ended = handing.go_on(&engine, now).unwrap(),
                _ => {}
            }
            for job in &engine.0.borrow().jobs {
                let pairs: Vec<Pair> = job.iter().flatten().copied().collect();
                let slowed = pairs.iter().any(|pair| pair.0 > fewer.0);
                let end = if slowed { more.1 } else { fewer.1 };
                let long = |pair: &Pair| pair.0 <= more.0 && pair.1 >= end;
                prop_assert!(pairs.iter().all(long), "{pairs:?}");
            }
        }
        let in_force = if ended == Some(End::Taken) { new } else { old };
        prop_assert!(ended.is_some() && engine.0.borrow().cpus.iter().all(|c| c.pair == in_force));
    }
}
