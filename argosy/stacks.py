"""Where the threads and child processes of a run are, for who has to say why nothing moves."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection

_READY = b"."
_QUIET_S = 0.1


def thread_stack(ident: int | None) -> str:
    """Return where a thread of this process is, the innermost call last."""
    frame = sys._current_frames().get(ident or 0)
    return "".join(traceback.format_stack(frame)) if frame is not None else "(the thread has ended)\n"


def tell_stack(pipe: Connection) -> None:
    """Let this process write into `pipe` where it is whenever a `StackReader` asks, even while it hangs in C code."""
    if not hasattr(faulthandler, "register"):  # Windows
        return
    os.set_blocking(pipe.fileno(), False)  # nobody need read it
    faulthandler.register(signal.SIGUSR1, pipe.fileno())
    os.write(pipe.fileno(), _READY)


class StackReader:
    """Asks a child process, which has called `tell_stack` with the other end of a pipe, where it is."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._is_ready = pipe, False

    def ask(self, pid: int) -> None:
        """Ask; the answer takes a moment, in which others can be asked."""
        with contextlib.suppress(OSError):  # it has ended
            self._is_ready = bool(self._read(0.0)) or self._is_ready
            if self._is_ready:  # before, the signal would end it
                os.kill(pid, signal.SIGUSR1)

    def answer(self, timeout_s: float = 1.0) -> str:
        """Return where it is, the innermost call first; says so when it does not tell."""
        with contextlib.suppress(OSError):
            if self._is_ready and (said := self._read(timeout_s)):
                return said
        return "(it does not tell: it has ended, or is being started)\n"

    def close(self) -> None:
        """Close this end."""
        self._pipe.close()

    def _read(self, timeout_s: float) -> str:
        """Return what comes within `timeout_s`, and what follows at once."""
        parts, deadline = list[bytes](), time.monotonic() + timeout_s
        while select.select([self._pipe], [], [], _QUIET_S if parts else max(0.0, deadline - time.monotonic()))[0]:
            if not (part := os.read(self._pipe.fileno(), 2**16)):
                break
            parts.append(part)
        return b"".join(parts).decode(errors="replace")


def shown(stacks: Mapping[str, str]) -> str:
    """Return all stacks as text, equal ones once, below the names of all who are there."""
    names: dict[str, list[str]] = {}
    for name, stack in stacks.items():
        names.setdefault(stack, []).append(name)
    return "".join(f"-- {', '.join(who)}:\n{stack.rstrip()}\n" for stack, who in names.items())
