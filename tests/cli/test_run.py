"""`solocore run` and the page of a run, on the machine that runs the tests.

What regulating does is tested in guests (tests/vm); here: options, files, and a second of regulating page faults where this is allowed.
Others may work on this machine: nothing is moved or confined.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import jsonschema
import pytest
from conftest import ROOT, board_like_here, interrupt, refused

SYSTEM = """
platform = "machine.toml"
[regulation]
policy = "memguard"
period = "1 ms"
[[task]]
name = "video"
core = 0
period = "100 ms"
wcet = "1 ms"
misses = 10
[[task]]
name = "batch"
core = {last}
criticality = "D"
wcet = "1 ms"
misses = 1
"""
LEAVE = ("--partial", "--no-move-irqs", "--no-confine", "--event", "page-faults")


@pytest.fixture
def planned(solocore):
    """A directory with plan.json for a board with as many CPUs as this machine, and the command."""
    cpus = board_like_here(solocore)
    solocore.plan(SYSTEM.format(last=cpus - 1))
    return solocore


@pytest.mark.parametrize("options, words", [
    (("--attach", "nobody=1"), ("no such task", "video, batch")),
    (("--attach", "video=me"), ("`me` is not a number",)),
    (("--attach", "video=0"), ("`0` is not a number",)),
    (("--command", "video=/no/such/program"), ("no program `/no/such/program`", "--directory")),
    (("--attach", "video=1", "--command", "video=/bin/true"), ("named twice",)),
    (("--start",), ("no task of the plan has a command",)),
    (("--irq-cpu", "99"), ("--irq-cpu 99",)),
    (("--directory", "nowhere"), ("--directory nowhere",)),
])
def test_wishes_that_cannot_be(planned, options, words):
    done = planned("run", "plan.json", *LEAVE, *options)
    refused(done, *words, codes=(2,))


@pytest.mark.parametrize("options, word", [(("--attach", "video=4194303"), "--attach video=4194303"),
                                           (("--metrics", "/no/such/place"), "--metrics /no/such/place"),
                                           (("--metrics", "203.0.113.1:9184"), "--metrics 203.0.113.1:9184")])
def test_a_dry_run_refuses_what_a_run_would_refuse(planned, options, word):
    done = planned("run", "plan.json", *LEAVE, "--dry-run", *options)
    if word not in done.err and done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code in (2, 3) and word in done.err.splitlines()[-1]


def test_an_option_without_a_task_is_bad_usage(planned):
    done = planned("run", "plan.json", "--attach", "17")
    assert done.code == 2 and "TASK=" in done.err and not done.out


def until_regulating(process):
    """Waits until a run that was started regulates; a machine that cannot is skipped."""
    said = [b""]
    while b"regulating" not in said[-1]:
        said.append(process.stderr.readline())
        if not said[-1]:
            assert process.wait() == 3, said
            pytest.skip(said[-2].decode().strip())


@pytest.fixture
def run(planned):
    done = planned("run", "plan.json", *LEAVE, "--command", "video=/bin/true", "--duration", "1 s", "-o", "run.json",
                   "--trace", "run.pftrace", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code == 0, done.err
    return done.json()


def test_a_run_and_its_page(planned, run):
    assert json.loads((planned.dir / "run.json").read_text()) == run
    schema = jsonschema.Draft202012Validator(planned("schema", "run").json())
    assert list(schema.iter_errors(run)) == []
    for key in ("format", "duration_ns", "ended"):
        assert list(schema.iter_errors({**run, key: {"no": "such"}})), f"{key} takes anything"
        assert list(schema.iter_errors({k: v for k, v in run.items() if k != key})), f"a run without {key} is taken"
    video = next(t for t in run["tasks"] if t["name"] == "video")
    assert (video["how"], video["fifo"], video["failed"]) == ("started", 89, 0)
    assert 1 <= video["jobs"] <= 11 and len(video["latest"]) == video["jobs"]
    assert video["max_response_ns"] == max(j["end_ns"] - j["release_ns"] for j in video["latest"])
    for core in run["cores"]:
        # A period may end between the last look at the counts and that at the series.
        assert abs(sum(span[0] for span in core["series"]) + run["periods_unread"] - core["periods"]) <= 100
        assert max((span[2] for span in core["series"]), default=0) <= core["max_accesses_per_period"]
    trace = (planned.dir / "run.pftrace").read_bytes()
    assert b"CPU 0 throttled" in trace and b"video (core 0)" in trace

    assert planned("report", "run.json", "-o", "run.html").code == 0
    page = (planned.dir / "run.html").read_text()
    assert "On the machine" in page and "stands in for accesses" in page
    assert planned("report", "plan.json", "run.json", "-o", "both.html").code == 0


@pytest.mark.parametrize("options", [("--group", "users"), ("--max-hold", "2 s"), ("--sched-trace", "t.csv")])
def test_options_that_nobody_takes_are_refused(planned, options):
    refused(planned("run", "plan.json", *LEAVE, *options), options[0], codes=(2,))


@pytest.mark.parametrize("older", ["solocore-run/1", "solocore-levels/1", "solocore-vcpus/1", "solocore-run-vcpus/1"])
def test_runs_of_older_versions_are_refused(solocore, older):
    solocore.write("run.json", json.dumps({"format": older, "duration_ns": 1}))
    refused(solocore("report", "run.json", "-o", "page.html"), f"format is {older}", "run the plan again", codes=(2,))


def test_runs_that_cannot_be_drawn(planned, run):
    path = planned.dir / "run.json"
    whole = json.loads(path.read_text())
    for change, word in [({"period_ns": 0}, "no period"), ({"cores": []}, "no cores"), ({"span_ns": 0}, "span_ns"),
                         ({"tasks": []}, "other tasks"), ({"cores": 3}, "run.json"), ({"plan": None}, "no plan"),
                         ({"plan": {**whole["plan"], "cores": []}}, "the plan: it has 0 cores")]:
        path.write_text(json.dumps({**whole, **change}))
        refused(planned("report", "run.json", "-o", "bad.html"), word, codes=(2,))
    path.write_text(json.dumps(whole))
    refused(planned("report", "run.json", "run.json", "-o", "bad.html"), "second run", codes=(2,))
    assert not (planned.dir / "bad.html").exists()


def test_the_service_manager_hears_of_it(planned):
    import socket
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(planned.dir / "notify"))
        done = planned("run", "plan.json", *LEAVE, "--duration", "300 ms", NOTIFY_SOCKET=str(planned.dir / "notify"))
        if done.code == 3:
            pytest.skip(done.err.strip().splitlines()[-1])
        manager.settimeout(0)
        said = []
        try:
            while True:
                said.append(manager.recv(100).decode())
        except BlockingIOError:
            pass
    assert said[0] == "READY=1" and said[-1] == "STOPPING=1"
    assert said.count("WATCHDOG=1") >= 2 and set(said) == {"READY=1", "WATCHDOG=1", "STOPPING=1"}


PARTITIONS = (ROOT / "examples/drivers/system.toml").read_text().replace('"core-i5-2500k"', '"machine.toml"')
DRIVER = """
import os
from solocore import client as solocore
try: solocore.attach_slot("nav/2/device-input")
except solocore.Error as e: print(e)
solocore.attach_slot("nav/1/device-input")
print("bound to", sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0) == os.SCHED_FIFO)
while True:
    with solocore.slot(): pass
"""


@pytest.fixture
def with_partitions(planned):
    planned.plan(PARTITIONS)
    return planned


def test_drivers_wait_for_their_slots(with_partitions, tmp_path):
    solocore = with_partitions
    subprocess.run(["make", "-s", "-C", ROOT / "client/c", f"OUT={tmp_path / 'client'}"], check=True)
    solocore.write("driver.py", DRIVER)
    done = solocore("run", "plan.json", *LEAVE, "--command", f"nav/1/device-input={sys.executable} driver.py",
                    "--command", "filter=/bin/true", "--duration", "2 s", "--format", "json", "-o", "run.json", "--trace", "run.pftrace",
                    SOLOCORE_LIBRARY=str(tmp_path / "client/libsolocore.so.0"), PYTHONPATH=str(ROOT / "python"))
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code == 0, done.err
    assert "no such task or slot" in done.err and "bound to [1] True" in done.err, done.err
    run = done.json()
    stages = ["physical-input", "device-input", "device-output", "physical-output"]
    transfers = {t["name"]: t for t in run["transfers"]}
    assert sorted(transfers) == sorted(f"nav/1/{s}" for s in stages)
    mine = transfers["nav/1/device-input"]
    table = json.loads((solocore.dir / "plan.json").read_text())["sce"]["table"]
    row = next(r for r in table if r["stage"] == "device-input")
    assert (mine["clients"], mine["core"], mine["resource"]) == (1, 1, "io-core") and mine["begun"] >= 1
    assert (mine["period_ns"], mine["length_ns"]) == (row["period_ns"], row["duration_ns"])
    # Slots and windows count from the same first release: a job of the partition's task begins with a window.
    window = next(r for r in table if r["stage"] == "processing")
    release = next(t for t in run["tasks"] if t["name"] == "filter")["latest"][0]["release_ns"] - window["offset_ns"]
    for job in mine["latest"]:
        assert (job["release_ns"] - release - row["offset_ns"]) % row["period_ns"] == 0
        assert 0 <= job["start_ns"] - job["release_ns"] < row["duration_ns"]
    alone = [f"nav/1/{s}" for s in stages if s != "device-input"]
    assert all(transfers[name]["clients"] == 0 and transfers[name]["unattended"] == transfers[name]["slots"] for name in alone)
    note = next(n for n in run["notes"] if n.startswith("transfers without a driver: "))
    assert sorted(note.split(": ")[1].split(", ")) == sorted(alone)
    assert [d["name"] for d in run["drivers"]] == ["nav/1/device-input"] and run["drivers"][0]["fifo"] == 91
    assert b"nav/1/device-input (io-core)" in (solocore.dir / "run.pftrace").read_bytes()
    assert solocore("report", "run.json", "-o", "run.html").code == 0
    assert 'data-transfer="nav/1/device-input"' in (solocore.dir / "run.html").read_text()


@pytest.mark.parametrize("options, words", [
    (("--attach", "nav/1/device-input=1"), ("attaches by itself", "--command nav/1/device-input=COMMAND")),
    (("--command", "nav/2/device-input=/bin/true"), ("no such task", "nav/1/device-input")),
    (("--command", "nav/1/device-input=/no/such/driver"), ("no program `/no/such/driver`",)),
    (("--command", "nav/1/device-input=/bin/true", "--command", "nav/1/device-input=/bin/true"), ("named twice",)),
])
def test_drivers_that_cannot_be(with_partitions, options, words):
    refused(with_partitions("run", "plan.json", *LEAVE, *options), *words, codes=(2,))


@pytest.fixture
def with_writes(planned):
    last = os.cpu_count() - 1
    system = SYSTEM.format(last=last).replace("[[task]]", f'[[core]]\nid = {last}\nwrite_bandwidth = "1280 kB/s"\n[[task]]', 1)
    plan = planned.plan(system)
    assert [c.get("write_budget_accesses") for c in plan["cores"]] == [None] * last + [20]
    return planned


def test_writes_that_cannot_be_counted(with_writes):
    cpu = open("/proc/cpuinfo").read()
    if "CPU implementer" in cpu:
        pytest.skip("this CPU may count its write-backs")
    refused(with_writes("run", "plan.json", *LEAVE, "--dry-run"), "a budget of writes", "--write-event", "--no-write-budgets", codes=(3,))
    refused(with_writes("run", "plan.json", *LEAVE, "--write-event", "nothing"), "no event is called `nothing`", codes=(2,))
    done = with_writes("run", "plan.json", *LEAVE, "--dry-run", "--no-write-budgets", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    cores = done.json()["cores"]
    assert "write_budget" not in cores[-1] and cores[-1]["planned"] == cores[0]["planned"]
    assert any("--no-write-budgets" in note for note in done.json()["notes"])


def test_writes_are_regulated_and_shown_apart(with_writes):
    done = with_writes("run", "plan.json", *LEAVE, "--write-event", "minor-faults", "--duration", "1 s", "-o", "run.json", "--format", "json")
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code == 0, done.err
    run = done.json()
    first, last = run["cores"][0], run["cores"][-1]
    assert run["write_event"] == "minor-faults"
    assert (last["write_planned"], last["write_budget"], last["write_sample"]) == (20, 20, 2)
    assert last["planned"] == first["planned"] - 20 and first["write_budget"] == 2**64 - 1
    for core in run["cores"]:
        assert core["max_writes_per_period"] <= core["writes"] and core["periods_over_write_budget"] <= core["periods"]
    assert with_writes("report", "run.json", "-o", "run.html").code == 0
    assert "Write budget" in (with_writes.dir / "run.html").read_text()
    text = with_writes("run", "plan.json", *LEAVE, "--write-event", "minor-faults", "--duration", "100 ms").out.decode()
    assert "write budget" in text and "writes are minor-faults" in text


def test_a_job_that_waits_to_be_started_holds_up_no_look(planned):
    """A lease on the program lets its start wait, as a VCPU without budget does. Fails when looks at the run wait with it."""
    program = planned.dir / "job"
    shutil.copy("/bin/true", program)
    lease = os.open(program, os.O_RDONLY | os.O_CLOEXEC)
    # The default of SIGIO ends the process.
    fcntl.fcntl(lease, fcntl.F_SETSIG, signal.SIGURG)
    try:
        fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        pytest.skip(f"no lease on a file here: {error}")
    process = planned.start("run", "plan.json", *LEAVE, "--engine", "helper", "--command", f"video={program}", "--duration", "60 s",
                            "--format", "json")

    def jobs():
        looked = planned("top", "--format", "json", timeout=10)
        assert looked.code == 0, looked.err
        return next(t["jobs"] for t in looked.json()["tasks"] if t["name"] == "video")

    until_regulating(process)
    try:
        # A lease that is asked for says so: the start is under way, and waits. The kernel breaks the lease after 45 s.
        until = time.monotonic() + 20
        while fcntl.fcntl(lease, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
            assert time.monotonic() < until, "no start has asked for the program"
            time.sleep(0.01)
        assert [jobs() for _ in range(3)] == [0, 0, 0]
        os.close(lease)
        until = time.monotonic() + 20
        while not jobs():
            assert time.monotonic() < until, "the job was never started"
        code, err = interrupt(process)
        assert code in (0, 130), err
    finally:
        process.kill()


def test_long_periods_beside_an_idle_cpu(planned):
    """Fails where the kernel takes no samples of the timer on an idle CPU, if that is taken for a failure."""
    planned.plan(SYSTEM.replace('"1 ms"', '"10 ms"', 1).format(last=os.cpu_count() - 1))
    done = planned("run", "plan.json", *LEAVE, "--engine", "helper", "--duration", "4 s", "--format", "json")
    if done.code == 3 and "regulating" not in done.err:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code == 0, done.err
    assert done.json()["period_ns"] == 10_000_000 and all(core["periods"] > 0 for core in done.json()["cores"])


def test_in_a_container_processes_have_other_numbers(planned):
    """The programs would take whoever has solocore's number outside for solocore, and never throttle it."""
    inside = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("no namespace of processes may be made here")
    done = subprocess.run([*inside, planned.program, "run", "plan.json", *LEAVE], cwd=planned.dir, capture_output=True, text=True)
    assert done.returncode == 3 and not done.stdout
    assert "other numbers than the kernel's" in done.stderr and "--pid=host" in done.stderr
