"""How long `solocore plan` takes for eight tasks on four cores, best effort beside them: the whole process, stated numbers and profiles.

Target: below 50 ms (median). Usage: SOLOCORE=target/release/solocore python3 bench/planning.py [RUNS]
With --tasks N: once, N stated tasks on a p4080, in seconds of a CPU; 10,000 are to take less than 5. A plan holds 1,000,000 at most.
"""

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOLOCORE = ROOT / os.environ.get("SOLOCORE", "target/release/solocore")


def stated():
    text = 'platform = "core-i5-2500k"\n'
    for i in range(8):
        text += f'[[task]]\nname = "t{i}"\nperiod = "{20 + 10 * i} ms"\nwcet = "{1 + i // 2} ms"\nmisses = {500 * (i + 1)}\n'
    for i in range(4):
        text += f'[[task]]\nname = "d{i}"\ncriticality = "D"\nwcet = "10 ms"\nmisses = 10000\n'
    return text


def many(tasks):
    """Tasks of all periods from 10 ms to 1 s; together they take two of eight cores by themselves."""
    rng, text = random.Random(1), 'platform = "p4080"\n'
    for i in range(tasks):
        period_us = rng.randint(10_000, 1_000_000)
        wcet_ns = max(1, int(2 / tasks * rng.uniform(0.5, 1.5) * period_us * 1000))
        misses = int(wcet_ns / 49.6 * rng.uniform(0, 0.2))
        text += f'[[task]]\nname = "t{i}"\nwcet = "{wcet_ns} ns"\nmisses = {misses}\nperiod = "{period_us} us"\n'
    return text


def of_many(tasks, folder):
    system = Path(folder) / "many.toml"
    system.write_text(many(tasks))
    begin = time.perf_counter()
    done = subprocess.run([SOLOCORE, "plan", system, "-o", Path(folder) / "plan.json"], capture_output=True)
    assert done.returncode in (0, 1), done.stderr.decode()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"plan of {tasks} tasks: {used.ru_utime + used.ru_stime:.2f} s of a CPU, {time.perf_counter() - begin:.2f} s in all, "
          f"{used.ru_maxrss / 1024:.0f} MB, exit code {done.returncode}")


def milliseconds(system, runs):
    out = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        done = subprocess.run([SOLOCORE, "plan", system], capture_output=True)
        out.append((time.perf_counter() - start) * 1000)
        assert done.returncode in (0, 1), done.stderr.decode()
    # The first one may have profiled.
    return out[1:]


def main():
    if sys.argv[1:2] == ["--tasks"]:
        with tempfile.TemporaryDirectory() as folder:
            return of_many(int(sys.argv[2]), folder)
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        system = Path(folder) / "system.toml"
        system.write_text(stated())
        for name, path in (("eight stated tasks", system), ("the demo's eight programs", ROOT / "examples/vision/system.toml")):
            times = milliseconds(path, runs)
            print(f"plan of {name}: median {statistics.median(times):.1f} ms, {min(times):.1f} to {max(times):.1f} ({runs} runs)")


if __name__ == "__main__":
    main()
