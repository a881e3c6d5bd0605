"""What tests/board/jump.c did while a scheduler of VCPUs ran it: writes in the foreground, and writes at all.

A program cannot see which of its time is foreground. Its marks have times of the monotonic clock, and so has the trace of `vcpu serve --sched-trace`.
"""

import bisect
import struct

# Calls of the policy whose answer says which VCPU a core runs, and how (crates/model/src/sched_trace.rs).
CALLS = {f"vcpu-{call}" for call in ("remove", "wake", "block", "leave", "tick", "allow", "resume")}
FOREGROUND = 1


def marks(path):
    """(time in ns, writes so far), in order; the file is a ring."""
    return sorted(mark for mark in struct.iter_unpack("<QQ", path.read_bytes()) if mark[0])


def writes_at(of, time):
    """Writes until a time, on the line between two marks."""
    at = min(max(bisect.bisect(of, (time, 0)), 1), len(of) - 1)
    (t0, w0), (t1, w1) = of[at - 1], of[at]
    return w0 + (w1 - w0) * (time - t0) / (t1 - t0)


def foreground(trace, core, vcpu):
    """Spans of time in which a core ran a VCPU with budget."""
    spans, since = [], None
    for line in trace.read_text().splitlines()[2:]:
        time, cpu, event, _, answer, _ = line.split(",")
        if int(cpu) != core or (event not in CALLS and event != "vcpu-pause"):
            continue
        answer = int(answer)
        runs = event in CALLS and (answer & 0xFFFFFFFF, answer >> 32) == (vcpu, FOREGROUND)
        if runs and since is None:
            since = int(time)
        elif not runs and since is not None:
            spans.append((since, int(time)))
            since = None
    return spans


def progress(files, trace, core, vcpu, ns):
    """Writes per us of each program in its last `ns`, and those of the last program per us of its foreground."""
    of = [marks(path) for path in files]
    end = min(m[-1][0] for m in of)
    begin = end - ns
    assert all(m[0][0] <= begin for m in of), "the marks do not go back so far"
    rates = [(writes_at(m, end) - writes_at(m, begin)) / (ns / 1000) for m in of]
    spans = [(max(a, begin), min(b, end)) for a, b in foreground(trace, core, vcpu) if b > begin and a < end]
    time = sum(b - a for a, b in spans)
    return rates, sum(writes_at(of[-1], b) - writes_at(of[-1], a) for a, b in spans) / (time / 1000)
