"""`solocore sim`: the same seed gives the same result, and no measurement under a plan exceeds the plan's bounds.

Systems are drawn from fixed seeds. Not covered: how close the bounds are, and the contents of the timeline's drawing.
"""

import json
import random

import pytest
from conftest import ROOT, interrupt
from test_plan import system, task

SWEEP = r"""
#include <stdlib.h>
static volatile char area[4 << 20];
int main(int c, char **v) {
    int kib = atoi(v[1]), rounds = atoi(v[2]), store = atoi(v[3]);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < kib << 10; i += 64) { if (store) area[i] = r; else area[i]; }
    return 0;
}
"""


def without_wall(result):
    return {k: v for k, v in result.items() if k != "wall_ns"}


def check_bounds(plan, result):
    """The theorem: what the plan bounds is not exceeded."""
    assert [t["name"] for t in result["tasks"]] == [t["name"] for t in plan["tasks"]]
    for bound, seen in zip(plan["tasks"], result["tasks"], strict=True):
        assert seen["core"] == bound["core"]
        assert seen["acet_ns"] <= seen["moet_ns"] <= seen["max_response_ns"] or not seen["jobs"]
        if bound["criticality"] != "D":
            assert seen["moet_ns"] <= bound["c_sce_ns"], bound["name"]
            if bound["wcrt_ns"] is not None:
                assert seen["max_response_ns"] <= bound["wcrt_ns"], bound["name"]
            if bound["schedulable"]:
                assert seen["misses_deadline"] == 0, bound["name"]
    for share, core in zip(plan["cores"], result["cores"], strict=True):
        assert core["id"] == share["id"]
        if share["budget_accesses"] is not None:
            # The access that exhausts the budget counts twice if it evicts a dirty line.
            assert core["max_accesses_per_period"] <= share["budget_accesses"] + 1, core
        assert core["throttled_ns"] <= result["simulated_ns"]
        assert core["accesses"] == sum(t["accesses"] for t in result["tasks"] if t["core"] == core["id"])


def drawn(seed):
    """A system of stated tasks, some sharing cores, some above their budget, some best effort."""
    rng = random.Random(seed)
    cores = rng.choice([2, 4, 8])
    regulation = f"active_cores = {cores}"
    head = []
    if rng.random() < 0.4:
        regulation += '\nshare = "explicit"'
        head = [f'[[core]]\nid = {c}\nbandwidth = "{rng.randint(30, 900 // cores)} MB/s"\n' for c in range(cores)]
    tasks = []
    for i in range(rng.randint(2, 3 * cores)):
        period = rng.choice([5, 8, 10, 20, 40])
        wcet_us = rng.randint(50, period * 1000 // 5)
        # Of the time alone, what misses take: none to most (a look-up of the shared cache is part of it).
        misses = int(wcet_us * 1000 / 49.6 * rng.choice([0, 0.01, 0.1, 0.3, 0.6]) * rng.random())
        more = {"criticality": rng.choice("ABCCD")}
        if rng.random() < 0.5:
            more["core"] = rng.randrange(cores)
        if rng.random() < 0.3:
            more["deadline"] = f"{period * rng.choice([0.7, 1.5])} ms"
        tasks.append(task(f"t{i}", wcet=f"{wcet_us} us", misses=misses, period=f"{period} ms", **more))
    return system(*head, *tasks, regulation=regulation)


# The later ones have been found to break a bound.
@pytest.mark.parametrize("seed", [*range(40), 2052, 2173, 2417, 2708, 2748, 2804])
def test_bounds_hold_for_stated_tasks(solocore, seed):
    solocore.write("system.toml", drawn(seed))
    plan = solocore("plan", "system.toml", "-o", "plan.json", "--format", "json").json()
    done = solocore("sim", "plan.json", "--duration", "120 ms", "--seed", seed, "--format", "json")
    result = done.json()
    check_bounds(plan, result)
    late = any(s["misses_deadline"] and b["criticality"] != "D" for b, s in zip(plan["tasks"], result["tasks"], strict=True))
    assert done.code == int(late)
    assert result["simulated_ns"] == 120_000_000 and result["seed"] == seed and result["mode"] == "managed"


def with_types(solocore, name="core-i5-2500k", slow="3.3 GHz", fast="6.6 GHz"):
    """A platform file with cores 2 and 3 of twice the clock."""
    board = (ROOT / f"platforms/{name}.toml").read_text()
    types = (("little", [0, 1], slow), ("big", [2, 3], fast))
    for name, cores, clock in types:
        board += f'[[core_type]]\nname = "{name}"\ncores = {cores}\nfrequency = "{clock}"\n'
    solocore.write("board.toml", board)
    return 'platform = "./board.toml"\n'


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_on_cores_of_several_types(solocore, seed):
    rng = random.Random(seed)
    tasks = [task(f"t{i}", wcet=f"{rng.randint(100, 3000)} us", misses=rng.randint(0, 900), period=f"{rng.choice([8, 10, 20])} ms",
                  criticality=rng.choice("ABD")) for i in range(7)]
    text = system(*tasks, regulation='policy = "memguard"', head=with_types(solocore))
    solocore.write("system.toml", text)
    plan = solocore("plan", "system.toml", "-o", "plan.json", "--format", "json").json()
    assert [t["name"] for t in plan["platform"]["core_type"]] == ["little", "big"]
    result = solocore("sim", "plan.json", "--duration", "60 ms", "--seed", seed, "--format", "json").json()
    check_bounds(plan, result)


def test_a_program_is_faster_on_a_fast_core(solocore, compile_c):
    """Mostly computation: half the time at twice the clock, in the plan and in the simulation, and each within its bound."""
    path = compile_c(SWEEP, "-static")
    tasks = [f'[[task]]\nname = "on{core}"\ncore = {core}\nperiod = "100 ms"\ncommand = {json.dumps([str(path), "16", "2000", "0"])}\n'
             for core in (0, 3)]
    plan = solocore.plan(system(*tasks, regulation='policy = "memguard"\nshare = "even"', head=with_types(solocore)))
    result = solocore.sim("plan.json", "--duration", "300 ms")
    check_bounds(plan, result)
    for times in ([t["wcet_ns"] for t in plan["tasks"]], [t["moet_ns"] for t in result["tasks"]]):
        slow, fast = times
        assert 0.45 * slow < fast < 0.75 * slow, times


LITTLE = """cpi = 1.6
pipeline = { mshrs = 4, window = "0 cycles" }
l1d = { size = "16 KiB", ways = 4 }
l2 = { size = "128 KiB", ways = 4, latency = "9 cycles" }
"""
BIG = """cpi = 0.7
pipeline = { mshrs = 12, window = "100 cycles" }
l2 = { size = "512 KiB", ways = 8, latency = "13 cycles" }
"""


def with_whole_types(solocore):
    """Types as a Cortex-A55 and a Cortex-A76 are: other cycles per instruction, miss registers and private caches."""
    head = with_types(solocore)
    board = (solocore.dir / "board.toml").read_text()
    before = 'frequency = "3.3 GHz"\n'
    assert before + "[[core_type]]" in board
    solocore.write("board.toml", board.replace(before + "[[core_type]]", f"{before}{LITTLE}[[core_type]]") + BIG)
    return head


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_on_types_with_caches_of_their_own(solocore, seed):
    rng = random.Random(seed)
    tasks = [task(f"t{i}", wcet=f"{rng.randint(100, 3000)} us", misses=rng.randint(0, 900), period=f"{rng.choice([8, 10, 20])} ms",
                  criticality=rng.choice("ABD")) for i in range(7)]
    solocore.write("system.toml", system(*tasks, regulation='policy = "memguard"', head=with_whole_types(solocore)))
    plan = solocore("plan", "system.toml", "-o", "plan.json", "--format", "json").json()
    assert [t["cpi"] for t in plan["platform"]["core_type"]] == [1.6, 0.7]
    result = solocore("sim", "plan.json", "--duration", "60 ms", "--seed", seed, "--format", "json").json()
    check_bounds(plan, result)


def test_a_program_has_the_cycles_and_the_caches_of_its_core(solocore, compile_c):
    """256 KiB fit into the second level of a big core only. No job takes longer than its bound, wherever it runs."""
    path = compile_c(SWEEP, "-static")
    command = json.dumps([str(path), "256", "30", "0"])
    tasks = [f'[[task]]\nname = "{name}"\n{core}period = "200 ms"\ncommand = {command}\n'
             for name, core in (("little", "core = 0\n"), ("big", "core = 3\n"), ("any", ""))]
    plan = solocore.plan(system(*tasks, regulation='policy = "memguard"\nshare = "even"', head=with_whole_types(solocore)))
    result = solocore.sim("plan.json", "--duration", "600 ms")
    check_bounds(plan, result)
    little, big, anywhere = plan["tasks"]
    assert little["wcet_ns"] > 3 * big["wcet_ns"]
    assert result["tasks"][0]["moet_ns"] > 3 * result["tasks"][1]["moet_ns"]
    # Its profile is the worst of both.
    assert anywhere["wcet_ns"] >= 0.9 * big["wcet_ns"]


def test_a_profile_of_one_core_is_not_one_of_another(solocore, compile_c):
    path = compile_c(SWEEP, "-static")
    head = with_whole_types(solocore)
    arguments = ("profile", "--platform", "./board.toml")
    for name, more in (("big", ["--core", "3"]), ("any", [])):
        done = solocore(*arguments, *more, "-o", f"{name}.json", "--", str(path), "256", "20", "0")
        assert done.code == 0, done.err
    profiles = {name: json.loads((solocore.dir / f"{name}.json").read_text()) for name in ("big", "any")}
    big, anywhere = profiles["big"], profiles["any"]
    assert " or " in anywhere["geometry"] and " or " not in big["geometry"]
    assert anywhere["private_cycles"] >= big["private_cycles"] and anywhere["lockdown"][0] > big["lockdown"][0]
    one = '[[task]]\nname = "t"\ncore = {}\nperiod = "900 ms"\nprofile = "{}.json"\n'
    for core, name, code in ((3, "big", 0), (0, "any", 0), (3, "any", 0), (0, "big", 2)):
        solocore.write("system.toml", system(one.format(core, name), regulation='policy = "memguard"', head=head))
        done = solocore("plan", "system.toml")
        assert done.code == code, (core, name, done.err)
    assert "another type of core" in done.err
    done = solocore(*arguments, "--core", "9", "-o", "x.json", "--", str(path), "1", "1", "0")
    assert done.code == 2 and "--core 9" in done.err


def test_a_stated_time_under_levels_is_one_of_its_core(solocore):
    """Level B has a core: its job computes as long as stated, also on a fast one."""
    head = with_types(solocore, "imx6q", "800 MHz", "1.6 GHz")
    tasks = [f'[[task]]\nname = "{name}"\ncriticality = "B"\ncore = {core}\nperiod = "50 ms"\nwcet = "10 ms"\nmisses = 0\n'
             for name, core in (("slow", 0), ("fast", 3))]
    plan = solocore.plan(head + "[levels]\n" + "".join(tasks))
    result = solocore.sim("plan.json", "--duration", "200 ms")
    assert [t["moet_ns"] for t in result["tasks"]] == [10_000_000, 10_000_000]
    assert all(t["max_response_ns"] <= p["wcrt_ns"] for p, t in zip(plan["tasks"], result["tasks"], strict=True))


@pytest.fixture
def profiled(solocore, compile_c):
    """Three profiled programs on one core, preempting each other, and two best-effort streams on others."""
    path = compile_c(SWEEP, "-static")
    jobs = {"small": (16, 20, 0), "middle": (160, 6, 1), "large": (1024, 2, 1), "hog": (4096, 2, 1), "hog2": (4096, 2, 0)}

    def text(periods):
        out = []
        for name, arguments in jobs.items():
            level, core = ("D", 1 + name.count("2")) if "hog" in name else ("A", 0)
            command = json.dumps([str(path), *map(str, arguments)])
            period = f'period = "{periods[name]} ns"\n' if level == "A" else ""
            out.append(f'[[task]]\nname = "{name}"\ncore = {core}\ncriticality = "{level}"\n{period}command = {command}\n')
        return system(*out, regulation='share = "even"')

    alone = solocore.plan(text(dict.fromkeys(jobs, 10**10)))
    c_sce = {t["name"]: t["c_sce_ns"] for t in alone["tasks"]}
    assert c_sce["small"] < c_sce["middle"] < c_sce["large"]
    # Odd ratios, so that releases meet in many ways.
    periods = {n: int(c_sce[n] * f) for n, f in (("small", 4.1), ("middle", 5.3), ("large", 6.7))}
    return solocore, solocore.plan(text(periods))


def test_bounds_hold_for_profiled_tasks_on_one_core(profiled):
    solocore, plan = profiled
    for seed in (1, 2, 3):
        result = solocore.sim("plan.json", "--duration", "60 ms", "--seed", seed)
        check_bounds(plan, result)
        jobs = {t["name"]: t["jobs"] for t in result["tasks"]}
        assert jobs["small"] > jobs["middle"] > jobs["large"] > 0
    responses = {t["name"]: t["max_response_ns"] - t["moet_ns"] for t in result["tasks"]}
    assert responses["large"] > 0, "nothing was preempted"


def test_modes_of_profiled_tasks(profiled):
    solocore, plan = profiled
    results = [solocore("sim", "plan.json", "--duration", "60 ms", *mode, "--format", "json")
               for mode in (["--solo"], ["--unmanaged"], [])]
    assert results[0].code == results[2].code == 0 and results[1].code in (0, 1)
    solo, unmanaged, managed = (r.json() for r in results)
    assert [solo["mode"], unmanaged["mode"], managed["mode"]] == ["solo", "unmanaged", "managed"]
    longest = [{t["name"]: t["moet_ns"] for t in r["tasks"]} for r in (solo, unmanaged, managed)]
    for name in ("small", "middle", "large"):
        assert longest[0][name] <= longest[1][name]
    # `large` lives in the shared cache, from which the hogs drive it.
    assert longest[1]["large"] > 1.2 * longest[0]["large"]
    assert all(c["throttled_ns"] == 0 for r in (solo, unmanaged) for c in r["cores"])


def test_same_seed_same_result(profiled):
    solocore, _ = profiled
    first, second = (solocore.sim("plan.json", "--duration", "20 ms", "--seed", 7, "--timeline", "10 ms") for _ in range(2))
    assert without_wall(first) == without_wall(second)
    text = [solocore("sim", "plan.json", "--duration", "20 ms", "--seed", 7, "--format", "json").out for _ in range(2)]
    drop = [b"\n".join(line for line in t.splitlines() if b"wall_ns" not in line) for t in text]
    assert drop[0] == drop[1], "byte for byte, but for the wall clock"


def test_system_and_its_plan_give_the_same(profiled):
    solocore, _ = profiled
    a, b = (solocore.sim(name, "--duration", "20 ms") for name in ("plan.json", "system.toml"))
    assert without_wall(a) == without_wall(b)


def test_json_has_what_the_interface_promises(solocore):
    solocore.plan(system(task("a", wcet="1 ms", period="10 ms"), task("d", criticality="D", core=1)))
    result = solocore.sim("plan.json", "--duration", "100 ms")
    for t in result["tasks"]:
        assert {"name", "core", "jobs", "misses_deadline", "moet_ns", "acet_ns", "max_response_ns"} <= t.keys()
    assert all({"id", "accesses", "throttled_ns"} <= c.keys() for c in result["cores"])
    assert {"simulated_ns", "wall_ns", "requests"} <= result.keys() and result["wall_ns"] > 0
    assert result["tasks"][0]["jobs"] == 10
    # Nothing disturbs it: the stated time, but for the accesses that are faster than L_max.
    assert 900_000 <= result["tasks"][0]["moet_ns"] <= 1_000_000
    assert result["tasks"][0]["accesses"] == 1000 == result["requests"] - result["tasks"][1]["accesses"]


def test_default_duration_is_one_second(solocore):
    solocore.plan(system(task("a")))
    assert solocore.sim("plan.json")["simulated_ns"] == 10**9


def test_output_file_holds_the_same_document(solocore):
    solocore.plan(system(task("a")))
    result = solocore.sim("plan.json", "--duration", "10 ms", "-o", "r.json")
    assert json.loads((solocore.dir / "r.json").read_text()) == result
    assert solocore.files() == {"system.toml", "plan.json", "r.json"}


def test_a_budget_is_used_up_and_never_exceeded(solocore):
    cores = '[[core]]\nid = 0\nbandwidth = "6.4 MB/s"\n'
    plan = solocore.plan(system(cores, task("a", core=0, wcet="5 ms", misses=1000, period="50 ms", criticality="D"),
                                task("b", core=1), regulation='share = "explicit"'))
    assert plan["cores"][0]["budget_accesses"] == 100
    managed = solocore.sim("plan.json", "--duration", "1 s")
    assert managed["cores"][0]["max_accesses_per_period"] == 100 and managed["cores"][0]["throttled_ns"] > 0
    assert managed["tasks"][0]["moet_ns"] >= 9_000_000
    unmanaged = solocore.sim("plan.json", "--duration", "1 s", "--unmanaged")
    assert unmanaged["cores"][0]["max_accesses_per_period"] > 100 and unmanaged["cores"][0]["throttled_ns"] == 0


def test_a_late_task_is_reported_by_exit_code(solocore):
    solocore.plan(system(task("late", core=0, wcet="3 ms", misses=0, period="10 ms", deadline="2 ms")), code=1)
    result = solocore.sim("plan.json", "--duration", "100 ms", code=1)
    assert result["tasks"][0]["misses_deadline"] == 10 == result["tasks"][0]["jobs"]


def test_overload_counts_jobs_that_never_finish(solocore):
    solocore.plan(system(*(task(f"t{i}", core=0, wcet="9 ms", misses=0, period="10 ms") for i in range(2))), code=1)
    result = solocore.sim("plan.json", "--duration", "100 ms", code=1)
    assert result["tasks"][0]["misses_deadline"] == 0
    low = result["tasks"][1]
    assert low["misses_deadline"] >= 9 and low["jobs"] <= 1


def test_responses_without_memory_are_exact(solocore):
    solocore.plan(system(task("hi", wcet="10 ms", misses=0, period="50 ms", core=0),
                         task("lo", wcet="45 ms", misses=0, period="100 ms", core=0), regulation="carry_in = false"))
    result = solocore.sim("plan.json", "--duration", "200 ms")
    assert [t["max_response_ns"] for t in result["tasks"]] == [10_000_000, 65_000_000]
    assert [t["moet_ns"] for t in result["tasks"]] == [10_000_000, 45_000_000]
    assert [t["jobs"] for t in result["tasks"]] == [4, 2]


@pytest.mark.parametrize("misses", [100, 5_000, 8_500])
def test_a_stated_task_alone_takes_no_longer_than_stated(solocore, misses):
    """The stated time counts L_max and a look-up for each miss (the plan says so); 8,500 of them take 0.960 ms."""
    solocore.plan(system(task("a", misses=misses)))
    solo = solocore.sim("plan.json", "--duration", "100 ms", "--solo")
    assert 0 < solo["tasks"][0]["moet_ns"] <= 1_000_000


def test_a_preempted_task_makes_the_misses_it_states(solocore):
    """Stated numbers include what preemptions cost: bound and simulation must count the same accesses."""
    solocore.plan(system(task("hi", core=0, wcet="250 us", misses=2000, period="5 ms"),
                         task("lo", core=0, wcet="12 ms", misses=2500, period="40 ms")))
    result = solocore.sim("plan.json", "--duration", "400 ms")
    assert [t["jobs"] for t in result["tasks"]] == [80, 10]
    assert [t["accesses"] for t in result["tasks"]] == [160_000, 25_000]


def test_timeline_has_one_thing_at_a_time(solocore):
    solocore.plan(system(task("hi", wcet="10 ms", misses=500, period="50 ms", core=0),
                         task("lo", wcet="45 ms", misses=500, period="100 ms", core=0)))
    result = solocore.sim("plan.json", "--duration", "200 ms", "--timeline", "80 ms")
    segments = result["timeline"]
    assert segments and all(0 <= s["start_ns"] < s["end_ns"] <= 80_000_000 for s in segments)
    assert result["timeline_ns"] == 80_000_000, "the whole stretch, with its idle end"
    assert "timeline_ns" not in solocore.sim("plan.json", "--duration", "1 ms"), "none was asked for"
    for a, b in zip(segments, segments[1:]):
        assert a["core"] < b["core"] or a["end_ns"] <= b["start_ns"], "a core did two things at once"
    assert all(result["tasks"][s["task"]]["core"] == s["core"] for s in segments)


def test_solo_is_never_longer_than_together(solocore):
    solocore.plan(system(*(task(f"t{i}", core=i, wcet="5 ms", misses=50_000, period="20 ms") for i in range(8))), code=1)
    solo = solocore.sim("plan.json", "--duration", "100 ms", "--solo")
    together = solocore("sim", "plan.json", "--duration", "100 ms", "--unmanaged", "--format", "json").json()
    for a, b in zip(solo["tasks"], together["tasks"], strict=True):
        assert 0 < a["moet_ns"] <= b["moet_ns"] and a["moet_ns"] <= 5_000_000


@pytest.mark.parametrize("duration", ["5", "0 s", "1 parsec", "", "s", "1e3 s", "25 min 3 s", "100000 min", "-1 s", "0.1 ps"])
def test_impossible_durations(solocore, duration):
    solocore.plan(system(task("a")))
    done = solocore("sim", "plan.json", f"--duration={duration}", "-o", "r.json")
    assert done.code == 2 and "duration" in done.err and not done.out
    assert "r.json" not in solocore.files()


def test_solo_and_unmanaged_exclude_each_other(solocore):
    solocore.plan(system(task("a")))
    assert solocore("sim", "plan.json", "--solo", "--unmanaged").code == 2


def test_an_interrupt_ends_a_long_simulation(solocore):
    solocore.plan(system(*(task(f"t{i}", wcet="10 ms", misses=100_000, period="100 ms") for i in range(8))))
    process = solocore.start("sim", "plan.json", "--duration", "10000 s", "-o", "r.json")
    assert process.stderr.readline()
    code, err = interrupt(process)
    assert code == 130 and "interrupted" in err
    assert solocore.files() == {"system.toml", "plan.json"}


def test_perfetto_trace_holds_the_timeline(solocore):
    solocore.write(
        "hog.toml",
        'platform = "p4080"\n[regulation]\nshare = "even"\n[[task]]\nname = "hog"\nperiod = "20 ms"\nwcet = "4 ms"\nmisses = 45000\n',
    )
    done = solocore("sim", "hog.toml", "--duration", "40 ms", "--trace", "t.pftrace", "--timeline", "9500 us", "--format", "json")
    assert done.code in (0, 1), done.err
    trace = (solocore.dir / "t.pftrace").read_bytes()
    packets = 0
    while trace:  # each packet is field 1 with its length
        assert trace[0] == 0x0A
        length, shift, at = 0, 0, 1
        while True:
            length |= (trace[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if trace[at - 1] < 0x80:
                break
        body, trace = trace[at : at + length], trace[at + length :]
        assert len(body) == length
        packets += b"throttled: hog" in body
    assert packets > 20, "a task that wants all its budget is throttled in nearly every period"
    result = json.loads(done.out)
    timeline = result["timeline"]
    assert result["timeline_ns"] == 9_500_000, "the trace is longer than the result's timeline"
    assert timeline and max(s["end_ns"] for s in timeline) == 9_500_000, "a stretch beyond the end is cut, not left out"
