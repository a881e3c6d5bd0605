//! Drivers and the slots of a time table on the machine that runs the tests: real processes, the
//! helper engine's service.
//!
//! Needs root; without it, it says so and passes. The machine may be busy, so the tests do not
//! assert that transfers are in time. They assert that each began in its slot, and that the counts
//! of late, missed and unattended transfers equal those of the clients. They print the measured
//! values:
//! `cargo test -p solocore-linux --test slots`.

mod support;

use solocore_client::{self as client, Status};
use solocore_linux::clients::{Service, ServiceOptions, Slot, SlotTable, slots};
use solocore_linux::regulate::engine::{self, Choice, Engine};
use solocore_linux::regulate::regulation::{CoreBudget, Options};
use solocore_linux::{Event, Regulation, Sharing, host::keeper, host::machine};
use solocore_model::run::RunTransfer;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 40 * MS;
/// Most lines of a journal whose entries are the same (`keeper::LINES`).
const LINES: usize = 1024;
const INPUT: &str = "nav/1/device-input";
const SENSOR: &str = "nav/1/physical-input";
const OUTPUT: &str = "nav/1/device-output";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(keeper::ARGUMENT) => return ExitCode::from(u8::from(keeper::keep() > 0)),
        Some("driver") => return driver(&arguments[2], &arguments[3]),
        Some("strangers") => return strangers(),
        Some("--list") => return ExitCode::SUCCESS,
        _ => {}
    }
    let Some(instance) = support::take_machine() else {
        return ExitCode::SUCCESS;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let bench = Bench::start(&dir.path().join("client.sock"));
    nobody_is_answered_before_the_first_release(&bench);
    transfers_begin_in_their_slots(&bench);
    two_transfers_at_a_time(&bench);
    who_takes_too_long_misses_slots(&bench);
    who_hangs_or_dies_is_counted(&bench);
    only_free_slots_are_given(&bench);
    a_loop_of_attachments_leaves_a_short_journal(&bench);
    the_end_is_told_and_put_back(bench);
    drop(instance);
    println!("slots: all passed");
    ExitCode::SUCCESS
}

fn cpus() -> Vec<u32> {
    machine::online_cpus().unwrap_or_default()
}

fn io_core() -> u32 {
    *cpus().last().expect("CPUs")
}

struct Bench {
    service: Service,
    _engine: Box<dyn Engine>,
    table: SlotTable,
    socket: PathBuf,
}

impl Bench {
    fn start(socket: &Path) -> Self {
        let regulation = Regulation {
            period_ns: MS,
            cores: vec![CoreBudget {
                cpu: io_core(),
                planned: 1 << 20,
                budget: 1 << 20,
                sample: 1 << 17,
                tolerance: 0,
                writes: None,
            }],
            cpus: u32::try_from(cpus().len()).expect("few CPUs"),
            event: Event::find("page-faults", "").expect("it is known"),
            binds_fifo: false,
            write_event: None,
            reclaim: false,
            givers: Vec::new(),
            sharing: Sharing::None,
            beyond_plan: false,
            analysed: Vec::new(),
            lock: None,
            dynamic: None,
            notes: Vec::new(),
            options: Options::of(Event::find("page-faults", "").expect("it is known")),
        };
        let slot = |name: &str, core: Option<u32>, offset: u64, length: u64| Slot {
            name: name.to_owned(),
            resource: if core.is_some() { "io-core" } else { "device 1" }.to_owned(),
            core,
            offset_ns: offset * MS,
            length_ns: length * MS,
            period_ns: PERIOD,
        };
        let table = SlotTable::new(vec![
            slot(SENSOR, None, 0, 10),
            slot(INPUT, Some(io_core()), 10, 10),
            // A chain may end in a later period.
            slot(OUTPUT, Some(io_core()), 65, 10),
        ]);
        let engine =
            engine::start(&regulation, Choice::Helper).expect("the helper engine runs").engine;
        let options = ServiceOptions::new(socket, "nogroup").with_slots(&table);
        let service = Service::of(engine.as_ref(), options)
            .expect("the socket opens")
            .expect("there are transfers");
        Self { service, _engine: engine, table, socket: socket.to_owned() }
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(arguments).env("SOLOCORE_SOCKET", &self.socket);
        command
    }

    fn driver(&self, name: &str, mode: &str) -> Driver {
        let mut command = self.client(&["driver", name, mode]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Driver { child, output }
    }

    fn seen(&self, name: &str) -> RunTransfer {
        let all = self.service.transfers();
        all.into_iter().find(|t| t.name == name).expect("it is in the table")
    }

    fn await_seen(
        &self,
        name: &str,
        what: &str,
        done: impl Fn(&RunTransfer) -> bool,
    ) -> RunTransfer {
        let since = Instant::now();
        loop {
            let seen = self.seen(name);
            if done(&seen) {
                return seen;
            }
            assert!(since.elapsed() < Duration::from_secs(10), "{what}: {seen:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Checks facts that hold of every transfer at any time.
    fn check(&self, run: &RunTransfer) {
        let length = run.length_ns;
        for job in &run.latest {
            assert!(
                job.start_ns >= job.release_ns && job.start_ns < job.release_ns + length,
                "{job:?}"
            );
            assert!((job.release_ns - run.latest[0].release_ns).is_multiple_of(PERIOD), "{job:?}");
        }
        for pair in run.latest.windows(2) {
            assert!(
                pair[1].release_ns > pair[0].release_ns && pair[1].start_ns >= pair[0].end_ns,
                "{pair:?}"
            );
        }
        let late = run.latest.iter().filter(|j| j.end_ns > j.release_ns + length).count() as u64;
        if !run.attached {
            assert!(run.late >= late && run.late <= late + run.clients, "{late} {run:?}");
            let sum = run.begun + run.missed + run.unattended;
            assert!(
                sum == run.slots || sum == run.slots + 1,
                "every slot is counted once: {run:?}"
            );
        }
    }
}

struct Driver {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Driver {
    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it speaks");
        line.trim_end().to_owned()
    }

    /// The numbers in the client's next line.
    fn numbers(&mut self) -> Vec<u64> {
        let line = self.hear();
        line.split_whitespace()
            .map(|n| n.parse().unwrap_or_else(|_| panic!("not numbers: {line}")))
            .collect()
    }

    fn allowed(&self) -> String {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it lives");
        let line =
            status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).expect("a list");
        line.trim().to_owned()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn nobody_is_answered_before_the_first_release(bench: &Bench) {
    let mut driver = bench.driver(SENSOR, "good");
    std::thread::sleep(Duration::from_millis(150));
    assert!(bench.service.clients().is_empty() && bench.seen(SENSOR).clients == 0);
    bench.table.release_at(slots::now_ns() + 30 * MS);
    assert_eq!(driver.hear(), "attached");
    let [_, done] = driver.numbers()[..] else { panic!("two numbers") };
    assert_eq!(done, 10);
}

fn transfers_begin_in_their_slots(bench: &Bench) {
    let before = bench.seen(INPUT);
    assert_eq!((before.begun, before.missed, before.clients), (0, 0, 0));
    let mut driver = bench.driver(INPUT, "good");
    assert_eq!(driver.hear(), "attached");
    assert_eq!(driver.allowed(), io_core().to_string(), "it is bound to the I/O core");
    let clients = bench.service.clients();
    let transfer = clients.first().and_then(|c| c.transfer.as_ref()).expect("it is known");
    assert_eq!((clients.len(), transfer.name.as_str()), (1, INPUT));
    let [missed, done] = driver.numbers()[..] else { panic!("two numbers") };
    // The driver has detached and waits for its end.
    assert_eq!(driver.hear(), "detached");
    let run = bench.await_seen(INPUT, "it detaches", |r| !r.attached);
    println!(
        "good: {} slots, begun {}, late {}, missed {}, start late by {} us at most",
        run.slots,
        run.begun,
        run.late,
        run.missed,
        run.max_start_late_ns / 1000
    );
    assert_eq!((run.begun, run.clients, done), (10, 1, 10));
    assert!(run.missed >= missed, "{missed} {run:?}");
    assert_eq!(run.latest.len(), 10);
    bench.check(&run);
    assert_ne!(
        (driver.allowed(), cpus().len()),
        (io_core().to_string(), 2),
        "it may run where it might before"
    );
}

/// Transfers on different resources, by two threads of one process.
fn two_transfers_at_a_time(bench: &Bench) {
    let (sensor, output) = (bench.seen(SENSOR), bench.seen(OUTPUT));
    let mut driver = bench.driver(SENSOR, "two");
    assert_eq!(driver.hear(), "done");
    for (name, before) in [(SENSOR, sensor), (OUTPUT, output)] {
        let run =
            bench.await_seen(name, "both detach", |r| !r.attached && r.clients > before.clients);
        assert_eq!(run.begun, before.begun + 5, "{name}");
        bench.check(&run);
    }
}

fn who_takes_too_long_misses_slots(bench: &Bench) {
    let before = bench.seen(INPUT);
    let mut driver = bench.driver(INPUT, "slow");
    assert_eq!(driver.hear(), "attached");
    let [missed, done] = driver.numbers()[..] else { panic!("two numbers") };
    let run = bench.await_seen(INPUT, "it detaches", |r| !r.attached && r.clients > before.clients);
    println!(
        "slow: begun {}, late {}, missed {} (it saw {missed})",
        run.begun, run.late, run.missed
    );
    // Each transfer takes one and a half periods: the start of the next slot passes meanwhile.
    assert!(done == 3 && missed >= 2, "{missed} {done}");
    assert_eq!((run.begun - before.begun, run.late - before.late), (3, 3));
    assert!(run.missed - before.missed >= missed);
    assert!(run.max_end_late_ns >= 40 * MS, "60 ms from a beginning, in slots of 10 ms: {run:?}");
    bench.check(&run);
}

fn who_hangs_or_dies_is_counted(bench: &Bench) {
    let before = bench.seen(INPUT);
    let mut driver = bench.driver(INPUT, "hang");
    assert_eq!(driver.hear(), "attached");
    assert_eq!(driver.hear(), "in the slot");
    // The daemon sees it by itself: the client sends nothing any more.
    let run = bench.await_seen(INPUT, "it is overdue", |r| {
        r.late > before.late && r.missed >= before.missed + 2
    });
    assert!(run.attached && run.begun == before.begun + 1, "{run:?}");
    let inside =
        bench.service.clients().first().and_then(|c| c.transfer.clone()).is_some_and(|t| t.inside);
    assert!(inside);
    driver.child.kill().expect("SIGKILL");
    let run = bench.await_seen(INPUT, "it is gone", |r| !r.attached);
    assert_eq!(run.late, before.late + 1);
    bench.check(&run);
    let later = bench
        .await_seen(INPUT, "slots pass without a client", |r| r.unattended >= run.unattended + 3);
    assert_eq!((later.missed, later.begun), (run.missed, run.begun));
}

fn only_free_slots_are_given(bench: &Bench) {
    let mut driver = bench.driver(INPUT, "hang");
    assert_eq!(driver.hear(), "attached");
    let said = bench.client(&["strangers"]).output().expect("it runs").stdout;
    assert_eq!(
        String::from_utf8_lossy(&said),
        "taken Err(Unknown)\nunknown Err(Unknown)\nprocessing Err(Unknown)\nplain \
            Err(NoDaemon)\ntask Err(NoDaemon)\nlock Err(NoDaemon)\nwait Err(NoDaemon)\n"
    );
    assert_eq!(bench.service.clients().len(), 1);
    drop(driver);
    let _ = bench.await_seen(INPUT, "it is gone", |r| !r.attached);
    let mut next = bench.driver(INPUT, "good");
    assert_eq!(next.hear(), "attached", "the next one may");
}

/// Each attachment binds the driver, and adds a line with its way back.
fn a_loop_of_attachments_leaves_a_short_journal(bench: &Bench) {
    let mut driver = bench.driver(INPUT, "loop");
    assert_eq!(driver.hear(), "done");
    let own = format!("-{}-", std::process::id());
    let journals = fs::read_dir("/run/solocore-journal").expect("the journals").flatten();
    let lines = journals
        .filter(|e| e.file_name().to_string_lossy().contains(&own))
        .filter_map(|e| Some(fs::read_to_string(e.path()).ok()?.lines().count()))
        .max();
    assert!(lines.is_some_and(|lines| lines > 0 && lines <= LINES), "{lines:?} lines");
}

fn the_end_is_told_and_put_back(bench: Bench) {
    let mut driver = bench.driver(OUTPUT, "until the end");
    assert_eq!(driver.hear(), "attached");
    let before = bench.seen(OUTPUT);
    bench.await_seen(OUTPUT, "it works", |r| r.begun >= before.begun + 2);
    let socket = bench.socket.clone();
    drop(bench);
    assert!(!socket.exists(), "the socket is gone");
    assert_eq!(driver.hear(), "Err(NoDaemon)");
    assert_ne!(
        (driver.allowed(), cpus().len()),
        (io_core().to_string(), 2),
        "its CPUs are put back"
    );
}

/// A driver, in one of several modes.
fn driver(name: &str, mode: &str) -> ExitCode {
    // SAFETY: asks for a signal; takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if mode == "two" {
        let second = std::thread::spawn(|| transfer(OUTPUT, 5, Duration::from_millis(1)));
        transfer(name, 5, Duration::from_millis(1));
        second.join().expect("it ends");
        println!("done");
        return ExitCode::SUCCESS;
    }
    if mode == "loop" {
        let mut attached = 0;
        while attached < LINES + 100 {
            // The slot is free again once the daemon has seen that the driver left it.
            match client::attach_slot(name) {
                Ok(()) => attached += 1,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            client::detach();
        }
        println!("done");
        std::thread::sleep(Duration::from_secs(20));
    }
    client::attach_slot(name).expect("attached");
    println!("attached");
    match mode {
        "hang" => {
            let _transfer = client::wait_slot().expect("its slot");
            println!("in the slot");
            std::thread::sleep(Duration::from_secs(20));
        }
        "until the end" => loop {
            if let Err(e) = client::wait_slot().map(drop) {
                println!("{:?}", Err::<(), Status>(e));
                std::thread::sleep(Duration::from_secs(20));
            }
        },
        _ => {}
    }
    let (count, length) = if mode == "slow" { (3, 60) } else { (10, 2) };
    let mut missed = 0;
    for _ in 0..count {
        let transfer = client::wait_slot().expect("its slot");
        missed += transfer.missed();
        std::thread::sleep(Duration::from_millis(length));
    }
    client::detach();
    println!("{missed} {count}\ndetached");
    std::thread::sleep(Duration::from_millis(500));
    ExitCode::SUCCESS
}

fn transfer(name: &str, count: u32, length: Duration) {
    client::attach_slot(name).expect("attached");
    for _ in 0..count {
        let _transfer = client::wait_slot().expect("its slot");
        std::thread::sleep(length);
    }
}

/// Refused clients, with the reasons.
fn strangers() -> ExitCode {
    println!("taken {:?}", client::attach_slot(INPUT));
    println!("unknown {:?}", client::attach_slot("nav/2/device-input"));
    println!("processing {:?}", client::attach_slot("nav/1/processing"));
    println!("plain {:?}", client::attach());
    println!("task {:?}", client::attach_task("video"));
    println!("lock {:?}", client::lock().taken());
    println!("wait {:?}", client::wait_slot().map(drop));
    ExitCode::SUCCESS
}
