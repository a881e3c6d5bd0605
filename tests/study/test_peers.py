"""The allocators that bench/shares.py compares with, on small random systems: their allotments fit the machine, their loads are what they say,
and the linear program finds the least largest load of all allotments."""

import itertools
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from peers import cam, lp
from peers.system import Found, System, of_line

PAGES = [0, 4, 10]


def system(seed, cores=2, ways=4, units=4, tasks=3, load=0.4):
    """Times that fall with pages and units; a task on one unit without a page may have no bound."""
    rng = random.Random(seed)
    use = []
    for _ in range(tasks):
        base, memory, hot = rng.uniform(0.05, load), rng.uniform(0, load), rng.uniform(0.1, 1)
        rows = [[base + memory * (1 - hot * pages / PAGES[-1]) * units / own for pages in PAGES] for own in range(1, units - cores + 2)]
        if rng.random() < 0.3:
            rows[0][0] = None
        use.append(rows)
    return System(cores, ways, units, 1000, [0, 2, 6, 10][:ways - cores + 2], PAGES, use, [rng.uniform(0, 0.1) for _ in range(tasks)],
                  list(range(tasks)))


def check_fits(s, found):
    assert sum(found.ways) <= s.ways and sum(found.units) <= s.units and min(found.ways) >= 1 and min(found.units) >= 1
    for c in range(s.cores):
        assert sum(p for p, of in zip(found.pages, found.core) if of == c) <= s.pages_in_ways[found.ways[c]]


def least(s):
    """The least largest load of all allotments."""
    shares = lambda all_, most: [f for f in itertools.product(range(1, most + 1), repeat=s.cores) if sum(f) <= all_]
    best = float("inf")
    for core in itertools.product(range(s.cores), repeat=len(s.use)):
        for ways in shares(s.ways, s.most_ways):
            for pages in itertools.product(PAGES, repeat=len(s.use)):
                if any(sum(p for p, of in zip(pages, core) if of == c) > s.pages_in_ways[ways[c]] for c in range(s.cores)):
                    continue
                for units in shares(s.units, s.most_units):
                    best = min(best, s.load(core, units, pages))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_the_linear_program_finds_the_least_load(seed):
    pytest.importorskip("scipy")
    s = system(seed)
    found = lp.solve(s, 20, range(1, s.most_units + 1), thin=0.999, floor=0.0)
    check_fits(s, found)
    optimum = least(s)
    assert optimum - 1e-9 <= found.load <= optimum * (1 + 2 * lp.GAP)
    coarse = lp.solve(s, 20)
    check_fits(s, coarse)
    assert coarse.load >= optimum - 1e-9


def test_a_task_without_any_bound_has_no_allotment():
    s = system(1)
    s.use[0] = [[None] * len(PAGES) for _ in s.use[0]]
    assert lp.solve(s, 1) is None
    assert not cam.solve(s).believed


def test_the_linear_program_runs_in_a_process_of_its_own():
    pytest.importorskip("scipy")
    s = system(2)
    assert lp.apart(s, 20) == lp.solve(s, 20)


@pytest.mark.parametrize("seed", range(6))
def test_cam_finds_what_fits_and_no_less_than_the_optimum(seed):
    s = system(seed, tasks=4, load=0.25)
    found = cam.solve(s)
    check_fits(s, found)
    assert found.load == pytest.approx(s.load(found.core, found.units, found.pages))
    assert found.load >= least(s) - 1e-9
    assert cam.solve(s) == found, "the result is the same each time"


def test_cam_groups_tasks_with_like_slowdowns():
    flat, steep = [1.0] * 6, [1.0, 1.0, 1.0, 8.0, 4.0, 2.0]
    found = cam.clusters([flat, steep, flat, steep, flat], 2)
    assert found[0] == found[2] == found[4] != found[1] == found[3]


def test_cam_gives_the_bandwidth_to_the_core_that_needs_it():
    computes, reads = [[0.5] * 3] * 3, [[1.2] * 3, [0.9] * 3, [0.6] * 3]
    s = System(2, 4, 4, 1000, [0, 2, 6, 10], PAGES, [computes, reads], [0.0, 0.0], [0, 1])
    found = cam.solve(s)
    assert found.believed and found.load == pytest.approx(0.6)
    assert found.units[found.core[1]] == 3


def test_cam_moves_a_task_from_a_full_core():
    s = System(2, 4, 4, 1000, [0, 2, 6, 10], PAGES, [[[0.6] * 3] * 3] * 3, [0.0] * 3, [0, 1, 2])
    loads, cores = cam.Loads(s), [frozenset({0, 1, 2}), frozenset()]
    assert max(cam.shared_out(s, cores, loads)[2]) == pytest.approx(1.8)
    assert max(cam.balanced(s, cores, loads)[3]) == pytest.approx(1.2)


def test_an_allotment_names_all_tasks_and_budgets():
    line = {"cores": 2, "ways": 4, "units": 4, "totals": [1000, 500], "pages_in_ways": [0, 2, 6, 10], "pages": PAGES, "once_ps": 10,
            "tasks": [{"name": "d", "period_ps": None, "deadline_ps": None, "executions": None},
                      {"name": "t", "period_ps": 100, "deadline_ps": 100, "executions": [[[None, 60, 50]] * 3, [[40, 30, 20]] * 3]}]}
    whole, half = of_line(line)
    assert whole.use == [[[None, 0.6, 0.5]] * 3] and whole.once == [0.1]
    assert whole.options(0, 1) == [1, 2] and half.options(0, 1) == [0, 1, 2]
    found = Found(0.3, [0], [3, 1], [3, 1], [10])
    assert found.allotment(half) == {"placement": [1, 0], "ways": [3, 1], "budgets": [375, 125], "pages": [0, 10]}
