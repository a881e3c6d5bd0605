"""`pip install ./python` into an environment of its own (SOLOCORE_PYTHON_INSTALL=1, as in `make nightly`: it builds the wheel)."""

import json
import os
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT

pytestmark = pytest.mark.skipif(os.environ.get("SOLOCORE_PYTHON_INSTALL") != "1", reason="SOLOCORE_PYTHON_INSTALL=1: builds the package")

ASKED = """
import json, solocore
sets = solocore.generate(100, 10, 0.9, seed=3)
print(json.dumps([solocore.__file__, solocore.__version__, solocore.analyze(sets, "fp-rta").answers()]))
"""


def test_the_package_is_installed_from_its_source(tmp_path):
    import solocore
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SOLOCORE", "VIRTUAL_ENV")}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ROOT / "python"], check=True, env=env)
    done = subprocess.run([python, "-c", ASKED], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    place, version, answers = json.loads(done.stdout)
    assert place.startswith(str(tmp_path / "venv")) and version == solocore.__version__
    assert answers == solocore.analyze(solocore.generate(100, 10, 0.9, seed=3), "fp-rta").answers()
    # Without Dask, the command says what is missing.
    env["PATH"] = f"{tmp_path / 'venv/bin'}:{env['PATH']}"
    done = subprocess.run([PROGRAM, "attack", "none", "--board", "p4080", "--attacks", "1", "--dask", "tcp://127.0.0.1:9"], cwd=tmp_path,
                          env=env, capture_output=True, text=True)
    assert done.returncode == 3 and "Dask is missing" in done.stderr.splitlines()[-1], done.stderr
