//! The numbers of each core, and those that hold for all.
//!
//! Problem: types of cores differ in cycles per instruction (cpi), in miss registers and in private
//! caches. A profile's accesses are those behind given private caches. Rule: a core has the numbers
//! of its type, and the platform's own where the type states none. A profile is made for each
//! distinct set of private caches that its task may meet ([`Platform::views`]), and the worst of
//! these holds.
//!
//! Why each of them, and not only the smallest caches. Under LRU a cache with as many sets and more
//! ways holds all lines of one with fewer ways (inclusion), so it has no more misses on the same
//! references. That is all that inclusion gives:
//! * With another number of sets, lines that shared no set may share one. A larger cache can then
//!   have more misses than a smaller one.
//! * A second level sees the misses of the first. With another first level it sees other
//!   references, and inclusion compares caches on the same references only.
//! * A cache with more ways writes a dirty line back later. The write-backs are in another order,
//!   so the shared cache below sees another sequence, and its own misses may rise.
//!
//! Where a job stays on one core, it meets one set of private caches, and its accesses are at most
//! the largest of their profiles. A job that moves between sets of caches meets a part of each. The
//! accesses of a part are at most those that the part has in a whole job behind these caches, after
//! a reload of the caches for each move. So the sum over the sets bounds them, and also the number
//! of sets times the largest ([`Platform::private_kinds`]).

use super::{CoreType, Pace, Pipeline, Platform, PrivateCaches};
use crate::units::Frequency;

impl Platform {
    /// The type of a core; `None`: no type has it.
    pub fn type_of(&self, core: u32) -> Option<&CoreType> {
        self.core_types.iter().find(|kind| kind.cores.contains(&core))
    }

    /// Its types; `None` stands for the cores of a platform without types.
    fn kinds(&self) -> impl Iterator<Item = Option<&CoreType>> {
        let none = self.core_types.is_empty().then_some(None);
        self.core_types.iter().map(Some).chain(none)
    }

    fn cpi_in(&self, kind: Option<&CoreType>) -> f64 {
        kind.and_then(|kind| kind.cpi).unwrap_or(self.cpi)
    }

    fn pipeline_in(&self, kind: Option<&CoreType>) -> Pipeline {
        kind.and_then(|kind| kind.pipeline).unwrap_or(self.pipeline)
    }

    fn private_in(&self, kind: Option<&CoreType>) -> PrivateCaches {
        PrivateCaches {
            l1i: kind.and_then(|kind| kind.l1i.clone()).unwrap_or_else(|| self.l1i.clone()),
            l1d: kind.and_then(|kind| kind.l1d.clone()).unwrap_or_else(|| self.l1d.clone()),
            l2: kind.and_then(|kind| kind.l2.clone()).or_else(|| self.l2.clone()),
        }
    }

    /// Cycles per instruction of a core.
    pub fn cpi_of(&self, core: u32) -> f64 {
        self.cpi_in(self.type_of(core))
    }

    /// The least cycles per instruction of its cores: those of a profile.
    pub fn least_cpi(&self) -> f64 {
        self.kinds().map(|kind| self.cpi_in(kind)).fold(f64::INFINITY, f64::min)
    }

    /// The most cycles per instruction of its cores.
    pub fn most_cpi(&self) -> f64 {
        self.kinds().map(|kind| self.cpi_in(kind)).fold(0.0, f64::max)
    }

    fn pace(&self, clock: Frequency, cpi: f64) -> Pace {
        let least = Pace::parts(self.least_cpi());
        Pace { clock, more: Pace::parts(cpi).saturating_sub(least) }
    }

    /// Pace of a core.
    pub fn pace_of(&self, core: u32) -> Pace {
        self.pace(self.clock_of(core), self.cpi_of(core))
    }

    /// A pace that no core is slower than: the lowest clock and the most cycles per instruction.
    pub fn slowest_pace(&self) -> Pace {
        self.pace(self.frequency, self.most_cpi())
    }

    /// A pace that no core is faster than.
    pub fn fastest_pace(&self) -> Pace {
        self.pace(self.fastest(), self.least_cpi())
    }

    /// Miss registers and window of a core.
    pub fn pipeline_of(&self, core: u32) -> Pipeline {
        self.pipeline_in(self.type_of(core))
    }

    /// The most miss registers of a core. What a core with fewer can do, one with these can do too,
    /// so a bound with them holds for every core.
    pub fn most_mshrs(&self) -> u32 {
        self.kinds().map(|kind| self.pipeline_in(kind).mshrs).max().unwrap_or(self.pipeline.mshrs)
    }

    /// The private caches of a core.
    pub fn private_of(&self, core: u32) -> PrivateCaches {
        self.private_in(self.type_of(core))
    }

    /// The distinct private caches of a core, or of all cores, in the order of the types.
    fn privates(&self, core: Option<u32>) -> Vec<PrivateCaches> {
        if let Some(core) = core {
            return vec![self.private_of(core)];
        }
        let mut distinct: Vec<PrivateCaches> = Vec::new();
        for caches in self.kinds().map(|kind| self.private_in(kind)) {
            if !distinct.contains(&caches) {
                distinct.push(caches);
            }
        }
        distinct
    }

    /// Number of distinct private caches of its cores.
    pub fn private_kinds(&self) -> u64 {
        self.privates(None).len() as u64
    }

    /// Lines that the private caches of one core can hold, the most that a preemption can cost. Of
    /// several types the largest.
    pub fn private_lines(&self) -> u64 {
        let lines = |kind| self.private_in(kind).lines(self.llc.line);
        self.kinds().map(lines).max().unwrap_or(0)
    }

    /// The platforms without types on which a task of this core, or of any core, is profiled: one
    /// for each distinct set of private caches, all with the least cycles per instruction.
    pub fn views(&self, core: Option<u32>) -> Vec<Self> {
        let view = |caches: PrivateCaches| Self {
            cpi: self.least_cpi(),
            l1i: caches.l1i,
            l1d: caches.l1d,
            l2: caches.l2,
            core_types: Vec::new(),
            ..self.clone()
        };
        self.privates(core).into_iter().map(view).collect()
    }

    /// The platform as a program on this core meets it: all cores have the private parts and the
    /// cycles per instruction of this one. `frequency`, in whose cycles the shared cache's latency
    /// is, stays.
    #[must_use]
    pub fn seen_from(&self, core: u32) -> Self {
        let PrivateCaches { l1i, l1d, l2 } = self.private_of(core);
        let (cpi, pipeline) = (self.cpi_of(core), self.pipeline_of(core));
        Self { cpi, pipeline, l1i, l1d, l2, core_types: Vec::new(), ..self.clone() }
    }

    /// Can a job notice on which core it runs?
    pub fn cores_differ(&self) -> bool {
        let own = |kind: Option<&CoreType>| {
            let clock = kind.map_or(self.frequency, |kind| kind.frequency);
            (clock, self.cpi_in(kind), self.pipeline_in(kind), self.private_in(kind))
        };
        let mut all = self.kinds().map(own);
        let first = all.next();
        all.any(|other| Some(other) != first)
    }

    /// Facts that the profile of a task on any core depends on: platforms with equal geometry can
    /// share profiles.
    pub fn geometry(&self) -> String {
        self.geometry_on(None)
    }

    /// The same of a task of this core, which meets the private caches of no other.
    pub fn geometry_on(&self, core: Option<u32>) -> String {
        let caches: Vec<String> = self.privates(core).iter().map(PrivateCaches::key).collect();
        // A measured time is counted in cycles of the fastest core.
        let fastest = self.fastest();
        let to =
            if fastest == self.frequency { String::new() } else { format!(" to {}", fastest.0) };
        format!(
            "{} llc {}/{}/{} line {} page {} cpi {} clock {}{to} lmax {}",
            caches.join(" or "),
            self.llc.size.0,
            self.llc.ways,
            self.llc.latency.0,
            self.llc.line.0,
            self.page.0,
            self.least_cpi(),
            self.frequency.0,
            self.row_conflict().ps()
        )
    }
}
