//! Processes: forked children, and programs that replace others.
//!
//! Problem: a job may be several processes, and none of them may be left out. Rule: each is a part
//! with counts, a trace and a list of files of its own, and with cold caches at its start. A forked
//! child has a copy of the plugin and starts over; a program that replaces another is started under
//! the emulator by the plugin, in the place of the program's own call. A part reports its start, so
//! that one that dies before it writes its counts is noticed. While a child lives, the parent's
//! instructions and system calls are counted: each call may hand the CPU over.
//! Not covered: programs of another instruction set (the part says that they could not be
//! followed).

use crate::chains::Chains;
use crate::files::Files;
use crate::part::Part;
use crate::recorder::Recorder;
use crate::state::{GLOBAL, Global, MANY, THREADS, Thread};
use solocore_cache::contract::PartFile;
use std::cell::RefCell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether this is a child between the fork and its first callback.
static FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The gate's guard of the thread that forks: no other thread is inside the gate meanwhile.
    static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Runs before a fork.
pub extern "C" fn before_fork() {
    if MANY.load(Relaxed)
        && let Some(gate) = GLOBAL.get()
    {
        HELD.with_borrow_mut(|held| *held = gate.lock.lock().ok());
    }
}

/// Runs after a fork, in the parent.
pub extern "C" fn in_parent() {
    HELD.with_borrow_mut(|held| *held = None);
}

/// Runs after a fork, in the child, which has one thread.
pub extern "C" fn in_child() {
    in_parent();
    MANY.store(false, Relaxed);
    FORKED.store(true, Relaxed);
}

/// Whether this is the first callback of a forked child.
pub fn forked() -> bool {
    FORKED.swap(false, Relaxed)
}

impl Global {
    /// Called when the program has forked.
    pub fn child_began(&mut self, t: &Thread) {
        self.children += 1;
        if self.part.living == 0 {
            self.part.since = t.private.instructions;
        }
        self.part.living += 1;
    }

    /// Called when the program has waited for a child.
    pub fn child_ended(&mut self, t: &Thread) {
        if self.part.living == 1 {
            self.part.beside += t.private.instructions.saturating_sub(self.part.since);
        }
        self.part.living = self.part.living.saturating_sub(1);
    }

    /// Starts over in a child that was just forked; its regions stay.
    pub fn begin_child(&mut self, t: &mut Thread) {
        match Part::start(&self.config, Some(self.part.number), true) {
            Ok(part) => self.part = part,
            Err(error) => {
                let _ = std::fs::write(self.config.error(), error.to_string());
                return;
            }
        }
        let trace = self.config.file(PartFile::Trace, self.part.number);
        self.recorder = Recorder::new(trace, self.config.trace_limit);
        self.shared = solocore_cache::Shared::new(&self.geometry);
        self.frames.start_over();
        self.unmaps.clear();
        self.files = Files::default();
        self.threads = 1;
        self.children = 0;
        for slot in &THREADS {
            if !std::ptr::eq(slot.load(Relaxed), t) {
                slot.store(std::ptr::null_mut(), Relaxed);
            }
        }
        let mut chains = std::mem::replace(&mut t.chains, Chains::new());
        chains.start_over();
        *t = Thread { chains, ..Thread::new(self) };
    }

    /// Writes the progress of the process, after `more` further instructions.
    pub fn report(&mut self, more: u64) {
        self.part.reported += more;
        let references: u64 = self.shared.pages.iter().map(|p| p.references).sum();
        let bytes = [self.part.reported.to_le_bytes(), references.to_le_bytes()].concat();
        let _ = std::fs::write(self.config.file(PartFile::Progress, self.part.number), bytes);
    }
}
