//! The processes of a run as one profile.
//!
//! Problem: a job may fork, and programs may replace each other. Rule: each part ([`Raw`]) has a
//! profile of its own with cold caches; the profile of the job is their sum. This sum is the work
//! of one core for the job if the processes run one after the other. Where a parent goes on beside
//! its child, each of its system calls may hand the core over and get it back, and each
//! [`INSTRUCTIONS_PER_SWITCH`] instructions may be interrupted for the other. Each such switch is
//! charged with the lines, read and written, that the continuing process may have to bring back. A
//! run is refused where this sum is not a bound, or where a process is unknown. Such cases are
//! children that run at the same time, and a parent that computes beside its child. Others are a
//! child that died of a signal or goes on after the program, and a program that could not be
//! followed.

use crate::build;
use crate::elf::Program;
use crate::error::ProfileError;
use crate::functions;
use crate::job::Job;
use solocore_cache::contract::{Config, PartFile, Raw, Started};
use solocore_cache::trace::{self, Access, Encoder};
use solocore_model::profile::{
    FileState, InputFile, Processes, Profile, RestsOn, TraceRef, by_heat,
};
use solocore_model::{ModelError, files};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Maximum number of instructions that a parent may execute while a child of it lives.
const MOST_BESIDE: u64 = 1_000_000;
/// Instructions per switch: fewer than in any time slice of Linux (0.75 ms at 1 GHz and one cycle
/// an instruction).
const INSTRUCTIONS_PER_SWITCH: u64 = 100_000;

/// The parts of a run.
#[derive(Debug, Default)]
pub struct Parts {
    /// Parts that started, in this order.
    pub started: Vec<Started>,
    /// Results of the parts that ended, by number.
    pub raw: BTreeMap<u32, Raw>,
}

impl Parts {
    /// Reads the files of a run.
    ///
    /// # Errors
    /// A file is damaged.
    pub fn read(config: &Config) -> Result<Self, ModelError> {
        let mut parts = Self { started: started(config), raw: BTreeMap::new() };
        for number in (0u32..).take(parts.started.len()) {
            let path = config.file(PartFile::Raw, number);
            if path.exists() {
                parts.raw.insert(number, files::read_json(&path)?);
            }
        }
        Ok(parts)
    }

    /// Parts without an end.
    pub fn unended(&self) -> impl Iterator<Item = (u32, &Started)> {
        (0u32..).zip(&self.started).filter(|(number, _)| !self.raw.contains_key(number))
    }

    /// Reason why the sum of the parts would not be the job; `main` is the program's process.
    pub fn refusal(&self, main: u32) -> Option<String> {
        if let Some((_, lost)) = self.unended().find(|(_, s)| s.pid != main) {
            return Some(format!(
                "its child process {} died of a signal, or the emulator could not run it, so its \
                memory use is not known; make the program work by itself first",
                lost.pid
            ));
        }
        let left = self.raw.values().find_map(|raw| raw.exec.as_ref());
        if let Some(program) = left {
            return Some(format!(
                "it starts {program}, which the emulator cannot follow; profile that program by \
                    itself, and state wcet and misses of the whole"
            ));
        }
        if let Some((a, b)) = self.at_once() {
            return Some(format!(
                "its processes {a} and {b} run at the same time (a pipe, or a child in the \
                    background). The cache and bandwidth that they take from each other have no \
                    bound; give each a task, or state wcet and misses of the whole"
            ));
        }
        let busy = self.raw.values().find(|raw| raw.beside_children > MOST_BESIDE)?;
        Some(format!(
            "its process {} executes {} instructions beside its child, and the time that they \
            take from each other has no bound; let it wait for the child, or give each a \
                task",
            busy.started.pid, busy.beside_children
        ))
    }

    /// Two processes that lived at the same time, with neither waiting for the other.
    fn at_once(&self) -> Option<(u32, u32)> {
        let mut lives: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for raw in self.raw.values() {
            let life = lives.entry(raw.started.pid).or_insert((raw.started.at_ns, raw.ended_ns));
            *life = (life.0.min(raw.started.at_ns), life.1.max(raw.ended_ns));
        }
        let pids: Vec<u32> = lives.keys().copied().collect();
        pids.iter().enumerate().find_map(|(at, &a)| {
            let other = pids[at + 1..].iter().copied().find(|&b| {
                let ((a0, a1), (b0, b1)) = (lives[&a], lives[&b]);
                a0 < b1 && b0 < a1 && !self.descends(a, b) && !self.descends(b, a)
            });
            other.map(|b| (a, b))
        })
    }

    /// Whether process `of` was started by `from`, or by its children.
    fn descends(&self, of: u32, from: u32) -> bool {
        let mut part = self.started.iter().position(|s| s.pid == of);
        while let Some(at) = part {
            if self.started[at].pid == from {
                return true;
            }
            // A part starts after its parent.
            part = self.started[at].from.map(|n| n as usize).filter(|&n| n < at);
        }
        false
    }

    /// The profile of the whole job, and its trace at `trace`.
    pub fn profile(
        self,
        config: &Config,
        job: &Job,
        program: &Program,
        code: i32,
        trace: &Path,
        name: PathBuf,
    ) -> Result<Profile, ProfileError> {
        let rests_on = rests_on(self.raw.values(), program);
        let forked = self.started.iter().filter(|s| s.forked).count();
        let switches: u64 = self.raw.values().map(switches).sum();
        let single = self.raw.len() == 1;
        let chains_cut = self.raw.values().any(|raw| raw.chains_cut);
        let mut profiles = Vec::new();
        for (number, raw) in self.raw {
            if let Some(error) = &raw.trace_error {
                let source = std::io::Error::other(error.clone());
                return Err(ModelError::Write { path: trace.to_owned(), source }.into());
            }
            let of_part = TraceRef {
                file: config.file(PartFile::Trace, number),
                records: raw.trace_records,
                cycles: raw.trace_cycles,
                truncated: raw.trace_truncated,
            };
            profiles.push(build::profile(raw, job, program, code, of_part));
        }
        let write = |source| ModelError::Write { path: trace.to_owned(), source };
        let mut profile = if single {
            let mut only = profiles.swap_remove(0);
            if let Some(of_part) = &mut only.trace {
                std::fs::rename(&of_part.file, trace).map_err(write)?;
                of_part.file.clone_from(&name);
            }
            only
        } else {
            let joined = join_traces(&profiles, trace, name, job)?;
            let mut sum = sum(profiles, job, switches);
            sum.trace = Some(joined);
            sum
        };
        profile.children = u32::try_from(forked).unwrap_or(u32::MAX);
        profile.origin.rests_on = rests_on;
        profile.origin.chains_cut = chains_cut;
        Ok(profile)
    }
}

/// Parts that have started so far.
pub fn started(config: &Config) -> Vec<Started> {
    let marks = (0u32..).map(|number| config.file(PartFile::Started, number));
    // A part with an unwritten file has no process yet.
    let unwritten = Started { pid: 0, from: None, forked: true, at_ns: 0 };
    let read = |path: PathBuf| files::read_json(&path).unwrap_or(unwritten);
    marks.map_while(|path| path.exists().then(|| read(path))).collect()
}

/// Maximum number of switches of the core between the part and its children.
fn switches(raw: &Raw) -> u64 {
    if raw.children == 0 {
        return 0;
    }
    // Switches to each child and back, beside those of the calls and the clock.
    2 * u64::from(raw.children)
        + 2 * raw.calls_beside_children
        + 2 * raw.beside_children.div_ceil(INSTRUCTIONS_PER_SWITCH)
}

/// The files of all parts. A file that another part wrote before is not an input.
fn rests_on<'a>(parts: impl Iterator<Item = &'a Raw> + Clone, program: &Program) -> RestsOn {
    let mut owned: HashMap<&Path, u64> = HashMap::new();
    for (path, at) in parts.clone().flat_map(|raw| &raw.owned) {
        let first = owned.entry(path).or_insert(*at);
        *first = (*first).min(*at);
    }
    let mut known: BTreeMap<PathBuf, (u64, FileState)> = BTreeMap::new();
    for looked in parts.clone().flat_map(|raw| &raw.looked) {
        let InputFile { path, state } = &looked.file;
        if owned.get(path.as_path()).is_some_and(|&since| since < looked.at_ns) {
            continue;
        }
        let status = |s: &FileState| matches!(s, FileState::Status { .. });
        known
            .entry(path.clone())
            .and_modify(|(at, found)| {
                // The first look counts; but a later look at the content replaces one at the
                // status.
                if status(found) && !status(state)
                    || status(found) == status(state) && looked.at_ns < *at
                {
                    (*at, *found) = (looked.at_ns, state.clone());
                }
            })
            .or_insert_with(|| (looked.at_ns, state.clone()));
    }
    for path in [Some(&program.path), program.interpreter.as_ref()].into_iter().flatten() {
        known.insert(path.clone(), (0, solocore_cache::look::content(path)));
    }
    let mut not_covered: Vec<String> =
        parts.clone().flat_map(|raw| raw.not_covered.clone()).collect();
    not_covered.sort();
    not_covered.dedup();
    RestsOn {
        files: known.into_iter().map(|(path, (_, state))| InputFile { path, state }).collect(),
        not_covered,
        not_whole: parts.clone().find_map(|raw| raw.not_whole.clone()),
    }
}

/// The sum of the parts, one after the other.
fn sum(parts: Vec<Profile>, job: &Job, switches: u64) -> Profile {
    let platform = job.platform;
    let most_lines = parts.iter().map(|p| p.working_set.lines).max().unwrap_or(0);
    let private = platform.private_lines().min(most_lines);
    let llc = u64::from(platform.llc_sets()) * u64::from(platform.llc.ways);
    let lines = switches * private;
    let mut parts = parts.into_iter();
    let mut sum = parts.next().unwrap_or_else(|| unreachable!("at least the program itself"));
    for (number, mut p) in (1u32..).zip(parts) {
        sum.instructions += p.instructions;
        sum.loads += p.loads;
        sum.stores += p.stores;
        sum.references += p.references;
        sum.threads = sum.threads.max(p.threads);
        sum.private_cycles += p.private_cycles;
        for (all, level) in sum.levels.iter_mut().zip(&p.levels) {
            all.accesses += level.accesses;
            all.misses += level.misses;
            all.writebacks += level.writebacks;
        }
        sum.working_set.pages += p.working_set.pages;
        sum.working_set.lines += p.working_set.lines;
        sum.working_set.bytes += p.working_set.bytes;
        sum.by_ways.iter_mut().zip(&p.by_ways).for_each(|(all, n)| *all += n);
        let free = u32::try_from(sum.pages.len()).unwrap_or(u32::MAX);
        for mut page in p.pages.drain(..) {
            // Its own pages: a plan that locks pages of the first program must not mistake these
            // for them.
            page.name.region = format!("part {number}: {}", page.name.region);
            page.frame = page.frame.saturating_add(free);
            sum.pages.push(page);
        }
        functions::add(&mut sum.functions, std::mem::take(&mut p.functions));
        if sum.bandwidth.interval_ns == p.bandwidth.interval_ns {
            sum.bandwidth.bytes_per_s.append(&mut p.bandwidth.bytes_per_s);
        }
    }
    by_heat(&mut sum.pages);
    let misses: u64 = sum.functions.iter().map(|f| f.llc_misses).sum();
    for f in &mut sum.functions {
        f.share = f.llc_misses as f64 / misses.max(1) as f64;
    }
    sum.functions.sort_by_key(|f| std::cmp::Reverse((f.llc_misses, f.llc_accesses)));
    let back = switches * llc.min(most_lines);
    sum.lockdown = build::lockdown_curve(&sum.pages);
    sum.lockdown.iter_mut().for_each(|n| *n += 2 * lines);
    // At most all accesses reach DRAM, for any displacement by the other process.
    let all = sum.lockdown.first().copied().unwrap_or(0);
    sum.by_ways.iter_mut().for_each(|n| *n = (*n + 2 * back).min(all));
    sum.origin.processes = Processes { switches, reads: lines, writes: lines };
    sum
}

/// The traces one after the other, up to the first incomplete one.
fn join_traces(
    parts: &[Profile],
    path: &Path,
    name: PathBuf,
    job: &Job,
) -> Result<TraceRef, ProfileError> {
    let write = |source| ModelError::Write { path: path.to_owned(), source };
    let mut out = BufWriter::new(File::create(path).map_err(write)?);
    let mut encoder = Encoder::default();
    let (mut pages, mut cycles) = (0u64, 0u64);
    let mut all = TraceRef { file: name, records: 0, cycles: 0, truncated: false };
    for part in parts {
        let Some(of_part) = &part.trace else { continue };
        let input = File::open(&of_part.file).map_err(write)?;
        let mut failed = None;
        let lines = pages * u64::from(job.platform.lines_per_page());
        trace::read(BufReader::new(input), |a| {
            let moved = Access { at_cycles: a.at_cycles + cycles, line: a.line + lines, ..a };
            all.cycles = moved.at_cycles;
            if encoder.records() >= job.trace_limit {
                all.truncated = true;
            } else if let Err(e) = encoder.push(moved, &mut out) {
                failed.get_or_insert(e);
            }
        })
        .map_err(|e| ModelError::Write {
            path: path.to_owned(),
            source: std::io::Error::other(e),
        })?;
        if let Some(error) = failed {
            return Err(write(error).into());
        }
        pages += part.pages.len() as u64;
        cycles += part.private_cycles;
        all.truncated |= of_part.truncated;
        if all.truncated {
            break;
        }
    }
    all.records = encoder.finish(&mut out).map_err(write)?;
    out.flush().map_err(write)?;
    Ok(all)
}
