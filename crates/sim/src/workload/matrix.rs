//! Matrix of the DIS stressmarks: solves `Ax = b` by conjugate gradients, `A` sparse.
//!
//! Source: MC2 section 5.2, Table 2 ("DIS stressmark suite program. Solve the equation Ax = b").
//! The paper gives no sizes. Here a row has a fixed number of non-zeros in columns drawn by the
//! seed, the same in every iteration, stored by rows (8-byte values, 4-byte columns). An iteration
//! is the product `q = Ap`, which gathers from `p`, then two dot products and three vector updates.
//! Arrays that are read in order give one access a line; gathers one each.

use super::jobs::{BATCH, Pattern};
use crate::program::{Op, OpKind};
use solocore_dram::random::Random;

const VALUE: u64 = 8;
const COLUMN: u64 = 4;

/// The solver; a pass is one solution.
#[derive(Debug)]
pub(super) struct Matrix {
    /// Rows and columns.
    dimension: u64,
    /// Non-zeros of a row.
    row: u64,
    iterations: u64,
    /// Cycles of each access.
    gap: u64,
    line: u64,
    seed: u64,
    /// Iteration, and row or line of a vector within it: rows first.
    at: (u64, u64),
}

impl Matrix {
    pub(super) fn new(
        dimension: u64,
        row: u64,
        iterations: u64,
        gap: u64,
        line: u64,
        seed: u64,
    ) -> Self {
        Self { dimension, row, iterations, gap, line, seed, at: (0, 0) }
    }

    /// Bytes of all arrays, each from the start of a line; `None` beyond 64 bits.
    pub(super) fn footprint(dimension: u64, row: u64, line: u64) -> Option<u64> {
        let round = |bytes: u64| bytes.div_ceil(line).checked_mul(line);
        let cells = dimension.checked_mul(row)?;
        let vectors = round(dimension.checked_mul(VALUE)?)?.checked_mul(4)?;
        round(cells.checked_mul(VALUE)?)?
            .checked_add(round(cells.checked_mul(COLUMN)?)?)?
            .checked_add(vectors)
    }

    fn vector_lines(&self) -> u64 {
        (self.dimension * VALUE).div_ceil(self.line)
    }

    /// First line of the columns, and of vector `n`: x, r, p, q.
    fn vector(&self, n: u64) -> u64 {
        let cells = self.dimension * self.row;
        (cells * VALUE).div_ceil(self.line)
            + (cells * COLUMN).div_ceil(self.line)
            + n * self.vector_lines()
    }

    fn product_row(&self, row: u64, out: &mut Vec<Op>) {
        let (gap, columns) = (self.gap, (self.dimension * self.row * VALUE).div_ceil(self.line));
        for cell in row * self.row..(row + 1) * self.row {
            if (cell * COLUMN).is_multiple_of(self.line) {
                out.push(Op::access(OpKind::LoadWait, gap, columns + cell * COLUMN / self.line));
            }
            if (cell * VALUE).is_multiple_of(self.line) {
                out.push(Op::access(OpKind::Load, gap, cell * VALUE / self.line));
            }
            let column = Random::new(self.seed ^ cell).below(self.dimension);
            out.push(Op::access(OpKind::Load, gap, self.vector(2) + column * VALUE / self.line));
        }
        if (row * VALUE).is_multiple_of(self.line) {
            out.push(Op::access(OpKind::Store, gap, self.vector(3) + row * VALUE / self.line));
        }
    }

    /// Line `line` of: p.q; x += p, r -= q; r.r; p = r + p, in this order.
    fn vectors(&self, step: u64, out: &mut Vec<Op>) {
        const STEPS: [&[(OpKind, u64)]; 4] = [
            &[(OpKind::Load, 2), (OpKind::Load, 3)],
            &[
                (OpKind::Load, 2),
                (OpKind::Load, 0),
                (OpKind::Store, 0),
                (OpKind::Load, 3),
                (OpKind::Load, 1),
                (OpKind::Store, 1),
            ],
            &[(OpKind::Load, 1)],
            &[(OpKind::Load, 1), (OpKind::Load, 2), (OpKind::Store, 2)],
        ];
        let (phase, line) = (step / self.vector_lines(), step % self.vector_lines());
        let words = self.line / VALUE;
        for &(kind, vector) in
            STEPS.get(usize::try_from(phase).unwrap_or(0)).copied().unwrap_or_default()
        {
            // A line is a handful of elements, each worth its cycles.
            out.push(Op::access(kind, self.gap * words.max(1), self.vector(vector) + line));
        }
    }
}

impl Pattern for Matrix {
    fn fill(&mut self, out: &mut Vec<Op>) -> bool {
        let length = self.dimension + 4 * self.vector_lines();
        let before = out.len();
        while ((out.len() - before) as u64) < BATCH {
            let (iteration, step) = self.at;
            match step.checked_sub(self.dimension) {
                None => self.product_row(step, out),
                Some(step) => self.vectors(step, out),
            }
            self.at.1 += 1;
            if self.at.1 == length {
                self.at = ((iteration + 1) % self.iterations, 0);
                if self.at.0 == 0 {
                    return true;
                }
            }
        }
        false
    }

    fn rewind(&mut self) {
        self.at = (0, 0);
    }
}
