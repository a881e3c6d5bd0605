from collections.abc import Iterator, Sequence
from typing import Literal

from .sets import TaskSets

Bounds = float | Sequence[float]
Periods = (
    tuple[Literal["log-uniform"], int, int] | tuple[Literal["log-uniform"], int, int, int]
    | tuple[Literal["harmonic"], int, int] | tuple[Literal["automotive"], int]
)
Method = Literal["simplex", "uunifast-discard"]
Deadlines = Literal["implicit", "constrained"]

def generate(
    sets: int, tasks: int, utilization: float, *, cores: int = 1, lower: Bounds = 0.0, upper: Bounds = 1.0, method: Method = "simplex",
    periods: Periods = ..., deadlines: Deadlines = "implicit", seed: int = 1, first: int = 0, threads: int | None = None,
) -> TaskSets: ...
def stream(
    sets: int, tasks: int, utilization: float, *, batch: int = 10_000, cores: int = 1, lower: Bounds = 0.0, upper: Bounds = 1.0,
    method: Method = "simplex", periods: Periods = ..., deadlines: Deadlines = "implicit", seed: int = 1, first: int = 0,
    threads: int | None = None,
) -> Iterator[TaskSets]: ...
