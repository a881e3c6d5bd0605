"""Fixtures for the tests of the Python package.

The package is python/solocore with the extension that lies beside the command (SOLOCORE, or target/release/solocore): both of one
build. Links to both make a package in build/, which this process and all that it starts import.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("SOLOCORE", ROOT / "target/release/solocore")).resolve()


def _package():
    extension = PROGRAM.with_name("lib_solocore.so")
    assert extension.is_file(), f"{extension} is not there: cargo build -p solocore-cli -p solocore-python"
    place = ROOT / "build" / f"python-{PROGRAM.parent.name}"
    (place / "solocore").mkdir(parents=True, exist_ok=True)
    wanted = {place / "solocore" / path.name: path for path in (ROOT / "python/solocore").glob("*.py*") if path.is_file()}
    wanted[place / "solocore/_solocore.abi3.so"] = extension
    for link in (place / "solocore").iterdir():
        if link.is_symlink() and link not in wanted:
            link.unlink(missing_ok=True)
    for link, path in wanted.items():
        try:
            link.symlink_to(path)
        except FileExistsError:
            pass
    return place


PACKAGE = _package()
sys.path.insert(0, str(PACKAGE))
os.environ["PYTHONPATH"] = str(PACKAGE)
os.environ["SOLOCORE"] = str(PROGRAM)


@pytest.fixture
def command(tmp_path):
    """The command, in a directory of its own."""
    spec = importlib.util.spec_from_file_location("solocore_cli_tests", ROOT / "tests/cli/conftest.py")
    cli = importlib.util.module_from_spec(spec)
    # Its dataclass looks its own module up.
    sys.modules[spec.name] = cli
    spec.loader.exec_module(cli)
    command = cli.Command(str(PROGRAM), tmp_path)
    yield command
    command.machine.give()
