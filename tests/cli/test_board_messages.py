"""Buffers and messages on the virtual board: MC2's Table 1 cell by cell, and its Fig. 8 (docs/board-figures.md).

The board core-i5-2500k has 32 cache colours, and four of them are one bank of its memory: colours 0-7 are the frames of core 0 for levels A and B,
8-11 and 12-15 those of two other cores, and 16-31 those of level C. One guest runs all parts of a figure, with the memory model on only while times
are taken. `pytest -s` prints the figures. Needs what test_board.py needs.
"""

import statistics

import pytest
from conftest import ROOT
from test_board import LIMIT, fetched, in_guest, often  # noqa: F401

INCLUDES = [f"-I{ROOT / 'client/c'}"]
QUEUES = ['-DSC_IPC_MEMORY="flushed.h"', str(ROOT / "client/c/solocore_ipc.c")]

# A line for each task beside each rival: the rival, the task's own frames, its buffer's, and four times.
TABLE = """
echo 0 >/proc/sys/vm/compact_unevictable_allowed
task() {
	times=$(solocore exec --colors $2 -- ./interference 512 $2 400 $3 0 3 2>>/out/notes) || exit 9
	echo "$1 $2 $3 $times"
}
hog() {
	solocore exec --colors $1 -- ./hog $3 $2 2>>/out/hogs & rivals="$rivals $!"
}
device() {
	./device 400 $1 $2 >>/out/devices & rivals="$rivals $!"
}
tasks() {
	task $1 0-7 0-7
	task $1 0-7 16-31
	task $1 16-31 16-31
}
beside() {
	until [ "$(pidof hog device | wc -w)" = $2 ]; do sleep 0.02; done
	sleep 0.3
	tasks $1
	[ "$(pidof hog device | wc -w)" = $2 ] || exit 8
	killall hog device 2>/dev/null
	wait $rivals
	rivals=
}
solocore board ask model-off
tasks alone
for cpu in 1 2 3; do hog 16-31 $cpu 8192; done
beside c 3
hog 8-11 1 2048
hog 12-15 2 2048
beside ab 2
hog 16-31 0 8192
beside same 1
for colours in 0-7 8-11 12-15 16-31; do
	for cpu in 1 2 3; do device $colours $cpu; done
	beside dma-$colours 3
done
"""
# Tasks: frames of their own memory, and of their buffer.
AB, MIXED, C = ("0-7", "0-7"), ("0-7", "16-31"), ("16-31", "16-31")


def both(task, rival):
    return [(task, rival, "own"), (task, rival, "buffer")]


# MC2's Table 1. For each row the cells of A or B with a buffer in A/B, of A or B with one in C, and of C: the paper's word, what must be slower, and
# what must not. A star: the buffer only. A dagger: tasks of level C only.
CELLS = {
    "same CPU, causes DMA-sourced": [
        ("Yes", [(AB, "dma-0-7", "own")], []),
        ("Yes†", [(C, "dma-16-31", "own")], [(AB, "dma-16-31", "own")]),
        ("Yes", [(C, "dma-16-31", "own")], [])],
    "same CPU, experiences DMA-sourced": [
        ("Yes", both(AB, "dma-0-7"), []),
        ("Yes*", [(MIXED, "dma-16-31", "buffer")], [(MIXED, "dma-16-31", "own")]),
        ("Yes", both(C, "dma-16-31"), [])],
    "same CPU, causes or experiences CPU-sourced": [("No", [], both(AB, "same")), ("No", [], both(MIXED, "same")), ("No", [], both(C, "same"))],
    "other CPUs, causes DMA-sourced": [
        ("No", [], [(AB, "dma-8-11", "own"), (C, "dma-8-11", "own")]),
        ("Yes†", [(C, "dma-16-31", "own")], [(AB, "dma-16-31", "own")]),
        ("Yes", [(C, "dma-16-31", "own")], [])],
    "other CPUs, experiences DMA-sourced": [
        ("No", [], both(AB, "dma-8-11") + both(AB, "dma-16-31")),
        ("Yes*", [(MIXED, "dma-16-31", "buffer")], [(MIXED, "dma-16-31", "own")]),
        ("Yes", both(C, "dma-16-31"), [])],
    "other CPUs, causes CPU-sourced": [
        ("No", [], both(AB, "ab") + both(C, "ab")),
        ("Yes", [(MIXED, "c", "buffer"), (C, "c", "own")], []),
        ("Yes", both(C, "c"), [])],
    "other CPUs, experiences CPU-sourced": [
        ("No", [], both(AB, "ab") + both(AB, "c")),
        ("Yes*", [(MIXED, "c", "buffer")], [(MIXED, "c", "own")]),
        ("Yes", both(C, "c"), [])],
}

# A line for each place and size: alone or beside the hogs, the place, the bytes, and longest and median times to send and to receive.
MESSAGES = """
echo 0 >/proc/sys/vm/compact_unevictable_allowed
echo 65536 >/proc/sys/kernel/msgmnb
send() {
	solocore exec --colors 0-7 -- ./messages 0-7 0 5 sbp=16-31 c=16-31 ce=0-7 cl=8-15 sysv pipe >/out/$1 2>>/out/notes || exit 9
	solocore exec --colors 0-7 --queues all -- ./messages 0-7 0 5 sysv >/out/own 2>>/out/notes || exit 9
	sed "s/^/$1 /" /out/$1
	sed "s/^/$1 own-/" /out/own
}
solocore board ask model-off
send alone
for cpu in 1 2 3; do solocore exec --colors 16-31 -- ./hog 8192 $cpu 2>>/out/hogs & done
until [ "$(pidof hog | wc -w)" = 3 ]; do sleep 0.02; done
sleep 0.3
send beside
[ "$(pidof hog | wc -w)" = 3 ] || exit 8
killall hog
"""
SIZES = [64 << k for k in range(8)]
PLACES = ("sbp", "c", "ce", "cl", "sysv", "own-sysv", "pipe")


@pytest.fixture
def guest(solocore, compile_c, fetched):  # noqa: F811
    """Runs a script in a guest, with programs of tests/board; gives the lines of its output, each cut into words."""

    def run(script, programs):
        done = in_guest(solocore, compile_c, script, programs, "--memory", "2G", "--out", "out", timeout=4 * LIMIT)
        notes = [file.read_text() for file in (solocore.dir / "out").glob("*") if file.name in ("notes", "hogs")]
        assert done.code == 0, "\n".join([done.err, *notes])
        print(done.out.decode(), done.err)
        return [line.split() for line in done.out.decode().splitlines()]

    return run


def ratio(times, task, rival, part):
    """How much slower a task is beside a rival. Against the caches' interference: its steps in the caches, and alone. Against the banks': its steps from
    memory, and beside the same traffic in a bank of nobody (colours 12-15)."""
    column = ("own", "buffer").index(part)
    if rival.startswith("dma"):
        return times[rival, *task][2 + column] / times["dma-12-15", *task][2 + column]
    return times[rival, *task][column] / times["alone", *task][column]


@often
def test_interference_is_where_the_table_of_mc2_has_it(guest):
    """It fails if the hogs or the devices lie in other colours than they should, or if colours do not separate caches and banks."""
    found = guest(TABLE, {"interference": INCLUDES, "device": INCLUDES, "hog": []})
    times = {tuple(words[:3]): [float(ns) for ns in words[3:]] for words in found}
    assert len(times) == 24, found
    for row, cells in CELLS.items():
        for column, (paper, slower, spared) in zip(("A/B in A/B", "A/B in C", "C in C"), cells):
            hit = [(*cell, ratio(times, *cell)) for cell in slower]
            rest = [(*cell, ratio(times, *cell)) for cell in spared]
            print(f"{row} | {column} | {paper} | {[f'{r:.2f}' for *_, r in hit]} | {[f'{r:.2f}' for *_, r in rest]}")
            # Traffic in the bank costs less than lines that the cache has lost.
            assert all(r >= (1.1 if rival.startswith("dma") else 2) for _, rival, _, r in hit), (row, column, hit)
            assert all(0.95 <= r <= 1.05 for *_, r in rest), (row, column, rest)


@often
def test_messages_cost_what_their_place_makes_them_cost(guest):
    """It fails if a queue of the core's own frames meets the hogs, if one of level C's does not, or if bypassing does not go to memory."""
    found = guest(MESSAGES, {"messages": INCLUDES + QUEUES, "hog": []})
    times = {(when, place.split("=")[0], int(size)): [float(ns) for ns in rest] for when, place, size, *rest in found}
    assert len(times) == 2 * 7 * len(SIZES), found
    for size in SIZES:
        print(size, *(f"{place} {times['beside', place, size][1]:.0f}/{times['beside', place, size][3]:.0f}" for place in PLACES))
    for way in (1, 3):  # to send, to receive
        # Of the queues in frames that a plan chooses, bypassing ones are the slowest, and locked ones the quickest. The program rests before it reads the
        # clock, so the board's estimates are no part of a time, of any size. A batch of 100 messages of 64 B without a rest had an error of 2 us.
        for size in SIZES:
            sbp, ce, cl = (times["beside", place, size][way] for place in ("sbp", "ce", "cl"))
            assert cl <= 1.2 * ce and ce <= sbp / 2, (size, way, sbp, ce, cl)
        # All sizes but those that do not fit into the core's share beside its other memory.
        slower = {place: statistics.median(times["beside", place, size][way] / times["alone", place, size][way] for size in SIZES[:6]) for place in PLACES}
        print(way, slower)
        assert all(slower[place] <= 1.05 for place in ("ce", "cl")), slower
        assert slower["sbp"] >= 1.2, slower
        # The messages sent before lie in the core's own second level of 256 KiB: to receive up to 2 KiB, a queue of level C does not meet the hogs.
        sizes = SIZES[:6] if way == 1 else SIZES[7:]
        met = [times["beside", "c", size][way] / times["alone", "c", size][way] for size in sizes]
        assert statistics.median(met) >= 1.2, met
