"""`solocore profile --engine perf` and `--from`: counters of a machine, and what runs saw, raise the emulator's profile.

Where this machine has no counters of misses, page faults stand in for them; the virtual board has them (nightly).
"""

import json
import os
import shutil
import signal
import time

import pytest
from conftest import refused
from test_board import BOARD, CACHE, LIMIT, fetched, of_cores, often  # noqa: F401
from test_platform import desktop, hybrid, with_made_up_devices  # noqa: F401

WALK = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int c, char **v) {
    size_t lines = (size_t)atoi(v[1]) * 16, rounds = atoi(v[2]);
    unsigned long (*m)[8] = aligned_alloc(4096, lines * 64), x = 1, sum = 0;
    memset(m, 1, lines * 64);
    for (size_t i = 0; i < rounds * lines; i++) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        size_t k = (x >> 33) % lines;
        sum += m[k][0];
        if (x & (1UL << 20)) m[k][1] = sum;
    }
    printf("%lu\n", sum);
    return 0;
}
"""


@pytest.fixture
def here(solocore):
    """A platform file of this machine."""
    done = solocore("platform", "detect", "-o", "machine.toml")
    assert done.code == 0, done.err
    return "machine.toml"


def quantities(profile, place=0):
    return {q["name"]: q for q in profile["origin"]["measured"]["inputs"][place]["quantities"]}


def counted(solocore, *options, command, code=0):
    done = solocore("profile", "--engine", "perf", "-o", "m.json", *options, "--", *command)
    assert done.code == code, done.err
    return json.loads((solocore.dir / "m.json").read_text()), done.err


def test_jobs_are_measured(solocore, compile_c, here):
    walk = str(compile_c(WALK, "-O2", name="walk"))
    profile, said = counted(solocore, "--jobs", "5", "--input", "64 1", "--input", "1024 2", command=[walk])
    small, large = quantities(profile), quantities(profile, 1)
    assert profile["engine"] == "perf" and profile["origin"]["measured"]["inputs"][0]["arguments"] == ["64", "1"]
    for q in (*small.values(), *large.values()):
        assert len(q["values"]) == q["jobs"] == 5 and q["max"] == max(q["values"]) and q["min"] == min(q["values"]), q
    # The larger one touches 240 more pages.
    faults = [q["page_faults"]["p50"] for q in (small, large)]
    assert 230 <= faults[1] - faults[0] <= 260, faults
    assert "an estimate needs 100 jobs" in small["cpu_ns"]["no_extreme"], said
    # A plan takes no less than what was seen.
    plan = solocore.plan(f'platform = "{here}"\n[regulation]\npolicy = "none"\nmodel = "sce"\n[[task]]\nname = "t"\nperiod = "1 s"\nprofile = "m.json"\n')
    most = max(q["cpu_ns"]["max"] for q in (small, large))
    assert plan["tasks"][0]["wcet_ns"] >= most


def test_what_only_stands_in_raises_nothing(solocore, compile_c, here):
    walk = str(compile_c(WALK, "-O2", name="walk"))
    done = solocore("profile", "--platform", here, "-o", "base.json", "--", walk, "64", "1")
    assert done.code == 0, done.err
    base = json.loads((solocore.dir / "base.json").read_text())
    profile, said = counted(solocore, "--base", "base.json", "--event", "page-faults", "--jobs", "2", command=[walk, "64", "1"])
    assert "stand in for misses; they do not raise the profile" in said
    assert profile["lockdown"] == base["lockdown"] and profile["by_ways"] == base["by_ways"]
    assert profile["private_cycles"] >= base["private_cycles"]
    # The trace came along.
    assert (solocore.dir / profile["trace"]["file"]).read_bytes() == (solocore.dir / base["trace"]["file"]).read_bytes()
    again = solocore("profile", "--engine", "perf", "--base", "m.json", "--jobs", "1", "--", walk, "64", "1")
    refused(again, "it already has measurements")
    other = solocore("profile", "--engine", "perf", "--base", "base.json", "--jobs", "1", "--", walk, "64", "2")
    refused(other, "is a profile of", "not of this command")


@pytest.mark.parametrize("options, command, code, words", [
    (["--platform", "p4080"], ["true"], 2, ["p4080: it is of another machine", "platform detect"]),
    (["--jobs", "0"], ["true"], 2, ["--jobs"]),
    (["--cpu", "9999"], ["true"], 2, ["--cpu 9999", "choose among"]),
    (["--event", "nonsense"], ["true"], 2, ["no event is called `nonsense`"]),
    (["--base", "nowhere.json"], ["true"], 2, ["nowhere.json"]),
    ([], ["false"], 2, ["`false` ended with exit code 1"]),
    ([], ["./nowhere"], 2, ["nowhere"]),
    (["--timeout", "100 ms"], ["sleep", "60"], 2, ["timeout"]),
])
def test_what_cannot_be_measured_is_refused(solocore, options, command, code, words):
    done = solocore("profile", "--engine", "perf", "--jobs", "1", "-o", "m.json", *options, "--", *command)
    assert done.code == code, done.err
    for word in words:
        assert word in done.err, done.err
    assert not {f for f in solocore.files() if not f.startswith("cache-home")}, "nothing is left"


def test_ctrl_c_leaves_nothing(solocore, compile_c, here):
    sleep = str(compile_c("#include <unistd.h>\nint main(void) { return sleep(1); }", name="nap"))
    assert solocore("profile", "--platform", here, "-o", "base.json", "--", sleep).code == 0
    before = solocore.files()
    running = solocore.start("profile", "--engine", "perf", "--base", "base.json", "--jobs", "1000", "-o", "m.json", "--", sleep)
    while b"measuring" not in running.stderr.readline():
        assert running.poll() is None
    time.sleep(0.3)
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(10) == 130
    assert solocore.files() == before


# A core with its own second level and many cycles per instruction, and small cores; types and cycles are the file's.
ON_TYPES = """
"$0" platform detect -o found.toml >/dev/null 2>&1 || exit 9
sed '/^name = "core"/s/$/\\ncpi = 3.0/; /^name = "atom"/s/$/\\ncpi = 1.0/' found.toml >typed.toml
"$0" profile --engine perf --platform typed.toml --event page-faults --jobs 2 -o m.json "$@" -- ./walk 64 1
"""
ONE = 'platform = "typed.toml"\n[regulation]\npolicy = "none"\nmodel = "sce"\n[[task]]\nname = "t"\nperiod = "1 s"\nprofile = "m.json"\n'


def test_a_cpus_type_decides_what_is_charged(solocore, desktop, compile_c):  # noqa: F811
    """Breaks when the caches, the clock or the cycles per instruction of other types count, or when the profile is taken for any core."""
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("CPUs 0 and 1 may not be used")
    hybrid(desktop, "0,1,2,3")
    shutil.copy(compile_c(WALK, "-O2", "-static", name="walk"), solocore.dir / "walk")

    def profiled(*options):
        done = with_made_up_devices(solocore, ON_TYPES, *options)
        assert done.returncode == 0, done.stderr
        return json.loads((solocore.dir / "m.json").read_text()), done.stderr

    own, said = profiled("--cpu", "1")
    assert own["origin"]["measured"]["core_type"] == "core" and own["origin"]["measured"]["cpu"] == 1
    assert "(core type `core`)" in said and " or " not in own["geometry"]
    # Without --cpu it is for any core, and says which type was measured.
    anywhere, said = profiled()
    assert "core_type" not in anywhere["origin"]["measured"] and " or " in anywhere["geometry"]
    assert "is of core_type `core`, and the profile is for any core" in said
    by_core, _ = profiled("--core", "0")
    assert by_core["geometry"] == own["geometry"] and by_core["origin"]["measured"]["core_type"] == "core"
    plan = solocore.plan(ONE + "core = 0\n")
    assert plan["tasks"][0]["wcet_ns"] >= quantities(by_core)["cpu_ns"]["max"]
    for core in ("core = 1\n", ""):
        solocore.write("system.toml", ONE + core)
        refused(solocore("plan", "system.toml"), "m.json", codes=(2,))
    other = with_made_up_devices(solocore, ON_TYPES, "--cpu", "1", "--core", "2")
    assert other.returncode == 2 and "--core 2: its core_type is `atom`, and CPU 1 is of `core`; give --cpu one of 2-3" in other.stderr


def test_a_cpu_without_a_type_is_refused(solocore, desktop, compile_c):  # noqa: F811
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("CPUs 0 and 1 may not be used")
    hybrid(desktop, "0,2,3")
    shutil.copy(compile_c(WALK, "-O2", "-static", name="walk"), solocore.dir / "walk")
    done = with_made_up_devices(solocore, ON_TYPES, "--cpu", "1")
    assert done.returncode == 2 and "core_type: no type has CPU 1" in done.stderr and "give --cpu one of 0,2-3" in done.stderr, done.stderr
    assert not (solocore.dir / "m.json").exists()


SYSTEM = """
platform = "imx6q"
[regulation]
policy = "memguard"
period = "1 ms"
share = "even"
[[task]]
name = "walk"
core = 0
period = "500 ms"
command = ["./walk", "256", "1"]
"""


def test_runs_feed_back(solocore, compile_c):
    shutil.copy(compile_c(WALK, "-O2", name="walk"), solocore.dir / "walk")
    plan = solocore.plan(SYSTEM)
    task = plan["tasks"][0]
    solocore.sim("plan.json", "--duration", "1 s", "-o", "sim.json")

    def fed(file):
        done = solocore("profile", "--from", file, "--plan", "plan.json", "--task", "walk", "-o", "fed.json")
        assert done.code == 0, done.err
        return json.loads((solocore.dir / "fed.json").read_text()), done.err

    kept, said = fed("sim.json")
    assert "no number changed" in said and "raised" not in kept["origin"]
    # A run whose longest job took 1 ms more than its plan allowed.
    run = {"format": "solocore-run/2", "scheme": "budgets", "duration_ns": 10**9, "ended": "signal",
           "tasks": [{"name": "walk", "core": 0, "how": "started", "fifo": None, "jobs": 3, "failed": 0, "misses_deadline": 0, "max_response_ns": 1,
                      "mean_response_ns": 1, "max_cpu_ns": task["c_sce_ns"] + 10**6}]}
    solocore.write("run.json", json.dumps(run))
    raised, said = fed("run.json")
    assert "the profile was too small" in said
    assert raised["private_cycles"] - kept["private_cycles"] == 800_000
    again = solocore.plan(SYSTEM.replace('command = ["./walk", "256", "1"]', 'profile = "fed.json"'))
    assert again["tasks"][0]["wcet_ns"] - task["wcet_ns"] == 10**6
    assert any("raised the emulator's profile by 800000 cycles" in r for r in again["reasons"]), again["reasons"]

    for options, word in [(["--task", "nobody"], "no such task"), (["--from", "plan.json", "--task", "walk"], "has no jobs")]:
        done = solocore("profile", *(["--from", "run.json"] if "--from" not in options else []), "--plan", "plan.json", *options)
        refused(done, word)


# Rounds of the walk: the difference leaves out starts, and what the kernel brings into the cache as it clears pages.
ROUNDS = (2, 6)
PLACEMENTS = 20
MEASURE = """
for r in 2 6; do
	solocore profile --engine perf --platform core-i5-2500k --base $r.json --jobs 20 --write-event r8e7 -o /out/$r.json -- ./walk 8192 $r 2>/out/said \\
		|| { cat /out/said; exit 1; }
done
"""
ALONE = """
platform = "core-i5-2500k"
[regulation]
policy = "none"
share = "even"
[[task]]
name = "walk"
core = 0
period = "100 ms"
profile = "{}.json"
"""


@often
def test_a_boards_counters_agree_with_the_profile(solocore, compile_c, fetched):  # noqa: F811
    """Transactions of four rounds in a stock kernel, by its counters, against the profile's trace on 20 random placements of its pages."""
    shutil.copy(compile_c(WALK, "-O2", name="walk"), solocore.dir / "walk")
    solocore.write("measure.sh", MEASURE)
    shared = []
    for r in ROUNDS:
        done = solocore("profile", "--platform", BOARD, "-o", f"{r}.json", "--", "./walk", "8192", r)
        assert done.code == 0, done.err
        solocore.write(f"{r}.toml", ALONE.format(r))
        assert solocore("plan", f"{r}.toml", "-o", f"{r}.plan").code in (0, 1)
        shared += ["--share", f"{r}.json", "--share", f"{r}.json.trace"]

    def placed(rounds, seed):
        (task,) = solocore.sim(f"{rounds}.plan", "--unmanaged", "--duration", "95 ms", "--seed", seed)["tasks"]
        assert task["jobs"] == 1
        return task["accesses"]

    expected = sorted(placed(6, seed) - placed(2, seed) for seed in range(PLACEMENTS))
    done = solocore("board", "run", BOARD, "--cpus", "4", "--page-walks", "off", "--share", "walk", *shared,
                    "--out", "out", "--", "sh", "measure.sh", timeout=2 * LIMIT, SOLOCORE_BOARD_CACHE=str(CACHE))
    assert done.code == 0, done.err + done.out.decode()
    middle = {}
    for r in ROUNDS:
        profile = json.loads((solocore.dir / f"out/{r}.json").read_text())
        counts = quantities(profile)
        assert "stands_in" not in counts["misses"]
        level = json.loads((solocore.dir / f"{r}.json").read_text())["levels"][-1]
        assert profile["origin"]["raised"]["reads"] == max(0, counts["misses"]["max"] - level["misses"])
        jobs = sorted(m + w for m, w in zip(counts["misses"]["values"], counts["write_backs"]["values"]))
        middle[r] = (jobs[9] + jobs[10]) / 2
    measured = middle[6] - middle[2]
    print(f"four rounds: {measured:.0f} by counters, {expected[0]} to {expected[-1]} by the profile, {measured / expected[10]:.3f} of its median")
    assert expected[0] <= measured <= expected[-1]


# The walk in huge pages: its pages then have the colours that the profile gives them, which numbers pages in the order of their first touch.
HUGE = WALK.replace("#include <string.h>", "#include <string.h>\n#include <sys/mman.h>").replace(
    "aligned_alloc(4096, lines * 64)", "aligned_alloc(2 << 20, lines * 64)").replace(
    "    memset(m", "    madvise(m, lines * 64, MADV_HUGEPAGE);\n    memset(m")
IN_COLOURS = """
echo always >/sys/kernel/mm/transparent_hugepage/enabled
for r in 6 {most}; do
	solocore profile --engine perf --platform board.toml --base $r.json --jobs 5 -o /out/$r.json -- ./walk {kib} $r 2>/out/said \\
		|| {{ cat /out/said; exit 1; }}
done
"""


# A walk of more than the shared cache, and most of its rounds: about 2.4 million misses.
@often
@pytest.mark.parametrize("board, kib, most", [(BOARD, 8192, 30), ("xeon-w3530", 12288, 22), ("xeon-x5650", 16384, 18), ("raspberry-pi-4", 2048, 54)])
def test_a_boards_counters_agree_with_the_profile_in_its_colours(solocore, compile_c, fetched, board, kib, most):  # noqa: F811
    """User-mode demand misses of 24 rounds, no prefetcher: within 2 % of the emulator's. With pages at random they are some 5 % apart. Some starts
    have 7,000 misses fewer than others, which is 0.9 % of these rounds."""
    assert HUGE.count("MADV_HUGEPAGE") == 1 and "2 << 20" in HUGE
    shutil.copy(compile_c(HUGE, "-O2", name="walk"), solocore.dir / "walk")
    solocore.write("measure.sh", IN_COLOURS.format(kib=kib, most=most))
    of_cores(solocore, board, 4)
    misses, shared = {}, ["--share", "board.toml"]
    for r in (6, most):
        done = solocore("profile", "--platform", "board.toml", "-o", f"{r}.json", "--", "./walk", kib, r)
        assert done.code == 0, done.err
        misses[r] = json.loads((solocore.dir / f"{r}.json").read_text())["levels"][-1]["misses"]
        shared += ["--share", f"{r}.json", "--share", f"{r}.json.trace"]
    done = solocore("board", "run", "board.toml", "--cpus", "4", "--page-walks", "off", "--share", "walk", *shared, "--out", "out", "--", "sh",
                    "measure.sh", timeout=2 * LIMIT, SOLOCORE_BOARD_CACHE=str(CACHE))
    assert done.code == 0, done.err + done.out.decode()
    counted_misses = {r: quantities(json.loads((solocore.dir / f"out/{r}.json").read_text()))["misses_user"] for r in misses}
    assert all("stands_in" not in q for q in counted_misses.values())
    measured, expected = (of[most] - of[6] for of in ({r: q["p50"] for r, q in counted_misses.items()}, misses))
    print(f"{board}, {most - 6} rounds: {measured} by counters, {expected} by the profile, {measured / expected:.4f}")
    assert abs(measured / expected - 1) <= 0.02
