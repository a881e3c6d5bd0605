"""The joint 0-1 linear program: the core of each task, and the ways and the bandwidth of each core, together.

After Sun et al., "Multi-Objective Memory Bandwidth Regulation and Cache Partitioning for Multicore Real-Time Systems", ECRTS 2025: binary
variables for the combinations of task, core and resources make the program linear, though a time depends on both resources. Partitioned
EDF decides. Here a task has its own part of its core's locked pages, and the objective is the largest load of a core: the judge, whose
analysis is stricter than EDF, then has most room. Variables:

* x[task, core, units, pages]: the task is on that core, which has these units of bandwidth, and locks that many pages;
* b[core, units] and w[core, ways]: the share of a core;
* L: the largest load.

HiGHS solves it (`scipy.optimize.milp`), to within 1 % of the optimum or up to a time limit. So that it finds something good within the limit,
a core has one of the sizes `UNITS` of bandwidth, and a task locks more pages only where its utilization falls by 7 %: on a finer grid, 15 s
gave larger loads. Loads below `FLOOR` count as equal, and loads above `MOST` are excluded. `python3 lp.py SECONDS` reads the fields of a
`System` as JSON and prints the allotment as JSON, or null: a process of its own, so that Ctrl-C and a limit end it at once.
"""

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from peers.system import Found, System

GAP = 0.01
# Units of bandwidth that a core can have, and the factor by which more pages must lower a utilization.
UNITS, THIN = (1, 2, 4, 6), 0.93
# The least load that matters, and the largest one.
FLOOR, MOST = 0.6, 1.5
# Seconds that HiGHS may take beyond its limit, to build the program and to end.
BEYOND = 15


class Program:
    """Columns and sparse rows `low <= sum of coefficients * column <= high`."""

    def __init__(self):
        self.cost, self.low, self.high, self.rows = [], [], [], []

    def column(self, cost=0.0, low=0.0, high=1.0):
        self.cost.append(cost)
        self.low.append(low)
        self.high.append(high)
        return len(self.cost) - 1

    def row(self, low, parts, high):
        self.rows.append((low, list(parts), high))

    def solve(self, seconds):
        """The columns' values, or None where no solution was found."""
        import numpy
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        at = [(r, column, value) for r, (_, parts, _) in enumerate(self.rows) for column, value in parts]
        rows, columns, values = (numpy.array(part) for part in zip(*at))
        matrix = csr_array((values.astype(float), (rows, columns)), shape=(len(self.rows), len(self.cost)))
        low, high = (numpy.array([row[side] for row in self.rows], float) for side in (0, 2))
        # Only the load is no 0-1 column.
        integral = numpy.array([0 if cost else 1 for cost in self.cost])
        done = milp(numpy.array(self.cost), integrality=integral, bounds=Bounds(numpy.array(self.low), numpy.array(self.high)),
                    constraints=LinearConstraint(matrix, low, high), options={"time_limit": seconds, "mip_rel_gap": GAP})
        return done.x


def program(s, sizes, thin, floor):
    """The program of a system, with the columns of x, b, w by their names."""
    p, inf = Program(), float("inf")
    tasks, cores = range(len(s.use)), range(s.cores)
    options = {(t, n): s.options(t, n, thin) for t in tasks for n in sizes}
    largest = p.column(cost=1.0, low=floor, high=MOST)
    b = {(c, n): p.column() for c in cores for n in sizes}
    w = {(c, n): p.column() for c in cores for n in range(1, s.most_ways + 1)}
    x = {(t, c, n, k): p.column() for t in tasks for c in cores for n in sizes for k in options[t, n]}
    by_core = {c: [key for key in x if key[1] == c] for c in cores}
    for c in cores:
        p.row(1, [(b[c, n], 1) for n in sizes], 1)
        p.row(1, [(w[c, n], 1) for n in range(1, s.most_ways + 1)], 1)
        room = [(w[c, n], -s.pages_in_ways[n]) for n in range(1, s.most_ways + 1)]
        p.row(-inf, [(x[key], s.pages[key[3]]) for key in by_core[c]] + room, 0)
        use = [(x[key], s.use[key[0]][key[2] - 1][key[3]]) for key in by_core[c]]
        for t in tasks:
            # The time that is charged once counts by the least deadline on the core.
            p.row(-inf, [(x[key], value + (s.once[t] if key[0] == t else 0)) for key, (_, value) in zip(by_core[c], use)]
                  + [(largest, -1)], 0)
            for n in sizes:
                p.row(-inf, [(x[t, c, n, k], 1) for k in options[t, n]] + [(b[c, n], -1)], 0)
        # Implied for whole numbers; it keeps a fraction of a size from a whole load.
        for n in sizes:
            p.row(-inf, [part for key, part in zip(by_core[c], use) if key[2] == n] + [(b[c, n], -MOST)], 0)
    for t in tasks:
        p.row(1, [(column, 1) for key, column in x.items() if key[0] == t], 1)
    p.row(-inf, [(column, n) for (_, n), column in b.items()], s.units)
    p.row(-inf, [(column, n) for (_, n), column in w.items()], s.ways)
    # Cores are alike: the first has the most units.
    for c in cores[1:]:
        p.row(0, [(b[at, n], sign * n) for at, sign in ((c - 1, 1), (c, -1)) for n in sizes], inf)
    return p, x, b, w


def solve(s, seconds, units=UNITS, thin=THIN, floor=FLOOR):
    """The allotment with the least largest load, or None."""
    sizes = [n for n in units if n <= s.most_units]
    if any(not any(s.options(t, n) for n in sizes) for t in range(len(s.use))):
        return None
    p, x, b, w = program(s, sizes, thin, floor)
    values = p.solve(seconds)
    if values is None:
        return None
    chosen = {key: values[column] > 0.5 for key, column in x.items()}
    core, pages = [0] * len(s.use), [0] * len(s.use)
    for (t, c, _, k), is_so in chosen.items():
        if is_so:
            core[t], pages[t] = c, s.pages[k]
    share = lambda columns: [next(n for (at, n), column in columns.items() if at == c and values[column] > 0.5) for c in range(s.cores)]
    return Found(s.load(core, share(b), pages), core, share(w), share(b), pages)


def apart(s, seconds):
    """`solve` in a process of its own; None also where that takes too long."""
    try:
        done = subprocess.run([sys.executable, __file__, str(seconds)], input=json.dumps(dataclasses.asdict(s)), text=True,
                              stdout=subprocess.PIPE, timeout=seconds + BEYOND, check=True)
    except subprocess.TimeoutExpired:
        return None
    # HiGHS may print lines of its own before.
    found = json.loads(done.stdout.splitlines()[-1])
    return found and Found(**found)


if __name__ == "__main__":
    # HiGHS looks for no signal; Ctrl-C ends this process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    answer = solve(System(**json.load(sys.stdin)), float(sys.argv[1]))
    print(json.dumps(answer and dataclasses.asdict(answer)))
