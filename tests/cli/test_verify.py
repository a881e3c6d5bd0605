"""`solocore verify`: a plan held against a machine.

On the machine that runs the tests page faults stand in for misses, so that no budget holds enemies: what is tested is the measuring, the judging
and the cleaning up. On the virtual board, whose counters count, the plan is enforced, and a plan with its budgets left out is found out.
"""

import json
import signal
import subprocess
import time

import jsonschema
import pytest
from conftest import ROOT, board_like_here, interrupt, refused
from test_board import BOARD, CACHE, LIMIT, fetched, of_cores, often  # noqa: F401
from test_run_colours import MAP

SYSTEM = """
platform = "machine.toml"
[regulation]
policy = "memguard"
[[task]]
name = "video"
core = 0
period = "500 ms"
wcet = "{wcet}"
misses = 100
command = {command}
[[task]]
name = "control"
core = 0
period = "600 ms"
wcet = "2 ms"
misses = 10
[[task]]
name = "batch"
core = 1
criticality = "D"
wcet = "1 ms"
misses = 1
"""
QUICK = ("--event", "page-faults", "--memory", "8 MiB")


@pytest.fixture
def planned(solocore):
    """Plans a system whose first task runs this command."""
    cpus = board_like_here(solocore)

    def plan(command=("sleep", "0.01"), wcet="100 ms"):
        solocore.cpus = cpus
        solocore.made = solocore.plan(SYSTEM.format(command=json.dumps(list(command)), wcet=wcet))
        return solocore

    return plan


def verified(solocore, *options):
    """A partial verification that ended; skips where nothing can be regulated, or something else regulates just now."""
    begin = time.monotonic()
    while True:
        done = solocore("verify", "plan.json", *QUICK, "--partial", "--format", "json", *options)
        if "another solocore" not in done.err or time.monotonic() - begin > 60:
            break
        time.sleep(1)
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    return done


def verify(solocore, *options, code=0):
    """The result of a partial verification that ended so."""
    done = verified(solocore, *options)
    assert done.code == code, done.err
    return done.json()


def verify_together(solocore, exceeded, *options):
    """The result of the first of four measurements of all tasks in which just these tasks exceed what is promised, or of the last one.

    Tasks are ordinary programs here: on a busy machine, another program takes their CPU now and then.
    """
    for _ in range(4):
        done = verified(solocore, *options)
        result = done.json()
        found = {task["name"]: task["exceeded"] for task in result["together"]["tasks"] if task["exceeded"]}
        if found == exceeded and done.code == bool(exceeded):
            break
    assert done.code == bool(exceeded), done.err
    return result


def enemies_left():
    # Another file's tests have enemies of another size.
    return subprocess.run(["pgrep", "-f", "bench bandwidth -t 0 .* -m 8192 KiB"], capture_output=True).stdout.split()


def test_a_task_is_measured_three_times(planned):
    solocore = planned()
    result = verify(solocore, "-n", "4", "--search-jobs", "2", "-o", "verify.json")
    assert json.loads((solocore.dir / "verify.json").read_text()) == result
    jsonschema.validate(result, solocore("schema", "verify").json())
    [task] = result["tasks"]
    made = solocore.made["tasks"][0]
    assert (task["name"], task["core"], task["promise_ns"], task["wcet_ns"]) == ("video", 0, made["c_sce_ns"], made["wcet_ns"])
    for case in ("alone", "unmanaged", "attacked"):
        assert len(task[case]["times_ns"]) == 4 and min(task[case]["times_ns"]) >= 10_000_000, "each job sleeps 10 ms"
        assert task[f"{case}_ns"] >= task[case]["max_ns"]
    kinds = ["read", "write", "cache", "rows", "tlb"]
    assert [c["channel"] for c in task["channels"]] == kinds
    for case, worst in (("unmanaged", "worst_unmanaged_channel"), ("attacked", "worst_channel")):
        longest = max(task["channels"], key=lambda c: c[f"{case}_ns"])
        assert task[worst] == longest["channel"] and task[f"{case}_ns"] == max(longest[f"{case}_ns"], task[case]["max_ns"])
    assert task["margin"] == pytest.approx(1 - task["attacked_ns"] / task["promise_ns"])
    # Another core has best effort only, whose demand no bound counts on.
    assert 1 in task["enemies"] and 0 not in task["enemies"] and task["beside"] == []
    untested = " | ".join(result["untested"])
    for words in ("task control: it has no command", "kind bank", "preemption among tasks", "page-faults stands in"):
        assert words in untested, untested
    assert any(a["subject"] == "budget" for a in result["open"]), "page faults bound no accesses"
    assert not result["exceeded"] and enemies_left() == []


@pytest.mark.parametrize("wcet, sleep, exceeded", [("5 ms", "0.02", ["demand", "c_sce"]), ("100 ms", "0.02", [])])
def test_what_takes_longer_than_promised_is_found(planned, wcet, sleep, exceeded):
    solocore = planned(("sleep", sleep), wcet)
    result = verify(solocore, "-n", "2", "--enemy", "write", code=1 if exceeded else 0)
    [task] = result["tasks"]
    assert task["exceeded"] == exceeded and result["exceeded"] == bool(exceeded)
    assert (task["margin"] < 0) == bool(exceeded)
    assert task["channels"] == [] and task["worst_channel"] == "write", "of one kind none is to be found"


def test_a_report_shows_it(planned):
    solocore = planned(wcet="5 ms")
    verify(solocore, "-n", "2", "--enemy", "rows", "-o", "verify.json", code=1)
    done = solocore("report", "plan.json", "verify.json", "-o", "report.html")
    assert done.code == 0, done.err
    page = (solocore.dir / "report.html").read_text()
    assert 'data-verified="video"' in page and "exceeds demand, c_sce" in page and "Not tested" in page
    assert "more than its C_sce" in page, "the verdict at the head says it as well"
    other = solocore.plan('platform = "p4080"\n[[task]]\nname = "x"\ncore = 0\nperiod = "1 s"\nwcet = "1 ms"\nmisses = 1\n')
    assert other["tasks"][0]["name"] == "x"
    refused(solocore("report", "plan.json", "verify.json", "-o", "no.html"), "task `video`", codes=(2,))


def test_people_see_a_table(planned):
    solocore = planned()
    verify(solocore, "-n", "1", "--enemy", "write")
    done = solocore("verify", "plan.json", *QUICK, "--partial", "-n", "1", "--enemy", "write")
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    text = done.out.decode()
    assert done.code == 0 and "margin" in text and "not tested:" in text and "a measurement is not a proof" in text, text
    assert "video: 1 job alone" in done.err and "with the plan enforced beside write" in done.err


def test_open_promises_are_refused(planned):
    solocore = planned()
    done = solocore("verify", "plan.json", *QUICK, "-n", "1", "--enemy", "write")
    assert done.code == 3 and "--partial" in done.err + "another solocore: --partial", done.err
    assert not done.out and enemies_left() == []
    assert "job alone" not in done.err, "nothing is measured for a plan that is refused afterwards"


@pytest.mark.parametrize("options, words", [
    (("--task", "nobody"), ("no task `nobody`", "video, control, batch")),
    (("--task", "control"), ("no analysed task has a command", "--command")),
    (("--directory", "nowhere"), ("--directory nowhere",)),
    (("--vouch", "everything"), ("--vouch everything", "no such promise")),
])
def test_wishes_that_cannot_be(planned, options, words):
    done = planned()("verify", "plan.json", *QUICK, "-n", "1", *options)
    assert done.code in (2, 3) and not done.out
    assert all(word in done.err for word in words) or "another solocore" in done.err, done.err


def test_bad_usage(planned):
    solocore = planned()
    assert solocore("verify", "plan.json", "--enemy", "bank").code == 2, "it needs a map"
    assert solocore("verify", "plan.json", "--jobs", "0").code == 2
    assert solocore("verify", "plan.json", "--colors", "--everywhere").code == 2, "an enemy would lie in any colours"
    assert solocore("verify").code == 2
    refused(solocore("verify", "system.toml"), "is not a plan", codes=(2,))
    levels = ROOT / "examples/mc2/system.toml"
    assert solocore("plan", levels, "-o", "levels.json").code in (0, 1)
    refused(solocore("verify", "levels.json"), "no analysed task has a command", codes=(2,))


def test_a_task_that_fails_is_said(planned):
    solocore = planned(("false",))
    done = solocore("verify", "plan.json", *QUICK, "--partial", "-n", "1", "--enemy", "write")
    assert done.code in (2, 3) and not done.out
    assert "task `video`" in done.err and "failed" in done.err or done.code == 3, done.err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_and_its_enemies(planned, how):
    solocore = planned(("sleep", "0.2"), "300 ms")
    process = solocore.start("verify", "plan.json", *QUICK, "--partial", "-n", "1000", "-o", "verify.json", "--enemy", "write")
    time.sleep(1.5)
    begin = time.monotonic()
    code, err = interrupt(process, how)
    if code == 3:
        pytest.skip(err.strip().splitlines()[-1])
    assert code == 130 and "interrupted" in err
    assert time.monotonic() - begin < 5, "half a second is needed here"
    assert enemies_left() == [] and not (solocore.dir / "verify.json").exists()


def test_beside_tasks_whose_demand_counts(solocore):
    cpus = board_like_here(solocore)
    text = SYSTEM.format(command='["sleep", "0.01"]', wcet="100 ms").replace('criticality = "D"\n', 'period = "1 s"\n')
    plan = solocore.plan(text)
    demand = next(p for p in plan["promises"] if p["id"] == "demand:task-batch")
    assert "video" in demand["bound_of"], "without best effort the bounds count on what the others demand"
    one = ("-n", "1", "--enemy", "write", "--task", "video")
    result = verify(solocore, *one)
    [task] = result["tasks"]
    assert 1 not in task["enemies"] and task["beside"] == []
    assert any("task batch beside video: it has no command" in u for u in result["untested"])
    if cpus == 2:
        assert task["enemies"] == [] and task["worst_channel"] is None
    assert verify(solocore, *one, "--command", "batch=true")["tasks"][0]["beside"] == ["batch"]
    [task] = verify(solocore, *one, "--everywhere")["tasks"]
    assert task["enemies"] == list(range(1, cpus)) and task["beside"] == []


def test_with_colours_the_plans_own_programs_run(solocore):
    """Breaks when an enemy, which lies in any colours, runs beside a task that is in its own; or when no program of the plan does."""
    cpus = board_like_here(solocore)
    solocore.write("map.txt", MAP)
    text = SYSTEM.format(command='["sleep", "0.01"]', wcet="400 ms")
    solocore.plan(text + 'command = ["sleep", "60"]\n')
    one = ("-n", "1", "--enemy", "write", "--task", "video")
    result = verify(solocore, *one, "--colors", "--map", "map.txt")
    [task] = result["tasks"]
    assert task["enemies"] == [] and task["beside"] == ["batch"] and task["worst_channel"] is None
    assert task["worst_unmanaged_channel"] == "write", "nothing is enforced there"
    said = [u for u in result["untested"] if "with --colors an enemy would lie in any colours" in u]
    assert any(u.startswith("enemies on core 1 beside video") for u in said), result["untested"]
    [task] = verify(solocore, *one)["tasks"]
    assert task["enemies"] == list(range(1, cpus)) and task["beside"] == []


def explicit(platform, period, rates):
    """The head of a system with these bandwidths of its cores, in kB/s."""
    cores = "".join(f'[[core]]\nid = {i}\nbandwidth = "{rate} kB/s"\n' for i, rate in enumerate(rates))
    return f'platform = "{platform}"\n[regulation]\npolicy = "memguard"\nperiod = "{period}"\nshare = "explicit"\n{cores}'


# A chase of more than the shared cache, 1.4 to 4.5 times slower beside three writers; little for each of these.
CHASE = """
[[task]]
name = "chase"
core = 0
period = "1 s"
command = ["./chase", "{}", "{}", "0"]
"""
BOTH = """
for plan in plan without; do
	solocore verify $plan.json -n 1 --enemy write --partial --directory . -o /out/$plan.json
	echo "exit $?"
done
"""


# In every test run, tests/cli/test_board_figures.py has hogs and budgets on the board; this one takes minutes.
@often
@pytest.mark.parametrize("preset, kib, steps, rates", [
    (BOARD, 8192, 400000, (896000, 32000)), ("xeon-w3530", 12288, 400000, (896000, 32000)), ("imx6q", 4096, 200000, (112000, 4000)),
    ("raspberry-pi-4", 2048, 400000, (224000, 8000))])
def test_the_board_exposes_a_plan_without_its_budgets(solocore, compile_c, fetched, preset, kib, steps, rates):  # noqa: F811
    (solocore.dir / "chase").symlink_to(compile_c((ROOT / "tests/board/chase.c").read_text(), "-O2", name="chase"))
    of_cores(solocore, preset, 4)
    plan = solocore.plan(explicit("board.toml", "1 ms", [*rates, rates[1], rates[1]]) + CHASE.format(kib, steps))
    for core in plan["cores"][1:]:
        core["budget_accesses"], core["bandwidth_bytes_per_s"] = 1_000_000, 64_000_000_000
    solocore.write("without.json", json.dumps(plan))
    solocore.write("both", BOTH)
    shares = [word for name in ("chase", "board.toml", "plan.json", "without.json") for word in ("--share", name)]
    done = solocore("board", "run", "board.toml", "--cpus", "4", *shares, "--out", "out", "--", "sh", "both",
                    timeout=2 * LIMIT, SOLOCORE_BOARD_CACHE=str(CACHE))
    assert done.code == 0, done.err
    print(done.out.decode())
    [kept], [without] = (json.loads((solocore.dir / f"out/{name}.json").read_text())["tasks"] for name in ("plan", "without"))
    assert [line for line in done.out.decode().splitlines() if line.startswith("exit")] == ["exit 0", "exit 1"]
    assert kept["exceeded"] == [] and kept["alone_ns"] <= kept["wcet_ns"], "the profile holds on the board"
    assert without["exceeded"] == ["c_sce"] and without["attacked_ns"] > 1.25 * kept["attacked_ns"]
    assert kept["unmanaged_ns"] > 1.3 * kept["alone_ns"], "otherwise there was nothing to hold off"


# Walks 512 KiB, computes for 14 ms, and so on: beside others the next round finds nothing in the shared cache.
PHASES = r"""
#include <stdio.h>
#define LINES 8192
static struct line { struct line *next; long rest[7]; } m[LINES];
int main(int c, char **v) {
    struct line *at = m;
    for (long i = 0; i < LINES; i++) m[i].next = &m[(i * 1021 + 1) % LINES];
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < LINES; i++) at = at->next;
        for (volatile long i = 0; i < 48000000 / ROUNDS; i++);
    }
    printf("%p\n", (void *)at);
    return 0;
}
"""
# All pages of the program are locked in ways of the shared cache. The neighbours' budgets replace the cache's content in 14 ms.
LOCKED = """
[[task]]
name = "phases"
core = 0
period = "1 s"
command = ["./phases"]
"""
WITHOUT_AND_WITH = """
for how in "" {option}; do
	solocore verify plan.json -n 1 --enemy {enemy} --partial $how --directory . -o /out/v$how.json
	echo "exit $?"
done
"""


def without_and_with(solocore, board, option, enemy, *options, first=""):
    """A plan verified in a guest without and with an option: the tasks of both. Only without it a promise is exceeded."""
    solocore.write("both", first + WITHOUT_AND_WITH.format(option=option, enemy=enemy))
    done = solocore("board", "run", board, *options, "--share", "plan.json", "--out", "out", "--", "sh", "both", timeout=2 * LIMIT,
                    SOLOCORE_BOARD_CACHE=str(CACHE))
    assert done.code == 0, done.err
    print(done.out.decode())
    assert [line for line in done.out.decode().splitlines() if line.startswith("exit")] == ["exit 1", "exit 0"], done.err
    return [json.loads((solocore.dir / f"out/v{how}.json").read_text())["tasks"] for how in ("", option)]


@often
@pytest.mark.parametrize("preset, cores, rounds", [(BOARD, 4, 6), ("xeon-w3530", 4, 6), ("xeon-x5650", 4, 6), ("p4080", 2, 12)])
def test_the_board_exposes_a_plan_without_its_locked_pages(solocore, compile_c, fetched, preset, cores, rounds):  # noqa: F811
    (solocore.dir / "phases").symlink_to(compile_c(PHASES, "-O2", "-static", f"-DROUNDS={rounds}", name="phases"))
    # The board's cache has ways. The plan's instructions take 1.8 % longer than the board's: its profile lacks what the kernel does as a job starts.
    of_cores(solocore, preset, cores, partition='"way"', cpi="1.018")
    (solocore.dir / "board.toml").rename(solocore.dir / "ways.toml")
    of_cores(solocore, preset, cores, partition='"way"')
    plan = solocore.plan(explicit("ways.toml", "2 ms", [300000, *[230000] * (cores - 1)]) + LOCKED)
    [task] = plan["tasks"]
    assert len(task["locked_pages"]) > 128 and task["misses"] == 0, "the whole program is locked"
    [without], [kept] = without_and_with(solocore, "board.toml", "--resctrl", "read", "--cpus", str(cores), "--allocation", "--share", "phases",
                                         first="mount -t resctrl resctrl /sys/fs/resctrl || exit 9")
    assert without["exceeded"] == ["c_sce"] and kept["exceeded"] == []
    assert without["alone_ns"] <= without["wcet_ns"]


# A walk through 8 MiB in `walk`; the plan chooses the functions that hold the lock, and the bandwidth beside it.
SECTIONS = r"""
#include <stdio.h>
#define LINES (1 << 17)
static struct line { struct line *next; long rest[7]; } m[LINES];
__attribute__((noinline)) static void fill(void) { for (long i = 0; i < LINES; i++) m[i].next = &m[(i * 7921 + 1) % LINES]; }
__attribute__((noinline)) static struct line *walk(long steps) { struct line *at = m; while (steps--) at = at->next; return at; }
int main(void) { fill(); printf("%p\n", (void *)walk(400000)); return 0; }
"""
LOCKED_FUNCTIONS = """
platform = "board.toml"
[regulation]
policy = "bwlock"
[[task]]
name = "walker"
core = 0
period = "1 s"
command = ["./walker"]
lock = "auto"
slowdown = 1.5
"""
# The walk is longer than the whole shared cache, so that it is no quicker in a part of its own.
# With --partial, as the kernel stops a writer some accesses too late: one to four periods had more than the budget (2026-11-28).
UNDER_THE_LOCK = """
vouched="--vouch prefetchers --vouch devices --vouch ways --vouch banks --vouch locked-pages --vouch interrupts"
for plan in plan without; do
	solocore verify $plan.json -n 1 --enemy write --partial $vouched --directory . -o /out/$plan.json
	echo "exit $?"
done
solocore run plan.json --start --directory . $vouched --duration "1500 ms" -o /out/run.json || exit 9
solocore run plan.json --start --directory . $vouched --duration "400 ms" --max-hold "5 ms" -o /out/cut.json
echo "cut $?"
solocore run plan.json --start --directory . $vouched --duration "1500 ms" -o /out/client.json &
until [ -S /run/solocore-client.sock ]; do sleep 0.02; done
# The tasks are released a moment later; before that, the run would be refused.
sleep 0.4
solocore exec --lock --core 3 -- ./walker
wait $!
echo "client $?"
"""


def walker_beside_hogs(solocore, compile_c, system, code):
    """The plan of the walker beside three best-effort tasks."""
    (solocore.dir / "walker").symlink_to(compile_c(SECTIONS, "-O1", name="walker"))
    of_cores(solocore, BOARD, 4)
    hog = '[[task]]\nname = "hog{0}"\ncore = {0}\ncriticality = "D"\nwcet = "1 ms"\nmisses = 12000\n'
    return solocore.plan(system + "".join(hog.format(core) for core in (1, 2, 3)), code=code)


def held_and_not(solocore, without, script, words):
    """This script in a guest, beside plan.json with the plan `without` a lock: the task under each plan, and the lines that begin with these words."""
    solocore.write("without.json", json.dumps(without))
    solocore.write("both", script)
    shares = [word for name in ("walker", "board.toml", "plan.json", "without.json") for word in ("--share", name)]
    done = solocore("board", "run", "board.toml", "--cpus", "4", *shares, "--out", "out", "--", "sh", "both", timeout=2 * LIMIT,
                    SOLOCORE_BOARD_CACHE=str(CACHE))
    print(done.out.decode(), done.err)
    assert done.code == 0, done.err
    [kept], [without] = (json.loads((solocore.dir / f"out/{name}.json").read_text())["tasks"] for name in ("plan", "without"))
    return kept, without, [line for line in done.out.decode().splitlines() if line.split(" ")[0] in words]


def answered(solocore):
    """The run's file, and who keeps each promise."""
    run = json.loads((solocore.dir / "out/run.json").read_text())
    return run, {p["id"]: p["kept_by"] for p in run["promises"]}


@often
def test_the_board_exposes_a_lock_that_nobody_holds(solocore, compile_c, fetched):  # noqa: F811
    """No response time rests on the lock, but the wanted slowdown does: C_sce has no limit here, and the promise is that of the lock."""
    # No response has a bound, so that the plan as a whole is not schedulable.
    plan = walker_beside_hogs(solocore, compile_c, LOCKED_FUNCTIONS, 1)
    [chosen] = plan["lock"]["tasks"]
    assert chosen["verdict"] == "meets" and plan["tasks"][0]["wcrt_ns"] is None
    # Nothing says that a function is a section: the other cores are not held down.
    chosen = plan["lock"]["tasks"][0] | {}
    plan["lock"]["tasks"][0]["functions"] = []
    del plan["tasks"][0]["program"]["lock"]
    plan["promises"] = [p for p in plan["promises"] if p["subject"] != "sections"]
    kept, without, codes = held_and_not(solocore, plan, UNDER_THE_LOCK, ("exit", "cut", "client"))
    assert codes == ["exit 0", "exit 1", "cut 1", "client 1"], codes
    assert kept["exceeded"] == [] and kept["slowdown_bound_ns"] == chosen["bound_ns"] <= 1.5 * chosen["alone_ns"], kept
    assert without["exceeded"] == ["slowdown"] and without["attacked_ns"] > chosen["bound_ns"], without
    run, answers = answered(solocore)
    assert answers["sections:task-walker"] == "tasks" and answers["lock-budget:core-1"] == "regulation" and not run.get("broken"), answers
    for name, broken in ("cut", "sections:task-walker"), ("client", "lock-budget:core-3"):
        assert broken in json.loads((solocore.dir / f"out/{name}.json").read_text())["broken"], name
    [task] = run["tasks"][:1]
    assert task["slowdown_bound_ns"] == chosen["bound_ns"] > task["max_cpu_ns"] > 0, task


# A skid, and --partial, as the kernel stops a writer some accesses too late: with a skid of 1000 all promises were kept in two of three runs, and in the
# other one a period on two cores had more accesses (2026-11-29).
LOCKED_JOBS = LOCKED_FUNCTIONS.replace('policy = "bwlock"', 'policy = "bwlock"\nlock = "jobs"\nskid = 1000').replace(
    'lock = "auto"\nslowdown = 1.5', 'deadline = "95 ms"')
BESIDE_JOBS = """
vouched="--vouch prefetchers --vouch devices --vouch ways --vouch banks --vouch locked-pages --vouch interrupts"
solocore verify plan.json -n 1 --enemy write --partial $vouched --directory . -o /out/plan.json
echo "exit $?"
solocore verify without.json -n 1 --enemy write --partial --directory . -o /out/without.json
echo "exit $?"
solocore run plan.json --start --directory . $vouched --duration "1500 ms" --max-hold "5 ms" -o /out/run.json
echo "run $?"
"""


@often
def test_the_board_exposes_jobs_that_hold_no_lock(solocore, compile_c, fetched):  # noqa: F811
    """The response time rests on the lock, which solocore holds for the task while its program runs."""
    plan = walker_beside_hogs(solocore, compile_c, LOCKED_JOBS, 0)
    bound = plan["tasks"][0]["c_sce_ns"]
    assert plan["schedulable"] and plan["regulation"]["lock_reaction_ns"] == 200_000
    # The same bounds, but nothing says that jobs hold the lock.
    del plan["regulation"]["lock_reaction_ns"]
    plan["promises"] = [p for p in plan["promises"] if p["subject"] not in ("holds", "beside-jobs")]
    kept, without, codes = held_and_not(solocore, plan, BESIDE_JOBS, ("exit", "run"))
    assert codes[:2] == ["exit 0", "exit 1"], codes
    assert kept["exceeded"] == [] and "c_sce" in without["exceeded"] and without["attacked_ns"] > bound > 1.5 * kept["attacked_ns"], (kept, without)
    run, answers = answered(solocore)
    assert answers["holds:task-walker"] == "tasks" and answers["beside-jobs:core-0"] == "regulation", answers
    broken = run.get("broken", [])
    assert codes[2] == ("run 1" if broken else "run 0") and all(id.startswith("beside-jobs:") for id in broken), (codes, broken)
    assert run["tasks"][0].get("bound_ns") == (None if broken else plan["tasks"][0]["wcrt_ns"]), run["tasks"]


# Half of the colours for a chase of 2.5 MiB whose core makes 1500 accesses a millisecond, ten times fewer than its neighbour. In its own colours it finds
# its lines in the shared cache; beside the neighbour in the same ones it waits for the budget at each step, 667 ms for a million. C has the start in
# colours, which makes half a million accesses: 320 ms of this budget.
OWN_COLOURS = """
[[task]]
name = "chase"
core = 0
period = "2 s"
wcet = "500 ms"
misses = 100
command = ["./chase", "{}", "1000000", "0"]
[[task]]
name = "hog"
core = 1
criticality = "D"
wcet = "1 ms"
misses = 1
command = ["./hog", "8192", "1"]
"""


@often
@pytest.mark.parametrize("preset, kib, rates", [(BOARD, 2560, (96000, 960000)), ("xeon-w3530", 3584, (96000, 960000)),
                                                ("xeon-x5650", 5120, (96000, 960000)), ("raspberry-pi-4", 400, (48000, 240000))])
def test_the_board_exposes_a_plan_without_its_colours(solocore, compile_c, fetched, preset, kib, rates):  # noqa: F811
    for name in ("chase", "hog"):
        (solocore.dir / name).symlink_to(compile_c((ROOT / f"tests/board/{name}.c").read_text(), "-O2", name=name))
    of_cores(solocore, preset, 2)
    plan = solocore.plan(explicit("board.toml", "1 ms", rates) + OWN_COLOURS.format(kib))
    half = plan["cores"][0]["colours"][1]
    assert half >= 8 and [core["colours"] for core in plan["cores"]] == [[0, half], [half, half]]
    shares = [word for name in ("chase", "hog", "board.toml") for word in ("--share", name)]
    [without], [kept] = without_and_with(solocore, "board.toml", "--colors", "write", "--cpus", "2", "--memory", "2G", "--page-walks", "off", *shares)
    assert without["exceeded"] == ["c_sce"] and without["enemies"] == [1]
    assert kept["exceeded"] == [] and kept["beside"] == ["hog"] and kept["enemies"] == []
    assert without["attacked_ns"] > 1.3 * kept["attacked_ns"]


PAIR = """
platform = "machine.toml"
[regulation]
policy = "memguard"
[[task]]
name = "fast"
core = 0
period = "100 ms"
wcet = "{fast}"
misses = 10
command = ["sh", "-c", "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done"]
[[task]]
name = "slow"
core = 0
period = "300 ms"
wcet = "40 ms"
misses = 10
command = ["sleep", "0.02"]
[[task]]
name = "batch"
core = 1
criticality = "D"
wcet = "1 ms"
misses = 1
"""


@pytest.mark.parametrize("fast, exceeded", [("70 ms", {}), ("1 ms", {"fast": ["response"]})])
def test_tasks_of_one_core_are_measured_beside_each_other(solocore, fast, exceeded):
    board_like_here(solocore)
    made = solocore.plan(PAIR.format(fast=fast))
    result = verify_together(solocore, exceeded, "-n", "1", "--enemy", "write", "--together", "1.2 s")
    together = result["together"]
    assert together["channels"] == ["write"] and 1 in together["enemies"]
    assert 0 not in together["enemies"], "the plan counts on no other program there"
    tasks = {t["name"]: t for t in together["tasks"]}
    assert list(tasks) == ["fast", "slow"]
    assert len(tasks["fast"]["responses"]["times_ns"]) > len(tasks["slow"]["responses"]["times_ns"]) >= 2
    for task, planned in zip(tasks.values(), made["tasks"]):
        assert task["promise_ns"] == planned["wcrt_ns"]
        assert task["max_response_ns"] == task["responses"]["max_ns"] > 0
        assert task["margin"] == pytest.approx(1 - task["max_response_ns"] / task["promise_ns"])
    assert {name: t["exceeded"] for name, t in tasks.items() if t["exceeded"]} == exceeded
    assert not any("preemption" in u for u in result["untested"])


def test_windows_are_measured_as_a_whole(solocore):
    board_like_here(solocore)
    system = PAIR.format(fast="30 ms").replace('core = 0\n', 'partition = "p"\n').split("[[task]]\nname = \"batch\"")[0]
    system = system.replace("[[task]]", '[[partition]]\nname = "p"\ncore = 0\nperiod = "100 ms"\n[[task]]', 1)
    made = solocore.plan(system)
    result = verify_together(solocore, {}, "-n", "1", "--enemy", "read", "--together", "1.5 s")
    assert result["tasks"] == [] and any("each task by itself" in u for u in result["untested"])
    tasks = result["together"]["tasks"]
    assert [t["promise_ns"] for t in tasks] == [t["wcrt_ns"] for t in made["tasks"]]
    assert all(t["responses"]["times_ns"] and not t["exceeded"] for t in tasks), tasks
    done = solocore("verify", "plan.json", *QUICK, "--partial", "-n", "1", "--enemy", "read", "--together", "1 s", "-o", "verify.json")
    if done.code != 3:
        assert "all tasks at once" in done.out.decode() and "C ms" not in done.out.decode()
        assert solocore("report", "plan.json", "verify.json", "-o", "report.html").code == 0
        assert 'data-at-once="fast"' in (solocore.dir / "report.html").read_text()
