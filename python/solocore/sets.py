# SPDX-License-Identifier: MIT OR Apache-2.0
"""Many task sets as columns.

A `TaskSets` holds one row for each set: `cores` (uint32) and the lists `wcet`, `period` and `deadline` (uint64, one value for each
task, highest priority first), in one integer unit of the caller's. It is an Arrow table: pandas, polars, pyarrow and others take
it, and provide their own, through the Arrow PyCapsule interface; columns of these types are not copied.
"""

import json

import pyarrow as pa
import pyarrow.compute as pc

from . import _work
from .errors import InputError

_LISTS = ("wcet", "period", "deadline")
SCHEMA = pa.schema([("cores", pa.uint32()), *((name, pa.large_list(pa.uint64())) for name in _LISTS)])


def _is_list(kind):
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _one(column):
    """The pieces of a column as one array; a single piece is not copied."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _array(values, what):
    """One Arrow array of anything that is, or makes, one."""
    try:
        if isinstance(values, pa.ChunkedArray):
            return _one(values)
        if isinstance(values, pa.Array):
            return values
        if hasattr(values, "__arrow_c_array__"):
            return pa.array(values)
        if hasattr(values, "__arrow_c_stream__"):
            return _one(pa.chunked_array(values))
        if getattr(values, "ndim", 1) == 2:
            flat = pa.array(values.reshape(-1))
            rows, width = values.shape
            return pa.FixedSizeListArray.from_arrays(flat, width) if width else pa.array([[]] * rows, pa.large_list(pa.uint64()))
        try:
            return pa.array(values)
        except OverflowError:
            # Without a type, Arrow takes integers of Python for signed ones.
            return pa.array(values, pa.large_list(pa.uint64()))
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(f"{what}: {_first_line(error)}; give lists of integers") from None


def _first_line(error):
    return str(error).split("\n")[0].rstrip(".") or type(error).__name__


def _numbers(values, what, kind):
    """Integers as `kind`; refuses nulls, fractions, negative and too large ones. Arrays of this kind are not copied."""
    if values.null_count:
        raise InputError(f"{what}: has {values.null_count} missing values; give an integer for each")
    if values.type == kind:
        return values
    if len(values) == 0 and pa.types.is_null(values.type):
        return pa.array([], kind)
    if not pa.types.is_integer(values.type):
        raise InputError(f"{what}: is of type {values.type}; give integers in one unit, rounded to the safe side")
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise InputError(f"{what}: {_first_line(error)}; give integers from 0 to the largest {kind}") from None


def _lists(values, what):
    """A column of lists of uint64, with offsets from 0."""
    values = _array(values, what)
    if len(values) == 0 and not _is_list(values.type):
        return pa.array([], pa.large_list(pa.uint64()))
    if not _is_list(values.type):
        raise InputError(f"{what}: is of type {values.type}; give a list of integers for each set")
    if values.null_count:
        raise InputError(f"{what}: {values.null_count} sets have no list; give an empty one, or leave the sets out")
    if pa.types.is_fixed_size_list(values.type):
        width = values.type.list_size
        flat = values.values.slice(values.offset * width, len(values) * width)
        offsets = pa.arange(0, width * len(values) + 1, width) if width else pa.array([0] * (len(values) + 1), pa.int64())
    else:
        offsets = values.offsets.cast(pa.int64())
        first, last = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
        flat = values.values.slice(first, last - first)
        if first:
            offsets = pc.subtract(offsets, first)
    return pa.LargeListArray.from_arrays(offsets, _numbers(flat, what, pa.uint64()))


class TaskSets:
    """Many task sets. See the module for the columns.

    `wcet` may be a table with these columns (anything with the Arrow PyCapsule interface, also the columns in other orders). It may
    be the column itself: lists of integers, a two-dimensional array of integers, an Arrow array of lists. `deadline` is the period
    where it is left out, `cores` one number for all, or one for each set. Raises InputError for other types, missing or negative
    numbers, fractions, and lists of different lengths in one set. `analyze` checks whether a set is valid for a test.
    """

    __slots__ = ("table",)

    def __init__(self, wcet, period=None, deadline=None, cores=1):
        if period is None:
            wcet, period, deadline, cores = _columns(wcet, deadline, cores)
        lists = {"wcet": _lists(wcet, "wcet"), "period": _lists(period, "period")}
        lists["deadline"] = lists["period"] if deadline is None else _lists(deadline, "deadline")
        count = len(lists["wcet"])
        shape = lists["wcet"].offsets
        for name in _LISTS[1:]:
            if len(lists[name]) != count:
                raise InputError(f"{name}: has {len(lists[name])} sets, wcet has {count}; give as many")
            if not lists[name].offsets.equals(shape):
                same = pc.equal(lists[name].value_lengths(), lists["wcet"].value_lengths())
                row = pc.index(same, pa.scalar(False)).as_py()
                raise InputError(f"{name}: set {row} has {len(lists[name][row])} values, its wcet has {len(lists['wcet'][row])}; "
                                 "give one for each task")
        self.table = pa.table([_cores(cores, count), *lists.values()], schema=SCHEMA)

    @classmethod
    def _of(cls, table):
        """The sets of a table with this schema, one piece for each column."""
        sets = cls.__new__(cls)
        sets.table = table
        return sets

    @classmethod
    def from_jsonl(cls, path):
        """Reads the corpus of `solocore analyze`: one object for each set, {"cores", "tasks": [{"wcet", "period", "deadline"}]}.

        Raises InputError with file and line.
        """
        columns = {name: [] for name in ("cores", *_LISTS)}
        try:
            with open(path, encoding="utf-8") as file:
                for line, text in enumerate(file, 1):
                    if not text.strip():
                        continue
                    try:
                        one = json.loads(text)
                        tasks = [[task[name] for task in one["tasks"]] for name in _LISTS]
                        columns["cores"].append(_work.integer(one["cores"], "cores", 0, 2**32 - 1))
                    except (ValueError, KeyError, TypeError) as error:
                        why = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else str(error)
                        raise InputError(f"{path}:{line}: {why}; give one task set as JSON", str(path), line) from None
                    for name, values in zip(_LISTS, tasks):
                        columns[name].append(values)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot read: {error}; give a file with one task set per line", str(path)) from None
        return cls(columns["wcet"], columns["period"], columns["deadline"], pa.array(columns["cores"], pa.uint32()))

    def to_jsonl(self, path):
        """Writes the corpus of `solocore analyze`: a line for each set. Raises OSError where it cannot be written."""
        with open(path, "w", encoding="utf-8") as file:
            for batch in self.table.to_batches(max_chunksize=10_000):
                for row in batch.to_pylist():
                    tasks = [dict(zip(_LISTS, task)) for task in zip(*(row[name] for name in _LISTS))]
                    file.write(json.dumps({"cores": row["cores"], "tasks": tasks}) + "\n")

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self):
        return SCHEMA.__arrow_c_schema__()

    def __len__(self):
        return self.table.num_rows

    def __getitem__(self, at):
        """A set as a dict, or a slice as `TaskSets` (which shares the memory where the step is 1)."""
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            rows = self.table.slice(start, max(0, stop - start)) if step == 1 else self.table.take(list(range(start, stop, step)))
            return TaskSets._of(rows.combine_chunks())
        row = range(len(self))[at]
        return {name: self.table[name][row].as_py() for name in SCHEMA.names}

    def __iter__(self):
        for batch in self.table.to_batches(max_chunksize=10_000):
            yield from batch.to_pylist()

    def __eq__(self, other):
        return isinstance(other, TaskSets) and self.table.equals(other.table)

    __hash__ = None

    def __reduce__(self):
        return TaskSets, (self.table,)

    def utilization(self):
        """Sum of C/T for each set: an Arrow array of doubles, for reading only (verdicts never depend on it)."""
        offsets, wcet, period = self._flat()[:3]
        share = pc.divide(pc.cast(pa.array(wcet), pa.float64(), safe=False), pc.cast(pa.array(period), pa.float64(), safe=False))
        sums = pc.cumulative_sum(share)
        padded = pa.concat_arrays([pa.array([0.0]), sums])
        ends = padded.take(offsets)
        return pc.subtract(ends.slice(1), ends.slice(0, len(self)))

    def _flat(self):
        """Offsets (int64, from 0), wcet, period, deadline and cores, each one Arrow array."""
        columns = []
        offsets = None
        for name in _LISTS:
            lists = _one(self.table[name])
            first, last = lists.offsets[0].as_py(), lists.offsets[len(lists.offsets) - 1].as_py()
            columns.append(lists.values.slice(first, last - first))
            offsets = lists.offsets if first == 0 else pc.subtract(lists.offsets, first)
        return offsets, *columns, _one(self.table["cores"])

    def __repr__(self):
        return f"TaskSets({len(self)} sets, {len(self._flat()[1])} tasks)"

    def _repr_html_(self):
        rows = [[row[name] for name in SCHEMA.names] for row in self[:20]]
        return _work.table(SCHEMA.names, rows, repr(self))


def _columns(given, deadline, cores):
    """wcet, period, deadline and cores of a table."""
    if isinstance(given, TaskSets):
        given = given.table
    if not hasattr(given, "__arrow_c_stream__") or isinstance(given, (pa.Array, pa.ChunkedArray)):
        raise InputError("period: is missing; give wcet and period, or a table with these columns")
    try:
        table = pa.table(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"table: {_first_line(error)}; give one with columns {', '.join(SCHEMA.names)}") from None
    names = table.column_names
    for name in names:
        if name not in SCHEMA.names or names.count(name) > 1:
            raise InputError(f"table: column `{name}` is unknown or twice there; give {', '.join(SCHEMA.names)}, each once")
    for name in ("wcet", "period"):
        if name not in names:
            raise InputError(f"table: column `{name}` is missing; add it")
    return (table["wcet"], table["period"], table["deadline"] if "deadline" in names else deadline,
            table["cores"] if "cores" in names else cores)


def _cores(cores, count):
    if hasattr(cores, "__index__"):
        value = _work.integer(cores, "cores", 0, 2**32 - 1)
        return pa.repeat(pa.scalar(value, pa.uint32()), count)
    column = _numbers(_array(cores, "cores"), "cores", pa.uint32())
    if len(column) != count:
        raise InputError(f"cores: has {len(column)} values for {count} sets; give one for each, or one for all")
    return column
