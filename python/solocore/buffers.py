# SPDX-License-Identifier: MIT OR Apache-2.0
"""Buffers in frames of a task's cache colours and DRAM banks: the Python binding of client/c/solocore_buffer.h.

    from solocore import buffers

    with buffers.Buffer("video", 400 << 10) as buffer:   # "video" is a task of the plan
        camera.readinto(buffer.memory)

A running `solocore reserve --plan` gives the frames, and keeps them in place until the buffer is closed. In a program that solocore
has started in colours as this very task (`solocore run --colors`, `solocore exec --plan --task`), the program's own memory is taken
where no such reserve runs. Otherwise there is no buffer. Needs libsolocore.so.0 (`make client`), in the usual places or at the path
in SOLOCORE_LIBRARY; no other library.
Does not cover: the limits of solocore_buffer.h.
"""

import ctypes
import os
import weakref

OK, NONE, DENIED, UNKNOWN, FEW, ARGUMENT, REFUSED, SYSTEM = range(8)


class _Memory(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("file", ctypes.c_int), ("connection", ctypes.c_int)]


_library = ctypes.CDLL(os.environ.get("SOLOCORE_LIBRARY", "libsolocore.so.0"))
_library.sc_strbuffer.restype = ctypes.c_char_p
_library.sc_buffer.argtypes = [ctypes.POINTER(_Memory), ctypes.c_char_p, ctypes.c_size_t]
_library.sc_buffer_free.argtypes = [ctypes.POINTER(_Memory)]
_library.sc_buffer_free.restype = None


class Error(OSError):
    """There is no buffer; `status` is one of the constants above."""

    def __init__(self, status):
        super().__init__(status, _library.sc_strbuffer(status).decode())
        self.status = status


class Buffer:
    """At least `size` bytes in frames of this task of the plan, until it is closed; raises Error.

    `memory` is a writable memoryview of whole pages, zero at first. `file` is a descriptor that other processes can map, shared
    (None: the memory is this process's own); it is open as long as the memory is mapped.
    """

    def __init__(self, task, size):
        # A size_t is taken modulo its range by ctypes.
        if not 0 < size < 1 << 46:
            raise Error(ARGUMENT)
        name = os.fsencode(task)
        if b"\0" in name:
            raise Error(ARGUMENT)
        self._memory = _Memory(None, 0, -1, -1)
        status = _library.sc_buffer(ctypes.byref(self._memory), name, size)
        if status != OK:
            raise Error(status)
        pages = (ctypes.c_ubyte * self._memory.bytes).from_address(self._memory.at)
        # Slices and arrays of other packages keep these bytes, and so the mapping.
        end = weakref.finalize(pages, _library.sc_buffer_free, ctypes.byref(self._memory))
        # The kernel does it when the process ends; some may still use the memory until then.
        end.atexit = False
        self.memory = memoryview(pages).cast("B")
        self.file = self._memory.file if self._memory.file >= 0 else None

    def close(self):
        """Gives the frames back, once no slice and no array uses the memory; closing again does nothing."""
        self.memory = self.file = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        return False
