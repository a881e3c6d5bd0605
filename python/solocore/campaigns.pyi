from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any

import pyarrow as pa

Value = bool | int | float | str | None

class Campaign:
    table: pa.Table
    computed: int
    kept: int
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __len__(self) -> int: ...

def campaign(
    function: Callable[..., Mapping[str, Value]], points: Iterable[Mapping[str, Value]] | Mapping[str, Iterable[Value]],
    client: Any | str | None = None, *, output: str | PathLike[str] | None = None, seed: int = 1, workers: int | None = None,
    group: int | None = None, progress: bool | Callable[[float], object] | None = None,
) -> Campaign: ...
