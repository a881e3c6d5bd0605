//! Disturbances of a piece, by the kernel's counters.
//!
//! Problem: a time with an interrupt in it is not the memory's. If long times were thrown away,
//! effects of the memory would be hidden. Rule: interrupts of the CPU (/proc/interrupts), context
//! switches of the thread (getrusage) and stolen time (/proc/stat) are counted before and after. A
//! piece counts if none of them moved. Source: proc(5), getrusage(2). Does not cover: exits of a
//! guest that its hypervisor does not report as stolen time; system-management interrupts.

use crate::thread;

/// Counts since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Interrupts of the CPU, of all kinds.
    pub interrupts: u64,
    /// Switches of the thread, voluntary and involuntary.
    pub switches: u64,
    /// Stolen time of the CPU, in the kernel's ticks.
    pub steal: u64,
}

/// Reads the counters of a CPU and of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    cpu: u32,
}

impl Counters {
    /// The counters of this CPU.
    #[must_use]
    pub fn of(cpu: u32) -> Self {
        Self { cpu }
    }

    /// Can interrupts be counted here?
    #[must_use]
    pub fn sees_interrupts(&self) -> bool {
        interrupts(&text("/proc/interrupts"), self.cpu).is_some()
    }

    /// The counts now.
    #[must_use]
    pub fn read(&self) -> Counts {
        Counts {
            interrupts: interrupts(&text("/proc/interrupts"), self.cpu).unwrap_or(0),
            switches: thread::switches(),
            steal: steal(&text("/proc/stat"), self.cpu).unwrap_or(0),
        }
    }
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The sum of a CPU's column.
fn interrupts(text: &str, cpu: u32) -> Option<u64> {
    let mut lines = text.lines();
    let name = format!("CPU{cpu}");
    let column = lines.next()?.split_whitespace().position(|head| head == name)?;
    let count = |line: &str| line.split_whitespace().nth(column + 1)?.parse::<u64>().ok();
    Some(lines.filter_map(count).sum())
}

/// The eighth number of a CPU's line.
fn steal(text: &str, cpu: u32) -> Option<u64> {
    let name = format!("cpu{cpu} ");
    let line = text.lines().find(|line| line.starts_with(&name))?;
    line.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpus_counts_are_those_of_its_column() {
        let text = "      CPU0  CPU2\n 24:   1   5  IO-APIC  5-edge  ACPI:Ged\nLOC:  10  20  Local\n\
            ERR:   7\n";
        // A single count is the machine's, in the first column.
        assert_eq!(interrupts(text, 2), Some(25));
        assert_eq!(interrupts(text, 0), Some(18));
        assert_eq!(interrupts(text, 1), None, "CPU 1 is offline");
        let stat =
            "cpu  1 2 3 4 5 6 7 8 9 0\ncpu1 1 2 3 4 5 6 7 42 9 0\ncpu11 0 0 0 0 0 0 0 1 0 0\n";
        assert_eq!((steal(stat, 1), steal(stat, 11), steal(stat, 2)), (Some(42), Some(1), None));
    }

    #[test]
    fn a_pause_is_seen() {
        let counters = Counters::of(0);
        let before = counters.read();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(counters.read().switches > before.switches);
    }
}
