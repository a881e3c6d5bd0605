"""`solocore schedule-io` and `solocore check-io`: the worked example, bad input, edited tables, reasons, determinism.

A second checker, written here from the definition by unrolling, looks at every table of the tests.
"""

import json
import math
import random
import re
import signal
import time
import tomllib

import pytest
from conftest import ROOT, interrupt, refused

SCE = (ROOT / "examples/ima-sce/instance.toml").read_text()
DEVICES = (ROOT / "examples/ima-devices/instance.toml").read_text()
ORDER = ["physical-input", "device-input", "processing", "device-output", "physical-output"]


def pair(a="period = \"10 ms\"\nduration = \"2 ms\"\ncore = 0", b="period = \"20 ms\"\nduration = \"2 ms\"\ncore = 0"):
    return f"cores = 2\n[[device]]\nname = \"d\"\n[[partition]]\nname = \"a\"\n{a}\n[[partition]]\nname = \"b\"\n{b}\n"


def schedule(solocore, text, *args, code=0):
    solocore.write("instance.toml", text)
    done = solocore("schedule-io", "instance.toml", "-o", "table.json", "--format", "json", *args)
    assert done.code == code, done.err
    return done.json()


def check(solocore, *args, code=0):
    done = solocore("check-io", "instance.toml", "table.json", "--format", "json", *args)
    assert done.code == code, done.err
    return done.json()


def holds(text, table):
    """By unrolling, from the definition."""
    instance = tomllib.loads(text)
    rows = {(r["partition"], r["chain"], r["stage"]): r for r in table["activities"]}
    for p in instance["partition"]:
        for k, chain in enumerate(p.get("chain", []), 1):
            wanted = ["processing"] + ORDER[:2] * ("input" in chain) + ORDER[3:] * ("output" in chain)
            path = [rows[p["name"], None if s == "processing" else k, s] for s in sorted(wanted, key=ORDER.index)]
            for a, b in zip(path, path[1:]):
                assert a["offset_ns"] + a["duration_ns"] <= b["offset_ns"], (a, b)
    on = {}
    for r in rows.values():
        on.setdefault(r["resource"], []).append(r)
    for shared in on.values():
        hyper = math.lcm(*(r["period_ns"] for r in shared))
        busy = sorted(((r["offset_ns"] + k * r["period_ns"]) % hyper, r["duration_ns"]) for r in shared
                      for k in range(hyper // r["period_ns"]))
        busy.append((busy[0][0] + hyper, 0))
        for (start, length), (after, _) in zip(busy, busy[1:]):
            assert start + length <= after, shared


@pytest.mark.parametrize("text", [SCE, DEVICES], ids=["sce", "devices"])
def test_examples(solocore, text):
    result = schedule(solocore, text)
    assert result["schedulable"] and result["answer"] == "found"
    table = json.loads((solocore.dir / "table.json").read_text())
    assert table["activities"] == result["activities"]
    holds(text, table)
    assert check(solocore, "--executions", "20")["holds"]


def test_dma_sets_the_length(solocore):
    """128 KiB: 131072 ns at 1 GB/s and 512 waits of the 1450.667 ns that keep 256 B to 150 MB/s, plus the margin."""
    rows = schedule(solocore, DEVICES)["activities"]
    row = next(r for r in rows if r["partition"] == "vision" and r["stage"] == "device-input")
    assert row["duration_ns"] == math.ceil(131072 + 512 * 1450.667) + 10_000


def test_same_seed_same_bytes(solocore):
    schedule(solocore, DEVICES, "--seed", "5")
    first = (solocore.dir / "table.json").read_bytes()
    schedule(solocore, DEVICES, "--seed", "5")
    assert (solocore.dir / "table.json").read_bytes() == first


def test_tasks_inside_count(solocore):
    result = schedule(solocore, SCE.replace('"task 1", period = "36 ms", wcet = "8 ms"', '"task 1", period = "36 ms", wcet = "13 ms"'), code=1)
    assert result["answer"] == "infeasible" and "task 1" in result["reasons"][0]
    assert not (solocore.dir / "table.json").exists()


@pytest.mark.parametrize("text, words", [
    (pair(b='period = "15 ms"\nduration = "4 ms"\ncore = 0'), ["`a`", "`b`", "core 0", "1 ms longer", "5 ms"]),
    (pair(a='period = "10 ms"\nduration = "6 ms"\ncore = 0', b='period = "10 ms"\nduration = "6 ms"\ncore = 0'), ["2 ms longer"]),
    (pair() + '[[partition]]\nname = "c"\nperiod = "20 ms"\nduration = "8 ms"\ncore = 0\n'
              '[[partition]]\nname = "e"\nperiod = "20 ms"\nduration = "8 ms"\ncore = 0\n', ["core 0", "0.1000 too much"]),
    # Loads and pairs allow these three; residues modulo 6 do not.
    ("cores = 1\n" + "".join(f'[[partition]]\nname = "{n}"\nperiod = "{t} ms"\nduration = "{c} ms"\n[[partition.task]]\nname="t"\nperiod="{t} ms"\nwcet="1 ms"\n'.replace("core = 0", "")
                             for n, t, c in [("a", 12, 3), ("b", 18, 2), ("c", 30, 2)]), None),
])
def test_infeasible_with_a_reason(solocore, text, words):
    result = schedule(solocore, text, code=1)
    assert result["answer"] == "infeasible" and len(result["reasons"]) == 1
    for word in words or []:
        assert word in result["reasons"][0]


def test_age_shorter_than_the_chain(solocore):
    result = schedule(solocore, SCE.replace("[[partition.chain]]\n", '[[partition.chain]]\nage = "9 ms"\n', 1), code=1)
    assert result["answer"] == "infeasible" and "1 ms more than its age limit 9 ms" in result["reasons"][0]


@pytest.mark.parametrize("change, line, words", [
    (('duration = "6 ms"', 'duration = "19 ms"'), 21, ["partition 1", "longer than the period 18 ms"]),
    (('duration = "6 ms"', ""), 17, ["no processing"]),
    (('device = "device 1"', 'device = "device 9"'), 25, ["device 9"]),
    (('physical = "1 ms"', 'physical = "20 ms"'), 25, ["physical 20 ms"]),
    (('transfer = "1 ms"', 'transfer = "20 ms"'), 25, ["transfer 20 ms"]),
    (('transfer = "1 ms"', 'transfer = "1 KiB"'), 25, ["dma"]),
    (('period = "18 ms"', 'period = "18.0001 ms"'), 20, ["base"]),
    (('core = 0', "core = 2"), 19, ["core 2"]),
    (('name = "partition 2"', 'name = "partition 1"'), 28, ["twice"]),
    (('name = "device 2"', 'name = "device 1"'), 11, ["twice"]),
])
def test_bad_instances(solocore, change, line, words):
    assert change[0] in SCE
    solocore.write("instance.toml", SCE.replace(*change, 1))
    refused(solocore("schedule-io", "instance.toml", "-o", "table.json"), f"instance.toml:{line}:", *words, codes=(2,))
    assert not (solocore.dir / "table.json").exists()


@pytest.mark.parametrize("change, line", [
    (('duration = "6 ms"', "duration = 6"), 21),
    (("cores = 2", "cores = 2\ncolour = 1"), 7),
    (('core = 0', 'kore = 0'), 19),
])
def test_unknown_keys_and_bare_numbers(solocore, change, line):
    solocore.write("instance.toml", SCE.replace(*change, 1))
    done = solocore("schedule-io", "instance.toml")
    assert done.code == 2 and f"instance.toml:{line}:" in done.err and len(done.err.splitlines()) == 1, done.err


def line_of(text, *words):
    return next(n for n, line in enumerate(text.splitlines(), 1) if all(w in line for w in words))


def test_edited_offset_is_found(solocore):
    schedule(solocore, SCE)
    path = solocore.dir / "table.json"
    text = path.read_text()
    line = line_of(text, "partition 2", "device-output")
    lines = text.splitlines(keepends=True)
    lines[line - 1] = re.sub(r'"offset_ns":\d+', '"offset_ns":0', lines[line - 1])
    path.write_text("".join(lines))
    done = solocore("check-io", "instance.toml", "table.json")
    assert done.code == 1 and done.out.decode().startswith(f"table.json:{line}: "), done.out
    violation = check(solocore, code=1)["violation"]
    assert violation["rule"] in ("precedence", "overlap") and violation["lines"][0] == line


def test_overlap_names_both_and_the_time(solocore):
    schedule(solocore, pair())
    path = solocore.dir / "table.json"
    table = json.loads(path.read_text())
    # b's second instance at 25 ms meets a's at 20 + 4 ms.
    table["activities"][0]["offset_ns"], table["activities"][1]["offset_ns"] = 4_000_000, 15_000_000
    path.write_text(json.dumps(table, indent=1))
    violation = check(solocore, code=1)["violation"]
    assert violation["rule"] == "overlap" and violation["time_ns"] == 15_000_000
    assert "`a`" in violation["message"] and "`b`" in violation["message"] and "16 ms" in violation["message"]


@pytest.mark.parametrize("words, change, say", [
    (("partition 1", "processing"), (r'"duration_ns":\d+', '"duration_ns":5000000'), "6 ms"),
    (("partition 1", "processing"), (r'"period_ns":\d+', '"period_ns":9000000'), "18 ms"),
    (("partition 1", "processing"), ('"core 0"', '"core 7"'), "core 7"),
    (("partition 1", "device-input"), ('"io-core"', '"core 0"'), "io-core"),
    (("partition 1", "processing"), ("partition 1", "partition 9"), "partition 9"),
    (("partition 1", "device-input"), ('"device-input"', '"device-inputs"'), "device-inputs"),
    (("partition 1", "device-input"), ('"chain":1', '"chain":2'), "chain 2"),
    (("partition 1", "device-input"), ('"device-input"', '"device-output"'), "twice"),
])
def test_edited_tables_are_refused_with_the_line(solocore, words, change, say):
    schedule(solocore, SCE)
    path = solocore.dir / "table.json"
    lines = path.read_text().splitlines(keepends=True)
    line = line_of("".join(lines), *words)
    lines[line - 1] = re.sub(*change, lines[line - 1])
    path.write_text("".join(lines))
    done = solocore("check-io", "instance.toml", "table.json")
    assert done.code == 2 and say in done.err and re.match(rf"solocore: table.json:\d+: ", done.err), done.err
    if say != "twice":
        assert f"table.json:{line}:" in done.err


@pytest.mark.parametrize("key", ["offset_ns", "duration_ns", "period_ns"])
@pytest.mark.parametrize("value", [2**63 - 1, 2**64 - 1])
def test_times_that_fit_in_no_table_are_refused(solocore, key, value):
    schedule(solocore, SCE)
    path = solocore.dir / "table.json"
    path.write_text(re.sub(rf'("{key}": ?)\d+', rf"\g<1>{value}", path.read_text(), count=1))
    done = solocore("check-io", "instance.toml", "table.json")
    assert done.code == 2 and len(done.err.splitlines()) == 1 and "; " in done.err, done.err
    assert key.removesuffix("_ns") in done.err and "correct it" in done.err


def test_bound_partition_moved_to_another_core(solocore):
    schedule(solocore, SCE)
    path = solocore.dir / "table.json"
    path.write_text(path.read_text().replace("core 0", "core 1"))
    assert check(solocore, code=1)["violation"]["rule"] in ("core", "overlap")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"activities": []}', '{"activities": [1]}', '{"activities": [], "x": 1}'])
def test_broken_tables(solocore, text):
    solocore.write("instance.toml", SCE)
    solocore.write("table.json", text)
    done = solocore("check-io", "instance.toml", "table.json")
    assert done.code == 2 and len(done.err.splitlines()) == 1 and "table.json" in done.err, done.err


def test_long_hyperperiods(solocore):
    """Hours of hyperperiod on a core: checked as far as bounded time allows, and pair by pair."""
    primes = [1009, 1013, 1019, 1021]
    text = "cores = 1\n" + "".join(f'[[partition]]\nname = "p{p}"\nperiod = "{p} ms"\nduration = "10 us"\n' for p in primes)
    schedule(solocore, text)
    result = check(solocore)
    assert result["holds"] and result["resources_by_pairs"] == 1


def random_instance(seed):
    rng = random.Random(seed)
    periods = rng.choice([[10, 20, 40], [12, 18, 36], [20, 30, 50]])
    out = ["cores = 2", '[[device]]\nname = "d"', '[[device]]\nname = "e"', '[margin]\ndevice = "10 us"\nprocessing = "30 us"']
    for n in range(rng.randint(3, 14)):
        core = f"core = {rng.randint(0, 1)}" if rng.random() < 0.6 else ""
        out.append(f'[[partition]]\nname = "p{n}"\nperiod = "{rng.choice(periods)} ms"\nduration = "{rng.randint(1, 12) * 100} us"\n{core}')
        for _ in range(rng.choice([0, 1, 1, 2])):
            half = [f'{{ device = "{rng.choice("de")}", physical = "{rng.randint(1, 4) * 100} us", transfer = "{rng.randint(1, 4) * 50} us" }}' for _ in "io"]
            which = rng.choice([("input",), ("output",), ("input", "output")])
            out.append("[[partition.chain]]\n" + "\n".join(f"{w} = {h}" for w, h in zip(which, half)))
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("seed", range(25))
def test_random_instances_pass_both_checkers(solocore, seed):
    text = random_instance(seed)
    solocore.write("instance.toml", text)
    done = solocore("schedule-io", "instance.toml", "-o", "table.json", "--format", "json", "--seed", str(seed), "--time-limit", "20 s")
    assert done.code in (0, 1), done.err
    if done.code == 0:
        holds(text, done.json())
        assert check(solocore, "--executions", "3", "--seed", str(seed))["holds"]


def hard():
    """A busy core that the proofs do not decide at once."""
    rng = random.Random(3)
    rows = [(rng.choice([60, 90, 120, 180, 360, 720]), rng.randint(50, 290)) for _ in range(120)]
    return "cores = 1\n" + "".join(f'[[partition]]\nname = "p{n}"\nperiod = "{t} ms"\nduration = "{c * 6} us"\ncore = 0\n'
                                   for n, (t, c) in enumerate(rows))


def test_interrupt_leaves_nothing(solocore):
    solocore.write("instance.toml", hard())
    process = solocore.start("schedule-io", "instance.toml", "-o", "table.json", "--time-limit", "5 min")
    time.sleep(1)
    if process.poll() is None:
        code, err = interrupt(process, signal.SIGINT)
        assert code == 130 and "interrupted" in err
        assert not (solocore.dir / "table.json").exists()
