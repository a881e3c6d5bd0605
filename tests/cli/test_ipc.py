"""Message queues in shared memory (client/c/solocore_ipc.c): sanitizers, every interleaving on a weak memory, kills, and another architecture.

The sanitizers' and the interleavings' checks are also run on a queue with a mistake, and must see it.
"""

import shutil
import subprocess

import pytest
from conftest import ROOT

CLIENT = ROOT / "client" / "c"
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g"]
MODEL = ["-I.", '-DSC_IPC_MEMORY="tests/model_memory.h"']


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    out = tmp_path_factory.mktemp("ipc")

    def make(test, *flags, compiler="gcc", change=(), of="solocore_ipc.c"):
        """Compiles a test with the queue, in which texts may be replaced; the program's path."""
        place = out / str(len(list(out.iterdir())))
        shutil.copytree(CLIENT, place)
        source = place / of
        text = source.read_text()
        for old, new in change:
            assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
            text = text.replace(old, new)
        source.write_text(text)
        program = place / "program"
        subprocess.run([compiler, *FLAGS, *flags, f"tests/{test}.c", "solocore_ipc.c", "-o", program, "-lpthread"], cwd=place, check=True)
        return program

    return make


def run(program, *args, timeout=300):
    return subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=timeout)


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_between_threads_under_sanitizers(build, sanitizer):
    done = run(build("queue", "-O1", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_the_thread_sanitizer_sees_what_is_not_ordered(build):
    program = build("queue", "-O1", "-fsanitize=thread", of="solocore_ipc_memory.h",
                    change=[("__atomic_store_n(counter, value, __ATOMIC_RELEASE)", "__atomic_store_n(counter, value, __ATOMIC_RELAXED)")])
    done = run(program)
    assert done.returncode != 0 and "data race" in done.stderr


def test_on_another_architecture(build):
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    assert emulator and compiler, "the project's set-up installs both"
    program = build("queue", "-O2", "-static", compiler=compiler)
    done = run(emulator, program)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.parametrize("slots, messages, kills", [(1, 3, 1), (2, 3, 1), (2, 3, 2), (4, 4, 0)])
def test_every_interleaving(build, slots, messages, kills):
    done = run(build("interleave", "-O2", *MODEL), slots, messages, kills)
    assert done.returncode == 0 and done.stdout.startswith("ok: "), done.stderr


SEND = "\tslot_write(slot_of(q, q->lane, published), data, length, q->place == SC_PLACE_BYPASS);\n"
PUBLISH = "\tcounter_store(&lane->published, published + 1);\n"


@pytest.mark.parametrize("change, flags", [
    ([(SEND + PUBLISH, PUBLISH + SEND)], ()),
    ([("published - q->other >= q->slots", "published - q->other > q->slots")], ()),
    ([("\tslot_read(slot, data, bytes,", "\tcounter_store(&lane->taken, taken + 1);\n\tslot_read(slot, data, bytes,")], ()),
    ([], ("-DMUTANT_UNORDERED",)),
], ids=["published before it is written", "one message too many", "taken before it is read", "publishing overtakes"])
def test_the_interleavings_see_mistakes(build, change, flags):
    done = run(build("interleave", "-O2", *MODEL, *flags, change=change), 2, 4, 0)
    assert done.returncode == 1 and "message" in done.stderr, (done.stdout, done.stderr)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_kills_lose_no_committed_message(build, place):
    done = run(build("crash", "-O2"), 300, place + 1, place)
    assert done.returncode == 0 and done.stdout.startswith("ok: "), (done.stdout, done.stderr)


def test_the_library_has_it(tmp_path):
    subprocess.run(["make", "-s", "-C", CLIENT, f"OUT={tmp_path}", "install", f"DESTDIR={tmp_path}/d", "PREFIX=/usr"], check=True)
    assert (tmp_path / "d/usr/include/solocore_ipc.h").is_file()
    names = subprocess.run(["nm", "-D", "--defined-only", tmp_path / "libsolocore.so.0"], check=True, capture_output=True, text=True).stdout
    assert "sc_queue_send" in names and "bw_lock" in names


PYTHON = """
import mmap, os
from solocore import queues as ipc
shape = dict(lanes=2, slots=4, message_bytes=5000)
memory = mmap.mmap(-1, ipc.size(**shape))
ipc.create(memory, **shape)
if os.fork() == 0:
    sender = ipc.Sender(memory)
    for n in range(4):
        sender.send(bytes([n]) * (n * 1000))
    os._exit(0)
os.wait()
with ipc.Receiver(memory) as receiver, ipc.Sender(memory) as sender:
    assert sender.count() == 4, "it continues where the child stopped"
    assert receiver.peek() == b"" and receiver.receive() == b""
    assert [receiver.receive() for n in range(1, 4)] == [bytes([n]) * (n * 1000) for n in range(1, 4)]
    assert receiver.receive() is None and receiver.count() == 4
    for wrong in (lambda: sender.send(b"x" * 5001), lambda: receiver.done(), lambda: ipc.Receiver(memory), lambda: ipc.size(1, 3, 1)):
        try:
            wrong()
        except ipc.Error as e:
            assert e.status and str(e)
        else:
            raise AssertionError("it is refused")
print("ok")
"""


def test_the_python_binding(tmp_path):
    import os
    import sys
    subprocess.run(["make", "-s", "-C", CLIENT, f"OUT={tmp_path}"], check=True)
    done = subprocess.run([sys.executable, "-c", PYTHON], capture_output=True, text=True, timeout=30,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "SOLOCORE_LIBRARY": str(tmp_path / "libsolocore.so.0")})
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
