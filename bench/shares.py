"""Optimal shares against even ones: weighted schedulability of random systems, and the time of a planning.

    bench/shares.py [--count N] [--seed N] [--solocore COMMAND] [--example PROGRAM]

Systems: four cores of a Core i5-2500K, 8 to 16 tasks, utilizations and periods of the study's generator, lockdown curves of the programs of
examples/vision with xz and sqlite3 (crates/study/examples/shares.rs). Utilization is that of the tasks alone, each with the whole cache.
Weighted schedulability: the part of systems that are schedulable, each weighted with its utilization. Targets: 1.5 times that of even
shares, and a median planning time below 50 ms. Nothing fails; a missed target is said.

The profiles are made once, into build/profiles, and the example is built (release) unless --example names one.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILES = ROOT / "build/profiles"
VISION = ROOT / "examples/vision"
PROGRAMS = {
    "disparity": ["build/disparity", "frames/stereo_left.pgm", "frames/stereo_right.pgm"],
    "tracking": ["build/tracking", "frames/motion_a.pgm", "frames/motion_b.pgm"],
    "canny": ["build/canny", "frames/grey.pgm"],
    "kmeans": ["build/kmeans", "frames/colour.ppm"],
    "xz": ["xz", "-6", "-k", "-c", "data/stereo_left.pgm"],
    "sqlite": ["sqlite3", ":memory:", ".read corunner.sql"],
}
TARGET_RATIO, TARGET_MS = 1.5, 50


def profiled(solocore):
    PROFILES.mkdir(parents=True, exist_ok=True)
    for name, command in PROGRAMS.items():
        if not (PROFILES / f"{name}.json").exists():
            subprocess.run(["make", "-s", "-C", VISION], check=True)
            run = [solocore, "profile", "--platform", "core-i5-2500k", "-o", PROFILES / f"{name}.json", "--", *command]
            subprocess.run(run, check=True, cwd=VISION, stdout=subprocess.DEVNULL)


def built():
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "solocore-study", "--example", "shares"], check=True, cwd=ROOT)
    return ROOT / "target/release/examples/shares"


def weighted(rows, share):
    return sum(r["utilization"] for r in rows if r[share]["schedulable"]) / sum(r["utilization"] for r in rows)


def table(rows):
    print("| utilization | systems | even | optimal | even by fall-back |\n|--:|--:|--:|--:|--:|")
    for level in sorted({r["utilization"] for r in rows}):
        of = [r for r in rows if r["utilization"] == level]
        count = {share: sum(r[share]["schedulable"] for r in of) for share in ("even", "optimal")}
        fell = sum(r["optimal"]["schedulable"] and "which are even shares" in (r["optimal"]["reason"] or "") for r in of)
        print(f"| {level:.1f} | {len(of)} | {count['even']} | {count['optimal']} | {fell} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=20, help="systems at each level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--solocore", default=ROOT / "target/release/solocore")
    parser.add_argument("--example", type=Path)
    asked = parser.parse_args()
    profiled(asked.solocore)
    done = subprocess.run([asked.example or built(), PROFILES, str(asked.count), str(asked.seed)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return done.returncode
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    table(rows)
    even, optimal = weighted(rows, "even"), weighted(rows, "optimal")
    worse = [r["name"] for r in rows if r["even"]["schedulable"] and not r["optimal"]["schedulable"]]
    print(f"weighted schedulability: even {even:.3f}, optimal {optimal:.3f}, {optimal / even:.2f} times (target {TARGET_RATIO}); "
          f"even alone suffices in {len(worse)} systems {worse[:3]}")
    ms = {share: [r[share]["nanoseconds"] / 1e6 for r in rows] for share in ("even", "optimal")}
    print(f"median planning: even {statistics.median(ms['even']):.1f} ms, optimal {statistics.median(ms['optimal']):.1f} ms "
          f"(target {TARGET_MS}), longest {max(ms['optimal']):.0f} ms")
    for name, reached in (("1.5 times even", optimal >= TARGET_RATIO * even), ("50 ms", statistics.median(ms["optimal"]) < TARGET_MS)):
        print(f"{name}: {'reached' if reached else 'missed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
