//! Execution time and DRAM accesses of one job, as functions of its locked pages.

use solocore_model::platform::Pace;
use solocore_model::system;
use solocore_model::{Derivation, ModelError, Platform, Profile, files};
use std::path::{Path, PathBuf};

/// Demand of a task's jobs.
#[derive(Clone, Debug)]
pub enum Demand {
    /// Stated numbers, which hold with the plan's share of the cache.
    Given {
        /// Execution time alone, ps.
        wcet_ps: u64,
        /// DRAM accesses.
        misses: u64,
    },
    /// Stated for 0, 1, 2... locked pages: execution time alone in ps, and DRAM accesses. Not
    /// empty, never rising.
    Curve(Vec<(u64, u64)>),
    /// Profiled.
    Profiled {
        /// Path of the profile.
        path: PathBuf,
        /// The profile.
        profile: Box<Profile>,
    },
}

impl Demand {
    /// The numbers that the system file states; `None` where a profile gives them.
    pub fn stated(demand: &system::Demand) -> Option<Self> {
        match demand {
            system::Demand::Given { wcet, misses } => {
                Some(Self::Given { wcet_ps: wcet.ps(), misses: *misses })
            }
            system::Demand::Curve(points) => {
                Some(Self::Curve(points.iter().map(|p| (p.wcet.ps(), p.misses)).collect()))
            }
            system::Demand::Profile(_) | system::Demand::Command(_) => None,
        }
    }

    /// Reads a profile for the caches of a platform. A task that never leaves `core` may have a
    /// profile for the private caches of that core, or for those of all cores.
    ///
    /// # Errors
    /// When the file cannot be read, or its profile is for other caches or from an older solocore.
    pub fn of_file(
        path: &Path,
        platform: &Platform,
        core: Option<u32>,
    ) -> Result<Self, ModelError> {
        Self::of_text(path, &files::read_text(path)?, platform, core)
    }

    /// The same of the text of a profile; `path` names it.
    ///
    /// # Errors
    /// As [`Demand::of_file`], except those of reading.
    pub fn of_text(
        path: &Path,
        text: &str,
        platform: &Platform,
        core: Option<u32>,
    ) -> Result<Self, ModelError> {
        let profile: Profile =
            serde_json::from_str(text).map_err(|e| ModelError::from_json(path, &e))?;
        let refuse = |message: String| {
            Err(ModelError::Invalid { path: path.to_owned(), line: None, message })
        };
        let fits = |core| profile.geometry == platform.geometry_on(core);
        if !fits(None) && !fits(core) {
            let (of, wanted) = (&profile.platform, &platform.name);
            if (0..platform.cores).any(|core| fits(Some(core))) {
                return refuse(format!(
                    "it was made for the private caches of another type of core of {wanted}; \
                        profile again with --platform {wanted}, and with --core only for a task \
                        that has that core"
                ));
            }
            return refuse(format!(
                "it was made for the caches of {of}, not those of {wanted}; profile again with \
                    --platform {wanted}"
            ));
        }
        if let Some(kind) = other_type(&profile, platform, core) {
            return refuse(format!(
                "it was measured on a core of core_type `{kind}`, and its time holds on these \
                    alone; give the task a `core` of that type, or measure again without --cpu \
                    and --core"
            ));
        }
        let before = profile.children > 0 && profile.origin.processes.is_one();
        if profile.exec.is_some() || before {
            return refuse(
                "an older solocore made it, and left out the memory use of other processes of the \
                    program; profile again"
                    .to_owned(),
            );
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(Self::Profiled { path, profile: Box::new(profile) })
    }

    /// DRAM accesses of a job with its `k` hottest pages locked (all accesses to other pages
    /// miss).
    pub fn misses(&self, k: usize) -> u64 {
        match self {
            Self::Given { misses, .. } => *misses,
            Self::Curve(points) => point(points, k).1,
            Self::Profiled { profile, .. } => profile.residual_misses(k),
        }
    }

    /// The same by kind: most reads, and most writes. Stated numbers do not tell the kinds apart.
    pub fn kinds(&self, k: usize) -> (u64, u64) {
        let all = self.misses(k);
        match self {
            Self::Given { .. } | Self::Curve(_) => (all, all),
            Self::Profiled { profile, .. } => profile.kinds(k),
        }
    }

    /// Execution time alone on the slowest core, ps: computation, a shared-cache look-up for every
    /// read that leaves the private caches, and `L_max` for every DRAM access.
    pub fn wcet_ps(&self, k: usize, p: &Platform) -> u64 {
        self.wcet_at(k, p.dram.latency_max.ps(), p, p.slowest_pace())
    }

    /// The same on a core with this pace, where each DRAM access takes `access_ps`. Stated times
    /// are unchanged.
    pub fn wcet_at(&self, k: usize, access_ps: u64, p: &Platform, pace: Pace) -> u64 {
        match self {
            Self::Given { wcet_ps, .. } => *wcet_ps,
            Self::Curve(points) => point(points, k).0,
            Self::Profiled { profile, .. } => {
                let inside = inside_ps(profile, p, pace);
                inside.saturating_add(self.misses(k).saturating_mul(access_ps))
            }
        }
    }

    /// Time alone of a job on the slowest core, ps, and its DRAM accesses. By the profile: with the
    /// whole shared cache under LRU, and row hits in DRAM. By a stated curve: with all pages
    /// locked. By stated numbers: as stated.
    pub fn alone(&self, p: &Platform) -> (u64, u64) {
        self.alone_at(p, p.slowest_pace())
    }

    /// The same on a core with this pace.
    pub fn alone_at(&self, p: &Platform, pace: Pace) -> (u64, u64) {
        match self {
            Self::Given { .. } | Self::Curve(_) => {
                (self.wcet_ps(usize::MAX, p), self.misses(usize::MAX))
            }
            Self::Profiled { profile, .. } => {
                let misses =
                    profile.by_ways.last().copied().unwrap_or_else(|| profile.llc_accesses());
                let memory = misses.saturating_mul(p.row_hit().ps());
                (inside_ps(profile, p, pace).saturating_add(memory), misses)
            }
        }
    }

    /// Derivation of `C` and `mu` with `k` locked pages, on a core with this pace.
    pub fn explain(&self, k: usize, p: &Platform, pace: Pace) -> Derivation {
        let misses = self.misses(k);
        let wcet = self.wcet_at(k, p.dram.latency_max.ps(), p, pace);
        match self {
            Self::Given { .. } => Derivation::new("C and mu as stated", "system file")
                .input("mu", misses)
                .result(wcet),
            Self::Curve(points) => {
                Derivation::new("C and mu of the stated lockdown curve", "system file")
                    .input("locked pages", k as u64)
                    .input("C without locking ps", point(points, 0).0)
                    .input("mu without locking", point(points, 0).1)
                    .step("mu", misses)
                    .result(wcet)
            }
            Self::Profiled { profile, .. } => Derivation::new(
                "C = cycles in the private caches + reads that leave them * look-up of the shared \
                    cache + mu*L, \
                 mu = accesses of pages that are not locked, and write-backs",
                "single-core-equivalence section 2.3; the profile",
            )
            .input("cycles", pace.cycles(profile.private_cycles, profile.instructions))
            .input("clock ps", pace.clock.cycles_to_ps(1))
            .input("reads", profile.llc_reads())
            .input("look-up ps", p.cycles_to_ps(p.llc.latency.0))
            .input("L ps", p.dram.latency_max.ps())
            .input("locked pages", k as u64)
            .step("mu without locking", profile.residual_misses(0))
            .step("mu", misses)
            .result(wcet),
        }
    }

    /// Shared-cache accesses of each page, hottest first; empty where nothing can be locked.
    pub fn page_accesses(&self) -> impl Iterator<Item = u64> + '_ {
        let (pages, points) = match self {
            Self::Given { .. } => (&[][..], &[][..]),
            Self::Curve(points) => (&[][..], &points[..]),
            Self::Profiled { profile, .. } => (&profile.pages[..], &[][..]),
        };
        let stated = points.windows(2).map(|p| p[0].1 - p[1].1);
        pages
            .iter()
            .map(solocore_model::profile::PageProfile::llc_accesses)
            .chain(stated)
            .take_while(|&n| n > 0)
    }

    /// Distinct lines a job touches; 0 where unknown (stated numbers must then include preemption
    /// costs).
    pub fn lines(&self) -> u64 {
        match self {
            Self::Given { .. } | Self::Curve(_) => 0,
            Self::Profiled { profile, .. } => profile.working_set.lines,
        }
    }
}

/// Time of a job without its DRAM accesses on a core with this pace, ps: computation, and a
/// look-up of the shared cache for every read that leaves the private ones. The shared cache has
/// one latency for all cores, in cycles of `frequency`. [`Pace`] says why the time is an upper
/// bound, also where the core is not known.
pub fn inside_ps(profile: &Profile, p: &Platform, pace: Pace) -> u64 {
    let look_ups = profile.llc_reads().saturating_mul(p.cycles_to_ps(p.llc.latency.0));
    pace.ps(profile.private_cycles, profile.instructions).saturating_add(look_ups)
}

/// The type of cores that a measured profile is for, where the task may run on others.
fn other_type<'a>(profile: &'a Profile, p: &Platform, core: Option<u32>) -> Option<&'a str> {
    let kind = profile.origin.measured.as_ref()?.core_type.as_deref()?;
    let own = core.and_then(|core| p.type_of(core));
    (own.is_none_or(|own| own.name != kind) && !p.core_types.is_empty()).then_some(kind)
}

/// The point of a curve for `k` locked pages; the last point where the curve is shorter.
fn point(points: &[(u64, u64)], k: usize) -> (u64, u64) {
    points.get(k).or(points.last()).copied().unwrap_or((0, 0))
}
