"""`solocore plan`: its JSON, the numbers of the SCE paper, placement and verdicts.

The expected bounds are computed here from the formulas, not by the code under test. Not covered: profiled tasks (see
test_profile.py and test_sim.py).
"""

import hashlib
import json
from unittest.mock import ANY

import pytest
from conftest import ROOT, refused

# Table 2 of the SCE paper: C_sce in ms.
TABLE_2 = {"disparity": 598.7, "localization": 158.5, "mser": 22.5, "tracking": 335.9, "multi-ncut": 761.7,
           "sift": 967.5, "texture": 1465.6}
TASK_KEYS = {"name", "core", "criticality", "wcet_ns", "misses", "stall_ns", "c_sce_ns", "wcrt_ns", "deadline_ns", "schedulable"}
CORE_KEYS = {"id", "ways", "budget_accesses", "bandwidth_bytes_per_s"}
L_MAX_NS, CORES = 49.6, 8


def task(name, wcet="1 ms", misses=100, period="100 ms", **more):
    lines = [f'name = "{name}"', f'wcet = "{wcet}"', f"misses = {misses}", f'period = "{period}"']
    lines += [f"{key} = {json.dumps(value)}" for key, value in more.items()]
    return "[[task]]\n" + "\n".join(lines) + "\n"


def system(*tasks, regulation="", head='platform = "p4080"\n'):
    return head + (f"[regulation]\n{regulation}\n" if regulation else "") + "".join(tasks)


def by_name(plan):
    return {t["name"]: t for t in plan["tasks"]}


def test_table_2_of_the_paper(solocore):
    done = solocore("plan", ROOT / "examples/sce-table2/system.toml", "--format", "json")
    assert done.code == 0, done.err
    plan = done.json()
    assert plan["schedulable"] is True
    assert [t["name"] for t in plan["tasks"]] == list(TABLE_2)
    for t in plan["tasks"]:
        assert t["c_sce_ns"] / 1e6 == pytest.approx(TABLE_2[t["name"]], abs=0.1)


def test_json_has_what_the_interface_promises(solocore):
    plan = solocore.plan(system(task("a", criticality="A"), task("b", core=3), task("d", criticality="D")))
    assert isinstance(plan["schedulable"], bool) and all(isinstance(r, str) for r in plan["reasons"])
    for t in plan["tasks"]:
        assert TASK_KEYS <= t.keys()
        assert t["c_sce_ns"] == t["wcet_ns"] + t["stall_ns"]
        assert t["wcrt_ns"] is None or t["wcrt_ns"] >= t["c_sce_ns"]
        assert t["wcet_ns"] == 1_000_000 and t["misses"] == 100 and t["deadline_ns"] == 100_000_000
    assert [c["id"] for c in plan["cores"]] == list(range(CORES))
    assert all(CORE_KEYS <= c.keys() for c in plan["cores"])
    assert sum(c["ways"] for c in plan["cores"]) <= 32
    tasks = by_name(plan)
    assert [t["criticality"] for t in plan["tasks"]] == ["A", "B", "D"] and tasks["b"]["core"] == 3
    assert tasks["d"]["wcrt_ns"] is None, "nothing is promised to best effort"


def test_file_and_stdout_hold_the_same_document(solocore):
    plan = solocore.plan(system(task("a")))
    assert json.loads((solocore.dir / "plan.json").read_text()) == plan
    assert solocore.files() == {"system.toml", "plan.json"}


def test_text_is_for_people_and_makes_no_file(solocore):
    solocore.write("system.toml", system(task("a")))
    done = solocore("plan", "system.toml")
    assert done.code == 0 and "schedulable" in done.out.decode() and solocore.files() == {"system.toml"}


def test_even_budget(solocore):
    """Q = floor(P / (m L_max)); as bandwidth Q lines a period."""
    plan = solocore.plan(system(task("a"), regulation='period = "500 us"\nmodel = "sce"'))
    budget = int(500_000 / (CORES * L_MAX_NS))
    assert {c["budget_accesses"] for c in plan["cores"]} == {budget}
    assert plan["cores"][0]["bandwidth_bytes_per_s"] == budget * 64 * 2000


def test_even_budgets_of_the_sound_model(solocore):
    """All cores have the same; with it, a job of as many accesses as a budget has ends in its period beside everybody else's."""
    plan = solocore.plan(system(task("a", core=0), task("d", core=1, criticality="D"), regulation='period = "500 us"\nshare = "even"'))
    budgets = {c["budget_accesses"] for c in plan["cores"]}
    assert len(budgets) == 1
    budget = budgets.pop()
    # Three others use the same channel; each of their accesses costs a row cycle of writes, 39 clocks of 1.5 ns.
    assert 200 < budget <= 500_000 / (3 * 39 * 1.5 + 58.5)
    assert plan["cores"][0]["bandwidth_bytes_per_s"] == budget * 64 * 2000
    assert plan["model"] == "sound"


def test_active_cores_share_among_themselves(solocore):
    plan = solocore.plan(system(task("a", misses=1000), regulation="active_cores = 2\ncarry_in = false"))
    assert len(plan["cores"]) == 2
    assert plan["cores"][0]["budget_accesses"] == int(1e6 / (2 * L_MAX_NS))
    assert by_name(plan)["a"]["stall_ns"] == pytest.approx(1000 * 2 * L_MAX_NS, abs=1)


@pytest.mark.parametrize("misses", [0, 1, 10, 2000])
def test_carry_in_costs_tasks_with_few_misses(solocore, misses):
    without, with_it = (
        by_name(solocore.plan(system(task("a", misses=misses), regulation=f"carry_in = {flag}")))["a"]
        for flag in ("false", "true"))
    assert without["c_sce_ns"] == pytest.approx(1_000_000 + misses * CORES * L_MAX_NS, abs=1)
    if misses:
        assert with_it["c_sce_ns"] > without["c_sce_ns"]
    assert with_it["wcrt_ns"] >= with_it["c_sce_ns"]


def test_carry_in_is_the_default(solocore):
    stated = solocore.plan(system(task("a"), regulation="carry_in = true"))
    assert solocore.plan(system(task("a"))) == {**stated, "inputs": ANY}


def test_a_plan_names_the_files_that_it_was_made_from(solocore):
    """As the user wrote them, with their SHA-256; a profile of two tasks once."""
    solocore.write("board.toml", (ROOT / "platforms/p4080.toml").read_text())
    assert solocore("profile", "--platform", "board.toml", "-o", "p.json", "--", "true").code == 0
    two = "".join(f'[[task]]\nname = "{n}"\nperiod = "1 s"\nprofile = "./p.json"\n' for n in "ab")
    text = f'platform = "./board.toml"\n{two}'
    solocore.write("system.toml", text)

    def inputs(*more):
        done = solocore("plan", "./system.toml", *more, "-o", "plan.json")
        assert done.code == 0, done.err
        return json.loads((solocore.dir / "plan.json").read_text())["inputs"]

    expect = [{"role": role, "file": f"./{name}", "sha256": hashlib.sha256((solocore.dir / name).read_bytes()).hexdigest()}
              for role, name in (("system", "system.toml"), ("platform", "board.toml"), ("profile", "p.json"))]
    assert inputs() == expect
    assert inputs("--what-if", "task.a.period=2 s") == expect, "the file, not its changes"
    solocore.write("system.toml", text.replace("./board.toml", "p4080") + "# changed\n")
    changed = inputs()
    assert [i["role"] for i in changed] == ["system", "profile"] and changed[0]["sha256"] != expect[0]["sha256"]


def test_explicit_shares(solocore):
    cores = '[[core]]\nid = 0\nbandwidth = "640 MB/s"\n[[core]]\nid = 1\nbandwidth = "64 MB/s"\n'
    plan = solocore.plan(system(cores, task("rich", core=0, misses=5000), task("poor", core=1, misses=5000, period="1 s"),
                                regulation='share = "explicit"'))
    budgets = [c["budget_accesses"] for c in plan["cores"]]
    assert budgets[:2] == [10_000, 1_000]
    assert len(set(budgets[2:])) == 1 and sum(budgets) <= 1e6 / L_MAX_NS
    tasks = by_name(plan)
    assert tasks["poor"]["c_sce_ns"] > tasks["rich"]["c_sce_ns"]
    # 5,000 accesses at 1,000 a period take four full periods at the very least.
    assert tasks["poor"]["c_sce_ns"] >= 4_000_000


def test_too_much_bandwidth_is_refused(solocore):
    solocore.write("system.toml", system('[[core]]\nid = 0\nbandwidth = "2 GB/s"\n', task("a"), regulation='share = "explicit"'))
    done = solocore("plan", "system.toml", "-o", "plan.json")
    assert done.code == 2 and "system.toml" in done.err and len(done.err.splitlines()) == 1
    assert solocore.files() == {"system.toml"}


def test_worst_fit_spreads(solocore):
    plan = solocore.plan(system(*(task(f"t{i}", wcet=f"{10 + i} ms") for i in range(8))))
    assert {t["core"] for t in plan["tasks"]} == set(range(CORES))


def test_worst_fit_puts_a_pair_on_the_least_loaded_core(solocore):
    plan = solocore.plan(system(*(task(f"t{i}", wcet=f"{20 + i} ms") for i in range(9))))
    tasks = by_name(plan)
    # Heaviest first: the ninth, t0, joins the lightest of the eight placed, t1.
    assert tasks["t0"]["core"] == tasks["t1"]["core"]


def test_stated_core_is_kept(solocore):
    plan = solocore.plan(system(*(task(f"t{i}", core=5, wcet="5 ms") for i in range(3)), task("free", wcet="5 ms")))
    assert [t["core"] for t in plan["tasks"][:3]] == [5, 5, 5] and plan["tasks"][3]["core"] != 5


def test_rate_monotonic_response_times(solocore):
    """No misses, no carry-in: 10; 20 + 10 = 30; 15 + 20 + 10 = 45, before hi comes again at 50."""
    plan = solocore.plan(system(task("hi", wcet="10 ms", misses=0, period="50 ms", core=0),
                                task("mid", wcet="20 ms", misses=0, period="100 ms", core=0),
                                task("lo", wcet="15 ms", misses=0, period="200 ms", core=0),
                                regulation="carry_in = false"))
    assert [t["wcrt_ns"] for t in plan["tasks"]] == [10_000_000, 30_000_000, 45_000_000]


def test_stated_priorities_turn_it_round(solocore):
    plan = solocore.plan(system(task("short", wcet="10 ms", misses=0, period="50 ms", core=0, priority=2),
                                task("long", wcet="20 ms", misses=0, period="100 ms", core=0, priority=1),
                                regulation="carry_in = false"))
    assert [t["wcrt_ns"] for t in plan["tasks"]] == [30_000_000, 20_000_000]


def test_unschedulable_says_so(solocore):
    plan = solocore.plan(system(task("fine", core=0), task("late", core=1, misses=10_000, deadline="2 ms")), code=1)
    tasks = by_name(plan)
    assert plan["schedulable"] is False
    assert tasks["fine"]["schedulable"] is True and tasks["late"]["schedulable"] is False
    assert any("late" in r for r in plan["reasons"])
    assert (solocore.dir / "plan.json").exists(), "a negative answer is an answer"


def test_overload_is_unbounded(solocore):
    plan = solocore.plan(system(*(task(f"t{i}", core=0, wcet="60 ms") for i in range(2))), code=1)
    assert plan["tasks"][1]["wcrt_ns"] is None and plan["tasks"][1]["schedulable"] is False


def test_best_effort_never_makes_a_system_unschedulable(solocore):
    plan = solocore.plan(system(*(task(f"t{i}", core=0, wcet="90 ms", criticality="D") for i in range(3))))
    assert plan["schedulable"] is True


def test_without_regulation_there_are_no_budgets(solocore):
    a = task("a", misses=1000, core=0)
    papers = solocore.plan(system(a, regulation='policy = "none"\nmodel = "sce"'))
    assert {c["budget_accesses"] for c in papers["cores"]} == {None}
    # Each access may wait for one of every other core.
    assert by_name(papers)["a"]["stall_ns"] >= 1000 * (CORES - 1) * L_MAX_NS - 1
    alone, beside = (by_name(solocore.plan(system(a, *more, regulation='policy = "none"')))["a"]["stall_ns"]
                     for more in ([], [task("d", core=1, criticality="D")]))
    # Nobody else is there; and beside anything, each access may wait for two drains of 32 writes, 58.5 ns each.
    assert alone < 200_000 and 1000 * 63 * 58 < beside < 1000 * 10_000


def test_without_turns_there_is_no_bound(solocore):
    preset = solocore("platforms", "p4080").out.decode()
    solocore.write("board.toml", preset + 'row_hit_cap = "off"\n')
    plan = solocore.plan(system(task("a", core=0, misses=1000), task("d", core=1, criticality="D"), head='platform = "board.toml"\n',
                                regulation='policy = "none"'), code=1)
    a = by_name(plan)["a"]
    assert a["verdict"] == "no bound" and a["wcrt_ns"] is None and not plan["schedulable"]
    assert any("memguard" in reason for reason in plan["reasons"])


def test_platform_file_beside_the_system(solocore):
    preset = solocore("platforms", "p4080").out.decode()
    solocore.write("board.toml", preset.replace("cores = 8", "cores = 2", 1))
    plan = solocore.plan(system(task("a"), head='platform = "board.toml"\n'))
    assert len(plan["cores"]) == 2


def test_all_presets_plan(solocore):
    rows = solocore("platforms").out.decode().splitlines()[1:]
    names = [row.split()[0] for row in rows if row.strip() and row.split()[0][0].isalnum()]
    assert {"p4080", "imx6q", "xeon-w3530"} <= set(names)
    for name in names:
        assert solocore.plan(system(task("a"), head=f'platform = "{name}"\n'))["schedulable"] is True


def test_more_misses_or_cores_never_help(solocore):
    bounds = [by_name(solocore.plan(system(task("a", misses=m), regulation=f"active_cores = {n}")))["a"]["c_sce_ns"]
              for n in (2, 4, 8) for m in (10, 1000, 10_000)]
    assert bounds[0:3] == sorted(bounds[0:3]) and bounds[3:6] == sorted(bounds[3:6]) and bounds[6:] == sorted(bounds[6:])
    assert bounds[2] <= bounds[5] <= bounds[8]


def test_a_lock_changes_no_bound(solocore):
    """Bounds under the bandwidth lock are those without regulation: nobody knows when it is held."""
    free = solocore.plan(spread_system(regulation='policy = "none"'))
    locked = solocore.plan(spread_system(regulation='policy = "bwlock"\nlock_bandwidth = "64 MB/s"'))
    assert [t["wcrt_ns"] for t in locked["tasks"]] == [t["wcrt_ns"] for t in free["tasks"]]
    # 64 bytes an access, a period of 1 ms.
    assert locked["regulation"]["lock_budget_accesses"] == 1000
    assert "lock_budget_accesses" not in free["regulation"]
    assert any("1000 accesses per period" in r for r in locked["reasons"])
    assert locked["reasons"][-1].startswith("verdict: ")


def test_plans_are_deterministic(solocore):
    text = system(*(task(f"t{i}", wcet="5 ms") for i in range(20)))
    assert solocore.plan(text) == solocore.plan(text)


def spread_system(edits=None, **regulation):
    """Three tasks on a core and one elsewhere; `edits` overrides numbers of tasks by name."""
    numbers = {"hi": ("1 ms", 2000, "10 ms"), "mid": ("3 ms", 9000, "40 ms"), "lo": ("9 ms", 20_000, "100 ms"),
               "far": ("5 ms", 100, "50 ms")}
    numbers |= edits or {}
    return system(*(task(name, wcet=w, misses=m, period=p, core=int(name == "far")) for name, (w, m, p) in numbers.items()),
                  **regulation)


# Even budgets are chosen again for other numbers; stated ones stay.
STATED = 'share = "explicit"\n[[core]]\nid = 7\nbandwidth = "100 MB/s"'


@pytest.mark.parametrize("regulation", [STATED, "carry_in = false", 'policy = "none"\nmodel = "sce"'])
def test_margins_are_the_edge(solocore, regulation):
    """With a task at its margin the system is schedulable; just beyond it is not."""
    plan = solocore.plan(spread_system(regulation=regulation))
    assert plan["schedulable"]
    for name, misses, period in (("hi", 2000, "10 ms"), ("mid", 9000, "40 ms"), ("lo", 20_000, "100 ms")):
        margin = by_name(plan)[name]["margin"]
        assert solocore.plan(spread_system({name: (f"{margin['wcet_ns']} ns", misses, period)}, regulation=regulation))["schedulable"]
        solocore.plan(spread_system({name: (f"{margin['wcet_ns'] + 1} ns", misses, period)}, regulation=regulation), code=1)
        assert margin["misses"] > misses


def test_margins_of_a_core(solocore):
    plan = solocore.plan(spread_system(regulation=STATED))
    core = plan["cores"][0]["margin"]
    ratios = {t["name"]: t["margin"]["wcet_ns"] / t["wcet_ns"] for t in plan["tasks"] if t["core"] == 0}
    assert core["critical_task"] == min(ratios, key=ratios.get)
    assert 1000 < core["wcets_permille"] <= 1000 * min(ratios.values())
    assert core["misses_permille"] > 1000
    assert 0 < core["least_budget_accesses"] <= plan["cores"][0]["budget_accesses"]
    assert plan["cores"][2]["margin"] is None
    grown = {n: (f"{int(t['wcet_ns'] * core['wcets_permille'] / 1000)} ns", t["misses"], f"{t['period_ns']} ns")
             for n, t in by_name(plan).items() if t["core"] == 0}
    assert solocore.plan(spread_system(grown, regulation=STATED))["schedulable"]


def test_a_system_that_fails_has_no_margins(solocore):
    plan = solocore.plan(system(task("a", wcet="60 ms", core=0), task("b", wcet="60 ms", core=0)), code=1)
    assert not plan["schedulable"]
    assert [t["margin"] for t in plan["tasks"]] == [None, None] and plan["cores"][0]["margin"] is None


def test_derivations_add_up(solocore):
    """The terms of each response time, added up here, make the response time."""
    plan = solocore.plan(spread_system())
    for t in plan["tasks"]:
        d = t["derivation"]
        given = {term["name"]: term["value"] for term in d["inputs"]}
        steps = {term["name"]: term["value"] for term in d["steps"]}
        work = sum(value for name, value in steps.items() if name.startswith("n_") and name.endswith(" ps"))
        total = given["once ps"] + given["C_i ps"] + work + steps["stall ps"]
        assert total == steps["W_0 ps"] and -(-total // 1000) == t["wcrt_ns"]
        assert steps["R_i <= D_i"] is True and len(d["because"]) == 2
    assert json.dumps(plan["tasks"][2]["derivation"]).count("D: others in one period ps") == 1


def test_explain_is_for_people(solocore):
    (solocore.dir / "system.toml").write_text(spread_system())
    plain, explained = (solocore("plan", "system.toml", *more) for more in ([], ["--explain"]))
    assert "given C_i ps" in explained.out.decode() and "given C_i ps" not in plain.out.decode()
    assert "margin: core 0: all execution times may grow by" in plain.out.decode()


DYNAMIC = 'policy = "dynamic"'


def dynamic_system(*hard, soft=2, regulation=DYNAMIC, **more):
    best_effort = [task(f"soft{i}", misses=1000, criticality="D") for i in range(soft)]
    return system(*hard, *best_effort, regulation=regulation, **more)


def test_dynamic_budgets_are_the_largest(solocore):
    """One task on one core: C + (B + under way)*L <= D gives B; the budget that comes out is that, and one more fails."""
    papers = DYNAMIC + '\nmodel = "sce"'
    plan = solocore.plan(dynamic_system(task("a", wcet="10 ms", misses=100, period="30 ms", deadline="20 ms", core=0), regulation=papers))
    a = by_name(plan)["a"]
    soft = [c["id"] for c in plan["cores"] if c.get("soft")]
    assert plan["schedulable"] and soft == [1, 2, 3, 4, 5, 6, 7]
    under_way = 7 * 2 * 5  # five miss registers a core, each a read and a write-back
    assert a["soft_budget"] == (20_000_000 - 10_000_000) * 1000 // 49_600 - under_way
    assert a["wcrt_ns"] <= 20_000_000 and a["c_sce_ns"] == a["soft_budget_length_ns"]
    for budget, good in ((a["soft_budget"], True), (a["soft_budget"] + 1, False)):
        stated = solocore.plan(dynamic_system(task("a", wcet="10 ms", misses=100, period="30 ms", deadline="20 ms", core=0,
                                                   soft_budget=budget), regulation=papers), code=int(not good))
        assert stated["schedulable"] == good
        assert by_name(stated)["a"]["soft_budget"] == budget


def test_dynamic_budgets_follow_the_objective(solocore):
    tasks = (task("hi", wcet="1 ms", period="10 ms", core=0), task("lo", wcet="5 ms", period="40 ms", core=0))
    fair, much = (solocore.plan(dynamic_system(*tasks, regulation=DYNAMIC + more)) for more in ("", '\nobjective = "total_bandwidth"'))
    budgets = [{n: t["soft_budget"] for n, t in by_name(p).items() if "soft_budget" in t} for p in (fair, much)]
    assert min(budgets[0].values()) >= min(budgets[1].values())
    rate = [b["hi"] / 10 + b["lo"] / 40 for b in budgets]
    assert rate[1] >= rate[0]


def test_dynamic_budgets_keep_best_effort_apart(solocore):
    plan = solocore.plan(dynamic_system(task("a", wcet="1 ms", period="10 ms"), task("b", wcet="2 ms", period="10 ms")))
    cores = {n: t["core"] for n, t in by_name(plan).items()}
    assert cores["a"] == cores["b"] == 0, "as few hard cores as possible"
    assert cores["soft0"] != cores["soft1"] and 0 not in (cores["soft0"], cores["soft1"])
    result = solocore.sim("plan.json", "--duration", "100 ms")
    assert all(t["misses_deadline"] == 0 for t in result["tasks"][:2])


@pytest.mark.parametrize("text,words", [
    (dynamic_system(task("a", core=0), task("d", criticality="D", core=0)), ["best effort on core 0", "`a`"]),
    (dynamic_system(task("a", soft_budget=0)), ["soft_budget = 0"]),
    (dynamic_system(task("a", soft_budget="much")), ["soft_budget = \"much\""]),
    (dynamic_system(task("a", deadline="200 ms")), ["beyond its period"]),
    (dynamic_system(task("a", criticality="D", soft_budget=7)), ["best effort"]),
    (dynamic_system(*(task(f"h{i}", core=i) for i in range(8))), ["there is no core for task `soft0`"]),
    (system(task("a", soft_budget=7)), ["soft_budget needs"]),
    (system(task("a"), regulation='policy = "maracas"'), ["maracas", "[[vcpu]]"]),
    (system(task("a"), regulation='lock_bandwidth = "100 MB/s"'), ["lock_bandwidth", "bwlock"]),
    (system(task("a"), regulation='policy = "bwlock"\nlock_bandwidth = "1 B/s"'), ["below one access"]),
    (system(task("a"), regulation='policy = "bwlock"\nshare = "explicit"'), ["explicit", "bwlock"]),
    (system(task("a"), regulation='objective = "max_min"\nshare = "explicit"\npolicy = "dynamic"'), ["explicit"]),
])
def test_dynamic_systems_that_are_refused(solocore, text, words):
    (solocore.dir / "system.toml").write_text(text)
    refused(solocore("plan", "system.toml"), *words)


def test_dynamic_budgets_that_are_too_large_fail(solocore):
    plan = solocore.plan(dynamic_system(task("a", wcet="10 ms", period="20 ms", soft_budget=500_000)), code=1)
    assert not plan["schedulable"] and "a may miss its deadline" in plan["reasons"][-1]
