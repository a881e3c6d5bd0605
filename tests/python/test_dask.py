"""`--dask` of the command: the same files as without it, gone on with after Ctrl-C, and on a cluster in another network namespace
(SOLOCORE_PYTHON_NETNS=1, root, as in `make nightly`)."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

distributed = pytest.importorskip("distributed")

SCENARIOS = ("--scenario", "*,Short,Heavy,Slow,Large,Low,Many", "--schemes", "C|C,O|C", "--utilization", "1:6:1")
HERE = str(Path(sys.executable).parent)
PACKAGE = os.environ["PYTHONPATH"]


@pytest.fixture(scope="module")
def address():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def here(command):
    """The command where python3 is the one of the tests."""
    command.env["PATH"] = f"{HERE}:{command.env['PATH']}"
    return command


def tree(place):
    """All files but the journal of a study: its order, and points beyond a scenario's end, depend on threads."""
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file() and p.name != "journal.csv"}


def same(command, address, *args, code=0):
    """Runs a command here and on the cluster; both must write and print the same."""
    plain = command(*args, "-o", "out", timeout=300)
    assert plain.code == code, plain.err
    (command.dir / "out").rename(command.dir / "plain")
    there = command(*args, "-o", "out", "--dask", address, timeout=300)
    assert there.code == code, there.err
    assert f"points on {address}" in there.err, "the cluster computed"
    one, other = tree(command.dir / "plain"), tree(command.dir / "out")
    assert one and one == other
    assert plain.out == there.out
    return one


def test_a_study_is_the_same(here, address):
    files = same(here, address, "study", *SCENARIOS, "--seed", "3")
    assert {"points.csv", "sua.csv", "study.json"} <= files.keys() and len([n for n in files if n.endswith(".svg")]) == 3


def test_reproductions_with_several_seeds_are_the_same(here, address):
    files = same(here, address, "reproduce", "dynamic-fig3", "--quick", "--seeds", "2", "--seed", "5")
    assert {name.split("/")[0] for name in files} == {"seed-5", "seed-6"}


def test_attacks_are_the_same(here, address):
    files = same(here, address, "attack", "even", "none", "--board", "p4080", "--attacks", "3", "--seed", "2")
    assert files.keys() == {"even-p4080.json", "none-p4080.json"}
    again = here("attack", "even", "--board", "p4080", "--attacks", "3", "--seed", "2", "-o", "out", "--dask", "tcp://127.0.0.1:9")
    assert again.code == 0, "what is there already needs no cluster"
    other = here("attack", "even", "--board", "p4080", "--attacks", "3", "--seed", "9", "-o", "out", "--dask", "tcp://127.0.0.1:9")
    assert other.code == 3 and "tcp://127.0.0.1:9" in other.err, "of another seed nothing is there"


def test_ctrl_c_keeps_what_came_in(here, address):
    args = ("--scenario", "*,*,Heavy,Slow,Large,*,Many", "--schemes", "C|C,O|C", "--utilization", "1:6:1")
    plain = here("study", *args, "-o", "plain", timeout=300)
    assert plain.code == 0, plain.err
    journal = here.dir / "out/journal.csv"
    running = here.start("study", *args, "-o", "out", "--dask", address)
    until = time.monotonic() + 60
    while not (journal.is_file() and journal.stat().st_size) and running.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130 and b"points are kept" in said, said
    assert time.monotonic() - began < 8
    kept = len(journal.read_bytes().splitlines())
    there = here("study", "--resume", "out", "--dask", address, timeout=300)
    assert there.code == 0, there.err
    assert 0 < kept < len(journal.read_bytes().splitlines())
    assert tree(here.dir / "plain") == tree(here.dir / "out")


def test_what_is_missing_is_said_on_one_line(here, address):
    def refused(words, **env):
        (here.dir / "out").exists() and (here.dir / "out").rename(here.dir / f"old-{time.monotonic_ns()}")
        done = here("study", *SCENARIOS, "-o", "out", "--dask", env.pop("to", address), **env)
        last = done.err.splitlines()[-1]
        assert done.code == 3 and last.startswith("solocore: --dask: ") and all(word in last for word in words), done.err
    (here.dir / "none").mkdir()
    refused(["cannot start python3", "pip install"], PATH=str(here.dir / "none"))
    refused(["No module named", "solocore", "pip install"], PYTHONPATH="")
    refused(["tcp://127.0.0.1:9", "dask scheduler"], to="tcp://127.0.0.1:9")
    # The real package, but for its version.
    other = here.dir / "none/python3"
    other.write_text(f"""#!/bin/sh
exec {sys.executable} -c 'import runpy, solocore._solocore as s
s.__version__ = "0.0.1"
runpy.run_module("solocore.from_command", run_name="__main__")'
""")
    other.chmod(0o755)
    refused(["python3 has solocore 0.0.1", "the same version"], PATH=f"{here.dir / 'none'}:{os.environ['PATH']}")


@contextmanager
def running(*args):
    child = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(timeout=30)


@pytest.mark.skipif(os.environ.get("SOLOCORE_PYTHON_NETNS") != "1", reason="SOLOCORE_PYTHON_NETNS=1 as root: makes a network namespace")
def test_a_cluster_in_another_network_namespace(here):
    space, outer, inner = f"solocore-{os.getpid()}", f"sc{os.getpid() % 10**6}a", f"sc{os.getpid() % 10**6}b"

    def ip(*args):
        subprocess.run(["ip", *args], check=True)
    ip("netns", "add", space)
    try:
        ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
        ip("addr", "add", "10.213.77.1/30", "dev", outer)
        ip("link", "set", outer, "up")
        for command in (["addr", "add", "10.213.77.2/30", "dev", inner], ["link", "set", inner, "up"], ["link", "set", "lo", "up"]):
            ip("-n", space, *command)
        there, dask = ["ip", "netns", "exec", space], [sys.executable, "-m", "dask"]
        to = "tcp://10.213.77.2:8786"
        with running(*there, *dask, "scheduler", "--host", "10.213.77.2", "--port", "8786", "--no-dashboard"), \
                running(*there, *dask, "worker", to, "--nthreads", "1", "--no-dashboard"), \
                running(*there, *dask, "worker", to, "--nthreads", "1", "--no-dashboard"):
            with distributed.Client(to, timeout=60) as client:
                client.wait_for_workers(2, timeout=60)
                assert all(w.startswith("tcp://10.213.77.2:") for w in client.scheduler_info()["workers"])
            same(here, to, "study", *SCENARIOS, "--seed", "3")
            alone = here("study", *SCENARIOS, "-o", "alias", "--seed", "3", "--scheduler", to, timeout=300)
            assert alone.code == 0 and tree(here.dir / "alias") == tree(here.dir / "out")
    finally:
        ip("netns", "del", space)
