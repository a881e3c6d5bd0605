//! Hierarchically ordered scheduling, as single-core-equivalence (section 2.4) sketches it.
//!
//! Rule: draw offsets for physical I/O and processing, the hardest first. Then complete the table
//! with the device I/O, whose possible offsets are periodic intervals once the rest is fixed. Start
//! again when an activity has no place. The paper leaves open how offsets are drawn: here,
//! uniformly, then moved on to the next free one.

use super::problem::{Problem, Solution};
use super::state::State;
use super::timeline::Own;

/// A search that can be interrupted after any amount of work.
pub struct Hos<'a> {
    state: State<'a>,
    /// Partitions, the hardest first.
    order: Vec<usize>,
}

/// A device transfer and its possible offsets.
struct Window {
    act: usize,
    low: i64,
    high: i64,
}

impl<'a> Hos<'a> {
    /// Begins.
    pub fn new(problem: &'a Problem, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..problem.parts.len()).collect();
        order.sort_by_key(|&i| {
            (problem.parts[i].period, -problem.acts[problem.parts[i].proc].dur, i)
        });
        Self { state: State::new(problem, seed), order }
    }

    /// Look-ups so far.
    pub fn work(&self) -> u64 {
        self.state.work
    }

    /// Draws tables for about `work` look-ups, or until `stop`.
    pub fn advance(&mut self, work: u64, stop: &dyn Fn() -> bool) -> Option<Solution> {
        let end = self.state.work.saturating_add(work);
        while self.state.work < end && !stop() {
            self.state.work += 1;
            for line in &mut self.state.lines {
                line.clear();
            }
            if self.draw().is_some() {
                return Some(self.state.table.clone());
            }
        }
        None
    }

    fn draw(&mut self) -> Option<()> {
        let mut windows = Vec::new();
        for n in 0..self.order.len() {
            self.draw_partition(self.order[n], &mut windows)?;
        }
        windows.sort_by_key(|w| (w.high - w.low, w.act));
        for w in windows {
            self.fix(w.act, w.low, w.high, w.low)?;
        }
        Some(())
    }

    /// Draws processing, and physical I/O within the age limit.
    fn draw_partition(&mut self, part: usize, windows: &mut Vec<Window>) -> Option<()> {
        let problem = self.state.problem;
        let p = &problem.parts[part];
        self.state.table.core[part] = p.core.unwrap_or_else(|| self.state.lot(problem.cores));
        let from = self.state.tick(p.period);
        let start = self.fix(p.proc, from, from + p.period - 1, from)?;
        let dur = |act: usize| problem.acts[act].dur;
        let done = start + dur(p.proc);
        for link in &p.links {
            let mut first = start;
            let rest = link.output.map_or(0, |[d, o]| dur(d) + dur(o));
            if let Some([physical, device]) = link.input {
                let (low, high) = (done + rest - link.age, start - dur(device) - dur(physical));
                let from = low + self.state.tick(high - low + 1);
                first = self.fix(physical, low, high, from)?;
                windows.push(Window {
                    act: device,
                    low: first + dur(physical),
                    high: start - dur(device),
                });
            }
            if let Some([device, physical]) = link.output {
                let (low, high) = (done + dur(device), first + link.age - dur(physical));
                let from = low + self.state.tick(high - low + 1);
                let at = self.fix(physical, low, high, from)?;
                windows.push(Window { act: device, low: done, high: at - dur(device) });
            }
        }
        Some(())
    }

    /// The first free offset from `from` on, else from `low` on.
    fn fix(&mut self, act: usize, low: i64, high: i64, from: i64) -> Option<i64> {
        let a = self.state.problem.acts[act];
        let own: [Own; 0] = [];
        let ask = self.state.ask(act, self.state.table.core[a.part], &own);
        let (line, work) = (&self.state.lines[ask.resource], &mut self.state.work);
        let at = line
            .first_free(&ask, from, high, work)
            .or_else(|| line.first_free(&ask, low, high, work))?;
        let resource = ask.resource;
        self.state.lines[resource].insert(act, a.class, at, a.dur);
        self.state.table.offset[act] = at;
        Some(at)
    }
}
