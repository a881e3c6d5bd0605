"""`TaskSets`: columns in and out without copies, and what is refused. Not covered: pandas and polars themselves, which take Arrow's
PyCapsule interface as the class here does."""

import pickle
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import solocore
from solocore import InputError, TaskSets


class Foreign:
    """What another library shows of a table."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def address(table, name):
    return table[name].chunk(0).values.buffers()[1].address


def test_import_is_quick_and_loads_nothing_else():
    text = ("import time; t = time.perf_counter(); import solocore; d = time.perf_counter() - t; import sys; "
            "assert 'pyarrow' not in sys.modules and 'distributed' not in sys.modules; print(d)")
    times = [float(subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True).stdout) for _ in range(3)]
    assert min(times) < 0.3, times


def test_tables_go_in_and_out_without_copies():
    sets = solocore.generate(50, tasks=4, utilization=0.7)
    again = TaskSets(Foreign(sets))
    assert again == sets and len(again) == 50
    for name in ("wcet", "period", "deadline"):
        assert address(again.table, name) == address(sets.table, name)
        assert address(pa.table(Foreign(again)), name) == address(sets.table, name)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.uint64()), pa.list_(pa.uint16()), pa.list_(pa.int8(), 2)])
def test_lists_of_all_integers(kind):
    sets = TaskSets(pa.array([[1, 2], [3, 4]], kind), pa.array([[9, 9], [9, 10]], kind), cores=pa.array([1, 2]))
    assert sets[1] == {"cores": 2, "wcet": [3, 4], "period": [9, 10], "deadline": [9, 10]}


def test_slices_of_others_are_understood():
    column = pa.array([[7], [1, 2], [3], [4, 5]], pa.list_(pa.int64())).slice(1, 2)
    sets = TaskSets(column, pa.array([[9, 9], [9]]))
    assert [s["wcet"] for s in sets] == [[1, 2], [3]]
    assert [s["wcet"] for s in sets[1:]] == [[3]] and [s["wcet"] for s in sets[::-1]] == [[3], [1, 2]]
    assert solocore.analyze(sets[1:]).answers() == [{"schedulable": True, "response": [3]}]
    fixed = pa.array([[1, 1], [2, 2], [3, 3]], pa.list_(pa.int64(), 2)).slice(1)
    assert [s["wcet"] for s in TaskSets(fixed, [[9, 9]] * 2)] == [[2, 2], [3, 3]]


def test_arrays_of_numpy():
    numpy = pytest.importorskip("numpy")
    sets = TaskSets(numpy.array([[1, 2], [3, 4]]), numpy.array([[9, 9], [9, 10]]))
    assert [s["wcet"] for s in sets] == [[1, 2], [3, 4]]
    with pytest.raises(InputError, match="double"):
        TaskSets(numpy.array([[0.5]]), numpy.array([[9]]))


def test_a_corpus_is_the_commands(tmp_path):
    sets = solocore.generate(20, tasks=3, utilization=0.5, deadlines="constrained", cores=2)
    sets.to_jsonl(tmp_path / "corpus.jsonl")
    assert TaskSets.from_jsonl(tmp_path / "corpus.jsonl") == sets
    (tmp_path / "bad.jsonl").write_text('\n{"cores": 1, "tasks": [{"wcet": 1, "period": 4}]}\n')
    with pytest.raises(InputError) as caught:
        TaskSets.from_jsonl(tmp_path / "bad.jsonl")
    assert caught.value.line == 2 and caught.value.key == "deadline" and caught.value.file.endswith("bad.jsonl")


def test_sets_are_pickled_and_empty_ones_are_sets():
    sets = solocore.generate(3, tasks=2, utilization=0.5)
    assert pickle.loads(pickle.dumps(sets)) == sets
    none = TaskSets([], [])
    assert len(none) == 0 and len(solocore.analyze(none, list(solocore.TESTS))) == 0 and none.utilization().to_pylist() == []
    assert pickle.loads(pickle.dumps(sets[:0])) == sets[:0]
    assert sets.utilization().to_pylist() == pytest.approx([sum(c / t for c, t in zip(s["wcet"], s["period"])) for s in sets])
    assert "<table>" in sets._repr_html_() and "3 sets" in repr(sets)


BAD = [
    (dict(wcet=[[1.5]], period=[[9]]), "double"), (dict(wcet=[[-1]], period=[[9]]), "wcet"), (dict(wcet=[[None]], period=[[9]]), "missing"),
    (dict(wcet=[[1], None], period=[[9], [9]]), "no list"), (dict(wcet=[["x"]], period=[[9]]), "string"), (dict(wcet=[1, 2], period=[9, 9]), "list"),
    (dict(wcet=[[1], [1, 2]], period=[[9], [9]]), "set 1"), (dict(wcet=[[1]], period=[[9], [9]]), "2 sets"),
    (dict(wcet=[[2**64]], period=[[9]]), "wcet"), (dict(wcet=[[float("nan")]], period=[[9]]), "double"), (dict(wcet=[[True]], period=[[9]]), "bool"),
    (dict(wcet=[[1]], period=[[9]], cores=-1), "cores"), (dict(wcet=[[1]], period=[[9]], cores=[1, 2]), "cores"),
    (dict(wcet=[[1]], period=[[9]], cores=1.5), "cores"), (dict(wcet=[[1]]), "period"), (dict(wcet=object(), period=[[1]]), "wcet"),
    (dict(wcet=pa.table({"wcet": [[1]]})), "period"), (dict(wcet=pa.table({"wcet": [[1]], "period": [[1]], "other": [1]})), "other"),
    (dict(wcet=[[[1]]], period=[[[1]]]), "list"), (dict(wcet="abc", period="abc"), "wcet"), (dict(wcet=7, period=7), "wcet"),
]


@pytest.mark.parametrize("arguments, word", BAD)
def test_bad_columns_are_refused(arguments, word):
    with pytest.raises(InputError) as caught:
        TaskSets(**arguments)
    assert word in str(caught.value) and "\n" not in str(caught.value) and ";" in str(caught.value), caught.value


def test_too_many_sets_are_an_exception():
    """10^9 rows do not fit; a list of as many is refused before anything is allocated for it."""
    with pytest.raises((MemoryError, InputError)):
        solocore.generate(2**31, tasks=10**6, utilization=0.5)
    huge = pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([], pa.int64()))
    assert len(TaskSets(huge, huge)) == 1


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-2**70, 2**70), st.floats(), st.text(max_size=3))
ANY = st.recursive(VALUES, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


@settings(max_examples=300, deadline=None)
@given(ANY, ANY, ANY, ANY)
def test_anything_is_sets_or_refused(wcet, period, deadline, cores):
    try:
        sets = TaskSets(wcet, period, deadline, cores)
    except InputError as error:
        assert "\n" not in str(error)
        return
    found = solocore.analyze(sets, ["fp-rta", "gedf"], threads=1)
    assert len(found) == len(sets)


NUMBER = st.one_of(st.integers(0, 20), st.sampled_from([2**31, 2**53, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.tuples(NUMBER, NUMBER, NUMBER), max_size=5), max_size=6), st.integers(0, 5))
def test_any_numbers_have_an_answer_each(sets, cores):
    columns = [[[task[k] for task in one] for one in sets] for k in range(3)]
    made = TaskSets(*columns, cores=cores)
    for test in solocore.TESTS:
        answers = solocore.analyze(made, test, threads=2).answers()
        assert len(answers) == len(sets)
        for one, answer in zip(sets, answers):
            wrong = cores == 0 or not one or any(0 in task or task[0] > task[1] for task in one)
            assert not wrong or "error" in answer, (one, answer)
