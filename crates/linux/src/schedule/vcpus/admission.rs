//! Admission of a VCPU to a core, decided before anything changes.
//!
//! Problem: every VCPU on a core is promised C in T; one more must not break a promise. Rule: a
//! sporadic server loads its core no more than a periodic task of its C and T (Stanovich et al.
//! 2010). VCPUs run by rate, so that exact response times of fixed priorities decide (maracas,
//! section V; `solocore_analysis::uniprocessor::plain`). Each C is lengthened by the cost of a
//! switch and a late timer (`overhead`): a VCPU may run for this additional time after its budget
//! is used up.
//! Does not cover: interrupts, kernel threads and real-time tasks, which no VCPU holds.

use crate::error::LinuxError;
use solocore_analysis::task_set::SporadicTask;
use solocore_analysis::uniprocessor::plain;
use solocore_model::vcpus::check_times;

/// Time that a VCPU claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Number of the VCPU; it decides among equal periods.
    pub id: u32,
    /// Capacity C.
    pub capacity_ns: u64,
    /// Period T.
    pub period_ns: u64,
}

/// A time for people, in ms or us.
pub(super) fn time(ns: u64) -> String {
    let (unit, per) = if ns.is_multiple_of(1_000_000) { ("ms", 1e6) } else { ("us", 1e3) };
    format!("{} {unit}", ns as f64 / per)
}

/// Checks that a core has room for one more claim.
///
/// # Errors
/// A VCPU would get its capacity too late; the message has its utilisation and response time.
pub fn admit(core: u32, there: &[Claim], new: Claim, overhead_ns: u64) -> Result<(), LinuxError> {
    check_times(new.capacity_ns, new.period_ns).map_err(LinuxError::Input)?;
    let mut claims: Vec<Claim> = there.iter().copied().chain([new]).collect();
    claims.sort_by_key(|claim| (claim.period_ns, claim.id));
    let tasks: Vec<SporadicTask> = claims
        .iter()
        .map(|claim| SporadicTask {
            wcet: claim.capacity_ns.saturating_add(overhead_ns),
            period: claim.period_ns,
            deadline: claim.period_ns,
        })
        .collect();
    let load: f64 = tasks.iter().map(|t| t.wcet as f64 / t.period as f64).sum();
    let late = |(claim, (task, response)): (&Claim, (&SporadicTask, Option<u64>))| {
        if response.is_some_and(|r| r <= task.deadline) {
            return None;
        }
        let when = response
            .map_or_else(|| "without a bounded time".to_owned(), |r| format!("after {}", time(r)));
        let whose = if claim.id == new.id { "it".to_owned() } else { format!("VCPU {}", claim.id) };
        Some(LinuxError::Input(format!(
            "{} in {} does not fit on core {core}: with it the utilisation is {load:.3} (each \
                switch counted with {}), and {whose} would have its \
             {} {when}, not within {}; take another core, or less",
            time(new.capacity_ns),
            time(new.period_ns),
            time(overhead_ns),
            time(claim.capacity_ns),
            time(claim.period_ns),
        )))
    };
    let responses = plain::response_times(&tasks);
    match claims.iter().zip(tasks.iter().zip(responses)).find_map(late) {
        Some(refusal) => Err(refusal),
        None => Ok(()),
    }
}

/// Longest name of a VCPU, in characters.
const NAME_CHARS: usize = 64;

/// Checks a VCPU's name: not empty, not a number, at most 64 characters, no control characters, no
/// blank at an end.
///
/// # Errors
/// The reason why it may not.
pub fn check_name(name: &str) -> Result<(), String> {
    let why = if name.is_empty() {
        "is empty"
    } else if name.chars().count() > NAME_CHARS {
        "has more than 64 characters"
    } else if name.trim() != name || name.chars().any(char::is_control) {
        "has a control character, or a blank at an end"
    } else if name.parse::<u32>().is_ok() {
        "is a number, and VCPUs already have numbers"
    } else {
        return Ok(());
    };
    Err(format!("the name {name:?} of a VCPU {why}; choose another"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(id: u32, capacity_ms: u64, period_ms: u64) -> Claim {
        Claim { id, capacity_ns: capacity_ms * 1_000_000, period_ns: period_ms * 1_000_000 }
    }

    #[test]
    fn what_fits_exactly_is_admitted_and_a_switch_more_is_not() {
        let there = [claim(4, 2, 4), claim(5, 1, 6)];
        // Response times 2, 3, 12: 2 + 2 + 2, 1 + 1 and 4.
        assert!(admit(0, &there, claim(6, 4, 12), 0).is_ok());
        let said = admit(0, &there, claim(6, 4, 12), 10_000).unwrap_err().to_string();
        assert!(
            said.contains("utilisation is 1.005")
                && said.contains("core 0")
                && said.contains("it would"),
            "{said}"
        );
        assert!(admit(0, &there, claim(6, 5, 12), 0).is_err());
    }

    #[test]
    fn who_is_there_is_protected_too() {
        let said = admit(3, &[claim(4, 9, 10)], claim(5, 1, 5), 0).unwrap_err().to_string();
        assert!(
            said.contains("VCPU 4 would have its 9 ms without a bounded time, not within 10 ms"),
            "{said}"
        );
        // 4 and twice 2, of a core that is not full.
        let said = admit(3, &[claim(4, 4, 7)], claim(5, 2, 5), 0).unwrap_err().to_string();
        assert!(said.contains("VCPU 4 would have its 4 ms after 8 ms, not within 7 ms"), "{said}");
    }

    #[test]
    fn times_that_are_no_vcpus() {
        for (capacity, period, word) in
            [(11, 10, "whole core"), (0, 10, "least"), (1_000, 20_000, "waiting threads")]
        {
            let said = admit(0, &[], claim(4, capacity, period), 0).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        }
    }
}
