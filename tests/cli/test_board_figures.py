"""What only hardware could show, on the virtual board (docs/board-figures.md): a program beside three memory hogs, without and with a plan,
without and with cache colours; and beside a kernel that copies, in reserved colours and without. The lock of the vision programs and its time to effect;
progress and latency of memory under VCPUs, and background time that is throttled by the latency or by the rate.

The programs (tests/board/chase.c, hog.c, jump.c, examples/vision) know nothing of solocore; effect.c takes the lock. One guest runs all parts of a figure.
Needs what test_board.py needs.
"""

import json
import os
import shutil
import subprocess

import pytest
from board_progress import progress
from conftest import ROOT
from test_board import BOARD, LIMIT, fetched, in_guest, often  # noqa: F401

# Core 0 gets what the board guarantees but for the hogs' 200 lines a millisecond each.
BUDGETS = [16400, 200, 200, 200]
# Behind the start of a run: until it regulates.
REGULATES = """run=$!
until [ "$(cat /sys/kernel/sched_ext/state)" = enabled ]; do
	kill -0 $run || exit 9
	sleep 0.02
done
hogs=
"""
# As many steps alone as under the plan: the first round finds what the setting up of the buffer left in the cache.
PLAN = """
echo "alone $(./chase 8192 500000 0)"
solocore run --partial plan.json --format json >/out/run.json &
""" + REGULATES + """
for cpu in 1 2 3; do ./hog 8192 $cpu & hogs="$hogs $!"; done
# Their starts are over: what the kernel does for them counts against nobody.
sleep 0.05
echo "managed $(./chase 8192 500000 0)"
kill -INT $run
wait $run || exit 8
echo "unmanaged $(./chase 8192 200000 0)"
kill $hogs
"""
# Two of six MiB, which one half of the colours holds.
COLOURS = """
echo "alone $(./chase 2048 200000 0)"
for cpu in 1 2 3; do solocore exec --platform core-i5-2500k --colors 16-31 -- ./hog 8192 $cpu & done
until [ "$(pidof hog | wc -w)" = 3 ]; do sleep 0.02; done
sleep 0.2
echo "managed $(solocore exec --platform core-i5-2500k --colors 0-15 -- ./chase 2048 200000 0)"
killall hog
for cpu in 1 2 3; do ./hog 8192 $cpu & done
sleep 0.02
echo "unmanaged $(./chase 2048 200000 0)"
killall hog
"""
# The kernel copies files and pipes on three CPUs, in memory of its own: the copying programs have 64 KiB each. The model is off while frames are taken.
# The board spreads lines over four slices, which the guest does not see: by its own number of sets, colours 32 apart would share sets.
KERNEL = """
half="--platform core-i5-2500k --colors 0-15"
copy() {
	for cpu in 1 2 3; do
		head -c 8388608 /dev/zero >/tmp/from$cpu
		taskset $((1 << cpu)) sh -c "while :; do dd if=/tmp/from$cpu of=/tmp/to$cpu bs=64k conv=notrunc 2>/dev/null; done" & copies="$copies $!"
		taskset $((1 << cpu)) sh -c "dd if=/dev/zero bs=64k 2>/dev/null | cat >/dev/null" & copies="$copies $!"
	done
	sleep 0.1
}
stop() {
	kill $copies
	copies=
	killall dd cat 2>/dev/null
	rm -f /tmp/from? /tmp/to?
}
mkfifo /tmp/gate
# The chase in the reserve's colours: it starts without the model, half a minute before it is timed, as a start disturbs for some seconds. Solocore
# keeps off its CPU.
reserved() {
	taskset e solocore exec $half --pool '4 MiB' -- ./chase 512 250000 0 2 /tmp/gate >/tmp/said & task=$!
	exec 9<>/tmp/gate
	sleep 30
	kill -0 $task || exit 9
	$1
	sleep 0.4
	solocore board ask model-on
	sleep 0.01
	echo >&9
	wait $task || exit 9
	exec 9>&-
	solocore board ask model-off
}
echo "alone $(./chase 512 250000 0 2)"
solocore board ask model-off
taskset e solocore reserve $half >/out/end 2>/out/reserve & reserve=$!
until grep -q ^holding /out/reserve; do
	kill -0 $reserve || exit 9
	sleep 0.1
done
reserved true
echo "alone_reserved $(cat /tmp/said)"
# The frames of the ended program are the reserve's again: its heir brings most back in milliseconds, and the search for the others takes seconds.
sleep 12
reserved copy
echo "managed $(cat /tmp/said)"
stop
kill -INT $reserve
wait $reserve
copy
solocore board ask model-on
echo "unmanaged $(./chase 512 250000 0 2)"
stop
"""

# The kernel's own resctrl: eight of twelve ways for the chase, the other four for all others. The step without masks comes first: a mask limits what is
# fetched, so what lies in the ways of the chase would still be found without one.
WAYS = """
mount -t resctrl resctrl /sys/fs/resctrl && mkdir /sys/fs/resctrl/own || exit 9
own() { sh -c 'echo $$ >/sys/fs/resctrl/own/tasks && exec "$@"' sh "$@"; }
echo "alone $(own ./chase 2048 200000 0)"
for cpu in 1 2 3; do ./hog 8192 $cpu & done
sleep 0.1
echo "unmanaged $(own ./chase 2048 200000 0)"
echo L3:0=ff >/sys/fs/resctrl/own/schemata && echo L3:0=f00 >/sys/fs/resctrl/schemata || exit 8
echo "managed $(own ./chase 2048 400000 0)"
killall hog
"""
# An unmodified program holds the bandwidth lock from its start to its end; the last step is without it.
LOCK = """
locked() { solocore exec --lock --core 0 --lock-bandwidth '13 MB/s' -- ./chase 8192 300000 0; }
echo "alone $(./chase 8192 300000 0)"
echo "locked_alone $(locked)"
for cpu in 1 2 3; do ./hog 8192 $cpu & done
sleep 0.02
echo "managed $(locked)"
echo "unmanaged $(./chase 8192 100000 0)"
killall hog
"""


@pytest.fixture
def steps(solocore, compile_c, fetched):  # noqa: F811
    """Runs a script in a guest; gives the time of a step of the chase in ns: alone, and beside hogs as the script has it."""

    def run(script, *options):
        done = in_guest(solocore, compile_c, script, {"chase": [], "hog": []}, *options)
        assert done.code == 0, done.err
        print(done.out.decode(), done.err)
        return {name: float(ns) for name, ns in (line.split() for line in done.out.decode().splitlines())}

    return run


def isolated(found):
    assert found["unmanaged"] >= 1.8 * found["alone"], found
    assert found["managed"] <= 1.1 * found["alone"], found


def plan_budgets(solocore, budgets):
    """A plan with these budgets, in lines a millisecond, by core."""
    cores = "".join(f'[[core]]\nid = {i}\nbandwidth = "{lines * 64} kB/s"\n[[task]]\nname = "task{i}"\ncore = {i}\nperiod = "1 s"\n'
                    'wcet = "1 ms"\nmisses = 1\n' for i, lines in enumerate(budgets))
    solocore.plan(f'platform = "{BOARD}"\n[regulation]\npolicy = "memguard"\nperiod = "1 ms"\nshare = "explicit"\n{cores}')


def test_budgets_isolate_a_chase_from_three_hogs(solocore, steps):
    plan_budgets(solocore, BUDGETS)
    isolated(steps(PLAN, "--share", "plan.json", "--out", "out"))


KINDS = """
for lines in 200 2000; do
	solocore run --partial plan$lines.json --duration "$SPAN ms" --format json >/out/$lines.json &
""" + REGULATES + """
	for cpu in 0 1 2 3; do ./hog 8192 $cpu $KIND & hogs="$hogs $!"; done
	wait $run || exit 8
	kill $hogs
done
"""


@often
@pytest.mark.parametrize("kind, options", [("write", []), ("read", []), ("stream", []), ("read", ["--prefetcher", "stride"])])
def test_budgets_hold_for_all_kinds_of_access(solocore, compile_c, fetched, kind, options):  # noqa: F811
    """No program goes on beyond its budget and a sample. What comes after the stop is the kernel's, and is printed. It fails if an overflow is lost,
    or handled a sample later."""
    shares = ["--out", "out"]
    for lines in (200, 2000):
        plan_budgets(solocore, [lines] * 4)
        (solocore.dir / "plan.json").rename(solocore.dir / f"plan{lines}.json")
        shares += ["--share", f"plan{lines}.json"]
    done = in_guest(solocore, compile_c, f"KIND={kind} SPAN={os.environ.get('BOARD_SPAN', 600)}{KINDS}", {"hog": []}, "--page-walks", "off", *options,
                    *shares, timeout=8 * LIMIT)
    assert done.code == 0, done.err
    for lines in (200, 2000):
        cores = json.loads((solocore.dir / f"out/{lines}.json").read_text())["cores"]
        periods, over, limited, before = (sum(core[key] for core in cores) for key in (
            "periods", "periods_over_budget", "periods_over_budget_limited", "periods_over_budget_before_stop"))
        most = {key: max(core[key] for core in cores) for key in ("max_limited_per_period", "max_after_stop_per_period", "max_exempt_per_period")}
        print(kind, *options, lines, periods, over, limited, before, most)
        assert periods > 1000 and sum(core["throttled_ns"] for core in cores) > 0
        assert before == 0, cores
        # The way to the stop took 278 to 474 accesses (docs/linux-budgets.md), and up to 642 as a hog starts.
        assert most["max_after_stop_per_period"] <= 800, cores


@often
@pytest.mark.parametrize("kernel", ["7.3.4", "7.0.13", "6.19.14-rt"])
def test_counters_stop_cores_on_newer_kernels(solocore, compile_c, fetched, kernel):  # noqa: F811
    """Linux 7.3 ends a scheduler that kicks a CPU from the program of an x86 counter. The run would end with 3 at the first used-up budget."""
    plan_budgets(solocore, [200] * 4)
    script = 'solocore run --partial plan.json --engine sched-ext --duration "200 ms" --format json >/out/run.json &' + REGULATES + """
for cpu in 0 1 2 3; do ./hog 8192 $cpu & hogs="$hogs $!"; done
wait $run || exit 8
kill $hogs
"""
    done = in_guest(solocore, compile_c, script, {"hog": []}, "--kernel", kernel, "--page-walks", "off", "--share", "plan.json", "--out", "out")
    assert done.code == 0, done.err
    cores = json.loads((solocore.dir / "out/run.json").read_text())["cores"]
    assert all(core["throttled_periods"] > core["periods"] / 4 > 10 for core in cores), cores
    # A stop that is lost lets a hog go on for thousands of lines.
    assert all(core["max_after_stop_per_period"] <= 800 for core in cores), cores


@often
def test_colours_isolate_a_chase_from_three_hogs(steps):
    isolated(steps(COLOURS, "--memory", "2G"))


@often
def test_ways_of_resctrl_isolate_a_chase_from_three_hogs(steps):
    isolated(steps(WAYS, "--allocation"))


@often
def test_the_lock_of_a_whole_program_isolates_it_from_three_hogs(steps):
    found = steps(LOCK)
    assert found["unmanaged"] >= 1.8 * found["alone"], found
    # The lock's own cost is apart from what the hogs still do.
    assert found["managed"] <= 1.05 * found["locked_alone"] and found["locked_alone"] <= 1.15 * found["alone"], found


@often
def test_a_reserve_isolates_a_chase_from_a_kernel_that_copies(solocore, steps):
    found = steps(KERNEL, "--memory", "2G", "--out", "out")
    print((solocore.dir / "out/reserve").read_text())
    assert found["unmanaged"] >= 1.2 * found["alone"], found
    assert found["alone_reserved"] <= 1.05 * found["alone"], found
    assert found["managed"] <= 1.05 * found["alone"], found


# A quarter of the cache and of the banks for each core, and programs that are jobs of the plan: nothing is started by hand.
COLOURED = """
solocore run plan.json --start --colors --vouch devices --vouch prefetchers --vouch interrupts --duration "3 s" --format json >/out/run.json
echo "exit $?"
"""
COLOURED_SYSTEM = """
platform = "core-i5-2500k"
[regulation]
policy = "memguard"
period = "1 ms"
share = "explicit"
skid = 6000
""" + "".join(f'[[core]]\nid = {i}\nbandwidth = "{lines * 64} kB/s"\n' for i, lines in enumerate([14000, 1000, 1000, 1000])) + """
[[task]]
name = "chase"
core = 0
period = "1500 ms"
wcet = "500 ms"
misses = 60000
command = ["./chase", "1024", "100000", "0"]
""" + "".join(f'[[task]]\nname = "hog{i}"\ncore = {i}\ncriticality = "D"\nwcet = "1 ms"\nmisses = 1\ncommand = ["./hog", "4096", "{i}"]\n' for i in (1, 2, 3))


@often
def test_a_plan_runs_with_its_colours_and_banks_kept(solocore, compile_c, fetched):  # noqa: F811
    """No --partial, and nobody vouches for colours or banks: `run` starts each program on frames of its core's."""
    plan = solocore.plan(COLOURED_SYSTEM)
    assert [core["colours"] for core in plan["cores"]] == [[0, 8], [8, 8], [16, 8], [24, 8]]
    done = in_guest(solocore, compile_c, COLOURED, {"chase": [], "hog": []}, "--memory", "2G", "--share", "plan.json", "--out", "out")
    assert done.code == 0, done.err
    text = (solocore.dir / "out/run.json").read_text()
    assert text, "\n".join([done.out.decode(), *done.err.splitlines()[-9:]])
    run = json.loads(text)
    answers = {p["id"]: p for p in run["promises"]}
    print(done.out.decode(), json.dumps(run["coloured"]), run.get("broken"))
    assert {answers[i]["kept_by"] for i in ("ways:core-0", "banks:core-0")} == {"colours"}, answers
    assert not run.get("partial") and not [i for i in run.get("broken", []) if i.startswith(("ways", "banks"))]
    seen = {t["task"]: t for t in run["coloured"]}
    assert set(seen) == {"chase", "hog1", "hog2", "hog3"} and all(t["wrong"] == 0 and t["processes"] for t in seen.values()), seen
    assert seen["chase"]["ended"] >= 1 and seen["chase"]["pages"] > 256
    [chase] = [t for t in run["tasks"] if t["name"] == "chase"]
    assert chase["jobs"] >= 1 and chase["failed"] == 0 and chase["max_response_ns"] <= plan["tasks"][0]["wcrt_ns"]


@pytest.fixture
def guest(solocore, compile_c, fetched):  # noqa: F811
    """Runs a script in a guest of four CPUs without page walks, with programs of tests/board and files; gives the lines of its output."""

    def run(script, programs, *files, board=BOARD):
        client = [f"-I{ROOT}/client/c", str(ROOT / "client/c/solocore.c")]
        flags = {name: client if name == "effect" else [] for name in programs}
        shares = [word for name in files for word in ("--share", name)]
        done = in_guest(solocore, compile_c, script, flags, "--page-walks", "off", *shares, "--out", "out", board=board)
        assert done.code == 0, done.err
        print(done.out.decode(), done.err)
        return done.out.decode().splitlines()

    return run


# A solocore with a lock beside which a core may make 203 accesses a millisecond; nobody holds it yet.
LOCKING = """
solocore run --partial plan.json --format json >/out/run.json 2>/out/errors & run=$!
until grep -q ^regulating /out/errors; do
	[ -d /proc/$run ] || { cat /out/errors >&2; exit 9; }
	sleep 0.02
done
"""
ENDING = """
solocore board ask model-off
kill -INT $run
wait $run || exit 8
"""
LOCKED_SYSTEM = f"""
platform = "{BOARD}"
[regulation]
policy = "bwlock"
period = "1 ms"
lock_bandwidth = "13 MB/s"
[[task]]
name = "task"
core = 0
period = "1 s"
wcet = "1 ms"
misses = 1
"""
VISION = {"disparity": "stereo_left.pgm stereo_right.pgm", "tracking": "motion_a.pgm motion_b.pgm", "canny": "grey.pgm", "kmeans": "colour.ppm"}
# `how` and `lock` are of the conditions: alone, alone with the lock, with the lock beside three hogs, and beside them.
VISION_SCRIPT = LOCKING + """
cd vision
four() {
""" + "".join(f'\techo "{name}-$how $($lock ../took 0 ./{name} {data})"\n' for name, data in VISION.items()) + """}
how=alone lock=
four
how=locked_alone lock="solocore exec --lock --"
four
for cpu in 1 2 3; do ../hog 8192 $cpu & done
sleep 0.01
how=managed
four
how=unmanaged lock=
four
killall hog
""" + ENDING


@often
def test_the_lock_isolates_the_vision_programs_from_three_hogs(solocore, guest):
    """Unmodified programs of examples/vision with the pictures of large.toml; the whole program holds the lock."""
    subprocess.run(["make", "-s", "-C", ROOT / "examples/vision", f"OUT={solocore.dir}/vision"], check=True)
    for name in " ".join(VISION.values()).split():
        shutil.copy(ROOT / "examples/vision/data" / name, solocore.dir / "vision")
    solocore.plan(LOCKED_SYSTEM)
    lines = guest(VISION_SCRIPT, ("took", "hog"), "vision", "plan.json")
    us = {name: float(time) for name, time in (line.split() for line in lines)}
    for name in VISION:
        alone, locked_alone, managed, unmanaged = (us[f"{name}-{how}"] for how in ("alone", "locked_alone", "managed", "unmanaged"))
        assert unmanaged >= 1.8 * alone, (name, us)
        assert managed <= 1.04 * locked_alone and locked_alone <= 1.1 * alone, (name, us)


@often
def test_the_lock_takes_effect_within_a_look(solocore, guest):
    """A CPU sees the lock at its next look, a tenth of a period, and mostly at its next sample of accesses: half a budget. BWLOCK needs up to a period."""
    solocore.plan(LOCKED_SYSTEM)
    lines = guest(LOCKING + "sleep 0.02\n./effect 30 || exit 7\n" + ENDING, ("effect",), "plan.json")
    found = {name: [int(n) for n in numbers] for name, *numbers in (line.split() for line in lines)}
    assert found["silent"] == [0], found
    median, most = found["effect"][0], found["effect"][2]
    # A budget's accesses, and those between two samples.
    assert median <= 50_000 and most <= 150_000, found
    assert found["lines"][0] <= 3 * 203, found


@often
def test_the_loads_of_the_probe_wait_for_each_other(guest):
    """On the preset, whose cores overlap independent loads. A load of an open row takes 42.3 ns by its file: 8.2 to the memory, 14.6 + 13.5 + 6 there."""
    [line] = guest("solocore latency --source probe --cpu 1 --rate 1000 --every 10ms --count 3 --format json | tr -d ' \\n'", ())
    readings = [reading["latency"] for reading in json.loads(line)["readings"]]
    # L_max is 101.9 ns.
    assert all(42 <= latency <= 110 for latency in readings), readings


# MARACAS, Table II and section VI-B: three m_jump under VCPUs of half a core each, the periods of the paper divided by ten, on a board whose cores wait for
# each load (window 0). A load of the probe then begins when the one before has ended; stores never wait, so m_jump runs as on the preset.
IN_ORDER = (ROOT / f"platforms/{BOARD}.toml").read_text().replace('window = "168 cycles"', 'window = "0 cycles"')
VCPUS = "--vcpu task1=2ms/4ms@0 --vcpu task2=2500us/5ms@1 --vcpu task3=3ms/6ms@2"
# Behind those of best effort on four CPUs.
TASK3 = 6
# The model is on from when the probe's process runs until its last reading.
JUMPS = """
ask() { solocore board ask "$1" >/dev/null; }
# serve TRACE OPTIONS...
serve() {
	trace=$1
	shift
	ask model-off
	solocore vcpu serve VCPUS --sched-trace /out/$trace.csv -o /out/$trace.json "$@" >/dev/null 2>/out/errors & serve=$!
	until [ "$(cat /sys/kernel/sched_ext/state)" = enabled ]; do
		[ -d /proc/$serve ] || { cat /out/errors >&2; exit 9; }
		sleep 0.02
	done
}
# jumps NAME DELAY PERIODS: of 20 ms.
jumps() {
	jumps=
	for n in 1 2 3; do
		delay=$2
		[ $n = 3 ] && delay=0
		./jump $delay /out/$1.task$n & jumps="$jumps $!"
		solocore vcpu bind $! task$n || exit 8
	done
	solocore latency --source probe --cpu 3 --rate 1000 --every 20ms --count $3 --format json >/out/$1.latency & probe=$!
	sleep 0.05
	ask model-on
	wait $probe || exit 7
	kill $jumps
	ask model-off
}
ended() {
	kill -INT $serve
	wait $serve || exit 6
}
""".replace("VCPUS", VCPUS)
DELAYS = (0, 45, 60, 100, 200)
"""Multiplications between two writes of task1 and task2."""


def case(solocore, name, trace):
    """Latency in ns and requests in 20 ms of the last reading, writes per us of each task, and task3's per us of its foreground, in the last 20 ms."""
    out = solocore.dir / "out"
    last = json.loads((out / f"{name}.latency").read_text())["readings"][-1]
    rates, task3 = progress([out / f"{name}.task{n}" for n in (1, 2, 3)], out / f"{trace}.csv", 2, TASK3, 20_000_000)
    found = {"latency": last["latency"], "requests": round(sum(last["per_core"]) * 20e6 / last["period_ns"]), "task3": task3, "rates": rates}
    print(name, found)
    return found


@often
def test_latency_and_traffic_rise_and_progress_falls_with_the_load(solocore, guest):
    """MARACAS Fig. 5."""
    solocore.write("board.toml", IN_ORDER)
    script = JUMPS + "serve all\n" + "".join(f"jumps {delay} {delay} 4\n" for delay in DELAYS) + "ended\n"
    guest(script, ("jump",), board="board.toml")
    found = [case(solocore, delay, "all") for delay in DELAYS]
    # By falling load. The first two saturate the memory.
    for more, less in zip(found[1:], found[2:], strict=False):
        assert more["latency"] > 0.98 * less["latency"] and more["requests"] > 0.98 * less["requests"] and more["task3"] < 1.02 * less["task3"], found
    first, last = found[0], found[-1]
    assert first["latency"] >= 1.4 * last["latency"] and first["requests"] >= 1.05 * last["requests"] and first["task3"] <= 0.6 * last["task3"], found


# Delays 45, 60 and 100 of Fig. 5 above: thresholds, to 3 % the latency in ns and the requests in 20 ms of all cores, and task3's writes per us of its
# foreground, which the thresholds are expected to give.
PROFILED = {"E1": (270, 1_370_000, 42.7), "E2": (240, 1_335_000, 47.4), "E3": (205, 1_315_000, 53.7)}
# Heavy contention: the memory is saturated.
HEAVY = 30


def throttling_of(solocore, rule):
    return json.loads((solocore.dir / f"out/{rule}.json").read_text())["vcpus"]["throttling"]


@often
@pytest.mark.parametrize("point", PROFILED)
def test_the_latency_rule_takes_background_time_where_memory_is_contended(solocore, guest, point):
    """MARACAS Fig. 6: task3 in the foreground under a threshold of the latency, and under one of the rate. The monitor reads every 10 ms."""
    latency, requests, expected = PROFILED[point]
    solocore.write("board.toml", IN_ORDER)
    monitored = "--monitor 1ms/5ms@3 --memory-period 10ms --idle 0.5"
    rules = {"latency": f"--source probe --threshold {latency}", "rate": f"--threshold {requests // 2}"}
    guest(JUMPS + "".join(f"serve {rule} {monitored} --rule {rule} {options}\njumps {rule} {HEAVY} 6\nended\n" for rule, options in rules.items()),
          ("jump",), board="board.toml")
    found = {rule: case(solocore, rule, rule) for rule in rules}
    for rule in rules:
        throttling = throttling_of(solocore, rule)
        print(rule, throttling)
        assert throttling["rule"] == rule and throttling["contended"] >= 1 and throttling["most_throttled"] >= 1, throttling
    print(point, "expected", expected)
    # Without a threshold it is 34.7: fails where background time is not taken.
    by_latency, by_rate = found["latency"]["task3"], found["rate"]["task3"]
    assert by_latency >= 1.1 * 34.7 and by_rate < expected, found
    if point == "E1":
        assert by_latency >= 0.98 * by_rate, found
    else:
        assert by_latency >= 1.1 * by_rate, found
    # The lowest threshold wants more background time than there is.
    if point == "E3":
        assert by_latency < expected and throttling_of(solocore, "latency")["most_throttled"] == 4, found
