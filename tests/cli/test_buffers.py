"""Buffers in frames of a task (client/c/solocore_buffer.c) and their Python binding, against a reserve that is this test.

The real reserve's side is tested in crates/space/src/lend.rs, and both together in tests/vm/guest/reserve.sh.
"""

import array
import os
import socket
import struct
import subprocess
import sys
import threading

import pytest

from conftest import ROOT

PAGE = 4096
OK, NONE, DENIED, UNKNOWN, FEW, ARGUMENT, REFUSED, SYSTEM = range(8)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    out = tmp_path_factory.mktemp("client")
    subprocess.run(["make", "-s", "-C", ROOT / "client/c", f"OUT={out}"], check=True)
    return out


class Reserve:
    """Gives files in memory, and keeps them to be looked at; `answer` changes what it says."""

    def __init__(self, name, answer=None):
        self.name, self.answer, self.requests, self.files, self.ended = name, answer, [], [], threading.Event()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(f"\0{name}")
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=[connection], daemon=True).start()

    def one(self, connection):
        request = connection.recv(1000)
        word, protocol, size = struct.unpack_from("=4sIQ", request)
        self.requests.append((word, protocol, size, request[16:].rstrip(b"\0"), len(request)))
        answer = self.answer or {}
        if "status" in answer:
            connection.send(struct.pack("=IIQ", answer.get("protocol", 1), answer["status"], 0))
        elif "close" not in answer:
            file = os.memfd_create("buffer")
            os.truncate(file, answer.get("file", size))
            self.files.append(file)
            connection.sendmsg([struct.pack("=IIQ", 1, OK, answer.get("size", size))],
                               [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
            connection.recv(1)
            self.ended.set()
        connection.close()


@pytest.fixture
def reserve(request):
    reserve = Reserve(f"solocore-test-{os.getpid()}-{request.node.name}"[:90], getattr(request, "param", None))
    yield reserve
    reserve.listener.close()


def environment(library, name, **more):
    return {**os.environ, "SOLOCORE_LIBRARY": str(library / "libsolocore.so.0"), "SOLOCORE_RESERVE": name, "PYTHONPATH": str(ROOT / "python"), **more}


def python(library, name, text, **more):
    """What a program that uses the Python binding prints."""
    done = subprocess.run([sys.executable, "-c", "from solocore import buffers\n" + text], env=environment(library, name, **more), text=True,
                          capture_output=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout


ASK = """
try:
    with buffers.Buffer("video", 5000) as buffer: print(len(buffer.memory), buffer.file is not None)
except buffers.Error as e: print(e.status, e)
"""


def test_a_buffer_is_the_reserves_file_until_it_is_closed(library, reserve):
    said = python(library, reserve.name, """
import os
buffer = buffers.Buffer("video", 5000)
print(len(buffer.memory), any(buffer.memory), buffer.memory.readonly, os.fstat(buffer.file).st_size)
buffer.memory[4096:4101] = b"frame"
part = buffer.memory[4096:4101]
buffer.close()
buffer.close()
# A part keeps the mapping.
print(bytes(part), buffer.memory, buffer.file)
del part
# The standard ones, and that of the list itself.
print(len(os.listdir("/proc/self/fd")))
""")
    assert said.splitlines() == ["8192 False False 8192", "b'frame' None None", "4"]
    assert reserve.ended.wait(10)
    assert reserve.requests == [(b"sbuf", 1, 8192, b"video", 80)]
    assert os.pread(reserve.files[0], 5, 4096) == b"frame"


def test_a_program_in_c_and_its_child_have_one_buffer(library, reserve, tmp_path):
    source = tmp_path / "program.c"
    source.write_text(r"""
#include <solocore_buffer.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	struct sc_memory memory;
	int status = sc_buffer(&memory, "video", 1);
	if (status != SC_BUFFER_OK)
		return puts(sc_strbuffer(status)), 1;
	if (fork() == 0) {
		strcpy(memory.at, "from the child");
		sc_buffer_free(&memory);
		_exit(memory.at || memory.bytes || memory.file != -1 || memory.connection != -1);
	}
	wait(&status);
	printf("%d %zu %s\n", status, memory.bytes, (char *)memory.at);
	sc_buffer_free(&memory);
	sc_buffer_free(&memory);
	return 0;
}
""")
    program = tmp_path / "program"
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'client/c'}", source, library / "libsolocore.a", "-o", program, "-lpthread"], check=True)
    done = subprocess.run([program], env=environment(library, reserve.name), text=True, capture_output=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, "0 4096 from the child\n"), done.stderr
    assert reserve.ended.wait(10)


@pytest.mark.parametrize("reserve, said", [
    ({"status": UNKNOWN}, "3 [Errno 3] the reserve's plan has no such task, or gives it no colours and banks; "),
    ({"status": FEW}, "4 [Errno 4] the reserve holds too few frames of this task; "),
    ({"status": NONE}, "1 [Errno 1] no reserve with a plan runs, and this program does not run in colours as that task; "),
    ({"status": OK}, "6 [Errno 6] the reserve does not answer in time, or not as it should; "),
    ({"status": FEW, "protocol": 2}, "6 "),
    # Beyond the end of a file, an access would end the program.
    ({"file": PAGE}, "6 "),
    ({"size": PAGE}, "6 "),
], indirect=["reserve"], ids=str)
def test_what_a_reserve_refuses_is_said(library, reserve, said):
    assert python(library, reserve.name, ASK).startswith(said)


@pytest.mark.parametrize("reserve", [{"close": True}], indirect=True)
def test_a_closed_connection_is_a_denial_unless_root_asks(library, reserve):
    assert python(library, reserve.name, ASK).startswith("6 " if os.geteuid() == 0 else "2 ")


def test_without_a_reserve_there_is_none_but_in_a_program_of_that_task(library):
    nobody = f"solocore-test-{os.getpid()}-nobody"
    assert python(library, nobody, ASK).startswith("1 ")
    # Any library stands for the one that places pages; a static program has its name in LD_PRELOAD, and does not have it.
    loaded = {"LD_PRELOAD": f"{library / 'libsolocore.so.0'}:"}
    for space in ("solocore-space-1/video:/proc/1/fd/9", "solocore-space-1-2/video:/x"):
        assert python(library, nobody, ASK, SOLOCORE_SPACE=space, **loaded) == "8192 False\n"
        for absent in ("", str(library / "none.so")):
            assert python(library, nobody, ASK, SOLOCORE_SPACE=space, LD_PRELOAD=absent).startswith("1 "), absent
    for space in ("solocore-space-1:/proc/1/fd/9", "solocore-space-1/audio:/x", "solocore-space-1/video2:/x", "video", ""):
        assert python(library, nobody, ASK, SOLOCORE_SPACE=space, **loaded).startswith("1 "), space


@pytest.mark.parametrize("reserve", [{"status": UNKNOWN}], indirect=True)
def test_a_reserves_plan_decides_before_the_programs_own_colours(library, reserve):
    loaded = {"SOLOCORE_SPACE": "solocore-space-1/video:/x", "LD_PRELOAD": str(library / "libsolocore.so.0")}
    assert python(library, reserve.name, ASK, **loaded).startswith("3 ")


def test_impossible_buffers(library, reserve):
    said = python(library, reserve.name, r"""
for task, size in [("", 1), ("x" * 64, 1), ("a\0b", 1), ("video", 0), ("video", -1), ("video", 1 << 46), ("video", 1 << 64)]:
    try: buffers.Buffer(task, size)
    except buffers.Error as e: print(e.status)
""")
    assert said.split() == [str(ARGUMENT)] * 7 and reserve.requests == []
