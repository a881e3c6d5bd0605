#!/usr/bin/env python3
"""Do two simulations at once do twice the work of one?

    bench/two_simulations.py [--solocore target/release/solocore] [--pairs 5] [--duration "1 s"] [PLAN]

Each round simulates PLAN (by default one made of examples/ima-sce) once on processor 0, then twice at the same time on processors
0 and 1. The scale is that of a round's processor times: 2 * (one) / (the mean of the two). What the two share (caches,
memory, a core's two threads) lengthens the processor time of each; other work on the computer takes wall time, but mostly
not processor time. The wall times' scale is printed beside it: it means something on an idle computer only.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time


def start(command, cpu):
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {cpu})
    )


def finish(process):
    """Processor seconds of a run."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"two_simulations: {process.args} ended with {process.returncode}; run it by itself to see why")
    return usage.ru_utime + usage.ru_stime


def run(command, cpus):
    begin = time.monotonic()
    processes = [start(command, cpu) for cpu in cpus]
    return statistics.mean([finish(p) for p in processes]), time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", nargs="?", metavar="PLAN")
    parser.add_argument("--solocore", default="target/release/solocore")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--duration", default="1 s")
    args = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        sys.exit("two_simulations: only one processor may be used; allow two (taskset)")
    with tempfile.TemporaryDirectory() as directory:
        plan = args.plan
        if plan is None:
            plan = os.path.join(directory, "plan.json")
            make = [args.solocore, "plan", "examples/ima-sce/system.toml", "-o", plan]
            subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        command = [args.solocore, "sim", plan, "--duration", args.duration, "--format", "json"]
        scales, walls = [], []
        print(f"{'one':>8} {'of two':>8} {'scale':>8} {'wall':>8} {'load':>8}   (seconds of processor time)")
        for _ in range(args.pairs):
            one, one_wall = run(command, cpus[:1])
            two, two_wall = run(command, cpus)
            scales.append(2 * one / two)
            walls.append(2 * one_wall / two_wall)
            print(f"{one:8.2f} {two:8.2f} {scales[-1]:8.2f} {walls[-1]:8.2f} {os.getloadavg()[0]:8.1f}", flush=True)
    print(f"median scale {statistics.median(scales):.2f} ({min(scales):.2f} to {max(scales):.2f}), "
          f"by wall time {statistics.median(walls):.2f}")


if __name__ == "__main__":
    main()
