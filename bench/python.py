#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""How fast the Python package is: beside the command, and Dask's part of a campaign. None is a gate.

    cargo build --profile wheel -p solocore-cli -p solocore-python
    build/venv/bin/python bench/python.py [DIRECTORY OF THE BUILD] [ROUNDS]

Package and command are of one build (target/wheel where none is named). Each round measures both, one after the other; what is
printed of a pair is the median of the rounds' ratios with the least and the largest, so that other work on the machine shows.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/wheel").resolve()
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 9
POINT_S = 0.1


def package(place):
    """The package with the extension of the build, to be imported by this process and by workers."""
    (place / "solocore").mkdir()
    for path in (ROOT / "python/solocore").glob("*.py"):
        (place / "solocore" / path.name).symlink_to(path)
    (place / "solocore/_solocore.abi3.so").symlink_to(BUILD / "lib_solocore.so")
    sys.path.insert(0, str(place))
    os.environ["PYTHONPATH"] = str(place)


def spread(values, form):
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def rates(place):
    """Task sets a second: Python on columns, and the command's own loop, on the same sets and one thread."""
    import solocore
    sets = solocore.generate(20_000, tasks=20, utilization=0.9, seed=1)
    sets.to_jsonl(place / "corpus.jsonl")
    repeat, ours, theirs, only, spent = 10, [], [], [], []
    for _ in range(ROUNDS):
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(repeat):
            solocore.analyze(sets, "fp-rta", threads=1)
        ours.append(len(sets) * repeat / (time.perf_counter() - began))
        spent.append(len(sets) * repeat / (time.process_time() - cpu))
        began = time.perf_counter()
        for _ in range(repeat):
            solocore.analyze(sets, "fp-rta", bounds=False, threads=1)
        only.append(len(sets) * repeat / (time.perf_counter() - began))
        done = subprocess.run([BUILD / "solocore", "analyze", "--test", "fp-rta", "--repeat", str(repeat), place / "corpus.jsonl"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
        theirs.append(float(re.search(r"(\d+) task sets/s", done.stderr).group(1)))
    print(f"fp-rta, n = 20, with response times: {spread([r / 1e6 for r in ours], '{:.2f}')} million sets/s")
    print(f"the same by time of the CPU:         {spread([r / 1e6 for r in spent], '{:.2f}')} million sets/s, at least 1.1 is wanted")
    print(f"fp-rta, n = 20, verdicts alone:      {spread([r / 1e6 for r in only], '{:.2f}')} million sets/s")
    print(f"the command's own loop:              {spread([r / 1e6 for r in theirs], '{:.2f}')} million sets/s")
    print(f"Python beside the command, paired:   {spread([a / b for a, b in zip(ours, theirs)], '{:.2f}')}, at least 0.8 is wanted")


def wait(n, seed):
    time.sleep(POINT_S)
    return {"n": n}


def count(n, seed):
    """100 ms of a CPU's time, whatever else runs."""
    began, k = time.thread_time(), 0
    while time.thread_time() - began < POINT_S:
        k += 1
    return {"n": n}


def campaigns():
    """Dask's part of points of 100 ms, and two workers beside one."""
    import distributed
    import solocore

    def timed(function, points, client):
        began = time.perf_counter()
        solocore.campaign(function, {"n": range(points)}, client)
        return time.perf_counter() - began

    opened = []
    for workers in (1, 2):
        cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")
        opened.append((cluster, distributed.Client(cluster)))
        timed(wait, 4, opened[-1][1])
    over, gain = [], []
    for _ in range(min(ROUNDS, 5)):
        over.append(100 * (timed(wait, 60, opened[0][1]) / (60 * POINT_S) - 1))
        gain.append(timed(count, 60, opened[0][1]) / timed(count, 60, opened[1][1]))
    print(f"a campaign beside its points of 100 ms: {spread(over, '{:.1f}')} % more, below 5 % is wanted")
    print(f"two workers beside one, paired:         {spread(gain, '{:.2f}')}, at least 1.7 is wanted; load {os.getloadavg()[0]:.1f}")
    for cluster, client in opened:
        client.close()
        cluster.close()


def imports():
    text = "import time; t = time.perf_counter(); import solocore; print(time.perf_counter() - t)"
    bare = [float(subprocess.check_output([sys.executable, "-c", text])) * 1e3 for _ in range(ROUNDS)]
    text = "import time; t = time.perf_counter(); import solocore; solocore.TaskSets, solocore.analyze; print(time.perf_counter() - t)"
    used = [float(subprocess.check_output([sys.executable, "-c", text])) * 1e3 for _ in range(ROUNDS)]
    print(f"import solocore: {spread(bare, '{:.1f}')} ms; with TaskSets and analyze: {spread(used, '{:.0f}')} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        package(Path(directory))
        imports()
        rates(Path(directory))
        campaigns()
