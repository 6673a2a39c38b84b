"""Run workers: a host polls one worker in a thread, watches it, and answers other workers' calls.

A worker is an ordinary object. Where its host lives (this process, a Ray actor) is the launcher's business; workers
reach each other by name through a `Peer`, whose calls return futures in either case.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from argosy.env.worker.process import env_stacks
from argosy.errors import ArgosyError
from argosy.stacks import shown, thread_stack

T = TypeVar("T")
_IDLE_SLEEP_S = (0.001, 0.005)
"""From the first to all later waits of a worker with nothing to do: each wake-up takes a core from who has."""
RETRY_S = 0.1
"""Before a worker that was not there is asked again."""


class PeerLostError(ArgosyError):
    """The other worker is not there: dead, restarting or not started yet. Calling again later is right."""


class Repeated(Generic[T]):
    """A call that is made again where the other worker is not there, one at a time.

    Args:
        call: makes it.
        pause_s: seconds before it is made again.
    """

    def __init__(self, call: Callable[[], Future[T]], pause_s: float | None = None) -> None:
        self._call, self._pause_s = call, RETRY_S if pause_s is None else pause_s
        self._flight: Future[T] | None = None
        self._not_before = 0.0

    def poll(self, timeout_s: float = 0.0) -> Future[T] | None:
        """Call, if that is due; return the call that has been answered, None if there is none after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while (answered := self._look()) is None and (left := deadline - time.monotonic()) > 0:
            if self._flight is None:
                time.sleep(min(left, self._pause_s))
            else:
                wait([self._flight], left)
        return answered

    def start(self) -> None:
        """Call, if that is due."""
        if self._flight is None and time.monotonic() >= self._not_before:
            self._flight = self._call()

    def _look(self) -> Future[T] | None:
        self.start()
        if self._flight is None or not self._flight.done():
            return None
        flight, self._flight = self._flight, None
        if isinstance(flight.exception(), PeerLostError):
            self._not_before = time.monotonic() + self._pause_s
            return None
        return flight


class Progress(Enum):
    """What a poll says of itself."""

    BUSY = "busy"
    IDLE = "idle"
    """There was nothing to do; the host waits a moment, a longer one each time."""
    DONE = "done"
    """There will be nothing to do any more; the host polls no more but still answers calls."""


class Worker(Protocol):
    """One role of the loop. All public methods may be called by peers, from other threads than the one that polls."""

    def poll(self) -> Progress:
        """Do one bounded piece of work."""

    def stats(self) -> Mapping[str, float]:
        """Return counters for the console and the log; called from another thread."""

    def close(self) -> None:
        """Free everything; called once, by the thread that polled, also after an error."""


class Peer(Protocol):
    """A worker somewhere, found by name."""

    def call(self, method: str, *args: object) -> Future[Any]:
        """Call a public method. The future fails with PeerLostError where the worker is not there."""


Fetch: TypeAlias = Callable[[], Future[T]]
"""Something large that a reader fetches by calling this: per node once, however many readers it has.

The future fails with PeerLostError where the node that had it is gone."""


@dataclass(frozen=True)
class Context:
    """What a worker gets to know about where it runs."""

    name: str
    incarnation: int
    """0, then one more at each restart."""
    connect: Callable[[str], Peer]
    share: Callable[[Any], Fetch[Any]] = field(default=lambda value: lambda: resolved(value))
    address: str = "127.0.0.1"
    """Under which other machines reach this one."""


Build: TypeAlias = Callable[[Context], Worker]
"""Makes the worker, where and when its host starts."""


@dataclass(frozen=True, kw_only=True)
class Beat:
    """A sign of life."""

    pid: int
    node: str
    ready: bool
    """Whether the worker has been built."""
    done: bool
    busy_s: float
    """For how long the present poll (or the building) has been running."""
    stats: Mapping[str, float]
    error: str | None = None
    """Traceback of what ended the worker."""
    survived: str = ""
    """Traceback of what an environment of the worker's raised last; `stats` counts these as env_failures."""


class Host:
    """Builds one worker and polls it in a thread of its own until `stop`. It is the `Handle` of that thread, too."""

    def __init__(self, build: Build, context: Context) -> None:
        self._build, self._context = build, context
        self._worker: Worker | None = None
        self._stop = threading.Event()
        self._since = time.monotonic()
        self._ended: Future[None] = Future()
        self._done = False
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name=context.name, daemon=True)
        self._thread.start()

    def call(self, method: str, *args: object) -> Future[Any]:
        """Call a method of the worker; a method that returns a Future itself decides when the answer comes."""
        worker = self._worker
        if worker is None or self._error is not None or self._stop.is_set():
            return failed(PeerLostError(f"worker {self._context.name!r} is not running"))
        try:
            result = getattr(worker, method)(*args)
        except Exception as error:  # belongs to the caller
            return failed(error)
        return result if isinstance(result, Future) else resolved(result)

    def beat(self) -> Future[Beat]:
        """Say how the worker is."""
        worker, error, done, stats = self._worker, self._error, self._done, dict[str, float]()
        if worker is not None and error is None:
            try:
                stats = dict(worker.stats())
            except Exception:  # as bad as one in the thread that polls
                error = traceback.format_exc()
        beat = Beat(
            pid=os.getpid(),
            node=socket.gethostname(),
            ready=worker is not None,
            done=done,
            busy_s=0.0 if done else time.monotonic() - self._since,
            stats=stats,
            error=error,
            survived=getattr(worker, "survived", ""),
        )
        return resolved(beat)

    def stack(self) -> Future[str]:
        """Say where the polling thread and its processes of environments are, for the report on one that hangs."""
        return resolved(thread_stack(self._thread.ident) + shown(env_stacks(self._thread.ident)))

    def stop(self) -> Future[None]:
        """Ask the thread to close the worker and end; the future is done when it has."""
        self._stop.set()
        return self._ended

    def kill(self) -> None:
        """Do the same: a thread that hangs cannot be killed, and stays behind, as a daemon, until the process ends."""
        self._stop.set()

    def _run(self) -> None:
        worker: Worker | None = None
        try:
            worker = self._worker = self._build(self._context)
            sleep_s, longest_s = _IDLE_SLEEP_S
            while not self._stop.is_set() and not self._done:
                self._since = time.monotonic()
                progress = worker.poll()
                if progress is Progress.IDLE:
                    self._stop.wait(sleep_s)
                    sleep_s = min(1.2 * sleep_s, longest_s)
                else:
                    sleep_s = _IDLE_SLEEP_S[0]
                self._done = progress is Progress.DONE
            self._stop.wait()
        except BaseException:  # whatever it was, the supervisor must hear of it
            self._error = traceback.format_exc()
        finally:
            if worker is not None:
                try:
                    worker.close()
                except Exception:
                    self._error = self._error or traceback.format_exc()
            self._worker = None  # with all its memory, which others may hold through this host
            self._ended.set_result(None)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a worker asks of the machine that it runs on. Threads in one process ask for nothing."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory_bytes: int | None = None
    custom: Mapping[str, float] = field(default_factory=dict)
    """Amounts of resources that nodes were started with, e.g. {"fast_disk": 1}."""
    background: bool = False
    """Take only the CPU time that nobody else on the machine wants (Linux's idle policy); for actor workers that share
    the cores of the trainer that learns from them, and of nobody else."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that its process starts with, e.g. {"MUJOCO_GL": "egl"}."""

    def amounts(self) -> dict[str, float]:
        """Return everything by name: "CPU", "GPU", "memory" in bytes, and the custom ones."""
        return {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": self.memory_bytes or 0.0, **self.custom}


class Handle(Protocol):
    """A started worker, as its supervisor sees it."""

    def beat(self) -> Future[Beat]:
        """Ask how it is."""

    def stack(self) -> Future[str]:
        """Ask where it hangs."""

    def stop(self) -> Future[None]:
        """Ask it to close in peace; the future is done when it has, or fails with PeerLostError where it is gone."""

    def kill(self) -> None:
        """End it now. Returns when it is gone."""


def end(handles: Sequence[Handle], timeout_s: float) -> None:
    """Ask all workers to close in peace, wait for them together, and end those that have not closed by then."""
    wait([handle.stop() for handle in handles], timeout_s)
    for handle in handles:
        handle.kill()


class Launcher(Protocol):
    """Starts workers somewhere."""

    def start(self, name: str, incarnation: int, build: Build, resources: Resources) -> Handle:
        """Start a worker; returns at once."""

    def connect(self, name: str) -> Peer:
        """Return the peer of that name, whether or not it runs yet."""

    def nodes(self) -> list[dict[str, float]] | None:
        """Return the amounts that each node has, see `Resources.amounts`; None: nothing is counted."""
        return None

    def lost(self) -> str:
        """Say what all workers need and that is gone for good; "" while it is there. Called many times a second."""
        return ""

    def close(self) -> None:
        """Free what belongs to no single worker."""


class ThreadLauncher(Launcher):
    """Runs all workers as threads of this process: for tests, debugging and `test_pipeline`."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    def start(self, name: str, incarnation: int, build: Build, resources: Resources) -> Handle:
        """Start a thread."""
        host = self._hosts[name] = Host(build, Context(name, incarnation, self.connect))
        return host

    def connect(self, name: str) -> Peer:
        """Return a peer that looks the worker up at each call, so that it survives restarts."""
        return _ThreadPeer(name, self._hosts)

    def close(self) -> None:
        """Forget the workers."""
        self._hosts.clear()


@dataclass(frozen=True)
class _ThreadPeer:
    name: str
    hosts: dict[str, Host]

    def call(self, method: str, *args: object) -> Future[Any]:
        host = self.hosts.get(self.name)
        if host is None:
            return failed(PeerLostError(f"worker {self.name!r} was not started"))
        return host.call(method, *args)


def resolved(value: T) -> Future[T]:
    """Return a future that has its result."""
    future: Future[T] = Future()
    future.set_result(value)
    return future


def failed(error: Exception) -> Future[Any]:
    """Return a future that has failed."""
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
