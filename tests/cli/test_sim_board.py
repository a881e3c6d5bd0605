"""The simulator and the virtual board run the same plan, and agree task by task (bench/sim_board.py); with BOARD_BOOTS=1 (`make nightly`)."""

import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT
from test_board import BOARD, CACHE, LIMIT, fetched, often  # noqa: F401

BENCH = ROOT / "bench" / "sim_board.py"
# Writes each line of its memory once, and then loads lines in an order without neighbours: of 8 MiB, more than the shared cache, or of 1 MiB. Memory of
# its own, because `run` reads a program's files just before it starts it, to compare their hashes.
WALK = """
#include <stdlib.h>
static volatile struct { unsigned word[16]; } lines[1 << 17];
int main(int argc, char **argv)
{
	unsigned n = atoi(argv[1]) * 16, steps = atoi(argv[2]), at = argc, sum = 0;
	for (unsigned i = 0; i < n; i++)
		lines[i].word[0] = i;
	while (steps--) {
		at = (at * 7921 + 1) % n;
		sum += lines[at].word[0];
	}
	return sum == n;
}
"""


def bench(program, *args):
    env = {**os.environ, "SOLOCORE": str(program), "SOLOCORE_BOARD_CACHE": str(CACHE)}
    return subprocess.run([sys.executable, str(BENCH), *map(str, args)], env=env, capture_output=True, text=True, timeout=2 * LIMIT)


def test_a_system_without_commands_is_refused(program, tmp_path):
    system = tmp_path / "system.toml"
    system.write_text('[[task]]\nname = "stated"\ncore = 0\nperiod = "1 ms"\nwcet = "0.1 ms"\nmisses = 1\n')
    done = bench(program, system)
    assert done.returncode == 2 and done.stderr == "sim_board: task stated: no command; both models run programs\n", done.stderr


@often
def test_both_models_give_the_same_jobs(program, compile_c, tmp_path, fetched):  # noqa: F811
    """Fails where one of the models lacks a level of the caches, the budget, or the kernel's part of a job: each is more than 10 %.

    The simulator waits for the lines of stores, and the board does not (docs/board-model.md). Most of the time goes to loads here."""
    walk = compile_c(WALK, "-O2", name="walk")
    cores = "".join(f'[[core]]\nid = {core}\nbandwidth = "{share} MB/s"\n' for core, share in enumerate([350, 200]))
    tasks = "".join(f'[[task]]\nname = "{name}"\ncore = {core}\nperiod = "250 ms"\ncommand = ["{walk}", "{kib}", "{steps}"]\n'
                    for core, (name, kib, steps) in enumerate([("far", 8192, 500000), ("near", 1024, 4000000)]))
    system = tmp_path / "system.toml"
    system.write_text(f'[regulation]\npolicy = "memguard"\npages = "anywhere"\nperiod = "1 ms"\nshare = "explicit"\n{cores}{tasks}')
    done = bench(program, "--board", BOARD, "--duration", "500 ms", "--keep", tmp_path / "kept", system)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"(?m)^(far|near) +(longest|mean), ms .*%$", done.stdout)
    assert len(rows) == 10, rows
