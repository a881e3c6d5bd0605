"""What only hardware could show, on the virtual board (docs/board-figures.md): a program beside three memory hogs, without and with a plan.

The programs (tests/board/chase.c and hog.c) know nothing of solocore. One guest runs all three parts. Needs what test_board.py needs.
"""

import pytest
from conftest import ROOT
from test_board import BOARD, CACHE, LIMIT, fetched  # noqa: F401

# Core 0 gets what the board guarantees but for the hogs' 200 lines a millisecond each.
BUDGETS = [16400, 200, 200, 200]
SCRIPT = """#!/bin/sh
chase() { ./chase 8192 200000 0; }
hogs() {
	hogs=
	for cpu in 1 2 3; do ./hog 8192 $cpu & hogs="$hogs $!"; done
	sleep 0.02
}
echo "alone $(chase)"
solocore run plan.json --format json >/out/run.json &
run=$!
until [ "$(cat /sys/kernel/sched_ext/state)" = enabled ]; do
	kill -0 $run || exit 9
	sleep 0.02
done
hogs
echo "managed $(chase)"
kill -INT $run
wait $run || exit 8
echo "unmanaged $(chase)"
kill $hogs
"""


@pytest.fixture
def steps(solocore, compile_c, fetched):  # noqa: F811
    """The time of a step of the chase in ns: alone, beside hogs under the plan, beside hogs."""
    for name in ("chase", "hog"):
        program = compile_c((ROOT / f"tests/board/{name}.c").read_text(), "-O2", name=name)
        (solocore.dir / name).symlink_to(program)
    cores = "".join(f'[[core]]\nid = {i}\nbandwidth = "{lines * 64} kB/s"\n[[task]]\nname = "task{i}"\ncore = {i}\nperiod = "1 s"\n'
                    'wcet = "1 ms"\nmisses = 1\n' for i, lines in enumerate(BUDGETS))
    solocore.plan(f'platform = "{BOARD}"\n[regulation]\npolicy = "memguard"\nperiod = "1 ms"\nshare = "explicit"\n{cores}')
    solocore.write("script", SCRIPT)
    shares = [word for name in ("chase", "hog", "plan.json") for word in ("--share", name)]
    done = solocore("board", "run", BOARD, "--cpus", "4", *shares, "--out", "out", "--", "sh", "script", timeout=LIMIT,
                    SOLOCORE_BOARD_CACHE=str(CACHE))
    assert done.code == 0, done.err
    found = dict(line.split() for line in done.out.decode().splitlines())
    print(done.out.decode(), done.err)
    return {name: float(ns) for name, ns in found.items()}


def test_budgets_isolate_a_chase_from_three_hogs(steps):
    assert steps["unmanaged"] >= 1.8 * steps["alone"], steps
    assert steps["managed"] <= 1.1 * steps["alone"], steps
