//! Decisions of the schedulers, gathered during the run (`bpf/sched_trace.h`).
//!
//! Rule: the programs write each event into a ring of its CPU; [`Rings`] takes the new ones, some
//! twenty times a second. Events that were overwritten before they were read are counted. Does not
//! cover: the order of events of different CPUs at the same time.

use crate::contract::{self, trace_event, trace_ring};
use crate::error::LinuxError;
use crate::regulate::bpf;
use crate::sys::Mapped;
use libbpf_rs::Object;
use solocore_model::sched_trace::{Event, Kind};
use std::mem::offset_of;
use std::sync::Mutex;

/// `TRACE_EVENTS`.
const EVENTS: u64 = contract::TRACE_EVENTS as u64;
/// Bytes of a CPU's ring.
const RING_BYTES: usize = size_of::<trace_ring>();

/// Reads the rings of a scheduler.
pub struct Rings {
    map: Mapped,
    /// Events read so far, by CPU.
    read: Mutex<Vec<u64>>,
}

impl Rings {
    /// The rings of a loaded object with a map `trace_rings` of this number of CPUs.
    ///
    /// # Errors
    /// The map cannot be mapped.
    pub fn open(object: &Object, cpus: u32) -> Result<Self, LinuxError> {
        let map =
            Mapped::new(&bpf::map(object, "trace_rings")?, cpus.max(1) as usize * RING_BYTES)?;
        Ok(Self { map, read: Mutex::new(vec![0; cpus.max(1) as usize]) })
    }

    /// Takes the new events, CPU after CPU, and the number of events that were overwritten before
    /// they were read.
    pub fn take(&self) -> (Vec<Event>, u64) {
        let mut read = self.read.lock().unwrap_or_else(|e| e.into_inner());
        let (mut events, mut lost) = (Vec::new(), 0);
        for (cpu, done) in (0..).zip(read.iter_mut()) {
            lost += self.take_cpu(cpu, done, &mut events);
        }
        (events, lost)
    }

    fn take_cpu(&self, cpu: u32, done: &mut u64, events: &mut Vec<Event>) -> u64 {
        let base = cpu as usize * RING_BYTES;
        let written = self.map.double_word(base);
        let from = (*done).max(written.saturating_sub(EVENTS));
        let begun = events.len();
        let mut unknown = 0;
        for index in from..written {
            match self.event(base, cpu, index) {
                Some(event) => events.push(event),
                None => unknown += 1,
            }
        }
        // Meanwhile the oldest event may have been overwritten, and the next one may be in the
        // making.
        let oldest = (self.map.double_word(base) + 1).saturating_sub(EVENTS);
        let spoilt = usize::try_from(oldest.saturating_sub(from))
            .unwrap_or(usize::MAX)
            .min(events.len() - begun);
        events.drain(begun..begun + spoilt);
        let lost = from - *done + spoilt as u64 + unknown;
        *done = written;
        lost
    }

    fn event(&self, base: usize, cpu: u32, index: u64) -> Option<Event> {
        let place =
            offset_of!(trace_ring, events) + size_of::<trace_event>() * (index % EVENTS) as usize;
        let word = |field: usize| self.map.double_word(base + place + field);
        let half = |field: usize| self.map.word(base + place + field);
        Some(Event {
            time_ns: word(offset_of!(trace_event, time_ns)),
            cpu,
            event: Kind::from_number(half(offset_of!(trace_event, kind)))?,
            id: half(offset_of!(trace_event, id)),
            a: word(offset_of!(trace_event, a)),
            b: word(offset_of!(trace_event, b)),
        })
    }
}
