"""A first system file: what `init` writes is planned at once, nothing is overwritten, and what cannot be profiled is said.

The programs are Debian's (xz, sort, true, false). Most tests name a platform, so that they do not depend on this machine; those that
describe it are skipped where its files do not tell enough (a container), and the refusal is tested in its place.
"""

import os
import re
import shlex
import tomllib

import pytest
from conftest import interrupt, refused

P4080 = ("--platform", "p4080")
TWO = ("xz -k -c data.txt", "sort -o 'sorted words' data.txt")
FOREVER = "#include <stdio.h>\nint main(void) { fputs(\"up\\n\", stderr); for (;;) __asm__ volatile(\"\"); }\n"


@pytest.fixture
def data(solocore):
    """A directory with a file to work on."""
    solocore.write("data.txt", "".join(f"{n * 7919 % 10007} line\n" for n in range(3000)))
    return solocore


def system(solocore, name="system.toml"):
    return tomllib.loads((solocore.dir / name).read_text())


def written(solocore):
    """What lies there beside the profiles and the data."""
    return {f for f in solocore.files() if not f.startswith("cache-home")} - {"data.txt", "sorted words"}


# What is written.

def test_two_programs_are_planned_at_once(data):
    done = data("init", *P4080, *TWO)
    assert done.code == 0, done.err
    assert written(data) == {"system.toml"}
    tasks = system(data)["task"]
    assert [t["name"] for t in tasks] == ["xz", "sort"]
    assert tasks[1]["command"] == ["sort", "-o", "sorted words", "data.txt"]
    assert all(re.fullmatch(r"[125]0* m?s", t["period"]) and t["criticality"] == "B" for t in tasks)
    kept = {f: os.stat(data.dir / f).st_mtime_ns for f in data.files() if f.startswith("cache-home")}
    assert len(kept) == 4
    plan = data("plan", "system.toml", "--format", "json")
    assert plan.code == 0 and plan.json()["schedulable"], plan.err
    assert {f: os.stat(data.dir / f).st_mtime_ns for f in kept} == kept, "plan uses the profiles of init"


def test_the_period_is_ten_times_the_time_alone(data):
    assert data("init", *P4080, "sort data.txt").code == 0
    text = (data.dir / "system.toml").read_text()
    alone = float(re.search(r"takes ([0-9.]+) ms alone", text)[1])
    number, unit = system(data)["task"][0]["period"].split()
    period = float(number) * {"ms": 1, "s": 1000}[unit]
    assert 10 * alone <= period < 25 * alone + 1


def test_the_next_steps_are_commands_that_work(data):
    lines = data("init", *P4080, *TWO).out.decode().splitlines()
    steps = [shlex.split(line, comments=True) for line in lines if line.startswith("  ")]
    assert [s[:2] for s in steps] == [["solocore", "plan"], ["solocore", "sim"], *3 * [["sudo", "solocore"]], ["solocore", "report"]]
    for step in steps[:2]:
        assert data(*step[1:]).code == 0
    # Nothing runs here: the report is one of the plan and the simulation.
    report = [word for word in steps[5][1:] if word != "run.json"]
    assert data(*report).code == 0 and (data.dir / "report.html").exists()


def test_without_a_program_an_example_is_planned(solocore):
    done = solocore("init", *P4080)
    assert done.code == 0 and b"example" in done.out and not done.err
    assert [t["name"] for t in system(solocore)["task"]] == ["example"]
    assert solocore("plan", "system.toml").code == 0


def test_this_machine_is_described_beside_it(data):
    (data.dir / "to a robot").mkdir()
    done = data("init", "-o", "to a robot/system.toml", "true")
    if done.code in (2, 3):
        refused(done, "--platform", codes=(2, 3))
        assert written(data) == set()
        pytest.skip(done.err)
    assert done.code == 0, done.err
    assert written(data) == {"to a robot/machine.toml", "to a robot/system.toml"}
    assert b"solocore plan 'to a robot/system.toml'" in done.out
    assert b"solocore platform measure 'to a robot/machine.toml'" in done.out
    assert system(data, "to a robot/system.toml")["platform"] == "machine.toml"
    assert data("platform", "check", "to a robot/machine.toml").code == 0
    assert data("plan", "to a robot/system.toml", "-o", "to a robot/plan.json").code in (0, 1)
    answers = data("doctor", "--plan", "to a robot/plan.json").out
    assert (b"--vouch prefetchers" in done.out) == (b"whether prefetchers are on cannot be read here" in answers)
    os.remove(data.dir / "to a robot/plan.json")
    refused(data("init", "-o", "to a robot/other.toml"), "machine.toml", "exists", "--platform", codes=(2,))
    done = data("init", "-o", "to a robot/other.toml", "--platform", "to a robot/machine.toml")
    assert done.code == 0, done.err
    assert data("plan", "to a robot/other.toml").code in (0, 1)


def test_no_profile_runs_nothing(solocore):
    done = solocore("init", *P4080, "--no-profile", "./none 'a b'", "/bin/none", "xz", "--period", "20 ms")
    assert done.code == 0 and not done.err
    tasks = system(solocore)["task"]
    assert [(t["name"], t["period"]) for t in tasks] == [("none", "20 ms"), ("none-2", "20 ms"), ("xz", "20 ms")]
    assert tasks[0]["command"] == ["./none", "a b"]
    assert solocore.files() == {"system.toml"}


def test_profiles_are_kept_where_asked(data):
    done = data("init", *P4080, "--profiles", "kept", "true")
    assert done.code == 0 and b"--profiles kept" in done.out
    assert len(list((data.dir / "kept").iterdir())) == 2
    refused_usage = data("init", "--no-profile", "--profiles", "kept", "true")
    assert refused_usage.code == 2 and "--no-profile" in refused_usage.err


# What cannot be profiled.

def test_a_program_that_fails_stands_in_comments(data):
    done = data("init", *P4080, "false", "sort data.txt")
    assert done.code == 1 and "note: false: `false` failed with exit code 1" in done.err
    assert [t["name"] for t in system(data)["task"]] == ["sort"]
    text = (data.dir / "system.toml").read_text()
    assert '# name = "false"' in text and "# This task is not planned: `false` failed" in text
    assert data("plan", "system.toml").code == 0


def test_without_any_profile_the_example_stands_there(data):
    done = data("init", *P4080, "false")
    assert done.code == 1 and b"put your task" in done.out
    assert [t["name"] for t in system(data)["task"]] == ["example"]
    assert data("plan", "system.toml").code == 0


def test_a_program_of_another_instruction_set_is_noted(data, compile_c):
    job = compile_c("int main(void) { return 0; }\n", "-static", isa="aarch64")
    done = data("init", *P4080, str(job), "true")
    assert done.code == 0, done.err
    assert "job: it is a program for aarch64, and p4080 has powerpc cores" in done.err
    assert "# Note: it is a program for aarch64" in (data.dir / "system.toml").read_text()


def test_a_period_that_is_too_short_is_noted(data):
    done = data("init", *P4080, "--period", "1 us", "sort data.txt")
    assert done.code == 0 and "more than its period" in done.err


def test_children_are_noted(data):
    done = data("init", *P4080, "sh -c 'true; xz -k -c data.txt; exit'")
    assert done.code == 0 and "1 child process(es)" in done.err


def test_an_interrupt_leaves_nothing_behind(solocore, compile_c):
    process = solocore.start("init", *P4080, "true", str(compile_c(FOREVER)))
    while process.stderr.readline() != b"up\n":
        assert process.poll() is None
    code, err = interrupt(process)
    assert code == 130 and "interrupted" in err
    assert written(solocore) == set()


# What is refused.

def test_nothing_is_overwritten_without_force(solocore):
    solocore.write("system.toml", "mine")
    refused(solocore("init", *P4080, "true"), "system.toml", "--force", codes=(2,))
    assert (solocore.dir / "system.toml").read_text() == "mine"
    assert solocore.files() == {"system.toml"}, "no program was run"
    assert solocore("init", *P4080, "--force").code == 0
    assert [t["name"] for t in system(solocore)["task"]] == ["example"]


@pytest.mark.parametrize("line,word", [("nosuchprogram x", "nosuchprogram"), ("./none", "./none"), ("ls *.c", "`*`"),
                                       ("sort <data.txt", "`<`"), ("sort 'a", "no end"), ("", "no command"), ("A=1 true", "variable"),
                                       ("zgrep x", "script")])
def test_a_wrong_program_is_refused_before_any_runs(data, line, word):
    refused(data("init", *P4080, "true", line), word, codes=(2,))
    assert written(data) == set() and not list(data.cache.iterdir())


def test_places_that_cannot_be_written(solocore):
    refused(solocore("init", *P4080, "-o", "none/system.toml"), "none", "directory", codes=(3,))
    refused(solocore("init", *P4080, "-o", "/dev/null"), "/dev/null", "regular", codes=(2,))
    refused(solocore("init", *P4080, "-o", "."), "a directory", codes=(3,))
    refused(solocore("init", "-o", "machine.toml"), "machine.toml", codes=(2,))
    refused(solocore("init", "--platform", "none"), "none", codes=(2,))
    refused(solocore("init", "--platform", "./none.toml"), "none.toml", codes=(2,))
    assert solocore.files() == set()


def test_a_plan_for_this_machine_asks_nobody_to_place_pages(data):
    if data("init", "true").code != 0:
        pytest.skip("this machine cannot be described")
    regulation = system(data)["regulation"]
    assert (regulation["pages"], regulation["other_programs"]) == ("anywhere", True)
    # A preset may be any board: there it is the user's to say.
    assert data("init", *P4080, "-o", "board.toml", "true").code == 0
    assert not {"pages", "other_programs"} & set(system(data, "board.toml")["regulation"])
    def subjects(name):
        plan = data("plan", name, "--format", "json").json()
        return {p["subject"] for p in plan["promises"]}
    placed = {"ways", "banks", "locked-pages", "others"}
    assert not placed & subjects("system.toml")
    text = (data.dir / "system.toml").read_text()
    (data.dir / "own.toml").write_text(re.sub(r"(?m)^(pages|other_programs) = .*\n", "", text))
    assert placed & subjects("own.toml")
