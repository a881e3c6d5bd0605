//! The latency of memory by timed loads, where no counter gives it.
//!
//! Problem: a virtual machine and many boards have no counter outside the cores that can be read.
//! Latency can still be measured: by loads that miss.
//! Rule: a thread makes a batch of loads ([`solocore_buffers::chase`]) now and then: some pieces of
//! a cycle, each timed by itself. A batch counts with the median of its pieces (an interrupt spoils
//! one of them). It does not count at all if the thread lost its CPU meanwhile, as its context
//! switches or the time without running show. A reading is the average over the batches since the
//! last one. It equals occupancy / requests: ns are the clocks, loads are the requests. The time
//! between batches is random, from half to one and a half of the mean, so that no event at a fixed
//! rate is always or never met.
//! Source: maracas, section IV, for the use of the latency; the probe itself is ours. Cost, given
//! by [`LatencySource::cost`]: the thread's own run time, and 64 bytes for each load (up to twice
//! as much where the hardware fetches lines in pairs). Requests of devices are not counted, but
//! they lengthen the loads.
//! Does not cover: the load of the probe's own CPU, as the probe runs in place of its tasks (let it
//! rotate). Nor a probe that never runs beside an endless real-time task, writes, and other places
//! on the chip.

use super::source::{Cost, LatencySource, Reading, Unit};
use crate::error::LinuxError;
use crate::host::machine;
use crate::sys::{self, Scheduling, tasks};
use solocore_buffers::chase::{self, CYCLE, Chase, LINE_BYTES};
use solocore_buffers::thread as own;
use solocore_buffers::walk::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of loads of a batch. Where more of a block's lines are visited, a hardware
/// prefetcher brings some of them in early: with all 992, loads took 112 ns in place of 135 (a Xeon
/// of Sapphire Rapids, 2026-11-21).
const MOST_OF_BATCH: u64 = (CYCLE as u64) / 3;
/// Maximum number of loads per second: 30 % of a CPU at 150 ns each.
const MOST_LOADS: u64 = 2_000_000;
/// Maximum time in a batch in which the thread does not run; reading its clocks takes some.
const LOST: Duration = Duration::from_micros(5);

/// Options of the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// CPUs on which it runs, in turn.
    pub cpus: Vec<u32>,
    /// Batches per second, 1 to 10000.
    pub rate: u32,
    /// Loads of a piece, at least 8; a batch has at most 330.
    pub loads: u32,
    /// Pieces of a batch, an odd number.
    pub pieces: u32,
    /// Priority under `SCHED_FIFO`, 1 to 99; `None`: an ordinary thread.
    pub priority: Option<u8>,
    /// Size of its buffer in bytes; `None`: derived from the caches here.
    pub buffer: Option<u64>,
    /// Seed of the cycles and the pauses.
    pub seed: u64,
}

impl Config {
    /// The usual options on these CPUs: 100 batches of 5 pieces of 32 loads a second.
    pub fn on(cpus: &[u32]) -> Self {
        Self {
            cpus: cpus.to_vec(),
            rate: 100,
            loads: 32,
            pieces: 5,
            priority: None,
            buffer: None,
            seed: 1,
        }
    }

    fn check(&self) -> Result<(), LinuxError> {
        let wrong = |what: String| Err(LinuxError::Input(what));
        if self.cpus.is_empty() {
            return wrong("the probe has no CPU to run on; name one with --cpu".to_owned());
        }
        let online = machine::online_cpus()?;
        for &cpu in &self.cpus {
            machine::check_online(&format!("CPU {cpu}"), cpu, &online)?;
        }
        if !(1..=10_000).contains(&self.rate) {
            return wrong(format!(
                "--rate {}: too few or too many batches a second; choose 1 to 10000",
                self.rate
            ));
        }
        if self.pieces.is_multiple_of(2) {
            return wrong(format!(
                "{} pieces have no middle one; choose an odd number",
                self.pieces
            ));
        }
        let of_batch = u64::from(self.loads) * u64::from(self.pieces);
        if self.loads < 8 || of_batch > MOST_OF_BATCH {
            return wrong(format!(
                "{} pieces of {} loads are too few or too many; choose at least 8 loads, at most \
                    {} for this number of pieces",
                self.pieces,
                self.loads,
                MOST_OF_BATCH / u64::from(self.pieces)
            ));
        }
        let loads = u64::from(self.rate) * of_batch;
        if loads > MOST_LOADS {
            return wrong(format!(
                "{loads} loads a second would take much of a CPU; choose a lower rate or fewer \
                    loads, {MOST_LOADS} at most"
            ));
        }
        match self.priority {
            Some(p) if !(1..=99).contains(&p) => {
                wrong(format!("there is no real-time priority {p}; choose 1 to 99"))
            }
            _ => Ok(()),
        }
    }

    /// Number of blocks of the buffer.
    fn blocks(&self) -> Result<usize, LinuxError> {
        const LEAST: u64 = 1 << 20;
        const MOST: u64 = 16 << 30;
        let bytes = self.buffer.unwrap_or_else(|| chase::default_bytes(last_level_bytes()));
        if !(LEAST..=MOST).contains(&bytes) {
            return Err(LinuxError::Input(format!(
                "a buffer of {bytes} bytes is too small or too large; choose 1 MiB to 16 GiB"
            )));
        }
        usize::try_from(bytes / chase::BLOCK_BYTES).map_err(|_| {
            LinuxError::Input(format!(
                "a buffer of {bytes} bytes cannot be obtained; choose a smaller one"
            ))
        })
    }
}

/// Size of the largest cache of CPU 0, bytes; 32 MiB where the kernel does not tell.
pub(crate) fn last_level_bytes() -> u64 {
    let mut largest = 0;
    for index in 0..8 {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let kilobytes = text.trim().strip_suffix('K').and_then(|n| n.parse::<u64>().ok());
        largest = largest.max(kilobytes.unwrap_or(0).saturating_mul(1024));
    }
    if largest == 0 { 32 << 20 } else { largest }
}

/// Counts of the thread.
#[derive(Default)]
struct Tally {
    reading: Reading,
    /// CPU time since the first batch.
    cpu_ns: u64,
    begun: Option<Instant>,
    loads: u64,
    failed: Option<String>,
}

#[derive(Default)]
struct Shared {
    tally: Mutex<Tally>,
    stop: AtomicBool,
    pause: AtomicBool,
}

impl Shared {
    /// The counts are consistent at any time, also after a panic of the thread.
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The probe, which runs in a thread of its own until it is dropped.
pub struct Probe {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    tid: u32,
    about: String,
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Probe {
    /// Starts the probe.
    ///
    /// # Errors
    /// A number of the configuration is out of range, this process may not use a CPU, or the
    /// priority is not allowed.
    pub fn start(config: &Config) -> Result<Self, LinuxError> {
        config.check()?;
        let blocks = config.blocks()?;
        let shared = Arc::new(Shared::default());
        let (tell, told) = mpsc::channel();
        let (config_, shared_) = (config.clone(), Arc::clone(&shared));
        let thread =
            std::thread::Builder::new().name("latency-probe".to_owned()).spawn(move || {
                // The buffer is this thread's: it lies near the CPU that first writes it.
                let ready = prepare(&config_);
                let go = ready.is_ok();
                let chase = go.then(|| Chase::new(blocks, config_.seed));
                // Sending fails only if the caller is gone.
                let _ = tell.send(ready.map(|()| tasks::thread_number()));
                if let Some(chase) = chase {
                    work(chase, &config_, &shared_);
                }
            });
        let thread = thread.map_err(|e| {
            LinuxError::of_io("the probe's thread", &e, "raise the limit (ulimit -u)")
        })?;
        let tid = told.recv().map_err(|_| {
            LinuxError::Machine(
                "the probe's thread ended at once; free some memory or choose a smaller buffer"
                    .to_owned(),
            )
        })??;
        let where_ = machine::cpu_list(&config.cpus);
        let about = format!(
            "a probe of {} dependent loads, {} times a second, on CPU {where_}",
            config.loads * config.pieces,
            config.rate
        );
        Ok(Self { shared, thread: Some(thread), tid, about })
    }

    /// Stops the loads until it is called with `false`. Readings meanwhile have no requests.
    pub fn pause(&self, pause: bool) {
        self.shared.pause.store(pause, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Its panic would have been reported by a reading that fails.
            let _ = thread.join();
        }
    }
}

impl LatencySource for Probe {
    fn read(&mut self) -> Result<Reading, LinuxError> {
        let mut tally = self.shared.tally();
        let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        if let Some(why) =
            tally.failed.clone().or_else(|| ended.then(|| "its thread has ended".to_owned()))
        {
            return Err(LinuxError::Machine(format!(
                "the latency probe: {why}; start it again on other CPUs (--cpu)"
            )));
        }
        // Traffic of devices makes the loads wait.
        let reading = Reading { dma_included: true, ..tally.reading };
        tally.reading = Reading::default();
        Ok(reading)
    }

    fn unit(&self) -> Unit {
        Unit::Nanoseconds
    }

    fn about(&self) -> String {
        self.about.clone()
    }

    /// Cost since the first batch.
    fn cost(&self) -> Option<Cost> {
        let tally = self.shared.tally();
        let (cpu_ns, loads) = (tally.cpu_ns, tally.loads);
        let wall_ns = tally.begun.map_or(0, |begun| ns(begun.elapsed())).max(1);
        let bytes = (loads * LINE_BYTES) as f64;
        Some(Cost {
            cpu_ns,
            wall_ns,
            loads,
            cpu_share: cpu_ns as f64 / wall_ns as f64,
            bytes_per_s: bytes / wall_ns as f64 * 1e9,
        })
    }

    fn thread(&self) -> Option<u32> {
        Some(self.tid)
    }
}

/// Prepares the thread before its first measurement.
fn prepare(config: &Config) -> Result<(), LinuxError> {
    for &cpu in &config.cpus {
        sys::pin_to(cpu).map_err(|e| {
            LinuxError::of_io(
                &format!("the probe on CPU {cpu}"),
                &e,
                "is it in this process's cpuset?",
            )
        })?;
    }
    if let Some(priority) = config.priority {
        Scheduling::fifo(i32::from(priority)).apply().map_err(|e| {
            LinuxError::of_io(
                &format!("real-time priority {priority}"),
                &e,
                "run as root, or leave --priority out",
            )
        })?;
    }
    Ok(())
}

/// Measures a batch: ns of all its pieces by their median; `None` if the thread was interrupted.
fn batch(time_pieces: impl FnOnce() -> Vec<Duration>) -> Option<u64> {
    let switches = own::switches();
    let (begin, ran) = (Instant::now(), own::run_time());
    let mut times: Vec<u64> = time_pieces().into_iter().map(ns).collect();
    let ran = own::run_time().saturating_sub(ran);
    let passed = begin.elapsed();
    if own::switches() != switches || passed.saturating_sub(ran) > LOST.max(passed / 8) {
        return None;
    }
    times.sort_unstable();
    Some(times[times.len() / 2] * times.len() as u64)
}

/// Measures until it is told to stop.
fn work(mut chase: Chase, config: &Config, shared: &Shared) {
    let mut random = Random::new(config.seed ^ 0x70_726f_6265);
    let (loads, pieces) = (config.loads as usize, config.pieces as usize);
    let of_batch = u64::from(config.loads) * u64::from(config.pieces);
    let mean = 1_000_000_000 / u64::from(config.rate);
    let mut next = Instant::now();
    // Making the buffer does not count as cost of the probe.
    let ran = own::run_time();
    shared.tally().begun = Some(next);
    for turn in 0.. {
        let cpu = config.cpus[turn % config.cpus.len()];
        if config.cpus.len() > 1
            && let Err(e) = sys::pin_to(cpu)
        {
            shared.tally().failed = Some(format!("CPU {cpu} can no longer be used: {e}"));
            return;
        }
        let found = batch(|| chase.time(loads, pieces));
        let mut tally = shared.tally();
        match found {
            Some(time) => {
                tally.reading.occupancy = tally.reading.occupancy.saturating_add(time);
                tally.reading.requests = tally.reading.requests.saturating_add(of_batch);
            }
            None => tally.reading.dropped += 1,
        }
        tally.loads += of_batch;
        tally.cpu_ns = ns(own::run_time().saturating_sub(ran));
        drop(tally);
        // After a long wait for the CPU, missed batches are not made up for.
        next =
            (next + Duration::from_nanos(mean / 2 + random.next_u64() % mean)).max(Instant::now());
        loop {
            if shared.stop.load(Ordering::Acquire) {
                return;
            }
            if shared.pause.load(Ordering::Acquire) {
                std::thread::park();
                next = Instant::now();
                continue;
            }
            match next.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => std::thread::park_timeout(left),
                _ => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Config {
        Config::on(&crate::sys::tasks::affinity_of(0).unwrap())
    }

    /// Reads until a reading has requests.
    fn first(probe: &mut Probe) -> Reading {
        loop {
            let reading = probe.read().unwrap();
            if reading.requests > 0 {
                return reading;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn it_measures_and_says_what_it_costs() {
        let config = Config { rate: 1000, buffer: Some(1 << 20), ..here() };
        let mut probe = Probe::start(&config).unwrap();
        let reading = first(&mut probe);
        let latency = reading.latency().unwrap();
        assert!(latency > 5.0 && latency < 1e6, "{latency} ns");
        assert!(reading.dma_included && reading.requests.is_multiple_of(160), "{reading:?}");
        let cost = probe.cost().unwrap();
        assert!(cost.cpu_ns > 0 && cost.cpu_ns < cost.wall_ns, "{cost:?}");
        assert!(cost.loads >= reading.requests && cost.bytes_per_s > 0.0);
        assert_eq!(probe.unit(), Unit::Nanoseconds);
        assert!(probe.thread().is_some_and(|tid| tid != tasks::thread_number()));
    }

    #[test]
    fn a_reading_takes_what_it_tells() {
        // At one batch a second, the second reading comes before the second batch.
        let mut probe = Probe::start(&Config { rate: 1, buffer: Some(1 << 20), ..here() }).unwrap();
        let reading = first(&mut probe);
        assert_eq!(reading.requests, 160);
        let again = probe.read().unwrap();
        assert_eq!((again.requests, again.occupancy, again.latency()), (0, 0, None));
    }

    #[test]
    fn a_paused_probe_makes_no_loads() {
        let mut probe =
            Probe::start(&Config { rate: 10_000, buffer: Some(1 << 20), ..here() }).unwrap();
        first(&mut probe);
        probe.pause(true);
        // Only the batch under way may still end, whenever that is.
        let before = probe.cost().unwrap().loads;
        std::thread::sleep(Duration::from_millis(20));
        assert!(probe.cost().unwrap().loads <= before + 160);
        let _ = probe.read().unwrap();
        probe.pause(false);
        first(&mut probe);
    }

    #[test]
    fn a_probe_that_has_ended_is_an_error() {
        let mut probe = Probe::start(&Config { buffer: Some(1 << 20), ..here() }).unwrap();
        probe.shared.tally().failed = Some("CPU 9 can no longer be used".to_owned());
        assert!(probe.read().unwrap_err().to_string().contains("CPU 9"));
        let mut probe = Probe::start(&Config { buffer: Some(1 << 20), ..here() }).unwrap();
        probe.shared.stop.store(true, Ordering::Release);
        let thread = probe.thread.take().unwrap();
        thread.thread().unpark();
        thread.join().unwrap();
        assert!(probe.read().unwrap_err().to_string().contains("has ended"));
    }

    #[test]
    fn senseless_numbers_are_refused() {
        let good = here();
        for (wrong, word) in [
            (Config { cpus: vec![], ..good.clone() }, "no CPU"),
            (Config { cpus: vec![9999], ..good.clone() }, "CPU 9999 is not online"),
            (Config { rate: 0, ..good.clone() }, "batches"),
            (Config { rate: 10_001, ..good.clone() }, "batches"),
            (Config { loads: 7, ..good.clone() }, "loads"),
            (Config { loads: 67, ..good.clone() }, "at most 66"),
            (Config { loads: u32::MAX, pieces: 3, ..good.clone() }, "at most 110"),
            (Config { pieces: 4, ..good.clone() }, "odd"),
            (Config { pieces: 0, ..good.clone() }, "odd"),
            (Config { pieces: u32::MAX, ..good.clone() }, "too many"),
            (Config { rate: 10_000, loads: 66, ..good.clone() }, "much of a CPU"),
            (Config { priority: Some(0), ..good.clone() }, "priority 0"),
            (Config { priority: Some(100), ..good.clone() }, "priority 100"),
            (Config { buffer: Some(0), ..good.clone() }, "buffer"),
            (Config { buffer: Some(u64::MAX), ..good.clone() }, "buffer"),
        ] {
            let error = Probe::start(&wrong).err().unwrap();
            assert!(
                matches!(&error, LinuxError::Input(t) if t.contains(word) && t.contains("; ")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_batch_counts_with_its_middle_piece() {
        // The machine may take the CPU away at any time: not always.
        let times = || [70, 5000, 60, 50, 65].map(Duration::from_nanos).to_vec();
        let found = (0..1000).find_map(|_| batch(times));
        assert_eq!(found, Some(65 * 5));
    }

    #[test]
    fn a_batch_that_lost_its_cpu_does_not_count() {
        for _ in 0..20 {
            let found = batch(|| {
                std::thread::sleep(Duration::from_micros(1));
                vec![Duration::from_nanos(50); 3]
            });
            assert_eq!(found, None, "the CPU was given up in the middle");
        }
    }
}
