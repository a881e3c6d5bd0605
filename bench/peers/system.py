"""A system as the allocators see it: tables of execution times beside the other cores.

Problem: CaM and the linear program take a task's execution time as a function of its core's cache and bandwidth. Rule: `units` of `total`
accesses in a period are shared out entirely, so a time depends on the units of the task's own core alone; all other units are the others'.
The cache is locked pages here: the pages of a core's ways are split among its tasks, and a time depends on the task's own pages.
The load of a core is the sum of its utilizations, and the time that is charged once per busy window as a part of its least deadline. EDF
meets all deadlines up to a load of 1; what an allocator believes rests on that. Periods are deadlines in these systems. Fixed priorities
need more; the judge applies the planner's response times.
"""

from dataclasses import dataclass, field


@dataclass
class System:
    """One table, for one total of all budgets."""

    cores: int
    ways: int
    units: int
    total: int              # accesses in a period of all cores together
    pages_in_ways: list     # pages that 0, 1, 2... ways hold; as many as one core can have
    pages: list             # numbers of locked pages for which there are times
    use: list               # utilization by task, units of its core - 1, and place in `pages`; None: no bound
    once: list              # by task: the time charged once per busy window, as a part of its deadline
    tasks: list = field(default_factory=list)   # place of each task in the system file
    best_effort: list = field(default_factory=list)

    @property
    def most_units(self):
        return self.units - self.cores + 1

    @property
    def most_ways(self):
        return self.ways - self.cores + 1

    def options(self, task, units, thin=0.999):
        """Places in `pages` that lower the utilization of a task to this part at least, from the fewest pages on."""
        row, best, out = self.use[task][units - 1], None, []
        for place, use in enumerate(row):
            if use is not None and (best is None or use < best * thin):
                best = use
                out.append(place)
        return out

    def load(self, core, units, pages):
        """The largest load of a core, with the core and the locked pages of each task, and the units of each core."""
        out = []
        for c in range(self.cores):
            own = [t for t, of in enumerate(core) if of == c]
            use = [self.use[t][units[c] - 1][self.pages.index(pages[t])] for t in own]
            out.append(float("inf") if None in use else sum(use) + max((self.once[t] for t in own), default=0.0))
        return max(out)


def of_line(line):
    """The tables of a line of `shares ... tables`: a `System` for each total."""
    analysed = [at for at, task in enumerate(line["tasks"]) if task["executions"] is not None]
    rest = [at for at, task in enumerate(line["tasks"]) if task["executions"] is None]
    out = []
    for part, total in enumerate(line["totals"]):
        use = []
        for at in analysed:
            task = line["tasks"][at]
            use.append([[time if time is None else time / task["period_ps"] for time in row] for row in task["executions"][part]])
        once = [line["once_ps"] / line["tasks"][at]["deadline_ps"] for at in analysed]
        out.append(System(line["cores"], line["ways"], line["units"], total, line["pages_in_ways"], line["pages"], use, once, analysed, rest))
    return out


@dataclass
class Found:
    """An allotment, and the largest load of a core that its allocator believes in."""

    load: float
    core: list     # by task of the table
    ways: list
    units: list
    pages: list    # locked pages by task of the table

    @property
    def believed(self):
        return self.load <= 1

    def allotment(self, system):
        """As the judge reads it. Best effort goes to the cores with the fewest tasks, where it may use what is left of the budget."""
        count = len(system.tasks) + len(system.best_effort)
        core, pages = [0] * count, [0] * count
        company = [self.core.count(c) for c in range(system.cores)]
        for at, place, locked in zip(system.tasks, self.core, self.pages):
            core[at], pages[at] = place, locked
        for at in system.best_effort:
            core[at] = company.index(min(company))
            company[core[at]] += 1
        budgets = [max(1, system.total * units // system.units) for units in self.units]
        return {"placement": core, "ways": self.ways, "budgets": budgets, "pages": pages}
