"""What the demo claims, by the results of `solocore assess examples/vision/system.toml` beside its report.

unmanaged   sharing hurts: disparity misses every deadline, and takes more than three times as long as alone
bounds      at most twice the time alone, and kept
managed     no longer than the time alone
price       no best-effort program ends fewer jobs; each keeps its memory traffic, on average at least 60 % of it

Not covered: other scenarios; the figures are this one's. Run with `SOLOCORE_REPORT=build/demo/report.html pytest tests/browser/test_demo.py`.
"""

import json
import os
from pathlib import Path
from statistics import mean

import pytest


@pytest.fixture(scope="module")
def demo():
    path = os.environ.get("SOLOCORE_REPORT")
    if not path:
        pytest.fail("set SOLOCORE_REPORT to the path of the demo's report")
    directory = Path(path).resolve().parent
    return {name: json.loads((directory / f"{name}.json").read_text()) for name in ("plan", "solo", "unmanaged", "managed")}


def tasks(demo, name, analysed):
    wanted = [t["name"] for t in demo["plan"]["tasks"] if (t["criticality"] != "D") == analysed]
    return {t["name"]: t for t in demo[name]["tasks"] if t["name"] in wanted}


def test_unmanaged_a_task_misses_every_deadline(demo):
    task, alone = tasks(demo, "unmanaged", True)["disparity"], tasks(demo, "solo", True)["disparity"]
    # Jobs are those that ended; one whose deadline passed before the end is a miss, too.
    assert task["jobs"] >= 5 and task["misses_deadline"] >= alone["jobs"] >= task["jobs"]
    assert task["moet_ns"] >= 3 * alone["moet_ns"], "README: three times as long as alone"


def test_under_the_plan_nobody_does(demo):
    for name, task in tasks(demo, "managed", True).items():
        assert task["jobs"] >= 10 and task["misses_deadline"] == 0, name


def test_bounds_are_kept_and_near(demo):
    alone, managed = tasks(demo, "solo", True), tasks(demo, "managed", True)
    for name, planned in tasks(demo, "plan", True).items():
        assert managed[name]["moet_ns"] <= planned["c_sce_ns"] <= 2.0 * alone[name]["moet_ns"], name
        assert managed[name]["moet_ns"] <= alone[name]["moet_ns"], "README: no task takes longer than alone"


@pytest.mark.parametrize("what", ("jobs", "accesses"))
def test_best_effort_keeps_its_throughput(demo, what):
    unmanaged, managed = tasks(demo, "unmanaged", False), tasks(demo, "managed", False)
    assert sum(t[what] for t in managed.values()) >= 0.6 * sum(t[what] for t in unmanaged.values())
    if what == "jobs":
        assert all(managed[name]["jobs"] >= t["jobs"] for name, t in unmanaged.items()), "README: others get no less done"
    # A program that gets nothing done at all without the plan cannot do worse under it.
    parts = [min(managed[name][what] / t[what], 2.0) for name, t in unmanaged.items() if t[what]]
    assert mean(parts) >= 0.6
    assert min(parts) >= 0.3
