"""Pipes and UNIX sockets of unmodified programs in frames of their colours: the same answers as the kernel's.

tests/vm/streams.c runs plain and under `solocore exec --colors`. The random calls have seeds, so a difference can be tried again.
"""

import os
import subprocess

import pytest
from conftest import ROOT
from test_space_pool import COLOURED, coloured, pages  # noqa: F401

KINDS = ("pipe", "fifo", "socket")


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    program = tmp_path_factory.mktemp("streams") / "streams"
    subprocess.run(["cc", "-O2", ROOT / "tests/vm/streams.c", "-o", program, "-pthread"], check=True)
    return program


@pytest.fixture
def both(coloured, streams, tmp_path):  # noqa: F811
    """Runs tests/vm/streams.c in both ways, and gives what each prints and what solocore says."""
    fifo = {"STREAMS_FIFO": str(tmp_path / "fifo")}
    names = f"pipes,sockets,fifo:{tmp_path}/fifo"

    def run(*arguments, queues=names):
        argv = [streams, *map(str, arguments)]
        plain = subprocess.run(argv, env={**os.environ, **fifo}, capture_output=True, text=True, timeout=60)
        assert plain.returncode == 0, plain.stdout[-500:]
        done = coloured(*COLOURED, "--queues", queues, "--", *argv, timeout=120, **fifo)
        assert done.code == 0, (done.out[-500:], done.err)
        assert pages(coloured)["pages"]["anonymous"]["wrong"] == 0
        return plain.stdout, done.out.decode(), done.err

    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2, 3, 20261128])
def test_random_calls_have_the_answers_of_the_kernels(both, kind, seed):
    """1,500 calls: writes of all kinds and lengths, reads, readiness, copies, children, exec, passed descriptors, ends, pages taken out."""
    plain, own, _ = both("random", kind, seed, 1500)
    assert plain.count("\n") > 3000 and own == plain


@pytest.mark.parametrize("kind", KINDS)
def test_waits_signals_and_kills_are_the_kernels(both, kind):
    """Full ones, a writer that waits and gets a signal, end of file by a kill, a message that outlives its sender, packets, another size."""
    plain, own, said = both("waits", kind)
    assert "\nleft: 5000 \nsame: 0 \n" in plain and own == plain
    if kind == "pipe":
        assert "a program sets its size, so it stays in the kernel's frames" in said, said
        assert "more than 16 short messages, or all pages, are unread" in said, said


@pytest.mark.parametrize("kind", KINDS)
def test_bad_addresses_and_full_sockets_have_the_kernels_answers(both, kind):
    """A copy of memory that is not mapped would end the program; MSG_DONTWAIT must not wait; an empty datagram is a message."""
    plain, own, _ = both("edges", kind)
    assert "it comes: 0" in plain and own == plain


@pytest.mark.parametrize("kind", ["pipe", "fifo"])
@pytest.mark.parametrize("writers", [1, 8, 24])
def test_writers_beside_each_other_send_whole_records(both, kind, writers):
    """One writer in four is killed in the middle; no record is torn, and each writer's come in order."""
    plain, own, _ = both("many", kind, writers)
    assert own == plain == f"complete: {writers - writers // 4}\n"


@pytest.mark.parametrize("kind", KINDS)
def test_threads_beside_each_other_send_whole_messages(both, kind):
    plain, own, _ = both("threads", kind)
    assert own == plain == "of a thread: 5000 \n" * 4 + "torn: 0 \n"


@pytest.mark.parametrize("kind", KINDS)
def test_an_unread_message_lies_in_a_page_of_the_colours(both, kind):
    """The program changes its library's copy before it reads: so what is read lies in this page, whose frame has a colour of the list."""
    plain, own, said = both("frames", kind)
    text = "is this message of a pipe or a socket?` of 45\n"
    assert plain == f"{kind}: 0 of 0 pages wrong, `where {text}"
    assert own == f"{kind}: 0 of 1 pages wrong, `!!!!! {text}", said
    assert both("frames", kind, queues="/other")[1] == plain


def test_a_pipe_from_outside_stays_the_kernels(coloured):  # noqa: F811
    """Standard output is a pipe that no program with the library made: what reads it may do anything with its pages."""
    done = coloured(*COLOURED, "--queues", "pipes", "--", "/bin/sh", "-c", "seq 100000 | cat")
    assert done.code == 0 and done.out.decode() == "".join(f"{i}\n" for i in range(1, 100001))
    assert os.linesep == "\n" and "stays in the kernel" not in done.err, done.err
