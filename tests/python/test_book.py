"""The Python that docs/python.md shows is executed."""

import re

from conftest import ROOT


def test_the_pages_code_works(tmp_path, monkeypatch):
    [block] = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/python.md").read_text(), re.M | re.S)
    (tmp_path / "system.toml").write_text('platform = "p4080"\n[[task]]\nname = "a"\nperiod = "10 ms"\nwcet = "1 ms"\nmisses = 100\n')
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(block, "docs/python.md", "exec"), names)
    assert len(names["sets"]) == 1000 and 0 <= names["found"].schedulable("fp-rta") <= names["found"].schedulable("edf") <= 1
    assert names["plan"].schedulable and [task["name"] for task in names["plan"].tasks] == ["a"]
