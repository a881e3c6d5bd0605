"""VCPUs in plans, in the simulator's traces, and on the command line; what needs a kernel with sched_ext is refused here."""

import math
import os

import pytest
from conftest import ROOT

EXAMPLE = (ROOT / "examples" / "vcpus" / "system.toml").read_text()

SCENARIO = """
[simulation]
platform = "core-i5-2500k"
duration = "50 ms"
[scheduler]
kind = "vcpu"
admission = true
strict = true
migrations = 1
[[vcpu]]
name = "a"
capacity = "1 ms"
period = "5 ms"
core = 0
[[vcpu]]
name = "b"
capacity = "2 ms"
period = "10 ms"
core = 0
[[task]]
name = "t"
vcpu = "a"
workload = { kind = "spread", wcet = "500 us", misses = 100 }
period = "7 ms"
[[task]]
name = "u"
vcpu = "b"
workload = { kind = "spread", wcet = "500 us", misses = 100 }
"""


def test_a_plan_says_where_vcpus_are_and_why(solocore):
    plan = solocore.plan(EXAMPLE)
    assert plan["schedulable"] and plan["regulation"]["policy"] == "maracas"
    assert [v["name"] for v in plan["vcpus"]] == ["control", "video", "audio"]
    for v in plan["vcpus"]:
        assert v["admitted"] and v["capacity_ns"] <= v["response_ns"] <= v["period_ns"]
        assert v["derivation"]["result"] == v["response_ns"]
    core = {v["name"]: v["core"] for v in plan["vcpus"]}
    assert core["control"] == 0, "as stated"
    tasks = {t["name"]: t for t in plan["tasks"]}
    assert tasks["decode"]["core"] == tasks["scale"]["core"] == core["video"] == 1, "worst fit"
    for name in ("control", "decode", "scale", "audio"):
        assert tasks[name]["c_sce_ns"] < tasks[name]["wcrt_ns"] <= tasks[name]["deadline_ns"]
    # Worked out by hand: requests under way on each of 2 cores, 16 times in each T and one more, C_sce, and the gaps of a strict
    # server.
    video = plan["vcpus"][1]
    c, t, r = video["capacity_ns"], video["period_ns"], video["response_ns"]
    work = tasks["decode"]["c_sce_ns"] + tasks["scale"]["c_sce_ns"]
    gap = (t - c) + (r - c)
    window = tasks["decode"]["wcrt_ns"]
    under_way = {i["name"]: i["value"] for i in tasks["decode"]["derivation"]["inputs"]}["b: accesses under way when it starts to run ns"]
    # A full write queue and the write buffers of two cores, 58.5 ns each, and their reads, 49.5 ns each, 16 times in each T.
    assert under_way == 16 * math.ceil((64 + 32) * 58.5 + 20 * 49.5)
    work += under_way * (-(-window // t) + 1)
    assert window == pytest.approx(-(-work // c) * gap + work, abs=200)
    assert tasks["index"]["wcrt_ns"] is None and tasks["index"]["schedulable"]
    text = "\n".join(plan["reasons"])
    assert "VCPU video: 6.000 ms in 20.000 ms on core 1 (worst fit)" in text and "index: best effort" in text
    done = solocore("plan", "system.toml", "--explain")
    assert done.code == 0 and b"longest time without supply" in done.out and b"sporadic" in done.out


@pytest.mark.parametrize("old, new, said", [
    # Over-admission: the numbers that do not fit.
    ('capacity = "6 ms"', 'capacity = "19.5 ms"', ["utilisation 1.02", "VCPU best-effort/1 on core 1 would have its 2.000 ms"]),
    ('capacity = "1 ms"\nperiod = "5 ms"', 'capacity = "5 ms"\nperiod = "5 ms"', ["VCPU control on core 0 would have its 5.000 ms", "not within 5.000 ms"]),
    # A VCPU that fits, with too little for its task.
    ('deadline = "15 ms"', 'deadline = "5 ms"', ["control may take", "beyond its deadline"]),
    ('capacity = "6 ms"', 'capacity = "2 ms"', ["decode has no bounded response time", "supplies less"]),
])
def test_what_does_not_fit_is_not_schedulable(solocore, old, new, said):
    assert old in EXAMPLE
    plan = solocore.plan(EXAMPLE.replace(old, new, 1), code=1)
    assert not plan["schedulable"]
    verdict = plan["reasons"][-1]
    for words in said:
        assert words in verdict


THROTTLED = EXAMPLE.replace('overhead = "20 us"', 'overhead = "20 us"\nthrottle = { max_latency = "1 us" }', 1)


def test_the_monitor_of_the_memory_has_a_vcpu_of_the_plan(solocore):
    """Fails when a plan that throttles leaves its monitor without an admitted VCPU, or a repair changes one that no table states."""
    assert THROTTLED != EXAMPLE
    plan = solocore.plan(THROTTLED)
    assert [v["name"] for v in plan["vcpus"]] == ["control", "video", "audio", "memory-monitor"]
    own = plan["vcpus"][-1]
    assert (own["capacity_ns"], own["period_ns"], own["tasks"]) == (1_000_000, 20_000_000, []) and own["fixed"] and own["admitted"]
    assert any("VCPU memory-monitor: 1.000 ms in 20.000 ms" in r and "reads the memory's counters" in r for r in plan["reasons"])
    assert any(p["resource"] == "vcpu memory-monitor" for p in plan["promises"])
    stated = 'max_latency = "1 us", monitor = { capacity = "2 ms", period = "40 ms", core = 0 }'
    own = solocore.plan(THROTTLED.replace('max_latency = "1 us"', stated, 1))["vcpus"][-1]
    assert (own["capacity_ns"], own["period_ns"], own["core"]) == (2_000_000, 40_000_000, 0)
    # It is admitted as any other, so it may be what does not fit.
    full = solocore.plan(THROTTLED.replace('max_latency = "1 us"', stated.replace('"2 ms"', '"39 ms"'), 1), code=1)
    assert "memory-monitor" in full["reasons"][-1]
    assert all("memory-monitor" not in repair["change"] for repair in full.get("repair", []))


def test_the_least_capacity_that_would_do(solocore):
    plan = solocore.plan(EXAMPLE.replace('capacity = "6 ms"', 'capacity = "2 ms"', 1), code=1)
    more = next(r for r in plan["repair"] if r["change"] == "vcpu.video.capacity")
    value, step = (float(more[key].split()[0]) for key in ("value", "step"))
    assert more["value"].endswith(" ms") and more["step"] == "10 us" and 2 < value <= 6
    assert solocore("plan", "system.toml", "--what-if", f"vcpu.video.capacity={more['value']}").code == 0
    assert solocore("plan", "system.toml", "--what-if", f"vcpu.video.capacity={value - step / 1000:.3f} ms").code == 1


@pytest.mark.parametrize("old, new, said", [
    ('capacity = "6 ms"', 'capacity = "21 ms"', "more than a whole core"),
    ('capacity = "6 ms"', 'capacity = "-6 ms"', "negative"),
    ('capacity = "6 ms"', 'capacity = "0 ms"', "system.toml:"),
    ('capacity = "6 ms"', 'capacity = "1 us"', "below 10 us"),
    ('period = "20 ms"\ntasks', 'period = "11 s"\ntasks', "above 10 s"),
    ('tasks = ["audio"]', 'tasks = ["radio"]', "no task `radio`"),
    ('tasks = ["audio"]', "", "`audio` is of level B and bound to no VCPU"),
    ('tasks = ["audio"]', 'tasks = ["audio", "index"]', "VCPUs of their own"),
    ('core = 0 ', 'core = 2 ', "there are cores 0 to 1"),
    ('policy = "maracas"', 'policy = "memguard"', "[maracas] is read under"),
    ('overhead = "20 us"', 'balance = "10 ms"', "does not bound response times"),
    ('overhead = "20 us"', 'throttle = { max_latency = "1 us", monitor = { capacity = "1 us", period = "1 ms" } }', "monitor: a capacity of 1 us is below"),
    ('name = "audio"\ncapacity', 'name = "memory-monitor"\ncapacity', "belongs to a VCPU of solocore's own"),
    ('name = "audio"\ncapacity', 'nam = "audio"\ncapacity', "unknown field `nam`"),
])
def test_bad_vcpus_are_refused(solocore, old, new, said):
    assert old in EXAMPLE
    solocore.write("system.toml", EXAMPLE.replace(old, new, 1))
    before = solocore.files()
    done = solocore("plan", "system.toml", "-o", "plan.json")
    assert done.code == 2 and said in done.err and "system.toml" in done.err, done.err
    assert len(done.err.strip().splitlines()) == 1 and solocore.files() == before


# Best effort on four cores with colours of their own; pages move with their VCPU.
MOVING = """
platform = "core-i5-2500k"
[regulation]
policy = "maracas"
[maracas]
balance = "1 ms"
core_colours = [4, 4, 10, 14]
migration = { capacity = "20 ms", period = "200 ms", page_cost = "20 us", base_cost = "1 ms" }
[[vcpu]]
name = "a"
capacity = "8 ms"
period = "100 ms"
colours = 10
pages = 950
tasks = ["index"]
[[task]]
name = "index"
criticality = "D"
wcet = "30 ms"
misses = 20000
"""


def test_cores_have_their_colours_and_pages_move_in_a_vcpu(solocore):
    plan = solocore.plan(MOVING)
    assert [c["colours"] for c in plan["cores"]] == [[0, 4], [4, 4], [8, 10], [18, 14]]
    # The ways that colours stand for are all ways of the cache, for the simulator.
    assert [c["ways"] for c in plan["cores"]] == [1, 2, 3, 6]
    a, migration = plan["vcpus"]
    assert a["core"] in (2, 3), "no other core has ten colours"
    assert migration["name"] == "page-migration" and migration["fixed"] and migration["admitted"]
    assert (migration["capacity_ns"], migration["period_ns"]) == (20_000_000, 200_000_000)
    assert plan["maracas"]["core_colours"] == [4, 4, 10, 14]
    # (20 ms - 1 ms) / 20 us
    assert any("page colours: core 0 0 to 3" in r and "at most 950 pages" in r for r in plan["reasons"]), plan["reasons"]


@pytest.mark.parametrize("old, new, said", [
    ("pages = 950", "pages = 951", "its 951 pages cannot be moved in the 20 ms"),
    ("10, 14]", "10, 15]", "33 colours, but the shared cache has 32"),
    ("10, 14]", "10]", "3 numbers for 4 cores"),
    ("colours = 10", "colours = 15", "no core has 14"),
    ("core_colours = [4, 4, 10, 14]", "", "add core_colours"),
    ('balance = "1 ms"', "", "add balance"),
    ('base_cost = "1 ms"', 'base_cost = "20 ms"', "does not fit into its capacity of 20 ms"),
    ('capacity = "20 ms"', 'capacity = "210 ms"', "more than a whole core"),
    ('base_cost = "1 ms"', "core = 4", "core 4 is out of range"),
    ('name = "a"', 'name = "page-migration"', "belongs to a VCPU of solocore's own"),
    ('policy = "maracas"', 'policy = "maracas"\npages = "anywhere"', "is not divided by colours"),
    ('"core-i5-2500k"', '"imx6q"', "is not divided by colours"),
])
def test_bad_migrations_are_refused(solocore, old, new, said):
    assert old in MOVING
    solocore.write("system.toml", MOVING.replace(old, new, 1).replace("pages = 950\n", "") if new == "" else MOVING.replace(old, new, 1))
    done = solocore("plan", "system.toml")
    assert done.code == 2 and said in done.err and "system.toml" in done.err, done.err


def test_a_run_that_moves_pages_wants_colours(solocore):
    solocore.plan(MOVING)
    done = solocore("run", "plan.json", "--partial", "--dry-run")
    assert done.code == 2 and "give --colors" in done.err, done.err


def test_a_plan_is_simulated_and_its_trace_is_checked(solocore):
    solocore.plan(EXAMPLE)
    result = solocore.sim("plan.json", "--duration", "400 ms", "--sched-trace", "t.csv")
    plan = solocore("plan", "system.toml", "--format", "json").json()
    for task, seen in zip(plan["tasks"], result["tasks"]):
        if task["wcrt_ns"] is not None:
            assert seen["jobs"] > 0 and seen["misses_deadline"] == 0
            assert seen["max_response_ns"] <= task["wcrt_ns"]
    again = solocore.sim("plan.json", "--duration", "400 ms", "--sched-trace", "u.csv")
    assert again["tasks"] == result["tasks"]
    assert (solocore.dir / "t.csv").read_bytes() == (solocore.dir / "u.csv").read_bytes(), "the same seed, the same trace"
    done = solocore("check-trace", "t.csv", "--format", "json")
    assert done.code == 0, done.out
    checked = dict(done.json()["report"]["checked"])
    assert all(checked[rule] >= 5 for rule in ("answer", "runs", "window", "supply")), checked


def test_a_trace_that_was_changed_is_refused(solocore):
    solocore.write("s.toml", SCENARIO)
    assert solocore("sim", "s.toml", "--sched-trace", "t.csv").code == 0
    assert solocore("check-trace", "t.csv").code == 0
    head, columns, *lines = (solocore.dir / "t.csv").read_text().splitlines()
    assert "source=sim" in head and "scheduler=vcpu" in head
    block = next(i for i, line in enumerate(lines) if ",vcpu-block," in line)
    solocore.write("bad.csv", "\n".join([head, columns, *lines[:block], *lines[block + 1:]]) + "\n")
    done = solocore("check-trace", "bad.csv")
    assert done.code == 1 and b"bad.csv:" in done.out and b": at " in done.out, done.out
    solocore.write("bad.csv", head + "\n" + columns + "\n1,0,vcpu-tock,0,0,0\n")
    done = solocore("check-trace", "bad.csv")
    assert done.code == 2 and "line 3" in done.err


def test_there_is_no_trace_without_vcpus(solocore):
    solocore.plan(EXAMPLE)
    for args in (["plan.json", "--unmanaged"], ["plan.json", "--solo"], ["other.toml"]):
        solocore.write("other.toml", SCENARIO.split("[scheduler]")[0] + '[[task]]\nname = "t"\ncore = 0\nworkload = { kind = "compute" }\n')
        done = solocore("sim", *args, "--sched-trace", "t.csv")
        assert done.code == 2 and "--sched-trace" in done.err and not (solocore.dir / "t.csv").exists()


def test_running_such_a_plan_says_what_it_would_do_and_what_is_lacking(solocore):
    plan = solocore.plan(EXAMPLE)
    done = solocore("run", "plan.json", "--dry-run", "--command", "control=/bin/true")
    assert done.code in (0, 3), done.err
    out = done.out.decode()
    assert "control" in out and "nothing was changed" in out and "as an ordinary task: would be started" in out
    seen = solocore("run", "plan.json", "--dry-run", "--format", "json").json()
    assert seen["vcpus"] == plan["vcpus"] and seen["background"] == "least-time"
    if done.code == 3:
        assert solocore("run", "plan.json", "--duration", "1 s").code == 3
    for option in ("--reclaim", "--resctrl", "--sample=7", "--engine=helper", "--share=spare",
                   "--no-confine", "--no-fifo", "--max-hold=2 s", "--group=users", "--event=page-faults", "--scheduler=levels"):
        done = solocore("run", "plan.json", option)
        assert done.code == 2 and "leave it out" in done.err, done.err
    done = solocore("run", "plan.json", "--command", "radio=/bin/true")
    assert done.code == 2 and "no such task" in done.err


@pytest.mark.parametrize("vcpu, said", [
    ("6ms", "write it like 6ms/100ms"),
    ("-6ms/100ms", "`-6ms` is negative"),
    ("7ms/6ms", "more than a whole core"),
    ("0ms/6ms", "below 10 us"),
    ("1ms/1h", "6ms/100ms"),
    ("1ms/60s", "above 10 s"),
])
def test_exec_refuses_absurd_vcpus(solocore, vcpu, said):
    done = solocore("exec", f"--vcpu={vcpu}", "--", "touch", "ran")
    assert done.code == 2 and said in done.err and not (solocore.dir / "ran").exists(), done.err


@pytest.mark.parametrize("command, said", [
    (["create", "x", "-6ms/100ms"], "`-6ms` is negative"),
    (["create", "x", "200ms/100ms"], "VCPU x: a capacity of 200 ms in a period of 100 ms is more than a whole core"),
    (["create", "x", "1ns/100ms"], "below 10 us"),
    (["create", "x", "1ms/60s"], "above 10 s"),
    (["create", "x", "99999999999s/99999999999s"], "too large"),
    (["create", "", "1ms/10ms"], "is empty"),
    (["create", "7", "1ms/10ms"], "is a number"),
    (["create", "a\nb", "1ms/10ms"], 'the name "a\\nb"'),
    (["serve", "--vcpu", "a=5ms/4ms"], "--vcpu a: a capacity of 5 ms"),
    (["serve", "--best-effort", "5ms/4ms"], "--best-effort: a capacity of 5 ms"),
    (["serve", "--overhead", "-1ms"], "`-1ms` is negative"),
    (["serve", "--threshold", "4", "--memory-period", "-1s"], "`-1s` is negative"),
    (["serve", "--threshold", "4", "--monitor", "5ms/4ms"], "--monitor: a capacity of 5 ms"),
    (["serve", "--threshold", "4", "--monitor", "1ms/20ms@last"], "`1ms/20ms@last` is not C/T or C/T@CORE"),
    (["bind"], "PID"),
    (["bind", "camera", "a"], "`camera` is not a number of a process"),
    (["bind", "0"], "`0` is not a number of a process"),
    (["bind", "--unit", "camera", "4711", "a"], "`4711` is one argument too many"),
    (["bind", "--unit", "camera", "--cgroup", "/a", "a"], "cannot be used with"),
    (["drill", "--faults", "stall"], "--pid"),
    (["drill", "--times", "-1"], "-1"),
    (["drill", "--faults", "earthquake"], "earthquake"),
])
def test_absurd_vcpus_are_refused_whatever_the_machine_can(solocore, command, said):
    done = solocore("vcpu", *command)
    assert done.code == 2 and said in done.err, done.err


@pytest.mark.parametrize("what", [["4711"], ["--cgroup", "/system.slice/camera.service"], ["--unit", "camera"]])
def test_only_a_scheduler_binds(solocore, what):
    for vcpu in ([], ["video"]):
        done = solocore("vcpu", "bind", *what, *vcpu)
        assert done.code == 3 and ("no solocore schedules VCPUs" in done.err or "/run/solocore-vcpu.sock" in done.err), done.err


def test_exec_needs_a_scheduler(solocore):
    if os.path.exists("/sys/kernel/sched_ext"):
        pytest.skip("this kernel has sched_ext")
    done = solocore("exec", "--vcpu", "6ms/100ms", "--", "touch", "ran")
    assert done.code == 3 and not (solocore.dir / "ran").exists(), done.err
    done = solocore("exec", "--vcpu", "6ms/100ms", "--core", "4000", "--", "touch", "ran")
    assert done.code == 2 and "--core 4000" in done.err
    done = solocore("exec", "--vcpu", "6ms/100ms", "--lock", "--", "touch", "ran")
    assert done.code == 2
