"""pandas and polars: task sets and answers in and out, in the same memory. SOLOCORE_PYTHON_FRAMES=1 (`make nightly`, which installs
them) makes a missing one a failure."""

import os

import pytest

import solocore

if os.environ.get("SOLOCORE_PYTHON_FRAMES") == "1":
    import pandas
    import polars
else:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")


def places(sets):
    """Where offsets, wcet, period, deadline and cores lie."""
    return [column.buffers()[1].address + column.offset * column.type.bit_width // 8 for column in sets._flat()]


@pytest.fixture(scope="module")
def sets():
    return solocore.generate(500, 6, 0.9, deadlines="constrained", seed=4)


def test_polars_shares_the_memory(sets):
    frame = polars.DataFrame(sets)
    assert frame.schema["wcet"] == polars.List(polars.UInt64) and frame.shape == (500, 4)
    back = solocore.TaskSets(frame)
    assert back.table.equals(sets.table) and places(back) == places(sets)
    part = solocore.TaskSets(frame.slice(100, 50))
    assert part.table.to_pylist() == sets[100:150].table.to_pylist()
    assert places(part)[1] == places(sets)[1] + 8 * 6 * 100, "a part lies within the whole"


def test_pandas_shares_the_memory_of_arrow_columns(sets):
    frame = sets.table.to_pandas(types_mapper=pandas.ArrowDtype)
    back = solocore.TaskSets(frame)
    assert back.table.equals(sets.table) and places(back) == places(sets)


def test_columns_of_objects_are_read_as_well(sets):
    frame = pandas.DataFrame({name: sets.table[name].to_pylist() for name in ("wcet", "period", "deadline")})
    assert solocore.TaskSets(frame).table.equals(sets.table)
    with pytest.raises(solocore.InputError, match="wcet"):
        solocore.TaskSets(pandas.DataFrame({"wcet": [[1.5]], "period": [[3]]}))
    with pytest.raises(solocore.InputError, match="period"):
        solocore.TaskSets(polars.DataFrame({"wcet": [[1]], "period": [[None]]}, schema_overrides={"period": polars.List(polars.UInt64)}))


def test_answers_become_frames(sets):
    found = solocore.analyze(sets, ["fp-rta", "edf"])
    one, other = polars.DataFrame(found), found.table.to_pandas(types_mapper=pandas.ArrowDtype)
    assert one["fp-rta"].to_list() == other["fp-rta"].tolist() == found["fp-rta"].to_pylist()
    assert one["fp-rta.response"].to_list() == found["fp-rta.response"].to_pylist()
    assert one["fp-rta"].mean() == found.schedulable("fp-rta")
