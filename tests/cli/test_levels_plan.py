"""`solocore plan` and `sim` with [levels]: levels, ways, buffers, reasons, verdicts, and refusals.

Bounds are worked out here again from the formulas of docs/levels.md. The optimiser's exactness is tested in tests/study.
"""

import itertools
import json
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, refused

EXAMPLE = ROOT / "examples/mc2/system.toml"
SCHEMES = ["O|opt", "O|C+A/B-All", "O|C+A/B-LP", "O|C+A/B-SP", "O|C", "C|C+A/B-All", "C|C+A/B-LP", "C|C+A/B-SP", "C|C"]
L_NS, CORES, WAYS, LINE = 123.258, 4, 16, 32  # the i.MX6 Quad


def task(name, level, period="20 ms", wcet="2 ms", misses=1000, **more):
    lines = [f'name = "{name}"', f'criticality = "{level}"', f'period = "{period}"']
    if wcet is not None:
        lines += [f'wcet = "{wcet}"', f"misses = {misses}"]
    return "[[task]]\n" + "\n".join(lines + [f"{k} = {json.dumps(v)}" for k, v in more.items()]) + "\n"


def ipc(one, other, size="256 B"):
    return f'[[ipc]]\nfrom = "{one}"\nto = "{other}"\nsize = "{size}"\n'


def io(of, device="disk", rate="5 MB/s", size="64 KiB", **more):
    extra = "".join(f"{k} = {json.dumps(v)}\n" for k, v in more.items())
    return f'[[io]]\ntask = "{of}"\ndevice = "{device}"\nbandwidth = "{rate}"\nsize = "{size}"\n{extra}'


def system(*parts, mc2="", board="imx6q", model="sce"):
    # The formulas here are those of the papers' memory.
    text = f'platform = "{board}"\n[levels]\n{mc2}\n' + "".join(parts)
    return text if "[regulation]" in text else text + f'[regulation]\npolicy = "none"\nmodel = "{model}"\n'


def refreshed(ns, accesses=10**9):
    """A time with the refreshes (350 ns each 7.8 us) that so many accesses can wait for."""
    out = ns
    while (after := ns + 350 * min(out // 7800 + 2, accesses)) > out:
        out = after
    return out


def by_name(plan):
    return {t["name"]: t for t in plan["tasks"]}


def pets(plan):
    return {p["task"]: p for p in plan["mc2"]["pets"]}


@pytest.fixture
def example(solocore):
    done = solocore("plan", EXAMPLE, "--format", "json")
    assert done.code == 0, done.err
    return done.json()


def test_the_text_has_the_verdicts_of_the_plan(solocore):
    text = solocore("plan", EXAMPLE, "-o", "plan.json").out.decode()
    tasks = [t for t in json.loads((solocore.dir / "plan.json").read_text())["tasks"] if "verdict" in t]
    assert {"A", "B", "C"} <= {t["criticality"] for t in tasks}
    for t in tasks:
        assert re.search(rf"^{re.escape(t['name'])} .*  {t['verdict']}$", text, re.M), t["name"]


def test_the_example_has_every_part(example):
    mc2 = example["mc2"]
    regions = [c["ways"] for c in mc2["cores"]] + [mc2["locked_ways"], mc2["level_c_ways"]]
    taken = [range(r["first"], r["first"] + r["count"]) for r in regions]
    assert sum(len(t) for t in taken) == len(set(itertools.chain(*taken))) <= WAYS
    assert mc2["level_c_ways"]["count"] >= 1
    assert [c["bank"] for c in mc2["cores"]] == list(range(CORES))
    for t in example["tasks"]:
        p = pets(example)[t["name"]]
        scale = 1 if t["criticality"] == "C" else 1.5
        assert p["a_ns"] == pytest.approx(scale * p["b_ns"], abs=2) and p["c_ns"] == p["b_ns"]
        assert t["wcrt_ns"] is not None and t["schedulable"]
        if t["criticality"] == "C":
            assert t["wcrt_ns"] == t["period_ns"] + t["tardiness_ns"]
        else:
            assert t["wcrt_ns"] <= t["deadline_ns"] and "tardiness_ns" not in t


def test_the_levels_hold_by_their_own_tests(example):
    for core in range(CORES):
        own = [t for t in example["tasks"] if t["core"] == core and t["criticality"] in "AB"]
        load = lambda level, pet: sum(pets(example)[t["name"]][pet] / t["period_ns"] for t in own if t["criticality"] in level)
        assert load("A", "a_ns") <= 1 and load("AB", "b_ns") <= 1
        found = example["mc2"]["cores"][core]
        assert found["level_a"] == pytest.approx(load("A", "a_ns"), abs=1e-6)
        assert found["level_b"] == pytest.approx(load("AB", "b_ns"), abs=1e-6)
    u = lambda t: pets(example)[t["name"]]["c_ns"] / t["period_ns"]
    level_c = [u(t) for t in example["tasks"] if t["criticality"] == "C"]
    bound = [u(t) for t in example["tasks"] if t["criticality"] in "AB"]
    partial = len({t["core"] for t in example["tasks"] if t["criticality"] in "AB"})
    heavy = sum(sorted(level_c)[-(CORES - 1):])
    assert sum(level_c) + sum(bound) <= CORES
    left = CORES - sum(bound) - heavy - max(partial - 1, 0) * max(level_c)
    assert left > 0
    # Tardiness: x + C_i, analysis::levels::level_c.
    time = lambda t: (pets(example)[t["name"]]["c_ns"], t["period_ns"])
    burst = sum(2 * c * (1 - c / p) for c, p in (time(t) for t in example["tasks"] if t["criticality"] in "AB"))
    costs = sorted(time(t)[0] for t in example["tasks"] if t["criticality"] == "C")
    x = (burst + sum(costs[-(CORES - 1):]) + max(partial - 1, 0) * costs[-1]) / left
    for t in example["tasks"]:
        if t["criticality"] == "C":
            assert t["tardiness_ns"] == pytest.approx(x + time(t)[0], rel=1e-6)


def test_slots_of_level_a(example):
    names = [t["name"] for t in example["tasks"]]
    seen = {}
    for table in example["mc2"]["tables"]:
        for slot, after in itertools.zip_longest(table["slots"], table["slots"][1:]):
            assert slot["start_ns"] < slot["end_ns"] <= (after["start_ns"] if after else table["frame_ns"])
            t = example["tasks"][slot["task"]]
            assert t["criticality"] == "A" and t["core"] == table["core"]
            job = (t["name"], slot["start_ns"] // t["period_ns"])
            assert (slot["end_ns"] - 1) // t["period_ns"] == job[1], "a slot lies in its job's period"
            seen[job] = seen.get(job, 0) + slot["end_ns"] - slot["start_ns"]
    assert {name for name, _ in seen} == {n for n in names if by_name(example)[n]["criticality"] == "A"}
    assert all(length == pets(example)[name]["a_ns"] for (name, _), length in seen.items())


def test_pets_are_bounds_on_contention(example):
    """Each access waits for one of each other core and of both devices."""
    shape = {"attitude": ([1.4, 1.1, 0.95, 0.9], [2400, 1200, 500, 300]), "fusion": ([9, 7.5, 6.5, 6, 5.8], [15000, 9000, 6000, 4500, 4000])}
    for name, (times, misses) in shape.items():
        ways = pets(example)[name]["ways"]
        at = min(ways, len(times)) - 1
        bound = refreshed(times[at] * 1e6 + misses[at] * (CORES - 1 + 2) * L_NS, misses[at] + 1)
        assert bound <= pets(example)[name]["b_ns"] <= bound + 10_000
        assert by_name(example)[name]["misses"] == misses[at]


def test_every_scheme_plans_and_the_default_is_best(solocore):
    text = EXAMPLE.read_text()
    found = {}
    for scheme in SCHEMES:
        solocore.write("system.toml", text.replace('scheme = "O|opt"', f'scheme = "{scheme}"', 1))
        done = solocore("plan", "system.toml", "--format", "json")
        plan = done.json()
        assert done.code == (0 if plan["schedulable"] else 1) and plan["mc2"]["scheme"] == scheme
        found[scheme] = plan["mc2"]["level_c_utilization"] if plan["schedulable"] else float("inf")
    assert found["O|opt"] < float("inf")
    assert all(found["O|opt"] <= u + 1e-9 for u in found.values())
    for suffix in ("C", "C+A/B-All", "C+A/B-LP", "C+A/B-SP"):
        assert found["O|" + suffix] <= found["C|" + suffix] + 1e-9


def test_messages_together_apart_and_unmanaged(solocore):
    two = task("a", "B"), task("b", "B")
    together = solocore.plan(system(*two, ipc("a", "b", "32 KiB")))
    assert together["mc2"]["messages"][0]["method"] == "CE"
    assert by_name(together)["a"]["core"] == by_name(together)["b"]["core"] == together["mc2"]["messages"][0]["bank"]
    apart = task("a", "B", core=0), task("b", "B", core=2)
    bypass = solocore.plan(system(*apart, ipc("a", "b", "32 KiB"), mc2="least_ways_of_c = 16"))
    assert bypass["mc2"]["messages"][0] | {"bytes": 0} == {"from": "a", "to": "b", "bytes": 0, "method": "SBP", "bank": None}
    assert [by_name(bypass)[n]["core"] for n in "ab"] == [0, 2]
    lines = (32 << 10) // LINE
    longer = pets(bypass)["a"]["b_ns"] - pets(together)["a"]["b_ns"]
    assert longer == pytest.approx(refreshed(lines * CORES * L_NS), abs=2)
    assert by_name(bypass)["a"]["misses"] == by_name(together)["a"]["misses"] + lines
    locked = solocore.plan(system(*apart, ipc("a", "b", "32 KiB")))
    assert locked["mc2"]["messages"][0]["method"] == "CL" and locked["mc2"]["locked_ways"]["count"] >= 1
    assert pets(locked)["a"]["b_ns"] == pets(together)["a"]["b_ns"]
    plain = solocore.plan(system(*two, ipc("a", "b", "32 KiB"), mc2='scheme = "C|C"'))
    assert plain["mc2"]["messages"][0]["method"] == "C"
    assert pets(plain)["a"]["b_ns"] - pets(together)["a"]["b_ns"] == pytest.approx(2 * refreshed(lines * CORES * L_NS), abs=2)


def test_measured_costs_decide_where_a_buffer_goes(solocore):
    """A task that only copies keeps its buffer; beside tasks that DMA hurts it goes to level C's banks."""
    tasks = task("copies", "B", core=0, misses=0), task("works", "B", core=0, wcet="12 ms", misses=0)
    place = lambda copy, bank: solocore.plan(system(
        *tasks, io("copies", rate="60 MB/s", copy=copy), mc2='contention = "measured"\n[levels.costs]\ndma_bus = 0.0\n' f"dma_bank = {bank}",
    ))["mc2"]["io"][0]["bank"]
    assert place(0.9, 0.01) == 0
    assert place(0.01, 0.5) is None


def test_explanations_price_the_next_best(solocore):
    done = solocore("plan", EXAMPLE, "--explain")
    text = done.out.decode()
    assert done.code == 0 and "PET_B = time alone" in text and "U_C + sum U_k" in text
    plan = solocore("plan", EXAMPLE, "--format", "json").json()
    choices = {c["of"]: c for c in plan["mc2"]["choices"]}
    assert {"buffers", "ways of core 0", "ways of level C and the OS", "fusion", "message gps to fusion", "buffer of receiver"} <= choices.keys()
    assert all(c["why"] and c["next_best"] for c in choices.values())
    for c in choices.values():
        assert f"{c['of']}: {c['chosen']}: {c['why']}; next best: {c['next_best']}" in plan["reasons"]
        assert f"next best: {c['next_best']}" in text
    short = solocore("plan", EXAMPLE).out.decode()
    assert "next best" not in short and "verdict: levels A and B meet their deadlines" in short
    # The price of a move is what the same system bound so costs.
    moved = choices["radio"]["next_best"]
    core = int(moved.split("core ")[1].split(":")[0])
    bound = EXAMPLE.read_text()
    for t in plan["tasks"]:
        if t["criticality"] in "AB":
            where = core if t["name"] == "radio" else t["core"]
            bound = bound.replace(f'name = "{t["name"]}"', f'name = "{t["name"]}"\ncore = {where}', 1)
    other = solocore.plan(bound)
    taken = sum(c["level_c"] for c in other["mc2"]["cores"])
    base = sum(c["level_c"] for c in plan["mc2"]["cores"])
    assert other["mc2"]["level_c_utilization"] == pytest.approx(plan["mc2"]["level_c_utilization"])
    assert ("would cost nothing" in moved) == (abs(taken - base) < 1e-9)
    if "would cost nothing" not in moved:
        assert f"{taken:.4f}" in moved


@pytest.mark.parametrize("parts, words", [
    ([task("a", "A", wcet="15 ms", misses=0)], ["core 0 is overloaded", "A-PETs"]),
    ([task(n, "B", wcet=None, wcet_by_ways=["19 ms", "18 ms", "17 ms", "16 ms", "9 ms"], misses_by_ways=[1, 1, 1, 1, 1], average=0.5)
      for n in "abcdefgh"], ["the cores need 5 + 5 + 5 + 5 ways and level C 1"]),
    ([task(n, "C", wcet="19 ms", misses=0) for n in "abcde"], ["level C takes 4.750"]),
])
def test_unschedulable_systems_say_why(solocore, parts, words):
    plan = solocore.plan(system(*parts), code=1)
    assert plan["schedulable"] is False and not all(t["schedulable"] for t in plan["tasks"])
    assert plan["reasons"][-1].startswith("verdict: not schedulable: ")
    for word in words:
        assert word in plan["reasons"][-1], plan["reasons"][-1]


def test_runs_keep_the_promises(solocore):
    solocore.plan(EXAMPLE.read_text())
    plan = json.loads((solocore.dir / "plan.json").read_text())
    seen = solocore.sim("plan.json", "--duration", "300 ms")
    for promised, t in zip(plan["tasks"], seen["tasks"]):
        assert t["jobs"] > 0 and t["max_response_ns"] <= promised["wcrt_ns"] and t["moet_ns"] <= promised["c_sce_ns"]
    assert solocore.sim("plan.json", "--duration", "300 ms")["tasks"] == seen["tasks"]
    for mode in ("--unmanaged", "--solo"):
        assert all(t["jobs"] > 0 for t in solocore.sim("plan.json", mode, "--duration", "300 ms")["tasks"])


@pytest.fixture
def programs(solocore):
    """The example with programs, built, and its plan."""
    files = shutil.copytree(EXAMPLE.parent, solocore.dir / "mc2", ignore=shutil.ignore_patterns("build"))
    subprocess.run(["make", "-s", "-C", files], check=True)
    done = solocore("plan", "mc2/programs.toml", "-o", "plan.json", "--format", "json")
    assert done.code == 0, done.err
    return done.json()


def test_programs_in_their_own_ways_are_as_fast_as_alone(solocore, programs):
    """Fails where the simulator gives all tasks all ways under the plan, or divides the cache without it."""
    hard = [t["name"] for t in programs["tasks"] if t["criticality"] in "AB"]
    longest = []
    for mode in (["--solo"], ["--unmanaged"], []):
        tasks = by_name(solocore.sim("plan.json", *mode, "--duration", "160 ms"))
        assert not any(tasks[name]["misses_deadline"] for name in hard)
        longest.append([tasks[name]["moet_ns"] for name in hard])
    assert len(hard) == 3
    for name, alone, unmanaged, managed in zip(hard, *longest):
        assert unmanaged > 1.08 * alone, name
        assert managed - alone < 0.25 * (unmanaged - alone), name
        assert managed <= by_name(programs)[name]["c_sce_ns"], name


def test_a_preempted_program_of_level_c_reloads_its_private_caches_only(solocore, programs):
    """No hit of level C in its shared ways is counted, so a preemption costs none. Its working set of 2 MiB would cost ten times as much."""
    text = solocore("plan", "mc2/programs.toml", "--explain").out.decode()
    piece = int(re.search(r"(?ms)^fusion$.*?preemptions and accesses under way, ps = (\d+)", text)[1])
    lines, access = (32 + 32 + 128) * 1024 // 64, 4 * 49.6
    assert 2 * lines * access < piece / 1000 < 1.1 * refreshed(2 * lines * access)


def test_one_core_has_no_slack_but_its_refreshes(solocore):
    """With nobody to wait for, a job takes what is stated, and what refreshes add: it must not be cut at its PET."""
    alone = '[regulation]\npolicy = "none"\nactive_cores = 1\n'
    plan = solocore.plan(system(task("a", "A", misses=10), task("b", "B", misses=10), task("c", "C", misses=10), mc2=alone))
    seen = solocore.sim("plan.json", "--duration", "500 ms")
    assert all(t["misses_deadline"] == 0 and t["jobs"] == 25 for t in seen["tasks"])
    assert all(t["moet_ns"] <= p["c_sce_ns"] for p, t in zip(plan["tasks"], seen["tasks"]))


def test_level_c_may_be_late_within_its_bound(solocore):
    """Five jobs of 7 ms at once on four cores: one ends at 14 ms, after its deadline; that is not a broken promise."""
    plan = solocore.plan(system(*[task(n, "C", period="10 ms", wcet="7 ms", misses=0) for n in "abcde"]))
    seen = solocore.sim("plan.json", "--duration", "200 ms")
    assert sum(t["misses_deadline"] for t in seen["tasks"]) > 0
    for promised, t in zip(plan["tasks"], seen["tasks"]):
        assert t["max_response_ns"] <= promised["wcrt_ns"]


def test_the_report_has_levels_and_choices(solocore):
    done = solocore("assess", EXAMPLE, "-o", "out", "--duration", "200 ms")
    assert done.code == 0, done.err
    page = (solocore.dir / "out/report.html").read_text()
    for word in ("Levels: regions and buffers", "the cost of the next best", "tardy by at most", "CE: both tasks on one core"):
        assert word in page


def test_the_older_name_of_the_table_is_read(solocore):
    text = system(*GOOD, mc2="ways = 12\n[levels.costs]\nsend_cl = 0.1").replace("[levels]", '[levels]\ncontention = "measured"')
    new, old = (solocore.plan(text.replace("[levels", name)) for name in ("[levels", "[mc2"))
    assert new | {"inputs": []} == old | {"inputs": []}
    solocore.write("both.toml", text + "[mc2]\n")
    refused(solocore("plan", "both.toml"), "duplicate field `levels`", codes=(2,), one_line=False)


GOOD = [task("a", "A"), task("b", "B"), task("c", "C"), task("d", "D")]


@pytest.mark.parametrize("text, words", [
    (system(*GOOD, mc2='scheme = "O|best"'), ["system.toml:3", "unknown variant `O|best`", "O|opt"]),
    (system(*GOOD, mc2='scheme = "R|R"'), ["unknown variant `R|R`"]),
    (system(*GOOD, mc2="ways = 17"), ["system.toml:2", "ways = 17", "imx6q has 16"]),
    (system(*GOOD, mc2="ways = 0"), ["ways = 0"]),
    (system(*GOOD, mc2="least_ways_of_c = 17"), ["least_ways_of_c = 17"]),
    (system(*GOOD, mc2="pet_scale = 0.5"), ["pet_scale = 0.5"]),
    (system(*GOOD, mc2='tick = "2 ms"'), ["tick = 2 ms"]),
    (system(*GOOD, mc2='refresh = "5 us"'), ["refresh = 5 us"]),
    (system(*GOOD, mc2="[levels.costs]\nio_copy = 0.5"), ["[levels.costs]", "measured"]),
    (system(*GOOD, mc2='contention = "measured"\n[levels.costs]\nsend_cl = 0.9'), ["send_cl = 0.9"]),
    (system(*GOOD, board="raspberry-pi-4"), ["can only be coloured"]),
    (system(*GOOD, mc2="[regulation]\npolicy = \"memguard\""), ["system.toml:3", "regulates nothing"]),
    ('platform = "imx6q"\n' + GOOD[0] + ipc("a", "a"), ["system.toml:8", "[[ipc]] is read only under [levels]"]),
    ('platform = "imx6q"\n' + task("a", "A", average=0.5), ["system.toml:2", "only under [levels]"]),
    (system(*GOOD, ipc("a", "nobody")), ["system.toml:28", "names the task `nobody`"]),
    (system(*GOOD, ipc("a", "a")), ["`a` sends to itself"]),
    (system(*GOOD, ipc("a", "d")), ["`d`, which is best effort"]),
    (system(*GOOD, ipc("b", "c")), ["between level C and levels A and B"]),
    (system(*GOOD, ipc("a", "b"), ipc("a", "b")), ["is there already (line 28)"]),
    (system(*GOOD, ipc("a", "b", "129 MiB")), ["system.toml:28", "a bank of imx6q holds 128 MiB"]),
    (system(*GOOD, ipc("a", "b", "0 B")), ["above zero"]),
    (system(*GOOD, io("x")), ["names the task `x`"]),
    (system(*GOOD, io("a", size="200 MiB")), ["buffer of `disk`", "128 MiB"]),
    (system(*GOOD, io("a", rate="9 GB/s")), ["9 GB/s"]),
    (system(*GOOD, io("a"), io("a", "other")), ["has a buffer already (line 28)"]),
    (system(*GOOD, io("a", copy=0.5)), ["copy is for"]),
    (system(*GOOD, io("a", direction="up")), ["unknown variant `up`"]),
    (system(task("a", "A"), task("b", "B", period="30 ms")), ["system.toml:10", "not a multiple of the 20 ms of `a`"]),
    (system(task("a", "A", deadline="10 ms")), ["system.toml:4", "deadline"]),
    (system(task("a", "A", priority=1)), ["priority"]),
    (system(task("c", "C", core=1)), ["level C runs on every core"]),
    (system(task("a", "A", core=4)), ["core 4"]),
    (system(task("b", "B", wcet=None, wcet_by_ways=["2 ms", "3 ms"], misses_by_ways=[2, 1])), ["must not grow"]),
    (system(task("b", "B", wcet=None, wcet_by_ways=["2 ms"], misses_by_ways=[2, 1])), ["1 entries, misses_by_ways 2"]),
    (system(task("b", "B", wcet_by_ways=["2 ms"], misses_by_ways=[2])), ["remove one pair"]),
    (system(task("c", "C", wcet=None, wcet_by_ways=["2 ms"], misses_by_ways=[2])), ["ways of level C are shared"]),
    (system(task("b", "B", average=1.5)), ["average = 1.5"]),
    (system(*[task(n, "B", core=0) for n in "ab"], *[io(n, f"d{n}", size="100 MiB") for n in "ab"]), ["buffers of core 0", "bank holds"]),
])
def test_bad_input_names_line_and_reason(solocore, text, words):
    solocore.write("system.toml", text)
    refused(solocore("plan", "system.toml", "-o", "plan.json"), "system.toml", *words, codes=(2,))
    assert solocore.files() == {"system.toml"}


@pytest.mark.parametrize("change, word", [
    (lambda p: p["mc2"]["level_c_ways"].update(first=0), "overlap"),
    (lambda p: p["mc2"]["tables"][0]["slots"][0].update(end_ns=10**9), "impossible slots"),
    (lambda p: p["mc2"]["cores"][0].update(bank=99), "banks"),
    (lambda p: p["mc2"]["pets"].pop(), "provisioned"),
])
def test_edited_plans_are_checked(solocore, change, word):
    plan = solocore.plan(EXAMPLE.read_text())
    change(plan)
    solocore.write("plan.json", json.dumps(plan))
    refused(solocore("sim", "plan.json"), "plan.json", word, codes=(2,))


def test_run_says_that_levels_are_not_enforced(solocore):
    solocore.plan(EXAMPLE.read_text())
    refused(solocore("run", "plan.json"), "plan.json")


JOB = """
#include <stdlib.h>
static volatile char table[96 << 10];
int main(void) {
    volatile char *heap = malloc(64 << 10);
    for (int round = 0; round < 8; round++) {
        for (unsigned i = 0; i < sizeof table; i += 32) table[i]++;
        for (unsigned i = 0; i < 64 << 10; i += 64) heap[i]++;
    }
    return 0;
}
"""


def test_programs_are_profiled_and_keep_their_bounds(solocore, compile_c):
    """Misses by ways from the profile; simulated in the planned ways, with regions that are not in one piece."""
    run = [str(compile_c(JOB))]
    tasks = [task(n, level, wcet=None, period="200 ms", command=run) for n, level in (("a", "A"), ("b", "B"), ("c", "C"))]
    plan = solocore.plan(system(*tasks, ipc("a", "b")))
    assert any("profiled as a x86_64 program" in reason for reason in plan["reasons"])
    found = by_name(plan)
    assert found["b"]["misses"] < found["c"]["misses"], "level C counts on no hit in its shared ways"
    assert pets(plan)["b"]["ways"] > 0
    seen = solocore.sim("plan.json", "--duration", "600 ms")
    for promised, t in zip(plan["tasks"], seen["tasks"]):
        assert t["jobs"] == 3 and t["max_response_ns"] <= promised["wcrt_ns"] and t["moet_ns"] <= promised["c_sce_ns"]
    assert all(t["jobs"] == 3 for t in solocore.sim("plan.json", "--unmanaged", "--duration", "600 ms")["tasks"])


def test_the_sound_model_charges_what_others_can_do(solocore):
    """Beside what has several misses under way and posts writes, each access may wait for two drains of the write queue."""
    parts = task("a", "A", misses=100), task("b", "B", misses=200), task("d", "D")
    papers, sound = (solocore.plan(system(*parts, model=model)) for model in ("sce", "sound"))
    assert sound["model"] == "sound" and sound["schedulable"]
    more = pets(sound)["b"]["b_ns"] - pets(papers)["b"]["b_ns"]
    # 63 writes of 32 clocks of 1.875 ns for each access, and the reads that are older.
    assert 200 * 63 * 60 < more < 200 * 12_000
    seen = solocore.sim("plan.json", "--duration", "200 ms")
    for promised, t in zip(sound["tasks"], seen["tasks"]):
        if promised["criticality"] in "AB":
            assert t["max_response_ns"] <= promised["wcrt_ns"] and t["misses_deadline"] == 0


def measured(costs=""):
    """The example with the costs that were measured on the virtual board, some of them replaced."""
    text = EXAMPLE.read_text()
    assert text.count('contention = "bounded"') == 1
    lines = (EXAMPLE.parent / "costs.toml").read_text()
    for line in filter(None, costs.split("\n")):
        lines, count = re.subn(rf"^{line.split()[0]} = .*$", line, lines, flags=re.M)
        assert count == 1, line
    return text.replace('contention = "bounded"', 'contention = "measured"') + "\n" + lines


def chosen(solocore, text):
    done = solocore("plan", solocore.write("measured.toml", text), "--format", "json")
    assert done.code == 0, done.err
    return {c["of"]: c for c in done.json()["mc2"]["choices"]}


def test_measured_costs_decide_and_say_why(solocore):
    """The next best place of a message costs what the measured times say. Both ends of each are on one core, so CE is the next best of CL."""
    sbp_us = 8192 / LINE * L_NS / 1000
    found = chosen(solocore, measured())
    message = found["message gps to fusion"]
    assert message["chosen"] == "CL"
    assert message["next_best"] == f"CE: {(0.4605 - 0.4578) * sbp_us:.3f} us more per job of gps and 0.000 us of fusion"
    assert re.search(r"level C would take 0\.\d+ \(\+0\.99 %\)", found["buffer of receiver"]["next_best"]), found["buffer of receiver"]
    # Without a gain from locked lines no way is given to them, and SBP is the next best of CE.
    found = chosen(solocore, measured("send_cl = 0.4605"))
    message = found["message gps to fusion"]
    assert message["chosen"] == "CE"
    more = [f"{(1 - ce) * sbp_us:.3f}" for ce in (0.4605, 0.8191)]
    assert message["next_best"] == f"SBP: {more[0]} us more per job of gps and {more[1]} us of fusion"
    # On two cores, CL stands against SBP.
    apart = measured("send_cl = 0.05").replace('name = "actuate"', 'name = "actuate"\ncore = 2')
    message = chosen(solocore, apart)["message attitude to actuate"]
    assert message["chosen"] == "CL"
    assert message["next_best"].startswith(f"SBP: {(1 - 0.05) * sbp_us / 32:.3f} us more per job of attitude"), message
