//! An attack as a system file, and back from its plan to the programs that carry it out.
//!
//! Rule: the victim is task 0 on core 0, or on the core that the planner chooses. Beside it there
//! may be other analysed tasks on its core and best effort on its core. Each other core runs best
//! effort, or two analysed tasks: one that delays the other, and one whose jobs access memory in
//! bursts. The file states the programs' demand: an analysed job's `wcet` is its computation plus,
//! for each of its misses, `L_max` and a look-up of the shared cache.

use super::program::{Beat, Job, Jobs, Stream, Visit, join};
use crate::ExperimentError;
use solocore_model::plan::Plan;
use solocore_model::system::Demand as Stated;
use solocore_model::{Platform, System};
use solocore_planner::Demand;
use solocore_sim::machine::Layout;
use solocore_sim::plan::{StandIn, banks};
use solocore_sim::program::PageKind;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Policy under which the system is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No regulation.
    None,
    /// MemGuard, even budgets.
    Even,
    /// MemGuard, stated budgets.
    Uneven,
    /// MemGuard, cores, cache and budgets chosen together.
    Optimal,
    /// MemGuard, even budgets, the cores share cache and banks.
    Anywhere,
    /// The bandwidth lock.
    Bwlock,
    /// The bandwidth lock, held by jobs.
    HeldJobs,
    /// Dynamic budgets.
    Dynamic,
    /// VCPUs.
    Maracas,
    /// Partitions with a time table.
    Windows,
    /// Criticality levels, contention bounded.
    Levels,
}

/// Every policy.
pub const POLICIES: [Policy; 11] = [
    Policy::None,
    Policy::Even,
    Policy::Uneven,
    Policy::Optimal,
    Policy::Anywhere,
    Policy::Bwlock,
    Policy::HeldJobs,
    Policy::Dynamic,
    Policy::Maracas,
    Policy::Windows,
    Policy::Levels,
];

impl Policy {
    /// Its name for the command and Python.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Even => "even",
            Self::Anywhere => "anywhere",
            Self::Uneven => "uneven",
            Self::Optimal => "optimal",
            Self::Bwlock => "bwlock",
            Self::HeldJobs => "held",
            Self::Dynamic => "dynamic",
            Self::Maracas => "vcpus",
            Self::Windows => "windows",
            Self::Levels => "levels",
        }
    }

    /// The policy of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Self, ExperimentError> {
        POLICIES.into_iter().find(|p| p.name() == name).ok_or_else(|| {
            let (name, all) = (name.escape_debug(), POLICIES.map(Self::name).join(", "));
            ExperimentError::Setup(format!("no policy `{name}` to attack; take one of: {all}"))
        })
    }
}

/// An analysed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analysed {
    /// Its work; `cycles` follow from `compute_ns`.
    pub job: Job,
    /// Computation of a job.
    pub compute_ns: u64,
    /// Period.
    pub period_ns: u64,
    /// Deadline; `None`: the period.
    pub deadline_ps: Option<u64>,
    /// Arrival of the first job.
    pub phase_ns: u64,
}

/// Two analysed tasks of each other core. The first preempts the second, so that a burst of the
/// second comes as late as its deadline, and the next one as early as its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Computes only.
    pub hold: Analysed,
    /// Accesses memory.
    pub burst: Analysed,
    /// Delay of the releases of a core's tasks after those of the core before it.
    pub stagger_ns: u64,
    /// Number of cores with these tasks, from core 1.
    pub cores: usize,
}

impl Bursts {
    /// Both, on this core, if it has them.
    fn on(&self, core: usize) -> Option<[Analysed; 2]> {
        let later = |a: Analysed| Analysed {
            phase_ns: a.phase_ns + self.stagger_ns * (core as u64 - 1),
            ..a
        };
        (core <= self.cores).then(|| [later(self.hold), later(self.burst)])
    }
}

/// A whole attack.
#[derive(Clone, Debug, PartialEq)]
pub struct Attack {
    /// Policy under which it is planned.
    pub policy: Policy,
    /// Preset, or the path of a platform file.
    pub board: String,
    /// Cores with programs.
    pub cores: u32,
    /// Regulation period.
    pub period_ns: u64,
    /// Share of the guaranteed bandwidth of core 0, in thousandths, with stated budgets.
    pub share: u64,
    /// A number that each policy uses in its own way: soft budget, capacity, level.
    pub knob: u64,
    /// The task whose bound is attacked.
    pub victim: Analysed,
    /// Others on its core.
    pub mates: Vec<Analysed>,
    /// Best effort on its core.
    pub own: Option<Beat>,
    /// Best effort on the cores from 1.
    pub others: Vec<Option<Beat>>,
    /// Analysed tasks in place of best effort on other cores.
    pub jobs: Option<Bursts>,
    /// Writes that each core states, in thousandths of an even share; 0: none.
    pub write_part: u64,
    /// Devices whose data the I/O core moves for partitions.
    pub devices: u32,
    /// Seed of the simulation.
    pub seed: u64,
}

/// Time that the system states for a miss.
pub fn miss_ps(platform: &Platform) -> u64 {
    platform.dram.latency_max.ps() + platform.cycles_to_ps(platform.llc.latency.0)
}

impl Attack {
    /// The system file.
    pub fn text(&self, platform: &Platform) -> String {
        let mut out = format!("platform = \"{}\"\n", self.board);
        match self.policy {
            Policy::Levels => self.levels(&mut out),
            Policy::Maracas => self.vcpus(&mut out),
            Policy::Windows => self.windows(&mut out),
            _ => self.regulation(&mut out, platform),
        }
        self.analysed(&mut out, "victim", &self.victim, 0, platform);
        for (name, mate) in self.named_mates() {
            self.analysed(&mut out, &name, mate, 0, platform);
        }
        if self.own.is_some() {
            self.best_effort(&mut out, "own", 0);
        }
        for (core, _) in (1..).zip(&self.others).filter(|(_, beat)| beat.is_some()) {
            match self.bursts(core as usize) {
                Some([hold, burst]) => {
                    self.analysed(&mut out, &format!("hold{core}"), &hold, core, platform);
                    self.analysed(&mut out, &format!("burst{core}"), &burst, core, platform);
                }
                None => self.best_effort(&mut out, &format!("rival{core}"), core),
            }
        }
        out
    }

    fn bursts(&self, core: usize) -> Option<[Analysed; 2]> {
        self.jobs.as_ref()?.on(core)
    }

    fn named_mates(&self) -> impl Iterator<Item = (String, &Analysed)> {
        (0..)
            .zip(&self.mates)
            .map(|(n, mate)| (if n == 0 { "mate".to_owned() } else { format!("mate{n}") }, mate))
    }

    /// The analysed task of this name.
    pub fn analysed_task(&self, name: &str) -> Option<Analysed> {
        let on = |prefix: &str, which: usize| {
            let core = name.strip_prefix(prefix)?.parse().ok()?;
            Some(self.bursts(core)?[which])
        };
        let mate = self.named_mates().find(|(mate, _)| mate == name).map(|(_, mate)| *mate);
        (name == "victim")
            .then_some(self.victim)
            .or(mate)
            .or_else(|| on("hold", 0))
            .or_else(|| on("burst", 1))
    }

    fn regulation(&self, out: &mut String, platform: &Platform) {
        let policy = match self.policy {
            Policy::None => "none",
            Policy::Bwlock | Policy::HeldJobs => "bwlock",
            Policy::Dynamic => "dynamic",
            _ => "memguard",
        };
        writeln!(out, "[regulation]\npolicy = \"{policy}\"\nactive_cores = {}", self.cores)
            .unwrap();
        if self.policy == Policy::Anywhere {
            out.push_str("pages = \"anywhere\"\n");
        }
        if self.policy != Policy::Dynamic {
            writeln!(out, "period = \"{} ns\"", self.period_ns).unwrap();
        }
        match self.policy {
            Policy::Even | Policy::Anywhere => out.push_str("share = \"even\"\n"),
            Policy::Optimal => out.push_str("share = \"optimal\"\n"),
            Policy::HeldJobs => out.push_str("lock = \"jobs\"\n"),
            _ => {}
        }
        if self.policy == Policy::Uneven {
            let each = u128::from(platform.llc.line.0) * 1_000_000_000
                / u128::from(platform.dram.latency_max.ps());
            let kilobytes = each * u128::from(self.share) / 1000;
            writeln!(out, "share = \"explicit\"").unwrap();
            write!(out, "[[core]]\nid = 0\nbandwidth = \"{kilobytes} kB/s\"\n").unwrap();
        }
        if self.write_part > 0 && matches!(self.policy, Policy::Even | Policy::Uneven) {
            // Accesses that each core can surely make beside the others, by the time of a write: a
            // part of them is for writes.
            let ns = platform.dram.latency_max.ps() / 1000 + 70 * u64::from(self.cores);
            let kilobytes = platform.llc.line.0 * 1_000_000 / ns * self.write_part / 1000;
            for core in 0..self.cores {
                if core > 0 || self.policy == Policy::Even {
                    write!(out, "[[core]]\nid = {core}\n").unwrap();
                }
                if core > 0 || self.policy == Policy::Even || self.share > 100 {
                    writeln!(out, "write_bandwidth = \"{kilobytes} kB/s\"").unwrap();
                }
            }
        }
    }

    fn vcpus(&self, out: &mut String) {
        let (strict, background) =
            (self.knob.is_multiple_of(2), ["least_time", "keep", "none"][(self.knob % 3) as usize]);
        // Of its period the victim's VCPU has this share, in whole periods or parts of one.
        let (share, parts) = (
            [900, 600, 300, 150][(self.knob / 6 % 4) as usize],
            [1, 1, 2, 5][(self.knob / 24 % 4) as usize],
        );
        // The bounds count on a list that is never full: a job's end, and best effort and the mates
        // that preempt it.
        let least = 3
            + 2 * (self.victim.period_ns / parts).div_ceil(1_000_000)
            + 3 * self.mates.len() as u64;
        let entries = least.max([1, 8, 16][(self.knob / 2 % 3) as usize]).min(16);
        writeln!(
            out,
            "[regulation]\npolicy = \"maracas\"\nactive_cores = {}\n[maracas]\nstrict = \
                {strict}\nbackground = \"{background}\"\noverhead = \"0 us\"\nreplenishments = \
                {}\nbest_effort = {{ capacity = \"20 us\", period = \"1 ms\" }}",
            self.cores, entries
        )
        .unwrap();
        let mut vcpu = |name: &str, task: &Analysed, share: u64, tasks: &[String]| {
            let period = (task.period_ns / parts).max(80_000);
            let capacity = (period * share / 1000).max(10_000);
            writeln!(
                out,
                "[[vcpu]]\nname = \"v-{name}\"\ncapacity = \"{capacity} ns\"\nperiod = \"{period} \
                    ns\"\ncore = 0\ntasks = {tasks:?}"
            )
            .unwrap();
        };
        let victim = "victim".to_owned();
        if self.write_part > 0 {
            // One VCPU for all: the others wait for the budget that one uses up.
            let mates = self.named_mates().map(|(name, _)| name);
            let all: Vec<String> = std::iter::once(victim).chain(mates).collect();
            vcpu("victim", &self.victim, share, &all);
            return;
        }
        vcpu(
            "victim",
            &self.victim,
            if self.mates.is_empty() { share } else { share / 2 },
            &[victim],
        );
        self.named_mates()
            .for_each(|(name, mate)| vcpu(&name, mate, 200, std::slice::from_ref(&name)));
    }

    /// The last core is for I/O and runs nothing.
    fn windows(&self, out: &mut String) {
        writeln!(
            out,
            "[regulation]\npolicy = \"memguard\"\nperiod = \"{} ns\"\nactive_cores = \
                {}\n[sce]\nslack = 0",
            self.period_ns, self.cores
        )
        .unwrap();
        let period = self.victim.period_ns;
        if self.devices > 0 {
            out.push_str("[dma]\nbus = \"1 GB/s\"\nblock = \"256 B\"\n");
            (0..self.devices).for_each(|d| write!(out, "[[device]]\nname = \"d{d}\"\n").unwrap());
        }
        let mut partition = |name: &str, core: u32, duration: Option<u64>| {
            let duration =
                duration.map_or_else(String::new, |d| format!("duration = \"{} us\"\n", d / 1000));
            write!(
                out,
                "[[partition]]\nname = \"{name}\"\ncore = {core}\nperiod = \"{period} \
                ns\"\n{duration}"
            )
            .unwrap();
            if self.devices > 0 {
                let half = |device: u32| {
                    format!(
                        "{{ device = \"d{device}\", physical = \"10 us\", transfer = \"16 KiB\" }}"
                    )
                };
                let (input, output) = (half(core % self.devices), half((core + 1) % self.devices));
                write!(
                    out,
                    "[[partition.chain]]\nage = \"1 s\"\ninput = {input}\noutput = {output}\n"
                )
                .unwrap();
            }
        };
        partition("p-victim", 0, None);
        if self.own.is_some() {
            partition(
                "p-own",
                0,
                Some(period * [333, 250, 125, 800][(self.knob % 4) as usize] / 1000),
            );
        }
        for (core, _) in (1..).zip(&self.others).filter(|(_, beat)| beat.is_some()) {
            partition(&format!("p-rival{core}"), core, Some(period * 19 / 20));
        }
    }

    fn levels(&self, out: &mut String) {
        writeln!(
            out,
            "[regulation]\npolicy = \"none\"\nactive_cores = {}\n[levels]\nscheme = \
                \"{}\"\ncontention = \"bounded\"",
            self.cores,
            ["O|opt", "O|C+A/B-All", "C|C", "O|C"][(self.knob / 2 % 4) as usize]
        )
        .unwrap();
    }

    fn analysed(
        &self,
        out: &mut String,
        name: &str,
        task: &Analysed,
        core: u32,
        platform: &Platform,
    ) {
        let misses = match self.policy {
            // The plan adds as many writes as there are accesses, for the lines that these evict.
            Policy::Anywhere => task.job.most_of_a_kind(),
            _ => task.job.misses,
        };
        let wcet_ps = task.compute_ns * 1000 + misses * miss_ps(platform);
        let place = match self.policy {
            // The optimiser places it; a VCPU has its core.
            Policy::Levels | Policy::Maracas => String::new(),
            Policy::Windows => "partition = \"p-victim\"\n".to_owned(),
            _ => format!("core = {core}\n"),
        };
        let level =
            if self.policy == Policy::Levels && self.knob.is_multiple_of(2) { "A" } else { "B" };
        let deadline =
            task.deadline_ps.map_or_else(String::new, |d| format!("deadline = \"{d} ps\"\n"));
        let soft = match (self.policy, self.knob) {
            (Policy::Dynamic, n) if n > 0 => {
                format!("soft_budget = {}\n", n.max(u64::from(self.cores)))
            }
            _ => String::new(),
        };
        write!(
            out,
            "[[task]]\nname = \"{name}\"\n{place}criticality = \"{level}\"\nperiod = \"{} \
                ns\"\nwcet = \"{wcet_ps} ps\"\nmisses = {}\n{deadline}{soft}",
            task.period_ns, misses
        )
        .unwrap();
    }

    fn best_effort(&self, out: &mut String, name: &str, core: u32) {
        let place = match self.policy {
            Policy::Windows => {
                format!("partition = \"p-{name}\"\nperiod = \"{} ns\"\n", self.victim.period_ns)
            }
            _ => format!("core = {core}\n"),
        };
        write!(
            out,
            "[[task]]\nname = \"{name}\"\ncriticality = \"D\"\n{place}wcet = \"1 \
            us\"\nmisses = 1000000\n"
        )
        .unwrap();
    }

    /// System and demands, as input of `plan`.
    ///
    /// # Errors
    /// Errors of the parser.
    pub fn system(&self, platform: &Platform, dir: &Path) -> Result<(System, Vec<Demand>), String> {
        let system = System::parse(&dir.join("system.toml"), &self.text(platform))
            .map_err(|e| e.to_string())?;
        let demand = |t: &solocore_model::system::SystemTask| match &t.demand {
            Stated::Given { wcet, misses } => Demand::Given { wcet_ps: wcet.ps(), misses: *misses },
            other => panic!("{other:?}"),
        };
        let demands = system.tasks.iter().map(demand).collect();
        Ok((system, demands))
    }

    /// The programs, for the plan of its system.
    pub fn stand_ins(&self, plan: &Plan, layout: &Layout) -> Vec<StandIn> {
        let platform = &plan.platform;
        let all: Vec<u32> = (0..layout.banks()).collect();
        let lines = u64::from(platform.lines_per_page());
        let visit = |task: usize, bank: usize, rows, slot: u32| {
            let banks = banks(plan, task).unwrap_or_else(|| all.clone());
            Visit::new(layout, &banks, bank, rows, slot, lines)
        };
        let mut out = Vec::new();
        for (at, task) in plan.tasks.iter().enumerate() {
            let slot = u32::try_from(at).unwrap() * 2;
            let analysed = self.analysed_task(&task.name);
            let (frames, program, phase_ns): (
                _,
                Arc<dyn Fn() -> Box<dyn solocore_sim::program::Program> + Send + Sync>,
                _,
            ) = if let Some(analysed) = analysed {
                let job = Job {
                    cycles: u64::try_from(
                        u128::from(analysed.compute_ns) * u128::from(platform.frequency.0)
                            / 1_000_000_000,
                    )
                    .unwrap(),
                    ..analysed.job
                };
                let reads = visit(at, job.bank, job.read_rows, slot);
                let writes = visit(at, job.bank, job.read_rows, slot + 1);
                let (frames, lines) = join(&reads, &writes, lines);
                (
                    frames,
                    Arc::new(move || Box::new(Jobs::new(job, lines.clone())) as _),
                    analysed.phase_ns,
                )
            } else {
                let core = task.name.strip_prefix("rival").and_then(|n| n.parse::<usize>().ok());
                let beat = core
                    .map_or(self.own, |core| self.others[core - 1])
                    .expect("it is in the system");
                let reads = visit(at, beat.bank, beat.read_rows, slot);
                let writes = visit(at, beat.bank, beat.write_rows, slot + 1);
                let (frames, lines) = join(&reads, &writes, lines);
                (frames, Arc::new(move || Box::new(Stream::new(beat, lines.clone())) as _), 0)
            };
            out.push(StandIn { task: at, program, frames, kind: Some(PageKind::Bypass), phase_ns });
        }
        out
    }
}
