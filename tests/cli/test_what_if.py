"""`plan --what-if`, the changes that a plan says would do, and the terms of its bounds."""

import re
import shlex

import pytest
from conftest import ROOT, refused
from test_plan import by_name, system, task

BOARD = 'platform = "core-i5-2500k"\n'
SOFT = task("soft", core=3, criticality="D", wcet="20 ms", misses=100_000)
# Two tasks on one core that is too slow for both.
LATE = system(task("hi", core=0, wcet="10 ms", misses=20_000, period="50 ms"),
              task("lo", core=0, wcet="30 ms", misses=60_000, period="100 ms"), SOFT,
              head=BOARD, regulation='period = "1 ms"\nshare = "even"')
EXPLICIT = system('[[core]]\nid = 0\nbandwidth = "60 MB/s"\n', task("a", core=0, wcet="30 ms", misses=80_000), SOFT,
                  head=BOARD, regulation='share = "explicit"')
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "KB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "ns": 1e-9, "": 1}


def what_if(solocore, *changes, code=0, name="system.toml"):
    options = [word for change in changes for word in ("--what-if", change)]
    done = solocore("plan", name, *options, "--format", "json")
    assert done.code == code, done.err
    return done.json()


def number(text):
    value, unit = re.fullmatch(r"([\d.]+) ?(\S*)", text).groups()
    return float(value) * UNITS[unit]


def a_step_less(repair):
    """The value one step nearer to the file's: a smaller deadline, period or bandwidth, a larger wcet or number of misses."""
    up = repair["change"].endswith((".deadline", ".period")) or repair["meaning"][0].isdigit()
    value = number(repair["value"]) + (-1 if up else 1) * number(repair["step"])
    if repair["change"].endswith("misses"):
        return str(round(value))
    return f"{value:.0f} B/s" if repair["value"].endswith("B/s") else f"{round(value * 1e9)} ns"


@pytest.mark.parametrize("text", [LATE, EXPLICIT], ids=["even", "explicit"])
def test_every_repair_does_and_a_step_less_does_not(solocore, text):
    plan = solocore.plan(text, code=1)
    assert len(plan["repair"]) >= 3
    for repair in plan["repair"]:
        assert repair["verified"] is True
        assert what_if(solocore, f"{repair['change']}={repair['value']}")["schedulable"], repair
        if "step" in repair:
            less = what_if(solocore, f"{repair['change']}={a_step_less(repair)}", code=1)
            assert not less["schedulable"], repair


def test_kinds_of_repairs(solocore):
    of = {r["change"]: r for r in solocore.plan(LATE, code=1)["repair"]}
    assert {"task.lo.period", "task.lo.wcet", "task.lo.core", "regulation.share"} <= of.keys()
    assert of["regulation.share"]["value"] == "optimal" and of["task.lo.core"]["value"] == "1"
    assert of["task.lo.period"]["meaning"] == f"period {of['task.lo.period']['value']} for task lo"
    more = {r["change"]: r for r in solocore.plan(EXPLICIT, code=1)["repair"]}["core.0.bandwidth"]
    assert number(more["value"]) > 60e6 and more["meaning"].endswith("MB/s on core 0")


def test_printed_options_can_be_pasted(solocore):
    solocore.write("system.toml", LATE)
    done = solocore("plan", "system.toml")
    assert done.code == 1
    _, listed = done.out.decode().split("any one of these changes makes the system schedulable:\n")
    lines = [line for line in listed.splitlines() if line.startswith("  --what-if ")]
    assert len(lines) >= 3
    for line in lines:
        words = shlex.split(line)[:2]
        assert solocore("plan", "system.toml", *words).code == 0, line


def test_a_schedulable_plan_has_no_repair(solocore):
    plan = solocore.plan(system(task("a"), head=BOARD))
    assert "repair" not in plan and "what_if" not in plan
    assert b"any one of these changes" not in solocore("plan", "system.toml").out


def test_a_hopeless_system_has_none_and_says_so(solocore):
    plan = solocore.plan(system(*(task(f"t{i}", wcet="90 ms", misses=1000) for i in range(9)), head=BOARD, regulation='share = "even"'), code=1)
    assert "repair" not in plan
    assert any(r.startswith("repair: no tried change of a single key") for r in plan["reasons"])


def test_the_same_advice_every_time(solocore):
    assert solocore.plan(LATE, code=1) == solocore.plan(LATE, code=1)


def test_what_changes_is_compared(solocore):
    before = solocore.plan(LATE, code=1)
    after = what_if(solocore, "task.lo.core=1")
    changed = {c["task"]: c for c in after["what_if"]["tasks"]}
    assert after["what_if"]["changes"] == ["task.lo.core=1"] and set(changed) <= {"hi", "lo"}
    for side, plan in (("before", before), ("after", after)):
        t = by_name(plan)["lo"]
        assert changed["lo"][side] == {"core": t["core"], "verdict": t["verdict"], "wcrt_ns": t["wcrt_ns"]}
    text = solocore("plan", "system.toml", "--what-if", "task.lo.core=1").out.decode()
    assert "changed: task.lo.core=1" in text and re.search(r"^lo +0 .*(may miss|no bound) +1 .* meets$", text, re.M)
    same = solocore("plan", "system.toml", "--what-if", "task.lo.core=0")
    assert same.code == 1 and b"does not alter a core, bound or verdict" in same.out


def test_a_change_is_as_if_it_were_in_the_file(solocore):
    changed = LATE.replace('period = "1 ms"', 'period = "2 ms"').replace('"30 ms"', '"9 ms"')
    expect = solocore.plan(changed)
    solocore.write("system.toml", LATE)
    got = what_if(solocore, "regulation.period=2 ms", "task.lo.wcet=9 ms")
    assert {k: v for k, v in got.items() if k not in ("what_if", "inputs")} == {k: v for k, v in expect.items() if k != "inputs"}
    assert (solocore.dir / "system.toml").read_text() == LATE


def test_a_file_without_a_plan_can_be_changed(solocore):
    solocore.write("system.toml", LATE.replace('period = "1 ms"', 'period = "10 us"'))
    assert solocore("plan", "system.toml").code == 2
    plan = what_if(solocore, "regulation.period=1 ms", "task.lo.core=1")
    assert "lengthen the period" in plan["what_if"]["refused"] and plan["what_if"]["tasks"] == []


@pytest.mark.parametrize("change,words", [
    ("regulation.perod=1 ms", ["unknown field `perod`"]),
    ("regulation.period=1 parsec", ["system.toml:3:10", "unknown unit `parsec`"]),
    ("regulation.period=10 us", ["lengthen the period"]),
    ("task.nobody.period=1 ms", ["no task is called `nobody`", "hi, lo, soft"]),
    ("task.lo.core=9", ["system.toml:11", "core 9 is out of range"]),
    ("task.lo", ["has no value", "KEY=VALUE"]),
    ("task.lo=5", ["is a table"]),
    ("core.0.bandwidth=10 MB/s", ["share = \"explicit\""]),
    ("platform=p4081", ["no preset is called `p4081`"]),
])
def test_bad_changes_are_refused_with_the_option(solocore, change, words):
    solocore.write("system.toml", LATE)
    refused(solocore("plan", "system.toml", "--what-if", change), f"--what-if {change}", *words)


def test_a_refusal_is_that_of_a_file(solocore):
    solocore.write("system.toml", LATE.replace('period = "1 ms"', "period = 1"))
    of_file = solocore("plan", "system.toml").err
    solocore.write("system.toml", LATE)
    of_option = solocore("plan", "system.toml", "--what-if", "regulation.period=1").err
    assert of_option == of_file.replace("solocore: ", "solocore: --what-if regulation.period=1: ")


C_SCE = ["alone", "cache", "latency", "others", "once"]


def check_terms(plan, terms=lambda level: (C_SCE, ["preemption"])):
    """The terms sum to the bound on the response, or to C_sce where there is none. Returns the number of tasks without a bound."""
    without = 0
    for t in plan["tasks"]:
        if t["criticality"] == "D":
            assert "waterfall" not in t
            continue
        to_c_sce, rest = terms(t["criticality"])
        bounded = t["wcrt_ns"] is not None
        without += not bounded
        assert [x["term"] for x in t["waterfall"]] == to_c_sce + (rest if bounded else []), t
        assert sum(x["ns"] for x in t["waterfall"]) == (t["wcrt_ns"] if bounded else t["c_sce_ns"]), t
    return without


@pytest.mark.parametrize("example", ["sce-table2", "ima-sce"])
def test_terms_of_the_examples_sum_to_the_bounds(solocore, example):
    done = solocore("plan", ROOT / f"examples/{example}/system.toml", "--format", "json")
    assert check_terms(done.json()) == 0


def test_without_a_bound_the_terms_end_at_c_sce(solocore):
    assert check_terms(solocore.plan(LATE.replace('wcet = "30 ms"', 'wcet = "90 ms"'), code=1)) == 1
    done = solocore("plan", "system.toml", "--explain")
    assert b"from the time alone to C_sce (no bound on the response)" in done.out


def test_terms_in_vcpus(solocore):
    def terms(_):
        return C_SCE, ["supply", "preemption"]

    text = (ROOT / "examples/vcpus/system.toml").read_text()
    assert check_terms(solocore.plan(text), terms) == 0
    assert check_terms(solocore.plan(text.replace('wcet = "9 ms"', 'wcet = "60 ms"'), code=1), terms) == 2, "both of its VCPU"


def test_terms_with_levels(solocore):
    rest = {"A": ["scale", "preemption"], "B": ["above", "preemption"], "C": ["preemption"]}

    def terms(level):
        return ["alone", "cache", "latency", "buffers", *(["average"] if level == "C" else []), "others"], rest[level]

    text = (ROOT / "examples/mc2/system.toml").read_text()
    assert check_terms(solocore.plan(text), terms) == 0
    slow = text.replace('wcet = "24 ms"', 'wcet = "64 ms"').replace('wcet = "30 ms"', 'wcet = "90 ms"')
    assert check_terms(solocore.plan(slow, code=1), terms) == 3


def test_a_pet_without_a_bound_has_no_terms(solocore):
    text = (ROOT / "examples/mc2/system.toml").read_text().replace('"imx6q"', '"p4080"').replace('model = "sce"', 'model = "sound"')
    for t in solocore.plan(text, code=1)["tasks"]:
        assert t["c_sce_ns"] == 2**64 - 1 and t["wcrt_ns"] is None and "waterfall" not in t


@pytest.mark.parametrize("regulation", ["", 'model = "sce"', 'policy = "none"', 'share = "optimal"'])
def test_terms_of_other_plans_sum_to_the_bounds(solocore, regulation):
    check_terms(solocore.plan(system(task("a", core=0, wcet="5 ms", misses=9000), task("b", core=0, wcet="9 ms", misses=999),
                                     task("c", core=1, wcet="5 ms", misses=9000), head=BOARD, regulation=regulation)))


def test_explain_has_the_terms(solocore):
    bound = solocore.plan(system(task("a"), head=BOARD))["tasks"][0]["wcrt_ns"]
    done = solocore("plan", "system.toml", "--explain")
    rows = re.findall(r"^  (\S.*?) {2,}([\d.]+) +([\d.]+) +\S+$", done.out.decode(), re.M)
    assert [words for words, _, _ in rows][:2] == ["time alone", "only locked pages or own ways are cached"]
    assert float(rows[-1][2]) == pytest.approx(sum(float(ms) for _, ms, _ in rows), abs=1e-9)
    assert rows[-1][2] == f"{bound / 1e6:.6f}"
