"""`solocore plan --method sce` and what runs on its plans: the worked example, windows that are too short, bad input, simulation
with jitter, the drawing. A checker written here (test_schedule_io.holds) looks at every table."""

import json

import pytest
from conftest import ROOT, refused
from test_schedule_io import holds

EXAMPLE = (ROOT / "examples/ima-sce/system.toml").read_text()
MS = 1_000_000

SMALL = """platform = "p4080"
[regulation]
active_cores = 3
[margin]
physical = "30 us"
device = "20 us"
processing = "50 us"
[dma]
bus = "1 GB/s"
block = "256 B"
[[device]]
name = "camera"
[[partition]]
name = "vision"
period = "20 ms"
[[partition.chain]]
input = { device = "camera", physical = "2 ms", transfer = "64 KiB" }
[[partition]]
name = "control"
period = "10 ms"
duration = "6 ms"
[[task]]
name = "edges"
partition = "vision"
period = "20 ms"
wcet = "3 ms"
misses = 5000
[[task]]
name = "loop"
partition = "control"
period = "10 ms"
wcet = "1 ms"
misses = 500
"""


def plan(solocore, text, code=0, *args):
    solocore.write("system.toml", text)
    done = solocore("plan", "system.toml", "-o", "plan.json", "--format", "json", *args)
    assert done.code == code, done.err
    return done.json()


def instance_of(made):
    """What test_schedule_io.holds asks of an instance: partitions and their chains."""
    out = ""
    for p in made["sce"]["partitions"]:
        out += f'[[partition]]\nname = "{p["name"]}"\n'
        rows = [r for r in made["sce"]["table"] if r["partition"] == p["name"] and r["chain"]]
        for k in sorted({r["chain"] for r in rows}):
            stages = [r["stage"] for r in rows if r["chain"] == k]
            out += "[[partition.chain]]\n" + "".join(f"{h} = 1\n" for h in ("input", "output") if f"device-{h}" in stages)
    return out


def test_worked_example(solocore):
    made = plan(solocore, EXAMPLE, 0, "--method", "sce")
    tasks = {t["name"]: t for t in made["tasks"]}
    one = tasks["task 1"]
    assert (one["period_ns"], one["unlocked"]["wcet_ns"], one["wcet_ns"], len(one["locked_pages"])) == (36 * MS, 13 * MS, 7 * MS, 3)
    numbers = [(tasks[f"task {n}"]["period_ns"] // MS, round(tasks[f"task {n}"]["c_sce_ns"] / MS, 3)) for n in (3, 4, 1, 2)]
    assert numbers == [(18, 3), (36, 3), (36, 8), (72, 3)]
    windows = {p["name"]: (p["period_ns"] // MS, p["duration_ns"] // MS) for p in made["sce"]["partitions"]}
    assert windows["partition 1"] == (18, 6) and windows["partition 2"] == (36, 12)
    assert made["schedulable"] and all(t["schedulable"] for t in made["tasks"])
    holds(instance_of(made), {"activities": made["sce"]["table"]})
    # Interface: the same keys as any plan.
    assert {"name", "core", "criticality", "wcet_ns", "misses", "stall_ns", "c_sce_ns", "wcrt_ns", "deadline_ns"} <= one.keys()


def test_text_has_steps_and_table(solocore):
    solocore.write("system.toml", EXAMPLE)
    done = solocore("plan", "system.toml", "--explain")
    text = done.out.decode()
    for words in ("step 1: counters for regulation: yes", "step 2: bandwidth: even", "round 1: step 3 with 30 percent",
                  "partition 1: device-input", "R_i = max over q of W_q", "schedulable"):
        assert words in text, words


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_simulated_with_jitter(solocore, seed):
    made = plan(solocore, SMALL)
    holds(instance_of(made), {"activities": made["sce"]["table"]})
    seen = solocore.sim("plan.json", "--duration", "200 ms", "--seed", seed)
    assert seen["io"]["violations"] == 0 and seen["io"]["transfers"] >= 9
    # 64 KiB are 1024 lines, every 20 ms.
    assert seen["io"]["lines"] == 1024 * sum(o <= 200 * MS for o in range(
        next(r["offset_ns"] for r in made["sce"]["table"] if r["stage"] == "device-input"), 200 * MS, 20 * MS))
    for t, s in zip(made["tasks"], seen["tasks"]):
        assert s["jobs"] > 0 and s["misses_deadline"] == 0 and s["max_response_ns"] <= t["wcrt_ns"]
    plain = solocore.sim("plan.json", "--unmanaged", "--duration", "200 ms")
    assert "io" not in plain and all(t["jobs"] > 0 for t in plain["tasks"])


def test_window_too_short(solocore):
    with_duration = lambda text: SMALL.replace('duration = "6 ms"', f'core = 1\nduration = "{text}"')
    made = plan(solocore, with_duration("1 ms"), 1)
    assert [t["schedulable"] for t in made["tasks"]] == [True, False]
    last = made["reasons"][-1]
    assert "`control`" in last and "`loop`" in last and "are needed" in last and "more" in last
    needed = made["sce"]["partitions"][1]["least_duration_ns"]
    assert plan(solocore, with_duration(f"{needed} ns"))["schedulable"]
    assert not plan(solocore, with_duration(f"{needed - 1000} ns"), 1)["schedulable"]


def test_io_that_cannot_fit(solocore):
    text = SMALL.replace('physical = "2 ms"', 'physical = "19.5 ms"').replace(
        'name = "control"\nperiod = "10 ms"', 'name = "control"\nperiod = "10 ms"\nchain = [{ output = { device = "camera", physical = "1 ms", transfer = "10 us" } }]')
    made = plan(solocore, text, 1)
    assert all(r["step"] == 4 for r in made["sce"]["rounds"]) and not made["sce"]["table"]
    assert "camera" in made["reasons"][-1] and "longer than the greatest common divisor" in made["reasons"][-1]
    refused(solocore("sim", "plan.json"), "no time table", "--unmanaged", one_line=False)
    assert solocore("sim", "plan.json", "--unmanaged", "--duration", "50 ms").code == 0


@pytest.mark.parametrize("text", [EXAMPLE, SMALL], ids=["example", "small"])
def test_check_io_takes_plans(solocore, text):
    made = plan(solocore, text)
    done = solocore("check-io", "system.toml", "plan.json", "--executions", "20", "--format", "json")
    assert done.code == 0 and done.json()["holds"], done.err
    lines = (solocore.dir / "plan.json").read_text().splitlines()
    first = next(r for r in made["sce"]["table"] if r["stage"] == "device-input")
    first["offset_ns"] -= 1_500_000
    solocore.write("plan.json", json.dumps(made, indent=2))
    found = solocore("check-io", "system.toml", "plan.json", "--format", "json")
    assert found.code == 1
    at = found.json()["violation"]["lines"][0]
    near = "\n".join((solocore.dir / "plan.json").read_text().splitlines()[at - 1:at + 8])
    assert "device-input" in near and len(lines) > at


def test_same_plan_twice(solocore):
    plan(solocore, SMALL)
    first = (solocore.dir / "plan.json").read_bytes()
    plan(solocore, SMALL)
    assert (solocore.dir / "plan.json").read_bytes() == first


BAD = [
    ('partition = "control"', 'partition = "contro"', "no partition is called `contro`"),
    ('partition = "control"\n', "", "names no partition"),
    ('partition = "control"', 'partition = "control"\ncore = 0', "states a core"),
    ('name = "control"', 'name = "control"\ncore = 2', "cores 0 to 1"),
    ('duration = "6 ms"', 'duration = "10 ms"', "with its margin"),
    ('device = "camera"', 'device = "radar"', "no device is called `radar`"),
    ("active_cores = 3", "active_cores = 1", "the last one is the I/O core"),
    ("active_cores = 3", 'active_cores = 3\npolicy = "dynamic"', "cannot be planned for"),
    ('block = "256 B"', 'block = "256 B"\nbandwidth = "1 GB/s"', "the I/O core's share"),
    ('block = "256 B"', 'block = "256 B"\nwait = "0 ns"', "exceed the bandwidth"),
    ('block = "256 B"', 'block = "48 B"', "power of two"),
    ('period = "20 ms"\n[[partition.chain]]', 'period = "20 ms"\ntask = [{ name = "t", period = "20 ms", wcet = "1 ms" }]\n[[partition.chain]]', "in a system file tasks are"),
    ('wcet = "1 ms"\nmisses = 500', 'curve = [{ wcet = "1 ms", misses = 5 }, { wcet = "2 ms", misses = 5 }]', "curve rises"),
    ('wcet = "1 ms"', 'curve = []\nwcet = "1 ms"', "give curve alone"),
    ('period = "10 ms"\nduration', 'period = "10.0005 ms"\nduration', "whole multiple of the base"),
    ("[margin]", "[sce]\nslack = 2000\n[margin]", "slack = 2000"),
    ('partition = "control"', 'partition = "vision"', "control"),
]


@pytest.mark.parametrize("old, new, words", BAD)
def test_bad_input(solocore, old, new, words):
    assert old in SMALL
    text = SMALL.replace(old, new)
    if words == "control":
        text = text.replace('duration = "6 ms"\n', "")
    solocore.write("system.toml", text)
    refused(solocore("plan", "system.toml"), "system.toml", words)


def test_more_active_cores_are_no_remedy_on_a_board_with_one(solocore):
    solocore.write("board.toml", (ROOT / "platforms/p4080.toml").read_text().replace("cores = 8 ", "cores = 1 "))
    solocore.write("system.toml", SMALL.replace("active_cores = 3", "").replace('"p4080"', '"./board.toml"'))
    refused(solocore("plan", "system.toml"), "the last one is the I/O core", "name a platform with more cores")


def test_sections_without_partitions(solocore):
    text = 'platform = "p4080"\n[[device]]\nname = "d"\n[[task]]\nname = "t"\nperiod = "1 ms"\nwcet = "1 us"\nmisses = 1\n'
    solocore.write("system.toml", text)
    refused(solocore("plan", "system.toml"), "system.toml:2", "[[device]] is for systems with partitions")


def test_method_and_system_must_fit(solocore):
    solocore.write("system.toml", SMALL)
    refused(solocore("plan", "system.toml", "--method", "cores"), "does not plan the partitions")
    solocore.write("plain.toml", 'platform = "p4080"\n[[task]]\nname = "t"\nperiod = "1 ms"\nwcet = "1 us"\nmisses = 1\n')
    refused(solocore("plan", "plain.toml", "--method", "sce"), "for systems with partitions")


@pytest.mark.parametrize("change, words", [
    (lambda s: s["table"][0].update(period_ns=0), "impossible time"),
    (lambda s: s["table"].clear() or s["partitions"].clear(), "not in its partition"),
    (lambda s: s["partitions"][0].update(core=7), "impossible core"),
    (lambda s: s.update(io_core=0), "I/O core"),
])
def test_edited_plan(solocore, change, words):
    made = plan(solocore, SMALL)
    change(made["sce"])
    solocore.write("plan.json", json.dumps(made))
    refused(solocore("sim", "plan.json"), "plan.json", words)


def test_too_many_windows_for_a_table(solocore):
    plan(solocore, SMALL)
    refused(solocore("sim", "plan.json", "--duration", "60 s"), "a table holds 4096", "--duration", one_line=False)
    refused(solocore("sim", "plan.json", "--duration", "1 us"), "beyond the simulated time", one_line=False)


def test_run_refuses_the_plan_of_another_machine(solocore):
    plan(solocore, SMALL)
    done = solocore("run", "plan.json", "--duration", "1 s")
    assert done.code == 3 and "another machine" in done.err and ";" in done.err


def test_report(solocore):
    plan(solocore, EXAMPLE)
    solocore("sim", "plan.json", "--duration", "80 ms", "--timeline", "80 ms", "-o", "managed.json")
    assert solocore("report", "plan.json", "managed.json", "-o", "r.html").code == 0
    page = (solocore.dir / "r.html").read_text()
    assert page.count('data-stage="processing"') == 10 and "url(#fill-prefetch)" in page
    assert 'data-activity="prefetch"' in page and "What was tried" in page
    solocore("schedule-io", str(ROOT / "examples/ima-sce/instance.toml"), "-o", "table.json")
    assert solocore("report", "table.json", "-o", "t.html").code == 0
    assert 'data-resource="io-core"' in (solocore.dir / "t.html").read_text()
    refused(solocore("report", "table.json", "plan.json", "-o", "no.html"), "give it alone")
    solocore.write("empty.json", '{"activities": []}')
    refused(solocore("report", "empty.json", "-o", "no.html"), "without activities")
    assert not (solocore.dir / "no.html").exists()
