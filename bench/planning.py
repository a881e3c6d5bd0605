"""How long `solocore plan` takes for eight tasks on four cores, best effort beside them: the whole process, stated numbers and profiles.

Target: below 50 ms (median). Usage: SOLOCORE=target/release/solocore python3 bench/planning.py [RUNS]
"""

import os
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
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        system = Path(folder) / "system.toml"
        system.write_text(stated())
        for name, path in (("eight stated tasks", system), ("the demo's eight programs", ROOT / "examples/vision/system.toml")):
            times = milliseconds(path, runs)
            print(f"plan of {name}: median {statistics.median(times):.1f} ms, {min(times):.1f} to {max(times):.1f} ({runs} runs)")


if __name__ == "__main__":
    main()
