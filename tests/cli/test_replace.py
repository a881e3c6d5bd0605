"""`solocore run --replace` on the machine that runs the tests, where this is allowed. Budgets under load are tested in a guest (tests/vm/guest/replace.sh)."""

import json
import os
import signal
import socket
from pathlib import Path

import pytest
from conftest import board_like_here, refused
from test_run import LEAVE, until_regulating
from test_ways import with_ways

PLANS = Path("/run/solocore.plan.sock")
TASKS = """
[[task]]
name = "video"
core = 0
period = "{period} ms"
wcet = "1 ms"
misses = 10
[[task]]
name = "batch"
core = 1
criticality = "D"
wcet = "1 ms"
misses = 1
"""


def system(budgets, period=100):
    """A system with these budgets in accesses per millisecond, of 64 bytes each."""
    cores = "".join(f'[[core]]\nid = {core}\nbandwidth = "{budget * 64} kB/s"\n' for core, budget in enumerate(budgets))
    head = 'platform = "machine.toml"\n[regulation]\npolicy = "memguard"\nperiod = "1 ms"\nshare = "explicit"\n'
    return head + cores + TASKS.format(period=period)


@pytest.fixture
def planned(solocore):
    """A directory with plan.json and night.json, which gives core 0 less and core 1 more."""
    cpus = board_like_here(solocore)
    solocore.plan(system([400] * cpus))
    solocore.write("night.toml", system([300, 500] + [400] * (cpus - 2)))
    assert solocore("plan", "night.toml", "-o", "night.json").code == 0
    solocore.cpus = cpus
    return solocore


@pytest.fixture
def running(planned):
    """A run of the plan, under way."""
    process = planned.start("run", "plan.json", *LEAVE, "--duration", "60 s", "-o", "run.json")
    until_regulating(process)
    planned.daemon = process
    yield planned
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def budgets(solocore):
    done = solocore("top", "--format", "json")
    assert done.code == 0, done.err
    return [core["budget"] for core in done.json()["cores"]]


def test_the_new_budgets_are_in_force_and_the_file_of_the_run_says_since_when(running):
    others = [400] * (running.cpus - 2)
    assert budgets(running) == [400, 400, *others]
    done = running("run", "night.json", "--replace")
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.decode().splitlines()]
    assert ["0", "400", "300"] in rows and ["1", "400", "500"] in rows, done.out
    assert b"plan night.json in force since" in done.out
    assert budgets(running) == [300, 500, *others]
    assert ", plan night.json since " in running("top", "--count", "1", "--every", "50 ms").out.decode()
    running.daemon.send_signal(signal.SIGTERM)
    _, err = running.daemon.communicate(timeout=20)
    assert running.daemon.returncode == 0, err
    assert b"hands over to the plan night.json" in err and b"plan night.json in force since" in err
    run = json.loads((running.dir / "run.json").read_text())
    [handover] = run["handovers"]
    assert handover["plan"] == "night.json" and 0 < handover["begun_ns"] < handover["ended_ns"] < run["duration_ns"]
    assert handover["cores"] == [{"cpu": 0, "before": 400, "budget": 300}, {"cpu": 1, "before": 400, "budget": 500}]
    assert [core["budget_accesses"] for core in run["plan"]["cores"]] == [300, 500, *others]
    assert running("report", "run.json", "-o", "run.html").code == 0
    assert "plan night.json in force since" in (running.dir / "run.html").read_text()


def test_what_a_run_cannot_take_changes_nothing(running):
    before = budgets(running)
    running.write("other.toml", system(before, period=50))
    assert running("plan", "other.toml", "-o", "other.json").code == 0
    refused(running("run", "other.json", "--replace"), "tasks.video.deadline_ns (100000000, now 50000000)", "end the run", codes=(3,))
    # This run does not divide the cache.
    plan = json.loads((running.dir / "night.json").read_text())
    plan = with_ways(plan, [plan["cores"][0]["ways"] - 1, plan["cores"][1]["ways"] + 1, *(core["ways"] for core in plan["cores"][2:])])
    running.write("ways.json", json.dumps(plan))
    refused(running("run", "ways.json", "--replace"), "cores.0.", "--resctrl", "end the run", codes=(3,))
    running.write("cut.json", (running.dir / "night.json").read_text()[:-9])
    refused(running("run", "cut.json", "--replace"), "cut.json", codes=(2,))
    # A client that stalls, and one that dies half-way.
    with socket.socket(socket.AF_UNIX) as stalls:
        stalls.connect(str(PLANS))
        stalls.sendall(b"night.json\n{")
        with socket.socket(socket.AF_UNIX) as dies:
            dies.connect(str(PLANS))
            dies.sendall(b"night.json\n" + (running.dir / "night.json").read_bytes()[:500])
        assert budgets(running) == before
        assert running("run", "night.json", "--replace").code == 0
    assert budgets(running)[:2] == [300, 500]


def test_a_budget_far_from_the_present_one_gets_a_sample_of_its_own(running):
    # With the sample of 400, which is 50, it would be 100.
    running.write("odd.toml", system([400, 149] + [400] * (running.cpus - 2)))
    assert running("plan", "odd.toml", "-o", "odd.json").code == 0
    done = running("run", "odd.json", "--replace")
    assert done.code == 0, done.err
    assert budgets(running) == [400, 147] + [400] * (running.cpus - 2)
    running.daemon.send_signal(signal.SIGTERM)
    _, err = running.daemon.communicate(timeout=20)
    assert running.daemon.returncode == 0, err
    core = json.loads((running.dir / "run.json").read_text())["cores"][1]
    assert (core["planned"], core["budget"], core["sample"], core["tolerance"]) == (149, 147, 21, 21)


def test_best_effort_that_the_run_does_not_start_may_differ(running):
    more = '[[task]]\nname = "logger"\ncore = 1\ncriticality = "D"\nwcet = "2 ms"\nmisses = 1\n'
    running.write("more.toml", system([300, 500] + [400] * (running.cpus - 2)).replace("batch", "backup") + more)
    assert running("plan", "more.toml", "-o", "more.json").code == 0
    done = running("run", "more.json", "--replace")
    assert done.code == 0, done.err
    assert budgets(running)[:2] == [300, 500]
    running.daemon.send_signal(signal.SIGTERM)
    _, err = running.daemon.communicate(timeout=20)
    assert running.daemon.returncode == 0, err
    run = json.loads((running.dir / "run.json").read_text())
    assert [task["name"] for task in run["tasks"]] == ["video", "backup", "logger"]
    assert running("report", "run.json", "-o", "run.html").code == 0


def test_names_and_dates_are_no_difference(running):
    plan = json.loads((running.dir / "night.json").read_text())
    plan["platform"]["title"] = "The board in the lab"
    running.write("named.json", json.dumps(plan))
    assert running("run", "named.json", "--replace").code == 0
    assert budgets(running)[:2] == [300, 500]


def test_only_root_and_the_user_of_the_run_may_connect(running):
    mode = PLANS.stat()
    assert (mode.st_mode & 0o777, mode.st_uid) == (0o600, os.geteuid())


def test_without_a_run_there_is_nothing_to_replace(planned):
    refused(planned("run", "night.json", "--replace"), "no solocore regulates this machine", codes=(3,))


@pytest.mark.parametrize("option", [("--start",), ("--duration", "1 s"), ("-o", "run.json"), ("--partial",), ("--dry-run",)])
def test_options_stay_those_of_the_run(planned, option):
    done = planned("run", "night.json", "--replace", *option)
    spelt = "--output" if option[0] == "-o" else option[0]
    refused(done, f"{spelt} has no effect with --replace", codes=(2,))
    assert not (planned.dir / "run.json").exists()
