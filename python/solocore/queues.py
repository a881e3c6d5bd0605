# SPDX-License-Identifier: MIT OR Apache-2.0
"""Message queues in shared memory: the Python binding of client/c/solocore_ipc.h.

    import mmap
    from solocore import queues as ipc

    memory = mmap.mmap(-1, ipc.size(lanes=1, slots=8, message_bytes=256))     # or of a file that both sides map
    ipc.create(memory, lanes=1, slots=8, message_bytes=256, place=ipc.CACHED)
    with ipc.Sender(memory) as sender, ipc.Receiver(memory) as receiver:
        sender.send(b"frame")
        receiver.receive()      # b"frame"; None where there is no message

`receive()` takes a message; `peek()` and `done()` lose none when the receiver is killed in between. No call ever waits. Needs
libsolocore.so.0 (`make client`), in the usual places or at the path in SOLOCORE_LIBRARY; no other library.
Does not cover: the limits of solocore_ipc.h; the memory must stay mapped while its sides are open.
"""

import ctypes
import os

CACHED, BYPASS, LOCKED = range(3)
OK, EMPTY, FULL, TOO_LONG, BAD, BUSY, ARGUMENT, UNSUPPORTED = range(8)


class _Side(ctypes.Structure):
    _fields_ = [("memory", ctypes.c_void_p), ("numbers", ctypes.c_uint32 * 8), ("owner", ctypes.c_uint64), ("other", ctypes.c_uint64)]


_library = ctypes.CDLL(os.environ.get("SOLOCORE_LIBRARY", "libsolocore.so.0"))
_library.sc_strqueue.restype = ctypes.c_char_p
_library.sc_queue_bytes.restype = ctypes.c_size_t
_library.sc_queue_bytes.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_size_t]
_library.sc_queue_create.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint, ctypes.c_size_t, ctypes.c_uint]
for _open in (_library.sc_queue_open_sender, _library.sc_queue_open_receiver):
    _open.argtypes = [ctypes.POINTER(_Side), ctypes.c_void_p, ctypes.c_size_t]
_library.sc_queue_send.argtypes = [ctypes.POINTER(_Side), ctypes.c_char_p, ctypes.c_size_t]
_library.sc_queue_peek.argtypes = [ctypes.POINTER(_Side), ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
_library.sc_queue_done.argtypes = [ctypes.POINTER(_Side)]
_library.sc_queue_count.restype = ctypes.c_uint64
_library.sc_queue_count.argtypes = [ctypes.POINTER(_Side)]
_library.sc_queue_close.restype = None
_library.sc_queue_close.argtypes = [ctypes.POINTER(_Side)]


class Error(OSError):
    """A call had no effect; `status` is one of the constants above."""

    def __init__(self, status):
        super().__init__(status, _library.sc_strqueue(status).decode())
        self.status = status


def _check(status):
    if status != OK:
        raise Error(status)


def size(lanes, slots, message_bytes):
    """Bytes of memory that a queue takes; raises Error for an impossible shape."""
    needed = _library.sc_queue_bytes(lanes, slots, message_bytes)
    if needed == 0:
        raise Error(ARGUMENT)
    return needed


def _address(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def create(memory, lanes, slots, message_bytes, place=CACHED):
    """Makes an empty queue in an mmap that is not in use yet."""
    _check(_library.sc_queue_create(_address(memory), len(memory), lanes, slots, message_bytes, place))


class _Opened:
    def __init__(self, memory):
        self._side = _Side()
        # Keeps the memory mapped.
        self._kept = ctypes.c_char.from_buffer(memory)
        _check(self._open(ctypes.byref(self._side), ctypes.addressof(self._kept), len(memory)))

    def count(self):
        """Messages published in the sender's lane, or taken by receivers, including earlier ones."""
        return _library.sc_queue_count(ctypes.byref(self._side))

    def close(self):
        _library.sc_queue_close(ctypes.byref(self._side))
        self._kept = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        return False


class Sender(_Opened):
    """Takes a free lane, or one whose sender has ended; raises Error."""

    _open = staticmethod(_library.sc_queue_open_sender)

    def send(self, message):
        """Sends bytes; raises Error (FULL, TOO_LONG)."""
        _check(_library.sc_queue_send(ctypes.byref(self._side), message, len(message)))


class Receiver(_Opened):
    """Becomes the receiver; raises Error."""

    _open = staticmethod(_library.sc_queue_open_receiver)

    def __init__(self, memory):
        super().__init__(memory)
        self._buffer = ctypes.create_string_buffer(1)

    def peek(self):
        """The next message, which stays; None if there is none."""
        length = ctypes.c_size_t(0)
        while True:
            status = _library.sc_queue_peek(ctypes.byref(self._side), self._buffer, len(self._buffer), ctypes.byref(length))
            if status == EMPTY:
                return None
            if status != TOO_LONG or length.value <= len(self._buffer):
                _check(status)
                return self._buffer.raw[: length.value]
            self._buffer = ctypes.create_string_buffer(length.value)

    def done(self):
        """Takes the message that `peek` returned last."""
        _check(_library.sc_queue_done(ctypes.byref(self._side)))

    def receive(self):
        """Takes the next message; None if there is none."""
        message = self.peek()
        if message is not None:
            self.done()
        return message
