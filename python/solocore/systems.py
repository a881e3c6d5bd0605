# SPDX-License-Identifier: MIT OR Apache-2.0
"""Systems planned and simulated, time tables, and profiles.

Planning and simulating happen in this process, from the crates of the command; profiling runs the command `solocore`, because it
needs the emulator and its plugin. SOLOCORE names the command; otherwise it is looked for in PATH.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import tomllib
from pathlib import Path

from . import _solocore, _work
from .errors import InputError, MachineError


class Document:
    """A result: `data` is the JSON document of the command, and its keys are attributes."""

    def __init__(self, text):
        self._text = text
        self.data = json.loads(text)

    def __getattr__(self, name):
        try:
            return self.__dict__["data"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no `{name}`") from None

    def __eq__(self, other):
        return type(self) is type(other) and self.data == other.data

    __hash__ = None

    def __reduce__(self):
        return type(self), (self._text,)

    def to_json(self):
        """The document as the command prints it."""
        return self._text


class Plan(Document):
    """A plan: `schedulable`, `tasks`, `cores`, `reasons`, `promises`, `repair` and the other keys in docs/reference-plan.md."""

    def task(self, name):
        """The task of that name, a dict; InputError where there is none."""
        for task in self.data["tasks"]:
            if task["name"] == name:
                return task
        raise InputError(f"task: there is no `{name}`; take one of: {', '.join(t['name'] for t in self.data['tasks'])}")

    def explain(self, name):
        """The derivation of a task's bound: an `Explanation`; InputError where the plan has no derivation for it."""
        from .analysis import Explanation
        derivation = self.task(name).get("derivation")
        if derivation is None:
            raise InputError(f"task: the plan has no derivation for `{name}`; take a task with a bound")
        return Explanation(derivation, _solocore.derivation_text(json.dumps(derivation)))

    def save(self, path):
        """Writes the plan as `solocore plan -o` does, with the profiles that it refers to.

        Raises MachineError where it cannot be written.
        """
        _solocore.save_plan(self._text, os.fspath(path))

    def __repr__(self):
        return f"Plan({'schedulable' if self.schedulable else 'NOT schedulable'}, {len(self.tasks)} tasks)"

    def _repr_html_(self):
        head = ["task", "core", "level", "C ms", "C_sce ms", "response ms", "deadline ms", "schedulable"]
        rows = [[t["name"], t["core"], t["criticality"], _work.as_ms(t["wcet_ns"]), _work.as_ms(t["c_sce_ns"]),
                 _work.as_ms(t["wcrt_ns"]), _work.as_ms(t["deadline_ns"]), t["schedulable"]] for t in self.tasks]
        return _work.table(head, rows, repr(self), most=200) + _bars(self.tasks)


class Simulation(Document):
    """A simulated run: `tasks`, `cores`, `simulated_ns`, `wall_ns`, `requests` and `timeline`."""

    def __repr__(self):
        missed = sum(t["misses_deadline"] for t in self.tasks)
        return f"Simulation({self.simulated_ns / 1e9:g} s, {sum(t['jobs'] for t in self.tasks)} jobs, {missed} missed)"

    def _repr_html_(self):
        head = ["task", "core", "jobs", "missed", "longest ms", "mean ms", "response ms"]
        rows = [[t["name"], t["core"], t["jobs"], t["misses_deadline"], _work.as_ms(t["moet_ns"]), _work.as_ms(t["acet_ns"]),
                 _work.as_ms(t["max_response_ns"])] for t in self.tasks]
        return _work.table(head, rows, repr(self), most=200)


class TimeTable(Document):
    """The answer to an instance: `schedulable`, `answer`, `reasons`, `cores`, `io_core` and `activities`."""

    def __init__(self, text, rows):
        super().__init__(text)
        self._rows = rows

    def __reduce__(self):
        return TimeTable, (self._text, self._rows)

    def save(self, path):
        """Writes the table as `solocore schedule-io -o` does; InputError where there is none."""
        if not self.schedulable:
            raise InputError(f"table: the instance is {self.answer}; there is none to write")
        Path(path).write_text(self._rows, encoding="utf-8")

    def __repr__(self):
        return f"TimeTable({self.answer}, {len(self.activities)} activities)"

    def _repr_html_(self):
        head = ["partition", "stage", "resource", "offset_ns", "duration_ns", "period_ns"]
        return _work.table(head, [[row.get(name) for name in head] for row in self.activities], repr(self), most=200)


class Profile(Document):
    """A profile of a program: instructions, references, misses by level, the lockdown curve (docs/profiles.md)."""

    def __repr__(self):
        return f"Profile({self.instructions} instructions, {self.loads + self.stores} references)"

    def _repr_html_(self):
        rows = [[level["name"], level["accesses"], level["misses"], level["writebacks"]] for level in self.levels]
        return _work.table(["level", "accesses", "misses", "write-backs"], rows, repr(self))


def plan(system, *, what_if=(), time_limit=None, progress=None):
    """Plans a system.

    system: the path of a system file, or its text. what_if: changes "KEY=VALUE" of keys of the file. time_limit: seconds to
    continue the search for better shares. progress: True, or a function of the share done.

    Returns a `Plan`; not schedulable is an answer. Raises InputError with file, line and key. A system whose tasks state commands is
    planned by the command, which profiles them. Sources: docs/system-file.md.
    """
    path, text = _work.source(system, "system")
    changes = [what_if] if isinstance(what_if, str) else list(what_if)
    limit = None if time_limit is None else _work.number(time_limit, "time_limit")
    found = _solocore.plan(path, text, changes, limit, _work.reporter(progress, "plan"))
    if found is not None:
        return Plan(found)
    if text is not None:
        raise InputError("system: the text has commands to profile, which are relative to a file; give a path")
    options = [word for change in changes for word in ("--what-if", change)]
    if limit is not None:
        options += ["--time-limit", f"{limit:.9f} s"]
    return Plan(_command("plan", path, *options, "--format", "json", codes=(0, 1)))


def simulate(plan, *, mode="managed", duration=None, seed=None, timeline=0.0, progress=None):
    """Simulates a plan on its board, or a scenario.

    plan: a `Plan`, the path of one, or the path or text of a scenario (a file with `[simulation]`). mode, of a plan: "managed",
    "unmanaged" or "solo" (each task alone). duration, timeline: seconds of simulated time, and of its recorded part. Where
    duration or seed is left out, a scenario has its own; a plan has 1 second and the seed 1. The same seed gives the same run.

    Returns a `Simulation`. Raises InputError. Ctrl-C ends it within a second. Source: docs/simulator.md.
    """
    path, text = (Path("<plan>"), plan.to_json()) if isinstance(plan, Plan) else _work.source(plan, "plan")
    if path.suffix == ".toml" and path.is_file() and not _is_scenario(path):
        raise InputError(f"{path}: is a system; give solocore.plan({str(path)!r})", str(path))
    times = [None if value is None else _work.number(value, what) for value, what in ((duration, "duration"), (timeline, "timeline"))]
    if not all(value is None or 0 <= value <= 86_400 for value in times):
        raise InputError("duration: is not within 24 hours; give seconds")
    seed = None if seed is None else _work.integer(seed, "seed", 0, 2**64 - 1)
    return Simulation(_solocore.simulate(path, text, mode, None if times[0] is None else round(times[0] * 1e9), seed,
                                         round((times[1] or 0) * 1e9), _work.reporter(progress, "simulate")))


def _is_scenario(path):
    """Has a system file a table `simulation`? The reader reports text that is not TOML."""
    try:
        return "simulation" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True


def schedule_io(instance, *, seed=1, time_limit=60.0, progress=None):
    """Looks for a time table for partitions with conflict-free I/O (single-core-equivalence, section 2.4).

    instance: the path of an instance, or its text. time_limit: seconds. Returns a `TimeTable`, whose `answer` is "found",
    "infeasible" (proved) or "not-found". Raises InputError.
    """
    path, text = _work.source(instance, "instance")
    return TimeTable(*_solocore.schedule_io(path, text, _work.integer(seed, "seed", 0, 2**64 - 1),
                                            _work.number(time_limit, "time_limit"), _work.reporter(progress, "schedule_io")))


def profile(command, *, platform, timeout=None):
    """Profiles a program under emulation, with the command `solocore profile`.

    command: a list of words. platform: a preset's name, or a path. timeout: seconds. Returns a `Profile`. Raises InputError, or
    MachineError where the command or an emulator is missing.
    """
    words = [command] if isinstance(command, (str, os.PathLike)) else list(command)
    if not words:
        raise InputError("command: is empty; give a program and its arguments")
    with tempfile.TemporaryDirectory(prefix="solocore-") as directory:
        out = Path(directory) / "profile.json"
        options = [] if timeout is None else ["--timeout", f"{_work.number(timeout, 'timeout'):.9f} s"]
        # The program's own exit code passes through: only the file shows whether there is a profile.
        _command("profile", "--platform", platform, *options, "-o", out, "--", *words, made=out)
        return Profile(out.read_text(encoding="utf-8"))


def _command(*words, codes=(0,), made=None):
    """The output of the command. Python's own signals end it: it cleans up, then the exception continues."""
    program = os.environ.get("SOLOCORE") or shutil.which("solocore")
    if program is None:
        raise MachineError("solocore: the command is not in PATH; install it, or name it in SOLOCORE")
    try:
        running = subprocess.Popen([program, *map(os.fspath, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise MachineError(f"{program}: cannot run: {error}; install solocore, or name it in SOLOCORE") from None
    try:
        out, err = running.communicate()
    except BaseException:
        running.send_signal(signal.SIGINT)
        until = time.monotonic() + 5
        while running.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        running.kill()
        raise
    if running.returncode in codes or made is not None and made.is_file():
        return out
    lines = [line.removeprefix("solocore: ") for line in err.splitlines() if line.startswith("solocore: ")]
    message = lines[-1] if lines else f"solocore {words[0]}: ended with code {running.returncode}; run it by hand to see why"
    raise (MachineError if running.returncode == 3 else InputError)(message)


def _bars(tasks):
    """Responses as shares of deadlines: an SVG."""
    shown = [t for t in tasks if t["wcrt_ns"] is not None and t["deadline_ns"]][:40]
    if not shown:
        return ""
    rows = []
    for at, t in enumerate(shown):
        share = t["wcrt_ns"] / t["deadline_ns"]
        color = "#0072b2" if share <= 1 else "#a83c00"
        name = t["name"].replace("&", "&amp;").replace("<", "&lt;")
        rows.append(f'<text x="0" y="{18 * at + 13}" font-size="11">{name}</text>'
                    f'<rect x="150" y="{18 * at + 3}" width="{min(share, 1.5) * 200:.1f}" height="12" fill="{color}"/>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="480" height="{18 * len(shown) + 4}" role="img" '
            f'aria-label="response over deadline">{"".join(rows)}<line x1="350" x2="350" y1="0" y2="{18 * len(shown)}" '
            'stroke="#444"/></svg>')
