//! Progress on stderr and Ctrl-C.

use crate::fail::{self, Failure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use solocore_model::files;
use solocore_profile::Seen;
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// The signal that asks to end; 0: none has come.
static STOP: AtomicI32 = AtomicI32::new(0);
/// Pieces of running work that can be abandoned at any time.
static COMPUTING: AtomicUsize = AtomicUsize::new(0);
/// Signals that ask to end.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Time that running work has to stop by itself.
const GRACE: Duration = Duration::from_millis(400);

/// Ctrl-C, SIGTERM and the end of the terminal (SIGHUP) ask the running work to stop; its changes
/// are then cleaned up. Work that only computes is abandoned if it does not stop by itself
/// ([`computing`]). A process that was started to outlive its terminal (`nohup`) goes on.
pub fn handle_signals() {
    let heard = SIGNALS.into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(signal));
    // Failing only means that the default action stays: the process ends at once.
    let Ok(mut signals) = Signals::new(heard) else { return };
    let thread = || std::thread::Builder::new();
    // Nothing is allocated for a signal: work that allocates gigabytes keeps the kernel from giving
    // more.
    let leaving = thread().spawn(|| {
        while !stopped() {
            std::thread::park();
        }
        leave();
    });
    // Without a thread, the work still stops by itself.
    let leaving = leaving.ok().map(|handle| handle.thread().clone());
    drop(thread().spawn(move || {
        for signal in signals.forever() {
            // The first signal is passed on; later ones are ignored.
            let _ = STOP.compare_exchange(0, signal, SeqCst, SeqCst);
            solocore_profile::stop_child();
            files::stop_waiting();
            leaving.iter().for_each(std::thread::Thread::unpark);
        }
    }));
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: zeros are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: changes nothing; the kernel writes the action, which lives through the call.
    let read = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    read == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Ends the process while it computes. No file is being written at that time, and none is begun.
fn leave() {
    loop {
        std::thread::sleep(GRACE);
        if let Some(_no_writes) = files::without_writes()
            && COMPUTING.load(SeqCst) > 0
        {
            // A terminal that is gone takes nothing, and must not keep the process.
            let _ = writeln!(std::io::stderr(), "solocore: {}", fail::interrupted());
            // Not `exit`, which unmaps a stack: that waits for memory requests of other threads.
            // SAFETY: ends the process at once; nothing is being written, and all that is printed
            // is flushed when it is printed.
            unsafe { libc::_exit(Failure::Interrupted.exit_code().into()) };
        }
    }
}

/// Does work that holds only memory and files of other programs: no child, no setting, no
/// directory. A signal that it does not notice ends the process.
pub fn computing<T>(work: impl FnOnce() -> T) -> T {
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            COMPUTING.fetch_sub(1, SeqCst);
        }
    }
    COMPUTING.fetch_add(1, SeqCst);
    let _done = Done;
    work()
}

/// As [`computing`], in a thread of its own, for work that allocates much memory: the first thread
/// takes signals, and would be in the kernel all that time.
pub fn computing_apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    /// Bytes, the same as for the first thread.
    const STACK: usize = 8 << 20;
    computing(|| {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            match thread.spawn_scoped(scope, work).map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(done)) => done,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(e) => panic!("no thread can be started: {e}"),
            }
        })
    })
}

/// Whether a signal has asked the process to end.
pub fn stopped() -> bool {
    asked().is_some()
}

/// The first signal that asked to end: SIGINT, SIGTERM or SIGHUP.
pub fn asked() -> Option<i32> {
    Some(STOP.load(SeqCst)).filter(|&signal| signal != 0)
}

/// Reports the progress of a profiled program: a plain line after 1, 2, 4, ... seconds, then each
/// minute.
#[derive(Default)]
pub struct Steps {
    next: Cell<Duration>,
}

impl Steps {
    /// Prints a line, if it is time for one.
    pub fn say(&self, seen: Seen) {
        const FIRST: Duration = Duration::from_secs(1);
        const LONGEST: Duration = Duration::from_secs(60);
        let next = self.next.get().max(FIRST);
        if seen.time < next || stopped() {
            return;
        }
        self.next.set(next + next.min(LONGEST));
        eprintln!(
            "  {} s, {} million instructions, {} million references",
            seen.time.as_secs(),
            seen.instructions / 1_000_000,
            seen.references / 1_000_000
        );
    }
}

/// Shows the present step: one line, or a bar on a terminal.
pub struct Progress {
    bar: ProgressBar,
    /// The line for outputs without a terminal, once some work is done.
    line: Option<String>,
    said: Once,
}

impl Progress {
    /// Begins a piece of work.
    pub fn new(what: &str) -> Self {
        let progress = Self::checked(what);
        progress.say();
        progress
    }

    /// Begins work that first reads its input: nothing is printed before [`Progress::share`], so
    /// that a refusal stands alone.
    pub fn checked(what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self {
                bar: ProgressBar::hidden(),
                line: Some(what.to_owned()),
                said: Once::new(),
            };
        }
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
        let plain = std::env::var_os("NO_COLOR").is_some();
        let template = if plain {
            "{msg} [{bar:30}] {percent}% {eta}"
        } else {
            "{msg} [{bar:30.cyan}] {percent}% {eta}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Self { bar, line: None, said: Once::new() }
    }

    fn say(&self) {
        if let Some(line) = &self.line {
            self.said.call_once(|| eprintln!("{line}"));
        }
    }

    /// Announces the next step: a line, or the bar's text on a terminal.
    pub fn say_now(&self, what: &str) {
        if self.line.is_some() {
            eprintln!("{what}");
        } else {
            self.bar.set_message(what.to_owned());
        }
    }

    /// Share done, 0 to 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
    pub fn share(&self, done: f64) {
        self.say();
        self.bar.set_position((done.clamp(0.0, 1.0) * 1000.0) as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
