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


def levels(tasks):
    """Tasks of levels A, B and C that together take about half of a core."""
    text = 'platform = "imx6q"\n[regulation]\npolicy = "none"\nmodel = "sce"\n[levels]\n'
    for i in range(tasks):
        period_ms = (10, (20, 40)[i % 2], 80 + i % 7 * 10)[i % 3]
        wcet_ns = int(0.6e6 / tasks * period_ms)
        text += f'[[task]]\nname = "t{i}"\ncriticality = "{"ABC"[i % 3]}"\nperiod = "{period_ms} ms"\nwcet = "{wcet_ns} ns"\nmisses = {wcet_ns // 5000}\n'
    return text


def instructions(solocore, *command, code):
    """Instructions of a whole command, counted by the profiler: the same on each machine, however busy."""
    done = solocore("profile", "--trace-limit", 0, "-o", "count.json", "--", solocore.program, *command, timeout=600)
    assert done.code == code, done.err
    return json.loads((solocore.dir / "count.json").read_text())["instructions"]


@pytest.mark.parametrize(("made", "large", "code", "exponent"),
                         [(system, LARGE, 0, 1.25), (lambda tasks: system(tasks, 30), LARGE, 1, 1.35), (levels, 2 * SMALL, 0, 1.4)],
                         ids=["empty", "full", "levels"])
def test_what_a_plan_costs_grows_with_the_number_of_tasks(solocore, made, large, code, exponent):
    """A square would have an exponent of 2."""
    counts = []
    for tasks in (SMALL, large):
        name = solocore.write(f"{tasks}.toml", made(tasks))
        counts.append(instructions(solocore, "plan", name, "-o", f"{tasks}.plan.json", code=code))
    measured = large / SMALL
    assert counts[1] / counts[0] < measured**exponent, counts
    # The count is of the plan: nothing else takes so many.
    assert counts[0] > 10_000_000


def test_what_a_comparison_of_plans_costs_grows_with_the_number_of_tasks(solocore):
    """A search for the name of each task would have an exponent of 1.4 at these numbers."""
    counts = []
    for tasks in (SMALL, LARGE):
        plan = solocore("plan", solocore.write("system.toml", system(tasks)), "--format", "json").json()
        # Parts that diff reads and does not compare would hide the search.
        plan["promises"] = []
        plan["tasks"] = [task | {"waterfall": [], "assumes": []} for task in plan["tasks"]]
        name = solocore.write(f"{tasks}.json", json.dumps(plan))
        counts.append(instructions(solocore, "diff", name, name, code=0))
    assert counts[1] / counts[0] < (LARGE / SMALL) ** 1.25, counts


def test_dynamic_budgets_of_full_cores_are_planned_without_endless_response_times(solocore):
    """None of these tasks has a bound without budgets. A million steps for each, task by task, would take twice this number of instructions."""
    name = solocore.write("system.toml", system(20).replace("\n", '\n[regulation]\npolicy = "dynamic"\n', 1))
    assert instructions(solocore, "plan", name, code=1) < 2_500_000_000


def cpu_seconds(pid):
    """What a process has computed so far, all of its threads."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ends_by(process, number):
    """A signal ends the process within a second of computing, and no output is written."""
    computed = cpu_seconds(process.pid)
    process.send_signal(number)
    while process.poll() is None and cpu_seconds(process.pid) < computed + 1:
        time.sleep(0.02)
    ended = process.poll() is not None
    process.kill()
    _, err = process.communicate()
    assert ended, "it goes on"
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == "solocore: interrupted; no output was written"


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
    ends_by(process, number)
    assert solocore.files() == before


def test_a_signal_ends_the_writing_of_a_large_plan(solocore):
    """The file grows beside its place; a signal ends that, and it is gone."""
    name = solocore.write("system.toml", system(100_001, 0.02))
    before = solocore.files()
    process = solocore.start("plan", name, "-o", "plan.json")
    while process.poll() is None and not any(p.name.startswith(".solocore-") and p.stat().st_size for p in solocore.dir.iterdir()):
        time.sleep(0.001)
    ends_by(process, signal.SIGTERM)
    assert solocore.files() == before


@pytest.mark.parametrize(("head", "most"), [("", 1_000_000), ("[levels]\n", 100_000), ('[regulation]\npolicy = "dynamic"\n', 100_000)],
                         ids=["budgets", "levels", "dynamic"])
def test_more_tasks_than_a_plan_holds_are_refused(solocore, head, most):
    name = solocore.write("system.toml", system(most + 1).replace("\n", f"\n{head}", 1))
    done = solocore("plan", name, timeout=600)
    assert done.code == 2
    assert done.err == (
        f"solocore: system.toml: {most + 1} [[task]]s are more than the {most} that one plan holds; join tasks with equal periods, "
        "or plan parts of the machine separately\n"
    )


def test_a_plan_of_more_tasks_than_a_file_has_in_detail_is_brief(solocore):
    """What follows from the numbers of each task is left out; verdicts, bounds and promises are those of any plan."""
    name = solocore.write("system.toml", system(100_001, 0.02))
    done = solocore("plan", name, "-o", "plan.json", timeout=600)
    assert done.err == "planning 100001 tasks\n"
    text = (solocore.dir / "plan.json").read_text()
    assert text.count("\n") == 1 and text.endswith("\n")
    plan = json.loads(text)
    first, *others = plan["tasks"]
    assert first["assumes"] and not any("assumes" in task for task in others)
    assert not any("waterfall" in task for task in plan["tasks"])
    assert all(task["schedulable"] == (task["wcrt_ns"] is not None and task["wcrt_ns"] <= task["deadline_ns"]) for task in plan["tasks"])
    assert plan["schedulable"] == all(task["schedulable"] for task in plan["tasks"]) == (done.code == 0)
    assert sum(task["wcrt_ns"] is not None for task in plan["tasks"]) == sum(p["subject"] == "place" for p in plan["promises"])
    assert "above 100000, it has no reasons for the numbers of single tasks" in plan["reasons"][0] and len(plan["reasons"]) < 20
    out = done.out.decode()
    assert " promises about single tasks: only the JSON has them\n" in out
    assert len(out.splitlines()) < 100_001 + 60
    refused = solocore("report", "plan.json", timeout=600)
    assert refused.code == 2
    assert refused.err == (
        "solocore: plan.json: its 100001 tasks are more than the 100000 that a page shows; plan parts of the machine separately, and report on these\n"
    )
    refused = solocore("sim", "plan.json", "--duration", "5 ms", timeout=600)
    assert refused.code == 2 and "there are 100001, and a simulation has at most 4096" in refused.err


def test_more_tasks_than_a_simulation_holds_are_refused(solocore):
    solocore("plan", solocore.write("system.toml", system(4097)), "-o", "plan.json")
    done = solocore("sim", "plan.json", "--duration", "5 ms")
    assert done.code == 2
    assert done.err.splitlines()[-1].endswith(
        "tasks: there are 4097, and a simulation has at most 4096; join tasks with equal periods, or simulate parts of the machine separately"
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


def test_a_plan_of_many_tasks_with_levels_names_cores_in_the_place_of_tasks(solocore):
    few, many = (solocore("plan", solocore.write(f"{n}.toml", levels(n)), "--format", "json").json() for n in (512, 513))
    assert few["schedulable"] and many["schedulable"]
    chosen = [{c["of"] for c in plan["mc2"]["choices"]} for plan in (few, many)]
    assert chosen[1] < chosen[0] and not any("t0" in of for of in chosen[1]), chosen[1]
    assert any(r.startswith("details: ") for r in many["reasons"]) and not any(r.startswith("details: ") for r in few["reasons"])
    core_of = {t["name"]: t["core"] for t in few["tasks"]}
    by_id = {p["id"]: p for p in many["promises"]}
    for promise in few["promises"]:
        other = by_id[promise["id"]]
        assert other["bound_of"] == []
        # Each task that a promise concerns is on one of its cores.
        assert {core_of[name] for name in promise["bound_of"]} <= set(other["bound_of_cores"]), promise["id"]
