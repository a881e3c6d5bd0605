//! Frames of the plan's tasks, on a map of this machine's memory.
//!
//! Problem: a plan gives colours and banks to cores, and a plan with levels gives ways and banks to
//! regions: to levels A and B of each core, and to level C with the OS. Rule: a task has the frames
//! of its region. Colours are those of the plan. A plan with levels has ways in place of them: then
//! colours stand for the ways (`PlanCore::colours_for`), unless the hardware gives the ways, and
//! banks alone choose frames. Then banks must not choose sets of the cache: a task would have a
//! part of its ways. A task of a core without ways has level C's colours, because its bound counts
//! on no hit. Banks need a map with as many as the plan's board. Source: mc2-os-isolation, section
//! 3 (Fig. 3); single-core-equivalence, section 2 (PALLOC). Does not cover: the region of locked
//! buffers, which no task lies in.

use crate::error::LinuxError;
use solocore_model::Plan;
use solocore_model::plan::levels::LevelsPlan;
use solocore_model::plan::{PlanCore, PlanTask};
use solocore_space::gf2::Basis;
use solocore_space::map::{Choice, Map};
use std::collections::BTreeSet;
use std::fmt;

/// Tasks that have frames together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Region {
    /// Those of a core; in a plan with levels its levels A and B.
    Core(u32),
    /// Levels C and D of a plan with levels.
    LevelC,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(core) => write!(f, "core {core}"),
            Self::LevelC => f.write_str("level C"),
        }
    }
}

/// Frames of a region. Colours and banks are first and count; `None`: any.
pub(super) struct Frames {
    pub colours: Option<(u32, u32)>,
    pub banks: Option<(u32, u32)>,
    pub choice: Choice,
}

/// A plan, and the map by which its tasks get frames.
pub(super) struct Planned {
    pub plan: Plan,
    pub map: Map,
    /// Source of the map, in words.
    pub source: String,
    /// Whether the hardware gives the ways of levels.
    pub by_masks: bool,
}

impl Planned {
    /// Whether the map has the banks of the plan's board.
    pub fn knows_banks(&self) -> bool {
        let known = self.map.bank_count();
        known > 1 && known == self.plan.platform.total_banks()
    }

    /// The region of a task of the plan.
    pub fn region_of(&self, task: &PlanTask) -> Region {
        match self.plan.levels() {
            Some(levels) => levels.core_of(task).map_or(Region::LevelC, |c| Region::Core(c.id)),
            None => Region::Core(task.core),
        }
    }

    /// The region of a task by its name.
    pub fn region_named(&self, task: &str) -> Option<Region> {
        self.plan.tasks.iter().find(|t| t.name == task).map(|t| self.region_of(t))
    }

    /// All regions: the plan's cores, and level C in a plan with levels.
    pub fn regions(&self) -> BTreeSet<Region> {
        let level_c = self.plan.levels().map(|_| Region::LevelC);
        self.plan.cores.iter().map(|c| Region::Core(c.id)).chain(level_c).collect()
    }

    /// The frames of a region; `None`: the plan gives it neither colours nor banks, or the map
    /// knows none.
    ///
    /// # Errors
    /// The map has no frames for it.
    pub fn frames(&self, region: Region) -> Result<Option<Frames>, LinuxError> {
        let (colours, banks) = match (self.plan.levels(), region) {
            (Some(levels), _) => (self.colours_of(levels, region)?, self.banks_of(levels, region)?),
            (None, Region::Core(core)) => {
                let core = self.plan.cores.iter().find(|c| c.id == core);
                (core.and_then(|c| c.colours), core.and_then(|c| c.banks))
            }
            (None, Region::LevelC) => (None, None),
        };
        let banks = banks.filter(|_| self.knows_banks());
        if colours.is_none() && banks.is_none() {
            return Ok(None);
        }
        let list = |of: Option<(u32, u32)>| of.map(|(first, n)| (first..first + n).collect());
        let (c, b): (Option<Vec<u32>>, Option<Vec<u32>>) = (list(colours), list(banks));
        let choice = Choice::new(&self.map, c.as_deref(), b.as_deref());
        let choice = choice.map_err(|e| self.without_frames(region, e.into()))?;
        Ok(Some(Frames { colours, banks, choice }))
    }

    /// The colours that stand for the ways of a region under levels.
    fn colours_of(
        &self,
        levels: &LevelsPlan,
        region: Region,
    ) -> Result<Option<(u32, u32)>, LinuxError> {
        if self.by_masks {
            return Ok(None);
        }
        let own = levels.cores.iter().find(|c| Region::Core(c.id) == region).map(|c| c.ways);
        if own.is_some_and(|ways| ways.count == 0) {
            return self.colours_of(levels, Region::LevelC);
        }
        let ways = own.unwrap_or(levels.level_c_ways);
        let (all, known) = (self.plan.platform.llc.ways, self.map.colour_count());
        let colours = PlanCore::colours_for(ways.first, ways.count, all, known);
        if known < 2 || colours.1 == 0 {
            let why = if known < 2 {
                format!("{} has no colours that stand for them", self.source)
            } else {
                format!("these are less than one of the {known} colours of {}", self.source)
            };
            return Err(LinuxError::Machine(format!(
                "--colors: the plan gives {} of {all} ways to {region}, and {why}; give --resctrl \
                    beside --colors, where the CPU has ways",
                ways.count
            )));
        }
        Ok(Some(colours))
    }

    /// The banks of a region under levels.
    fn banks_of(
        &self,
        levels: &LevelsPlan,
        region: Region,
    ) -> Result<Option<(u32, u32)>, LinuxError> {
        if let Some(core) = levels.cores.iter().find(|c| Region::Core(c.id) == region) {
            return Ok(Some((core.bank, 1)));
        }
        let total = self.plan.platform.total_banks();
        let shared = levels.shared_banks(total);
        let count = u32::try_from(shared.len()).unwrap_or(0);
        let first = shared.first().copied().unwrap_or(0);
        let follow = shared.last().is_some_and(|last| last - first + 1 == count);
        let each_its_own = levels.cores.len() + shared.len() == total as usize;
        if !follow || !each_its_own {
            return Err(LinuxError::Input(
                "--colors: cores of the plan have a bank together, or the banks of level C do not \
                    follow each other; make the plan again"
                    .to_owned(),
            ));
        }
        Ok(Some((first, count)))
    }

    /// No frame has both colours and banks.
    fn without_frames(&self, region: Region, why: LinuxError) -> LinuxError {
        if self.plan.levels().is_none() {
            return why.of(&format!("{region} of the plan ({})", self.source));
        }
        LinuxError::Machine(format!(
            "--colors: no frame has both the colours and the banks of {region} ({}), because the \
                same address bits choose both; give --resctrl beside --colors, where the CPU has \
                ways",
            self.source
        ))
    }

    /// The reason why no region has frames.
    pub fn nothing(&self) -> String {
        match self.without_banks().filter(|_| self.by_masks) {
            Some(why) => format!("--colors beside --resctrl is for banks: {why}"),
            None => {
                "--colors: the plan gives colours to no core, and no map has its banks; plan for \
                     a board with partition = \"colour\", give --map, or leave --colors out"
                    .to_owned()
            }
        }
    }

    /// Whole colours that hold less than the ways for which the plan was made. Of a profiled task
    /// the plan counts on locked pages, which have their room, and on no other hit where misses are
    /// not counted by ways.
    pub fn too_few(&self, core: &PlanCore) -> Option<String> {
        let (plan, board) = (&self.plan, &self.plan.platform);
        let counts = |t: &&PlanTask| t.profile.is_none() || board.counts_by_ways();
        plan.tasks.iter().filter(|t| t.core == core.id && !t.best_effort()).find(counts)?;
        let (_, count) = core.colours?;
        let (all, ways) = (u64::from(board.colours()), u64::from(board.llc.ways));
        let (own, share) = (u64::from(count), plan.ways_of(core.id).map_or(0, |(_, n)| n));
        (own * ways < u64::from(share) * all).then(|| {
            format!(
                "its {count} whole colours of {all} hold less than the {share} ways of {ways} that \
                    the plan counts on; give each core a number of ways that makes whole colours"
            )
        })
    }

    /// Reason why a task with a bank does not have all sets of the ways that the hardware gives it.
    pub fn banks_choose_sets(&self) -> Option<String> {
        self.plan.levels().filter(|_| self.by_masks)?;
        let functions = [self.map.colours.clone(), self.map.page_banks()].concat();
        let both = Basis::of(functions.iter().copied()).rank() < functions.len();
        both.then(|| {
            format!(
                "the same address bits choose banks and sets of the cache ({}), so each task has \
                    only a part of its ways; measure the tasks in these banks and give --vouch banks",
                self.source
            )
        })
    }

    /// Reason why the plan's banks are unknown.
    pub fn without_banks(&self) -> Option<String> {
        (!self.knows_banks()).then(|| {
            format!(
                "the map ({}) has {} banks of pages, and the plan {}; give --map with the bank \
                    functions of this machine (`solocore space map`)",
                self.source,
                self.map.bank_count(),
                self.plan.platform.total_banks()
            )
        })
    }
}

#[cfg(test)]
pub(super) mod example {
    use super::*;
    use solocore_model::Platform;
    use solocore_model::plan::Scheme;
    use solocore_model::plan::levels::{LevelsCore, LevelsMessage, Method, Ways};
    use solocore_model::system::Criticality;

    fn levels() -> LevelsPlan {
        let region = |first, count| Ways { first, count };
        let core = |id: u32, ways| LevelsCore { id, ways, bank: id, ..LevelsCore::default() };
        let message = |from: &str, to: &str, method, bank| LevelsMessage {
            from: from.to_owned(),
            to: to.to_owned(),
            bytes: 4096,
            method,
            bank,
        };
        LevelsPlan {
            ways: 16,
            cores: vec![core(0, region(0, 4)), core(1, region(4, 4)), core(2, region(8, 0))],
            level_c_ways: region(8, 8),
            locked_ways: region(8, 0),
            messages: vec![
                message("a", "b", Method::Together, Some(0)),
                message("c", "d", Method::LevelC, None),
                message("a", "one", Method::Bypass, None),
                message("one", "two", Method::Locked, None),
            ],
            ..LevelsPlan::default()
        }
    }

    /// A plan of levels on three cores; the last one has no ways. Tasks of each level, and a
    /// message of each kind.
    pub fn plan() -> Plan {
        let mut plan: Plan = serde_json::from_str(include_str!("../../tests/plan.json")).unwrap();
        plan.platform = Platform::find("imx6q", std::path::Path::new(".")).unwrap();
        plan.cores = (0..3)
            .map(|id| PlanCore { id, colours: None, banks: Some((id, 1)), ..plan.cores[0].clone() })
            .collect();
        let first = plan.tasks[0].clone();
        let task = |name: &str, core, criticality| PlanTask {
            name: name.to_owned(),
            core,
            criticality,
            command: Some(vec!["/bin/sh".to_owned()]),
            ..first.clone()
        };
        plan.tasks = vec![
            task("a", 0, Criticality::A),
            task("b", 0, Criticality::B),
            task("one", 1, Criticality::A),
            task("two", 2, Criticality::B),
            task("c", 0, Criticality::C),
            task("d", 1, Criticality::D),
        ];
        plan.scheme = Scheme::Levels(Box::new(levels()));
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::Platform;
    use solocore_model::plan::Scheme;
    use solocore_model::system::Criticality;

    /// 16 colours, and three bits of banks above them: eight banks, as the i.MX6 has.
    fn planned(plan: Plan, by_masks: bool) -> Planned {
        let map = Map {
            colours: (12..16).map(|bit| 1 << bit).collect(),
            banks: (20..23).map(|bit| 1 << bit).collect(),
            slices: Vec::new(),
        };
        Planned { plan, map, source: "a map".to_owned(), by_masks }
    }

    /// The first one and the number.
    type Range = Option<(u32, u32)>;

    fn of(planned: &Planned, task: &str) -> (Range, Range) {
        let region = planned.region_named(task).unwrap();
        let frames = planned.frames(region).unwrap().unwrap();
        (frames.colours, frames.banks)
    }

    #[test]
    fn each_task_has_the_frames_of_its_level() {
        let planned = planned(example::plan(), false);
        assert_eq!(of(&planned, "a"), (Some((0, 4)), Some((0, 1))));
        assert_eq!(of(&planned, "b"), of(&planned, "a"), "levels A and B of a core are together");
        assert_eq!(of(&planned, "one"), (Some((4, 4)), Some((1, 1))));
        // Its core has no ways: it counts on no hit, as level C does.
        assert_eq!(of(&planned, "two"), (Some((8, 8)), Some((2, 1))));
        // Those of no core, on any core.
        assert_eq!(of(&planned, "c"), (Some((8, 8)), Some((3, 5))));
        assert_eq!(of(&planned, "d"), of(&planned, "c"), "best effort is beside level C");
        let frames = planned.frames(Region::Core(1)).unwrap().unwrap();
        // Colour 4 of bank 1; then another bank, and another colour.
        assert!(frames.choice.allows(4 | 1 << 8));
        assert!(!frames.choice.allows(4 | 1 << 9) && !frames.choice.allows(8 | 1 << 8));
        assert_eq!(planned.regions().len(), 4);
    }

    #[test]
    fn beside_ways_of_the_hardware_banks_alone_choose_frames() {
        let mut planned = planned(example::plan(), true);
        assert_eq!(of(&planned, "a"), (None, Some((0, 1))));
        assert_eq!(of(&planned, "two"), (None, Some((2, 1))));
        assert_eq!(of(&planned, "c"), (None, Some((3, 5))));
        assert_eq!(planned.banks_choose_sets(), None);
        // Bit 15 is one of a colour.
        planned.map.banks[2] = 1 << 15;
        assert!(planned.banks_choose_sets().unwrap().contains("a part of its ways"));
        planned.map.banks.pop();
        assert!(planned.frames(Region::LevelC).unwrap().is_none(), "not the plan's banks");
        assert!(planned.without_banks().unwrap().contains("has 4 banks of pages, and the plan 8"));
    }

    #[test]
    fn a_cache_without_such_colours_is_refused_with_the_remedy() {
        let refused = |planned: &Planned, region| match planned.frames(region) {
            Err(LinuxError::Machine(why)) => why,
            other => panic!("{:?}", other.map(|f| f.is_some())),
        };
        let mut few = planned(example::plan(), false);
        few.map.colours.clear();
        let why = refused(&few, Region::Core(0));
        assert!(why.contains("4 of 16 ways to core 0") && why.contains("give --resctrl"), "{why}");
        assert!(refused(&few, Region::LevelC).contains("8 of 16 ways to level C"));
        few.map.colours = vec![1 << 12, 1 << 13];
        assert_eq!(of(&few, "a").0, Some((0, 1)), "a whole colour of four");
        // The bank of core 1 has a bit that its colours have clear.
        let mut both = planned(example::plan(), false);
        both.map.banks = vec![1 << 15, 1 << 20, 1 << 21];
        assert!(refused(&both, Region::Core(1)).contains("the same address bits choose both"));
    }

    /// Of profiled tasks a plan counts on locked pages alone where the cache has slices.
    #[test]
    fn whole_colours_hold_the_ways_that_a_plan_counts_on() {
        let mut planned = planned(example::plan(), false);
        let plan = &mut planned.plan;
        (plan.scheme, plan.tasks[0].criticality) = (Scheme::Budgets, Criticality::B);
        plan.tasks.truncate(1);
        plan.platform = Platform::find("core-i5-2500k", std::path::Path::new(".")).unwrap();
        // Five of twelve ways are 13 of 32 colours and a third.
        (plan.cores[0].ways, plan.cores[0].colours) = (5, Some((0, 13)));
        let mut few = |profile: Option<&str>| {
            planned.plan.tasks[0].profile = profile.map(Into::into);
            planned.too_few(&planned.plan.cores[0])
        };
        assert!(few(None).unwrap().contains("hold less than the 5 ways"), "a stated task");
        assert_eq!(few(Some("one.json")), None);
        planned.plan.tasks[0].criticality = Criticality::D;
        planned.plan.tasks[0].period_ns = None;
        assert_eq!(planned.too_few(&planned.plan.cores[0]), None, "nothing is promised");
    }

    #[test]
    fn cores_with_one_bank_together_are_refused() {
        let mut plan = example::plan();
        let Scheme::Levels(levels) = &mut plan.scheme else { panic!("not a plan of levels") };
        levels.cores[2].bank = 1;
        let error = planned(plan, true).frames(Region::LevelC).map(drop).unwrap_err();
        assert!(matches!(&error, LinuxError::Input(why) if why.contains("bank together")));
    }
}
