"""What only hardware could show, on the virtual board (docs/board-figures.md): a program beside three memory hogs, without and with a plan,
without and with cache colours; and beside a kernel that copies, in reserved colours and without.

The programs (tests/board/chase.c and hog.c) know nothing of solocore. One guest runs all parts of a figure. Needs what test_board.py needs.
"""

import json

import pytest
from conftest import ROOT
from test_board import BOARD, CACHE, LIMIT, fetched, often  # noqa: F401

# Core 0 gets what the board guarantees but for the hogs' 200 lines a millisecond each.
BUDGETS = [16400, 200, 200, 200]
# As many steps alone as under the plan: the first round finds what the setting up of the buffer left in the cache.
PLAN = """
echo "alone $(./chase 8192 500000 0)"
solocore run --partial plan.json --format json >/out/run.json &
run=$!
until [ "$(cat /sys/kernel/sched_ext/state)" = enabled ]; do
	kill -0 $run || exit 9
	sleep 0.02
done
hogs=
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
for cpu in 1 2 3; do solocore exec --colors 16-31 -- ./hog 8192 $cpu & done
until [ "$(pidof hog | wc -w)" = 3 ]; do sleep 0.02; done
sleep 0.2
echo "managed $(solocore exec --colors 0-15 -- ./chase 2048 200000 0)"
killall hog
for cpu in 1 2 3; do ./hog 8192 $cpu & done
sleep 0.02
echo "unmanaged $(./chase 2048 200000 0)"
killall hog
"""
# The kernel copies files and pipes on three CPUs, in memory of its own: the copying programs have 64 KiB each.
KERNEL = """
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
echo "alone $(./chase 2048 200000 0)"
solocore reserve --colors 0-15 2>/out/reserve & reserve=$!
until grep -q ^holding /out/reserve; do
	kill -0 $reserve || exit 9
	sleep 0.1
done
echo "alone_reserved $(solocore exec --colors 0-15 --pool '4 MiB' -- ./chase 2048 200000 0)"
copy
echo "managed $(solocore exec --colors 0-15 --pool '4 MiB' -- ./chase 2048 200000 0)"
stop
kill -INT $reserve
wait $reserve
copy
echo "unmanaged $(./chase 2048 200000 0)"
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
    for name in ("chase", "hog"):
        (solocore.dir / name).symlink_to(compile_c((ROOT / f"tests/board/{name}.c").read_text(), "-O2", name=name))

    def run(script, *options):
        solocore.write("script", script)
        done = solocore("board", "run", BOARD, "--cpus", "4", "--share", "chase", "--share", "hog", *options, "--", "sh", "script",
                        timeout=2 * LIMIT, SOLOCORE_BOARD_CACHE=str(CACHE))
        assert done.code == 0, done.err
        print(done.out.decode(), done.err)
        return {name: float(ns) for name, ns in (line.split() for line in done.out.decode().splitlines())}

    return run


def isolated(found):
    assert found["unmanaged"] >= 1.8 * found["alone"], found
    assert found["managed"] <= 1.1 * found["alone"], found


def test_budgets_isolate_a_chase_from_three_hogs(solocore, steps):
    cores = "".join(f'[[core]]\nid = {i}\nbandwidth = "{lines * 64} kB/s"\n[[task]]\nname = "task{i}"\ncore = {i}\nperiod = "1 s"\n'
                    'wcet = "1 ms"\nmisses = 1\n' for i, lines in enumerate(BUDGETS))
    solocore.plan(f'platform = "{BOARD}"\n[regulation]\npolicy = "memguard"\nperiod = "1 ms"\nshare = "explicit"\n{cores}')
    isolated(steps(PLAN, "--share", "plan.json", "--out", "out"))


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
    for name in ("chase", "hog"):
        (solocore.dir / name).symlink_to(compile_c((ROOT / f"tests/board/{name}.c").read_text(), "-O2", name=name))
    plan = solocore.plan(COLOURED_SYSTEM)
    assert [core["colours"] for core in plan["cores"]] == [[0, 8], [8, 8], [16, 8], [24, 8]]
    solocore.write("script", COLOURED)
    done = solocore("board", "run", BOARD, "--cpus", "4", "--memory", "2G", "--share", "chase", "--share", "hog", "--share", "plan.json", "--out", "out",
                    "--", "sh", "script", timeout=2 * LIMIT, SOLOCORE_BOARD_CACHE=str(CACHE))
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
