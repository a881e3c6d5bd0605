//! Checks that these levels are possible on this board, and that their tasks fit their messages and
//! transfers.

use super::{
    Contention, Costs, Fault, Io, Ipc, Isolation, LONGEST, MOST_CORES, MOST_WAYS, bank_bytes,
};
use crate::platform::{Partition, Platform};
use crate::system::{Criticality, SystemTask};
use crate::units::{Bytes, Time};

impl Isolation {
    pub(crate) fn check(
        &self,
        platform: &Platform,
        cores: u32,
        tasks: &[SystemTask],
    ) -> Result<(), Fault> {
        self.check_settings().map_err(|m| (self.line, m))?;
        self.check_board(platform, cores).map_err(|m| (self.line, m))?;
        for task in tasks {
            self.check_task(task, platform)
                .map_err(|m| (task.line, format!("task `{}`: {m}", task.name)))?;
        }
        check_periods(tasks)?;
        for (at, (ipc, line)) in self.ipc.iter().enumerate() {
            let twin = self.ipc[..at].iter().find(|(i, _)| i.from == ipc.from && i.to == ipc.to);
            check_ipc(ipc, twin.map(|t| t.1), platform, tasks)
                .map_err(|m| (*line, format!("[[ipc]] {m}")))?;
        }
        for (at, (io, line)) in self.io.iter().enumerate() {
            let twin =
                self.io[..at].iter().find(|(i, _)| i.task == io.task || i.device == io.device);
            self.check_io(io, twin, platform, tasks).map_err(|m| (*line, format!("[[io]] {m}")))?;
        }
        Ok(())
    }

    fn check_settings(&self) -> Result<(), String> {
        let s = &self.settings;
        if !(s.pet_scale.is_finite() && (1.0..=100.0).contains(&s.pet_scale)) {
            return Err(format!(
                "[levels] pet_scale = {}; give 1 to 100 (the paper: 1.5)",
                s.pet_scale
            ));
        }
        if s.tick_period.ps() == 0 || s.tick >= s.tick_period {
            return Err(format!(
                "[levels] tick = {} every {} leaves no time; shorten the one or lengthen the other",
                s.tick, s.tick_period
            ));
        }
        if s.refresh_period.ps() == 0 || s.refresh.ps() > s.refresh_period.ps() / 2 {
            return Err(format!(
                "[levels] refresh = {} every {} takes more than half of the time; shorten the one or \
                    lengthen the other",
                s.refresh, s.refresh_period
            ));
        }
        if s.device_block.0 == 0 {
            return Err(
                "[levels] device_block is 0; give the bytes that a device moves per interrupt"
                    .to_owned(),
            );
        }
        if s.costs.is_some() && s.contention == Contention::Bounded {
            return Err(
                "[levels.costs] is for contention = \"measured\": bounds follow from L_max alone; \
                    remove one of the two"
                    .to_owned(),
            );
        }
        s.costs.as_ref().map_or(Ok(()), check_costs)
    }

    fn check_board(&self, platform: &Platform, cores: u32) -> Result<(), String> {
        let (name, ways) = (&platform.name, self.ways(platform));
        if platform.llc.partition == Partition::Colour {
            return Err(format!(
                "[levels] assigns ways of the shared cache, but that of {name} can only be coloured; \
                    choose a board with ways or lockdown"
            ));
        }
        if ways == 0 || ways > platform.llc.ways || ways > MOST_WAYS {
            return Err(format!(
                "[levels] ways = {ways}, but the shared cache of {name} has {}, and at most \
                    {MOST_WAYS} are shared out; give 1 to {}",
                platform.llc.ways,
                platform.llc.ways.min(MOST_WAYS)
            ));
        }
        if self.settings.least_ways_of_c == 0 || self.settings.least_ways_of_c > ways {
            return Err(format!(
                "[levels] least_ways_of_c = {} of {ways} ways; give 1 to {ways} (the OS shares these \
                    ways)",
                self.settings.least_ways_of_c
            ));
        }
        if cores > MOST_CORES {
            return Err(format!(
                "[levels] covers up to {MOST_CORES} cores, not {cores}; set [regulation] active_cores"
            ));
        }
        if platform.total_banks() <= cores {
            return Err(format!(
                "[levels] needs a DRAM bank for each core and one for level C, but {name} has {} for \
                    {cores} cores; set [regulation] active_cores",
                platform.total_banks()
            ));
        }
        Ok(())
    }

    fn check_task(&self, task: &SystemTask, platform: &Platform) -> Result<(), String> {
        if task.criticality == Criticality::D {
            return Ok(());
        }
        if task.deadline != task.period {
            return Err(
                "its deadline is not its period, which [levels] does not cover; remove the deadline"
                    .to_owned(),
            );
        }
        if task.period.is_none_or(|p| p > LONGEST || !p.ps().is_multiple_of(Time::PS_PER_NS)) {
            return Err(
                "[levels] takes periods of whole nanoseconds up to an hour; correct the period"
                    .to_owned(),
            );
        }
        if task.priority.is_some() {
            return Err("has a priority, but levels and periods decide under [levels]; remove it"
                .to_owned());
        }
        let shape = &task.shape;
        let ways = self.ways(platform) as usize;
        if shape.wcet_by_ways.len() > ways {
            let given = shape.wcet_by_ways.len();
            return Err(format!(
                "gives wcet_by_ways for {given} ways, but {ways} are shared out; leave the last \
                    ones out"
            ));
        }
        if task.criticality == Criticality::C {
            if task.core.is_some() {
                return Err("level C runs on every core; remove its core".to_owned());
            }
            if !shape.wcet_by_ways.is_empty() && self.settings.contention == Contention::Bounded {
                return Err(
                    "the ways of level C are shared by its tasks, so wcet_by_ways gives no bound; \
                    give wcet and misses without the shared cache, or set \
                    contention = \"measured\""
                        .to_owned(),
                );
            }
        }
        Ok(())
    }

    fn check_io(
        &self,
        io: &Io,
        twin: Option<&(Io, usize)>,
        platform: &Platform,
        tasks: &[SystemTask],
    ) -> Result<(), String> {
        named(&io.task, tasks)?;
        if io.device.is_empty() || io.device.chars().any(char::is_control) {
            return Err("a device needs a name without control characters; give it one".to_owned());
        }
        if let Some((other, line)) = twin {
            let what = if other.task == io.task { "task" } else { "device" };
            let name = if other.task == io.task { &io.task } else { &io.device };
            return Err(format!(
                "the {what} `{name}` has a buffer already (line {line}); merge the two"
            ));
        }
        if io.bandwidth.0 == 0 || io.bandwidth.0 > platform.guaranteed_bandwidth().0 {
            return Err(format!(
                "`{}` moves {}, which is not above zero and at most the guaranteed {}; correct the \
                    bandwidth",
                io.device,
                io.bandwidth,
                platform.guaranteed_bandwidth()
            ));
        }
        if !(0.0..=1.0).contains(&io.copy) {
            return Err(format!("copy = {}; give the share of a job's time, 0 to 1", io.copy));
        }
        if io.copy > 0.0 && self.settings.contention == Contention::Bounded {
            return Err(
                "copy is for contention = \"measured\": bounds follow from L_max alone; remove it"
                    .to_owned(),
            );
        }
        check_size(io.size, &format!("buffer of `{}`", io.device), platform)
    }
}

fn check_costs(c: &Costs) -> Result<(), String> {
    let shares = [
        ("dma_bus", c.dma_bus),
        ("dma_bank", c.dma_bank),
        ("bank_sharing_c", c.bank_sharing_c),
        ("io_copy", c.io_copy),
        ("eviction", c.eviction),
    ];
    if let Some((name, value)) =
        shares.into_iter().find(|(_, v)| !(v.is_finite() && (0.0..=1000.0).contains(v)))
    {
        return Err(format!(
            "[levels.costs] {name} = {value}; give a share of the time, 0 to 1000"
        ));
    }
    for (name, cl, ce) in [("send", c.send_cl, c.send_ce), ("receive", c.receive_cl, c.receive_ce)]
    {
        if !(cl > 0.0 && cl <= ce && ce <= 1.0) {
            return Err(format!(
                "[levels.costs] {name}_cl = {cl}, {name}_ce = {ce}; give shares of the time under \
                    SBP, CL at most CE, CE at most 1"
            ));
        }
    }
    if !(c.sharing_saturation.is_finite() && c.sharing_saturation > 0.0) || c.dma_saturation.0 == 0
    {
        return Err("[levels.costs] a saturation is not above zero; correct it".to_owned());
    }
    Ok(())
}

/// A bank holds the buffers that are placed in it: a single buffer must fit at least.
fn check_size(size: Bytes, what: &str, platform: &Platform) -> Result<(), String> {
    let bank = bank_bytes(platform);
    if size.0 == 0 || size.0 > bank.0 {
        return Err(format!(
            "the {what} has {size}, but a bank of {} holds {bank}; give a size above zero that \
                fits",
            platform.name
        ));
    }
    Ok(())
}

fn named<'a>(name: &str, tasks: &'a [SystemTask]) -> Result<&'a SystemTask, String> {
    let Some(task) = tasks.iter().find(|t| t.name == name) else {
        return Err(format!(
            "names the task `{name}`, which is not there; correct the name or add the task"
        ));
    };
    if task.criticality == Criticality::D {
        return Err(format!("names `{name}`, which is best effort and not analysed; remove it"));
    }
    Ok(task)
}

fn check_ipc(
    ipc: &Ipc,
    twin: Option<usize>,
    platform: &Platform,
    tasks: &[SystemTask],
) -> Result<(), String> {
    let (from, to) = (named(&ipc.from, tasks)?, named(&ipc.to, tasks)?);
    if ipc.from == ipc.to {
        return Err(format!("`{}` sends to itself; name two tasks", ipc.from));
    }
    if let Some(line) = twin {
        return Err(format!(
            "from `{}` to `{}` is there already (line {line}); merge the two",
            ipc.from, ipc.to
        ));
    }
    if (from.criticality == Criticality::C) != (to.criticality == Criticality::C) {
        return Err(format!(
            "`{}` is of level {:?} and `{}` of level {:?}: messages between level C and levels A \
                and B are not covered; change a level or remove it",
            ipc.from, from.criticality, ipc.to, to.criticality
        ));
    }
    check_size(ipc.size, "buffer", platform)
}

/// Periods of A and B must divide each other, those of A being the shorter (section 2: harmonic).
fn check_periods(tasks: &[SystemTask]) -> Result<(), Fault> {
    let mut bound: Vec<(&SystemTask, u64)> = tasks
        .iter()
        .filter(|t| matches!(t.criticality, Criticality::A | Criticality::B))
        .filter_map(|t| Some((t, t.period?.ps())))
        .collect();
    bound.sort_by_key(|(t, period)| (t.criticality, *period));
    for pair in bound.windows(2) {
        let [(one, short), (other, long)] = pair else { continue };
        if !long.is_multiple_of(*short) {
            return Err((
                other.line,
                format!(
                    "task `{}`: its period {} is not a multiple of the {} of `{}`; under [levels] the \
                        periods of levels A and B must divide each other; change one, or make \
                        it level C",
                    other.name,
                    Time::from_ps(*long),
                    Time::from_ps(*short),
                    one.name
                ),
            ));
        }
    }
    Ok(())
}
