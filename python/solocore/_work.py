# SPDX-License-Identifier: MIT OR Apache-2.0
"""Common parts of the functions' fronts: files or text, threads, progress, and the display of results."""

import html
import os
import sys
from pathlib import Path

from .errors import InputError


def source(value, what):
    """Path and text of an input: a path, or the text of a file (which has lines); InputError for anything else."""
    if isinstance(value, os.PathLike):
        return Path(value), None
    if isinstance(value, str):
        return (Path(f"<{what}>"), value) if "\n" in value else (Path(value), None)
    raise InputError(f"{what}: is of type {type(value).__name__}; give a path or the text of a file")


def threads(wanted):
    """Number of threads: `wanted`, or one for each CPU that this process may use."""
    if wanted is None:
        return len(os.sched_getaffinity(0))
    return integer(wanted, "threads", 1, 4096)


def integer(value, what, low, high):
    """An integer within a range; InputError otherwise. Values with `__index__` are accepted, except bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not low <= value.__index__() <= high:
        raise InputError(f"{what}: is {value!r}; give an integer from {low} to {high}")
    return value.__index__()


def number(value, what):
    """A finite number as a float; InputError otherwise."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if isinstance(value, (bool, str)) or found != found or found in (float("inf"), float("-inf")):
        raise InputError(f"{what}: is {value!r}; give a finite number")
    return found


def reporter(progress, what):
    """A function of the share done (0 to 1), or None: `progress` may be None, a function, or True for lines on stderr."""
    if progress is None or progress is False:
        return None
    if callable(progress):
        return progress
    if progress is not True:
        raise InputError(f"progress: is {progress!r}; give True, a function of the share done, or None")
    said = [-1]

    def say(share):
        tenth = int(share * 10)
        if tenth > said[0]:
            said[0] = tenth
            print(f"{what}: {share:.0%}", file=sys.stderr)
    return say


def table(columns, rows, caption="", most=20):
    """An HTML table of the first rows."""
    def cell(value, tag):
        return f"<{tag}>{html.escape('' if value is None else str(value))}</{tag}>"
    head = "".join(cell(c, "th") for c in columns)
    body = "".join("<tr>" + "".join(cell(v, "td") for v in row) + "</tr>" for row in rows[:most])
    more = f"<p>{len(rows) - most} more</p>" if len(rows) > most else ""
    return f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def as_ms(ns):
    """Nanoseconds as milliseconds, as text; `-` without a value."""
    return "-" if ns is None else f"{ns / 1e6:.3f}"
