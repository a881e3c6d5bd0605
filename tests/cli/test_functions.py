"""Functions of unmodified programs: as jobs, as sections of the bandwidth lock, and as whom programs run.

Probes and page faults on the machine that runs the tests, where this is allowed; what a lock does to others is tested in guests
(tests/vm/guest/lock.sh).
"""

import json
import os
import subprocess

import pytest
from conftest import board_like_here, refused
from test_run import LEAVE

# 3 ms of work a job, 10 ms apart; `half` is called within `work`, and leaves its mark as whoever it runs.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
volatile long sink;
void __attribute__((noinline)) half(void) { double end = now() + 0.0015; while (now() < end) sink++; }
void __attribute__((noinline)) work(void) { half(); half(); sink++; }
int main(int count, char **arguments)
{
	int jobs = count > 1 ? atoi(arguments[1]) : 10;
	FILE *mark = count > 2 ? fopen(arguments[2], "a") : NULL;
	if (mark) {
		fprintf(mark, "%d %d %s\n", getuid(), geteuid(), getenv("USER"));
		fclose(mark);
	}
	for (int i = 0; i < jobs; i++) {
		work();
		usleep(7000);
	}
	return count > 3 ? atoi(arguments[3]) : 0;
}
"""

SYSTEM = """
platform = "machine.toml"
[regulation]
policy = "{policy}"
active_cores = {cores}
{more}
[[task]]
name = "loop"
core = 0
period = "10 ms"
wcet = "4 ms"
misses = 10
command = ["./looper", "100000"]
{keys}
[[task]]
name = "batch"
core = 1
criticality = "D"
period = "10 ms"
wcet = "1 ms"
misses = 1
"""


@pytest.fixture
def looper(solocore):
    """A directory with a program that loops, and a board like this machine."""
    cpus = board_like_here(solocore)
    solocore.write("looper.c", PROGRAM)
    subprocess.run(["cc", "-O1", "-o", "looper", "looper.c"], cwd=solocore.dir, check=True)
    solocore.cpus = cpus
    return solocore


def planned(solocore, keys, policy="bwlock", more='lock_bandwidth = "64 MB/s"'):
    return solocore.plan(SYSTEM.format(policy=policy, cores=solocore.cpus, more=more, keys=keys))


def run(solocore, *options):
    done = solocore("run", "plan.json", *LEAVE, "--start", "--duration", "1 s", "--format", "json", *options)
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code == 0, done.err
    return done.json()


def test_a_function_holds_the_lock_and_is_the_job(looper):
    planned(looper, 'job = "function:work"\nlock = ["function:half"]')
    result = run(looper)
    job, section = sorted(result["functions"], key=lambda f: f["what"])
    assert (job["what"], job["functions"], section["what"], section["functions"]) == ("job", ["work"], "section", ["half"])
    task = result["tasks"][0]
    assert task["jobs"] == len(task["latest"]) > 10 and task["failed"] == 0
    assert abs(task["jobs"] - job["calls"]) <= 1
    # Two calls a job, of which the last may have been under way.
    assert abs(section["calls"] - 2 * job["calls"]) <= 2 and section["nested"] == job["nested"] == 0
    assert task["max_response_ns"] == job["longest_ns"] >= 3_000_000
    assert all(3_000_000 <= j["end_ns"] - j["release_ns"] for j in task["latest"])
    starts = [j["release_ns"] for j in task["latest"]]
    assert all(b - a >= 10_000_000 for a, b in zip(starts, starts[1:])), "it sleeps 7 ms between two"
    held = max(c["held_periods"] for c in result["lock"]["cores"])
    assert held >= job["calls"], "at most looks of the daemon's own period may miss it"


def test_wakeups_are_jobs(looper):
    planned(looper, 'job = "wakeup"', policy="dynamic", more="")
    result = run(looper)
    (job,) = result["functions"]
    assert (job["what"], job["functions"]) == ("job", []) and job["calls"] > 10
    assert abs(result["tasks"][0]["jobs"] - job["calls"]) <= 1
    promises = {p["subject"]: p for p in result["promises"]}
    assert promises["jobs"]["kept_by"] == "tasks" and "wakeups" in promises["jobs"]["why"]
    assert promises["releases"]["kept_by"] is None, "the program keeps its own period"


@pytest.mark.parametrize("job", ["function:work", "wakeup"])
def test_jobs_in_a_vcpu_are_calls_or_wakeups(looper, job):
    """What the scheduler does is for guests; here: such a plan is made, and a run would set the probes."""
    keys = f'job = "{job}"'
    text = SYSTEM.format(policy="maracas", cores=looper.cpus, more="", keys=keys).replace("core = 0\n", "").replace("core = 1\n", "")
    plan = looper.plan(text + '[[vcpu]]\nname = "v"\ncapacity = "8 ms"\nperiod = "10 ms"\ntasks = ["loop"]\n')
    assert [t.get("program", {}).get("job") for t in plan["tasks"]] == [job, None]
    done = looper("run", "plan.json", "--start", "--partial", "--dry-run", "--format", "json")
    answers = {p["subject"]: p for p in done.json()["promises"]}
    if answers:
        assert answers["releases"]["kept_by"] is None and "its own period" in answers["releases"]["why"], answers["releases"]
    wrong = 'platform = "machine.toml"\n' + text[text.index("[[task]]"):].replace(f'{keys}\n', f'{keys}\npartition = "p"\n', 1)
    looper.write("windows.toml", wrong + '[[partition]]\nname = "p"\nperiod = "10 ms"\n')
    refused(looper("plan", "windows.toml"), "in the windows of a partition", codes=(2,))


LEVELS = """
platform = "imx6q"
[levels]
pet_scale = 1.5
[[task]]
name = "loop"
criticality = "B"
core = 0
period = "20 ms"
wcet = "4 ms"
misses = 10
command = ["./looper", "100000"]
job = "{}"
[[task]]
name = "soft"
criticality = "C"
period = "20 ms"
wcet = "1 ms"
misses = 10
"""


@pytest.mark.parametrize("job", ["function:work", "wakeup"])
def test_jobs_at_a_level_are_calls_or_wakeups(looper, job):
    """What the scheduler does is for guests; here: such a plan is made, and a run would start its program and set the probes."""
    plan = looper.plan(LEVELS.format(job))
    assert [t.get("program", {}).get("job") for t in plan["tasks"]] == [job, None]
    command = ["run", "plan.json", "--scheduler", "levels", "--start", "--partial", "--dry-run", "--format", "json"]
    seen = looper(*command).json()
    assert {t["task"]: t["how"] for t in seen["levels"]} == {"loop": "started", "soft": "not run"}
    releases = next(p for p in seen["promises"] if p["id"] == "releases:task-loop")
    assert releases["kept_by"] == "levels", releases
    looper.plan(LEVELS.format("function:none"))
    refused(looper(*command), "`loop`", "no function `none`", codes=(2,))


def test_a_task_runs_as_its_user(looper):
    mark = looper.dir / "mark"
    planned(looper, 'user = "nobody"')
    os.chmod(looper.dir, 0o777)
    for parent in looper.dir.parents:
        if os.stat(parent).st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
            os.chmod(parent, 0o755)
    run(looper, "--command", f"loop=./looper 5 {mark}")
    # It is started again and again, and killed at any moment.
    lines = mark.read_text().splitlines()
    assert lines and set(lines) == {"65534 65534 nobody"}


def test_exec_holds_the_lock_in_a_function(looper):
    done = looper("exec", "--lock-function", "work", "--lock-function", "half", "--event", "page-faults", "--", "./looper", "20", "mark", "7")
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code == 7, done.err
    assert "work, half: 20 sections under the lock" in done.err and "; 40 calls within them" in done.err


@pytest.mark.parametrize("name, words", [
    ("wor", ("did you mean work",)),
    ("nothing_like_it", ("no function `nothing_like_it`", "inlined")),
])
def test_functions_that_are_not_there(looper, name, words):
    refused(looper("exec", "--lock-function", name, "--", "./looper"), *words, codes=(2,))
    planned(looper, f'lock = ["function:{name}"]')
    refused(looper("run", "plan.json", *LEAVE, "--start"), "task `loop`", *words, codes=(2,))


def test_programs_without_names(looper):
    subprocess.run(["strip", "looper"], cwd=looper.dir, check=True)
    refused(looper("exec", "--lock-function", "work", "--", "./looper"), "stripped", codes=(2,))
    looper.write("script", "#!/bin/sh\nexec ./looper\n")
    os.chmod(looper.dir / "script", 0o755)
    refused(looper("exec", "--lock-function", "work", "--", "./script"), "not an ELF program", codes=(2,))


@pytest.mark.parametrize("keys, policy, words", [
    ('job = "thread"', "memguard", ("task `loop`", '"function:NAME"')),
    ('lock = ["function:work"]', "memguard", ("bwlock",)),
    ('lock = ["work"]', "bwlock", ("function:NAME",)),
    ('user = ""', "memguard", ("user",)),
])
def test_keys_that_are_wrong(looper, keys, policy, words):
    looper.write("system.toml", SYSTEM.format(policy=policy, cores=looper.cpus, more='lock_bandwidth = "64 MB/s"' * (policy == "bwlock"), keys=keys))
    refused(looper("plan", "system.toml"), *words, codes=(2,))


def test_a_user_who_is_not_there(looper):
    planned(looper, 'user = "no-such-user"')
    refused(looper("run", "plan.json", *LEAVE, "--start"), "no user `no-such-user`", codes=(2,))


def test_profiling_cannot_tell_a_part_of_a_run(looper):
    text = SYSTEM.format(policy="memguard", cores=looper.cpus, more="", keys='job = "function:work"')
    looper.write("system.toml", text.replace('wcet = "4 ms"\nmisses = 10\n', "", 1))
    refused(looper("plan", "system.toml"), "whole runs", "wcet and misses", codes=(2,))


def test_what_a_probe_costs(looper):
    done = looper("bench", "function-lock", "--calls", "200", "--runs", "5", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    report = json.loads(done.out)
    assert report["counted"] == report["made"] == 1000 and len(report["rows"]) == 4
