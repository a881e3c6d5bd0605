#!/usr/bin/env python3
"""The simulator against the virtual board: the same programs, budgets and numbers of the machine (docs/board-model.md).

    bench/sim_board.py [--board core-i5-2500k] [--duration "300 ms"] [--window "0 cycles"] [SYSTEM.toml]
                       [--only alone,unmanaged,managed] [--run=--colors] [--keep DIR]

SYSTEM has tasks with a command, of any scheme; by default, programs of examples/vision (`make -C examples/vision`) beside xz with
stated budgets. Each case runs on both models: a program alone, all together without regulation, all together under the plan.

Three things are made equal first, because they are not what is compared:
* The cores wait for each read (window of 0 cycles), as a simulated core of an analysed task does. --window keeps another one.
* A job of the board is a process. So each simulated job follows a task with the kernel's part of it: the kernel's instructions, and
  the lines from DRAM beyond those of the profile. Both are counted on the board for each program alone, while its own lines are in
  no cache and another process has just started. The column "program" is the simulator without this part. Only MemGuard has
  fixed priorities to put this part before a job; under the other schemes its time alone is added to the simulated job's.
* Budgets have no skid, so both models stop a core at its budget. The simulator's counters count misses only, as the board's event
  does (docs/events.md): each simulated core gets a budget of writes that it cannot use up.

Exit code 1 if a longest job or a number of late jobs differs, times by more than 10 %, or if a job of the board exceeds its bound;
2 for a wrong system, 3 if the board cannot run. Means have no verdict: a simulated job has the pages of the one before, and a process has new ones.
SOLOCORE names the command [default: target/release/solocore]; it needs both plugins beside it.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WITHIN = 0.10
# Less than this is no difference: a release and a tick of the kernel.
LEAST_MS = 0.1
# More write-backs than fit into a period.
NO_LIMIT = 1_000_000
CASES = ["alone", "unmanaged", "managed"]
BUDGETS = [200, 200, 200, 20]
VISION = [("disparity", ["build/disparity", "frames/stereo_left.pgm", "frames/stereo_right.pgm"]),
          ("tracking", ["build/tracking", "frames/motion_a.pgm", "frames/motion_b.pgm"]),
          ("kmeans", ["build/kmeans", "frames/colour.ppm"])]
ALONE = """
sweep
solocore board ask reset
taskset 1 {command} >/dev/null 2>&1 || exit 9
solocore board ask snapshot a{at}
"""
TOGETHER = """
sweep
solocore board ask reset
taskset {mask} solocore run {case}.json --start {options} --duration "{duration}" -o /out/{case}.json >/dev/null 2>/out/{case}.log || exit 8
solocore board ask snapshot {case}
"""
# Reads a file through a small buffer: the shared cache then has clean lines that no program asks for.
SWEEP = """
head -c 25165824 /dev/zero >/tmp/sweep
sweep() { dd if=/tmp/sweep of=/dev/null bs=16k 2>/dev/null; }
cd {work}
"""


def vision():
    """The default: three programs on cores of their own beside xz."""
    tasks = [{"name": name, "core": core, "period": "100 ms", "command": command} for core, (name, command) in enumerate(VISION)]
    tasks.append({"name": "xz", "core": 3, "criticality": "D", "command": ["xz", "-6", "-k", "-c", "data/stereo_left.pgm"]})
    regulation = {"policy": "memguard", "pages": "anywhere", "period": "1 ms", "share": "explicit"}
    cores = [{"id": core, "bandwidth": f"{budget} MB/s"} for core, budget in enumerate(BUDGETS)]
    return {"regulation": regulation, "core": cores, "task": tasks}, ROOT / "examples/vision"


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(v)}" for key, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def text(system):
    """A system file."""
    lines = [f"{key} = {toml(value)}" for key, value in system.items() if not isinstance(value, (dict, list))]
    for key, value in system.items():
        for table in value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
            lines.append(f"[[{key}]]" if isinstance(value, list) else f"[{key}]")
            lines += [f"{k} = {toml(v)}" for k, v in table.items()]
    return "\n".join(lines) + "\n"


def number(text):
    """Seconds or Hz of a value with its unit."""
    value, unit = text.split()
    return float(value) * {"GHz": 1e9, "MHz": 1e6, "ns": 1e-9, "us": 1e-6, "ps": 1e-12}[unit]


class Bench:
    """One comparison, with its files in a directory of its own."""

    def __init__(self, args, work):
        self.solocore = str(Path(os.environ.get("SOLOCORE", ROOT / "target/release/solocore")).resolve())
        self.args, self.work = args, work
        if args.system:
            self.system, folder = tomllib.loads(Path(args.system).read_text()), Path(args.system).resolve().parent
        else:
            self.system, folder = vision()
        self.tasks = self.system["task"]
        # The policies whose jobs the simulator lets follow another task's, on the same core.
        self.by_priority = self.system.get("regulation", {}).get("policy", "memguard") == "memguard" and "partition" not in self.system
        for task in self.tasks:
            if "command" not in task:
                self.end(f"task {task['name']}: no command; both models run programs", 2)
            if "core" not in task and (self.by_priority or "unmanaged" in args.only):
                self.end(f"task {task['name']}: no core; both plans need the same", 2)
            # Names of files become whole: they are the same for each plan and in the guest.
            task["command"] = [str(folder / part) if (folder / part).is_file() else part for part in task["command"]]
        self.timed = [at for at, task in enumerate(self.tasks) if "period" in task]
        self.system["platform"] = "platform.toml"
        board = Path(args.board) if args.board.endswith(".toml") else ROOT / "platforms" / f"{args.board}.toml"
        platform = re.sub(r'(?m)^window = "[^"]*"', f'window = "{args.window}"', board.read_text())
        (work / "platform.toml").write_text(platform)
        self.platform = tomllib.loads(platform)
        self.cpus = self.platform["cores"]

    def end(self, why, code):
        print(f"sim_board: {why}", file=sys.stderr)
        sys.exit(code)

    def call(self, *args, codes=(0,)):
        done = subprocess.run([self.solocore, *map(str, args)], cwd=self.work, capture_output=True, text=True, errors="replace")
        if done.returncode not in codes:
            last = done.stderr.splitlines()[-1] if done.stderr else "no word"
            self.end(f"`solocore {' '.join(map(str, args))}`: {last}", done.returncode)
        return done.stdout

    def profiles(self):
        for at, task in enumerate(self.tasks):
            self.call("profile", "--platform", "platform.toml", "-o", f"{at}.json", "--", *task["command"])

    def plan(self, name, tasks, regulated=True):
        """Plans the system with these tasks."""
        system = self.system | {"task": tasks}
        if not regulated:
            # Nobody holds the lock, so nothing is limited; the tasks start as under any plan.
            kept = {k: v for k, v in system["regulation"].items() if k == "pages"}
            system["regulation"] = {"policy": "bwlock", "lock_bandwidth": "100 MB/s"} | kept
            system.pop("core", None)
        (self.work / f"{name}.toml").write_text(text(system))
        # That the bounds of these programs meet their deadlines is of no matter here.
        self.call("plan", f"{name}.toml", "-o", f"{name}.json", codes=(0, 1))

    def guest(self):
        """One guest runs all cases; gives its files: runs of plans and counts of the board."""
        cases, script = self.args.only, SWEEP.replace("{work}", shlex.quote(str(self.work)))
        script += "".join(ALONE.format(at=at, command=shlex.join(self.tasks[at]["command"])) for at in self.timed)
        files = {part for task in self.tasks for part in task["command"] if part.startswith("/")}
        names = {task["command"][0] for task in self.tasks} | {"taskset"}
        files |= {found for name in names if (found := shutil.which(name))}
        for case in ("unmanaged", "managed"):
            if case in cases:
                self.plan(case, self.tasks, case == "managed")
                script += TOGETHER.format(case=case[:8], options=self.args.run, duration=self.args.duration, mask=1 << (self.cpus - 1))
                (self.work / f"{case}.json").rename(self.work / f"{case[:8]}.json")
                files.add(str(self.work / f"{case[:8]}.json"))
        (self.work / "script").write_text(script)
        share = [part for file in sorted(files) for part in ("--share", file)]
        self.call("board", "run", "platform.toml", *share, "--out", "out", "--truth", "truth", "--time-limit", "55 min", "--",
                  "taskset", "2", "sh", str(self.work / "script"))

    def counts(self, label, core):
        return json.loads((self.work / f"truth.{label}").read_text())["vcpus"][core]

    def profile(self, at):
        return json.loads((self.work / f"{at}.json").read_text())

    def start(self, at):
        """The kernel's part of a task's job: nanoseconds alone, and lines from DRAM."""
        counts = self.counts(f"a{at}", 0)
        lines = max(counts["llc_misses"] - self.profile(at)["levels"][-1]["misses"], 0)
        seconds = counts["instructions_kernel"] * self.platform["cpi"] / number(self.platform["frequency"])
        return round((seconds + lines * number(self.platform["dram"]["latency_max"])) * 1e9), lines

    def starts(self):
        """Tasks that run before the jobs, each with the kernel's part of a job."""
        for priority, at in enumerate(self.timed, 1):
            (ns, lines), task = self.start(at), self.tasks[at]
            yield {"name": f"{task['name']}-start", "core": task["core"], "period": task["period"], "priority": priority,
                   "wcet": f"{ns} ns", "misses": lines}

    def count_misses_only(self, name):
        """Budgets of a plan that limit reads alone."""
        path = self.work / f"{name}.json"
        plan = json.loads(path.read_text())
        for core in plan["cores"]:
            if core.get("budget_accesses") and not core.get("write_budget_accesses"):
                core["budget_accesses"] += NO_LIMIT
                core["write_budget_accesses"] = NO_LIMIT
        path.write_text(json.dumps(plan))

    def simulated(self, case, kernel):
        """The simulator's results of a case."""
        name = f"sim-{case}"
        tasks = [{k: v for k, v in task.items() if k != "command"} | {"profile": f"{at}.json"} for at, task in enumerate(self.tasks)]
        if kernel and self.by_priority:
            starts = list(self.starts())
            for rank, at in enumerate(self.timed, 1 + len(starts)):
                tasks[at]["priority"] = rank
            tasks += starts
        self.plan(name, tasks, case != "unmanaged")
        if case == "managed" and self.by_priority and not self.platform["dram"].get("counts_writes"):
            self.count_misses_only(name)
        options = {"alone": ["--solo"], "unmanaged": ["--unmanaged"], "managed": []}[case]
        found, runs = [], {}
        for at in self.timed:
            # Alone, the first job, which finds nothing in the caches.
            duration = self.tasks[at]["period"] if case == "alone" else self.args.duration
            if duration not in runs:
                done = self.call("sim", f"{name}.json", *options, "--duration", duration, "--format", "json", codes=(0, 1))
                runs[duration] = {task["name"]: task for task in json.loads(done)["tasks"]}
            of = runs[duration]
            job, start = of[self.tasks[at]["name"]], of.get(f"{self.tasks[at]['name']}-start")
            found.append({"longest": job["max_response_ns"] / 1e6, "mean": job["acet_ns"] / 1e6, "late": job["misses_deadline"]})
            if start:
                # Alone, the two were apart; together, a job's response has its start in it.
                found[-1]["longest"] += start["max_response_ns"] / 1e6 if case == "alone" else 0
                found[-1]["mean"] += start["acet_ns"] / 1e6
            elif kernel:
                for key in ("longest", "mean"):
                    found[-1][key] += self.start(at)[0] / 1e6
        return found

    def seen(self, case):
        """The board's results of a case."""
        found = []
        run = None if case == "alone" else json.loads((self.work / "out" / f"{case[:8]}.json").read_text())
        for at in self.timed:
            if run is None:
                ms = self.counts(f"a{at}", 0)["busy_ps"] / 1e9
                found.append({"longest": ms, "mean": ms, "late": 0})
                continue
            task = run["tasks"][at]
            if task["failed"] or not task["jobs"]:
                self.end(f"{case}: {task['name']} has {task['jobs']} jobs, and {task['failed']} failed", 3)
            found.append({"longest": task["max_response_ns"] / 1e6, "mean": task["mean_response_ns"] / 1e6,
                          "late": task["misses_deadline"]})
        return found

    def bound(self, at):
        """The plan's bound on a task's response, in ms; None: it has none."""
        ns = json.loads((self.work / "managed.json").read_text())["tasks"][at].get("wcrt_ns")
        return None if ns is None else ns / 1e6

    def table(self, case):
        """Prints a case; returns the number of quantities that differ."""
        program, sim, board = self.simulated(case, False), self.simulated(case, True), self.seen(case)
        print(f"\n{case:12}{'':18}{'program':>10}{'sim':>10}{'board':>10}{'differs':>9}")
        beyond = 0
        for at, (p, s, b) in zip(self.timed, zip(program, sim, board, strict=True), strict=True):
            for key in ("longest",) if case == "alone" else ("longest", "mean"):
                far = key == "longest" and abs(b[key] - s[key]) > max(WITHIN * s[key], LEAST_MS)
                beyond += far
                share = (b[key] - s[key]) / s[key] if s[key] else 0
                print(f"{self.tasks[at]['name']:12}{key + ', ms':18}{p[key]:10.2f}{s[key]:10.2f}{b[key]:10.2f}"
                      f"{share:9.1%}{'  BEYOND' if far else ''}")
            bound = self.bound(at) if case == "managed" else None
            if bound is not None:
                over = b["longest"] > bound
                beyond += over
                print(f"{self.tasks[at]['name']:12}{'bound, ms':18}{bound:10.2f}{'  EXCEEDED on the board' if over else ''}")
            if s["late"] != b["late"]:
                beyond += 1
                print(f"{self.tasks[at]['name']:12}{'late jobs':18}{p['late']:10}{s['late']:10}{b['late']:10}{'':9}  BEYOND")
        return beyond

    def instructions(self):
        print(f"{'a job':30}{'profile':>10}{'board':>10}{'differs':>9}{'kernel':>10}")
        for at in self.timed:
            profile, counts = self.profile(at), self.counts(f"a{at}", 0)
            name, user, kernel = self.tasks[at]["name"], counts["instructions_user"], counts["instructions_kernel"]
            of = profile["instructions"]
            print(f"{name:12}{'instructions, M':18}{of / 1e6:10.2f}{user / 1e6:10.2f}{user / of - 1:9.1%}{kernel / 1e6:10.2f}")
            of, lines = profile["levels"][-1]["misses"], counts["llc_misses"]
            print(f"{name:12}{'lines from DRAM':18}{of:10}{lines:10}{lines / max(of, 1) - 1:9.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", nargs="?", metavar="SYSTEM.toml")
    parser.add_argument("--board", default="core-i5-2500k")
    parser.add_argument("--duration", default="300 ms")
    parser.add_argument("--window", default="0 cycles")
    parser.add_argument("--only", type=lambda t: t.split(","), default=CASES)
    parser.add_argument("--run", default="--partial", metavar="OPTIONS", help="options of `solocore run` [default: --partial]")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    if other := [case for case in args.only if case not in CASES]:
        parser.error(f"--only {other[0]}: the cases are {', '.join(CASES)}")
    with tempfile.TemporaryDirectory() as directory:
        work = args.keep or Path(directory)
        work.mkdir(exist_ok=True)
        bench = Bench(args, work.resolve())
        bench.profiles()
        bench.guest()
        bench.instructions()
        beyond = sum(bench.table(case) for case in CASES if case in args.only)
    print(f"\n{beyond} quantities differ by more than {WITHIN:.0%}")
    return int(beyond > 0)


if __name__ == "__main__":
    sys.exit(main())
