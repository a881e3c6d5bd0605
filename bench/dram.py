#!/usr/bin/env python3
"""Requests per second of `solocore dram` on one thread, against its targets.

Measures, for each pattern, the requests a second of the run itself (wall_ns of the result: without starting the program),
median of a number of runs. Targets: 5 million on random traffic, 10 million on streams. For scale: on the machine the
targets were set on, DRAMsim3 does 0.20 and Ramulator2 0.27 million.
Prints a table and writes build/bench/dram.json. A missed target is said and is no failure.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = 5
REQUESTS = 2_000_000
# Name, arguments, target in requests a second (none: for information).
CASES = [
    ("one random read at a time", ["--pattern", "chase"], 5e6),
    ("random reads, 2 GB/s", ["--pattern", "random", "--load", "2 GB/s"], 5e6),
    ("random reads, 5 GB/s", ["--pattern", "random", "--load", "5 GB/s"], 5e6),
    ("random reads, 8 GB/s", ["--pattern", "random", "--load", "8 GB/s"], 5e6),
    ("random, a third writes, 5 GB/s", ["--pattern", "random", "--load", "5 GB/s", "--writes", "0.333"], None),
    ("one sequential read at a time", ["--pattern", "chase-stream"], 10e6),
    ("four streams, 5 GB/s", ["--pattern", "stream4", "--load", "5 GB/s"], 10e6),
    ("four streams, 8 GB/s", ["--pattern", "stream4", "--load", "8 GB/s"], 10e6),
    ("four streams, a third writes, 5 GB/s", ["--pattern", "stream4", "--load", "5 GB/s", "--writes", "0.333"], None),
]


class Failed(Exception):
    """What cannot be measured, and why."""


def main():
    args = arguments()
    if not args.solocore.is_file():
        raise Failed(f"{args.solocore} is missing; build it with `make build`, or name it with --solocore")
    result = {"machine": machine(), "memory": args.memory, "requests": args.requests, "cases": []}
    print(f"{args.memory}, {args.requests} requests, median of {RUNS} runs, million requests a second")
    print(f"{'':40}{'median':>8}{'min':>8}{'max':>8}  target", flush=True)
    for name, options, target in CASES:
        values = [rate(args, options) for _ in range(RUNS)]
        median = statistics.median(values)
        verdict = "" if target is None else f"{target / 1e6:.0f} {'met' if median >= target else 'MISSED'}"
        print(f"{name:40}{median / 1e6:8.2f}{min(values) / 1e6:8.2f}{max(values) / 1e6:8.2f}  {verdict}", flush=True)
        result["cases"].append({"name": name, "arguments": options, "requests_per_s": median, "runs": values, "target": target})
    out = ROOT / "build/bench/dram.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out.relative_to(ROOT)}")


def rate(args, options):
    command = [args.solocore, "dram", "--memory", args.memory, *options, "--requests", str(args.requests), "--format", "json"]
    got = subprocess.run(command, capture_output=True, check=False)
    if got.returncode != 0:
        raise Failed(f"`{' '.join(map(str, command))}` ended with {got.returncode}:\n{got.stderr.decode(errors='replace')}")
    result = json.loads(got.stdout)
    return result["requests"] * 1e9 / result["wall_ns"]


def machine():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"), "cpu": model,
            "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solocore", type=pathlib.Path, default=ROOT / "target/release/solocore",
                        help="the program (default: target/release/solocore)")
    parser.add_argument("--memory", default="ddr3-1333", help="the memory (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="requests of a run (default: %(default)s)")
    args = parser.parse_args()
    if args.requests < 1:
        parser.error("a run has at least 1 request")
    return args


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"dram.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
