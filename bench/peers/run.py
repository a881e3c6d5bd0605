"""Runs the allocators on the systems of `shares`, and has their allotments judged by the planner's analysis.

Each allocator is asked once for each total of all budgets (the whole bus, 1/2, 1/4, 1/8), as a smaller total costs the other cores less time.
It counts as schedulable if the judge accepts one of these allotments, with the pages that the planner or the allocator locks.
"""

import json
import subprocess
import time

from peers import cam, lp
from peers.system import of_line

NAMES = ("lp", "cam")


def by_lp(systems, seconds):
    """The linear program for each total; what one leaves of its part of the time is for the next."""
    found, end = [], time.monotonic() + seconds
    for at, system in enumerate(systems):
        left = max(1.0, end - time.monotonic()) / (len(systems) - at)
        found.append((system, lp.apart(system, left)))
        if found[-1][1] and found[-1][1].load <= lp.FLOOR * (1 + lp.GAP):
            break
    return [(system, one) for system, one in found if one]


def by_cam(systems, _):
    return [(system, cam.solve(system)) for system in systems]


class Judge:
    """The judge as a process that answers line by line."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def schedulable(self, name, allotments):
        self.process.stdin.write(json.dumps({**name, "allotments": allotments}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the judge ended at system {name}; its message is above")
        return any(json.loads(answer)["schedulable"])


def compared(row, line, judge, seconds, tell):
    """Adds the results of each allocator to a row; `tell` is given the name of the one that runs."""
    systems = of_line(line)
    for name, ask in zip(NAMES, (by_lp, by_cam)):
        tell(name)
        begun = time.perf_counter()
        found = ask(systems, seconds)
        nanoseconds = int((time.perf_counter() - begun) * 1e9)
        allotments = [one.allotment(system) for system, one in found]
        row[name] = {"schedulable": bool(found) and judge.schedulable(row["name"], allotments),
                     "believed": any(one.believed for _, one in found), "nanoseconds": nanoseconds}
