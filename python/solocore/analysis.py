# SPDX-License-Identifier: MIT OR Apache-2.0
"""Schedulability tests on many task sets: the tests of `solocore analyze`, by the same code."""

import json

import pyarrow as pa
import pyarrow.compute as pc

from . import _solocore, _work
from .errors import InputError
from .sets import TaskSets

TESTS = tuple(_solocore.TESTS)


def analyze(sets, tests=("fp-rta",), *, bounds=True, threads=None, progress=None):
    """Tests every set.

    sets: `TaskSets`, or an argument from which they can be made. tests: a name or several: fp-rta (one core, preemptive fixed
    priorities, exact), edf (one core, exact), gedf-gfb, gedf-bcl, gedf-bcl-iterative, gedf-bar, gedf-ffdbf, gedf-rta, gedf (global
    EDF: all of them, best answer), tardiness (global EDF). bounds: also give the bounds of the tests that have some. threads: one
    for each CPU where it is left out. progress: True, or a function of the share done.

    Returns an `Analysis`. A set that a test refuses has no verdict but an `error`; the other sets have theirs. Raises InputError.
    Ctrl-C ends it within a second. Sources: docs/analysis.md.
    """
    sets = sets if isinstance(sets, TaskSets) else TaskSets(sets)
    tests = [tests] if isinstance(tests, str) else list(tests)
    if not tests:
        raise InputError(f"tests: there is none; take some of: {', '.join(TESTS)}")
    columns, say, threads = {}, _work.reporter(progress, "analyze"), _work.threads(threads)
    for at, test in enumerate(tests):
        if not isinstance(test, str):
            raise InputError(f"tests: {test!r} is not a name; take some of: {', '.join(TESTS)}")
        share = say and (lambda done, at=at: say((at + done) / len(tests)))
        verdict, bound, error = _run(test, sets, bounds, threads, share)
        columns[test] = verdict
        if bound is not None:
            columns[f"{test}.{'tardiness' if test == 'tardiness' else 'response'}"] = bound
        columns[f"{test}.error"] = error
    return Analysis(sets, tests, pa.table(columns))


def _memory(array, kind):
    """The values of an array without missing ones, as memory of that format."""
    width = memoryview(b"\0" * 8).cast(kind).itemsize
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return memoryview(b"").cast(kind)
    return memoryview(buffer).cast("B")[width * array.offset:width * (array.offset + len(array))].cast(kind)


def _run(test, sets, bounds, threads, say):
    offsets, wcet, period, deadline, cores = sets._flat()
    count, tasks = len(cores), len(wcet)
    verdicts = pa.allocate_buffer(count)
    values = pa.allocate_buffer(8 * tasks) if bounds else None
    known = pa.allocate_buffer(tasks) if bounds else None
    reasons = _solocore.analyze(
        test, _memory(offsets, "q"), _memory(wcet, "Q"), _memory(period, "Q"), _memory(deadline, "Q"), _memory(cores, "I"),
        memoryview(verdicts).cast("B"), memoryview(values).cast("B").cast("Q") if bounds else None,
        memoryview(known).cast("B") if bounds else None, threads, say)
    codes = pa.Array.from_buffers(pa.uint8(), count, [None, verdicts])
    verdict = pc.if_else(pc.equal(codes, 2), pa.scalar(None, pa.bool_()), pc.equal(codes, 1))
    error = pa.nulls(count, pa.string())
    if reasons:
        why = dict(reasons)
        error = pa.array([why.get(i) for i in range(count)], pa.string())
    if not bounds:
        return verdict, None, error
    found = pc.equal(pa.Array.from_buffers(pa.uint8(), tasks, [None, known]), 1)
    plain = pa.Array.from_buffers(pa.uint64(), tasks, [None, values])
    if not pc.all(found, min_count=0).as_py():
        plain = pc.if_else(found, plain, pa.scalar(None, pa.uint64()))
    return verdict, pa.LargeListArray.from_arrays(offsets, plain), error


class Analysis:
    """Verdicts on task sets: `table` (Arrow) has a row for each set, in order.

    Of each test NAME, column NAME is the verdict (bool, missing where the test refused the set). `NAME.response` or
    `tardiness.tardiness` is a list of bounds (uint64 in the unit of the sets, missing where the test gives no bound). `NAME.error`
    is the reason why a set was refused. The packages pandas, polars and others accept the table directly.
    """

    def __init__(self, sets, tests, table):
        self.sets, self.tests, self.table = sets, tests, table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self):
        return self.table.num_rows

    def __getitem__(self, column):
        """A column, as an Arrow array in pieces."""
        if column not in self.table.column_names:
            raise InputError(f"column: there is no `{column}`; take one of: {', '.join(self.table.column_names)}")
        return self.table[column]

    def schedulable(self, test=None):
        """Share of the sets that a test (the first where it is left out) finds schedulable, 0 to 1; a refused set counts as not.

        NaN without sets. Raises InputError for a test that was not run.
        """
        column = self[self.tests[0] if test is None else test]
        return (pc.sum(column).as_py() or 0) / len(self) if len(self) else float("nan")

    def answers(self, test=None):
        """The answers as `solocore analyze` gives them: for each set a dict with `schedulable` and `response`, or `error`.

        Bounds are in the unit of the sets, None where the test gives no bound. Raises InputError for a test that was not run.
        """
        test = self.tests[0] if test is None else test
        what = "tardiness" if test == "tardiness" else "response"
        columns = [self[name].to_pylist() for name in (test, f"{test}.{what}", f"{test}.error")]
        return [{"error": error} if error else {"schedulable": verdict, what: bounds} for verdict, bounds, error in zip(*columns)]

    def explain(self, row, test=None):
        """The derivation of a verdict: an `Explanation`. Raises InputError where the test refuses the set."""
        return explain(self.sets[row], self.tests[0] if test is None else test)

    def __repr__(self):
        shares = ", ".join(f"{test} {self.schedulable(test):.1%}" for test in self.tests)
        return f"Analysis({len(self)} sets; schedulable: {shares})"

    def _repr_html_(self):
        names = self.table.column_names
        rows = [[row[name] for name in names] for row in self.table.slice(0, 20).to_pylist()]
        return _work.table(names, rows, repr(self))


class Explanation:
    """A derivation: `rule`, `source`, `inputs`, `steps`, `result` and `because`, in `data` (a dict); str() gives it as text."""

    def __init__(self, data, text):
        self.data, self._text = data, text

    @property
    def rule(self):
        """The formula, as text."""
        return self.data["rule"]

    @property
    def source(self):
        """Paper and section, and the file that computes it."""
        return self.data["source"]

    @property
    def result(self):
        """A verdict, or a number in the unit of the set; None without a bound."""
        return self.data["result"]

    def __str__(self):
        return self._text

    def __repr__(self):
        return f"Explanation({self.result!r}: {self.rule})"

    def _repr_html_(self):
        terms = [[t["name"], t["value"]] for t in (*self.data["inputs"], *self.data["steps"])]
        return _work.table(["symbol", "value"], [*terms, ["result", self.result]], f"{self.rule} [{self.source}]", most=200)


def explain(task_set, test="fp-rta"):
    """Derives the verdict of a test on one set (a dict with cores, wcet, period, deadline).

    Times are integers in one unit, the caller's. Returns an `Explanation`. Raises InputError where the test refuses the set.
    """
    numbers = [[_work.integer(v, name, 0, 2**64 - 1) for v in task_set[name]] for name in ("wcet", "period", "deadline")]
    data, text = _solocore.explain(test, _work.integer(task_set["cores"], "cores", 0, 2**32 - 1), *numbers)
    return Explanation(json.loads(data), text)
