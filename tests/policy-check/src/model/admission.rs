//! Reference model of the admission tests: Liu and Layland, JACM 1973 (RMS bound), which MARACAS
//! (RTSS 2016), section II-A, applies to each core; Bini, Buttazzo and Buttazzo, IEEE ToC 2003
//! (hyperbolic bound); Joseph and Pandya 1986, Audsley et al. 1993 (response times, constrained
//! deadlines).

use super::sporadic_server::MAX_SPAN;
use crate::{Answer, Event, World};

const NONE: u64 = 0xffff_ffff;
const MAX_SET: usize = 64;
const MAX_RTA_STEPS: u32 = 4096;
/// 1 in fixed point.
pub const ONE: u64 = 1 << 32;

/// C / T rounded up in units of 2^-32: both are first scaled, rounding against the task, until T
/// has 31 bits.
pub fn utilization(capacity: u64, period: u64) -> u64 {
    let shift = (0..).find(|shift| period >> shift < 1 << 31).expect("64 shifts empty any word");
    let scaled = u128::from(capacity).div_ceil(1 << shift);
    let u = (scaled << 32).div_ceil(u128::from(period >> shift));
    u64::try_from(u).expect("C <= T")
}

/// floor(n (2^(1/n) - 1) 2^32); from 17 on the limit, ln 2. Exact: the fraction is never within
/// 10^-4 of 0 or 1 but for n = 1, and a double is exact to 10^-5 here.
pub fn rms_bound(tasks: u64) -> u64 {
    match tasks {
        0 | 1 => ONE,
        2..=16 => {
            let n = tasks as f64;
            (n * ((std::f64::consts::LN_2 / n).exp_m1()) * ONE as f64).floor() as u64
        }
        _ => 2_977_044_471,
    }
}

/// Is C, T a task?
pub fn valid(capacity: u64, period: u64) -> bool {
    1 <= capacity && capacity <= period && period <= MAX_SPAN
}

#[derive(Clone, Copy)]
struct AdmittedTask {
    capacity: u64,
    period: u64,
    deadline: u64,
}

fn hyperbolic(tasks: &[AdmittedTask]) -> bool {
    let mut product: u128 = 1 << 30;
    for task in tasks {
        product = (product * u128::from(ONE + utilization(task.capacity, task.period)))
            .div_ceil(u128::from(ONE));
        if product > 1 << 31 {
            return false;
        }
    }
    true
}

/// (verdict, response time).
fn response(tasks: &[AdmittedTask], index: usize) -> (u64, u64) {
    let task = tasks[index];
    let higher = &tasks[..index];
    let mut steps = 0;
    let mut response: u64 = tasks[..=index].iter().map(|task| task.capacity).sum();
    while response <= task.deadline {
        let mut next = task.capacity;
        for other in higher {
            if steps == MAX_RTA_STEPS {
                return (2, 0);
            }
            steps += 1;
            next += response.div_ceil(other.period) * other.capacity;
        }
        if next == response {
            return (1, response);
        }
        response = next;
    }
    (0, 0)
}

#[derive(Default)]
struct Model {
    ready: bool,
    tasks: Vec<AdmittedTask>,
}

impl Model {
    fn add(&mut self, event: &Event) -> u64 {
        let deadline = if event.c == 0 { event.b } else { event.c };
        if !valid(event.a, event.b) || deadline > event.b || self.tasks.len() == MAX_SET {
            return NONE;
        }
        self.tasks.push(AdmittedTask { capacity: event.a, period: event.b, deadline });
        self.tasks.len() as u64 - 1
    }

    fn sum(&self) -> u64 {
        self.tasks.iter().map(|task| utilization(task.capacity, task.period)).sum()
    }
}

impl World for Model {
    fn apply(&mut self, event: &Event) -> Answer {
        let mut out = Answer::default();
        if !self.ready {
            self.ready = event.op == 0;
            out.word[0] = u64::from(self.ready);
            return out;
        }
        match event.op {
            1 => out.word[0] = self.add(event),
            2 => out.word[0] = self.sum(),
            3 => out.word[0] = u64::from(self.sum() <= rms_bound(self.tasks.len() as u64)),
            4 => out.word[0] = u64::from(hyperbolic(&self.tasks)),
            5 if (event.id as usize) < self.tasks.len() => {
                (out.word[0], out.word[1]) = response(&self.tasks, event.id as usize);
            }
            6 => {
                self.tasks.clear();
                out.word[0] = 1;
            }
            _ => {}
        }
        out
    }
}

/// A fresh world.
pub fn world() -> Box<dyn World> {
    Box::<Model>::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tasks: &[(u64, u64)]) -> Vec<AdmittedTask> {
        tasks
            .iter()
            .map(|&(capacity, period)| AdmittedTask { capacity, period, deadline: period })
            .collect()
    }

    #[test]
    fn utilization_is_rounded_up() {
        assert_eq!(utilization(1, 2), 1 << 31);
        assert_eq!(utilization(1, 3), 1_431_655_766); // 2^32 / 3 = 1431655765.33
        assert_eq!(utilization(7, 7), ONE);
        // T = 2^31 is shifted once: C = 1 becomes 1 of 2^30.
        assert_eq!(utilization(1, 1 << 31), 4);
    }

    #[test]
    fn the_bound_is_the_largest_integer_below_it() {
        assert_eq!(rms_bound(1), ONE);
        // 2 (sqrt 2 - 1) 2^32: (2^33 + b)^2 <= 2^67 exactly for b and not for b + 1.
        let b = u128::from(rms_bound(2));
        assert!(((1 << 33) + b).pow(2) <= 1 << 67 && ((1 << 33) + b + 1).pow(2) > 1 << 67);
        assert!((2..40).all(|n| rms_bound(n) <= rms_bound(n - 1) && rms_bound(n) >= 2_977_044_471));
    }

    /// By hand: R_2 = 3 + ceil(R/4) + ceil(R/5): 5 -> 3+2+1 = 6 -> 3+2+2 = 7 -> 3+2+2 = 7.
    #[test]
    fn response_times() {
        let tasks = set(&[(1, 4), (1, 5), (3, 9)]);
        assert_eq!(response(&tasks, 0), (1, 1));
        assert_eq!(response(&tasks, 1), (1, 2));
        assert_eq!(response(&tasks, 2), (1, 7));
    }

    #[test]
    fn harmonic_tasks_fit_exactly_though_the_bounds_refuse() {
        let tasks = set(&[(1, 2), (2, 4)]);
        assert_eq!(response(&tasks, 1), (1, 4));
        assert!(!hyperbolic(&tasks)); // 1.5 * 1.5 = 2.25
    }

    #[test]
    fn a_deadline_that_is_missed_by_one() {
        let mut tasks = set(&[(2, 4), (3, 8)]);
        // 5 -> 3 + 2*2 = 7 -> 7.
        tasks[1].deadline = 7;
        assert_eq!(response(&tasks, 1), (1, 7));
        tasks[1].deadline = 6;
        assert_eq!(response(&tasks, 1), (0, 0));
    }
}
