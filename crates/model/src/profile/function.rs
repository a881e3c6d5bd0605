//! The functions of a profile: their misses, callers and calls, and the best one to lock.
//!
//! Problem: a section that holds the bandwidth lock throttles other cores, so it should cover many
//! misses in little time (bwlock, section 3). Rule: [`best_to_lock`]. Not covered: two sections of
//! one program; the planner chooses among all of [`can_be_locked`] for a wanted slowdown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One function and its share of the misses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionProfile {
    /// Symbol, or `fn@0xADDR` in a stripped program.
    pub name: String,
    /// File it lies in.
    pub file: String,
    /// Misses of the whole shared cache that its instructions caused. Those of functions that were
    /// inlined into it belong to these.
    pub llc_misses: u64,
    /// Its accesses to the shared cache.
    pub llc_accesses: u64,
    /// `llc_misses` over those of the program, 0 to 1.
    pub share: f64,
    /// The function that has its code, where the compiler inlined it; absent for a function with
    /// code of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_into: Option<String>,
    /// Its calls; absent where none was seen: it was inlined, or only jumped to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<FunctionCalls>,
    /// The chains of callers behind its misses, most misses first; none for `main`. Chains with
    /// less than a thousandth of the program's misses are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<CallChain>,
    /// Its name for `lock` in a system file; absent where a probe cannot find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// Reason for which it cannot be locked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_lock: Option<String>,
}

/// Calls of a function, from its entry to its return. Calls within a call belong to the outermost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionCalls {
    /// Number of calls.
    pub calls: u64,
    /// Misses of the whole shared cache during the calls, those of other functions as well.
    pub llc_misses: u64,
    /// Reads of the shared cache during the calls, those of other functions as well; 0 in older
    /// profiles.
    #[serde(default)]
    pub llc_reads: u64,
    /// Dirty lines written back to the shared cache during the calls; 0 in older profiles.
    #[serde(default)]
    pub llc_writes: u64,
    /// Time of all calls, alone on the machine: instructions, reads of the shared cache, and a row
    /// conflict for each miss.
    pub held_ns: u64,
    /// Time of the longest call.
    pub longest_ns: u64,
}

/// A chain of callers of a function, and its misses there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallChain {
    /// The callers, outermost first (from `main` on), those that were inlined as well. The last one
    /// called the function. Repeated calls of a recursion are left out, and callers beyond the
    /// nearest 32.
    pub functions: Vec<String>,
    /// Misses of the function with these callers.
    pub llc_misses: u64,
    /// Accesses of the function to the shared cache with these callers.
    pub llc_accesses: u64,
}

/// The functions that a lock can name, with their calls. `main` is among them, but not the C
/// library's functions around it, which do not return.
pub fn can_be_locked(
    functions: &[FunctionProfile],
) -> impl Iterator<Item = (&FunctionProfile, &FunctionCalls)> {
    let named = functions.iter().filter(|f| f.lock.is_some());
    let named = named.filter(|f| f.name == "main" || !holds_main(&f.name));
    named.filter_map(|f| f.calls.as_ref().map(|calls| (f, calls)))
}

/// The best function to lock. Of the functions that a lock can name, those within a twentieth of
/// the most misses count; the one with the least time is the best. `main`, the C library's
/// functions around it, and functions that take at least its time hold the lock for the whole
/// program and do not count.
#[must_use]
pub fn best_to_lock(functions: &[FunctionProfile]) -> Option<(&FunctionProfile, &FunctionCalls)> {
    // That of another program of the job has no lock.
    let main = functions.iter().find(|f| f.name == "main" && f.lock.is_some());
    let whole = main.and_then(|f| f.calls.as_ref()).map_or(u64::MAX, |calls| calls.held_ns);
    let candidates = || {
        let named = functions.iter().filter(|f| f.lock.is_some() && !holds_main(&f.name));
        let called = named.filter_map(|f| f.calls.as_ref().map(|calls| (f, calls)));
        called.filter(|(_, calls)| calls.llc_misses > 0 && calls.held_ns < whole)
    };
    let most = candidates().map(|(_, calls)| calls.llc_misses).max()?;
    let near = candidates().filter(|(_, calls)| calls.llc_misses >= most - most / 20);
    near.min_by_key(|(_, calls)| calls.held_ns)
}

/// `main` may be reached by a jump, and has no time then (static programs for aarch64). So the
/// names of the functions around it count, those of glibc and musl.
fn holds_main(name: &str) -> bool {
    matches!(name, "main" | "_start" | "_start_c") || name.contains("libc_start")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, misses: u64, held_ns: u64) -> FunctionProfile {
        FunctionProfile {
            name: name.to_owned(),
            lock: Some(format!("function:{name}")),
            calls: Some(FunctionCalls {
                calls: 1,
                llc_misses: misses,
                held_ns,
                longest_ns: held_ns,
                ..FunctionCalls::default()
            }),
            ..FunctionProfile::default()
        }
    }

    fn best(functions: &[FunctionProfile]) -> Option<&str> {
        best_to_lock(functions).map(|(f, _)| f.name.as_str())
    }

    #[test]
    fn the_best_lock_covers_most_misses_in_the_least_time() {
        let all = [
            function("_start", 1000, 1200),
            function("main", 1000, 1000),
            function("run", 990, 900),
            function("filter", 960, 300),
            function("half", 500, 10),
        ];
        assert_eq!(best(&all), Some("filter"));
        assert_eq!(best(&all[..3]), Some("run"));
        assert_eq!(best(&all[..2]), None);
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn the_c_library_around_main_is_not_the_best() {
        let mut main = function("main", 1000, 0);
        main.calls = None;
        let around = function("__libc_start_call_main", 1000, 1100);
        assert_eq!(best(&[main.clone(), around.clone()]), None);
        assert_eq!(best(&[main, around, function("filter", 960, 300)]), Some("filter"));
    }

    #[test]
    fn a_function_without_a_name_for_probes_is_not_the_best() {
        let mut inlined = function("step", 1000, 10);
        inlined.lock = None;
        let mut jumped = function("tail", 1000, 10);
        jumped.calls = None;
        let all = [inlined, jumped, function("filter", 10, 10)];
        assert_eq!(best(&all), Some("filter"));
        assert_eq!(best(&all[..2]), None);
        // The program replaces itself by another, with a `main` of its own.
        let mut others = function("main", 20, 5);
        others.lock = None;
        assert_eq!(best(&[others, function("filter", 10, 10)]), Some("filter"));
    }

    #[test]
    fn older_profiles_are_read() {
        let old = r#"{"name":"f","file":"p","llc_misses":1,"llc_accesses":2,"share":1.0}"#;
        let read: FunctionProfile = serde_json::from_str(old).unwrap();
        assert!(read.callers.is_empty() && read.calls.is_none() && read.lock.is_none());
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
    }
}
