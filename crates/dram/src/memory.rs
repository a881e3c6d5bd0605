//! The memory as a machine sees it: requests in, answers out, and the counters of a PMU.
//!
//! Time is in clock cycles ([`Memory::clock`] gives the period). A request arrives in a cycle and
//! is seen by the controller in the next; [`Completion::at`] is the cycle in which its data have
//! been handed over. Writes are answered when their data are in the DRAM, or at once when a waiting
//! write of the line absorbs them.

use crate::channel::Channel;
use crate::command::Command;
use crate::map::{AddressMap, Place};
use crate::request::{Completion, Counters, Request};
use crate::spec::Spec;
use solocore_model::{ModelError, Time};
use std::path::Path;

/// Settings of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Younger row hits that may pass an older request of their bank; `None`: any number.
    pub row_hit_cap: Option<u32>,
    /// Cores and devices that send requests.
    pub cores: u16,
}

impl Options {
    /// Row hits that may pass an older request, unless stated.
    pub const ROW_HIT_CAP: u32 = 4;
}

impl Default for Options {
    fn default() -> Self {
        Self { row_hit_cap: Some(Self::ROW_HIT_CAP), cores: 1 }
    }
}

/// Channels of DRAM with their controllers.
#[derive(Debug)]
pub struct Memory {
    map: AddressMap,
    channels: Vec<Channel>,
    clock: Time,
    now: u64,
}

impl Memory {
    /// An idle memory with closed rows.
    ///
    /// # Errors
    /// Errors of [`Spec::check`]; a spec that was read from a file has passed it.
    pub fn new(spec: &Spec, options: Options) -> Result<Self, ModelError> {
        let invalid = |(_, message)| ModelError::Invalid {
            path: Path::new("memory").to_owned(),
            line: None,
            message,
        };
        spec.check().map_err(invalid)?;
        let map = AddressMap::new(&spec.organisation, &spec.map).map_err(invalid)?;
        let cores = usize::from(options.cores.max(1));
        let channel = |i| Channel::new(spec, i, options.row_hit_cap, cores);
        Ok(Self {
            map,
            channels: (0..spec.organisation.channels).map(channel).collect(),
            clock: spec.timing.clock,
            now: 0,
        })
    }

    /// The clock period.
    pub fn clock(&self) -> Time {
        self.clock
    }

    /// The place of an address; addresses beyond the capacity wrap round.
    pub fn place(&self, address: u64) -> Place {
        self.map.place(address)
    }

    /// Takes a request that arrives in cycle `now` (not before an earlier call's time). False if
    /// its queue is full and refuses it: then try again after [`Memory::next_event`].
    ///
    /// # Panics
    /// If `request.core` is not below the number of cores.
    #[inline]
    pub fn enqueue(&mut self, now: u64, request: Request) -> bool {
        debug_assert!(now >= self.now, "time runs forwards");
        self.now = now;
        let mut place = self.map.place(request.address);
        // Addresses that wrap round are the same line.
        let line = u64::from(place.row) << 32 | u64::from(place.column);
        let line = line << 8 | u64::from(place.bank);
        let channel = &mut self.channels[place.channel as usize];
        place.channel = 0;
        channel.run(now);
        channel.enqueue(now, place, line, request)
    }

    /// Has a channel room for a write in cycle `now`? Without room, a refused write is refused
    /// again.
    #[inline]
    pub fn has_room_for_write(&mut self, now: u64, channel: u32) -> bool {
        debug_assert!(now >= self.now, "time runs forwards");
        self.now = now;
        let channel = &mut self.channels[channel as usize];
        channel.run(now);
        channel.accepts(true)
    }

    /// The next cycle with an event; `None` if nothing is under way.
    #[inline]
    pub fn next_event(&mut self) -> Option<u64> {
        self.channels.iter_mut().filter_map(Channel::next_event).min()
    }

    /// A cycle before which no answer comes if no request is added; `None` if nothing is under way.
    /// A machine that calls [`Memory::advance_to_completion`] only from then on loses no answer,
    /// and saves a call for each command.
    #[inline]
    pub fn no_answer_before(&mut self) -> Option<u64> {
        self.channels.iter_mut().filter_map(Channel::no_answer_before).min()
    }

    /// Runs to cycle `until` and appends the answers up to then, earliest first.
    #[inline]
    pub fn advance_to(&mut self, until: u64, out: &mut Vec<Completion>) {
        self.now = self.now.max(until);
        let first = out.len();
        for channel in &mut self.channels {
            channel.run(until);
            channel.answers(until, out);
        }
        if self.channels.len() > 1 {
            out[first..].sort_by_key(|c| c.at);
        }
    }

    /// Runs until there is an answer, but not beyond cycle `limit`; appends the answers of the
    /// cycle at which it stopped, and returns that cycle. Between two events of the surrounding
    /// machine, this costs one call for each answer in place of one for each command.
    #[inline]
    pub fn advance_to_completion(&mut self, limit: u64, out: &mut Vec<Completion>) -> u64 {
        let at = match self.channels.as_mut_slice() {
            [channel] => channel.run_to_answer(limit),
            channels => run_all_to_answer(channels, limit),
        };
        self.advance_to(at, out);
        at
    }

    /// Is there neither a request nor an answer under way?
    pub fn is_idle(&self) -> bool {
        self.channels.iter().all(|c| c.is_idle() && c.next_answer() == u64::MAX)
    }

    /// The counts of a core.
    ///
    /// # Panics
    /// If there is no such core.
    pub fn core(&self, core: u16) -> Counters {
        let mut sum = Counters::default();
        self.channels.iter().for_each(|c| sum.add(&c.counters[usize::from(core)]));
        sum
    }

    /// The counts of all cores.
    pub fn total(&self) -> Counters {
        let mut sum = Counters::default();
        self.channels.iter().flat_map(|c| &c.counters).for_each(|c| sum.add(c));
        sum
    }

    /// Refreshes of all ranks.
    pub fn refreshes(&self) -> u64 {
        self.channels.iter().map(|c| c.refreshes).sum()
    }

    /// Starts or stops recording commands. Recording makes idle time cost its refreshes.
    pub fn record_commands(&mut self, on: bool) {
        self.channels.iter_mut().for_each(|c| c.set_trace(on));
    }

    /// The commands since the last call, by channel, then time.
    pub fn take_commands(&mut self) -> Vec<Command> {
        self.channels.iter_mut().flat_map(Channel::take_trace).collect()
    }
}

/// Steps the channels in the order of their commands until an answer precedes them all.
fn run_all_to_answer(channels: &mut [Channel], limit: u64) -> u64 {
    loop {
        let answer = channels.iter().map(Channel::next_answer).min().unwrap_or(u64::MAX);
        let (mut first, mut which) = (u64::MAX, 0);
        for (i, channel) in channels.iter_mut().enumerate() {
            let at = channel.next_command();
            if at < first {
                (first, which) = (at, i);
            }
        }
        if answer <= first || first > limit {
            return answer.min(limit);
        }
        channels[which].run(first);
    }
}
