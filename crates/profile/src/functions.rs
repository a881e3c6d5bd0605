//! The functions that miss: their callers, the time within them, and whether a lock can name them.
//!
//! Problem: a memory-performance critical section (bwlock, section 3) is a function with many
//! misses and little time. The function that misses may have no symbol, because it was inlined, or
//! lie in a library. Rule: an access belongs to the innermost function at its instruction, an
//! inlined one as well. Its callers are the functions around it and those of its context, from
//! `main` on. A function of the program that misses in its callees only has a row, too. A lock
//! names a function by its symbol in the program's own file, as a probe finds it.

use crate::symbols::{Function, Functions};
use solocore_cache::contract::{Raw, Region};
use solocore_model::profile::{CallChain, FunctionCalls, FunctionProfile};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

/// Maximum number of callers of a function in a chain; the nearest ones are kept.
const LONGEST: usize = 32;
/// Maximum number of chains of a function.
const MOST_CHAINS: usize = 32;
/// Chains and callers with less than one in this number of misses are left out.
const LEAST: u64 = 1000;

type Name = Rc<str>;
type Chain = Vec<Name>;

/// A function with its file; an inlined one with the function that has its code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: Name,
    file: String,
    inlined_into: Option<Name>,
}

#[derive(Debug, Default)]
struct Row {
    misses: u64,
    accesses: u64,
    chains: BTreeMap<Chain, (u64, u64)>,
    calls: Option<FunctionCalls>,
    /// Region and file offset of one of its instructions.
    place: (u32, u64),
}

/// The functions of a part, most misses first; `program` is the file in which probes are set.
pub fn of(raw: &Raw, program: &Path) -> Vec<FunctionProfile> {
    let files = Files::load(raw);
    let contexts = chains(raw, &files);
    let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
    for code in &raw.code {
        let mut names = files.names(code.region, code.offset);
        let mut chain = contexts.get(code.context as usize).cloned().unwrap_or_default();
        extend(&mut chain, &names);
        let leaf = chain.pop().unwrap_or_else(|| files.unnamed(code.region));
        let inlined_into = if names.len() > 1 { names.pop() } else { None };
        let file = files.region(code.region);
        let row = rows.entry(Key { name: leaf, file, inlined_into }).or_default();
        row.misses += code.misses;
        row.accesses += code.accesses;
        row.place = (code.region, code.offset);
        let of_chain = row.chains.entry(chain).or_default();
        of_chain.0 += code.misses;
        of_chain.1 += code.accesses;
    }
    let total: u64 = rows.values().map(|row| row.misses).sum();
    add_calls(raw, &files, program, total, &mut rows);
    let mut out: Vec<FunctionProfile> =
        rows.into_iter().map(|(key, row)| finished(key, row, &files, program, total)).collect();
    out.sort_by(|a, b| {
        (b.llc_misses, b.llc_accesses)
            .cmp(&(a.llc_misses, a.llc_accesses))
            .then_with(|| a.name.cmp(&b.name))
    });
    out
}

/// Adds the functions of another part: a lock holds in each process of the program.
pub fn add(all: &mut Vec<FunctionProfile>, more: Vec<FunctionProfile>) {
    for f in more {
        let same = |known: &&mut FunctionProfile| {
            (&known.name, &known.file, &known.inlined_into, &known.lock)
                == (&f.name, &f.file, &f.inlined_into, &f.lock)
        };
        let Some(known) = all.iter_mut().find(same) else {
            all.push(f);
            continue;
        };
        known.llc_misses += f.llc_misses;
        known.llc_accesses += f.llc_accesses;
        if let Some(calls) = f.calls {
            add_to(known.calls.get_or_insert_default(), &calls);
        }
        for chain in f.callers {
            match known.callers.iter_mut().find(|c| c.functions == chain.functions) {
                Some(c) => {
                    c.llc_misses += chain.llc_misses;
                    c.llc_accesses += chain.llc_accesses;
                }
                None => known.callers.push(chain),
            }
        }
        most_first(&mut known.callers);
    }
}

fn add_to(sum: &mut FunctionCalls, calls: &FunctionCalls) {
    sum.calls += calls.calls;
    sum.llc_misses += calls.llc_misses;
    sum.llc_reads += calls.llc_reads;
    sum.llc_writes += calls.llc_writes;
    sum.held_ns += calls.held_ns;
    sum.longest_ns = sum.longest_ns.max(calls.longest_ns);
}

/// The chain of callers of each context by number, outermost first.
fn chains(raw: &Raw, files: &Files) -> Vec<Chain> {
    let mut out = vec![Chain::new()];
    for context in &raw.contexts {
        let mut chain = out.get(context.parent as usize).cloned().unwrap_or_default();
        extend(&mut chain, &files.names(context.region, context.offset));
        out.push(chain);
    }
    out
}

/// Adds the functions at a place (innermost first) to a chain. A chain begins with `main`.
fn extend(chain: &mut Chain, names: &[Name]) {
    for name in names.iter().rev() {
        if &**name == "main" {
            chain.clear();
        }
        chain.push(Rc::clone(name));
    }
    let over = chain.len().saturating_sub(LONGEST + 1);
    chain.drain(..over);
}

/// Adds the calls of functions, those of all threads.
fn add_calls(raw: &Raw, files: &Files, program: &Path, total: u64, rows: &mut BTreeMap<Key, Row>) {
    for calls in &raw.calls {
        let Some(name) = files.beginning(calls.region, calls.offset) else { continue };
        let key = Key { name, file: files.region(calls.region), inlined_into: None };
        let own = files.path(calls.region) == Some(program);
        let counts = own && calls.misses > 0 && calls.misses >= total / LEAST;
        if !counts && !rows.contains_key(&key) {
            continue;
        }
        let fresh = Row { place: (calls.region, calls.offset), ..Row::default() };
        let row = rows.entry(key).or_insert(fresh);
        let of_thread = FunctionCalls {
            calls: calls.calls,
            llc_misses: calls.misses,
            llc_reads: calls.reads,
            llc_writes: calls.writes,
            held_ns: calls.held_ns,
            longest_ns: calls.longest_ns,
        };
        add_to(row.calls.get_or_insert_default(), &of_thread);
    }
}

fn finished(key: Key, row: Row, files: &Files, program: &Path, total: u64) -> FunctionProfile {
    let (lock, no_lock) = match lock(&key, row.place, files, program) {
        Ok(name) => (Some(format!("function:{name}")), None),
        Err(why) => (None, Some(why)),
    };
    let share = if total == 0 { 0.0 } else { row.misses as f64 / total as f64 };
    FunctionProfile {
        name: key.name.to_string(),
        file: key.file,
        llc_misses: row.misses,
        llc_accesses: row.accesses,
        share,
        inlined_into: key.inlined_into.map(|name| name.to_string()),
        calls: row.calls,
        callers: callers(row.chains, total),
        lock,
        no_lock,
    }
}

/// The chains with the most misses.
fn callers(chains: BTreeMap<Chain, (u64, u64)>, total: u64) -> Vec<CallChain> {
    let counts =
        |chain: &Chain, misses: u64| !chain.is_empty() && misses > 0 && misses >= total / LEAST;
    let mut out: Vec<CallChain> = chains
        .into_iter()
        .filter(|(chain, (misses, _))| counts(chain, *misses))
        .map(|(chain, (llc_misses, llc_accesses))| CallChain {
            functions: chain.iter().map(ToString::to_string).collect(),
            llc_misses,
            llc_accesses,
        })
        .collect();
    most_first(&mut out);
    out
}

/// Keeps the chains with the most misses. Stable: equal ones stay in the order of their names.
fn most_first(chains: &mut Vec<CallChain>) {
    chains.sort_by_key(|c| std::cmp::Reverse((c.llc_misses, c.llc_accesses)));
    chains.truncate(MOST_CHAINS);
}

/// The symbol by which a lock names a function, or the reason why it cannot.
fn lock(key: &Key, place: (u32, u64), files: &Files, program: &Path) -> Result<String, String> {
    let name = &key.name;
    if files.path(place.0) != Some(program) {
        return Err(format!("{name} lies in {}, not in the program; lock a caller", key.file));
    }
    if let Some(into) = &key.inlined_into {
        return Err(format!("{name} is inlined into {into}; mark it noinline, or lock {into}"));
    }
    let Some(symbol) = files.function(place.0, place.1).and_then(|f| f.symbol.clone()) else {
        return Err(format!("the program has no symbol for {name}; build it without -s"));
    };
    if !writable(&symbol) {
        return Err(format!("a system file cannot name {name}; rename it in plain letters"));
    }
    match files.called(place.0, name) {
        0 | 1 => Ok(symbol),
        several => Err(format!("{several} functions are called {name}; give it a name of its own")),
    }
}

/// Whether the string of a system file has room for this symbol as it is.
fn writable(symbol: &str) -> bool {
    !symbol.contains(|c: char| c.is_control() || c.is_whitespace() || matches!(c, '"' | '\\'))
}

/// The files of a part, by region.
struct Files<'a> {
    regions: &'a [Region],
    functions: BTreeMap<u32, Functions>,
}

impl<'a> Files<'a> {
    fn load(raw: &'a Raw) -> Self {
        let code = raw.code.iter().map(|c| (c.region, c.offset));
        let contexts = raw.contexts.iter().map(|c| (c.region, c.offset));
        let calls = raw.calls.iter().map(|c| (c.region, c.offset));
        let mut places: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for (region, offset) in code.chain(contexts).chain(calls) {
            places.entry(region).or_default().insert(offset);
        }
        let load = |(region, offsets): (u32, BTreeSet<u64>)| {
            let path = raw.regions.get(region as usize)?.path.as_deref()?;
            Some((region, Functions::load(path, &offsets)))
        };
        let functions = places.into_iter().filter_map(load).collect();
        Self { regions: &raw.regions, functions }
    }

    fn region(&self, region: u32) -> String {
        let known = self.regions.get(region as usize);
        known.map_or_else(|| "unknown".to_owned(), |r| r.name.clone())
    }

    fn path(&self, region: u32) -> Option<&Path> {
        self.regions.get(region as usize)?.path.as_deref()
    }

    fn unnamed(&self, region: u32) -> Name {
        format!("({})", self.region(region)).into()
    }

    fn function(&self, region: u32, offset: u64) -> Option<&Function> {
        self.functions.get(&region)?.at(offset)
    }

    fn beginning(&self, region: u32, offset: u64) -> Option<Name> {
        let function = self.functions.get(&region)?.beginning_at(offset)?;
        Some(function.name.as_str().into())
    }

    fn called(&self, region: u32, name: &str) -> usize {
        self.functions.get(&region).map_or(0, |f| f.called(name))
    }

    /// The functions at a place, innermost first; the last one has the code.
    fn names(&self, region: u32, offset: u64) -> Vec<Name> {
        let inlined = self.functions.get(&region).map(|f| f.inlined_at(offset)).unwrap_or_default();
        let last = self.function(region, offset);
        let last = last.map_or_else(|| self.unnamed(region), |f| Name::from(f.name.as_str()));
        inlined.iter().map(|name| Name::from(name.as_str())).chain([last]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<Name> {
        of.iter().map(|&name| Name::from(name)).collect()
    }

    #[test]
    fn a_chain_begins_with_main_and_keeps_the_nearest_callers() {
        let mut chain = names(&["_start", "call_main"]);
        // Innermost first: a function that was inlined into main.
        extend(&mut chain, &names(&["step", "main"]));
        extend(&mut chain, &names(&["copy"]));
        assert_eq!(chain, names(&["main", "step", "copy"]));
        (0..LONGEST).for_each(|n| extend(&mut chain, &names(&[&n.to_string()])));
        assert_eq!((chain.len(), &*chain[0], &*chain[LONGEST]), (LONGEST + 1, "copy", "31"));
    }

    #[test]
    fn a_symbol_with_a_quote_or_a_space_has_no_lock() {
        assert!(writable("_ZN1p4step17h0000000000000001E") && writable("filter.part.0"));
        assert!(["a\"b", "a b", "a\\", "a\n"].into_iter().all(|symbol| !writable(symbol)));
    }

    #[test]
    fn rare_and_empty_chains_are_left_out() {
        let chains = [(names(&[]), (900, 900)), (names(&["a"]), (5000, 5001))];
        let more = [(names(&["b"]), (9, 9)), (names(&["c"]), (6000, 6000))];
        let found = callers(chains.into_iter().chain(more).collect(), 10_000);
        let found: Vec<_> = found.iter().map(|c| (c.functions.join(" "), c.llc_misses)).collect();
        assert_eq!(found, [("c".to_owned(), 6000), ("a".to_owned(), 5000)]);
    }
}
