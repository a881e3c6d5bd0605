"""`solocore diff`: what a change does to a plan's promises."""

import json

import pytest

from conftest import refused

HEAD = 'platform = "p4080"\n'
TASK = '[[task]]\nname = "{}"\ncore = {}\nperiod = "100 ms"\nwcet = "{} ms"\nmisses = 1000\n'


@pytest.fixture
def plans(solocore):
    """Two plans that differ in the execution time of b; `plans(ms)` makes the second one."""
    def make(ms, name="new.json", head=HEAD, last=""):
        text = head + TASK.format("a", 0, 10) + TASK.format("b", 1, ms) + last
        solocore.write("system.toml", text)
        done = solocore("plan", "system.toml", "-o", name)
        assert done.code in (0, 1), done.err
    make(10, "old.json")
    return make


def test_a_plan_is_no_worse_than_itself(solocore, plans):
    done = solocore("diff", "old.json", "old.json")
    assert done.code == 0 and done.out.decode().splitlines()[-1] == "nothing is worse"


def test_a_task_that_grows_is_named_with_its_numbers(solocore, plans):
    plans(11)
    done = solocore("diff", "old.json", "new.json", "--format", "json")
    assert done.code == 1
    seen = {t["name"]: t for t in done.json()["tasks"]}
    assert seen["b"]["worse"] == ["margin"]
    for side, name in (("old", "old.json"), ("new", "new.json")):
        task = next(t for t in json.loads((solocore.dir / name).read_text())["tasks"] if t["name"] == "b")
        assert seen["b"][side]["wcrt_ns"] == task["wcrt_ns"]
        assert seen["b"][side]["margin_ns"] == task["deadline_ns"] - task["wcrt_ns"]
    assert "WORSE" in solocore("diff", "old.json", "new.json").out.decode()
    # The other way round it is better; and 1 ms of a deadline of 100 ms is within 2 per cent.
    back = solocore("diff", "new.json", "old.json", "--format", "json").json()
    assert next(t for t in back["tasks"] if t["name"] == "b")["worse"] == []
    allowed = solocore("diff", "old.json", "new.json", "--allow", 2, "--format", "json").json()
    assert next(t for t in allowed["tasks"] if t["name"] == "b")["worse"] == []


def test_a_verdict_that_is_worse_and_a_task_that_is_gone(solocore, plans):
    plans(99.9)
    done = solocore("diff", "old.json", "new.json", "--allow", 100, "--format", "json")
    assert done.code == 1 and {t["name"]: t["worse"] for t in done.json()["tasks"]}["b"] == ["verdict"]
    solocore.write("system.toml", HEAD + TASK.format("a", 0, 10))
    assert solocore("plan", "system.toml", "-o", "new.json").code == 0
    done = solocore("diff", "old.json", "new.json", "--allow", 100, "--format", "json")
    assert done.code == 1 and {t["name"]: t["worse"] for t in done.json()["tasks"]}["b"] == ["it is gone"]


def test_a_weaker_model_does_not_look_like_progress(solocore, plans):
    plans(10, head=HEAD + '[regulation]\nmodel = "sce"\n')
    done = solocore("diff", "old.json", "new.json", "--format", "json")
    assert done.code == 1 and done.json()["weaker_model"] and done.json()["worse"]


def test_other_files_are_refused(solocore, plans):
    solocore.write("system.toml", HEAD)
    refused(solocore("diff", "old.json", "system.toml"), "system.toml")
    refused(solocore("diff", "old.json", "none.json"), "none.json")


def test_unknown_keys_come_with_the_one_that_was_meant(solocore):
    for wrong, right in (("perod", "period"), ("comand", "command"), ("critically", "criticality")):
        solocore.write("system.toml", HEAD + f'[[task]]\nname = "a"\n{wrong} = "1 ms"\n')
        refused(solocore("plan", "system.toml"), "system.toml:4:", f"unknown field `{wrong}`", f"; did you mean `{right}`?")
