# SPDX-License-Identifier: MIT OR Apache-2.0
"""Campaigns: one function at many points, on the processes of this machine or on a cluster.

Problem: a sweep takes hours, workers die, and its result must not depend on their number. Rule: a point is plain data, and its seed is
made from the point itself, so that a point gives the same answer on any worker, at any time, in any number of tries. Points go out
in groups; each group that returns is written to Parquet beside its place and renamed, under a name made of its points. A
campaign that starts again with the same directory computes only the missing points. Answers come back in the order of the points.

Dask runs the groups; `pip install solocore[campaign]`. Functions travel by pickle: a worker of another machine needs this package, and
the module of the function or a function that cloudpickle can send.
Not covered: functions that depend on the clock, on files, or on random numbers of their own.
"""

import hashlib
import json
import os
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from . import _work
from .errors import Error, InputError, MachineError

# Groups under way for each worker: one computes while the next travels.
_AHEAD = 2
# A worker that died takes its group with it. Most such losses of one group; then the group is taken to be the cause.
_RETRIES = 5
# Time of a group, in seconds, for which Dask's own work is small; and the most points of a group.
_GROUP_S = 0.5
_LARGEST = 4096


class Campaign:
    """Answers of a campaign: `table` (Arrow) has a row for each point, in order, with the columns `point` and `seed`, then the
    function's. `computed` and `kept` are the numbers of points that were computed now, and before."""

    def __init__(self, table, computed, kept):
        self.table, self.computed, self.kept = table, computed, kept

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self):
        return self.table.num_rows

    def __repr__(self):
        return f"Campaign({len(self)} points, {self.computed} computed, {self.kept} kept)"

    def _repr_html_(self):
        names = self.table.column_names
        return _work.table(names, [[row[n] for n in names] for row in self.table.slice(0, 20).to_pylist()], repr(self))


def campaign(function, points, client=None, *, output=None, seed=1, workers=None, group=None, progress=None):
    """Calls `function(**point, seed=S)` at every point.

    function: gives a dict of numbers, texts, booleans or None, the same for the same arguments. points: dicts of such values (or a
    dict of lists: all combinations, the last key fastest). client: a `distributed.Client`, the address of a scheduler
    ("tcp://host:8786"), or None for processes of this machine. output: a directory for Parquet files, from which it continues after any
    end; one directory holds one campaign. seed: S of a point is made of it and of the point. workers: processes of this machine, one
    for each CPU where it is left out. group: points in a group; chosen by their time where it is left out. progress: True, or a
    function of the share done.

    Returns a `Campaign`. Raises the function's own exceptions, InputError for points or answers of other types, and MachineError
    where workers die repeatedly at one group. The finished points are in `output`.
    """
    points = _points(points)
    seed = _work.integer(seed, "seed", 0, 2**64 - 1)
    keys = [json.dumps(point, sort_keys=True, allow_nan=False) for point in points]
    seeds = [int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:8], "little") >> 1 for key in keys]
    store = _Store(output, function, seed)
    answers = store.read(keys)
    missing = [i for i, key in enumerate(keys) if key not in answers]
    kept = len(keys) - len(missing)
    say = _work.reporter(progress, "campaign")
    if missing:
        # A point that is given twice is computed once.
        work = list({keys[i]: (keys[i], points[i], seeds[i]) for i in missing}.values())
        done = 0
        for found in _run(function, work, client, workers, group):
            store.write(found)
            answers.update(found)
            done += len(found)
            if say is not None:
                say(done / len(work))
    rows = [{"point": key, "seed": s, **answers[key]} for key, s in zip(keys, seeds)]
    return Campaign(_table(rows), len(missing), kept)


def _points(points):
    if isinstance(points, dict):
        combined = [{}]
        for name, values in points.items():
            if isinstance(values, str) or not hasattr(values, "__iter__"):
                raise InputError(f"points: `{name}` is {values!r}; give a list of values")
            values = list(values)
            combined = [{**point, name: value} for point in combined for value in values]
        points = combined
    points = list(points)
    for at, point in enumerate(points):
        if not isinstance(point, dict) or not all(isinstance(k, str) for k in point):
            raise InputError(f"points: number {at} is {point!r}; give a dict of arguments")
        _plain(point, f"points: number {at}")
        if "seed" in point:
            raise InputError(f"points: number {at} has a `seed`; the campaign gives each point its own")
    return points


def _plain(values, what):
    """Are all values of types that JSON and Parquet keep as they are?"""
    for name, value in values.items():
        if value is not None and type(value) not in (bool, int, float, str) or value != value or value in (float("inf"), -float("inf")):
            raise InputError(f"{what}: `{name}` is {value!r}; give a finite number, a text, a boolean or None")
        if type(value) is int and not -2**63 <= value < 2**63:
            raise InputError(f"{what}: `{name}` is {value}; give an integer of 64 bits")


def _table(rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"answers: {error}; give values of one type in each column") from None


def _group(function, work):
    """A worker's computation: the answers of a group, and their time in seconds."""
    began, found = time.perf_counter(), {}
    for key, point, seed in work:
        answer = function(**point, seed=seed)
        if not isinstance(answer, dict) or "point" in answer or "seed" in answer:
            raise InputError(f"function: gives {answer!r} at {key}; give a dict of columns, but `point` and `seed`")
        _plain(answer, f"function: at {key}")
        found[key] = answer
    return found, time.perf_counter() - began


class _Store:
    """Answers on disk: one Parquet file for each group, complete or absent."""

    def __init__(self, output, function, seed):
        self._directory = None if output is None else Path(output)
        if self._directory is None:
            return
        about = {"format": "solocore-campaign/1", "function": f"{function.__module__}.{function.__qualname__}", "seed": seed}
        place = self._directory / "campaign.json"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if place.exists():
                found = json.loads(place.read_text(encoding="utf-8"))
                for name, value in about.items():
                    if found.get(name) != value:
                        raise InputError(f"{place}: its `{name}` is {found.get(name)!r}, not {value!r}; use another directory",
                                         str(place))
            else:
                self._replace(place, lambda to: to.write_text(json.dumps(about) + "\n", encoding="utf-8"))
        except (OSError, ValueError) as error:
            if isinstance(error, Error):
                raise
            raise MachineError(f"{place}: {error}; give a directory that can be written") from None

    @staticmethod
    def _replace(place, write):
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        write(beside)
        os.replace(beside, place)

    def read(self, keys):
        """The stored answers of these points."""
        if self._directory is None:
            return {}
        wanted, found = set(keys), {}
        for path in sorted(self._directory.glob("*.parquet")):
            try:
                rows = parquet.read_table(path).to_pylist()
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"{path}: {error}; remove it, and its points are computed again", str(path)) from None
            for row in rows:
                if row["point"] in wanted:
                    found[row["point"]] = json.loads(row["answer"])
        return found

    def write(self, answers):
        if self._directory is None or not answers:
            return
        name = hashlib.sha256("\n".join(sorted(answers)).encode()).hexdigest()[:32]
        table = pa.table({"point": list(answers), "answer": [json.dumps(answer) for answer in answers.values()]})
        try:
            self._replace(self._directory / f"{name}.parquet", lambda to: parquet.write_table(table, to))
        except OSError as error:
            raise MachineError(f"{self._directory}: cannot write: {error}; free some space, then start again") from None


def _run(function, work, client, workers, group):
    """Answers of groups, as they come in."""
    try:
        import distributed
    except ImportError:
        raise MachineError("campaign: Dask is missing; install it with: pip install 'solocore[campaign]'") from None
    size = 1 if group is None else _work.integer(group, "group", 1, 2**31)
    cluster = None
    try:
        if client is None:
            count = _work.threads(workers)
            # A worker that dies is replaced. The page of the scheduler takes any port that is free.
            cluster = distributed.LocalCluster(n_workers=count, threads_per_worker=1, processes=True, dashboard_address=":0")
            client = opened = distributed.Client(cluster)
        elif isinstance(client, str):
            try:
                client = opened = distributed.Client(client, timeout=5)
            except (OSError, ValueError) as error:
                raise MachineError(f"{client}: no scheduler answers: {error}; start one with `dask scheduler`") from None
        else:
            opened = None
        try:
            yield from _spread(distributed, function, work, client, size, group is None)
        finally:
            if opened is not None:
                opened.close()
    finally:
        if cluster is not None:
            cluster.close()


def _spread(distributed, function, work, client, size, adapt):
    """Sends groups, a few ahead of the workers, and yields their answers; a group whose worker died goes out again."""
    todo, flying, sent = list(reversed(work)), distributed.as_completed(), {}

    def send(part, tries=0):
        # Not pure: Dask must not take the answer of an earlier campaign for this one's.
        future = client.submit(_group, function, part, pure=False)
        sent[future.key] = (part, tries)
        flying.add(future)

    def fill():
        while todo and len(sent) < _AHEAD * max(1, len(client.ncores())):
            send([todo.pop() for _ in range(min(size, len(todo)))])

    fill()
    try:
        for future in flying:
            part, tries = sent.pop(future.key)
            try:
                found, spent = future.result()
            except distributed.scheduler.KilledWorker as error:
                if tries >= _RETRIES:
                    raise MachineError(f"campaign: workers died {tries + 1} times at one group, of which a point is {part[0][0]}: "
                                       f"{error}; run that point alone") from None
                send(part, tries + 1)
                continue
            yield found
            if adapt and spent < _GROUP_S:
                size = min(_LARGEST, max(size, int(len(part) * _GROUP_S / max(spent, 1e-6))))
            fill()
    finally:
        client.cancel([future for future in flying.futures], force=True)
