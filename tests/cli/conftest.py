"""Fixtures for the end-to-end tests of the `solocore` command.

The command is `target/release/solocore` of this repository, or what SOLOCORE names. Every test runs in a directory of its
own with a cache directory of its own, so that nothing of the user's is read or written. Needs gcc, the cross compilers for
aarch64 and powerpc, and qemu-user; a missing one is a failure, not a skip.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILERS = {"x86_64": "gcc", "aarch64": "aarch64-linux-gnu-gcc", "powerpc": "powerpc-linux-gnu-gcc"}

# Commands that take the one right to regulate this machine, or ask who has it.
REGULATE = ("run", "restore", "reserve", "top", "vcpu")

# Files that take half a minute of a processor or more. They go first, so that no processor waits for one of them at the end.
LONGEST = ("test_space_pool.py", "test_scale.py", "test_verify.py", "test_board_figures.py", "test_board_messages.py", "test_board.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@dataclass
class Done:
    """What a finished command left."""

    code: int
    out: bytes
    err: str

    def json(self):
        """The one JSON document on stdout; fails if there is anything else."""
        return json.loads(self.out)


def where_it_waits(pid):
    """What each thread of a process and of those below it does now: name, state, place in the kernel, system call."""
    def word(path):
        try:
            return path.read_text().strip()
        except OSError:
            return "?"

    lines = []
    for thread in sorted(Path(f"/proc/{pid}/task").glob("*")):
        state = word(thread / "stat").rpartition(")")[2].split()[:1]
        lines.append(" ".join([thread.name, word(thread / "comm"), *state, word(thread / "wchan"), word(thread / "syscall")]))
        lines += ["    " + line for line in word(thread / "stack").splitlines()[:8]]
        lines += [where_it_waits(below) for below in word(thread / "children").split() if below != "?"]
    return "\n".join(lines)


class Machine:
    """The right to regulate this machine: one test has it at a time, from its first such command to its end."""

    def __init__(self):
        self.lock = None

    def take_for(self, args):
        """Waits for the right, if a command with these arguments needs it."""
        if self.lock is None and args and args[0] in REGULATE:
            self.lock = os.open(ROOT / "tests", os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self.lock, fcntl.LOCK_EX)

    def give(self):
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


class Command:
    """Runs `solocore` in one directory."""

    def __init__(self, program, directory):
        self.program, self.dir, self.machine = program, directory, Machine()
        self.cache = directory / "cache-home"
        self.cache.mkdir()
        self.env = {**os.environ, "XDG_CACHE_HOME": str(self.cache), "NO_COLOR": "1"}

    def __call__(self, *args, stdin=b"", timeout=60, **env):
        self.machine.take_for(args)
        with subprocess.Popen([self.program, *map(str, args)], cwd=self.dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={**self.env, **env}) as process:
            try:
                out, err = process.communicate(stdin, timeout)
            except subprocess.TimeoutExpired as late:
                waits = where_it_waits(process.pid)
                process.kill()
                pytest.fail(f"{late}\n{(late.stderr or b'').decode()}\n{waits}")
            except BaseException:
                process.kill()
                raise
        return Done(process.returncode, out, err.decode())

    def start(self, *args):
        """Starts it in a process group of its own, for signals."""
        self.machine.take_for(args)
        return subprocess.Popen([self.program, *map(str, args)], cwd=self.dir, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, start_new_session=True)

    def write(self, name, text):
        """Writes a file in the directory and returns its name."""
        (self.dir / name).write_text(text)
        return name

    def files(self):
        """Everything in the directory and the cache, hidden files included."""
        return {str(p.relative_to(self.dir)) for p in self.dir.rglob("*") if p.is_file() or p.is_symlink()
                or p.name.startswith(".solocore-")}

    def plan(self, text, code=0, name="system.toml"):
        """Plans a system given as text into plan.json; returns the plan."""
        self.write(name, text)
        done = self("plan", name, "-o", "plan.json", "--format", "json")
        assert done.code == code, done.err
        return done.json()

    def sim(self, *args, code=0):
        done = self("sim", *args, "--format", "json")
        assert done.code == code, done.err
        return done.json()


@pytest.fixture(scope="session")
def program():
    path = Path(os.environ.get("SOLOCORE", ROOT / "target" / "release" / "solocore"))
    assert path.is_file(), f"{path} is not there: build it, or name it in SOLOCORE"
    return str(path.resolve())


@pytest.fixture
def solocore(program, tmp_path):
    command = Command(program, tmp_path)
    yield command
    command.machine.give()


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory):
    """Compiles C text; `compile_c(text, *flags, isa=...)` gives the program's path. Results are kept for the session."""
    directory, known = tmp_path_factory.mktemp("programs"), {}

    def compile_text(text, *flags, isa="x86_64", name="job"):
        key = (text, flags, isa, name)
        if key not in known:
            compiler = shutil.which(COMPILERS[isa])
            assert compiler, f"{COMPILERS[isa]} is not installed; the project's set-up installs it"
            place = directory / str(len(known))
            place.mkdir()
            (place / "job.c").write_text(text)
            subprocess.run([compiler, "-O1", "-fno-builtin", *flags, "job.c", "-o", name, "-lpthread"], cwd=place, check=True)
            known[key] = place / name
        return known[key]

    return compile_text


def refused(done, *words, codes=(2, 3), one_line=True):
    """The command refused its input: exit code, one line on stderr that has all `words`, nothing on stdout."""
    assert done.code in codes, (done.code, done.err)
    lines = done.err.splitlines()
    errors = [line for line in lines if line.startswith("solocore: ")]
    assert len(errors) == 1, done.err
    if one_line:
        assert len(lines) == 1, done.err
    for word in words:
        assert word in errors[0], f"{word!r} is not in: {errors[0]}"
    assert ";" in errors[0], f"no remedy in: {errors[0]}"
    assert "os error" not in errors[0], errors[0]
    assert not done.out


def interrupt(process, how=signal.SIGINT):
    """Ctrl-C, as a terminal sends it: to the whole process group. Returns exit code and stderr."""
    os.killpg(process.pid, how)
    _, err = process.communicate(timeout=20)
    return process.returncode, err.decode()


def board_like_here(solocore):
    """Writes machine.toml, a board with as many cores as this machine has CPUs; how many."""
    cpus = os.cpu_count()
    if os.uname().machine != "x86_64" or not 2 <= cpus <= 8:
        pytest.skip("the board of this test is an x86-64 with 2 to 8 cores")
    board = solocore("platforms", "core-i5-2500k").out.decode()
    assert board.count("\ncores = 4") == 1
    solocore.write("machine.toml", board.replace("\ncores = 4", f"\ncores = {cpus}"))
    return cpus
