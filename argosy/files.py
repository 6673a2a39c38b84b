"""Files that are there whole or not at all; folders that one process at a time has to itself.

A file that cannot be written or read, e.g. because the disk is full, or that holds something else, is a CheckpointError
that names it; a folder that cannot be made, or is in use, a ConfigError.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from argosy.errors import MALFORMED, ArgosyError, CheckpointError, ConfigError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write into that takes the place of `path` in the end: it is there whole or not at all."""
    if not path.name:
        raise IsADirectoryError(f"{str(path)!r} is a folder; name a file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes | bytearray | memoryview) -> None:
    """Write a file that is there whole or not at all, whatever dies meanwhile."""
    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise CheckpointError(f"{str(path)!r} cannot be written: {error}") from error


def open_own(path: str | Path, flags: int) -> int:
    """Open a file that is written into where it lies; not one that is a link, which may lead to a file of anybody's."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o644)


def append(path: Path, line: str) -> None:
    """Write one more line."""
    try:
        with open(path, "a", opener=open_own) as file:
            file.write(line + "\n")
    except OSError as error:
        raise CheckpointError(f"{str(path)!r} cannot be written: {error}") from error


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are not there, and see that it can be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise ConfigError(f"the folder {str(path)!r} cannot be made or used: {error}; give another one") from error


@contextlib.contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Say of which file it is when what is made of its contents fails, because they were made up or damaged."""
    try:
        yield
    except ArgosyError:
        raise
    except MALFORMED as error:
        raise CheckpointError(f"{str(path)!r} is damaged: {type(error).__name__}: {str(error)[:500]}") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object that a file holds."""
    try:
        with damage_named(path):
            data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{str(path)!r} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{str(path)!r} is damaged: it holds {type(data).__name__}, not a JSON object")
    return data


def numbered(folder: Path, prefix: str = "") -> dict[int, Path]:
    """Return the files PREFIXnumber.safetensors of a folder by their numbers, which ascend; copies have other names."""
    name = re.compile(re.escape(prefix) + r"(0|-?[1-9][0-9]{0,17})\.safetensors")
    found = {int(match[1]): path for path in folder.glob(f"{prefix}*") if (match := name.fullmatch(path.name))}
    return dict(sorted(found.items()))


def remove_torn(folder: Path) -> None:
    """Remove what processes that died have left half-written; for who has claimed the folder."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def claimed(folder: Path, what_to_do: str) -> Iterator[None]:
    """Have a folder to oneself, until the end or until this process ends in whatever way; see `claim`."""
    handle = claim(folder, what_to_do)
    try:
        yield
    finally:
        os.close(handle)


def claim(folder: Path, what_to_do: str) -> int:
    """Claim a folder; return the handle of its lock file, which whoever closes lets go of it.

    If another process has it, the error names that, and says `what_to_do`.
    """
    try:
        handle = open_own(folder / "lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise ConfigError(f"nothing can be written in {str(folder)!r}: {error}") from error
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system lets go of it when the process ends
    except BlockingIOError as error:
        owner = os.pread(handle, 200, 0).decode(errors="replace") or "another process"
        os.close(handle)
        raise ConfigError(f"{str(folder)!r} is in use by {owner}, which runs; {what_to_do}") from error
    except (OSError, ImportError):  # a file system or a system (Windows) without such locks
        return handle
    with contextlib.suppress(OSError):  # a full disk: the name is for others to read only
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()!r}".encode(), 0)
    return handle
