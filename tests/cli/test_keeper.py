"""The keeper, a child process that puts settings back when solocore has ended: with files in the place of the kernel's settings, and beside runs."""

import fcntl
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from test_run import LEAVE, planned, until_regulating  # noqa: F401 (a fixture)


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


def test_changes_in_a_loop_need_no_more_room_than_one(solocore):
    """What the daemon asks for after every 1024 lines: entries that are no longer needed go, from the journal as well."""
    setting, journal = solocore.dir / "setting", solocore.dir / "journal"
    setting.write_text("3")
    process = subprocess.Popen([solocore.program, "keep-settings"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**solocore.env, "SOLOCORE_JOURNAL": str(journal)})
    assert process.stdout.readline() == "ready\n"
    # A state that the thread does not have when it is put back, so that nothing is done to it.
    start = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
    living = f"@thread\t{os.getpid()}\t{start}\tcpus\t0-1023\t1023"
    dead = "@thread\t4194304\t1\tcpus\t0\t1"
    for _ in range(3):
        print(f"{setting}\t1\n{living}\n{dead}\n" * 400 + "@compact", file=process.stdin, flush=True)
        assert process.stdout.readline() == "2\n"
        assert journal.read_text() == f"{setting}\t1\n{living}\n"
    with journal.open() as held, pytest.raises(BlockingIOError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    process.communicate(timeout=20)
    assert process.returncode == 0 and setting.read_text() == "1"
    assert sorted(os.listdir(solocore.dir)) == ["cache-home", "setting"]


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


@pytest.mark.parametrize("how, ended", [("--default-signal", "signal"), ("--ignore-signal", "duration")], ids=["heard", "nohup"])
def test_the_end_of_its_terminal_ends_a_run_that_is_not_to_outlive_it(planned, how, ended):  # noqa: F811
    """As SIGTERM does: everything is put back. `nohup` starts it with SIGHUP ignored."""
    throttling = Path("/proc/sys/kernel/sched_rt_runtime_us")
    before = throttling.read_text()
    planned.machine.take_for(RUN)
    duration = "60 s" if ended == "signal" else "2 s"
    process = subprocess.Popen(["env", f"{how}=HUP", planned.program, *RUN, "--duration", duration, "--format", "json"],
                               cwd=planned.dir, env=planned.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    until_regulating(process)
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err.decode()
    assert json.loads(out)["ended"] == ended
    assert throttling.read_text() == before
    assert not list(Path("/run/solocore-journal").glob(f"*-{process.pid}-*"))


def test_restore_says_what_it_cannot_put_back(solocore):
    """Exit code 3 until all is as it was; what can be put back is, at the first call."""
    first, broken = solocore.dir / "first", solocore.dir / "broken"
    first.write_text("2")
    broken.mkdir()
    dead = subprocess.Popen(["true"])
    dead.wait()
    directory = Path("/run/solocore-journal")
    directory.mkdir(mode=0o700, exist_ok=True)
    journal = directory / f"{time.monotonic_ns():020}-{dead.pid}-0"
    journal.write_text(f"{first}\t1\n{broken}\t1\n")
    done = solocore("restore", "--format", "json")
    assert done.code == 3 and done.json()["failed"] == 1, (done.code, done.out, done.err)
    assert f"{broken} cannot be put back to 1" in done.err and first.read_text() == "1"
    broken.rmdir()
    broken.write_text("2")
    done = solocore("restore")
    assert done.code == 0 and broken.read_text() == "1", done.err
    assert not journal.exists()
