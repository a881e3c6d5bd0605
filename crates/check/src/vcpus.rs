//! Traces of VCPUs.
//!
//! Rules that replay the policy (`policy/include/solocore/vcpu.h`):
//! * *answer*: each call has the answer that the policy gives after all calls before it;
//! * *time*: on each core, time does not go back;
//! * *runs*: while a VCPU is charged, the running thread belongs to the VCPU that is picked.
//!
//! Rules that do not know the policy, from the answers and times in the trace alone:
//! * *window*: with strict servers, no VCPU has more than C of foreground time in any window of T,
//!   on all cores together;
//! * *supply*: a VCPU that is runnable throughout a T that begins when its whole capacity is there
//!   has C of foreground time in it. Time that was taken from the core (interrupt threads,
//!   real-time tasks, switches) counts against the admission's allowance (`overhead_ns` a switch):
//!   a T in which more was taken is counted, and not judged.

use crate::violation::{UNCHECKABLE, Violation};
use serde::Serialize;
use solocore_model::sched_trace::{Event, Kind, NONE, SchedTrace};
use solocore_policy::sporadic_server::{Config, Replenishment, Server};
use solocore_policy::vcpu::{Background, Mode, State, Vcpu, VcpuCore};
use std::collections::{BTreeMap, VecDeque};

/// Figures of a trace of VCPUs without a violation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VcpuReport {
    /// "vcpu".
    pub scheduler: String,
    /// Events that were checked.
    pub events: u64,
    /// Time from the first to the last event.
    pub span_ns: u64,
    /// Number of checks, by the name of the rule.
    pub checked: Vec<(String, u64)>,
    /// Further observations of the trace.
    pub notes: Vec<String>,
}

/// Facts that a trace states about itself.
struct About {
    background: Background,
    strict: bool,
    limit: u32,
    overhead_ns: u64,
    cores: u32,
}

impl About {
    fn of(trace: &SchedTrace) -> Result<Self, Violation> {
        let missing = |key: &str| {
            Violation::of(0, 0, UNCHECKABLE, format!("it does not state its {key} ({key}=...)"))
        };
        let number = |key: &str| {
            trace.about.get(key).and_then(|v| v.parse::<u64>().ok()).ok_or_else(|| missing(key))
        };
        let background = match trace.about.get("background").map(String::as_str) {
            Some("least-time" | "none") => Background::LeastTime,
            Some("keep") => Background::Keep,
            Some("least-memory") => Background::LeastMemory,
            _ => return Err(missing("background")),
        };
        let short =
            |key: &str| number(key).and_then(|n| u32::try_from(n).map_err(|_| missing(key)));
        let cores = short("cpus")?;
        Ok(Self {
            background,
            strict: number("strict")? != 0,
            limit: short("limit")?,
            overhead_ns: number("overhead_ns")?,
            cores,
        })
    }
}

/// A core, according to the trace.
struct Replayed {
    /// The policy core on which the calls are repeated.
    policy: Box<VcpuCore>,
    /// The answer to the last call in the trace.
    current: u32,
    mode: u64,
    paused: bool,
    last_ns: u64,
    /// Time since which time is taken from it: it is paused although a VCPU has work.
    taken_ns: u64,
    /// VCPU of the thread that runs.
    running: Option<u32>,
    /// VCPU of the thread that ran last, if none has run since: a switch between threads of a VCPU
    /// is the VCPU's.
    stopped: Option<u32>,
    /// A VCPU that arrives: its times and replenishments so far.
    arriving: Option<(u64, u64, Vec<Replenishment>)>,
}

/// A T of a VCPU that began with its whole capacity.
struct Period {
    start_ns: u64,
    foreground_ns: u64,
    /// Time taken from its core at the start.
    taken_ns: u64,
}

/// A VCPU according to the trace, on any core.
struct Seen {
    capacity_ns: u64,
    period_ns: u64,
    core: u32,
    runnable: bool,
    /// Runs in the foreground within the last T, as (start, end), and their sum.
    runs: VecDeque<(u64, u64)>,
    sum_ns: u64,
    period: Option<Period>,
}

impl Seen {
    /// Adds a run in the foreground; returns the largest sum in a window of T that ends within this
    /// run.
    fn ran(&mut self, start: u64, end: u64) -> u64 {
        match self.runs.back_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.runs.push_back((start, end)),
        }
        self.sum_ns += end - start;
        let begin = end.saturating_sub(self.period_ns);
        while let Some(first) = self.runs.front_mut() {
            if first.1 <= begin {
                self.sum_ns -= first.1 - first.0;
                self.runs.pop_front();
            } else {
                if first.0 < begin {
                    self.sum_ns -= begin - first.0;
                    first.0 = begin;
                }
                break;
            }
        }
        if let Some(period) = &mut self.period {
            period.foreground_ns += end - start;
        }
        self.sum_ns
    }
}

struct Checker<'t> {
    about: About,
    trace: &'t SchedTrace,
    cores: BTreeMap<u32, Replayed>,
    vcpus: BTreeMap<u32, Seen>,
    counts: BTreeMap<&'static str, u64>,
    disturbed: u64,
    longest_taken_ns: u64,
}

/// Checks a trace of VCPUs.
///
/// # Errors
/// As [`crate::check`].
pub fn check(trace: &SchedTrace) -> Result<VcpuReport, Violation> {
    let mut checker = Checker {
        about: About::of(trace)?,
        trace,
        cores: BTreeMap::new(),
        vcpus: BTreeMap::new(),
        counts: BTreeMap::new(),
        disturbed: 0,
        longest_taken_ns: 0,
    };
    // By time, as VCPUs move between cores; events of a core keep their order.
    let mut order: Vec<usize> = (0..trace.events.len()).collect();
    order.sort_by_key(|&at| trace.events[at].time_ns);
    let mut order = in_order_on_each_core(order, trace);
    for at in order.drain(..) {
        checker.event(at)?;
    }
    let times = trace.events.iter().map(|e| e.time_ns);
    let span_ns = times.clone().max().unwrap_or(0) - times.min().unwrap_or(0);
    let mut notes = vec![format!(
        "the longest time that was taken from a VCPU's T: {} ns",
        checker.longest_taken_ns
    )];
    if checker.disturbed > 0 {
        notes.push(format!(
            "{} T are not judged: more time was taken from their core than admission allows for",
            checker.disturbed
        ));
    }
    let checked = checker.counts.iter().map(|(rule, n)| ((*rule).to_owned(), *n)).collect();
    Ok(VcpuReport {
        scheduler: "vcpu".to_owned(),
        events: trace.events.len() as u64,
        span_ns,
        checked,
        notes,
    })
}

/// The events in order of time. A settling in the past of its core may have an earlier time than an
/// event of another core before it: the order of each core is kept.
fn in_order_on_each_core(order: Vec<usize>, trace: &SchedTrace) -> Vec<usize> {
    let mut places: BTreeMap<u32, VecDeque<usize>> = BTreeMap::new();
    for (at, event) in trace.events.iter().enumerate() {
        places.entry(event.cpu).or_default().push_back(at);
    }
    order
        .into_iter()
        .filter_map(|at| places.get_mut(&trace.events[at].cpu).and_then(VecDeque::pop_front))
        .collect()
}

impl Checker<'_> {
    fn broken(&self, at: usize, rule: &'static str, what: String) -> Violation {
        let event = self.trace.events[at];
        Violation::of(event.time_ns, event.cpu, rule, what)
    }

    fn count(&mut self, rule: &'static str) {
        *self.counts.entry(rule).or_default() += 1;
    }

    fn event(&mut self, at: usize) -> Result<(), Violation> {
        let event = self.trace.events[at];
        if event.cpu >= self.about.cores {
            return Err(self.broken(at, "core", format!("there are {} cores", self.about.cores)));
        }
        let background = self.about.background;
        let fresh = || Replayed {
            policy: VcpuCore::new(background, event.time_ns),
            current: NONE,
            mode: 0,
            paused: false,
            last_ns: event.time_ns,
            taken_ns: 0,
            running: None,
            stopped: None,
            arriving: None,
        };
        let core = self.cores.entry(event.cpu).or_insert_with(fresh);
        match event.event {
            Kind::Runs => {
                core.running = (event.a != 0).then(|| u32::try_from(event.a - 1).unwrap_or(NONE));
                core.stopped = None;
                return Ok(());
            }
            Kind::Stops => {
                core.stopped = core.running.take();
                return Ok(());
            }
            Kind::Intruder => return Ok(()),
            _ => {}
        }
        if event.time_ns < core.last_ns {
            let what = format!("the event before it was at {} ns", core.last_ns);
            return Err(self.broken(at, "time", what));
        }
        self.pass(at, event)?;
        self.replay(at, event)?;
        self.judge_periods(at, event)
    }

    /// Time has passed on a core: charges it as in the trace.
    fn pass(&mut self, at: usize, event: Event) -> Result<(), Violation> {
        let Some(core) = self.cores.get_mut(&event.cpu) else { return Ok(()) };
        let (start, end) = (core.last_ns, event.time_ns);
        core.last_ns = end;
        if core.paused {
            core.taken_ns += end - start;
            return Ok(());
        }
        if core.mode == 0 || end == start {
            return Ok(());
        }
        let (id, running, mode) = (core.current, core.running.or(core.stopped), core.mode);
        self.count("runs");
        if running != Some(id) {
            let runs =
                running.map_or_else(|| "no thread".to_owned(), |v| format!("a thread of VCPU {v}"));
            return Err(self.broken(
                at,
                "runs",
                format!("VCPU {id} is charged from {start} ns on, and {runs} runs"),
            ));
        }
        if mode != 1 {
            return Ok(());
        }
        let strict = self.about.strict;
        let Some(seen) = self.vcpus.get_mut(&id) else { return Ok(()) };
        let most = seen.ran(start, end);
        let (capacity, period) = (seen.capacity_ns, seen.period_ns);
        if strict {
            self.count("window");
            if most > capacity {
                let what = format!(
                    "VCPU {id} has had {most} ns of foreground time in a window of its T of \
                        {period} ns; its C is {capacity} ns"
                );
                return Err(self.broken(at, "window", what));
            }
        }
        Ok(())
    }

    /// Repeats the call.
    fn replay(&mut self, at: usize, event: Event) -> Result<(), Violation> {
        let Event { time_ns: now, cpu, event: kind, id, a, b } = event;
        let (strict, limit) = (self.about.strict, self.about.limit);
        let Some(core) = self.cores.get_mut(&cpu) else { return Ok(()) };
        let known = match kind {
            Kind::VcpuTick => {
                core.policy.tick(now);
                true
            }
            Kind::VcpuPause => {
                core.policy.pause(now);
                true
            }
            Kind::VcpuResume => {
                core.policy.resume(now);
                true
            }
            Kind::VcpuAllow => {
                core.policy.allow_background(id != 0, now);
                true
            }
            Kind::VcpuWake => core.policy.wake(id, now),
            Kind::VcpuBlock => core.policy.block(id, now),
            Kind::VcpuRemove | Kind::VcpuLeave => core.policy.take(id, now).is_some(),
            Kind::VcpuIntensity => {
                let known = core.policy.set_intensity(id, a);
                return if known {
                    Ok(())
                } else {
                    Err(self.broken(at, "answer", format!("there is no VCPU {id} on the core")))
                };
            }
            Kind::VcpuAdd => {
                core.arriving = Some((a, b, Vec::new()));
                return Ok(());
            }
            Kind::VcpuBudget => {
                if let Some((_, _, budget)) = &mut core.arriving {
                    budget.push(Replenishment { time_ns: a, amount_ns: b });
                }
                return Ok(());
            }
            Kind::VcpuArrive => {
                let Some((capacity_ns, period_ns, budget)) = core.arriving.take() else {
                    return Err(self.broken(
                        at,
                        "answer",
                        format!("VCPU {id} arrives without a capacity"),
                    ));
                };
                let server =
                    Server::with_budget(Config { capacity_ns, period_ns, strict, limit }, &budget);
                let put = server.is_some_and(|server| {
                    core.policy.put(id, &Vcpu::arriving(server, a, b, 0), now)
                });
                if !put {
                    return Err(self.broken(
                        at,
                        "answer",
                        format!(
                            "the policy does not take VCPU {id}, {capacity_ns} ns in {period_ns} ns"
                        ),
                    ));
                }
                return self.arrives(id, cpu, capacity_ns, period_ns);
            }
            _ => return Ok(()),
        };
        if !known {
            return Err(self.broken(at, "answer", format!("there is no VCPU {id} on the core")));
        }
        let (current, mode) = match core.policy.mode() {
            Mode::Idle => (NONE, 0),
            Mode::Foreground(id) => (id, 1),
            Mode::Background(id) => (id, 2),
        };
        let until = core.policy.until_ns();
        let told = ((a & u64::from(u32::MAX)) as u32, a >> 32, b);
        if told != (current, mode, until) {
            let say = |(id, mode, until): (u32, u64, u64)| {
                let how = ["nobody", "in the foreground", "in the background"]
                    .get(mode as usize)
                    .copied()
                    .unwrap_or("?");
                if id == NONE {
                    format!("nobody until {until}")
                } else {
                    format!("VCPU {id} {how} until {until}")
                }
            };
            let what = format!(
                "the policy picks {}, and the trace says {}",
                say((current, mode, until)),
                say(told)
            );
            return Err(self.broken(at, "answer", what));
        }
        (core.current, core.mode) = (told.0, told.1);
        match kind {
            Kind::VcpuPause => core.paused = true,
            Kind::VcpuResume => core.paused = false,
            _ => {}
        }
        if let Some(seen) = self.vcpus.get_mut(&id) {
            match kind {
                Kind::VcpuWake => seen.runnable = true,
                Kind::VcpuBlock => (seen.runnable, seen.period) = (false, None),
                Kind::VcpuLeave => (seen.runnable, seen.period) = (false, None),
                _ => {}
            }
        }
        if kind == Kind::VcpuRemove {
            self.vcpus.remove(&id);
        }
        self.count("answer");
        Ok(())
    }

    fn arrives(
        &mut self,
        id: u32,
        core: u32,
        capacity_ns: u64,
        period_ns: u64,
    ) -> Result<(), Violation> {
        let fresh = Seen {
            capacity_ns,
            period_ns,
            core,
            runnable: false,
            runs: VecDeque::new(),
            sum_ns: 0,
            period: None,
        };
        let seen = self.vcpus.entry(id).or_insert(fresh);
        // Its runs elsewhere count in its windows.
        (seen.core, seen.runnable, seen.period) = (core, false, None);
        Ok(())
    }

    /// Periods that are over, that end early, or that begin on the core of the event.
    fn judge_periods(&mut self, at: usize, event: Event) -> Result<(), Violation> {
        let Some(core) = self.cores.get(&event.cpu) else { return Ok(()) };
        let now = event.time_ns;
        let claims: Vec<u64> =
            self.vcpus.values().filter(|v| v.core == event.cpu).map(|v| v.period_ns).collect();
        let (mut failure, mut judged, mut disturbed, mut longest) =
            (None, 0, 0, self.longest_taken_ns);
        for (&id, seen) in self.vcpus.iter_mut().filter(|(_, v)| v.core == event.cpu) {
            if let Some(period) = &seen.period
                && now >= period.start_ns + seen.period_ns
            {
                // Time of this period, without the runs after its end.
                let end = period.start_ns + seen.period_ns;
                let after: u64 = seen.runs.iter().map(|&(s, e)| e.saturating_sub(s.max(end))).sum();
                let got = period.foreground_ns.saturating_sub(after);
                let taken = core.taken_ns - period.taken_ns;
                let switches: u64 = claims.iter().map(|t| seen.period_ns.div_ceil(*t) + 1).sum();
                longest = longest.max(taken);
                if got >= seen.capacity_ns {
                    judged += 1;
                } else if taken > switches * self.about.overhead_ns {
                    disturbed += 1;
                } else {
                    failure = failure.or(Some(format!(
                        "VCPU {id} was runnable from {} ns on for its T of {} ns and had {got} ns \
                            of foreground time; its C is {} ns, and {taken} ns were \
                         taken from the core",
                        period.start_ns, seen.period_ns, seen.capacity_ns
                    )));
                }
                seen.period = None;
            }
            let whole = |v: &Vcpu| {
                v.state() != State::Blocked && v.server().available_ns(now) >= seen.capacity_ns
            };
            if seen.period.is_none() && seen.runnable && core.policy.vcpu(id).is_some_and(whole) {
                seen.period =
                    Some(Period { start_ns: now, foreground_ns: 0, taken_ns: core.taken_ns });
            }
        }
        self.longest_taken_ns = longest;
        self.disturbed += disturbed;
        *self.counts.entry("supply").or_default() += judged;
        failure.map_or(Ok(()), |what| Err(self.broken(at, "supply", what)))
    }
}
