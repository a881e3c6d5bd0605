"""`lock = "auto"`: `plan` chooses the functions that hold the bandwidth lock, and `lock_bandwidth`, for a wanted slowdown.

The bound and its enemies are tested in crates (analysis: bandwidth_lock, planner: lock, experiments: lock_choice); here are the keys, a profiled
program from the system file to the simulator, and the refusals. What a lock does on Linux is tested in guests (tests/vm/lock.sh).
"""

import json

import pytest
from conftest import refused

LINE = 64
# 8 MiB are read in `walk` and 64 KiB in `warm`, each line once.
PROGRAM = r"""
static volatile char area[8 << 20], small[64 << 10];
__attribute__((noinline)) void walk(void) { for (int i = 0; i < 8 << 20; i += 64) area[i]; }
__attribute__((noinline)) void warm(void) { for (int i = 0; i < 64 << 10; i += 64) small[i]; }
int main(void) { warm(); walk(); return 0; }
"""
SYSTEM = """
platform = "core-i5-2500k"
[regulation]
policy = "{policy}"
{more}
[[task]]
name = "video"
core = 0
period = "2 s"
{keys}
"""
BESIDE = """
[[task]]
name = "other{0}"
core = {0}
criticality = "D"
wcet = "1 ms"
misses = 12000
"""


@pytest.fixture
def walker(solocore, compile_c):
    """A directory with the program's profile; `text` makes a system with three best-effort tasks beside it."""
    program = compile_c(PROGRAM)
    done = solocore("profile", "--platform", "core-i5-2500k", "-o", "p.json", "--", program)
    assert done.code == 0, done.err

    def text(slowdown=6.0, more="", policy="bwlock", keys=None):
        keys = f'profile = "p.json"\nlock = "auto"\nslowdown = {slowdown}' if keys is None else keys
        return SYSTEM.format(policy=policy, more=more, keys=keys) + "".join(BESIDE.format(core) for core in (1, 2, 3))

    solocore.text = text
    return solocore


def test_calls_have_their_accesses_and_write_backs(walker):
    functions = {f["name"]: f for f in json.loads((walker.dir / "p.json").read_text())["functions"]}
    walk, main = functions["walk"]["calls"], functions["main"]["calls"]
    lines = (8 << 20) // LINE
    assert lines - 2 <= walk["llc_reads"] <= lines + 200 and walk["llc_misses"] <= walk["llc_reads"]
    assert main["llc_reads"] >= walk["llc_reads"] and main["llc_writes"] >= walk["llc_writes"] >= 0


def test_the_cheapest_choice_keeps_the_slowdown(walker):
    plan = walker.plan(walker.text())
    lock, task = plan["lock"], plan["lock"]["tasks"][0]
    # The whole of `main` would hold the lock for longer, and cover hardly more.
    assert task["functions"] == ["walk"] == plan["tasks"][0]["program"]["lock"]
    assert task["alone_ns"] == plan["tasks"][0]["wcet_ns"]
    assert task["bound_ns"] <= task["limit_ns"] <= 6 * task["alone_ns"]
    assert task["one_more_ns"] > task["limit_ns"] and task["unlocked_ns"] > task["limit_ns"], "the choice is tight"
    assert lock["bandwidth_bytes_per_s"] == plan["regulation"]["lock_budget_accesses"] * LINE * 1000
    assert lock["next"]["price_bytes_per_s"] >= lock["price_bytes_per_s"] > 0 and lock["next"]["task"] == "video"
    assert any(r.startswith("lock of video: walk (1 call(s) a job") for r in plan["reasons"]), plan["reasons"]
    assert any(r.startswith("next best lock: ") for r in plan["reasons"]) and plan["reasons"][-1].startswith("verdict: ")
    promised = {p["id"]: p for p in plan["promises"]}
    assert "each call of walk holds the lock" == promised["sections:task-video"]["what"]
    beside = [promised[f"lock-budget:core-{core}"] for core in (1, 2, 3)]
    assert "lock-budget:core-0" not in promised and all(p["bound_of"] == ["video"] for p in beside), "its own core waits for it"
    assert all(f"at most {plan['regulation']['lock_budget_accesses']} accesses" in p["what"] for p in beside), beside
    said = walker("plan", "system.toml").out
    assert "lock of video: walk" in (said.decode() if isinstance(said, bytes) else said)


def test_the_simulator_keeps_to_the_bound(walker):
    plan = walker.plan(walker.text())
    task = plan["lock"]["tasks"][0]
    result = walker.sim("plan.json", "--duration", "75 ms")
    seen = {t["name"]: t for t in result["tasks"]}["video"]
    assert seen["jobs"] == 1 and seen["moet_ns"] <= task["bound_ns"] <= task["limit_ns"], seen
    # The other cores are stopped while the lock is held, and no core has a budget otherwise.
    assert all(c["throttled_ns"] > 0 for c in result["cores"][1:]) and result["cores"][0]["throttled_ns"] == 0, result["cores"]


def test_more_slowdown_costs_less_and_enough_needs_no_lock(walker):
    prices = [walker.plan(walker.text(slowdown=s))["lock"]["price_bytes_per_s"] for s in (5.0, 6.0, 10.0)]
    assert prices == sorted(prices, reverse=True)
    free = walker.plan(walker.text(slowdown=900.0))
    assert not {"sections", "lock-budget"} & {p["subject"] for p in free["promises"]}
    assert free["lock"]["tasks"][0]["functions"] == [] and "program" not in free["tasks"][0]
    assert any("none is needed" in r for r in free["reasons"])


def test_a_report_shows_the_choice(walker):
    walker.plan(walker.text())
    done = walker("sim", "plan.json", "--duration", "20 ms", "-o", "managed.json")
    assert done.code == 0, done.err
    done = walker("report", "plan.json", "managed.json", "-o", "report.html")
    assert done.code == 0, done.err
    page = (walker.dir / "report.html").read_text()
    assert "Chosen bandwidth lock" in page and "One access more" in page


@pytest.mark.parametrize("change, words", [
    ({"slowdown": 1.01}, ("task `video`", "keeps slowdown = 1.01", "set slowdown = ")),
    ({"more": 'lock_bandwidth = "5 GB/s"'}, ("lock_bandwidth", "leave lock_bandwidth out")),
    ({"policy": "memguard"}, ("task `video`", "bwlock")),
    ({"keys": 'profile = "p.json"\nlock = "auto"'}, ("task `video`", "add slowdown")),
    ({"keys": 'profile = "p.json"\nslowdown = 2.0'}, ("task `video`", "remove slowdown")),
    ({"keys": 'profile = "p.json"\nlock = "most"\nslowdown = 2.0'}, ("task `video`", '"auto"')),
    ({"keys": 'profile = "p.json"\nlock = "auto"\nslowdown = 0.5'}, ("slowdown",)),
    ({"keys": 'wcet = "1 ms"\nmisses = 10\nlock = "auto"\nslowdown = 2.0'}, ("task `video`", "give command or profile")),
])
def test_refusals(walker, change, words):
    walker.write("system.toml", walker.text(**change))
    refused(walker("plan", "system.toml"), *words, codes=(2,), one_line=False)


def test_best_effort_that_holds_the_lock_is_refused_beside_it(walker):
    """The lock limits no holder, so that the bounds of the others would not hold."""
    walker.write("system.toml", walker.text().replace('name = "other2"', 'name = "other2"\ncommand = ["./x"]\nlock = ["function:scan"]'))
    refused(walker("plan", "system.toml"), "task `other2`", "hold the lock", "remove its lock", codes=(2,))


def test_a_plan_whose_program_holds_the_lock_elsewhere_is_refused(walker):
    plan = walker.plan(walker.text())
    plan["tasks"][0]["program"]["lock"] = ["warm"]
    walker.write("other.json", json.dumps(plan))
    refused(walker("sim", "other.json"), "task `video`", "`walk`", "plan again", codes=(2,))


def test_a_stripped_program_is_refused(walker, compile_c):
    done = walker("profile", "--platform", "core-i5-2500k", "-o", "p.json", "--", compile_c(PROGRAM, "-s"))
    assert done.code == 0, done.err
    walker.write("system.toml", walker.text())
    refused(walker("plan", "system.toml"), "no function in its profile", "symbol", codes=(2,))
