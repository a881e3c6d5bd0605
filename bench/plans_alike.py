"""Do two builds of solocore make the same plans, byte for byte?

Random systems from seeds: every policy, share, model and scheme; stated, curved and profiled tasks; stated cores and priorities; deadlines below and
above periods; best effort; schedulable and not. Each is planned by both builds (`plan --format json`), whose output and exit code must be equal. A
refused system counts apart: its error must be the same.

Usage: python3 bench/plans_alike.py OLD NEW [--systems N] [--seed SEED] [--keep DIR]. Exit code 1 where a plan differs, or where one of the kinds that it
is to cover has not come up.
"""

import argparse
import collections
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

BOARDS = {"p4080": 8, "core-i5-2500k": 4, "imx6q": 4}
PROGRAMS = ["true", "ls /", "sort /etc/passwd", "wc /etc/services"]
SECONDS = 60


def profiles(solocore, folder):
    """A profile of each program for each board; the names of those that could be made."""
    # A profiler lies beside its command.
    out = collections.defaultdict(list)
    for board in BOARDS:
        for at, program in enumerate(PROGRAMS):
            path = folder / f"{board}-{at}.profile.json"
            command = [solocore, "profile", "--platform", board, "-o", path, "--", *program.split()]
            if subprocess.run(command, capture_output=True, cwd=folder).returncode == 0:
                out[board].append(path.name)
    return out


def time(ns):
    return f'"{max(1, int(ns))} ns"'


def demand(rng, wcet_ns, mu, seen, of_board, curves=True):
    """The lines that say what a job asks for."""
    kind = rng.random()
    if kind < 0.12 and of_board:
        seen["profiled"] += 1
        return f'profile = "{rng.choice(of_board)}"\n'
    if kind < 0.3 and curves:
        seen["curve"] += 1
        points = []
        for _ in range(rng.randint(1, 12)):
            points.append(f"{{ wcet = {time(wcet_ns)}, misses = {mu} }}")
            wcet_ns, mu = wcet_ns * rng.uniform(0.8, 1), int(mu * rng.uniform(0.5, 1))
        return f"curve = [{', '.join(points)}]\n"
    seen["stated"] += 1
    return f"wcet = {time(wcet_ns)}\nmisses = {mu}\n"


def budgets(rng, board, cores, seen, of_board):
    """Tasks on cores, by any policy that has no scheme of its own."""
    policy = rng.choice(["memguard"] * 4 + ["none", "bwlock", "dynamic"])
    share = rng.choice(["even", "optimal", "explicit", None]) if policy == "memguard" else None
    model = "sound" if share == "optimal" else rng.choice(["sound", "sound", "sce"])
    seen[policy], seen[model], seen[str(share)] = seen[policy] + 1, seen[model] + 1, seen[str(share)] + 1
    active = rng.randint(1, cores)
    text = f'platform = "{board}"\n[regulation]\npolicy = "{policy}"\nmodel = "{model}"\nactive_cores = {active}\n'
    text += f'period = "{rng.choice([100, 500, 1000, 1000, 5000])} us"\n'
    if share:
        text += f'share = "{share}"\n'
    if model == "sce" and rng.random() < 0.6:
        text += f"carry_in = {rng.choice(['true', 'false'])}\n"
    if share == "optimal" and rng.random() < 0.5:
        text += f'objective = "{rng.choice(["best_effort", "margin", "bounds"])}"\n'
    if share == "explicit":
        for core in range(active):
            if core == 0 or rng.random() < 0.7:
                text += f'[[core]]\nid = {core}\nbandwidth = "{rng.randint(20, 150)} MB/s"\n'
    few = share in ("optimal", None) or policy == "dynamic"
    number = rng.randint(1, 5) if few else rng.choice([rng.randint(1, 12), rng.randint(12, 60), rng.randint(60, 120)])
    load = rng.choice([0.1, 0.3, 0.6, 0.9, 1.3]) * active
    same = rng.random() < 0.2
    ranked = rng.random() < 0.15
    periods = [rng.randint(1, 200) * 10**6 for _ in range(3)]
    for i in range(number):
        period = rng.choice(periods) if same else int(10 ** rng.uniform(6, 9))
        wcet = min(load / number * rng.uniform(0.2, 1.8), 0.95) * period
        mu = int(wcet / 60 * rng.choice([0, 0.001, 0.05, 0.3, 0.9]))
        text += f'[[task]]\nname = "t{i}"\nperiod = {time(period)}\n' + demand(rng, wcet, mu, seen, of_board)
        roll = rng.random()
        if roll < 0.2:
            text += f"deadline = {time(period * rng.uniform(0.3, 1))}\n"
        elif roll < 0.3 and policy != "dynamic":
            text += f"deadline = {time(period * rng.uniform(1, 4))}\n"
        elif roll < 0.32 and policy != "dynamic":
            text += f"deadline = {time(period * 150)}\n"
        if rng.random() < 0.2:
            text += f"core = {rng.randrange(active)}\n"
        if ranked:
            text += f"priority = {rng.randint(1, 20)}\n"
    for i in range(0 if policy == "dynamic" else rng.choice([0, 0, 1, rng.randint(1, 8)])):
        seen["best effort"] += 1
        text += f'[[task]]\nname = "d{i}"\ncriticality = "D"\nwcet = "5 ms"\nmisses = 1000\n'
        if rng.random() < 0.3:
            text += f"core = {rng.randrange(active)}\n"
    return text


def windows(rng, board, cores, seen, of_board):
    """Partitions."""
    seen["windows"] += 1
    text = f'platform = "{board}"\n[regulation]\npolicy = "memguard"\nmodel = "{rng.choice(["sound", "sce"])}"\nactive_cores = {min(cores, 3)}\nperiod = "500 us"\n'
    for p in range(rng.randint(1, 3)):
        period = rng.choice([20, 40, 80])
        text += f'[[partition]]\nname = "p{p}"\ncore = {p % 2}\nperiod = "{period} ms"\n'
        for i in range(rng.randint(1, 3)):
            name, long = f"t{p}{i}", period * rng.choice([1, 2, 4])
            wcet = long * 1e6 * rng.uniform(0.005, 0.06)
            text += f'[[task]]\nname = "{name}"\npartition = "p{p}"\nperiod = "{long} ms"\n'
            text += demand(rng, wcet, int(wcet / 200 * rng.random()), seen, of_board)
    return text


def levels(rng, board, cores, seen, of_board):
    """Criticality levels of MC2."""
    seen["levels"] += 1
    text = f'platform = "{board}"\n[regulation]\npolicy = "none"\nmodel = "sce"\n[levels]\n'
    if rng.random() < 0.5:
        text += 'contention = "measured"\n'
    for i in range(rng.randint(1, 8)):
        level = rng.choice("ABC")
        period = rng.choice({"A": [10, 20], "B": [40, 80], "C": [10, 30, 50, 70]}[level])
        wcet = period * 1e6 * rng.uniform(0.01, 0.15)
        text += f'[[task]]\nname = "t{i}"\ncriticality = "{level}"\nperiod = "{period} ms"\n'
        text += demand(rng, wcet, int(wcet / 500 * rng.random()), seen, of_board, curves=False)
    return text


def vcpus(rng, board, cores, seen, of_board):
    """Tasks in VCPUs."""
    seen["vcpus"] += 1
    text = f'platform = "{board}"\n[regulation]\npolicy = "maracas"\nactive_cores = {rng.randint(1, cores)}\n[maracas]\noverhead = "20 us"\n'
    tasks = ""
    for v in range(rng.randint(1, 5)):
        period, share = rng.choice([5, 10, 20]), rng.uniform(0.05, 0.4)
        inside = [f"t{v}{i}" for i in range(rng.randint(1, 3))]
        text += f'[[vcpu]]\nname = "v{v}"\ncapacity = "{int(period * share * 1000) + 1} us"\nperiod = "{period} ms"\ntasks = {inside}\n'.replace("'", '"')
        for name in inside:
            long = period * rng.choice([2, 4, 8])
            wcet = long * 1e6 * share * rng.uniform(0.05, 0.3)
            tasks += f'[[task]]\nname = "{name}"\nperiod = "{long} ms"\n' + demand(rng, wcet, int(wcet / 500 * rng.random()), seen, of_board)
    return text + tasks


def planned(solocore, system, folder, seconds=SECONDS):
    """What a build says of a system; `None`: it takes too long."""
    try:
        done = subprocess.run([solocore, "plan", "--format", "json", system], capture_output=True, cwd=folder, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode, done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--systems", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where systems with different plans are written")
    args = parser.parse_args()
    old, new = (os.path.abspath(p) for p in (args.old, args.new))
    rng, seen, answers, differ, slow = random.Random(args.seed), collections.Counter(), collections.Counter(), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known = profiles(new, folder)
        for at in range(args.systems):
            board = rng.choice(list(BOARDS))
            make = rng.choices([budgets, windows, levels, vcpus], [12, 1, 1, 1])[0]
            text = make(rng, board, BOARDS[board], seen, known[board])
            (folder / "system.toml").write_text(text)
            before, after = planned(old, "system.toml", folder), planned(new, "system.toml", folder)
            if before is not None and after is None:
                # On a busy machine that says little.
                after = planned(new, "system.toml", folder, 10 * SECONDS)
            if before is None or after is None:
                slow += 1
                print(f"system {at} of seed {args.seed}: old {'ends' if before else 'too slow'}, new {'ends' if after else 'too slow'}")
                differ += after is None and before is not None
                continue
            answers[before[0]] += 1
            if before != after:
                differ += 1
                print(f"system {at} of seed {args.seed} differs: exit codes {before[0]} and {after[0]}, {len(before[1])} and {len(after[1])} bytes")
                if args.keep:
                    args.keep.mkdir(exist_ok=True)
                    (args.keep / f"{args.seed}-{at}.toml").write_text(text)
    print(f"seed {args.seed}: {args.systems} systems, {differ} differ, {slow} too slow; schedulable {answers[0]}, not {answers[1]}, refused {answers[2]}")
    print("  " + ", ".join(f"{kind} {number}" for kind, number in sorted(seen.items())))
    wanted = ["stated", "curve", "profiled", "best effort", "windows", "levels", "vcpus", "memguard", "none", "dynamic", "bwlock", "optimal", "even", "explicit", "sce", "sound"]
    lacking = [kind for kind in wanted if not seen[kind]] if args.systems >= 100 else []
    if lacking or (args.systems >= 100 and min(answers[0], answers[1]) < args.systems // 10):
        print(f"too little of: {', '.join(lacking) or 'one of the verdicts'}")
        differ += 1
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
