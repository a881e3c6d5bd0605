"""The client library (client/c) and its Python binding, against a daemon that is this test: what a client writes where.

The real daemon is tested in crates/linux/tests/lock.rs and tests/vm.
"""

import array
import os
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from conftest import ROOT

PAGE = 4096


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    out = tmp_path_factory.mktemp("client")
    subprocess.run(["make", "-s", "-C", ROOT / "client/c", f"OUT={out}"], check=True)
    return out


class Daemon:
    """Grants pages, and keeps them to be looked at."""

    def __init__(self, path, verdict=0):
        self.path, self.verdict, self.requests, self.pages, self.connections = path, verdict, [], [], []
        self.slot = (0, 0, 0, 0)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            request = connection.recv(100)
            self.requests.append((*struct.unpack_from("IIII", request), request[16:].rstrip(b"\0").decode(), len(request)))
            self.connections.append(connection)
            if self.verdict:
                connection.send(struct.pack("IIQ", self.verdict, 0, 0))
                continue
            page = os.memfd_create("page")
            os.truncate(page, PAGE)
            os.pwrite(page, struct.pack("4Q", *self.slot), 16)
            self.pages.append(page)
            connection.sendmsg([struct.pack("IIQ", 0, len(self.pages), 5_000_000)],
                               [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [page]))])

    def words(self, page=0):
        """Sections begun, sections it is in, jobs begun, is one under way."""
        sections, jobs = struct.unpack("QQ", os.pread(self.pages[page], 16, 0))
        return sections >> 32, sections & 0xffffffff, jobs >> 1, jobs & 1

    def slots(self, page=0):
        """Slots begun, is it in one, number of the next after the one begun last, late ends, longest late start and end."""
        begun, *rest = struct.unpack("5Q", os.pread(self.pages[page], 40, 48))
        return (begun >> 1, begun & 1, *rest)

    def transfer(self, at, page=0):
        return struct.unpack("2Q", os.pread(self.pages[page], 16, 88 + 16 * (at % 64)))

    def gone(self, page=0, timeout=5):
        """Does the client, which may not have connected yet, close its connection?"""
        until = time.monotonic() + timeout
        while len(self.connections) <= page and time.monotonic() < until:
            time.sleep(0.01)
        self.connections[page].settimeout(timeout)
        return self.connections[page].recv(1) == b""


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon(tmp_path / "socket")
    yield daemon
    daemon.listener.close()


def python(library, socket_path, text, timeout=20):
    """Runs a client written in Python, in a process of its own."""
    env = {**os.environ, "SOLOCORE_LIBRARY": str(library / "libsolocore.so.0"), "SOLOCORE_SOCKET": str(socket_path),
           "PYTHONPATH": str(ROOT / "python")}
    return subprocess.Popen([sys.executable, "-c", "import os, sys, threading, time\nfrom solocore import client as solocore\n" + text], env=env, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def finish(client, said):
    out, _ = client.communicate(timeout=20)
    assert (client.returncode, out) == (0, said)


def test_sections_and_jobs_are_words_of_the_page(library, daemon):
    client = python(library, daemon.path, """
def step():
    print("ready", flush=True); sys.stdin.readline()
solocore.attach("video"); step()
with solocore.lock() as outer:
    assert outer.status == solocore.OK
    with solocore.lock(): step()
    step()
step()
@solocore.lock()
def section(depth):
    return depth if depth == 0 else section(depth - 1)
section(3)
with solocore.job(): step()
assert solocore.max_hold() == 0.005
solocore.check(); step()
""")
    expected = [(0, 0, 0, 0), (1, 2, 0, 0), (1, 1, 0, 0), (1, 0, 0, 0), (2, 0, 1, 1), (2, 0, 1, 0)]
    for words in expected:
        assert client.stdout.readline() == "ready\n"
        assert daemon.words() == words
        client.stdin.write("\n")
        client.stdin.flush()
    finish(client, "")
    assert daemon.gone()
    protocol, scope, thread, _, task, size = daemon.requests[0]
    assert (protocol, scope, thread, task, size) == (1, 1, client.pid, "video", 80)


def test_ends_without_beginnings_are_told(library, daemon):
    finish(python(library, daemon.path, """
solocore.attach()
L = solocore._library
assert L.bw_unlock() == solocore.UNMATCHED and L.sc_job_end() == solocore.UNMATCHED
assert L.sc_job_begin() == solocore.OK and L.sc_job_begin() == solocore.UNMATCHED
solocore.detach()
assert L.bw_unlock() == solocore.UNMATCHED
try: solocore.attach("x" * 64)
except solocore.Error as e: print(e.status, e)
"""), "4 [Errno 4] the running plan has no such task or slot, or somebody has it already\n")
    assert daemon.words() == (0, 0, 1, 1)


def test_a_driver_waits_for_its_slots(library, daemon):
    period, length = 50_000_000, 20_000_000
    first = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 1_000_000_000
    daemon.slot = (first, period, length, 0)
    client = python(library, daemon.path, """
import time
def step(word):
    print(word, flush=True); sys.stdin.readline()
solocore.attach_slot("nav/1/device-input")
assert solocore._library.sc_slot_end() == solocore.UNMATCHED; print("no transfer is under way", flush=True)
with solocore.slot() as missed: step(missed)
step("between")
with solocore.slot() as missed:
    time.sleep(0.13)
with solocore.slot() as missed: step(missed)
""")
    said = lambda: client.stdout.readline().rstrip()

    def go_on():
        client.stdin.write("\n")
        client.stdin.flush()

    assert said() == "no transfer is under way"
    # However late it is let in, it begins in a slot; those before are missed.
    number = int(said())
    begun, inside, following, late, start_late, _ = daemon.slots()
    assert (begun, inside, following, late) == (1, 1, number + 1, 0) and start_late < length
    start, end = daemon.transfer(0)
    assert first + number * period + start_late == start and end == 0
    go_on()
    assert said() == "between"
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert daemon.slots()[:2] == (1, 0) and start <= daemon.transfer(0)[1] <= now
    was_late = daemon.slots()[3]
    assert was_late == (daemon.transfer(0)[1] > first + number * period + length)
    go_on()
    missed = int(said())
    begun, inside, following, late, _, end_late = daemon.slots()
    # 130 ms from a beginning: at least two beginnings have passed, and the slot is over by 110 ms or more.
    assert missed >= 2 and (begun, inside, late) == (3, 1, was_late + 1) and end_late >= 110_000_000
    second, third = daemon.transfer(1)[0], daemon.transfer(2)[0]
    assert (third - first) // period - (second - first) // period == missed + 1 == following - 1 - (second - first) // period
    assert (third - first) % period < length
    go_on()
    finish(client, "")
    assert daemon.requests[0][:2] == (1, 3) and daemon.requests[0][4] == "nav/1/device-input"


def test_slots_before_the_first_wait_are_missed(library, daemon):
    period = 20_000_000
    first = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 10 * period
    daemon.slot = (first, period, period, 4)
    finish(python(library, daemon.path, """
solocore.attach_slot("nav/1/device-input")
with solocore.slot() as missed: print(missed >= 6)
"""), "True\n")
    assert daemon.slots()[2] >= 4 + 6 + 1


def test_who_has_no_slot_does_not_wait(library, daemon):
    finish(python(library, daemon.path, """
def status(call):
    try: call()
    except solocore.Error as e: return e.status
def wait():
    with solocore.slot(): pass
print(status(wait))
solocore.attach()
print(status(wait), solocore._library.sc_slot_end())
print(status(lambda: solocore.attach_slot("")), status(lambda: solocore.attach_slot("x" * 64)))
"""), "7\n7 7\n4 4\n")


def test_a_wait_ends_with_the_daemon(library, daemon):
    daemon.slot = (time.clock_gettime_ns(time.CLOCK_MONOTONIC), 20_000_000, 20_000_000, 0)
    client = python(library, daemon.path, """
solocore.attach_slot("nav/1/device-input")
print("attached", flush=True); sys.stdin.readline()
missed = solocore.ctypes.c_ulonglong(77)
print(solocore._library.sc_wait_slot(missed), missed.value, solocore._library.sc_wait_slot(None))
""")
    assert client.stdout.readline() == "attached\n"
    daemon.connections[0].close()
    client.stdin.write("\n")
    finish(client, "1 77 1\n")
    assert daemon.slots()[:2] == (0, 0)


def test_each_thread_has_a_page_and_gives_it_back(library, daemon):
    finish(python(library, daemon.path, """
def work(): solocore.lock().__enter__()
work()
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
# A thread of Python is joined before the system's has ended.
while len(os.listdir("/proc/self/task")) > 1: time.sleep(0.01)
print("joined", flush=True); sys.stdin.readline()
"""), "joined\n")
    assert len(daemon.pages) == 4 and len({r[2] for r in daemon.requests}) == 4
    assert all(daemon.gone(page) for page in range(4))
    # A thread that ends leaves the section it was in; the process that ends does not have to.
    assert [daemon.words(page)[1] for page in range(4)] == [1, 0, 0, 0]


def test_a_child_is_a_client_of_its_own(library, daemon):
    client = python(library, daemon.path, """
solocore.lock().__enter__()
child = os.fork()
if child == 0:
    try: solocore.check()
    except solocore.Error as e: assert e.status == solocore.NO_DAEMON
    with solocore.lock(): pass
    sys.stdin.readline()
    os._exit(0)
print("forked", flush=True)
os._exit(0)
""")
    assert client.stdout.readline() == "forked\n"
    # The parent is gone; its child, which still lives, does not keep its connection open.
    assert daemon.gone(0)
    assert daemon.words(0)[:2] == (1, 1), "the child does not write its parent's page"
    finish(client, "")
    assert daemon.words(1)[:2] == (1, 0)


def test_a_connection_ends_with_execve_but_for_whole_programs(library, daemon):
    client = python(library, daemon.path, """
solocore.attach(); solocore.hold_program()
os.execv("/bin/cat", ["cat"])
""")
    assert daemon.gone(0), "the thread's"
    assert daemon.requests[1][1] == 2
    assert daemon.words(1)[:2] == (1, 1)
    daemon.connections[1].settimeout(0.1)
    with pytest.raises(TimeoutError):
        daemon.connections[1].recv(1)
    finish(client, "")
    assert daemon.gone(1)


@pytest.mark.parametrize("verdict,status", [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1), (77, 5)])
def test_refusals_have_names(library, tmp_path, verdict, status):
    daemon = Daemon(tmp_path / "socket", verdict)
    finish(python(library, daemon.path, """
try: solocore.attach()
except solocore.Error as e: print(e.status)
print(solocore._library.bw_lock())
"""), f"{status}\n{status}\n")
    assert len(daemon.requests) == 1, "a failed attempt is not repeated with each section"


def test_where_levels_are_scheduled_a_yield_ends_a_job(library, tmp_path):
    """Counted by the C library itself: the binding cannot tell a yield from nothing."""
    counter = tmp_path / "counter.c"
    counter.write_text("#include <sched.h>\nint yields;\nint sched_yield(void) { yields++; return 0; }\n"
                       "int counted(void) { return yields; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "counter.so", counter], check=True)
    daemon = Daemon(tmp_path / "socket", 6)
    finish(python(library, daemon.path, f"""
import ctypes
counter = ctypes.CDLL({str(tmp_path / "counter.so")!r}, mode=ctypes.RTLD_GLOBAL)
if "LD_PRELOAD" not in os.environ:
    os.environ["LD_PRELOAD"] = {str(tmp_path / "counter.so")!r}
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
solocore.attach("pilot")
before = counter.counted()
for _ in range(3):
    with solocore.job(): pass
L = solocore._library
assert L.sc_job_end() == solocore.OK, "a job begins with its release"
print(counter.counted() - before)
solocore.check()
# There is no page: neither a lock nor slots.
assert L.bw_lock() == solocore.NO_DAEMON and L.sc_hold_program() == solocore.NO_DAEMON
assert L.sc_wait_slot(None) != solocore.OK
if os.fork() == 0:
    # A child is attached by its first call.
    os._exit(L.sc_job_end())
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
solocore.detach()
assert L.sc_check() == solocore.NO_DAEMON
"""), "4\n")
    assert daemon.gone()
    assert [r[1:2] + r[4:5] for r in daemon.requests] == [(1, "pilot"), (2, ""), (1, "")]


def test_without_a_daemon_nothing_happens(library, tmp_path):
    finish(python(library, tmp_path / "nobody", """
with solocore.lock() as lock, solocore.job(): print(lock.status)
try: solocore.attach()
except solocore.Error as e: print(e)
"""), "1\n[Errno 1] no solocore serves clients here (solocore run, with a plan that has some: bwlock, dynamic, transfers, levels)\n")


def test_the_daemons_end_is_noticed(library, daemon):
    client = python(library, daemon.path, """
solocore.attach(); solocore.check(); print("attached", flush=True); sys.stdin.readline()
try: solocore.check()
except solocore.Error as e: print(e.status)
""")
    assert client.stdout.readline() == "attached\n"
    daemon.connections[0].close()
    client.stdin.write("\n")
    finish(client, "1\n")


def test_the_header_is_c_and_cplusplus(library, tmp_path):
    text = '#include <solocore.h>\nint main(void) { return bw_lock() != SC_NO_DAEMON || bw_unlock() != SC_NO_DAEMON; }\n'
    env = {**os.environ, "SOLOCORE_SOCKET": "/nonexistent"}
    for compiler, suffix in (("gcc", "c"), ("g++", "cc")):
        source, program = tmp_path / f"a.{suffix}", tmp_path / suffix
        source.write_text(text)
        subprocess.run([compiler, "-Wall", "-Werror", f"-I{ROOT}/client/c", "-o", program, source,
                        library / "libsolocore.a", "-pthread"], check=True)
        assert subprocess.run([program], env=env).returncode == 0


def test_installed_files_find_each_other(library, tmp_path):
    subprocess.run(["make", "-s", "-C", ROOT / "client/c", "install", f"OUT={tmp_path / 'build'}", f"PREFIX={tmp_path}/usr"],
                   check=True)
    env = {**os.environ, "PKG_CONFIG_PATH": str(tmp_path / "usr/lib/pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "solocore"], env=env, check=True, capture_output=True,
                           text=True).stdout.split()
    (tmp_path / "a.c").write_text("#include <solocore.h>\nint main(void) { return sc_max_hold_ns() != 0; }\n")
    subprocess.run(["gcc", "-o", tmp_path / "a", tmp_path / "a.c", *flags, f"-Wl,-rpath,{tmp_path}/usr/lib"], check=True)
    subprocess.run([tmp_path / "a"], check=True)


def test_the_old_names_of_the_modules_work_with_a_warning(library):
    text = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import solocore
    with solocore.lock() as lock: pass
    import solocore_ipc
from solocore import client, queues
assert [w.category for w in seen] == [DeprecationWarning] * 2 and "solocore.client.lock" in str(seen[0].message), seen
assert solocore_ipc.size(1, 8, 64) == queues.size(1, 8, 64) and lock.status == client.NO_DAEMON
try: client.attach("video")
except solocore.Error as error: assert isinstance(error, OSError) and error.status == client.NO_DAEMON and str(error)
print("ok")
"""
    env = {**os.environ, "SOLOCORE_LIBRARY": str(library / "libsolocore.so.0"), "PYTHONPATH": str(ROOT / "python"),
           "SOLOCORE_SOCKET": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True)
    assert done.stdout == "ok\n", done.stderr
