//! Users of CPU time besides programs: servers of the kernel, its real-time throttling, its own
//! code.
//!
//! Problem: the kernel gives ordinary tasks a part of the CPU before real-time tasks, and delays a
//! wake-up while it does not preempt itself. Rule: an engine turns servers and throttling off while
//! it runs; a kernel that locks debugfs down refuses that. Preemption is named by debugfs.
//! Source: Linux, kernel/sched/debug.c, Documentation/scheduler/sched-rt-group.rst and
//! sched-deadline.rst; docs/linux-budgets.md, "The fair server".
//! Does not cover: the daemon's own latency, which each run measures.

use super::root::{Root, grouped, named};
use crate::host::finding::{Finding, Topic};
use solocore_model::plan::Subject;
use std::io;

const FAIR: Topic = Topic::new("fair server", &[Subject::Budget, Subject::WriteBudget]);
const EXT: Topic = Topic::new("ext server", &[Subject::Window, Subject::Transfer]);
const THROTTLING: Topic = Topic::new("real-time throttling", &[Subject::Place, Subject::Budget]);
const PREEMPTION: Topic = Topic::new(
    "preemption",
    &[Subject::Releases, Subject::Window, Subject::Slots, Subject::Levels, Subject::Vcpu],
);

/// Schedulers that turn the ext server off.
const SCHEDULERS: &str = "the sched-ext engine, VCPUs or levels run";

/// Runtime of a server on the CPUs; `None`: the kernel has no such server.
fn server(root: &Root, name: &str) -> io::Result<Option<String>> {
    let mut found = Vec::new();
    for cpu in root.online() {
        let number = |file: &str| {
            let text = root.debug(&format!("sched/{name}/cpu{cpu}/{file}"))?;
            text.parse::<u64>().map_err(|_| io::Error::other(format!("`{text}` is not a time")))
        };
        match number("runtime") {
            Ok(0) => found.push((cpu, "none".to_owned())),
            Ok(runtime) => {
                let period = number("period")?;
                let (runtime, period) = (runtime / 1_000_000, period / 1_000_000);
                found.push((cpu, format!("{runtime} ms of each {period} ms")));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    let text = |(share, cpus): (String, Vec<u32>)| format!("{share} on {}", named(&cpus));
    let all: Vec<String> = grouped(found).into_iter().map(text).collect();
    Ok(Some(all.join(", ")).filter(|text| !text.is_empty()))
}

/// Finding for a server that an engine or a scheduler turns off.
///
/// # Errors
/// The kernel refuses to turn it off.
fn turned_off(root: &Root, name: &str, topic: &Topic, during: &str) -> Result<Finding, io::Error> {
    // A folder has no text: any error but this one means that it exists.
    let folder = root.debug("sched").err().map(|e| e.kind());
    if root.online().is_empty() || folder == Some(io::ErrorKind::NotFound) {
        return Ok(topic.unknown("debugfs shows no scheduler"));
    }
    match server(root, name) {
        Ok(Some(share)) => Ok(topic.good(format!("can be turned off while {during} ({share})"))),
        Ok(None) => Ok(topic.good("this kernel has none")),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied && root.may_mount() => Err(e),
        Err(e) => Ok(topic.unknown(format!("cannot be read ({e})"))),
    }
}

/// Finding for the fair server, which runs ordinary tasks before real-time ones; for the helper
/// engine.
pub(super) fn fair_server(root: &Root) -> Finding {
    turned_off(root, "fair_server", &FAIR, "the helper engine runs").unwrap_or_else(|e| {
        FAIR.bad(format!(
            "cannot be turned off ({e}; is the kernel locked down?): with the helper engine, tasks \
                with small budgets run unregulated for up to 5 % of the time; sched-ext has no \
                such gap"
        ))
        .helped_by(if root.has("sys/kernel/sched_ext") {
            "solocore run plan.json --engine sched-ext"
        } else {
            "apt-get install -t trixie-backports linux-image-$(dpkg --print-architecture)"
        })
    })
}

/// Finding for the server of sched_ext tasks, which run before real-time ones since Linux 7.0.
pub(super) fn ext_server(root: &Root) -> Finding {
    turned_off(root, "ext_server", &EXT, SCHEDULERS).unwrap_or_else(|e| {
        EXT.bad(format!(
            "cannot be turned off ({e}; is the kernel locked down?): with the sched-ext engine, \
                VCPUs or levels, drivers and windows lose up to 5 % of the time"
        ))
        .helped_by("solocore run plan.json --engine helper")
    })
}

/// Share of its time that a CPU gives to real-time tasks.
pub(super) fn real_time(root: &Root) -> Finding {
    let of = |file| root.text(&format!("proc/sys/kernel/{file}"))?.parse::<i64>().ok();
    let period = of("sched_rt_period_us").filter(|us| *us > 0).unwrap_or(1_000_000);
    match of("sched_rt_runtime_us") {
        None => THROTTLING.unknown("kernel.sched_rt_runtime_us cannot be read"),
        Some(..0) => THROTTLING.good("off"),
        Some(runtime) if runtime >= period => THROTTLING.good("off: they may have all of the time"),
        Some(0) => THROTTLING
            .bad("real-time tasks have no time: neither helpers nor analysed tasks run")
            .helped_by("sysctl kernel.sched_rt_runtime_us=-1"),
        Some(runtime) => THROTTLING.good(format!(
            "real-time tasks have {runtime} us of each {period} us; the helper engine turns it off \
                while it runs"
        )),
    }
}

/// Whether the kernel interrupts its own work for a task that wakes up.
pub(super) fn preemption(root: &Root) -> Finding {
    let version = root.text("proc/version").unwrap_or_default();
    let has = |word: &str| version.split_whitespace().any(|w| w == word);
    if root.text("sys/kernel/realtime").as_deref() == Some("1") || has("PREEMPT_RT") {
        return PREEMPTION.good("PREEMPT_RT: the kernel interrupts nearly all of its own work");
    }
    let chosen = root.debug("sched/preempt").map(|text| chosen(&text));
    match chosen {
        Ok(Some(mode)) if mode == "full" => PREEMPTION.good(FULL),
        // Only the kernel's own scheduler of ordinary tasks is lazy.
        Ok(Some(mode)) if mode == "lazy" => {
            PREEMPTION.good("lazy: as full for real-time tasks and for those of sched_ext")
        }
        Ok(Some(mode)) => late(&mode).helped_by(switch(root)),
        _ if has("PREEMPT_DYNAMIC") => {
            let why = chosen.err().map(|e| format!(" ({e})")).unwrap_or_default();
            PREEMPTION
                .unknown(format!("chosen at each start of the kernel, and cannot be read{why}"))
        }
        _ if has("PREEMPT") => PREEMPTION.good(FULL),
        _ if version.is_empty() => PREEMPTION.unknown("/proc/version cannot be read"),
        _ => late("none or voluntary")
            .helped_by("apt-get install linux-image-rt-$(dpkg --print-architecture)"),
    }
}

const FULL: &str = "full: the kernel interrupts its own work, except while it holds locks";

fn late(mode: &str) -> Finding {
    PREEMPTION.bad(format!(
        "{mode}: a job that the kernel starts or stops waits until the kernel's own work ends, \
        and no bound covers this time"
    ))
}

/// The word in parentheses.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('(')?;
    Some(rest.split_once(')')?.0.to_owned()).filter(|mode| !mode.is_empty())
}

/// The command that chooses full preemption, with the mount that it needs.
fn switch(root: &Root) -> String {
    const SWITCH: &str = "echo full > /sys/kernel/debug/sched/preempt";
    if root.has("sys/kernel/debug/sched") {
        return SWITCH.to_owned();
    }
    format!("mount -t debugfs debugfs /sys/kernel/debug && {SWITCH}")
}

#[cfg(test)]
mod tests {
    use super::super::root::fixture::Fixture;
    use super::*;

    const ONLINE: (&str, &str) = ("sys/devices/system/cpu/online", "0-1\n");
    const PREEMPT: &str = "sys/kernel/debug/sched/preempt";

    fn with_server(name: &str, runtime: &str) -> Fixture {
        let made = Fixture::of(&[ONLINE]);
        for cpu in 0..2 {
            let folder = format!("sys/kernel/debug/sched/{name}/cpu{cpu}");
            made.write(&format!("{folder}/runtime"), runtime.as_bytes());
            made.write(&format!("{folder}/period"), b"1000000000\n");
        }
        made
    }

    #[test]
    fn servers_are_absent_or_can_be_turned_off() {
        type Look = fn(&Root) -> Finding;
        let ext = ("sys/kernel/sched_ext/state", "disabled\n");
        let both: [(&str, Look, &str); 2] =
            [("fair_server", fair_server, "sched-ext"), ("ext_server", ext_server, "helper")];
        for (name, look, engine) in both {
            let on = look(&with_server(name, "50000000\n").root);
            assert!(on.good && on.found.ends_with("(50 ms of each 1000 ms on CPUs 0-1)"), "{on:?}");
            assert!(look(&with_server(name, "0\n").root).found.ends_with("(none on CPUs 0-1)"));
            let none = look(&Fixture::of(&[ONLINE, (PREEMPT, "")]).root);
            assert!(none.good && !none.unknown && none.found.contains("has none"));
            let refused = look(&Fixture::locked(&[ONLINE, ext]).root);
            assert!(!refused.good && refused.found.contains("locked down"));
            assert!(refused.command.is_some_and(|c| c.ends_with(engine)));
            assert!(look(&with_server(name, "garbage").root).unknown);
            let user = ("proc/self/status", "CapEff:\t0000000000000000\n");
            assert!(look(&Fixture::locked(&[ONLINE, ext, user]).root).unknown);
            assert!(look(&Fixture::of(&[ONLINE]).root).unknown);
            assert!(look(&Fixture::of(&[]).root).unknown);
        }
    }

    #[test]
    fn a_locked_kernel_without_sched_ext_is_replaced() {
        let command = fair_server(&Fixture::locked(&[ONLINE]).root).command;
        assert!(command.is_some_and(|c| c.starts_with("apt-get install ")));
    }

    #[test]
    fn real_time_tasks_have_all_some_or_no_time() {
        let of =
            |text| real_time(&Fixture::of(&[("proc/sys/kernel/sched_rt_runtime_us", text)]).root);
        assert!(of("-1\n").found == "off" && of("-1\n").good);
        assert!(of("1000000\n").good && of("1000000\n").found.starts_with("off"));
        assert!(
            of("950000\n").good && of("950000\n").found.contains("950000 us of each 1000000 us")
        );
        assert_eq!(of("0\n").command.as_deref(), Some("sysctl kernel.sched_rt_runtime_us=-1"));
        assert!(!of("0\n").good && of("much").unknown && real_time(&Fixture::of(&[]).root).unknown);
    }

    #[test]
    fn preemption_is_named_by_debugfs_or_the_version() {
        let of = |files: &[(&str, &str)]| preemption(&Fixture::of(files).root);
        let dynamic = ("proc/version", "Linux version 6.18 #1 SMP PREEMPT_DYNAMIC @0\n");
        let found = of(&[dynamic, (PREEMPT, "none (voluntary) full lazy\n")]);
        assert!(!found.good && found.found.starts_with("voluntary: "));
        assert_eq!(found.command.as_deref(), Some("echo full > /sys/kernel/debug/sched/preempt"));
        assert!(of(&[dynamic, (PREEMPT, "none voluntary (full) lazy\n")]).good);
        assert!(of(&[dynamic, (PREEMPT, "none voluntary full (lazy)\n")]).good);
        assert!(of(&[dynamic, (PREEMPT, "()\n")]).unknown);
        let locked = preemption(&Fixture::locked(&[dynamic]).root);
        assert!(locked.unknown && locked.found.contains("denied"), "{locked:?}");
        let rt = of(&[("sys/kernel/realtime", "1\n"), (PREEMPT, "none (voluntary)")]);
        assert!(rt.good && rt.found.starts_with("PREEMPT_RT"));
        assert!(of(&[("proc/version", "Linux 6.1 #1 SMP PREEMPT_RT Debian")]).good);
        assert!(of(&[("proc/version", "Linux 5.4 #1 SMP PREEMPT Debian")]).good);
        let server = of(&[("proc/version", "Linux 5.4 #1 SMP Debian")]);
        assert!(!server.good && server.command.is_some());
        assert!(of(&[]).unknown);
    }

    #[test]
    fn a_debugfs_that_is_not_mounted_is_mounted_by_the_command() {
        let bare = Fixture::of(&[]);
        assert!(switch(&bare.root).starts_with("mount -t debugfs "));
    }
}
