//! Real-time threads beside a scheduler of solocore (`bpf/intruders.h`).
//!
//! Rule: the kernel runs `SCHED_FIFO`, `SCHED_RR` and `SCHED_DEADLINE` threads before all others;
//! the schedulers see them at the change of threads and record up to 256, by thread. Each scheduler
//! reports the tasks that lost the time.

use crate::contract::{self, sched_intruder};
use crate::host::threads::printable;
use crate::regulate::bpf;
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use solocore_model::run::RunIntruder;

/// `SCHED_DEADLINE`.
const DEADLINE: u32 = 6;

/// A thread that the programs saw.
pub(crate) fn decode(seen: &sched_intruder) -> RunIntruder {
    let policy = match seen.policy {
        2 => "SCHED_RR",
        DEADLINE => "SCHED_DEADLINE",
        _ => "SCHED_FIFO",
    };
    RunIntruder {
        thread: seen.pid,
        process: seen.tgid,
        name: printable(&contract::text(&seen.name)),
        policy: policy.into(),
        priority: seen.priority,
        times: seen.times,
        ran_ns: seen.ns,
        max_ns: seen.longest_ns,
    }
}

/// Makes the scheduler see such threads, until the link is dropped. The error is a reason for the
/// user.
pub(crate) fn watch(object: &Object, beside: &str) -> Result<Link, String> {
    let found = object.progs_mut().find(|p| p.name() == "intruders");
    found
        .ok_or_else(|| "there is no program `intruders`".to_owned())
        .and_then(|program| program.attach().map_err(|e| e.to_string()))
        .map_err(|e| format!("real-time threads beside {beside} are not seen: {e}"))
}

/// All threads that were seen.
pub(crate) fn all(object: &Object) -> Vec<sched_intruder> {
    let Ok(map) = bpf::map(object, "sched_intruders") else { return Vec::new() };
    let of = |key: Vec<u8>| Some(contract::read(&map.lookup(&key, MapFlags::ANY).ok()??));
    map.keys().filter_map(of).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use zerocopy::FromZeros;

    /// A thread that ran 3 times for 2.5 ms, 1.5 ms of them in the time of the first task.
    pub(crate) fn rude() -> sched_intruder {
        let mut seen = sched_intruder {
            ns: 2_500_000,
            times: 3,
            lost_ns: [1_500_000, 0, 0, 0, 0, 0],
            pid: 42,
            policy: 1,
            priority: 50,
            ..sched_intruder::new_zeroed()
        };
        contract::set_text(&mut seen.name, "rude");
        seen
    }

    #[test]
    fn one_is_described() {
        let said = decode(&rude()).text();
        assert_eq!(
            said,
            "rude (42, SCHED_FIFO 50) ran 3 times for 2.500 ms, at most 0.000 ms at a time"
        );
    }
}
