# SPDX-License-Identifier: MIT OR Apache-2.0
"""Messages of a program to a running solocore: the Python binding of libsolocore (client/c/solocore.h).

While a thread holds the bandwidth lock and runs, the other cores may make only the plan's number of accesses to memory for tasks
that are not real-time. No thread ever waits for the lock, and sections nest:

    from solocore import client

    with client.lock():
        filter(image)           # memory-performance critical section

    client.attach("video")    # a task of the plan
    with client.job():
        decode(frame)

    client.attach_slot("nav/1/device-input")  # a transfer of the plan's time table
    while True:
        with client.slot() as missed:         # waits for the beginning of the next slot
            transfer()

Without a running solocore all this has no effect; attach() gives the reason. All calls concern the calling thread. Needs
libsolocore.so.0 (`make client`), in the usual places or at the path in SOLOCORE_LIBRARY; no other library.
Does not cover: threads that switch inside a section (asyncio): the lock belongs to the thread.
"""

import contextlib
import ctypes
import os

from . import errors

OK, NO_DAEMON, DENIED, FULL, UNKNOWN, REFUSED, SYSTEM, UNMATCHED = range(8)

_library = ctypes.CDLL(os.environ.get("SOLOCORE_LIBRARY", "libsolocore.so.0"))
_library.sc_strstatus.restype = ctypes.c_char_p
_library.sc_max_hold_ns.restype = ctypes.c_ulonglong
_library.sc_attach_task.argtypes = [ctypes.c_char_p]
_library.sc_attach_slot.argtypes = [ctypes.c_char_p]
_library.sc_wait_slot.argtypes = [ctypes.POINTER(ctypes.c_ulonglong)]
_library.sc_detach.restype = None


class Error(errors.Error, OSError):
    """A call had no effect; `status` is one of the constants above."""

    def __init__(self, status):
        OSError.__init__(self, status, _library.sc_strstatus(status).decode())
        self.status, self.file, self.line, self.key = status, None, None, None

    __str__ = OSError.__str__


def _check(status):
    if status != OK:
        raise Error(status)


class lock(contextlib.ContextDecorator):  # a verb where it is used: `with client.lock():`
    """Holds the bandwidth lock in a `with` block or a decorated function. `status` tells whether that has an effect."""

    def __init__(self):
        self.status = None

    def _recreate_cm(self):
        # Each call of a decorated function is a section of its own.
        return type(self)()

    def __enter__(self):
        self.status = _library.bw_lock()
        return self

    def __exit__(self, *_):
        if self.status == OK:
            _library.bw_unlock()
        return False


@contextlib.contextmanager
def job():
    """A job of the calling thread's task; raises Error where one is under way."""
    status = _library.sc_job_begin()
    if status == UNMATCHED:
        raise Error(status)
    try:
        yield
    finally:
        if status == OK:
            _library.sc_job_end()


def attach(task=None):
    """Attaches the calling thread now, as a task of the plan if one is named; raises Error."""
    _check(_library.sc_attach() if task is None else _library.sc_attach_task(os.fsencode(task)))


def attach_slot(name):
    """Attaches the calling thread as a transfer of the plan's time table ("nav/1/device-input"); raises Error."""
    _check(_library.sc_attach_slot(os.fsencode(name)))


@contextlib.contextmanager
def slot():
    """Waits for the beginning of the thread's next slot; a `with` block is the transfer, its value the number of slots missed.

    Raises Error where the thread is not a transfer or solocore has ended.
    """
    missed = ctypes.c_ulonglong(0)
    _check(_library.sc_wait_slot(ctypes.byref(missed)))
    try:
        yield missed.value
    finally:
        _library.sc_slot_end()


def detach():
    """Detaches the calling thread, which then no longer holds the lock."""
    _library.sc_detach()


def check():
    """Raises Error unless the calling thread is attached and the daemon still runs."""
    _check(_library.sc_check())


def hold_program():
    """Holds the lock whenever this process or a descendant runs, until it ends; raises Error."""
    _check(_library.sc_hold_program())


def max_hold():
    """Longest time for which a section counts, in seconds; None without a limit."""
    return _library.sc_max_hold_ns() / 1e9 or None
