# SPDX-License-Identifier: MIT OR Apache-2.0
"""The exceptions of solocore. Each message has the fault, its place and the remedy, on one line."""

import re

# The key is the first name in backquotes; many messages quote none.
_KEY = re.compile(r"`([A-Za-z_][\w.\-]*)`")


class Error(Exception):
    """No result. `file` (path or None), `line` (from 1, or None) and `key` (or None) give the place of the fault."""

    def __init__(self, message, file=None, line=None):
        super().__init__(message)
        self.file, self.line = file, line
        found = _KEY.search(message)
        self.key = found and found.group(1)

    def __reduce__(self):
        return type(self), (str(self), self.file, self.line)


class InputError(Error, ValueError):
    """The input is wrong; the same input is wrong on any machine."""


class MachineError(Error, RuntimeError):
    """The machine lacks something: a program, space, a permission."""
