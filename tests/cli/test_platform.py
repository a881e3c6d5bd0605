"""Machines as platform files: this one, one that is made up, copies of both, and what is refused.

Nothing here depends on the machine: where its files do not tell enough (a container), what needs it is skipped, and the refusal is
tested in its place. The crate's own tests have more machines (crates/machine/tests).
"""

import json
import os
import signal
import subprocess
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT, refused

SYSTEM = """
platform = "./machine.toml"
[regulation]
policy = "memguard"
period = "1 ms"
[[task]]
name = "a"
core = 0
period = "100 ms"
wcet = "10 ms"
misses = 1000
"""
CACHES = [("1", "Data", "32K", 8, 64), ("1", "Instruction", "32K", 8, 64), ("2", "Unified", "256K", 8, 512),
          ("3", "Unified", "6144K", 12, 8192)]


@pytest.fixture
def machine(solocore):
    """This machine, described in machine.toml."""
    done = solocore("platform", "detect", "-o", "machine.toml")
    if done.code == 3:
        refused(done, "--from", codes=(3,))
        pytest.skip(done.err)
    assert done.code == 0, done.err
    return solocore


@pytest.fixture
def desktop(solocore):
    """The desktop of the MARACAS paper in `board`, without SMBIOS."""
    root = solocore.dir / "board"

    def put(path, text):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")

    cpu = "processor\t: {}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Core(TM) i5-2500K CPU @ 3.30GHz\nflags\t\t: fpu lm\n"
    put("proc/cpuinfo", "\n".join(cpu.format(n) for n in range(4)))
    put("proc/meminfo", "MemTotal:        8130000 kB")
    put("sys/devices/system/cpu/online", "0-3")
    for n in range(4):
        for index, (level, kind, size, ways, sets) in enumerate(CACHES):
            at = f"sys/devices/system/cpu/cpu{n}/cache/index{index}"
            shared = "0-3" if level == "3" else str(n)
            for name, value in {"level": level, "type": kind, "size": size, "ways_of_associativity": ways, "number_of_sets": sets,
                                "coherency_line_size": 64, "shared_cpu_list": shared}.items():
                put(f"{at}/{name}", value)
    return solocore


def tree(directory):
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


# This machine.

def test_a_plan_takes_the_file(machine):
    machine.write("system.toml", SYSTEM)
    done = machine("plan", "system.toml", "--format", "json")
    assert done.code in (0, 1), done.err
    assert done.json()["tasks"][0]["name"] == "a"


def test_two_runs_are_equal_and_stdout_is_the_file(machine):
    text = (machine.dir / "machine.toml").read_bytes()
    for _ in range(2):
        done = machine("platform", "detect")
        assert (done.code, done.out) == (0, text)


def test_json_is_alone_on_stdout_and_has_each_source(machine):
    done = machine("platform", "detect", "--format", "json", "-o", "again.toml")
    found = done.json()
    assert found["format"] == "solocore-machine/1"
    for fact in found["facts"]:
        assert fact["source"] in ("read", "table", "assumed") and fact["from"], fact
        assert ("known_by" in fact) == (fact["source"] == "assumed"), fact
    keys = {fact["key"]: fact["value"] for fact in found["facts"]}
    assert int(keys["cores"]) == found["platform"]["cores"]
    assert {"llc.size", "llc.ways", "dram.latency_max", "frequency"} <= keys.keys()
    assert len(done.err.splitlines()) == len(found["notes"])
    assert (machine.dir / "again.toml").read_bytes() == (machine.dir / "machine.toml").read_bytes()
    assert machine("platform", "show", "./again.toml", "--format", "json").json()["platform"] == found["platform"]


def test_every_key_has_its_source(machine):
    lines = (machine.dir / "machine.toml").read_text().splitlines()
    for line in lines:
        if " = " in line and not line.startswith("#"):
            assert any(f"# {source}: " in line for source in ("read", "table", "assumed")), line


def test_the_file_agrees_with_this_machine(machine):
    done = machine("platform", "check", "machine.toml")
    assert done.code == 0 and b"agrees" in done.out, done.err
    text = (machine.dir / "machine.toml").read_text()
    machine.write("other.toml", text.replace("\nfrequency = \"", "\nfrequency = \"9"))
    done = machine("platform", "check", "other.toml", "--format", "json")
    differences = {d["key"] for d in done.json()["differences"]}
    assert done.code == 1 and "frequency" in differences


def test_a_copy_describes_the_same_machine(machine):
    done = machine("platform", "collect", "-o", "copy")
    assert done.code == 0 and b"files" in done.out, done.err
    done = machine("platform", "detect", "--from", "copy")
    assert done.out == (machine.dir / "machine.toml").read_bytes()
    refused(machine("platform", "collect", "-o", "copy"), "copy", "not empty", codes=(2,))
    assert not [f for f in machine.files() if ".solocore-" in f]


@pytest.mark.parametrize("shell", [["sh"], ["dash"], ["busybox", "sh"]])
def test_the_script_copies_what_collect_copies(solocore, shell):
    try:
        subprocess.run([*shell, "-c", "exit"], check=True)
    except OSError as error:
        pytest.skip(str(error))
    script = solocore("platform", "collect", "--script").out
    done = subprocess.run([*shell, "-s", "by script"], cwd=solocore.dir, input=script, capture_output=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert solocore("platform", "collect", "-o", "by solocore").code == 0
    assert tree(solocore.dir / "by script") == tree(solocore.dir / "by solocore")
    done = subprocess.run([*shell, "-s", "by script"], cwd=solocore.dir, input=script, capture_output=True)
    assert done.returncode == 2 and b"not empty" in done.stderr


# Another machine, from files.

def test_a_made_up_machine_is_described_and_planned_for(desktop):
    done = desktop("platform", "detect", "--from", "board", "-o", "machine.toml")
    assert done.code == 0 and b"machine.toml: " in done.out, done.err
    found = desktop("platform", "show", "./machine.toml", "--format", "json").json()
    assert found["colours"] == 32
    assert found["platform"]["llc"]["size"] == "6 MiB" and found["platform"]["frequency"] == "3.3 GHz"
    assert desktop.plan(SYSTEM)["schedulable"]


def test_a_hybrid_has_a_clock_for_each_type(desktop):
    devices = desktop.dir / "board/sys/devices"
    for unit, cpus in (("core", "0-1"), ("atom", "2-3")):
        (devices / f"cpu_{unit}").mkdir(parents=True)
        (devices / f"cpu_{unit}/cpus").write_text(f"{cpus}\n")
    for n, khz in enumerate((3_300_000, 3_300_000, 2_200_000, 2_200_000)):
        folder = devices / f"system/cpu/cpu{n}/cpufreq"
        folder.mkdir()
        (folder / "base_frequency").write_text(f"{khz}\n")
    done = desktop("platform", "detect", "--from", "board", "-o", "machine.toml")
    assert done.code == 0 and "core_type: CPUs 0-1 (core) and 2-3 (atom)" in done.err, done.err
    text = (desktop.dir / "machine.toml").read_text()
    found = tomllib.loads(text)
    types = [("core", [0, 1], "3.3 GHz"), ("atom", [2, 3], "2.2 GHz")]
    assert [tuple(t.values()) for t in found["core_type"]] == types and found["frequency"] == "2.2 GHz"
    assert "# read: /sys/devices/cpu_atom/cpus" in text
    desktop.write("system.toml", SYSTEM)
    assert desktop("plan", "system.toml").code == 0
    desktop.write("machine.toml", text.replace("[2, 3]", "[2]"))
    refused(desktop("plan", "system.toml"), "machine.toml", "no type lists core 3")


def test_core_types_have_numbers_of_cores_where_cores_have_threads(desktop):
    devices = desktop.dir / "board/sys/devices"
    for unit, cpus in (("core", "0-1"), ("atom", "2-3")):
        (devices / f"cpu_{unit}").mkdir(parents=True)
        (devices / f"cpu_{unit}/cpus").write_text(f"{cpus}\n")
    for n, siblings in enumerate(("0-1", "0-1", "2", "3")):
        folder = devices / f"system/cpu/cpu{n}/topology"
        folder.mkdir()
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    done = desktop("platform", "detect", "--from", "board", "-o", "machine.toml")
    assert done.code == 0, done.err
    text = (desktop.dir / "machine.toml").read_text()
    found = tomllib.loads(text)
    assert found["cores"] == 3 and [t["cores"] for t in found["core_type"]] == [[0], [1, 2]]
    comments = [line.split("# ")[1] for line in text[text.index("[[core_type]]"):].splitlines() if line.startswith("cores = ")]
    topology = "read: /sys/devices/system/cpu/cpu*/topology, CPUs "
    assert comments == [topology + "0, one thread each", topology + "2-3"]
    assert "the cores are CPUs 0,2-3, but `solocore run` takes core i of a plan for CPU i" in done.err
    assert desktop("platform", "check", "machine.toml", "--from", "board").code == 0


def test_complexes_with_caches_of_their_own_are_described_one_at_a_time(desktop):
    """As the CCX of AMD's CPUs: the note says how to describe the other one, and how to turn its CPUs off."""
    for n in range(4):
        last = desktop.dir / f"board/sys/devices/system/cpu/cpu{n}/cache/index3/shared_cpu_list"
        last.write_text("0-1\n" if n < 2 else "2-3\n")
    done = desktop("platform", "detect", "--from", "board", "-o", "machine.toml")
    assert done.code == 0, done.err
    for words in ("CPUs 0-1 and 2-3 are behind different last-level caches", "the file describes CPUs 0-1 alone, and `--cpus 2-3` describes others",
                  "turn them off: echo 0 | sudo tee /sys/devices/system/cpu/cpu{2,3}/online"):
        assert words in done.err, done.err
    done = desktop("platform", "detect", "--from", "board", "--cpus", "2-3", "--format", "json")
    assert done.json()["platform"]["cores"] == 2 and "`--cpus 0-1` describes others" in done.err


def test_a_file_of_another_machine_is_told(desktop):
    done = desktop("platform", "check", "core-i5-2500k", "--from", "board")
    assert done.code == 0, done.out
    done = desktop("platform", "check", "raspberry-pi-4", "--from", "board")
    assert done.code == 1
    for key in (b"isa", b"frequency", b"llc.size", b"of another machine"):
        assert key in done.out
    done = desktop("platform", "check", "xeon-w3530", "--from", "board", "--format", "json").json()
    assert not done["same"] and {d["key"] for d in done["differences"]} == {"frequency", "l1i.ways", "llc.size", "llc.ways"}


def test_cpus_are_chosen(desktop):
    done = desktop("platform", "detect", "--from", "board", "--cpus", "1-2", "--format", "json")
    assert done.json()["platform"]["cores"] == 2
    assert "CPUs 0,3 share the last-level cache and are not described" in done.err
    refused(desktop("platform", "detect", "--from", "board", "--cpus", "3-9"), "--cpus 3-9", "CPU 4", codes=(2,))
    refused(desktop("platform", "detect", "--cpus", "x"), "--cpus x", codes=(2,))
    refused(desktop("platform", "detect", "--cpus", ""), "--cpus", codes=(2,))


# What is refused.

def test_a_container_is_said_with_its_key(desktop):
    subprocess.run(["rm", "-r", desktop.dir / "board" / "sys"], check=True)
    refused(desktop("platform", "detect", "--from", "board", "-o", "machine.toml"), "llc.size", "--from board", codes=(2,))
    assert not (desktop.dir / "machine.toml").exists()


def test_what_is_no_copy_is_refused(solocore):
    refused(solocore("platform", "detect", "--from", "nowhere"), "nowhere", "collect", codes=(2,))
    (solocore.dir / "empty").mkdir()
    refused(solocore("platform", "check", "p4080", "--from", "empty"), "empty", "proc/cpuinfo", codes=(2,))


def test_places_that_cannot_be_written(desktop):
    done = desktop("platform", "detect", "--from", "board", "-o", "no/machine.toml")
    refused(done, "no/machine.toml", codes=(3,))
    refused(desktop("platform", "collect", "-o", "no/copy"), "no/copy", codes=(3,))
    desktop.write("file", "")
    refused(desktop("platform", "collect", "-o", "file"), "file", "not a directory", codes=(2,))


# Presets.

def test_presets_are_listed_and_shown(solocore):
    names = {p.stem for p in (ROOT / "platforms").glob("*.toml")}
    lines = solocore("platform", "list").out.decode().splitlines()
    assert {line.split()[0] for line in lines[1:]} == names
    listed = solocore("platform", "list", "--format", "json").json()
    assert {preset["name"] for preset in listed} == names
    for name in names:
        assert solocore("platform", "show", name).out == (ROOT / "platforms" / f"{name}.toml").read_bytes()
    shown = solocore("platform", "show", "xeon-gold-6338", "--format", "json").json()
    assert shown["colours"] == 32 and shown["platform"]["llc"]["ways"] == 12


def test_a_file_is_checked_before_it_is_shown(solocore):
    refused(solocore("platform", "show", "none-such"), "none-such", codes=(2,))
    refused(solocore("platform", "show", "./none.toml"), "none.toml", codes=(2,))
    text = (ROOT / "platforms" / "p4080.toml").read_text()
    solocore.write("mine.toml", text.replace("cores = 8", "cores = 0"))
    refused(solocore("platform", "show", "mine.toml"), "mine.toml", "cores = 0", codes=(2,))
    json.loads(solocore("platform", "show", "p4080", "--format", "json").out)


# Measuring. What a busy machine does not let be measured is refused with exit code 3; then the file must be as it was. The
# estimators are tested on memories that are made up (crates/machine/tests/measure), figures are bench/machine.py's.

QUICK = "cpi,l2.latency"


def measured(machine, *args, timeout=110):
    """A run of measure; what it refuses has the file as it was."""
    before = (machine.dir / "machine.toml").read_text()
    done = machine("platform", "measure", "machine.toml", *args, timeout=timeout)
    if done.code == 3:
        assert "; " in done.err and (machine.dir / "machine.toml").read_text() == before
        pytest.skip(done.err)
    assert done.code == 0, done.err
    return done


def test_measured_keys_are_written_and_all_else_stays(machine):
    before = (machine.dir / "machine.toml").read_text()
    done = measured(machine, "--only", QUICK, "--format", "json", "-o", "new.toml")
    assert (machine.dir / "machine.toml").read_text() == before
    found = done.json()
    assert found["written"] == "new.toml" and found["format"] == "solocore-measure/1"
    after = (machine.dir / "new.toml").read_text()
    changed = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    keys = [f["key"] for f in found["findings"]]
    assert [a.split(" ")[0] for a, _ in changed] == [key.split(".")[-1] for key in keys]
    for (_, line), finding in zip(changed, found["findings"]):
        assert f"# measured: {found['date']}, 95 % [" in line
        assert line.split(" = ")[1].startswith(finding["after"]), line
        assert finding["ci_low"] <= finding["median"] <= finding["ci_high"] == finding["value"]
        assert finding["samples"] >= 8 and set(finding["left_out"]) == {"interrupts", "switches", "steal"}
        assert finding["before"].endswith(", assumed") and finding["method"]
    assert machine("platform", "check", "new.toml").code == 0
    machine.write("system.toml", SYSTEM.replace("machine.toml", "new.toml"))
    assert machine("plan", "system.toml").code in (0, 1)


def test_a_dry_run_writes_nothing(machine):
    files = machine.files()
    before = (machine.dir / "machine.toml").read_bytes()
    done = measured(machine, "--only", "cpi", "--dry-run")
    assert (machine.files(), (machine.dir / "machine.toml").read_bytes()) == (files, before)
    lines = done.out.decode().splitlines()
    assert lines[0].split() == ["key", "was", "is", "95", "%", "unit", "samples", "left", "out"]
    assert lines[1].startswith("cpi ") and lines[-1].endswith("machine.toml stays as it is (--dry-run)")


def test_ctrl_c_leaves_the_file_as_it_was(machine):
    files = machine.files()
    before = (machine.dir / "machine.toml").read_bytes()
    process = machine.start("platform", "measure", "machine.toml", "--time", "3600 s")
    for line in process.stderr:
        if b"misses side by side" in line or line.startswith(b"solocore: "):
            break
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode in (3, 130), (line, rest)
    assert (machine.files(), (machine.dir / "machine.toml").read_bytes()) == (files, before)


def test_the_file_of_another_machine_is_not_measured(machine):
    for name in ("raspberry-pi-4", "p4080"):
        text = machine("platform", "show", name).out
        (machine.dir / "other.toml").write_bytes(text)
        done = machine("platform", "measure", "other.toml")
        refused(done, "other.toml: it is of another machine", "isa is ", "cores is ", codes=(2,))
        assert (machine.dir / "other.toml").read_bytes() == text


@pytest.mark.parametrize("args, words", [
    (("--only", "cpi,ghosts"), ("--only ghosts", "dram.latency_max")),
    (("--cpu", "9999"), ("--cpu 9999", "offline")),
    (("--time", "1 ms"), ("--time", "1 s to 3600 s")),
])
def test_senseless_measurements_are_refused(machine, args, words):
    refused(machine("platform", "measure", "machine.toml", *args), *words, codes=(2,))


def hybrid(desktop, last):
    """A core with two threads and a second level of 64 KiB, and two small cores without. `last`: CPUs that share the last level."""
    devices = desktop.dir / "board/sys/devices"
    for unit, cpus in (("core", "0-1"), ("atom", "2-3")):
        (devices / f"cpu_{unit}").mkdir(parents=True)
        (devices / f"cpu_{unit}/cpus").write_text(f"{cpus}\n")
    for n, siblings in enumerate(("0-1", "0-1", "2", "3")):
        cpu = devices / f"system/cpu/cpu{n}"
        (cpu / "topology").mkdir()
        (cpu / "topology/thread_siblings_list").write_text(f"{siblings}\n")
        shared = {"index2": siblings if n < 2 else "2-3", "index3": last if str(n) in last else str(n)}
        for index, cpus in shared.items():
            (cpu / f"cache/{index}/shared_cpu_list").write_text(f"{cpus}\n")
        if n < 2:
            (cpu / "cache/index2/size").write_text("64K\n")
            (cpu / "cache/index2/number_of_sets").write_text("128\n")


def with_made_up_devices(solocore, script, *args):
    """Runs a script ($0 is solocore) where /sys/devices is the made-up one; skips only if the mount itself is refused."""
    bind = "mount --bind board/sys/devices /sys/devices"

    def run(script):
        return subprocess.run(["unshare", "-m", "sh", "-c", script, solocore.program, *args], cwd=solocore.dir, capture_output=True, text=True,
                              timeout=110)

    try:
        may = run(bind)
    except FileNotFoundError as e:
        pytest.skip(str(e))
    if may.returncode:
        pytest.skip(f"nothing may be mounted: {may.stderr}")
    return run(f"{bind} && {script}")


def on_the_made_up_machine(solocore, *args):
    """`platform measure` where /sys/devices is the made-up one."""
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("CPUs 0 and 1 may not be used")
    detect = '"$0" platform detect -o machine.toml >/dev/null 2>&1'
    done = with_made_up_devices(solocore, f'{detect} && exec "$0" platform measure machine.toml "$@"', *args)
    assert "[[core_type]]" in (solocore.dir / "machine.toml").read_text()
    return done


def test_the_doctor_tells_described_types_as_described(desktop):
    """Breaks when types that the plan's platform has are called bad, or other ones good."""
    devices = desktop.dir / "board/sys/devices"
    for unit, cpus in (("core", "0-1"), ("atom", "2-3")):
        (devices / f"cpu_{unit}").mkdir(parents=True)
        (devices / f"cpu_{unit}/cpus").write_text(f"{cpus}\n")
    assert desktop("platform", "detect", "--from", "board", "-o", "machine.toml").code == 0
    types = (desktop.dir / "machine.toml").read_text()
    for change, good, words in ((("", ""), True, "describes them as the core types `core` and `atom`"),
                                (("[0, 1]", "[0, 1, 2]"), False, "core_type `core` of the plan's platform has CPUs of several types")):
        desktop.write("machine.toml", types.replace(*change).replace("[2, 3]", "[3]" if change[0] else "[2, 3]"))
        desktop.plan(SYSTEM)
        done = with_made_up_devices(desktop, 'exec "$0" doctor --plan plan.json --format json')
        found = next(f for f in json.loads(done.stdout)["findings"] if f["what"] == "hybrid cpus")
        assert found["good"] == good and words in found["found"], found


@pytest.mark.parametrize("cpu", [0, 1])
def test_a_second_thread_has_the_caches_of_its_core(desktop, cpu):
    """The second level of its core is too near the first to be measured, and is refused. Behind the caches of the whole platform, which
    has none, CPU 1 would be measured in that second level."""
    hybrid(desktop, "0,1,2,3")
    done = on_the_made_up_machine(desktop, "--cpu", str(cpu), "--only", "llc.latency", "--time", "2 s", "--dry-run")
    assert done.returncode == 3, done
    if "two and a half times" not in done.stderr:
        pytest.skip(done.stderr)
    assert "l2.latency: 64 KiB are less than two and a half times the 32 KiB" in done.stderr


def test_a_cpu_without_a_type_is_refused(desktop):
    hybrid(desktop, "0,2,3")
    done = on_the_made_up_machine(desktop, "--cpu", "1", "--only", "llc.latency", "--dry-run")
    assert done.returncode == 2, done
    for words in ("machine.toml: core_type: no type has CPU 1", "give --cpu one of 0,2-3"):
        assert words in done.stderr, done.stderr


CLUSTERS = '"$0" platform detect --cpus {0} -o other.toml >/dev/null 2>&1; "$0" platform measure other.toml --cpus {0} --only cpi --dry-run "$@"'


def test_each_last_level_cache_is_measured_by_its_own_file(desktop):
    """CPU 1 alone behind a cache of its own. Breaks when the default group is measured for the file of another, or when a CPU of
    another group is taken; or when nothing says that a group is left out."""
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("CPUs 0 and 1 may not be used")
    for n in range(4):
        shared = desktop.dir / f"board/sys/devices/system/cpu/cpu{n}/cache/index3/shared_cpu_list"
        shared.write_text("1\n" if n == 1 else "0,2-3\n")
    ours = with_made_up_devices(desktop, CLUSTERS.format("1"), "--format", "json")
    if ours.returncode == 3:
        pytest.skip(ours.stderr)
    assert ours.returncode == 0, ours.stderr
    assert json.loads(ours.stdout)["cpu"] == 1
    default = with_made_up_devices(desktop, CLUSTERS.format("0,2-3"))
    assert default.returncode == 0, default.stderr
    assert "llc: nothing was measured on or beside the CPUs 1," in default.stdout and "--cpus 1 -o" in default.stdout
    assert "on CPU 0;" in default.stdout
    wrong = with_made_up_devices(desktop, CLUSTERS.format("0,2-3"), "--cpu", "1")
    assert wrong.returncode == 2 and "--cpu 1: llc: it is not among the CPUs that are described; choose among 0," in wrong.stderr, wrong.stderr
    stale = with_made_up_devices(desktop, '"$0" platform measure other.toml --cpus 1 --only cpi --dry-run')
    assert stale.returncode == 2 and "cores is 3 in the file and 1 here" in stale.stderr, stale.stderr
    list_ = with_made_up_devices(desktop, '"$0" platform measure other.toml --cpus 1-x')
    assert list_.returncode == 2 and "--cpus 1-x is not a list of CPUs" in list_.stderr


def test_one_cpu_has_nobody_beside_it(machine):
    before = (machine.dir / "machine.toml").read_text()
    cpu = max(os.sched_getaffinity(0))
    argv = ["taskset", "-c", str(cpu), machine.program, "platform", "measure", "machine.toml", "--only", "bandwidth,attack",
            "--format", "json", "--time", "5 s"]
    done = subprocess.run(argv, cwd=machine.dir, capture_output=True, timeout=110)
    if done.returncode == 3:
        pytest.skip(done.stderr.decode())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [f["key"] for f in found["findings"]] == ["bandwidth"] and len(found["findings"][0]["rows"]) == 1
    if "cores = 1 " not in before:
        assert any("nothing was measured beside the other cores" in note for note in found["notes"])


def test_a_machine_without_huge_pages_or_memory(machine):
    without = "import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    argv = [machine.program, "platform", "measure", "machine.toml", "--only", "cpi", "--dry-run", "--format", "json"]
    done = subprocess.run(["python3", "-c", without, *argv], cwd=machine.dir, capture_output=True, timeout=110)
    reserved = "HugePages_Free:        0" not in Path("/proc/meminfo").read_text()
    if done.returncode == 0 and not reserved:
        assert any("there are no huge pages" in note for note in json.loads(done.stdout)["notes"])
    else:
        assert done.returncode in (0, 3), done.stderr
    limited = f"ulimit -v 60000; exec {' '.join(argv)}"
    done = subprocess.run(["sh", "-c", limited], cwd=machine.dir, capture_output=True, timeout=110)
    if done.returncode:
        error = done.stderr.decode().splitlines()[-1]
        assert done.returncode == 3 and "MiB" in error and "; " in error, error
