# SPDX-License-Identifier: MIT OR Apache-2.0
"""solocore: many task sets analysed, systems planned and simulated, from a notebook to a cluster.

    import solocore

    sets = solocore.generate(1000, tasks=20, utilization=0.9, seed=1)
    solocore.analyze(sets, tests=["fp-rta", "edf"])

Times of task sets are integers in one unit, the caller's. Names load their modules when they are first used: the import of
solocore loads no other module. A program's messages to a running solocore are in `solocore.client`.
"""

import importlib
import warnings

_PLACES = {
    "sets": ["TaskSets"],
    "generation": ["generate", "stream"],
    "analysis": ["analyze", "Analysis", "TESTS"],
    "systems": ["plan", "simulate", "schedule_io", "profile", "Plan", "Simulation", "TimeTable", "Profile"],
    "laboratory": ["study", "reproduce", "experiments", "Study", "Reproduction"],
    "campaigns": ["campaign", "Campaign"],
    "errors": ["Error", "InputError", "MachineError"],
    "buffers": [], "client": [], "queues": [], "style": [],
}
_NAMES = {name: place for place, names in _PLACES.items() for name in names}
# These were names of the module `solocore` when it was the client alone.
_CLIENT = {"OK", "NO_DAEMON", "DENIED", "FULL", "UNKNOWN", "REFUSED", "SYSTEM", "UNMATCHED", "lock", "job", "attach", "attach_slot",
           "slot", "detach", "check", "hold_program", "max_hold"}
__all__ = sorted([*_NAMES, "buffers", "client", "queues", "style"])


def __getattr__(name):
    if name == "__version__":
        return importlib.import_module("solocore._solocore").__version__
    if name in _PLACES:
        return importlib.import_module(f"solocore.{name}")
    if name in _NAMES:
        value = getattr(importlib.import_module(f"solocore.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _CLIENT:
        warnings.warn(f"solocore.{name} is now solocore.client.{name}; import solocore.client", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module("solocore.client"), name)
    raise AttributeError(f"module 'solocore' has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]
