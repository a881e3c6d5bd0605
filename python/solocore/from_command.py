# SPDX-License-Identifier: MIT OR Apache-2.0
"""A campaign for the command: `solocore study --dask ADDRESS` starts `python3 -m solocore.from_command`.

Rule: stdin has one JSON document with `address`, `function` and `points`. The command reads one JSON object a line from stdout:
first `version`, then for each point its `point` (number) and `answer`, as they come in. The last object has `done`, or `error` with
`kind` (input or machine).
SIGINT ends it.
"""

import json
import signal
import sys

from . import _points, _solocore, campaigns
from .errors import Error, InputError


def _say(**values):
    print(json.dumps(values), flush=True)


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _say(version=_solocore.__version__)
        address, function, points = _points.read(sys.stdin.read())
        work = [(str(at), point, 0) for at, point in enumerate(points)]
        for found in campaigns._run(function, work, address, None, None):
            for at, answer in found.items():
                _say(point=int(at), answer=answer)
        _say(done=True)
    except Error as error:
        _say(error=str(error), kind="input" if isinstance(error, InputError) else "machine")
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
