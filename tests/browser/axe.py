"""axe-core, from the PyPI package that carries it."""

from pathlib import Path

import axe_playwright_python

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
# What axe-core calls serious or critical stops; the rest is advice.
GRAVE = ("serious", "critical")


def faults(page, rules=None, without=(), inside=None):
    """What axe-core finds that is serious or critical: rule, place, and why. Rules: all, or those; `inside`: selectors."""
    page.evaluate(AXE)
    options = {"resultTypes": ["violations"], "rules": {rule: {"enabled": False} for rule in without}}
    if rules:
        options["runOnly"] = rules
    found = page.evaluate("([inside, options]) => axe.run(inside ?? document, options)", [inside, options])
    assert found["testEngine"]["name"] == "axe-core"
    assert found["passes"] or found["incomplete"] or found["violations"]
    grave = [v for v in found["violations"] if v["impact"] in GRAVE]
    return [(v["id"], n["target"], n["failureSummary"]) for v in grave for n in v["nodes"]]
