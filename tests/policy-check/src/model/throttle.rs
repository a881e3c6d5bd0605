//! Reference model of latency-based memory throttling: MARACAS (RTSS 2016), section IV, Algorithm
//! 1.
//!
//! Corrected: cores with equal virtual times are ordered by their number (the paper's `<=`
//! throttled all).

use crate::{Answer, Event, World};

const MAX_CPUS: u64 = 8;
const RATE: u64 = 1;

#[derive(Clone, Copy, Default)]
struct Cpu {
    /// m_i of the last period.
    requests: u64,
    /// m_i that the next monitor call will take over.
    staged: u64,
    background_ns: u64,
}

impl Cpu {
    /// `bg_vtime`: background time weighted by traffic. The common divisor R_cur cancels.
    fn vtime(self) -> u64 {
        self.background_ns * self.requests.min(0xffff_ffff)
    }
}

struct Throttle {
    rule: u64,
    threshold: u64,
    idle_per_mille: u64,
    throttled: usize,
    high: u64,
    cpus: Vec<Cpu>,
}

impl Throttle {
    fn new(event: &Event) -> Option<Self> {
        let valid =
            (1..=MAX_CPUS).contains(&event.a) && event.b <= RATE && event.c >= 1 && event.d <= 1000;
        valid.then(|| Self {
            rule: event.b,
            threshold: event.c,
            idle_per_mille: event.d,
            throttled: 0,
            high: 0,
            cpus: vec![Cpu::default(); usize::try_from(event.a).expect("at most 8")],
        })
    }

    /// Average latency (occupancy / requests), or system-wide requests, at or above the threshold.
    fn contended(&self, occupancy: u64, requests: u64) -> bool {
        if self.rule == RATE {
            return requests >= self.threshold;
        }
        requests > 0 && u128::from(occupancy) >= u128::from(self.threshold.saturating_mul(requests))
    }

    fn monitor(&mut self, occupancy: u64, requests: u64) -> Answer {
        for cpu in &mut self.cpus {
            *cpu = Cpu { requests: cpu.staged, staged: 0, background_ns: 0 };
        }
        let current = self.cpus.iter().fold(0u64, |sum, cpu| sum.saturating_add(cpu.requests));
        let contended = self.contended(occupancy, requests);
        if self.throttled > 0 {
            self.high = self.high.max(current);
        }
        let clamp = |requests: u64| u128::from(requests.min(1 << 53));
        let less_traffic =
            clamp(current) * 1000 <= clamp(self.high) * u128::from(self.idle_per_mille);
        if contended && self.throttled < self.cpus.len() {
            if self.throttled == 0 {
                self.high = current;
            }
            self.throttled += 1;
        } else if self.throttled > 0 && less_traffic {
            self.throttled -= 1;
            if self.throttled == 0 {
                self.high = 0;
            }
        }
        Answer { word: [self.throttled as u64, current, self.high, u64::from(contended), 0, 0] }
    }

    /// `IS_BG_SCHED`: the n - num_throttle cores with the least virtual time may use background
    /// time.
    fn allowed(&self, id: usize) -> bool {
        let mut order: Vec<usize> = (0..self.cpus.len()).collect();
        order.sort_by_key(|&cpu| (self.cpus[cpu].vtime(), cpu));
        order[..self.cpus.len() - self.throttled].contains(&id)
    }
}

#[derive(Default)]
struct Model {
    throttle: Option<Throttle>,
}

impl World for Model {
    fn apply(&mut self, event: &Event) -> Answer {
        let mut out = Answer::default();
        let Some(throttle) = self.throttle.as_mut() else {
            if event.op == 0 {
                self.throttle = Throttle::new(event);
                out.word[0] = u64::from(self.throttle.is_some());
            }
            return out;
        };
        let id = event.id as usize;
        let count = throttle.cpus.len();
        match event.op {
            2 => return throttle.monitor(event.a, event.b),
            _ if id >= count => {}
            1 => {
                throttle.cpus[id].staged = event.a;
                out.word[0] = 1;
            }
            3 => {
                let cpu = &mut throttle.cpus[id];
                cpu.background_ns = cpu.background_ns.saturating_add(event.a).min(0xffff_ffff);
                out.word[0] = cpu.vtime();
            }
            4 => {
                out.word[0] = u64::from(throttle.allowed(id));
                out.word[1] = (0..count).filter(|&cpu| throttle.allowed(cpu)).count() as u64;
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

    fn throttle(rule: u64, threshold: u64, idle: u64) -> Throttle {
        Throttle::new(&Event { a: 2, b: rule, c: threshold, d: idle, ..Event::default() }).unwrap()
    }

    /// Fig. 3: r1 is in the queue from 0 to 2, r2 and r3 from 1 to 5: occupancy 2 + 4 + 4 = 10,
    /// requests 3.
    #[test]
    fn figure_3() {
        assert!(throttle(0, 3, 0).contended(10, 3)); // 3.33 cycles per request
        assert!(!throttle(0, 4, 0).contended(10, 3));
        assert!(throttle(0, 4, 0).contended(12, 3)); // exactly the threshold
        assert!(!throttle(0, 1, 0).contended(10, 0));
        assert!(throttle(1, 3, 0).contended(0, 3));
    }

    #[test]
    fn the_busier_core_is_throttled_and_traffic_must_fall_to_release_it() {
        let mut t = throttle(0, 3, 500);
        t.cpus[0].staged = 10;
        t.cpus[1].staged = 30;
        assert_eq!(t.monitor(10, 3).word, [1, 40, 40, 1, 0, 0]);
        // No background time yet: equal virtual times, the lower number goes first.
        assert!(t.allowed(0) && !t.allowed(1));
        t.cpus[0].background_ns = 7; // 70
        t.cpus[1].background_ns = 2; // 60
        assert!(!t.allowed(0) && t.allowed(1));
        t.cpus[0].staged = 21;
        assert_eq!(t.monitor(0, 3).word, [1, 21, 40, 0, 0, 0]);
        t.cpus[0].staged = 20;
        assert_eq!(t.monitor(0, 3).word, [0, 20, 0, 0, 0, 0]);
    }

    #[test]
    fn with_all_throttled_contention_may_still_release_one() {
        let mut t = throttle(1, 1, 1000);
        t.monitor(0, 1);
        t.monitor(0, 1);
        assert_eq!(t.throttled, 2);
        assert!(!t.allowed(0) && !t.allowed(1));
        // Contended, but all are throttled: lines 12-14 apply (R_cur = 0 <= R_high = 0).
        assert_eq!(t.monitor(0, 1).word, [1, 0, 0, 1, 0, 0]);
    }
}
