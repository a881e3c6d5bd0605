#!/usr/bin/env python3
"""Compares counts of the virtual board.

`replay ... | compare.py TRUTH` compares a replay's counts with the truth, `compare.py --same A B` two truths. Exit code 1 where they differ.
"""

import json
import sys


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def differences(a, b, path=""):
    """Paths at which two documents differ, but for what the host's own doing decides."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            if key != "host":
                yield from differences(a.get(key), b.get(key), f"{path}/{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, f"{path}/{i}")
    elif a != b:
        yield f"{path}: {a} and {b}"[:200]


def same(first, second):
    found = list(differences(load(first), load(second)))
    for line in found[:20]:
        print(f"compare.py: {line}")
    print(f"compare.py: {len(found)} differences between two runs")
    return bool(found)


def replayed(path):
    truth = load(path)
    wrong = total = 0
    for line in sys.stdin:
        core, event, count = line.split()
        own = truth["vcpus"][int(core)][event]
        total += own
        if own != int(count):
            wrong += 1
            print(f"compare.py: core {core}: {event}: the board counted {own}, the replay {count}")
    if not total:
        sys.exit("compare.py: nothing was counted")
    print(f"compare.py: {total} events, {wrong} counts differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(same(*sys.argv[2:4]) if sys.argv[1:2] == ["--same"] else replayed(sys.argv[1]))
