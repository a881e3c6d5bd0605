//! A trace of VCPUs' decisions as a Perfetto trace: the VCPU on each core, its mode, and the
//! reasons of changes.
//!
//! Rule: a core has a track with a slice for each stretch of a VCPU's pick (`NAME`, category
//! `foreground` or `background`) while it is not paused. A VCPU has a track with the same stretches
//! on all cores, and an instant for each event of its own: wake, block, arrival, move. Ticks,
//! replenishments and throttling are instants of the core. Each carries its reason as an argument
//! (`debug.reason`). Times are nanoseconds from the trace's first event.
//!
//! Does not cover: traces of levels.

use crate::perfetto::{self, SLICE_BEGIN, SLICE_END, bytes, field, number, packet};
use solocore_model::sched_trace::{Event, Kind, NONE, SchedTrace};
use std::collections::BTreeMap;

/// `TrackEvent.debug_annotations`, its `name` and its `string_value`; the type of instants.
const EVENT_ANNOTATION: u64 = 4;
const ANNOTATION_NAME: u64 = 10;
const ANNOTATION_STRING: u64 = 6;
const INSTANT: u64 = 3;

/// State of a core: VCPU, mode, begin.
type Stretch = (u32, u64, u64);

#[derive(Default)]
struct DrawnCore {
    /// The policy's pick.
    picked: Option<(u32, u64)>,
    paused: bool,
    /// The stretch that is being drawn.
    drawn: Option<Stretch>,
}

struct Drawing<'a> {
    out: Vec<u8>,
    names: &'a BTreeMap<u32, String>,
    begun: u64,
    cores: BTreeMap<u32, DrawnCore>,
    /// Tracks of VCPUs that have been declared.
    vcpus: BTreeMap<u32, u64>,
}

fn core_track(cpu: u32) -> u64 {
    2 * u64::from(cpu) + 1
}

fn vcpu_track(vcpu: u32) -> u64 {
    2 * u64::from(vcpu) + 2
}

impl Drawing<'_> {
    fn name(&self, vcpu: u32) -> String {
        self.names.get(&vcpu).cloned().unwrap_or_else(|| format!("VCPU {vcpu}"))
    }

    /// The track of a VCPU.
    fn track_of(&mut self, vcpu: u32) -> u64 {
        let track = vcpu_track(vcpu);
        if self.vcpus.insert(vcpu, track).is_none() {
            let name = self.name(vcpu);
            perfetto::track(&mut self.out, track, &name, false);
        }
        track
    }

    fn mark(
        &mut self,
        kind: u64,
        track: u64,
        (category, name): (&str, &str),
        at: u64,
        reason: &str,
    ) {
        let mut event = Vec::new();
        number(&mut event, field::EVENT_TYPE, kind);
        number(&mut event, field::EVENT_TRACK, track);
        if kind != SLICE_END {
            bytes(&mut event, field::EVENT_CATEGORY, category.as_bytes());
            bytes(&mut event, field::EVENT_NAME, name.as_bytes());
        }
        if !reason.is_empty() {
            let mut annotation = Vec::new();
            bytes(&mut annotation, ANNOTATION_NAME, b"reason");
            bytes(&mut annotation, ANNOTATION_STRING, reason.as_bytes());
            bytes(&mut event, EVENT_ANNOTATION, &annotation);
        }
        packet(&mut self.out, Some(at.saturating_sub(self.begun)), field::PACKET_EVENT, &event);
    }

    /// Ends the stretch of a core, if another one begins or none does.
    fn redraw(&mut self, event: &Event, reason: &str) {
        let core = self.cores.entry(event.cpu).or_default();
        let wanted = core.picked.filter(|_| !core.paused);
        if core.drawn.map(|d| (d.0, d.1)) == wanted {
            return;
        }
        let old = core.drawn.take();
        core.drawn = wanted.map(|(vcpu, mode)| (vcpu, mode, event.time_ns));
        let track = core_track(event.cpu);
        if let Some((vcpu, ..)) = old {
            let of_vcpu = self.track_of(vcpu);
            self.mark(SLICE_END, track, ("", ""), event.time_ns, "");
            self.mark(SLICE_END, of_vcpu, ("", ""), event.time_ns, "");
        }
        if let Some((vcpu, mode)) = wanted {
            let category = if mode == 1 { "foreground" } else { "background" };
            let (of_vcpu, name) = (self.track_of(vcpu), self.name(vcpu));
            let shown = if mode == 1 { name } else { format!("{name} (background)") };
            self.mark(SLICE_BEGIN, track, (category, &shown), event.time_ns, reason);
            let place = format!("{category}, core {}", event.cpu);
            self.mark(SLICE_BEGIN, of_vcpu, (category, &place), event.time_ns, reason);
        }
    }

    fn event(&mut self, event: &Event) {
        let (what, own) = match event.event {
            Kind::VcpuWake => ("wake", true),
            Kind::VcpuBlock => ("block", true),
            Kind::VcpuArrive => ("arrives", true),
            Kind::VcpuLeave => ("moves away", true),
            Kind::VcpuRemove => ("destroyed", true),
            Kind::VcpuTick => ("tick", false),
            Kind::VcpuAllow if event.id == 0 => ("throttled", false),
            Kind::VcpuAllow => ("background allowed", false),
            Kind::VcpuPause => ("paused", false),
            Kind::VcpuResume => ("resumed", false),
            Kind::Intruder => ("intruder", false),
            _ => return,
        };
        let before = self.cores.entry(event.cpu).or_default().picked;
        let told = ((event.a & u64::from(u32::MAX)) as u32, event.a >> 32);
        let answer = (told.0 != NONE && told.1 != 0).then_some(told);
        let core = self.cores.entry(event.cpu).or_default();
        match event.event {
            Kind::VcpuPause => core.paused = true,
            Kind::VcpuResume => core.paused = false,
            _ => {}
        }
        if !matches!(event.event, Kind::VcpuArrive | Kind::Intruder) {
            core.picked = answer;
        }
        let after = core.picked;
        let reason = self.reason(event, what, own, before, after);
        if own {
            let track = self.track_of(event.id);
            self.mark(
                INSTANT,
                track,
                ("event", what),
                event.time_ns,
                &format!("core {}: {reason}", event.cpu),
            );
        } else if event.event != Kind::VcpuTick || before != after {
            // A tick that changes nothing is not drawn.
            self.mark(INSTANT, core_track(event.cpu), ("event", what), event.time_ns, &reason);
        }
        self.redraw(event, &reason);
    }

    /// Reason for a change of the VCPU that runs.
    fn reason(
        &self,
        event: &Event,
        what: &str,
        own: bool,
        before: Option<(u32, u64)>,
        after: Option<(u32, u64)>,
    ) -> String {
        let subject = if own { format!("{} {what}", self.name(event.id)) } else { what.to_owned() };
        let cause = match (event.event, before, after) {
            (Kind::VcpuTick, Some((old, 1)), Some((new, 2))) if old == new => {
                "its budget is used up".to_owned()
            }
            (Kind::VcpuTick, Some((old, 2)), Some((new, 1))) if old == new => {
                "its budget is replenished".to_owned()
            }
            (Kind::VcpuTick, Some((old, 1)), _) if before != after => {
                format!(
                    "the budget of {} is used up, or one of a shorter period is replenished",
                    self.name(old)
                )
            }
            (Kind::VcpuTick, _, Some((new, 1))) if before != after => {
                format!("the budget of {} is replenished", self.name(new))
            }
            (Kind::VcpuAllow, ..) if event.id == 0 => {
                "background time is taken: the memory is contended, or it is not used".to_owned()
            }
            (Kind::Intruder, ..) => {
                format!("real-time thread {} of priority {}", event.id, event.a.cast_signed())
            }
            _ => String::new(),
        };
        if cause.is_empty() { subject } else { format!("{subject}: {cause}") }
    }
}

/// The trace's bytes. `names`: names of VCPUs, by number; others are called by their number.
pub fn perfetto_vcpus(trace: &SchedTrace, names: &BTreeMap<u32, String>) -> Vec<u8> {
    let begun = trace.events.iter().map(|e| e.time_ns).min().unwrap_or(0);
    let mut drawing =
        Drawing { out: Vec::new(), names, begun, cores: BTreeMap::new(), vcpus: BTreeMap::new() };
    let cores: std::collections::BTreeSet<u32> = trace.events.iter().map(|e| e.cpu).collect();
    for &cpu in &cores {
        perfetto::track(&mut drawing.out, core_track(cpu), &format!("core {cpu}"), false);
    }
    trace.events.iter().for_each(|event| drawing.event(event));
    // The VCPU that runs at the end is drawn up to the last event of its core.
    for cpu in cores {
        let last =
            trace.events.iter().filter(|e| e.cpu == cpu).map(|e| e.time_ns).max().unwrap_or(begun);
        if let Some(core) = drawing.cores.get_mut(&cpu) {
            core.picked = None;
        }
        let end = Event { time_ns: last, cpu, event: Kind::VcpuTick, id: NONE, a: 0, b: 0 };
        drawing.redraw(&end, "");
    }
    drawing.out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: u64, event: Kind, id: u32, answer: Option<(u32, u64)>) -> Event {
        let (vcpu, mode) = answer.unwrap_or((NONE, 0));
        Event { time_ns, cpu: 1, event, id, a: u64::from(vcpu) | mode << 32, b: 0 }
    }

    #[test]
    fn stretches_and_reasons_are_drawn() {
        let events = vec![
            event(1000, Kind::VcpuWake, 4, Some((4, 1))),
            event(1300, Kind::VcpuTick, NONE, Some((4, 2))),
            event(1400, Kind::VcpuTick, NONE, Some((4, 2))),
            event(1500, Kind::VcpuBlock, 4, None),
        ];
        let trace = SchedTrace { about: BTreeMap::new(), events };
        let names = [(4, "video".to_owned())].into();
        let bytes = perfetto_vcpus(&trace, &names);
        let text = String::from_utf8_lossy(&bytes);
        for said in [
            "core 1",
            "video",
            "video (background)",
            "foreground, core 1",
            "tick: its budget is used up",
            "video block",
        ] {
            assert!(text.contains(said), "{said}");
        }
        let count = |needle: &str| text.matches(needle).count();
        // The second tick changes nothing: one instant, and the reason of two slices.
        assert_eq!(count("its budget is used up"), 3);
        assert_eq!(count("foreground, core 1"), 1);
        assert!(perfetto_vcpus(&SchedTrace::default(), &names).is_empty());
    }

    /// Every slice that begins ends.
    #[test]
    fn what_begins_ends() {
        let events = vec![
            event(0, Kind::VcpuWake, 4, Some((4, 1))),
            event(7, Kind::VcpuTick, NONE, Some((4, 1))),
        ];
        let trace = SchedTrace { about: BTreeMap::new(), events };
        let bytes = perfetto_vcpus(&trace, &BTreeMap::new());
        // Field 9 (type) of an event is the first of it.
        let ends = bytes.windows(2).filter(|w| w == &[0x48, SLICE_END as u8]).count();
        let begins = bytes.windows(2).filter(|w| w == &[0x48, SLICE_BEGIN as u8]).count();
        assert_eq!((begins, ends), (2, 2));
    }
}
