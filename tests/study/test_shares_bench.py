"""bench/shares.py with a stand-in for its example: the table, the targets, and the results so far after Ctrl-C."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")
ROOT = Path(__file__).resolve().parents[2]

# Two levels of two systems. Optimal shares are schedulable where the index is 0; the judge accepts allotments at the first level.
EXAMPLE = r"""#!/usr/bin/env python3
import json, os, signal, sys
word = sys.argv[4] if len(sys.argv) > 4 else ""
names = [{"level": level, "index": index} for level in (1, 2) for index in (0, 1)]
task = {"name": "t", "period_ps": 100, "deadline_ps": 100, "executions": [[[20, 10]] * 3]}
table = {"cores": 2, "ways": 4, "units": 4, "totals": [1000], "pages_in_ways": [0, 2, 6, 10], "pages": [0, 6], "once_ps": 1, "tasks": [task]}
if word == "judge":
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        if asked["level"] == STOP and number >= 2:
            os.kill(os.getppid(), signal.SIGINT)
            sys.stdin.read()
        print(json.dumps({"schedulable": [asked["level"] == 1 for _ in asked["allotments"]]}), flush=True)
else:
    for name in names:
        share = {"schedulable": name["index"] == 0, "nanoseconds": 1000000, "reason": None}
        row = {"name": name, "utilization": name["level"] / 5, "even": {**share, "schedulable": False}, "optimal": share}
        print(json.dumps(table if word == "tables" else row))
"""


def run(tmp_path, *options, stop=0, even="False"):
    example = tmp_path / "shares"
    example.write_text(EXAMPLE.replace("STOP", str(stop)).replace('"schedulable": False', f'"schedulable": {even}'))
    example.chmod(0o755)
    return subprocess.run([sys.executable, ROOT / "bench/shares.py", "--count", "2", "--example", example, "--profiles", tmp_path, *options],
                          capture_output=True, text=True, timeout=120,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def test_peers_are_judged_and_compared(tmp_path):
    done = run(tmp_path, "--peers", "--time-limit", "10")
    assert done.returncode == 0, done.stderr
    assert "| utilization | systems | even | optimal | even by fall-back | LP | LP believed | CaM | CaM believed |" in done.stdout
    assert "| 0.2 | 2 | 0 | 1 | 0 | 2 | 2 | 2 | 2 |" in done.stdout and "| 0.4 | 2 | 0 | 1 | 0 | 0 | 2 | 0 | 2 |" in done.stdout
    # Each level weighs its utilization: LP has both systems of the first, optimal shares one of each.
    assert "LP: 0.333 judged, 1.000 believed" in done.stdout and "optimal 0.500" in done.stdout
    assert "not below LP: reached" in done.stdout and "not below CaM: reached" in done.stdout
    assert "systems where it suffices and optimal shares do not: 1 [{'level': 1, 'index': 1}]" in done.stdout
    assert "system 1 of 4, utilization 0.2: LP" in done.stderr


@pytest.mark.parametrize("even, code", (("False", 0), ('name["index"] == 0', 1)))
def test_a_missed_target_is_an_error_where_it_is_asked_for(tmp_path, even, code):
    assert run(tmp_path, even=even).returncode == 0
    assert run(tmp_path, "--check", even=even).returncode == code


def test_without_peers_nothing_else_runs(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| 0.4 | 2 | 0 | 1 | 0 |" in done.stdout and "LP" not in done.stdout + done.stderr


def test_ctrl_c_prints_the_systems_that_are_done(tmp_path):
    done = run(tmp_path, "--peers", "--time-limit", "10", stop=1)
    assert done.returncode == 130, done.stderr
    # Level 1, then level 2 of the first index, and then level 1 again, which is interrupted.
    assert done.stdout.startswith("stopped: 2 of 28 systems are done") and "| 0.4 | 1 |" in done.stdout
    assert "Traceback" not in done.stderr
