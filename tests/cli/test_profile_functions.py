"""Functions of a profile: inlined ones, their callers, the time within them, and the line that locks the best one.

Programs are compiled here, without sibling calls (-O1), so that a caller is on the stack while its callee runs. Not
covered: callers after a longjmp, and programs that switch between stacks, which the profile does not know either.
"""

import re

import pytest
from test_profile import BUILDS, check_invariants, profile

LINE = 64
# 1 MB and 3 MB are copied, and 4 MB walked by an inlined function; each line is touched once.
CALLS = r"""
#include <string.h>
static char from[4 << 20], to[4 << 20];
static volatile char walked[4 << 20];
static inline __attribute__((always_inline)) void touch(volatile char *area) { for (int i = 0; i < 4 << 20; i += 64) area[i]; }
__attribute__((noinline)) int copy_some(void) { return *(char *)memcpy(to, from, 1 << 20); }
__attribute__((noinline)) int copy_much(void) { return *(char *)memcpy(to + (1 << 20), from + (1 << 20), 3 << 20); }
__attribute__((noinline)) int walk(void) { touch(walked); return 0; }
int main(void) { return copy_some() + copy_much() + walk(); }
"""
RECURSION = r"""
static volatile char area[4 << 20];
__attribute__((noinline)) int deep(int n) {
    if (n > 0) return deep(n - 1) + 1;
    for (int i = 0; i < 4 << 20; i += 64) area[i];
    return 0;
}
int main(void) { return deep(30) + deep(20) + deep(10) - 60; }
"""
# The page of the caller is gone when the first call returns. So a handler runs between the return and its target.
HIDDEN = r"""
#include <signal.h>
#include <sys/mman.h>
static char area[1000 * 64];
static void *page;
static int hidden;
__attribute__((noinline)) void again(int s) { mprotect(page, 4096, PROT_READ | PROT_EXEC); }
__attribute__((noinline)) int leaf(int n) {
    if (!hidden++) mprotect(page, 4096, PROT_NONE);
    return ((volatile char *)area)[64 * n];
}
__attribute__((noinline, aligned(4096), section("alone"))) int caller(void) {
    int sum = 0;
    for (int i = 0; i < 1000; i++) sum += leaf(i);
    return sum;
}
int main(void) { page = (void *)caller; signal(SIGSEGV, again); return caller(); }
"""
CHILDREN = r"""
#include <sys/wait.h>
#include <unistd.h>
static volatile char area[1 << 20];
__attribute__((noinline)) void walk(void) { for (int k = 0; k < 1 << 20; k += 64) area[k]; }
int main(void) {
    for (int i = 0; i < 3; i++) {
        if (fork() == 0) { walk(); _exit(0); }
        wait(0);
    }
    return 0;
}
"""


def named(p, name, **more):
    found = [f for f in p["functions"] if f["name"] == name and all(f.get(k) == v for k, v in more.items())]
    assert len(found) == 1, (name, [f["name"] for f in p["functions"]])
    return found[0]


def copies(p):
    """Misses of the function that copies, whatever its name is, by the two outermost of its callers."""
    for f in p["functions"]:
        chains = {}
        for c in f.get("callers", []):
            pair = tuple(c["functions"][:2])
            chains[pair] = chains.get(pair, 0) + c["llc_misses"]
        if ("main", "copy_some") in chains:
            return f, chains
    raise AssertionError([(f["name"], f.get("callers")) for f in p["functions"][:5]])


def test_inlined_functions_and_callers_are_named(solocore, compile_c):
    p, done = profile(solocore, compile_c(CALLS, "-g"))
    check_invariants(p)
    lines = (4 << 20) // LINE
    touch = named(p, "touch")
    assert touch["inlined_into"] == "walk" and touch["file"] == "job"
    assert touch["llc_misses"] == pytest.approx(lines, rel=0.02)
    assert [c["functions"] for c in touch["callers"]] == [["main", "walk"]]
    assert "lock" not in touch and touch["no_lock"] == "touch is inlined into walk; mark it noinline, or lock walk"
    copy, chains = copies(p)
    assert chains["main", "copy_much"] == pytest.approx(3 * chains["main", "copy_some"], rel=0.05)
    assert sum(chains.values()) == pytest.approx(copy["llc_misses"], rel=0.05)
    assert "lock" not in copy and "not in the program; lock a caller" in copy["no_lock"]
    # Misses of the callees belong to the calls, not to the function's own instructions.
    much = named(p, "copy_much")
    assert much["llc_misses"] < 100 and much["lock"] == "function:copy_much"
    assert much["calls"]["llc_misses"] == pytest.approx(2 * 3 * (1 << 20) // LINE, rel=0.05)
    assert "called by copy_much 75 %, copy_some 25 %" in done.err
    assert "touch, inlined into walk (job)" in done.err
    assert "no lock: touch is inlined into walk" in done.err


def test_the_time_of_a_lock_is_that_of_the_calls(solocore, compile_c):
    p, done = profile(solocore, compile_c(CALLS, "-g"))
    held = {name: named(p, name)["calls"] for name in ("main", "copy_some", "copy_much", "walk")}
    for calls in held.values():
        assert calls["calls"] == 1 and 0 < calls["longest_ns"] == calls["held_ns"]
    inside = sum(held[name]["held_ns"] for name in ("copy_some", "copy_much", "walk"))
    assert held["main"]["held_ns"] == pytest.approx(inside, rel=0.01) and held["main"]["held_ns"] >= inside
    # Each miss takes at least a row conflict of the board (more than 20 ns).
    assert held["walk"]["held_ns"] > 20 * held["walk"]["llc_misses"]
    line = next(line for line in done.err.splitlines() if "lock = [" in line)
    assert line.strip().startswith('lock = ["function:copy_much"]   # ')
    assert f"{held['copy_much']['held_ns'] / 1e6:.3f} ms" in line


@pytest.mark.parametrize("build", ["aarch64 static", "powerpc static", "static"])
def test_callers_are_known_on_other_instruction_sets(solocore, compile_c, build):
    isa, flags = BUILDS[build]
    p, done = profile(solocore, compile_c(CALLS, "-g", *flags, isa=isa))
    check_invariants(p)
    _, chains = copies(p)
    assert chains["main", "copy_much"] > 2 * chains["main", "copy_some"] > 0
    assert named(p, "touch")["inlined_into"] == "walk"
    # The C library lies in the program, so that its functions that copy are called by their names.
    line = next(line for line in done.err.splitlines() if "lock = [" in line)
    assert re.search("function:(copy_much|_*memcpy|_wordcopy)", line), line


def test_a_recursion_is_one_call_with_a_short_chain(solocore, compile_c):
    p, _ = profile(solocore, compile_c(RECURSION))
    deep = named(p, "deep")
    assert deep["calls"]["calls"] == 3
    assert {tuple(c["functions"]) for c in deep["callers"]} <= {("main",), ("main", "deep")}
    assert "chains_cut" not in p["origin"]


def test_a_signal_between_a_return_and_its_target_leaves_no_call_open(solocore, compile_c):
    p, _ = profile(solocore, compile_c(HIDDEN))
    leaf = named(p, "leaf")
    assert leaf["calls"]["calls"] == 1000 and leaf["llc_misses"] > 900
    assert [c["functions"] for c in leaf["callers"]] == [["main", "caller"]]
    assert named(p, "caller")["calls"]["calls"] == 1


def test_processes_share_the_row_of_a_function(solocore, compile_c):
    p, _ = profile(solocore, compile_c(CHILDREN))
    check_invariants(p)
    walk, lines = named(p, "walk"), 3 * (1 << 20) // LINE
    assert walk["calls"]["calls"] == 3 and walk["llc_misses"] == pytest.approx(lines, rel=0.02)
    assert [(c["functions"], c["llc_misses"]) for c in walk["callers"]] == [(["main"], walk["llc_misses"])]
    assert named(p, "main")["calls"]["held_ns"] >= walk["calls"]["held_ns"] > walk["calls"]["longest_ns"]


def test_a_stripped_program_has_no_function_to_lock(solocore, compile_c):
    p, done = profile(solocore, compile_c(CALLS, "-s"))
    assert all("lock" not in f for f in p["functions"])
    assert "lock = [" not in done.err and "`solocore exec --lock` holds the lock for the whole program" in done.err
    assert "build it without -s" in done.err
