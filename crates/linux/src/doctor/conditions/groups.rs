//! Limits of a container or a control group on a run.
//!
//! Problem: limits of a group hold for solocore and for the tasks that it starts. Shares of others
//! do not all hold under a sched_ext scheduler. In a container, processes have other numbers than
//! the kernel's. Rule: the group of this process and those above it are read for limits, all groups
//! with tasks for shares (host/cgroup.rs).
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst; pid_namespaces(7).
//! Does not cover: groups of version 1 (said so); limits outside a container's own view.

use super::root::{Root, named};
use crate::host::cgroup;
use crate::host::finding::{Finding, Topic};
use crate::host::machine::{FIRST_PID_NAMESPACE, cpu_list, parse_cpu_list};
use solocore_model::plan::Subject;
use std::path::{Component, Path};

const NAMESPACE: Topic =
    Topic::new("pid namespace", &[Subject::Place, Subject::Jobs, Subject::Transfer]);
const CPU_MAX: Topic = Topic::new("cgroup cpu.max", &[Subject::Demand, Subject::Releases]);
const CPUSET: Topic = Topic::new("cgroup cpuset", &[Subject::Place, Subject::Budget]);
const MEMORY_MAX: Topic =
    Topic::new("cgroup memory.max", &[Subject::Demand, Subject::LockedPages, Subject::Buffer]);
/// No bound rests on them.
const SHARES: Topic = Topic::new("cgroup shares", &[]);

/// Whether numbers of processes are the kernel's.
pub(super) fn pid_namespace(root: &Root) -> Finding {
    match root.link("proc/self/ns/pid") {
        Some(space) if space == FIRST_PID_NAMESPACE => NAMESPACE.good("the machine's first"),
        Some(space) if space.starts_with("pid:[") => NAMESPACE
            .bad(
                "a container's: solocore does not see other programs, and its BPF programs would \
                mistake them for solocore; `solocore run` refuses",
            )
            .helped_by("docker run --privileged --pid=host IMAGE solocore run plan.json"),
        _ => NAMESPACE.unknown("/proc/self/ns/pid cannot be read"),
    }
}

/// This process's place among the control groups of version 2.
struct Place {
    /// Mount point, below the root folder.
    mount: String,
    /// Names below the mount, from the top.
    names: Vec<String>,
}

impl Place {
    /// The place; `Err` gives the reason why it is unknown.
    fn of(root: &Root, controller: &str) -> Result<Self, String> {
        let groups = root.text("proc/self/cgroup").ok_or("/proc/self/cgroup cannot be read")?;
        let fields = |line: &str| -> Option<(String, String)> {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?.to_owned(), parts.next()?.to_owned()))
        };
        let all: Vec<_> = groups.lines().filter_map(fields).collect();
        if all.iter().any(|(list, _)| list.split(',').any(|c| c == controller)) {
            return Err(format!("version 1 of control groups has {controller}, and is not read"));
        }
        let own = all.iter().find(|(list, _)| list.is_empty());
        let (_, path) = own.ok_or("this process is in no control group of version 2")?;
        let part = |c: Component<'_>| match c {
            Component::Normal(name) => Some(Ok(name.to_string_lossy().into_owned())),
            Component::ParentDir => Some(Err("this process's control group cannot be seen")),
            _ => None,
        };
        let names = Path::new(path).components().filter_map(part).collect::<Result<_, _>>()?;
        Ok(Self { mount: mount(root), names })
    }

    /// Contents of a file in this process's group and in each group above it, from the top.
    fn all(&self, root: &Root, file: &str) -> Vec<(String, String)> {
        let folder = |depth: usize| {
            let below = self.names.get(..depth).unwrap_or_default();
            [std::slice::from_ref(&self.mount), below].concat().join("/")
        };
        let at = |depth: usize| {
            let path = format!("{}/{file}", folder(depth));
            Some((path.clone(), root.text(&path)?))
        };
        (0..=self.names.len()).filter_map(at).collect()
    }
}

/// Mount point of version 2, below the root folder.
fn mount(root: &Root) -> String {
    let mounts = root.text("proc/self/mounts").unwrap_or_default();
    let at = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| place.trim_start_matches('/').to_owned())
    };
    mounts.lines().find_map(at).unwrap_or_else(|| "sys/fs/cgroup".to_owned())
}

/// Whether solocore's time is limited.
pub(super) fn cpu_max(root: &Root) -> Finding {
    let place = match Place::of(root, "cpu") {
        Ok(place) => place,
        Err(why) => return CPU_MAX.unknown(why),
    };
    let share = |text: &str| {
        let mut numbers = text.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let (quota, period) = (numbers.next()?, numbers.next()?);
        quota.saturating_mul(100).checked_div(period)
    };
    let limits = place.all(root, "cpu.max");
    let limits = limits.into_iter().filter_map(|(path, text)| Some((share(&text)?, path)));
    match limits.min() {
        None => CPU_MAX.good("no limit"),
        Some((percent, path)) => CPU_MAX
            .bad(format!(
                "solocore and its tasks together have {percent} % of a CPU: tasks without a rank \
                    or a real-time priority wait, and so does solocore under the helper engine; \
                    schedulers of levels and VCPUs ignore the limit"
            ))
            .helped_by(format!("echo max > /{path}")),
    }
}

/// Whether solocore may use every CPU.
pub(super) fn cpuset(root: &Root) -> Finding {
    let online = root.online();
    let status = root.text("proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    let (Some(allowed), false) = (allowed.map(parse_cpu_list), online.is_empty()) else {
        return CPUSET.unknown("the CPUs of this process cannot be read");
    };
    let missing = |list: &[u32]| -> Vec<u32> {
        online.iter().copied().filter(|cpu| !list.contains(cpu)).collect()
    };
    let groups = Place::of(root, "cpuset").map(|place| place.all(root, "cpuset.cpus.effective"));
    let groups = groups.unwrap_or_default().into_iter();
    let limit = groups
        .map(|(path, text)| (path, missing(&parse_cpu_list(&text))))
        .find(|(_, missing)| !missing.is_empty());
    let found = |missing: &[u32]| {
        CPUSET.bad(format!(
            "{} are not allowed for this process: no task of a plan runs there",
            named(missing)
        ))
    };
    let all = cpu_list(&online);
    match limit {
        Some((path, missing)) => {
            let path = path.trim_end_matches(".effective");
            let command = if root.has(path) {
                format!("echo {all} > /{path}")
            } else {
                // The group at the top has no such file: another group has them as a partition.
                let mount = path.trim_end_matches("/cpuset.cpus");
                format!("grep -rwlE --include=cpuset.cpus.partition 'root|isolated' /{mount}")
            };
            found(&missing).helped_by(command)
        }
        None if !missing(&allowed).is_empty() => {
            found(&missing(&allowed)).helped_by(format!("taskset -pc {all} $$"))
        }
        None => CPUSET.good(format!("all {} CPUs", online.len())),
    }
}

/// Whether memory is limited.
pub(super) fn memory_max(root: &Root) -> Finding {
    let place = match Place::of(root, "memory") {
        Ok(place) => place,
        Err(why) => return MEMORY_MAX.unknown(why),
    };
    let limits = place.all(root, "memory.max");
    let limits =
        limits.into_iter().filter_map(|(path, text)| Some((text.parse::<u64>().ok()?, path)));
    match limits.min() {
        None => MEMORY_MAX.good("no limit"),
        Some((bytes, path)) => MEMORY_MAX
            .bad(format!(
                "solocore and its tasks have {} MiB: beyond that, the kernel takes pages away or \
                    ends a task",
                bytes >> 20
            ))
            .helped_by(format!("echo max > /{path}")),
    }
}

/// Whether groups with tasks have shares that do not hold under a sched_ext engine.
pub(super) fn shares(root: &Root) -> Finding {
    let mount = root.path().join(mount(root));
    if !mount.is_dir() {
        return SHARES.unknown("control groups of version 2 are not mounted");
    }
    let populated = |group: &str| {
        let events = std::fs::read_to_string(mount.join(group).join("cgroup.events"));
        events.is_ok_and(|text| text.lines().any(|line| line == "populated 1"))
    };
    let mut found = cgroup::shares_below(&mount, &[cgroup::LIMIT, cgroup::WEIGHT]);
    found.retain(|(group, _)| populated(group));
    match cgroup::first_of(&found) {
        None => SHARES.good("no group with tasks states a share"),
        Some(first) => SHARES
            .bad(format!(
                "{first}: schedulers of levels and VCPUs keep no shares, and the sched-ext engine \
                    cpu.max only; no bound rests on them"
            ))
            .helped_by("solocore run plan.json --engine helper"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::root::fixture::Fixture;
    use super::*;

    const GROUP: (&str, &str) = ("proc/self/cgroup", "0::/user.slice/shell.scope\n");
    const SLICE: &str = "sys/fs/cgroup/user.slice";

    #[test]
    fn a_container_has_numbers_of_its_own() {
        let of = |target| {
            let made = Fixture::of(&[]);
            made.link("proc/self/ns/pid", target);
            pid_namespace(&made.root)
        };
        assert!(of("pid:[4026531836]").good && !of("pid:[4026531836]").unknown);
        let inside = of("pid:[4026532771]");
        assert!(!inside.good && inside.command.is_some_and(|c| c.contains("--pid=host")));
        assert!(of("nonsense").unknown && pid_namespace(&Fixture::of(&[]).root).unknown);
    }

    #[test]
    fn the_tightest_limit_of_time_is_named() {
        let file = |folder: &str, text: &str| (format!("{folder}/cpu.max"), text.to_owned());
        let of = |files: &[(String, String)]| {
            let made = Fixture::of(&[GROUP]);
            files.iter().for_each(|(path, text)| made.write(path, text.as_bytes()));
            cpu_max(&made.root)
        };
        let shell = format!("{SLICE}/shell.scope");
        let both = [file(SLICE, "50000 100000\n"), file(&shell, "200000 100000\n")];
        let found = of(&both);
        assert!(!found.good && found.found.contains("50 % of a CPU"), "{found:?}");
        assert_eq!(found.command, Some(format!("echo max > /{SLICE}/cpu.max")));
        for text in ["max 100000\n", "", "1 0\n", "x y\n"] {
            assert!(of(&[file(SLICE, text)]).good, "{text}");
        }
    }

    #[test]
    fn groups_of_version_1_and_strange_paths_are_unknown() {
        for text in ["1:cpu,memory:/\n0::/\n", "0::/../../x\n", "", "garbage", "3:"] {
            let made = Fixture::of(&[("proc/self/cgroup", text)]);
            assert!(cpu_max(&made.root).unknown && memory_max(&made.root).unknown, "{text}");
        }
        assert!(cpu_max(&Fixture::of(&[]).root).unknown);
    }

    #[test]
    fn a_limit_of_memory_is_found_where_version_2_is_mounted() {
        let mounts = ("proc/self/mounts", "proc /proc proc rw 0 0\nx /cg/two cgroup2 rw 0 0\n");
        let limit = ("cg/two/user.slice/memory.max", "536870912\n");
        let found = memory_max(&Fixture::of(&[GROUP, mounts, limit]).root);
        assert!(!found.good && found.found.contains("512 MiB"));
        assert_eq!(found.command.as_deref(), Some("echo max > /cg/two/user.slice/memory.max"));
        assert!(memory_max(&Fixture::of(&[GROUP, mounts, (limit.0, "max\n")]).root).good);
    }

    #[test]
    fn cpus_are_kept_away_by_a_group_or_by_affinity() {
        let online = ("sys/devices/system/cpu/online", "0-3\n");
        let status = |list: &'static str| ("proc/self/status", list);
        let all = status("Name:\tx\nCpus_allowed_list:\t0-3\n");
        let two = status("Cpus_allowed_list:\t0-1\n");
        let group = ("sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0-1\n");
        let file = ("sys/fs/cgroup/user.slice/cpuset.cpus", "0-1\n");
        let found = cpuset(&Fixture::of(&[online, two, GROUP, group, file]).root);
        assert!(!found.good && found.found.starts_with("CPUs 2-3 are not"));
        assert_eq!(found.command, Some(format!("echo 0-3 > /{SLICE}/cpuset.cpus")));
        let top = ("sys/fs/cgroup/cpuset.cpus.effective", "0-1\n");
        let command = cpuset(&Fixture::of(&[online, two, GROUP, top]).root).command;
        assert!(command.is_some_and(|c| c.starts_with("grep ") && c.ends_with(" /sys/fs/cgroup")));
        let found = cpuset(&Fixture::of(&[online, two]).root);
        assert_eq!(found.command.as_deref(), Some("taskset -pc 0-3 $$"));
        assert!(cpuset(&Fixture::of(&[online, all, GROUP]).root).good);
        assert!(cpuset(&Fixture::of(&[online]).root).unknown);
        assert!(cpuset(&Fixture::of(&[all]).root).unknown);
    }

    #[test]
    fn shares_of_groups_with_tasks_are_named() {
        let made = Fixture::of(&[("sys/fs/cgroup/a/cpu.weight", "50\n")]);
        assert!(shares(&made.root).good, "nothing runs there");
        made.write("sys/fs/cgroup/a/cgroup.events", b"populated 1\nfrozen 0\n");
        made.write("sys/fs/cgroup/b/cpu.max", b"10000 100000\n");
        made.write("sys/fs/cgroup/b/cgroup.events", b"populated 1\n");
        let found = shares(&made.root);
        assert!(!found.good && found.found.starts_with("a (cpu.weight 50) and 1 more: "));
        assert!(found.touches.is_empty() && found.command.is_some());
        assert!(shares(&Fixture::of(&[]).root).unknown);
    }
}
