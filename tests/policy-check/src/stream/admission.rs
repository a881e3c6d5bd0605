//! Random task sets: small, large, harmonic, just at a bound, and such that response times converge
//! slowly.

use super::heap::{Step, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;

/// Names of the operations.
pub const OPERATIONS: Operations =
    &["init", "add", "utilization", "rms", "hyperbolic", "rta", "clear"];

const MAX_SPAN: u64 = 1 << 42;
const NONE: u64 = 0xffff_ffff;

/// What the tasks of a set have in common: drawn when a set begins.
#[derive(Clone, Copy)]
struct Regime {
    kind: u32,
    /// Tasks have about 1 / `share` of the core.
    share: u64,
    last_period: u64,
    count: u32,
}

impl Regime {
    fn new(x: u32) -> Self {
        let share = [1, 2, 4, 8, 16, 64, 400][(x >> 8) as usize % 7];
        Regime { kind: x % 8, share, last_period: 0, count: 0 }
    }

    fn period(&self, step: &Step) -> u64 {
        let x = u64::from(step.x);
        match self.kind {
            // In rate-monotonic order.
            0..=2 => self.last_period + 1 + x % 20,
            // Harmonic.
            3 => self.last_period.saturating_mul([1, 2, 2, 4][step.id as usize % 4]).max(8),
            4 => 1 + x % 50,
            // Scaling of long periods.
            5 => (self.last_period + (x << (step.id % 11))).max(1 << 30),
            // A first task that leaves next to nothing, then long ones.
            6 if self.count == 0 => 1 + x % (1 << 16),
            6 => MAX_SPAN - 1000 + x % 1000,
            _ => 1 + (x << (step.id % 11)),
        }
        .min(MAX_SPAN)
    }

    fn add(&mut self, step: &Step) -> Event {
        let period = self.period(step).max(1);
        let delta = u64::from(step.delta);
        let capacity = match self.kind {
            6 if self.count == 0 => period.saturating_sub(1).max(1),
            6 => 1 + delta % (1 << 22),
            _ if step.pace < 16 => (period / self.share).max(1),
            _ => 1 + delta % (period / self.share).max(1),
        };
        let deadline = match step.size {
            0..=239 => 0,
            240..=247 => period - (delta >> 8) % period,
            248..=252 => capacity,
            253 => period,
            _ => period + 1,
        };
        self.last_period = period;
        self.count += 1;
        let (a, b) = match step.pace {
            250 => (0, period),
            251 => (capacity, 0),
            252 => (period + 1, period),
            253 => (1, MAX_SPAN + 1),
            254 => (u64::MAX, u64::MAX),
            _ => (capacity, period),
        };
        Event { op: 1, a, b, c: deadline, ..Event::default() }
    }
}

fn decode((config, steps): ([u32; 8], Vec<Step>)) -> Vec<Event> {
    let mut regime = Regime::new(config[0]);
    let clears = [250, 240, 253][config[1] as usize % 3];
    let mut events = vec![Event { op: 3, ..Event::default() }, Event::default()];
    events.extend(steps.iter().map(|step| {
        let op = match step.op {
            0..=99 => return regime.add(step),
            100..=119 => 2,
            120..=149 => 3,
            150..=179 => 4,
            op if op < clears => 5,
            254 => 0,
            255 => u32::from(step.size),
            _ => {
                regime = Regime::new(step.x);
                6
            }
        };
        // Mostly one of the last tasks.
        let id = match step.id {
            0..=199 => regime.count.saturating_sub(1 + u32::from(step.id) % 4),
            200..=251 => u32::from(step.id) % 66,
            _ => step.delta,
        };
        Event { op, id, ..Event::default() }
    }));
    events
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    steps(length).prop_map(decode).boxed()
}

/// (C, T, D).
type AdmissionRow = (u64, u64, u64);

/// The sum of C / T in units of 2^-64, rounded down: where this is too much, so is the exact sum.
fn exact_sum(tasks: &[AdmissionRow]) -> u128 {
    tasks.iter().map(|task| (u128::from(task.0) << 64) / u128::from(task.1)).sum()
}

/// n (2^(1/n) - 1), to the precision of a double.
fn bound(tasks: usize) -> f64 {
    let n = tasks.max(1) as f64;
    n * (2f64.powf(1.0 / n) - 1.0)
}

fn product(tasks: &[AdmissionRow]) -> f64 {
    tasks.iter().map(|task| 1.0 + task.0 as f64 / task.1 as f64).product()
}

fn as_double(sum: u128) -> f64 {
    sum as f64 / (1u128 << 64) as f64
}

/// What the tasks 0..=i demand until t.
fn demand(tasks: &[AdmissionRow], i: usize, t: u64) -> u64 {
    let higher = tasks[..i].iter().map(|other| t.div_ceil(other.1) * other.0);
    tasks[i].0 + higher.sum::<u64>()
}

/// Lehoczky, Sha and Ding: it fits if demand is met at an activation of a higher priority until D,
/// or at D. `None` where these are too many.
fn fits(tasks: &[AdmissionRow], i: usize) -> Option<bool> {
    let deadline = tasks[i].2;
    if tasks[..i].iter().map(|other| deadline / other.1).sum::<u64>() > 300 {
        return None;
    }
    let activations =
        tasks[..i].iter().flat_map(|other| (1..=deadline / other.1).map(move |k| k * other.1));
    Some(activations.chain([deadline]).any(|t| demand(tasks, i, t) <= t))
}

fn check_sum(tasks: &[AdmissionRow], answer: u64) -> Result<(), String> {
    let exact = exact_sum(tasks) >> 32;
    // Rounded up at three places, each time by less than 4 units of 2^-32.
    let ceiling = exact + 1 + 12 * tasks.len() as u128;
    if u128::from(answer) < exact || u128::from(answer) > ceiling {
        return Err(format!("the exact utilization is {exact}"));
    }
    Ok(())
}

fn check_bounds(tasks: &[AdmissionRow], op: u32, admitted: bool) -> Result<(), String> {
    let exact = if op == 3 { as_double(exact_sum(tasks)) } else { product(tasks) };
    let limit = if op == 3 { bound(tasks.len()) } else { 2.0 };
    if admitted && exact > limit * (1.0 + 1e-12) {
        return Err(format!("admitted, but {exact} is more than {limit}"));
    }
    // Beyond 16 tasks the test uses the limit, ln 2.
    let limit = if op == 3 && tasks.len() > 16 { std::f64::consts::LN_2 } else { limit };
    if !admitted && exact < limit - 1e-6 {
        return Err(format!("refused, but {exact} is much less than {limit}"));
    }
    Ok(())
}

fn check_response(
    tasks: &[AdmissionRow],
    i: usize,
    verdict: u64,
    response: u64,
) -> Result<(), String> {
    let prefix = &tasks[..=i];
    match verdict {
        1 if response > tasks[i].2 || demand(tasks, i, response) != response => {
            Err("R is not a solution".into())
        }
        1 if fits(tasks, i) == Some(false) => Err("it does not fit".into()),
        0 if fits(tasks, i) == Some(true) => Err("it fits".into()),
        0 => {
            let rate_monotonic = prefix.is_sorted_by_key(|task| task.1)
                && prefix.iter().all(|task| task.1 == task.2);
            let bounds =
                as_double(exact_sum(prefix)) < bound(i + 1) - 1e-9 || product(prefix) < 2.0 - 1e-9;
            if rate_monotonic && bounds { Err("the bounds admit it".into()) } else { Ok(()) }
        }
        1 | 2 => Ok(()),
        _ => Err("no such verdict".into()),
    }
}

fn check_add(tasks: &mut Vec<AdmissionRow>, event: &Event, answer: u64) -> Result<(), String> {
    let deadline = if event.c == 0 { event.b } else { event.c };
    let valid = 1 <= event.a
        && event.a <= event.b
        && event.b <= MAX_SPAN
        && deadline <= event.b
        && tasks.len() < 64;
    let expected = if valid { tasks.len() as u64 } else { NONE };
    if valid {
        tasks.push((event.a, event.b, deadline));
    }
    if answer == expected { Ok(()) } else { Err(format!("it should be {expected}")) }
}

/// Nothing is admitted that exact arithmetic refuses, little is refused that it admits (rounding),
/// the RMS bound implies the hyperbolic one but for rounding, either implies that every response
/// time fits, and a response time is a solution of its equation and agrees with the test at the
/// scheduling points.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let mut tasks = Vec::new();
    let mut ready = false;
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        let [first, second, ..] = answer.word;
        let i = event.id as usize;
        if !ready {
            ready = event.op == 0 && first == 1;
            continue;
        }
        let verdict = match event.op {
            1 => check_add(&mut tasks, event, first),
            2 => check_sum(&tasks, first),
            3 | 4 if first > 1 => Err("no such verdict".into()),
            3 | 4 => check_bounds(&tasks, event.op, first == 1),
            5 if i < tasks.len() => check_response(&tasks, i, first, second),
            6 if first == 1 => {
                tasks.clear();
                Ok(())
            }
            _ if answer.word != [0; 6] => Err("an answer to what is refused".into()),
            _ => Ok(()),
        };
        verdict.map_err(|what| format!("event {at} {event:?}: {what}: {answer:?}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduling_points_agree_with_a_known_set() {
        let tasks = [(1, 4, 4), (1, 5, 5), (3, 9, 7)];
        assert_eq!(fits(&tasks, 2), Some(true));
        assert_eq!(fits(&[(1, 4, 4), (1, 5, 5), (3, 9, 6)], 2), Some(false));
        assert_eq!(exact_sum(&[(1, 2, 2)]), 1 << 63);
    }
}
