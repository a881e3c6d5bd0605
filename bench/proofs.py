"""Which plans with optimal shares are proved to be the best ones, or impossible ones, within a time limit.

    bench/proofs.py [--count N] [--seed N] [--tasks N] [--limit S] [--least PERCENT] [--solocore COMMAND] [--profiles DIR]

Systems: those of bench/shares.py with at least --tasks tasks, of --count systems a level. Each is planned with optimal shares until its proof is
done, for --limit seconds at most (crates/planner/examples/proofs.rs). The table has a line a system; the target is 95 % within 60 s. With
--least, fewer than this part proved is exit code 1. Ctrl-C prints what is done.
"""

import argparse
import json
import subprocess
import sys

import shares
from shares import ROOT, profiled

TARGET = 95


def built():
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "solocore-planner", "--example", "proofs"], check=True, cwd=ROOT)
    return ROOT / "target/release/examples/proofs"


def rows(asked):
    profiles = asked.profiles or profiled(asked.solocore)
    systems = subprocess.run([shares.built(), profiles, str(asked.count), str(asked.seed), "systems"], check=True, stdout=subprocess.PIPE).stdout
    plans = subprocess.Popen([built(), str(asked.limit), str(asked.tasks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    plans.stdin.write(systems)
    plans.stdin.close()
    try:
        yield from map(json.loads, plans.stdout)
    except BaseException:
        plans.kill()
        raise
    if plans.wait() != 0:
        raise SystemExit("proofs.py: the planning failed; its message is above")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=14, help="systems at each level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=16, help="least number of tasks")
    parser.add_argument("--limit", type=float, default=60, metavar="S", help="seconds of a planning")
    parser.add_argument("--least", type=float, metavar="PERCENT", help="exit code 1 if fewer are proved")
    parser.add_argument("--solocore", default=ROOT / "target/release/solocore")
    parser.add_argument("--profiles", help="profiles of the programs")
    asked = parser.parse_args()
    results, stopped = [], False
    try:
        for row in rows(asked):
            results.append(row["certificate"]["proof"]["result"] if row["certificate"].get("proof") else "none")
            print(f"{row['name']:22} {row['tasks']:3} tasks  {results[-1]:10} {row['seconds']:6.1f} s", flush=True)
    except KeyboardInterrupt:
        stopped = True
    proved = sum(result in ("best", "impossible") for result in results)
    if not results:
        print("no system is done" if stopped else "no system has so many tasks; raise --count")
        return 130 if stopped else 2
    percent = 100 * proved / len(results)
    missed = "" if percent >= TARGET else f"; the target of {TARGET} % is missed"
    print(f"{proved} of {len(results)} systems ({percent:.0f} %) are proved within {asked.limit:g} s{missed}")
    if stopped:
        return 130
    return int(asked.least is not None and percent < asked.least)


if __name__ == "__main__":
    sys.exit(main())
