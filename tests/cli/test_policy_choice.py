"""`policy = "any"`: the planner takes budgets, a lock that jobs hold, or dynamic budgets.

What each of them promises is tested where it stands; here is the choice: it is the best of the three plans, by its own numbers and in the
simulator, and what is refused.
"""

import json

import pytest
from conftest import refused

BOARD = "core-i5-2500k"
POLICIES = {"memguard": "", "bwlock": 'lock = "jobs"', "dynamic": ""}
# Short analysed jobs that read much, beside programs that read more: budgets would hold these down all the time.
SHORT = """
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
wcet = "1 ms"
misses = 15000
[[task]]
name = "log"
criticality = "D"
wcet = "1 ms"
misses = 15000
"""
# Analysed jobs take most of the time, on two cores.
LONG = """
[[task]]
name = "video"
period = "20 ms"
wcet = "9 ms"
misses = 9000
[[task]]
name = "control"
period = "10 ms"
wcet = "4 ms"
misses = 2000
[[task]]
name = "net"
criticality = "D"
wcet = "1 ms"
misses = 1000
"""
# Nothing but analysed tasks.
HARD = """
[[task]]
name = "video"
period = "10 ms"
wcet = "2 ms"
misses = 4000
[[task]]
name = "control"
period = "20 ms"
wcet = "5 ms"
misses = 9000
"""


def text(tasks, policy="any", more=""):
    return f'platform = "{BOARD}"\n[regulation]\npolicy = "{policy}"\n{more}\n{tasks}'


def stated(solocore, tasks, more=""):
    """The plans under each policy, by its name; `more` is for budgets."""
    plans = {}
    for policy, keys in POLICIES.items():
        solocore.write("system.toml", text(tasks, policy, keys or (more if policy == "memguard" else "")))
        done = solocore("plan", "system.toml", "-o", f"{policy}.json", "--format", "json")
        assert done.code in (0, 1), done.err
        plans[policy] = done.json()
    return plans


def without(plan, *keys):
    return {key: value for key, value in plan.items() if key not in keys}


def value(plan, objective):
    if not plan["schedulable"]:
        return -1e9
    hard = [t for t in plan["tasks"] if t["criticality"] != "D"]
    return {"best_effort": lambda: plan["best_effort_speed"],
            "margin": lambda: -max(t["wcrt_ns"] / t["deadline_ns"] for t in hard),
            "bounds": lambda: -max(t["c_sce_ns"] / t["wcet_ns"] for t in hard)}[objective]()


@pytest.mark.parametrize("tasks, objective", [
    (SHORT, "best_effort"), (LONG, "best_effort"), (HARD, "margin"), (SHORT, "margin"), (SHORT, "bounds"), (LONG, "bounds")])
def test_it_is_the_best_plan_of_the_three(solocore, tasks, objective):
    more = f'objective = "{objective}"'
    plans = stated(solocore, tasks, more)
    values = {policy: value(plan, objective) for policy, plan in plans.items()}
    best = max(values, key=values.get)
    plan = solocore.plan(text(tasks, more=more))
    assert plan["regulation"]["policy"] == best, values
    # The very plan that the policy has alone; inputs are of another file.
    assert plan["reasons"][0].startswith(f"policy: {best}") and plan["reasons"][1:] == plans[best]["reasons"]
    assert without(plan, "reasons", "inputs") == without(plans[best], "reasons", "inputs")
    for policy in plans:
        assert policy in plan["reasons"][0]


def test_the_systems_differ_in_what_is_best(solocore):
    """Or the test above could not fail for a planner that always takes the same."""
    taken = {solocore.plan(text(tasks, more=more))["regulation"]["policy"]
             for tasks, more in [(SHORT, ""), (LONG, ""), (SHORT, 'objective = "bounds"')]}
    assert len(taken) > 1, taken


def test_best_effort_does_more_in_the_simulator(solocore):
    """Jobs of both best-effort programs, under the policy that is taken and under budgets, which the file would have by default."""
    plans = stated(solocore, SHORT)
    taken = solocore.plan(text(SHORT))["regulation"]["policy"]
    assert taken != "memguard" and plans["memguard"]["schedulable"]
    done = {}
    for policy in (taken, "memguard"):
        result = solocore.sim(f"{policy}.json", "--duration", "200 ms")
        tasks = {t["name"]: t for t in result["tasks"]}
        assert all(tasks[name]["misses_deadline"] == 0 for name in ("video", "control"))
        done[policy] = tasks["net"]["jobs"] + tasks["log"]["jobs"]
    assert done[taken] > 1.5 * done["memguard"], done


def slowest(plan):
    """The largest bound on an execution beside the other cores, as a multiple of the time alone."""
    return max(t["c_sce_ns"] / t["wcet_ns"] for t in plan["tasks"] if t["criticality"] != "D")


@pytest.mark.parametrize("policy, keys, missed", [("bwlock", 'lock = "jobs"\n', "slowdown: no lock_bandwidth keeps all bounds within 1 times"),
                                                  ("dynamic", "", "slowdown: the bounds of ")])
def test_the_lock_and_dynamic_budgets_keep_a_wanted_slowdown(solocore, policy, keys, missed):
    free = solocore.plan(text(SHORT, policy, keys))
    wish = round(1 + (slowest(free) - 1) / 2, 2)
    kept = solocore.plan(text(SHORT, policy, f"{keys}slowdown = {wish}"))
    assert slowest(kept) <= wish + 1e-6 < slowest(free)
    assert kept["schedulable"] and 0 < kept["best_effort_speed"] < free["best_effort_speed"]
    # It is no more strict than it has to be: a little more, and best effort has more.
    assert slowest(kept) > 1 + 0.9 * (wish - 1)
    none = solocore.plan(text(SHORT, policy, f"{keys}slowdown = 1.0"))
    assert none["schedulable"] and any(r.startswith(missed) for r in none["reasons"]), none["reasons"]


def test_the_wanted_slowdown_comes_before_the_objective(solocore):
    """Without it, dynamic budgets let a job take longer."""
    free = solocore.plan(text(SHORT))
    assert free["regulation"]["policy"] == "dynamic" and slowest(free) > 3
    plan = solocore.plan(text(SHORT, more="slowdown = 3.0"))
    assert slowest(plan) <= 3 + 1e-6 and plan["best_effort_speed"] < free["best_effort_speed"], plan["reasons"][0]
    # Nothing keeps this one, whatever the policy.
    none = solocore.plan(text(SHORT, more="slowdown = 1.0"))
    assert none["reasons"][0].count("the wanted slowdown is missed") == 3, none["reasons"][0]


def test_prices_and_repair(solocore):
    solocore.write("system.toml", text(SHORT, more='objective = "bounds"'))
    done = solocore("plan", "system.toml", "--explain", "-o", "plan.json", "--format", "json")
    choice = done.json()["choices"][0]
    assert choice["of"] == "policy" and choice["chosen"] == done.json()["regulation"]["policy"] and choice["next_best"]
    # Nothing meets this deadline; the advice does, under some policy.
    late = SHORT.replace('period = "10 ms"', 'period = "10 ms"\ndeadline = "1.1 ms"')
    plan = solocore.plan(text(late), code=1)
    assert plan["regulation"]["policy"] == "memguard" and plan["reasons"][0].count("a deadline is missed") == 3
    advice = next(r for r in plan["repair"] if r["change"] == "task.control.deadline")
    again = solocore("plan", "system.toml", "--what-if", f"{advice['change']}={advice['value']}")
    assert again.code == 0, again.err


def test_no_plan_leaves_the_policy_open(solocore):
    plan = solocore.plan(text(SHORT))
    plan["regulation"]["policy"] = "any"
    solocore.write("open.json", json.dumps(plan))
    refused(solocore("sim", "open.json"), "open.json", "policy")


@pytest.mark.parametrize("more, words", [
    ('share = "even"', ["policy", "any", "share"]),
    ('[[core]]\nid = 0\nbandwidth = "100 MB/s"', ["policy", "any", "[[core]]"]),
    ('lock_bandwidth = "100 MB/s"', ["lock_bandwidth", "bwlock"]),
    ('objective = "max_min"', ["objective", "dynamic"]),
    ("skid = 100", ["skid", "memguard"]),
])
def test_what_is_refused(solocore, more, words):
    solocore.write("system.toml", text(SHORT, more=more))
    refused(solocore("plan", "system.toml"), *words)


def test_the_advice_names_it_where_only_another_policy_will_do(solocore):
    """Budgets miss a deadline that dynamic budgets meet."""
    hard = [(20, 6766, 54129), (33, 12381, 24761), (50, 28674, 57347)]
    tasks = "".join(f'[[task]]\nname = "t{i}"\nperiod = "{p} ms"\nwcet = "{c} us"\nmisses = {m}\n' for i, (p, c, m) in enumerate(hard))
    tasks += "".join(f'[[task]]\nname = "d{i}"\ncriticality = "D"\nwcet = "1 ms"\nmisses = {m}\n' for i, m in enumerate((15000, 500, 500)))
    plan = solocore.plan(text(tasks, "memguard"), code=1)
    advice = [r for r in plan["repair"] if r["change"] == "regulation.policy"]
    assert [(r["value"], r["verified"]) for r in advice] == [("any", True)], plan["repair"]
    done = solocore("plan", "system.toml", "--what-if", "regulation.policy=any", "--format", "json")
    assert done.code == 0 and done.json()["regulation"]["policy"] == "dynamic", done.err
