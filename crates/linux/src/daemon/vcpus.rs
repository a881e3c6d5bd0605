//! A scheduler of VCPUs and the socket for requests of further ones, as a part.

use super::decisions::Decisions;
use super::part::{Held, Member, Next, Part, Preview, Round, Settings, Traces};
use super::tasks::Bind;
use crate::error::LinuxError;
use crate::host::keeper::Changes;
use crate::host::machine;
use crate::host::newcomers::each_thread;
use crate::schedule::vcpus::control::Control;
use crate::schedule::vcpus::requests::Requests;
use crate::schedule::vcpus::{Options, Vcpus, Wanted};
use solocore_model::plan::{Answer, PlanVcpu, Promise, Subject};
use solocore_model::run::{RunResult, RunVcpus};
use solocore_model::vcpus::{Background, MONITOR};
use std::time::Duration;

/// The part that runs the scheduler of VCPUs.
pub struct Scheduling {
    options: Options,
    /// VCPUs that are created first, each with the prefix of its error messages.
    first: Vec<(Wanted, String)>,
    /// VCPUs of a plan.
    planned: Vec<PlanVcpu>,
    vcpus: Held<Vcpus>,
    control: Option<Control>,
    decisions: Option<Decisions>,
    /// Event that counts requests to memory; none: the first that this machine counts.
    event: Option<String>,
    requests: Option<Requests>,
    notes: Vec<String>,
}

impl Scheduling {
    /// The part with these VCPUs; the text of each is the prefix of its error messages.
    #[must_use]
    pub fn new(options: Options, first: Vec<(Wanted, String)>) -> Self {
        let (planned, vcpus) = (Vec::new(), Held::default());
        Self {
            options,
            first,
            planned,
            vcpus,
            control: None,
            decisions: None,
            event: None,
            requests: None,
            notes: Vec::new(),
        }
    }

    /// The same part; this event counts the requests to memory of each VCPU, where the policy for
    /// background time asks for them.
    #[must_use]
    pub fn counting(self, event: Option<&str>) -> Self {
        Self { event: event.map(str::to_owned), ..self }
    }

    /// The part with the VCPUs of a plan from the file `path`. A plan that throttles and has no
    /// VCPU for the memory's monitor gets one, where there is room.
    #[must_use]
    pub fn planned(options: Options, planned: &[PlanVcpu], path: &str) -> Self {
        let wanted = |v: &PlanVcpu| Wanted {
            name: v.name.clone(),
            capacity_ns: v.capacity_ns,
            period_ns: v.period_ns,
            core: Some(v.core),
            fixed: v.fixed,
            colours: v.colours,
        };
        let mut first: Vec<(Wanted, String)> =
            planned.iter().map(|v| (wanted(v), path.to_owned())).collect();
        let throttle = options.scheduling.throttle;
        if let Some(t) = throttle.filter(|_| !planned.iter().any(|v| v.name == MONITOR)) {
            let own = Wanted::monitor(&t.monitor.unwrap_or_default());
            first.push((own, format!("{path}: the memory's monitor")));
        }
        Self { planned: planned.to_vec(), ..Self::new(options, first) }
    }

    /// The scheduler, while it runs.
    #[must_use]
    pub fn vcpus(&self) -> Held<Vcpus> {
        Held::clone(&self.vcpus)
    }

    /// Binds tasks of the plan to their VCPUs; attached processes are put back with the settings.
    #[must_use]
    pub fn bind(&self, settings: &Settings) -> Bind {
        let (vcpus, planned, settings) = (self.vcpus(), self.planned.clone(), settings.clone());
        Box::new(move |name, member| {
            let (vcpus, planned) =
                (vcpus.borrow(), planned.iter().find(|v| v.tasks.iter().any(|t| t == name)));
            let (Some(vcpus), Some(planned)) = (vcpus.as_ref(), planned) else { return Ok(()) };
            let id = vcpus.find(&planned.name)?;
            // A thread that is bound to a core cannot follow its VCPU.
            let moves = vcpus.options().scheduling.balance_ns.is_some() && !planned.fixed;
            match member {
                Member::Thread(tid) => {
                    if moves {
                        machine::free_thread(tid)?;
                    }
                    vcpus.bind_thread(tid, Some(id))
                }
                Member::Process(pid) => {
                    if moves {
                        settings.change(|changes| free(changes, pid))?;
                    }
                    vcpus.bind_process(pid, Some(id))
                }
            }
        })
    }

    fn about_trace(&self) -> [(&'static str, String); 5] {
        let s = &self.options.scheduling;
        [
            ("scheduler", "vcpu".to_owned()),
            ("background", s.background.name().to_owned()),
            ("strict", u8::from(s.strict).to_string()),
            ("limit", s.replenishments.to_string()),
            ("overhead_ns", s.overhead_ns.to_string()),
        ]
    }
}

/// Lets the threads of an attached process run on every CPU.
fn free(changes: &mut Changes, pid: u32) -> Result<(), LinuxError> {
    let online = machine::online_cpus()?;
    each_thread(pid, |thread| {
        let fail = |e: std::io::Error| {
            LinuxError::of_io(
                &format!("thread {}", thread.tid),
                &e,
                "run as root; does it still run?",
            )
        };
        changes.bind(thread, online.clone()).map_err(fail)
    })
}

impl Part for Scheduling {
    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        if promise.subject != Subject::Vcpu {
            return None;
        }
        let vcpus = self.vcpus.borrow();
        let intruders = vcpus.as_ref().map_or_else(Vec::new, |vcpus| vcpus.intruders());
        Some(match intruders.iter().find(|i| i.lost_foreground_ns > 0) {
            Some(intruder) => {
                let why =
                    format!("a real-time thread took time from the VCPU: {}", intruder.text());
                Answer::open(promise, true, why)
            }
            None => Answer::kept(
                promise,
                "vcpus",
                true,
                "the scheduler of VCPUs gives each VCPU its capacity",
            ),
        })
    }

    fn check(&mut self) -> Result<(), LinuxError> {
        machine::check_sched_ext()
    }

    fn preview(&self, preview: &mut Preview) {
        preview.background = Some(self.options.scheduling.background.name());
        preview.vcpus = Some(self.planned.clone());
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        let mut vcpus = Vcpus::start(self.options.clone())?;
        for (wanted, of) in &self.first {
            vcpus.create(wanted).map_err(|e| e.of(of))?;
        }
        if self.options.scheduling.background == Background::LeastMemory {
            let (requests, instead) = Requests::start(&vcpus, self.event.as_deref())?;
            let event = requests.event();
            self.notes.push(format!("background time goes to the VCPU with the fewest {event}"));
            self.notes.extend(instead);
            self.requests = Some(requests);
        }
        self.control = Some(Control::open()?);
        let cpus = vcpus.counts().len();
        self.decisions =
            self.options.traced.then(|| Decisions::begin(&self.about_trace(), cpus, Vec::new()));
        *self.vcpus.borrow_mut() = Some(vcpus);
        Ok(())
    }

    fn look(&mut self, round: &mut Round) -> Result<Next, LinuxError> {
        let mut vcpus = self.vcpus.borrow_mut();
        let (Some(vcpus), Some(control)) = (vcpus.as_mut(), &self.control) else {
            return Ok(Next::GoOn);
        };
        vcpus.check()?;
        vcpus.look_at_groups();
        if let Some(requests) = &mut self.requests {
            requests.look(vcpus)?;
        }
        round.messages.extend(control.serve(vcpus));
        if let Some(decisions) = &mut self.decisions {
            decisions.add(vcpus.events());
        }
        Ok(Next::GoOn)
    }

    /// The rings of events are short, and a client may wait for an answer.
    fn every(&self) -> Duration {
        Duration::from_millis(25)
    }

    fn notes(&self) -> Vec<String> {
        let vcpus = self.vcpus.borrow();
        let of_vcpus = vcpus.as_ref().map_or_else(Vec::new, |vcpus| vcpus.notes().to_vec());
        self.notes.iter().cloned().chain(of_vcpus).collect()
    }

    fn about(&self) -> Option<String> {
        let cpus = self.vcpus.borrow().as_ref()?.counts().len();
        Some(match self.planned.len() {
            0 => format!("scheduling VCPUs on {cpus} CPUs"),
            planned => format!("scheduling {planned} VCPUs of the plan on {cpus} CPUs"),
        })
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        let vcpus = self.vcpus.borrow();
        let Some(vcpus) = vcpus.as_ref() else { return Ok(()) };
        let before = run.vcpus.take().unwrap_or_default();
        run.vcpus = Some(RunVcpus {
            background: self.options.scheduling.background.name().to_owned(),
            throttling: before.throttling,
            migration: before.migration,
            vcpus: vcpus.list(),
            cpus: vcpus.counts(),
            intruders: vcpus.intruders(),
        });
        Ok(())
    }

    fn traced(&mut self, traces: &mut Traces) {
        if let Some(decisions) = self.decisions.take() {
            decisions.hand_over(traces);
        }
    }

    fn end(&mut self) {
        self.control = None;
        self.requests = None;
        self.vcpus.borrow_mut().take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::plan::VcpuScheduling;

    /// Fails when the monitor of a plan that throttles has no VCPU, or two.
    #[test]
    fn a_plan_that_throttles_has_one_vcpu_for_the_monitor() {
        let planned = |name: &str| PlanVcpu {
            name: name.to_owned(),
            core: 0,
            capacity_ns: 1_000_000,
            period_ns: 10_000_000,
            response_ns: None,
            admitted: true,
            fixed: true,
            colours: 0,
            tasks: Vec::new(),
            derivation: None,
        };
        let monitors = |throttle: Option<&str>, names: &[&str]| {
            let throttle = throttle.map(|text| serde_json::from_str(text).unwrap());
            let scheduling = VcpuScheduling { throttle, ..VcpuScheduling::default() };
            let options = Options { scheduling, ..Options::default() };
            let vcpus: Vec<PlanVcpu> = names.iter().map(|name| planned(name)).collect();
            let part = Scheduling::planned(options, &vcpus, "plan.json");
            let own = part.first.iter().filter(|(wanted, _)| wanted.name == MONITOR);
            own.map(|(wanted, _)| wanted.period_ns).collect::<Vec<u64>>()
        };
        let throttle = Some(r#"{"max_latency": "1 us"}"#);
        assert!(monitors(None, &["a"]).is_empty());
        assert_eq!(monitors(throttle, &["a"]), [20_000_000], "a plan without one");
        assert_eq!(monitors(throttle, &["a", MONITOR]), [10_000_000], "the planned one");
    }
}
