//! Gathers the counts of the threads, and writes them at the end.

use crate::chains::Gathered;
use crate::clock::clock_ns;
use crate::code::Code;
use crate::state::{Global, THREADS, Thread};
use solocore_cache::Private;
use solocore_cache::contract::{PartFile, Raw, RawPage};
use std::sync::atomic::Ordering::Relaxed;

impl Global {
    pub(super) fn code_of(&mut self, address: u64) -> &'static Code {
        let (region, offset) = self.frames.regions.resolve(address);
        self.code
            .entry((region, offset))
            .or_insert_with(|| Box::leak(Box::new(Code { region, offset })))
    }

    /// Drops the lines of ranges that other threads unmapped; their frames are gone already.
    pub(super) fn drop_unmapped(&mut self, thread: &mut Thread) {
        let shift = self.geometry.line_shift;
        let gone = &self.unmaps[thread.unmaps_seen..];
        let inside = |line: u64| {
            gone.iter().any(|&(start, end)| (start >> shift..end >> shift).contains(&line))
        };
        thread.private.l1i.drain(inside);
        thread.private.l1d.drain(inside);
        thread.last_fetch = u64::MAX;
        thread.unmaps_seen = self.unmaps.len();
    }

    /// Retires the pages of a range that are gone or replaced: their lines in the thread's caches
    /// are written back, and new pages there get new frames.
    pub(super) fn retire(&mut self, t: &mut Thread, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (page, line) = (self.geometry.page_shift, self.geometry.line_shift);
        let end = start.saturating_add(len.next_multiple_of(1 << page));
        let recorder = &mut self.recorder;
        let inside = |l: u64| (start >> line..end >> line).contains(&l);
        self.shared.drain(&mut t.private, &mut self.frames, inside, false, &mut |access| {
            recorder.push(access)
        });
        t.last_fetch = u64::MAX;
        self.frames.forget(start >> page, (end - 1) >> page);
        if self.threads > 1 {
            self.unmaps.push((start, end));
            t.unmaps_seen = self.unmaps.len();
        }
    }

    /// Writes the counts. On `exec` the program may go on (the call can fail), so this can run
    /// twice.
    pub(super) fn finish(&mut self, current: &mut Thread, exec: Option<String>) {
        let recorder = &mut self.recorder;
        let mut privates: Vec<*const Private> = Vec::new();
        let mut gathered = Gathered::default();
        for slot in &THREADS {
            let at = slot.load(Relaxed);
            if at.is_null() {
                continue;
            }
            let t = if std::ptr::eq(at, current) {
                &mut *current
            } else {
                // SAFETY: a leaked box; at exit QEMU has stopped every vCPU, and at exec the kernel
                // is about to end the other threads; a count that is off by one there does no harm.
                unsafe { &mut *at }
            };
            self.shared
                .drain(&mut t.private, &mut self.frames, |_| true, true, &mut |a| recorder.push(a));
            gathered.add(&t.chains, &t.private, &self.geometry);
            privates.push(&raw const t.private);
        }
        // SAFETY: pointers into the leaked boxes above; nothing changes them while the lock is
        // held.
        let counts = self.shared.finish(privates.iter().map(|p| unsafe { &**p }));
        let instructions = counts.instructions;
        let trace_records = recorder.end();
        let raw = Raw {
            regions: self.frames.regions.regions.clone(),
            pages: self.pages(),
            code: gathered.code,
            contexts: gathered.contexts,
            calls: gathered.calls,
            chains_cut: gathered.cut,
            counts,
            threads: self.threads,
            children: self.children,
            exec,
            trace_records,
            trace_cycles: self.recorder.cycles,
            trace_truncated: self.recorder.truncated,
            trace_error: self.recorder.error.as_ref().map(ToString::to_string),
            started: self.part.started,
            ended_ns: clock_ns(),
            beside_children: self.part.beside_children(instructions),
            calls_beside_children: self.part.calls_beside_children,
            looked: self.files.looked(),
            owned: self.files.owned(),
            not_covered: self.files.names_not_covered(),
            not_whole: self.files.not_whole(),
        };
        let output = self.config.file(PartFile::Raw, self.part.number);
        if let Err(error) = solocore_model::files::write_json(&output, &raw) {
            // The profiler reports it; the trace is of no use now, and its room is.
            let _ = std::fs::remove_file(self.config.file(PartFile::Trace, self.part.number));
            let reason = match error {
                solocore_model::ModelError::Write { source, .. } => source.to_string(),
                other => other.to_string(),
            };
            let _ = std::fs::write(self.config.error(), reason);
        }
    }

    fn pages(&self) -> Vec<RawPage> {
        let counted = self.frames.names.iter().enumerate();
        counted
            .map(|(frame, &(region, offset))| {
                let counts = self.shared.pages.get(frame).cloned().unwrap_or_default();
                RawPage {
                    region,
                    offset,
                    references: counts.references,
                    llc_reads: counts.llc_reads,
                    llc_writes: counts.llc_writes,
                    lines: self.shared.lines_touched(frame),
                }
            })
            .collect()
    }
}
