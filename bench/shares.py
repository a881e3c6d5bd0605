"""Optimal shares against even ones and other allocators: weighted schedulability of random systems, and the time of a planning.

    bench/shares.py [--count N] [--seed N] [--peers [--time-limit S]] [--check] [--solocore COMMAND] [--example PROGRAM] [--profiles DIR]

Systems: four cores of a Core i5-2500K, 8 to 16 tasks, utilizations and periods of the study's generator, lockdown curves of the programs of
examples/vision with xz and sqlite3 (crates/study/examples/shares.rs). Utilization is that of the tasks alone, each with the whole cache.
Weighted schedulability: the part of systems that are schedulable, each weighted with its utilization. Targets: 1.5 times that of even
shares, and a median planning time below 50 ms. A missed target is said; with --check, one that is not about time is exit code 1.

--peers: also the linear program and CaM's heuristic (bench/peers), the program for up to --time-limit seconds a system; the target is not to be
below it. All are judged by the planner's analysis; "believed" is the allocator's own verdict, by EDF and its tables. First comes a system of
each level, then the next of each: Ctrl-C prints the results of the systems that are done. It needs SciPy: that of build/venv
(`scripts/setup.sh test`), or else it is installed into build/venv-peers.

The profiles are made once, into build/profiles, unless --profiles names some, and the example is built (release) unless --example names one.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
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
LEVELS = 14     # of shares.rs
TITLES = {"even": "even", "optimal": "optimal", "lp": "LP", "cam": "CaM"}


def profiled(solocore):
    PROFILES.mkdir(parents=True, exist_ok=True)
    for name, command in PROGRAMS.items():
        if not (PROFILES / f"{name}.json").exists():
            subprocess.run(["make", "-s", "-C", VISION], check=True)
            run = [solocore, "profile", "--platform", "core-i5-2500k", "-o", PROFILES / f"{name}.json", "--", *command]
            subprocess.run(run, check=True, cwd=VISION, stdout=subprocess.DEVNULL)
    return PROFILES


def built():
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "solocore-study", "--example", "shares"], check=True, cwd=ROOT)
    return ROOT / "target/release/examples/shares"


def with_scipy():
    """Begins again under a Python that has SciPy, unless this one has it."""
    if importlib.util.find_spec("scipy"):
        return
    python = ROOT / "build/venv/bin/python"
    if not python.exists() or subprocess.run([python, "-c", "import scipy"], stderr=subprocess.DEVNULL).returncode:
        python = ROOT / "build/venv-peers/bin/python"
        pins = [line for line in (ROOT / "tests/requirements.txt").read_text().split() if line.startswith(("numpy==", "scipy=="))]
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *pins], check=True)
    sys.stderr.flush()
    os.execv(python, [python, *sys.argv])


def tell(text):
    """The line that says what is running; a line each where nobody watches."""
    print(f"\r{text:<78}" if sys.stderr.isatty() else text, end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


def lines(command):
    """The JSON lines that a command prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield from map(json.loads, process.stdout)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise SystemExit(process.returncode)


def compare(rows, command, seconds):
    """Adds the results of the other allocators to the rows, and yields each row when it is done."""
    from peers.run import Judge, compared

    tables = list(lines([*command, "tables"]))
    order = sorted(range(len(rows)), key=lambda at: (rows[at]["name"]["index"], rows[at]["name"]["level"]))
    begun = time.monotonic()
    with Judge([*command, "judge"]) as judge:
        for number, at in enumerate(order):
            row = rows[at]
            left = (time.monotonic() - begun) / number * (len(order) - number) if number else len(order) * seconds
            say = lambda name: tell(f"system {number + 1} of {len(order)}, utilization {row['utilization']:.1f}: {TITLES[name]}; "
                                    f"about {left / 60:.0f} min left")
            compared(row, tables[at], judge, seconds, say)
            yield row


def weighted(rows, share, key="schedulable"):
    return sum(r["utilization"] for r in rows if r[share][key]) / sum(r["utilization"] for r in rows)


def table(rows, peers):
    titles = ["utilization", "systems", "even", "optimal", "even by fall-back"]
    titles += [title for name in peers for title in (TITLES[name], f"{TITLES[name]} believed")]
    print(f"| {' | '.join(titles)} |\n|{'--:|' * len(titles)}")
    for level in sorted({r["utilization"] for r in rows}):
        of = [r for r in rows if r["utilization"] == level]
        cells = [sum(r[share]["schedulable"] for r in of) for share in ("even", "optimal")]
        cells.append(sum(r["optimal"]["schedulable"] and "which are even shares" in (r["optimal"]["reason"] or "") for r in of))
        cells += [sum(r[name][key] for r in of) for name in peers for key in ("schedulable", "believed")]
        print(f"| {level:.1f} | {len(of)} | {' | '.join(map(str, cells))} |")


def summary(rows, peers):
    table(rows, peers)
    even, optimal = weighted(rows, "even"), weighted(rows, "optimal")
    alone = lambda share: [r["name"] for r in rows if r[share]["schedulable"] and not r["optimal"]["schedulable"]]
    ratio = f"{optimal / even:.2f} times" if even else "no even shares suffice"
    print(f"weighted schedulability: even {even:.3f}, optimal {optimal:.3f}, {ratio} (target {TARGET_RATIO}); "
          f"even alone suffices in {len(alone('even'))} systems {alone('even')[:3]}")
    reached = {"1.5 times even": optimal >= TARGET_RATIO * even}
    for name in peers:
        seconds = [r[name]["nanoseconds"] / 1e9 for r in rows]
        print(f"{TITLES[name]}: {weighted(rows, name):.3f} judged, {weighted(rows, name, 'believed'):.3f} believed; median "
              f"{statistics.median(seconds):.2f} s, longest {max(seconds):.1f} s; systems where it suffices and "
              f"optimal shares do not: {len(alone(name))} {alone(name)[:3]}")
        reached[f"not below {TITLES[name]}"] = optimal >= weighted(rows, name)
    ms = {share: [r[share]["nanoseconds"] / 1e6 for r in rows] for share in ("even", "optimal")}
    print(f"median planning: even {statistics.median(ms['even']):.1f} ms, optimal {statistics.median(ms['optimal']):.1f} ms "
          f"(target {TARGET_MS}), longest {max(ms['optimal']):.0f} ms")
    reached["50 ms"] = statistics.median(ms["optimal"]) < TARGET_MS
    for name, is_so in reached.items():
        print(f"{name}: {'reached' if is_so else 'missed'}")
    return all(is_so for name, is_so in reached.items() if name != "50 ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=20, help="systems at each level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", action="store_true", help="also the linear program and CaM's heuristic")
    parser.add_argument("--time-limit", type=float, default=60, metavar="S", help="seconds of the linear program for each system")
    parser.add_argument("--check", action="store_true", help="exit code 1 for a missed target that is not about time")
    parser.add_argument("--solocore", default=ROOT / "target/release/solocore")
    parser.add_argument("--example", type=Path)
    parser.add_argument("--profiles", type=Path)
    asked = parser.parse_args()
    if asked.peers:
        with_scipy()
        from peers.run import NAMES
    command = [asked.example or built(), asked.profiles or profiled(asked.solocore), str(asked.count), str(asked.seed)]
    planned, done, stopped = [], [], False
    try:
        for row in lines(command):
            planned.append(row)
            if sys.stderr.isatty():
                tell(f"planning: system {len(planned)} of {asked.count * LEVELS}")
        for row in compare(planned, command, asked.time_limit) if asked.peers else planned:
            done.append(row)
    except KeyboardInterrupt:
        stopped = True
    if sys.stderr.isatty():
        tell("")
        print("\r", end="", file=sys.stderr)
    rows, peers = (done, NAMES) if asked.peers else (planned, ())
    if stopped:
        print(f"stopped: {len(rows)} of {asked.count * LEVELS} systems are done")
    reached = summary(rows, peers) if rows else False
    return 130 if stopped else int(asked.check and not reached)


if __name__ == "__main__":
    sys.exit(main())
