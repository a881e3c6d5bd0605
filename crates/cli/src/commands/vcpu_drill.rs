//! `solocore vcpu drill`: the scheduler fails on purpose, and the kernel's own must take over each
//! time, with nothing left behind.
//!
//! Rule: BPF's objects are counted before anything is loaded and after all of it is gone. The
//! memory that the kernel holds for itself is read after the first tenth of the rounds, when
//! one-time allocations are made, and after the last. More than a page a round, or an object more
//! than before, is a leak.

use crate::args::Format;
use crate::args::vcpu::DrillArgs;
use crate::fail::Failure;
use crate::print::print;
use crate::progress::{Progress, stopped};
use clap::ValueEnum;
use serde::Serialize;
use solocore_linux::schedule::vcpus::drill::{Drill, Fault, Memory};
use solocore_linux::{Instance, host::machine};
use solocore_model::files;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Longest time that the kernel may need to free unused objects.
const FREED: Duration = Duration::from_secs(10);

/// Time without a freed object after which all are taken to be freed.
const REST: Duration = Duration::from_secs(1);

/// Results of one kind of fault.
#[derive(Clone, Debug, Serialize)]
struct OfFault {
    fault: String,
    times: u32,
    /// Longest time from the fault until the kernel's scheduler had taken over.
    longest_ms: f64,
    /// Last message of the kernel.
    said: String,
}

/// Results of a drill.
#[derive(Debug, Serialize)]
struct Found {
    format: &'static str,
    times: u32,
    faults: Vec<OfFault>,
    /// Programs, maps and links of BPF in the kernel before and after.
    before: [u32; 3],
    after: [u32; 3],
    /// Number of rounds before the first reading of the memory; the second is at the end.
    memory_from_round: u32,
    memory_from: Memory,
    memory_to: Memory,
    /// Whether no object is left behind.
    clean: bool,
}

/// Runs the drill.
pub fn run(args: &DrillArgs) -> Result<ExitCode, Failure> {
    if args.faults.contains(&Fault::Stall) && args.pids.is_empty() {
        return Err(Failure::Input(
            "--faults stall needs a thread that is ready to run; give a process that computes \
            with --pid"
                .to_owned(),
        ));
    }
    machine::check_privileges()?;
    let instance = Instance::take()?;
    let before = at_rest();
    let mut drill = Drill::load(&args.pids)?;
    let mut found = Found {
        format: "solocore-vcpu-drill/1",
        times: 0,
        faults: Vec::new(),
        before,
        after: before,
        memory_from_round: 0,
        memory_from: Memory::now(),
        memory_to: Memory::default(),
        clean: false,
    };
    let progress = Progress::new("drill");
    for of in args.faults.iter().cycle().take(args.times as usize) {
        if stopped() {
            break;
        }
        round(&mut drill, *of, &mut found)?;
        if found.times == args.times.div_ceil(10) {
            (found.memory_from_round, found.memory_from) = (found.times, Memory::now());
        }
        progress.share(f64::from(found.times) / f64::from(args.times.max(1)));
    }
    found.memory_to = Memory::now();
    drop(progress);
    drop(drill);
    drop(instance);
    found.after = settled(before);
    found.clean = is_clean(&found);
    match args.format {
        Format::Json => print(&files::to_json(&found))?,
        Format::Text => print(&text(&found))?,
    }
    Ok(ExitCode::from(u8::from(!found.clean)))
}

fn round(drill: &mut Drill, fault: Fault, found: &mut Found) -> Result<(), Failure> {
    let name = fault.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
    let outcome = drill
        .round(fault)
        .map_err(|e| Failure::from(e).of(&format!("round {}, {name}", found.times + 1)))?;
    let ms = outcome.took.as_secs_f64() * 1e3;
    found.times += 1;
    match found.faults.iter_mut().find(|f| f.fault == name) {
        Some(f) => {
            f.times += 1;
            f.longest_ms = f.longest_ms.max(ms);
            f.said = outcome.said;
        }
        None => {
            found.faults.push(OfFault { fault: name, times: 1, longest_ms: ms, said: outcome.said })
        }
    }
    Ok(())
}

/// Number of BPF's objects, once no more of them are freed: a scheduler that has just ended leaves
/// some for a moment.
fn at_rest() -> [u32; 3] {
    let begun = Instant::now();
    let mut seen = machine::bpf_objects();
    loop {
        std::thread::sleep(REST);
        let now = machine::bpf_objects();
        if now == seen || begun.elapsed() > FREED {
            return now;
        }
        seen = now;
    }
}

/// Number of BPF's objects, once they are no more than before; the kernel frees them with a delay.
fn settled(before: [u32; 3]) -> [u32; 3] {
    let begun = Instant::now();
    loop {
        let after = machine::bpf_objects();
        if after.iter().zip(before).all(|(after, before)| *after <= before)
            || begun.elapsed() > FREED
        {
            return after;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
}

fn is_clean(found: &Found) -> bool {
    let rounds = u64::from(found.times - found.memory_from_round.min(found.times));
    // Less than a page a round; below 100 rounds, other programs change more memory than that.
    let memory = rounds < 100 || found.memory_to.grown_since(&found.memory_from) < 4 * rounds;
    memory && found.after.iter().zip(found.before).all(|(after, before)| *after <= before)
}

fn text(found: &Found) -> String {
    let mut out = match found.times {
        0 => String::new(),
        times => format!("failed {times} times, and the kernel's scheduler took over each time\n"),
    };
    for f in &found.faults {
        out += &format!(
            "  {}: {} times, within {:.1} ms; last: {}\n",
            f.fault, f.times, f.longest_ms, f.said
        );
    }
    out += &format!(
        "programs, maps, links of BPF: {:?} before, {:?} after\n",
        found.before, found.after
    );
    let kib = |m: &Memory| {
        format!(
            "available {}, unreclaimable slab {}, per CPU {}, vmalloc {}",
            m.available_kib, m.slab_kib, m.per_cpu_kib, m.vmalloc_kib
        )
    };
    out += &format!(
        "memory, KiB, after {} rounds: {}\n",
        found.memory_from_round,
        kib(&found.memory_from)
    );
    out += &format!("memory, KiB, after {} rounds: {}\n", found.times, kib(&found.memory_to));
    out + if found.clean { "no object is left behind\n" } else { "OBJECTS ARE LEFT BEHIND\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(times: u32, grown_kib: u64, after: [u32; 3]) -> Found {
        let memory_from = Memory { slab_kib: 1000, ..Memory::default() };
        Found {
            format: "",
            times,
            faults: Vec::new(),
            before: [3, 2, 1],
            after,
            memory_from_round: times / 10,
            memory_from,
            memory_to: Memory { slab_kib: 1000 + grown_kib, ..memory_from },
            clean: false,
        }
    }

    #[test]
    fn what_is_a_leak() {
        assert!(is_clean(&found(1000, 3599, [3, 2, 1])) && is_clean(&found(1000, 0, [2, 2, 0])));
        assert!(!is_clean(&found(1000, 3600, [3, 2, 1])) && !is_clean(&found(1000, 0, [3, 3, 1])));
        // A few rounds prove nothing about memory, but they do about objects.
        assert!(is_clean(&found(10, 5000, [3, 2, 1])) && !is_clean(&found(1, 0, [4, 2, 1])));
    }
}
