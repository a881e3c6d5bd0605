#!/usr/bin/env python3
"""Compares the counts of a replay with the truth: `replay ... | compare.py TRUTH`. Exit code 1 where they differ."""

import json
import sys

truth = json.load(open(sys.argv[1]))
wrong = total = 0
for line in sys.stdin:
    core, event, count = line.split()
    own = truth["vcpus"][int(core)][event]
    total += own
    if own != int(count):
        wrong += 1
        print(f"core {core}: {event}: the board counted {own}, the replay {count}")
if not total:
    sys.exit("compare.py: nothing was counted")
print(f"compare.py: {total} events, {wrong} counts differ")
sys.exit(bool(wrong))
