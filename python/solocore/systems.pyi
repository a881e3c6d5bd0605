from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal

from .analysis import Explanation

Path = str | PathLike[str]
Progress = bool | Callable[[float], object] | None

class Document:
    data: dict[str, Any]
    def __getattr__(self, name: str) -> Any: ...
    def to_json(self) -> str: ...

class Plan(Document):
    schedulable: bool
    tasks: list[dict[str, Any]]
    def task(self, name: str) -> dict[str, Any]: ...
    def explain(self, name: str) -> Explanation: ...
    def save(self, path: Path) -> None: ...

class Simulation(Document):
    tasks: list[dict[str, Any]]
    simulated_ns: int

class TimeTable(Document):
    schedulable: bool
    answer: Literal["found", "infeasible", "not-found"]
    activities: list[dict[str, Any]]
    def save(self, path: Path) -> None: ...

class Profile(Document):
    instructions: int

def plan(
    system: Path, *, what_if: str | Sequence[str] = (), time_limit: float | None = None, progress: Progress = None,
) -> Plan: ...
def simulate(
    plan: Plan | Path, *, mode: Literal["managed", "unmanaged", "solo"] = "managed", duration: float | None = None,
    seed: int | None = None, timeline: float = 0.0, progress: Progress = None,
) -> Simulation: ...
def schedule_io(instance: Path, *, seed: int = 1, time_limit: float = 60.0, progress: Progress = None) -> TimeTable: ...
def profile(command: Path | Sequence[Path], *, platform: str, timeout: float | None = None) -> Profile: ...
