"""Phase 3 against a mixed integer program: the exact search and HiGHS must agree on the least utilization of level C.

The program has one binary variable per region and size, so that it needs no convexity: region r has w ways if x[r, w] = 1.
`cargo run --example problems` gives the curves. SOLOCORE_STUDY_MILP says how many systems (two problems each); nightly 5000.
Both solve the same problems in the same run; the ratio of their times is printed.
"""

import json
import os
import subprocess
import time
from pathlib import Path

import highspy
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = int(os.environ.get("SOLOCORE_STUDY_MILP", "60"))
MARGIN = 1e-9
# A problem within this of feasibility may go either way: the solver's own tolerance.
EDGE = 1e-6


def problems(count, seed=1):
    program = os.environ.get("SOLOCORE_STUDY_PROBLEMS")
    command = [program] if program else ["cargo", "run", "--release", "--locked", "--quiet", "-p", "solocore-study",
                                         "--example", "problems", "--"]
    done = subprocess.run([*command, str(count), str(seed)], cwd=ROOT, capture_output=True, check=True)
    *lines, last = [json.loads(line) for line in done.stdout.splitlines()]
    return lines, last


class Program:
    """Rows `low <= sum of coefficients * x <= high` over binary variables."""

    def __init__(self, ways, regions):
        self.size, self.count = ways + 1, (ways + 1) * regions
        self.rows, self.low, self.high = [], [], []
        self.upper = np.ones(self.count)

    def row(self, parts, low, high):
        """`parts`: (region, coefficient of each size)."""
        row = np.zeros(self.count)
        for region, coefficients in parts:
            row[region * self.size:(region + 1) * self.size] += coefficients
        self.rows.append(row)
        self.low.append(low)
        self.high.append(high)


def least_by_milp(problem, ways, slack=0.0):
    """Least utilization of level C, or None; `slack` is added to every limit."""
    cores = len(problem["demand"])
    region_c, region_l = cores, cores + 1
    program = Program(ways, cores + 2)
    sizes = np.arange(ways + 1, dtype=float)
    for region in range(cores + 2):
        program.row([(region, np.ones(ways + 1))], 1, 1)
    program.row([(region, sizes) for region in range(cores + 2)], 0, ways)
    curve = lambda k, check: np.array(problem["demand"][k][check][:ways + 1])
    saved = lambda k, check: -np.array([s[check] for s in problem["saved"][k][:ways + 1]])
    for k in range(cores):
        for check in range(3):
            program.row([(k, curve(k, check)), (region_l, saved(k, check))], -highspy.kHighsInf, 1 - MARGIN + slack)
    total = np.array(problem["total"])
    margin = np.array([m if m is not None else 0.0 for m in problem["margin"]])
    supply = [part for k in range(cores) for part in ((k, curve(k, 2)), (region_l, saved(k, 2)))]
    for own in (total, margin):
        program.row([*supply, (region_c, own)], -highspy.kHighsInf, cores - MARGIN + slack)
    for w in range(ways + 1):
        if w < problem["least_c"] or problem["margin"][w] is None:
            program.upper[region_c * program.size + w] = 0
        if w > problem["most_locked"]:
            program.upper[region_l * program.size + w] = 0
    return solve(program, region_c, total)


def solve(program, region_c, total):
    matrix = np.array(program.rows)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = program.count, len(program.rows)
    cost = np.zeros(program.count)
    cost[region_c * program.size:(region_c + 1) * program.size] = total
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, np.zeros(program.count), program.upper
    lp.row_lower_, lp.row_upper_ = np.array(program.low, float), np.array(program.high, float)
    rows, columns = np.nonzero(matrix)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(program.rows)))])
    lp.a_matrix_.index_, lp.a_matrix_.value_ = columns, matrix[rows, columns]
    lp.integrality_ = [highspy.HighsVarType.kInteger] * program.count
    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("mip_feasibility_tolerance", 1e-9),
                          ("primal_feasibility_tolerance", 1e-9), ("mip_rel_gap", 0.0), ("mip_abs_gap", 1e-9)):
        solver.setOptionValue(option, value)
    solver.passModel(lp)
    begun = time.perf_counter()
    solver.run()
    solve.seconds += time.perf_counter() - begun
    if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        return solver.getInfo().objective_function_value
    assert solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible, solver.getModelStatus()
    return None


solve.seconds = 0.0


def test_the_exact_search_equals_the_milp():
    found, last = problems(SYSTEMS)
    solve.seconds = 0.0
    feasible = 0
    for at, problem in enumerate(found):
        least = least_by_milp(problem, last["ways"])
        if least is None and problem["least"] is None:
            continue
        feasible += problem["least"] is not None
        if least is not None and problem["least"] is not None and abs(least - problem["least"]) < EDGE:
            continue
        # At the edge the solver's tolerance decides; beyond it, they must agree.
        easier, harder = (least_by_milp(problem, last["ways"], slack) for slack in (EDGE, -EDGE))
        own = problem["least"]
        assert own is None or easier is not None and easier <= own + EDGE, (at, own, easier)
        assert harder is None or own is not None and own <= harder + EDGE, (at, own, harder)
    assert len(found) // 10 < feasible < len(found), "the problems are all of one kind"
    each = solve.seconds / len(found)
    own = last["nanoseconds"] * 1e-9
    print(f"\n{len(found)} problems: HiGHS {each * 1e3:.2f} ms each; phases 1 to 3 {own * 1e6:.1f} us (median); "
          f"ratio {each / own:.0f}")
