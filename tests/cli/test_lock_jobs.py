"""`lock = "jobs"`: analysed tasks hold the bandwidth lock while they run, and response times count on it.

The bounds and their enemies are tested in crates (planner: job_lock, cli: attack); here are the keys, the simulator, a run's preview, and the
refusals. A run on Linux is tested in guests (tests/vm/lock.sh) and on the virtual board (test_verify.py).
"""

import json

import pytest
from conftest import refused

SYSTEM = """
platform = "core-i5-2500k"
[regulation]
policy = "{policy}"
{more}
[[task]]
name = "video"
period = "33.3 ms"
wcet = "6 ms"
misses = 40000
[[task]]
name = "control"
period = "10 ms"
wcet = "1 ms"
misses = 4000
[[task]]
name = "net"
criticality = "D"
core = 2
wcet = "1 ms"
misses = 15000
[[task]]
name = "log"
criticality = "D"
core = 3
wcet = "1 ms"
misses = 15000
"""


def text(policy="bwlock", more='lock = "jobs"'):
    return SYSTEM.format(policy=policy, more=more)


def by_name(result):
    return {task["name"]: task for task in result["tasks"]}


def test_every_deadline_is_met_and_the_budget_is_the_largest(solocore):
    plan = solocore.plan(text())
    assert plan["schedulable"] and plan["regulation"]["lock_reaction_ns"] == 200_000
    budget = plan["regulation"]["lock_budget_accesses"]
    more = solocore.plan(text(more=f'lock = "jobs"\nlock_bandwidth = "{(budget + 1) * 64} kB/s"'), code=1)
    assert not more["schedulable"] and "lock_reaction_ns" not in more["regulation"]
    assert any("the bounds do not count on the lock" in reason for reason in more["reasons"]), more["reasons"]


def test_bounds_hold_and_best_effort_gets_more_than_under_budgets(solocore):
    """Under budgets the two best-effort programs have the same accesses all the time, under the lock only while an analysed job runs."""
    solocore.plan(text("memguard", ""))
    budgets = solocore.sim("plan.json", "--duration", "100 ms")
    plan = solocore.plan(text())
    lock = solocore.sim("plan.json", "--duration", "100 ms")
    planned = by_name(plan)
    for name in ("video", "control"):
        seen = by_name(lock)[name]
        assert seen["jobs"] >= 3 and seen["misses_deadline"] == 0 and seen["max_response_ns"] <= planned[name]["wcrt_ns"], seen
    assert by_name(lock)["log"]["jobs"] > 3 * by_name(budgets)["log"]["jobs"]
    # Nobody is stopped on a core of analysed tasks alone, and both others are.
    throttled = [core["throttled_ns"] for core in lock["cores"]]
    assert throttled[0] == 0 and throttled[2] > 0 and throttled[3] > 0, throttled


def test_nobody_is_held_down_where_no_job_holds_the_lock(solocore):
    """Fails where the simulator limits other programs all the time, or where the plan's field means nothing to it."""
    plan = solocore.plan(text())
    held = solocore.sim("plan.json", "--duration", "100 ms")["cores"]
    plan["regulation"] = {k: v for k, v in plan["regulation"].items() if k != "lock_reaction_ns"}
    solocore.write("free.json", json.dumps(plan))
    free = solocore.sim("free.json", "--duration", "100 ms")["cores"]
    assert all(core["throttled_ns"] == 0 for core in free), free
    # Analysed jobs run for a quarter of the time, and the core that uses most memory is stopped in some part of that.
    part = held[3]["throttled_ns"] / 100e6
    assert 0.05 < part < 0.35, held


def test_a_plan_with_budgets_says_what_the_lock_would_leave(solocore):
    [said] = [reason for reason in solocore.plan(text("memguard", ""))["reasons"] if reason.startswith("lock: ")]
    assert 'lock = "jobs"' in said and "% of the speed alone" in said
    alone = text("memguard", "").split('[[task]]\nname = "net"')[0]
    assert not any(reason.startswith("lock: ") for reason in solocore.plan(alone)["reasons"]), "there is no best effort"


def test_a_report_says_that_response_times_count_on_it(solocore):
    solocore.plan(text())
    assert solocore("sim", "plan.json", "--duration", "20 ms", "-o", "managed.json").code == 0
    assert solocore("report", "plan.json", "managed.json", "-o", "report.html").code == 0
    assert "response times count on it" in (solocore.dir / "report.html").read_text()


@pytest.mark.parametrize("change, words", [
    ({"policy": "memguard"}, ("lock", 'policy = "bwlock"')),
    ({"more": 'lock = "always"'}, ("always", "jobs")),
    ({"more": 'lock = "jobs"\nmodel = "sce"'}, ("lock", 'model = "sound"')),
    ({"more": 'lock = "jobs"\nlock_bandwidth = "1 kB/s"'}, ("lock_bandwidth", "raise it")),
])
def test_what_cannot_be_held_is_refused(solocore, change, words):
    solocore.write("system.toml", text(**change))
    refused(solocore("plan", "system.toml"), *words)
