"""The script that makes the table of events, on a small tree written here (`scripts/pmu-events.py`)."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/pmu-events.py"
TABLE = ROOT / "crates/linux/src/regulate/event/events.csv"

MISS = {"EventName": "LONGEST_LAT_CACHE.MISS", "EventCode": "0x2E", "UMask": "0x41"}


def offcore(name, value):
    return {"EventName": name, "EventCode": "0xB7, 0xBB", "UMask": "0x1", "MSRValue": value}


X86 = {
    "sandybridge": [MISS, offcore("OFFCORE_RESPONSE.ALL_READS.LLC_MISS.DRAM", "0x1")],
    "haswellx": [MISS, offcore("OFFCORE_RESPONSE.ALL_REQUESTS.LLC_MISS.ANY_RESPONSE", "0x3FBFC08FFF")],
    "cascadelakex": [MISS, {**offcore("OCR.ALL_READS.L3_MISS.ANY_SNOOP", "0x7F7"), "Deprecated": "1"}],
    "alderlake": [{**MISS, "Unit": "cpu_atom"}, {**MISS, "Unit": "cpu_core"}, {**MISS, "Unit": "CBOX"}],
    "bonnell": [{"EventName": "SOMETHING.ELSE", "EventCode": "0x1"}],
    "amdzen1": [{"EventName": "l2_pf_miss_l2_l3", "EventCode": "0x72"}],
    "amdzen2": [
        {"EventName": f"ls_refills_from_sys.ls_mabresp_{where}", "EventCode": "0x43", "UMask": mask}
        for where, mask in [("lcl_l2", "0x01"), ("lcl_dram", "0x08"), ("rmt_dram", "0x40")]
    ],
    "amdzen4": [
        {"EventName": "ls_dmnd_fills_from_sys.mem_io_local", "EventCode": "0x43", "UMask": "0x08"},
        {"EventName": "ls_any_fills_from_sys.dram_io_all", "EventCode": "0x44", "UMask": "0x48"},
    ],
    "amdzen5": [
        {"EventName": "ls_any_fills_from_sys.dram_io_all", "EventCode": "0x44", "UMask": "0x48"},
        {"EventName": "l2_fill_rsp_src.dram_io_near", "EventCode": "0x165", "UMask": "0x08"},
        {"EventName": "l2_fill_rsp_src.dram_io_far", "EventCode": "0x165", "UMask": "0x40"},
    ],
}
X86_MAP = r"""Family-model,Version,Filename,EventType
GenuineIntel-6-2A,v1,sandybridge,core
GenuineIntel-6-3F,v1,haswellx,core
GenuineIntel-6-55-[5-9A-F],v1,cascadelakex,core
GenuineIntel-6-(97|9A),v1,alderlake,core
GenuineIntel-6-1C,v1,bonnell,core
AuthenticAMD-23-([12][0-9A-F]|[0-9A-F]),v1,amdzen1,core
AuthenticAMD-23-[[:xdigit:]]+,v1,amdzen2,core
AuthenticAMD-25-[[:xdigit:]]+,v1,amdzen4,core
AuthenticAMD-26-[[:xdigit:]]+,v1,amdzen5,core
"""
ARM = {
    "arm/cortex-a53": [{"ArchStdEvent": "BUS_ACCESS_RD"}],
    "arm/cortex-a76": [{"ArchStdEvent": "L2D_CACHE_REFILL"}, {"ArchStdEvent": "LL_CACHE_MISS_RD"}],
    "arm/cortex-a57-a72": [{"ArchStdEvent": "L2D_CACHE_REFILL"}, {"ArchStdEvent": "L2D_CACHE_WB"}],
    "ampere/emag": [{"ArchStdEvent": "L2D_CACHE_REFILL"}, {"ArchStdEvent": "L2D_CACHE_WB"}],
}
ARM_MAP = """# a comment
#Family-model,Version,Filename,EventType
0x00000000410fd030,v1,arm/cortex-a53,core
0x00000000410fd070,v1,arm/cortex-a57-a72,core
0x00000000410fd080,v1,arm/cortex-a57-a72,core
0x00000000410fd0b0,v1,arm/cortex-a76,core
0x00000000500f0000,v1,ampere/emag,core
"""
STANDARD = {"L2D_CACHE_REFILL": "0x17", "L2D_CACHE_WB": "0x18", "LL_CACHE_MISS_RD": "0x37", "BUS_ACCESS_RD": "0x60"}


@pytest.fixture
def tree(tmp_path):
    """A kernel's source, as far as the script reads it."""
    arch = tmp_path / "linux/tools/perf/pmu-events/arch"
    for kind, types in (("x86", X86), ("arm64", ARM)):
        for name, events in types.items():
            (arch / kind / name).mkdir(parents=True)
            (arch / kind / name / "cache.json").write_text(json.dumps(events))
            (arch / kind / name / "metricgroups.json").write_text(json.dumps({"group": "of no events"}))
    (arch / "x86/mapfile.csv").write_text(X86_MAP)
    (arch / "arm64/mapfile.csv").write_text(ARM_MAP)
    standard = [{"EventName": name, "EventCode": code} for name, code in STANDARD.items()]
    (arch / "arm64/common-and-microarch.json").write_text(json.dumps(standard))
    (arch / "arm64/recommended.json").write_text("[]")
    (tmp_path / "linux/Makefile").write_text("# x\nVERSION = 9\nPATCHLEVEL = 8\nSUBLEVEL = 7\nEXTRAVERSION =\n")
    return tmp_path / "linux"


def run(*args):
    return subprocess.run([sys.executable, SCRIPT, *map(str, args)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def made(tree):
    """The rows that the script makes of the tree, by title."""
    done = run(tree, "-o", tree / "events.csv")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "no event: x86/bonnell\n"
    head, *lines = (tree / "events.csv").read_text().splitlines()
    assert head.endswith("Linux 9.8.7: do not edit.")
    rows = {}
    for row in csv.DictReader(lines):
        rows.setdefault(row["title"], []).append(row)
    return rows


def codes(rows):
    return [(r["event"].split(".")[0], r["config"], r["config1"]) for r in rows]


def test_intel_has_the_widest_event_and_that_of_guests(made):
    assert codes(made["sandybridge"]) == [("LONGEST_LAT_CACHE", "412e", "")]
    assert codes(made["haswellx"]) == [("OFFCORE_RESPONSE", "1b7", "3fbfc08fff"), ("LONGEST_LAT_CACHE", "412e", "")]
    assert codes(made["cascadelakex"]) == [("LONGEST_LAT_CACHE", "412e", "")], "deprecated names are no candidates"
    assert (made["cascadelakex"][0]["model"], made["cascadelakex"][0]["stepping"]) == ("55", "5-f")
    assert [r["pmu"] for r in made["alderlake"]] == ["cpu_core", "cpu_atom"]
    assert [r["l2_prefetch"] for r in made["alderlake"]] == ["yes", "unknown"]
    assert [r["family"] for r in made["intel"]] == ["6", "18-255"]


def test_amd_has_any_fills_or_those_on_demand(made):
    demand = "+".join(f"ls_refills_from_sys.ls_mabresp_{where}_dram" for where in ("lcl", "rmt"))
    for title, model in (("amdzen1", "0-2f"), ("amdzen2", "30-ff"), ("dhyana", "0-ff")):
        (row,) = made[title]
        assert (row["event"], row["config"], row["model"]) == (demand, "4843", model)
        assert (row["l1_prefetch"], row["non_temporal"]) == ("no", "no")
    (zen4,) = made["amdzen4"]
    assert (zen4["config"], zen4["l1_prefetch"], zen4["l2_prefetch"]) == ("4844", "yes", "no")
    # Bits 8 to 11 of AMD's events are bits 32 to 35.
    (zen5,) = made["amdzen5"]
    assert (zen5["config"], zen5["fetches"], zen5["l2_prefetch"]) == ("100004865", "yes", "yes")
    assert made["dhyana"][0]["vendor"] == "HygonGenuine"


def test_arm_has_the_last_level_and_write_backs_where_it_is_the_second(made):
    columns = ("config", "write_event", "write_config")
    write = {title: tuple(rows[0][c] for c in columns) for title, rows in made.items()}
    assert write["cortex-a53"] == write["cortex-a57-a72"] == ("17", "L2D_CACHE_WB", "18")
    assert write["cortex-a76"] == write["cortex-a76ae"] == ("37", "", "")
    assert write["emag"] == write["carmel"] == ("17", "", "")
    assert (made["emag"][0]["cache_hits"], made["cortex-a57-a72"][0]["cache_hits"]) == ("yes", "no")
    assert (made["cortex-a57-a72"][0]["vendor"], made["cortex-a57-a72"][0]["model"]) == ("41", "d07-d08")
    assert (made["sbi"][0]["type"], made["sbi"][0]["config"]) == ("hardware", "3")


def test_the_same_tree_gives_the_same_table(tree):
    table = tree / "events.csv"
    assert run(tree, "-o", table).returncode == 0
    assert run(tree, "--check", "-o", table).returncode == 0
    table.write_text(table.read_text().replace("412e", "412f", 1))
    wrong = run(tree, "--check", "-o", table)
    assert wrong.returncode == 1 and f"run scripts/pmu-events.py {tree}" in wrong.stderr
    assert "412f" in table.read_text(), "a check writes nothing"
    nowhere = run(tree / "tools")
    assert nowhere.returncode == 1 and "is no kernel source" in nowhere.stderr


INTEL_MODELS = (
    "1a 1e 1f 2e 25 2c 2f 2a 2d 3a 3e 3c 45 46 3f 3d 47 56 4f 4e 5e 8e 9e 55 7d 7e 6a 6c a7 8c 8d 97 9a b7 ba bf 8f cf aa ac ad "
    "c5 c6 bd cc 37 4d 4c 5c 5f 7a 96 9c 57 85 86 af b6 dd be"
)
ARM_PARTS = "d03 d04 d05 d06 d07 d08 d09 d0a d0b d0c d0d d0e d40 d41 d42 d43 d44 d46 d47 d48 d49 d4a d4b d4c d4d d4e d4f d80 d81 d82 "
ARM_PARTS += "d83 d84 d85 d87 d88 d89 d8e"
# Family, model: Zen 1, Zen+, Zen 2 (server, desktop), Zen 3, Zen 4 (server, desktop), Zen 5 (server, desktop).
AMD_MODELS = "23:1 23:8 23:31 23:71 25:1 25:21 25:11 25:61 26:2 26:44"


def within(text, number, base):
    """Whether a number lies in a list of ranges."""
    bounds = ((part + "-" + part).split("-")[:2] for part in text.split())
    return any(int(low, base) <= number <= int(high, base) for low, high in bounds)


def test_each_family_has_a_row_of_its_own():
    """CPUs by their numbers, not by the names of rows: a row whose range shrinks is noticed, and so is a family that goes missing."""
    rows = list(csv.DictReader(TABLE.read_text().splitlines()[1:]))
    named = [row for row in rows if row["title"] != "intel"]

    def absent(vendor, numbers):
        found = [row for row in named if row["vendor"] == vendor]
        cpus = [(number.rpartition(":")[0], int(number.rpartition(":")[2], 16)) for number in numbers.split()]
        has = [any(within(r["model"], model, 16) and (not family or within(r["family"], int(family), 10)) for r in found)
               for family, model in cpus]
        return [number for number, there in zip(numbers.split(), has) if not there]

    assert absent("GenuineIntel", INTEL_MODELS) == []
    assert absent("AuthenticAMD", AMD_MODELS) == []
    assert absent("41", ARM_PARTS) == []
    assert {"dhyana", "carmel", "emag", "ampereone", "ampereonex", "sbi"} <= {row["title"] for row in rows}
    assert absent("41", "fff") == ["fff"], "a part that no CPU has"


def test_the_table_has_the_columns_of_the_script(made):
    lines = TABLE.read_text().splitlines()
    assert lines[0].startswith("# Made by scripts/pmu-events.py from tools/perf/pmu-events of Linux ")
    kept = list(csv.DictReader(lines[1:]))
    assert list(kept[0]) == list(made["intel"][0])
    assert len(kept) > 80 and all(None not in row and None not in row.values() for row in kept)
