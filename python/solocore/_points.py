# SPDX-License-Identifier: MIT OR Apache-2.0
"""Computations of workers for the command (`--dask`), one function for each of its campaigns.

Each gives texts that the command writes as they are, and the version of the worker's package: the same call on any machine gives the
same texts, and those of a run without Dask. `seed` is the campaign's own; the numbers that matter are arguments of the point.
"""

import json

from . import _solocore


def study(parameters, scenario, schemes, utilizations, of_seed, seed):
    """The lines of a study's journal for one scenario. schemes: names with commas. utilizations: thousandths with commas."""
    milli = [int(one) for one in utilizations.split(",")]
    lines = _solocore.study_lines(parameters, scenario, schemes, milli, of_seed, None)
    return {"version": _solocore.__version__, "lines": lines}


def reproduce(experiment, quick, of_seed, seed):
    """The three files of an experiment."""
    (csv, svg, record), = _solocore.reproduce_files(experiment, quick, of_seed, None)
    return {"version": _solocore.__version__, "csv": csv, "svg": svg, "json": record}


def attack(policy, board, attacks, of_seed, seed):
    """Results of an adversary on one board under one policy, as JSON."""
    return {"version": _solocore.__version__, "json": _solocore.attack(policy, board, attacks, of_seed, None)}


def read(text):
    """The functions and points that the command asked for."""
    asked = json.loads(text)
    return asked["address"], {"study": study, "reproduce": reproduce, "attack": attack}[asked["function"]], asked["points"]
