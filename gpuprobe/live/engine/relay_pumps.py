"""The engine's output on its way: to where it would have gone, and a copy to the probe.

Standard library alone. A stream has a thread, so that a reader who does not take the one does not
hold up the other. Nobody waits for the probe.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from gpuprobe.live.engine import relay_frames

CHUNK: Final = 1 << 17
"""Bytes read at once; a pipe holds up to eight times as much. A terminal gives 4095 at most."""

AT_ONCE: Final = 4
"""Pieces of a terminal that are copied before it is asked again whether there is more."""

PIECE: Final = 1 << 12
"""Bytes that a terminal gives at once, at most one less."""

GATHERED: Final = AT_ONCE * PIECE
"""Up to so many bytes the copy for the probe may wait for more, as a frame costs much beside it."""

GATHER_S: Final = 0.02
"""How long it waits, where output came just before, unless `CHUNK` is full earlier."""

LATE_S: Final = 0.2
"""How long it waits at most where its pump cannot look after it: the target takes nothing."""

BACKLOG: Final = 1 << 20
"""Bytes kept for a probe that does not read; of more, the oldest are dropped."""

PIPE_BYTES: Final = 1 << 20
"""What the pipes are asked to hold, which is what Linux gives everybody."""

_FRAME_COST: Final = 200
"""Bytes that a frame takes here beside its data: an engine may write one byte at a time."""

_GONE: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Mirror:
    """The pipe to the probe, which is never waited for.

    Args:
        descriptor: The pipe's end; it does not block.
        on_wait: Called when something is left to be written: by `flush` once there is room, where
            it `waits`, and by `flush` at `due_s` otherwise.

    Attributes:
        due_s: When gathered output is to be sent by `flush`, seconds of `time.monotonic()`; None
            for never.
    """

    def __init__(self, descriptor: int, on_wait: Callable[[], None]) -> None:
        self.descriptor = descriptor
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._on_wait = on_wait
        self._lock = threading.Lock()
        self.due_s: float | None = None
        self._waiting: deque[tuple[int, int, int, bytes | memoryview]] = deque()
        self._size = 0
        self._room = memoryview(bytearray(CHUNK))
        self._gathered = 0
        self._gathered_from = (0, 0)
        self._sent_s = 0.0
        self._rest: bytes | memoryview = b""
        self._dropped = [0] * len(relay_frames.STREAMS)

    @property
    def waits(self) -> bool:
        """Whether something is left that the probe may still take."""
        return bool(self._rest or self._waiting) and self.descriptor >= 0

    @property
    def is_due(self) -> bool:
        """Whether gathered output is to be sent now."""
        return self.due_s is not None and time.monotonic() >= self.due_s

    def put(self, kind: int, stream: int = 0, data: bytes | memoryview = b"") -> None:
        """Send a frame; `data` may be used again afterwards."""
        with self._lock:
            called = self.descriptor >= 0 and self._put(kind, stream, data)
        if called:
            self._on_wait()

    def put_output(self, stream: int, data: memoryview) -> bool:
        """Send what the engine wrote, at once or with what it writes next; see `GATHERED`.

        Returns:
            Whether it waits for more: then `send_gathered` is to be called after `GATHER_S`.
        """
        with self._lock:
            called = self.descriptor >= 0 and self._put_output(stream, data)
            gathers = bool(self._gathered)
        if called:
            self._on_wait()
        return gathers

    def send_gathered(self) -> None:
        """Nothing more came."""
        with self._lock:
            waited = self.waits
            self._end_gathering()
            self._sent_s = time.monotonic()
            self._flush()
            self._keep()
            called = self.waits and not waited
        if called:
            self._on_wait()

    def flush(self) -> None:
        """Write what was gathered and what waits, as far as there is room."""
        with self._lock:
            if self.is_due:
                self._end_gathering()
                self.due_s = None
                self._sent_s = time.monotonic()
            self._flush()
            self._keep()

    def close(self) -> None:
        """Nothing more comes, or nobody reads."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
        self._waiting.clear()
        self._gathered = 0
        self._rest = b""
        self.due_s = None

    def _put(self, kind: int, stream: int, data: bytes | memoryview) -> bool:
        """Send a frame behind all others; whether `on_wait` is to be called."""
        waited = self.waits
        self._end_gathering()
        self._append(kind, stream, time.monotonic_ns(), data)
        self._flush()
        self._keep()
        return self.waits and not waited

    def _put_output(self, stream: int, data: memoryview) -> bool:
        """As `_put`, for output that may be gathered."""
        end = self._gathered + len(data)
        if self._gathered:
            joins = stream == self._gathered_from[0] and end <= CHUNK
        else:
            joins = time.monotonic() - self._sent_s < GATHER_S
        if not joins or len(data) > GATHERED:
            self._sent_s = time.monotonic()
            return self._put(relay_frames.OUTPUT, stream, data)
        if not self._gathered:
            self._gathered_from = (stream, time.monotonic_ns())
        self._room[self._gathered : end] = data
        self._gathered = end
        if self.due_s is not None:
            return False
        self.due_s = time.monotonic() + LATE_S
        return True

    def _end_gathering(self) -> None:
        """Make a frame of what was gathered."""
        if self._gathered:
            gathered = self._room[: self._gathered]
            self._append(relay_frames.OUTPUT, *self._gathered_from, gathered)
            self._gathered = 0

    def _append(self, kind: int, stream: int, at_ns: int, data: bytes | memoryview) -> None:
        self._waiting.append((kind, stream, at_ns, data))
        self._size += len(data) + _FRAME_COST

    def _flush(self) -> None:
        try:
            while self.waits:
                if not self._rest:
                    self._write_next()
                else:
                    self._rest = self._rest[os.write(self.descriptor, self._rest) :]
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def _write_next(self) -> None:
        kind, stream, at_ns, data = self._waiting[0]
        head = relay_frames.header(kind, stream, len(data), self._dropped[stream], at_ns)
        written = os.writev(self.descriptor, (head, data))
        self._waiting.popleft()
        self._size -= len(data) + _FRAME_COST
        self._dropped[stream] = 0
        if written < len(head):
            self._rest = head[written:] + bytes(data)
        else:
            self._rest = data[written - len(head) :]

    def _keep(self) -> None:
        """Copy what could not be written, as its buffer is used again, and bound what is kept.

        The oldest output goes, what is said of the engine stays.
        """
        if isinstance(self._rest, memoryview):
            self._rest = bytes(self._rest)
        for place in range(max(0, len(self._waiting) - 2), len(self._waiting)):
            *about, data = self._waiting[place]
            if isinstance(data, memoryview):  # of what was gathered, and of what came behind it
                self._waiting[place] = (about[0], about[1], about[2], bytes(data))
        while self._size > BACKLOG:
            place = next(n for n, one in enumerate(self._waiting) if one[0] == relay_frames.OUTPUT)
            _, stream, _, data = self._waiting[place]
            del self._waiting[place]
            self._size -= len(data) + _FRAME_COST
            self._dropped[stream] += len(data)


class Pump(threading.Thread):
    """Copies one stream until its last writer has gone.

    Args:
        source: What the engine writes into: the reading end of a pipe, or a terminal's master.
        targets: Where it would have gone: the first is written to, all are let go of at the end.
        stream: A place in `relay_frames.STREAMS`.
        mirror: Takes the copy.
        on_news: Called when it was found empty after `drain`, and at its end.

    Attributes:
        drained: After `drain`: all that was written before has been handed on.
        over: The last writer has gone.
    """

    def __init__(
        self,
        source: int,
        targets: Sequence[int],
        stream: int,
        mirror: Mirror,
        on_news: Callable[[], None],
    ) -> None:
        super().__init__(daemon=True)
        self.drained = False
        self.over = False
        self._source = source
        self._targets = targets
        self._stream = stream
        self._mirror = mirror
        self._on_news = on_news
        self._gathers = False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def drain(self) -> None:
        """The engine has ended: say when all that it wrote was handed on."""
        os.write(self._wake_write, b"x")

    def run(self) -> None:
        """See `threading.Thread`."""
        try:
            self._copy()
        finally:
            self._let_go()
            self.drained = self.over = True
            self._on_news()

    def _copy(self) -> None:
        poller = select.poll()
        poller.register(self._source, select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        target = self._targets[0]
        if stat.S_IFMT(os.fstat(target).st_mode) in (stat.S_IFIFO, stat.S_IFSOCK):
            poller.register(target, 0)  # tells at once when its reader has gone
        view = memoryview(bytearray(CHUNK))
        at_once = 1 if os.get_blocking(self._source) else AT_ONCE
        left: int | None = None
        while True:
            wait_ms = GATHER_S * 1000 if self._gathers else None
            # After the engine's end, what is there is read and nothing is waited for: a daemon that
            # keeps the pipe open may never write again.
            ends = left is not None and not self.drained
            ready = dict(poller.poll(0 if ends else wait_ms))
            if self._gathers and not ready:
                self._gathers = False
                self._mirror.send_gathered()
            if self._wake_read in ready:
                poller.unregister(self._wake_read)
                left = PIPE_BYTES  # a pipe held no more: what comes behind it is not the engine's
            if ready.get(target, 0) & _GONE:
                return
            if self._source in ready:
                size = self._copy_pieces(view, target, at_once)
                if size is None:
                    return
                left = left - size if left is not None else None
            if left is not None and not self.drained and (self._source not in ready or left <= 0):
                self.drained = True
                self._on_news()

    def _copy_pieces(self, view: memoryview, target: int, most: int) -> int | None:
        """Copy what is there, at most so many pieces; gives its size, None at the end.

        The probe gets the first before the target may make us wait, as it may be the engine's
        last; those that come right behind it, as in a flood, it gets together.
        """
        source, piece = self._source, PIECE if most > 1 else CHUNK
        begin = end = 0
        over = False
        for number in range(most):
            size = _read(source, view[end : end + piece])
            if not size:
                over = size == 0
                break
            data = view[end : end + size]
            end += size
            if number == 0:
                self._gathers = self._mirror.put_output(self._stream, data)
                begin = end
            if not _write_all(target, data):
                over = True
                break
        if begin < end:
            self._gathers = self._mirror.put_output(self._stream, view[begin:end])
        return None if over else end

    def _let_go(self) -> None:
        os.close(self._source)
        self._mirror.put(relay_frames.CLOSED, self._stream)
        for target in self._targets:
            replace_with_null(target)


def replace_with_null(descriptor: int) -> None:
    """Let go of what a descriptor stands for, and keep its number in use."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def _read(source: int, view: memoryview) -> int | None:
    """How much came: 0 when no writer is left, None when it was nothing after all."""
    try:
        return os.readv(source, (view,))
    except BlockingIOError:
        return None
    except OSError:  # a terminal without a program left
        return 0


def _write_all(target: int, data: memoryview) -> bool:
    """Write everything; False when nobody reads it, as a broken pipe tells its writer."""
    try:
        written = os.write(target, data)
        while written < len(data):
            data = data[written:]
            written = os.write(target, data)
    except BlockingIOError:  # somebody else made this pipe or terminal so
        _wait_writable(target)
        return _write_all(target, data)
    except BrokenPipeError:
        return False
    except OSError:  # a full disk, a terminal that was hung up: the engine goes on
        return True
    return True


def _wait_writable(descriptor: int) -> None:
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    with contextlib.suppress(OSError):
        poller.poll()
