//! Traces of VCPUs that keep every rule, and changes with which they break one.

use solocore_check::{Report, UNCHECKABLE, VcpuReport, check};
use solocore_model::sched_trace::{Event, Kind, NONE, SchedTrace};
use solocore_policy::sporadic_server::Config;
use solocore_policy::vcpu::{Background, Mode, VcpuCore};

/// A core as an adapter runs it: it calls the policy, obeys, and records.
struct Recorder {
    core: Box<VcpuCore>,
    events: Vec<Event>,
    running: Option<u32>,
    now: u64,
    strict: bool,
}

impl Recorder {
    fn new(strict: bool) -> Self {
        let core = VcpuCore::new(Background::LeastTime, 0);
        Self { core, events: Vec::new(), running: None, now: 0, strict }
    }

    fn push(&mut self, event: Kind, id: u32, a: u64, b: u64) {
        self.events.push(Event { time_ns: self.now, cpu: 0, event, id, a, b });
    }

    /// Records the answer to a call, and lets the pick run.
    fn answered(&mut self, event: Kind, id: u32) {
        let (vcpu, mode) = match self.core.mode() {
            Mode::Idle => (NONE, 0u64),
            Mode::Foreground(v) => (v, 1),
            Mode::Background(v) => (v, 2),
        };
        let until = self.core.until_ns();
        self.push(event, id, u64::from(vcpu) | mode << 32, until);
        let runs = (vcpu != NONE).then_some(vcpu);
        if runs != self.running {
            self.running = runs;
            match runs {
                Some(v) => self.push(Kind::Runs, 100 + v, u64::from(v) + 1, 0),
                None => self.push(Kind::Stops, 100, 0, 0),
            }
        }
    }

    fn config(&self, capacity_ns: u64, period_ns: u64) -> Config {
        Config { capacity_ns, period_ns, strict: self.strict, limit: 16 }
    }

    fn add(&mut self, id: u32, capacity: u64, period: u64) {
        assert!(self.core.add(id, self.config(capacity, period), self.now));
        self.arrived(id, capacity, period);
    }

    fn arrived(&mut self, id: u32, capacity: u64, period: u64) {
        let v = self.core.vcpu(id).unwrap().clone();
        self.push(Kind::VcpuAdd, id, capacity, period);
        for r in v.server().replenishments() {
            self.push(Kind::VcpuBudget, id, r.time_ns, r.amount_ns);
        }
        self.push(Kind::VcpuArrive, id, v.foreground_ns(), v.background_ns());
    }

    fn wake(&mut self, id: u32) {
        assert!(self.core.wake(id, self.now));
        self.answered(Kind::VcpuWake, id);
    }

    fn block(&mut self, id: u32) {
        assert!(self.core.block(id, self.now));
        self.answered(Kind::VcpuBlock, id);
    }

    /// Runs until then, with a tick whenever one is due.
    fn until(&mut self, end: u64) {
        while self.now < end {
            self.now = self.core.until_ns().min(end);
            self.core.tick(self.now);
            self.answered(Kind::VcpuTick, NONE);
        }
    }

    fn trace(self) -> SchedTrace {
        let about = [
            ("scheduler", "vcpu"),
            ("background", "least-time"),
            ("strict", if self.strict { "1" } else { "0" }),
            ("limit", "16"),
            ("overhead_ns", "0"),
            ("cpus", "1"),
            ("lost", "0"),
        ];
        let about = about.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        SchedTrace { about, events: self.events }
    }
}

/// Two VCPUs that fit; one blocks from time to time.
fn good(strict: bool) -> SchedTrace {
    let mut r = Recorder::new(strict);
    r.add(4, 300, 1000);
    r.add(5, 500, 2000);
    r.wake(4);
    r.wake(5);
    for round in 1..20 {
        r.until(round * 700);
        r.block(4);
        r.until(round * 700 + 90);
        r.wake(4);
    }
    r.until(40_000);
    r.trace()
}

fn count(report: &Report, rule: &str) -> u64 {
    let Report::Vcpus(VcpuReport { checked, .. }) = report else { panic!("a report of VCPUs") };
    checked.iter().find(|c| c.0 == rule).map_or(0, |c| c.1)
}

/// The rule that a trace breaks, and the message.
#[track_caller]
fn broken(trace: &SchedTrace) -> (&'static str, String) {
    match check(trace) {
        Err(v) if v.rule != UNCHECKABLE => (v.rule, v.to_string()),
        other => panic!("no violation: {other:?}"),
    }
}

/// Place of the `n`th event of a kind.
fn place(trace: &SchedTrace, kind: Kind, n: usize) -> usize {
    trace.events.iter().enumerate().filter(|e| e.1.event == kind).nth(n).unwrap().0
}

#[test]
fn what_keeps_the_rules_is_passed_and_every_rule_was_applied() {
    for strict in [true, false] {
        let report = check(&good(strict)).unwrap();
        for rule in ["answer", "runs", "supply"] {
            assert!(count(&report, rule) > 5, "{rule}: {report:?}");
        }
        assert_eq!(count(&report, "window") > 10, strict, "{report:?}");
    }
}

#[test]
fn answer_another_pick_another_end_or_a_call_that_is_missing() {
    let mut trace = good(true);
    let at = place(&trace, Kind::VcpuTick, 5);
    trace.events[at].b += 1;
    let (rule, said) = broken(&trace);
    assert!(rule == "answer" && said.contains("until"), "{said}");
    let mut trace = good(true);
    let at = place(&trace, Kind::VcpuTick, 5);
    // In the background instead of in the foreground, or the other way round.
    trace.events[at].a ^= 3 << 32;
    assert_eq!(broken(&trace).0, "answer");
    let mut trace = good(true);
    let at = place(&trace, Kind::VcpuBlock, 3);
    trace.events.remove(at);
    assert_eq!(broken(&trace).0, "answer");
    for kind in [Kind::VcpuWake, Kind::VcpuBlock, Kind::VcpuLeave, Kind::VcpuIntensity] {
        let mut trace = good(true);
        let at = place(&trace, Kind::VcpuTick, 5);
        trace.events[at] = Event { event: kind, id: 9, ..trace.events[at] };
        let (rule, said) = broken(&trace);
        assert!(rule == "answer" && said.contains("no VCPU 9"), "{said}");
    }
}

#[test]
fn answer_vcpus_that_arrive_as_none_can() {
    let arrival = |change: &dyn Fn(&mut Vec<Event>, usize)| {
        let mut trace = good(true);
        let at = place(&trace, Kind::VcpuAdd, 1);
        change(&mut trace.events, at);
        broken(&trace)
    };
    // Too much budget, none at all, a capacity above the period, no capacity, twice.
    for (rule, said) in [
        arrival(&|events, at| events[at + 1].b += 1),
        arrival(&|events, at| {
            events.remove(at + 1);
        }),
        arrival(&|events, at| events[at].b = 100),
        arrival(&|events, at| {
            events.remove(at);
        }),
        arrival(&|events, at| {
            let again: Vec<Event> = events[at..at + 3].to_vec();
            events.splice(at + 3..at + 3, again);
        }),
    ] {
        assert_eq!(rule, "answer", "{said}");
    }
}

#[test]
fn time_goes_back_on_a_core() {
    let mut trace = good(true);
    let at = place(&trace, Kind::VcpuTick, 5);
    trace.events[at].time_ns = trace.events[at - 1].time_ns - 1;
    let (rule, said) = broken(&trace);
    assert!(rule == "time" && said.contains("the event before it was at"), "{said}");
}

#[test]
fn runs_nobody_or_somebody_else() {
    for change in [0u64, 77] {
        let mut trace = good(true);
        let at = place(&trace, Kind::Runs, 3);
        trace.events[at].a = change;
        let (rule, said) = broken(&trace);
        assert!(rule == "runs" && said.contains("is charged"), "{said}");
    }
    let mut trace = good(true);
    let at = place(&trace, Kind::Runs, 2);
    trace.events[at].event = Kind::Stops;
    assert_eq!(broken(&trace).0, "runs");
}

/// An adapter that gives a VCPU its whole capacity again when it moves: each call follows from the
/// policy, and the window has too much time.
#[test]
fn window_a_move_must_not_refill_the_budget() {
    let moved = |refill: bool| {
        let mut r = Recorder::new(true);
        r.add(4, 300, 1000);
        r.wake(4);
        r.until(250);
        let taken = r.core.take(4, r.now).unwrap();
        r.answered(Kind::VcpuLeave, 4);
        if refill {
            r.add(4, 300, 1000);
        } else {
            assert!(r.core.put(4, &taken, r.now));
            r.arrived(4, 300, 1000);
        }
        r.wake(4);
        r.until(3000);
        r.trace()
    };
    check(&moved(false)).unwrap();
    let (rule, said) = broken(&moved(true));
    assert!(rule == "window" && said.contains("550 ns of foreground time in a window"), "{said}");
    // Only strict servers promise it.
    let mut lenient = moved(true);
    lenient.about.insert("strict".to_owned(), "0".to_owned());
    assert!(!matches!(check(&lenient), Err(v) if v.rule == "window"));
}

/// Two VCPUs that do not fit: the policy is obeyed, and the promise broken.
#[test]
fn supply_a_core_that_is_too_full() {
    let full = |capacity: u64| {
        let mut r = Recorder::new(true);
        r.add(4, 600, 1000);
        r.add(5, capacity, 1000);
        r.wake(4);
        r.wake(5);
        r.until(10_000);
        r.trace()
    };
    assert!(count(&check(&full(400)).unwrap(), "supply") > 10);
    let (rule, said) = broken(&full(401));
    assert!(rule == "supply" && said.contains("VCPU 5") && said.contains("had 400 ns"), "{said}");
}

/// Time that is taken from a core excuses missing supply. Up to admission's allowance it is judged.
#[test]
fn supply_time_that_is_taken() {
    let taken = |overhead: &str| {
        let mut r = Recorder::new(true);
        r.add(4, 600, 1000);
        r.wake(4);
        r.until(100);
        r.core.pause(r.now);
        r.answered(Kind::VcpuPause, NONE);
        r.now = 700;
        r.core.resume(r.now);
        r.answered(Kind::VcpuResume, NONE);
        r.until(5000);
        let mut trace = r.trace();
        trace.about.insert("overhead_ns".to_owned(), overhead.to_owned());
        trace
    };
    let report = check(&taken("10")).unwrap();
    let Report::Vcpus(VcpuReport { notes, .. }) = &report else { panic!("a report of VCPUs") };
    assert!(notes.iter().any(|n| n.contains("not judged")), "{report:?}");
    // Two switches a T: with 300 ns each, admission has allowed for the 600.
    let (rule, said) = broken(&taken("300"));
    assert!(rule == "supply" && said.contains("600 ns were taken"), "{said}");
}

#[test]
fn a_core_that_is_not_there() {
    let mut trace = good(true);
    let at = place(&trace, Kind::VcpuTick, 5);
    trace.events[at].cpu = 1;
    let (rule, said) = broken(&trace);
    assert!(rule == "core" && said.contains("there are 1 cores"), "{said}");
}

#[test]
fn traces_that_cannot_be_checked() {
    for (key, value, word) in [
        ("lost", Some("3"), "3 events were overwritten"),
        ("scheduler", Some("fair"), "no checker"),
        ("scheduler", None, "does not name its scheduler"),
        ("strict", None, "strict"),
        ("limit", Some("-1"), "limit"),
        ("background", Some("mine"), "background"),
        ("cpus", Some("99999999999"), "cpus"),
        ("overhead_ns", None, "overhead_ns"),
    ] {
        let mut trace = good(true);
        match value {
            Some(value) => trace.about.insert(key.to_owned(), value.to_owned()),
            None => trace.about.remove(key),
        };
        match check(&trace) {
            Err(v) if v.rule == UNCHECKABLE => assert!(v.what.contains(word), "{}", v.what),
            other => panic!("{key}: {other:?}"),
        }
    }
    // A limit beyond every list causes no panic.
    let mut trace = good(true);
    trace.about.insert("limit".to_owned(), "4000000000".to_owned());
    assert_eq!(broken(&trace).0, "answer");
}
