"""A command of argosy in a process of its own, here or beside an object on another machine, so this imports little."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Protocol

from argosy.errors import ConfigError

_COMMAND = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what has started it may not have listened, as Ray's workers
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
if cores := {cores}:
    os.sched_setaffinity(0, cores)
sys.path += {path}
from argosy.env.worker.serve import die_with
die_with({owner})
from argosy.cli import main
sys.exit(main(sys.argv[1:]))
"""


class Process(Protocol):
    """The process of a run."""

    def poll(self) -> int | None:
        """Return its exit code; None: it has not ended."""

    def interrupt(self) -> None:
        """Let the run end after its current step; everything is saved then."""

    def kill(self) -> None:
        """End it now."""

    def said(self) -> str:
        """Return the end of what it wrote on standard error; once it has ended."""


class LocalProcess:
    """A command of argosy in a process of its own, on the machine where this object is; it ends with this process.

    Args:
        args: of the command.
        cores: that it may use; (): all.
        folders: that must be there; it runs in the first one. (): it runs where this process does.
    """

    def __init__(self, args: Sequence[str], cores: Sequence[int] = (), folders: Sequence[str] = ()) -> None:
        if missing := [folder for folder in folders if not os.path.isdir(folder)]:
            raise ConfigError(
                f"{socket.gethostname()} has no folder {missing[0]!r}; all machines must share the folder of the runs "
                "(--runs) and the one where this was started"
            )
        command = _COMMAND.format(cores=list(cores), path=sys.path, owner=os.getpid())
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", command, *args],
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            cwd=folders[0] if folders else None,
            start_new_session=True,  # Ctrl-C comes from here, once
        )

    def poll(self) -> int | None:
        """Return its exit code; None: it has not ended."""
        code = self._process.poll()
        return 130 if code == -signal.SIGINT else code  # it came before anything could catch it

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it now."""
        self._process.kill()

    def said(self) -> str:
        """Return the end of what it wrote on standard error."""
        with self._errors as errors:
            errors.seek(0)
            return errors.read().decode(errors="replace").strip()[-2000:]
