"""The MC2 study's speed: the whole of it, memory, two threads against one, one allocation, and HiGHS on the same problems.

Usage: python3 bench/study.py [--part]: with --part, every 12th of the 648 scenarios. Needs target/release/solocore and
cargo; HiGHS only if the Python package highspy is there.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOLOCORE = os.environ.get("SOLOCORE", str(ROOT / "target" / "release" / "solocore"))


def study(directory, threads, *args):
    """Wall and processor seconds of a study, and its peak memory in MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    subprocess.run([SOLOCORE, "study", "--all", *args, "-o", directory], check=True, capture_output=True,
                   env={**os.environ, "RAYON_NUM_THREADS": str(threads)})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begun, cpu, after.ru_maxrss / 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", action="store_true")
    part = ["--shard", "1/12"] if parser.parse_args().part else []
    with tempfile.TemporaryDirectory() as place:
        walls = {}
        for threads in (1, 2):
            walls[threads], cpu, memory = study(f"{place}/{threads}", threads, *part)
            print(f"study, {threads} threads: {walls[threads]:.1f} s, {cpu:.1f} s of processor time, {memory:.0f} MB")
        print(f"speed-up on two threads: {walls[1] / walls[2]:.2f}")
    subprocess.run(["cargo", "bench", "--locked", "--quiet", "-p", "solocore-study"], cwd=ROOT, check=True)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "tests/study/test_milp.py"],
                          cwd=ROOT)
    if done.returncode:
        print("HiGHS: not compared (pip install highspy), or it differs")


if __name__ == "__main__":
    main()
