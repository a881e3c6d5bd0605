"""`analyze` gives the answers of the command: 1000 sets of each kind here, SOLOCORE_PYTHON_SETS of them in `make nightly`."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

import solocore

SETS = int(os.environ.get("SOLOCORE_PYTHON_SETS", "1000"))


def corpus():
    """Generated sets of several cores and loads, with some that every test refuses."""
    rng, rows = random.Random(5), []
    for cores, load, deadlines in ((1, 0.8, "implicit"), (1, 0.97, "constrained"), (2, 1.2, "constrained"), (4, 2.0, "implicit")):
        made = solocore.generate(SETS // 4, 5, load, cores=cores, periods=("log-uniform", 10, 1000), deadlines=deadlines, seed=cores)
        for row in made:
            if rng.random() < 0.05:
                row[rng.choice(["wcet", "period", "deadline"])][rng.randrange(5)] = rng.choice([0, 1, 2**63])
            rows.append(row)
    columns = [[row[name] for row in rows] for name in ("wcet", "period", "deadline", "cores")]
    return solocore.TaskSets(*columns)


@pytest.fixture(scope="module")
def sets():
    return corpus()


@pytest.mark.parametrize("test", solocore.TESTS)
def test_answers_are_those_of_the_command(command, sets, test):
    sets.to_jsonl(command.dir / "corpus.jsonl")
    done = command("analyze", "--test", test, "corpus.jsonl", timeout=600)
    theirs = [json.loads(line) for line in done.out.splitlines()]
    ours = solocore.analyze(sets, test, threads=2).answers()
    assert len(ours) == len(theirs) == len(sets)
    refused = 0
    for number, (one, other) in enumerate(zip(ours, theirs), 1):
        if "error" in one:
            one, refused = {"error": f"line {number}: {one['error']}", "line": number}, refused + 1
        assert one == other, sets[number - 1]
    assert 0 < refused < len(sets), "some sets are wrong for each test, and some are not"


def test_threads_and_pieces_change_nothing(sets):
    whole = solocore.analyze(sets, list(solocore.TESTS), threads=1)
    assert whole.table.equals(solocore.analyze(sets, list(solocore.TESTS), threads=7).table)
    part = solocore.analyze(sets[300:700], list(solocore.TESTS))
    assert part.table.to_pylist() == whole.table.slice(300, 400).to_pylist()
    short = solocore.analyze(sets, "fp-rta", bounds=False)
    assert short["fp-rta"].equals(whole["fp-rta"]) and "fp-rta.response" not in short.table.column_names


def test_explanations_are_those_of_the_command(command):
    sets = solocore.TaskSets([[26, 62]], [[70, 100]])
    sets.to_jsonl(command.dir / "one.jsonl")
    for test in solocore.TESTS:
        answer = json.loads(command("analyze", "--test", test, "--explain", "one.jsonl").out)
        found = solocore.analyze(sets, test).explain(0)
        assert found.data == answer["derivation"] and found.rule in str(found) and "<table>" in found._repr_html_()
    with pytest.raises(solocore.InputError, match="wcet 8 is more"):
        solocore.analyze(solocore.TaskSets([[8]], [[5]])).explain(0)


def test_wrong_arguments():
    sets = solocore.TaskSets([[1]], [[5]])
    for arguments in (dict(tests="fp"), dict(tests=[]), dict(tests=[3]), dict(threads=0), dict(threads="x"), dict(progress="x")):
        with pytest.raises(solocore.InputError):
            solocore.analyze(sets, **arguments)
    with pytest.raises(solocore.InputError, match="edf"):
        solocore.analyze(sets)["edf"]


def test_a_function_of_progress_may_stop_it():
    shares = []

    def stop(share):
        shares.append(share)
        raise LookupError("enough")
    sets = solocore.generate(60_000, 40, 0.99, periods=("log-uniform", 10**6, 10**9))
    with pytest.raises(LookupError, match="enough"):
        for _ in range(1000):
            solocore.analyze(sets, threads=1, progress=stop)
    assert 0 <= shares[0] <= 1


INTERRUPTED = """
import signal, threading, time, solocore
{setup}
threading.Timer({after}, lambda: (print("now", time.process_time(), flush=True), signal.raise_signal(signal.SIGINT))).start()
try:
    while True: {call}
except KeyboardInterrupt:
    print("end", time.process_time())
"""


@pytest.mark.parametrize("setup, call", [
    ("sets = solocore.generate(200_000, 20, 0.9)", "solocore.analyze(sets, 'gedf')"),
    ("", "solocore.generate(3_000_000, 20, 0.9)"),
    ("", "solocore.study('*,*,*,*,*,*,*', utilization='4')"),
    ("", "solocore.reproduce('sce')"),
])
def test_ctrl_c_ends_it_within_a_second(setup, call):
    """A second of each of its threads' own time: the clock also counts what else the machine does."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED.format(setup=setup, call=call, after=2.5)], capture_output=True, text=True,
                          timeout=60)
    words = [line.split() for line in done.stdout.splitlines()]
    assert [w[0] for w in words] == ["now", "end"], done.stderr
    assert float(words[1][1]) - float(words[0][1]) < os.cpu_count(), words


def test_other_threads_go_on():
    """The interpreter's lock is free: a second thread counts while this one analyses."""
    import threading
    sets, count, over = solocore.generate(20_000, 20, 0.95), [0], threading.Event()

    def tick():
        while not over.is_set():
            count[0] += 1
            time.sleep(0.001)
    other = threading.Thread(target=tick)
    other.start()
    began = time.monotonic()
    while time.monotonic() < began + 0.5:
        solocore.analyze(sets, "gedf-bar", threads=1)
    over.set()
    other.join()
    assert count[0] > 50, "with the lock held, it counts a few times at most"


def test_signals_of_the_command_are_not_taken():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
