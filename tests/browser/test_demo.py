"""What the demo claims, by the results of `solocore assess examples/vision/system.toml` beside its report.

unmanaged   sharing hurts: a task misses its deadlines
bounds      at most twice the time alone, and kept
managed     at most 1.2 times the time alone
price       best effort keeps at least 60 % of its throughput: of its jobs, and of each program's memory traffic, on average

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


def test_unmanaged_a_task_misses_its_deadlines(demo):
    assert sum(t["misses_deadline"] for t in tasks(demo, "unmanaged", True).values()) >= 5


def test_under_the_plan_nobody_does(demo):
    for name, task in tasks(demo, "managed", True).items():
        assert task["jobs"] >= 10 and task["misses_deadline"] == 0, name


def test_bounds_are_kept_and_near(demo):
    alone, managed = tasks(demo, "solo", True), tasks(demo, "managed", True)
    for name, planned in tasks(demo, "plan", True).items():
        assert managed[name]["moet_ns"] <= planned["c_sce_ns"] <= 2.0 * alone[name]["moet_ns"], name
        assert managed[name]["moet_ns"] <= 1.2 * alone[name]["moet_ns"], name


@pytest.mark.parametrize("what", ("jobs", "accesses"))
def test_best_effort_keeps_its_throughput(demo, what):
    unmanaged, managed = tasks(demo, "unmanaged", False), tasks(demo, "managed", False)
    assert sum(t[what] for t in managed.values()) >= 0.6 * sum(t[what] for t in unmanaged.values())
    # A program that gets nothing done at all without the plan cannot do worse under it.
    parts = [min(managed[name][what] / t[what], 2.0) for name, t in unmanaged.items() if t[what]]
    assert mean(parts) >= 0.6
    assert min(parts) >= 0.3
