"""What bounds rest on, as data: plans name each promise, and a run says who keeps it, or is refused.

What parts keep on a kernel is tested in guests (tests/vm); here: the lists, the refusal, and what a partial run repeats.
"""

import json
import os

import pytest
from conftest import ROOT, board_like_here, refused
from test_run import SYSTEM, planned  # noqa: F401 (a fixture)

EXAMPLES = ROOT / "examples"
RUN = ("--no-move-irqs", "--no-confine", "--event", "page-faults", "--command", "video=/bin/true", "--duration", "300 ms")


def of(promises, subject):
    return [p for p in promises if p["subject"] == subject]


@pytest.mark.parametrize("example, subjects", [
    ("sce-table2", {"place", "releases", "demand", "budget", "ways", "banks", "memory"}),
    ("ima-sce", {"window", "transfer", "budget", "place"}),
    ("mc2", {"slots", "levels", "ways", "banks", "buffer"}),
    ("vcpus", {"vcpu", "place", "idle-cores"}),
])
def test_plans_of_each_scheme_name_what_they_rest_on(solocore, example, subjects):
    plan = solocore("plan", EXAMPLES / example / "system.toml", "--format", "json").json()
    promises = plan["promises"]
    assert subjects <= {p["subject"] for p in promises}
    assert len({p["id"] for p in promises}) == len(promises)
    analysed = {t["name"] for t in plan["tasks"] if t["criticality"] != "D"}
    for promise in promises:
        assert promise["bound_of"] and set(promise["bound_of"]) <= analysed, promise
        assert promise["what"] and promise["resource"]
        assert promise["id"] == f"{promise['subject']}:{promise['resource'].replace(' ', '-')}"


def test_cores_of_a_board_with_colours_are_promised_colours(solocore):
    task = '[[task]]\nname = "{0}"\ncore = {0}\nperiod = "1 s"\nwcet = "1 ms"\nmisses = 10\n'
    tasks = "".join(task.format(core) for core in range(4))
    for board, words in [("core-i5-2500k", "colours {0} to {1} of the shared cache"), ("xeon-gold-6338", "ways of the shared cache")]:
        plan = solocore.plan(f'platform = "{board}"\n[regulation]\npolicy = "memguard"\nactive_cores = 4\n{tasks}')
        promised = [p["what"] for p in of(plan["promises"], "ways")]
        given = [core.get("colours") for core in plan["cores"][:4]]
        assert len(promised) == 4 and all(words.split("{")[0] in what for what in promised), promised
        if "{" in words:
            assert given == [[0, 8], [8, 8], [16, 8], [24, 8]], "32 colours and four cores"
            assert [words.format(first, first + n - 1) in what for (first, n), what in zip(given, promised)] == [True] * 4
        else:
            assert given == [None] * 4


def test_a_core_of_best_effort_has_a_budget_and_no_demand(planned):
    plan = json.loads((planned.dir / "plan.json").read_text())
    last = f"core {os.cpu_count() - 1}"
    assert last in [p["resource"] for p in of(plan["promises"], "budget")]
    assert [p["resource"] for p in of(plan["promises"], "demand")] == ["task video"]
    # Banks and ways of a core without bounds are promised to nobody.
    assert last not in [p["resource"] for p in of(plan["promises"], "banks")]


def test_a_rebuilt_program_is_not_the_one_that_was_profiled(solocore, compile_c):
    """The plan has the digests of program and libraries; another program's demand is nobody's word."""
    board_like_here(solocore)
    source = "int main(void) {{ for (volatile int i = 0; i < {}; i++); return 0; }}"
    for name, turns in [("one", 1000), ("two", 2000)]:
        (solocore.dir / name).write_bytes(compile_c(source.format(turns), name=name).read_bytes())
        (solocore.dir / name).chmod(0o755)
    plan = solocore.plan('platform = "machine.toml"\n[[task]]\nname = "job"\ncore = 0\nperiod = "1 s"\ncommand = ["./one"]\n')
    [task] = plan["tasks"]
    first, *libraries = task["program_files"]
    assert first["path"].endswith("/one") and len(first["sha256"]) == 64
    assert any("libc.so" in file["path"] for file in libraries) and task["touched_pages"] > 10

    def demand(*options):
        done = solocore("run", "plan.json", "--event", "page-faults", "--dry-run", "--format", "json", *options)
        [found] = of(done.json()["promises"], "demand")
        return found

    same = demand("--start", "--directory", solocore.dir)
    assert same["kept_by"] == "profile" and "SHA-256" in same["why"], same
    other = demand("--command", "job=./two", "--directory", solocore.dir)
    assert other["kept_by"] is None and "not the program that was profiled" in other["why"], other
    (solocore.dir / "one").write_bytes((solocore.dir / "two").read_bytes())
    rebuilt = demand("--start", "--directory", solocore.dir)
    assert rebuilt["kept_by"] is None and "--vouch demand" in rebuilt["why"], rebuilt
    assert demand("--command", "job=./two", "--vouch", "demand", "--directory", solocore.dir)["kept_by"] == "user"


def regulates(done):
    if done.code == 3 and "nobody keeps" not in done.err:
        pytest.skip(done.err.strip().splitlines()[-1])
    return done


def test_a_promise_of_nobody_is_refused_by_name(planned):
    done = regulates(planned("run", "plan.json", *RUN))
    assert done.code == 3 and not done.out
    for word in ("budget:core-0", "banks:core-0", "prefetchers:machine", "--partial", "page-faults stand in", "--colors"):
        assert word in done.err, word
    assert "place:task-video" not in done.err


def test_a_plan_for_another_machine_promises_nothing_of_the_memory(solocore):
    """The plan's platform is held against this machine, key by key, before a run and by doctor."""
    detected = solocore("platform", "detect", "-o", "machine.toml")
    assert detected.code == 0, detected.err
    cpus = os.cpu_count()

    def memory(done):
        return of(done.json()["promises"], "memory")[0]

    dry = ("run", "plan.json", *RUN, "--partial", "--dry-run", "--format", "json")
    solocore.plan(SYSTEM.format(last=cpus - 1))
    assert memory(solocore(*dry))["kept_by"] == "platform"
    board_like_here(solocore)
    solocore.plan(SYSTEM.format(last=cpus - 1))
    checked = solocore("platform", "check", "machine.toml", "--format", "json")
    differences = {d["key"]: d for d in checked.json()["differences"]}
    answer = memory(solocore(*dry))
    assert (answer["kept_by"] is None) == bool(differences)
    for key, found in differences.items():
        assert f"{key} is {found['file']} there and {found['machine']} here" in answer["why"]
    if differences:
        done = regulates(solocore("run", "plan.json", *RUN))
        assert done.code == 3 and "memory:machine" in done.err and "another machine" in done.err and "platform detect" in done.err


def test_a_partial_run_repeats_no_verdict(planned):
    done = regulates(planned("run", "plan.json", *RUN, "--partial", "--format", "json", "-o", "run.json"))
    assert done.code == 0, done.err
    run = done.json()
    assert run["partial"] and b'"meets"' not in done.out and '"meets"' not in (planned.dir / "run.json").read_text()
    answers = {p["id"]: p for p in run["promises"]}
    assert answers["place:task-video"]["kept_by"] == "tasks" and answers["releases:task-video"]["checked"]
    assert answers["budget:core-0"]["kept_by"] is None and "page-faults" in answers["budget:core-0"]["why"]
    assert answers["demand:task-video"]["kept_by"] == "system file" and not answers["demand:task-video"]["checked"]
    text = planned("run", "plan.json", *RUN, "--partial").out.decode()
    assert "NOBODY keeps it" in text and "partial" in text


def test_who_vouches_for_all_that_is_open_runs_with_verdicts(planned):
    plan = json.loads((planned.dir / "plan.json").read_text())
    subjects = sorted({p["subject"] for p in plan["promises"]})
    vouched = [word for subject in subjects for word in ("--vouch", subject)]
    done = regulates(planned("run", "plan.json", *RUN, *vouched, "--format", "json"))
    assert done.code == 0, done.err
    run = done.json()
    assert "partial" not in run and all(p["kept_by"] for p in run["promises"])
    assert run["plan"]["tasks"][0]["verdict"] == "meets"
    answers = {p["id"]: p for p in run["promises"]}
    # What a part keeps needs no word of the user's.
    assert (answers["place:task-video"]["kept_by"], answers["banks:core-0"]["kept_by"]) == ("tasks", "user")


def test_one_open_promise_is_enough_for_a_refusal(planned):
    plan = json.loads((planned.dir / "plan.json").read_text())
    subjects = sorted({p["subject"] for p in plan["promises"]} - {"banks"})
    vouched = [word for subject in subjects for word in ("--vouch", subject)]
    done = regulates(planned("run", "plan.json", *RUN, *vouched))
    assert done.code == 3 and "banks:core-0" in done.err and "budget:core-0" not in done.err


@pytest.mark.parametrize("word", ["magic", "budget:core-9"])
def test_a_promise_that_the_plan_does_not_make(planned, word):
    done = planned("run", "plan.json", *RUN, "--vouch", word)
    refused(done, f"--vouch {word}", "budget", codes=(2,))
    subjects = done.err.strip().split("it has ")[1].split(", ")
    assert len(subjects) == len(set(subjects)) > 5


def test_an_older_plan_says_nothing(planned):
    plan = json.loads((planned.dir / "plan.json").read_text())
    del plan["promises"]
    planned.write("old.json", json.dumps(plan))
    done = planned("run", "old.json", *RUN)
    assert done.code == 3
    if "privileges" not in done.err:
        assert "older solocore" in done.err or "self-test" in done.err


def test_the_doctor_knows_a_plan(planned):
    done = planned("doctor", "--plan", "plan.json", "--format", "json")
    assert done.code in (1, 3)
    if done.code == 1:
        answers = {p["id"]: p for p in done.json()["promises"]}
        memory = answers["memory:machine"]
        assert answers["place:task-video"]["kept_by"] is None
        # Its platform is a Core i5-2500K's, and seldom this machine's.
        assert memory["kept_by"] in (None, "platform") and (memory["kept_by"] is None) == ("another machine" in (memory["why"] or ""))
    else:
        assert "machine" in done.err


CONDITIONS = {
    "hybrid cpus", "smt", "virtual machine", "numa", "prefetchers", "suspend", "frequency", "boost", "idle states", "nmi watchdog",
    "irqbalance", "pid namespace", "cgroup cpu.max", "cgroup cpuset", "cgroup memory.max", "cgroup shares", "fair server",
    "ext server", "real-time throttling", "preemption",
}


def test_the_doctor_names_conditions_that_weaken_promises(planned):
    done = planned("doctor", "--format", "json")
    report = done.json()
    assert report["format"] == "solocore-doctor/1"
    # Conditions are notes: the exit code is that of what can be regulated.
    assert done.code == (0 if report["regulates"] else 1)
    found = {f["what"]: f for f in report["findings"]}
    assert found.keys() >= CONDITIONS
    for name in CONDITIONS:
        condition = found[name]
        assert condition.keys() <= {"what", "good", "unknown", "found", "touches", "command"}
        assert isinstance(condition["good"], bool) and condition["found"]
        assert condition["good"] or not condition.get("unknown"), "unknown is not a failure"
        assert condition["good"] or condition.get("command") or name == "virtual machine", condition
        assert condition.get("touches") or name == "cgroup shares"
    online = len(os.sched_getaffinity(0))
    if found["hybrid cpus"]["good"] and found["cgroup cpuset"]["good"]:
        assert f"all {online} CPUs" in found["hybrid cpus"]["found"]


def test_the_doctor_prints_what_helps_on_a_line_of_its_own(planned):
    found = planned("doctor", "--format", "json").json()["findings"]
    lines = planned("doctor").out.decode().splitlines()
    for condition in (f for f in found if f["what"] in CONDITIONS):
        at, = [i for i, line in enumerate(lines) if line[5:].startswith(condition["what"] + ": ")]
        mark = "?  " if condition.get("unknown") else "yes" if condition["good"] else "no "
        assert lines[at].startswith(f"{mark}  ")
        assert ("(promises: " in lines[at]) == (not condition["good"] and "touches" in condition)
        if "command" in condition:
            assert lines[at + 1] == "       " + condition["command"]


def test_conditions_are_repeated_beside_the_promises_of_a_plan(planned):
    report = planned("doctor", "--plan", "plan.json", "--format", "json")
    if report.code == 3:
        pytest.skip(report.err.strip())
    report = report.json()
    subjects = {p["subject"] for p in report["promises"]}
    expected = {}
    for f in report["findings"]:
        for subject in subjects & set(f.get("touches", []) if not f["good"] else []):
            expected.setdefault(subject, []).append(f["what"])
    text = planned("doctor", "--plan", "plan.json").out.decode()
    _, _, repeated = text.partition("this machine weakens (see above):\n")
    lines = dict(line.strip().split(": ", 1) for line in repeated.splitlines())
    assert lines == {subject: ", ".join(names) for subject, names in expected.items()}


def test_a_refused_run_changes_nothing(planned):
    """The keeper's notes are where changes are recorded; a dry run and a refused one leave none."""
    # No run of another test comes or goes from here on, and the keepers of those that were killed have ended.
    regulates(planned("restore"))
    before = sorted(os.listdir("/run")) if os.path.isdir("/run") else []
    regulates(planned("run", "plan.json", *RUN))
    planned("run", "plan.json", *RUN, "--dry-run")
    assert (sorted(os.listdir("/run")) if os.path.isdir("/run") else []) == before


@pytest.mark.parametrize("option", [("--vcpu", "1ms/10ms"), ("--ways", "2")])
def test_exec_drops_no_option_beside_colours(solocore, option):
    """A machine that cannot do the one does not quietly do the other: no sched_ext, or no shares of the cache, is an error."""
    done = solocore("exec", *option, "--colors", "0", "--", "true")
    alone = solocore("exec", *option, "--", "true")
    if alone.code == 0:
        pytest.skip("this machine can do it")
    assert done.code != 0 and done.err.strip(), done


ALONE = """
platform = "core-i5-2500k"
[regulation]
policy = "{policy}"
{more}
[[task]]
name = "a"
core = 0
period = "1 s"
wcet = "100 ms"
misses = 400000
"""


def explicit(rate, more=""):
    """Core 0 has 12,000 accesses a period of 1 ms, the others `rate` each."""
    cores = "".join(f'[[core]]\nid = {i}\nbandwidth = "{n * 64} kB/s"\n' for i, n in enumerate([12_000, rate, rate, rate]))
    return ALONE.format(policy="memguard", more=f'share = "explicit"\n{more}\n{cores}')


def test_cores_without_tasks_count_with_their_budgets(solocore):
    """Other programs run there: nobody promises that they do not."""
    bounds = [solocore.plan(explicit(rate))["tasks"][0]["c_sce_ns"] for rate in (500, 1000, 1100)]
    assert bounds == sorted(set(bounds)), bounds
    best_effort = '[[task]]\nname = "be"\ncore = 1\ncriticality = "D"\nwcet = "1 ms"\nmisses = 1\n'
    assert solocore.plan(explicit(1000) + best_effort)["tasks"][0]["c_sce_ns"] >= bounds[1]


def test_bounds_that_count_on_jobs_rest_on_nobody_else_being_there(solocore):
    def others(text):
        return {p["resource"]: p["bound_of"] for p in of(solocore.plan(text)["promises"], "others")}

    assert others(explicit(1000)) == {}, "budgets of idle cores are charged"
    second = '[[task]]\nname = "b"\ncore = 2\nperiod = "1 s"\nwcet = "1 ms"\nmisses = 10\n'
    assert others(explicit(1000) + second) == {"core 0": ["b"], "core 2": ["a"]}
    free = ALONE.format(policy="none", more="")
    assert set(others(free)) == {"core 1", "core 2", "core 3"}, "nothing limits idle cores"
    best_effort = '[[task]]\nname = "be"\ncore = 1\ncriticality = "D"\nwcet = "1 ms"\nmisses = 1\n'
    assert others(explicit(1000) + second + best_effort) == {}


def test_a_skid_is_charged_to_the_others(solocore):
    def bound(text):
        return solocore.plan(text)["tasks"][0]["c_sce_ns"]

    assert bound(explicit(600, "skid = 500")) == bound(explicit(1100)) > bound(explicit(600))
    plan = solocore.plan(explicit(600, "skid = 500"))
    budget = next(p for p in plan["promises"] if p["id"] == "budget:core-1")
    assert "at most 600 accesses" in budget["what"] and "500 beyond" in budget["what"]
    assert plan["regulation"]["skid"] == 500


@pytest.mark.parametrize("text, words", [
    (ALONE.format(policy="none", more="skid = 5"), 'skid is for budgets of policy = "memguard"'),
    (ALONE.format(policy="memguard", more='skid = 5\nmodel = "sce"'), 'skid needs model = "sound"'),
    (ALONE.format(policy="memguard", more="skid = 10000000"), "skid = 10000000 is more than"),
])
def test_a_skid_that_cannot_be(solocore, text, words):
    solocore.write("system.toml", text)
    refused(solocore("plan", "system.toml"), words, codes=(2,), one_line=False)
