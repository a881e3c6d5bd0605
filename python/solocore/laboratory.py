# SPDX-License-Identifier: MIT OR Apache-2.0
"""The laboratory: the schedulability study of MC2, and the papers' figures on simulated boards."""

import io
import json

from . import _solocore, _work
from .errors import InputError


class Study:
    """A study: `points` (Arrow: scenario, scheme, utilization, systems, schedulable, ci_low, ci_high), `sua` (area of each scheme),
    `observations` (the paper's 7 to 11), `charts` (an SVG for each scenario)."""

    def __init__(self, text):
        from pyarrow import csv
        self._text = text
        found = json.loads(text)
        self.points = csv.read_csv(io.BytesIO(found["points"].encode()))
        self.sua = {entry["scheme"]: entry["sua"] for entry in found["sua"]}
        self.observations, self.charts = found["observations"], found["charts"]

    def __reduce__(self):
        return Study, (self._text,)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.points.__arrow_c_stream__(requested_schema)

    def __repr__(self):
        return f"Study({len(self.charts)} scenarios, {len(self.sua)} schemes, {self.points.num_rows} points)"

    def _repr_html_(self):
        rows = [[scheme, f"{area:.3f}"] for scheme, area in self.sua.items()]
        return _work.table(["scheme", "area"], rows, repr(self)) + "".join(list(self.charts.values())[:4])


class Reproduction:
    """A figure or table of a paper: `id`, `source`, `title`, `holds`, `checks` (each with claim, paper, ours, ratio, verdict, found,
    holds), `differs` (from the paper's set-up), `columns` and `rows` of its numbers, and `svg`, its chart."""

    def __init__(self, text, svg):
        self._text, self.svg = text, svg
        found = json.loads(text)
        self.id, self.source, self.title, self.holds, self.seed = (found[k] for k in ("id", "source", "title", "holds", "seed"))
        outcome = found["outcome"]
        self.checks, self.differs = outcome["checks"], outcome["differs"]
        self.columns, self.rows = outcome["table"]["columns"], outcome["table"]["rows"]

    def __reduce__(self):
        return Reproduction, (self._text, self.svg)

    def __repr__(self):
        return f"Reproduction({self.id}: {'holds' if self.holds else 'DOES NOT HOLD'})"

    def _repr_html_(self):
        rows = [[c["verdict"], c["claim"], c["found"]] for c in self.checks]
        return _work.table(["verdict", "claim", "found"], rows, f"{self.source}: {self.title}", most=100) + self.svg


def study(scenarios, *, schemes=None, utilization="0.2:8:0.2", seed=1, output=None, progress=None):
    """The schedulability study of MC2 (Kim et al., section 6) on some scenarios.

    scenarios: a name such as "C-Light,Long,Light,Quick,Small,High,Many" (* stands for any choice), or several. schemes: names, or
    "all"; the paper's nine where it is left out. utilization: "FROM:TO:STEP". output: a directory, which then has the files of
    `solocore study` and can be resumed with it. The same seed gives the same study, with any number of threads.

    Returns a `Study`. Raises InputError.
    """
    names = [scenarios] if isinstance(scenarios, str) else list(scenarios)
    if schemes is not None and not isinstance(schemes, str):
        schemes = ",".join(schemes)
    if not all(isinstance(name, str) for name in (*names, utilization)):
        raise InputError("scenarios: names and utilization are texts; see solocore study --help")
    return Study(_solocore.study(names, schemes, utilization, _work.integer(seed, "seed", 0, 2**64 - 1), output,
                                 _work.reporter(progress, "study")))


def experiments():
    """All figures that can be reproduced: a list of (id, source, title). Raises nothing."""
    return _solocore.experiments()


def reproduce(name, *, quick=False, seed=1, progress=None):
    """Runs the experiments of a name, such as "sce-fig2", or of a paper: "sce", "bwlock", "dynamic", "maracas", "mc2".

    quick: fewer repetitions and shorter runs. Returns a list of `Reproduction`. Raises InputError.
    """
    if not isinstance(name, str):
        raise InputError(f"name: is {name!r}; give one of solocore.experiments()")
    found = _solocore.reproduce(name, bool(quick), _work.integer(seed, "seed", 0, 2**64 - 1), _work.reporter(progress, name))
    return [Reproduction(*one) for one in found]
