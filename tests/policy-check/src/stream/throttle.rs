//! Random traffic: quiet and busy periods, background time between the monitor's calls.

use super::follow;
use super::heap::{Step, amount, steps};
use crate::{Answer, Event, Operations};
use proptest::prelude::*;

/// Names of the operations.
pub const OPERATIONS: Operations = &["init", "requests", "monitor", "ran", "allowed"];

fn init(config: &[u32; 8]) -> Event {
    let a = [1, 2, 3, 4, 8, 8][config[0] as usize % 6];
    let c = [1, 3, 50, u64::from(config[3]) + 1, u64::MAX][config[2] as usize % 5];
    let d = [0, 500, 900, 1000, u64::from(config[4] % 1001)][config[5] as usize % 5];
    Event { a, b: u64::from(config[1] % 2), c, d, ..Event::default() }
}

/// Just about as contended as the threshold.
fn monitor(step: &Step, rule: u64, threshold: u64) -> Event {
    let (x, delta) = (u64::from(step.x), u64::from(step.delta));
    let b = match step.size {
        0..=199 => x % 100,
        200..=229 => threshold.saturating_add(x % 3).saturating_sub(1),
        230..=249 => 0,
        250 => u64::MAX,
        _ => x << 32,
    };
    let limit = if rule == 0 { threshold.saturating_mul(b) } else { threshold };
    let a = match step.pace {
        0..=95 => limit.saturating_add(delta % 100),
        96..=191 => limit.saturating_sub(delta % 100),
        192..=223 => limit,
        224..=239 => 0,
        _ => u64::MAX - delta % 2,
    };
    Event { op: 2, a, b, ..Event::default() }
}

fn decode((config, steps): ([u32; 8], Vec<Step>)) -> Vec<Event> {
    let good = init(&config);
    let mut events = vec![Event { op: 2, a: 1, b: 1, ..Event::default() }];
    events.extend(match config[6] % 16 {
        11 => Some(Event { a: 0, ..good }),
        12 => Some(Event { a: 9, ..good }),
        13 => Some(Event { b: 2, ..good }),
        14 => Some(Event { c: 0, ..good }),
        15 => Some(Event { d: 1001, ..good }),
        _ => None,
    });
    events.push(good);
    let traffic = [20, 20, 1000, 1 << 32, 1 << 62][config[7] as usize % 5];
    events.extend(steps.iter().map(|step| {
        let id = if step.id < 250 { u32::from(step.id) % 8 } else { step.delta };
        match step.op {
            0..=79 => Event { op: 1, id, a: amount(step, traffic), ..Event::default() },
            80..=119 => monitor(step, good.b, good.c),
            120..=184 => Event { op: 3, id, a: amount(step, 8), ..Event::default() },
            185..=252 => Event { op: 4, id, ..Event::default() },
            253 => good,
            254.. => Event { op: u32::from(step.size), id, ..Event::default() },
        }
    }));
    events
}

/// Random events.
pub fn events(length: usize) -> BoxedStrategy<Vec<Event>> {
    steps(length).prop_map(decode).boxed()
}

#[derive(Default)]
struct Ledger {
    rule: u64,
    threshold: u64,
    throttled: u64,
    high: u64,
    staged: Vec<u64>,
    weight: Vec<u64>,
    background: Vec<u64>,
}

impl Ledger {
    fn monitor(&mut self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        let [throttled, current, high, contended, ..] = *word;
        let cores = self.staged.len() as u64;
        self.weight.copy_from_slice(&self.staged);
        self.staged.fill(0);
        self.background.fill(0);
        let sum = self.weight.iter().fold(0u64, |sum, m| sum.saturating_add(*m));
        if current != sum {
            return Err(format!("the cores made {sum} requests"));
        }
        let expected = match self.rule {
            0 if event.b == 0 => false,
            // occupancy / requests >= threshold; with saturation the largest occupancy counts as
            // reached.
            0 => {
                event.a == u64::MAX
                    || u128::from(event.a) / u128::from(event.b) >= u128::from(self.threshold)
            }
            _ => event.b >= self.threshold,
        };
        if (contended == 1) != expected || contended > 1 {
            return Err("contended is wrong".into());
        }
        if throttled > cores || throttled.abs_diff(self.throttled) > 1 {
            return Err("throttling is not gradual, or of more cores than there are".into());
        }
        if expected && self.throttled < cores && throttled != self.throttled + 1 {
            return Err("contention without throttling".into());
        }
        if !expected && throttled > self.throttled {
            return Err("throttling without contention".into());
        }
        if throttled == 0 && high != 0 || throttled > 0 && high < sum {
            return Err("r_high is not the largest since throttling began".into());
        }
        if throttled > 1 && high != self.high.max(sum) {
            return Err("r_high is forgotten".into());
        }
        (self.throttled, self.high) = (throttled, high);
        Ok(())
    }

    fn vtime(&self, cpu: usize) -> u64 {
        self.background[cpu] * self.weight[cpu].min(0xffff_ffff)
    }

    fn allowed(&self, cpu: usize, word: &[u64; 6]) -> Result<(), String> {
        let cores = self.staged.len();
        if word[1] != cores as u64 - self.throttled {
            return Err("not exactly n - num_throttle cores are allowed".into());
        }
        let ahead =
            (0..cores).filter(|&other| (self.vtime(other), other) < (self.vtime(cpu), cpu)).count();
        if (word[0] == 1) != ((ahead as u64) < cores as u64 - self.throttled) {
            return Err("a core with more virtual time is preferred".into());
        }
        Ok(())
    }

    fn apply(&mut self, event: &Event, word: &[u64; 6]) -> Result<(), String> {
        let cpu = event.id as usize;
        match event.op {
            2 => return self.monitor(event, word),
            1 | 3 | 4 if cpu < self.staged.len() => {}
            _ if word != &[0; 6] => return Err("an answer to what is refused".into()),
            _ => return Ok(()),
        }
        match event.op {
            1 => self.staged[cpu] = event.a,
            3 => {
                self.background[cpu] =
                    self.background[cpu].saturating_add(event.a).min(0xffff_ffff);
                if word[0] != self.vtime(cpu) {
                    return Err(format!("the virtual time is {}", self.vtime(cpu)));
                }
            }
            _ => return self.allowed(cpu, word),
        }
        Ok(())
    }
}

/// num_throttle goes by single steps and at most to n, exactly n - num_throttle cores are allowed,
/// namely those with the least virtual time.
pub fn invariants(events: &[Event], answers: &[Answer]) -> Result<(), String> {
    let open = |event: &Event| {
        let zeros = vec![0; usize::try_from(event.a).map_err(|error| error.to_string())?];
        let (staged, weight, background) = (zeros.clone(), zeros.clone(), zeros);
        let (rule, threshold) = (event.b, event.c);
        Ok(Ledger { rule, threshold, staged, weight, background, ..Ledger::default() })
    };
    follow(events, answers, open, Ledger::apply)
}
