"""Plans of many tasks: what they cost by the number of tasks, that signals end them, and where they end."""

import json
import os
import signal
import time

import pytest

SMALL, LARGE = 600, 2400


def system(tasks, load=0.5):
    """Tasks of many different periods; together they take `load` of one core by themselves."""
    text = 'platform = "p4080"\n'
    for i in range(tasks):
        period_us = 10_000 + (i * 7919) % 990_000
        wcet_ns = max(1, int(load / tasks * period_us * 1000 * (50 + (i * 31) % 100) / 100))
        text += f'[[task]]\nname = "t{i}"\nperiod = "{period_us} us"\nwcet = "{wcet_ns} ns"\nmisses = {wcet_ns // 500}\n'
    return text


@pytest.mark.parametrize(("load", "code", "exponent"), [(0.5, 0, 1.25), (30, 1, 1.35)])
def test_what_a_plan_costs_grows_with_the_number_of_tasks(solocore, load, code, exponent):
    """Instructions of the whole command, counted by the profiler: the same on each machine, however busy. A square would have an exponent of 2."""
    counts = []
    for tasks in (SMALL, LARGE):
        name = solocore.write(f"{tasks}.toml", system(tasks, load))
        out = f"{tasks}.profile.json"
        done = solocore("profile", "--trace-limit", 0, "-o", out, "--", solocore.program, "plan", name, "-o", f"{tasks}.plan.json", timeout=600)
        assert done.code == code, done.err
        counts.append(json.loads((solocore.dir / out).read_text())["instructions"])
    measured = LARGE / SMALL
    assert counts[1] / counts[0] < measured**exponent, counts
    # The count is of the plan: nothing else takes so many.
    assert counts[0] > 10_000_000


def cpu_seconds(pid):
    """What a process has computed so far, all of its threads."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("share", ["even", "optimal"])
def test_a_signal_ends_a_large_plan(solocore, number, share):
    """Within a second of computing after the signal: a busy machine gives it that later. With a time limit the search for shares goes on, a placement
    takes seconds."""
    tasks = 100_000 if share == "even" else 2000
    name = solocore.write("system.toml", system(tasks).replace("\n", f'\n[regulation]\nshare = "{share}"\n', 1))
    before = solocore.files()
    limit = ["--time-limit", "600 s"] if share == "optimal" else []
    process = solocore.start("plan", name, "-o", "plan.json", *limit)
    while process.poll() is None and cpu_seconds(process.pid) < 0.5:
        time.sleep(0.02)
    assert process.poll() is None, "it ended before the signal"
    computed = cpu_seconds(process.pid)
    process.send_signal(number)
    while process.poll() is None and cpu_seconds(process.pid) < computed + 1:
        time.sleep(0.02)
    ended = process.poll() is not None
    process.kill()
    _, err = process.communicate()
    assert ended, "it computes on"
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == "solocore: interrupted; no output was written"
    assert solocore.files() == before


def test_more_tasks_than_a_plan_holds_are_refused(solocore):
    name = solocore.write("system.toml", system(100_001))
    done = solocore("plan", name)
    assert done.code == 2
    assert done.err == (
        "solocore: system.toml: 100001 [[task]]s are more than the 100000 that one plan holds; join tasks with equal periods, "
        "or plan parts of the machine separately\n"
    )


def test_a_plan_of_many_tasks_names_cores_in_the_place_of_tasks(solocore):
    few, many = solocore("plan", solocore.write("512.toml", system(512)), "--format", "json").json(), None
    done = solocore("plan", solocore.write("513.toml", system(513)), "--format", "json")
    many = done.json()
    assert few["schedulable"] and many["schedulable"]
    assert all(t["margin"] and t["derivation"] for t in few["tasks"])
    assert not any(t["margin"] or t["derivation"] for t in many["tasks"])
    assert any(r.startswith("details: ") for r in many["reasons"]) and not any(r.startswith("details: ") for r in few["reasons"])
    # Who is promised what is the same: by name, or by core.
    cores = sorted({t["core"] for t in many["tasks"]})
    names = {t["name"] for t in few["tasks"]}
    assert all("bound_of_cores" not in p for p in few["promises"])
    by_id = {p["id"]: p for p in many["promises"]}
    for promise in few["promises"]:
        other = by_id[promise["id"]]
        assert other["bound_of"] == []
        if set(promise["bound_of"]) == names:
            assert other["bound_of_cores"] == cores, promise["id"]
        else:
            assert {t["core"] for t in few["tasks"] if t["name"] in promise["bound_of"]} == set(other["bound_of_cores"]), promise["id"]
    assert all({"place:task-" + t["name"], "releases:task-" + t["name"], "demand:task-" + t["name"]} <= by_id.keys() for t in many["tasks"])
