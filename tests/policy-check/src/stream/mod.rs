//! Random event sequences, and what must hold of the answers to them.

pub mod admission;
pub mod balance;
pub mod bwlock;
pub mod dynamic_budget;
pub mod heap;
pub mod levels;
pub mod memguard;
pub mod ready_set;
pub mod sporadic_server;
pub mod throttle;
pub mod time_table;
pub mod units;
pub mod vcpu;

use crate::{Answer, Event};

/// Follows the answers with a ledger of what must hold: `open` makes it where the first event is
/// accepted, `apply` checks each one after that.
///
/// # Errors
/// The first event whose answer breaks a rule, with its place.
fn follow<L>(
    events: &[Event],
    answers: &[Answer],
    open: impl Fn(&Event) -> Result<L, String>,
    apply: impl Fn(&mut L, &Event, &[u64; 6]) -> Result<(), String>,
) -> Result<(), String> {
    let mut ledger = None;
    for (at, (event, answer)) in events.iter().zip(answers).enumerate() {
        if let Some(ledger) = ledger.as_mut() {
            let verdict = apply(ledger, event, &answer.word);
            verdict.map_err(|what| format!("event {at} {event:?}: {what}: {answer:?}"))?;
        } else if event.op == 0 && answer.word[0] == 1 {
            ledger = Some(open(event)?);
        }
    }
    Ok(())
}
