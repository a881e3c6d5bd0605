//! Cache allocation and monitoring for the guest's kernel: CAT for the shared cache with code and
//! data apart (CDP), MBA, CMT, MBM.
//!
//! Source: Intel SDM volume 3, chapter on resource director technology; AMD64 technology platform
//! quality of service extensions. Rule: CPUID lists the features. MSRs hold the class of a core and
//! the limits of a class. A core's class gives the mask for its misses in the shared cache, and the
//! least distance of its lines from DRAM. All cores share one domain. AMD's bandwidth is in eighths
//! of GB/s; Intel's delay of `d` percent leaves `100 - d` percent of the bandwidth of the core's
//! own miss registers at idle latency. Noncontiguous masks of Intel's flavour are taken as they
//! are. Not covered: second-level masks, SMBA, BMEC, assignable counters (ABMC).

use crate::config::{Config, PmuKind};
use crate::machine::{Geometry, MONITORS, Machine};
use solocore_model::Platform;

/// Classes of service.
pub const CLASSES: usize = 16;
/// Log2 of AMD's largest bandwidth value, which means no limit.
const AMD_BITS: u32 = 11;
/// Intel's largest delay, percent.
const MAX_DELAY: u64 = 90;

const FEATURES: u32 = 7;
const MONITORING: u32 = 0xf;
const ALLOCATION: u32 = 0x10;
const AMD_SIZES: u32 = 0x8000_0008;
const AMD_ALLOCATION: u32 = 0x8000_0020;

/// The registers.
#[derive(Clone, Debug)]
pub struct Allocation {
    on: bool,
    amd: bool,
    ways: u32,
    line: u64,
    /// By core: the shortest possible distance of its lines from DRAM.
    best_gaps_ps: Vec<u64>,
    masks: [u64; 2 * CLASSES],
    bandwidth: [u64; CLASSES],
    apart: bool,
    /// By core: its class, and the counter that it selected for reading.
    classes: Vec<usize>,
    associations: Vec<u64>,
    selected: Vec<u64>,
}

impl Allocation {
    /// Registers without limits.
    pub fn new(config: &Config, platform: &Platform) -> Self {
        let amd = config.pmu != PmuKind::Intel;
        let geometry = Geometry::of(platform, None);
        let best = |core: usize| {
            let shape = Geometry::of(platform, u32::try_from(core).ok()).shape;
            (shape.llc_ps + shape.overhead_ps + shape.dram_ps) / shape.mshrs.max(1) as u64
        };
        Self {
            on: config.allocation,
            amd,
            ways: geometry.llc_ways,
            line: 1 << geometry.line_shift,
            best_gaps_ps: (0..config.cpus).map(best).collect(),
            masks: [u64::MAX >> (64 - geometry.llc_ways); 2 * CLASSES],
            bandwidth: [if amd { 1 << AMD_BITS } else { 0 }; CLASSES],
            apart: false,
            classes: vec![0; config.cpus],
            associations: vec![0; config.cpus],
            selected: vec![0; config.cpus],
        }
    }

    /// Whether the answers of `cpuid` to this leaf must be changed.
    pub fn concerns(&self, leaf: u32) -> bool {
        self.on
            && matches!(
                leaf,
                0 | FEATURES | MONITORING | ALLOCATION | AMD_SIZES | AMD_ALLOCATION | 0x8000_0000
            )
    }

    /// Changes QEMU's answer (EAX, EBX, ECX, EDX) to that of the board.
    pub fn cpuid(&self, leaf: u32, sub: u32, answer: &mut [u32; 4]) {
        let last = CLASSES as u32 - 1;
        match (leaf, sub) {
            (0, _) => answer[0] = answer[0].max(ALLOCATION),
            (0x8000_0000, _) if self.amd => answer[0] = answer[0].max(AMD_ALLOCATION),
            (FEATURES, 0) => answer[1] |= 1 << 12 | 1 << 15,
            (MONITORING, 0) => *answer = [0, MONITORS - 1, 0, 1 << 1],
            // Counters of 24 + 20 bits; they count lines.
            (MONITORING, 1) => {
                *answer = [20, u32::try_from(self.line).unwrap_or(64), MONITORS - 1, 0b111]
            }
            (ALLOCATION, 0) => *answer = [0, 1 << 1 | u32::from(!self.amd) << 3, 0, 0],
            (ALLOCATION, 1) => *answer = [self.ways - 1, 0, 1 << 2, last],
            (ALLOCATION, 3) if !self.amd => {
                *answer = [u32::try_from(MAX_DELAY).unwrap_or(0) - 1, 0, 1 << 2, last];
            }
            (AMD_SIZES, _) if self.amd => answer[1] |= 1 << 6,
            (AMD_ALLOCATION, 0) if self.amd => *answer = [0, 1 << 1, 0, 0],
            (AMD_ALLOCATION, 1) if self.amd => *answer = [AMD_BITS, 0, 0, last],
            (MONITORING | ALLOCATION | AMD_ALLOCATION, _) => *answer = [0; 4],
            _ => {}
        }
    }

    fn bandwidth_msr(&self) -> u32 {
        if self.amd { 0xc000_0200 } else { 0xd50 }
    }

    /// Answers a core's read of an MSR.
    pub fn read(&self, cpu: usize, number: u32, machine: &Machine) -> Option<u64> {
        if !self.on {
            return None;
        }
        let bandwidth = self.bandwidth_msr();
        Some(match number {
            0xc81 => u64::from(self.apart),
            0xc8d => self.selected[cpu],
            0xc8e => self.monitored(cpu, machine),
            0xc8f => self.associations[cpu],
            0xc90..0xcb0 => self.masks[(number - 0xc90) as usize],
            n if (bandwidth..bandwidth + CLASSES as u32).contains(&n) => {
                self.bandwidth[(n - bandwidth) as usize]
            }
            _ => return None,
        })
    }

    fn monitored(&self, cpu: usize, machine: &Machine) -> u64 {
        const ERROR: u64 = 1 << 63;
        let monitor = usize::try_from(self.selected[cpu] >> 32 & 0x3ff).unwrap_or(usize::MAX);
        let Some(monitored) = machine.monitored.get(monitor) else { return ERROR };
        match self.selected[cpu] & 0xff {
            1 => u64::try_from(monitored.lines).unwrap_or(0),
            2 | 3 => monitored.moved,
            _ => ERROR,
        }
    }

    /// Takes a core's write to an MSR; returns whether it is one of these.
    pub fn write(&mut self, cpu: usize, number: u32, value: u64, machine: &mut Machine) -> bool {
        if !self.on {
            return false;
        }
        let bandwidth = self.bandwidth_msr();
        let all = u64::MAX >> (64 - self.ways);
        match number {
            0xc81 => self.apart = value & 1 == 1,
            0xc8d => self.selected[cpu] = value,
            0xc8f => {
                self.associations[cpu] = value;
                self.classes[cpu] = usize::try_from(value >> 32).unwrap_or(0) % CLASSES;
                machine.cores[cpu].monitor = u32::try_from(value & 0x3ff).unwrap_or(0) % MONITORS;
            }
            0xc90..0xcb0 => self.masks[(number - 0xc90) as usize] = value & all,
            n if (bandwidth..bandwidth + CLASSES as u32).contains(&n) => {
                self.bandwidth[(n - bandwidth) as usize] = value;
            }
            _ => return false,
        }
        self.apply(machine);
        true
    }

    fn apply(&self, machine: &mut Machine) {
        let own = self.classes.iter().zip(&self.best_gaps_ps);
        for (core, (&class, &best)) in machine.cores.iter_mut().zip(own) {
            core.masks = if self.apart {
                let pair = 2 * (class % (CLASSES / 2));
                [self.masks[pair], self.masks[pair + 1]]
            } else {
                [self.masks[class]; 2]
            };
            core.gap_ps = self.gap_of(self.bandwidth[class], best);
        }
    }

    /// The least distance of the lines of a core whose shortest one is `best_ps`.
    fn gap_of(&self, value: u64, best_ps: u64) -> u64 {
        if self.amd {
            if value >= 1 << AMD_BITS { 0 } else { self.line * 8000 / value.max(1) }
        } else if value == 0 {
            0
        } else {
            best_ps * 100 / (100 - value.min(MAX_DELAY))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::platform;
    use solocore_model::platform::CoreType;

    fn pair(pmu: PmuKind) -> (Allocation, Machine) {
        pair_of(pmu, &platform())
    }

    fn pair_of(pmu: PmuKind, p: &Platform) -> (Allocation, Machine) {
        let config = Config {
            platform: "p.toml".into(),
            cpus: 2,
            seed: 1,
            quantum_ns: 10_000,
            cpi_ps: None,
            model: crate::config::ModelSwitch::On,
            prefetcher: solocore_cache::prefetch::PrefetcherKind::Off,
            page_walks: false,
            pmu,
            allocation: true,
            truth: None,
            progress: None,
            trace: None,
        };
        let machine = Machine::new(p, 2, 1, config.prefetcher, true).unwrap();
        (Allocation::new(&config, p), machine)
    }

    /// Breaks when a delay is that of the platform's miss registers on every core.
    #[test]
    fn a_delay_is_of_the_cores_own_miss_registers() {
        let mut p = platform();
        let mut big = CoreType::of_clock("big", vec![1], p.frequency);
        big.pipeline = Some(p.pipeline);
        if let Some(pipeline) = &mut big.pipeline {
            pipeline.mshrs = 2 * p.pipeline.mshrs;
        }
        p.core_types = vec![CoreType::of_clock("little", vec![0], p.frequency), big];
        let (mut a, mut m) = pair_of(PmuKind::Intel, &p);
        assert!(a.write(0, 0xd50, 50, &mut m));
        let [little, big] = [m.cores[0].gap_ps, m.cores[1].gap_ps];
        assert!(little > 0 && (2 * big).abs_diff(little) <= 4, "{little} {big}");
        // AMD's limit is one of bytes, and the same for all cores.
        let (mut a, mut m) = pair_of(PmuKind::Amd, &p);
        assert!(a.write(0, 0xc000_0200, 8, &mut m));
        assert_eq!((m.cores[0].gap_ps, m.cores[1].gap_ps), (64_000, 64_000));
    }

    #[test]
    fn a_cores_class_gives_its_masks_and_distance() {
        let (mut a, mut m) = pair(PmuKind::Amd);
        assert!(a.write(0, 0xc91, 0xf0, &mut m) && a.write(0, 0xc000_0201, 8, &mut m));
        assert_eq!(m.cores[1].masks, [0xffff; 2]);
        assert!(a.write(1, 0xc8f, 1 << 32 | 5, &mut m));
        // 1 GB/s: a line in 64 ns.
        assert_eq!(
            (m.cores[1].masks, m.cores[1].gap_ps, m.cores[1].monitor),
            ([0xf0; 2], 64_000, 5)
        );
        assert_eq!(m.cores[0].masks, [0xffff; 2]);
        assert!(a.write(0, 0xc81, 1, &mut m) && a.write(0, 0xc93, 0xf, &mut m));
        assert_eq!(m.cores[1].masks, [0xffff, 0xf]);
        assert_eq!(a.read(1, 0xc8f, &m), Some(1 << 32 | 5));
        assert_eq!(a.read(1, 0xd50, &m), None);
    }

    #[test]
    fn lines_are_counted_for_their_class() {
        let (mut a, mut m) = pair(PmuKind::Intel);
        a.write(0, 0xc8f, 3, &mut m);
        for line in 0..100 {
            m.access(0, 0, line, 0, crate::machine::Access::Load, || 0);
        }
        a.write(1, 0xc8d, 3 << 32 | 1, &mut m);
        assert_eq!(a.read(1, 0xc8e, &m), Some(100));
        a.write(1, 0xc8d, 3 << 32 | 2, &mut m);
        assert_eq!(a.read(1, 0xc8e, &m), Some(100));
        a.write(1, 0xc8d, 0x3ff << 32 | 1, &mut m);
        assert_eq!(a.read(1, 0xc8e, &m), Some(1 << 63));
    }

    #[test]
    fn cpuid_says_what_there_is() {
        let (a, _) = pair(PmuKind::Amd);
        let mut answer = [13, 1, 2, 3];
        a.cpuid(0, 0, &mut answer);
        assert_eq!(answer, [16, 1, 2, 3]);
        a.cpuid(ALLOCATION, 1, &mut answer);
        assert_eq!(answer, [15, 0, 4, 15]);
        assert!(a.concerns(7) && !a.concerns(1));
    }
}
