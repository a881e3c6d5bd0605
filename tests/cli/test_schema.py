"""`solocore schema`: what editors are told is what solocore reads."""

import copy
import json
import re
import tomllib

import jsonschema
import pytest

from conftest import ROOT, board_like_here

SYSTEMS = sorted(ROOT.glob("examples/**/system.toml")) + [ROOT / "examples/vision/large.toml"]
PLATFORMS = sorted(ROOT.glob("platforms/*.toml"))


INSTANCES = sorted(ROOT.glob("examples/**/instance.toml"))
SCENARIOS = sorted(ROOT.glob("examples/scenarios/*.toml"))
NAMES = ("system", "platform", "instance", "scenario", "corpus", "plan", "profile", "run", "sim", "scenario-result", "verify", "table", "diff", "doctor",
         "dry-run", "compare", "latency", "measure")


@pytest.fixture(scope="module")
def schemas(program):
    import subprocess

    def of(name):
        done = subprocess.run([program, "schema", name], capture_output=True, check=True)
        schema = json.loads(done.stdout)
        jsonschema.Draft202012Validator.check_schema(schema)
        return jsonschema.Draft202012Validator(schema)

    return {name: of(name) for name in NAMES}


def wrong(validator, document):
    return [(list(e.path), e.message) for e in validator.iter_errors(document)]


def tables(document, path=()):
    """All tables of a document, by their paths."""
    if isinstance(document, dict):
        yield path
        for key, value in document.items():
            yield from tables(value, (*path, key))
    elif isinstance(document, list):
        for at, value in enumerate(document):
            yield from tables(value, (*path, at))


def at(document, path):
    for key in path:
        document = document[key]
    return document


@pytest.mark.parametrize("kind, path", [("system", p) for p in SYSTEMS] + [("platform", p) for p in PLATFORMS] + [("instance", p) for p in INSTANCES]
                         + [("scenario", p) for p in SCENARIOS], ids=str)
def test_files_of_the_tree_are_valid_and_their_mutants_are_not(schemas, kind, path):
    document = tomllib.loads(path.read_text())
    assert wrong(schemas[kind], document) == []
    tried = 0
    for table in tables(document):
        strange = copy.deepcopy(document)
        at(strange, table)["perod"] = "1 ms"
        assert wrong(schemas[kind], strange), f"an unknown key in {table} is taken"
        for key, value in at(document, table).items():
            mutant = copy.deepcopy(document)
            # No key takes a table of this form, and none a list of tables of it.
            at(mutant, table)[key] = [{"no": "such"}] if isinstance(value, list) else {"no": "such"}
            assert wrong(schemas[kind], mutant), f"{key} of {table} takes anything"
            tried += 1
    assert tried > 5


@pytest.mark.parametrize("text", ["10ms", "10 ms", "1_000.5 us", ".5 s", "2 min", " 1 ns "])
def test_times_are_those_that_plan_takes(solocore, schemas, text):
    document = {"platform": "p4080", "task": [{"name": "a", "period": text, "wcet": "1 ns", "misses": 0}]}
    assert wrong(schemas["system"], document) == []
    solocore.write("s.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "{text}"\nwcet = "1 ns"\nmisses = 0\n')
    assert solocore("plan", "s.toml").code in (0, 1)


@pytest.mark.parametrize("text", ["10", "ms", "-1 ms", "10 apples", "1e3 ms", "10 MB/s", "1..2 ms"])
def test_times_that_plan_refuses_are_wrong(solocore, schemas, text):
    document = {"platform": "p4080", "task": [{"name": "a", "period": text, "wcet": "1 ns", "misses": 0}]}
    assert wrong(schemas["system"], document)
    solocore.write("s.toml", f'platform = "p4080"\n[[task]]\nname = "a"\nperiod = "{text}"\nwcet = "1 ns"\nmisses = 0\n')
    assert solocore("plan", "s.toml").code == 2


@pytest.mark.parametrize("example", ["sce-table2", "ima-sce", "drivers", "mc2", "vcpus"])
def test_plans_of_each_scheme_are_valid(solocore, schemas, example):
    done = solocore("plan", ROOT / "examples" / example / "system.toml", "-o", "plan.json")
    assert done.code in (0, 1), done.err
    plan = json.loads((solocore.dir / "plan.json").read_text())
    assert wrong(schemas["plan"], plan) == []
    for key in ("tasks", "platform", "schedulable"):
        less = {k: v for k, v in plan.items() if k != key}
        assert wrong(schemas["plan"], less), f"a plan without {key} is taken"
    plan["tasks"][0]["wcet_ns"] = "1 ms"
    assert wrong(schemas["plan"], plan)


@pytest.mark.parametrize("example", ["sce-table2", "ima-sce"])
def test_simulations_are_valid(solocore, schemas, example):
    assert solocore("plan", ROOT / "examples" / example / "system.toml", "-o", "plan.json").code in (0, 1)
    done = solocore("sim", "plan.json", "--duration", "40 ms", "-o", "sim.json")
    assert done.code in (0, 1), done.err
    result = json.loads((solocore.dir / "sim.json").read_text())
    assert wrong(schemas["sim"], result) == [] and result["tasks"]
    assert ("io" in result) == (example == "ima-sce")
    for key in ("format", "tasks", "simulated_ns"):
        assert wrong(schemas["sim"], {k: v for k, v in result.items() if k != key}), f"a result without {key} is taken"
    result["tasks"][0]["jobs"] = "3"
    assert wrong(schemas["sim"], result)


def test_a_profile_is_valid(solocore, schemas):
    assert solocore("profile", "-o", "p.json", "--", "true").code == 0
    profile = json.loads((solocore.dir / "p.json").read_text())
    assert wrong(schemas["profile"], profile) == [] and profile["pages"]
    assert wrong(schemas["profile"], {**profile, "pges": []}), "an unknown key is taken"
    for key in ("command", "lockdown", "levels"):
        assert wrong(schemas["profile"], {k: v for k, v in profile.items() if k != key}), f"a profile without {key} is taken"


def holes(document, validator):
    """Keys without which the schema takes the document all the same."""
    missed = []
    for table in tables(document):
        for key in at(document, table):
            less = copy.deepcopy(document)
            del at(less, table)[key]
            missed += [(*table, key)] if not wrong(validator, less) else []
    return missed


def valid(solocore, schemas, name, document, may_lack=()):
    """The output is valid, and no longer once a key of another type or, but for those in `may_lack`, a key less is there."""
    assert wrong(schemas[name], document) == []
    lacking = {path[-1] for path in holes(document, schemas[name])}
    assert lacking <= set(may_lack), f"{name}: the schema takes it without {lacking - set(may_lack)}"
    for table in tables(document):
        for key in at(document, table):
            mutant = copy.deepcopy(document)
            at(mutant, table)[key] = [{"no": "such"}] if isinstance(at(document, table)[key], list) else {"no": "such"}
            assert wrong(schemas[name], mutant), f"{name}: {key} of {table} takes anything"


SET = {"cores": 2, "tasks": [{"wcet": 1, "period": 4, "deadline": 4}, {"wcet": 2, "period": 6, "deadline": 5}]}


@pytest.mark.parametrize("change, good", [
    ({}, True), ({"cores": 0}, None), ({"cores": -1}, False), ({"cores": "2"}, False), ({"tasks": [{"wcet": 1, "period": 4}]}, False), ({"more": 1}, False),
])
def test_lines_of_a_corpus_are_those_that_analyze_reads(solocore, schemas, change, good):
    line = {**SET, **change}
    assert good is None or (wrong(schemas["corpus"], line) == []) == good
    done = solocore("analyze", "--test", "gedf", "-", stdin=json.dumps(line).encode())
    assert (done.code == 0) == bool(good)


@pytest.mark.parametrize("old, new, good", [
    ('core = 0', 'core = "0"', False), ('period = "1 ms"', 'perod = "1 ms"', False), ('"unlimited"', '"unlimted"', False),
    ('policy = "memguard"', 'policy = "bwlock"', False), ('size = "16 MiB"', 'sise = "16 MiB"', False), ('duration = "20 ms"', 'duration = "2 ms"\nrow_hit_cap = "off"', True),
    ('core = 0', 'core = 0\nways = "0-3,8"\nplace = { banks = "0-7" }', True), ('core = 0', 'core = 0\nways = 2', True), ('core = 0', 'core = 0\nways = "0--3"', False),
    ('kind = "latency", size = "16 MiB"', 'kind = "bandwidth", job = { passes = 3 }', True), ('size = "16 MiB"', 'job = "endless"', True),
    ('size = "16 MiB"', 'job = { pases = 3 }', False),
])
def test_scenarios_are_those_that_sim_takes(solocore, schemas, old, new, good):
    text = SCENARIOS[0].read_text()
    assert old in text
    text = text.replace(old, new, 1).replace('duration = "20 ms"', 'duration = "100 us"')
    assert (wrong(schemas["scenario"], tomllib.loads(text)) == []) == good
    solocore.write("scenario.toml", text)
    done = solocore("sim", "scenario.toml", "--format", "json")
    assert (done.code in (0, 1)) == good, done.err


def test_a_scenarios_result_is_valid(solocore, schemas):
    solocore.write("scenario.toml", SCENARIOS[0].read_text().replace('duration = "20 ms"', 'duration = "1 ms"'))
    done = solocore("sim", "scenario.toml", "-o", "result.json", "--timeline", "100 us")
    assert done.code in (0, 1), done.err
    result = json.loads((solocore.dir / "result.json").read_text())
    valid(solocore, schemas, "scenario-result", result, may_lack=("core", "timeline", "task", "throttled", "background"))


def test_a_time_table_is_valid(solocore, schemas):
    done = solocore("schedule-io", INSTANCES[0], "-o", "table.json")
    assert done.code == 0, done.err
    valid(solocore, schemas, "table", json.loads((solocore.dir / "table.json").read_text()), may_lack=("chain",))


def test_outputs_about_plans_are_valid(solocore, schemas):
    task = '[[task]]\nname = "{}"\ncore = 0\nperiod = "100 ms"\nwcet = "5 ms"\nmisses = 1000\n'
    solocore.plan('platform = "p4080"\n' + task.format("a") + task.format("b"))
    (solocore.dir / "plan.json").rename(solocore.dir / "old.json")
    solocore.plan('platform = "p4080"\n' + task.format("a").replace("5 ms", "6 ms") + task.format("c"))
    done = solocore("diff", "old.json", "plan.json", "--format", "json")
    assert done.code == 1
    nullable = ("old", "new", "verdict", "wcrt_ns", "deadline_ns", "margin_ns", "old_budget_accesses", "new_budget_accesses", "old_ways", "new_ways")
    valid(solocore, schemas, "diff", done.json(), may_lack=nullable)


PAIR = "".join(f'[[task]]\nname = "{name}"\ncore = {core}\ncriticality = "{level}"\nperiod = "100 ms"\nwcet = "1 ms"\nmisses = 10\n'
               for name, core, level in (("a", 0, "A"), ("b", 1, "B")))
BACKGROUND = """[regulation]
policy = "maracas"
[[vcpu]]
name = "v"
core = 0
tasks = ["a"]
capacity = "10 ms"
period = "50 ms"
[[task]]
name = "a"
criticality = "C"
period = "100 ms"
wcet = "1 ms"
misses = 10
"""


@pytest.mark.parametrize("system", [
    'platform = "p4080"\n' + PAIR,
    (ROOT / "examples/drivers/system.toml").read_text(),
    'platform = "p4080"\n[levels]\n' + PAIR,
    'platform = "p4080"\n' + BACKGROUND,
], ids=["budgets", "windows", "levels", "vcpus"])
def test_outputs_about_this_machine_are_valid(solocore, schemas, system):
    """Keys that hold nothing are left out: the schema must not ask for them."""
    board_like_here(solocore)
    board = (solocore.dir / "machine.toml").read_text()
    # Levels need ways.
    solocore.write("machine.toml", re.sub(r'partition = "\w+"', 'partition = "way"', board))
    first, rest = re.match(r'((?:#.*\n)*)platform = ".*"\n([\s\S]*)', system).groups()
    solocore.plan(f'{first}platform = "machine.toml"\n{rest}')
    plan = ("plan.json", "--dry-run", "--partial")
    commands = [("doctor", "doctor"), ("doctor", "doctor", "--plan", "plan.json"), ("dry-run", "run", *plan), ("dry-run", "run", *plan, "--event", "page-faults"),
                ("dry-run", "run", *plan, "--scheduler", "levels")]
    seen = set()
    for name, *command in commands:
        done = solocore(*command, "--format", "json")
        # Other schemes know no budgets or no levels.
        if done.code == 2:
            continue
        assert wrong(schemas[name], done.json()) == [], command
        seen.add(name)
        for key in done.json():
            strange = {**done.json(), key: {"no": "such"} if not isinstance(done.json()[key], list) else [{"no": "such"}]}
            assert wrong(schemas[name], strange), f"{name}: {key} takes anything"
    assert seen == {"doctor", "dry-run"}


def test_measured_numbers_are_valid(solocore, schemas):
    if solocore("platform", "detect", "-o", "machine.toml").code:
        pytest.skip("this machine has no platform file")
    done = solocore("platform", "measure", "machine.toml", "--dry-run", "--only", "cpi", "--time", "1 s", "--format", "json", timeout=120)
    if done.code == 3:
        pytest.skip(done.err)
    assert done.code == 0, done.err
    valid(solocore, schemas, "measure", done.json(), may_lack=("written", "before", "after", "keep", "rows", "worst"))


def test_outputs_of_measurements_are_valid(solocore, schemas):
    done = solocore("latency", "--source", "probe", "--event", "page-faults", "--count", "2", "--every", "50 ms", "--format", "json")
    assert done.code == 0, done.err
    nullable = ("instead_of", "event", "threshold", "cost", "latency")
    valid(solocore, schemas, "latency", done.json(), may_lack=nullable)
    done = solocore("compare", "--runs", "3", "--format", "json", "--", "true", timeout=120)
    if done.code == 3:
        pytest.skip(done.err)
    valid(solocore, schemas, "compare", done.json(), may_lack=("protected",))
