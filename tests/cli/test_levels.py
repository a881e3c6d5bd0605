"""Criticality levels and windows on Linux: what `solocore run` refuses before it changes anything; traces of the simulated
scheduler, and `check-trace` on them. What runs in a kernel is tested in guests (tests/vm/guest/levels.sh)."""

import json
import os

import pytest
from conftest import ROOT, refused
from test_ways import board, double, mounted  # noqa: F401 (fixtures)

MC2 = ROOT / "examples/mc2/system.toml"
IMA = ROOT / "examples/ima-sce/system.toml"


@pytest.fixture
def plan(solocore):
    """The example's plan, as a dictionary, and a way to run a changed one."""
    assert solocore("plan", MC2, "-o", "plan.json").code == 0
    return json.loads((solocore.dir / "plan.json").read_text())


def run(solocore, plan, *args):
    solocore.write("changed.json", json.dumps(plan))
    return solocore("run", "changed.json", "--scheduler", "levels", "--partial", "--dry-run", *args)


def table(plan):
    return plan["mc2"]["tables"][0]


def hard(plan):
    return next(t for t in plan["tasks"] if t["criticality"] == "A" and t["core"] == table(plan)["core"])


def not_harmonic(plan):
    hard(plan)["period_ns"] += 1_000_000
    return ["not harmonic", "does not divide", "ms"]


def starts_late(plan):
    table(plan)["slots"][0]["start_ns"] = 1000
    return ["starts at 0.001 ms, not at 0"]


def overlaps(plan):
    slots = table(plan)["slots"]
    first = slots[0]
    slots.insert(1, {**first, "start_ns": first["end_ns"] - 1000})
    return ["slots that overlap", f"one ends at {first['end_ns']} ns, the next starts at {first['end_ns'] - 1000} ns"]


def too_short(plan):
    slot = table(plan)["slots"][0]
    slot["end_ns"] -= 1000
    return ["of slots from 0 ms to", "and needs"]


def no_slots(plan):
    plan["mc2"]["tables"] = []
    return ["has no slots"]


def above_period(plan):
    pets = next(p for p in plan["mc2"]["pets"] if p["task"] == "gps")
    pets["b_ns"] = 10**9
    return ["`gps`", "1000 ms in a period of 40 ms"]


def core_full(plan):
    for pets in plan["mc2"]["pets"]:
        if pets["task"] in ("gps", "fusion", "radio"):
            pets["b_ns"] = 35_000_000
    return ["levels A and B take", "% of core"]


def all_full(plan):
    period = {t["name"]: t["period_ns"] for t in plan["tasks"]}
    for pets in plan["mc2"]["pets"]:
        if pets["task"] in ("video", "map", "log"):
            pets["c_ns"] = period[pets["task"]]
    for t in plan["tasks"]:
        if t["criticality"] == "B":
            t["core"] = 3
            next(p for p in plan["mc2"]["pets"] if p["task"] == t["name"])["b_ns"] = t["period_ns"] * 32 // 100
    return ["levels A to C take", "% of 4 cores"]


def too_long(plan):
    next(t for t in plan["tasks"] if t["name"] == "video")["period_ns"] = 25_000_000_000
    return ["`video` has a period of 25000 ms", "20000 ms"]


@pytest.mark.parametrize("change", [not_harmonic, starts_late, overlaps, too_short, no_slots, above_period, core_full, all_full, too_long])
def test_a_plan_that_does_not_fit_is_refused_with_its_numbers(solocore, plan, change):
    said = change(plan)
    done = run(solocore, plan)
    refused(done, *said, codes=(2,))


@pytest.mark.parametrize("option", [["--reclaim"], ["--sample", "7"], ["--engine", "helper"], ["--share", "spare"],
                                    ["--no-confine"], ["--no-fifo"], ["--colors"], ["--max-hold", "2 s"], ["--event", "page-faults"]])
def test_options_that_nobody_takes_are_refused(solocore, plan, option):
    refused(run(solocore, plan, *option), option[0], "leave one of them out", codes=(2,))


def test_a_plan_that_fits_is_not(solocore, plan):
    done = run(solocore, plan)
    # On a machine with sched_ext it is shown, on another the reason is said.
    assert done.code in (0, 3), done.err
    if done.code == 3:
        assert "sched_ext" in done.err or "root" in done.err, done.err
    # What would be done is said also where the machine lacks something, as data if wanted.
    seen = run(solocore, plan, "--format", "json").json()
    assert (seen["machine"] is None) == (done.code == 0) and seen["scheme"] == "levels"
    assert [t["core"] for t in seen["tables"]] == [t["core"] for t in plan["mc2"]["tables"]]
    assert {t["task"] for t in seen["levels"]} == {t["name"] for t in plan["tasks"]}


def test_devices_of_the_plan_are_limited_or_named(solocore, plan):
    def why():
        seen = run(solocore, plan, "--command", "gps=/bin/true", "--format", "json").json()
        (devices,) = [p for p in seen["promises"] if p["subject"] == "devices"]
        assert devices["kept_by"] is None and "--vouch devices" in devices["why"], devices
        return devices["why"]

    # Its video does not run, so no word is lost on its camera.
    said = why()
    assert "device `receiver` of task `gps` to 2 MB/s, as this machine has no disk of that name" in said and "camera" not in said, said
    for disk in sorted(os.listdir("/sys/class/block") if os.path.isdir("/sys/class/block") else [])[:1]:
        next(io for io in plan["mc2"]["io"] if io["task"] == "gps")["device"] = disk
        said = why()
        assert "no disk" not in said and ("control group" in said or "io.max" in said), said


def test_ways_beside_levels(solocore, plan, mounted):  # noqa: F811
    solocore.write("plan.json", json.dumps(plan))
    command = ["run", "plan.json", "--scheduler", "levels", "--resctrl", "--partial", "--dry-run", "--format", "json"]
    with_room = mounted(*board(plan["platform"]["llc"]["ways"], cpus=4))
    before = with_room.state()
    done = solocore(*command, SOLOCORE_RESCTRL=str(with_room.root))
    if "privileges" in done.err or "root" in done.err:
        pytest.skip(done.err)
    assert "resctrl" not in done.err and with_room.state() == before
    # A task of level B is on a core without ways, which no mask can say: then no region is kept, and the reason is told.
    ways = [p for p in done.json()["promises"] if p["subject"] == "ways"]
    assert ways and all(p["kept_by"] is None and "`radio`" in p["why"] and "no ways" in p["why"] for p in ways), ways
    regions, level_c, locked = [c["ways"] for c in plan["mc2"]["cores"]], plan["mc2"]["level_c_ways"], plan["mc2"]["locked_ways"]
    for region in (regions[3], level_c, locked):
        region["first"] += 1
    regions[2]["count"], level_c["count"] = 1, level_c["count"] - 1
    solocore.write("plan.json", json.dumps(plan))
    done = solocore(*command, SOLOCORE_RESCTRL=str(with_room.root))
    answers = {p["id"]: p["kept_by"] for p in done.json()["promises"]}
    cores = [int(i.split("-")[1]) for i in answers if i.startswith("ways:")]
    assert cores and all(answers[f"ways:core-{core}"] == "resctrl" for core in cores), answers
    # Hardware with fewer ways than the plan's regions is refused before anything else.
    without = mounted(*board(4, cpus=4))
    done = solocore(*command, SOLOCORE_RESCTRL=str(without.root))
    assert done.code in (2, 3) and "ways" in done.err, done.err


def test_windows_that_overlap_are_refused(solocore):
    assert solocore("plan", IMA, "-o", "plan.json").code in (0, 1)
    plan = json.loads((solocore.dir / "plan.json").read_text())
    rows = [r for r in plan["sce"]["table"] if r["stage"] == "processing"]
    same = {}
    for row in rows:
        same.setdefault(row["resource"], []).append(row)
    one, other = next(r for r in same.values() if len(r) > 1)[:2]
    assert run(solocore, plan).code in (0, 3)
    other["offset_ns"] = one["offset_ns"]
    refused(run(solocore, plan), "has its window until", "plan again", codes=(2,))


def test_a_plan_without_levels_is_refused(solocore):
    assert solocore("plan", ROOT / "examples/sce-table2/system.toml", "-o", "plain.json").code in (0, 1)
    refused(solocore("run", "plain.json", "--scheduler", "levels", "--dry-run"), "neither criticality levels", codes=(2,))


@pytest.fixture
def trace(solocore, plan):
    done = solocore("sim", "plan.json", "--duration", "300 ms", "--sched-trace", "trace.csv")
    assert done.code == 0, done.err
    return (solocore.dir / "trace.csv").read_text().splitlines()


def test_the_simulated_scheduler_keeps_every_rule(solocore, trace):
    done = solocore("check-trace", "trace.csv", "--format", "json")
    assert done.code == 0, done.out
    report = done.json()["report"]
    assert report["decisions"] > 100 and report["jobs"] > 50 and report["max_decision_late_ns"] == 0
    assert trace[0].startswith("# solocore-sched-trace/1") and "source=sim" in trace[0]


def test_a_changed_decision_is_found(solocore, trace):
    at = next(i for i, line in enumerate(trace) if ",level-pick,1," in line)
    words = trace[at].split(",")
    words[3] = "2"
    solocore.write("other.csv", "\n".join([*trace[:at], ",".join(words), *trace[at + 1:]]) + "\n")
    done = solocore("check-trace", "other.csv", "--format", "json")
    assert done.code == 1
    violation = done.json()["violation"]
    assert violation["rule"] == "replay" and str(violation["time_ns"]) == words[0]
    text = solocore("check-trace", "other.csv")
    assert text.code == 1 and text.out.decode().startswith("other.csv: a rule is broken: at ")


def test_what_is_no_trace(solocore, trace):
    for name, text, said in [
        ("empty.csv", "", "line 1"),
        ("noise.csv", "time,cpu\n1,2\n", "line 1"),
        ("line.csv", "\n".join([*trace[:20], "7,what"]), "line"),
        ("lost.csv", "\n".join([trace[0] + " lost=5", *trace[1:]]), "5 events were overwritten"),
    ]:
        refused(solocore("check-trace", solocore.write(name, text)), said, codes=(2,))
    refused(solocore("check-trace", "nothing.csv"), "cannot be read", codes=(2,))
    refused(solocore("check-trace", "/dev/zero", timeout=20), "a line is longer than 1 MiB", codes=(2,))


def test_traces_are_those_of_levels(solocore):
    done = solocore("sim", ROOT / "examples/sce-table2/system.toml", "--sched-trace", "t.csv", "--duration", "1 ms")
    refused(done, "no [mc2]", codes=(2,))
