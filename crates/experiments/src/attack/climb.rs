//! Hill climbing with restarts over numbered choices.
//!
//! Rule: a point is one choice for each gene. From a start, a few genes change at a time, and the
//! better point stays; equal ones replace each other, so that plateaus are crossed. Without
//! progress for a while the climb starts again, now from a random point, now from the best so far
//! with many genes changed. The seed decides everything.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashSet;

/// One choice for each gene.
pub type Genes = Vec<u16>;

/// Steps without progress after which a climb starts again, for each gene.
const PATIENCE: u64 = 5;
/// Draws of a point that was not tried before.
const DRAWS: u32 = 30;

/// Climbs with `budget` evaluations. `sizes` are the choices of each gene, `fixed` the genes that
/// stay as in the starts, `starts` points to begin with (at least one). Returns the best point and
/// its value; `value` must be above zero for every point that can be compared.
pub fn climb(
    sizes: &[u16],
    fixed: &[usize],
    starts: &[Genes],
    budget: u64,
    seed: u64,
    value: &mut dyn FnMut(&Genes) -> f64,
) -> (Genes, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let free: Vec<usize> =
        (0..sizes.len()).filter(|g| !fixed.contains(g) && sizes[*g] > 1).collect();
    let mut best: Option<(Genes, f64)> = None;
    let mut here: Option<(Genes, f64)> = None;
    let mut tried: HashSet<Genes> = HashSet::new();
    let (mut stuck, mut restarts) = (0, 0u64);
    for n in 0..budget {
        let first = usize::try_from(n).ok().and_then(|n| starts.get(n));
        if first.is_none() && here.is_none() {
            restarts += 1;
        }
        let mut draw = || match (first, &here) {
            (Some(start), _) => start.clone(),
            (None, Some((at, _))) => mutated(at, sizes, &free, steps(&mut rng), &mut rng),
            (None, None) => match &best {
                Some((top, _)) if restarts.is_multiple_of(2) => {
                    mutated(top, sizes, &free, free.len().div_ceil(3), &mut rng)
                }
                _ => mutated(&starts[0], sizes, &free, usize::MAX, &mut rng),
            },
        };
        let mut candidate = draw();
        for _ in 0..DRAWS {
            if !tried.contains(&candidate) {
                break;
            }
            candidate = draw();
        }
        tried.insert(candidate.clone());
        let found = value(&candidate);
        if best.as_ref().is_none_or(|b| found > b.1) {
            best = Some((candidate.clone(), found));
        }
        let progress = here.as_ref().is_none_or(|h| found > h.1);
        stuck = if progress { 0 } else { stuck + 1 };
        if here.as_ref().is_none_or(|h| found >= h.1) {
            here = Some((candidate, found));
        }
        if first.is_none() && stuck > PATIENCE * free.len() as u64 + 8 {
            (here, stuck) = (None, 0);
        }
    }
    best.unwrap_or_else(|| (starts[0].clone(), 0.0))
}

/// Number of genes that change: mostly one.
fn steps(rng: &mut ChaCha8Rng) -> usize {
    match rng.random_range(0..10u32) {
        0..5 => 1,
        5..8 => 2,
        8 => 3,
        _ => 6,
    }
}

/// Changes `many` genes, to a neighbour or to any choice; all of them to any choice.
fn mutated(
    from: &Genes,
    sizes: &[u16],
    free: &[usize],
    count: usize,
    rng: &mut ChaCha8Rng,
) -> Genes {
    let mut to = from.clone();
    if count == usize::MAX {
        free.iter().for_each(|&g| to[g] = rng.random_range(0..sizes[g]));
        return to;
    }
    for _ in 0..count {
        if free.is_empty() {
            break;
        }
        let gene = free[rng.random_range(0..free.len())];
        let (size, old) = (sizes[gene], to[gene]);
        to[gene] = match rng.random_range(0..4u32) {
            0 => (old + 1) % size,
            1 => (old + size - 1) % size,
            // Another choice than before.
            _ => (old + rng.random_range(1..size)) % size,
        };
    }
    to
}
