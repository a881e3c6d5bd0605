//! The timeline of a simulation as a Perfetto trace (<https://ui.perfetto.dev> opens it).
//!
//! The format is protobuf; the few messages needed (`perfetto/trace/trace.proto`: `TracePacket`,
//! `TrackDescriptor`, `TrackEvent`) are written here by their field numbers.

use solocore_model::SimResult;
use solocore_model::results::Activity;

/// Field numbers of the messages.
pub(crate) mod field {
    pub const TRACE_PACKET: u64 = 1;
    pub const PACKET_TIMESTAMP: u64 = 8;
    pub const PACKET_SEQUENCE: u64 = 10;
    pub const PACKET_EVENT: u64 = 11;
    pub const PACKET_DESCRIPTOR: u64 = 60;
    pub const DESCRIPTOR_UUID: u64 = 1;
    pub const DESCRIPTOR_NAME: u64 = 2;
    pub const DESCRIPTOR_COUNTER: u64 = 8;
    pub const EVENT_TYPE: u64 = 9;
    pub const EVENT_TRACK: u64 = 11;
    pub const EVENT_CATEGORY: u64 = 22;
    pub const EVENT_NAME: u64 = 23;
}
pub(crate) const SLICE_BEGIN: u64 = 1;
pub(crate) const SLICE_END: u64 = 2;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

pub(crate) fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

pub(crate) fn packet(out: &mut Vec<u8>, timestamp: Option<u64>, field: u64, message: &[u8]) {
    let mut body = Vec::new();
    if let Some(ns) = timestamp {
        number(&mut body, field::PACKET_TIMESTAMP, ns);
    }
    number(&mut body, field::PACKET_SEQUENCE, 1);
    bytes(&mut body, field, message);
    bytes(out, field::TRACE_PACKET, &body);
}

/// A track, of slices or of a counter.
pub(crate) fn track(out: &mut Vec<u8>, id: u64, name: &str, counter: bool) {
    let mut descriptor = Vec::new();
    number(&mut descriptor, field::DESCRIPTOR_UUID, id);
    bytes(&mut descriptor, field::DESCRIPTOR_NAME, name.as_bytes());
    if counter {
        bytes(&mut descriptor, field::DESCRIPTOR_COUNTER, &[]);
    }
    packet(out, None, field::PACKET_DESCRIPTOR, &descriptor);
}

/// A slice of a track, with its category and its name.
pub(crate) fn slice(
    out: &mut Vec<u8>,
    track: u64,
    (category, name): (&str, &str),
    from: u64,
    to: u64,
) {
    let mut begin = Vec::new();
    number(&mut begin, field::EVENT_TYPE, SLICE_BEGIN);
    number(&mut begin, field::EVENT_TRACK, track);
    bytes(&mut begin, field::EVENT_CATEGORY, category.as_bytes());
    bytes(&mut begin, field::EVENT_NAME, name.as_bytes());
    packet(out, Some(from), field::PACKET_EVENT, &begin);
    let mut end = Vec::new();
    number(&mut end, field::EVENT_TYPE, SLICE_END);
    number(&mut end, field::EVENT_TRACK, track);
    packet(out, Some(to.max(from)), field::PACKET_EVENT, &end);
}

/// One track per core; a slice for each stretch of a task, named by the task, or `throttled: TASK`
/// where the regulator stopped it. Times are nanoseconds from the start.
pub fn perfetto(result: &SimResult) -> Vec<u8> {
    let mut out = Vec::new();
    let of_core = |core: u32| u64::from(core) + 1;
    for core in &result.cores {
        track(&mut out, of_core(core.id), &format!("core {}", core.id), false);
    }
    for segment in &result.timeline {
        let task = result.tasks.get(segment.task as usize).map_or("?", |t| t.name.as_str());
        let (name, category) = match segment.activity {
            Activity::Run => (task.to_owned(), "run"),
            Activity::Prefetch => (format!("prefetch: {task}"), "prefetch"),
            Activity::Throttled => (format!("throttled: {task}"), "throttled"),
        };
        let (from, to) = (segment.start_ns, segment.end_ns);
        slice(&mut out, of_core(segment.core), (category, &name), from, to);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::results::{CoreResult, FORMAT, Mode, Segment};

    #[test]
    fn packets_have_the_bytes_of_the_format() {
        let segment =
            Segment { core: 0, task: 0, start_ns: 300, end_ns: 301, activity: Activity::Run };
        let result = SimResult {
            format: FORMAT.to_owned(),
            mode: Mode::Managed,
            seed: 1,
            tasks: Vec::new(),
            cores: vec![CoreResult {
                id: 0,
                accesses: 0,
                throttled_ns: 0,
                max_accesses_per_period: 0,
            }],
            simulated_ns: 1000,
            wall_ns: 1,
            requests: 0,
            io: None,
            timeline_ns: None,
            timeline: vec![segment],
            jobs: Vec::new(),
        };
        let expect: Vec<u8> = [
            // packet { sequence: 1, descriptor { uuid: 1, name: "core 0" } }
            &[0x0a, 15, 0x50, 1, 0xe2, 0x03, 10, 0x08, 1, 0x12, 6][..],
            b"core 0",
            // packet { timestamp: 300, sequence: 1, event { type: 1, track: 1, category: "run",
            // name: "?" } }
            &[0x0a, 21, 0x40, 0xac, 0x02, 0x50, 1, 0x5a, 14, 0x48, 1, 0x58, 1, 0xb2, 0x01, 3],
            b"run",
            &[0xba, 0x01, 1],
            b"?",
            // packet { timestamp: 301, sequence: 1, event { type: 2, track: 1 } }
            &[0x0a, 11, 0x40, 0xad, 0x02, 0x50, 1, 0x5a, 4, 0x48, 2, 0x58, 1],
        ]
        .concat();
        assert_eq!(perfetto(&result), expect);
    }
}
