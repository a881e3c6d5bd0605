"""`solocore platform measure` against an independent chase in C (bench/machine.c), by turns in the same run.

    python3 bench/machine.py [ROUNDS]

A round is a run of each. What others do to a shared cache and memory changes from second to second, so the ratio of a round is
what counts, and its median over the rounds. Target: within 10 %. A missed target is said and is no failure. SOLOCORE names the
command [default: target/release/solocore].
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = 0.10
KEYS = "l2.latency,llc.latency,dram.overhead"


def run(*argv):
    return subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True).stdout


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    solocore = os.environ.get("SOLOCORE", ROOT / "target" / "release" / "solocore")
    with tempfile.TemporaryDirectory() as work:
        chase, file = Path(work) / "chase", Path(work) / "machine.toml"
        run("gcc", "-O2", ROOT / "bench" / "machine.c", "-o", chase)
        begun = time.monotonic()
        try:
            run(solocore, "platform", "detect", "-o", file)
            run(solocore, "platform", "measure", file, "-o", Path(work) / "measured.toml")
        except subprocess.CalledProcessError as error:
            print(f"detect and measure: {error.stderr.splitlines()[-1]}")
            return
        print(f"detect and measure: {time.monotonic() - begun:.1f} s")
        platform = json.loads(run(solocore, "platform", "show", file, "--format", "json"))["platform"]
        size = {level: bytes_of(platform[level]["size"]) for level in ("l1d", "l2", "llc") if platform.get(level)}
        inner = size.get("l2", size["l1d"])
        walks = {"l1d": size["l1d"] // 2, "llc.latency": min(4 * inner, size["llc"] // 2), "memory": min(4 * size["llc"], 256 << 20)}
        if "l2" in size:
            walks["l2.latency"] = min(4 * size["l1d"], size["l2"] // 2)
        cpu = max(os.sched_getaffinity(0))
        ratios = {key: [] for key in walks if key != "l1d"}
        for number in range(rounds):
            lines = run(chase, cpu, *walks.values()).splitlines()
            # Others push lines out of a shared cache while a long walk goes round: its quickest piece has met fewest.
            pick = {"llc.latency": 2}
            theirs = {key: float(line.split()[pick.get(key, 1)]) for key, line in zip(walks, lines)}
            try:
                ours = measured(run(solocore, "platform", "measure", file, "--dry-run", "--format", "json", "--cpu", cpu, "--only", KEYS),
                                platform)
            except subprocess.CalledProcessError as error:
                print(f"round {number}: {error.stderr.splitlines()[-1]}")
                continue
            for key in ratios:
                ratios[key].append(ours[key] / (theirs[key] - theirs["l1d"]))
            print(f"round {number}: " + ", ".join(
                f"{key} {ours[key]:.2f} ns against {theirs[key] - theirs['l1d']:.2f}" for key in ratios))
        for key, of in ratios.items():
            if of:
                middle = statistics.median(of)
                verdict = "within" if abs(middle - 1) <= TARGET else "MISSED: not within"
                print(f"{key}: {middle:.3f} of the chase's, {min(of):.3f} to {max(of):.3f} in {len(of)} rounds; {verdict} {TARGET:.0%}")


def bytes_of(text):
    number, unit = text.split()
    return int(float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit])


def measured(text, platform):
    """Medians in ns beyond a first-level hit."""
    number, unit = platform["frequency"].split()
    cycle = 1 / (float(number) * {"GHz": 1, "MHz": 1e-3}[unit])
    found = {f["key"]: f for f in json.loads(text)["findings"]}
    ours = {key: found[key]["median"] * cycle for key in ("l2.latency", "llc.latency") if key in found}
    ours["memory"] = found["dram.overhead"]["rows"][0]["median"]
    return ours


if __name__ == "__main__":
    main()
