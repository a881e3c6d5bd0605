from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa

Progress = bool | Callable[[float], object] | None

class Study:
    points: pa.Table
    sua: dict[str, float]
    observations: list[dict[str, Any]]
    charts: dict[str, str]
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

class Reproduction:
    id: str
    source: str
    title: str
    holds: bool
    seed: int
    checks: list[dict[str, Any]]
    differs: list[str]
    columns: list[str]
    rows: list[list[Any]]
    svg: str

def study(
    scenarios: str | Sequence[str], *, schemes: str | Sequence[str] | None = None, utilization: str = "0.2:8:0.2", seed: int = 1,
    output: str | PathLike[str] | None = None, progress: Progress = None,
) -> Study: ...
def experiments() -> list[tuple[str, str, str]]: ...
def reproduce(name: str, *, quick: bool = False, seed: int = 1, progress: Progress = None) -> list[Reproduction]: ...
