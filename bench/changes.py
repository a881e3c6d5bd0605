#!/usr/bin/env python3
"""What solocore's programs cost at each change of tasks, on this very machine.

    python3 bench/changes.py [--rounds N] [--changes N] [--solocore COMMAND]

Two processes on CPU 1 wake each other through pipes (bench/regulation.c), alone and under `solocore run` with MemGuard, whose program at
changes of tasks reads the CPU's counter where a thread without a budget comes or goes. Here both have one. The two take turns. Printed:
the medians of a change, their difference, and the time of a call of the program by the kernel's own statistics (kernel.bpf_stats_enabled,
put back afterwards), of which some 20 ns are the statistics. Needs root and two CPUs; exit code 3 without. No figure is a failure; a
solocore that does not run is one.
"""

import argparse
import glob
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
STATISTICS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
TRACING = "26"      # BPF_PROG_TYPE_TRACING: the program at changes of tasks is solocore's only one


def shared():
    spec = importlib.util.spec_from_file_location("regulation", ROOT / "bench/regulation.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def called(pid):
    """Nanoseconds and calls of the program at changes of tasks so far."""
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            found = dict(line.split(":", 1) for line in pathlib.Path(path).read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if found.get("prog_type", "").strip() == TRACING:
            return int(found["run_time_ns"]), int(found["run_cnt"])
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solocore", default=str(ROOT / "target" / "release" / "solocore"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--changes", type=int, default=100000, help="of each process in each round")
    args = parser.parse_args()
    regulation = shared()
    regulation.require_machine("bench/changes.py")
    args.solocore = os.path.abspath(args.solocore)
    regulation.OUT.mkdir(parents=True, exist_ok=True)
    program = regulation.OUT / "regulation"
    subprocess.run(["gcc", "-O2", "-o", program, ROOT / "bench/regulation.c"], check=True)
    seen = {"alone": [], "managed": []}
    calls, before = [], STATISTICS.read_text()

    def round_of(changes):
        done = subprocess.run([program, "changes", "1", str(changes)], check=True, capture_output=True, text=True)
        return int(done.stdout)

    try:
        plan = regulation.plan_for(args.solocore, 8000)
        for number in range(args.rounds):
            # Whatever else the machine does meets both; the order changes.
            for name in sorted(seen, reverse=number % 2 == 1):
                daemon = regulation.start_daemon(args.solocore, plan) if name == "managed" else None
                try:
                    seen[name].append(round_of(args.changes))
                    if daemon:
                        STATISTICS.write_text("1")
                        first = called(daemon.pid)
                        round_of(args.changes // 4)
                        last = called(daemon.pid)
                        STATISTICS.write_text(before)
                        if first and last and last[1] > first[1]:
                            calls.append((last[0] - first[0]) / (last[1] - first[1]))
                finally:
                    regulation.stop_daemon(daemon)
    except regulation.Failed as failed:
        return f"bench/changes.py: {failed}"
    finally:
        STATISTICS.write_text(before)
    alone, managed = (statistics.median(seen[name]) for name in ("alone", "managed"))
    pairs = statistics.median(b - a for a, b in zip(seen["alone"], seen["managed"]))
    print(f"a change of tasks: {alone:.0f} ns alone, {managed:.0f} ns under solocore; {pairs:+.0f} ns in the median pair of {args.rounds}")
    if calls:
        print(f"a call of the program: {statistics.median(calls):.0f} ns by the kernel's statistics")
    else:
        print("a call of the program: this kernel has no statistics of it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
