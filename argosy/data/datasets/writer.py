"""Transitions of several envs in one HDF5 file, written as they come; `ReplayBuffer.load_hdf5` reads it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import quote

import numpy as np

from argosy.data.buffer.columns import REQUIRED
from argosy.data.buffer.state import SCHEMA
from argosy.data.hdf5 import create_hdf5, naming_errors, open_hdf5, sign_hdf5
from argosy.data.lazy import PART_BYTES
from argosy.data.tree import flatten
from argosy.errors import DataError

PACKED_BYTES = 1 << 16
"""Images are compressed in blocks of about so many bytes."""


class DatasetWriter:
    """Writes equally many steps of each of some envs, part by part; only the part under way is in memory.

    In the file each env is a ring of a buffer, full with its steps in order of time. `finish` gives the file its name;
    until then it is another one, which the end of a `with` block removes.

    Args:
        path: the file; one that is there is replaced in the end.
        num_envs: envs.
        steps: of each env.
        options: of the buffer, see `ReplayBuffer.options`; with `ignore_obs_next`, successors are written only where
            the next row's observation is none.
        packed: compress images.

    Raises:
        DataError: the path is a folder's or an npz file's, or the file cannot be written.
        MissingExtraError: h5py is not installed.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        num_envs: int,
        steps: int,
        options: Mapping[str, Any] | None = None,
        *,
        packed: bool = True,
    ) -> None:
        self.path, self.num_envs, self.steps, self.packed = Path(path), num_envs, steps, packed
        if self.path.is_dir():
            raise DataError(f"{self.path} is a folder; name a file in it, e.g. {self.path / 'data.hdf5'}")
        if self.path.suffix == ".npz":
            raise DataError(f"{self.path} would hold HDF5; let its name end in .hdf5")
        self.written = 0
        """Steps of each env so far."""
        self._part = self.path.with_name(f"{self.path.name}.part")
        self._ends = _Ends(num_envs) if (options or {}).get("ignore_obs_next") else None
        self._ended = np.ones(num_envs, np.bool_)  # whether the newest row of each env ended its episode
        with self._naming_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = create_hdf5(self._part)
            self._file.attrs["argosy_buffer"] = SCHEMA
            self._file.attrs["options"] = json.dumps(dict(options or {}))

    def write(self, batch: Any, cut: np.ndarray | None = None, first: np.ndarray | None = None) -> None:
        """Append the next T steps of all envs: obs, act, rew, terminated, truncated, obs_next [T, num_envs, ...].

        `cut` [T, num_envs] says which are truncated only because the recording stopped; None: none. `first` says which
        of the rows behind an end, or nothing, begin an episode; None: all.

        Raises:
            DataError: there are more steps than were announced, or the disk refuses.
        """
        done = np.logical_or(batch.terminated, batch.truncated)
        written = self.written + len(done)
        if written > self.steps:
            raise DataError(f"{self.path} is for {self.steps} steps of each env, not for {written}")
        behind_end = np.concatenate([self._ended[None], done[:-1]])
        self._ended = done[-1]
        stop = done.copy()
        stop[-1] |= written == self.steps  # nothing follows the newest row
        with self._naming_errors():
            self._append("rings/first", behind_end if first is None else behind_end & first)
            self._append("rings/stop", stop)
            for name in REQUIRED:
                for keys, leaf in flatten(batch[name], ("columns", name)).items():
                    path, value = "/".join(quote(key, safe="") for key in keys), np.asarray(leaf)
                    if name == "obs_next" and self._ends is not None:
                        self._ends.append(path, value, stop)
                    else:
                        self._append(path, value)
            self._append("rings/cut", np.zeros_like(stop) if cut is None else cut)
        self.written = written

    def finish(self, attributes: Mapping[str, str | float]) -> None:
        """Complete the file and give it its name; `attributes` say what is to be known about the data.

        Raises:
            DataError: steps are missing, or the disk refuses.
        """
        if self.written < self.steps:
            raise DataError(f"{self.path} has {self.written} of {self.steps} steps of each env; it is not complete")
        oldest = np.arange(self.num_envs, dtype=np.int64) * self.steps
        zero, every = np.zeros(self.num_envs, np.int64), np.full(self.num_envs, self.steps, np.int64)
        rings = {"capacity": every, "count": every, "head": oldest, "last": oldest + self.steps - 1}
        rings |= {"ep_start": oldest, "ep_len": zero, "ep_rew": zero.astype(np.float64), "closed": zero == 0}
        with self._naming_errors():
            if self._ends is not None:
                self._ends.write(self._create)
            for name, value in rings.items():
                self._file[f"rings/{name}"] = value
            self._file.attrs.update(attributes)
            self._file.close()
            sign_hdf5(self._part)
            os.replace(self._part, self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # a full disk refuses even this
            self._file.close()
        self._part.unlink(missing_ok=True)

    def _append(self, path: str, value: np.ndarray) -> None:
        """Write [T, num_envs, ...] behind what each env has; the first part makes room for all."""
        if path not in self._file:
            self._create(path, (self.num_envs * self.steps, *value.shape[2:]), value.dtype)
        column = self._file[path]
        for env in range(self.num_envs):
            start = env * self.steps + self.written
            column[start : start + len(value)] = value[:, env]

    def _create(self, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        rows = max(1, min(shape[0], PACKED_BYTES // max(int(np.prod(shape[1:])), 1)))
        packed = {"compression": "lzf", "chunks": (rows, *shape[1:])} if self.packed and dtype == np.uint8 else {}
        return self._file.create_dataset(path, shape, dtype, **packed)

    def _naming_errors(self) -> contextlib.AbstractContextManager[None]:
        return naming_errors(str(self.path), broken="could not be written")


class _Ends:
    """Rows of each env that end a segment, kept in files: nobody knows before the end how many there are."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.files: dict[str, list[IO[bytes]]] = {}
        self.forms: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}

    def append(self, path: str, value: np.ndarray, stop: np.ndarray) -> None:
        """Take the rows of [T, num_envs, ...] where `stop` [T, num_envs] is set."""
        self.forms[path] = (value.shape[2:], value.dtype)
        files = self.files.setdefault(path, [tempfile.TemporaryFile() for _ in range(self.num_envs)])  # noqa: SIM115
        for env, file in enumerate(files):
            file.write(np.ascontiguousarray(value[stop[:, env], env]).tobytes())

    def write(self, create: Callable[[str, tuple[int, ...], np.dtype[Any]], Any]) -> None:
        """Write each column, env after env, into what `create` makes of its path, shape and dtype."""
        for path, files in self.files.items():
            shape, dtype = self.forms[path]
            row = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            column = create(path, (sum(file.tell() for file in files) // row, *shape), dtype)
            start = 0
            for file in files:
                file.seek(0)
                while data := file.read(max(1, PART_BYTES // row) * row):
                    part = np.frombuffer(data, dtype).reshape(-1, *shape)
                    column[start : start + len(part)] = part
                    start += len(part)
                file.close()


def read_attributes(path: str | PathLike[str]) -> dict[str, Any]:
    """Return what a file says about its data.

    Raises:
        DataError: it cannot be read.
    """
    with open_hdf5(path) as file:
        return dict(file.attrs)
