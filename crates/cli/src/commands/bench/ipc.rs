//! `solocore bench ipc`: times to send and to receive a message, by its size and the place of its
//! buffers (MC2 Fig. 8).
//!
//! Rule: as the paper: Sender sends 100 messages, then Receiver takes them; then the core does
//! other work; again and again. Each send and each receive is timed by itself. The buffers bypass
//! the caches (sbp), are ordinary pages that both use from one core (ce), or are locked in the
//! cache (cl); beside them, the kernel's own queues (sysv). Other CPUs write to memory meanwhile.
//! Source: mc2-os-isolation, section 5.1 and Fig. 8.
//! Does not cover: banks: the kernel chooses the pages of ce and sbp. The paper times only the
//! kernel's copy; a time of sysv here includes the system call.

use super::output::{Output, show};
use crate::fail::Failure;
use crate::progress::{Progress, stopped};
use clap::ValueEnum;
use serde::Serialize;
use solocore_buffers::hog::Hog;
use solocore_buffers::sysv::SysVQueue;
use solocore_buffers::timing::{Clock, ticks};
use solocore_buffers::walk::{Access, cpus, keep_on, pass};
use solocore_buffers::{Mapping, caches};
use solocore_client::queue::{Place, Receiver, Sender, Shape, Shared};
use solocore_experiments::{Chart, Series, chart};
use solocore_linux::Reservation;
use solocore_model::{Bytes, files};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Policy {
    /// Past the caches: selective bypass.
    Sbp,
    /// Ordinary pages, both tasks on one core: concurrency elimination.
    Ce,
    /// Locked in the cache.
    Cl,
    /// The kernel's System V queue.
    Sysv,
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Self::Sbp => "sbp",
            Self::Ce => "ce",
            Self::Cl => "cl",
            Self::Sysv => "sysv",
        }
    }
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Sizes of messages, in bytes.
    #[arg(long, value_delimiter = ',', default_value = "64,128,256,512,1024,2048,4096,8192", value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) sizes: Vec<u32>,
    /// Places of the buffers.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sbp,ce,cl,sysv")]
    pub(super) policies: Vec<Policy>,
    /// Messages that are sent before the first is received.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10000))]
    pub(super) messages: u32,
    /// Number of rounds; each sends and receives all messages.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) rounds: u32,
    /// CPU of Sender, and of Receiver unless that has another [default: the first].
    #[arg(short, long, value_name = "CPU")]
    pub(super) cpu: Option<u32>,
    /// CPU of Receiver.
    #[arg(long, value_name = "CPU")]
    pub(super) receiver_cpu: Option<u32>,
    /// Number of enemies that write to memory, each on a CPU of its own [default: one on each other
    /// CPU].
    #[arg(long, value_name = "N")]
    pub(super) hogs: Option<usize>,
    /// Memory that each of them writes again and again.
    #[arg(long, default_value = "64 MiB", value_name = "SIZE")]
    pub(super) hog_size: Bytes,
    /// Memory that the core reads after each burst of --messages ("the tasks' other activities")
    /// [default: the size of its private caches, from 1 MiB to 64 MiB].
    #[arg(long, value_name = "SIZE")]
    pub(super) other_work: Option<Bytes>,
    /// Draw the longest times here (SVG).
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Output,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Times {
    samples: usize,
    /// The longest time: MOET.
    max_ns: f64,
    p99_ns: f64,
    pub(super) median_ns: f64,
    /// The average time: ACET.
    mean_ns: f64,
}

#[derive(Serialize)]
pub(super) struct Point {
    policy: &'static str,
    message_bytes: u32,
    /// Messages sent before the first was received, where the kernel's queue holds fewer than were
    /// asked for.
    burst: u32,
    pub(super) send: Times,
    pub(super) receive: Times,
}

#[derive(Serialize)]
struct Outcome {
    format: &'static str,
    cpu: u32,
    receiver_cpu: u32,
    hogs: usize,
    messages: u32,
    rounds: u32,
    other_work_bytes: usize,
    timer_ns: f64,
    points: Vec<Point>,
    notes: Vec<String>,
}

fn times(clock: &Clock, samples: &mut [u64]) -> Times {
    samples.sort_unstable();
    let at = |share: usize| {
        clock.net_ns(
            samples.get(samples.len().saturating_sub(1) * share / 100).copied().unwrap_or(0),
        )
    };
    let mean = samples.iter().map(|&t| clock.net_ns(t)).sum::<f64>() / samples.len().max(1) as f64;
    Times {
        samples: samples.len(),
        max_ns: at(100),
        p99_ns: at(99),
        median_ns: at(50),
        mean_ns: mean,
    }
}

/// CPUs of the tasks, and the programs beside them.
pub(super) struct Setup {
    cpu: u32,
    receiver_cpu: u32,
    hogs: Vec<Hog>,
    other: Mapping,
    pub(super) clock: Clock,
    pub(super) notes: Vec<String>,
}

pub(super) fn setup(args: &Args) -> Result<Setup, Failure> {
    let usable = cpus();
    let cpu = args.cpu.or(usable.first().copied()).unwrap_or(0);
    let receiver_cpu = args.receiver_cpu.unwrap_or(cpu);
    keep_on(receiver_cpu)?;
    keep_on(cpu)?;
    let others: Vec<u32> = usable.into_iter().filter(|&c| c != cpu && c != receiver_cpu).collect();
    let wanted = args.hogs.unwrap_or(others.len());
    if wanted > others.len() {
        return Err(Failure::Input(format!(
            "--hogs {wanted}: {} other CPUs are there for them; give at most that number",
            others.len()
        )));
    }
    let limited = |bytes: Bytes, option: &str| match usize::try_from(bytes.0) {
        Ok(n) if (4096..=4 << 30).contains(&n) => Ok(n),
        _ => Err(Failure::Input(format!(
            "{option} {bytes}: between 4 KiB and 4 GiB; give for example \"64 MiB\""
        ))),
    };
    let hog_bytes = limited(args.hog_size, "--hog-size")?;
    let private = Bytes(caches::here().private_bytes.clamp(1 << 20, 64 << 20));
    let other = Mapping::new(limited(args.other_work.unwrap_or(private), "--other-work")?)?;
    let mut notes = Vec::new();
    if receiver_cpu != cpu && args.policies.contains(&Policy::Ce) {
        notes.push("ce has both tasks on one core in the paper; here they are on two".to_owned());
    }
    let hogs = others[..wanted].iter().map(|&cpu| Hog::begin(cpu, hog_bytes, Access::Write));
    let hogs = hogs.collect::<Result<_, _>>()?;
    Ok(Setup { cpu, receiver_cpu, hogs, other, clock: Clock::measured(), notes })
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut setup = setup(args)?;
    let mut policies = args.policies.clone();
    policies.sort_unstable();
    policies.dedup();
    let progress = Progress::new("sending and receiving");
    let all: Vec<(Policy, u32)> =
        policies.iter().flat_map(|&p| args.sizes.iter().map(move |&s| (p, s))).collect();
    let mut points = Vec::new();
    for (at, &(policy, size)) in all.iter().enumerate() {
        let measured = match policy {
            Policy::Sysv => kernels(args, &mut setup, size)?,
            _ => ours(args, &mut setup, policy, size)?,
        };
        points.push(measured);
        progress.share((at + 1) as f64 / all.len() as f64);
    }
    drop(progress);
    setup.notes.sort();
    setup.notes.dedup();
    let outcome = Outcome {
        format: "solocore-bench-ipc/1",
        cpu: setup.cpu,
        receiver_cpu: setup.receiver_cpu,
        hogs: setup.hogs.len(),
        messages: args.messages,
        rounds: args.rounds,
        other_work_bytes: setup.other.len(),
        timer_ns: setup.clock.ns(setup.clock.overhead),
        points,
        notes: setup.notes,
    };
    if let Some(path) = &args.svg {
        files::write_atomically(path, draw(&outcome)?.as_bytes())?;
    }
    report(args, &outcome)
}

impl Setup {
    /// Rounds of sending and receiving, each call timed; both functions get the number of the
    /// message.
    fn measure(
        &mut self,
        (rounds, burst): (u32, u32),
        mut send: impl FnMut(u32) -> Result<u64, Failure>,
        mut receive: impl FnMut(u32) -> Result<u64, Failure>,
    ) -> Result<(Times, Times), Failure> {
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        // The first round warms up.
        for round in 0..=rounds {
            if stopped() {
                return Err(Failure::Interrupted);
            }
            for n in 0..burst {
                let t = send(n)?;
                sent.extend((round > 0).then_some(t));
            }
            self.change_to(self.receiver_cpu)?;
            for n in 0..burst {
                let t = receive(n)?;
                received.extend((round > 0).then_some(t));
            }
            self.change_to(self.cpu)?;
        }
        Ok((times(&self.clock, &mut sent), times(&self.clock, &mut received)))
    }

    /// Does other work, and then moves to a CPU.
    fn change_to(&mut self, cpu: u32) -> Result<(), Failure> {
        std::hint::black_box(pass(&mut self.other, Access::Read));
        if self.cpu != self.receiver_cpu {
            keep_on(cpu)?;
        }
        Ok(())
    }
}

pub(super) fn queue_failure(e: impl std::fmt::Display) -> Failure {
    Failure::Machine(format!("a message queue: {e}"))
}

/// Times of one place and size, by the queues in shared memory.
pub(super) fn ours(
    args: &Args,
    setup: &mut Setup,
    policy: Policy,
    size: u32,
) -> Result<Point, Failure> {
    let place = match policy {
        Policy::Sbp => Place::Bypass,
        Policy::Cl => Place::Locked,
        _ => Place::Cached,
    };
    let shape =
        Shape { lanes: 1, slots: args.messages.next_power_of_two(), message_bytes: size as usize };
    let memory = Shared::new(&shape, place).map_err(queue_failure)?;
    let (mut sender, mut receiver) = (
        Sender::open(&memory).map_err(queue_failure)?,
        Receiver::open(&memory).map_err(queue_failure)?,
    );
    let _kept = (policy == Policy::Cl).then(|| lock(&memory, setup)).transpose()?;
    let mut message = vec![0x5au8; size as usize];
    let mut got = vec![0u8; size as usize];
    let measured = setup.measure(
        (args.rounds, args.messages),
        |n| {
            message[0] = n.to_le_bytes()[0];
            let begun = ticks();
            let sent = sender.send(&message);
            let t = ticks() - begun;
            sent.map(|()| t).map_err(queue_failure)
        },
        |n| {
            let begun = ticks();
            let received = receiver.receive(&mut got);
            let t = ticks() - begun;
            match received {
                Ok(Some(length)) if length == size as usize && got[0] == n.to_le_bytes()[0] => {
                    Ok(t)
                }
                Ok(_) => Err(queue_failure(
                    "the received message is not the sent one; this is a bug, please report it",
                )),
                Err(e) => Err(queue_failure(e)),
            }
        },
    );
    let (send, receive) = measured?;
    Ok(Point { policy: policy.name(), message_bytes: size, burst: args.messages, send, receive })
}

/// Keeps a queue's pages in the cache, in the best way of this machine.
fn lock(memory: &Shared, setup: &mut Setup) -> Result<Option<Reservation>, Failure> {
    let (at, bytes) = memory.range();
    let prefetch = || {
        // SAFETY: the queue's memory is mapped, and no code uses it yet; reading changes nothing.
        let lines = unsafe { std::slice::from_raw_parts(at, bytes) };
        solocore_buffers::residency::flush(lines);
        std::hint::black_box(
            lines.iter().step_by(solocore_buffers::LINE).fold(0u8, |sum, b| sum.wrapping_add(*b)),
        );
        solocore_buffers::lockdown::demote(lines);
    };
    match Reservation::take(bytes as u64, caches::here().shared_bytes) {
        Ok(reservation) => {
            reservation.enter()?;
            prefetch();
            reservation.leave()?;
            Ok(Some(reservation))
        }
        Err(e) => {
            prefetch();
            setup.notes.push(format!("cl is prefetched only: no ways of its own: {e}"));
            Ok(None)
        }
    }
}

fn kernels(args: &Args, setup: &mut Setup, size: u32) -> Result<Point, Failure> {
    let longest = size as usize;
    let queue = SysVQueue::new(longest * args.messages as usize, longest)?;
    let burst = u32::try_from(queue.capacity / longest).unwrap_or(u32::MAX).min(args.messages);
    if burst == 0 {
        return Err(Failure::Machine(format!(
            "System V queues hold {} bytes here, less than one message; raise kernel.msgmnb, or \
                leave sysv out",
            queue.capacity
        )));
    }
    if burst < args.messages {
        setup.notes.push(format!(
            "sysv: {burst} messages of {size} bytes at a time, because its queue holds no more \
            (kernel.msgmnb); run it as root for larger queues"
        ));
    }
    let failed = |e: std::io::Error| {
        Failure::Machine(format!(
            "System V queue: {e}; messages of {size} bytes may exceed kernel.msgmax: give smaller \
                --sizes"
        ))
    };
    let message = vec![0x5au8; longest];
    let queue = std::cell::RefCell::new(queue);
    let (send, receive) = setup.measure(
        (args.rounds * args.messages / burst, burst),
        |_| {
            queue.borrow_mut().prepare(&message);
            let (queue, begun) = (queue.borrow(), ticks());
            let sent = queue.send();
            let t = ticks() - begun;
            sent.map(|()| t).map_err(failed)
        },
        |_| {
            let (mut queue, begun) = (queue.borrow_mut(), ticks());
            let received = queue.receive(longest);
            let t = ticks() - begun;
            received.map(|_| t).map_err(failed)
        },
    )?;
    Ok(Point { policy: Policy::Sysv.name(), message_bytes: size, burst, send, receive })
}

fn draw(outcome: &Outcome) -> Result<String, Failure> {
    let mut charts = Vec::new();
    for (title, of) in
        [("send", (|p: &Point| p.send) as fn(&Point) -> Times), ("receive", |p: &Point| p.receive)]
    {
        let mut names: Vec<&str> = outcome.points.iter().map(|p| p.policy).collect();
        names.dedup();
        let series = names.into_iter().map(|name| {
            let mine = outcome.points.iter().filter(|p| p.policy == name);
            Series::new(
                name,
                mine.map(|p| (f64::from(p.message_bytes), of(p).p99_ns / 1e3)).collect(),
            )
        });
        let title = format!("Time to {title} a message, 99th of 100");
        charts.push(
            Chart::lines(&title, "message, bytes", "time, us", series.collect()).logarithmic(),
        );
    }
    chart::svg(&charts).map_err(|e| Failure::Input(format!("--svg: {e}; give other sizes")))
}

fn report(args: &Args, outcome: &Outcome) -> Result<ExitCode, Failure> {
    let head =
        ["policy", "bytes", "function", "samples", "max ns", "p99 ns", "median ns", "mean ns"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for point in &outcome.points {
        for (function, t) in [("send", point.send), ("receive", point.receive)] {
            let mut row =
                vec![point.policy.to_owned(), point.message_bytes.to_string(), function.to_owned()];
            row.push(t.samples.to_string());
            row.extend([t.max_ns, t.p99_ns, t.median_ns, t.mean_ns].map(|ns| format!("{ns:.1}")));
            rows.push(row);
        }
    }
    let mut below = format!(
        "\nCPU {} to {}, {} hogs, {} messages a round; {:.1} ns that the clock takes are taken \
            off\n",
        outcome.cpu, outcome.receiver_cpu, outcome.hogs, outcome.messages, outcome.timer_ns
    );
    outcome.notes.iter().for_each(|note| below += &format!("note: {note}\n"));
    show(args.format, outcome, &rows, &below)
}
