"""`platform detect` and `measure` in a guest of one preset give its file back (bench/board_measure.py); with BOARD_BOOTS=1 (`make nightly`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

CACHE = Path(os.environ.get("SOLOCORE_BOARD_CACHE", ROOT / "build" / "board"))


@pytest.mark.skipif(not os.environ.get("BOARD_BOOTS"), reason="a boot of a minute; BOARD_BOOTS=1 asks for it")
def test_the_file_of_the_board_comes_back(program):
    env = {**os.environ, "SOLOCORE": str(program), "SOLOCORE_BOARD_CACHE": str(CACHE)}
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "board_measure.py"), "core-i5-2500k"], env=env, capture_output=True,
                          text=True, timeout=600)
    if "cannot fetch" in done.stderr:
        pytest.skip(f"the archive cannot be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "L_max found" in done.stdout and "llc.latency" in done.stdout
