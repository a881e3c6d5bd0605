"""Runs that are profiled: processes, several inputs, a limit of time, and plans that carry their profiles."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from conftest import interrupt, refused

WALK = r"""
#include <stdlib.h>
static volatile char low[1 << 20], high[1 << 20];
int main(int c, char **v) {
    volatile char *area = atoi(v[1]) > 100 ? high : low;
    for (int r = 0; r < atoi(v[1]) % 100; r++) for (unsigned i = 0; i < 1 << 20; i += 64)
        if (c > 2) area[i]++; else area[i];
    return 0;
}
"""
FOREVER = "#include <stdio.h>\nint main(void) { puts(\"up\"); fflush(stdout); for (;;) __asm__ volatile(\"\"); }\n"
# Deaf to SIGTERM, with a child that is so as well.
DEAF = r"""
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    if (fork() == 0) { printf("%d\n", getpid()); fflush(stdout); }
    for (;;) __asm__ volatile("");
}
"""
DIES = r"""
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) { if (fork() == 0) raise(SIGKILL); wait(0); return 0; }
"""
DAEMON = r"""
#include <unistd.h>
int main(void) { if (fork() == 0) sleep(30); return 0; }
"""
BUSY = r"""
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    if (fork() == 0) _exit(0);
    for (int i = 0; i < 5000000; i++) __asm__ volatile("");
    wait(0);
    return 0;
}
"""
LINES = (1 << 20) // 64


def profile(solocore, *command, code=0, options=()):
    done = solocore("profile", "-o", "p.json", *options, "--", *command)
    assert done.code == code, done.err
    return json.loads((solocore.dir / "p.json").read_text()), done


def alive(pid):
    """Whether a process goes on. One that was killed may take a moment to end."""
    for _ in range(100):
        try:
            if open(f"/proc/{pid}/stat").read().rsplit(")")[-1].split()[0] == "Z":
                return False
        except OSError:
            return False
        time.sleep(0.05)
    return True


# Processes.

def test_a_shell_is_the_sum_of_what_it_runs(solocore, compile_c):
    walk = compile_c(WALK, "-static")
    one, _ = profile(solocore, walk, "1", "w")
    two, _ = profile(solocore, walk, "2", "w")
    both, done = profile(solocore, "sh", "-c", f"{walk} 1 w; {walk} 2 w; true")
    assert both["children"] == 2 and "2 child" in done.err and done.code == 0
    for key in ("stores", "private_cycles", "instructions"):
        assert both[key] > one[key] + two[key] and both[key] < 1.5 * (one[key] + two[key]) + 5_000_000, key
    for w in (0, -1):
        assert both["by_ways"][w] > one["by_ways"][w] + two["by_ways"][w]
    assert both["lockdown"][0] > one["lockdown"][0] + two["lockdown"][0]
    assert both["working_set"]["lines"] >= one["working_set"]["lines"] + two["working_set"]["lines"]
    assert both["origin"]["processes"]["switches"] >= 4
    records = both["trace"]["records"]
    assert records >= one["trace"]["records"] + two["trace"]["records"]


def test_a_program_that_replaces_itself_is_followed(solocore, compile_c):
    walk = compile_c(WALK)
    alone, _ = profile(solocore, walk, "3", "w")
    chain, _ = profile(solocore, "env", "A=1", "nice", walk, "3", "w")
    assert chain["children"] == 0 and chain["exec"] is None
    assert chain["by_ways"][-1] >= alone["by_ways"][-1] and chain["stores"] > alone["stores"]


def test_a_script_is_followed(solocore, compile_c):
    walk = compile_c(WALK)
    script = solocore.dir / "job"
    script.write_text(f"#!/bin/sh -e\n{walk} $1 w\n")
    script.chmod(0o755)
    alone, _ = profile(solocore, walk, "3", "w")
    p, _ = profile(solocore, "env", "./job", "3")
    assert p["by_ways"][-1] >= alone["by_ways"][-1]
    failing = solocore("profile", "-o", "q.json", "--", "sh", "-c", f"{walk} 1; exit 6")
    assert failing.code == 6


@pytest.mark.parametrize("text,word", [(DIES, "died"), (DAEMON, "goes on"), (BUSY, "beside its child")])
def test_processes_that_cannot_be_summed_are_refused(solocore, compile_c, text, word):
    done = solocore("profile", "-o", "p.json", "--", compile_c(text))
    refused(done, word, codes=(2,))
    assert solocore.files() == set()


def test_a_pipe_is_refused(solocore):
    refused(solocore("profile", "-o", "p.json", "--", "sh", "-c", "sort /etc/passwd | cat >/dev/null"), "same time", codes=(2,))
    assert solocore.files() == set()


def test_a_program_of_another_instruction_set_is_refused(solocore, compile_c):
    exits = 'void _start(void) { __asm__ volatile("int $0x80" :: "a"(1), "b"(0)); }\n'
    other = compile_c(exits, "-m32", "-nostdlib", "-static", "-no-pie", name="other")
    try:
        subprocess.run([other], check=True)
    except OSError:
        pytest.skip("this kernel runs no program of another instruction set")
    text = f'#include <unistd.h>\nint main(void) {{ execl("{other}", "x", (char *)0); return 9; }}\n'
    done = solocore("profile", "-o", "p.json", "--", compile_c(text))
    assert done.code == 2 and "another instruction set" in done.err
    assert solocore.files() == set()


def test_a_plan_of_a_shell_is_simulated(solocore, compile_c):
    walk = compile_c(WALK)
    plan = solocore.plan(f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["sh", "-c", "{walk} 2 w; true"]\n')
    task, = plan["tasks"]
    assert any("child process" in reason for reason in plan["reasons"])
    seen, = solocore.sim("plan.json")["tasks"]
    assert seen["jobs"] == 1 and 0 < seen["max_response_ns"] <= task["wcrt_ns"]


# Several inputs.

INPUTS = [["3", "w"], ["9"], ["102"]]


def of_inputs(solocore, walk):
    singles = [profile(solocore, walk, *words)[0] for words in INPUTS]
    options = [word for words in INPUTS for word in ("--input", " ".join(words))]
    merged, done = profile(solocore, walk, options=options)
    return singles, merged, done


def test_the_worst_of_the_inputs_is_kept(solocore, compile_c):
    singles, merged, done = of_inputs(solocore, compile_c(WALK, "-static"))
    most = {key: max(p[key] for p in singles) for key in ("private_cycles", "stores", "instructions")}
    assert {key: merged[key] for key in most} == most
    for w, value in enumerate(merged["by_ways"]):
        assert value == max(p["by_ways"][w] for p in singles)
    # With the k first pages locked, each input has at most so much left.
    for p in singles:
        accesses = {}
        for q in p["pages"]:
            accesses.setdefault((q["region"], q["offset"]), []).append((q["llc_reads"], q["llc_writes"]))
        reads, writes = (sum(q[key] for q in p["pages"]) for key in ("llc_reads", "llc_writes"))
        left_reads, left_writes = ([sum(q[key] for q in merged["pages"][k:]) for k in range(len(merged["pages"]) + 1)]
                                   for key in ("llc_reads", "llc_writes"))
        for k, page in enumerate([None, *merged["pages"]]):
            if page:
                r, w = (accesses.get((page["region"], page["offset"])) or [(0, 0)]).pop()
                reads, writes = reads - r, writes - w
            curve = merged["lockdown"][min(k, len(merged["lockdown"]) - 1)]
            assert reads + writes <= curve and reads <= left_reads[k] and writes <= left_writes[k], k
    # The curve is tighter than the sum of the pages' maxima: 9 and 102 walk different pages.
    assert merged["lockdown"][0] == max(p["lockdown"][0] for p in singles)
    assert sum(q["llc_reads"] + q["llc_writes"] for q in merged["pages"]) > merged["lockdown"][0]
    origin = merged["origin"]
    assert [run["arguments"] for run in origin["inputs"]] == INPUTS
    worst = {w["quantity"]: w["input"] for w in origin["worst"]}
    assert worst["llc_writes"] == 0 and worst["private_cycles"] == 1 and worst["llc_reads"] == 1
    assert "worst llc_writes: input 1 (3 w)" in done.err


def test_each_input_alone_is_within_the_plan_of_all(solocore, compile_c):
    walk = compile_c(WALK, "-static")
    text = f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["{walk}"%s]\n'
    inputs = "inputs = " + json.dumps(INPUTS) + "\n"
    plan = solocore.plan(text % "" + inputs)
    task, = plan["tasks"]
    assert [run["arguments"] for run in task["profiled"]["inputs"]] == INPUTS
    assert task["command"] == [str(walk), "3", "w"]
    sim, = solocore.sim("plan.json")["tasks"]
    assert sim["max_response_ns"] <= task["wcrt_ns"]
    for words in INPUTS:
        alone, = solocore.plan(text % "".join(f', "{word}"' for word in words), name="one.toml")["tasks"]
        assert alone["wcet_ns"] <= task["wcet_ns"] and alone["misses"] <= task["misses"]
        assert alone["wcrt_ns"] <= task["wcrt_ns"]
    for (quantity, number) in (("time", 2), ("llc_writes", 1)):
        assert f"{quantity} of input {number} (" in solocore("plan", "system.toml").out.decode()
    again = solocore("plan", "system.toml", "--format", "json")
    assert again.err.count("from cache") == 3 and again.json()["tasks"][0]["wcet_ns"] == task["wcet_ns"]


@pytest.mark.parametrize("more,word", [("inputs = []", "1 to 1000"), ('inputs = [["a"]]\nwcet = "1 ms"\nmisses = 1', "inputs")])
def test_wrong_inputs_are_refused(solocore, more, word):
    solocore.write("system.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["true"]\n{more}\n')
    refused(solocore("plan", "system.toml"), word, codes=(2,))


def test_an_input_that_fails_is_named(solocore, compile_c):
    walk = compile_c("#include <stdlib.h>\nint main(int c, char **v) { return atoi(v[1]); }\n")
    done = solocore("profile", "-o", "p.json", "--input", "0", "--input", "4", "--", walk)
    assert done.code == 2 and "4` failed with exit code 4" in done.err
    assert solocore.files() == set()
    refused(solocore("profile", "--input", "'a", "--", "true"), "quote", codes=(2,))


def test_an_input_may_begin_with_a_hyphen(solocore, compile_c):
    """Breaks when clap takes the hyphen for an option of solocore."""
    walk = compile_c('#include <string.h>\nint main(int c, char **v) { return c != 3 || strcmp(v[1], "-x") || strcmp(v[2], "b.pgm"); }\n')
    done = solocore("profile", "-o", "p.json", "--input", "-x b.pgm", "--", walk)
    assert done.code == 0, done.err


# A limit of time.

@pytest.mark.parametrize("command", ["profile", "plan", "init"])
def test_a_program_that_takes_too_long_is_ended(solocore, compile_c, command):
    job = str(compile_c(FOREVER))
    solocore.write("system.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["{job}"]\n')
    limit = ("--timeout", "1500 ms")
    arguments = {"profile": (*limit, "-o", "p.json", "--", job), "plan": ("system.toml", *limit),
                 "init": ("--platform", "p4080", "-o", "new.toml", *limit, job)}[command]
    done = solocore(command, *arguments)
    assert "did not end within 1.5 s" in done.err and "--timeout" in done.err
    # init puts the task into comments.
    assert done.code == (1 if command == "init" else 2)
    # A line of progress after the first second.
    assert "  1 s, " in done.err and "million references" in done.err
    assert not [f for f in solocore.files() if "p.json" in f or f.startswith("cache-home")]


def test_a_limit_ends_children_and_what_is_deaf(solocore, compile_c):
    done = solocore("profile", "--timeout", "1 s", "-o", "p.json", "--", compile_c(DEAF))
    assert done.code == 2 and "did not end" in done.err
    assert not alive(int(done.out.split()[0]))
    assert solocore.files() == set()


def test_an_interrupt_ends_children_and_what_is_deaf(solocore, compile_c):
    process = solocore.start("profile", "-o", "p.json", "--", compile_c(DEAF))
    child = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130 and not alive(child)
    assert solocore.files() == set()


def test_an_interrupt_while_planning_leaves_nothing(solocore, compile_c):
    job = compile_c(DEAF)
    solocore.write("system.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["{job}"]\n')
    process = solocore.start("plan", "system.toml")
    assert b"profiling a" in process.stderr.readline()
    code, _ = interrupt(process)
    assert code == 130 and solocore.files() == {"system.toml"}


# Plans that travel.

def test_a_plan_needs_nothing_but_itself(solocore, compile_c, tmp_path):
    walk = solocore.dir / "walk"
    shutil.copy(compile_c(WALK), walk)
    task = '[[task]]\nname = "%s"\nperiod = "100 ms"\ncommand = ["./walk", %s]\n%s'
    text = 'platform = "p4080"\n' + task % ("a", '"5", "w"', "") + task % ("b", '"5", "w"', 'criticality = "D"\n') + \
        task % ("c", '"1"', "")
    plan = solocore.plan(text)
    assert "carried" not in plan, "what is printed has paths"
    written = json.loads((solocore.dir / "plan.json").read_text())
    assert sorted(written["carried"]) == [f"profile-{n}.json{end}" for n in (0, 1) for end in ("", ".trace")]
    def simulated(path, **env):
        done = solocore("sim", path, "--duration", "300 ms", "--format", "json", **env)
        assert done.code == 0, done.err
        result = done.json()
        # The only number of this run and not of the simulation.
        del result["wall_ns"]
        return json.dumps(result)
    before = simulated("plan.json")
    away = solocore.dir / "away"
    away.mkdir()
    shutil.move(solocore.dir / "plan.json", away / "plan.json")
    shutil.rmtree(solocore.cache)
    walk.unlink()
    (solocore.dir / "system.toml").unlink()
    left = solocore.dir / "left"
    left.mkdir()
    assert simulated(away / "plan.json", TMPDIR=str(left)) == before
    assert not list(left.iterdir()), "what was unpacked goes away"
    assert solocore("report", away / "plan.json", "-o", "report.html").code == 0
    assert "walk" in (solocore.dir / "report.html").read_text()
    # It does depend on what it carries.
    short = written["carried"]
    short["profile-0.json.trace"], short["profile-1.json.trace"] = short["profile-1.json.trace"], short["profile-0.json.trace"]
    (away / "plan.json").write_text(json.dumps(written))
    refused(solocore("sim", away / "plan.json"), "records", codes=(2,))


@pytest.mark.parametrize("name,text", [("../x", "KLUv/QBYAQAAYQ=="), ("profile-/x", "KLUv/QBYAQAAYQ=="), ("profile-0.json", "?"),
                                       ("profile-0.json", "YWFh")])
def test_a_plan_that_carries_nonsense_is_refused(solocore, name, text):
    solocore.plan('platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["true"]\n')
    plan = json.loads((solocore.dir / "plan.json").read_text())
    plan["carried"][name] = text
    solocore.write("plan.json", json.dumps(plan))
    refused(solocore("sim", "plan.json"), "carried", codes=(2,))
