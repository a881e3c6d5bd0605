//! The choices of a plan with levels, and the price of the next best of each.
//!
//! Problem: "core 2, three ways, buffer locked" does not convince a reader. Rule: each choice is
//! changed alone, all others are kept, and the same optimiser prices the result by its objective:
//! the total utilization of level C, then the utilization of A and B. A task moved to another core
//! keeps all others where they are (they are bound there), and the ways are shared out again. A
//! region is made one way smaller; a buffer is moved; another scheme starts from nothing.
//!
//! Each price of a task or buffer takes an allocation of all tasks: systems with more than
//! [`DETAILED`] tasks have only the prices of the scheme and the regions.
//!
//! Not covered: two choices changed at once.

use super::found::{Found, bounded, scheme_of};
use super::optimiser::placement::Kind;
use super::optimiser::scheme::Io;
use super::optimiser::tasks::Accesses;
use super::optimiser::ways::{MARGIN, Split};
use super::optimiser::{Allocator, Answer, Objective, Problem};
use crate::error::PlanError;
use crate::explain;
use crate::work::DETAILED;
use solocore_model::levels::BufferScheme;
use solocore_model::plan::Choice;
use solocore_model::plan::levels::Method;

/// Smaller differences count as none.
const SAME: f64 = 1e-9;

/// Every choice of a schedulable plan.
pub fn all(found: &Found) -> Result<Vec<Choice>, PlanError> {
    let mut pricing = Pricing::of(found);
    let mut out = vec![pricing.scheme(found)?];
    for core in 0..found.translated.system.cores {
        out.push(pricing.region(found, core));
    }
    out.push(pricing.region_of_c(found));
    if pricing.problem.most_locked > 0 {
        out.push(pricing.region_of_locked(found));
    }
    if found.system.tasks.len() > DETAILED {
        return Ok(out);
    }
    for at in 0..found.translated.system.starts[1] {
        out.push(pricing.core(found, at));
    }
    for edge in 0..found.translated.system.bound_edges {
        out.push(pricing.message(found, edge));
    }
    for at in 0..found.own_bank.len() {
        if found.translated.system.tasks[at].io.is_some() {
            out.push(pricing.io(found, at));
        }
    }
    Ok(out)
}

/// The optimiser, set up for further questions.
struct Pricing {
    allocator: Allocator,
    problem: Problem,
    /// Price of the plan's split.
    chosen: Price,
}

/// Measure of an allocation: utilization of level C, then utilization of A and B on all cores
/// (C-PETs).
type Price = (f64, f64);

fn price_of(split: &Split) -> Price {
    (split.level_c_utilization, split.taken)
}

/// The cheapest offer; an offer without a price is dearer than any.
fn cheapest<T>(offers: impl Iterator<Item = (T, Option<Price>)>) -> Option<(T, Option<Price>)> {
    let key = |price: &Option<Price>| price.unwrap_or((f64::INFINITY, f64::INFINITY));
    offers.reduce(|one, other| {
        let ((a, b), (c, d)) = (key(&one.1), key(&other.1));
        if c.total_cmp(&a).then(d.total_cmp(&b)).is_lt() { other } else { one }
    })
}

/// The price of the alternative beside that of the plan, or a message that there is no allocation.
fn price(chosen: Price, other: Option<Price>) -> String {
    let Some(other) = other else { return "not schedulable".to_owned() };
    let against = |now: f64, then: f64| {
        let more = if now > SAME {
            format!(" ({:+.2} %)", (then / now - 1.0) * 100.0)
        } else {
            String::new()
        };
        format!("{then:.4}{more}")
    };
    let same = |now: f64, then: f64| (then - now).abs() < SAME;
    match (same(chosen.0, other.0), same(chosen.1, other.1)) {
        (true, true) => "would cost nothing".to_owned(),
        (true, false) => format!("A and B would take {} of the cores", against(chosen.1, other.1)),
        (false, _) => format!("level C would take {}", against(chosen.0, other.0)),
    }
}

impl Pricing {
    fn of(found: &Found) -> Self {
        let (s, a) = (&found.translated.system, &found.allocation);
        let mut allocator = Allocator::new(found.translated.machine);
        allocator.load(s);
        let problem = allocator.problem_with(s, a.kind, a.scheme.ipc, &found.own_bank);
        Self { allocator, problem, chosen: price_of(&a.split) }
    }

    fn scheme(&mut self, found: &Found) -> Result<Choice, PlanError> {
        let own = found.isolation.settings.scheme;
        let (mut offers, mut failing) = (Vec::new(), Vec::new());
        for scheme in BufferScheme::ALL.into_iter().filter(|s| *s != own) {
            match self.allocator.allocate(
                &found.translated.system,
                scheme_of(scheme)?,
                Objective::LeastLevelC,
            ) {
                Answer::Allocation(a) => offers.push((scheme, Some(price_of(&a.split)))),
                Answer::None | Answer::Undecided => failing.push(scheme.name()),
            }
        }
        let best = cheapest(offers.into_iter());
        let mut next_best = best
            .map_or("no other scheme is schedulable".to_owned(), |(scheme, offer)| {
                format!("{}: {}", scheme.name(), price(self.chosen, offer))
            });
        if best.is_some() && !failing.is_empty() {
            next_best += &format!("; not schedulable: {}", failing.join(", "));
        }
        Ok(Choice {
            of: "buffers".to_owned(),
            chosen: own.name().to_owned(),
            why:
                "the scheme of [levels]; O|opt, its default, has the choices of all others but R|R"
                    .to_owned(),
            next_best,
        })
    }

    fn demand(&self, core: usize, check: usize, ways: usize, locked: usize) -> f64 {
        self.problem.demand[core][check][ways] - self.problem.saved[core][locked][check]
    }

    fn region(&self, found: &Found, core: usize) -> Choice {
        let split = &found.allocation.split;
        let ways = split.cores[core];
        let of = format!("ways of core {core}");
        let choice = |why: String, next_best: String| Choice {
            of: of.clone(),
            chosen: ways.to_string(),
            why,
            next_best,
        };
        let load = self.demand(core, 1, ways, split.locked);
        if ways == 0 {
            let why = if load > 0.0 {
                "its tasks fit without ways"
            } else {
                "no task of level A or B is on it"
            };
            return choice(
                why.to_owned(),
                "one way: another region would lose it, and the tasks of this core need none"
                    .to_owned(),
            );
        }
        let why = format!("A and B take {load:.3} of the core with them (B-PETs)");
        let less = |check: usize| self.demand(core, check, ways - 1, split.locked);
        let levels = ["level A (A-PETs)", "A and B (B-PETs)", "A and B (C-PETs)"];
        if let Some(check) = (0..3).find(|&check| less(check) > 1.0 - MARGIN) {
            let short = less(check);
            let need = if short > 1e6 {
                "no job can run".to_owned()
            } else {
                format!("{} would take {short:.3}", levels[check])
            };
            return choice(why, format!("{}: {need}, not schedulable", explain::ways(ways - 1)));
        }
        let more = less(2) - self.demand(core, 2, ways, split.locked);
        let total = self.problem.total.get(split.level_c + 1).copied();
        let other = total.map(|total| (total, self.chosen.1 + more));
        choice(
            why,
            format!(
                "{}, one more for level C: {}",
                explain::ways(ways - 1),
                price(self.chosen, other)
            ),
        )
    }

    fn region_of_c(&self, found: &Found) -> Choice {
        let ways = found.allocation.split.level_c;
        let why = if found.translated.system.global().is_empty() {
            "no task of level C; the OS has them".to_owned()
        } else {
            format!("level C takes {:.4} with them, and no other split lowers this", self.chosen.0)
        };
        let next_best = if ways <= self.problem.least_c {
            format!("none: {} is the least (least_ways_of_c)", self.problem.least_c)
        } else {
            let total = self.problem.total.get(ways - 1).copied();
            format!(
                "{}: {}",
                explain::ways(ways - 1),
                price(self.chosen, total.map(|total| (total, self.chosen.1)))
            )
        };
        Choice {
            of: "ways of level C and the OS".to_owned(),
            chosen: ways.to_string(),
            why,
            next_best,
        }
    }

    fn region_of_locked(&self, found: &Found) -> Choice {
        let split = &found.allocation.split;
        let (now, other) = if split.locked > 0 { (split.locked, split.locked - 1) } else { (0, 1) };
        let saved =
            |locked: usize| -> f64 { self.problem.saved.iter().map(|s| s[locked][1]).sum() };
        let why = if now > 0 {
            format!("locked buffers save {:.4} of the cores (B-PETs)", saved(now))
        } else {
            "a way is worth more to tasks than to buffers".to_owned()
        };
        let next_best = format!("{}: would save {:.4}", explain::ways(other), saved(other));
        Choice { of: "ways of locked buffers".to_owned(), chosen: now.to_string(), why, next_best }
    }

    /// The price if these tasks are on these cores and all others of A and B stay on theirs.
    fn moved(found: &Found, moves: &[(usize, usize)]) -> Option<Price> {
        let s = &found.translated.system;
        let mut pins: Vec<Option<usize>> = (0..s.starts[1]).map(|at| found.core(at)).collect();
        for &(at, core) in moves {
            pins[at] = Some(core);
        }
        let mut other = s.clone();
        other.pins = pins;
        let mut allocator = Allocator::new(found.translated.machine);
        allocator.load(&other);
        match allocator.allocate(&other, found.allocation.scheme, Objective::LeastLevelC) {
            Answer::Allocation(a) => Some(price_of(&a.split)),
            Answer::None | Answer::Undecided => None,
        }
    }

    fn core(&self, found: &Found, at: usize) -> Choice {
        let s = &found.translated.system;
        let core = found.core(at).unwrap_or(0);
        let partners: Vec<&str> = s.edges[..s.bound_edges]
            .iter()
            .flat_map(|e| [(e.sender, e.receiver), (e.receiver, e.sender)])
            .filter(|(one, other)| *one == at && found.core(*other) == Some(core))
            .map(|(_, other)| found.task(other).name.as_str())
            .collect();
        let why = if s.pin(at).is_some() {
            "stated".to_owned()
        } else if !partners.is_empty() && found.allocation.kind == Kind::Together {
            format!(
                "with {}, which it exchanges messages with (CE), on the core with most room for \
                    them",
                partners.join(", ")
            )
        } else {
            "worst fit: the core with most room when its turn came".to_owned()
        };
        let others = (0..s.cores)
            .filter(|&other| other != core)
            .map(|other| (other, Self::moved(found, &[(at, other)])));
        let next_best = match cheapest(others) {
            None => "there is no other core".to_owned(),
            Some((_, None)) => {
                "any other core: not schedulable while all other tasks stay on their cores"
                    .to_owned()
            }
            Some((other, u)) => format!("core {other}: {}", price(self.chosen, u)),
        };
        Choice { of: found.task(at).name.clone(), chosen: format!("core {core}"), why, next_best }
    }

    fn message(&self, found: &Found, edge: usize) -> Choice {
        let e = &found.translated.system.edges[edge];
        let (from, to) = (&found.task(e.sender).name, &found.task(e.receiver).name);
        let us = |ps: f64| format!("{:.3} us", ps / 1e6);
        let [send, receive] = found.translated.bypass_ps[edge].map(|ps| ps as f64);
        let whole = |task: usize| found.translated.shapes[task].whole() as f64;
        // What the jobs of both tasks take more than in the plan's place.
        let more = |place: &str, of: fn(&Accesses) -> f64| {
            let (sending, receiving) = (of(&e.sending), of(&e.receiving));
            if sending + receiving < SAME {
                return format!("{place}: would cost nothing");
            }
            format!(
                "{place}: {} more per job of {from} and {} of {to}",
                us(sending * whole(e.sender)),
                us(receiving * whole(e.receiver))
            )
        };
        let together = || {
            let on = |task: usize| found.core(task).unwrap_or(0);
            let moves = [(e.sender, on(e.receiver)), (e.receiver, on(e.sender))];
            let best = cheapest(moves.iter().map(|m| ((), Self::moved(found, &[*m]))));
            format!(
                "CE, with one of the tasks moved to the other's core: {}",
                price(self.chosen, best.and_then(|b| b.1))
            )
        };
        let (chosen, why, next_best) = match found.method(edge) {
            Method::Together => (
                "CE",
                "both tasks are on one core, so its bank and ways hold the buffer".to_owned(),
                more("SBP", |a| a.bypass),
            ),
            Method::Locked => (
                "CL",
                "among the buffers that save most per byte in the locked ways".to_owned(),
                if found.core(e.sender) == found.core(e.receiver) {
                    more("CE", |a| a.locked)
                } else {
                    more("SBP", |a| a.bypass + a.locked)
                },
            ),
            Method::Bypass => (
                "SBP",
                format!(
                    "the tasks are on two cores and no way is locked for it: {} and {} per job",
                    us(send),
                    us(receive)
                ),
                together(),
            ),
            Method::LevelC => (
                "level C's banks, cacheable",
                "the scheme of [levels] does not manage message buffers".to_owned(),
                "a scheme O|...: see `buffers`".to_owned(),
            ),
        };
        Choice { of: format!("message {from} to {to}"), chosen: chosen.to_owned(), why, next_best }
    }

    fn io(&mut self, found: &Found, at: usize) -> Choice {
        let (s, a) = (&found.translated.system, &found.allocation);
        let mut flipped = found.own_bank.clone();
        flipped[at] = !flipped[at];
        let split =
            self.allocator.with_buffers(s, a.kind, a.scheme.ipc, &flipped, Objective::LeastLevelC);
        let place = |own: bool| match found.core(at) {
            Some(core) if own => format!("bank {core}, that of its core"),
            _ => "the banks of level C".to_owned(),
        };
        let other = price(self.chosen, split.as_ref().map(price_of));
        let why = match (a.scheme.io == Io::PerBuffer, bounded(found)) {
            (false, _) => format!("the rule of {}", found.isolation.settings.scheme.name()),
            (true, true) => {
                "bounds charge every access equally in each bank, so the core's own bank keeps \
                level C's banks free"
                    .to_owned()
            }
            (true, false) => "its copying against the cost of DMA to the others in the \
                bank"
                .to_owned(),
        };
        let device = found.isolation.io.iter().find(|(io, _)| io.task == found.task(at).name);
        Choice {
            of: format!("buffer of {}", device.map_or("", |(io, _)| io.device.as_str())),
            chosen: place(found.own_bank[at]),
            why,
            next_best: format!("{}: {other}", place(flipped[at])),
        }
    }
}
