"""`solocore board`: what is refused without a guest, and guests with programs of this machine.

The boots need QEMU and a kernel from Debian's archive, which are kept in SOLOCORE_BOARD_CACHE (default: build/board of the checkout). Where
the archive cannot be reached and the cache has nothing, they are skipped with a word. What tests the host's side alone boots without the
board's plugin, which is quicker. With BOARD_BOOTS=1 (`make nightly`) there are more boots.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import ROOT, interrupt, refused

BOARD = "core-i5-2500k"
CACHE = Path(os.environ.get("SOLOCORE_BOARD_CACHE", ROOT / "build" / "board"))
LIMIT = 300
PLAIN = {"SOLOCORE_BOARD_PLUGIN": "none"}
often = pytest.mark.skipif(not os.environ.get("BOARD_BOOTS"), reason="a boot more; BOARD_BOOTS=1 asks for it")
# No archive, no cache but the test's own, and no plugin, which the checks before a boot do not need.
ALONE = {"SOLOCORE_DEBIAN": "http://127.0.0.1:1", "SOLOCORE_BOARD_CACHE": "", "SOLOCORE_BOARD_PLUGIN": "none"}


@pytest.fixture(scope="module")
def fetched(program):
    """QEMU and a kernel are in the cache; where they are not, a boot fetches them."""
    env = {**os.environ, **PLAIN, "SOLOCORE_BOARD_CACHE": str(CACHE)}
    there = subprocess.run([program, "board", "list", "--format", "json"], env={**env, "SOLOCORE_DEBIAN": ALONE["SOLOCORE_DEBIAN"]},
                           capture_output=True, text=True, timeout=LIMIT)
    found = json.loads(there.stdout) if there.returncode == 0 else {}
    if found.get("qemu") and found.get("kernels"):
        return
    done = subprocess.run([program, "board", "run", BOARD, "--cpus", "1", "--", "true"], env=env, capture_output=True, text=True,
                          timeout=2 * LIMIT)
    if done.returncode == 3 and "cannot fetch" in done.stderr:
        pytest.skip(f"the archive cannot be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def board(solocore, fetched):
    """Runs a program on a board of two CPUs."""
    solocore.env["SOLOCORE_BOARD_CACHE"] = str(CACHE)

    def run(*args, options=(), **env):
        return solocore("board", "run", BOARD, "--cpus", "2", *options, "--", *args, timeout=LIMIT, **env)

    return run


def of_cores(solocore, preset, cores, **values):
    """`board.toml`: a preset with this number of cores, which a guest of this machine's instruction set does not take for another one."""
    lines = (ROOT / f"platforms/{preset}.toml").read_text().splitlines()
    values = {"cores": str(cores), "isa": '"x86_64"', **values}
    keys = [line.split(" = ")[0] for line in lines]
    assert all(key in keys for key in values)
    text = [f"{key} = {values[key]}" if key in values else line for key, line in zip(keys, lines)]
    solocore.write("board.toml", "\n".join(text) + "\n")


def in_guest(solocore, compile_c, script, programs, *options, board=BOARD, timeout=2 * LIMIT):
    """Runs a script in a guest of four CPUs, with programs of tests/board and the flags of each; what the command said."""
    shares, sources = [], ROOT / "tests/board"
    for name, flags in programs.items():
        program = compile_c((sources / f"{name}.c").read_text(), "-O2", f"-I{sources}", *flags, name=name)
        (solocore.dir / name).symlink_to(program)
        shares += ["--share", name]
    solocore.write("script", script)
    return solocore("board", "run", board, "--cpus", "4", *shares, *options, "--", "sh", "script", timeout=timeout, SOLOCORE_BOARD_CACHE=str(CACHE))


def processes_of(directory):
    """Command lines of running QEMUs whose files lie in a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if "qemu-system" in line and str(directory) in line:
                found.append(line)
    return found


@pytest.mark.parametrize("args, words", [
    (["run", "no-such-board", "--", "true"], ["no-such-board", "p4080"]),
    (["run", BOARD, "--cpus", "5", "--", "true"], ["--cpus 5", "4"]),
    (["run", BOARD, "--out", "/dev/null", "--", "true"], ["--out"]),
    (["run", BOARD, "--share", "/no/such/thing", "--", "true"], ["--share /no/such/thing"]),
])
def test_bad_input_is_refused_before_anything_is_fetched(solocore, args, words):
    refused(solocore("board", *args, **ALONE), *words, codes=(2,))


@pytest.mark.parametrize("args, words", [
    (["run", BOARD, "--", "./no-such-program"], ["no-such-program"]),
    (["run", BOARD, "--", "no-such-program"], ["no-such-program", "PATH"]),
    (["run", BOARD, "--memory", "64M", "--", "true"], ["--memory", "MiB"]),
])
def test_what_cannot_run_is_refused_before_anything_is_fetched(solocore, args, words):
    refused(solocore("board", *args, **ALONE), *words, codes=(3,))


def test_without_an_archive_and_a_cache_there_is_no_board(solocore):
    done = solocore("board", "run", BOARD, "--", "true", **ALONE)
    refused(done, ALONE["SOLOCORE_DEBIAN"], "SOLOCORE_DEBIAN", codes=(3,), one_line=False)


def test_a_missing_plugin_is_named(solocore):
    refused(solocore("board", "run", BOARD, "--", "true", SOLOCORE_BOARD_PLUGIN="/nowhere.so"), "plugin", codes=(3,))


def test_boards_are_listed_without_an_archive(solocore):
    done = solocore("board", "list", "--format", "json", **ALONE)
    assert done.code == 0, done.err
    listed = done.json()
    assert {"p4080", BOARD} <= {b["name"] for b in listed["boards"]}
    assert listed["qemu"] == [] and listed["kernels"] == [] and listed["available_kernels"] is None
    text = solocore("board", "list", **ALONE)
    assert b"core-i5-2500k" in text.out and b"cannot be reached" in text.out


def test_the_guest_command_is_for_guests(solocore):
    refused(solocore("board", "guest"), "board run", codes=(3,))


def test_a_program_of_this_machine_runs_and_its_files_come_back(board, solocore, compile_c):
    program = compile_c(
        '#include <stdio.h>\n#include <stdlib.h>\nint main(int argc, char **argv) {\n'
        '  FILE *in = fopen(argv[1], "r"), *out = fopen("/out/below/result", "w"); char text[99] = "";\n'
        '  if (!in || !out) return 9;\n  fgets(text, sizeof text, in); fprintf(out, "%s!", text);\n'
        '  printf("to stdout\\n"); fprintf(stderr, "to stderr\\n"); return fclose(out) ? 8 : 7; }\n')
    solocore.write("data", "text")
    solocore.write("job.sh", f"#!/bin/sh\nmkdir /out/below\necho changed >data2\nsolocore platforms\nsolocore board ask snapshot here\nexec {program} data\n")
    os.chmod(solocore.dir / "job.sh", 0o755)
    done = board("./job.sh", options=["--share", program, "--share", "data", "--out", "results", "--format", "json",
                                       "--truth", "truth.json"])
    assert done.code == 7, done.err
    outcome = done.json()
    assert outcome["exit_code"] == 7 and outcome["qemu"] and outcome["kernel"]
    assert outcome["simulated_ns"] > 0 and outcome["boot_ns"] > 0
    assert "to stdout" in done.err and "to stderr" in done.err and "raspberry-pi-4" in done.err
    assert outcome["truth"]["total"]["instructions_user"] > 0 and "frames" not in outcome["truth"]
    snapshot = json.loads((solocore.dir / "truth.json.here").read_text())
    total = json.loads((solocore.dir / "truth.json").read_text())["total"]
    assert 0 < snapshot["total"]["instructions_user"] < total["instructions_user"]
    assert (solocore.dir / "results/below/result").read_text() == "text!"
    assert not (solocore.dir / "data2").exists()


@often
def test_output_and_exit_code_pass_through(board):
    done = board("sh", "-c", "echo out; echo err >&2; kill -9 $$", **PLAIN)
    assert (done.code, done.out) == (128 + 9, b"out\n"), done.err
    assert "err\n" in done.err and "simulated" in done.err


def test_a_panic_is_one_line(board, solocore):
    # Output goes through a pipe of the guest, and a thread passes it on: what is in it when the kernel dies, dies too.
    done = board("sh", "-c", "echo before; sleep 1; echo c >/proc/sysrq-trigger", options=["--console", "messages"], **PLAIN)
    assert done.code == 3 and done.out == b"before\n", done.err
    errors = [line for line in done.err.splitlines() if line.startswith("solocore: ")]
    assert len(errors) == 1 and "panicked: sysrq triggered crash" in errors[0]
    assert "Kernel panic" in (solocore.dir / "messages").read_text(errors="replace")


@often
def test_a_time_limit_is_hard(board):
    done = board("sleep", "100000", options=["--time-limit", "10 s"], **PLAIN)
    assert done.code == 3 and "--time-limit" in done.err, done.err


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=often)])
def test_nothing_is_left_of_an_interrupted_run(board, solocore, how):
    scratch = solocore.dir / "scratch"
    scratch.mkdir()
    solocore.env.update(PLAIN, TMPDIR=str(scratch))
    process = solocore.start("board", "run", BOARD, "--cpus", "2", "--", "sh", "-c", "echo runs; sleep 100000")
    assert process.stdout.readline() == b"runs\n"
    assert len(processes_of(scratch)) == 1
    code, _ = interrupt(process, how)
    assert code == (130 if how == signal.SIGINT else -how)
    until = time.monotonic() + 10
    while processes_of(scratch) and time.monotonic() < until:
        time.sleep(0.05)
    assert processes_of(scratch) == []
    if how == signal.SIGINT:
        assert list(scratch.iterdir()) == []


@often
def test_two_runs_do_not_disturb_each_other(board, solocore):
    solocore.env.update(PLAIN)
    command = ["board", "run", BOARD, "--cpus", "1", "--out"]
    runs = [solocore.start(*command, f"out{i}", "--", "sh", "-c", f"echo {i} >/out/file; exit {i}") for i in (3, 4)]
    for i, run in zip((3, 4), runs):
        _, err = run.communicate(timeout=LIMIT)
        assert run.returncode == i, err
        assert (solocore.dir / f"out{i}/file").read_text() == f"{i}\n"


COUNTED = """
for cpu in 1 2 3; do ./hog 8192 $cpu & done
./chase 4096 100000 0
sleep 0.05
kill $(pidof hog)
"""


@often
def test_two_runs_count_the_same(solocore, compile_c, fetched):
    for name in ("chase", "hog"):
        (solocore.dir / name).symlink_to(compile_c((ROOT / f"tests/board/{name}.c").read_text(), "-O2", name=name))
    solocore.write("script", COUNTED)
    for truth, seed in (("first.json", 1), ("second.json", 1), ("other.json", 2)):
        done = solocore("board", "run", BOARD, "--cpus", "4", "--seed", seed, "--share", "chase", "--share", "hog", "--truth", truth, "--", "sh", "script",
                        timeout=2 * LIMIT, SOLOCORE_BOARD_CACHE=str(CACHE))
        assert done.code == 0, done.err
    differ = {}
    for other in ("second.json", "other.json"):
        compared = subprocess.run(["python3", ROOT / "tests/board/compare.py", "--same", "first.json", other], cwd=solocore.dir, capture_output=True, text=True)
        differ[other] = compared.returncode
        print(compared.stdout)
    assert differ == {"second.json": 0, "other.json": 1}


INTEL = """
mount -t resctrl resctrl /sys/fs/resctrl || exit 8
cat /sys/fs/resctrl/info/L3/cbm_mask
cat /sys/fs/resctrl/info/L3_MON/mon_features | tr '\\n' ' '
solocore doctor --format json >/out/doctor.json || test $? = 1 || test $? = 3
"""


@often
def test_intels_counters_and_allocation(board, solocore):
    done = board("sh", "-c", INTEL, options=["--counters", "intel", "--allocation", "--out", "out"])
    assert done.code == 0, done.err
    mask, *features = done.out.decode().split()
    assert int(mask, 16) + 1 == 1 << 12, "the ways of the board's shared cache"
    assert {"llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"} <= set(features)
    text = (solocore.dir / "out/doctor.json").read_text()
    print(text)
    found = {f["what"]: f for f in json.loads(text)["findings"]}
    assert found["counters of llc-misses"]["good"] and found["counters of llc-misses"]["found"].startswith("they count reads on ")


@often
@pytest.mark.parametrize("text, out", [
    (b"", b""),
    (b"echo $((6*7))\n", b"42\n"),
    # Ctrl-D and Ctrl-A are bytes like others, and the last line needs no end.
    (b"cat <<'END'\na\x04b\x01c\nEND\nprintf d", b"a\x04b\x01c\nd"),
    # More than a terminal keeps for a reader that is busy (64 KiB).
    (b"sleep 1\n" + b": %080d\n" % 7 * 4000 + b"echo $?", b"0\n"),
])
def test_a_shell_ends_with_its_input(board, solocore, text, out):
    done = solocore("board", "shell", BOARD, "--cpus", "1", stdin=text, timeout=LIMIT, **PLAIN)
    assert (done.code, done.out) == (0, out), done.err


def test_a_shell_reads_from_a_pipe(board, solocore):
    text = b"echo $((6*7))-$SOLOCORE_BOARD\necho wrong >&2\nexit 5\n"
    done = solocore("board", "shell", BOARD, "--cpus", "1", stdin=text, timeout=LIMIT, **PLAIN)
    assert (done.code, done.out) == (5, f"42-{BOARD}\n".encode()), done.err
    assert "wrong\n" in done.err


@often
def test_input_that_cannot_be_read_is_told(board, solocore):
    """A directory can be opened, and not read. It fails if that is taken for the end of the input."""
    folder = os.open(solocore.dir, os.O_RDONLY)
    done = subprocess.run([solocore.program, "board", "shell", BOARD, "--cpus", "1"], cwd=solocore.dir, stdin=folder, capture_output=True, text=True,
                          timeout=LIMIT, env={**solocore.env, **PLAIN})
    os.close(folder)
    errors = [line for line in done.stderr.splitlines() if line.startswith("solocore: ")]
    assert done.returncode == 3 and len(errors) == 1 and "the input cannot be read: " in errors[0], done.stderr


@often
def test_a_panic_of_a_shells_guest_is_one_line(board, solocore):
    done = solocore("board", "shell", BOARD, "--cpus", "1", stdin=b"echo c >/proc/sysrq-trigger\n", timeout=LIMIT, **PLAIN)
    errors = [line for line in done.err.splitlines() if line.startswith("solocore: ")]
    assert done.code == 3 and len(errors) == 1 and "panicked: sysrq triggered crash" in errors[0], done.err


RESERVED = """
[regulation]
policy = "memguard"
[[task]]
name = "video"
core = 0
period = "100 ms"
wcet = "20 ms"
misses = 1000
command = ["./coloured"]
"""
# held: the part of the frames of colours 0 to 7 that programs have, in percent.
HELD = """
held() {
	solocore space audit --kernel --platform core-i5-2500k --colors 0-7 --format json | tr -d ' ",' | awk -F: '/^chosen/ { on = 1; next }
		on && /}/ { printf "%s %d\\n", "'$1'", 100 * of / all; exit } on && !/mapped/ { all += $2 } on && /^anonymous/ { of = $2 }'
}
options="--start --partial --event page-faults --colors --reserve"
held before
solocore run plan.json $options --duration "4 s" >/out/run 2>&1 & run=$!
until grep -q "^regulating" /out/run; do kill -0 $run || { cat /out/run; exit 9; }; sleep 0.2; done
held during
wait $run || { cat /out/run; exit 9; }
held after
solocore run plan.json $options >/out/killed 2>&1 & run=$!
until grep -q "^regulating" /out/killed; do kill -0 $run || { cat /out/killed; exit 9; }; sleep 0.2; done
kill -9 $run
# It gives back half a gigabyte.
for _ in $(seq 30); do
	sleep 1
	set -- $(held killed)
	[ $2 -ge 15 ] || break
done
echo $*
"""


@often
def test_a_run_holds_the_frames_of_its_plan(solocore, compile_c, fetched):
    """Breaks when tasks start before the reserve has its frames, or when it outlives the run."""
    (solocore.dir / "coloured").symlink_to(compile_c((ROOT / "tests/vm/coloured.c").read_text(), "-O2", "-pthread", "-ldl", name="coloured"))
    plan = solocore.plan(f'platform = "{BOARD}"' + RESERVED)
    assert plan["cores"][0]["colours"] == [0, 8]
    solocore.write("held", HELD)
    done = solocore("board", "run", BOARD, "--cpus", "4", "--memory", "2G", "--share", "coloured", "--share", "plan.json", "--out", "out", "--",
                    "sh", "held", timeout=LIMIT, SOLOCORE_BOARD_CACHE=str(CACHE), **PLAIN)
    assert done.code == 0, done.err + done.out.decode()
    print(done.out.decode(), (solocore.dir / "out/run").read_text())
    held = dict(line.split() for line in done.out.decode().splitlines() if len(line.split()) == 2)
    assert int(held["during"]) >= 90 and max(int(held[when]) for when in ("before", "after", "killed")) < 15, held


def test_a_reserve_without_colours_is_refused(solocore):
    done = solocore("run", "plan.json", "--reserve")
    assert done.code == 2 and "not provided:\n  --colors" in done.err
