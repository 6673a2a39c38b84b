"""Inference through shared memory, for a policy worker on the same machine.

Each asker owns one block of memory without a name (Linux: memfd) with two areas, one for its request, one for the
answer. It hands the block to the server over a socket, by which both then ring: there is a question, or an answer. The
socket's name is not one of the file system, so that nothing can be left behind, whoever is killed when; and a socket
whose other end is gone tells so at once.

Arrays are copied once into shared memory and read from there.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import selectors
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from argosy.collect.player import Reply
from argosy.distributed.host.base import Peer, PeerLostError
from argosy.errors import ConfigError
from argosy.policy import RolloutRequest

AREA_BYTES = 1 << 28
"""Size of each of a block's two areas; only what is written takes memory."""
_SIZE = struct.Struct("<Q")
_CREDENTIALS = struct.Struct("=3i")  # process, user, group
_ALIGN = 64
_CONNECT_S = 10.0
_RETRY_S = 0.1


class SharedServer:
    """The answering end: turns rings of its askers into calls of `infer`.

    Args:
        infer: takes a request, returns a future of the answer.
    """

    def __init__(self, infer: Callable[[RolloutRequest], Future[Reply]]) -> None:
        self._infer = infer
        self._clients: dict[socket.socket, _Client] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._starting = threading.Lock()  # askers in this process call from threads of their own
        self._thread = threading.Thread(target=self._listen, name="shared memory", daemon=True)

    def address(self, machine: str) -> bytes | None:
        """Return where askers of a machine connect to; None: it is another one."""
        if machine != _machine():
            return None
        with self._starting:
            if not self._thread.is_alive():
                self._listener.bind("")  # Linux finds a name that nobody has
                self._listener.listen()
                self._thread.start()
        address: bytes = self._listener.getsockname()
        return address

    def close(self) -> None:
        """Stop listening and free everything."""
        if self._thread.is_alive():
            self._listener.shutdown(socket.SHUT_RD)
            self._thread.join()
        self._listener.close()
        for client in self._clients.values():
            client.close()
        self._clients.clear()  # the maps go when the last array that looks into them does

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                for sock in [key.fileobj for key, _ in selector.select()]:
                    assert isinstance(sock, socket.socket)
                    if sock is self._listener:
                        try:
                            asker, _ = sock.accept()
                        except OSError:
                            return  # closed
                        self._admit(asker, selector)
                    elif _is_rung(sock):
                        client = self._clients[sock]
                        self._infer(client.question()).add_done_callback(client.answer)
                    else:
                        selector.unregister(sock)
                        self._clients.pop(sock).close()

    def _admit(self, sock: socket.socket, selector: selectors.BaseSelector) -> None:
        """Take the block of an asker; a question is unpickled, so it must be one of this user's."""
        _, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        fds = socket.recv_fds(sock, 1, 1)[1] if user == os.getuid() else []
        if not fds:
            sock.close()
            return
        self._clients[sock] = _Client(sock, mmap.mmap(fds[0], 2 * AREA_BYTES))
        os.close(fds[0])
        selector.register(sock, selectors.EVENT_READ)


class _Client:
    """An asker as the server sees it: its socket, and its block."""

    def __init__(self, sock: socket.socket, memory: mmap.mmap) -> None:
        self._sock, self._memory = sock, memory
        self._lock = threading.Lock()  # answers come from the thread that polls

    def question(self) -> RolloutRequest:
        """Read the request; its arrays look into the block."""
        request = _read(memoryview(self._memory)[:AREA_BYTES], copy=False)
        assert isinstance(request, RolloutRequest)
        return request

    def answer(self, future: Future[Reply]) -> None:
        """Write the answer, None for a failure, and ring. Who asked may be gone."""
        answer = None if future.exception() is not None else future.result()
        with self._lock, contextlib.suppress(OSError):
            _write(memoryview(self._memory)[AREA_BYTES:], answer)
            self._sock.send(b"!")

    def close(self) -> None:
        """Ring no more."""
        with self._lock:
            self._sock.close()


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
        self._peers = deque(peers)
        self._peers.rotate(-first)
        self._fd = os.memfd_create("argosy")
        os.ftruncate(self._fd, 2 * AREA_BYTES)
        self._map = mmap.mmap(self._fd, 2 * AREA_BYTES)
        self._memory = memoryview(self._map)
        self._server: socket.socket | None = None
        self._waits = False

    def post(self, request: RolloutRequest) -> None:
        """Write the request and ring; the answer to one that was given up is let pass before."""
        if self._waits:
            self.reply(_CONNECT_S)
        _write(self._memory[:AREA_BYTES], request)
        self._waits = True
        self._ring()

    def reply(self, timeout_s: float) -> Reply | None:
        """Return the answer, None if it is not there after `timeout_s`."""
        deadline, left = time.monotonic() + timeout_s, timeout_s
        while left >= 0:
            if self._server is None:
                time.sleep(min(left, _RETRY_S))
                self._ring()
            elif self._wait(self._server, left):
                answer = _read(self._memory[AREA_BYTES:], copy=True)
                if isinstance(answer, Reply):
                    self._waits = False
                    return answer
                time.sleep(_RETRY_S)  # the policy failed; its worker is being restarted
                self._ring()
            left = deadline - time.monotonic()
        return None

    def close(self) -> None:
        """Free the block and the socket."""
        self._forget_server()
        self._memory.release()
        self._map.close()
        os.close(self._fd)

    def _ring(self) -> None:
        """Tell the server that there is a question; finds another server if that one is gone."""
        if self._server is None:
            self._server = self._connect()
        if self._server is not None:
            try:
                self._server.send(b"?")
            except OSError:
                self._forget_server()

    def _wait(self, server: socket.socket, timeout_s: float) -> bool:
        """Wait for the answer's ring; False if it does not come, or will not because the server is gone."""
        server.settimeout(timeout_s)
        try:
            if _is_rung(server):
                return True
        except (TimeoutError, BlockingIOError):
            return False
        self._forget_server()
        return False

    def _connect(self) -> socket.socket | None:
        if not self._peers:
            raise ConfigError(
                "no policy worker runs on this machine, but inference='shared' needs one; place some here by their "
                "resources, or use inference='ray'"
            )
        self._peers.rotate(-1)
        try:
            address: bytes | None = self._peers[-1].call("connect_shared", _machine()).result(_CONNECT_S)
        except (PeerLostError, TimeoutError):
            return None
        if address is None:
            self._peers.pop()  # it is elsewhere
            return None
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(address)
            socket.send_fds(server, [b"F"], [self._fd])
        except OSError:  # it has died since
            server.close()
            return None
        return server

    def _forget_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


def _is_rung(sock: socket.socket) -> bool:
    """Hear a ring; False: the other end is gone."""
    try:
        return bool(sock.recv(1))
    except ConnectionError:
        return False


def _write(area: memoryview, message: object) -> None:
    """Lay a message out: number and sizes of its parts, then its pickle and its arrays' bytes, each one aligned."""
    buffers: list[pickle.PickleBuffer] = []
    skeleton = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    parts: list[bytes | memoryview] = [skeleton, *(buffer.raw() for buffer in buffers)]
    sizes = [len(part) for part in parts]
    places = list(_places(sizes))
    total = places[-1].stop
    if total > len(area):
        raise ConfigError(f"a request or answer of {total} bytes does not fit into shared memory of {len(area)}")
    struct.pack_into(f"<{1 + len(sizes)}Q", area, 0, len(sizes), *sizes)
    for place, part in zip(places, parts, strict=True):
        area[place] = part


def _read(area: memoryview, *, copy: bool) -> object:
    """Return the message in an area; its arrays look into the area, or are copies."""
    (count,) = _SIZE.unpack_from(area)
    sizes = struct.unpack_from(f"<{count}Q", area, _SIZE.size)
    skeleton, *arrays = (area[place] for place in _places(sizes))
    return pickle.loads(skeleton, buffers=map(bytearray, arrays) if copy else arrays)


def _places(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield where each part lies."""
    at = _SIZE.size * (1 + len(sizes))
    for size in sizes:
        at = -(-at // _ALIGN) * _ALIGN
        yield slice(at, at + size)
        at += size


def _machine() -> str:
    """Identify this machine, or rather the running system: containers may have names of sockets of their own."""
    return Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/net")
