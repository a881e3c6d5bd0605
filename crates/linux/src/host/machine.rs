//! Abilities of this machine and this process: CPUs, privileges, kernel, counters.

use crate::error::LinuxError;
use crate::sys;
use libbpf_rs::btf::{Btf, types};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The machine's first namespace of processes: the only one whose numbers BPF programs know.
pub(crate) const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// The first namespace of time.
pub(crate) const FIRST_TIME_NAMESPACE: &str = "time:[4026531834]";

/// Capabilities that regulating needs: name, number, purpose.
const CAPABILITIES: &[(&str, u32, &str)] = &[
    ("CAP_BPF", 39, "to load BPF programs"),
    ("CAP_PERFMON", 38, "to count on every CPU"),
    ("CAP_SYS_ADMIN", 21, "to install a scheduler"),
    ("CAP_SYS_NICE", 23, "for real-time threads"),
];

/// Kernel functions that `bpf/sched_ext.bpf.c` calls, with the number of their arguments.
const KFUNCS: &[(&str, usize)] = &[
    ("scx_bpf_create_dsq", 2),
    ("scx_bpf_select_cpu_dfl", 4),
    ("scx_bpf_test_and_clear_cpu_idle", 1),
    ("scx_bpf_dsq_insert", 4),
    ("scx_bpf_dsq_insert_vtime", 5),
    ("scx_bpf_dsq_move_to_local", 1),
    ("scx_bpf_dsq_move", 4),
    ("scx_bpf_dsq_nr_queued", 1),
    ("scx_bpf_kick_cpu", 2),
    ("scx_bpf_task_cpu", 1),
];

/// Numbers in a list such as `0-3,6`.
pub fn parse_cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>())
            && last < 1 << 16
        {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// The list that [`parse_cpu_list`] reads, as the kernel writes it; the numbers are in order.
pub fn cpu_list(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The CPUs that are online.
///
/// # Errors
/// /sys is missing.
pub fn online_cpus() -> Result<Vec<u32>, LinuxError> {
    const PATH: &str = "/sys/devices/system/cpu/online";
    let text =
        fs::read_to_string(PATH).map_err(|e| LinuxError::of_io(PATH, &e, "mount sysfs at /sys"))?;
    Ok(parse_cpu_list(&text))
}

/// The text of `/proc/cpuinfo`; empty if there is none.
pub fn cpuinfo() -> String {
    fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// Capabilities that this process lacks, with their purposes.
pub fn missing_capabilities() -> Vec<(&'static str, &'static str)> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    lacking(mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0))
}

fn lacking(mask: u64) -> Vec<(&'static str, &'static str)> {
    CAPABILITIES
        .iter()
        .filter(|(_, bit, _)| mask >> bit & 1 == 0)
        .map(|&(name, _, what)| (name, what))
        .collect()
}

/// Fails if this process may not regulate.
///
/// # Errors
/// Some capabilities are missing; the message says how to get them.
pub fn check_privileges() -> Result<(), LinuxError> {
    let missing: Vec<String> =
        missing_capabilities().into_iter().map(|(name, what)| format!("{name} ({what})")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(LinuxError::Machine(format!(
        "privileges are missing: {}; run as root: sudo solocore run ...",
        missing.join(", ")
    )))
}

/// Fails where processes have other numbers or start times than the kernel's: the BPF programs
/// would mistake other processes for solocore or its clients, or know no client.
///
/// # Errors
/// This process is in another namespace; the message says how to leave it.
pub fn check_numbers() -> Result<(), LinuxError> {
    numbers_in(Path::new("/proc/self/ns"))
}

/// [`check_numbers`] of a process with these namespaces.
fn numbers_in(namespaces: &Path) -> Result<(), LinuxError> {
    let of_pid = "in a container, where processes have other numbers than the kernel's";
    let of_time =
        "in a namespace of time, where processes have other start times than the kernel's";
    let pid_help = "give the container the machine's numbers (docker run --pid=host)";
    let time_help = "give the container the machine's time";
    let all = [
        ("pid", FIRST_PID_NAMESPACE, of_pid, pid_help),
        ("time", FIRST_TIME_NAMESPACE, of_time, time_help),
    ];
    for (name, first, what, help) in all {
        match fs::read_link(namespaces.join(name)) {
            Ok(namespace) if namespace.as_os_str() == first => {}
            Ok(namespace) => {
                return Err(LinuxError::Machine(format!(
                    "this process is {what} ({}); run solocore outside, or {help}",
                    namespace.display()
                )));
            }
            // A kernel without these namespaces has one for all.
            Err(e) if e.kind() == ErrorKind::NotFound && namespaces.is_dir() => {}
            Err(e) => {
                let path = namespaces.join(name).display().to_string();
                return Err(LinuxError::of_io(&path, &e, "mount /proc"));
            }
        }
    }
    Ok(())
}

/// Interrupts of an event per second and CPU beyond which the kernel switches it off for a while.
pub(crate) const SAMPLE_RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
/// Share of a CPU's time that interrupts of counters may take before the kernel lowers that rate; 0
/// or 100: it does not.
pub(crate) const CPU_TIME: &str = "/proc/sys/kernel/perf_cpu_time_max_percent";

/// The present rate; `None` where the kernel does not tell it.
pub(crate) fn sample_rate() -> Option<u64> {
    number_in(SAMPLE_RATE)
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok())
}

/// The rate that this number of interrupts per period needs. The kernel counts interrupts per
/// scheduler tick, and they are not spread evenly over ticks.
pub(crate) fn needed_rate(period_ns: u64, per_period: u64) -> u64 {
    2_000_000_000u64.saturating_mul(per_period.max(1)) / period_ns.max(1)
}

/// Checks that the kernel lets an event interrupt often enough, or that an engine can raise the
/// limit while it runs (regulate/engine/rate.rs).
///
/// # Errors
/// The rate is too low for this period, and this process cannot raise it; the message says how to
/// raise it.
pub fn check_sample_rate(period_ns: u64, per_period: u64) -> Result<(), LinuxError> {
    let fixed = matches!(number_in(CPU_TIME), Some(0 | 100));
    let rate = sample_rate().filter(|_| fixed);
    enough(rate.unwrap_or(u64::MAX), needed_rate(period_ns, per_period))
}

fn enough(rate: u64, needed: u64) -> Result<(), LinuxError> {
    if rate >= needed {
        return Ok(());
    }
    Err(LinuxError::Machine(format!(
        "kernel.perf_event_max_sample_rate is {rate}, and {needed} interrupts a second are needed; \
            raise it: sysctl kernel.perf_cpu_time_max_percent=25 \
            kernel.perf_event_max_sample_rate={needed}"
    )))
}

/// Checks that a CPU, which `what` names for the user, is online.
///
/// # Errors
/// [`LinuxError::Input`], with those that are.
pub fn check_online(what: &str, cpu: u32, online: &[u32]) -> Result<(), LinuxError> {
    if online.contains(&cpu) {
        return Ok(());
    }
    Err(LinuxError::Input(format!("{what} is not online; choose among {}", cpu_list(online))))
}

/// Keeps the calling thread, its children and the program that it becomes on one CPU.
///
/// # Errors
/// There is no such CPU, or this process may not use it.
pub fn keep_on(cpu: u32) -> Result<(), LinuxError> {
    check_online(&format!("CPU {cpu}"), cpu, &online_cpus()?)?;
    sys::pin_to(cpu).map_err(|e| {
        LinuxError::of_io(&format!("core {cpu}"), &e, "is it in this process's cpuset?")
    })
}

/// Lets a thread run on every CPU.
///
/// # Errors
/// There is no such thread, or this process may not move it.
pub fn free_thread(tid: u32) -> Result<(), LinuxError> {
    sys::tasks::bind(tid, &online_cpus()?).map_err(|e| {
        LinuxError::of_io(&format!("thread {tid}"), &e, "run as root; does it still run?")
    })
}

/// Asks a child of this process to end, by this signal. It must not have been waited for.
pub fn ask_to_end(child: u32, signal: i32) {
    let signal = rustix::process::Signal::from_named_raw(signal);
    sys::tasks::signal_one(child, signal.unwrap_or(rustix::process::Signal::TERM));
}

/// Size of a cache line, bytes.
pub fn cache_line() -> u64 {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size");
    text.ok().and_then(|t| t.trim().parse().ok()).filter(|&n| n > 0).unwrap_or(64)
}

/// Checks that the sched_ext engine can run here.
///
/// # Errors
/// Something is missing; the message says how to get it.
pub fn check_sched_ext() -> Result<(), LinuxError> {
    let state = Path::new("/sys/kernel/sched_ext/state");
    let Ok(state) = fs::read_to_string(state) else {
        return Err(LinuxError::Machine(
            "the kernel has no sched_ext; use a kernel from 6.14 with CONFIG_SCHED_CLASS_EXT \
                (Debian: trixie-backports)"
                .to_owned(),
        ));
    };
    if state.trim() != "disabled" {
        let who = fs::read_to_string("/sys/kernel/sched_ext/root/ops").unwrap_or_default();
        let who = if who.trim().is_empty() {
            "another scheduler".to_owned()
        } else {
            format!("`{}`", who.trim())
        };
        return Err(LinuxError::Machine(format!(
            "sched_ext is {} by {who}; stop that scheduler, there can be only one",
            state.trim()
        )));
    }
    check_kfuncs(KFUNCS)
}

/// Fails if the type information is wrong about kernel functions that a scheduler needs beside the
/// common ones.
pub(crate) fn check_kfuncs(wanted: &[(&str, usize)]) -> Result<(), LinuxError> {
    let missing = wrong_kfuncs(wanted)?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(LinuxError::Machine(format!(
        "the kernel's type information is wrong about {}; use another kernel (Debian's 6.19 and \
            7.0 have them)",
        missing.join(", ")
    )))
}

/// Numbers of BPF programs, maps and links in the kernel now, of all owners.
pub fn bpf_objects() -> [u32; 3] {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    [
        count(libbpf_rs::query::ProgInfoIter::default().count()),
        count(libbpf_rs::query::MapInfoIter::default().count()),
        count(libbpf_rs::query::LinkInfoIter::default().count()),
    ]
}

/// Threads of a process.
///
/// # Errors
/// There is no such process.
pub fn threads_of(pid: u32) -> Result<Vec<u32>, LinuxError> {
    let path = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&path)
        .map_err(|e| LinuxError::of_io(&format!("process {pid}"), &e, "does it still run?"))?;
    Ok(entries.flatten().filter_map(|e| e.file_name().to_string_lossy().parse().ok()).collect())
}

/// The wanted functions that the type information lacks or declares otherwise.
fn wrong_kfuncs(wanted: &[(&str, usize)]) -> Result<Vec<String>, LinuxError> {
    let btf = Btf::from_vmlinux().map_err(|e| {
        LinuxError::Machine(format!(
            "the kernel tells no types (/sys/kernel/btf/vmlinux): {e}; use a kernel with \
                CONFIG_DEBUG_INFO_BTF"
        ))
    })?;
    let hidden = |(name, arguments): (&str, usize)| {
        let found = btf.type_by_name::<types::Func<'_>>(name);
        let prototype =
            found.and_then(|f| f.next_type()).and_then(|t| types::FuncProto::try_from(t).ok());
        let declared = prototype.map(|p| p.len());
        match declared {
            Some(count) if count == arguments => None,
            // Some builds show an argument that the kernel fills in itself.
            Some(count) => {
                Some(format!("{name} (declared with {count} arguments in place of {arguments})"))
            }
            None => Some(name.to_owned()),
        }
    };
    Ok(wanted.iter().copied().filter_map(hidden).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpu_list("0-3,6\n"), [0, 1, 2, 3, 6]);
        assert_eq!(parse_cpu_list("0"), [0]);
        assert_eq!(parse_cpu_list(""), Vec::<u32>::new());
        assert_eq!(parse_cpu_list("0-99999999"), Vec::<u32>::new());
        assert_eq!(parse_cpu_list("x,1-y,2"), [2]);
        for list in ["", "0", "0-3,6", "0,2,4-5"] {
            assert_eq!(cpu_list(&parse_cpu_list(list)), list);
        }
    }

    #[test]
    fn ticks_need_a_rate() {
        assert_eq!(needed_rate(100_000, 1), 20_000);
        assert_eq!(needed_rate(1_000_000, 16), 32_000);
        assert!(enough(32_000, 32_000).is_ok());
        let error = enough(1_000, needed_rate(1_000_000, 1)).unwrap_err().to_string();
        assert!(error.contains("perf_event_max_sample_rate=2000"), "{error}");
        assert!(enough(u64::MAX, needed_rate(0, u64::MAX)).is_ok());
    }

    #[test]
    fn other_namespaces_are_refused() {
        let says = |links: &[(&str, &str)]| {
            let made = tempfile::tempdir().unwrap();
            for (name, target) in links {
                std::os::unix::fs::symlink(target, made.path().join(name)).unwrap();
            }
            numbers_in(made.path()).err().map(|e| e.to_string())
        };
        let (pid, time) = (("pid", FIRST_PID_NAMESPACE), ("time", FIRST_TIME_NAMESPACE));
        assert_eq!((says(&[pid, time]), says(&[pid]), says(&[])), (None, None, None));
        let other = says(&[("pid", "pid:[4026532000]"), time]).unwrap();
        assert!(other.contains("other numbers") && other.contains("--pid=host"), "{other}");
        let other = says(&[pid, ("time", "time:[4026532000]")]).unwrap();
        assert!(other.contains("other start times"), "{other}");
        assert!(numbers_in(Path::new("/nowhere/ns")).unwrap_err().to_string().contains("/proc"));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(lacking(u64::MAX).is_empty());
        assert_eq!(lacking(0).len(), CAPABILITIES.len());
        assert_eq!(lacking(!(1 << 38)), [("CAP_PERFMON", "to count on every CPU")]);
    }
}
