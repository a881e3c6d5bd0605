//! Keeps a CPU from idling for a moment.
//!
//! Problem: some kernels take no samples of a CPU's timer while it idles, so its silence does not
//! tell whether the timer works. Rule: a thread of the idle class (`SCHED_IDLE`) is bound to the
//! CPU and computes for a little more than a period. Beside ordinary threads the kernel gives it
//! some thousandths of the CPU. If the CPU runs another thread, it does not idle either.
//! Does not cover: engines under which the threads of solocore run before others
//! (`Engine::can_keep_awake`).

use crate::sys::{self, Scheduling, tasks};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The CPUs that are kept awake; none once this is dropped.
#[derive(Default)]
pub(crate) struct Awake {
    stop: Arc<AtomicBool>,
    threads: BTreeMap<u32, JoinHandle<()>>,
}

impl Awake {
    /// Keeps a CPU awake for this time, unless it is done already. Where the kernel refuses the
    /// thread, nothing happens: the next look asks again.
    pub fn keep(&mut self, cpu: u32, time: Duration) {
        if self.threads.get(&cpu).is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let stop = Arc::clone(&self.stop);
        let thread = std::thread::Builder::new().name(format!("solocore-{cpu}"));
        if let Ok(thread) = thread.spawn(move || compute_on(cpu, time, &stop)) {
            self.threads.insert(cpu, thread);
        }
    }
}

/// The threads are not waited for: other threads may keep them from their CPUs. They end by
/// themselves.
impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Computes on a CPU in the idle class, and goes back to the ordinary class and to all CPUs. A
/// thread may hold a lock of the allocator as it ends. It must not wait for a CPU then, because the
/// other threads of solocore would wait with it.
fn compute_on(cpu: u32, time: Duration, stop: &AtomicBool) {
    let Ok(everywhere) = tasks::affinity_of(0) else { return };
    if Scheduling::idle().apply().is_ok() && sys::pin_to(cpu).is_ok() {
        let since = Instant::now();
        while since.elapsed() < time && !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
    let _ = tasks::bind(0, &everywhere);
    let _ = Scheduling::ordinary().apply();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a thread of this process has this name and the idle class.
    fn idles(name: &str) -> bool {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let mut stats = threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")));
        stats.any(|stat| {
            let text = stat.unwrap_or_default();
            let Some((before, after)) = text.rsplit_once(')') else { return false };
            // Field 41 of proc(5) is the policy, and field 3 comes after the name.
            let policy = after.split_whitespace().nth(41 - 3);
            before.ends_with(&format!("({name}"))
                && policy == Some(libc::SCHED_IDLE.to_string().as_str())
        })
    }

    /// Fails when the thread is of another class, or never ends.
    #[test]
    fn a_thread_of_the_idle_class_computes_until_this_is_dropped() {
        let cpu = *tasks::affinity_of(0).unwrap().last().unwrap();
        let (name, since) = (format!("solocore-{cpu}"), Instant::now());
        let mut awake = Awake::default();
        awake.keep(cpu, Duration::from_secs(600));
        while !idles(&name) {
            assert!(since.elapsed() < Duration::from_secs(60), "no such thread");
            awake.keep(cpu, Duration::from_secs(600));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(awake.threads.len(), 1);
        drop(awake);
        while idles(&name) {
            assert!(since.elapsed() < Duration::from_secs(120), "it computes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
