"""The keeper, a child process that puts settings back when solocore has ended: with files in the place of the kernel's settings, and beside runs."""

import fcntl
import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from test_run import LEAVE, planned  # noqa: F401 (a fixture)


@pytest.mark.parametrize("heard", [True, False], ids=["heard", "unheard"])
def test_what_cannot_be_put_back_keeps_nothing_else_from_it(solocore, heard):
    first, last, broken = (solocore.dir / name for name in ("first", "last", "broken"))
    first.write_text("2")
    last.write_text("2")
    broken.mkdir()
    ours, theirs = os.pipe()
    process = subprocess.Popen([solocore.program, "keep-settings"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    if not heard:
        # A closed terminal, or a pipe to a program that has ended.
        os.close(ours)
    process.communicate(f"{first}\t1\n{broken}\t1\n{last}\t1\n".encode(), timeout=20)
    assert (first.read_text(), last.read_text()) == ("1", "1")
    assert process.returncode == 1
    if heard:
        with os.fdopen(ours) as said:
            assert f"{broken} cannot be put back to 1" in said.read()


RUN = ("run", "plan.json", *LEAVE, "--engine", "helper")


def test_a_start_waits_until_the_settings_of_a_killed_run_are_put_back(planned):  # noqa: F811
    """A lock on a journal is a keeper at work; the journal's name has the number of its run, which is dead."""
    done = planned(*RUN, "--duration", "100 ms")
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code == 0, done.err
    dead = subprocess.Popen(["true"])
    dead.wait()
    setting = planned.dir / "setting"
    setting.write_text("2")
    journal = Path(f"/run/solocore-journal/{time.monotonic_ns():020}-{dead.pid}-0")
    with journal.open("w") as keeper:
        fcntl.flock(keeper, fcntl.LOCK_EX)
        print(f"{setting}\t1", file=keeper, flush=True)
        process = planned.start(*RUN, "--duration", "200 ms", "--format", "json")
        time.sleep(1)
        waited = process.poll() is None
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err.decode()
    assert waited, "it did not wait for the keeper"
    assert json.loads(out)["engine"] == "helper"
    assert setting.read_text() == "1" and not journal.exists()
