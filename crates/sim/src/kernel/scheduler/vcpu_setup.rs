//! Sets a VCPU scheduler up: checks, places (`balance.h`) and admits (`admission.h`) its VCPUs.
//!
//! A VCPU without a core goes where `FIND_HOST_CPU` says (maracas, Algorithm 2, lines 1 to 13). The
//! policy expects a VCPU that has a core already, and takes that core to be able to run it. So a
//! new VCPU is first put on the core with the least slack that has room for it. That core is the
//! answer only if no other core can take the VCPU.

use super::places::{id, ranks};
use super::vcpu::{Throttling, Vcpu, VcpuScheduler};
use super::vcpu_cores::Cores;
use crate::hardware::Uncore;
use crate::kernel::config::{
    Background, Balancing, KernelError, TaskSpec, ThrottleSpec, VcpuConfig, span_ns,
};
use solocore_policy::MAX_TASKS;
use solocore_policy::admission::{Admission, Response, utilization};
use solocore_policy::balance::Balance;
use solocore_policy::ready_set::ReadySet;
use solocore_policy::sporadic_server::{Config, MAX_REPLENISHMENTS};
use solocore_policy::throttle::Throttle;

fn error(what: impl Into<String>) -> KernelError {
    KernelError::config("scheduler", what)
}

/// The scheduler, with all VCPUs in place and blocked.
///
/// # Errors
/// [`KernelError`] where a number is out of range, or a core, task or VCPU does not exist or does
/// not fit.
pub fn build(
    config: &VcpuConfig,
    tasks: &[TaskSpec],
    cores: usize,
    now_ps: u64,
) -> Result<VcpuScheduler, KernelError> {
    if config.vcpus.is_empty() || config.vcpus.len() > MAX_TASKS {
        return Err(error(format!(
            "there are {} VCPUs; 1 to {MAX_TASKS} are possible",
            config.vcpus.len()
        )));
    }
    let vcpu = tasks.iter().map(|t| vcpu_of(t, config)).collect::<Result<Vec<_>, _>>()?;
    let servers = servers(config)?;
    let (balance, places) = place(config, &servers, cores)?;
    if config.admission {
        admit(&servers, &places, cores)?;
    }
    let now_ns = now_ps / 1000;
    let policy = config.background.unwrap_or_default();
    let mut policies = Cores::new(cores, policy, now_ns);
    for (v, (&server, &core)) in servers.iter().zip(&places).enumerate() {
        if !policies.add(core, v, server, now_ns) {
            return Err(error(format!("VCPU {v} has a capacity or period out of range")));
        }
    }
    if config.background.is_none() {
        (0..cores).for_each(|core| policies.allow_background(core, false, now_ns));
    }
    let seat = |(&config, &core): (&Config, &usize)| Vcpu {
        core,
        config,
        ready: ReadySet::new(),
        seen: (0, 0),
    };
    let throttling = config.throttle.map(|spec| throttling(spec, cores)).transpose()?;
    let by_intensity = config.background == Some(Background::LeastMemory);
    let longest = config.vcpus.iter().map(|v| v.period_ps).max();
    let (rank, order) = ranks(tasks);
    Ok(VcpuScheduler {
        vcpus: servers.iter().zip(&places).map(seat).collect(),
        cores: policies,
        vcpu,
        rank,
        order,
        background: config.background.is_some(),
        by_intensity,
        allowed: vec![config.background.is_some(); cores],
        monitor_ps: config.throttle.map(|t| t.period_ps).or(longest.filter(|_| by_intensity)),
        throttling,
        balance: match config.balancing {
            Balancing::Static => None,
            Balancing::Full { limit: 0 } => {
                return Err(error("balancing moves 0 VCPUs at a time; allow at least 1"));
            }
            Balancing::Full { limit } => Some((balance, limit)),
        },
        moves: vec![0; cores],
    })
}

fn vcpu_of(task: &TaskSpec, config: &VcpuConfig) -> Result<usize, KernelError> {
    match task.vcpu {
        Some(v) if v < config.vcpus.len() => Ok(v),
        Some(v) => Err(KernelError::task(
            task,
            format!("is on VCPU {v}, but there are {}; define it", config.vcpus.len()),
        )),
        None => Err(KernelError::task(task, "has no VCPU; name one")),
    }
}

fn servers(config: &VcpuConfig) -> Result<Vec<Config>, KernelError> {
    let most = id(MAX_REPLENISHMENTS);
    let limit = config.replenishments.unwrap_or(most);
    if limit == 0 || limit > most {
        return Err(error(format!("VCPUs have {limit} replenishments; 1 to {most} are possible")));
    }
    let server = |(v, spec): (usize, &crate::kernel::config::VcpuSpec)| {
        let place = format!("VCPU {v}");
        let capacity_ns = span_ns(spec.capacity_ps, &place, "a capacity")?;
        let period_ns = span_ns(spec.period_ps, &place, "a period")?;
        if capacity_ns > period_ns {
            return Err(KernelError::config(
                place,
                format!("its capacity, {capacity_ns} ns, is above its period, {period_ns} ns"),
            ));
        }
        Ok(Config { capacity_ns, period_ns, strict: config.strict, limit })
    };
    config.vcpus.iter().enumerate().map(server).collect()
}

/// Puts every VCPU on a core.
fn place(
    config: &VcpuConfig,
    servers: &[Config],
    cores: usize,
) -> Result<(Box<Balance>, Vec<usize>), KernelError> {
    let mut balance = Balance::new(id(cores), config.colours.is_some())
        .ok_or_else(|| KernelError::config("board", "has no cores, or more than 256"))?;
    if let Some(colours) = &config.colours {
        if colours.len() != cores {
            return Err(error(format!(
                "colours are given for {} cores, but the board has {cores}",
                colours.len()
            )));
        }
        colours.iter().enumerate().for_each(|(core, &free)| {
            balance.set_colours(id(core), free);
        });
    }
    let mut places = Vec::new();
    for (v, (server, spec)) in servers.iter().zip(&config.vcpus).enumerate() {
        let share = utilization(server.capacity_ns, server.period_ns)
            .ok_or_else(|| error(format!("VCPU {v}: no share")))?;
        let core = match spec.core {
            Some(core) if core >= cores => {
                return Err(error(format!(
                    "VCPU {v} is on core {core}, but the board has cores 0 to {}",
                    cores - 1
                )));
            }
            Some(core) => core,
            None => host(&mut balance, v, share, spec.colours, cores).ok_or_else(|| {
                error(format!(
                    "VCPU {v} needs {} free page colours; no core has them",
                    spec.colours
                ))
            })?,
        };
        if !balance.add(id(v), share, id(core), spec.colours) {
            let what = format!(
                "VCPU {v} does not fit core {core}: it has 64 VCPUs, or fewer than {} free colours",
                spec.colours
            );
            return Err(error(what));
        }
        balance.fix(id(v), config.fixed.contains(&v));
        places.push(core);
    }
    Ok((balance, places))
}

/// The core that `FIND_HOST_CPU` gives a new VCPU; `None` if none has its colours.
fn host(balance: &mut Balance, v: usize, share: u64, colours: u64, cores: usize) -> Option<usize> {
    let slack = |b: &Balance, core: usize| {
        b.core(id(core)).map_or(0, solocore_policy::balance::BalanceCore::slack)
    };
    let mut order: Vec<usize> = (0..cores).collect();
    order.sort_by_key(|&core| (slack(balance, core), core));
    let start = order.into_iter().find(|&core| balance.add(id(v), share, id(core), colours))?;
    let host = balance.host(id(v)).map_or(start, |core| core as usize);
    balance.remove(id(v));
    Some(host)
}

/// Can every core keep its VCPUs' guarantees? Priorities are rate monotonic.
fn admit(servers: &[Config], places: &[usize], cores: usize) -> Result<(), KernelError> {
    for core in 0..cores {
        let mut here: Vec<usize> = (0..servers.len()).filter(|&v| places[v] == core).collect();
        here.sort_by_key(|&v| (servers[v].period_ns, v));
        let mut set = Admission::new();
        for &v in &here {
            if set.add(servers[v].capacity_ns, servers[v].period_ns, None).is_none() {
                return Err(error(format!("core {core} has more than 64 VCPUs")));
            }
        }
        let fits = |at: usize| matches!(set.response(id(at)), Some(Response::Fits(_)));
        if !set.passes_rms()
            && let Some(at) = (0..here.len()).find(|&at| !fits(at))
        {
            let what = format!(
                "VCPU {} cannot have its capacity on core {core}: give it or others less",
                here[at]
            );
            return Err(error(what));
        }
    }
    Ok(())
}

fn throttling(spec: ThrottleSpec, cores: usize) -> Result<Throttling, KernelError> {
    if spec.period_ps == 0 || spec.check_ps == 0 {
        return Err(error("the monitor's period and check interval must not be 0"));
    }
    let policy = Throttle::new(id(cores), spec.rule, spec.threshold, spec.idle_per_mille)
        .ok_or_else(|| {
            error(
                "throttling needs a threshold of at least 1 and an idle share of 0 to 1000 \
            thousandths",
            )
        })?;
    let zero = vec![0; cores];
    Ok(Throttling {
        spec,
        policy,
        uncore: Uncore::default(),
        transactions: zero.clone(),
        background_ns: zero,
    })
}
