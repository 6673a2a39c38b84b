"""Inference through shared memory, for a policy worker on the same machine.

Each asker owns one block of memory without a name (Linux: memfd) with two areas, one for its request, one for the
answer, and a pipe that rings when the answer is there. The server opens both through /proc, and gives its own pipe in
return, into which askers write their number. Nothing has a name in the file system, so that nothing can be left behind,
whoever is killed when; and a pipe whose other end is gone tells so at once.

Arrays are copied once into shared memory and read from there.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import select
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from argosy.collect.player import Reply
from argosy.distributed.host.base import Peer, PeerLostError
from argosy.errors import ConfigError
from argosy.policy import RolloutRequest

AREA_BYTES = 1 << 28
"""Size of each of a block's two areas; only what is written takes memory."""
_HEAD = struct.Struct("<QQ")  # length of the pickle, number of buffers behind it
_LENGTH = struct.Struct("<Q")
_NUMBER = struct.Struct("<I")
_ALIGN = 64
_CONNECT_S = 10.0
_RETRY_S = 0.1


@dataclass(frozen=True)
class Address:
    """Where another process of this machine finds an open file."""

    machine: str
    pid: int
    fd: int

    @classmethod
    def of(cls, fd: int) -> Address:
        """Return the address of one of this process's files."""
        return cls(_machine(), os.getpid(), fd)

    def open(self, flags: int) -> int:
        """Open the file.

        Raises:
            ConfigError: the system does not allow it.
        """
        try:
            return os.open(f"/proc/{self.pid}/fd/{self.fd}", flags)
        except PermissionError as error:
            raise ConfigError(
                f"processes of this machine may not share memory ({error}); use inference='ray' instead of 'shared'"
            ) from error


class SharedServer:
    """The answering end: turns rings of the pipe into calls of `infer`.

    Args:
        infer: takes a request, returns a future of the answer.
    """

    def __init__(self, infer: Callable[[RolloutRequest], Future[Reply]]) -> None:
        self._infer = infer
        self._bell, self._bell_in = os.pipe()
        self._clients: dict[int, _Client] = {}
        self._connected = 0
        self._thread = threading.Thread(target=self._listen, name="shared memory", daemon=True)
        self._thread.start()

    def connect(self, block: Address, bell: Address) -> tuple[Address, int] | None:
        """Open an asker's block and pipe; returns this server's pipe and the asker's number, None on other machines."""
        if block.machine != _machine():
            return None
        fd = block.open(os.O_RDWR)
        try:
            memory = mmap.mmap(fd, 2 * AREA_BYTES)
        finally:
            os.close(fd)
        for number in [number for number, client in list(self._clients.items()) if client.gone()]:
            self._clients.pop(number).close()
        self._connected += 1
        self._clients[self._connected] = _Client(memory, bell.open(os.O_WRONLY | os.O_NONBLOCK))
        return Address.of(self._bell_in), self._connected

    def close(self) -> None:
        """Stop listening and free everything."""
        os.write(self._bell_in, _NUMBER.pack(0))
        self._thread.join()
        for fd in (self._bell, self._bell_in):
            os.close(fd)
        for client in self._clients.values():
            client.close()
        self._clients.clear()  # the maps go when the last array that looks into them does

    def _listen(self) -> None:
        while True:
            number = _NUMBER.unpack(os.read(self._bell, _NUMBER.size))[0]
            if number == 0:
                return
            client = self._clients.get(number)
            if client is None:
                continue  # it rang and died
            request = _read(memoryview(client.memory)[:AREA_BYTES], copy=False)
            assert isinstance(request, RolloutRequest)
            self._infer(request).add_done_callback(client.answer)


class _Client:
    """An asker as the server sees it: its block, and its pipe."""

    def __init__(self, memory: mmap.mmap, bell: int) -> None:
        self.memory = memory
        self._bell: int | None = bell
        self._lock = threading.Lock()  # answers come from the thread that polls

    def answer(self, future: Future[Reply]) -> None:
        """Write the answer, None for a failure, and ring. Who asked may be gone."""
        answer = None if future.exception() is not None else future.result()
        with self._lock:
            if self._bell is None:
                return
            _write(memoryview(self.memory)[AREA_BYTES:], answer)
            with contextlib.suppress(BrokenPipeError, BlockingIOError):
                os.write(self._bell, b"!")

    def gone(self) -> bool:
        """Whether the other end of the pipe is closed."""
        with self._lock:
            if self._bell is None:
                return True
            poller = select.poll()
            poller.register(self._bell, 0)  # reports errors only
            return bool(poller.poll(0))

    def close(self) -> None:
        """Ring no more: the pipe's number may soon be another file's."""
        with self._lock:
            if self._bell is not None:
                os.close(self._bell)
            self._bell = None


class Shared:
    """The asking end.

    Args:
        peers: policy workers of the same policy; those on other machines are passed over.
        first: index of the one to try first.

    Raises:
        ConfigError: this system has no unnamed shared memory.
    """

    def __init__(self, peers: Sequence[Peer], first: int = 0) -> None:
        if not sys.platform.startswith("linux"):
            raise ConfigError("inference='shared' needs Linux; use inference='ray' or 'inline'")
        self._peers, self._next = list(peers), first % len(peers)
        fd = os.memfd_create("argosy")
        os.ftruncate(fd, 2 * AREA_BYTES)
        self._fd = fd
        self._map = mmap.mmap(fd, 2 * AREA_BYTES)
        self._memory = memoryview(self._map)
        self._bell, self._bell_in = os.pipe()
        self._server: int | None = None  # the server's pipe
        self._number = 0
        self._elsewhere: set[int] = set()

    def post(self, request: RolloutRequest) -> None:
        """Write the request and ring."""
        _write(self._memory[:AREA_BYTES], request)
        self._ring()

    def reply(self, timeout_s: float) -> Reply | None:
        """Return the answer, None if it is not there after `timeout_s`."""
        deadline, left = time.monotonic() + timeout_s, timeout_s
        while left >= 0:
            if self._wait(left):
                answer = _read(self._memory[AREA_BYTES:], copy=True)
                if isinstance(answer, Reply):
                    return answer
                time.sleep(_RETRY_S)  # the policy failed; its worker is being restarted
                self._ring()
            left = deadline - time.monotonic()
        return None

    def close(self) -> None:
        """Free the block and the pipes."""
        self._forget_server()
        self._memory.release()
        self._map.close()
        for fd in (self._fd, self._bell, self._bell_in):
            os.close(fd)

    def _ring(self) -> bool:
        """Tell the server that there is a question; finds another server if that one is gone."""
        if self._server is None and not self._connect():
            return False
        assert self._server is not None
        try:
            os.write(self._server, _NUMBER.pack(self._number))
        except BrokenPipeError:
            self._forget_server()
            return False
        return True

    def _wait(self, timeout_s: float) -> bool:
        """Wait for the answer's ring; False if it does not come, or will not because the server is gone."""
        if self._server is None:
            time.sleep(min(timeout_s, _RETRY_S))
            self._ring()
            return False
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        poller.register(self._server, 0)  # reports errors only: the server's end is closed
        for fd, _ in poller.poll(timeout_s * 1000):
            if fd == self._bell:
                os.read(self._bell, 1)
                return True
            self._forget_server()
        return False

    def _connect(self) -> bool:
        at = self._next
        self._next = (at + 1) % len(self._peers)
        if len(self._elsewhere) == len(self._peers):
            raise ConfigError(
                "no policy worker runs on this machine, but inference='shared' needs one; place some here by their "
                "resources, or use inference='ray'"
            )
        if at in self._elsewhere:
            return False
        try:
            answer = self._peers[at].call("connect_shared", Address.of(self._fd), Address.of(self._bell_in))
            given = answer.result(_CONNECT_S)
        except (PeerLostError, TimeoutError):
            return False
        if given is None:
            self._elsewhere.add(at)
            return False
        address, self._number = given
        try:
            self._server = address.open(os.O_WRONLY)
        except FileNotFoundError:  # it has died since
            return False
        return True

    def _forget_server(self) -> None:
        if self._server is not None:
            os.close(self._server)
            self._server = None


def _write(area: memoryview, message: object) -> None:
    """Lay a message out as head, lengths, pickle, and its arrays' bytes.

    Raises:
        ConfigError: it does not fit.
    """
    buffers: list[pickle.PickleBuffer] = []
    skeleton = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    lengths = struct.pack(f"<{len(raws)}Q", *(raw.nbytes for raw in raws))
    total = _HEAD.size + len(lengths) + len(skeleton) + sum(raw.nbytes + _ALIGN for raw in raws)
    if total > len(area):
        raise ConfigError(f"a request or answer of {total} bytes does not fit into shared memory of {len(area)}")
    _HEAD.pack_into(area, 0, len(skeleton), len(raws))
    at = _HEAD.size
    for part in (lengths, skeleton):
        area[at : at + len(part)] = part
        at += len(part)
    for raw in raws:
        at = -(-at // _ALIGN) * _ALIGN
        area[at : at + raw.nbytes] = raw
        at += raw.nbytes


def _read(area: memoryview, *, copy: bool) -> object:
    """Return the message in an area; its arrays look into the area, or are copies."""
    size, count = _HEAD.unpack_from(area)
    at = _HEAD.size
    lengths = struct.unpack_from(f"<{count}Q", area, at)
    at += count * _LENGTH.size
    skeleton = area[at : at + size]
    at += size
    buffers: list[memoryview | bytearray] = []
    for length in lengths:
        at = -(-at // _ALIGN) * _ALIGN
        part = area[at : at + length]
        buffers.append(bytearray(part) if copy else part)
        at += length
    return pickle.loads(skeleton, buffers=buffers)


def _machine() -> str:
    """Identify this machine, or rather the running system: containers have a process table of their own."""
    return Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
