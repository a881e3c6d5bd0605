//! Costs of messages: `send_ce`, `receive_ce`, `send_cl`, `receive_cl`, `eviction`.
//!
//! Rule: `solocore bench ipc` measures each place of the buffers in each repetition; the costs are
//! ratios of medians of one repetition. For `eviction` the lines of a cacheable queue are flushed
//! before they are sent and before they are received, as level C evicts them. Source:
//! mc2-os-isolation, sections 4.2 and 5.1. Does not cover: the lines of others that a cacheable
//! buffer evicts.

use super::args::Args;
use super::measured::Costs;
use crate::commands::bench::ipc::{self, Policy, Setup};
use crate::commands::bench::output::{Output, median};
use crate::fail::Failure;
use crate::progress::stopped;
use solocore_buffers::residency::flush;
use solocore_buffers::timing::ticks;
use solocore_client::queue::{Place, Receiver, Sender, Shape, Shared};

/// Rounds of messages in a repetition.
const ROUNDS: u32 = 5;
/// Messages of a round.
const BURST: u32 = 100;

/// Measures all; `done` hears of each repetition.
pub fn measure(args: &Args, costs: &mut Costs, done: &mut dyn FnMut()) -> Result<(), Failure> {
    let asked = ipc::Args {
        sizes: vec![args.message],
        policies: vec![Policy::Sbp, Policy::Ce, Policy::Cl],
        messages: BURST,
        rounds: ROUNDS,
        cpu: args.cpu,
        receiver_cpu: None,
        hogs: args.hogs,
        hog_size: args.memory(),
        other_work: None,
        svg: None,
        format: Output::Text,
    };
    let mut setup = ipc::setup(&asked)?;
    let mut samples: [Vec<f64>; 5] = std::array::from_fn(|_| Vec::new());
    for _ in 0..args.repetitions {
        let mut times = [[0.0; 2]; 3];
        for (policy, times) in asked.policies.iter().zip(&mut times) {
            let point = ipc::ours(&asked, &mut setup, *policy, args.message)?;
            *times = [point.send.median_ns, point.receive.median_ns];
        }
        let [sbp, ce, cl] = times;
        let ratios = [ce[0] / sbp[0], ce[1] / sbp[1], cl[0] / sbp[0], cl[1] / sbp[1]];
        samples.iter_mut().zip(ratios).for_each(|(all, ratio)| all.push(ratio));
        if let Some(evicted) = evicted(args, &setup)? {
            samples[4].push((evicted / (sbp[0] + sbp[1]) - 1.0).max(0.0));
        }
        done();
    }
    let [send_ce, receive_ce, send_cl, receive_cl, eviction] = samples;
    costs.shares("send_ce", send_ce);
    costs.shares("receive_ce", receive_ce);
    costs.shares("send_cl", send_cl);
    costs.shares("receive_cl", receive_cl);
    if eviction.is_empty() {
        costs.leave("eviction", "this CPU does not let programs flush cache lines");
    } else {
        costs.shares("eviction", eviction);
    }
    costs.notes.append(&mut setup.notes);
    Ok(())
}

/// Time to send and to receive a message by a cacheable queue that is evicted in between, ns;
/// `None`: nothing can be flushed.
fn evicted(args: &Args, setup: &Setup) -> Result<Option<f64>, Failure> {
    let bytes = args.message as usize;
    let shape = Shape { lanes: 1, slots: BURST.next_power_of_two(), message_bytes: bytes };
    let memory = Shared::new(&shape, Place::Cached).map_err(ipc::queue_failure)?;
    let mut sender = Sender::open(&memory).map_err(ipc::queue_failure)?;
    let mut receiver = Receiver::open(&memory).map_err(ipc::queue_failure)?;
    let (message, mut got) = (vec![0x5au8; bytes], vec![0u8; bytes]);
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=ROUNDS {
        if stopped() {
            return Err(Failure::Interrupted);
        }
        if !flush_queue(&memory) {
            return Ok(None);
        }
        for _ in 0..BURST {
            let begun = ticks();
            let sent = sender.send(&message);
            let t = setup.clock.net_ns(ticks() - begun);
            sent.map_err(ipc::queue_failure)?;
            sends.extend((round > 0).then_some(t));
        }
        flush_queue(&memory);
        for _ in 0..BURST {
            let begun = ticks();
            let received = receiver.receive(&mut got);
            let t = setup.clock.net_ns(ticks() - begun);
            received.map_err(ipc::queue_failure)?;
            receives.extend((round > 0).then_some(t));
        }
    }
    Ok(Some(median(&mut sends) + median(&mut receives)))
}

fn flush_queue(memory: &Shared) -> bool {
    let (at, bytes) = memory.range();
    // SAFETY: the queue's memory is mapped, and no side uses it meanwhile; flushing changes
    // nothing.
    flush(unsafe { std::slice::from_raw_parts(at, bytes) })
}
