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
                                    ["--no-confine"], ["--no-fifo"], ["--max-hold", "2 s"], ["--event", "page-faults"]])
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


# The i.MX6's: 16 colours, and eight banks whose bits choose no colour.
MAP = "".join(f"# colour: {bit}\n" for bit in range(12, 16)) + "16\n17\n18\n"


def in_frames(solocore, plan, *options):
    """Who would keep the promises of a run with frames, and why; and its notes."""
    solocore.write("map.txt", MAP)
    done = run(solocore, plan, "--colors", "--map", "map.txt", "--format", "json", *options)
    seen = done.json()
    return {p["id"]: (p["kept_by"], p["why"]) for p in seen["promises"]}, seen["notes"]


def test_banks_are_kept_by_frames_and_ways_by_the_hardware_alone(solocore, plan):
    found, notes = in_frames(solocore, plan, "--command", "gps=/bin/true")
    assert {found[f"banks:core-{core}"][0] for core in range(4)} == {"colours"}, found
    keeper, why = found["ways:core-0"]
    assert keeper is None and "stand for its 5 ways" in why and "--resctrl" in why
    assert any(note.startswith("ways of the plan are not applied") for note in notes), notes
    solocore.write("map.txt", MAP.replace("18\n", ""))
    few = run(solocore, plan, "--colors", "--map", "map.txt", "--format", "json").json()["promises"]
    assert all(p["kept_by"] is None and "has 4 banks of pages, and the plan 8" in p["why"] for p in few if p["subject"] == "banks")
    # An attached task has any frames, which may be those of any other task.
    found, _ = in_frames(solocore, plan, "--command", "fusion=/bin/true", "--attach", f"gps={os.getpid()}")
    assert found["banks:core-1"][0] is None and "`gps` is attached" in found["banks:core-1"][1]


def test_messages_lie_where_the_plan_has_them_or_are_named(solocore, plan):
    ends = [word for task in ("gps", "fusion", "video", "map") for word in ("--command", f"{task}=/bin/true")]
    found, _ = in_frames(solocore, plan, *ends, "--queues", "/fixes,0x4d2")
    # CE of core 0, and level C.
    for message in ("gps-to-fusion", "video-to-map"):
        assert found[f"buffer:message-{message}"][0] == "colours", found
    keeper, why = found["buffer:message-attitude-to-actuate"]
    assert keeper is None and "does not start `attitude`" in why and "--command attitude=" in why
    assert found["buffer:buffer-receiver-of-gps"][0] is None, "a device's"
    without, _ = in_frames(solocore, plan, *ends)
    assert "name this one in --queues" in without["buffer:message-gps-to-fusion"][1]
    for method, words in (("SBP", "uncacheable (SBP)"), ("CL", "locked in the cache (CL)")):
        next(m for m in plan["mc2"]["messages"] if m["from"] == "gps").update(method=method, bank=None)
        found, _ = in_frames(solocore, plan, *ends, "--queues", "all")
        keeper, why = found["buffer:message-gps-to-fusion"]
        assert keeper is None and words in why and "--vouch buffer" in why, why
    plain = {p["id"]: p["why"] for p in run(solocore, plan, *ends, "--format", "json").json()["promises"]}
    assert "--colors" in plain["buffer:message-gps-to-fusion"] and "--colors" in plain["banks:core-0"]


def test_ways_without_colours_are_refused_before_anything_changes(solocore, plan):
    def refusal(text):
        solocore.write("map.txt", text)
        solocore.write("changed.json", json.dumps(plan))
        done = solocore("run", "changed.json", "--scheduler", "levels", "--partial", "--colors", "--map", "map.txt")
        if "privileges" in done.err or "CAP_" in done.err:
            pytest.skip(done.err)
        return done

    # Five and four of 16 ways make a colour of four; one way makes none.
    plan["mc2"]["level_c_ways"].update(first=10, count=6)
    plan["mc2"]["cores"][2]["ways"]["count"] = 1
    banks = "16\n17\n18\n"
    few = refusal("# colour: 12\n# colour: 13\n" + banks)
    refused(few, "1 of 16 ways to core 2", "less than one of the 4 colours of map.txt", "--resctrl", codes=(3,))
    # A way of one page: neither the map nor the board has colours.
    plan["platform"]["llc"]["size"] = "64 KiB"
    refused(refusal(banks), "5 of 16 ways to core 0", "map.txt has no colours that stand for them", codes=(3,))
    plan["mc2"]["cores"][1]["bank"] = 0
    refused(refusal(MAP), "have a bank together", "make the plan again", codes=(2,))


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
    refused(done, "no [levels]", codes=(2,))
