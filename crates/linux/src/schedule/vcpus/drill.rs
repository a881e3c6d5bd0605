//! Drills: the scheduler fails on purpose, and the kernel's own must take over.
//!
//! Problem: a scheduler that fails must break nothing but its promises, at any number of failures.
//! Rule: the programs are loaded once. In each round, the scheduler is installed and a fault is
//! provoked; when the kernel's own scheduler has every thread again, its reason is read, and the
//! threads are counted. The kernel's patience with threads that wait is shortened to a second, as a
//! stall would take 20 s otherwise. Does not cover: this process being killed, which
//! tests/vm/guest/vcpu.sh does from outside.

use super::load;
use super::{Options, Request, Vcpus, Wanted, run};
use crate::error::LinuxError;
use crate::host::machine;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time for which a thread may wait during a drill, ms.
const TIMEOUT_MS: u32 = 1000;
/// Longest time that the kernel may need to take over.
const PATIENCE: Duration = Duration::from_secs(60);
const STATE: &str = "/sys/kernel/sched_ext/state";

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Fault {
    /// The scheduler finds an error of its own.
    Error,
    /// The scheduler is removed.
    Exit,
    /// The scheduler runs no thread, until the kernel's watchdog notices; needs --pid.
    Stall,
    /// A CPU goes offline, and comes back.
    Offline,
    /// The verifier refuses the scheduler.
    Refused,
}

/// Outcome of a fault.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time from the fault until the kernel's scheduler had taken over.
    pub took: Duration,
    /// Message of the kernel.
    pub said: String,
}

/// Memory that the kernel uses for itself, in KiB (/proc/meminfo).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// `MemAvailable`.
    pub available_kib: u64,
    /// `SUnreclaim`.
    pub slab_kib: u64,
    /// `Percpu`.
    pub per_cpu_kib: u64,
    /// `VmallocUsed`.
    pub vmalloc_kib: u64,
}

impl Memory {
    /// The present state; values that the kernel does not give are 0.
    #[must_use]
    pub fn now() -> Self {
        Self::of(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
    }

    fn of(text: &str) -> Self {
        let value = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        Self {
            available_kib: value("MemAvailable"),
            slab_kib: value("SUnreclaim"),
            per_cpu_kib: value("Percpu"),
            vmalloc_kib: value("VmallocUsed"),
        }
    }

    /// Growth since `before` of the memory that the kernel cannot give back, KiB.
    #[must_use]
    pub fn grown_since(&self, before: &Self) -> u64 {
        let held = |m: &Self| m.slab_kib + m.per_cpu_kib + m.vmalloc_kib;
        held(self).saturating_sub(held(before))
    }
}

/// A loaded scheduler that fails on request.
pub struct Drill {
    vcpus: Vcpus,
    /// Processes that are each in a VCPU when the scheduler fails.
    pids: Vec<u32>,
}

impl Drill {
    /// Loads the scheduler.
    ///
    /// # Errors
    /// This machine lacks something, or a process does not run.
    pub fn load(pids: &[u32]) -> Result<Self, LinuxError> {
        pids.iter().try_for_each(|&pid| machine::threads_of(pid).map(|_| ()))?;
        Ok(Self { vcpus: Vcpus::load(Options::default(), Some(TIMEOUT_MS))?, pids: pids.to_vec() })
    }

    /// Provokes one fault: the kernel's scheduler has all threads before and after.
    ///
    /// # Errors
    /// The kernel has not taken over, or a process has not survived.
    pub fn round(&mut self, fault: Fault) -> Result<Outcome, LinuxError> {
        let outcome = if fault == Fault::Refused { refused()? } else { self.fail(fault)? };
        let state = state()?;
        if state != "disabled" {
            return Err(wrong(&format!("sched_ext is `{state}` after a fault")));
        }
        for pid in &self.pids {
            machine::threads_of(*pid)
                .map_err(|e| wrong(&format!("a process has not survived: {e}")))?;
        }
        Ok(outcome)
    }

    fn fail(&mut self, fault: Fault) -> Result<Outcome, LinuxError> {
        self.vcpus.install()?;
        for (n, pid) in self.pids.iter().enumerate() {
            let (capacity_ns, period_ns) = (10_000_000, 100_000_000);
            let name = format!("drill-{n}");
            let id = self.vcpus.create(&Wanted {
                name,
                capacity_ns,
                period_ns,
                core: None,
                fixed: false,
                colours: 0,
            })?;
            self.vcpus.bind_process(*pid, Some(id))?;
        }
        let begun = Instant::now();
        let offline = (fault == Fault::Offline).then(Offline::one).transpose()?;
        match fault {
            Fault::Error => self.ask(0)?,
            Fault::Stall => self.ask(1)?,
            Fault::Exit => self.vcpus.scheduler = None,
            Fault::Offline | Fault::Refused => {}
        }
        let said = self.wait(begun)?;
        let took = begun.elapsed();
        drop(offline);
        self.vcpus.uninstall()?;
        Ok(Outcome { took, said })
    }

    fn ask(&self, flags: u32) -> Result<(), LinuxError> {
        run(&self.vcpus.object, "vcpu_fail", &Request { flags, ..super::shared::nothing() })
            .map(|_| ())
    }

    /// Waits until the kernel's scheduler has every thread; returns its reason.
    fn wait(&self, begun: Instant) -> Result<String, LinuxError> {
        while begun.elapsed() < PATIENCE {
            if let Err(said) = self.vcpus.check()
                && state()? == "disabled"
            {
                return Ok(said.to_string());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(wrong("the kernel has not taken over within a minute"))
    }
}

/// Loads a program that the verifier must refuse, as it reads beyond a table's entries.
fn refused() -> Result<Outcome, LinuxError> {
    let begun = Instant::now();
    match load::spoilt() {
        Ok(_) => Err(wrong("the kernel accepts a program that reads beyond its table")),
        Err(said) => Ok(Outcome { took: begun.elapsed(), said: said.to_string() }),
    }
}

fn wrong(what: &str) -> LinuxError {
    LinuxError::Machine(format!("{what}; look at the kernel's log (dmesg)"))
}

fn state() -> Result<String, LinuxError> {
    let text = fs::read_to_string(STATE)
        .map_err(|e| LinuxError::of_io(STATE, &e, "is this kernel without sched_ext?"))?;
    Ok(text.trim().to_owned())
}

/// A CPU that is offline until this is dropped.
struct Offline {
    switch: PathBuf,
}

impl Offline {
    /// Switches off the last CPU that can be switched off.
    fn one() -> Result<Self, LinuxError> {
        let cpus = machine::online_cpus()?;
        let switch = |cpu: &u32| PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
        let found = cpus.iter().rev().map(switch).find(|path| Path::exists(path));
        let switch = found.ok_or_else(|| {
            LinuxError::Machine(
                "no CPU of this machine can be switched off; leave `offline` out".to_owned(),
            )
        })?;
        let off = Self { switch };
        off.write("0")?;
        Ok(off)
    }

    fn write(&self, value: &str) -> Result<(), LinuxError> {
        let fail = |e| {
            LinuxError::of_io(
                &self.switch.display().to_string(),
                &e,
                "leave the fault `offline` out",
            )
        };
        fs::write(&self.switch, value).map_err(fail)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        // It was online a moment ago; the next round would say that it is not.
        let _ = self.write("1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_kernel() {
        let text = "MemTotal:  100 kB\nMemAvailable:     70 kB\nSUnreclaim:  20 kB\nVmallocUsed: 5 \
            kB\nPercpu:  3 kB\n";
        let before = Memory::of(text);
        assert_eq!(
            before,
            Memory { available_kib: 70, slab_kib: 20, per_cpu_kib: 3, vmalloc_kib: 5 }
        );
        let after = Memory { slab_kib: 26, vmalloc_kib: 4, ..before };
        assert_eq!((after.grown_since(&before), before.grown_since(&after)), (5, 0));
        assert_eq!(Memory::of("nothing"), Memory::default());
    }
}
