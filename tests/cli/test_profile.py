"""`solocore profile`: every kind of program, what passes through, and counts against an independent cache model.

Programs are compiled here. Counts that must be exact come from programs without a C library, where all that is not the
pattern under test is a handful of stack and code lines (NOISE). Not covered: speed.
"""

import json
import os
import signal
import subprocess
import time
from itertools import pairwise

import pytest
from cache_model import Machine
from conftest import interrupt, refused

CAT = r"""
#include <stdio.h>
int main(void) { int c; while ((c = getchar()) != EOF) putchar(c); fputs("to stderr\n", stderr); return 7; }
"""
THREADS = r"""
#include <pthread.h>
static char area[4][1 << 16];
static void *work(void *p) { for (int i = 0; i < 1 << 16; i += 64) ((volatile char *)p)[i]++; return 0; }
int main(void) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, work, area[i]);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    return 0;
}
"""
FORKS = r"""
#include <sys/wait.h>
#include <unistd.h>
static volatile char area[1 << 20];
int main(void) {
    for (int i = 0; i < 3; i++) {
        if (fork() == 0) { for (int k = 0; k < 1 << 20; k += 64) area[k]++; _exit(0); }
        wait(0);
    }
    return 0;
}
"""
EXEC = r"""
#include <unistd.h>
int main(void) { char *a[] = {"/bin/echo", "from echo", 0}; execv("/bin/echo", a); return 9; }
"""
EXEC_FAILS = r"""
#include <unistd.h>
static volatile char area[1 << 20];
int main(void) {
    char *a[] = {"/nowhere", 0};
    execv("/nowhere", a);
    for (int k = 0; k < 1 << 20; k += 64) area[k]++;
    return 5;
}
"""
ABORT = "#include <stdlib.h>\nint main(void) { abort(); }\n"
SEGFAULT = "int main(void) { *(volatile int *)8 = 1; }\n"
FOREVER = "#include <stdio.h>\nint main(void) { puts(\"up\"); fflush(stdout); for (;;) __asm__ volatile(\"\"); }\n"
COLD = r"""
#include <stdlib.h>
static volatile char cold[8 << 20], hot[1024];
__attribute__((noinline)) void walk_cold(void) { for (int i = 0; i < 8 << 20; i += 64) cold[i]; }
__attribute__((noinline)) void walk_hot(void) { for (int r = 0; r < 4000; r++) for (int i = 0; i < 1024; i++) hot[i]; }
int main(void) { walk_hot(); walk_cold(); return 0; }
"""
BUILDS = {
    "dynamic PIE": ("x86_64", ("-fPIE", "-pie")),
    "dynamic": ("x86_64", ("-no-pie",)),
    "static": ("x86_64", ("-static",)),
    "static PIE": ("x86_64", ("-static-pie", "-fPIE")),
    "stripped": ("x86_64", ("-s",)),
    "static stripped": ("x86_64", ("-static", "-s")),
    "aarch64 dynamic": ("aarch64", ()),
    "aarch64 static": ("aarch64", ("-static",)),
    "powerpc static": ("powerpc", ("-static",)),
    "powerpc dynamic": ("powerpc", ()),
}

# A program that is nothing but its pattern.
START = {
    "x86_64": '__asm__ volatile("syscall" :: "a"(231), "D"(0) : "memory");',
    "aarch64": 'register long x8 __asm__("x8") = 94; register long x0 __asm__("x0") = 0;'
               ' __asm__ volatile("svc 0" :: "r"(x8), "r"(x0));',
    "powerpc": 'register long r0 __asm__("r0") = 234; register long r3 __asm__("r3") = 0;'
               ' __asm__ volatile("sc" :: "r"(r0), "r"(r3));',
}
BARE_FLAGS = ("-nostdlib", "-static", "-fno-stack-protector", "-fno-pie", "-no-pie", "-O2")
NOISE = 24
SMALL = ((1 << 10, 2), (4 << 10, 4), (32 << 10, 8))
P4080 = ((32 << 10, 8), (128 << 10, 8), (2 << 20, 32))
IMX6Q = ((32 << 10, 4), None, (1 << 20, 16))


def bare(body, size, isa="x86_64"):
    return (f"static volatile unsigned char buf[{size}] __attribute__((aligned(65536)));\n"
            f"void _start(void) {{ {body} {START[isa]} for (;;) ; }}\n")


def small_board(solocore):
    """A platform file with caches that a small pattern overflows."""
    (l1, l1w), (l2, l2w), (llc, llcw) = SMALL
    out, section = [], ""
    for line in solocore("platforms", "p4080").out.decode().splitlines():
        if line.startswith("["):
            section = line.strip("[] ")
        sizes = {"l1i": (1 << 15, 8), "l1d": (l1, l1w), "l2": (l2, l2w), "llc": (llc, llcw)}
        if section in sizes and line.startswith("size"):
            line = f'size = "{sizes[section][0]} B"'
        if section in sizes and line.startswith("ways"):
            line = f"ways = {sizes[section][1]}"
        out.append(line)
    return solocore.write("small.toml", "\n".join(out) + "\n")


def profile(solocore, *command, code=0, stdin=b"", options=()):
    done = solocore("profile", "-o", "p.json", *options, "--", *command, stdin=stdin)
    assert done.code == code, done.err
    return json.loads((solocore.dir / "p.json").read_text()), done


def levels(p):
    return {level["name"]: level for level in p["levels"]}


def check_invariants(p):
    """What holds in every profile."""
    by = levels(p)
    for level in by.values():
        assert 0 <= level["misses"] <= level["accesses"]
    curve = p["lockdown"]
    gains = [a - b for a, b in pairwise(curve)]
    assert all(g >= 0 for g in gains), "the lockdown curve rises"
    assert gains == sorted(gains, reverse=True), "the lockdown curve is not convex"
    processes = p.get("origin", {}).get("processes", {"reads": 0, "writes": 0})
    switches = processes["reads"] + processes["writes"]
    assert curve[-1] == switches
    page_accesses = [q["llc_reads"] + q["llc_writes"] for q in p["pages"]]
    assert curve[0] == sum(page_accesses) + switches and page_accesses == sorted(page_accesses, reverse=True)
    last_private = by.get("L2", {"writebacks": by["L1D"]["writebacks"]})
    assert sum(q["llc_reads"] for q in p["pages"]) == by["LLC"]["accesses"]
    assert curve[0] == by["LLC"]["accesses"] + last_private["writebacks"] + switches
    assert all(a >= b for a, b in pairwise(p["by_ways"])), "more ways, more misses"
    assert p["by_ways"][-1] >= by["LLC"]["misses"] + by["LLC"]["writebacks"]
    assert p["by_ways"][0] <= curve[0]
    assert sum(q["references"] for q in p["pages"]) == by["L1I"]["accesses"] + by["L1D"]["accesses"]
    assert p["references"] == p["loads"] + p["stores"] <= by["L1D"]["accesses"]
    assert by.get("L2", by["LLC"])["accesses"] == by["L1I"]["misses"] + by["L1D"]["misses"]
    if "L2" in by:
        assert by["LLC"]["accesses"] == by["L2"]["misses"]
    touched = [q for q in p["pages"] if q["lines"]]
    assert p["working_set"]["pages"] == len(touched) and p["working_set"]["lines"] == sum(q["lines"] for q in touched)
    assert len({q["frame"] for q in p["pages"]}) == len(p["pages"])
    assert len({(q["region"], q["offset"]) for q in p["pages"]}) == len(p["pages"]) or p["threads"] > 1
    assert sum(f["llc_misses"] for f in p["functions"]) == by["LLC"]["misses"]
    assert sum(f["llc_accesses"] for f in p["functions"]) == by["LLC"]["accesses"]
    assert sum(f["share"] for f in p["functions"]) == pytest.approx(1)
    assert p["instructions"] > 0 and p["private_cycles"] >= p["instructions"]
    assert p["trace"]["truncated"] or p["trace"]["records"] == curve[0] - switches


@pytest.mark.parametrize("build", BUILDS)
def test_every_kind_of_program(solocore, compile_c, build):
    isa, flags = BUILDS[build]
    p, done = profile(solocore, compile_c(CAT, *flags, isa=isa), stdin=b"in and out\n", code=7)
    assert done.out == b"in and out\n"
    assert "to stderr" in done.err
    assert p["isa"] == isa and p["exit_code"] == 7 and p["threads"] == 1 and p["children"] == 0 and p["exec"] is None
    check_invariants(p)
    assert solocore.files() == {"p.json", "p.json.trace"}


@pytest.mark.parametrize("code", [0, 1, 2, 3, 42, 255])
def test_exit_codes_pass_through(solocore, compile_c, code):
    profile(solocore, compile_c("#include <stdlib.h>\nint main(int c, char **v) { return atoi(v[1]); }\n"), code, code=code)


def test_binary_input_and_output_pass_through(solocore, compile_c):
    data = bytes(range(256)) * 400
    _, done = profile(solocore, compile_c(CAT), stdin=data, code=7)
    assert done.out == data


def test_arguments_and_name_reach_the_program(solocore, compile_c):
    path = compile_c('#include <stdio.h>\nint main(int c, char **v) { for (int i = 0; i < c; i++) puts(v[i]); }\n')
    p, done = profile(solocore, path, "-o", "a b", "--platform", "ü")
    assert done.out.decode().splitlines() == [str(path), "-o", "a b", "--platform", "ü"]
    assert p["command"] == [str(path), "-o", "a b", "--platform", "ü"]


def test_environment_and_directory_reach_the_program(solocore, compile_c):
    path = compile_c('#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n'
                     'int main(void) { char b[4096]; puts(getenv("MARK")); puts(getcwd(b, sizeof b)); }\n')
    done = solocore("profile", "-o", "p.json", "--", path, MARK="x,y=z")
    assert done.out.decode().splitlines() == ["x,y=z", str(solocore.dir)]


def test_default_output_is_named_after_the_program(solocore, compile_c):
    assert solocore("profile", "--", compile_c(CAT, name="odd name")).code == 7
    assert solocore.files() == {"odd name.profile.json", "odd name.profile.json.trace"}


def test_a_program_that_fails_is_said_to_fail(solocore, compile_c):
    assert "failed with exit code 7" in solocore("profile", "-o", "p.json", "--", compile_c(CAT)).err
    assert "failed" not in solocore("profile", "-o", "p.json", "--", compile_c("int main(void) { return 0; }\n")).err


def test_directory_with_a_comma(solocore, compile_c):
    (solocore.dir / "a,b=c d").mkdir()
    done = solocore("profile", "-o", "a,b=c d/p.json", "--", compile_c(CAT))
    assert done.code == 7, done.err
    assert solocore.files() == {"a,b=c d/p.json", "a,b=c d/p.json.trace"}


def test_found_in_path(solocore, compile_c):
    path = compile_c(CAT, name="findme")
    done = solocore("profile", "-o", "p.json", "--", "findme", PATH=f"{path.parent}:{os.environ['PATH']}")
    assert done.code == 7, done.err


@pytest.mark.parametrize("isa", ["x86_64", "aarch64"])
def test_threads_are_counted(solocore, compile_c, isa):
    p, done = profile(solocore, compile_c(THREADS, isa=isa))
    assert p["threads"] == 5 and p["children"] == 0
    assert "5 thread" in done.err
    check_invariants(p)
    # Each of four threads walks 1,024 lines of its own.
    assert p["working_set"]["lines"] >= 4096 and levels(p)["L1D"]["misses"] >= 4096


@pytest.mark.parametrize("isa", ["x86_64", "aarch64", "powerpc"])
def test_children_are_counted_with_their_memory(solocore, compile_c, isa):
    p, done = profile(solocore, compile_c(FORKS, "-static", isa=isa))
    assert p["children"] == 3 and "3 child" in done.err
    check_invariants(p)
    lines = 3 * (1 << 20) // 64
    assert lines < p["working_set"]["lines"] < lines + 4096, "each child walks 16,384 lines, the parent none of them"


def test_vfork_and_spawn_are_children(solocore, compile_c):
    text = ('#include <spawn.h>\n#include <sys/wait.h>\nint main(void) { char *a[] = {"true", 0}; pid_t p;\n'
            'int r = posix_spawn(&p, "/bin/true", 0, 0, a, 0); wait(0); return r; }\n')
    p, _ = profile(solocore, compile_c(text))
    assert p["children"] == 1 and p["threads"] == 1 and p["exec"] is None
    assert any(q["region"].endswith(": true") for q in p["pages"])
    check_invariants(p)


def test_a_program_that_takes_the_place_is_profiled(solocore, compile_c):
    p, done = profile(solocore, compile_c(EXEC))
    assert done.out == b"from echo\n"
    assert p["exec"] is None and any(q["region"] == "part 1: echo" for q in p["pages"])
    check_invariants(p)


def test_exec_that_fails_changes_nothing(solocore, compile_c):
    p, _ = profile(solocore, compile_c(EXEC_FAILS), code=5)
    assert p["exec"] is None
    assert p["working_set"]["lines"] >= 16384
    check_invariants(p)


@pytest.mark.parametrize("build", ["dynamic PIE", "static", "aarch64 dynamic", "powerpc static"])
def test_two_runs_are_identical(solocore, compile_c, build):
    isa, flags = BUILDS[build]
    path = compile_c(COLD, *flags, isa=isa)
    first, _ = profile(solocore, path)
    trace = (solocore.dir / "p.json.trace").read_bytes()
    second, _ = profile(solocore, path)
    for key in first:
        assert first[key] == second[key], key
    assert trace == (solocore.dir / "p.json.trace").read_bytes()


@pytest.mark.parametrize("build", ["dynamic PIE", "static", "aarch64 static", "powerpc static"])
def test_the_cold_function_ranks_first(solocore, compile_c, build):
    isa, flags = BUILDS[build]
    p, done = profile(solocore, compile_c(COLD, *flags, isa=isa))
    first = p["functions"][0]
    lines = (8 << 20) // 64
    assert first["name"] == "walk_cold" and first["file"] == "job"
    # The first line may be known from a neighbour.
    assert lines - 2 <= first["llc_misses"] <= lines + 64 and first["share"] > 0.9
    assert "walk_cold" in done.err


@pytest.mark.parametrize("flags", [(), ("-static",)])
def test_the_cold_function_ranks_first_when_stripped(solocore, compile_c, flags):
    # A position-dependent program, so that its symbol is its address.
    named = compile_c(COLD, "-no-pie", *flags)
    symbols = subprocess.run(["nm", named], capture_output=True, text=True, check=True).stdout.splitlines()
    address = next(int(s.split()[0], 16) for s in symbols if s.endswith(" walk_cold"))
    p, _ = profile(solocore, compile_c(COLD, "-no-pie", *flags, "-s"))
    assert p["functions"][0]["name"] == f"fn@{address:#x}"


def test_platforms_differ_only_in_their_caches(solocore, compile_c):
    path = compile_c(COLD)
    first, _ = profile(solocore, path)
    second, _ = profile(solocore, path, options=("--platform", "imx6q"))
    assert first["instructions"] == second["instructions"] and first["references"] == second["references"]
    assert "L2" not in levels(second) and len(second["by_ways"]) == 16
    check_invariants(second)


def sweep(lines, rounds, line=64):
    return [(i * line, False) for _ in range(rounds) for i in range(lines)]


# Isa, platform, lines, rounds: fits L1, fits L2, fits LLC, fits nothing.
SWEEPS = [
    ("x86_64", "p4080", P4080, 64, 256, 5),
    ("x86_64", "p4080", P4080, 64, 1536, 5),
    ("x86_64", "p4080", P4080, 64, 8192, 3),
    ("x86_64", "p4080", P4080, 64, 49152, 2),
    ("aarch64", "p4080", P4080, 64, 1536, 5),
    ("powerpc", "p4080", P4080, 64, 8192, 3),
    ("x86_64", "imx6q", IMX6Q, 32, 768, 4),
    ("x86_64", "imx6q", IMX6Q, 32, 16384, 3),
    ("powerpc", "imx6q", IMX6Q, 32, 40960, 2),
]


@pytest.mark.parametrize("isa,board,caches,line,lines,rounds", SWEEPS)
def test_a_strided_loop_misses_as_predicted(solocore, compile_c, isa, board, caches, line, lines, rounds):
    body = f"for (int k = 0; k < {rounds}; k++) for (int i = 0; i < {lines}; i++) buf[(unsigned)i * {line}];"
    p, _ = profile(solocore, compile_c(bare(body, lines * line, isa), *BARE_FLAGS, isa=isa), options=("--platform", board))
    check_invariants(p)
    m = Machine(*caches, line).run(sweep(lines, rounds, line))
    by = levels(p)
    assert by["L1D"]["accesses"] == pytest.approx(lines * rounds, abs=NOISE)
    assert p["loads"] == pytest.approx(lines * rounds, abs=NOISE) and p["stores"] <= NOISE
    assert by["L1D"]["misses"] == pytest.approx(m.l1.misses, abs=NOISE)
    if m.l2:
        assert by["L2"]["misses"] == pytest.approx(m.l2.misses, abs=NOISE)
    assert by["LLC"]["misses"] == pytest.approx(m.llc.misses, abs=NOISE)
    assert p["lockdown"][0] == pytest.approx(m.llc.reads, abs=NOISE)
    # Fewer ways: LRU over a loop keeps a set that fits and nothing of one that does not.
    size, ways = caches[2]
    for w in (1, ways // 4, ways // 2, ways):
        fewer = Machine(caches[0], caches[1], (size // ways * w, w), line).run(sweep(lines, rounds, line))
        assert p["by_ways"][w - 1] == pytest.approx(fewer.memory.transactions, abs=NOISE), f"{w} ways"


def test_random_reads_and_writes_match_the_model(solocore, compile_c):
    """A generator that C and Python run alike; a third of the references are stores."""
    size, count = 1 << 17, 60_000
    body = (f"unsigned s = 1; for (int i = 0; i < {count}; i++) {{ s = s * 1664525u + 1013904223u;"
            f" unsigned at = (s >> 8) % {size}u; if (s % 3u == 0) buf[at] = 1; else buf[at]; }}")
    p, _ = profile(solocore, compile_c(bare(body, size), *BARE_FLAGS), options=("--platform", small_board(solocore)))
    check_invariants(p)
    references, s = [], 1
    for _ in range(count):
        s = (s * 1664525 + 1013904223) % 2**32
        references.append(((s >> 8) % size, s % 3 == 0))
    m, by = Machine(*SMALL, 64).run(references), levels(p)
    assert p["stores"] == pytest.approx(sum(w for _, w in references), abs=NOISE)
    assert p["loads"] == pytest.approx(sum(not w for _, w in references), abs=NOISE)
    for level, name in ((m.l1, "L1D"), (m.l2, "L2"), (m.llc, "LLC")):
        # Which lines the code and the stack displace is not modelled: one in five hundred.
        assert by[name]["misses"] == pytest.approx(level.misses, rel=0.002, abs=NOISE), name
        assert by[name]["writebacks"] == pytest.approx(level.writebacks, rel=0.002, abs=NOISE), name
    assert p["by_ways"][-1] == pytest.approx(m.memory.transactions, rel=0.002)


def test_a_written_buffer_costs_a_read_and_a_write_a_line(solocore, compile_c):
    lines = 4096
    body = f"for (int i = 0; i < {lines}; i++) buf[(unsigned)i * 64] = 1;"
    p, _ = profile(solocore, compile_c(bare(body, lines * 64), *BARE_FLAGS))
    assert p["lockdown"][0] == pytest.approx(2 * lines, abs=NOISE)
    assert p["by_ways"][-1] == pytest.approx(2 * lines, abs=NOISE)
    full = [q for q in p["pages"] if q["lines"] == 64]
    assert len(full) == lines // 64 and all((q["llc_reads"], q["llc_writes"]) == (64, 64) for q in full)
    assert p["lockdown"][lines // 64] <= NOISE


def test_all_levels_count_the_dirty_lines_of_the_end(solocore, compile_c):
    """2,048 dirty lines fit the shared cache; each leaves each level once."""
    p, _ = profile(solocore, compile_c(bare("for (int i = 0; i < 2048; i++) buf[(unsigned)i * 64] = 1;", 1 << 17), *BARE_FLAGS))
    assert p["by_ways"][-1] == pytest.approx(4096, abs=NOISE)
    assert {n: v["writebacks"] for n, v in levels(p).items()} == {
        "L1I": 0, **{n: pytest.approx(2048, abs=NOISE) for n in ("L1D", "L2", "LLC")}}


def test_an_access_across_lines_touches_both(solocore, compile_c):
    body = "for (unsigned i = 1; i < 1000; i++) *(volatile unsigned long *)(buf + i * 128 - 4);"
    p, _ = profile(solocore, compile_c(bare(body, 1 << 17), *BARE_FLAGS))
    assert p["loads"] == pytest.approx(999, abs=NOISE)
    assert levels(p)["L1D"]["accesses"] == pytest.approx(2 * 999, abs=NOISE)
    assert levels(p)["L1D"]["misses"] == pytest.approx(2 * 999, abs=NOISE)
    check_invariants(p)


def test_pages_are_named_by_region(solocore, compile_c):
    text = ('#include <stdlib.h>\n#include <sys/mman.h>\nstatic volatile char area[1 << 16];\nint main(void) {\n'
            'volatile char *h = malloc(1000), *m = mmap(0, 1 << 16, 3, 0x22, -1, 0);\n'
            'for (int i = 0; i < 1 << 16; i += 64) { area[i]++; m[i]++; } h[0] = 1; return 0; }\n')
    p, _ = profile(solocore, compile_c(text))
    regions = {q["region"] for q in p["pages"]}
    assert "heap" in regions and "stack" in regions and "job:bss" in regions
    assert any(r.startswith("mmap#") for r in regions)
    assert not any(r.startswith(("/", "unknown")) for r in regions), regions
    assert sum(q["lines"] for q in p["pages"] if q["region"] == "job:bss") >= 1024 - 64


def test_trace_limit_cuts_the_trace_and_says_so(solocore, compile_c):
    p, done = profile(solocore, compile_c(COLD), options=("--trace-limit", "1000"))
    assert p["trace"]["truncated"] is True and p["trace"]["records"] == 1000
    assert "cut after 1000" in done.err
    check_invariants(p)


@pytest.mark.parametrize("text,name", [(ABORT, "6"), (SEGFAULT, "11")])
def test_a_program_that_dies_of_a_signal_leaves_no_output(solocore, compile_c, text, name):
    done = solocore("profile", "-o", "p.json", "--", compile_c(text))
    errors = [line for line in done.err.splitlines() if line.startswith("solocore: ")]
    assert done.code in (2, 3) and len(errors) == 1 and f"signal {name}" in errors[0]
    assert solocore.files() == set()


def test_a_program_that_exits_by_itself_after_a_handled_signal_is_fine(solocore, compile_c):
    text = ('#include <signal.h>\n#include <stdlib.h>\nstatic void h(int s) { exit(4); }\n'
            'int main(void) { signal(SIGTERM, h); raise(SIGTERM); return 0; }\n')
    p, _ = profile(solocore, compile_c(text), code=4)
    check_invariants(p)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(solocore, compile_c, how):
    process = solocore.start("profile", "-o", "p.json", "--", compile_c(FOREVER))
    assert process.stdout.readline() == b"up\n"
    code, err = interrupt(process, how)
    assert code == 130 and "interrupted" in err
    assert solocore.files() == set()


def test_an_interrupt_to_the_command_alone_ends_the_program_too(solocore, compile_c):
    process = solocore.start("profile", "-o", "p.json", "--", compile_c(FOREVER))
    assert process.stdout.readline() == b"up\n"
    os.kill(process.pid, signal.SIGINT)
    # The program holds stdout: its end is the end of the file.
    assert process.communicate(timeout=20)[0] == b""
    assert process.returncode == 130
    assert solocore.files() == set()


def test_an_interrupt_leaves_an_older_profile_alone(solocore, compile_c):
    profile(solocore, compile_c(CAT), code=7)
    before = (solocore.dir / "p.json").read_bytes(), (solocore.dir / "p.json.trace").read_bytes()
    process = solocore.start("profile", "-o", "p.json", "--", compile_c(FOREVER))
    assert process.stdout.readline() == b"up\n"
    interrupt(process)
    assert ((solocore.dir / "p.json").read_bytes(), (solocore.dir / "p.json.trace").read_bytes()) == before


def test_planning_keeps_the_profile_and_uses_it_again(solocore, compile_c):
    path = compile_c(COLD)
    text = f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "1 s"\ncommand = ["{path}"]\n'
    plan = solocore.plan(text)
    kept = {f for f in solocore.files() if f.startswith("cache-home")}
    assert len(kept) == 2
    times = {f: os.stat(solocore.dir / f).st_mtime_ns for f in kept}
    again = solocore.plan(text)
    assert again["tasks"][0].pop("profiled")["from_cache"] and plan["tasks"][0].pop("profiled") == {"from_cache": None}
    assert again == plan
    assert {f: os.stat(solocore.dir / f).st_mtime_ns for f in kept} == times
    time.sleep(0.01)
    done = solocore("plan", "system.toml", "--fresh", "--format", "json")
    fresh = done.json()
    assert fresh["tasks"][0].pop("profiled") == {"from_cache": None}
    assert fresh == plan and done.code == 0
    assert all(os.stat(solocore.dir / f).st_mtime_ns > times[f] for f in kept)
