"""`solocore run --colors`: programs of a plan on frames of their cores' colours and banks, on the machine that runs the tests.

The colours and banks are those of a map, so that the tests do not depend on the machine's caches. Frames are shown to root only, and moving
pages needs Linux 6.8: where one is missing, or nothing may be regulated, what needs it is skipped. On the virtual board: test_board_figures.py.
"""

import json
import re
import signal

import pytest
from conftest import board_like_here, refused

# The board's: 32 colours, and a bit for each bank function.
MAP = "".join(f"# colour: {bit}\n" for bit in range(12, 17)) + "13\n14\n15\n16\n"
TASK = '[[task]]\nname = "{0}"\ncore = {1}\nperiod = "500 ms"\nwcet = "100 ms"\nmisses = 10\n{2}'
HEAD = 'platform = "machine.toml"\n[regulation]\npolicy = "memguard"\nperiod = "1 ms"\n'
LEAVE = ("--no-move-irqs", "--no-confine", "--event", "page-faults")
# Writes 8 MiB, waits so long, and writes them again.
FILLS = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **arguments)
{
	char *memory = malloc(8 << 20);
	memset(memory, count, 8 << 20);
	usleep(count > 1 ? atoi(arguments[1]) : 0);
	memset(memory, 2, 8 << 20);
	return memory[5 << 20] == 2 ? 0 : 1;
}
"""


@pytest.fixture
def planned(solocore):
    """A plan of two tasks, on cores 0 and 1, and a map."""
    board_like_here(solocore)
    solocore.plan(HEAD + TASK.format("one", 0, "") + TASK.format("two", 1, ""))
    solocore.write("map.txt", MAP)
    return solocore


def vouched(solocore, plan="plan.json"):
    """Everything but what the test is about."""
    subjects = {p["subject"] for p in json.loads((solocore.dir / plan).read_text())["promises"]}
    return [word for subject in sorted(subjects - {"ways", "banks"}) for word in ("--vouch", subject)]


def coloured(solocore, one, two, *options, plan="plan.json", map="map.txt"):
    done = solocore("run", plan, *LEAVE, *vouched(solocore, plan), "--colors", "--map", map, "--command", f"one={one}", "--command", f"two={two}",
                    "--duration", "2 s", "--format", "json", *options, timeout=120)
    if done.code == 3 and re.search("CAP_SYS_ADMIN|6.8|aarch64|self-test|perf", done.err):
        pytest.skip(done.err.strip().splitlines()[-1])
    return done


def answers(run):
    return {p["id"]: p for p in run["promises"] if p["subject"] in ("ways", "banks")}


def test_tasks_lie_in_their_cores_colours_and_banks(planned, compile_c):
    program = compile_c(FILLS)
    done = coloured(planned, f"{program} 0", program, "-o", "run.json")
    assert done.code in (0, 1), done.err
    run = done.json()
    assert not run.get("partial")
    seen = {t["task"]: t for t in run["coloured"]}
    assert (seen["one"]["colours"], seen["one"]["banks"]) == ([0, 16], [0, 8])
    assert (seen["two"]["colours"], seen["two"]["banks"]) == ([16, 16], [8, 8])
    for task in seen.values():
        assert task["processes"] >= 1 and task["ended"] >= 1 and task["wrong"] == 0 and "faults" not in task, task
        # Eight megabytes each time.
        assert task["pages"] >= 2048 * task["ended"]
    found = answers(run)
    assert set(found) == {"ways:core-0", "ways:core-1", "banks:core-0", "banks:core-1"}
    if not any(t["moved_back"] for t in seen.values()):
        assert {a["kept_by"] for a in found.values()} == {"colours"} and all(a["checked"] for a in found.values()), found
        assert done.code == 0 and not run.get("broken"), run.get("broken")
    text = planned("run", "plan.json", *LEAVE, *vouched(planned), "--colors", "--map", "map.txt", "--command", f"one={program}",
                   "--duration", "1 s", timeout=120).out.decode()
    assert re.search(r"^one +0-15 +0-7 ", text, re.M), text


def test_a_child_without_its_colours_breaks_the_promise(planned, compile_c):
    static = compile_c("int main(void) { return 0; }", "-static", name="static")
    planned.write("job.sh", f"{static}\n")
    done = coloured(planned, "/bin/sh job.sh", compile_c(FILLS))
    assert done.code == 1, (done.err, done.out)
    run = done.json()
    [task] = [t for t in run["coloured"] if t["task"] == "one"]
    assert any("ran without colours" in fault for fault in task["faults"])
    # Its pages may be in the colours of either core.
    assert {"ways:core-0", "ways:core-1", "banks:core-1"} <= set(run["broken"])


def test_starts_within_a_job_are_counted(planned, compile_c):
    """A child of a job and a program that it becomes start within it; the process of a job starts before."""
    program = compile_c(FILLS)
    planned.write("job.sh", f"{program} 0\nexec {program} 0\n")
    run = coloured(planned, "/bin/sh job.sh", f"{program} 0").json()
    seen = {t["task"]: t for t in run["coloured"]}
    assert seen["one"]["within_jobs"] >= 2 and seen["two"]["processes"] > 0 and seen["two"]["within_jobs"] == 0
    why = {p["id"]: p["why"] for p in run["promises"] if p["subject"] == "demand"}
    assert "within jobs" in why["demand:task-one"] and "within jobs" not in why["demand:task-two"], why


def test_programs_that_go_on_are_looked_at(planned, compile_c):
    """No process ends by itself before the run does, and `top` shows the table meanwhile."""
    program = compile_c(FILLS)
    process = planned.start("run", "plan.json", *LEAVE, *vouched(planned), "--colors", "--map", "map.txt", "--command", f"one={program} 60000000",
                            "--duration", "60 s", "--format", "json")
    try:
        for line in process.stderr:
            if b"regulating" in line:
                break
        else:
            pytest.skip("nothing can be coloured or regulated here")
        for _ in range(100):
            run = planned("top", "--count", "1", "--every", "100 ms", "--format", "json").json()
            if run["coloured"][0]["processes"]:
                break
        assert run["coloured"][0]["processes"] == 1 and run["coloured"][0]["wrong"] == 0
        assert answers(run)["ways:core-0"]["kept_by"] == "colours"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()


def test_what_cannot_be_coloured_is_refused_first(planned, compile_c):
    program = compile_c(FILLS)
    static = compile_c("int main(void) { return 0; }", "-static", name="static")
    refused(coloured(planned, static, program), "task `one`", "linked statically", codes=(2,))
    planned.write("text", "no program")
    refused(coloured(planned, program, "./text", "--directory", planned.dir), "task `two`", "neither an ELF program", codes=(2,))
    planned.write("few.txt", "# colour: 12\n")
    refused(coloured(planned, program, program, map="few.txt"), "has 2 colours", "cache of 32", codes=(2,))
    alone = planned("run", "plan.json", "--map", "map.txt")
    assert alone.code == 2 and "--colors" in alone.err
    plan = json.loads((planned.dir / "plan.json").read_text())
    plan["cores"][1]["colours"] = [8, 16]
    planned.write("shared.json", json.dumps(plan))
    refused(coloured(planned, program, program, plan="shared.json"), "core 1", "do not stand for its ways", codes=(2,))
    plan["cores"][1]["colours"] = [16, 16]
    # More pages than any machine of today has.
    plan["tasks"][1]["touched_pages"] = 1 << 36
    planned.write("large.json", json.dumps(plan))
    done = coloured(planned, program, program, plan="large.json")
    refused(done, "core 1", "touch 68719476736 pages", codes=(3,))
    planned.plan(HEAD + TASK.format("one", 0, 'user = "nobody"\n') + TASK.format("two", 1, ""))
    refused(coloured(planned, program, program), "task `one`", "user `nobody`", "only root", codes=(2,))


def test_what_nobody_colours_is_open(planned, compile_c):
    program = compile_c(FILLS)
    planned.write("colours.txt", "".join(f"# colour: {bit}\n" for bit in range(12, 17)))
    done = coloured(planned, program, program, "--dry-run", map="colours.txt")
    found = answers(done.json())
    assert {i: a["kept_by"] for i, a in found.items()} == {
        "ways:core-0": "colours", "ways:core-1": "colours", "banks:core-0": None, "banks:core-1": None}
    assert "--map" in found["banks:core-0"]["why"]
    plain = planned("run", "plan.json", *LEAVE, *vouched(planned), "--command", f"one={program}")
    assert plain.code == 3
    if "nobody keeps" in plain.err:
        assert "--colors" in plain.err and "ways:core-0" in plain.err


# Pages of the heap, of data and bss, and of a mapping.
HOT = r"""
#include <stdlib.h>
#include <string.h>
static char data[3 * 4096] = {1}, bss[3 * 4096];
int main(void)
{
	char *heap = malloc(4 * 4096), *mapped = malloc(1 << 20);
	int sum = 0;
	for (int round = 0; round < 20; round++) {
		memset(heap, round, 4 * 4096);
		memset(data, round, sizeof data);
		memset(bss, round, sizeof bss);
		memset(mapped, round, 1 << 20);
		sum += mapped[5000] + heap[5000] + data[5000] + bss[5000];
	}
	return sum == 4 * 190 ? 0 : 1;
}
"""


def locking(solocore, program, pages, name="locking.json"):
    """The plan, with these pages of task `one` locked."""
    plan = json.loads((solocore.dir / "plan.json").read_text())
    one = next(t for t in plan["tasks"] if t["name"] == "one")
    one["locked_pages"] = [{"region": region, "offset": offset} for region, offset in pages]
    one["command"] = [str(program)]
    plan["promises"].append({"id": "locked-pages:task-one", "subject": "locked-pages", "bound_of": ["one"], "what": "pages stay", "resource": "task one"})
    solocore.write(name, json.dumps(plan))


def run_locking(solocore, program, *options, plan="locking.json", map="map.txt"):
    subjects = {p["subject"] for p in json.loads((solocore.dir / plan).read_text())["promises"]} - {"ways", "banks", "locked-pages"}
    words = [word for subject in sorted(subjects) for word in ("--vouch", subject)]
    done = solocore("run", plan, *LEAVE, *words, "--colors", "--map", map, "--command", f"one={program}", "--duration", "2 s", "--format", "json",
                    *options, timeout=120)
    if done.code == 3 and re.search("CAP_SYS_ADMIN|6.8|aarch64|self-test|perf", done.err):
        pytest.skip(done.err.strip().splitlines()[-1])
    return done


def answer_of(done):
    return next(p for p in done.json()["promises"] if p["id"] == "locked-pages:task-one")


def hot_pages(solocore, program):
    """Pages of each kind, by the names of a profile."""
    done = solocore("profile", "--platform", "machine.toml", "-o", "hot.json", "--", program, timeout=120)
    assert done.code == 0, done.err
    names = [(p["region"], p["offset"]) for p in json.loads((solocore.dir / "hot.json").read_text())["pages"]]
    large = max((region for region, _ in names if region.startswith("mmap#")), key=[region for region, _ in names].count)
    wanted = {"heap": 3, f"{program.name}:data": 3, f"{program.name}:bss": 2, large: 8}
    pages = [name for region, count in wanted.items() for name in sorted(n for n in names if n[0] == region)[:count]]
    assert len(pages) == 16, pages
    return pages


def test_locked_pages_lie_in_colours_of_their_own(planned, compile_c):
    program = compile_c(HOT, name="hot")
    locking(planned, program, hot_pages(planned, program))
    done = run_locking(planned, program)
    assert done.code in (0, 1), done.err
    [seen] = done.json()["locked_pages"]
    # Sixteen pages and twelve ways: two of the core's sixteen colours.
    assert (seen["task"], seen["pages"], seen["colours"]) == ("one", 16, [14, 2]), seen
    assert [seen[of] for of in ("found", "present", "verified", "moved")] == [16] * 4 and "fault" not in seen, seen
    assert seen["processes"] >= 1
    [task] = [t for t in done.json()["coloured"] if t["task"] == "one"]
    assert task["ended"] >= 1 and task["wrong"] == 0, task
    if not task["moved_back"]:
        answer = answer_of(done)
        assert answer["kept_by"] == "colours" and answer["checked"] and "colours 14 to 15" in answer["why"], answer


def test_locked_pages_that_the_program_frees_are_kept(planned, compile_c):
    """Fails if only pages count that a process still has as it ends; a page that another takes the place of does not count."""
    program = compile_c(HOT.replace("\treturn sum", "\tfree(mapped);\n\treturn sum"), name="hot")
    locking(planned, program, hot_pages(planned, program))
    done = run_locking(planned, program)
    [seen] = done.json()["locked_pages"]
    assert (seen["found"], seen["moved"]) == (16, 16) and seen["present"] == seen["verified"] == 8 and "fault" not in seen, seen


def test_fewer_locked_pages_than_planned_break_the_promise(planned, compile_c):
    program = compile_c(HOT, name="hot")
    locking(planned, program, [(f"{program.name}:data", 100), (f"{program.name}:bss", 1), ("mmap#99", 0)])
    done = run_locking(planned, program)
    assert done.code == 1, done.err
    [seen] = done.json()["locked_pages"]
    assert (seen["pages"], seen["found"], seen["verified"]) == (3, 1, 1), seen
    assert "1 of 3 locked pages" in seen["fault"] and "locked-pages:task-one" in done.json()["broken"]


def test_pages_that_cannot_be_locked_are_refused_first(planned, compile_c):
    program, other = compile_c(HOT, name="hot"), compile_c(FILLS)
    pages = [(f"{program.name}:data", n) for n in range(16)]
    locking(planned, program, pages)
    dry = run_locking(planned, program, "--dry-run")
    assert answer_of(dry)["kept_by"] == "colours", answer_of(dry)
    refused(run_locking(planned, other), "task `one`", "locks pages of `hot`", codes=(3,))
    # The last colours have bit 15, and the banks of core 0 do not.
    planned.write("banks.txt", "".join(f"# colour: {bit}\n" for bit in range(12, 17)) + "13\n14\n17\n15\n")
    refused(run_locking(planned, program, map="banks.txt"), "core 0", "locked pages find no frames of colours 14", codes=(3,))
    # More than fifteen colours, twelve ways and four slices hold; and more than a slice surely holds.
    for count, words in ((721, "more than the 720 that 15 of its 16 colours hold"), (181, "a colour gets 13 locked pages")):
        locking(planned, program, [("heap", n) for n in range(count)], name="many.json")
        done = run_locking(planned, program, plan="many.json")
        assert done.code == 3 and "locked-pages:task-one" in done.err and words in done.err, done.err
    locking(planned, program, [("stated", 0)], name="stated.json")
    done = run_locking(planned, program, plan="stated.json")
    assert done.code == 3 and "names no pages" in done.err, done.err
