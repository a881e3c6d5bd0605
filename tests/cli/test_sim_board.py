"""The simulator and the virtual board run the same plan, and agree task by task (bench/sim_board.py); with BOARD_BOOTS=1 (`make nightly`)."""

import json
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
__attribute__((noinline)) static unsigned step(unsigned n, unsigned steps, unsigned at)
{
	unsigned sum = 0;
	while (steps--) {
		at = (at * 7921 + 1) % n;
		sum += lines[at].word[0];
	}
	return sum;
}
int main(int argc, char **argv)
{
	unsigned n = atoi(argv[1]) * 16;
	for (unsigned i = 0; i < n; i++)
		lines[i].word[0] = i;
	return step(n, atoi(argv[2]), argc) == n;
}
"""


# What a run cannot see or keep on the virtual board, whose user knows it: it has no prefetchers and no devices, and few interrupts.
VOUCHED = "--vouch prefetchers --vouch devices --vouch interrupts"


def bench(program, *args):
    env = {**os.environ, "SOLOCORE": str(program), "SOLOCORE_BOARD_CACHE": str(CACHE)}
    return subprocess.run([sys.executable, str(BENCH), *map(str, args)], env=env, capture_output=True, text=True, timeout=2 * LIMIT)


def task(name, walk, kib, steps, *keys):
    return "\n".join(["[[task]]", f'name = "{name}"', f'command = ["{walk}", "{kib}", "{steps}"]', *keys, ""])


def schemes(walk):
    """Systems by scheme, each with the number of CPUs of its board. Jobs take 12 to 240 ms. The kernel's part of one takes 0.7 ms alone, and 8 under a small budget."""
    near, small = (walk, 128, 10_000_000), (walk, 128, 2_000_000)
    hogs = "".join(task(f"hog{core}", walk, 8192, 3_000_000, f"core = {core}", 'criticality = "D"') for core in (2, 3))
    hog = hogs[: hogs.index("[[task]]", 1)].replace("core = 2", "core = 1")
    rare, core = 'period = "5 s"', "core = {}".format
    return {
        "dynamic": (4, 'policy = "dynamic"', "".join([task("far", walk, 1024, 4_000_000, core(0), rare, 'soft_budget = "max"'),
                                                      task("near", *near, core(1), rare, 'soft_budget = "max"'), hogs])),
        "memguard": (4, 'policy = "memguard"\nshare = "even"\nskid = 2500',
                     "".join([task(name, walk, 128, 40_000_000, core(at), rare) for at, name in enumerate(["one", "two"])]) + hogs),
        "bwlock": (2, 'policy = "bwlock"\nlock_bandwidth = "100 MB/s"', task("near", *near, core(0), rare, 'lock = ["function:step"]') + hog),
        "maracas": (2, 'policy = "maracas"\n[maracas]\noverhead = "50 us"\nbest_effort = { capacity = "2 ms", period = "40 ms" }',
                    "".join(f'[[vcpu]]\nname = "{name}"\ncapacity = "{ms} ms"\nperiod = "10 ms"\ncore = 0\ntasks = ["{of}"]\n'
                            for name, ms, of in [("long", 6, "near"), ("short", 3, "small")])
                    + task("near", *near, rare) + task("small", *small, rare)),
    }


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


@often
@pytest.mark.parametrize("scheme", ["dynamic", "memguard", "bwlock", "maracas"])
def test_each_scheme_runs_as_it_was_simulated_and_keeps_its_promises(program, compile_c, tmp_path, fetched, scheme):  # noqa: F811
    """Fails where one of the models does without the scheme's part for a task of it, or where the run does not keep a promise of the plan.

    `solocore run` ends with 3 where nobody keeps a promise, and with 1 where one was broken; the bench ends with 8 then."""
    walk = compile_c(WALK, "-O2", name="walk")
    cpus, regulation, tasks = schemes(walk)[scheme]
    regulation = regulation.replace("\n[", '\npages = "anywhere"\n[', 1) if "\n[" in regulation else f'{regulation}\npages = "anywhere"'
    system, board = tmp_path / "system.toml", tmp_path / "board.toml"
    system.write_text(f"[regulation]\n{regulation}\n{tasks}")
    preset = (ROOT / f"platforms/{BOARD}.toml").read_text()
    board.write_text(re.sub(r"(?m)^cores = .*", f"cores = {cpus}", preset))
    kept = tmp_path / "kept"
    done = bench(program, "--board", board, "--duration", "400 ms", "--only", "managed", f"--run={VOUCHED}", "--keep", kept, system)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"(?m)^(far|near|one|two|small) +longest, ms ", done.stdout)) == tasks.count("period = \"5 s\""), done.stdout
    assert "bound, ms" in done.stdout
    result = json.loads((kept / "out/managed.json").read_text())
    assert result["promises"] and not result.get("broken"), result.get("broken")
    assert [p["id"] for p in result["promises"] if p["kept_by"] is None] == []
