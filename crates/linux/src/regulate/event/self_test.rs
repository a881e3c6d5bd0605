//! A test of an event with known traffic.
//!
//! Rule: a counter on a CPU of each type sees traffic of a known amount (`known`). An event of
//! misses that counts less than half of the reads is refused; its counts of other kinds are
//! reported. `doctor` tries each CPU, because each has counters of its own.
//! Does not cover: whether an event counts more than it should (hardware); prefetchers may.

use super::known::{Kind, Maker, Memory, TriedCpu, TriedOn, measure, try_all};
use super::{Code, Event};
use crate::error::LinuxError;
use crate::sys::{self, PERF_DISABLED, PerfAttr, Whom};
use solocore_buffers::{Mapping, PAGE};
use std::os::fd::OwnedFd;

impl Event {
    /// Counts known traffic. Returns the number of accesses that was made, and the number that was
    /// counted.
    ///
    /// # Errors
    /// The event cannot be opened, or it counts less than half or (software) more than twice the
    /// traffic.
    pub fn self_test(&self) -> Result<(u64, u64), LinuxError> {
        self.on_each_type(|cpu, code| self.test(cpu, code, false))
    }

    /// As [`Self::self_test`], on each of these CPUs by itself.
    ///
    /// # Errors
    /// There is not enough memory. A CPU whose counter fails has an error of its own.
    pub fn self_test_of_cpus(&self, cpus: &[u32]) -> Result<Vec<TriedCpu>, LinuxError> {
        if cpus.is_empty() {
            return Ok(Vec::new());
        }
        let mut memory = Memory::for_cpus(cpus)?;
        let mut on = |cpu: u32| {
            let code = self.elsewhere.get(&cpu).copied().unwrap_or(self.code);
            let tried = || {
                let event = self.open(code)?;
                self.reads(&mut || self.read(&event), &mut memory)
            };
            (cpu, sys::only_on_cpu(cpu, tried).ok())
        };
        Ok(cpus.iter().map(|&cpu| on(cpu)).collect())
    }

    /// Makes reads that no cache answers, and judges their count.
    fn reads(
        &self,
        read: &mut impl FnMut() -> Result<u64, LinuxError>,
        maker: &mut impl Maker,
    ) -> Result<(u64, u64), LinuxError> {
        maker.prepare();
        let (made, counted) = measure(read, || maker.make(Kind::Reads))?.unwrap_or_default();
        self.judge(made, counted)
    }

    /// The same for an event of writes: lines are written, and pushed out by others.
    ///
    /// # Errors
    /// As [`Self::self_test`].
    pub fn self_test_of_writes(&self) -> Result<(u64, u64), LinuxError> {
        self.on_each_type(|cpu, code| self.test(cpu, code, true))
    }

    /// Counts of each kind of traffic, for one CPU of each type.
    ///
    /// # Errors
    /// The event cannot be opened or read, or there is not enough memory.
    pub fn kinds_counted(&self) -> Result<Vec<TriedOn>, LinuxError> {
        let on = |(cpu, code): (Option<u32>, Code)| {
            let kinds = on_cpu(cpu, || {
                let event = self.open(code)?;
                let mut memory = Memory::for_cpu(cpu.unwrap_or(0), true)?;
                try_all(&mut || self.read(&event), &mut memory)
            })?;
            Ok(TriedOn { cpu, kinds })
        };
        self.types().into_iter().map(on).collect()
    }

    /// A CPU of each type, and the event there; no CPU where all are of one type.
    fn types(&self) -> Vec<(Option<u32>, Code)> {
        let mut seen = Vec::new();
        let mut types = Vec::new();
        for (row, cpu) in self.known.iter().flat_map(|t| t.cpus.iter().map(|&cpu| (t.row, cpu))) {
            let code = self.elsewhere.get(&cpu).copied().unwrap_or(self.code);
            if !seen.contains(&(row, code)) {
                seen.push((row, code));
                types.push((Some(cpu), code));
            }
        }
        if types.len() > 1 { types } else { vec![(None, self.code)] }
    }

    fn on_each_type(
        &self,
        test: impl Fn(Option<u32>, Code) -> Result<(u64, u64), LinuxError>,
    ) -> Result<(u64, u64), LinuxError> {
        let mut all = (0, 0);
        for (cpu, code) in self.types() {
            let (made, counted) = on_cpu(cpu, || test(cpu, code))?;
            all = (all.0 + made, all.1 + counted);
        }
        Ok(all)
    }

    fn fail(&self, what: &str) -> LinuxError {
        let name = &self.name;
        LinuxError::Machine(format!(
            "event {name}: {what}; choose another --event (docs/events.md)"
        ))
    }

    /// Opens a counter for this thread.
    fn open(&self, code: Code) -> Result<OwnedFd, LinuxError> {
        let attr = self.attributes_of(code, 0);
        let attr = PerfAttr { flags: attr.flags & !PERF_DISABLED, ..attr };
        sys::perf_open(&attr, Whom::Me).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => {
                self.fail("this machine has no such counter")
            }
            Some(libc::EACCES | libc::EPERM) => {
                self.fail(&format!("{e}: CAP_PERFMON is missing; run as root"))
            }
            _ => self.fail(&e.to_string()),
        })
    }

    fn read(&self, event: &OwnedFd) -> Result<u64, LinuxError> {
        sys::perf_read(event)
            .map_err(|e| self.fail(&format!("cannot be read: {e} (is the counter in use?)")))
    }

    fn test(&self, cpu: Option<u32>, code: Code, writes: bool) -> Result<(u64, u64), LinuxError> {
        let event = self.open(code)?;
        let mut read = || self.read(&event);
        let seen = if self.is_software() {
            measure(&mut read, touch_pages)?
        } else {
            // A part of the cache is enough, if the event sees half of the reads then.
            let mut memory = Memory::for_cpu(cpu.unwrap_or(0), false)?;
            if !writes {
                return self.reads(&mut read, &mut memory);
            }
            memory.prepare();
            measure(&mut read, || {
                let made = memory.make(Kind::Stores)?;
                memory.prepare();
                Some(made)
            })?
        };
        let (expected, counted) = seen.unwrap_or_default();
        if self.name == "major-faults" {
            return Ok((0, counted));
        }
        self.judge(expected, counted)
    }

    fn judge(&self, expected: u64, counted: u64) -> Result<(u64, u64), LinuxError> {
        if counted < expected / 2 || (self.is_software() && counted > expected * 2) {
            return Err(self.fail(&format!("counted {counted} where {expected} were made")));
        }
        Ok((expected, counted))
    }
}

/// Runs on this CPU, or anywhere.
fn on_cpu<T>(cpu: Option<u32>, what: impl FnOnce() -> T) -> T {
    match cpu {
        Some(cpu) => sys::on_cpu(cpu, what),
        None => what(),
    }
}

/// Touches fresh pages, one fault each; returns their number, or nothing without memory. An
/// allocator may give pages that the process has had before, which fault no more.
fn touch_pages() -> Option<u64> {
    // Below a huge page.
    const PAGES: usize = 256;
    let mut memory = Mapping::untouched(PAGES * PAGE).ok()?;
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
    Some(PAGES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It fails if the pages come from an allocator: after a large block it takes no more of the
    /// kernel.
    #[test]
    fn pages_are_fresh_each_time() {
        drop(std::hint::black_box(vec![1u8; 16 << 20]));
        let faults = || {
            let usage = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let rest = usage.rsplit_once(") ").unwrap().1;
            rest.split(' ').nth(7).unwrap().parse::<u64>().unwrap()
        };
        for _ in 0..2 {
            let before = faults();
            let made = touch_pages().unwrap();
            assert!(faults() - before >= made / 2, "{} of {made}", faults() - before);
        }
    }

    #[test]
    fn each_type_is_tried_once() {
        let part = |cpu: u32, part: &str| {
            format!("processor: {cpu}\nCPU implementer: 0x41\nCPU part: {part}\n\n")
        };
        let text = part(0, "0xd05") + &part(1, "0xd08") + &part(2, "0xd08");
        let event = Event::find("llc-misses", &text).unwrap();
        let types: Vec<_> = event.types().iter().map(|(cpu, code)| (*cpu, code.config)).collect();
        assert_eq!(types, [(Some(0), 0x37), (Some(1), 0x17)]);
        let seen = event.on_each_type(|cpu, _| Ok((100, 50 + u64::from(cpu.unwrap())))).unwrap();
        assert_eq!(seen, (200, 101));
        assert_eq!(Event::find("r11", "").unwrap().types()[0].0, None);
        let same_code = part(0, "0xd05") + &part(1, "0xd0b");
        assert_eq!(Event::find("llc-misses", &same_code).unwrap().types().len(), 2);
        assert_eq!(Event::find("r11", &same_code).unwrap().types().len(), 1);
    }

    #[test]
    fn what_counts_too_little_is_refused() {
        let event = Event::find("r412e", "").unwrap();
        assert_eq!(event.judge(100, 50).unwrap(), (100, 50));
        assert_eq!(event.judge(100, 900).unwrap(), (100, 900), "prefetchers add theirs");
        let error = event.judge(100, 49).unwrap_err().to_string();
        assert!(error.contains("counted 49 where 100") && error.contains("--event"), "{error}");
        assert!(Event::find("page-faults", "").unwrap().judge(100, 201).is_err());
    }

    #[test]
    fn faults_are_counted_or_refused() {
        match Event::find("page-faults", "").unwrap().self_test() {
            Ok((made, counted)) => assert!(counted >= made / 2),
            Err(e) => assert!(e.to_string().contains("--event"), "{e}"),
        }
    }
}
