//! Jobs start in time and in their windows, and end with their children.

use super::*;
use crate::schedule::prefetch::Source;
use crate::schedule::windows::Window;
use std::path::Path;

fn placed(command: &[&str], period_ns: Option<u64>) -> Placed {
    let core = *tasks::affinity_of(0).unwrap().last().unwrap();
    let command = command.iter().map(|&a| a.to_owned()).collect();
    let how = How::Start(command);
    Placed { period_ns, deadline_ns: period_ns, ..Placed::new("t", core, how) }
}

fn start(placed: Placed) -> Jobs {
    let (epoch, signals) = (Epoch::default(), OwnPages::new());
    let none = Prefetch::default();
    Jobs::start(&[placed], "/".as_ref(), &epoch, &|_, _| Ok(()), &signals, &none, None).unwrap()
}

fn run(
    command: &[&str],
    period_ns: Option<u64>,
    done: impl Fn(&RunTask) -> bool,
) -> (RunTask, Vec<String>) {
    let jobs = start(placed(command, period_ns));
    wait_until(|| done(&jobs.seen()[0]));
    (jobs.seen().remove(0), jobs.notes())
}

#[test]
fn jobs_are_released_a_period_apart() {
    let (seen, notes) = run(&["/bin/true"], Some(20_000_000), |t| t.jobs >= 5);
    assert!(notes.is_empty());
    for pair in seen.latest.windows(2) {
        assert_eq!(pair[1].release_ns - pair[0].release_ns, 20_000_000);
        assert!(pair[1].start_ns >= pair[0].end_ns, "one job at a time");
    }
    for job in &seen.latest {
        assert!(job.release_ns <= job.start_ns && job.start_ns <= job.end_ns);
        assert!(job.end_ns - job.release_ns <= seen.max_response_ns);
    }
    assert_eq!((seen.failed, seen.how.as_str()), (0, "started"));
}

#[test]
fn a_task_that_fails_is_given_up() {
    for command in ["/bin/false", "/nowhere/to/be/found"] {
        let (seen, notes) = run(&[command], None, |t| t.failed >= FAILURES);
        assert_eq!((seen.jobs, seen.failed), (0, FAILURES));
        assert!(notes[0].contains("`t` failed 3 times"), "{notes:?}");
    }
}

/// A job of a window may be stopped when solocore dies, and a stopped process of solocore's session
/// would get SIGHUP. Other jobs stay in the session, and end with its terminal.
#[test]
fn a_job_of_a_window_has_a_session_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("session");
    let script =
        format!("set -- $(cat /proc/$$/stat); echo $1 $6 >{0}.new; mv {0}.new {0}", file.display());
    // 0 where the session's leader is outside our PID namespace, which `getsid` of rustix refuses.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    let ours: i32 = after_name.split(' ').nth(3).unwrap().parse().unwrap();
    let window = Window {
        partition: "p".to_owned(),
        offset_ns: 0,
        length_ns: 50_000_000,
        period_ns: 100_000_000,
        prefetch_ns: 0,
    };
    for window in [None, Some(window)] {
        let own = window.is_some();
        let _ = std::fs::remove_file(&file);
        let jobs =
            start(Placed { window, ..placed(&["/bin/sh", "-c", &script], Some(100_000_000)) });
        wait_until(|| std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
        drop(jobs);
        let text = std::fs::read_to_string(&file).unwrap();
        let found: Vec<i32> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
        assert_eq!(found[1], if own { found[0] } else { ours }, "{text}");
    }
}

#[test]
fn what_runs_at_the_end_is_ended_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("child");
    // It ignores SIGTERM, and so does its child.
    let script = format!("trap '' TERM; sleep 100 & echo $! >{}; wait", file.display());
    let jobs = Jobs::start(
        &[placed(&["/bin/sh", "-c", &script], None)],
        "/".as_ref(),
        &Epoch::default(),
        &|_, _| Ok(()),
        &OwnPages::new(),
        &Prefetch::default(),
        None,
    )
    .unwrap();
    let child = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.ends_with('\n') {
            break text.trim().to_owned();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    drop(jobs);
    let since = Instant::now();
    // Its new parent reaps it sooner or later; until then it is a zombie.
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|s| s.split_whitespace().next()).is_some_and(|s| s != "Z")
    };
    while alive() {
        assert!(since.elapsed() < Duration::from_secs(5), "process {child} runs on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

/// Two endless jobs on one core: each gets its own windows only, and locked pages are read as they
/// begin.
#[test]
fn partitions_run_in_their_windows_only() {
    let window = |partition: &str, offset_ns: u64, length_ns: u64| {
        let (offset_ns, length_ns) = (offset_ns * 1_000_000, length_ns * 1_000_000);
        let (partition, period_ns) = (partition.into(), 100_000_000);
        Some(Window { partition, offset_ns, length_ns, period_ns, prefetch_ns: 0 })
    };
    let spin = |name: &str, window| {
        let p = placed(&["/bin/sh", "-c", "while :; do :; done"], None);
        Placed { name: name.into(), window, ..p }
    };
    let both = [spin("a", window("a", 0, 20)), spin("b", window("b", 30, 50))];
    let memory = vec![1u8; 8192];
    let source = Source { pages: Arc::default(), group: None };
    source.pages.set(std::process::id(), vec![memory.as_ptr() as u64]);
    let locked: Prefetch = [("a".to_owned(), source)].into_iter().collect();
    let (epoch, signals) = (Epoch::default(), OwnPages::new());
    let jobs =
        match Jobs::start(&both, "/".as_ref(), &epoch, &|_, _| Ok(()), &signals, &locked, None) {
            Ok(jobs) => jobs,
            // Real-time priorities need a privilege.
            Err(e) if !root() => return println!("skipped: {e}"),
            Err(e) => panic!("{e}"),
        };
    let leader = |at: usize| jobs.tasks[at].state().running.map(|(leader, _)| leader);
    let since = Instant::now();
    while jobs.windows().iter().filter(|w| w.windows >= 10).count() < 2 {
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", jobs.windows());
        std::thread::sleep(Duration::from_millis(5));
    }
    let ticks = |leader: u32| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{leader}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (a, b) = (ticks(leader(0).unwrap()), ticks(leader(1).unwrap()));
    // In hundredths of a second, as windows are in ms of each 100: 20 and 50 of them, at most,
    // and other work on the machine.
    let windows = jobs.windows();
    let of = |name: &str| windows.iter().find(|w| w.partition == name).unwrap().windows;
    assert!(a <= (of("a") + 1) * 2 + 2 && b <= (of("b") + 1) * 5 + 2, "{a} {b} {windows:?}");
    assert!(a > 0 && b > a, "{a} {b} {windows:?}");
    let begun = |name: &str| windows.iter().find(|w| w.partition == name).unwrap();
    let read = (begun("a").prefetched_pages, begun("b").prefetched_pages);
    assert_eq!(read, (1, 0), "{windows:?}");
    assert!(begun("a").max_prefetch_ns > 0 && begun("b").max_prefetch_ns == 0, "{windows:?}");
    let leaders = [leader(0).unwrap(), leader(1).unwrap()];
    drop(jobs);
    assert!(leaders.iter().all(|l| !std::path::Path::new(&format!("/proc/{l}")).exists()));
}

#[test]
fn late_jobs_are_counted() {
    let mut state = State::default();
    let job = |release_ns, end_ns| RunJob { release_ns, start_ns: release_ns, end_ns };
    state.record(job(0, 10), Some((true, 4)), Some(10));
    state.record(job(100, 111), Some((true, 9)), Some(10));
    state.record(job(200, 300), Some((false, 9)), Some(10));
    let run = &state.run;
    assert_eq!((run.jobs, run.failed, run.misses_deadline), (2, 1, 1));
    assert_eq!((run.max_response_ns, run.max_cpu_ns, state.response_sum), (11, 9, 21));
}

/// Fails when a look at a run takes more memory the longer it runs, or its file lacks jobs.
#[test]
fn a_look_shows_the_last_jobs_and_the_record_has_all_that_are_counted() {
    let jobs = start(Placed { how: How::Attach(1), ..placed(&["/bin/true"], None) });
    let add = |n: u64| jobs.record("t", RunJob { release_ns: n, start_ns: n, end_ns: n + 1 });
    let all = SHOWN as u64 + 50;
    (0..all).for_each(add);
    let mut seen = jobs.seen();
    assert_eq!((seen[0].latest.len(), seen[0].latest[0].release_ns), (SHOWN, 50));
    add(all);
    jobs.recorded(seen.iter_mut());
    let recorded: Vec<u64> = seen[0].latest.iter().map(|job| job.release_ns).collect();
    assert_eq!(recorded, (0..all).collect::<Vec<_>>(), "one that ended meanwhile is not counted");
}

/// Fails where a measured task loses jobs to the tasks beside it, or many tasks take more memory.
#[test]
fn a_measured_task_has_room_for_all_its_jobs() {
    let p = placed(&["/bin/true"], None);
    assert_eq!((places(&p, 1), places(&p, 1600)), (latest::MOST, SHOWN));
    let measured = Placed { rest_ns: Some(1), ..p.clone() };
    assert_eq!(places(&measured, 1600), latest::MOST + SHOWN, "more than `verify --jobs` can ask");
    assert_eq!(places(&Placed { how: How::NotRun, ..p }, 1), 1);
}

#[test]
fn rests_come_at_all_phases() {
    let rest = 1_000_000;
    let mut phases: Vec<u64> = (1..=64).map(|n| rested(rest, n) - rest).collect();
    assert!(phases.iter().all(|&p| p < rest));
    phases.sort_unstable();
    let gaps = phases.windows(2).map(|w| w[1] - w[0]);
    assert!(gaps.max().unwrap() < 2 * rest / 40, "no part of the period is left out");
    assert_eq!(rested(0, 5), 0);
}

#[test]
fn a_task_in_a_trial_rests_between_its_jobs() {
    let p = Placed { rest_ns: Some(5_000_000), ..placed(&["/bin/true"], Some(1_000_000_000)) };
    let jobs = start(p);
    while !jobs.has_made("t", 4) {
        std::thread::sleep(LOOK);
    }
    assert!(!jobs.has_made("another", 0));
    let latest = &jobs.seen()[0].latest;
    let rest = |w: &[RunJob]| w[1].release_ns - w[0].end_ns;
    assert!(latest.windows(2).all(|w| rest(w) >= 5_000_000), "{latest:?}");
}

/// A task with a program that behaves like one in colours: it takes 0.3 s to get ready, says so,
/// and waits for its release.
fn held(dir: &Path, period_ns: u64, job: &str) -> Placed {
    let script = format!(
        "echo $$ >>{dir}/begun; sleep 0.3; hold=${{SOLOCORE_HOLD%:7}}; printf r >&$hold; \
            [ $(head -c 1 <&$hold | wc -c) = 1 ] || exit 0; {job}",
        dir = dir.display()
    );
    Placed {
        environment: vec![("COLOURS", "any".into())],
        touched_pages: 7,
        ..placed(&["/bin/bash", "-c", &script], Some(period_ns))
    }
}

/// Fails where a job that is done misses its deadline while its process still ends, or is lost as
/// the run ends.
#[test]
fn a_job_is_done_when_its_program_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let p = held(dir.path(), 9_000_000_000, "printf d >&$hold; sleep 9");
    let jobs = start(Placed { deadline_ns: Some(2_000_000_000), ..p });
    let done = || jobs.tasks[0].state().done;
    wait_until(done);
    // Long after its deadline, while its process still sleeps.
    let later = tasks::monotonic_ns() + 9_000_000_000;
    assert_eq!(seen(&jobs.tasks[0], later).misses_deadline, 0);
    assert!(done());
    // As the end of a run does.
    jobs.stop.store(true, Ordering::SeqCst);
    jobs.signal(Signal::KILL);
    wait_until(|| jobs.threads.iter().all(JoinHandle::is_finished));
    let seen = jobs.seen().remove(0);
    assert_eq!((seen.jobs, seen.misses_deadline), (1, 0));
}

fn lines(file: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn a_process_is_prepared_before_the_release_of_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = start(held(dir.path(), 900_000_000, "true"));
    // Nothing is released before the first one is ready.
    assert_eq!(lines(&dir.path().join("begun")).len(), 1);
    wait_until(|| jobs.seen()[0].jobs >= 3);
    let seen = jobs.seen().remove(0);
    assert_eq!((seen.failed, seen.latest.len()), (0, 3));
    let shortest = seen.latest.iter().map(|job| job.end_ns - job.release_ns).min();
    assert!(shortest.is_some_and(|ns| ns < 300_000_000), "the start is no part of a job: {seen:?}");
    wait_until(|| lines(&dir.path().join("begun")).len() > 3);
    let waits = *lines(&dir.path().join("begun")).last().unwrap();
    drop(jobs);
    assert!(!Path::new(&format!("/proc/{waits}")).exists(), "what waited for a release has ended");
}

#[test]
fn a_job_that_is_released_before_it_is_ready_counts() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = start(held(dir.path(), 20_000_000, "true"));
    wait_until(|| jobs.seen()[0].jobs >= 2);
    let seen = jobs.seen().remove(0);
    assert!(seen.unprepared >= 1, "{seen:?}");
}

#[test]
fn a_refused_task_ends_the_start() {
    let refuse = |_: &str, _: u32| Err(LinuxError::Machine("refused".to_owned()));
    let (epoch, signals, none) = (Epoch::default(), OwnPages::new(), Prefetch::default());
    let tasks = [placed(&["/bin/true"], Some(20_000_000))];
    let refused = Jobs::start(&tasks, "/".as_ref(), &epoch, &refuse, &signals, &none, None);
    assert!(refused.is_err_and(|e| e.to_string() == "refused"));
}

#[test]
fn a_process_that_ends_before_it_is_ready_is_a_failed_job() {
    let dir = tempfile::tempdir().unwrap();
    let task = Placed { environment: vec![("COLOURS", "any".into())], ..held(dir.path(), 1, "") };
    let script = How::Start(["/bin/bash", "-c", "exit 3"].map(str::to_owned).to_vec());
    let jobs = start(Placed { how: script, period_ns: Some(20_000_000), ..task });
    wait_until(|| jobs.seen()[0].failed >= FAILURES);
    assert_eq!(jobs.seen()[0].jobs, 0);
}

#[test]
fn a_process_that_waits_is_ordinary_and_gets_its_scheduling_at_its_release() {
    let dir = tempfile::tempdir().unwrap();
    let job = format!("cut -d' ' -f41 /proc/$$/stat >>{}/policy", dir.path().display());
    let fifo = Scheduling::fifo_inherited(1);
    if fifo.apply().is_err() {
        println!("skipped: real-time priorities need root");
        return;
    }
    Scheduling::ordinary().apply().unwrap();
    let jobs = start(Placed { fifo: Some(1), ..held(dir.path(), 900_000_000, &job) });
    let child = lines(&dir.path().join("begun"))[0];
    assert_eq!(Scheduling::of(child).unwrap(), Scheduling::ordinary());
    wait_until(|| jobs.seen()[0].jobs >= 1);
    assert_eq!(lines(&dir.path().join("policy")), [libc::SCHED_FIFO.unsigned_abs()]);
}

fn wait_until(done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(20), "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}
