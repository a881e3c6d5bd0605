//! The study: points of many scenarios, in parallel, to the same result on any number of threads.
//!
//! # Rule
//! A point is a scenario and a utilization; its systems are named by their index and tried under
//! every scheme ([`crate::sampling`]). A scenario goes up through the utilizations until no scheme
//! has a schedulable system at two in a row; beyond, all shares count as zero. Scenarios run in
//! parallel. If they are too few to keep the threads busy, the utilizations of one run in parallel
//! as well, and those beyond its end are left out.

use crate::StudyError;
use crate::generator::generate;
use crate::journal::{Journal, Manifest, Point, Points};
use crate::parameters::Parameters;
use crate::sampling::{STEP, precise};
use crate::scenario::Scenario;
use rayon::prelude::*;
use solocore_planner::levels::optimiser::{Allocator, Answer, Objective, Scheme, TaskSystem};
use std::sync::Mutex;

/// Task of a study.
pub struct Study<'a> {
    /// Parameters of generator and cost model.
    pub parameters: &'a Parameters,
    /// Definition of the study in its directory.
    pub manifest: &'a Manifest,
    /// Is told the share of scenarios done, 0 to 1; stops the study by returning false.
    pub progress: &'a (dyn Fn(f64) -> bool + Sync),
}

/// A scenario ends where this many utilizations in a row have no schedulable system.
const ZEROS: usize = 2;

impl Study<'_> {
    /// Computes the missing points; each goes to the journal, if there is one, and to `points`.
    ///
    /// # Errors
    /// [`StudyError::Interrupted`] when `progress` returned false; finished points are in the
    /// journal. Errors of writing the journal.
    pub fn run(
        &self,
        journal: Option<&mut Journal>,
        points: &mut Points,
    ) -> Result<(), StudyError> {
        let scenarios = self.manifest.own_scenarios()?;
        let schemes = self
            .manifest
            .schemes
            .iter()
            .map(|s| Scheme::parse(s))
            .collect::<Result<Vec<_>, _>>()?;
        let threads = rayon::current_num_threads();
        let wave = if scenarios.len() >= 8 * threads { 1 } else { threads };
        let known = points.clone();
        let shared = Mutex::new((journal, points, 0usize));
        scenarios.par_iter().try_for_each(|&scenario| {
            self.scenario(&known, scenario, &schemes, wave, &shared)?;
            let mut shared = shared.lock().map_err(|_| StudyError::Interrupted)?;
            shared.2 += 1;
            if (self.progress)(shared.2 as f64 / scenarios.len() as f64) {
                Ok(())
            } else {
                Err(StudyError::Interrupted)
            }
        })
    }

    fn scenario(
        &self,
        known: &Points,
        scenario: Scenario,
        schemes: &[Scheme],
        wave: usize,
        shared: &Mutex<(Option<&mut Journal>, &mut Points, usize)>,
    ) -> Result<(), StudyError> {
        let mut zeros = 0;
        for together in self.manifest.utilizations.chunks(wave) {
            let found: Vec<Point> = together
                .par_iter()
                .map_init(
                    || (TaskSystem::default(), Allocator::new(self.parameters.machine())),
                    |(system, allocator), &milli| {
                        if let Some(point) = known.get(&(scenario, milli)) {
                            return Ok(point.clone());
                        }
                        let point = self.point(system, allocator, scenario, milli, schemes)?;
                        let mut shared = shared.lock().map_err(|_| StudyError::Interrupted)?;
                        if let Some(journal) = &mut shared.0 {
                            journal.append(scenario, milli, &point)?;
                        }
                        shared.1.insert((scenario, milli), point.clone());
                        Ok(point)
                    },
                )
                .collect::<Result<_, StudyError>>()?;
            for point in &found {
                zeros = if none(point) { zeros + 1 } else { 0 };
                if zeros == ZEROS {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// One point.
    fn point(
        &self,
        system: &mut TaskSystem,
        allocator: &mut Allocator,
        scenario: Scenario,
        milli: u32,
        schemes: &[Scheme],
    ) -> Result<Point, StudyError> {
        let mut point = Point { systems: 0, undecided: 0, schedulable: vec![0; schemes.len()] };
        while !precise(&point.schedulable, point.systems) {
            for _ in 0..STEP {
                generate(
                    system,
                    self.parameters,
                    self.manifest.seed,
                    scenario,
                    milli,
                    u64::from(point.systems),
                );
                allocator.load(system);
                for (&scheme, count) in schemes.iter().zip(&mut point.schedulable) {
                    match allocator.allocate(system, scheme, Objective::Feasible) {
                        Answer::Allocation(_) => *count += 1,
                        Answer::Undecided => point.undecided += 1,
                        Answer::None => {}
                    }
                }
                point.systems += 1;
            }
            // A share below zero only asks whether to stop.
            if !(self.progress)(-1.0) {
                return Err(StudyError::Interrupted);
            }
        }
        Ok(point)
    }
}

fn none(point: &Point) -> bool {
    point.schedulable.iter().all(|&s| s == 0)
}

/// The points of a scenario in order, up to its end; fewer if some are missing.
pub fn curve<'a>(
    points: &'a Points,
    scenario: Scenario,
    utilizations: &'a [u32],
) -> impl Iterator<Item = (u32, &'a Point)> {
    let mut zeros = 0;
    utilizations.iter().map_while(move |&milli| {
        let point = points.get(&(scenario, milli)).filter(|_| zeros < ZEROS)?;
        zeros = if none(point) { zeros + 1 } else { 0 };
        Some((milli, point))
    })
}

/// Does a scenario have all points up to its end?
#[must_use]
pub fn finished(points: &Points, scenario: Scenario, utilizations: &[u32]) -> bool {
    let mut zeros = 0;
    let mut count = 0;
    for (_, point) in curve(points, scenario, utilizations) {
        count += 1;
        zeros = if none(point) { zeros + 1 } else { 0 };
    }
    zeros == ZEROS || count == utilizations.len()
}
