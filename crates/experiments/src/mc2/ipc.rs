//! MC2 Fig. 8: time to send and to receive a message against its size, under three policies for the message buffers.
//!
//! Set-up (section 5.1): Sender sends 100 messages, then Receiver takes them, both at level A on core 0; three programs of
//! level C on the other cores write at random over all of level C's banks and its ways. SBP: buffers in level C's banks,
//! uncacheable. CE: buffers in core 0's bank, cached in its ways. CL: buffers locked in the cache. Times are those of
//! `load_msg()` and `do_msg_fill()`, between marks around each.
//!
//! Assumed: 2 ways for level C and 4 for core 0, fewer where locked messages need them; after each round of messages
//! other work on core 0 writes an array of the size of core 0's ways, "the communicating tasks' other activities". A word is
//! the 4 bytes of a register.

use super::{LEVEL_C, Samples, Times, add, add_regions, board, percent, synthetic, take, ways};
use crate::run::{MS, points};
use crate::{Chart, Context, Experiment, ExperimentError, Outcome, Series, Table, row};
use solocore_model::{Bytes, Cycles};
use solocore_sim::board::{Board, BoardError, Place};
use solocore_sim::kernel::KernelConfig;
use solocore_sim::kernel::config::{Release, Trigger};
use solocore_sim::program::PageKind;
use solocore_sim::workload::params::{Message, Mwalk};
use solocore_sim::workload::{Job, WorkloadSpec};

pub const FIG8: Experiment = Experiment {
    id: "mc2-fig8",
    source: "MC2 Fig. 8",
    title: "Time to send and to receive a message against its size: buffers uncached, in the core's own bank, locked",
    run,
};

const SIZES: [u64; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Messages of a round.
const MESSAGES: u64 = 100;
const WAY: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Sbp,
    Ce,
    Cl,
}

const POLICIES: [(Policy, &str); 3] = [(Policy::Sbp, "SBP"), (Policy::Ce, "CE"), (Policy::Cl, "CL")];

/// Sending and receiving.
type Both = [Times; 2];
const FUNCTIONS: [&str; 2] = ["load_msg", "do_msg_fill"];

fn run(context: &Context) -> Result<Outcome, ExperimentError> {
    let all: Vec<(Policy, u64)> = SIZES.iter().flat_map(|&size| POLICIES.map(|(p, _)| (p, size))).collect();
    let times = points(context, &all, |&(policy, size)| measure(context, policy, size))?;
    let mut table = Table::new(&["function", "policy", "message_bytes", "moet_us", "acet_us", "moet_to_sbp"]);
    for (at, function) in FUNCTIONS.iter().enumerate() {
        for (i, (&(policy, size), t)) in all.iter().zip(&times).enumerate() {
            let sbp = times[i - i % POLICIES.len()][at];
            let name = POLICIES[policy as usize].1;
            table.push(row![*function, name, size, t[at].moet_us, t[at].acet_us, t[at].moet_us / sbp.moet_us]);
        }
    }
    let mut outcome = Outcome::new(table);
    judge(&mut outcome, &times);
    draw(&mut outcome, &times);
    outcome.differs("System calls, allocation and the kernel's code are not simulated: the times are those of the copy.");
    outcome.differs(
        "What else the communicating tasks do is assumed: other work on their core writes its ways full between rounds.",
    );
    Ok(outcome)
}

fn measure(context: &Context, policy: Policy, size: u64) -> Result<Both, ExperimentError> {
    let mut board = board(context)?;
    let line = board.platform().llc.line.0;
    let buffers = (size + 24).div_ceil(line) * line * MESSAGES;
    let locked = if policy == Policy::Cl { u32::try_from(buffers.div_ceil(WAY)).unwrap_or(16) } else { 0 };
    let own = ways(2, 4.min(14u32.saturating_sub(locked)));
    let place = match policy {
        Policy::Sbp => Place::banks(&LEVEL_C).kind(PageKind::Uncached),
        Policy::Ce => Place::banks(&[0]),
        Policy::Cl => Place::banks(&[0]).kind(PageKind::Locked),
    };
    let tasks = communicate(&mut board, size, own, &place)?;
    for core in 1..4 {
        let spec = synthetic(Bytes(4 << 20), None);
        add(&mut board, &format!("background {core}"), core, ways(0, 2), &spec, &Place::banks(&LEVEL_C))?;
    }
    let wanted = MESSAGES * context.pick(4, 100);
    let mut samples = tasks.map(|task| Samples::marks(task, MESSAGES, wanted));
    take(context, board, KernelConfig::default(), MS, &mut samples)?;
    Ok(samples.map(|s| s.times()))
}

/// Sender, then Receiver, then other work, on core 0, for ever.
fn communicate(board: &mut Board, size: u64, own: u64, place: &Place) -> Result<[usize; 2], BoardError> {
    let job = Some(Job::Passes(MESSAGES));
    let message = Message { size: Bytes(size), messages: MESSAGES, marks: true, job, ..Message::default() };
    let bank = Place::banks(&[0]);
    let spec = WorkloadSpec::MessageSender(message.clone());
    let sender = add_regions(board, "Sender", 0, own, &spec, &bank, &[("buffer", place.clone())])?;
    let same = Place { frames: Some(board.frames(sender, "buffer")), ..place.clone() };
    let spec = WorkloadSpec::MessageReceiver(message);
    let receiver = add_regions(board, "Receiver", 0, own, &spec, &bank, &[("buffer", same)])?;
    let size = Bytes(u64::from(own.count_ones()) * WAY);
    let work = WorkloadSpec::Mwalk(Mwalk { size, gap: Cycles(8), job: Some(Job::Passes(1)) });
    let other = add(board, "other work", 0, own, &work, &bank)?;
    // Sender goes on when nothing more urgent is left.
    board.task(sender).priority = 1;
    board.task(receiver).release = Release::Triggered { by: Trigger::JobEnd(sender), delay_ps: 0 };
    board.task(other).release = Release::Triggered { by: Trigger::JobEnd(receiver), delay_ps: 0 };
    Ok([sender, receiver])
}

fn judge(outcome: &mut Outcome, times: &[Both]) {
    for (at, (function, most)) in FUNCTIONS.iter().zip([(0.129, 0.054), (0.405, 0.159)]).enumerate() {
        let of = |policy: Policy| times.iter().skip(policy as usize).step_by(POLICIES.len()).map(move |t| t[at].moet_us);
        let ratios = |policy| of(policy).zip(of(Policy::Sbp)).map(|(a, b)| a / b);
        let (cl, ce) = (span(ratios(Policy::Cl)), span(ratios(Policy::Ce)));
        let between = |s: (f64, f64)| format!("{} to {}", percent(s.0), percent(s.1));
        outcome.check(
            &format!("{function}: MOET is lowest under CL and highest under SBP, at every size (Observation 1)"),
            of(Policy::Cl).zip(of(Policy::Ce)).zip(of(Policy::Sbp)).all(|((cl, ce), sbp)| cl < ce && ce < sbp),
            format!("of SBP's time, CL takes {}, CE {}", between(cl), between(ce)),
        );
        outcome.check(
            &format!("{function}: CE takes at most {} of SBP's time, CL at most {}", percent(most.0), percent(most.1)),
            ce.1 <= most.0 && cl.1 <= most.1,
            format!("at most {} and {}", percent(ce.1), percent(cl.1)),
        );
        outcome.check(
            &format!("{function}: CE is only slightly slower than CL: nearer to it than to SBP"),
            of(Policy::Cl).zip(of(Policy::Ce)).zip(of(Policy::Sbp)).all(|((cl, ce), sbp)| ce - cl < sbp - ce),
            format!("CE {}, CL {} of SBP's time", between(ce), between(cl)),
        );
    }
}

/// The least and the largest.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

fn draw(outcome: &mut Outcome, times: &[Both]) {
    for (at, function) in FUNCTIONS.iter().enumerate() {
        let series = POLICIES.iter().map(|&(policy, name)| {
            let values = times.iter().skip(policy as usize).step_by(POLICIES.len());
            Series::new(name, SIZES.iter().zip(values).map(|(&s, t)| (s as f64, t[at].moet_us)).collect())
        });
        let title = format!("MOET of {function}()");
        let chart = Chart::lines(&title, "message, bytes", "MOET, us", series.collect());
        outcome.charts.push(chart.logarithmic());
    }
}
