"""`solocore top` on a terminal and into a pipe, beside a run on the machine that runs the tests, where this is allowed."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pyte
import pytest
from conftest import refused
from test_run import LEAVE, planned, until_regulating  # noqa: F401 (a fixture)


@pytest.fixture
def running(planned):
    """A run of the plan, under way."""
    process = planned.start("run", "plan.json", *LEAVE, "--command", "video=/bin/true", "--duration", "60 s")
    until_regulating(process)
    planned.daemon = process
    yield planned
    process.send_signal(signal.SIGTERM)
    process.wait(20)


class Screen:
    """The command on a terminal of 120 columns and 30 lines."""

    def __init__(self, solocore, *options, term="xterm"):
        self.output, self.picture = b"", pyte.Screen(120, 30)
        self.stream = pyte.ByteStream(self.picture)
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
            os.execve(solocore.program, [solocore.program, "top", *options], {**os.environ, **solocore.env, "TERM": term})

    def step(self):
        """Takes output; False once the other end is closed."""
        if select.select([self.master], [], [], 0.1)[0]:
            try:
                new = os.read(self.master, 65536)
            except OSError:
                return False
            self.output += new
            self.stream.feed(new)
        return True

    def shows(self, *words, limit=20):
        """Waits until all words stand on the screen, and gives it."""
        end = time.monotonic() + limit
        while self.step() and time.monotonic() < end:
            text = "\n".join(self.picture.display)
            if all(word in text for word in words):
                return text
        raise AssertionError((words, self.picture.display))

    def press(self, keys):
        os.write(self.master, keys)

    def code(self):
        while self.step():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


LEAVES = b"\x1b[?1049l"


def test_a_terminal_gets_bars_and_keys(running):
    screen = Screen(running, "--every", "200 ms")
    first = screen.shows("over 0", "video").splitlines()
    assert re.search(r"CPU 0 \[.*│.*\]", first[2]), "a bar with its budget"
    assert re.search(r"video +0 .* 100\.000 +0 \[.*│.*\]", "\n".join(first)), "a task with its deadline"
    screen.press(b"?")
    screen.shows("hold the picture")
    screen.press(b"?\t")
    screen.shows("lines 1 to", "NOBODY keeps it", "throttled %")
    screen.press(b"p")
    screen.shows("held")
    screen.press(b"q")
    assert screen.code() == 0
    assert LEAVES in screen.output, "the terminal is put back"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_puts_the_terminal_back(running, how):
    screen = Screen(running)
    screen.shows("CPU 0")
    os.kill(screen.pid, how)
    assert screen.code() == 0, "to watch has no other end"
    assert LEAVES in screen.output


@pytest.mark.parametrize("hangup", [signal.SIG_DFL, signal.SIG_IGN])
def test_it_ends_with_its_terminal(running, hangup):
    before = signal.signal(signal.SIGHUP, hangup)
    screen = Screen(running, "--every", "100 ms")
    signal.signal(signal.SIGHUP, before)
    screen.shows("CPU 0")
    os.close(screen.master)
    end = time.monotonic() + 20
    while os.waitpid(screen.pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(screen.pid, signal.SIGKILL)
            raise AssertionError("it goes on without a terminal")
        time.sleep(0.05)


def test_the_end_of_the_run_is_said_on_the_terminal_as_it_was(planned, running):
    screen = Screen(running, "--every", "100 ms")
    screen.shows("CPU 0")
    running.daemon.send_signal(signal.SIGTERM)
    assert screen.code() == 3
    after = screen.output[screen.output.index(LEAVES):]
    assert b"no solocore regulates this machine" in after


def test_pipes_counts_and_dumb_terminals_get_tables(running):
    done = running("top", "--every", "100 ms", "--count", "2")
    assert done.code == 0 and done.out.decode().count("throttled %") == 2 and b"\x1b" not in done.out
    for options, term in [(("--count", "1"), "xterm"), (("--plain", "--count", "1"), "xterm"), (("--plain",), "xterm"), ((), "dumb")]:
        screen = Screen(running, "--every", "100 ms", *options, term=term)
        screen.shows("throttled %")
        if "--count" not in options:
            os.kill(screen.pid, signal.SIGINT)
        screen.code()
        assert b"\x1b[" not in screen.output, (options, term)


def test_a_look_does_not_grow_with_the_run(running):
    """Fails when a look shows more of a run the longer it runs: its text would stay in the daemon's memory."""
    until = time.monotonic() + 60
    while True:
        done = running("top", "--format", "json")
        assert done.code == 0, done.err
        seen = json.loads(done.out)
        # The run has 200 spans of 10 ms by then.
        if seen["duration_ns"] > 2_000_000_000:
            break
        assert time.monotonic() < until, seen["duration_ns"]
        time.sleep(0.2)
    for core in seen["cores"]:
        assert 2 <= len(core["series"]) <= 75, core
        assert seen["span_ns"] * (len(core["series"]) + 1) > 1_000_000_000, "the spans begin with the run"


def test_a_closed_pipe_ends_it(running):
    command = '"$0" top --every "20 ms" | head -n 1; exit "${PIPESTATUS[0]}"'
    done = subprocess.run(["bash", "-c", command, running.program], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and not done.stderr


def test_without_a_run(solocore):
    """In a /run of its own: tests beside this one may regulate the machine."""
    refused(solocore("top", "--every", "1 us"), "--every 1 us", "10 ms", codes=(2,))
    alone = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$0" top', solocore.program]
    done = subprocess.run(alone, capture_output=True, text=True)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 3 and "no solocore regulates" in done.stderr and "solocore run PLAN" in done.stderr
