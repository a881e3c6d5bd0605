//! `solocore run` of a plan with VCPUs: schedules them as planned, with the plan's tasks in them.
//!
//! Rule: the scheduler of `solocore vcpu serve` with the plan's options; its VCPUs on the plan's cores, each admitted again before anything
//! runs; tasks are started or attached as in every run, as ordinary threads, and bound to their VCPUs before the first job is released. What
//! is bound to none is best effort. While it runs, `solocore vcpu` and `solocore exec --vcpu` find it.
//! A plan's `throttle` is applied as that of `solocore vcpu serve --threshold`; no bound rests on it.
//! Does not cover: budgets of accesses.

use crate::args::{DEFAULT_EVENT, Format, RunArgs, RunEngine, RunSharing};
use crate::commands::sched_trace::Record;
use crate::commands::vcpu_memory::{Monitor, Throttled, Wanted as Throttling};
use crate::commands::{isolation, vcpu};
use crate::fail::Failure;
use crate::print::print;
use crate::table;
use serde::Serialize;
use solocore_linux::schedule::isolate::{self, Isolation, Layout};
use solocore_linux::schedule::jobs::TaskRun;
use solocore_linux::schedule::placed::How;
use solocore_linux::schedule::vcpus::control::Control;
use solocore_linux::schedule::vcpus::{Background, CpuCounts, Intruder, Options, VcpuState, Vcpus, Wanted};
use solocore_linux::{Instance, LinuxError, host::machine};
use solocore_model::plan::{PlanVcpu, VcpuScheduling, VcpusPlan};
use solocore_model::{Plan, files, vcpus as model};
use std::cell::RefCell;
use std::process::ExitCode;

/// What is printed at the end.
#[derive(Serialize)]
struct Summary<'a> {
    format: &'static str,
    duration_ns: u64,
    /// "duration", "signal", or why it could not go on.
    ended: String,
    background: &'static str,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttling: Option<Throttled>,
    vcpus: Vec<VcpuState>,
    cpus: Vec<CpuCounts>,
    /// Real-time threads, which no VCPU holds.
    intruders: Vec<Intruder>,
    /// The plan's tasks; times of jobs count from the begin.
    tasks: Vec<TaskRun>,
    plan: &'a Plan,
}

/// What `--dry-run` says.
#[derive(Serialize)]
struct DryRun<'a> {
    format: &'static str,
    background: &'static str,
    /// Why this machine cannot; `null` if it can.
    machine: Option<String>,
    notes: &'a [String],
    vcpus: &'a [PlanVcpu],
    isolation: isolate::Preview,
}

/// Checks, schedules, and says what happened.
pub fn run(args: &RunArgs, plan: &Plan, planned: &VcpusPlan) -> Result<ExitCode, Failure> {
    check_arguments(args)?;
    let layout = isolation::layout_with(&args.isolation, plan, &args.plan, (false, false))?;
    let notes = notes(plan);
    // When nobody asks, the first that can be counted is taken.
    let event = (args.event != DEFAULT_EVENT).then_some(args.event.as_str());
    let throttling = planned.scheduling.throttle.map(|t| Throttling::of_plan(&t, event));
    let options = options(args, &planned.scheduling, throttling.as_ref());
    if args.dry_run {
        let notes: Vec<String> = layout.notes.iter().cloned().chain(notes).collect();
        let notes: Vec<String> = notes.into_iter().chain(throttling.as_ref().map(Throttling::text)).collect();
        return dry_run(args, &planned.vcpus, &options, &layout, &notes);
    }
    machine::check_privileges()?;
    let instance = Instance::take()?;
    let mut monitor = throttling.as_ref().map(Monitor::begin).transpose()?;
    let mut vcpus = Vcpus::start(options)?;
    let ids = create(&mut vcpus, &planned.vcpus).map_err(|e| Failure::from(e).of(&args.plan.display().to_string()))?;
    let control = Control::open()?;
    let mut record = Record::of_vcpus(&options, vcpus.counts().len());
    let begun = isolate::now_ns();
    let tasks = RefCell::new(bind(&vcpus, &planned.vcpus, &layout, &ids)?);
    for note in notes.iter().chain(vcpus.notes()).chain(&tasks.borrow().notes()) {
        eprintln!("solocore: note: {note}");
    }
    eprintln!("scheduling {} VCPUs of the plan on {} CPUs; Ctrl-C ends it", ids.len(), vcpus.counts().len());
    let mut look = |vcpus: &Vcpus| {
        tasks.borrow_mut().look();
        monitor.as_mut().map_or(Ok(()), |monitor| monitor.look(vcpus))
    };
    let (ended, lost) = vcpu::look_after(args.duration, &mut vcpus, &control, &mut record, &mut look);
    let tasks = tasks.into_inner();
    let summary = Summary {
        format: "solocore-run-vcpus/1",
        duration_ns: isolate::now_ns().saturating_sub(begun),
        ended,
        background: options.background.name(),
        notes: notes.into_iter().chain(tasks.notes()).collect(),
        throttling: monitor.as_ref().map(Monitor::found),
        vcpus: vcpus.list(),
        cpus: vcpus.counts(),
        intruders: vcpus.intruders(),
        tasks: since(begun, tasks.tasks()),
        plan,
    };
    drop(control);
    drop(tasks);
    let ending = vcpu::Ending {
        sched_trace: args.scheduling.sched_trace.as_deref(),
        trace: args.isolation.trace.as_deref(),
        output: args.output.as_deref(),
        format: args.format,
    };
    ending.conclude((vcpus, instance), record, &summary.vcpus, &summary, text)?;
    lost.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}

/// What is about budgets of accesses has no place here.
fn check_arguments(args: &RunArgs) -> Result<(), Failure> {
    let given = [
        ("--engine helper", args.engine == RunEngine::Helper),
        ("--write-event", args.write_event.is_some()),
        ("--sample", args.sample.is_some()),
        ("--reclaim", args.reclaim),
        ("--share", args.share != RunSharing::None),
        ("--metrics", args.metrics.is_some()),
        ("--resctrl", args.isolation.resctrl),
    ];
    match given.iter().find(|g| g.1) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::Input(format!(
            "{option} is for budgets of accesses, which a plan with VCPUs has none of; leave it out"
        ))),
    }
}

fn options(args: &RunArgs, m: &VcpuScheduling, throttling: Option<&Throttling>) -> Options {
    let defaults = Options::default();
    Options {
        background: match m.background {
            model::Background::LeastTime => Background::LeastTime,
            model::Background::Keep => Background::Keep,
            model::Background::LeastMemory => Background::LeastMemory,
            model::Background::None => Background::None,
        },
        strict: m.strict,
        replenishments: m.replenishments,
        best_effort_ns: m.best_effort_ns,
        overhead_ns: m.overhead_ns,
        balance_ns: m.balance_ns.map(|ns| ns.max(100_000)),
        colours: m.core_colours,
        traced: args.scheduling.sched_trace.is_some() || args.isolation.trace.is_some(),
        throttling: throttling.map(|t| t.settings),
        check_ns: throttling.map_or(defaults.check_ns, |t| t.check_ns),
        ..defaults
    }
}

fn notes(plan: &Plan) -> Vec<String> {
    let refused = "the plan is not schedulable: see its reasons; what does not fit is refused";
    if plan.schedulable { Vec::new() } else { vec![refused.to_owned()] }
}

/// The plan's VCPUs, and their numbers. One that does not fit leaves nothing behind, as the scheduler ends.
fn create(vcpus: &mut Vcpus, planned: &[PlanVcpu]) -> Result<Vec<u32>, LinuxError> {
    let wanted = |v: &PlanVcpu| Wanted {
        name: v.name.clone(),
        capacity_ns: v.capacity_ns,
        period_ns: v.period_ns,
        core: Some(v.core),
        fixed: v.fixed,
        colours: v.colours,
    };
    planned.iter().map(|v| vcpus.create(&wanted(v))).collect()
}

/// Starts or attaches the tasks, each in its VCPU.
fn bind(vcpus: &Vcpus, planned: &[PlanVcpu], layout: &Layout, ids: &[u32]) -> Result<Isolation, LinuxError> {
    let of = |name: &str| planned.iter().position(|v| v.tasks.iter().any(|t| t == name));
    let moves = |v: usize| vcpus.options().balance_ns.is_some() && !planned[v].fixed;
    let bind = |name: &str, tid: u32| {
        let Some(v) = of(name) else { return Ok(()) };
        // A thread that is bound to a core cannot follow its VCPU.
        if moves(v) {
            machine::free_thread(tid)?;
        }
        vcpus.bind_thread(tid, Some(ids[v]))
    };
    let isolation = layout.apply_bound(&bind)?;
    for task in &layout.tasks {
        if let (How::Attach(pid), Some(v)) = (&task.how, of(&task.name)) {
            if moves(v) {
                machine::threads_of(*pid)?.into_iter().try_for_each(machine::free_thread)?;
            }
            vcpus.bind_process(*pid, Some(ids[v]))?;
        }
    }
    Ok(isolation)
}

fn since(begun: u64, mut tasks: Vec<TaskRun>) -> Vec<TaskRun> {
    for job in tasks.iter_mut().flat_map(|t| &mut t.latest) {
        for time in [&mut job.release_ns, &mut job.start_ns, &mut job.end_ns] {
            *time = time.saturating_sub(begun);
        }
    }
    tasks
}

fn dry_run(
    args: &RunArgs,
    planned: &[PlanVcpu],
    options: &Options,
    layout: &Layout,
    notes: &[String],
) -> Result<ExitCode, Failure> {
    let machine = machine::check_privileges().and_then(|()| machine::check_sched_ext());
    let result = DryRun {
        format: "solocore-dry-run-vcpus/1",
        background: options.background.name(),
        machine: machine.as_ref().err().map(ToString::to_string),
        notes,
        vcpus: planned,
        isolation: layout.preview(),
    };
    match args.format {
        Format::Json => print(&files::to_json(&result))?,
        Format::Text => {
            let mut rows = vec![["VCPU", "core", "C ms", "T ms", "response ms", "tasks"].map(str::to_owned).to_vec()];
            rows.extend(planned.iter().map(|v| {
                let ms = |ns| table::ms(ns);
                vec![
                    v.name.clone(),
                    v.core.to_string(),
                    ms(Some(v.capacity_ns)),
                    ms(Some(v.period_ns)),
                    ms(v.response_ns),
                    v.tasks.join(" "),
                ]
            }));
            let mut out = table::render(&rows) + "\n" + &isolation::preview_text(&result.isolation);
            for note in notes {
                out += &format!("note: {note}\n");
            }
            print(&(out + "nothing was changed\n"))?;
        }
    }
    machine?;
    Ok(ExitCode::SUCCESS)
}

fn text(s: &Summary<'_>) -> String {
    vcpu::text_of(&s.vcpus)
        + &vcpu::cpus_text(&s.cpus)
        + &s.throttling.as_ref().map(Throttled::text).unwrap_or_default()
        + &vcpu::intruders_text(&s.intruders)
        + &isolation::tasks_text(s.tasks.iter())
        + &format!("\nVCPUs, background {}, {:.3} s; ended by {}\n", s.background, s.duration_ns as f64 / 1e9, s.ended)
}
