"""Campaigns: the same table to the byte with one worker or two, with workers killed on the way, and gone on with after a kill."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from pyarrow import parquet

import solocore
from solocore import InputError, MachineError

distributed = pytest.importorskip("distributed")

POINTS = {"cores": [1, 2], "utilization": [0.5, 0.7, 0.8, 0.9, 0.95, 0.99]}


def curve(cores, utilization, seed):
    sets = solocore.generate(200, 5, utilization * cores, cores=cores, periods=("log-uniform", 100, 10_000), seed=seed)
    return {"share": solocore.analyze(sets, "gedf", bounds=False, threads=1).schedulable(), "pid": None}


def slow(n, place, seed):
    """Notes who computes, and takes a while."""
    with open(os.path.join(place, f"{n}-{os.getpid()}"), "w"):
        pass
    time.sleep(0.15)
    return {"value": hashlib.sha256(f"{n} {seed}".encode()).hexdigest(), "third": n / 3}


def fails(n, seed):
    if n == 3:
        raise LookupError(f"point {n}")
    return {"n": n}


def dies(n, seed):
    os.kill(os.getpid(), signal.SIGKILL)


def gives(kind, seed):
    return {"list": [1], "nan": {"x": float("nan")}, "list in": {"x": [1]}, "seed": {"seed": 1}}[kind]


def text_of(found):
    """The table as a file."""
    out = io.BytesIO()
    parquet.write_table(found.table, out)
    return out.getvalue()


@pytest.fixture(scope="module")
def client():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        with distributed.Client(cluster) as made:
            yield made


def test_a_curve_is_the_same_on_any_workers(client):
    two = solocore.campaign(curve, POINTS, client)
    assert two.computed == len(two) == 12 and two.table["share"][6].as_py() > two.table["share"][11].as_py()
    one = solocore.campaign(curve, POINTS, workers=1)
    by_address = solocore.campaign(curve, POINTS, client.scheduler.address, group=5)
    assert text_of(one) == text_of(two) == text_of(by_address)
    assert solocore.campaign(curve, POINTS, client, seed=2).table != two.table
    later = solocore.campaign(curve, [{"cores": 2, "utilization": 0.9}], client).table.to_pylist()[0]
    assert later == two.table.to_pylist()[9], "a point does not depend on its place"


def test_killed_workers_change_nothing(tmp_path, client):
    points = [{"n": n, "place": str(tmp_path)} for n in range(40)]
    quiet = solocore.campaign(slow, points, client)
    before = {path.name for path in tmp_path.iterdir()}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        with distributed.Client(cluster) as other:
            killed = []

            def kill(share):
                if share > 0.2 * (len(killed) + 1) and len(killed) < 3:
                    pid = sorted(other.run(os.getpid).values())[0]
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
            found = solocore.campaign(slow, points, other, group=1, progress=kill)
    assert len(set(killed)) == 3
    assert text_of(found) == text_of(quiet)
    ran = {path.name for path in tmp_path.iterdir()} - before
    assert len(ran) >= 40 and {name.split("-")[0] for name in ran} == {str(n) for n in range(40)}


KILLED = """
import sys
sys.path.insert(0, {tests!r})
import solocore
from test_campaign import slow
if __name__ == "__main__":
    solocore.campaign(slow, [{{"n": n, "place": {place!r}}} for n in range(40)], workers=2, group=1, output={output!r})
"""


def test_a_killed_campaign_goes_on(tmp_path, client):
    """The whole process group is killed in the middle; the rest is computed, what was there is not, and the table is the same."""
    (tmp_path / "seen").mkdir()
    points = [{"n": n, "place": str(tmp_path / "seen")} for n in range(40)]
    text = KILLED.format(tests=os.path.dirname(__file__), place=points[0]["place"], output=str(tmp_path / "out"))
    (tmp_path / "killed.py").write_text(text)
    running = subprocess.Popen([sys.executable, tmp_path / "killed.py"], start_new_session=True, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while len(list((tmp_path / "out").glob("*.parquet"))) < 8 and time.monotonic() < until and running.poll() is None:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    kept = len(list((tmp_path / "out").glob("*.parquet")))
    assert 8 <= kept < 40
    found = solocore.campaign(slow, points, client, output=tmp_path / "out")
    assert (found.kept, found.computed) == (kept, 40 - kept)
    assert text_of(found) == text_of(solocore.campaign(slow, points, client))
    again = solocore.campaign(slow, points, output=tmp_path / "out")
    assert again.computed == 0 and text_of(again) == text_of(found)
    with pytest.raises(InputError, match="seed"):
        solocore.campaign(slow, points, client, output=tmp_path / "out", seed=2)
    next((tmp_path / "out").glob("*.parquet")).write_bytes(b"damaged")
    with pytest.raises(InputError, match="computed again"):
        solocore.campaign(slow, points, client, output=tmp_path / "out")


def test_errors(client, tmp_path):
    with pytest.raises(LookupError, match="point 3"):
        solocore.campaign(fails, {"n": range(6)}, client)
    for kind, word in (("list", "dict of columns"), ("nan", "finite"), ("list in", "finite"), ("seed", "seed")):
        with pytest.raises(InputError, match=word):
            solocore.campaign(gives, {"kind": [kind]}, client)
    for points in ([1], {"n": 3}, [{"n": float("nan")}], [{"n": [1]}], [{"seed": 1}], [{"n": 2**63}], [{1: 2}]):
        with pytest.raises(InputError, match="points"):
            solocore.campaign(fails, points, client)
    with pytest.raises(MachineError, match="tcp://127.0.0.1:9"):
        solocore.campaign(fails, {"n": [1]}, "tcp://127.0.0.1:9")
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="file"):
        solocore.campaign(fails, {"n": [1]}, client, output=tmp_path / "file" / "below")
    assert len(solocore.campaign(fails, [], client)) == 0
    assert client.submit(pa.__name__.upper).result(timeout=20) == "PYARROW", "the client still works"
