# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random task sets, the same for a seed on every machine and with any number of threads."""

import pyarrow as pa

from . import _solocore, _work
from .errors import InputError
from .sets import SCHEMA, TaskSets

_MOST = 2**31


def generate(sets, tasks, utilization, *, cores=1, lower=0.0, upper=1.0, method="simplex",
             periods=("log-uniform", 10_000, 1_000_000), deadlines="implicit", seed=1, first=0, threads=None):
    """Draws random task sets.

    sets: number of sets. tasks: tasks in each. utilization: sum of the tasks' utilisations (1.0 is one core).
    lower, upper: bounds on each task's utilisation, one number for all tasks or one for each.
    method: "simplex", uniform among all vectors within the bounds (convolution of their distributions, the idea of Griffin and
    Davis, ECRTS 2025), or "uunifast-discard" (Davis and Burns, RTSS 2009).
    periods: ("log-uniform", LOW, HIGH[, STEP]) as Emberson, Stafford and Davis, WATERS 2010; ("harmonic", LOW, HIGH);
    ("automotive", UNITS_IN_A_MILLISECOND) as Kramer, Ziegenbein and Hamann, WATERS 2015. Integers in one unit, the caller's.
    deadlines: "implicit" (the period) or "constrained" (uniform from the execution time to the period).
    first: number of the first set; set i depends on seed and i alone. threads: one for each CPU where it is left out.

    Returns `TaskSets` with `cores` cores, tasks in order of deadlines. Execution times are rounded to whole units, at least 1: take
    periods of 10^4 units and more, or the sums are off. Raises InputError for impossible arguments; MemoryError for too many sets
    (`stream` draws any number in little memory).
    """
    generator, tasks = _generator(tasks, utilization, lower, upper, method, periods, deadlines, seed)
    count = _work.integer(sets, "sets", 0, _MOST)
    return _draw(generator, tasks, _work.integer(first, "first", 0, 2**63), count, cores, _work.threads(threads))


def stream(sets, tasks, utilization, *, batch=10_000, cores=1, first=0, threads=None, **options):
    """As `generate`, in pieces: an iterator of `TaskSets` with `batch` sets each, so that memory does not grow with `sets`.

    batch: sets in a piece. options: the other arguments of `generate`. Raises InputError for impossible arguments, at once.
    """
    batch = _work.integer(batch, "batch", 1, _MOST)
    count = _work.integer(sets, "sets", 0, 2**62)
    first, threads = _work.integer(first, "first", 0, 2**62), _work.threads(threads)
    options = {"lower": 0.0, "upper": 1.0, "method": "simplex", "periods": ("log-uniform", 10_000, 1_000_000),
               "deadlines": "implicit", "seed": 1, **options}
    generator, tasks = _generator(tasks, utilization, **options)
    return (_draw(generator, tasks, first + at, min(batch, count - at), cores, threads) for at in range(0, count, batch))


def _generator(tasks, utilization, lower, upper, method, periods, deadlines, seed):
    tasks = _work.integer(tasks, "tasks", 1, 1_000_000)
    bounds = [_bounds(values, what, tasks) for values, what in ((lower, "lower"), (upper, "upper"))]
    for value, what in ((method, "method"), (deadlines, "deadlines")):
        if not isinstance(value, str):
            raise InputError(f"{what}: is {value!r}; give a name")
    made = _solocore.Generator(*bounds, _work.number(utilization, "utilization"), method, _periods(periods), deadlines,
                               _work.integer(seed, "seed", 0, 2**64 - 1))
    return made, tasks


def _bounds(values, what, tasks):
    if isinstance(values, (int, float)) or not hasattr(values, "__iter__"):
        return [_work.number(values, what)] * tasks
    found = [_work.number(value, what) for value in values]
    if len(found) != tasks:
        raise InputError(f"{what}: has {len(found)} values for {tasks} tasks; give one for each, or one for all")
    return found


def _periods(given):
    shapes = {"log-uniform": (2, 3), "harmonic": (2,), "automotive": (1,)}
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        given = (given,)
    kind, *numbers = given
    if kind not in shapes or len(numbers) not in shapes[kind]:
        raise InputError(f"periods: are {given!r}; give (\"log-uniform\", LOW, HIGH[, STEP]), (\"harmonic\", LOW, HIGH) or "
                         "(\"automotive\", UNITS_IN_A_MILLISECOND)")
    numbers = [_work.integer(value, "periods", 0, 2**64 - 1) for value in numbers]
    return (kind, *numbers, *[1] * (3 - len(numbers)))


def _draw(generator, tasks, first, count, cores, threads):
    total = count * tasks
    try:
        buffers = [pa.allocate_buffer(8 * total) for _ in range(3)]
    except (pa.ArrowMemoryError, ValueError, OverflowError):
        raise MemoryError(f"sets: {count} of {tasks} tasks do not fit in memory; use solocore.stream") from None
    if total:
        generator.fill(first, count, *(memoryview(buffer).cast("B").cast("Q") for buffer in buffers), threads)
    offsets = pa.arange(0, total + 1, tasks)
    lists = [pa.LargeListArray.from_arrays(offsets, pa.Array.from_buffers(pa.uint64(), total, [None, b])) for b in buffers]
    column = pa.repeat(pa.scalar(_work.integer(cores, "cores", 1, 2**32 - 1), pa.uint32()), count)
    return TaskSets._of(pa.table([column, *lists], schema=SCHEMA))
