"""Ways of the cache by resctrl, on an imitation of the kernel's that is mounted (tests/resctrl-double): `solocore run --resctrl`, `doctor`,
`bench lockdown`, and what is left when they end or are killed.

Skipped, with the reason, where nothing can be mounted or where this machine may not be regulated.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import refused

from test_run import LEAVE, planned, until_regulating  # noqa: F401 (a fixture)


@pytest.fixture(scope="session")
def double(program):
    path = Path(program).with_name("resctrl-double")
    assert path.is_file(), f"{path} is not there: cargo build -p solocore-resctrl-double"
    return path


class Mounted:
    def __init__(self, program, root, *settings):
        self.root = root
        self.process = subprocess.Popen([program, root, *settings], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.process.stdout.readline() != b"ready\n":
            pytest.skip(self.process.stderr.read().decode().strip() or "the imitation cannot be mounted")

    def read(self, name):
        return (self.root / name).read_text()

    def write(self, name, text):
        with open(self.root / name, "w") as f:
            f.write(text)

    def groups(self):
        return sorted(p.name for p in self.root.iterdir() if p.is_dir() and p.name not in ("info", "mon_data", "mon_groups"))

    def state(self):
        usage = "info/L3/bit_usage" if (self.root / "info/L3").exists() else "info/L3CODE/bit_usage"
        return [self.read(name) for name in ("schemata", "cpus_list", "mode", usage)] + self.groups()

    def unmount(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        finally:
            subprocess.run(["umount", "-l", self.root], capture_output=True)


@pytest.fixture
def mounted(double, tmp_path):
    """Mounts it with settings; unmounted at the end."""
    if not os.access("/dev/fuse", os.W_OK) or os.geteuid() != 0:
        pytest.skip("needs /dev/fuse and root")
    made = []

    def mount(*settings):
        root = tmp_path / f"resctrl{len(made)}"
        root.mkdir()
        made.append(Mounted(double, root, *settings))
        return made[-1]

    yield mount
    for m in made:
        m.unmount()


def board(ways, **more):
    settings = {"cpus": os.cpu_count(), "ways": ways, "shareable": 0, **more}
    return [f"{k.replace('_', '-')}={v}" for k, v in settings.items()]


def run(planned, mount, *options):
    done = planned("run", "plan.json", *LEAVE, "--resctrl", "--duration", "400 ms", *options, SOLOCORE_RESCTRL=str(mount.root))
    if done.code == 3 and not any(word in done.err for word in ("resctrl", "ways", "groups beside")):
        pytest.skip(done.err.strip().splitlines()[-1])
    return done


def shares_of(planned):
    return [core["ways"] for core in json.loads((planned.dir / "plan.json").read_text())["cores"]]


def with_ways(plan, shares):
    """A plan with these ways of its cores, which are all ways, and the colours that stand for them."""
    colours, first = sum(core["colours"][1] for core in plan["cores"]), 0
    for core, count in zip(plan["cores"], shares):
        start, end = (way * colours // sum(shares) for way in (first, first + count))
        core["ways"], core["colours"] = count, [start, end - start]
        first += count
    return plan


@pytest.fixture
def ways(planned):
    """As many as the plan's board has."""
    return json.loads((planned.dir / "plan.json").read_text())["platform"]["llc"]["ways"]


def test_a_run_gives_ways_and_puts_them_back(planned, mounted, ways):
    mount = mounted(*board(ways))
    before = mount.state()
    done = run(planned, mount, "--format", "json", "-o", "run.json")
    assert done.code == 0, done.err
    groups = done.json()["groups"]
    masks = [int(re.search(r"L3:0=([0-9a-f]+)", g["schemata"][0])[1], 16) for g in groups]
    assert [bin(m).count("1") for m in masks] == shares_of(planned)
    for at, mask in enumerate(masks):
        assert all(mask & other == 0 for other in masks[at + 1:]), "no way belongs to two"
    assert all(g["total_bytes"] > 0 and g["occupancy_bytes"] > 0 for g in groups)
    assert mount.state() == before
    page = planned("report", "run.json", "-o", "page.html")
    assert page.code == 0, page.err


@contextlib.contextmanager
def run_that_goes_on(planned, mount, other):
    """A run of the plan with ways, and a call that gives it another plan. The run must end well."""
    planned.write("other.json", json.dumps(other))
    planned.env["SOLOCORE_RESCTRL"] = str(mount.root)
    process = planned.start("run", "plan.json", *LEAVE, "--resctrl", "--duration", "60 s", "-o", "run.json")

    def replace():
        done = planned("run", "other.json", "--replace")
        assert done.code == 0, done.err

    try:
        until_regulating(process)
        yield replace
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.wait()


def test_a_run_that_goes_on_takes_other_ways(planned, mounted, ways):
    mount = mounted(*board(ways))
    before, shares = mount.state(), shares_of(planned)
    other = with_ways(json.loads((planned.dir / "plan.json").read_text()), [shares[0] + 1, shares[1] - 1, *shares[2:]])
    with run_that_goes_on(planned, mount, other) as replace:
        replace()
        masks = [int(re.search(r"L3:0=([0-9a-f]+)", mount.read(f"solocore-cpu{core}/schemata"))[1], 16) for core in range(len(shares))]
        assert [bin(mask).count("1") for mask in masks] == [shares[0] + 1, shares[1] - 1, *shares[2:]]
        assert sum(masks) == (1 << sum(shares)) - 1, "no way belongs to two"
    run = json.loads((planned.dir / "run.json").read_text())
    assert [core["ways"] for core in run["plan"]["cores"]][:2] == [shares[0] + 1, shares[1] - 1]
    assert f"L3:0={masks[0]:x}" in run["groups"][0]["schemata"][0]
    assert mount.state() == before


def test_a_run_that_goes_on_takes_other_limits_of_bandwidth(planned, mounted, ways):
    """Fails when the hardware keeps the limits of the old plan, or when the new budgets are refused for them."""
    mount = mounted(*board(ways, mib=1))
    before, plan = mount.state(), json.loads((planned.dir / "plan.json").read_text())
    core = plan["cores"][0]
    core["bandwidth_bytes_per_s"], core["budget_accesses"] = core["bandwidth_bytes_per_s"] // 2, core["budget_accesses"] // 2

    def limits():
        return [int(re.search(r"MB:0=(\d+)", mount.read(f"solocore-cpu{at}/schemata"))[1]) for at in range(len(plan["cores"]))]

    with run_that_goes_on(planned, mount, plan) as replace:
        old = limits()
        replace()
        assert limits() == [core["bandwidth_bytes_per_s"] >> 20, *old[1:]] != old
    groups = json.loads((planned.dir / "run.json").read_text())["groups"]
    assert groups[0]["schemata"][-1] == f"MB:0={core['bandwidth_bytes_per_s'] >> 20}"
    assert mount.state() == before


def test_while_it_runs_the_groups_are_there_and_a_kill_removes_them(planned, mounted, ways):
    mount = mounted(*board(ways))
    before = mount.state()
    planned.env["SOLOCORE_RESCTRL"] = str(mount.root)
    process = planned.start("run", "plan.json", *LEAVE, "--resctrl", "--duration", "30 s")
    try:
        until = time.monotonic() + 15
        while len(mount.groups()) < os.cpu_count() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        if process.poll() == 3:
            pytest.skip(process.stderr.read().decode().strip().splitlines()[-1])
        assert mount.groups() == [f"solocore-cpu{c}" for c in range(os.cpu_count())]
        time.sleep(0.3)
        assert [mount.read(f"solocore-cpu{c}/cpus_list").strip() for c in range(os.cpu_count())] == [str(c) for c in range(os.cpu_count())]
        top = planned("top", "--every", "100 ms", "--count", "1")
        assert top.code == 0 and "solocore-cpu0" in top.out.decode() and "held KiB" in top.out.decode(), top.err
    finally:
        process.kill()
        process.wait()
    until = time.monotonic() + 10
    while mount.state() != before and time.monotonic() < until:
        time.sleep(0.05)
    assert mount.state() == before, "the keeper puts everything back"


def answers(text):
    return {p["id"]: p for p in json.loads(text)["promises"] if p["subject"] == "ways"}


def test_ways_are_promised_where_there_are_masks(planned, mounted, ways):
    for settings, by in [({}, "resctrl"), ({"ways": 0}, None)]:
        mount = mounted(*board(**{"ways": ways, **settings}))
        done = run(planned, mount, "--dry-run", "--format", "json")
        found = answers(done.out)
        assert found and {a["kept_by"] for a in found.values()} == {by}, (settings, done.err)
        if by is None:
            assert all("no L3 masks" in a["why"] for a in found.values()), found


def test_ways_that_somebody_takes_while_it_runs_are_broken(planned, mounted, ways):
    mount = mounted(*board(ways))
    planned.env["SOLOCORE_RESCTRL"] = str(mount.root)
    process = planned.start("run", "plan.json", *LEAVE, "--resctrl", "--duration", "30 s", "--format", "json")
    try:
        for line in process.stderr:
            if b"regulating" in line:
                break
        else:
            pytest.skip("this machine cannot be regulated")
        found = answers(planned("top", "--count", "1", "--format", "json").out)
        assert found["ways:core-0"]["kept_by"] == "resctrl", found
        mount.write("solocore-cpu0/schemata", "L3:0=1\n")
        until = time.monotonic() + 20
        while found["ways:core-0"]["kept_by"] and time.monotonic() < until:
            found = answers(planned("top", "--count", "1", "--format", "json").out)
        assert found["ways:core-0"]["kept_by"] is None and "L3:0=1 now" in found["ways:core-0"]["why"]
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert "ways:core-0" in json.loads(out)["broken"]
    finally:
        process.kill()
        process.wait()


def test_what_the_kernel_refuses_is_said_and_undone(planned, mounted, ways):
    for settings, words in [
        (board(ways, closids=2), ("groups beside the first",)),
        (board(ways + 4), ("another machine",)),
        (board(ways, least=ways), ("ways from way",)),
    ]:
        mount = mounted(*settings)
        before = mount.state()
        done = run(planned, mount)
        refused(done, *words, codes=(3,), one_line=False)
        assert mount.state() == before, settings


def test_a_group_of_somebody_else_is_left_alone(planned, mounted, ways):
    mount = mounted(*board(ways))
    (mount.root / "theirs").mkdir()
    before = mount.state()
    refused(run(planned, mount), "`theirs`", "rmdir", codes=(3,), one_line=False)
    assert mount.state() == before
    (mount.root / "solocore-cpu0").mkdir()
    (mount.root / "theirs").rmdir()
    before = mount.state()
    refused(run(planned, mount), "solocore-cpu0", "rmdir", codes=(3,), one_line=False)
    assert mount.state() == before


def test_code_and_data_apart_and_bandwidth_in_mib(planned, mounted, ways):
    mount = mounted(*board(ways, cdp=1, mib=1))
    before = mount.state()
    done = run(planned, mount, "--format", "json")
    assert done.code == 0, done.err
    lines = done.json()["groups"][0]["schemata"]
    assert [line.split(":")[0] for line in lines] == ["L3CODE", "L3DATA", "MB"]
    planned_mib = json.loads((planned.dir / "plan.json").read_text())["cores"][0]["bandwidth_bytes_per_s"] >> 20
    assert lines[2] == f"MB:0={planned_mib}"
    assert mount.state() == before


def test_without_resctrl_it_is_refused(planned, tmp_path):
    done = planned("run", "plan.json", *LEAVE, "--resctrl", "--duration", "1 s", SOLOCORE_RESCTRL=str(tmp_path))
    refused(done, "not mounted", "mount -t resctrl", codes=(3,))


def test_doctor_says_what_there_is(solocore, mounted):
    mount = mounted(*board(11, shareable=600))
    done = solocore("doctor", "--format", "json", SOLOCORE_RESCTRL=str(mount.root))
    found = {f["what"]: f for f in done.json()["findings"]} if isinstance(done.json(), dict) else {f["what"]: f for f in done.json()}
    assert found["resctrl"]["good"] and "ways of the shared cache: 11" in found["resctrl"]["found"]
    assert "mbm_total_bytes" in found["resctrl"]["found"]
    assert "Broadwell-X" in found["pseudo-locking"]["found"]


def test_lockdown_in_ways_of_its_own_and_back(solocore, mounted):
    mount = mounted(*board(11))
    before = mount.state()
    done = solocore("bench", "lockdown", "--size", "256 KiB", "--time", "5 ms", "--hogs", "0", "--format", "json",
                    SOLOCORE_RESCTRL=str(mount.root))
    if done.code == 3:
        pytest.skip(done.err.strip().splitlines()[-1])
    assert done.code == 0, done.err
    result = done.json()
    assert result["ways_mask"] == "1" and [c["method"] for c in result["cases"]] == ["flushed", "just-read", "prefetch", "exclusive-ways"]
    assert mount.state() == before


HOT = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    char *heap = malloc(16 * 4096);
    memset(heap, 1, 16 * 4096);
    write(1, "up", 2);
    for (;;)
        pause();
}
"""


def test_locked_pages_of_a_process_are_read_into_ways_of_their_own(planned, mounted, ways, compile_c):
    program = compile_c(HOT)
    plan = json.loads((planned.dir / "plan.json").read_text())
    pages = [(program.name, 0), ("heap", 1), ("heap", 2), ("stack", 1), ("mmap#0", 0), (program.name, 1000)]
    video = next(t for t in plan["tasks"] if t["name"] == "video")
    video["locked_pages"] = [{"region": r, "offset": o} for r, o in pages]
    planned.write("plan.json", json.dumps(plan))
    mount = mounted(*board(ways))
    before = mount.state()
    with subprocess.Popen([program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.read(2) == b"up"
            done = run(planned, mount, "--no-fifo", "--attach", f"video={process.pid}", "--format", "json")
        finally:
            process.kill()
    assert done.code == 0, done.err
    locked = done.json()["locked_pages"]
    assert [(r["task"], r["pages"], r["found"], r["processes"]) for r in locked] == [("video", 6, 4, 1)]
    # Read again with every look, twenty times a second.
    assert locked[0]["present"] >= 3 and locked[0]["reads"] >= 2 * locked[0]["present"] and locked[0]["mean_read_ns"] > 0
    groups = {g["group"]: g for g in done.json()["groups"]}
    core, lock = groups["solocore-cpu0"]["schemata"][0], groups["solocore-lock0"]["schemata"][0]
    core, lock = (int(line.split("=")[1], 16) for line in (core, lock))
    assert core & lock == 0 and bin(lock).count("1") == 1 and bin(core | lock).count("1") == shares_of(planned)[0]
    assert mount.state() == before


def test_a_program_in_ways_of_its_own(solocore, mounted):
    mount = mounted(*board(11))
    before = mount.state()
    planned_env = {"SOLOCORE_RESCTRL": str(mount.root)}
    look = f"for g in {mount.root}/solocore-exec*; do cat $g/schemata $g/mode; done; cat {mount.root}/schemata; exit 7"
    done = solocore("exec", "--ways", "3", "--", "sh", "-c", look, **planned_env)
    assert (done.code, done.err) == (7, "")
    lines = [line.strip() for line in done.out.decode().splitlines()]
    assert "L3:0=7" in lines and "exclusive" in lines and "L3:0=7f8" in lines
    assert mount.state() == before
    refused(solocore("exec", "--ways", "11", "--", "true", **planned_env), "11 ways", codes=(3,))
    refused(solocore("exec", "--ways", "1", "--", "/no/such/program", **planned_env), "cannot run", codes=(2,))
    assert mount.state() == before
    solocore.env.update(planned_env)
    process = solocore.start("exec", "--ways", "2", "--", "sleep", "60")
    try:
        def members():
            pids = [pid for group in mount.groups() for pid in mount.read(f"{group}/tasks").split()]
            return [Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids]

        until = time.monotonic() + 10
        while members() != ["sleep"] and time.monotonic() < until:
            time.sleep(0.02)
        assert len(mount.groups()) == 1 and members() == ["sleep"]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
    assert process.returncode == 128 + signal.SIGTERM
    assert mount.state() == before


def test_ways_without_resctrl(solocore, tmp_path):
    refused(solocore("exec", "--ways", "1", "--", "true", SOLOCORE_RESCTRL=str(tmp_path / "nothing")), "not mounted", codes=(3,))
