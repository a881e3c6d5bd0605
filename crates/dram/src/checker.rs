//! Reads a command trace and counts violations of the JEDEC rules.
//!
//! Problem: a controller that computes its own timing cannot vouch for it. Rule: this module knows
//! the timing parameters of a memory and the rules of JESD79-3F, JESD79-4B, JESD79-5B and
//! JESD209-4B that a command must keep towards each earlier one, and nothing of the controller. It
//! keeps the recent commands of a channel and compares every new one with all of them, pair by
//! pair: slow, and simple enough to read beside the standard.
//! Not covered: initialisation, power-down, mode registers, on-die termination.

use crate::command::{Command, CommandKind};
use crate::spec::Spec;
use std::collections::VecDeque;
use std::fmt;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standards'")]
pub enum Rule {
    TimeOrder,
    NoSuchPlace,
    CommandBus,
    ActToOpenBank,
    ColumnToClosedRow,
    RefWithOpenBank,
    TRcd,
    TRas,
    TRp,
    TRc,
    TRrd,
    TFaw,
    TCcd,
    TWtr,
    TRtp,
    TWr,
    TRfc,
    TPpd,
    DataBus,
    RefreshInterval,
}

/// Refreshes that may be postponed at any time.
const POSTPONED: u64 = 8;

/// A broken rule.
#[derive(Clone, Copy, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The command that broke it.
    pub command: Command,
    /// The earlier command to which it was too close.
    pub after: Option<Command>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} broken by {}", self.rule, self.command)?;
        self.after.map_or(Ok(()), |after| write!(f, " after {after}"))
    }
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// Commands that can still restrict a later one, oldest first.
    recent: VecDeque<Command>,
    /// Open row of each bank, rank by rank.
    open: Vec<Option<u32>>,
    /// Last REF and number of REFs of each rank.
    refreshed: Vec<(u64, u64)>,
    last: Option<Command>,
}

/// Checks a trace, command by command, for each channel in time order.
#[derive(Clone, Debug)]
pub struct Checker {
    spec: Spec,
    lanes: Vec<Lane>,
    horizon: u64,
    commands: u64,
    violations: u64,
    first: Vec<Violation>,
}

impl Checker {
    /// A checker of a memory before its first command.
    pub fn new(spec: &Spec) -> Self {
        let o = &spec.organisation;
        let lane = Lane {
            recent: VecDeque::new(),
            open: vec![None; (o.ranks * o.bank_groups * o.banks) as usize],
            refreshed: vec![(0, 0); o.ranks as usize],
            last: None,
        };
        let t = &spec.timing;
        let longest = t.t_ras
            + t.t_rp
            + t.t_rfc
            + t.t_faw
            + t.cl
            + t.cwl
            + o.burst
            + t.t_wr
            + t.t_wtr_l
            + t.t_ccd_l_write;
        Self {
            spec: spec.clone(),
            lanes: vec![lane; o.channels as usize],
            horizon: u64::from(longest),
            commands: 0,
            violations: 0,
            first: Vec::new(),
        }
    }

    /// Commands read.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Violations found.
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// The first few violations.
    pub fn first(&self) -> &[Violation] {
        &self.first
    }

    fn broken(&mut self, rule: Rule, command: Command, after: Option<Command>) {
        self.violations += 1;
        if self.first.len() < 10 {
            self.first.push(Violation { rule, command, after });
        }
    }

    /// Reads the next command.
    pub fn check(&mut self, command: Command) {
        self.commands += 1;
        let o = &self.spec.organisation;
        if command.channel >= o.channels
            || command.rank >= o.ranks
            || command.bank >= o.bank_groups * o.banks
        {
            return self.broken(Rule::NoSuchPlace, command, None);
        }
        let mut lane = std::mem::take(&mut self.lanes[command.channel as usize]);
        self.check_bus(&lane, command);
        while lane.recent.front().is_some_and(|c| c.cycle + self.horizon < command.cycle) {
            lane.recent.pop_front();
        }
        for &earlier in &lane.recent {
            self.check_pair(earlier, command);
        }
        if command.kind == CommandKind::Act {
            self.check_four_activates(&lane, command);
        }
        self.check_state(&mut lane, command);
        lane.recent.push_back(command);
        lane.last = Some(command);
        self.lanes[command.channel as usize] = lane;
    }

    /// Call after the last command, with the cycle up to which the memory ran: checks the number of
    /// refreshes.
    pub fn finish(&mut self, end: u64) {
        let refi = u64::from(self.spec.timing.t_refi);
        for channel in 0..self.lanes.len() {
            let Some(last) = self.lanes[channel].last else { continue };
            for (rank, &(_, count)) in self.lanes[channel].refreshed.clone().iter().enumerate() {
                if count + POSTPONED < end / refi {
                    let rank = u32::try_from(rank).unwrap_or(0);
                    self.broken(
                        Rule::RefreshInterval,
                        Command { cycle: end, kind: CommandKind::Ref, rank, ..last },
                        None,
                    );
                }
            }
        }
    }

    fn check_bus(&mut self, lane: &Lane, command: Command) {
        let Some(last) = lane.last else { return };
        if command.cycle < last.cycle {
            return self.broken(Rule::TimeOrder, command, Some(last));
        }
        let two_parts = matches!(last.kind, CommandKind::Act | CommandKind::Rd | CommandKind::Wr);
        let taken = if two_parts { u64::from(self.spec.timing.command_cycles) } else { 1 };
        if command.cycle < last.cycle + taken {
            self.broken(Rule::CommandBus, command, Some(last));
        }
    }

    fn check_state(&mut self, lane: &mut Lane, command: Command) {
        let banks = (self.spec.organisation.bank_groups * self.spec.organisation.banks) as usize;
        let first = command.rank as usize * banks;
        let bank = first + command.bank as usize;
        match command.kind {
            CommandKind::Act => {
                if lane.open[bank].is_some() {
                    self.broken(Rule::ActToOpenBank, command, None);
                }
                lane.open[bank] = Some(command.row);
            }
            CommandKind::Rd | CommandKind::Wr => {
                if lane.open[bank] != Some(command.row) {
                    self.broken(Rule::ColumnToClosedRow, command, None);
                }
            }
            CommandKind::Pre => lane.open[bank] = None,
            CommandKind::Ref => {
                if lane.open[first..first + banks].iter().any(Option::is_some) {
                    self.broken(Rule::RefWithOpenBank, command, None);
                }
                let (last, count) = lane.refreshed[command.rank as usize];
                if command.cycle - last > (POSTPONED + 1) * u64::from(self.spec.timing.t_refi) {
                    self.broken(Rule::RefreshInterval, command, None);
                }
                lane.refreshed[command.rank as usize] = (command.cycle, count + 1);
            }
        }
    }

    /// At most four ACTs of a rank start in any window of tFAW.
    fn check_four_activates(&mut self, lane: &Lane, command: Command) {
        let window = u64::from(self.spec.timing.t_faw);
        let within = |c: &&Command| {
            c.kind == CommandKind::Act && c.rank == command.rank && c.cycle + window > command.cycle
        };
        if lane.recent.iter().filter(within).count() >= 4 {
            self.broken(Rule::TFaw, command, None);
        }
    }

    fn check_pair(&mut self, a: Command, b: Command) {
        let mut broken: [Option<Rule>; 4] = [None; 4];
        let mut at = 0;
        let apart = b.cycle.saturating_sub(a.cycle);
        let mut least = |rule: Rule, cycles: u64| {
            if apart < cycles {
                broken[at] = Some(rule);
                at += 1;
            }
        };
        self.pair_rules(a, b, &mut least);
        if let Some(rule) = self.data_conflict(a, b) {
            least(rule, u64::MAX);
        }
        for rule in broken.into_iter().flatten() {
            self.broken(rule, b, Some(a));
        }
    }

    /// The distances within a rank.
    fn pair_rules(&self, a: Command, b: Command, least: &mut impl FnMut(Rule, u64)) {
        use CommandKind::{Act, Pre, Rd, Ref, Wr};
        if a.rank != b.rank {
            return;
        }
        let t = &self.spec.timing;
        let c = |v: u32| u64::from(v);
        let burst = c(self.spec.organisation.burst / 2);
        let same_bank = a.bank == b.bank;
        let same_group =
            a.bank / self.spec.organisation.banks == b.bank / self.spec.organisation.banks;
        let by_group = |s: u32, l: u32| if same_group { c(l) } else { c(s) };
        let write_end = c(t.cwl) + burst;
        match (a.kind, b.kind) {
            (Act, Rd | Wr) if same_bank => least(Rule::TRcd, c(t.t_rcd)),
            (Act, Pre) if same_bank => least(Rule::TRas, c(t.t_ras)),
            (Act, Act) if same_bank => least(Rule::TRc, c(t.t_ras) + c(t.t_rp)),
            (Act, Act) => least(Rule::TRrd, by_group(t.t_rrd_s, t.t_rrd_l)),
            (Act, Ref) => least(Rule::TRc, c(t.t_ras) + c(t.t_rp)),
            (Pre, Act) if same_bank => least(Rule::TRp, c(t.t_rp)),
            (Pre, Ref) => least(Rule::TRp, c(t.t_rp)),
            (Pre, Pre) => least(Rule::TPpd, c(t.t_ppd)),
            (Rd, Pre) if same_bank => least(Rule::TRtp, c(t.t_rtp)),
            (Wr, Pre) if same_bank => least(Rule::TWr, write_end + c(t.t_wr)),
            (Rd, Rd) => least(Rule::TCcd, by_group(t.t_ccd_s, t.t_ccd_l)),
            (Wr, Wr) => least(Rule::TCcd, by_group(t.t_ccd_s, t.t_ccd_l.max(t.t_ccd_l_write))),
            (Wr, Rd) => least(Rule::TWtr, write_end + by_group(t.t_wtr_s, t.t_wtr_l)),
            (Ref, Act | Ref) => least(Rule::TRfc, c(t.t_rfc)),
            _ => {}
        }
    }

    /// Bursts of a channel must not overlap; where the driver of the bus changes, and one of the
    /// two is a rank, `t_rtrs` cycles lie between them.
    fn data_conflict(&self, a: Command, b: Command) -> Option<Rule> {
        let t = &self.spec.timing;
        let start = |c: Command| match c.kind {
            CommandKind::Rd => Some(c.cycle + u64::from(t.cl)),
            CommandKind::Wr => Some(c.cycle + u64::from(t.cwl)),
            _ => None,
        };
        let (first, second) = (start(a)?, start(b)?);
        let reads = (a.kind == CommandKind::Rd, b.kind == CommandKind::Rd);
        let new_driver = match reads {
            (false, false) => false,
            (true, true) => a.rank != b.rank,
            // Within a rank tWTR covers it.
            (false, true) => a.rank != b.rank,
            (true, false) => true,
        };
        let end = first + u64::from(self.spec.organisation.burst / 2);
        let rest = if new_driver { u64::from(t.t_rtrs) } else { 0 };
        (second < end + rest).then_some(Rule::DataBus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CommandKind::{Act, Pre, Rd, Ref, Wr};

    /// Runs a trace of (cycle, kind, rank, bank, row) through the checker of DDR3-1333.
    fn rules(trace: &[(u64, CommandKind, u32, u32, u32)]) -> Vec<Rule> {
        let mut checker = Checker::new(&Spec::find("ddr3-1333").unwrap());
        for &(cycle, kind, rank, bank, row) in trace {
            checker.check(Command { cycle, kind, channel: 0, rank, bank, row });
        }
        checker.first.iter().map(|v| v.rule).collect()
    }

    #[test]
    fn a_legal_trace_passes() {
        let legal = [
            (0, Act, 0, 0, 5),
            (4, Act, 0, 1, 5),
            (9, Rd, 0, 0, 5),
            (13, Rd, 0, 1, 5),
            (21, Wr, 0, 1, 5),
            (24, Pre, 0, 0, 0),
            (37, Rd, 0, 1, 5),
            (42, Pre, 0, 1, 0),
            (51, Ref, 0, 0, 0),
            (225, Act, 0, 0, 6),
        ];
        assert_eq!(rules(&legal), []);
    }

    /// One cycle too early, for every rule.
    #[test]
    fn every_rule_is_checked() {
        let open = |rest: &[(u64, CommandKind, u32, u32, u32)]| {
            [&[(0, Act, 0, 0, 5), (4, Act, 0, 1, 5), (8, Act, 1, 0, 5)], rest].concat()
        };
        let cases: Vec<(Rule, Vec<_>)> = vec![
            (Rule::TRcd, vec![(0, Act, 0, 0, 5), (8, Rd, 0, 0, 5)]),
            (Rule::TRas, vec![(0, Act, 0, 0, 5), (23, Pre, 0, 0, 0)]),
            (Rule::TRp, vec![(0, Act, 0, 0, 5), (25, Pre, 0, 0, 0), (33, Act, 0, 0, 5)]),
            (Rule::TRrd, vec![(0, Act, 0, 0, 5), (3, Act, 0, 1, 5)]),
            (
                Rule::TFaw,
                vec![
                    (0, Act, 0, 0, 5),
                    (4, Act, 0, 1, 5),
                    (8, Act, 0, 2, 5),
                    (12, Act, 0, 3, 5),
                    (19, Act, 0, 4, 5),
                ],
            ),
            (Rule::TCcd, open(&[(20, Rd, 0, 0, 5), (23, Rd, 0, 1, 5)])),
            (Rule::TWtr, open(&[(20, Wr, 0, 0, 5), (35, Rd, 0, 1, 5)])),
            (Rule::TRtp, open(&[(40, Rd, 0, 0, 5), (44, Pre, 0, 0, 0)])),
            (Rule::TWr, open(&[(20, Wr, 0, 0, 5), (40, Pre, 0, 0, 0)])),
            (Rule::TRfc, vec![(0, Ref, 0, 0, 0), (173, Act, 0, 0, 5)]),
            (Rule::DataBus, open(&[(20, Rd, 0, 0, 5), (27, Wr, 0, 0, 5)])),
            (Rule::DataBus, open(&[(20, Rd, 0, 0, 5), (25, Rd, 1, 0, 5)])),
            (Rule::ActToOpenBank, vec![(0, Act, 0, 0, 5), (33, Act, 0, 0, 6)]),
            (Rule::ColumnToClosedRow, vec![(0, Act, 0, 0, 5), (9, Rd, 0, 0, 6)]),
            (Rule::RefWithOpenBank, vec![(0, Act, 0, 0, 5), (40, Ref, 0, 0, 0)]),
            (Rule::RefreshInterval, vec![(46_801, Ref, 0, 0, 0)]),
            (Rule::CommandBus, vec![(0, Act, 0, 0, 5), (0, Act, 1, 0, 5)]),
            (Rule::TimeOrder, vec![(9, Act, 0, 0, 5), (0, Act, 1, 0, 5)]),
            (Rule::NoSuchPlace, vec![(0, Act, 2, 0, 5)]),
        ];
        for (rule, trace) in cases {
            assert!(rules(&trace).contains(&rule), "{rule:?} was not found in {:?}", rules(&trace));
        }
    }

    #[test]
    fn a_rank_without_refreshes_is_noticed() {
        let mut checker = Checker::new(&Spec::find("ddr3-1333").unwrap());
        checker.check(Command { cycle: 0, kind: Act, channel: 0, rank: 0, bank: 0, row: 1 });
        checker.finish(8 * 5200);
        assert_eq!(checker.violations(), 0);
        checker.finish(9 * 5200);
        assert_eq!(checker.violations(), 2);
    }
}
