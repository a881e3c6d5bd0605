"""Random task sets are uniform: each draw is mapped to independent uniform numbers by the exact distribution, worked out here with
fractions of subsets and nothing of the generator's.

SOLOCORE_PYTHON_DRS=1 puts the package `drs`, which its author withdrew, to the same test: it must fail.
"""

import itertools
import math
import os
import subprocess
import sys

import pytest

import solocore
from solocore import InputError, MachineError



def below(widths, total, x):
    """Chance that the first of the vector is at most x."""
    first, others = widths[0], widths[1:]
    k = len(others)

    def upto(s):
        sets = itertools.chain.from_iterable(itertools.combinations(others, n) for n in range(k + 1))
        return sum((-1) ** len(c) * max(0.0, s - sum(c)) ** k for c in sets)
    whole = upto(total) - upto(total - first)
    # Only on an edge, where a uniform vector never lies, is nothing left to choose from.
    return (upto(total) - upto(total - x)) / whole if whole > 0 else 0.0


def uniforms(vector, widths, total):
    """Rosenblatt's transform: independent and uniform if and only if the vectors are uniform."""
    found = []
    for at in range(len(widths) - 1):
        found.append(below(widths[at:], total, vector[at]))
        total -= vector[at]
    return found


def distance(values):
    """Kolmogorov's distance from the uniform distribution, in its own unit: above 3 once in 10^7."""
    values = sorted(values)
    n = len(values)
    return max(max(abs(v - i / n), abs(v - (i + 1) / n)) for i, v in enumerate(values)) * math.sqrt(n)


def worst(vectors, widths, total):
    columns = zip(*(uniforms(v, widths, total) for v in vectors))
    return max(distance(column) for column in columns)


WIDTHS, TOTAL = [1.0, 0.5, 0.25, 0.125, 0.0625], 1.0


def vectors(count, **options):
    # With long periods, rounding to whole units is beyond what the test sees; one period keeps the order of tasks.
    sets = solocore.generate(count, len(WIDTHS), TOTAL, upper=WIDTHS, periods=("log-uniform", 10**12, 10**12), cores=2, **options)
    return [[c / t for c, t in zip(row["wcet"], row["period"])] for row in sets]


@pytest.mark.parametrize("method", ["simplex", "uunifast-discard"])
def test_vectors_are_uniform(method):
    assert worst(vectors(20_000, method=method), WIDTHS, TOTAL) < 3


def test_the_test_sees_what_is_not_uniform():
    """Vectors of the whole simplex, made to fit by moving the excess to the others: what rescaling does, in short."""
    import random
    rng, drawn = random.Random(1), []
    for _ in range(4000):
        cuts = sorted(rng.random() for _ in WIDTHS[1:])
        x = [TOTAL * (b - a) for a, b in zip([0, *cuts], [*cuts, 1])]
        for _ in range(50):
            excess = sum(max(0, v - w) for v, w in zip(x, WIDTHS))
            x = [min(v, w) for v, w in zip(x, WIDTHS)]
            room = [w - v for v, w in zip(x, WIDTHS)]
            x = [v + excess * r / sum(room) for v, r in zip(x, room)]
        drawn.append(x)
    assert worst(drawn, WIDTHS, TOTAL) > 10


@pytest.mark.skipif("SOLOCORE_PYTHON_DRS" not in os.environ, reason="make nightly compares with the package drs")
def test_the_package_drs_fails():
    import drs
    drawn = [[float(x) for x in drs.drs(len(WIDTHS), TOTAL, WIDTHS, [0.0] * len(WIDTHS))] for _ in range(20_000)]
    found = worst(drawn, WIDTHS, TOTAL)
    print(f"drs: {found:.1f}; 3 is what uniform vectors reach once in 10^7")
    assert found > 3


def test_a_set_depends_on_seed_and_number_alone():
    whole = solocore.generate(1000, 6, 0.8, seed=9, threads=1)
    assert whole == solocore.generate(1000, 6, 0.8, seed=9, threads=5)
    pieces = list(solocore.stream(1000, 6, 0.8, seed=9, batch=300))
    assert [len(p) for p in pieces] == [300, 300, 300, 100]
    assert [row for piece in pieces for row in piece] == list(whole)
    assert solocore.generate(1, 6, 0.8, seed=9, first=500)[0] == whole[500]
    assert whole != solocore.generate(1000, 6, 0.8, seed=10)


def test_periods_and_deadlines():
    rows = solocore.generate(300, 8, 0.7, periods=("harmonic", 100, 100_000), deadlines="constrained")
    for row in rows:
        periods = sorted(set(row["period"]))
        assert all(b % a == 0 for a, b in zip(periods, periods[1:])) and row["deadline"] == sorted(row["deadline"])
        assert all(1 <= c <= d <= t for c, d, t in zip(row["wcet"], row["deadline"], row["period"]))
    found = {p for row in solocore.generate(300, 8, 0.7, periods=("automotive", 1000)) for p in row["period"]}
    assert found == {1000 * ms for ms in (1, 2, 5, 10, 20, 50, 100, 200, 1000)}
    assert all(p % 500 == 0 for row in solocore.generate(50, 8, 0.7, periods=("log-uniform", 1000, 9000, 500)) for p in row["period"])


@pytest.mark.parametrize("arguments", [
    dict(tasks=0), dict(utilization=0), dict(utilization=float("nan")), dict(utilization="1"), dict(utilization=5.1), dict(lower=0.5),
    dict(upper=[1, 1]), dict(upper=-1), dict(upper=float("inf")), dict(method="x"), dict(method=3), dict(periods="x"),
    dict(periods=("log-uniform", 5, 1)), dict(periods=("log-uniform", 0, 1)), dict(periods=("log-uniform", 1.5, 3)), dict(periods=7),
    dict(periods=("automotive",)), dict(deadlines="x"), dict(seed=-1), dict(seed=2**64), dict(sets=-1), dict(sets=1.5), dict(cores=0),
    dict(first=-1), dict(threads=0), dict(sets=True), dict(tasks=300, utilization=200, upper=0.9),
    dict(tasks=30, utilization=2.99, upper=0.1, method="uunifast-discard"),
])
def test_what_is_impossible_is_refused(arguments):
    with pytest.raises(InputError) as caught:
        solocore.generate(**(dict(sets=10, tasks=5, utilization=0.8) | arguments))
    assert "\n" not in str(caught.value) and ";" in str(caught.value)


MEMORY = """
import resource, sys, solocore
count = int(sys.argv[1])
total = sum(solocore.analyze(piece, bounds=False, threads=1)["fp-rta"].null_count for piece in solocore.stream(count, 5, 0.7))
assert total == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_of_a_sweep_is_flat():
    """Ten times the sets in as much memory; 10^7 in `make nightly` (SOLOCORE_PYTHON_SWEEP)."""
    most = int(os.environ.get("SOLOCORE_PYTHON_SWEEP", "300000"))
    peaks = [int(subprocess.run([sys.executable, "-c", MEMORY, str(count)], check=True, capture_output=True, text=True).stdout)
             for count in (most // 10, most)]
    print(f"peak memory of {most // 10} and {most} sets: {peaks} KiB")
    # The columns of the larger sweep alone would be 15 numbers of 8 bytes a set: 36 MB of 300,000.
    assert peaks[1] - peaks[0] < 10_000, peaks


def test_a_missing_dask_is_said():
    done = subprocess.run([sys.executable, "-c", "import sys; sys.modules['distributed'] = None\nimport solocore\n"
                           "try: solocore.campaign(print, [{}])\nexcept solocore.MachineError as e: print(e)"], capture_output=True, text=True)
    assert "pip install" in done.stdout and issubclass(MachineError, solocore.Error), done.stderr
