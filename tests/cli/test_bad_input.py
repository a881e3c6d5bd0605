"""Bad input: one line that says what, where and what to do; exit code 2 or 3; nothing left behind.

Not covered: usage errors of the command line itself (unknown options), which the argument parser explains in several lines.
"""

import json
import os
import resource
import signal
import subprocess

import pytest
from conftest import ROOT, refused
from test_plan import system, task
from test_profile import CAT, COLD

GOOD = system(task("a"))
PROFILE = ("profile", "-o", "p.json", "--")


def nothing_left(solocore, *expected):
    assert {f for f in solocore.files() if not f.startswith("cache-home/solocore/profiles/kept")} == set(expected)


# Programs.

def test_missing_program(solocore):
    refused(solocore(*PROFILE, "./nowhere"), "./nowhere", codes=(2,))
    nothing_left(solocore)


def test_program_not_in_path(solocore):
    refused(solocore(*PROFILE, "no-such-program-anywhere"), "no-such-program-anywhere", "PATH", codes=(2,))
    nothing_left(solocore)


@pytest.mark.parametrize("content", [b"hello\n", b"", b"\x7fEL", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(100), b"MZ" + bytes(100)])
def test_not_an_elf_program(solocore, content):
    (solocore.dir / "prog").write_bytes(content)
    refused(solocore(*PROFILE, "./prog"), "./prog", "ELF", codes=(2,))
    nothing_left(solocore, "prog")


def test_script_names_its_interpreter(solocore):
    solocore.write("script", "#!/bin/sh\nexit 0\n")
    os.chmod(solocore.dir / "script", 0o755)
    refused(solocore(*PROFILE, "./script"), "./script", "/bin/sh", codes=(2,))
    nothing_left(solocore, "script")


def test_directory_as_program(solocore):
    (solocore.dir / "folder").mkdir()
    refused(solocore(*PROFILE, "./folder"), "./folder", "directory", codes=(2,))
    nothing_left(solocore)


def test_object_file(solocore, compile_c):
    refused(solocore(*PROFILE, compile_c(CAT, "-c")), "link", codes=(2,))
    nothing_left(solocore)


@pytest.mark.parametrize("keep", [16, 64, 100, 300, 4000, -1])
def test_truncated_program(solocore, compile_c, keep):
    data = compile_c(CAT).read_bytes()[:keep]
    (solocore.dir / "prog").write_bytes(data)
    os.chmod(solocore.dir / "prog", 0o755)
    done = solocore(*PROFILE, "./prog")
    assert done.code in (2, 3), done.err
    assert len([line for line in done.err.splitlines() if line.startswith("solocore: ")]) == 1 and "./prog" in done.err
    nothing_left(solocore, "prog")


@pytest.mark.parametrize("machine", [2, 8, 22, 42, 250])
def test_instruction_set_without_emulator(solocore, compile_c, machine):
    """Sparc, MIPS, S/390, SuperH, none at all."""
    data = bytearray(compile_c(CAT).read_bytes())
    data[18:20] = machine.to_bytes(2, "little")
    (solocore.dir / "prog").write_bytes(data)
    refused(solocore(*PROFILE, "./prog"), "./prog", codes=(2, 3))
    nothing_left(solocore, "prog")


def test_emulator_not_installed(solocore, compile_c):
    done = solocore(*PROFILE, compile_c(CAT, "-static", isa="aarch64"), PATH="/nowhere")
    refused(done, "qemu-aarch64", "install", codes=(3,))
    nothing_left(solocore)


def test_plugin_missing(solocore, compile_c):
    refused(solocore(*PROFILE, compile_c(CAT), SOLOCORE_PLUGIN="/nowhere/plugin.so"), "plugin", codes=(3,))
    nothing_left(solocore)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_program(solocore):
    solocore.write("prog", "x")
    os.chmod(solocore.dir / "prog", 0)
    refused(solocore(*PROFILE, "./prog"), "./prog", "permission", codes=(2,))


def test_program_without_execute_permission(solocore, compile_c):
    """The kernel would refuse it; an emulator that does not is welcome, but not a trace of failure."""
    (solocore.dir / "prog").write_bytes(compile_c(CAT).read_bytes())
    os.chmod(solocore.dir / "prog", 0o644)
    done = solocore(*PROFILE, "./prog")
    assert done.code in (2, 3, 7), done.err
    if done.code != 7:
        refused(done, "./prog")
        nothing_left(solocore, "prog")


def test_no_program_at_all(solocore):
    assert solocore("profile", "-o", "p.json").code == 2
    assert solocore("profile", "-o", "p.json", "--").code == 2
    done = solocore(*PROFILE, "")
    assert done.code == 2 and len(done.err.splitlines()) == 1
    nothing_left(solocore)


@pytest.mark.parametrize("out", ["nowhere/p.json", "folder"])
def test_profile_to_an_impossible_place(solocore, compile_c, out):
    (solocore.dir / "folder").mkdir()
    refused(solocore("profile", "-o", out, "--", compile_c(CAT)), out)
    nothing_left(solocore)


@pytest.mark.parametrize("name", ["p9999", "", "nowhere.toml", "./nowhere"])
def test_profile_for_an_unknown_platform(solocore, compile_c, name):
    done = solocore("profile", "--platform", name, "-o", "p.json", "--", compile_c(CAT))
    refused(done, codes=(2,))
    nothing_left(solocore)


def test_planning_for_a_program_that_fails(solocore, compile_c):
    path = compile_c("int main(void) { return 3; }\n")
    solocore.write("system.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["{path}"]\n')
    done = solocore("plan", "system.toml", "-o", "plan.json")
    refused(done, "system.toml:2", "`a`", "exit code 3", codes=(2,), one_line=False)
    nothing_left(solocore, "system.toml")


@pytest.mark.parametrize("command", ["./nowhere", "./system.toml", "no-such-program-anywhere"])
def test_planning_for_a_program_that_is_none(solocore, command):
    solocore.write("system.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["{command}"]\n')
    done = solocore("plan", "system.toml", "-o", "plan.json")
    refused(done, "system.toml:2", "`a`", codes=(2,), one_line=False)
    nothing_left(solocore, "system.toml")


# System files: what is replaced in GOOD, by what, the line that must be named (0: the file alone; None: another file), and words of the message.
BAD_SYSTEMS = {
    "syntax": ('name = "a"', 'name = "a', 3, []),
    "no closing bracket": ("[[task]]", "[[task", 2, []),
    "unknown key": ("misses", "mises", 5, ["mises", "misses"]),
    "unknown key at the top": ('platform = "p4080"', 'platform = "p4080"\nplatfrom = 1', 2, ["platfrom"]),
    "unknown table": ("[[task]]", "[[tusk]]", 2, ["tusk"]),
    "unknown regulation key": ("[[task]]", "[regulation]\nperod = \"1 ms\"\n[[task]]", 3, ["perod"]),
    "duplicate key": ("misses = 100", "misses = 100\nmisses = 200", 6, []),
    "bare number": ('"100 ms"', "100", 6, ["unit"]),
    "bare number in a string": ('"100 ms"', '"100"', 6, ["unit"]),
    "bare float": ('"1 ms"', "1.5", 4, ["unit"]),
    "wrong unit": ('"100 ms"', '"100 MB"', 6, ["MB"]),
    "wrong case of a unit": ('"100 ms"', '"100 MS"', 6, ["MS"]),
    "negative period": ('"100 ms"', '"-100 ms"', 6, ["negative"]),
    "zero period": ('"100 ms"', '"0 ms"', 6, ["period"]),
    "zero wcet": ('"1 ms"', '"0 ms"', 4, []),
    "enormous period": ('"100 ms"', '"99999999999999999999 s"', 6, ["large"]),
    "empty period": ('"100 ms"', '""', 6, []),
    "not a number": ('"100 ms"', '"nan ms"', 6, []),
    "infinity": ('"100 ms"', "inf", 6, []),
    "wider than its period": ('"1 ms"', '"101 ms"', 2, ["wider", "101 ms", "100 ms"]),
    "negative misses": ("misses = 100", "misses = -1", 5, []),
    "misses of a fraction": ("misses = 100", "misses = 1.5", 5, []),
    "more misses than fit": ("misses = 100", "misses = 99999999999999999999", 5, []),
    "core out of range": ("misses = 100", "misses = 100\ncore = 8", 2, ["core 8", "0 to 7"]),
    "negative core": ("misses = 100", "misses = 100\ncore = -1", 6, []),
    "core table out of range": ("[[task]]", "[[core]]\nid = 8\n[[task]]", 2, ["core 8", "0 to 7"]),
    "core described twice": ("[[task]]", "[[core]]\nid = 1\n[[core]]\nid = 1\n[[task]]", 4, ["core 1"]),
    "bandwidth without explicit shares": ("[[task]]", '[[core]]\nid = 1\nbandwidth = "1 MB/s"\n[[task]]', 2, ["explicit"]),
    "stated shares without a core": ("[[task]]", '[regulation]\nshare = "explicit"\n[[task]]', 0, ["explicit", "[[core]]"]),
    "no bandwidth": ("[[task]]", '[regulation]\nshare = "explicit"\n[[core]]\nid = 1\nbandwidth = "0 MB/s"\n[[task]]', 4, ["zero"]),
    "unknown criticality": ("misses = 100", 'misses = 100\ncriticality = "E"', 6, ["E"]),
    "unknown policy": ("[[task]]", '[regulation]\npolicy = "magic"\n[[task]]', 3, ["magic"]),
    "zero regulation period": ("[[task]]", '[regulation]\nperiod = "0 ms"\n[[task]]', 3, ["period"]),
    "tiny regulation period": ("[[task]]", '[regulation]\nperiod = "10 ns"\n[[task]]', 0, ["period"]),
    "no room for a budget": ("[[task]]", '[regulation]\nperiod = "100 ns"\n[[task]]', 0, ["period"]),
    "no active core": ("[[task]]", "[regulation]\nactive_cores = 0\n[[task]]", 0, ["active_cores"]),
    "too many active cores": ("[[task]]", "[regulation]\nactive_cores = 9\n[[task]]", 0, ["active_cores"]),
    "unknown platform": ('"p4080"', '"p4081"', 0, ["p4081", "p4080"]),
    "missing platform file": ('"p4080"', '"nowhere.toml"', None, ["nowhere.toml"]),
    "no platform": ('platform = "p4080"', "", 1, ["platform"]),
    "no task": (GOOD[GOOD.index("[[task]]"):], "", 0, ["task"]),
    "no name": ('name = "a"', "", 2, ["name"]),
    "empty name": ('name = "a"', 'name = ""', 2, ["name"]),
    "newline in a name": ('name = "a"', 'name = "a\\nb"', 2, ["name"]),
    "no demand": ('wcet = "1 ms"\nmisses = 100', "", 2, ["wcet"]),
    "wcet without misses": ("misses = 100", "", 2, ["misses"]),
    "misses without wcet": ('wcet = "1 ms"', "", 2, ["wcet"]),
    "no period": ('period = "100 ms"', "", 2, ["period"]),
    "negative deadline": ("misses = 100", 'misses = 100\ndeadline = "-1 ms"', 6, ["negative"]),
    "zero deadline": ("misses = 100", 'misses = 100\ndeadline = "0 s"', 6, []),
    "empty command": ('wcet = "1 ms"\nmisses = 100', "command = []", 2, ["command"]),
    "command as text": ('wcet = "1 ms"\nmisses = 100', 'command = "./a"', 4, []),
    "priority zero": ("misses = 100", "misses = 100\npriority = 0", 2, ["priority"]),
    "two of a name": ("misses = 100", 'misses = 100\nperiod = "1 s"\n[[task]]\nname = "a"\nwcet = "1 ms"\nmisses = 1', 7, ["twice"]),
    "missing profile": ('wcet = "1 ms"\nmisses = 100', 'profile = "nowhere.json"', 0, ["nowhere.json"]),
    "soft budget": ("misses = 100", "misses = 100\nsoft_budget = 5", 2, ["dynamic"]),
    "binary": (GOOD, "\x00\x01\x02", 1, []),
    "empty": (GOOD, "", 0, ["platform"]),
}


@pytest.mark.parametrize("case", BAD_SYSTEMS)
@pytest.mark.parametrize("command", ["plan", "sim"])
def test_bad_system(solocore, case, command):
    old, new, line, words = BAD_SYSTEMS[case]
    assert old in GOOD
    solocore.write("system.toml", GOOD.replace(old, new, 1))
    done = solocore(command, "system.toml", "-o", "out.json")
    assert done.code == 2, (done.code, done.err)
    assert len(done.err.splitlines()) == 1 and done.err.startswith("solocore: "), done.err
    if line is not None:
        assert (f"system.toml:{line}:" if line else "system.toml") in done.err, done.err
    for word in words:
        assert word in done.err, done.err
    assert not done.out
    nothing_left(solocore, "system.toml")


@pytest.mark.parametrize("case", ["syntax", "no closing bracket", "unknown key", "duplicate key", "no platform", "no name",
                                  "unknown criticality", "unknown policy", "negative misses", "command as text", "bare number"])
def test_bad_system_says_what_to_do(solocore, case):
    """What the TOML reader found must come with what would be right."""
    old, new, _, _ = BAD_SYSTEMS[case]
    solocore.write("system.toml", GOOD.replace(old, new, 1))
    err = solocore("plan", "system.toml").err
    assert any(word in err for word in (";", "expected", "like", "add", "use")), err


@pytest.mark.parametrize("command", ["plan", "sim", "assess"])
@pytest.mark.parametrize("kind", ["missing", "directory", "not text", "under a file"])
def test_unreadable_system(solocore, command, kind):
    name = "system.toml"
    if kind == "directory":
        (solocore.dir / name).mkdir()
    if kind == "not text":
        (solocore.dir / name).write_bytes(b"platform = \"\xff\xfe\"\n")
    if kind == "under a file":
        solocore.write("file", "")
        name = "file/system.toml"
    before = solocore.files()
    refused(solocore(command, name, "-o", "out"), name, codes=(2,))
    assert solocore.files() == before and not (solocore.dir / "out").exists()


@pytest.mark.parametrize("line", ['cores = 0', 'cores = "8"', 'cores = 8\ncolour = "red"'])
def test_bad_platform_file(solocore, line):
    solocore.write("board.toml", solocore("platforms", "p4080").out.decode().replace("cores = 8", line, 1))
    solocore.write("system.toml", GOOD.replace("p4080", "board.toml"))
    done = solocore("plan", "system.toml", "-o", "plan.json")
    assert done.code == 2 and len(done.err.splitlines()) == 1 and "board.toml" in done.err
    nothing_left(solocore, "board.toml", "system.toml")


# Files that solocore wrote, damaged since.

def damage(data, kind):
    half = len(data) // 2
    return {"empty": b"", "half": data[:half], "no end": data[:-3], "zeros": bytes(len(data)), "text": b"hello\n",
            "flipped": data[:half] + bytes([data[half] ^ 0x55]) + data[half + 1:], "list": b"[]\n", "object": b"{}\n",
            "number": b"17\n"}[kind]


DAMAGES = ["empty", "half", "no end", "zeros", "text", "list", "object", "number"]


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_plan(solocore, kind):
    solocore.plan(GOOD)
    path = solocore.dir / "plan.json"
    path.write_bytes(damage(path.read_bytes(), kind))
    for command in (("sim", "plan.json", "-o", "out"), ("report", "plan.json", "-o", "out")):
        done = solocore(*command)
        assert done.code == 2 and len(done.err.splitlines()) == 1 and "plan.json" in done.err, done.err
        assert not done.out
        nothing_left(solocore, "system.toml", "plan.json")


@pytest.mark.parametrize("two, word", [(("sce", "maracas", "vcpus"), "two of sce, mc2 and maracas"), (("sce", "mc2"), "two of"),
                                       (("vcpus",), "it has vcpus, but not maracas")])
def test_plan_with_two_schemes(solocore, two, word):
    """One scheme decides who runs when; a plan that somebody put together of two is refused, by name."""
    parts = {}
    for example, names in ("ima-sce", ["sce"]), ("mc2", ["mc2"]), ("vcpus", ["maracas", "vcpus"]):
        solocore("plan", str(ROOT / "examples" / example / "system.toml"), "-o", f"{example}.json")
        plan = json.loads((solocore.dir / f"{example}.json").read_text())
        parts |= {name: plan[name] for name in names}
    plan = solocore.plan(GOOD)
    solocore.write("both.json", json.dumps(plan | {name: parts[name] for name in two}))
    for command in ("sim", "report"):
        refused(solocore(command, "both.json", "-o", "out"), "solocore: both.json:", word, codes=(2,))


def change(plan, *path, to):
    at = plan
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = to


IMPOSSIBLE_PLANS = {
    "other version": (("format",), "solocore-plan/999"),
    "core out of range": (("tasks", 0, "core"), 8),
    "far core": (("tasks", 0, "core"), 4294967295),
    "zero period": (("tasks", 0, "period_ns"), 0),
    "enormous period": (("tasks", 0, "period_ns"), 2**64 - 1),
    "enormous wcet": (("tasks", 0, "wcet_ns"), 2**64 - 1),
    "enormous misses": (("tasks", 0, "misses"), 2**64 - 1),
    "enormous deadline": (("tasks", 0, "deadline_ns"), 2**64 - 1),
    "no tasks": (("tasks",), []),
    "no cores": (("cores",), []),
    "too few cores": (("platform", "cores"), 1),
    "zero regulation period": (("regulation", "period_ns"), 0),
    "enormous regulation period": (("regulation", "period_ns"), 2**64 - 1),
    "zero budget": (("cores", 0, "budget_accesses"), 0),
    "impossible cache": (("platform", "llc", "ways"), 0),
    "impossible line": (("platform", "llc", "line"), "0 B"),
    "no banks": (("platform", "dram", "banks"), 0),
    "banks beyond the board": (("cores", 0, "banks"), [1000, 4]),
    "no clock": (("platform", "frequency"), "0 Hz"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE_PLANS)
def test_impossible_plan(solocore, case):
    """A plan edited by hand is refused in one line or simulated; it never crashes or hangs."""
    path, value = IMPOSSIBLE_PLANS[case]
    plan = solocore.plan(system(task("a", core=0)))
    change(plan, *path, to=value)
    solocore.write("plan.json", json.dumps(plan))
    done = solocore("sim", "plan.json", "--duration", "1 ms", "-o", "out.json", timeout=5)
    assert "panicked" not in done.err, done.err
    assert done.code in (0, 1, 2), (done.code, done.err)
    if done.code == 2:
        errors = [line for line in done.err.splitlines() if line.startswith("solocore: ")]
        assert len(errors) == 1 and "plan.json" in errors[0], done.err
        nothing_left(solocore, "system.toml", "plan.json")


@pytest.fixture
def planned_profile(solocore, compile_c):
    """p.json with its trace, and plan.json that refers to it."""
    assert solocore(*PROFILE, compile_c(COLD)).code == 0
    plan = solocore.plan('platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\nprofile = "p.json"\n')
    # What is printed refers to the files; what -o writes carries them.
    solocore.write("plan.json", json.dumps(plan))
    return {"p.json", "p.json.trace", "system.toml", "plan.json"}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_profile(solocore, planned_profile, kind):
    path = solocore.dir / "p.json"
    path.write_bytes(damage(path.read_bytes(), kind))
    for command in (("plan", "system.toml"), ("sim", "plan.json"), ("report", "plan.json")):
        done = solocore(*command, "-o", "out")
        assert done.code == 2 and len(done.err.splitlines()) == 1 and "p.json" in done.err, done.err
        assert solocore.files() == planned_profile


@pytest.mark.parametrize("path, code", [(("pages", 0, "llc_reads"), (1,)), (("pages", 0, "llc_writes"), (0, 1)), (("private_cycles",), (1,)), (("lockdown", 0), (0, 1))])
def test_counts_whose_sum_does_not_fit(solocore, planned_profile, path, code):
    """They become the largest number, so that no bound is smaller."""
    profile = json.loads((solocore.dir / "p.json").read_text())
    change(profile, *path, to=2**64 - 1)
    solocore.write("p.json", json.dumps(profile))
    done = solocore("plan", "system.toml", "--format", "json")
    assert done.code in code and "panicked" not in done.err, done.err
    assert done.code == 0 or done.json()["tasks"][0]["verdict"] == "no bound"


@pytest.mark.parametrize("kind", ["empty", "half", "no end", "zeros", "text", "flipped", "missing", "directory"])
def test_damaged_trace(solocore, planned_profile, kind):
    path = solocore.dir / "p.json.trace"
    data = path.read_bytes()
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(damage(data, kind))
    before = solocore.files()
    done = solocore("sim", "plan.json", "--duration", "1 ms", "-o", "out")
    errors = done.err.splitlines()
    assert done.code == 2 and len(errors) == 1 and "p.json.trace" in errors[0], (done.code, done.err)
    assert ";" in errors[0], f"no remedy in: {errors[0]}"
    assert solocore.files() == before


def test_trace_of_another_run(solocore, compile_c, planned_profile):
    """A trace that does not fit its profile gives numbers of nothing; it is refused."""
    assert solocore("profile", "-o", "q.json", "--", compile_c(CAT)).code == 7
    os.replace(solocore.dir / "q.json.trace", solocore.dir / "p.json.trace")
    done = solocore("sim", "plan.json", "--duration", "1 ms")
    assert done.code == 2 and "p.json.trace" in done.err, (done.code, done.err)


@pytest.mark.parametrize("kind", ["half", "empty", "object"])
def test_damaged_cache_is_made_again(solocore, compile_c, kind):
    solocore.write("system.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["{compile_c(COLD)}"]\n')
    good = solocore("plan", "system.toml", "--format", "json").json()
    for path in (solocore.cache / "solocore/profiles").glob("*.json"):
        path.write_bytes(damage(path.read_bytes(), kind))
    assert solocore("plan", "system.toml", "--format", "json").json() == good
    assert solocore("sim", "system.toml", "--duration", "1 ms").code == 0


@pytest.mark.parametrize("kind", ["half", "empty", "zeros"])
def test_damaged_trace_in_the_cache_has_a_remedy(solocore, compile_c, kind):
    solocore.write("system.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["{compile_c(COLD)}"]\n')
    assert solocore("plan", "system.toml").code == 0
    for path in (solocore.cache / "solocore/profiles").glob("*.trace"):
        path.write_bytes(damage(path.read_bytes(), kind))
    done = solocore("sim", "system.toml", "--duration", "1 ms")
    # Made again, or refused with a way out that works.
    assert done.code == 0 or (done.code == 2 and ".trace" in done.err and "--fresh" in done.err), done.err
    assert solocore("sim", "system.toml", "--duration", "1 ms", "--fresh").code == 0


def test_profile_of_another_board(solocore, planned_profile):
    solocore.write("system.toml", (solocore.dir / "system.toml").read_text().replace("p4080", "imx6q"))
    refused(solocore("plan", "system.toml", "-o", "out"), "p.json", "imx6q", codes=(2,))
    assert solocore.files() == planned_profile


def test_a_directory_that_is_missing(solocore):
    solocore.write("system.toml", GOOD)
    refused(solocore("plan", "system.toml", "-o", "none/plan.json"), "none/plan.json: cannot write: its directory does not exist; make", codes=(3,))
    nothing_left(solocore, "system.toml")


# Full disks.

@pytest.fixture
def full(solocore):
    """A name in the test's directory for the device that is always full."""
    os.symlink("/dev/full", solocore.dir / "full")
    return "full"


def test_full_device(solocore, compile_c, full):
    solocore.write("system.toml", GOOD)
    done = solocore("plan", "system.toml", "-o", full)
    refused(done, "full: cannot write", "space", codes=(3,))
    assert solocore("plan", "system.toml", "-o", "plan.json").code == 0
    done = solocore("sim", "plan.json", "--duration", "1 ms", "-o", full)
    refused(done, "full: cannot write", "space", codes=(3,), one_line=False)
    refused(solocore("report", "plan.json", "-o", full), "full: cannot write", "space", codes=(3,))
    nothing_left(solocore, "system.toml", "plan.json", "full")


def test_full_device_for_a_profile(solocore, compile_c, full):
    refused(solocore("profile", "-o", full, "--", compile_c("int main(void) { return 0; }\n")), "full", codes=(3,))
    nothing_left(solocore, "full")


@pytest.mark.parametrize("command", [("plan", "system.toml"), ("plan", "system.toml", "--format", "json"),
                                     ("sim", "system.toml", "--duration", "1 ms", "--format", "json"), ("platforms",)])
def test_full_standard_output(solocore, command):
    """An answer that could not be written is not a success."""
    solocore.write("system.toml", GOOD)
    with open("/dev/full", "wb") as out:
        done = subprocess.run([solocore.program, *command], cwd=solocore.dir, env=solocore.env, stdout=out,
                              stderr=subprocess.PIPE, timeout=20)
    assert done.returncode == 3, done
    assert b"space" in done.stderr and b"os error" not in done.stderr


def test_closed_pipe_is_no_error(solocore):
    solocore.write("system.toml", system(*(task(f"t{i}") for i in range(300))))
    process = subprocess.Popen([solocore.program, "plan", "system.toml", "--format", "json"], cwd=solocore.dir,
                               env=solocore.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(20) in (0, -signal.SIGPIPE)


def limited(solocore, size, *args):
    """Runs it where no file may grow beyond `size`: a full disk that needs no privilege."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    done = subprocess.run([solocore.program, *map(str, args)], cwd=solocore.dir, env=solocore.env, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=30, preexec_fn=limit, restore_signals=False)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("size", [0, 1000, 20_000, 60_000, 100_000, 150_000])
def test_no_room_for_a_profile(solocore, compile_c, size):
    """The configuration, the trace or the counts may be what does not fit; never is a part left."""
    path = compile_c(COLD)
    code, err = limited(solocore, size, "profile", "-o", "p.json", "--", path)
    if code == 0:
        nothing_left(solocore, "p.json", "p.json.trace")
        return
    errors = [line for line in err.splitlines() if line.startswith("solocore: ")]
    assert code == 3 and len(errors) == 1 and "p.json" in errors[0] and "cannot write" in errors[0], (code, err)
    assert ".solocore-" not in err, "a name the user never gave"
    nothing_left(solocore)


def test_no_room_leaves_the_older_profile_whole(solocore, compile_c):
    assert solocore("profile", "-o", "p.json", "--", compile_c(CAT)).code == 7
    before = {f: (solocore.dir / f).read_bytes() for f in ("p.json", "p.json.trace")}
    for size in (0, 20_000, 60_000, 100_000, 150_000, 200_000, 250_000):
        code, _ = limited(solocore, size, "profile", "-o", "p.json", "--", compile_c(COLD))
        if code:
            assert {f: (solocore.dir / f).read_bytes() for f in before} == before, f"changed at {size}"
            nothing_left(solocore, *before)


@pytest.mark.parametrize("command", ["plan", "sim"])
def test_no_room_for_results(solocore, command):
    solocore.write("system.toml", GOOD)
    solocore.write("out.json", "older\n")
    code, err = limited(solocore, 100, command, "system.toml", "-o", "out.json")
    assert code == 3 and "out.json: cannot write" in err.splitlines()[-1]
    assert (solocore.dir / "out.json").read_text() == "older\n"
    nothing_left(solocore, "system.toml", "out.json")


def test_no_room_for_one_of_two_results(solocore):
    """The trace has room, and the result has not: neither is left."""
    solocore.write("system.toml", GOOD)
    both = {"t.pftrace", "r.json"}
    arguments = ("sim", "system.toml", "--duration", "3 s", "--trace", "t.pftrace", "--timeline", "3 s", "-o", "r.json")
    assert solocore(*arguments).code == 0
    trace, result = ((solocore.dir / name).stat().st_size for name in ("t.pftrace", "r.json"))
    assert trace * 2 < result
    for name in both:
        (solocore.dir / name).unlink()
    code, err = limited(solocore, (trace + result) // 2, *arguments)
    assert code == 3 and "r.json: cannot write" in err.splitlines()[-1]
    nothing_left(solocore, "system.toml")


@pytest.mark.parametrize("size", ["16k", "64k", "128k", "256k"])
def test_tiny_file_system(solocore, compile_c, size):
    """A real full disk, where this machine lets us mount one."""
    place = solocore.dir / "tiny"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    try:
        done = solocore("profile", "-o", "tiny/p.json", "--", compile_c(COLD))
        left = {p.name for p in place.iterdir()}
        if done.code == 0:
            assert left == {"p.json", "p.json.trace"}
        else:
            assert left == set(), "a part was left"
            errors = [line for line in done.err.splitlines() if line.startswith("solocore: ")]
            assert done.code == 3 and len(errors) == 1 and "tiny/p.json" in errors[0], (done.code, done.err)
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("command", [("plan", "system.toml"), ("sim", "system.toml"), ("report", "plan.json")])
@pytest.mark.parametrize("out", ["nowhere/out", "folder", "file/out"])
def test_impossible_output(solocore, command, out):
    solocore.plan(GOOD)
    (solocore.dir / "folder").mkdir()
    solocore.write("file", "")
    done = solocore(*command, "-o", out)
    refused(done, out, one_line=command[0] != "sim")
    nothing_left(solocore, "system.toml", "plan.json", "file")


@pytest.mark.parametrize("command, words", [
    (("plan", "system.toml", "-o", "system.toml"), ("system.toml: --output", "SYSTEM")),
    (("plan", "system.toml", "-o", "link"), ("link: --output", "SYSTEM")),
    (("sim", "plan.json", "-o", "plan.json"), ("--output", "INPUT")),
    (("sim", "plan.json", "--trace", "./plan.json"), ("./plan.json: --trace", "INPUT")),
    (("sim", "plan.json", "--trace", "new", "-o", "./new"), ("--output", "--trace")),
    (("sim", "plan.json", "--trace", "-", "-o", "-"), ("--output", "--trace")),
    (("report", "plan.json", "-o", "plan.json"), ("--output", "RESULTS")),
    (("report", "results", "-o", "results/plan.json"), ("results/plan.json: --output", "RESULTS")),
    (("assess", "system.toml", "--check", "--junit", "system.toml"), ("--junit", "SYSTEM")),
    (("plan", "programs.toml", "-o", "tool"), ("tool: --output", "programs.toml names")),
    (("sim", "programs.toml", "--trace", "data/in.pgm"), ("data/in.pgm: --trace", "programs.toml names")),
    (("schedule-io", "system.toml", "-o", "system.toml"), ("--output", "INSTANCE")),
    (("run", "plan.json", "--dry-run", "-o", "plan.json"), ("--output", "PLAN")),
    (("verify", "plan.json", "-o", "plan.json"), ("--output", "PLAN")),
    (("profile", "-o", "tool", "--", "./tool"), ("tool: --output", "CMD")),
    (("profile", "-o", "system.toml", "--platform", "system.toml", "--", "true"), ("--output", "--platform")),
    (("compare", "-o", "tool", "--", "./tool"), ("--output", "CMD")),
])
def test_an_output_that_is_an_input_is_refused(solocore, command, words):
    solocore.plan(GOOD)
    solocore.write("tool", "#!/bin/sh\n")
    os.symlink("system.toml", solocore.dir / "link")
    for name in ("results", "data"):
        (solocore.dir / name).mkdir()
    solocore.write("results/plan.json", (solocore.dir / "plan.json").read_text())
    solocore.write("data/in.pgm", "P5")
    solocore.write("programs.toml", '[[task]]\nname = "a"\ncommand = ["./tool", "data/in.pgm"]\n')
    before = {f: (solocore.dir / f).read_bytes() for f in solocore.files()}
    refused(solocore(*command), *words, codes=(2,))
    assert {f: (solocore.dir / f).read_bytes() for f in solocore.files()} == before


@pytest.mark.parametrize("out, word", [("none/x", "directory does not exist"), ("folder", "a directory"), ("kept", "ermission denied")])
@pytest.mark.parametrize("command", [("compare", "-n", "1", "-o", "{}", "--", "./tool"), ("profile", "-o", "{}", "--", "./tool"),
                                     ("run", "plan.json", "--dry-run", "--trace", "{}"), ("run", "plan.json", "--dry-run", "-o", "{}")])
def test_an_output_that_cannot_be_written_is_refused_before_any_work(solocore, command, out, word):
    solocore.plan(GOOD)
    solocore.write("tool", "#!/bin/sh\ntouch ran\n")
    os.chmod(solocore.dir / "tool", 0o755)
    (solocore.dir / "folder").mkdir()
    solocore.write("kept", "old")
    os.chmod(solocore.dir / "kept", 0o444)
    refused(solocore(*(word.format(out) for word in command)), out, word, codes=(3,))
    nothing_left(solocore, "system.toml", "plan.json", "tool", "kept")
    assert (solocore.dir / "kept").read_text() == "old"


@pytest.mark.parametrize("command", [("profile", "-o", "-", "--", "true"), ("dram", "--pattern", "chase", "--requests", "10", "--trace-commands", "-")])
def test_files_that_do_not_go_to_standard_output(solocore, command):
    refused(solocore(*command), "-: ", "name a file", codes=(2, 3))
    nothing_left(solocore)


def test_a_link_and_permissions_stay(solocore):
    solocore.write("system.toml", GOOD)
    solocore.write("there.json", "old")
    os.chmod(solocore.dir / "there.json", 0o640)
    os.symlink("there.json", solocore.dir / "link.json")
    assert solocore("plan", "system.toml", "-o", "link.json").code == 0
    assert (solocore.dir / "link.json").is_symlink() and (solocore.dir / "there.json").read_text().startswith("{")
    assert (solocore.dir / "there.json").stat().st_mode & 0o777 == 0o640


def test_cache_directory_that_cannot_be_made(solocore, compile_c):
    solocore.write("file", "")
    solocore.write("system.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["{compile_c(CAT)}"]\n')
    done = solocore("plan", "system.toml", XDG_CACHE_HOME=str(solocore.dir / "file"))
    refused(done, "cannot write", codes=(2, 3), one_line=False)


# Reports and results.

def test_report_of_nothing(solocore):
    (solocore.dir / "folder").mkdir()
    refused(solocore("report", "folder", "-o", "r.html"), "folder", codes=(2,))
    refused(solocore("report", "nowhere.json", "-o", "r.html"), "nowhere.json", codes=(2,))
    nothing_left(solocore)


def test_report_of_results_of_another_plan(solocore):
    solocore.plan(system(task("other")))
    solocore.sim("plan.json", "--duration", "1 ms", "-o", "r.json")
    solocore.plan(GOOD)
    done = solocore("report", "plan.json", "r.json", "-o", "r.html")
    assert done.code == 2 and len(done.err.splitlines()) == 1
    nothing_left(solocore, "system.toml", "plan.json", "r.json")


def test_sim_of_a_result_is_refused(solocore):
    solocore.plan(GOOD)
    solocore.sim("plan.json", "--duration", "1 ms", "-o", "r.json")
    done = solocore("sim", "r.json")
    assert done.code == 2 and len(done.err.splitlines()) == 1 and "r.json" in done.err
