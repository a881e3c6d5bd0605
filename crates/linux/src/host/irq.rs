//! Interrupts and unbound kernel work, moved off the cores of analysed tasks.
//!
//! Problem: an interrupt delays the program on its CPU, and the plan's bounds include no
//! interrupts.
//! Rule: an interrupt that may come to a core of analysed tasks goes to the one CPU that is
//! designated for them, and so do those that are set up later (`default_smp_affinity`). The
//! kernel's unbound work (`workqueue/cpumask`) goes to the other cores. Some refuse (an interrupt
//! of one CPU; one whose driver spreads its queues itself): they stay, and are named. An interrupt
//! that stays and never comes delays nobody, like that of a PC's old timer: so they are counted.
//! Does not cover: timer interrupts and kernel threads of a CPU, which belong to it; a running
//! irqbalance, which moves interrupts again: stop it.

use super::threads::numbers;
use crate::host::keeper::Changes;
use crate::host::machine::{cpu_list, parse_cpu_list};
use solocore_model::error::without_os_numbers;
use solocore_model::run::RunInterrupts;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of these settings.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub irq: PathBuf,
    pub workqueue: PathBuf,
    pub counts: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            irq: "/proc/irq".into(),
            workqueue: "/sys/devices/virtual/workqueue/cpumask".into(),
            counts: "/proc/interrupts".into(),
        }
    }
}

/// A CPU mask as the kernel writes it: 32 bits a group, the highest first.
pub(crate) fn mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let group =
        |g: u32| cpus.iter().filter(|&&c| c / 32 == g).fold(0u32, |bits, c| bits | 1 << (c % 32));
    (0..groups).rev().map(|g| format!("{:08x}", group(g))).collect::<Vec<_>>().join(",")
}

/// Whether both masks are equal, apart from leading zeros.
fn same_mask(a: &str, b: &str) -> bool {
    let bits = |text: &str| text.trim().replace(',', "").trim_start_matches('0').to_owned();
    bits(a) == bits(b)
}

/// Interrupts that may come to one of these CPUs.
pub(crate) fn that_reach(places: &Places, cpus: &[u32]) -> Vec<u32> {
    let reaches = |irq: &u32| {
        let list = fs::read_to_string(places.irq.join(irq.to_string()).join("smp_affinity_list"));
        list.is_ok_and(|l| parse_cpu_list(&l).iter().any(|c| cpus.contains(c)))
    };
    numbers(&places.irq).into_iter().filter(reaches).collect()
}

/// Moves the interrupts of the CPUs `off` to the CPU `to`, and unbound kernel work to `work`.
pub(crate) fn move_off(
    changes: &mut Changes,
    places: &Places,
    off: &[u32],
    to: u32,
    work: &[u32],
) -> RunInterrupts {
    let mut result = RunInterrupts::default();
    for irq in that_reach(places, off) {
        let path = places.irq.join(irq.to_string()).join("smp_affinity_list");
        match changes.set(&text(&path), &to.to_string()) {
            Ok(true) => result.moved.push(irq),
            Ok(false) => {}
            Err(e) => result.refused.push((irq, without_os_numbers(&e.to_string()))),
        }
    }
    let default = places.irq.join("default_smp_affinity");
    for (path, cpus) in [(&default, &[to][..]), (&places.workqueue, work)] {
        let is = fs::read_to_string(path).unwrap_or_default();
        if !same_mask(&is, &mask(cpus))
            && let Err(e) = changes.set(&text(path), &mask(cpus))
        {
            let what = format!("{} is not set to CPUs {}: {e}", path.display(), cpu_list(cpus));
            result.notes.push(what);
        }
    }
    result
}

/// Number of times that each of these interrupts has come to one of these CPUs since the boot. The
/// kernel has no line for an interrupt that nobody handles and that never came.
///
/// # Errors
/// The counts cannot be read.
pub(crate) fn counted(places: &Places, irqs: &[u32], cpus: &[u32]) -> Result<Vec<u64>, String> {
    let path = places.counts.display();
    let text = fs::read_to_string(&places.counts).map_err(|e| format!("{path}: {e}"))?;
    let mut lines = text.lines();
    let heads = lines.next().unwrap_or_default().split_whitespace();
    let columns: Vec<u32> =
        heads.filter_map(|head| head.strip_prefix("CPU")?.parse().ok()).collect();
    let of = |&irq: &u32| {
        let own = |line: &&str| line.split(':').next().is_some_and(|n| n.trim() == irq.to_string());
        let line = lines.clone().find(own).unwrap_or_default();
        let counts = line.split_whitespace().skip(1).zip(&columns);
        let mine = counts.filter(|(_, cpu)| cpus.contains(cpu));
        mine.filter_map(|(count, _)| count.parse::<u64>().ok()).sum()
    };
    Ok(irqs.iter().map(of).collect())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_the_kernels() {
        assert_eq!(mask(&[]), "00000000");
        assert_eq!(mask(&[0, 3]), "00000009");
        assert_eq!(mask(&[31, 32, 65]), "00000002,00000001,80000000");
        assert!(same_mask("f\n", "0000000f") && same_mask("0,0000000f", "f"));
        assert!(!same_mask("1,00000000", "1"));
    }

    #[test]
    fn interrupts_are_counted_on_their_cpus() {
        let dir = tempfile::tempdir().unwrap();
        let counts = dir.path().join("interrupts");
        let places = Places { counts: counts.clone(), ..Places::default() };
        assert!(counted(&places, &[0], &[0]).unwrap_err().contains("interrupts: No such file"));
        let text = "            CPU0       CPU2       CPU3\n   0:         38          1          4  IO-APIC    2-edge  \
            timer\n  10:          0          5          6  IO-APIC   10-fasteoi   virtio0\nNMI:  1 2 3  Non-maskable\n";
        fs::write(&counts, text).unwrap();
        assert_eq!(counted(&places, &[0, 10], &[2, 3, 7]), Ok(vec![5, 11]));
        assert_eq!(counted(&places, &[10], &[0]), Ok(vec![0]));
        assert_eq!(counted(&places, &[1], &[0]), Ok(vec![0]), "it has no line");
    }

    #[test]
    fn interrupts_are_chosen_by_where_they_may_come() {
        let dir = tempfile::tempdir().unwrap();
        for (irq, list) in [("3", "0-3\n"), ("4", "2"), ("10", "1,3"), ("11", "")] {
            fs::create_dir(dir.path().join(irq)).unwrap();
            fs::write(dir.path().join(irq).join("smp_affinity_list"), list).unwrap();
        }
        fs::create_dir(dir.path().join("12")).unwrap();
        let places = Places { irq: dir.path().to_owned(), ..Places::default() };
        assert_eq!(that_reach(&places, &[0, 1]), [3, 10]);
        assert_eq!(that_reach(&places, &[2]), [3, 4]);
        assert!(that_reach(&places, &[9]).is_empty());
    }
}
