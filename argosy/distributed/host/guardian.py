"""End what a killed driver leaves behind.

The processes of a local Ray die with the driver that has started it, but for two helpers that go on for a minute,
trying to report the death to somebody. A guardian is a small process that notices the death of its driver, by the end
of a pipe, and ends what is left a moment later. It runs as a script, without importing argosy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PROC = Path("/proc")


class Guardian:
    """Ends the processes that descend from this one now, when this one dies. Does nothing where there is no /proc.

    Args:
        grace_s: seconds that they have to end by themselves.
    """

    def __init__(self, grace_s: float = 5.0) -> None:
        names = [f"{pid}:{_started(pid)}" for pid in descendants(os.getpid())]
        self._process: subprocess.Popen[bytes] | None = None
        if names:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(grace_s), *names],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is not meant for it
            )

    def close(self) -> None:
        """Watch no more."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def finish(self) -> None:
        """Let it end them now, as if this process had died; returns when it has."""
        if self._process is not None:
            self._process.communicate()  # closes its end of the pipe
            self._process = None


def descendants(pid: int) -> list[int]:
    """Return the processes that a process and its children have started, as far as their parents live."""
    children: dict[int, list[int]] = {}
    for path in _PROC.glob("[0-9]*"):
        fields = _stat(int(path.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found = children.get(pid, [])
    for child in found:  # grows meanwhile
        found.extend(children.get(child, []))
    return found


def _started(pid: int) -> str:
    """Return when a process was started, by which it differs from a later one of the same number; "": it is gone."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat behind the name, which may contain anything."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _watch(grace_s: float, names: list[str]) -> None:
    sys.stdin.read()  # ends when the last writer is gone
    time.sleep(grace_s)
    for name in names:
        pid, _, started = name.partition(":")
        if _started(int(pid)) == started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


if __name__ == "__main__":
    _watch(float(sys.argv[1]), sys.argv[2:])
