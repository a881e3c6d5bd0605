"""`solocore schema`: what editors are told is what solocore reads."""

import copy
import json
import tomllib

import jsonschema
import pytest

from conftest import ROOT

SYSTEMS = sorted(ROOT.glob("examples/**/system.toml")) + [ROOT / "examples/vision/large.toml"]
PLATFORMS = sorted(ROOT.glob("platforms/*.toml"))


@pytest.fixture(scope="module")
def schemas(program):
    import subprocess

    def of(name):
        done = subprocess.run([program, "schema", name], capture_output=True, check=True)
        schema = json.loads(done.stdout)
        jsonschema.Draft202012Validator.check_schema(schema)
        return jsonschema.Draft202012Validator(schema)

    return {name: of(name) for name in ("system", "platform", "plan", "profile", "run", "sim", "verify")}


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


@pytest.mark.parametrize("kind, path", [("system", p) for p in SYSTEMS] + [("platform", p) for p in PLATFORMS], ids=str)
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


@pytest.mark.parametrize("example", ["sce-table2", "ima-sce", "mc2", "vcpus"])
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
