"""`solocore space audit --kernel` and `solocore reserve`, as far as a machine with other programs allows: counts, and refusals before anything
is taken. tests/vm/guest/reserve.sh holds frames in a guest.
"""

import os

import pytest
from conftest import refused

BOARD = ("--platform", "core-i5-2500k")
KINDS = ("free", "anonymous", "shared_memory", "file", "huge", "slab", "page_table", "kernel", "reserved", "unusable")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="frames are shown to root only")


def total(counts):
    return sum(counts[kind] for kind in KINDS)


@needs_root
def test_each_frame_is_counted_once(solocore):
    done = solocore("space", "audit", "--kernel", "--colors", "0-7", *BOARD, "--format", "json")
    census = done.json()
    assert census["format"] == "solocore-census/1" and len(census["colours"]) == 32 and census["banks"] == []
    everything = total(census["all"])
    assert sum(total(colour) for colour in census["colours"]) == everything
    assert total(census["chosen"]) + total(census["others"]) == everything
    assert total(census["chosen"]) == sum(total(colour) for colour in census["colours"] if colour["id"] < 8)
    # The kernel's own count of what it hands out has no frames that are reserved at boot.
    memory = next(int(line.split()[1]) // 4 for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    assert everything >= memory
    assert everything - census["all"]["reserved"] == pytest.approx(memory, rel=0.05)
    assert census["all"]["anonymous"] > 0 and census["all"]["slab"] > 0 and census["all"]["page_table"] > 0
    assert census["all"]["file_mapped"] <= census["all"]["file"]


@needs_root
def test_frames_by_bank(solocore):
    solocore.write("map.txt", "# colour: 12\n13\n14 17\n")
    done = solocore("space", "audit", "--kernel", "--banks", "1,2", "--map", "map.txt", "--format", "json")
    census = done.json()
    assert [bank["id"] for bank in census["banks"]] == [0, 1, 2, 3]
    assert total(census["chosen"]) == sum(total(census["banks"][bank]) for bank in (1, 2))
    text = solocore("space", "audit", "--kernel", "--map", "map.txt").out.decode()
    assert [line.split("  ")[0] for line in text.splitlines()] == ["frames of", "colour 0", "colour 1", *(f"bank {i}" for i in range(4)), "all"]


def test_an_audit_is_of_a_process_or_of_all(solocore):
    assert solocore("space", "audit", "--colors", "0-7").code == 2
    assert solocore("space", "audit", "1234", "--kernel").code == 2
    refused(solocore("space", "audit", "--kernel", "--colors", "32", *BOARD), "no colour 32", codes=(2,))


def test_what_cannot_be_reserved_is_refused(solocore):
    assert solocore("reserve").code == 2
    refused(solocore("reserve", "--colors", "32", *BOARD), "no colour 32", "0 to 31", codes=(2,))
    refused(solocore("reserve", "--colors", "1-", *BOARD), "--colors", codes=(2,))
    refused(solocore("reserve", "--banks", "1"), "no bank functions are known", codes=(2,))
    # All colours: others would have no memory left, whatever else this machine cannot do.
    done = solocore("reserve", "--colors", "0-31", *BOARD)
    assert done.code == 3 and any(done.err.split("solocore: ")[-1].startswith(why) for why in ("memory: ", "cgroup: ", "NUMA: ")), done.err


def test_a_plan_tells_which_frames(solocore):
    tasks = "".join(f'[[task]]\nname = "task{core}"\ncore = {core}\nperiod = "1 s"\nwcet = "1 ms"\nmisses = 1\n' for core in range(4))
    solocore.write("system.toml", f'platform = "core-i5-2500k"\n[regulation]\npolicy = "memguard"\n{tasks}')
    assert solocore("plan", "system.toml", "-o", "plan.json").code == 0
    solocore.write("map.txt", "# colour: 12\n")
    refused(solocore("reserve", "--plan", "plan.json", "--map", "map.txt"), "--plan plan.json", "a cache of 32 colours", codes=(2,))
    refused(solocore("reserve", "--plan", "system.toml", *BOARD), "system.toml", codes=(2,))
    # The four cores have all colours together.
    done = solocore("reserve", "--plan", "plan.json", *BOARD)
    assert done.code == 3 and any(done.err.split("solocore: ")[-1].startswith(why) for why in ("memory: ", "cgroup: ", "NUMA: ")), done.err
    # Fewer are held where --colors says so.
    refused(solocore("reserve", "--plan", "plan.json", "--colors", "32", *BOARD), "no colour 32", codes=(2,))
