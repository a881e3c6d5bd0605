"""`solocore bench`: what it measures, prints and refuses. Times themselves are not a matter of a test."""

import csv
import io
import os
import re
import tomllib

import pytest
from conftest import ROOT, refused

LITTLE = ("--rounds", "2", "--messages", "10", "--hogs", "0", "--other-work", "1 MiB")


def table(done):
    assert done.code == 0, done.err
    return list(csv.DictReader(io.StringIO(done.out.decode())))


@pytest.mark.parametrize("access", ["read", "write"])
def test_bandwidth(solocore, access):
    result = solocore("bench", "bandwidth", "-m", "256", "-a", access, "-i", "3", "-t", "0", "--format", "json").json()
    assert (result["access"], result["memory_bytes"], result["bytes"], result["passes"]) == (access, 256 << 10, 3 * 256 << 10, 3.0)
    assert result["bandwidth_bytes_per_s"] == pytest.approx(result["bytes"] / result["seconds"])
    assert result["ns_per_line"] == pytest.approx(result["seconds"] * 1e9 / (result["bytes"] / 64))


def test_bandwidth_ends_with_its_time(solocore):
    result = solocore("bench", "bandwidth", "-m", "1M", "-t", "1", "--format", "json").json()
    assert 0.9 < result["seconds"] < 5


def test_a_hog_ends_when_it_is_told(solocore):
    import signal
    import time
    process = solocore.start("bench", "bandwidth", "-m", "1M", "-t", "0")
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 0 and b"MB/s" in out


@pytest.mark.parametrize("order", [(), ("-s",)])
def test_latency(solocore, order):
    result = solocore("bench", "latency", "-m", "64", "-i", "5", *order, "--format", "json").json()
    assert result["order"] == ("serial" if order else "random") and result["passes"] == 5
    assert 0 < result["least_latency_ns"] <= result["latency_ns"] * 1.0001


@pytest.mark.parametrize("options, words", [
    (("bandwidth", "-m", "3 apples"), ("not a size",)),
    (("bandwidth", "-m", "0"), ("from 4 KiB to 1 TiB",)),
    (("latency", "-i", "0"), ("iterations",)),
    (("bandwidth", "-p", "20"), ("20",)),
    (("ipc", "--sizes", "0"), ("0",)),
    (("ipc", "--policies", "best"), ("best",)),
    (("camera", "/dev/null", "--buffers", "1"), ("1",)),
    (("io-load",), ("FILE",)),
    (("io-load", "x", "--plan", "p.json"), ("--task",)),
    (("nothing",), ("nothing",)),
])
def test_bad_usage(solocore, options, words):
    done = solocore("bench", *options)
    assert done.code == 2 and not done.out
    for word in words:
        assert word in done.err


@pytest.mark.parametrize("options, codes, words", [
    (("bandwidth", "-c", "1023", "-t", "1"), (2,), ("CPU 1023",)),
    (("latency", "-c", "99999", "-m", "64"), (2,), ("CPU 99999",)),
    (("latency", "-m", "1000G"), (3,), ("available",)),
    (("lockdown", "--size", "100 B"), (2,), ("--size",)),
    (("lockdown", "--hogs", "1000"), (2,), ("--hogs 1000",)),
    (("lockdown", "--time", "5 min"), (2,), ("--time",)),
    (("ipc", "--hogs", "1000"), (2,), ("--hogs 1000",)),
    (("ipc", "--hog-size", "1 B"), (2,), ("--hog-size",)),
    (("camera", "/dev/null"), (3,), ("/dev/null", "capture device")),
    (("camera", "nowhere"), (2,), ("nowhere", "no such device")),
    (("io-load", "nowhere"), (2,), ("nowhere", "no such file")),
    (("io-load", "."), (2,), ("directory",)),
    (("io-load", "/proc/self/stat"), (3,), ("O_DIRECT",)),
])
def test_refusals(solocore, options, codes, words):
    refused(solocore("bench", *options), *words, codes=codes)


def test_messages_by_size_and_place(solocore):
    rows = table(solocore("bench", "ipc", *LITTLE, "--sizes", "64,8192", "--format", "csv", "--svg", "times.svg"))
    assert [(r["policy"], r["bytes"], r["function"]) for r in rows] == [
        (p, s, f) for p in ("sbp", "ce", "cl", "sysv") for s in ("64", "8192") for f in ("send", "receive")]
    assert all(float(r["max ns"]) >= float(r["p99 ns"]) >= float(r["median ns"]) >= 0 for r in rows)
    assert all(int(r["samples"]) == 20 for r in rows)
    picture = (solocore.dir / "times.svg").read_text()
    assert picture.startswith("<svg") and "sysv" in picture


def test_messages_of_one_place(solocore):
    done = solocore("bench", "ipc", *LITTLE, "--sizes", "1", "--policies", "ce,ce", "--format", "json")
    result = done.json()
    assert [p["policy"] for p in result["points"]] == ["ce"] and result["points"][0]["burst"] == 10
    assert (result["hogs"], result["other_work_bytes"]) == (0, 1 << 20)


COSTS = ["dma_bus", "dma_bank", "dma_saturation", "bank_sharing_c", "sharing_saturation", "io_copy", "send_ce", "receive_ce", "send_cl",
         "receive_cl", "eviction"]
FEW = ("--repetitions", "3", "--size", "1 MiB", "--message", "64")


def test_costs_are_lines_of_a_system_file(solocore):
    """Each cost is a line or is left out with a reason; the planner takes the lines."""
    done = solocore("bench", "costs", *FEW)
    assert done.code == 0, done.err
    text = done.out.decode()
    costs = tomllib.loads(text)["levels"]["costs"]
    left = re.findall(r"^# (\w+) is not measured: .", text, re.M)
    assert sorted([*costs, *left]) == sorted(COSTS) and list(costs) == [key for key in COSTS if key in costs]
    assert {"dma_bus", "dma_bank", "dma_saturation"} <= set(left) and "give --file" in text
    assert 0 < costs["send_cl"] <= costs["send_ce"] <= 1 and 0 < costs["receive_cl"] <= costs["receive_ce"] <= 1
    assert all(re.search(rf"^{key} = \S+ +# \S+ to \S+$", text, re.M) for key in costs)
    system = (ROOT / "examples/mc2/system.toml").read_text()
    assert system.count('contention = "bounded"') == 1
    solocore.write("system.toml", system.replace('contention = "bounded"', 'contention = "measured"') + "\n" + text)
    planned = solocore("plan", "system.toml", "-o", "plan.json")
    assert planned.code in (0, 1), planned.err


def test_costs_of_dma_need_a_file(solocore, disk):
    costs = solocore("bench", "costs", *FEW, "--file", disk, "--format", "json")
    if costs.code == 3 and "no read ended" in costs.err:
        pytest.skip(costs.err.strip())
    result = costs.json()
    assert result["format"] == "solocore-bench-costs/1" and result["repetitions"] == 3 and result["memory_bytes"] == 1 << 20
    entries = {entry["name"]: entry for entry in result["costs"]}
    left = {entry["name"]: entry["why"] for entry in result["left"]}
    assert sorted([*entries, *left]) == sorted(COSTS)
    if result["other_cpus"]:
        assert "dma_bus" in entries and "--map" in left["dma_bank"]
    for entry in entries.values():
        assert entry["least"] <= entry["low"] <= entry["high"] <= entry["most"] and entry["repetitions"] <= 3


def test_costs_that_cannot_be_measured_are_refused(solocore):
    refused(solocore("bench", "costs", "--size", "1 KiB"), "--size", codes=(2,))
    refused(solocore("bench", "costs", *FEW, "--file", "."), "directory", codes=(2,))
    refused(solocore("bench", "costs", *FEW, "--hogs", "5000"), "--hogs 5000", codes=(2,), one_line=False)
    solocore.write("map.txt", "# colour: 12\n")
    refused(solocore("bench", "costs", *FEW, "--map", "map.txt"), "no function of banks", codes=(2,))
    # 64 banks: the search for one bank's frames would take the whole machine's memory.
    solocore.write("banks.txt", "".join(f"{bit}\n" for bit in range(13, 19)))
    refused(solocore("bench", "costs", "--size", "3 GiB", "--map", "banks.txt"), "ask for less memory", codes=(3,))


def test_lockdown_tells_flushed_from_read(solocore):
    done = solocore("bench", "lockdown", "--size", "256 KiB", "--time", "0 s", "--hogs", "0", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    cases = {c["method"]: c for c in done.json()["cases"]}
    # Somebody else may have run meanwhile.
    assert cases["flushed"]["resident_share"] < 0.3 and cases["just-read"]["resident_share"] > 0.6
    assert cases["prefetch"]["timed"] == 64 * 8 and any("no ways of its own" in note for note in done.json()["notes"])


@pytest.fixture
def disk(solocore):
    (solocore.dir / "disk.img").write_bytes(os.urandom(4 << 20))
    return "disk.img"


@pytest.mark.parametrize("engine", ["direct", "uring"])
def test_io_load(solocore, disk, engine):
    done = solocore("bench", "io-load", disk, "--engine", engine, "--duration", "200 ms", "--interval", "20 ms", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip())
    result = done.json()
    # 400 KB are 100 pages; the release at 200 ms is none any more, and a slow disk makes fewer.
    assert result["bytes"] == 409600 and result["level_c_bytes"] == 409600
    assert not result["placed"] and result["wrong_pages"] == 100
    assert 1 <= result["reads"] <= 10 and result["max_ns"] >= result["mean_ns"] > 0
    moved = result["bandwidth_bytes_per_s"] * result["seconds"]
    assert moved == pytest.approx(result["reads"] * 409600, rel=1e-6)


def test_the_share_in_level_c(solocore, disk):
    for percent, expected in [(0, 0), (40, 163840), (60, 245760), (100, 409600)]:
        done = solocore("bench", "io-load", disk, "--level-c", percent, "--duration", "20 ms", "--format", "json")
        if done.code == 3:
            pytest.skip(done.err.strip())
        assert done.json()["level_c_bytes"] == expected


@pytest.mark.parametrize("engine", ["direct", "uring"])
def test_io_load_into_coloured_pages(solocore, disk, engine):
    done = solocore("bench", "io-load", disk, "--colored", "--platform", "imx6q", "--engine", engine, "--level-c", 50,
                    "--duration", "60 ms", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip())
    result = done.json()
    assert result["placed"] and result["wrong_pages"] == 0 and result["level_c_bytes"] == 204800 and result["reads"] >= 1


def test_io_load_of_a_plan(solocore, disk):
    from conftest import ROOT
    done = solocore("plan", ROOT / "examples/mc2/system.toml", "-o", "plan.json")
    assert done.code == 0, done.err
    refused(solocore("bench", "io-load", disk, "--plan", "plan.json", "--task", "nobody"), "`nobody`", "no I/O buffer", codes=(2,))
    import json
    buffers = json.loads((solocore.dir / "plan.json").read_text())["mc2"]["io"]
    for buffer in buffers:
        done = solocore("bench", "io-load", disk, "--plan", "plan.json", "--task", buffer["task"], "--duration", "20 ms", "--format", "json")
        if done.code == 3:
            pytest.skip(done.err.strip())
        result = done.json()
        assert result["bytes"] == -(-buffer["bytes"] // 4096) * 4096
        assert result["level_c_bytes"] == (result["bytes"] if buffer["bank"] is None else 0)


def test_a_file_that_is_too_small(solocore):
    (solocore.dir / "little").write_bytes(b"x" * 4096)
    refused(solocore("bench", "io-load", "little"), "4096 bytes", "larger file", codes=(2,))
    refused(solocore("bench", "io-load", "little", "--size", "1 KiB", "--interval", "0 s"), "--interval", codes=(2,))
