"""Messages between a vector env and its worker processes: a fixed header, then bytes where there are any.

A message without content costs one system call on each side, and no poll: the kernel itself ends a wait after
`POLL_S`, so that whoever waits can look whether the other side is still alive.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import NamedTuple, Self

POLL_S = 0.5
SPIN_S = 2e-4 if hasattr(os, "sched_yield") else 0.0  # some five times what it takes to wake a process that sleeps
HEADER = struct.Struct("=cBB5xQ")  # letter, number, slot, bytes of content
ONE_PIECE = 1 << 14
TIMEVAL = struct.Struct("@ll")  # seconds and microseconds


class Message(NamedTuple):
    """What it is about, the command's number, a slot of the shared memory, and what belongs to it."""

    letter: bytes
    number: int
    slot: int
    content: bytes


class Channel:
    """One end of a two-way pipe between processes; it travels to a process that is being started.

    Args:
        sock: a connected stream socket of this machine.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        for timeout in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, timeout, TIMEVAL.pack(0, int(POLL_S * 1e6)))
        self._header: tuple[bytes, int, int, int] | None = None
        self._part = b""
        self._comes_soon = False

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Return the two ends of a new pipe."""
        ours, theirs = socket.socketpair()
        return cls(ours), cls(theirs)

    def fileno(self) -> int:
        """Return the file descriptor, to wait on several channels at once."""
        return self._sock.fileno()

    def send(
        self, letter: bytes, number: int, slot: int = 0, content: bytes = b"", *, limit_s: float | None = None
    ) -> None:
        """Send one message.

        Raises:
            OSError: the other side is gone.
            TimeoutError: it has not taken the message in `limit_s` seconds (None: there is no limit).
        """
        start = time.monotonic()
        header = HEADER.pack(letter, number, slot, len(content))
        # in one piece, which Ctrl-C cannot cut in two; what is large (answers) is not copied
        for part in (header, content) if len(content) > ONE_PIECE else (header + content,):
            rest = memoryview(part)
            while rest:
                try:
                    rest = rest[self._sock.send(rest) :]
                except BlockingIOError:  # nothing was taken for `POLL_S`
                    if limit_s is not None and time.monotonic() - start > limit_s:
                        raise TimeoutError from None

    def recv(self) -> Message | None:
        """Return the next message; None if it has not come (completely) within `POLL_S`.

        Raises:
            EOFError: the other side is gone.
            OSError: so it is, with bytes unread.
        """
        if self._header is None:
            header = self._take(HEADER.size)
            if header is None:
                return None
            self._header = HEADER.unpack(header)
        letter, number, slot, size = self._header
        content = self._take(size) if size else b""
        if content is None:
            return None
        self._header = None
        return Message(letter, number, slot, content)

    def recv_soon(self) -> Message | None:
        """Do as `recv`, but stay awake for the first `SPIN_S` if the last message came within that time.

        A core that fell asleep takes long to wake, compared with a cheap env's step. Whoever else wants it gets it.
        """
        start = time.perf_counter()
        if self._comes_soon:
            while not self.has_bytes() and time.perf_counter() - start < SPIN_S:
                os.sched_yield()
        message = self.recv()
        self._comes_soon = time.perf_counter() - start < SPIN_S
        return message

    def has_bytes(self) -> bool:
        """Whether there is something to read; not so if the other side is gone."""
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:  # BlockingIOError: nothing yet
            return False

    def _take(self, size: int) -> bytes | None:
        """Return the next `size` bytes; None if they have not come, what did come is kept for the next call."""
        try:
            data = self._sock.recv(size - len(self._part), socket.MSG_WAITALL)
        except BlockingIOError:
            return None
        if not data:
            raise EOFError
        data = self._part + data if self._part else data
        complete = len(data) == size
        self._part = b"" if complete else data
        return data if complete else None

    def send_fd(self, fd: int) -> None:
        """Send a file descriptor."""
        socket.send_fds(self._sock, [b"F"], [fd])

    def recv_fd(self) -> int:
        """Wait for a file descriptor.

        Raises:
            EOFError: the other side is gone.
        """
        while True:
            try:
                _, fds, *_ = socket.recv_fds(self._sock, 1, 1)
            except BlockingIOError:
                continue
            if not fds:
                raise EOFError
            return fds[0]

    def close(self) -> None:
        """Close this end."""
        self._sock.close()
