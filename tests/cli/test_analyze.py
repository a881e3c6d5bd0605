"""`solocore analyze`: answers against exact arithmetic, order, bad lines, pipes and signals. Not covered: speed.

What the tests themselves are worth is checked in crates/analysis/tests.
"""

import json
import os
import random
import signal
import subprocess
import time
from fractions import Fraction

import pytest
from conftest import refused

TESTS = ["fp-rta", "edf", "gedf-gfb", "gedf-bcl", "gedf-bcl-iterative", "gedf-bar", "gedf-ffdbf", "gedf-rta", "gedf",
         "tardiness"]
GOOD = '{"cores": 1, "tasks": [{"wcet": 1, "period": 4, "deadline": 4}, {"wcet": 2, "period": 6, "deadline": 5}]}'


def line(cores, *tasks):
    return json.dumps({"cores": cores, "tasks": [dict(zip(("wcet", "period", "deadline"), t)) for t in tasks]})


def corpus(seed, count, cores=1, most=6):
    """Random lines, some with too much utilisation."""
    rng, lines = random.Random(seed), []
    for _ in range(count):
        tasks = []
        for _ in range(rng.randint(1, most)):
            period = rng.randint(2, 50)
            tasks.append((rng.randint(1, max(1, 2 * cores * period // most)), period, rng.randint(period // 2 + 1, period)))
        lines.append(line(cores, *((min(c, t), t, d) for c, t, d in tasks)))
    return lines


def analyze(solocore, test, text, *args, code=0):
    done = solocore("analyze", "--test", test, *args, "-", stdin=text.encode() if isinstance(text, str) else text)
    assert done.code == code, done.err
    return [json.loads(answer) for answer in done.out.splitlines()]


def response(tasks, i):
    """Largest response over a level's busy window, in integers; tasks released together."""
    worst, job, end = 0, 0, 0
    while True:
        end = max(end, 1)
        while (more := (job + 1) * tasks[i][0] + sum(-(-end // t) * c for c, t, _ in tasks[:i])) > end:
            end = more
        worst = max(worst, end - job * tasks[i][1])
        if end <= (job + 1) * tasks[i][1]:
            return worst
        job += 1


def test_responses(solocore):
    lines = corpus(1, 2000)
    answers = analyze(solocore, "fp-rta", "\n".join(lines), code=2)
    assert len(answers) == len(lines)
    full = 0
    for number, (text, answer) in enumerate(zip(lines, answers), 1):
        tasks = [tuple(t.values()) for t in json.loads(text)["tasks"]]
        if sum(Fraction(c, t) for c, t, _ in tasks) > 1:
            assert answer["line"] == number and "above 1 cores" in answer["error"]
            full += 1
            continue
        expected = [response(tasks, i) for i in range(len(tasks))]
        assert answer["response"] == expected
        assert answer["schedulable"] == all(r <= t[2] for r, t in zip(expected, tasks))
    assert 100 < full < 1500


def test_edf(solocore):
    lines = corpus(2, 500, most=3)
    verdicts = set()
    for text, answer in zip(lines, analyze(solocore, "edf", "\n".join(lines), code=2)):
        tasks = [tuple(t.values()) for t in json.loads(text)["tasks"]]
        if "error" in answer:
            assert sum(Fraction(c, t) for c, t, _ in tasks) > 1
            continue
        fits = all(sum(max(0, (w - d) // t + 1) * c for c, t, d in tasks) <= w for w in range(1, 3000))
        assert answer == {"schedulable": fits, "response": [None] * len(tasks)}
        verdicts.add(fits)
    assert verdicts == {True, False}


@pytest.mark.parametrize("test", TESTS)
def test_every_test_answers(solocore, test):
    key = "tardiness" if test == "tardiness" else "response"
    for answer in analyze(solocore, test, GOOD):
        assert answer["schedulable"] in (True, False) and len(answer[key]) == 2 and set(answer) == {"schedulable", key}
    explained, = analyze(solocore, test, GOOD, "--explain")
    assert explained["derivation"]["rule"] and explained["derivation"]["source"]
    done = solocore("analyze", "--test", test, "--explain", "--format", "text", "-", stdin=GOOD.encode())
    assert done.code == 0 and done.out.startswith(b"line 1: ") and explained["derivation"]["source"].encode() in done.out


def test_battery_is_as_strong_as_each(solocore):
    text = "\n".join(corpus(3, 300, cores=2, most=5))
    battery = analyze(solocore, "gedf", text, code=2)
    for test in TESTS[2:8]:
        for one, all_of_them in zip(analyze(solocore, test, text, code=2), battery):
            assert "error" in one or not one["schedulable"] or all_of_them["schedulable"]


def test_a_response_beyond_its_deadline_is_reported(solocore):
    answer, = analyze(solocore, "fp-rta", line(1, (26, 70, 70), (62, 100, 100)))
    assert answer == {"schedulable": False, "response": [26, 118]}


BAD = [
    ("", None), ("   \r", None), ("x", "column 1"), ("{", "EOF"), ("[]", "invalid"), ("null", "invalid"), (GOOD + "x", "trailing"),
    (GOOD.replace("1", "-1", 1), "invalid value"), (GOOD.replace("4", "4.5", 1), "floating point"),
    (GOOD.replace("4", "1e400", 1), "out of range"), (GOOD.replace("4", "99999999999999999999", 1), "invalid"),
    (GOOD.replace('"cores"', '"core"'), "unknown field `core`"), (GOOD.replace('"wcet"', '"wcets"', 1), "unknown field"),
    (GOOD.replace('"cores": 1', '"cores": 1, "cores": 1'), "duplicate field"), ('{"cores": 1}', "missing field `tasks`"),
    (line(1), "tasks is empty"), (line(0, (1, 2, 2)), "cores is 0"), (line(1, (5, 4, 4)), "task 0: wcet 5 is more than its period 4"),
    (line(1, (1, 0, 4)), "task 0: period is 0"), (line(1, (1, 4, 4), (1, 4, 0)), "task 1: deadline is 0"),
    (line(1, (0, 4, 4)), "wcet is 0"), (line(1, (2, 3, 3), (1, 3, 3), (1, 10**15, 9)), "above 1 cores"),
    (line(2, (1, 4, 4)), "one core"), ("[" * 100_000, "invalid type"), ("[1, [[1, 4, 4]]]", "objects"),
    ('{"cores": 1, "tasks": [[1, 4, 4]]}', "objects"), ("é{\x00", "column"),
]


def test_bad_lines(solocore):
    """Each gets its reason in its place, the good ones between get their answers."""
    text = "".join(f"{bad}\n{GOOD}\n" for bad, _ in BAD).encode() + b"\xff\xfe\n" + GOOD.encode()
    done = solocore("analyze", "--test", "fp-rta", "-", stdin=text)
    assert done.code == 2 and len(done.err.splitlines()) == 1
    answers = iter(done.out.splitlines())
    for index, (_, word) in enumerate([*BAD, (b"", "column")]):
        if word is not None:
            answer = json.loads(next(answers))
            assert set(answer) == {"error", "line"} and answer["line"] == 2 * index + 1
            assert answer["error"].startswith(f"line {2 * index + 1}: ") and word in answer["error"], answer
        assert json.loads(next(answers)) == {"schedulable": True, "response": [1, 3]}
    assert next(answers, None) is None


def test_deadlines_beyond_periods_where_forbidden(solocore):
    text = line(2, (1, 4, 9))
    for test in ("gedf-bcl", "gedf-rta"):
        answer, = analyze(solocore, test, text, code=2)
        assert answer["error"] == "line 1: task 0: deadline 9 is beyond its period 4, which this test does not cover"
    for test in ("fp-rta", "edf"):
        assert analyze(solocore, test, line(1, (1, 4, 9)))[0]["schedulable"]


def test_order_and_batches(solocore):
    """Many batches, with lines of very different cost, from a file and from a pipe."""
    sets = [line(1, *[(1, 40 + (k % 7), 40)] * (1 + (k * k) % 30), (1, 10**6 + k, 10**6 + k)) for k in range(20_000)]
    solocore.write("corpus.jsonl", "\n".join(sets) + "\n")
    from_file = solocore("analyze", "--test", "edf", "corpus.jsonl")
    assert from_file.code == 0, from_file.err
    answers = from_file.out.splitlines()
    assert [len(json.loads(a)["response"]) for a in answers] == [len(json.loads(s)["tasks"]) for s in sets]
    from_pipe = solocore("analyze", "--test", "edf", "-", stdin="\n".join(sets).encode())
    assert from_pipe.out == from_file.out


def test_long_lines(solocore):
    """A set of 20,000 tasks is answered; a line without end is refused without being kept in memory."""
    many = line(1, *[(1, 10**6, 10**6)] * 20_000)
    answers = analyze(solocore, "fp-rta", f"{many}\n{' ' * (17 << 20)}{GOOD}\n{GOOD}\n", code=2)
    assert answers[0]["response"] == list(range(1, 20_001)) and "16 MiB" in answers[1]["error"]
    assert answers[1]["line"] == 2 and answers[2]["schedulable"]


def test_a_corpus_without_lines_is_given_up(solocore):
    refused(solocore("analyze", "--test", "edf", "/dev/zero", timeout=20), "/dev/zero", "a line goes on beyond 256 MiB", codes=(2,))


def test_extreme_numbers(solocore):
    """Nothing wraps into a yes, and nothing takes long."""
    top = 2**64 - 1
    text = "\n".join([line(1, (top, top, top)), line(1, (top // 2, top, top), (top // 2, top, top), (1, top, top)),
                      line(1, (1, 2, 2), (top // 2, top, top)), line(1, (top - 1, top, 1))])
    one, two, three, four = analyze(solocore, "fp-rta", text)
    assert one == {"schedulable": True, "response": [top]}
    assert two == {"schedulable": True, "response": [top // 2, top - 1, top]}
    assert three["response"][0] == 1 and three["response"][1] in (None, top - 1)
    assert four == {"schedulable": False, "response": [top - 1]}


def hostile(rng):
    """A line that parses or nearly does: numbers at the edges of what fits, missing and odd fields, flipped bytes."""
    edges = [0, 1, 2, 3, 7, 1000, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, 2**64, -1, 1.5, "x", None]

    def number():
        return rng.choice(edges[:13]) if rng.random() < 0.85 else rng.choice(edges)

    def some_task():
        period = number()
        entry = {"wcet": number(), "period": period, "deadline": rng.choice([period, number()])}
        if isinstance(period, int) and period > 1 and rng.random() < 0.7:
            entry["wcet"] = rng.randint(1, max(1, period // rng.choice([1, 2, 4, 1000])))
        if rng.random() < 0.05:
            del entry[rng.choice(list(entry))]
        return entry

    text = json.dumps({"cores": rng.choice([1, 1, 1, 2, 4, 64, number()]), "tasks": [some_task() for _ in range(rng.randint(0, 6))]})
    if rng.random() < 0.2:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice('{}[],:"0 9e-') + text[at + 1:]
    return text


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("seed", range(int(os.environ.get("SOLOCORE_FUZZ_SEEDS", "2"))))
def test_hostile_lines_get_an_answer_each(solocore, test, seed):
    rng = random.Random(f"{test} {seed}")
    lines = [hostile(rng) for _ in range(500)]
    done = solocore("analyze", "--test", test, "-", stdin="\n".join(lines).encode(), timeout=60)
    assert done.code == 2 and "panicked" not in done.err, done.err
    answers = [json.loads(answer) for answer in done.out.splitlines()]
    assert len(answers) == len(lines)
    for number, (text, answer) in enumerate(zip(lines, answers), 1):
        assert ("error" in answer) == ("schedulable" not in answer), text
        assert answer.get("line", number) == number
        if "schedulable" in answer:
            tasks = json.loads(text)["tasks"]
            cores = json.loads(text)["cores"]
            load = sum(Fraction(t["wcet"], t["period"]) for t in tasks)
            assert load <= cores or not answer["schedulable"], f"overload is schedulable: {text}"


def test_repeat(solocore):
    done = solocore("analyze", "--test", "fp-rta", "--repeat", 3, "-", stdin=f"{GOOD}\n{GOOD}\n".encode())
    assert done.code == 0 and len(done.out.splitlines()) == 2
    words = done.err.split()
    assert words[:5] == ["2", "task", "sets,", "3", "times"] and words[-2:] == ["task", "sets/s"] and float(words[-3]) > 0


def test_empty_corpus(solocore):
    assert analyze(solocore, "fp-rta", "") == [] and analyze(solocore, "fp-rta", "\n\n") == []
    solocore.write("corpus.jsonl", "")
    done = solocore("analyze", "--test", "edf", "corpus.jsonl")
    assert done.code == 0 and not done.out and "corpus.jsonl: it has no task sets" in done.err
    assert not solocore("analyze", "--test", "edf", "-", stdin=GOOD.encode()).err


@pytest.mark.parametrize("args, word", [
    (("--test", "fp-rta", "none.jsonl"), "none.jsonl"),
    (("--test", "fp-rta", "."), "cannot read"),
])
def test_unreadable_corpus(solocore, args, word):
    refused(solocore("analyze", *args), word, codes=(2,))


@pytest.mark.parametrize("args", [("corpus",), ("--test", "none", "corpus"), ("--test", "edf"), ("--test", "edf", "--repeat", "0", "c")])
def test_usage(solocore, args):
    done = solocore("analyze", *args)
    assert done.code == 2 and not done.out and "Usage" in done.err or "help" in done.err


def test_closed_pipe_is_no_error(solocore):
    solocore.write("corpus.jsonl", f"{GOOD}\n" * 200_000)
    process = solocore.start("analyze", "--test", "fp-rta", "corpus.jsonl")
    assert json.loads(process.stdout.readline())["schedulable"]
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0 and not err


def test_interrupt_while_waiting_for_input(solocore):
    """Also: what has been written is answered before more comes."""
    process = subprocess.Popen([solocore.program, "analyze", "--test", "fp-rta", "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=solocore.env, start_new_session=True)
    process.stdin.write(GOOD.encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["schedulable"]
    time.sleep(0.1)
    # Its input stays open: it must end all the same.
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=20) == 130 and b"interrupted" in process.stderr.read()
    assert not solocore.files()


def test_constant_memory(solocore):
    """A corpus of 100 MB in less than half of that, whoever reads the answers slowly."""
    solocore.write("part.jsonl", (line(1, *[(1, 10**6, 10**6)] * 20) + "\n") * 20_000)
    size = os.path.getsize(solocore.dir / "part.jsonl")
    script = f"for i in 1 2 3 4; do cat part.jsonl; done | /usr/bin/env bash -c 'ulimit -v 600000; exec \"$0\" \"$@\"' " \
             f"{solocore.program} analyze --test fp-rta - | (sleep 1; wc -l)"
    done = subprocess.run(["bash", "-c", script], cwd=solocore.dir, env=solocore.env, capture_output=True, timeout=60)
    assert int(done.stdout) == 80_000, done.stderr
    assert size * 4 > 60_000_000
