"""`solocore compare`: a program alone, beside enemies, and protected."""

import json
import os
import signal
import subprocess
import time

import pytest
from conftest import refused

QUICK = ("compare", "-n", "3", "--memory", "16 MiB", "--event", "page-faults")


@pytest.fixture
def compare(solocore):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("enemies need a CPU of their own")
    return solocore


def enemies_left():
    # Another file's tests have enemies of another size.
    return subprocess.run(["pgrep", "-f", "bench bandwidth -t 0 .* -m 16384 KiB"], capture_output=True).stdout.split()


def test_three_cases(compare):
    before = enemies_left()
    done = compare(*QUICK, "--format", "json", "-o", "out.json", "--", "sleep", "0.02")
    assert done.code == 0, done.err
    result = done.json()
    assert json.loads((compare.dir / "out.json").read_text()) == result
    assert result["command"] == ["sleep", "0.02"] and result["runs"] == 3
    assert result["core"] not in result["enemies"] and result["enemies"]
    for case in ("alone", "beside", "protected"):
        times = result[case]
        if times is None:
            assert case == "protected" and result["protection"]
            continue
        assert len(times["times_ns"]) == 3
        assert 20_000_000 <= min(times["times_ns"]) <= times["p50_ns"] <= times["p99_ns"] <= times["max_ns"] == max(times["times_ns"])
    assert enemies_left() == before


def test_people_see_a_table_and_bars(compare):
    done = compare(*QUICK, "--", "true")
    assert done.code == 0, done.err
    text = done.out.decode()
    assert "beside enemies" in text and "#" in text and "not bounds" in text
    assert ("protected by page-faults" in text) != ("not protected: " in text)


@pytest.mark.parametrize("command, words", [
    (("false",), ("false ended with exit code 1",)),
    (("sh", "-c", "echo first >&2; echo the reason >&2; exit 9"), ("exit code 9", "the reason")),
    (("/no/such/program",), ("no/such/program", "check its name")),
])
def test_programs_that_fail_are_not_compared(compare, command, words):
    refused(compare(*QUICK, "--", *command), *words, codes=(2,))


def test_bad_options(compare):
    refused(compare(*QUICK, "--core", "4000", "--", "true"), "--core 4000", codes=(2,))
    assert compare("compare", "-n", "0", "--", "true").code == 2
    assert compare("compare").code == 2


def test_sigterm_ends_it_and_its_enemies(compare):
    before = enemies_left()
    process = compare.start("compare", "-n", "100000", "--memory", "16 MiB", "-o", "out.json", "--", "sleep", "0.05")
    time.sleep(2)
    assert len(enemies_left()) > len(before)
    process.send_signal(signal.SIGTERM)
    begin = time.monotonic()
    _, err = process.communicate(timeout=20)
    assert time.monotonic() - begin < 5, "half a second is needed here"
    assert process.returncode == 130 and b"interrupted; no output was written" in err
    assert enemies_left() == before and not (compare.dir / "out.json").exists()
