//! The time of each CPU by the kernel's books (`/proc/stat`).
//!
//! Problem: a clock does not tell whether a CPU has run. The CPU may have been idle, or the host of
//! a virtual machine may have taken it. Rule: the kernel adds each tick of a CPU to one of ten
//! sums, in hundredths of a second, and the times without ticks to that of the idle task. A CPU ran
//! in programs, in the kernel and in interrupts; it rested if it was idle, or if the host says that
//! it took the CPU. Each sum is rounded down, so a difference of two readings is wrong by less than
//! a hundredth of a second for each sum.
//! Source: Linux, Documentation/filesystems/proc.rst, section 1.7.
//! Does not cover: a host that says nothing of the time that it takes. Such time is in no sum.

use std::collections::BTreeMap;
use std::fs;

/// A unit of the sums, ns: `USER_HZ` is 100 on every architecture with an engine.
const TICK_NS: u64 = 10_000_000;
/// Columns: user, nice, system, irq, softirq. Times of guests are within those of user and nice.
const RAN: [usize; 5] = [0, 1, 2, 5, 6];
/// Columns: idle, iowait, steal.
const RESTED: [usize; 3] = [3, 4, 7];

/// Time of a CPU since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// In programs, in the kernel and in interrupts, ns.
    pub ran_ns: u64,
    /// Idle, or taken by the host, ns.
    pub rested_ns: u64,
}

/// The time of every CPU that is online; empty where the kernel does not say.
pub(crate) fn of_cpus() -> BTreeMap<u32, CpuTime> {
    parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

fn parse(text: &str) -> BTreeMap<u32, CpuTime> {
    text.lines().filter_map(of_line).collect()
}

fn of_line(line: &str) -> Option<(u32, CpuTime)> {
    let (name, sums) = line.split_once(' ')?;
    // The first line is the sum of all CPUs.
    let cpu = name.strip_prefix("cpu")?.parse().ok()?;
    let sums: Vec<u64> = sums.split_whitespace().map_while(|sum| sum.parse().ok()).collect();
    let total = |columns: &[usize]| {
        let ticks: u64 = columns.iter().filter_map(|&column| sums.get(column)).sum();
        ticks.saturating_mul(TICK_NS)
    };
    Some((cpu, CpuTime { ran_ns: total(&RAN), rested_ns: total(&RESTED) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when a column is taken for another: an idle CPU would count as one that runs.
    #[test]
    fn times_that_a_cpu_ran_and_rested_are_distinguished() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 4 100 200 8 16 400 1000 2000\n\
            cpu12 5 0 0 7\nintr 99 1 2\n";
        let ms = |ran: u64, rested: u64| CpuTime {
            ran_ns: ran * 1_000_000,
            rested_ns: rested * 1_000_000,
        };
        assert_eq!(parse(text), [(0, ms(310, 7000)), (12, ms(50, 70))].into());
        assert_eq!(parse("nonsense"), BTreeMap::new());
    }

    #[test]
    fn this_machine_has_books() {
        let all = of_cpus();
        assert!(all.values().any(|time| time.ran_ns > 0), "{all:?}");
    }
}
