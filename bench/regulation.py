#!/usr/bin/env python3
"""A latency-sensitive task beside a memory hog on this very machine: alone, beside the hog, and beside the hog under `solocore run`.

The task follows a chain of pointers through a buffer as SCHED_FIFO on CPU 0 (bench/regulation.c); the hog maps, writes and
unmaps 32 MiB over and over on CPU 1. What is counted is page faults, because that works on machines without a counter of cache misses:
the hog makes one fault for each 4 KiB page that is cleared and then written, so its faults are its traffic in units of a
page. That holds for this hog, not for programs in general.

The three conditions take turns, so that whatever else the machine does meets all of them. Printed: the median and the 95th
percentile of a job, in nanoseconds a step, over all rounds; the hog's pages a millisecond. Writes build/bench/regulation.json. Needs root and two
CPUs. No figure is a failure.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "bench"
SYSTEM = """
platform = "machine.toml"
[regulation]
policy = "memguard"
period = "1 ms"
share = "explicit"
[[core]]
id = 1
bandwidth = "{bandwidth} kB/s"
[[task]]
name = "latency"
core = 0
period = "10 ms"
wcet = "1 ms"
misses = 1
"""


class Failed(Exception):
    """What cannot be measured, and why."""


def main():
    args = arguments()
    require_machine("bench/regulation.py")
    args.solocore = os.path.abspath(args.solocore)
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / "regulation"
    subprocess.run(["gcc", "-O2", "-o", program, ROOT / "bench" / "regulation.c"], check=True)
    plan = plan_for(args.solocore, args.budget)
    seen = {name: {"steps": [], "pages": []} for name in ("alone", "unmanaged", "managed")}
    over = [0, 0]
    for _ in range(args.rounds):
        for name, found in seen.items():
            steps, pages, counts = condition(name, program, args, plan)
            found["steps"] += steps
            found["pages"] += pages
            over = [a + b for a, b in zip(over, counts)]
    report(args, seen, over)


def require_machine(name):
    """Ends with 3 where these benchmarks cannot run. A solocore that does not run is a failure."""
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print(f"{name}: skipped: needs root and two CPUs", file=sys.stderr)
        sys.exit(3)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solocore", default=str(ROOT / "target" / "release" / "solocore"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=300, help="jobs of the task in each round")
    parser.add_argument("--steps", type=int, default=20000, help="steps of a job")
    parser.add_argument("--bytes", type=int, default=4 << 20, help="the task's buffer")
    parser.add_argument("--budget", type=int, default=8, help="the hog's pages a millisecond under solocore")
    return parser.parse_args()


def plan_for(solocore, budget):
    """A plan for a board with this machine's number of CPUs; only CPU 1's budget matters here."""
    board = subprocess.run([solocore, "platforms", "core-i5-2500k"], check=True, capture_output=True, text=True).stdout
    (OUT / "machine.toml").write_text(board.replace("cores = 4", f"cores = {os.cpu_count()}", 1))
    # A plan takes an access for 64 bytes.
    (OUT / "machine-system.toml").write_text(SYSTEM.format(bandwidth=budget * 64))
    done = subprocess.run([solocore, "plan", "machine-system.toml", "-o", "machine-plan.json"], cwd=OUT, capture_output=True, text=True)
    if done.returncode > 1:
        raise Failed(f"no plan: {done.stderr.strip()}")
    return OUT / "machine-plan.json"


def condition(name, program, args, plan):
    """One round: nanoseconds a step of each job, the hog's pages a millisecond, periods over budget and periods."""
    daemon = start_daemon(args.solocore, plan) if name == "managed" else None
    hog = None
    try:
        if name != "alone":
            hog = subprocess.Popen([program, "stream", "1"], stdout=subprocess.PIPE, text=True)
            time.sleep(0.1)
        chase = [program, "chase", "0", str(args.bytes), str(args.steps), str(args.jobs)]
        lines = subprocess.run(chase, check=True, capture_output=True, text=True).stdout.split()
    finally:
        pages = stop_hog(hog)
        counts = stop_daemon(daemon)
    return [int(ns) / args.steps for ns in lines], pages, counts


def start_daemon(solocore, plan):
    # Other work of this machine stays where it is: what is measured is the hog. The plan is for a board of this number of CPUs.
    command = [solocore, "run", plan, "--event", "page-faults", "--partial", "--no-move-irqs", "--no-confine", "--format", "json"]
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    for line in daemon.stderr:
        said.append(line.strip())
        if line.startswith("regulating"):
            return daemon
    daemon.wait()
    raise Failed(f"solocore does not run: {said[-1] if said else 'no word'}")


def stop_daemon(daemon):
    if daemon is None:
        return [0, 0]
    daemon.send_signal(signal.SIGTERM)
    out, _ = daemon.communicate(timeout=30)
    core = next(c for c in json.loads(out)["cores"] if c["cpu"] == 1)
    return [core["periods_over_budget"], core["periods"]]


def stop_hog(hog):
    if hog is None:
        return []
    hog.terminate()
    out, _ = hog.communicate(timeout=30)
    faults, ms = map(int, out.split())
    return [faults / max(ms, 1)]


def report(args, seen, over):
    rows = {}
    for name, found in seen.items():
        steps = sorted(found["steps"])
        rows[name] = {
            "jobs": len(steps),
            "median_ns": statistics.median(steps),
            "p95_ns": steps[int(0.95 * (len(steps) - 1))],
            "hog_pages_per_ms": statistics.median(found["pages"]) if found["pages"] else 0,
        }
    print(f"{'':10} {'jobs':>6} {'median ns':>10} {'p95 ns':>8} {'hog pages/ms':>13}")
    for name, row in rows.items():
        print(f"{name:10} {row['jobs']:6} {row['median_ns']:10.2f} {row['p95_ns']:8.2f} {row['hog_pages_per_ms']:13.1f}")
    print(f"budget {args.budget} pages a ms; {over[0]} of {over[1]} periods of CPU 1 over budget and one sample")
    result = {"bytes": args.bytes, "steps": args.steps, "budget": args.budget, "periods_over": over[0], "periods": over[1], **rows}
    (OUT / "regulation.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(f"bench/regulation.py: {why}")
