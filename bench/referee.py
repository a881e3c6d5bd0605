"""A mixed integer program as the referee of optimal shares: does a proof agree with a program that shares none of its steps?

    bench/referee.py [--count N] [--seed N] [--first N] [--time-limit S] [--step F] [--spoil F] [--example PROGRAM]

For example, the first 20 systems of seed 1, and then system 7 of them alone:

    build/venv/bin/python bench/referee.py --count 20
    build/venv/bin/python bench/referee.py --first 7 --count 1

Systems: random ones of 3 to 7 tasks on 2 to 4 equal cores of a Core i5-2500K. The objective is best effort, the margin beside best effort, or
the margin where the jobs of the other cores are known. The planner looks for shares and a proof. bench/peers/choice.py chooses among the same
cores, ways and budgets. Its choices `low` exist, and no choice is better than `high`: budgets are rounded to the one side and to the other.
It is asked for choices that are better than the plan by more than the tolerance of proofs (1 %).

A line for each system has the result of the proof and three values: the plan's, that of the best `low` found, and the limit that no choice of
`high` reaches. A value is the mean speed of best effort, or the largest part of a deadline that a response takes. A dash: no choice. Verdicts:

    proved      no choice of `high` is better: the program proves the same as the planner
    agrees      a choice of `high` is better, but none of `low`: the grid of budgets is too coarse to say more
    undecided   the program was not done within the time limit
    no claim    the planner proved nothing; what the program found is said, as "there is no choice". A plan may have a margin without its floor
                for best effort, which is said, too
    DISAGREES   a choice of `low` is better than a plan that is proved to be the best, or meets deadlines where that is proved impossible; or
                the plan locks the pages of the rule, and is better than all choices of `high`

--spoil 0.5 multiplies the sums of others' budgets that columns stand by 0.5, as a wrong table would: the referee must disagree. So it must with 2.
HiGHS may print lines of its own. Exit code 1: some line disagrees. It needs SciPy (build/venv: `scripts/setup.sh test`).
"""

import argparse
import json
import math
import random
import subprocess
import sys
import time
from pathlib import Path

from peers.choice import LEAST, Machine, columns, solved

ROOT = Path(__file__).resolve().parent.parent
WHOLE = 1_000_000
TOLERANCE = 0.01
BEYOND = "DISAGREES: the plan is better than all choices"
# Speeds and margins that differ by less are equal.
ROUNDED = 1e-4
# Choices down to this part of the plan's speed count for `low`, and margins up to these parts of the plan's.
NEAR = 0.97
WORSE = (1.0, 1.01, 1.03, 1.06, 1.1, 1.2, 1.5)
# Parts of the plan's margin for `high`, where it does not prove the first one.
LADDER = (0.97, 0.94, 0.9, 0.8, 0.6, 0.3)


def generated(seed, index):
    """A system as the text of its file, its objective, and its best-effort programs as (time in ps, accesses)."""
    rng = random.Random(f"referee {seed} {index}")
    objective = ("best_effort", "margin", "known")[index % 3]
    cores = rng.choice((2, 2, 3)) if objective == "known" else rng.choice((2, 3, 3, 4))
    programs = 0 if objective == "known" else rng.randint(1, 2)
    hard = rng.randint(max(3, cores), 7 - programs)
    load = rng.uniform(0.4, cores)
    lines = ['platform = "core-i5-2500k"', "[regulation]", 'policy = "memguard"', 'share = "optimal"', f"active_cores = {cores}",
             f'objective = "{"best_effort" if objective == "best_effort" else "margin"}"']
    for number in range(hard):
        period = rng.randint(10, 60)
        work = min(0.6 * period, period * load * rng.uniform(0.3, 1.7) / hard)
        # With all pages locked, some accesses are left: else budgets would matter little.
        pages, misses, least = rng.randint(1, 899), work * rng.uniform(100, 3000), rng.uniform(0.1, 0.6)
        left = (int(misses * (1 - (1 - least) * k / pages)) for k in range(pages + 1))
        curve = ", ".join(f'{{ wcet = "{work + n * 2e-4:.6f} ms", misses = {n} }}' for n in left)
        lines += ["[[task]]", f'name = "t{number}"', f'period = "{period} ms"', f"curve = [{curve}]"]
    every = [(20_000_000_000, int(10 ** rng.uniform(4.6, 5.6))) for _ in range(programs)]
    for number, (_, misses) in enumerate(every):
        lines += ["[[task]]", f'name = "d{number}"', 'criticality = "D"', 'wcet = "20 ms"', f"misses = {misses}"]
    return "\n".join(lines) + "\n", objective, every


class Tables:
    """The planner as a process that answers line by line."""

    def __init__(self, command):
        self.process = subprocess.Popen([command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("the planner ended; its message is above")
        return json.loads(answer)


def spoiled(table, factor):
    """The same with larger or smaller sums of budgets, as a wrong table would have them."""
    times = lambda number: int(number * factor)
    for line in table["columns"]:
        for points in filter(None, (line["low"], line["high"])):
            points["by_budget"] = [[own, times(low), times(high) + 1] for own, low, high in points["by_budget"]]
            points["end"] = times(points["end"]) + 1
    return table


class Case:
    """A system with its plan and the programs of its choice."""

    def __init__(self, tables, asked, index):
        self.tables, self.asked = tables, asked
        self.text, self.objective, programs = generated(asked.seed, index)
        self.plan = tables.ask(system=self.text, seconds=asked.time_limit)
        self.proof = (self.plan["certificate"].get("proof") or {"result": "none"})["result"]
        tasks = self.plan["tasks"]
        self.hard = sum(task["criticality"] != "D" for task in tasks)
        self.programs = {self.hard + at: program for at, program in enumerate(programs)}
        self.kept = {}

    def table(self, limit, step=None, floor=None):
        """The columns that keep to a part of the deadlines. `floor`: of programs, if not that of a margin."""
        step = step or self.asked.step
        if (limit, step, floor) not in self.kept:
            table = self.tables.ask(system=self.text, limit=limit, step=step, floor=floor)
            self.kept[limit, step, floor] = spoiled(table, self.asked.spoil) if self.asked.spoil else table
        return self.kept[limit, step, floor]

    def machine(self, table):
        periods = [task["period_ns"] and task["period_ns"] * 1000 for task in self.plan["tasks"]]
        return Machine(table["cores"], table["ways"], table["bus"], table["period_ps"], periods, self.programs)

    def solve(self, side, limit=WHOLE, cut=0.0, step=None, floor=None):
        """`peers.choice.solved` of one side."""
        table = self.table(limit, step, floor)
        m, floor = self.machine(table), None if self.objective == "best_effort" else table["floor"]
        # A column of two cores with known jobs is judged beside all other ways, so no way may be left over.
        exact = side == "low" and table["known"] and m.cores == 2
        every = columns(m, table, side, step or self.asked.step, floor, exact)
        return solved(m, every, side, self.asked.time_limit, floor, table["idle"] if floor else LEAST, cut, exact)

    def has(self, side, limit=WHOLE, cut=0.0, floor=None):
        """Is there a choice? None: that is not known. Where `high` has one, it is asked again on a finer grid."""
        for step in [self.asked.step, 1 + (self.asked.step - 1) / 3][:1 + (side == "high")]:
            value, bound = self.solve(side, limit, cut, step, floor)
            if bound is None:
                return False
            if value is None:
                return None
        return True

    def on(self, core):
        return [at for at, task in enumerate(self.plan["tasks"]) if task["core"] == core["id"]]

    def value(self):
        """The plan's value: the programs' mean speed by docs/shares.md, or the largest part of a deadline."""
        tasks = self.plan["tasks"]
        if self.objective != "best_effort":
            return max(task["wcrt_ns"] / task["deadline_ns"] for task in tasks[:self.hard])
        m, total = self.machine(self.table(WHOLE)), 0.0
        for core in self.plan["cores"]:
            own = self.on(core)
            demands = {at: (tasks[at]["wcet_ns"] * 1000, tasks[at]["misses"]) for at in own if at < self.hard}
            if len(demands) < len(own):
                total += m.speeds(own, demands, core["budget_accesses"])
        return total / len(self.programs)

    def with_floor(self):
        """Has each program, and each core without tasks, the share that a margin leaves it?"""
        table = self.table(WHOLE)
        own = [(core["budget_accesses"], self.on(core)) for core in self.plan["cores"]]
        floors = [(budget, sum(at >= self.hard for at in on), not on) for budget, on in own]
        return all(budget >= count * table["floor"] and (budget >= table["idle"] or not idle) for budget, count, idle in floors)

    def by_rule(self):
        """Has each core the pages of the rule? The plan may lock others if that is better."""
        tasks = self.plan["tasks"]
        for core in self.plan["cores"]:
            own = self.on(core)
            lines = [line for line in self.table(WHOLE)["columns"] if line["tasks"] == own and line["ways"] <= core["ways"]]
            locked = {task: pages for line in lines[-1:] for task, _, _, pages in line["demands"]}
            if any(at < self.hard and len(tasks[at]["locked_pages"]) != locked.get(at) for at in own):
                return False
        return True


def judged(case):
    """The plan's value, `low`, `high` (None: no choice), and the verdict."""
    if not case.plan["schedulable"]:
        return None, None, None, impossible(case)
    if case.objective == "best_effort":
        return best_effort(case)
    return margin(case)


def verdict_on(case, claim, high, low):
    """Of a claim that there is no choice: `high()` and `low()` say if there is one."""
    claims = case.proof == claim
    if high() is False:
        return "proved" if claims else "no claim: there is no choice"
    found = low()
    if found:
        return "DISAGREES: there is a choice" if claims else "no claim: there is a choice"
    if found is None:
        return "undecided" if claims else "no claim (not known in time)"
    return "agrees" if claims else "no claim"


def any_of(answers):
    """Is one of them true? None: that is not known."""
    every = list(answers)
    return True if True in every else None if None in every else False


def impossible(case):
    """No choice meets the deadlines, whatever programs have."""
    return verdict_on(case, "impossible", lambda: case.has("high", floor=1), lambda: case.has("low", floor=1))


def best_effort(case):
    value = case.value()
    better = (value + ROUNDED) / (1 - TOLERANCE)
    # No program is faster than alone.
    has = lambda side: better < 1 and case.has(side, cut=better)
    verdict = verdict_on(case, "best", lambda: has("high"), lambda: has("low"))
    if verdict == "undecided" or "in time" in verdict:
        return value, None, None, verdict
    high = min(1.0, better) if verdict == "proved" else case.solve("high", cut=value)[1]
    low = case.solve("low", cut=better if "there is a choice" in verdict else NEAR * value)[0]
    plan_found = (low is not None and low >= value - ROUNDED) or case.has("high", cut=value - ROUNDED)
    if plan_found is False and case.by_rule():
        verdict = BEYOND
    return value, low, high, verdict


def margin(case):
    value = case.value()
    parts = lambda part: min(WHOLE, math.ceil(value * part * WHOLE))
    better = parts(1 - TOLERANCE)
    if not case.with_floor():
        # A choice with the floor is better, and so is a smaller part of a deadline without it.
        has = lambda side: any_of([case.has(side), case.has(side, better, floor=1)])
        verdict = verdict_on(case, "best", lambda: has("high"), lambda: has("low"))
        return value, None, None, f"{verdict} (without its floor for best effort)"
    verdict = verdict_on(case, "best", lambda: case.has("high", better), lambda: case.has("low", better))
    limits = [better] if "there is a choice" in verdict else [parts(part) for part in WORSE]
    low = next((limit / WHOLE for limit in limits if case.has("low", limit)), None)
    lower = [better] if verdict == "proved" else [parts(part) for part in LADDER]
    high = next((limit / WHOLE for limit in lower if case.has("high", limit) is False), None)
    if (low is None or low > value + ROUNDED) and case.has("high", parts(1.0) + 1) is False and case.by_rule():
        verdict = BEYOND
    return value, low, high, verdict


def say(text):
    """What is running, in one line that the next one replaces."""
    print(f"\r{text:<60}\r" if sys.stderr.isatty() else text, end="" if sys.stderr.isatty() or not text else "\n", file=sys.stderr, flush=True)


def shown(value):
    return "      -" if value is None else f"{value:7.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="number of systems")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first system")
    parser.add_argument("--time-limit", type=float, default=10, metavar="S", help="seconds of a proof, and of each program")
    parser.add_argument("--step", type=float, default=1.08, metavar="F", help="factor from a budget of the grid to the next")
    parser.add_argument("--spoil", type=float, metavar="F", help="multiply the others' budgets in the tables: must disagree")
    parser.add_argument("--example", type=Path, help="the example columns; by default it is built (release)")
    asked = parser.parse_args()
    if not asked.example:
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "solocore-planner", "--example", "columns"], check=True, cwd=ROOT)
        asked.example = ROOT / "target/release/examples/columns"
    verdicts, begun = [], time.monotonic()
    print("system cores tasks objective    proof          plan     low    high  verdict")
    with Tables(asked.example) as tables:
        for index in range(asked.first, asked.first + asked.count):
            say(f"system {index}: {len(verdicts)} of {asked.count} done, {time.monotonic() - begun:.0f} s")
            case = Case(tables, asked, index)
            *values, verdict = judged(case)
            verdicts.append(verdict)
            say("")
            print(f"{index:6} {len(case.plan['cores']):5} {len(case.plan['tasks']):5} {case.objective:12} {case.proof:10} "
                  f"{' '.join(map(shown, values))}  {verdict}", flush=True)
    firsts = [verdict.split(":")[0].split(" (")[0] for verdict in verdicts]
    counts = ", ".join(f"{firsts.count(name)} {name}" for name in sorted(set(firsts)))
    print(f"seed {asked.seed}, {len(verdicts)} systems, {time.monotonic() - begun:.0f} s: {counts}")
    return int("DISAGREES" in firsts)


if __name__ == "__main__":
    sys.exit(main())
