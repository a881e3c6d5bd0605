"""`scripts/check-margins.sh`: a merge fails where a margin shrinks."""

import subprocess

import pytest
from conftest import ROOT

SYSTEM = """platform = "p4080"
[[task]]
name = "a"
core = 0
period = "100 ms"
wcet = "{} ms"
misses = 1000
"""


@pytest.fixture
def merge(solocore):
    """A repository whose branch `main` has a plan for 10 ms; `merge(ms)` runs the script on a change."""
    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words], cwd=solocore.dir / "robot", check=True, capture_output=True)

    def plan_and_commit(ms):
        solocore.write("robot/system.toml", SYSTEM.format(ms))
        assert solocore("plan", "robot/system.toml", "-o", "robot/plan.json").code == 0
        git("add", ".")
        git("commit", "-m", "a plan")

    def run(ms, *words):
        solocore.write("robot/system.toml", SYSTEM.format(ms))
        return subprocess.run([ROOT / "scripts/check-margins.sh", *map(str, words)], cwd=solocore.dir / "robot", capture_output=True, text=True,
                              env={**solocore.env, "SOLOCORE": solocore.program})

    (solocore.dir / "robot").mkdir()
    git("init", "--initial-branch", "main")
    plan_and_commit(10)
    git("checkout", "-b", "change")
    return run


def test_a_margin_that_shrinks_fails(merge):
    done = merge(11, "system.toml", "plan.json", "main")
    assert done.returncode == 1 and "WORSE" in done.stdout, done.stderr


def test_what_is_no_worse_passes_and_the_new_plan_is_there(merge, solocore):
    before = (solocore.dir / "robot/plan.json").read_text()
    assert merge(9, "system.toml", "plan.json", "main").returncode == 0
    assert (solocore.dir / "robot/plan.json").read_text() != before
    # 2 ms of a deadline of 100 ms are within 3 per cent, and not within one.
    assert merge(12, "system.toml", "plan.json", "main", 3).returncode == 0
    assert merge(12, "system.toml", "plan.json", "main", 1).returncode == 1


def test_a_plan_that_does_not_hold_fails(merge):
    assert merge(99.9, "system.toml", "plan.json", "main", 100).returncode == 1


def test_refusals(merge):
    done = merge(10, "system.toml", "other.json", "main")
    assert done.returncode == 2 and "commit main has no other.json" in done.stderr
    done = merge(10)
    assert done.returncode == 2 and "origin/main" in done.stderr, "there is no such remote here"
    assert merge(10, "--help").returncode == 2
    assert merge("x", "system.toml", "plan.json", "main").returncode == 2
