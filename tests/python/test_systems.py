"""`plan`, `simulate`, `schedule_io`, `study`, `reproduce` and `profile` give what the command gives."""

import json
import pickle
import shutil
from pathlib import Path

import pytest

import solocore
from solocore import InputError

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = """
platform = "p4080"
[[task]]
name = "camera"
core = 0
period = "30 ms"
wcet = "8 ms"
misses = 40000
[[task]]
name = "control"
core = 1
period = "10 ms"
wcet = "{wcet}"
misses = 9000
"""
INSTANCES = ROOT / "examples/ima-sce"


TIGHT = """
platform = "p4080"
[[task]]
name = "camera"
core = 0
period = "10 ms"
wcet = "9 ms"
misses = 9000
"""


@pytest.mark.parametrize("text, code", [(SYSTEM.format(wcet="2 ms"), 0), (TIGHT, 1)], ids=["meets", "late"])
def test_a_plan_is_the_commands(command, text, code):
    theirs = command.plan(text, code=code)
    # The package may plan a text that no file has.
    assert [i["role"] for i in theirs.pop("inputs")] == ["system"]
    found = solocore.plan(command.dir / "system.toml")
    assert found.data == theirs and found.schedulable == (code == 0)
    assert pickle.loads(pickle.dumps(found)) == found
    assert solocore.plan(text).tasks == found.tasks, "the text will do"
    assert "camera" in found._repr_html_() and "<svg" in found._repr_html_()
    assert found.explain("camera").rule in str(found.explain("camera"))
    if code:
        assert found.repair and solocore.plan(command.dir / "system.toml", what_if=[f"{found.repair[0]['change']}="
                                              f"{found.repair[0]['value']}"]).schedulable


def test_a_simulation_is_the_commands(command):
    plan = solocore.plan(SYSTEM.format(wcet="2 ms"))
    plan.save(command.dir / "plan.json")
    theirs = command.sim("plan.json", "--duration", "200 ms", "--seed", 3)
    for found in (solocore.simulate(plan, duration=0.2, seed=3), solocore.simulate(command.dir / "plan.json", duration=0.2, seed=3)):
        assert found.data | {"wall_ns": 0} == theirs | {"wall_ns": 0}
    other = solocore.simulate(plan, duration=0.2, seed=3, mode="unmanaged")
    assert other.mode == "unmanaged" and "missed" in repr(other) and "<table>" in other._repr_html_()


def test_a_scenario_is_simulated_as_the_command_does(command):
    path = ROOT / "examples/scenarios/memguard.toml"
    for options, ours in ((), {}), (("--duration", "3 ms", "--seed", "9"), {"duration": 0.003, "seed": 9}):
        theirs = command.sim(path, *options)
        for given in (path, path.read_text()):
            found = solocore.simulate(given, **ours)
            assert found.data | {"wall_ns": 0} == theirs | {"wall_ns": 0}
            assert "missed" in repr(found) and "<table>" in found._repr_html_()
    with pytest.raises(InputError, match="leave mode out"):
        solocore.simulate(path, mode="solo")


def test_errors_say_file_line_and_key(tmp_path):
    path = tmp_path / "system.toml"
    path.write_text(SYSTEM.format(wcet="2 ms").replace("misses = 9000", "mises = 9000"))
    with pytest.raises(InputError) as caught:
        solocore.plan(path)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.file, error.line, error.key) == (str(path), 14, "mises") and str(error).startswith(f"{path}:14:")
    with pytest.raises(InputError) as caught:
        solocore.plan(tmp_path / "none.toml")
    assert caught.value.file.endswith("none.toml") and isinstance(caught.value, (ValueError, solocore.Error))
    plan = solocore.plan(SYSTEM.format(wcet="2 ms"))
    for call in (lambda: solocore.plan(7), lambda: solocore.plan(path, what_if="x"), lambda: solocore.plan(path, time_limit=-1),
                 lambda: solocore.simulate(plan, duration=0), lambda: solocore.simulate(plan, duration=float("nan")),
                 lambda: solocore.simulate(plan, mode="x"), lambda: solocore.simulate("{}\n"), lambda: solocore.simulate(path),
                 lambda: plan.task("x"), lambda: solocore.schedule_io("x\n"), lambda: solocore.study("x"), lambda: solocore.study([]),
                 lambda: solocore.study("*,*,*,*,*,*,*", utilization="9:1"), lambda: solocore.reproduce("none"),
                 lambda: solocore.simulate(plan, seed=-1), lambda: solocore.study("*,*,*,*,*,*,*", schemes="none")):
        with pytest.raises(InputError) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_time_table_is_the_commands(command):
    for path in sorted(INSTANCES.glob("*.toml")):
        done = command("schedule-io", path, "-o", "table.json", "--format", "json")
        if done.code == 2:
            continue
        found = solocore.schedule_io(path)
        assert found.schedulable == (done.code == 0) == done.json()["schedulable"]
        if found.schedulable:
            found.save(command.dir / "ours.json")
            assert command("check-io", path, "ours.json").code == 0
            break
    else:
        pytest.fail(f"{INSTANCES} has no instance")


def test_a_study_is_the_commands(command, tmp_path):
    scenario = "C-Light,Long,Light,Quick,Small,High,Many"
    done = command("study", "--scenario", scenario, "--utilization", "6:8:1", "--schemes", "all", "--seed", 4, "-o", "theirs")
    assert done.code == 0, done.err
    found = solocore.study(scenario, utilization="6:8:1", schemes="all", seed=4, output=tmp_path / "ours")
    for name in ("points.csv", "sua.csv", "observations.csv"):
        assert (tmp_path / "ours" / name).read_bytes() == (command.dir / "theirs" / name).read_bytes()
    assert found.points.num_rows == len((command.dir / "theirs/points.csv").read_text().splitlines()) - 1
    assert list(found.charts) and found.charts[scenario].startswith("<svg") and "<svg" in found._repr_html_()
    assert pickle.loads(pickle.dumps(found)).points.equals(found.points)


def test_a_figure_is_the_commands(command):
    name = "sce-fig7"
    assert name in [one[0] for one in solocore.experiments()]
    done = command("reproduce", name, "--quick", "--seed", 2, "--format", "json")
    [theirs] = done.json()["experiments"]
    [found] = solocore.reproduce(name, quick=True, seed=2)
    assert {"holds": found.holds, "checks": found.checks} == {"holds": theirs["holds"], "checks": theirs["checks"]}
    assert found.svg == (command.dir / f"solocore-reproduction/{name}.svg").read_text() and found.title in found._repr_html_()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
def test_a_profile_and_a_plan_of_commands(command, tmp_path):
    found = solocore.profile(["/bin/true"], platform="p4080")
    assert found.instructions > 1000 and "<table>" in found._repr_html_()
    text = SYSTEM.format(wcet="2 ms").replace('wcet = "8 ms"\nmisses = 40000', 'command = ["/bin/true"]')
    command.write("system.toml", text)
    assert solocore.plan(command.dir / "system.toml").schedulable
    with pytest.raises(InputError, match="give a path"):
        solocore.plan(text)
    with pytest.raises(InputError, match="no-such-program"):
        solocore.profile(["./no-such-program"], platform="p4080")


def test_a_missing_command_is_said(monkeypatch):
    monkeypatch.delenv("SOLOCORE")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(solocore.MachineError, match="PATH"):
        solocore.profile(["true"], platform="p4080")


def test_json_is_the_documents():
    plan = solocore.plan(SYSTEM.format(wcet="2 ms"))
    assert json.loads(plan.to_json()) == plan.data
    with pytest.raises(AttributeError):
        plan.nothing
