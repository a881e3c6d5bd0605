"""`platform detect` and `measure` in a guest of one preset give its file back (bench/board_measure.py), and know the core types of a
board; with BOARD_BOOTS=1 (`make nightly`)."""

import os
import subprocess
import sys
import tomllib
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


TYPES = """
[[core_type]]
name = "big"
cores = [0, 1]
frequency = "3.3 GHz"
l2 = { size = "256 KiB", ways = 8, latency = "8 cycles" }

[[core_type]]
name = "little"
cores = [2, 3]
frequency = "1.65 GHz"
cpi = 2.0
"""
SCRIPT = """set -e
for cpu in 0 1 2 3; do
    for index in /sys/devices/system/cpu/cpu$cpu/cache/index*; do
        echo $cpu $(cat $index/level $index/type $index/size $index/shared_cpu_list) >> /out/caches
    done
done
mount -t resctrl resctrl /sys/fs/resctrl
cp /sys/fs/resctrl/schemata /out/schemata
solocore platform detect -o /out/detected.toml
solocore platform check board.toml
solocore platform measure board.toml --only cpi -o /out/measured.toml
"""


@pytest.mark.skipif(not os.environ.get("BOARD_BOOTS"), reason="a boot of a minute; BOARD_BOOTS=1 asks for it")
@pytest.mark.parametrize("counters", ["amd", "intel"])
def test_the_types_of_a_board_come_back(solocore, counters):
    """Linux has the users of each cache right, also beside cores without a second level, and the guest's tools know the types."""
    text = (ROOT / "platforms" / "core-i5-2500k.toml").read_text().replace('"3.3 GHz"', '"1.65 GHz"', 1)
    begin, end = text.index("[l2]"), text.index("[llc]")
    solocore.write("board.toml", text[:begin] + text[end:] + TYPES)
    solocore.write("script.sh", SCRIPT)
    done = solocore("board", "run", "board.toml", "--allocation", "--counters", counters, "--share", "board.toml", "--out", "out", "--", "sh",
                    "script.sh", timeout=600, SOLOCORE_BOARD_CACHE=str(CACHE))
    if "cannot fetch" in done.err:
        pytest.skip(f"the archive cannot be reached: {done.err.splitlines()[-1]}")
    assert done.code == 0, done.err
    out = solocore.dir / "out"
    caches = (out / "caches").read_text().splitlines()
    for cpu in range(4):
        own = [line.split()[1:] for line in caches if line.startswith(f"{cpu} ")]
        second = ["2", "Unified", "256K", str(cpu)] if cpu < 2 else ["1", "Data", "32K", str(cpu)]
        assert own == [["1", "Data", "32K", str(cpu)], ["1", "Instruction", "32K", str(cpu)], second, ["3", "Unified", "6144K", "0-3"]]
    assert "L3:0=fff" in (out / "schemata").read_text()
    found = tomllib.loads((out / "detected.toml").read_text())
    assert [(t["name"], t["cores"], t["frequency"]) for t in found["core_type"]] == [("big", [0, 1], "3.3 GHz"), ("little", [2, 3], "1.65 GHz")]
    assert found["core_type"][0]["l2"]["size"] == "256 KiB" and "l2" not in found
    measured = tomllib.loads((out / "measured.toml").read_text())["core_type"]
    assert [t["cpi"] for t in measured] == [pytest.approx(1.0, rel=0.05), pytest.approx(2.0, rel=0.05)]
