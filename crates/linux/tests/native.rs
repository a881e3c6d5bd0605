//! The helper engine on the machine that runs the tests, with page faults in place of misses.
//!
//! Needs root; without it, it says so and passes. Only CPU 1 (or 0, if it is the only one) is
//! regulated, for a few seconds, because others may work on this machine. The assertions hold on a
//! loaded machine, too; the tests print the measured values:
//! `cargo test -p solocore-linux --test native`, `SOLOCORE_LINUX_SECONDS=20` for longer runs. With
//! the argument `overhead` (`cargo test -p solocore-linux --test native -- overhead`) it measures
//! the cost of regulation for a program that is never throttled.

mod support;

use solocore_linux::regulate::engine::{self, Choice};
use solocore_linux::regulate::regulation::{CoreBudget, Options, WriteBudget};
use solocore_linux::{Counts, Event, Regulation, Sharing, host::keeper, host::machine};
use std::fs;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const PERIOD_NS: u64 = 1_000_000;
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(keeper::ARGUMENT) => return ExitCode::from(u8::from(keeper::keep() > 0)),
        Some("hog") => hog(arguments.get(2).and_then(|cpu| cpu.parse().ok()).unwrap_or(0)),
        Some("real-time") => return real_time_faults(),
        Some("spin") => return spin(),
        Some("overhead") => return overhead(),
        Some("regulate") => return regulate_until_killed(),
        Some("--list") => return ExitCode::SUCCESS,
        _ => {}
    }
    let Some(instance) = support::take_machine() else {
        return ExitCode::SUCCESS;
    };
    budgets_are_kept();
    either_budget_stops_the_cpu();
    a_killed_daemon_leaves_the_machine_free();
    what_is_left_over_is_shared();
    real_time_tasks_pass_by();
    a_rate_that_is_too_low_is_raised();
    drop(instance);
    println!("native: all passed");
    ExitCode::SUCCESS
}

fn the_cpu() -> u32 {
    machine::online_cpus().ok().and_then(|cpus| cpus.last().copied()).unwrap_or(0)
}

fn regulation(budget: u64, sample: u64, sharing: Sharing) -> Regulation {
    Regulation {
        period_ns: PERIOD_NS,
        cores: vec![CoreBudget {
            cpu: the_cpu(),
            planned: budget,
            budget,
            sample,
            tolerance: sample,
            writes: None,
        }],
        cpus: u32::try_from(machine::online_cpus().expect("sysfs").len()).expect("few CPUs"),
        event: Event::find("page-faults", "").expect("it is known"),
        binds_fifo: false,
        write_event: None,
        reclaim: false,
        givers: Vec::new(),
        sharing,
        beyond_plan: false,
        analysed: Vec::new(),
        lock: None,
        dynamic: None,
        notes: Vec::new(),
        options: Options::of(Event::find("page-faults", "").expect("it is known")),
    }
}

fn seconds() -> Duration {
    let wanted = std::env::var("SOLOCORE_LINUX_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(wanted.unwrap_or(2))
}

/// Regulates for a while beside a hog.
fn watch(regulation: &Regulation) -> (Counts, Vec<String>) {
    watch_for(regulation, seconds())
}

fn watch_for(regulation: &Regulation, time: Duration) -> (Counts, Vec<String>) {
    let mut started = engine::start(regulation, Choice::Helper).expect("the helper engine runs");
    std::thread::sleep(time);
    started.engine.check().expect("it still runs");
    let (cpu, counts) = started.engine.counts().expect("counts")[0];
    assert_eq!(cpu, the_cpu());
    (counts, started.engine.notes())
}

fn budgets_are_kept() {
    let before = fs::read_to_string(RT_RUNTIME).unwrap_or_default();
    let mut hog = Hog::start();
    for (budget, sample) in [(5, 1), (20, 2), (50, 5), (200, 25)] {
        let (c, notes) = watch(&regulation(budget, sample, Sharing::None));
        println!(
            "budget {budget}, sample {sample}: {} periods, {} throttled, most {}, over {}, skipped \
                {}, reported late {}, held {}",
            c.periods,
            c.throttled_periods,
            c.max_accesses_per_period,
            c.periods_over_budget,
            c.periods_skipped,
            c.accesses_reported_late,
            c.times_held
        );
        assert!(c.periods > 100, "the timer ticks: {c:?}");
        assert!(c.throttled_periods > 0, "the hog is throttled: {c:?}");
        // A virtual machine may lose its CPU while the helper is on its way.
        assert!(
            c.periods_over_budget <= c.periods / 10,
            "nearly all periods keep the budget: {c:?} {notes:?}"
        );
        notes.iter().for_each(|n| println!("  note: {n}"));
        assert_eq!(
            fs::read_to_string(RT_RUNTIME).unwrap_or_default(),
            before,
            "settings are put back"
        );
    }
    hog.stop();
}

/// Reads by one event and writes by another. The hog makes minor page faults only, so it spends
/// both budgets at one pace, or, with major faults for writes, only one of them.
fn either_budget_stops_the_cpu() {
    const FREE: (u64, u64) = (1 << 20, 1 << 17);
    let apart = |reads: (&str, (u64, u64)), writes: (&str, (u64, u64))| {
        let mut r = regulation(reads.1.0, reads.1.1, Sharing::None);
        let (write_budget, write_sample) = writes.1;
        r.cores[0].writes =
            Some(WriteBudget { write_planned: write_budget, write_budget, write_sample });
        r.event = Event::find(reads.0, "").expect("it is known");
        r.write_event = Some(Event::find(writes.0, "").expect("it is known"));
        r
    };
    let mut hog = Hog::start();
    let seen = |what: &str, regulation: &Regulation| {
        let (c, _) = watch_for(regulation, seconds() / 3);
        let w = c.writes.expect("they are counted");
        println!(
            "{what}: {} periods, {} throttled; reads {}, most {}, over {}; writes {}, most {}, \
                over {}, reported late {}",
            c.periods,
            c.throttled_periods,
            c.accesses,
            c.max_accesses_per_period,
            c.periods_over_budget,
            w.writes,
            w.max_writes_per_period,
            w.periods_over_write_budget,
            w.writes_reported_late
        );
        assert!(c.periods > 100, "the timer ticks: {c:?}");
        (c, w)
    };
    let few = |over: u64, c: &Counts| {
        assert!(over <= c.periods / 10, "nearly all periods keep the budget: {c:?}")
    };

    let (c, w) = seen("writes run out", &apart(("page-faults", FREE), ("minor-faults", (20, 2))));
    assert!(c.throttled_periods > 0 && w.writes > 0);
    few(w.periods_over_write_budget, &c);
    assert!(
        w.writes <= (c.periods + c.periods_skipped) * 22 * 2,
        "the CPU stops at its write budget: {c:?}"
    );

    let (c, w) = seen("reads run out", &apart(("minor-faults", (20, 2)), ("page-faults", FREE)));
    assert!(c.throttled_periods > 0 && w.periods_over_write_budget == 0);
    few(c.periods_over_budget, &c);
    assert!(
        w.writes <= (c.periods + c.periods_skipped) * 22 * 2,
        "the CPU stops at its read budget: {c:?}"
    );

    let (c, w) = seen("other kind", &apart(("minor-faults", FREE), ("major-faults", (20, 2))));
    // At 20 faults a millisecond the hog would make few.
    assert!(
        c.accesses > c.periods * 40,
        "who makes no writes is not stopped by their budget: {c:?}"
    );
    assert!(c.throttled_periods <= c.periods / 10 && w.writes < c.accesses / 10, "{c:?}");

    let (c, w) =
        seen("no limit", &apart(("page-faults", FREE), ("minor-faults", (u64::MAX, 1 << 20))));
    assert!(
        c.throttled_periods == 0 && w.periods_over_write_budget == 0,
        "they are counted only: {c:?}"
    );
    assert!(w.writes > c.accesses / 2 && w.writes < c.accesses * 2, "both see the hog: {c:?}");
    hog.stop();
    let c = watch_for(&regulation(20, 2, Sharing::None), seconds() / 10).0;
    assert_eq!(c.writes, None, "a plan without budgets of writes has no counts of them");
}

/// The tick of 1 ms needs a limit of 2000 interrupts per second in the kernel.
fn a_rate_that_is_too_low_is_raised() {
    const RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
    let read = || fs::read_to_string(RATE).unwrap_or_default().trim().to_owned();
    let before = read();
    if fs::write(RATE, "1000").is_err() {
        println!(
            "skipped: the rate of events cannot be changed here (kernel.perf_cpu_time_max_percent \
                is 0 or 100)"
        );
        return;
    }
    let engine = engine::start(&regulation(20, 2, Sharing::None), Choice::Helper).map(|s| s.engine);
    let during = read();
    drop(engine);
    let after = read();
    fs::write(RATE, before).expect("it was so before");
    assert_eq!((during.as_str(), after.as_str()), ("2000", "1000"), "raised, and put back");
}

fn a_killed_daemon_leaves_the_machine_free() {
    let before = fs::read_to_string(RT_RUNTIME).unwrap_or_default();
    let mut hog = Hog::start();
    for delay in [20, 150, 400] {
        let mut daemon = Command::new("/proc/self/exe")
            .arg("regulate")
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let out = daemon.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)
            .expect("it speaks");
        assert_eq!(line, "regulating\n");
        std::thread::sleep(Duration::from_millis(delay));
        daemon.kill().expect("SIGKILL");
        daemon.wait().expect("it ends");
        await_setting(&before);
        let faults = faults_in(Duration::from_millis(200), hog.child.id());
        println!("killed after {delay} ms: the hog makes {faults} faults in 200 ms");
        // Throttled to 5 faults a millisecond it would make 1000.
        assert!(faults > 1100, "the hog runs free");
    }
    hog.stop();
}

fn what_is_left_over_is_shared() {
    let mut hog = Hog::start();
    let (c, _) = watch(&regulation(20, 2, Sharing::Spare));
    // The only core is all cores: once it has used its budget up, it goes on without limit.
    println!(
        "budget 20, spare: most {}, throttled for {} ns",
        c.max_accesses_per_period, c.throttled_ns
    );
    assert!(c.max_accesses_per_period > 40, "{c:?}");
    hog.stop();
}

fn real_time_tasks_pass_by() {
    let mut hog = Hog::start();
    let started = engine::start(&regulation(5, 1, Sharing::None), Choice::Helper)
        .expect("the helper engine runs");
    std::thread::sleep(Duration::from_millis(100));
    let out = Command::new("/proc/self/exe").arg("real-time").output().expect("it runs").stdout;
    let text = String::from_utf8_lossy(&out).into_owned();
    let ns: u64 = text.trim().parse().unwrap_or_else(|_| panic!("not nanoseconds: {text}"));
    drop(started);
    println!("real-time: 20000 faults beside a budget of 5 per ms take {:.1} ms", ns as f64 / 1e6);
    // At five faults a millisecond they would take 4 s.
    assert!(ns < 3_000_000_000, "a real-time task is not throttled");
    hog.stop();
}

/// Makes 20,000 faults as a real-time task; prints the time that this took.
fn real_time_faults() -> ExitCode {
    const PAGES: usize = 20_000;
    bind_to(the_cpu() as usize);
    let parameters = libc::sched_param { sched_priority: 5 };
    // SAFETY: the kernel reads the parameters; the mapping is private, and only its own pages are
    // read.
    unsafe {
        assert_eq!(libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters), 0);
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(std::ptr::null_mut(), PAGES * 4096, protection, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        let since = Instant::now();
        for page in 0..PAGES {
            std::ptr::read_volatile(memory.cast::<u8>().add(page * 4096));
        }
        println!("{}", since.elapsed().as_nanos());
    }
    ExitCode::SUCCESS
}

/// Waits until the keeper has put a setting back.
fn await_setting(before: &str) {
    let since = Instant::now();
    while fs::read_to_string(RT_RUNTIME).unwrap_or_default() != before {
        assert!(since.elapsed() < Duration::from_secs(5), "the keeper puts {RT_RUNTIME} back");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Number of faults of a process in a time, from its statistics.
fn faults_in(time: Duration, pid: u32) -> u64 {
    let faults = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        let after = stat.rsplit(')').next().expect("fields").to_owned();
        after.split_whitespace().nth(7).and_then(|f| f.parse::<u64>().ok()).expect("minor faults")
    };
    let before = faults();
    std::thread::sleep(time);
    faults() - before
}

fn regulate_until_killed() -> ExitCode {
    let _engine = engine::start(&regulation(5, 1, Sharing::None), Choice::Helper)
        .expect("the helper engine runs");
    println!("regulating");
    std::thread::sleep(Duration::from_secs(30));
    ExitCode::FAILURE
}

/// A fixed computation; prints its CPU time, including interrupts.
fn spin() -> ExitCode {
    bind_to(the_cpu() as usize);
    let mut sum = 1u64;
    for i in 0..SPINS {
        sum = std::hint::black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time, which lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    println!("{}", time.tv_sec * 1_000_000_000 + time.tv_nsec);
    ExitCode::from(u8::from(sum == 0))
}

/// Steps of [`spin`]: some 200 ms.
const SPINS: u64 = 150_000_000;

fn spin_ns() -> f64 {
    let out = Command::new("/proc/self/exe").arg("spin").output().expect("it runs").stdout;
    String::from_utf8_lossy(&out).trim().parse().expect("nanoseconds")
}

/// CPU time of a fixed computation with the engine and without, in pairs; the median of the ratios.
fn overhead() -> ExitCode {
    let pairs =
        std::env::var("SOLOCORE_LINUX_PAIRS").ok().and_then(|s| s.parse().ok()).unwrap_or(21);
    for period_ns in [1_000_000, 100_000] {
        // The counter never overflows: only the tick remains.
        let plenty = Regulation { period_ns, ..regulation(1 << 20, 1 << 17, Sharing::None) };
        let mut ratios: Vec<f64> = (0..pairs)
            .map(|pair| {
                let managed = || {
                    let _engine =
                        engine::start(&plenty, Choice::Helper).expect("the helper engine runs");
                    spin_ns()
                };
                // The second one finds warmer caches: they take turns.
                let first = (pair % 2 == 0).then(spin_ns);
                let managed = managed();
                let alone = first.unwrap_or_else(spin_ns);
                managed / alone - 1.0
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| 100.0 * ratios[((ratios.len() - 1) as f64 * share) as usize];
        println!(
            "period {} us: overhead {:.3} % of a core (median of {pairs} pairs; quartiles {:.3} \
                and {:.3})",
            period_ns / 1000,
            at(0.5),
            at(0.25),
            at(0.75)
        );
    }
    ExitCode::SUCCESS
}

struct Hog {
    child: Child,
}

impl Hog {
    fn start() -> Self {
        let cpu = the_cpu().to_string();
        Self {
            child: Command::new("/proc/self/exe").args(["hog", &cpu]).spawn().expect("it starts"),
        }
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes page faults on a CPU, for ever; ends with its parent.
fn hog(cpu: usize) -> ! {
    const BYTES: usize = 64 * 4096;
    bind_to(cpu);
    // SAFETY: the mapping is private, and only its own pages are read.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        assert_eq!(
            libc::sched_getscheduler(0),
            libc::SCHED_OTHER,
            "a real-time hog would take the machine"
        );
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        loop {
            for page in 0..64 {
                std::ptr::read_volatile(memory.cast::<u8>().add(page * 4096));
            }
            libc::madvise(memory, BYTES, libc::MADV_DONTNEED);
        }
    }
}

fn bind_to(cpu: usize) {
    // SAFETY: a zeroed cpu_set_t is the empty set; the kernel reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
