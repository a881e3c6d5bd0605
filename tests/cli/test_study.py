"""`solocore study`: files, determinism, resuming after a kill, shards, and refusals."""

import csv
import json
import random
import signal
import time

import pytest
from conftest import interrupt, refused

PAPER = ["R|R", "C|C", "O|C", "C|C+A/B-All", "C|C+A/B-LP", "C|C+A/B-SP", "O|C+A/B-All", "O|C+A/B-LP", "O|C+A/B-SP"]
ONE = "C-Light,Short,Medium,Slow,Large,High,Many"
SOME = ("--scenario", "*,Short,Heavy,Slow,Large,*,Many")  # 9 scenarios
FILES = ["points.csv", "sua.csv", "sua_by_scenario.csv", "observations.csv"]


def rows(solocore, name):
    with open(solocore.dir / name, newline="") as file:
        return list(csv.DictReader(file))


def results(solocore, directory):
    """Everything a study wrote but the journal, whose order depends on threads."""
    place = solocore.dir / directory
    return {p.name: p.read_bytes() for p in place.iterdir() if p.name != "journal.csv"}


def study(solocore, *args, **env):
    done = solocore("study", *args, timeout=300, **env)
    assert done.code == 0, done.err
    return done


def test_one_scenario(solocore):
    done = study(solocore, "--scenario", ONE, "-o", "s", "--format", "json").json()
    points = rows(solocore, "s/points.csv")
    assert list(points[0]) == ["scenario", "scheme", "utilization", "systems", "schedulable", "ci_low", "ci_high"]
    assert {p["scenario"] for p in points} == {ONE}
    assert list(dict.fromkeys(p["scheme"] for p in points)) == PAPER
    for p in points:
        low, high, share = float(p["ci_low"]), float(p["ci_high"]), int(p["schedulable"]) / int(p["systems"])
        assert low <= share <= high and high - low <= 0.1 + 1e-6 and int(p["systems"]) >= 40
    at = lambda scheme, u: next(p for p in points if p["scheme"] == scheme and p["utilization"] == u)
    assert float(at("O|C", "0.2")["ci_high"]) == 1.0
    last = [p for p in points if p["utilization"] == points[-1]["utilization"]]
    assert all(p["schedulable"] == "0" for p in last), "goes on to where no scheme schedules anything"
    # The same systems for all schemes: O|y is never worse than C|y.
    for p in points:
        if p["scheme"].startswith("C|C"):
            assert int(at("O|C" + p["scheme"][3:], p["utilization"])["schedulable"]) >= int(p["schedulable"])
    areas = {r["scheme"]: float(r["sua"]) for r in rows(solocore, "s/sua.csv")}
    assert list(areas) == PAPER
    for scheme in PAPER:
        curve = [(0.0, 1.0)] + [(float(p["utilization"]), int(p["schedulable"]) / int(p["systems"]))
                                for p in points if p["scheme"] == scheme]
        area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(curve, curve[1:]))
        assert areas[scheme] == pytest.approx(area, abs=1e-5)
    plot = (solocore.dir / "s/C-Light_Short_Medium_Slow_Large_High_Many.svg").read_text()
    assert plot.startswith("<svg") and all(name in plot for name in PAPER)
    assert [o["number"] for o in done["observations"]] == [7, 8, 9, 10, 11]


def test_same_seed_same_files_on_any_number_of_threads(solocore):
    runs = [("a", "1"), ("b", "2"), ("c", "5")]
    said = []
    for name, threads in runs:
        arguments = (*SOME, "--utilization", "0.5:8:0.5", "-o", name, "--format", "json")
        said.append({**study(solocore, *arguments, RAYON_NUM_THREADS=threads).json(), "directory": ""})
    assert said[0] == said[1] == said[2]
    a, b, c = (results(solocore, name) for name, _ in runs)
    assert a == b == c
    study(solocore, *SOME, "--utilization", "0.5:8:0.5", "-o", "d", "--seed", "2")
    assert results(solocore, "d")["points.csv"] != a["points.csv"]


def test_a_scenario_alone_is_as_among_others(solocore):
    study(solocore, *SOME, "--utilization", "1:3:1", "-o", "many", "--schemes", "C|C,O|C,O|opt")
    name = "C-Heavy,Short,Heavy,Slow,Large,Low,Many"
    study(solocore, "--scenario", name, "--utilization", "1:3:1", "-o", "one", "--schemes", "C|C,O|C,O|opt")
    many = [r for r in rows(solocore, "many/points.csv") if r["scenario"] == name]
    assert many == rows(solocore, "one/points.csv")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_resume_after_a_kill_loses_and_repeats_nothing(solocore, how):
    arguments = (*SOME, "--utilization", "0.1:8:0.1", "--schemes", "all")
    study(solocore, *arguments, "-o", "whole")
    for attempt in range(3):
        name = f"cut{attempt}"
        process = solocore.start("study", *arguments, "-o", name)
        journal = solocore.dir / name / "journal.csv"
        deadline = time.monotonic() + 60
        wanted = random.Random(attempt).randrange(1, 6000)
        while time.monotonic() < deadline and process.poll() is None and (not journal.exists() or journal.stat().st_size < wanted):
            time.sleep(0.002)
        code, err = interrupt(process, how)
        if how == signal.SIGINT and code == 130:
            assert "--resume" in err
        before = journal.read_text().rpartition("\n")[0]
        study(solocore, "--resume", name)
        after = journal.read_text()
        assert after.startswith(before), "finished points are kept as they were"
        keys = [line.split(",")[:2] for line in after.splitlines()]
        assert len(keys) == len({tuple(k) for k in keys}), "no point twice"
        assert results(solocore, name) == results(solocore, "whole")
        # Threads that run ahead leave points beyond a scenario's end, where nothing is schedulable: these may differ.
        counts = lambda line: set(line.split(",")[3:-1]) != {"0"}
        whole = (solocore.dir / "whole/journal.csv").read_text().splitlines()
        assert sorted(filter(counts, after.splitlines())) == sorted(filter(counts, whole))


def test_resume_into_another_directory(solocore):
    study(solocore, "--scenario", ONE, "-o", "whole")
    lines = (solocore.dir / "whole/journal.csv").read_text().splitlines(keepends=True)
    (solocore.dir / "whole/journal.csv").write_text("".join(lines[:5]) + lines[5][:7])
    expected = results(solocore, "whole")
    done = study(solocore, "--resume", "whole", "-o", "other")
    assert results(solocore, "other") == expected
    assert "5 points are there already" in done.err


def test_a_truncated_journal_or_table_is_repaired(solocore):
    study(solocore, "--scenario", ONE, "-o", "s")
    whole = results(solocore, "s")
    for name in FILES:
        path = solocore.dir / "s" / name
        path.write_bytes(path.read_bytes()[:-20])
    journal = solocore.dir / "s/journal.csv"
    journal.write_bytes(journal.read_bytes()[:-9])
    done = study(solocore, "--resume", "s")
    assert "cut off" in done.err
    assert results(solocore, "s") == whole


def test_damage_and_other_studies_are_refused(solocore):
    arguments = ("--scenario", ONE, "--utilization", "1:2:1")
    study(solocore, *arguments, "-o", "s")
    refused(solocore("study", *arguments, "-o", "s"), "s", "--resume")
    refused(solocore("study", "--resume", "s", "--seed", "9"), "seed")
    refused(solocore("study", "--resume", "s", "--schemes", "C|C"), "schemes")
    refused(solocore("study", "--resume", "s", "--utilization", "1:3:1"), "utilizations")
    refused(solocore("study", "--resume", "s", "--all"), "scenarios")
    refused(solocore("study", "--resume", "nowhere"), "nowhere")
    text = (solocore.dir / "s/parameters.toml").read_text()
    solocore.write("p.toml", text.replace("level_a_over_b = 1.5", "level_a_over_b = 1.6"))
    refused(solocore("study", "--resume", "s", "--parameters", "p.toml"), "parameters")
    manifest = json.loads((solocore.dir / "s/study.json").read_text())
    solocore.write("s/study.json", json.dumps({**manifest, "version": "0.0.0"}))
    refused(solocore("study", "--resume", "s"), "version")
    solocore.write("s/study.json", json.dumps(manifest))
    journal = (solocore.dir / "s/journal.csv").read_text()
    for damaged in (journal.replace("1000", "1001", 1), journal + journal, journal.replace(",", ";", 1)):
        solocore.write("s/journal.csv", damaged)
        refused(solocore("study", "--resume", "s"), "journal.csv:", "damaged")


def test_shards_join_to_the_whole(solocore):
    arguments = (*SOME, "--utilization", "0.5:6:0.5")
    study(solocore, *arguments, "-o", "whole")
    for k in (1, 2, 3):
        study(solocore, *arguments, "--shard", f"{k}/3", "-o", f"p{k}")
    study(solocore, "--merge", "p3", "p1", "p2", "-o", "joined")
    assert results(solocore, "joined") == results(solocore, "whole")
    refused(solocore("study", "--merge", "p1", "p2", "-o", "x"), "3/3", "missing")
    refused(solocore("study", "--merge", "p1", "p1", "p2", "p3", "-o", "x"), "1/3", "once")
    refused(solocore("study", "--merge", "whole", "-o", "x"), "not a shard")
    study(solocore, *arguments, "--shard", "2/3", "--seed", "5", "-o", "q2")
    refused(solocore("study", "--merge", "p1", "q2", "p3", "-o", "x"), "seed")
    journal = (solocore.dir / "p2/journal.csv").read_text().splitlines(keepends=True)
    # Not the last line: it may be a point beyond its scenario's end, computed along with the others.
    solocore.write("p2/journal.csv", "".join(journal[1:]))
    refused(solocore("study", "--merge", "p1", "p2", "p3", "-o", "x"), "p2", "not finished")
    assert not (solocore.dir / "x").exists()


@pytest.mark.parametrize("arguments, words", [
    ((), ["--scenario", "--all"]),
    (("--scenario", "C-Light,Long"), ["2 of 7"]),
    (("--scenario", ONE.replace("Slow", "Snail")), ["Snail", "Quick, Slow"]),
    (("--all", "--schemes", "C|C,X|Y"), ["X|Y"]),
    (("--all", "--utilization", "3:1:1"), ["3:1:1"]),
    (("--all", "--utilization", "0:8:0"), ["0:8:0"]),
    (("--all", "--shard", "5/4"), ["5/4"]),
    (("--all", "--parameters", "absent.toml"), ["absent.toml"]),
    (("--scenario", ONE, "--shard", "2/2"), ["shard"]),
])
def test_bad_arguments(solocore, arguments, words):
    refused(solocore("study", *arguments, "-o", "s"), *words)
    assert not (solocore.dir / "s").exists()


def test_bad_parameters_name_file_and_key(solocore):
    study(solocore, "--scenario", ONE, "--utilization", "1", "-o", "s")
    text = (solocore.dir / "s/parameters.toml").read_text()
    solocore.write("p.toml", text.replace("bus = [0.02, 0.15]", "bus = [0.2, 0.15]"))
    refused(solocore("study", "--all", "--parameters", "p.toml", "-o", "t"), "p.toml", "dma.bus")
    solocore.write("p.toml", text + "\nunknown = 1\n")
    done = solocore("study", "--all", "--parameters", "p.toml", "-o", "t")
    assert done.code == 2 and "unknown" in done.err


def test_a_full_disk_says_so(solocore):
    done = solocore("study", "--scenario", ONE, "-o", "/proc/nowhere")
    refused(done, "/proc/nowhere")
    assert done.code == 3
