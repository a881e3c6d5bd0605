"""The choice of optimal shares as a mixed integer program: tasks, ways and budgets of all cores, from tables of single cores.

Problem: the planner proves its shares by limits of sets of tasks. A referee must not take the same steps. Rule: a column is a core with some
tasks, a number of ways and a budget. The planner's analysis says beside which sum of the others' budgets the column keeps its deadlines
(crates/planner/examples/columns.rs). Cores are equal, so a choice is a set of columns:

* each task is in one column, there are as many columns as cores, and their ways are no more than the cache has;
* T is the sum of all budgets. For the column of each analysed task, T is at most its own budget and the others' sum that it stands;
* t is the share of best effort. Programs alone on a core have t each, or twice what they can use. Beside analysed tasks they have t or more;
* the sum of the programs' speeds is as large as possible. For a margin, t is given, and only the existence of a choice counts.

Budgets of cores with analysed tasks are on a grid. The program `low` has budgets of the grid, each with a sum beside which the analysis accepts
the column. Its choices exist, so its value is no more than the best one. A column of `high` stands for all budgets from one of the grid to the
next. It costs the smaller one. It has the speed, and stands the others' sum, of the larger one. So each choice is one of `high`, whose value
is no less than the best one. Budgets of programs alone on a core are not on a grid. HiGHS solves both (`scipy.optimize.milp`).

Not covered: demands of programs that depend on their ways, cores that differ, and budgets with a part for writes.
"""

import math
from dataclasses import dataclass

# The least budget that a counter enforces, and the use of a program in its busiest periods, relative to the average (docs/shares.md).
LEAST, BURST = 800, 2
# Part of the largest speed to which it is found.
GAP = 0.002


@dataclass
class Machine:
    """A system without its columns."""

    cores: int
    ways: int
    bus: int            # largest budget
    period_ps: int      # of regulation
    periods: list       # by task, ps; None: best effort
    programs: dict      # best-effort tasks: time alone in ps, accesses

    def speed(self, task, time, accesses):
        """Speed of a program with this part of the time and these accesses in a period."""
        alone, misses = self.programs[task]
        return min(time, accesses / self.period_ps * alone / misses) if misses else time

    def most_of(self, task):
        """Accesses in a period beyond which a program gets no faster."""
        alone, misses = self.programs[task]
        return max(1.0, self.period_ps * misses / max(alone, 1))

    def usable(self, tasks):
        most = math.ceil(max(self.most_of(task) for task in tasks))
        return min(max(BURST * most, LEAST), self.bus)

    @property
    def most(self):
        return min(self.bus, int(max((self.most_of(task) for task in self.programs), default=1)) + 1)

    def speeds(self, tasks, demands, budget):
        """Sum of the speeds of the programs among these tasks; demands: execution time in ps and accesses of the analysed ones, by task."""
        own = [task for task in tasks if task in self.programs]
        time = 1 - sum(wcet / self.periods[task] for task, (wcet, _) in demands.items())
        taken = sum(misses / self.periods[task] * self.period_ps for task, (_, misses) in demands.items())
        each = max(0.0, budget - taken) / max(1, len(own))
        return sum(self.speed(task, max(0.0, time) / len(own), each) for task in own)


@dataclass
class Column:
    tasks: tuple
    ways: int
    cost: int       # budget that the others stand
    reach: int      # largest sum of the others' budgets
    share: float    # largest share of each program
    speed: float    # sum of the programs' speeds


def columns(m, table, side, step, floor=None, exact=False):
    """The columns with analysed tasks. `floor`: share that the programs have at least. `exact`: numbers of ways stand for themselves alone."""
    out = []
    for line in table["columns"]:
        points = line[side]
        if points is None:
            continue
        tasks = tuple(line["tasks"])
        demands = {task: (wcet, misses) for task, wcet, misses, _ in line["demands"] if task not in m.programs}
        count = len(tasks) - len(demands)
        known = list(map(tuple, points["by_budget"]))
        if count:
            known = _further(m, tasks, demands, known, points["end"], (step, table["unit"]))
        if side == "low":
            spans = [(own, own, low) for own, low, _ in known]
        else:
            ends = [(points["need"], known[0][0], known[0][2] - 1)]
            ends += [(own, after, beyond - 1) for (own, _, _), (after, _, beyond) in zip(known, known[1:])]
            spans = [*ends, (known[-1][0], m.bus, points["end"] - 1)]
        least = count * (floor or 1)
        if side == "low" and floor and count:
            # The budget that the floor needs stands what a smaller one does.
            spans += [(least, least, low) for own, low, _ in known[::-1] if own <= least <= m.bus][:1]
        for own, largest, reach in spans:
            if largest >= least:
                own = max(own, least)
                share = largest / count if count else 0.0
                speed = m.speeds(tasks, demands, largest) if count else 0.0
                out.append(Column(tasks, line["ways"], own, reach, share, speed))
    return _thin(out, exact)


def _further(m, tasks, demands, known, end, grid):
    """More budgets, up to the largest that programs beside these tasks can use. They stand no more than the last one."""
    taken = sum(misses / m.periods[task] * m.period_ps for task, (_, misses) in demands.items())
    own = [task for task in tasks if task in m.programs]
    most = min(m.bus, int(taken + len(own) * max(map(m.most_of, own))) + 1)
    last, out = known[-1], list(known)
    while out[-1][0] < most:
        out.append((min(most, max(out[-1][0] + grid[1], int(out[-1][0] * grid[0]))), last[1], end))
    return out


def _thin(every, exact):
    """Without columns that another one with the same tasks, and with `exact` the same ways, replaces."""
    kept, by_tasks = [], {}
    for column in every:
        by_tasks.setdefault((column.tasks, exact and column.ways), []).append(column)
    for same in by_tasks.values():
        same.sort(key=lambda c: (c.ways, c.cost, -c.reach))
        best = []
        for c in same:
            if not any(b.cost <= c.cost and b.cost + b.reach >= c.cost + c.reach and b.share >= c.share and b.speed >= c.speed for b in best):
                best.append(c)
        kept += best
    return kept


def useful(m, every, cut):
    """Without columns that stand in no choice with this sum of speeds: another core breaks a deadline, or programs are too slow."""
    count, hard = len(m.programs), [task for task, period in enumerate(m.periods) if period is not None]
    programs = {c.tasks: [task for task in c.tasks if task in m.programs] for c in every}
    every = [c for c in every if c.speed >= cut - (count - len(programs[c.tasks])) - 1e-9]
    spent = {}
    for task, (alone, misses) in m.programs.items():
        # A counter may enforce no less than LEAST, so a program with a smaller share can be faster.
        own = max(0.0, cut - (count - 1)) * m.period_ps * misses / max(alone, 1)
        spent[task] = own if own > LEAST * count else 0.0
    before = None
    while before != len(every):
        before = len(every)
        stands, needs = dict.fromkeys(hard, -1), dict.fromkeys(hard, m.bus)
        for c in every:
            for task in c.tasks:
                if task in stands:
                    stands[task], needs[task] = max(stands[task], c.reach), min(needs[task], c.cost)
        others = {}
        for tasks in {c.tasks for c in every}:
            rest = [task for task in hard if task not in tasks]
            few = sum(own for task, own in spent.items() if task not in tasks)
            others[tasks] = min((stands[t] for t in rest), default=m.bus), max([few, *(needs[t] for t in rest)])
        every = [c for c in every if c.cost <= others[c.tasks][0] and c.reach >= others[c.tasks][1]]
    return every


class Program:
    """Variables with bounds, and sparse rows `low <= sum <= high`."""

    def __init__(self):
        self.gain, self.bounds, self.whole, self.rows = [], [], [], []

    def variable(self, high, gain=0.0, whole=False, low=0.0):
        self.gain.append(gain)
        self.bounds.append((low, high))
        self.whole.append(int(whole))
        return len(self.gain) - 1

    def row(self, low, parts, high):
        self.rows.append((low, list(parts), high))

    def solve(self, seconds):
        """Values of the variables (None: there are none), and a bound on the gain (None: no choice exists, or it is not known)."""
        import numpy
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        if any(not parts and not low <= 0 <= high for low, parts, high in self.rows):
            return None, None
        at = [(r, column, value) for r, (_, parts, _) in enumerate(self.rows) for column, value in parts]
        rows, places, values = (numpy.array(part) for part in zip(*at))
        matrix = csr_array((values.astype(float), (rows, places)), shape=(len(self.rows), len(self.gain)))
        low, high = (numpy.array([row[side] for row in self.rows], float) for side in (0, 2))
        bounds = numpy.array(self.bounds, float)
        done = milp(-numpy.array(self.gain), integrality=numpy.array(self.whole), bounds=Bounds(bounds[:, 0], bounds[:, 1]),
                    constraints=LinearConstraint(matrix, low, high), options={"time_limit": seconds, "mip_rel_gap": GAP})
        if done.status == 2:
            return None, None
        if done.status not in (0, 1):
            raise SystemExit(f"HiGHS: {done.message}")
        bound = done.mip_dual_bound
        return done.x, float("inf") if bound is None else -bound


def solved(m, every, side, seconds, floor=None, idle=LEAST, cut=0.0, exact=False):
    """The largest mean speed of the programs, as the value of a choice (None: none was found) and an upper bound (None: there is no choice).

    `cut`: choices with a smaller mean speed are left out. `floor`: the share of the programs, where only a choice counts; its value is then 0.
    `idle`: budget of a core without tasks. `exact`: all ways are given out.
    """
    p, inf = Program(), float("inf")
    every = useful(m, every, cut * len(m.programs))
    scale, count = 1.0 / m.bus, max(1, len(m.programs))
    x = [p.variable(1, c.speed / count if floor is None else 0.0, whole=True) for c in every]
    share = p.variable(m.most, low=1.0) if floor is None else p.variable(floor, low=floor)
    busy = p.variable(1, whole=True)
    empty, unused = p.variable(m.cores, whole=True), p.variable(idle * m.cores * scale)
    alone = _alone(m, p, side, share, busy, floor)
    holds = {task: [at for at, c in enumerate(every) if task in c.tasks] for task in range(len(m.periods))}
    for task in holds:
        p.row(1, [(x[at], 1) for at in holds[task]] + [(of.chosen, 1) for of in alone if task in of.tasks], 1)
    p.row(m.cores, [(at, 1) for at in x] + [(of.chosen, 1) for of in alone] + [(empty, 1)], m.cores)
    p.row(m.ways if exact else -inf, [(at, c.ways) for at, c in zip(x, every)] + [(of.chosen, 1) for of in alone] + [(empty, 1)], m.ways)
    # With a share below the least budget that a counter enforces, a core without tasks has no more than that share.
    if side == "high" and floor is None:
        p.row(-inf, [(share, 1), (busy, -m.most)], LEAST)
        p.row(-idle * m.cores * scale, [(unused, 1), (empty, -idle * scale), (busy, -idle * m.cores * scale)], inf)
        p.row(0, [(unused, 1), (empty, -scale)], inf)
    else:
        p.row(0, [(unused, 1), (empty, -idle * scale)], 0)
    # One row for the sum of all budgets keeps the others short.
    total = p.variable(m.cores)
    spent = [(at, c.cost * scale) for at, c in zip(x, every)] + [(of.budget, 1) for of in alone] + [(unused, 1)]
    p.row(0, [*spent, (total, -1)], 0)
    for task, period in enumerate(m.periods):
        if period is None:
            parts = [(x[at], every[at].share) for at in holds[task]] + [(of.chosen, max(m.most, floor or 0)) for of in alone if task in of.tasks]
            p.row(0, [*parts, (share, -1)], inf)
        else:
            p.row(0, [(x[at], (every[at].cost + every[at].reach) * scale) for at in holds[task]] + [(total, -1)], inf)
    if cut:
        p.row(cut, [(at, gain) for at, gain in enumerate(p.gain) if gain], inf)
    values, bound = p.solve(seconds)
    return (None if values is None else sum(g * v for g, v in zip(p.gain, values))), bound


@dataclass
class Alone:
    """Programs without analysed tasks on their core."""

    tasks: tuple
    chosen: int     # variable: is there such a core?
    budget: int     # variable: its budget, as a part of the bus


def _alone(m, p, side, share, busy, floor):
    """Sets of programs alone on a core: with the share, or with twice what they can use where that is less."""
    out, inf, scale = [], float("inf"), 1.0 / m.bus
    names = sorted(m.programs)
    for number in range(1, 1 << len(names)):
        tasks = tuple(t for at, t in enumerate(names) if number >> at & 1)
        n, usable = len(tasks), m.usable(tasks)
        most = n * max(m.most, floor or 0) * scale
        chosen, budget = p.variable(1, whole=True), p.variable(min(1.0, most))
        out.append(Alone(tasks, chosen, budget))
        p.row(-inf, [(budget, 1), (chosen, -min(1.0, most))], 0)
        p.row(-inf, [(share, n * scale), (budget, -1), (chosen, most)], most)
        p.row(0, [(share, n * scale), (budget, -1)], inf)
        if floor is not None:
            continue
        capped, fixed = p.variable(1, whole=True), p.variable(1.0)
        out.append(Alone(tasks, capped, fixed))
        cost = min(m.bus, n * usable) * scale
        p.row(0, [(fixed, 1), (capped, -cost)], 0)
        p.row(0, [(share, 1), (capped, -min(usable, m.most))], inf)
        for task in tasks:
            alone, misses = m.programs[task]
            for of, spent in ((chosen, budget), (capped, fixed)):
                speed = p.variable(1, gain=1.0 / len(names))
                p.row(-inf, [(speed, 1), (of, -1.0 / n)], 0)
                if misses:
                    each = m.bus / n / m.period_ps * alone / misses
                    # With a small share, a core may have the least budget that a counter enforces.
                    few = n * LEAST * scale * each if side == "high" else 0.0
                    p.row(-inf, [(speed, 1), (spent, -each), (busy, few)], few)
    return out
