"""The systemd unit and its drop-in for tasks: what they leave open, by systemd's own count."""

import re
import shutil
import subprocess

import pytest
from conftest import ROOT

UNIT = ROOT / "packaging/solocore.service"
TASKS = ROOT / "packaging/tasks.conf"


def groups():
    """The lines of the drop-in that are left out, by the comment above them."""
    found, name = {}, None
    for line in TASKS.read_text().splitlines():
        if line.startswith("#!"):
            found.setdefault(name, []).append(line[2:])
        elif line.startswith("#"):
            name = line
    return found


def exposure(tmp_path, *more):
    """Exposure of the unit, with the drop-in and these further lines if there are any."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    unit = tmp_path / f"unit-{len(list(tmp_path.iterdir()))}" / "solocore.service"
    unit.parent.mkdir()
    unit.write_text(UNIT.read_text())
    if more:
        (unit.parent / "solocore.service.d").mkdir()
        (unit.parent / "solocore.service.d/tasks.conf").write_text("\n".join(more) + "\n")
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit], capture_output=True, text=True)
    level = re.search(r"exposure level for \S+ ([\d.]+)", done.stdout)
    if not level and "offline" in done.stderr:
        pytest.skip("this systemd-analyze judges running units only")
    assert level, done.stderr
    return float(level[1])


@pytest.fixture(scope="module")
def counted_as_written():
    """Other versions of systemd count otherwise."""
    done = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True) if shutil.which("systemd-analyze") else None
    if done is None or not done.stdout.startswith("systemd 252 "):
        pytest.skip("not the systemd of Debian 12")


def test_the_unit_and_tasks_are_below_four(tmp_path):
    alone, tasks = exposure(tmp_path), exposure(tmp_path, TASKS.read_text())
    assert alone < 4 and tasks < 4 and tasks > alone, (alone, tasks)


def test_the_figures_are_those_of_the_guide(tmp_path, counted_as_written):
    page = (ROOT / "docs/linux.md").read_text()
    alone, tasks = exposure(tmp_path), exposure(tmp_path, TASKS.read_text())
    assert f"no more: {alone} by" in page and f"memory that they run: {tasks} for both" in page


def test_each_group_says_what_it_costs(tmp_path, counted_as_written):
    said = {name: re.search(r"\(([\d.]+)\)", name)[1] for name in groups()}
    assert len(said) == 3
    page = (ROOT / "docs/linux.md").read_text()
    for name, figure in said.items():
        assert exposure(tmp_path, TASKS.read_text(), *groups()[name]) == float(figure), name
        assert f"({figure})" in page
