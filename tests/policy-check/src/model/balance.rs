//! Reference model of VCPU load balancing: MARACAS (RTSS 2016), section V, Algorithm 2 (slack per
//! VCPU), and section V-B (colours).
//!
//! Corrected: FIND_HOST_CPU answers the source when nobody else will do (the paper's `host` is
//! undefined), and the source wins ties. Nothing is cached: the sums of a core are added up
//! whenever they are asked for.

use super::admission::{ONE, rms_bound, utilization, valid};
use crate::{Answer, Event, World};
use std::collections::BTreeMap;

const NONE: u64 = 0xffff_ffff;
const MAX_CPUS: u64 = 8;
const MAX_TASKS: u32 = 4096;

#[derive(Clone, Copy)]
struct Vcpu {
    u: u64,
    colours: u64,
    core: usize,
    fixed: bool,
}

struct System {
    cache_aware: bool,
    /// Free colours of each core.
    free: Vec<u64>,
    vcpus: BTreeMap<u32, Vcpu>,
}

/// (1 - U) / v: slack per VCPU; without VCPUs it has no limit.
fn slack(u: u64, count: u64) -> u64 {
    ONE.saturating_sub(u).checked_div(count).unwrap_or(u64::MAX)
}

impl System {
    /// U and the number of VCPUs.
    fn load(&self, core: usize) -> (u64, u64) {
        let on_core = self.vcpus.values().filter(|vcpu| vcpu.core == core);
        on_core.fold((0, 0), |(u, count), vcpu| (u + vcpu.u, count + 1))
    }

    fn spv(&self, core: usize) -> u64 {
        let (u, count) = self.load(core);
        slack(u, count)
    }

    fn schedulable(&self, core: usize, vcpu: Vcpu) -> bool {
        let (u, count) = self.load(core);
        u + vcpu.u <= rms_bound(count + 1) && (!self.cache_aware || self.free[core] >= vcpu.colours)
    }

    fn find_host(&self, id: u32) -> usize {
        let vcpu = self.vcpus[&id];
        let mut host = vcpu.core;
        for core in 0..self.free.len() {
            if core != vcpu.core && self.schedulable(core, vcpu) && self.spv(core) > self.spv(host)
            {
                host = core;
            }
        }
        host
    }

    fn take_colours(&mut self, core: usize, colours: u64) {
        if self.cache_aware {
            self.free[core] -= colours;
        }
    }

    fn give_colours(&mut self, core: usize, colours: u64) {
        if self.cache_aware {
            self.free[core] = self.free[core].saturating_add(colours);
        }
    }

    fn move_vcpu(&mut self, id: u32, to: usize) {
        let vcpu = self.vcpus[&id];
        self.give_colours(vcpu.core, vcpu.colours);
        self.take_colours(to, vcpu.colours);
        self.vcpus.insert(id, Vcpu { core: to, ..vcpu });
    }

    /// REBALANCE of the paper, at most `limit` moves: (moves, last VCPU moved, destination).
    fn rebalance(&mut self, src: usize, limit: u64) -> (u64, Option<u32>, usize) {
        let here: Vec<u32> =
            self.vcpus.iter().filter(|(_, vcpu)| vcpu.core == src).map(|(&id, _)| id).collect();
        let free = |id: &u32| !self.vcpus[id].fixed;
        let Some(smallest) =
            here.iter().copied().filter(free).min_by_key(|id| (self.vcpus[id].u, *id))
        else {
            return (0, None, src);
        };
        let dst = self.find_host(smallest);
        let (mut moves, mut last) = (0, None);
        if dst == src {
            return (0, None, src);
        }
        // None: infinite.
        let mut imbalance = (self.load(dst).1 > 0).then(|| self.spv(dst) - self.spv(src));
        for id in here {
            let ((dst_u, dst_count), (src_u, src_count)) = (self.load(dst), self.load(src));
            if src_count <= 1 || moves == limit {
                break;
            }
            let u = self.vcpus[&id].u;
            let (after_dst, after_src) =
                (slack(dst_u + u, dst_count + 1), slack(src_u - u, src_count - 1));
            let worse =
                after_dst < after_src && imbalance.is_some_and(|old| after_src - after_dst >= old);
            if worse || self.vcpus[&id].fixed || !self.schedulable(dst, self.vcpus[&id]) {
                continue;
            }
            self.move_vcpu(id, dst);
            (moves, last) = (moves + 1, Some(id));
            if after_dst <= after_src {
                break;
            }
            imbalance = Some(after_dst - after_src);
        }
        (moves, last, dst)
    }

    /// Whose migration thread to wake when a VCPU blocks.
    fn trigger(&self) -> u64 {
        let loaded = (0..self.free.len()).filter(|&core| self.load(core).1 > 0);
        loaded.min_by_key(|&core| (self.spv(core), core)).map_or(NONE, |core| core as u64)
    }

    fn add(&mut self, event: &Event) -> bool {
        let Some(core) = usize::try_from(event.c).ok().filter(|&core| core < self.free.len())
        else {
            return false;
        };
        let short = self.cache_aware && self.free[core] < event.d;
        if event.id >= MAX_TASKS
            || self.vcpus.contains_key(&event.id)
            || !valid(event.a, event.b)
            || short
        {
            return false;
        }
        self.vcpus.insert(
            event.id,
            Vcpu { u: utilization(event.a, event.b), colours: event.d, core, fixed: false },
        );
        self.take_colours(core, event.d);
        true
    }

    fn remove(&mut self, id: u32) -> bool {
        let removed = self.vcpus.remove(&id);
        if let Some(vcpu) = removed {
            self.give_colours(vcpu.core, vcpu.colours);
        }
        removed.is_some()
    }

    fn balance(&mut self, src: usize, limit: u64) -> [u64; 6] {
        let (moves, last, dst) = self.rebalance(src, limit);
        let Some(last) = last else { return [0, NONE, NONE, self.spv(src), self.spv(src), 0] };
        [moves, u64::from(last), dst as u64, self.spv(src), self.spv(dst), 0]
    }
}

#[derive(Default)]
struct Model {
    system: Option<System>,
}

impl World for Model {
    fn apply(&mut self, event: &Event) -> Answer {
        let mut out = Answer::default();
        let Some(system) = self.system.as_mut() else {
            if event.op == 0 && (1..=MAX_CPUS).contains(&event.a) {
                let free = vec![0; usize::try_from(event.a).expect("at most 8")];
                self.system =
                    Some(System { cache_aware: event.b != 0, free, vcpus: BTreeMap::new() });
                out.word[0] = 1;
            }
            return out;
        };
        let id = event.id as usize;
        let is_core = id < system.free.len();
        match event.op {
            1 if is_core => {
                system.free[id] = event.a;
                out.word[0] = 1;
            }
            2 => out.word[0] = u64::from(system.add(event)),
            3 => out.word[0] = u64::from(system.remove(event.id)),
            4 if is_core => out.word = system.balance(id, event.a),
            5 if system.vcpus.contains_key(&event.id) => {
                out.word[0] = system.find_host(event.id) as u64
            }
            6 if is_core => {
                let (u, count) = system.load(id);
                out.word[..4].copy_from_slice(&[slack(u, count), u, count, system.free[id]]);
            }
            7 => out.word[0] = system.trigger(),
            8 => out.word[0] = system.vcpus.get(&event.id).map_or(NONE, |vcpu| vcpu.core as u64),
            9 => {
                out.word[0] = u64::from(system.vcpus.contains_key(&event.id));
                system.vcpus.entry(event.id).and_modify(|vcpu| vcpu.fixed = event.a != 0);
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

    /// `vcpus`: (C of 16, core).
    fn system(cores: usize, vcpus: &[(u64, usize)]) -> System {
        let mut system =
            System { cache_aware: false, free: vec![0; cores], vcpus: BTreeMap::new() };
        for (id, &(capacity, core)) in (0..).zip(vcpus) {
            let event = Event { id, a: capacity, b: 16, c: core as u64, ..Event::default() };
            assert!(system.add(&event));
        }
        system
    }

    #[test]
    fn spv_is_the_slack_of_each_vcpu() {
        let system = system(3, &[(4, 0), (4, 0), (8, 1)]);
        assert_eq!([system.spv(0), system.spv(1), system.spv(2)], [ONE / 4, ONE / 2, u64::MAX]);
        assert_eq!(system.trigger(), 0);
    }

    /// Core 0: 4 + 4 of 16, core 1 is empty. Moving the first: both have 12 of 16 for one VCPU;
    /// balanced.
    #[test]
    fn an_empty_core_takes_half() {
        let mut system = system(2, &[(4, 0), (4, 0)]);
        assert_eq!(system.rebalance(0, 9), (1, Some(0), 1));
        assert_eq!(system.rebalance(0, 9), (0, None, 0));
    }

    #[test]
    fn an_overloaded_core_sheds_what_fits() {
        // Core 0: 9 + 8 + 2; core 1: 4. SPV 0 and 12; bound of two is 13.25 of 16.
        let mut system = system(2, &[(9, 0), (8, 0), (2, 0), (4, 1)]);
        // Host of VCPU 2 is core 1. VCPU 0: d' = 3/2, s' = 6/2: 1.5 < 12: moved, and d' <= s' ends
        // it.
        assert_eq!(system.rebalance(0, 9), (1, Some(0), 1));
        assert_eq!(system.load(1), (13 * ONE / 16, 2));
    }

    #[test]
    fn without_colours_nobody_moves() {
        let mut system = system(2, &[(4, 0), (4, 0)]);
        system.cache_aware = true;
        system.vcpus.get_mut(&0).unwrap().colours = 2;
        system.vcpus.get_mut(&1).unwrap().colours = 2;
        system.free = vec![0, 1];
        assert_eq!(system.rebalance(0, 9), (0, None, 0));
        system.free[1] = 3;
        assert_eq!(system.rebalance(0, 9), (1, Some(0), 1));
        assert_eq!(system.free, [2, 1]);
    }
}
