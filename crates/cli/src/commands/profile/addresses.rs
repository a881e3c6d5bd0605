//! Hot pages of this machine, by samples of the addresses that a program accesses.
//!
//! Rule: a start apart from the counted jobs is sampled (`solocore_linux::count::sample`). The
//! steps by which its memory came to be go through the same names of regions as the emulator's
//! guest ([`Regions`]). So a sample falls on a page of the profile, or is said to fall on none.
//! Samples are written unchanged, and change no other number.
//! Does not cover: pages of children, and of programs in the place of the first.

use crate::args::ProfileArgs;
use crate::fail::Failure;
use solocore_linux::count::{AddressEvent, Refused, Start, Step, sample as steps};
use solocore_model::Profile;
use solocore_model::profile::{AddressSamples, PageName, SampledPage};
use solocore_profile::Regions;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Where the kernel shows its units of counters.
const DEVICES: &str = "/sys/bus/event_source/devices";
/// Bytes of a page, as the emulator's profile counts them.
const PAGE: u64 = 4096;

/// The event to sample, where it was asked for; notes about it for users go into `said`.
pub fn event(
    args: &ProfileArgs,
    cpu: u32,
    said: &mut Vec<String>,
) -> Result<Option<AddressEvent>, Failure> {
    let Some(period) = args.counting.sample_addresses else { return Ok(None) };
    let period = (period > 0).then_some(period);
    let (event, why) = AddressEvent::find(Path::new(DEVICES), cpu, period);
    said.extend(why.map(|why| format!("addresses of page faults are sampled: {why}")));
    Ok(Some(event))
}

/// The address space of the sampled process, and samples by page.
#[derive(Default)]
struct Space {
    regions: Regions,
    samples: HashMap<PageName, u64>,
}

impl Space {
    fn step(&mut self, step: Step) {
        let end = |start: u64, length: u64| start.saturating_add(length);
        match step {
            Step::Given { start, length, offset, writable, name } => {
                self.regions.give(start, end(start, length), offset, writable, &name);
            }
            Step::Mapped { start, length, writable, file } => {
                self.regions.map(start, length, writable, file);
            }
            Step::Unmapped { start, length } => self.regions.unmap(start, end(start, length)),
            Step::Break(end) => self.regions.set_break(end),
            Step::Access(address) => {
                let (region, offset) = self.regions.resolve(address & !(PAGE - 1));
                let region = self.regions.regions[region as usize].name.clone();
                let page = PageName { region, offset: offset / PAGE };
                *self.samples.entry(page).or_default() += 1;
            }
        }
    }
}

/// Samples one start.
pub fn sample(
    event: &AddressEvent,
    start: &Start<'_>,
    cpu: u32,
    profile: &Profile,
) -> Result<AddressSamples, Refused> {
    let space = Arc::new(Mutex::new(Space::default()));
    let follows = Arc::clone(&space);
    let sampled = steps(start, cpu, event, move |step| {
        if let Ok(mut space) = follows.lock() {
            space.step(step);
        }
    })?;
    let samples = space.lock().map(|mut s| std::mem::take(&mut s.samples)).unwrap_or_default();
    let pages = ranked(samples, profile);
    Ok(AddressSamples {
        event: event.name.clone(),
        stands_in: event.stands_in.clone(),
        period: event.period,
        samples: sampled.samples,
        elsewhere: sampled.elsewhere,
        lost: sampled.lost,
        throttled: sampled.throttled,
        matched: pages.iter().filter(|p| p.rank.is_some()).map(|p| p.samples).sum(),
        pages,
    })
}

/// Pages with the most samples first, each with its place in the profile.
fn ranked(samples: HashMap<PageName, u64>, profile: &Profile) -> Vec<SampledPage> {
    let places: HashMap<&PageName, u64> =
        profile.pages.iter().zip(0u64..).map(|(page, at)| (&page.name, at)).collect();
    let of = |(name, samples): (PageName, u64)| {
        let rank = places.get(&name).copied();
        SampledPage { name, samples, rank }
    };
    let mut pages: Vec<SampledPage> = samples.into_iter().map(of).collect();
    pages.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.name.cmp(&b.name)));
    pages
}
