"""How long `solocore plan` looks for changes that would do: random systems that are far from schedulable, user time of the whole command.

    bench/repair.py [SOLOCORE]

Systems by number of tasks, pages of each task's curve (0: stated numbers), and share; on a Core i5-2500K. The seed is fixed, and so are the plannings.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

# Seed, tasks, load of all cores, share, pages.
SYSTEMS = [(1, 12, 3, "even", 0), (2, 30, 3, "even", 0), (3, 60, 3.2, "even", 0), (1, 12, 3, "even", 300), (2, 30, 3, "even", 300),
           (1, 6, 3.5, "optimal", 0)]


def system(seed, tasks, load, share, pages):
    rng = random.Random(seed)
    text = f'platform = "core-i5-2500k"\n[regulation]\nshare = "{share}"\n'
    for i in range(tasks):
        period = rng.randint(10, 200)
        work = min(period * load / tasks * rng.uniform(0.3, 1.7), period * 0.5)
        misses = int(work * rng.uniform(100, 2000))
        left = [misses * (pages - k) // pages for k in range(pages + 1)] if pages else []
        points = ", ".join(f'{{ wcet = "{work + n * 2e-4:.6f} ms", misses = {n} }}' for n in left)
        demand = f"curve = [{points}]" if pages else f'wcet = "{work:.6f} ms"\nmisses = {misses}'
        text += f'[[task]]\nname = "t{i}"\nperiod = "{period} ms"\n{demand}\n'
    return text + '[[task]]\nname = "d"\ncriticality = "D"\nwcet = "20 ms"\nmisses = 50000\n'


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "target/release/solocore"
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "system.toml"
        for given in SYSTEMS:
            file.write_text(system(*given))
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            done = subprocess.run([program, "plan", file, "--format", "json"], capture_output=True, check=False)
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            plan = json.loads(done.stdout)
            repairs = [f"{r['change']}={r['value']}" for r in plan.get("repair", [])]
            notes = [r for r in plan["reasons"] if r.startswith("repair")]
            print(f"{given[1]} tasks, {given[4]} pages, {given[3]}: {seconds:.2f} s, {repairs}, {notes}")


if __name__ == "__main__":
    main()
