//! From a scenario to a board and a kernel configuration.

use super::{
    DeviceEntry, HitCap, Limit, PlaceEntry, RegulationEntry, Resolution, Scenario, SchedulerEntry,
    SharingEntry, TableEntry, TaskEntry, VcpuScheduler,
};
use crate::board::{Board, BoardError, Place};
use crate::kernel::KernelConfig;
use crate::kernel::config::{
    Balancing, Budget, CoreTable, Costs, Level, RegulatorSpec, Release, Role, SchedulerSpec,
    Sharing, TaskBudget, ThrottleSpec, VcpuConfig, VcpuSpec, Window, background, lines,
};
use crate::machine::{DmaSpec, Stream};
use crate::workload::BuildContext;
use solocore_model::system::Criticality;
use solocore_model::{ModelError, Platform, Time, files};

/// A scenario ready to run.
pub struct Prepared {
    /// Programs, tasks and devices.
    pub board: Board,
    /// Scheduler, regulator, costs.
    pub kernel: KernelConfig,
    /// Requests, or intervals.
    pub resolution: Resolution,
    /// Simulated time.
    pub duration_ps: u64,
}

/// Builds the system that a scenario describes.
///
/// # Errors
/// The file, the line of the table at fault, the fault and the remedy.
pub fn prepare(scenario: &Scenario) -> Result<Prepared, ModelError> {
    let s = &scenario.simulation;
    let mut board =
        Board::new(&scenario.platform, s.seed).map_err(|e| refused(scenario, None, &e))?;
    board.config.row_hit_cap = match &s.row_hit_cap {
        None => board.config.row_hit_cap,
        Some(HitCap::Number(n)) => Some(*n),
        Some(HitCap::Off(word)) if word == "off" => None,
        Some(HitCap::Off(word)) => {
            return Err(invalid(
                scenario,
                None,
                format!("row_hit_cap = \"{word}\"; give a number or \"off\""),
            ));
        }
    };
    board.config.prefetcher = s.prefetcher;
    board.config.translation = s.translation;
    board.config.check().map_err(|e| refused(scenario, None, &e.into()))?;
    check_names(scenario)?;
    for (at, (task, line)) in scenario.tasks.iter().enumerate() {
        add_task(scenario, &mut board, at, task).map_err(|what| match what {
            Fault::Board(e) => refused(scenario, Some(*line), &e),
            Fault::Words(message) => {
                invalid(scenario, Some(*line), format!("task `{}`: {message}", task.name))
            }
        })?;
    }
    for (device, line) in &scenario.devices {
        add_device(scenario, &mut board, device).map_err(|e| refused(scenario, Some(*line), &e))?;
    }
    let words = |message: String| invalid(scenario, None, message);
    let kernel = KernelConfig {
        scheduler: scheduler(scenario).map_err(words)?,
        regulator: regulator(scenario).map_err(words)?,
        costs: costs(scenario),
        observe_period_ps: s.count_period.map(Time::ps),
        transfers: Vec::new(),
        seed: s.seed,
    };
    Ok(Prepared { board, kernel, resolution: s.resolution, duration_ps: s.duration.ps() })
}

enum Fault {
    Board(BoardError),
    Words(String),
}

impl<E: Into<BoardError>> From<E> for Fault {
    fn from(e: E) -> Self {
        Self::Board(e.into())
    }
}

fn invalid(scenario: &Scenario, line: Option<usize>, message: String) -> ModelError {
    ModelError::Invalid { path: scenario.path.clone(), line, message }
}

fn refused(scenario: &Scenario, line: Option<usize>, error: &BoardError) -> ModelError {
    invalid(scenario, line, error.to_string())
}

fn check_names(scenario: &Scenario) -> Result<(), ModelError> {
    let tasks = scenario.tasks.iter().map(|(t, line)| (&t.name, Some(*line)));
    let devices = scenario.devices.iter().map(|(d, line)| (&d.name, Some(*line)));
    let vcpus = scenario.vcpus.iter().map(|v| (&v.name, None));
    for names in [tasks.chain(devices).collect::<Vec<_>>(), vcpus.collect()] {
        for (at, (name, line)) in names.iter().enumerate() {
            if name.trim().is_empty() {
                return Err(invalid(scenario, *line, "a name is empty; give it one".to_owned()));
            }
            if names[..at].iter().any(|(other, _)| other == name) {
                return Err(invalid(
                    scenario,
                    *line,
                    format!("`{name}` is there twice; rename one"),
                ));
            }
        }
    }
    Ok(())
}

fn place(entry: &PlaceEntry) -> Place {
    Place {
        banks: entry.banks.as_ref().map(|r| r.0.clone()),
        colours: entry.colours.as_ref().map(|r| r.0.clone()),
        frames: None,
        kind: entry.cache,
    }
}

/// The numbers of a task's core, where it states one. Stated times stay those of the slowest type.
fn context(of_board: BuildContext, platform: &Platform, entry: &TaskEntry) -> BuildContext {
    let Some(core) = entry.core.and_then(|core| u32::try_from(core).ok()) else { return of_board };
    let frequency_hz = of_board.frequency_hz;
    BuildContext { frequency_hz, ..of_board.on_core(platform, core) }
}

fn add_task(
    scenario: &Scenario,
    board: &mut Board,
    at: usize,
    entry: &TaskEntry,
) -> Result<(), Fault> {
    let base = files::parent_dir(&scenario.path);
    let context = context(board.context(base), &scenario.platform, entry);
    let has_jobs = entry.workload.build(&context)?.has_jobs;
    if entry.period.is_some() && entry.sporadic.is_some() {
        return Err(Fault::Words("has a period and is sporadic; give one of the two".to_owned()));
    }
    if (entry.period.is_some() || entry.sporadic.is_some()) && !has_jobs {
        return Err(Fault::Words(
            "is released in jobs, but its workload never ends; give the workload a job, like job = \
                { passes = 1 }"
                .to_owned(),
        ));
    }
    let cores = scenario.platform.cores;
    if let Some(core) = entry.core.filter(|&c| c >= cores as usize) {
        let message = format!(
            "is on core {core}, but the board has cores 0 to {}; place it on one of these",
            cores - 1
        );
        return Err(Fault::Words(message));
    }
    let regions: Vec<(&str, Place)> =
        entry.regions.iter().map(|(name, e)| (name.as_str(), place(e))).collect();
    let index =
        board.add_in(&entry.name, &entry.workload, context, &place(&entry.place), &regions)?;
    if let Some(ways) = &entry.ways {
        let all = board.platform().llc.ways;
        let mask = ways.mask().filter(|m| all >= 64 || m >> all == 0);
        let Some(mask) = mask else {
            return Err(Fault::Words(format!(
                "has ways beyond the {all} of the shared cache; name 0 to {}",
                all - 1
            )));
        };
        board.space(index).ways = mask;
    }
    let vcpu = match &entry.vcpu {
        None => None,
        Some(name) => match scenario.vcpus.iter().position(|v| &v.name == name) {
            None => {
                return Err(Fault::Words(format!(
                    "its VCPU `{name}` is no [[vcpu]]; add one of that name"
                )));
            }
            found => found,
        },
    };
    let priority = entry.priority.unwrap_or_else(|| rate_monotonic(scenario, at));
    let task = board.task(index);
    task.core = entry.core;
    task.release = release(entry);
    task.deadline_ps = entry.deadline.or(entry.period).or(entry.sporadic).map(Time::ps);
    task.priority = priority;
    task.level = entry.criticality.map(|c| match c {
        Criticality::A => Level::A,
        Criticality::B => Level::B,
        Criticality::C => Level::C,
        Criticality::D => Level::D,
    });
    task.pet_ps = entry.pet.map(Time::ps);
    task.vcpu = vcpu;
    task.partition = entry.partition;
    task.realtime = entry.realtime;
    task.budget =
        entry.budget.map(|b| TaskBudget { accesses: b.accesses, length_ps: b.length.ps() });
    task.start_ps = entry.start.ps();
    task.stop_ps = entry.stop.map(Time::ps);
    Ok(())
}

fn release(entry: &TaskEntry) -> Release {
    match (entry.period, entry.sporadic) {
        (Some(period), _) => Release::Periodic {
            period_ps: period.ps(),
            phase_ps: entry.phase.ps(),
            jitter_ps: entry.jitter.ps(),
        },
        (None, Some(least)) => Release::Sporadic {
            min_ps: least.ps(),
            max_ps: entry.sporadic_max.unwrap_or(least).ps(),
        },
        (None, None) => Release::Background,
    }
}

/// Shorter periods come first, then the order of the file; tasks without a period come last.
fn rate_monotonic(scenario: &Scenario, at: usize) -> u32 {
    let key = |t: &TaskEntry| t.period.or(t.sporadic).map_or(u64::MAX, Time::ps);
    let own = key(&scenario.tasks[at].0);
    let before =
        scenario.tasks.iter().enumerate().filter(|(i, (t, _))| (key(t), *i) < (own, at)).count();
    u32::try_from(before).unwrap_or(u32::MAX)
}

fn add_device(
    scenario: &Scenario,
    board: &mut Board,
    entry: &DeviceEntry,
) -> Result<(), BoardError> {
    let (page, line) = (scenario.platform.page.0, scenario.platform.llc.line.0);
    let pages = u32::try_from(entry.buffer.0.div_ceil(page).max(1)).unwrap_or(u32::MAX);
    let frames = board.pages(&entry.name, pages, &place(&entry.place))?;
    let stream = Stream {
        into_memory: entry.into_memory,
        bytes_per_s: entry.rate.map(|r| r.0),
        start_ps: entry.start.ps(),
        stop_ps: entry.stop.map_or(u64::MAX, Time::ps),
    };
    board.device(DmaSpec {
        name: entry.name.clone(),
        frames,
        block_lines: u32::try_from(entry.block.0.div_ceil(line).max(1)).unwrap_or(u32::MAX),
        wait_ps: entry.wait.ps(),
        outstanding: entry.outstanding,
        autonomous: Some(stream),
    });
    Ok(())
}

fn scheduler(scenario: &Scenario) -> Result<SchedulerSpec, String> {
    let tables =
        || scenario.tables.iter().map(|t| table(scenario, t)).collect::<Result<Vec<_>, String>>();
    let spec = match &scenario.scheduler {
        SchedulerEntry::FixedPriority => SchedulerSpec::FixedPriority,
        SchedulerEntry::GlobalEdf => SchedulerSpec::GlobalEdf,
        SchedulerEntry::Levels => return Ok(SchedulerSpec::Levels { tables: tables()? }),
        SchedulerEntry::Windows => return Ok(SchedulerSpec::Windows { tables: tables()? }),
        SchedulerEntry::Vcpu(v) => return Ok(SchedulerSpec::Vcpu(vcpus(scenario, v)?)),
    };
    if !scenario.tables.is_empty() {
        return Err("there are [[table]]s, but the scheduler is neither `levels` nor `windows`; \
            remove them or choose one of these"
            .to_owned());
    }
    Ok(spec)
}

fn table(scenario: &Scenario, entry: &TableEntry) -> Result<CoreTable, String> {
    let window = |w: &super::WindowEntry| {
        let id = match (&w.task, w.partition) {
            (Some(name), None) => {
                scenario.tasks.iter().position(|(t, _)| &t.name == name).ok_or_else(|| {
                    format!(
                        "the table of core {} has a window of `{name}`, which is not a task",
                        entry.core
                    )
                })?
            }
            (None, Some(partition)) => partition,
            _ => {
                return Err(format!(
                    "a window of the table of core {} names a task or a partition, one of the two",
                    entry.core
                ));
            }
        };
        Ok(Window { start_ps: w.start.ps(), end_ps: w.end.ps(), id })
    };
    let windows = entry.window.iter().map(window).collect::<Result<_, String>>()?;
    Ok(CoreTable { core: entry.core, frame_ps: entry.frame.ps(), windows })
}

fn vcpus(scenario: &Scenario, v: &VcpuScheduler) -> Result<VcpuConfig, String> {
    let spec = |e: &super::VcpuEntry| VcpuSpec {
        capacity_ps: e.capacity.ps(),
        period_ps: e.period.ps(),
        core: e.core,
        colours: e.colours,
    };
    Ok(VcpuConfig {
        vcpus: scenario.vcpus.iter().map(spec).collect(),
        background: background(v.background),
        strict: v.strict,
        throttle: v
            .throttle
            .map(|t| {
                if t.monitor.is_some() {
                    return Err(
                        "throttle: the monitor of a scenario takes no time; leave `monitor` out",
                    );
                }
                ThrottleSpec::of(&scenario.platform, &t)
                    .ok_or("throttle: give max_latency or max_rate, one of the two")
            })
            .transpose()?,
        balancing: if v.migrations == 0 {
            Balancing::Static
        } else {
            Balancing::Full { limit: v.migrations }
        },
        fixed: Vec::new(),
        replenishments: None,
        colours: v.colours.clone(),
        admission: v.admission,
    })
}

fn regulator(scenario: &Scenario) -> Result<RegulatorSpec, String> {
    let cores = scenario.platform.cores as usize;
    Ok(match &scenario.regulation {
        RegulationEntry::None => RegulatorSpec::None,
        RegulationEntry::Memguard { period, bandwidth, reclaim, sharing } => {
            if bandwidth.len() > cores {
                let given = bandwidth.len();
                return Err(format!(
                    "[regulation]: bandwidth of {given} cores, but the board has {cores}; leave \
                        some out"
                ));
            }
            let role = Role { hard: !reclaim, predict: *reclaim, reclaim: *reclaim };
            let core = |core: usize| match bandwidth.get(core) {
                Some(Limit::Rate(rate)) => {
                    (Budget::Together(lines(&scenario.platform, *rate, *period)), role)
                }
                _ => (Budget::Unlimited, Role::default()),
            };
            let sharing = match sharing {
                SharingEntry::None => Sharing::None,
                SharingEntry::Spare => Sharing::Spare,
                SharingEntry::Proportional => Sharing::Proportional,
            };
            RegulatorSpec::MemGuard {
                period_ps: period.ps(),
                cores: (0..cores).map(core).collect(),
                sharing,
                chunk: 32,
            }
        }
        RegulationEntry::Bwlock { period, max_bandwidth, min_bandwidth, immediate } => {
            RegulatorSpec::BwLock {
                period_ps: period.ps(),
                max_budget: max_bandwidth.map(|b| lines(&scenario.platform, b, *period)),
                min_budget: lines(&scenario.platform, *min_bandwidth, *period),
                immediate: *immediate,
            }
        }
        RegulationEntry::Dynamic { hard, soft } => {
            RegulatorSpec::Dynamic { hard: hard.indices(), soft: soft.indices() }
        }
    })
}

fn costs(scenario: &Scenario) -> Costs {
    let c = &scenario.costs;
    Costs {
        timer_ps: c.timer.ps(),
        overflow_ps: c.overflow.ps(),
        switch_ps: c.switch.ps(),
        ipi_ps: c.ipi.ps(),
        ipi_delay_ps: c.ipi_delay.ps(),
        release_ps: c.release.ps(),
        migration_ps: c.migration.ps(),
        interrupt_delay_ps: c.interrupt_delay.ps(),
        skid_transactions: c.skid_transactions,
    }
}
