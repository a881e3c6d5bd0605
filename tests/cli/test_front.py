"""What meets users first: signals, pipes, files that are none, and advice that helps."""

import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import refused

TASK = '[[task]]\nname = "{0}"\ncore = {1}\nperiod = "100 ms"\nwcet = "{2} ms"\nmisses = 100\n'
TWO = 'platform = "p4080"\n' + TASK.format("a", 0, 0.1) + TASK.format("b", 1, 0.1)
LATE = 'platform = "p4080"\n' + TASK.format("a", 0, 99.9)
SPIN = ("sh", "-c", "while :; do :; done")

# Commands whose long phase does not end by itself, the text that the file `in` gets, and whether files must stay as they were.
LONG = {
    "init": (("init", "--platform", "p4080", "-o", "s.toml", "yes"), ""),
    "profile": (("profile", "-o", "p.json", "--", *SPIN), ""),
    "sim": (("sim", "in.toml", "--duration", "3000 s"), TWO),
    "assess": (("assess", "in.toml", "-o", "out", "--duration", "3000 s"), TWO),
    "dram": (("dram", "--pattern", "attack", "--requests", "1000000000"), ""),
    "study": (("study", "--all", "--sensitivity", "-o", "out"), ""),
    "compare": (("compare", "--", *SPIN), ""),
    "bench latency": (("bench", "latency", "-m", "1G", "-i", "1000"), ""),
    "bench pool": (("bench", "pool", "--memory", "2 GiB"), ""),
    "bench function-lock": (("bench", "function-lock", "--calls", "10000000"), ""),
    "space map": (("space", "map", "--memory", "4 GiB"), ""),
}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
@pytest.mark.parametrize("name", LONG)
def test_a_signal_ends_each_command(solocore, name, how):
    """Within a second, with 130 and one line, and nothing is left. Seven seconds more are for a busy machine. Gigabytes get 25: a guest's host may have
    taken that memory back, and gives each page again before the kernel can free it."""
    limit = 25 if any("GiB" in a for a in LONG[name][0]) else 8
    arguments, text = LONG[name]
    solocore.write("in.toml", text)
    before = {p for p in os.listdir(solocore.dir)}
    process = solocore.start(*arguments)
    time.sleep(0.8)
    assert process.poll() is None, process.stderr.read()
    process.send_signal(how)
    begun = time.monotonic()
    try:
        process.wait(limit + 2)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail("it goes on")
    took = time.monotonic() - begun
    err = process.stderr.read().decode()
    if name == "space map" and process.returncode == 3 and "the timing does not separate" in err:
        pytest.skip("this machine's memory shows no banks, and that was found before the signal came")
    if name == "bench pool" and process.returncode == 0:
        pytest.skip("it was done before the signal came")
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "solocore: interrupted; no output was written"
    assert {p for p in os.listdir(solocore.dir)} == before
    assert took < limit


def test_a_signal_ends_a_census_of_the_frames(solocore):
    process = solocore.start("space", "audit", "--kernel")
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=8)
    if process.returncode in (0, 3):
        pytest.skip("it was done before the signal came, or frames are hidden here: " + err.decode())
    assert process.returncode == 130, err


def catches(pid, how):
    """Whether a process has a handler for a signal."""
    (mask,) = [line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:")]
    return int(mask, 16) >> (how - 1) & 1 == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
@pytest.mark.parametrize("kept", [False, True])
def test_figures_that_are_finished_are_kept_and_said_to_be(solocore, kept, how):
    arguments = ("reproduce", *(["sce-fig9"] if kept else []), "sce-fig2", "-o", "out")
    process = solocore.start(*arguments)
    finished = solocore.dir / "out" / "sce-fig9.json"
    deadline = time.monotonic() + 120
    # It takes the signal, and has begun the next figure.
    while not (catches(process.pid, how) and (finished.exists() or not kept)):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    said = "the finished part is kept in out; " if kept else "no output was written"
    assert err.decode().splitlines()[-1].startswith(f"solocore: interrupted; {said}")
    assert (solocore.dir / "out").exists() == kept
    assert not (solocore.dir / "out" / "sce-fig2.json").exists()
    if kept:
        before = finished.read_bytes(), finished.stat().st_mtime_ns
        again = solocore(*arguments, timeout=300)
        assert again.code == 0 and "sce-fig9: done before, kept" in again.err and "sce-fig2: done before" not in again.err
        assert (finished.read_bytes(), finished.stat().st_mtime_ns) == before
        assert (solocore.dir / "out" / "sce-fig2.json").exists()


def test_outcomes_of_another_build_are_said_to_be(solocore):
    """An outcome holds the build that made it; one of another build is kept, counted, and named on the page."""
    arguments = ("reproduce", "sce-fig9", "bwlock-overhead", "--quick", "-o", "out", "--page", "page.md")
    made = solocore(*arguments, timeout=300)
    record = solocore.dir / "out" / "sce-fig9.json"
    found = json.loads(record.read_text())
    assert re.fullmatch("[0-9a-f]{16}", found["build"]) and "another build" not in made.err
    assert "come from one build of solocore" in (solocore.dir / "page.md").read_text()
    for build in ("0" * 16, None):
        found["build"] = build
        record.write_text(json.dumps({k: v for k, v in found.items() if v is not None}))
        kept = solocore(*arguments, timeout=300)
        assert "1 of 2 outcomes are of another build of solocore, and were kept; --fresh makes them again" in kept.err
        assert "**The outcomes of this page come from 2 builds of solocore.**" in (solocore.dir / "page.md").read_text()
    fresh = solocore(*arguments, "--fresh", timeout=300)
    assert "another build" not in fresh.err and "come from one build of solocore" in (solocore.dir / "page.md").read_text()


def test_a_signal_after_some_output_is_said_so(solocore):
    process = subprocess.Popen([solocore.program, "analyze", "--test", "edf", "-"], cwd=solocore.dir, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=solocore.env)
    process.stdin.write(b'{"cores": 1, "tasks": [{"wcet": 1, "period": 4, "deadline": 4}]}\n')
    process.stdin.flush()
    assert b"schedulable" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 130
    assert process.stderr.read().decode().splitlines()[-1] == "solocore: interrupted; the output that was written before may be incomplete"


@pytest.mark.parametrize("columns", [60, 100])
def test_help_is_wrapped_to_the_terminal(solocore, columns):
    lines = solocore("--help", COLUMNS=str(columns)).out.decode().splitlines()
    assert max(len(line) for line in lines) <= columns
    assert any(line.startswith("  plan  ") for line in lines)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_program_gets_the_signal_that_solocore_got(solocore, how):
    """Its code is 130 after Ctrl-C, not 143: scripts tell the two apart."""
    process = solocore.start("exec", "--colors", "0-3", "--", "sleep", "100")
    time.sleep(1)
    if process.poll() is not None:
        pytest.skip("this machine gives no pages of colours: " + process.stderr.read().decode().splitlines()[-1])
    process.send_signal(how)
    process.communicate(timeout=10)
    assert process.returncode == 128 + how


def test_a_signal_at_the_start_of_a_coloured_program_is_no_failure_of_the_machine(solocore):
    """It comes while the program's library moves the first pages."""
    process = solocore.start("exec", "--colors", "0-3", "--", "sleep", "100")
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    while process.poll() is None and not open(children).read():
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    if process.returncode == 3 and b"were not moved" not in err:
        pytest.skip("this machine gives no pages of colours: " + err.decode().splitlines()[-1])
    assert process.returncode == 130, err


def test_a_signal_ends_the_wait_for_a_stopped_program(solocore):
    process = solocore.start("exec", "--colors", "0-3", "--", "sleep", "100")
    time.sleep(1)
    if process.poll() is not None:
        pytest.skip("this machine gives no pages of colours: " + process.stderr.read().decode().splitlines()[-1])
    child = int(open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()[0])
    os.kill(child, signal.SIGSTOP)
    moving = solocore.start("recolor", child, "--colors", "4-7")
    time.sleep(0.5)
    moving.send_signal(signal.SIGINT)
    _, err = moving.communicate(timeout=10)
    os.killpg(process.pid, signal.SIGKILL)
    assert moving.returncode == 130 and b"interrupted" in err, err


# A pipe into which nobody writes, in the place of each input.
WAITING = [
    ("plan", "in"), ("sim", "in"), ("report", "in"), ("assess", "in.toml", "-o", "out"), ("run", "--dry-run", "in"), ("verify", "in"),
    ("doctor", "--plan", "in"), ("diff", "in", "in"), ("schedule-io", "in"), ("check-trace", "in"), ("analyze", "--test", "edf", "in"),
    ("study", "--parameters", "in.toml", "-o", "out"), ("dram", "--pattern", "chase", "--memory", "in.toml"),
    ("profile", "--from", "in", "--plan", "in", "--task", "a", "-o", "out"),
    ("exec", "--colors", "0", "--map", "in", "--", "true"), ("exec", "--plan", "in", "--task", "a", "--", "true"), ("space", "audit", "--kernel", "--map", "in"),
    ("plan", "names.toml"),
]


@pytest.mark.parametrize("arguments", WAITING, ids=" ".join)
def test_a_signal_ends_the_wait_for_an_input(solocore, arguments):
    for name in ("in", "in.toml"):
        os.mkfifo(solocore.dir / name)
    solocore.write("names.toml", TWO.replace("p4080", "./in"))
    process = solocore.start(*arguments)
    writer = None
    while writer is None and process.poll() is None:
        time.sleep(0.02)
        writer = writer_of(solocore.dir / "in") or writer_of(solocore.dir / "in.toml")
    assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=8)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail("it goes on")
    finally:
        os.close(writer)
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == "solocore: interrupted; no output was written"


@pytest.mark.parametrize("arguments", [
    ("plan", "system.toml", "-o", "pipe"), ("sim", "plan.json", "--duration", "1 ms", "--trace", "pipe"), ("platform", "detect", "-o", "pipe"),
    ("dram", "--pattern", "chase", "--requests", "10", "--trace-commands", "pipe"), ("compare", "-n", "1", "--event", "page-faults", "-o", "pipe", "--", "true")], ids=" ".join)
def test_a_signal_ends_the_wait_for_a_reader_of_an_output(solocore, arguments):
    solocore.plan(TWO)
    os.mkfifo(solocore.dir / "pipe")
    process = solocore.start(*arguments)
    time.sleep(0.8)
    assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGTERM)
    ends_as_interrupted(process, "no output was written")


@pytest.mark.parametrize("arguments", [("schema", "plan"), ("completions", "bash"), ("latency", "--every", "1 ms"),
                                       ("dram", "--pattern", "chase", "--requests", "1000000", "--trace-commands", "/dev/stdout")], ids=" ".join)
def test_a_signal_ends_a_command_whose_reader_reads_no_further(solocore, arguments):
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen([solocore.program, *arguments], cwd=solocore.dir, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE,
                               env=solocore.env, start_new_session=True)
    os.close(write)
    time.sleep(1)
    try:
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGTERM)
        ends_as_interrupted(process, "")
    finally:
        os.close(read)


def test_a_stderr_that_takes_nothing_ends_nothing(solocore):
    """As after `2>&1 | head`: notes and progress are lost, and no more than these."""
    solocore.plan(TWO)
    short = ("--duration", "10 ms")
    for arguments in (("sim", "plan.json", *short), ("report", "plan.json", "-o", "r.html"), ("assess", "system.toml", *short, "-o", "out"),
                      ("dram", "--pattern", "chase", "--requests", "10"), ("platform", "detect", "-o", "here.toml")):
        with open("/dev/full", "wb") as full:
            assert subprocess.run([solocore.program, *arguments], cwd=solocore.dir, env=solocore.env, stdout=subprocess.DEVNULL, stderr=full, timeout=60).returncode == 0
    assert {"r.html", "out/report.html", "here.toml"} <= solocore.files()


def ends_as_interrupted(process, said):
    try:
        _, err = process.communicate(timeout=8)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail("it goes on")
    assert process.returncode == 130, err
    assert err.decode().splitlines()[-1].startswith(f"solocore: interrupted; {said}")


def writer_of(pipe):
    """The other end of a pipe, if somebody reads it: as long as it is open and silent, the reader waits."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "elvish", "powershell"])
def test_completions_survive_a_closed_pipe(solocore, shell):
    command = f'"$0" completions {shell} | head -n 1; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", command, solocore.program], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and not done.stderr


@pytest.mark.parametrize("arguments", [("plan", "/dev/zero"), ("plan", "in.toml"), ("run", "/dev/zero"), ("report", "/dev/zero"),
                                       ("schedule-io", "/dev/zero"), ("dram", "--pattern", "chase", "--memory", "/dev/zero"),
                                       ("bench", "banks", "--map", "/dev/zero")])
def test_devices_are_no_files(solocore, arguments):
    solocore.write("in.toml", TWO.replace("p4080", "/dev/zero"))
    refused(solocore(*arguments, timeout=10), "/dev/zero", "is a device")


def test_a_dash_is_standard_output(solocore):
    plan = solocore.plan(TWO)
    assert solocore("plan", "system.toml", "-o", "-").json()["tasks"] == plan["tasks"]
    page = solocore("report", "plan.json", "-o", "-")
    assert page.code == 0 and page.out.startswith(b"<!DOCTYPE html>") and not page.err
    result = solocore("sim", "plan.json", "-o", "-", "--duration", "10 ms")
    assert result.json()["tasks"] and not (solocore.dir / "-").exists()


def test_a_dash_is_no_directory(solocore):
    solocore.write("system.toml", TWO)
    for arguments in (("assess", "system.toml"), ("man",), ("study", "--all"), ("reproduce", "sce-fig9"), ("platform", "collect")):
        refused(solocore(*arguments, "-o", "-"), "-: --output names a directory", codes=(2,))
    assert not (solocore.dir / "-").exists()


def test_a_dash_is_standard_input(solocore):
    plan = solocore.plan(TWO)
    text = (solocore.dir / "plan.json").read_bytes()
    assert solocore("plan", "-", "--format", "json", stdin=TWO.encode()).json()["tasks"] == plan["tasks"]
    assert solocore("diff", "plan.json", "-", stdin=text).code == 0
    page = solocore("report", "-", "-o", "-", stdin=text)
    assert page.code == 0 and page.out.startswith(b"<!DOCTYPE html>")
    trace = b"# solocore-sched-trace/1\n"
    assert solocore("check-trace", "-", stdin=trace).err == solocore("check-trace", "/dev/stdin", stdin=trace).err.replace("/dev/stdin", "-")


def test_a_page_is_drawn_from_a_pipe(solocore):
    """What can be read only once, also by its digest on the page."""
    solocore.plan(TWO)
    done = subprocess.run(["bash", "-c", '"$0" report <(cat plan.json) -o r.html && "$0" assess <(cat system.toml) --duration "10 ms" -o out', solocore.program],
                          cwd=solocore.dir, env=solocore.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name, page in (("plan.json", "r.html"), ("system.toml", "out/report.html")):
        assert hashlib.sha256((solocore.dir / name).read_bytes()).hexdigest() in (solocore.dir / page).read_text()


def test_a_plan_of_another_version_is_called_so(solocore):
    """Also where its keys are others."""
    solocore.plan(TWO)
    text = (solocore.dir / "plan.json").read_text().replace("solocore-plan/1", "solocore-plan/99")
    for text in (text, '{"format": "solocore-plan/99"}'):
        solocore.write("other.json", text)
        for command in ("sim", "report", "verify"):
            done = solocore(command, "other.json")
            refused(done, "other.json", "solocore-plan/99", "again", codes=(2,))
            assert "neither a plan" not in done.err
    solocore.write("other.json", "{}")
    refused(solocore("sim", "other.json"), "missing field `format`; correct it there, or make the file again", codes=(2,))


def test_stated_shares_are_stated_by_a_core_at_least(solocore):
    shares = '[regulation]\nshare = "explicit"\n'
    text = TWO.replace("[[task]]", shares + "[[task]]", 1)

    def rule(text):
        return next(r for r in solocore.plan(text)["reasons"] if r.startswith("bandwidth: "))

    for core in ("", "[[core]]\nid = 0\n"):
        solocore.write("system.toml", text + core)
        done = solocore("plan", "system.toml")
        assert done.code == 2 and 'no [[core]] states one; add a [[core]] with id and bandwidth, or set share = "even"' in done.err
    assert "as stated for 1 of 8 cores" in rule(text + '[[core]]\nid = 0\nbandwidth = "60 MB/s"\n')
    assert "chosen together" in rule(TWO)


def test_a_run_of_a_plan_that_is_not_schedulable_says_so(solocore):
    place = subprocess.run([solocore.program, "platform", "detect", "-o", "here.toml"], cwd=solocore.dir, capture_output=True)
    assert place.returncode == 0, place.stderr
    text = LATE.replace("p4080", "here.toml")
    solocore.plan(text, code=1)
    done = solocore("run", "plan.json", "--dry-run", "--event", "page-faults")
    assert "not schedulable: deadlines may be missed (a)" in done.out.decode() + done.err
    assert "older solocore" not in done.err
    done = solocore("run", "plan.json", "--dry-run", "--event", "page-faults", "--vouch", "devices")
    assert done.code == 2 and "--vouch devices: the plan is not schedulable and has no bounds" in done.err
    done = solocore("doctor", "--plan", "plan.json", "--event", "page-faults")
    assert "older solocore" not in done.err and "llc-misses" not in done.err
    solocore.plan(text.replace("99.9 ms", "1 ms"))
    done = solocore("run", "plan.json", "--dry-run", "--event", "page-faults")
    assert "not schedulable" not in done.out.decode() + done.err


def test_remedies_are_those_of_the_cause(solocore):
    solocore.write("in.toml", 'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["/bin/true"]\n')
    done = solocore("plan", "in.toml", HOME="/proc/none", XDG_CACHE_HOME="")
    assert done.code == 3 and "--profiles" in done.err and "free some space" not in done.err
    solocore.write("in.toml", TWO)
    done = solocore("plan", "in.toml", "-o", "none/plan.json")
    refused(done, "make its directory", codes=(3,))


    solocore.write("text", "no program")
    for program, remedy in (("./none", "check its name and PATH"), ("./text", "name a file that you may execute"), ("/tmp", "name a file that you may execute")):
        refused(solocore("exec", "--", program), f"cannot run {program}", remedy, codes=(2,))
    assert "from 4 KiB to 1 TiB" in solocore("bench", "bandwidth", "-m", "99999G").err


def test_memory_that_the_machine_has_not_is_not_taken(solocore):
    """The kernel would kill programs for it. A limit of addresses keeps this test from that."""
    done = subprocess.run(["bash", "-c", 'ulimit -v 16777216; exec "$0" space map --memory "60000 GiB"', solocore.program], cwd=solocore.dir, env=solocore.env,
                          capture_output=True, text=True, timeout=30)
    if os.uname().machine == "x86_64":
        assert done.returncode == 3 and "61440000 MiB of memory are more than the" in done.stderr, done.stderr


def test_a_bandwidth_beyond_all_numbers_is_no_limit(solocore):
    solocore.machine.take_for(("run",))
    done = solocore("exec", "--core", 0, "--budget", "18000000000 GB/s", "--event", "page-faults", "--", "true")
    assert done.code in (0, 3) and "panicked" not in done.err, done.err


def test_doctor_does_not_send_to_doctor(solocore):
    done = solocore("doctor")
    assert "solocore doctor" not in done.out.decode()


def test_a_budget_of_a_program_has_no_period_to_lengthen(solocore):
    done = solocore("exec", "--core", 0, "--budget", "1 KB/s", "--", "true")
    refused(done, "give the core more bandwidth")
    assert "lengthen" not in done.err


def test_jobs_that_are_finished_are_called_so(solocore):
    """More may have missed than are finished: those that never end have missed as well."""
    solocore.plan('platform = "p4080"\n' + TASK.format("a", 0, 60) + TASK.format("b", 0, 60), code=1)
    done = solocore("sim", "plan.json", "--duration", "1 s")
    head, *rows = done.out.decode().splitlines()
    row = rows[1]
    assert head.split()[2:4] == ["finished", "missed"] and int(row.split()[3]) > int(row.split()[2])


def test_times_of_benchmarks_have_units(solocore):
    for text in ("1", "1 s", "20 ms", "0.02 s", "0.02"):
        done = solocore("bench", "bandwidth", "-m", "1M", "-t", text, "--format", "json")
        assert done.code == 0, done.err
        assert done.json()["seconds"] < 2
    assert solocore("bench", "bandwidth", "-t", "20 apples").code == 2


def test_one_spelling_is_shown_and_the_other_is_understood(solocore):
    shown = solocore("bench", "--help").out.decode() + solocore("bench", "io-load", "--help").out.decode()
    assert "colors" in shown and "--colored" in shown and "\n  colours" not in shown and "--coloured" not in shown
    for words in (("bench", "colours"), ("bench", "colour-start"), ("recolour",)):
        assert solocore(*words, "--help").code == 0


def test_a_manual_page_for_each_command(solocore):
    """The pages have what --help has; nested commands have their own, and hidden ones have none."""
    assert solocore("man", "-o", "man1").code == 0
    pages = {p.stem: p.read_text().replace("\\-", "-") for p in (solocore.dir / "man1").iterdir()}
    assert {"solocore", "solocore-plan", "solocore-board-run", "solocore-man"} <= set(pages) and len(pages) > 50
    assert not any("keep" in name for name in pages)
    for words in (["plan"], ["board", "run"]):
        text = solocore(*words, "--help").out.decode()
        page = pages["-".join(["solocore", *words])]
        options = {w.strip(",") for w in text.split() if w.startswith("--") and w.strip(",-").isalpha()}
        assert len(options) > 3 and not [o for o in options if o not in page]
        assert solocore("man", *words).out.decode().replace("\\-", "-") == page
    refused(solocore("man", "board", "rnu"), "`solocore board` has no command `rnu`", codes=(2,))
    refused(solocore("man", "-o", "/proc/nowhere"), "/proc/nowhere: cannot write", codes=(3,))
