"""`solocore latency`: the probe works on any machine; counters of the memory controller are tested on copies of what the kernel
shows (crates/linux/src/latency)."""

import os
import signal
import subprocess

import pytest
from conftest import interrupt, refused

CPU = str(min(os.sched_getaffinity(0)))


def readings(solocore, *args):
    done = solocore("latency", "--source", "probe", "--every", "20 ms", "--rate", "1000", "--format", "json", *args)
    assert done.code == 0, done.err
    return done.json()


def test_the_probe_tells_a_latency_and_its_cost(solocore):
    found = readings(solocore, "--count", "5")
    assert found["format"] == "solocore-latency/1" and found["unit"] == "nanoseconds"
    assert len(found["readings"]) == 5
    for one in found["readings"]:
        raw = one["reading"]
        assert one["period_ns"] >= 1_000_000
        assert raw["dma_included"] is True
        if raw["requests"]:
            assert one["latency"] == pytest.approx(raw["occupancy"] / raw["requests"])
            assert 5 < one["latency"] < 1e6
    # The machine may be busy, not all the time.
    assert any(one["reading"]["requests"] for one in found["readings"])
    cost = found["cost"]
    assert 0 < cost["cpu_share"] <= 1.05 and cost["loads"] > 0
    assert cost["bytes_per_s"] == pytest.approx(64 * cost["loads"] / cost["wall_ns"] * 1e9)


def test_each_cpu_is_counted(solocore):
    done = solocore("latency", "--source", "probe", "--event", "page-faults", "--count", "2", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip())
    found = done.json()
    assert found["event"] == "page-faults"
    assert all(len(one["per_core"]) == len(found["cpus"]) for one in found["readings"])


def test_algorithm_1_says_what_it_would_throttle(solocore):
    done = solocore("latency", "--source", "probe", "--event", "page-faults", "--count", "6", "--every", "100 ms",
                    "--threshold", "1", "--idle", "0", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip())
    found = done.json()
    throttled = [one["decision"]["throttled"] for one in found["readings"]]
    cpus = len(found["cpus"])
    for before, one in zip([0] + throttled, found["readings"]):
        decision = one["decision"]
        if one["reading"]["requests"]:
            # Any latency reaches 1 ns: one CPU more a period, until there are no more. Then a period without requests is relief.
            relief = before == cpus and decision["requests"] == 0
            assert decision["contended"] and decision["throttled"] == min(before + 1, cpus) - relief
        assert one["decision"]["requests"] == sum(one["per_core"])


def test_the_rate_rule_counts_requests(solocore):
    done = solocore("latency", "--rule", "rate", "--event", "page-faults", "--count", "2", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip())
    found = done.json()
    assert found["rule"] == "rate" and found["unit"] == "requests" and found["cost"] is None
    for one in found["readings"]:
        assert one["latency"] is None
        if found["instead_of"]:
            assert one["reading"]["requests"] == sum(one["per_core"]) and not one["reading"]["dma_included"]


def test_a_table_for_people(solocore):
    done = solocore("latency", "--source", "probe", "--count", "3", "--every", "50 ms", "--cpu", CPU)
    assert done.code == 0, done.err
    lines = done.out.decode().splitlines()
    assert lines[0].startswith("latency: a probe of 160 dependent loads") and lines[0].endswith(f"on CPU {CPU}")
    head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["s", "ns"])
    rows = [line.split() for line in lines[head + 1:] if line and line[0] == " "]
    assert len(rows) == 3 and len({len(line) for line in lines[head:head + 4]}) == 1
    assert float(rows[0][0]) < float(rows[1][0]) < float(rows[2][0])
    assert lines[-1].startswith("the probe took ")


def test_calibration(solocore):
    done = solocore("latency", "--calibrate", "--span", "200 ms", "--factor", "2", "--format", "json", timeout=120)
    assert done.code == 0, done.err
    found = done.json()
    alone = found["levels"][0]
    assert alone["hogs"] == 0 and alone["lowest_ns"] <= alone["latency_ns"] <= alone["highest_ns"]
    assert found["threshold_ns"] == -(-alone["latency_ns"] * 2 // 1)
    assert len(found["levels"]) == len(os.sched_getaffinity(0))
    assert all(level["hog_bytes_per_s"] > 0 for level in found["levels"][1:])
    assert found["losses"][0]["same_cpu"] and all(loss["pairs"] <= 100 and loss["ratio"] > 0 for loss in found["losses"])
    assert "latency on CPU" in done.err


def test_a_threshold_that_nothing_reaches_is_said(solocore):
    done = solocore("latency", "--calibrate", "--span", "100 ms", "--factor", "100", "--cpu", CPU)
    assert done.code == 0, done.err
    text = done.out.decode()
    assert "100 times the latency alone" in text and "no load of this measurement reaches it" in text


@pytest.mark.parametrize("options, words", [
    (("--every", "1 us"), ("monitor period", "1 ms")),
    (("--every", "2 min"), ("monitor period", "60 s")),
    (("--source", "probe", "--cpu", "60000"), ("CPU 60000 is not online",)),
    (("--source", "probe", "--cpu", "0,,1"), ("--cpu 0,,1",)),
    (("--source", "probe", "--rate", "0"), ("batches",)),
    (("--source", "probe", "--loads", "7"), ("at least 8 loads",)),
    (("--source", "probe", "--loads", "67"), ("at most 66",)),
    (("--source", "probe", "--priority", "100"), ("real-time priority 100",)),
    (("--source", "probe", "--rate", "10000", "--loads", "66"), ("much of a CPU",)),
    (("--threshold", "5", "--idle", "2"), ("--idle 2",)),
    (("--event", "nonsense"), ("no event is called `nonsense`",)),
    (("--rule", "rate", "--source", "probe", "--event", "page-faults"), ("own loads",)),
    (("--calibrate", "--factor", "0.5"), ("a factor of 0.5",)),
    (("--calibrate", "--span", "1 ms"), ("each load",)),
])
def test_bad_input(solocore, options, words):
    refused(solocore("latency", *options), *words)


@pytest.mark.parametrize("options", [("--threshold", "0"), ("--count", "0"), ("--calibrate", "--count", "1"),
                                     ("--idle", "0.5"), ("--span", "1 s"), ("--every", "soon"), ("--source", "oracle")])
def test_bad_usage(solocore, options):
    done = solocore("latency", *options)
    assert done.code == 2 and not done.out and "--help" in done.err


def test_ctrl_c_ends_it_with_what_there_is(solocore):
    process = solocore.start("latency", "--source", "probe", "--every", "20 ms", "--cpu", CPU)
    while b" ns " not in process.stdout.readline():
        assert process.poll() is None, process.stderr.read()
    process.stdout.readline()
    code, err = interrupt(process, signal.SIGTERM)
    assert (code, err) == (0, "")


def test_a_reader_that_goes_ends_it(solocore):
    command = f"'{solocore.program}' latency --source probe --every '10 ms' | head -n 6"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=30, env=solocore.env)
    assert len(done.stdout.splitlines()) == 6 and not done.stderr


def test_without_rights_the_probe_still_works(solocore):
    if os.geteuid() != 0:
        pytest.skip("the other tests are run without rights already")
    argv = [solocore.program, "latency", "--source", "probe", "--count", "2", "--format", "json"]
    done = subprocess.run(argv, capture_output=True, timeout=30, user=65534, group=65534, extra_groups=[], cwd="/")
    if done.returncode == 126 or b"ermission denied" in done.stderr:
        pytest.skip("the command's directory is closed to others")
    assert done.returncode == 0, done.stderr
