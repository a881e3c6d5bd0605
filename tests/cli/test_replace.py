"""`solocore run --replace` on the machine that runs the tests, where this is allowed. Budgets under load are tested in a guest (tests/vm/guest/replace.sh)."""

import contextlib
import json
import os
import signal
import socket
import time
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


def until(holds):
    """Waits until it holds, for ten seconds at most."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


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
    running.write("other.toml", system(before).replace('period = "1 ms"', 'period = "2 ms"'))
    assert running("plan", "other.toml", "-o", "other.json").code == 0
    refused(running("run", "other.json", "--replace"), "regulation.period_ns (1000000, now 2000000)", "end the run", codes=(3,))
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


def by_two_plans(solocore, mixed, **others):
    """The run goes over to the other systems, one after the other, and first refuses one in which some things grow and others shrink."""
    for name, text in {"mixed": mixed, **others}.items():
        solocore.write(f"{name}.toml", text)
        assert solocore("plan", f"{name}.toml", "-o", f"{name}.json").code == 0
        done = solocore("run", f"{name}.json", "--replace")
        if name == "mixed":
            refused(done, "neither plan bounds a job on core 0", "two plans", codes=(3,))
        else:
            assert done.code == 0, done.err


def test_analysed_tasks_that_the_run_does_not_start_begin_end_and_need_other_times(planned):
    audio = '[[task]]\nname = "audio"\ncore = 0\nperiod = "200 ms"\nwcet = "1 ms"\nmisses = 10\n'
    base = system([400] * planned.cpus)
    less = base.replace('wcet = "1 ms"', 'wcet = "500 us"', 1)
    process = planned.start("run", "plan.json", *whole(planned), "--duration", "60 s", "-o", "run.json")
    try:
        until_regulating(process)
        by_two_plans(planned, mixed=less + audio, less=less, more=less + audio, without=audio_alone(base, audio))
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    run = json.loads((planned.dir / "run.json").read_text())
    assert [Path(handover["plan"]).stem for handover in run["handovers"]] == ["less", "more", "without"]
    assert [task["name"] for task in run["tasks"]] == [task["name"] for task in run["plan"]["tasks"]] == ["audio", "batch"]
    # The longest bound of all plans that it was in.
    bounds = [next(t for t in json.loads((planned.dir / f"{name}.json").read_text())["tasks"] if t["name"] == "audio")["wcrt_ns"] for name in ("more", "without")]
    assert run["tasks"][0]["bound_ns"] == max(bounds) > min(bounds)


def audio_alone(base, audio):
    """The system without its task `video`, and with this one in its place."""
    before, rest = base.split("[[task]]", 1)
    return before + audio + "[[task]]" + rest.split("[[task]]", 1)[1]


@pytest.mark.parametrize("change, said", [
    (('period = "100 ms"', 'period = "90 ms"'), "tasks.video."),
    (('name = "video"', 'name = "camera"'), "its tasks (`"),
])
def test_a_task_that_the_run_starts_keeps_its_place_and_its_period(planned, change, said):
    process = planned.start("run", "plan.json", *LEAVE, "--command", "video=sleep 0.001", "--duration", "60 s")
    try:
        until_regulating(process)
        text = system([300, 500] + [400] * (planned.cpus - 2))
        assert text != text.replace(*change, 1)
        planned.write("other.toml", text.replace(*change, 1))
        assert planned("plan", "other.toml", "-o", "other.json").code == 0
        before = budgets(planned)
        refused(planned("run", "other.json", "--replace"), said, "end the run", codes=(3,))
        assert budgets(planned) == before
        # Its demand is another matter.
        planned.write("more.toml", text.replace('wcet = "1 ms"', 'wcet = "2 ms"', 1))
        assert planned("plan", "more.toml", "-o", "more.json").code == 0
        done = planned("run", "more.json", "--replace")
        assert done.code == 0, done.err
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


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


def other_policy(policy, keys="", task_keys=""):
    """A system of an analysed task on core 0, with the lock or dynamic budgets, and best effort on core 1."""
    head = f'platform = "machine.toml"\n[regulation]\npolicy = "{policy}"\nperiod = "1 ms"\n{keys}\n'
    return head + TASKS.format(period=100).replace("misses = 10", f"misses = 10\n{task_keys}")


@contextlib.contextmanager
def going_over(solocore, old, new):
    """A run of one system, which goes over to another one: the answer, and a call that ends the run and gives its file."""
    solocore.plan(old)
    solocore.write("new.toml", new)
    assert solocore("plan", "new.toml", "-o", "new.json").code == 0
    process = solocore.start("run", "plan.json", *whole(solocore), "--duration", "60 s", "-o", "run.json")

    def end():
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
        return json.loads((solocore.dir / "run.json").read_text())

    try:
        until_regulating(process)
        yield solocore("run", "new.json", "--replace"), end
    finally:
        process.kill()
        process.wait()


def test_budgets_beside_the_lock_change_while_it_is_held(planned):
    lock = lambda budget: other_policy("bwlock", f'lock_bandwidth = "{budget * 64} kB/s"')
    planned.plan(lock(400))
    process = planned.start("run", "plan.json", *LEAVE, "--duration", "60 s", "-o", "run.json")
    holder = None
    try:
        until_regulating(process)
        holder = planned.start("exec", "--lock", "--core", 0, "--", "sh", "-c", "while :; do :; done")
        until(lambda: any(c["depth"] > 0 or c["scope"] == "program" for c in planned("top", "--format", "json").json()["lock"]["clients"]))
        for budget in (100, 3000):
            planned.write("new.toml", lock(budget))
            assert planned("plan", "new.toml", "-o", "new.json").code == 0
            done = planned("run", "new.json", "--replace")
            assert done.code == 0, done.err
            assert budgets(planned) == [budget] * planned.cpus
    finally:
        if holder:
            holder.kill()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    run = json.loads((planned.dir / "run.json").read_text())
    assert [handover["cores"][1]["budget"] for handover in run["handovers"]] == [100, 3000]
    assert run["plan"]["regulation"]["lock_budget_accesses"] == 3000


def test_the_policy_stays(planned):
    with going_over(planned, other_policy("bwlock", 'lock_bandwidth = "64 MB/s"'), system([400] * planned.cpus)) as (done, end):
        refused(done, "regulation.policy", "end the run", codes=(3,))
        assert "handovers" not in end()


def test_dynamic_budgets_change_from_the_next_job_on(planned):
    dynamic = lambda budget: other_policy("dynamic", task_keys=f"soft_budget = {budget * (planned.cpus - 1)}")
    with going_over(planned, dynamic(3000), dynamic(1000)) as (done, end):
        assert done.code == 0, done.err
        rows = [line.split() for line in done.out.decode().splitlines()]
        assert ["video", "3000", "1000"] == next(row for row in rows if row[:1] == ["video"])[:3], done.out
        run = end()
    [handover] = run["handovers"]
    [video] = handover["tasks"]
    assert (video["task"], video["before"], video["budget"]) == ("video", 3000, 1000)
    assert video["length_ns"] < video["length_before_ns"]
    [planned_task] = [task for task in run["plan"]["tasks"] if task["name"] == "video"]
    assert planned_task["soft_budget_length_ns"] == video["length_ns"]
    # The bound of the run is the weaker one.
    bounds = [json.loads((planned.dir / name).read_text())["tasks"][0]["wcrt_ns"] for name in ("plan.json", "new.json")]
    assert bounds[0] > bounds[1]
    assert run["tasks"][0]["bound_ns"] == bounds[0]


def whole(solocore):
    """Options of a run that is not partial: the user vouches for all promises."""
    subjects = sorted({promise["subject"] for promise in json.loads((solocore.dir / "plan.json").read_text())["promises"]})
    return *(word for word in LEAVE if word != "--partial"), *(word for subject in subjects for word in ("--vouch", subject))


def test_dynamic_budgets_of_a_core_that_grow_and_shrink_together_are_refused(planned):
    def two(video, audio):
        base = other_policy("dynamic", task_keys=f"soft_budget = {video}")
        return base + f'[[task]]\nname = "audio"\ncore = 0\nperiod = "200 ms"\nwcet = "1 ms"\nmisses = 10\nsoft_budget = {audio}\n'

    planned.plan(two(3000, 3000))
    process = planned.start("run", "plan.json", *whole(planned), "--duration", "60 s")
    try:
        until_regulating(process)
        by_two_plans(planned, mixed=two(1000, 6000), less=two(1000, 3000), more=two(1000, 6000))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
