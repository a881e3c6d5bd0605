"""`solocore profile --engine perf --job` and `--sample-addresses`: jobs within one start, and pages by sampled addresses.

Page faults are exact on every machine: a job that touches n new pages has n of them, and each is a sample with an address.
"""

import json
import os
from pathlib import Path

import pytest
from conftest import refused

PROGRAM = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGE = 4096, JOBS = 12 };
static volatile char zeros[16 * PAGE];
static volatile char *map(int pages) {
    return mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
__attribute__((noinline)) void job(int pages) {
    volatile char *m = map(pages);
    for (int i = 0; i < pages; i++) m[i * PAGE] = 1;
    munmap((void *)m, pages * PAGE);
}
__attribute__((noinline)) void down(int n) { if (n) { job(n); down(n - 1); } }
__attribute__((noinline)) void never(void) { zeros[0] = 9; }
__attribute__((noinline)) void leaves(int n) { if (n == JOBS) exit(0); job(n); }
static void *thread(void *p) { job(1); return p; }
int main(int c, char **v) {
    char *what = v[1];
    pthread_t other;
    for (int i = 1; i <= JOBS && !strcmp(what, "calls"); i++) job(i);
    for (int i = 1; i <= JOBS && !strcmp(what, "naps"); i++) { job(i); usleep(500); }
    for (int i = 1; i <= 2 && !strcmp(what, "deep"); i++) down(3);
    for (int i = 1; i <= JOBS && !strcmp(what, "leaves"); i++) leaves(i);
    if (!strcmp(what, "thread")) { job(1); pthread_create(&other, 0, thread, 0); pthread_join(other, 0); }
    if (!strcmp(what, "child")) { job(1); if (!fork()) { job(2); _exit(0); } wait(0); }
    if (!strcmp(what, "pages")) {
        volatile char *heap = malloc(20 * PAGE), *first = map(5), *second = map(7), *third;
        for (int i = 0; i < 20; i++) heap[i * PAGE] = 1;
        for (int i = 0; i < 5; i++) first[i * PAGE] = 1;
        for (int i = 0; i < 16; i += 2) zeros[i * PAGE] = 1;
        munmap((void *)first, 5 * PAGE);
        /* At the same place as the first, and another region. */
        third = map(5);
        for (int i = 0; i < 5; i += 2) third[i * PAGE] = 1;
        for (int i = 0; i < 40; i++) { second[3 * PAGE] = i; madvise((void *)(second + 3 * PAGE), PAGE, MADV_DONTNEED); }
        if (!fork()) { for (int i = 0; i < 7; i++) second[i * PAGE] = i; _exit(0); }
        wait(0);
    }
    if (c > 5) never();
    return 0;
}
"""
JOBS = 12
PROBES = Path("/sys/bus/event_source/devices/uprobe/type")
needs_root = pytest.mark.skipif(os.geteuid() != 0 or not PROBES.exists(), reason="only root may probe; the kernel needs uprobes")


@pytest.fixture
def measured(solocore, compile_c):
    """Measures the program without sweeping the caches; the profile, what was said, and the emulator's profile."""
    program = str(compile_c(PROGRAM, name="jobs"))
    assert solocore("platform", "detect", "-o", "machine.toml").code == 0

    def run(*options, what, code=0):
        base = f"{what}.base.json"
        if not (solocore.dir / base).exists():
            done = solocore("profile", "--platform", "machine.toml", "-o", base, "--", program, what)
            assert done.code == 0, done.err
        jobs = () if "--jobs" in options else ("--jobs", "1")
        done = solocore("profile", "--engine", "perf", "--warm", "--base", base, *jobs, "-o", "m.json", *options, "--", program, what)
        if code:
            return done
        assert done.code == 0, done.err
        profile = json.loads((solocore.dir / "m.json").read_text())
        return profile, done.err, json.loads((solocore.dir / base).read_text())

    return run


def values(profile, name="page_faults"):
    (input,) = profile["origin"]["measured"]["inputs"]
    return {q["name"]: q for q in input["quantities"]}[name]["values"]


@needs_root
def test_each_call_is_a_job(measured):
    profile, said, base = measured("--job", "function:job", "--jobs", str(JOBS + 1), what="calls")
    # Two starts, as one has too few. The first call also meets the kernel's page of the probe's return.
    assert profile["origin"]["measured"]["jobs_are"] == "function:job" and "those of 2 start(s)" in said
    faults = values(profile)
    assert faults[1:JOBS] == faults[JOBS + 1:] == list(range(2, JOBS + 1)), faults
    assert all(1 <= faults[first] <= 2 for first in (0, JOBS)), faults
    assert len(values(profile, "time_ns")) == 2 * JOBS and min(values(profile, "time_ns")) > 0
    # Of a job less than of a start: nothing is lowered.
    assert profile["lockdown"] == base["lockdown"] and profile["private_cycles"] >= base["private_cycles"]


@needs_root
def test_calls_within_calls_are_parts_and_open_ones_are_told(measured):
    profile, said, _ = measured("--job", "function:down", what="deep")
    assert [f - e for f, e in zip(values(profile), (6, 6))] in ([0, 0], [1, 0]), values(profile)
    assert "6 nested calls" in said
    profile, said, _ = measured("--job", "function:leaves", what="leaves")
    assert len(values(profile)) == JOBS - 1 and "1 call(s) had not returned" in said


@needs_root
def test_each_wakeup_is_a_job(measured):
    profile, _, _ = measured("--job", "wakeup", what="naps")
    faults = values(profile)
    # The first begins with the program, the last ends with it.
    assert len(faults) == JOBS + 1 and faults[1:JOBS] == list(range(2, JOBS + 1)), faults
    assert "time_ns" not in {q["name"] for q in profile["origin"]["measured"]["inputs"][0]["quantities"]}


@needs_root
@pytest.mark.parametrize("job, what, words", [
    ("function:never", "calls", ["no such job that began and ended"]),
    ("function:jop", "calls", ["there is no function `jop`"]),
    ("function:job", "thread", ["1 of 2 calls were made by other threads or processes"]),
    ("function:job", "child", ["1 of 2 calls were made by other threads or processes"]),
])
def test_jobs_that_would_be_missed_are_refused(measured, job, what, words):
    refused(measured("--job", job, what=what, code=2), *words, one_line=False)


@needs_root
def test_sampled_pages_are_those_of_the_profile(measured):
    plain, _, base = measured(what="pages")
    profile, said, _ = measured("--sample-addresses", what="pages")
    (input,) = profile["origin"]["measured"]["inputs"]
    seen = input["addresses"]
    assert seen["event"] == "page-faults" and "stand in for accesses to memory" in said
    assert seen["period"] == 1 and seen["lost"] == seen["throttled"] == 0
    assert sum(p["samples"] for p in seen["pages"]) == seen["samples"]
    # The child's pages are not pages of the program; it has at least the seven that it writes.
    assert seen["elsewhere"] >= 7

    print(f"{len(base['pages'])} pages, {seen['samples']} samples, {seen['matched']} on pages of the profile;",
          "elsewhere", [f"{p['region']}+{p['offset']}" for p in seen["pages"] if "rank" not in p])

    def pages(of, region):
        return {p["offset"] for p in of["pages"] if p["region"] == region}

    written = ("heap", "jobs:bss")
    mapped = sorted({p["region"] for p in base["pages"] if p["region"].startswith("mmap#")}, key=lambda r: int(r[5:]))[-3:]
    for region in (*written, mapped[0], mapped[2]):
        assert pages(seen, region) and pages(seen, region) == pages(base, region), region
    assert [len(pages(seen, region)) for region in mapped] == [5, 1, 3], seen["pages"]
    hottest = seen["pages"][0]
    assert (hottest["region"], hottest["offset"], hottest["samples"]) == (mapped[1], 3, 40), hottest
    assert base["pages"][hottest["rank"]]["region"] == mapped[1]
    # One of ten: the same pages, fewer samples.
    tenth = measured("--sample-addresses=10", what="pages")[0]["origin"]["measured"]["inputs"][0]["addresses"]
    assert tenth["period"] == 10 and seen["samples"] // 10 - 2 <= tenth["samples"] <= seen["samples"] // 10 + 2
    # Samples change no number.
    for key in ("lockdown", "by_ways", "pages", "levels"):
        assert profile[key] == plain[key] == base[key], key


def test_the_emulator_has_neither(solocore, compile_c):
    program = str(compile_c(PROGRAM, name="jobs"))
    for option in (["--job", "wakeup"], ["--sample-addresses"]):
        refused(solocore("profile", *option, "--", program, "calls"), "give --engine perf")
    done = solocore("profile", "--engine", "perf", "--job", "sleep", "--", program, "calls")
    assert done.code == 2 and "is not a job" in done.err, done.err
