"""Envs in a process of their own, commanded over a pipe; data through the pipe or through shared memory.

A message is a letter, the command's number (mod 256), a slot, then what belongs to it; an answer repeats the number, so
that answers nobody waits for any more (after an error or Ctrl-C) are told apart and skipped. A step of all envs through
shared memory is a header there and a header back (and the infos, where an env has any to tell).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from ctypes import c_int32
from typing import Any, Literal, Self, TypeAlias, cast

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from argosy.env.vector.protocol import Info
from argosy.env.worker.base import Command, EnvFn, EnvSpaces, EnvWorker, Given, StepArrays, as_slice
from argosy.env.worker.channel import Channel
from argosy.env.worker.serve import Life, serve
from argosy.env.worker.shared import SharedArrays
from argosy.errors import EnvError
from argosy.stacks import StackReader

StartMethod: TypeAlias = Literal["fork", "spawn", "forkserver"]
MAKE_TIMEOUT_S = 120.0  # a spawned process imports the user's script before it makes its envs


class ProcessWorker(EnvWorker):
    """Runs its envs in one process; see `SubprocVectorEnv`."""

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        first: int = 0,
        *,
        hang_timeout_s: float | None = 300.0,
        start_method: StartMethod | None = None,
    ) -> None:
        super().__init__(first, len(env_fns))
        self.hang_timeout_s = hang_timeout_s
        self._number = 0
        self._shared: SharedArrays | None = None
        self._failure: str | None = None
        self._owner = os.getpid()
        start_method = start_method or ("fork" if sys.platform == "linux" else "spawn")
        travelling = env_fns if start_method == "fork" else cloudpickle.dumps(list(env_fns))  # lambdas among them
        context = multiprocessing.get_context(start_method)
        parent = 0 if start_method == "forkserver" else self._owner
        self._life: Life | None = None
        if parent == 0 or threading.current_thread() is not threading.main_thread():  # who may end before this process
            self._life = context.Pipe(duplex=False)
        current = context.RawArray(c_int32, [-1])
        self._current: NDArray[np.int32] = np.ctypeslib.as_array(current)
        self._channel, theirs = Channel.pair()
        ours, told = context.Pipe(duplex=False)
        self._stack, self._thread = StackReader(ours), threading.get_ident()
        self.process = context.Process(  # type: ignore[attr-defined]  # every concrete context has it
            target=serve, args=(theirs, told, travelling, first, current, parent, self._life), daemon=True
        )
        with _no_interrupt():  # the process inherits the mask until it ignores Ctrl-C by itself
            self.process.start()
        theirs.close()
        told.close()
        if self._life is not None:
            self._life[0].close()
        _OPEN[id(self)] = self

    def made(self) -> EnvSpaces:  # noqa: D102
        spaces: EnvSpaces = self._reply(0, "being made", at_least_s=MAKE_TIMEOUT_S)
        return spaces

    def share(self, shared: SharedArrays) -> None:
        """Use shared memory from now on."""
        number = self._send(b"M", pickle.dumps((shared.spaces, shared.n)))
        self._channel.send_fd(shared.fd)
        self._reply(number, "mapping shared memory")
        self._shared = shared

    def _start(self, command: Command, ids: Sequence[int] | None, given: Given) -> int:
        if command == "step" and self._shared is not None:
            self._shared.write_actions(self.ids if ids is None else ids, given)
            return self._send(b"S", b"" if ids is None else np.asarray(ids, np.int32).tobytes())
        dump = pickle.dumps if command == "step" else cloudpickle.dumps
        return self._send(b"R", dump((command, ids, given), pickle.HIGHEST_PROTOCOL))

    def start_step(self, slot: int) -> None:
        """Start a step of all envs with the actions that shared memory holds; `finish_step` waits for it."""
        self.sent.append(("step", None, self._send(b"S", b"", slot)))

    def finish_step(self) -> list[Info] | None:
        """Wait until what the envs returned is in shared memory; returns their infos if there is anything in them."""
        infos: list[Info] | None = self._reply(self.sent.popleft()[-1], "a step")
        return infos

    def recv(self, out: StepArrays, rows: Sequence[int]) -> list[Info]:  # noqa: D102
        _, sent, number = self.sent.popleft()
        infos: list[Info]
        reply = self._reply(number, "a step or reset", since=self.sent_at)
        ids = self.ids if sent is None else sent
        if self._shared is None:
            arrays, infos = reply
            out.write(as_slice(rows), arrays)
            return infos
        self._shared.read(out, as_slice(ids), as_slice(rows))
        infos = [{"env_id": i} for i in ids] if reply is None else reply
        return infos

    @classmethod
    def wait_any(cls, workers: Sequence[Self], limit_s: float | None) -> list[Self]:  # noqa: D102
        by_channel = {worker._channel: worker for worker in workers}
        channels = multiprocessing.connection.wait(list(by_channel), limit_s)  # type: ignore[arg-type]  # it has a fileno
        return [by_channel[cast(Channel, channel)] for channel in channels]

    def call(self, name: str, ids: Sequence[int], *args: object, **kwargs: object) -> list[object]:  # noqa: D102
        number = self._send(b"C", cloudpickle.dumps((name, list(ids), args, kwargs)))
        results: list[object] = self._reply(number, name)
        return results

    def start_close(self) -> None:  # noqa: D102
        if os.getpid() == self._owner:
            with contextlib.suppress(OSError):
                self._channel.send(b"X", 0, limit_s=0.0)

    def close(self, deadline: float) -> None:  # noqa: D102
        if os.getpid() != self._owner:  # a fork of the owner let go of its copy of this object
            return
        self.process.join(max(0.0, deadline - time.monotonic()))
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._channel.close()
        self._stack.close()
        if self._life is not None:
            self._life[1].close()
        _OPEN.pop(id(self), None)
        self._failure = self._failure or "the vector env is closed"

    def _send(self, letter: bytes, content: bytes, slot: int = 0) -> int:
        """Send a command and return its number."""
        if self._failure is not None:
            raise EnvError(self._failure)
        self._number = (self._number + 1) % 256
        try:
            self._channel.send(letter, self._number, slot, content, limit_s=self.hang_timeout_s)
        except TimeoutError:
            raise self._hangs("taking a command", self.hang_timeout_s or 0.0) from None
        except OSError:
            raise self._died("a command") from None
        return self._number

    def _reply(self, number: int, during: str, at_least_s: float = 0.0, since: float | None = None) -> Any:
        """Wait for the answer to the command `number`, that was sent at `since` (None: now).

        Raises:
            EnvError: the env raised (with its traceback), the process died (exit code) or hangs (it is killed).
        """
        if self._failure is not None:
            raise EnvError(self._failure)
        start = time.monotonic() if since is None else since
        limit_s = None if self.hang_timeout_s is None else max(self.hang_timeout_s, at_least_s)
        try:
            while (message := self._channel.recv()) is None or message.number != number:
                if message is None:
                    late = limit_s is not None and time.monotonic() - start > limit_s
                    if late and not self._channel.has_bytes():  # else a long answer is being read, long after it came
                        raise self._hangs(during, limit_s or 0.0)
                    for worker in (self, *self.siblings):
                        worker.check()
        except (EOFError, OSError):
            raise self._died(during) from None
        if message.letter == b"0":
            return None
        content = pickle.loads(message.content)
        if message.letter == b"E":
            text, trace = content
            raise EnvError(f"{text}\n\nIn the worker process (pid {self.process.pid}):\n{trace}")
        return content

    def check(self) -> None:  # noqa: D102
        # something that the env started may hold the pipe open: ask the system; a last answer is still read
        if self._failure is None and not self.process.is_alive() and not self._channel.has_bytes():
            raise self._died("a command")

    def _at_work(self) -> str:
        at = int(self._current[0])
        return f"env {at} was at work" if at >= 0 else f"it holds {self.held}"

    def _name(self) -> str:
        at = int(self._current[0])
        return f"{self.held} (pid {self.process.pid}{f', busy with env {at}' if at >= 0 else ''})"

    def _died(self, during: str) -> EnvError:
        self.process.join(1.0)
        code = self.process.exitcode
        name = ""
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                name = f", {signal.Signals(-code).name}"
        self._failure = (
            f"the worker process of {self.held} (pid {self.process.pid}) died with exit code {code}{name} during "
            f"{during}; {self._at_work()}; the other envs can still be used and closed"
        )
        return EnvError(self._failure)

    def _hangs(self, during: str, limit_s: float) -> EnvError:
        at_work = self._at_work()
        self.process.kill()
        self._failure = (
            f"the worker process of {self.held} (pid {self.process.pid}) did not finish {during} in {limit_s} s "
            f"and was killed; {at_work}; raise hang_timeout_s if that is no hang"
        )
        return EnvError(self._failure)


_OPEN: weakref.WeakValueDictionary[int, ProcessWorker] = weakref.WeakValueDictionary()


def env_stacks(thread: int | None) -> dict[str, str]:
    """Return where the processes of envs are that a thread of this process has made, by names that say who is busy.

    Callable from any thread.
    """
    living = (ref() for ref in _OPEN.valuerefs())  # a list: workers may come and go meanwhile
    workers = [w for w in living if w is not None and w._thread == thread and w._owner == os.getpid()]
    for worker in workers:
        worker._stack.ask(worker.process.pid or 0)
    return {worker._name(): worker._stack.answer() for worker in workers}


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
