"""`solocore dram`: the figures of the reference simulators, commands that keep the timing rules, and refusals.

The rules are checked once more here, from the standard and in another language than the checker. Not covered: speed.
"""

import csv
import json
from collections import defaultdict

import pytest
from conftest import refused

# DRAMsim3 / Ramulator 2.1, mean latency in ns (docs/dram.md); inside means within the two widened by 5 %.
REFERENCES = [
    (("chase",), 51.3, 48.5),
    (("chase-stream",), 23.6, 21.9),
    (("random", "2 GB/s"), 60.0, 57.9),
    (("random", "5 GB/s"), 72.9, 71.3),
    (("random", "8 GB/s"), 114, 106),
    (("stream4", "8 GB/s"), 52.3, 50.9),
]
KEYS = ["achieved_bytes_per_s", "mean_latency_ns", "p50_latency_ns", "p99_latency_ns", "requests", "wall_ns"]
SETUP = ("--memory", "ddr3-1333", "--channels", "1", "--ranks", "2")


def dram(solocore, *args, code=0):
    done = solocore("dram", *args, "--format", "json")
    assert done.code == code, done.err
    return done.json()


@pytest.mark.parametrize("pattern, one, two", REFERENCES, ids=lambda v: "-".join(v) if isinstance(v, tuple) else None)
@pytest.mark.parametrize("cap", ["4", "off"])
def test_references(solocore, pattern, one, two, cap):
    load = ("--load", pattern[1]) if len(pattern) > 1 else ()
    got = dram(solocore, *SETUP, "--pattern", pattern[0], *load, "--row-hit-cap", cap, "--requests", 300_000)
    assert set(KEYS) <= set(got) and got["requests"] == 300_000
    assert min(one, two) / 1.05 <= got["mean_latency_ns"] <= max(one, two) * 1.05
    assert got["p50_latency_ns"] <= got["p99_latency_ns"] <= got["max_latency_ns"]
    if load:
        assert abs(got["achieved_bytes_per_s"] / (float(pattern[1].split()[0]) * 1e9) - 1) < 0.01


def test_same_seed_same_figures(solocore):
    args = ("--pattern", "random", "--writes", "0.333", "--requests", 50_000)
    one, two, other = (dram(solocore, *args, "--seed", seed) for seed in (7, 7, 8))
    for result in (one, two, other):
        del result["wall_ns"]
    assert one == two and one["mean_latency_ns"] != other["mean_latency_ns"]


@pytest.mark.parametrize("memory", ["ddr3-1066", "ddr3-1333", "ddr4-2400", "ddr5-4800", "lpddr4-3200"])
def test_conservation_and_rules(solocore, memory):
    got = dram(solocore, "--memory", memory, "--pattern", "random", "--writes", "0.4", "--check", "--requests", 50_000)
    assert got["violations"] == 0 and got["commands"] > 100_000
    assert got["reads"] + got["writes"] == got["requests"] == 50_000
    assert got["accesses"] + got["forwarded"] + got["merged"] == 50_000
    assert abs(got["writes"] / 50_000 - 0.4) < 0.01


def test_commands_keep_the_rules_of_ddr3(solocore):
    dram(solocore, *SETUP, "--pattern", "random", "--load", "8 GB/s", "--writes", "0.3", "--requests", 5_000,
         "--trace-commands", "commands.csv")
    with open(solocore.dir / "commands.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len([r for r in rows if r["command"] in ("RD", "WR")]) == 5_000
    last, acts, opened, data = defaultdict(lambda: -10**9), defaultdict(list), {}, []
    before = -1
    for row in rows:
        t, kind, rank, bank = int(row["cycle"]), row["command"], int(row["rank"]), (int(row["rank"]), int(row["bank"]))
        assert t > before
        before = t
        if kind == "ACT":
            assert bank not in opened and t - last["PRE", bank] >= 9 and t - last["ACT", bank] >= 33
            assert t - last["REF", rank] >= 174
            assert not acts[rank] or t - acts[rank][-1] >= 4
            assert len(acts[rank]) < 4 or t - acts[rank][-4] >= 20
            acts[rank].append(t)
            opened[bank] = row["row"]
        elif kind == "PRE":
            assert t - last["ACT", bank] >= 24 and t - last["RD", bank] >= 5 and t - last["WR", bank] >= 7 + 4 + 10
            del opened[bank]
        elif kind == "REF":
            assert not any(r == rank for r, _ in opened)
            assert all(t - last["PRE", (rank, b)] >= 9 for b in range(8))
        else:
            assert opened[bank] == row["row"] and t - last["ACT", bank] >= 9
            if kind == "RD":
                assert t - last["WR", rank] >= 7 + 4 + 5
            data.append((t + (9 if kind == "RD" else 7), rank, kind))
            last[kind, rank] = t
        last[kind, rank if kind == "REF" else bank] = t
    for (a, rank_a, kind_a), (b, rank_b, kind_b) in zip(data, data[1:]):
        rest = 2 if (kind_a, kind_b) == ("RD", "WR") or (rank_a != rank_b and "RD" in (kind_a, kind_b)) else 0
        assert b - a >= 4 + rest


def test_cap_bounds_a_row_hit_attacker(solocore):
    def victim(cap):
        return dram(solocore, "--pattern", "attack", "--attackers", 1, "--outstanding", 16, "--same-bank",
                    "--row-hit-cap", cap, "--requests", 5_000)["mean_latency_ns"]
    assert victim("0") < victim("4") < victim("16") < 320 < 700 < victim("off")


def test_same_bank_and_other_banks(solocore):
    for cores in (1, 2, 4):
        args = ("--pattern", "attack", "--attackers", cores - 1, "--outstanding", 1, "--random-rows", "--requests", 20_000)
        assert abs(dram(solocore, *args, "--same-bank")["mean_latency_ns"] / (51.2 * cores) - 1) < 0.02
        assert abs(dram(solocore, *args)["mean_latency_ns"] / 51.4 - 1) < 0.02


def test_text(solocore):
    done = solocore("dram", "--pattern", "chase", "--requests", 1000)
    assert done.code == 0 and b"mean latency" in done.out and b"DDR3-1333H" in done.out


# Bad input.

@pytest.fixture
def memory(solocore):
    """Writes ddr3-1333 with one part replaced."""
    from conftest import ROOT
    text = (ROOT / "crates/dram/memories/ddr3-1333.toml").read_text()

    def write(old, new):
        assert old in text
        return solocore.write("memory.toml", text.replace(old, new, 1))

    return write


@pytest.mark.parametrize("old, new, words", [
    ("t_ras = 24", "t_ras = 5", ("memory.toml:22", "t_ras = 5 is below t_rcd = 9")),
    ("t_rfc = 174", "t_rfc = 5100", ("memory.toml:23", "t_rfc")),
    ("t_ccd_s = 4", "t_ccd_s = 2", ("overlap",)),
    ("banks = 8", "banks = 6", ("memory.toml:", "power of two")),
    ('"channel"]', '"channel"]\nbank = [0x40000, 0x20000, 0x20000]', ("memory.toml:", "not a bijection")),
    ('"rank", "column"', '"column"', ("not a bijection", "rank")),
])
def test_impossible_memory(solocore, memory, old, new, words):
    name = "./" + memory(old, new)
    refused(solocore("dram", "--memory", name, "--pattern", "chase"), *words, codes=(2,))


def test_hashed_map(solocore, memory):
    name = "./" + memory('"channel"]', '"channel"]\nbank = [0x84000, 0x108000, 0x210000]')
    got = dram(solocore, "--memory", name, "--pattern", "random", "--check", "--requests", 20_000)
    assert got["violations"] == 0 and got["requests"] == 20_000


@pytest.mark.parametrize("args, word", [
    (("--memory", "ddr9"), "ddr3-1333"),
    (("--memory", "./none.toml"), "none.toml"),
    (("--ranks", "3"), "power of two"),
    (("--writes", "1.5"), "--writes"),
    (("--row-hit-cap", "some"), "--row-hit-cap"),
    (("--load", "0 GB/s"), "--load"),
    (("--requests", "0"), "--requests"),
])
def test_refusals(solocore, args, word):
    refused(solocore("dram", "--pattern", "random", *args), word, codes=(2,))


def test_unwritable_trace_leaves_nothing(solocore):
    done = solocore("dram", "--pattern", "chase", "--requests", 1000, "--trace-commands", "no/such/dir/c.csv")
    refused(done, "no/such/dir/c.csv", codes=(3,))
    assert not solocore.files()


def test_json_is_the_only_output(solocore):
    done = solocore("dram", "--pattern", "chase", "--requests", 10, "--format", "json")
    assert json.loads(done.out)["requests"] == 10
