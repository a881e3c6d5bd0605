//! The functions of a profile that a lock can name, and the accesses that sets of them cover.
//!
//! Problem: a bound counts on the accesses that surely lie in calls of the locked functions, and on
//! the longest time of these calls. Functions call each other, so that accesses must not count
//! twice. Rule: the calls of one function have their accesses by the profile. Those of a set are at
//! least the most of one function of it. Its reads are at least the sum less what each two have in
//! common (Bonferroni). Two functions have the reads in common that some chain of callers shows
//! within both, and all reads whose callers the profile leaves out. Its writes are at least those
//! of one function: without exclusive caches, a miss of the first level may write back a line and
//! read none. Time and calls of a set are at most the sums.
//!
//! At most [`MOST`] functions are looked at: those with the most accesses for the time held, then
//! those with the most accesses. Does not cover: profiles of several inputs, whose counts are the
//! most of each; functions that call each other in a circle.

use crate::error::PlanError;
use solocore_model::Profile;
use solocore_model::profile::{FunctionCalls, FunctionProfile, can_be_locked};
use std::cmp::Reverse;

/// Most functions of a task that are looked at: all their sets are tried.
pub const MOST: usize = 12;
/// Of these, the functions with the most accesses for the time held.
const DENSEST: usize = 8;
/// A chain with as many callers may have lost its outermost ones.
const LONGEST_CHAIN: usize = 32;

/// A function that a lock can name.
#[derive(Debug)]
struct Section<'a> {
    symbol: &'a str,
    name: &'a str,
    calls: &'a FunctionCalls,
}

/// The functions of a task that are looked at.
#[derive(Debug)]
pub struct Sections<'a> {
    list: Vec<Section<'a>>,
    /// Most reads that two functions have in common.
    common: Vec<Vec<u64>>,
}

/// The accesses and calls that a set of functions covers in a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// Least accesses to the shared cache in its calls.
    pub least: u64,
    /// Most accesses to the shared cache in its calls.
    pub most: u64,
    /// Most calls.
    pub calls: u64,
    /// Time of the calls, alone on the board of the profile, ns.
    pub held_ns: u64,
}

/// Accesses in the calls of a function; older profiles have misses only.
fn accesses(calls: &FunctionCalls) -> u64 {
    calls.llc_reads.saturating_add(calls.llc_writes).max(calls.llc_misses)
}

impl<'a> Sections<'a> {
    /// The functions of a task's profile.
    ///
    /// # Errors
    /// No function can be locked, or the profile's counts are no lower limits.
    pub fn of(task: &str, profile: &'a Profile) -> Result<Self, PlanError> {
        if profile.origin.inputs.len() > 1 {
            return Err(PlanError(format!(
                "task `{task}`: lock = \"auto\" needs the profile of one input, because counts of \
                    several inputs are the most of each; leave out inputs, or name the functions"
            )));
        }
        let mut all: Vec<Section> = can_be_locked(&profile.functions)
            .filter(|(_, calls)| accesses(calls) > 0 && calls.calls > 0)
            .filter_map(|(f, calls)| {
                let symbol = f.lock.as_deref()?.strip_prefix("function:")?;
                Some(Section { symbol, name: &f.name, calls })
            })
            .collect();
        if all.is_empty() {
            let why = profile.functions.iter().find_map(|f| f.no_lock.as_deref());
            let why = why.unwrap_or("it has no calls of functions");
            return Err(PlanError(format!(
                "task `{task}`: lock = \"auto\" finds no function in its profile that a lock can \
                    name ({why}); build the program with symbols and profile it again, or hold the \
                    lock with `exec --lock`"
            )));
        }
        // More accesses for the same time first; the list is otherwise that of the profile.
        all.sort_by(|a, b| {
            let dense = |s: &Section, other: &Section| {
                u128::from(accesses(s.calls)) * u128::from(other.calls.held_ns.max(1))
            };
            dense(b, a).cmp(&dense(a, b))
        });
        let mut rest = all.split_off(all.len().min(DENSEST));
        rest.sort_by_key(|s| Reverse(accesses(s.calls)));
        rest.truncate(MOST - DENSEST);
        all.append(&mut rest);
        let cut = profile.origin.chains_cut;
        let common = |a: &Section, b: &Section| {
            let most = a.calls.llc_reads.min(b.calls.llc_reads);
            if cut { most } else { most.min(in_common(&profile.functions, a.name, b.name)) }
        };
        let common = all.iter().map(|a| all.iter().map(|b| common(a, b)).collect()).collect();
        Ok(Self { list: all, common })
    }

    /// Number of the functions.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Their names for a lock.
    pub fn symbols(&self, set: &[usize]) -> Vec<String> {
        set.iter().map(|&at| self.list[at].symbol.to_owned()).collect()
    }

    /// The accesses and calls that a set covers.
    pub fn covered(&self, set: &[usize]) -> Covered {
        let calls = |&at: &usize| self.list[at].calls;
        let (mut sum, mut single, mut common) = (0u64, 0u64, 0u64);
        let (mut reads, mut writes) = (0u64, 0u64);
        for (nth, at) in set.iter().enumerate() {
            sum = sum.saturating_add(accesses(calls(at)));
            single = single.max(accesses(calls(at)));
            reads = reads.saturating_add(calls(at).llc_reads);
            writes = writes.max(calls(at).llc_writes);
            let before = set[..nth].iter().map(|&other| self.common[*at][other]);
            common = before.fold(common, u64::saturating_add);
        }
        Covered {
            least: single.max(reads.saturating_sub(common).saturating_add(writes)),
            most: sum,
            calls: set.iter().map(|at| calls(at).calls).fold(0, u64::saturating_add),
            held_ns: set
                .iter()
                .map(|at| calls(at).held_ns.saturating_add(1))
                .fold(0, u64::saturating_add),
        }
    }
}

/// Most reads within calls of both functions.
fn in_common(functions: &[FunctionProfile], a: &str, b: &str) -> u64 {
    let mut reads = 0u64;
    for f in functions {
        let mut listed = 0u64;
        for chain in &f.callers {
            let has = |name: &str| f.name == name || chain.functions.iter().any(|c| c == name);
            let whole = chain.functions.len() < LONGEST_CHAIN;
            if !whole || has(a) && has(b) {
                reads = reads.saturating_add(chain.llc_accesses);
            }
            listed = listed.saturating_add(chain.llc_accesses);
        }
        // A chain begins with `main`, so that its own accesses have none.
        if f.name != "main" {
            reads = reads.saturating_add(f.llc_accesses.saturating_sub(listed));
        }
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::profile::CallChain;

    fn function(
        name: &str,
        reads: u64,
        held_ns: u64,
        callers: &[(&[&str], u64)],
    ) -> FunctionProfile {
        let calls = FunctionCalls {
            calls: 1,
            llc_misses: reads,
            llc_reads: reads,
            llc_writes: 10,
            held_ns,
            longest_ns: held_ns,
        };
        let chain = |&(of, llc_accesses): &(&[&str], u64)| CallChain {
            functions: of.iter().map(|&f| f.to_owned()).collect(),
            llc_misses: llc_accesses,
            llc_accesses,
        };
        let callers: Vec<CallChain> = callers.iter().map(chain).collect();
        FunctionProfile {
            name: name.to_owned(),
            lock: Some(format!("function:{name}")),
            calls: Some(calls),
            llc_accesses: callers.iter().map(|c| c.llc_accesses).sum(),
            callers,
            ..FunctionProfile::default()
        }
    }

    fn profile(functions: Vec<FunctionProfile>) -> Profile {
        let text = r#"{"format":"solocore-profile/1","command":["p"],"isa":"x86_64",
            "engine":"qemu","platform":"p","geometry":"g","exit_code":0,"instructions":1,
            "loads":0,"stores":0,"references":0,"threads":1,"children":0,"exec":null,"levels":[],
            "private_cycles":1,"working_set":{"pages":0,"lines":0,"bytes":0},"lockdown":[0],
            "by_ways":[],"pages":[],"functions":[],"bandwidth":{"interval_ns":1,"bytes_per_s":[]},
            "trace":null}"#;
        Profile { functions, ..serde_json::from_str(text).unwrap() }
    }

    /// Fails where accesses within two functions count twice, or those of separate ones once.
    #[test]
    fn accesses_of_two_functions_count_once() {
        let p = profile(vec![
            function("outer", 500, 1000, &[(&["main"], 100)]),
            function("inner", 400, 500, &[(&["main", "outer"], 400)]),
            function("apart", 300, 400, &[(&["main"], 300)]),
        ]);
        let s = Sections::of("t", &p).unwrap();
        let at = |name: &str| s.list.iter().position(|f| f.name == name).unwrap();
        let (outer, inner, apart) = (at("outer"), at("inner"), at("apart"));
        assert_eq!(s.covered(&[outer]).least, 510);
        assert_eq!(s.covered(&[outer, inner]).least, 510);
        assert_eq!(s.covered(&[outer, apart]).least, 500 + 300 + 10);
        assert_eq!(s.covered(&[outer, apart]).calls, 2);
        assert_eq!(s.covered(&[outer, inner, apart]).most, 510 + 410 + 310);
        assert_eq!(s.covered(&[]), Covered::default());
    }

    /// Reads whose callers are left out may lie within any two functions.
    #[test]
    fn reads_without_callers_may_be_common() {
        let mut library = function("copy", 0, 0, &[]);
        (library.lock, library.calls, library.llc_accesses) = (None, None, 30);
        let p = profile(vec![
            function("a", 500, 1000, &[(&["main"], 500)]),
            function("b", 400, 500, &[(&["main"], 400)]),
            library,
        ]);
        let s = Sections::of("t", &p).unwrap();
        assert_eq!(s.covered(&[0, 1]).least, 500 + 400 - 30 + 10);
    }

    #[test]
    fn programs_without_functions_are_refused() {
        let mut stripped = function("f", 10, 10, &[]);
        (stripped.lock, stripped.no_lock) = (None, Some("the program has no symbol".to_owned()));
        let error = Sections::of("t", &profile(vec![stripped])).unwrap_err().to_string();
        assert!(error.contains("no symbol") && error.contains("profile it again"), "{error}");
    }

    /// The densest functions are kept, and the largest ones of the others.
    #[test]
    fn of_many_functions_the_densest_and_the_largest_are_looked_at() {
        let many = (0..20u64).map(|n| function(&format!("f{n}"), 100 + n, 1000 * (n + 1), &[]));
        let p = profile(many.collect());
        let s = Sections::of("t", &p).unwrap();
        let names: Vec<&str> = s.list.iter().map(|f| f.name).collect();
        assert_eq!(names[..2], ["f0", "f1"]);
        assert_eq!(names[DENSEST..], ["f19", "f18", "f17", "f16"]);
    }
}
