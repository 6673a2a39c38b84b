"""Data sets of one array per field, row after row: D4RL's HDF5 files and npz files."""

from __future__ import annotations

import tokenize
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from argosy.data import tree
from argosy.data.batch import Batch
from argosy.data.datasets.source import (
    PART_ROWS,
    Columns,
    Source,
    as_flags,
    as_rewards,
    check_lengths,
    known_ends,
    lazy_columns,
    read_rows,
    read_steps,
)
from argosy.data.hdf5 import MAX_RATIO, HDF5Tree, machine_memory
from argosy.data.lazy import LazyArray
from argosy.data.tree import NUMERIC
from argosy.errors import DataError

NAMES = {
    "obs": ("observations", "obs", "observation", "states"),
    "act": ("actions", "act", "action"),
    "rew": ("rewards", "rew", "reward"),
    "terminated": ("terminals", "terminated", "terminations"),
    "truncated": ("timeouts", "truncated", "truncations"),
    "obs_next": ("next_observations", "obs_next", "next_obs", "next_states"),
}
"""What fields are called in such files; the first name is D4RL's."""
_HEADER_BYTES = 1 << 14


def open_d4rl(root: HDF5Tree) -> Source:
    """Return what D4RL's HDF5 layout holds: `observations`, `actions`, `rewards`, `terminals`, `timeouts`, ..."""
    found = _first_names(root.names())
    columns = {field: lazy_columns(root, name) for field, name in found.items()}
    source = open_columns(root.path, "D4RL", columns, root.names())
    return replace(source, close=root.close)


def open_npz(path: Path) -> Source:
    """Return what an npz file holds; nested observations are "obs/camera", ..."""
    columns: dict[tree.Path, Any] = {}
    readers: list[_InOrder] = []
    with zipfile.ZipFile(path) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        found = {name: field for field, name in _first_names(name.split("/")[0] for name in members).items()}
        for name, member in members.items():
            first, *keys = name.split("/")
            if first in found:
                if both := members.keys() & set(map(str, PurePosixPath(name).parents)):
                    raise DataError(f"{both.pop()!r} is an array, and there is {name!r} within it: leave one out")
                readers.append(_npy_rows(path, archive, member))
                columns[found[first], *keys] = LazyArray(readers[-1].shape, readers[-1].dtype, readers[-1].read)
    made = open_columns(str(path), "npz", tree.unflatten(columns), list(members))

    def close() -> None:
        for reader in readers:
            reader.close()

    return replace(made, close=close)


def _first_names(names: Iterable[str]) -> dict[str, str]:
    """Return what each field that is there is called; of several names the first one of `NAMES`."""
    there = set(names)
    return {field: name for field, known in NAMES.items() for name in known[::-1] if name in there}


def has_columns(names: list[str]) -> bool:
    """Say whether a file with these names is one of these."""
    return any(name in names for field in ("obs", "act") for name in NAMES[field])


def open_columns(path: str, kind: str, columns: Mapping[str, Columns], names: list[str]) -> Source:
    """Return what columns of rows in order of time hold: all of `NAMES`, or all but `obs_next` or `truncated`.

    `names` are what the file calls all that it holds.
    """
    for field in ("obs", "act", "rew", "terminated"):
        if field not in columns:
            known = " or ".join(map(repr, NAMES[field][:2]))
            shown = ", ".join(map(repr, names[:20]))
            raise DataError(f"there is no {known} in it, which must say {_MEANING[field]} of every row; it has {shown}")
    shape = columns["rew"].shape if isinstance(columns["rew"], LazyArray) else None
    if not shape or shape[1:] not in ((), (1,)):
        what = "is a group" if shape is None else f"has shape {shape}"
        raise DataError(f"{NAMES['rew'][0]} {what} where it must hold a number per row")
    rows = shape[0]
    for field, column in columns.items():
        check_lengths(column, rows, NAMES[field][0])
    with_next = "obs_next" in columns
    if "truncated" not in columns and not with_next:
        raise DataError(
            "it has neither 'timeouts' nor 'next_observations', so that nobody can tell where episodes were cut; "
            "add 'timeouts', a flag per row (all 0 where every episode ends with a terminal row)"
        )
    if rows * 16 > machine_memory():  # flags and their like are held for all rows
        raise DataError(f"it has {rows:,} rows, too many for the memory of this machine")
    none = np.zeros(rows, np.bool_)
    ends = {
        field: as_flags(columns[field].read(0, rows), NAMES[field][0]) if field in columns and rows else none
        for field in ("terminated", "truncated")
    }
    terminated, truncated = ends["terminated"], ends["truncated"]
    without_next, cut = None, none
    if not with_next and rows:
        last = terminated | truncated
        last[-1] = True
        without_next = known_ends(terminated, truncated, last)

    finds_cuts = "truncated" not in columns
    if finds_cuts and rows:
        cut = np.append(none[1:], not terminated[-1])  # nobody knows whether the last episode ended there

    def read(size: int) -> Iterator[Batch]:
        for start in range(0, rows, size):
            stop = min(start + size, rows)
            obs, following = read_steps(columns["obs"], start, stop, rows)
            part = Batch(
                obs=obs,
                act=read_rows(columns["act"], start, stop),
                rew=as_rewards(columns["rew"].read(start, stop), NAMES["rew"][0]),
                terminated=terminated[start:stop],
                truncated=truncated[start:stop],
                obs_next=read_rows(columns["obs_next"], start, stop) if with_next else following,
                cut=cut[start:stop],
            )
            part.truncated = part.truncated | part.cut
            if finds_cuts:
                part.truncated = part.truncated | ~(_equal_rows(part.obs_next, following) | part.terminated)
            yield part if without_next is None else without_next.put_into(part, start)

    return Source(
        path=path,
        format=kind,
        rows=rows if without_next is None else int(without_next.known.sum()),
        read=read,
        attributes={"action_scale": "env"},
        notes=() if without_next is None else without_next.notes(NAMES["obs_next"][0]),
    )


_MEANING = {
    "obs": "the observation",
    "act": "the action",
    "rew": "the reward",
    "terminated": "whether the episode ended there (dones alone do not say whether it ended or was only cut)",
}


def _equal_rows(one: Any, other: Any) -> np.ndarray:
    """Return [n]: whether rows of two trees are the same; none is where these are of different forms."""
    same = []
    for (_, a), (_, b) in zip(tree.leaves(one), tree.leaves(other), strict=False):
        coarse = min(a.dtype, b.dtype, key=lambda dtype: dtype.itemsize)  # which one of the two was rounded to
        equal = (
            a.astype(coarse, copy=False) == b.astype(coarse, copy=False)
            if a.shape == b.shape
            else np.zeros(len(a), np.bool_)
        )
        same.append(equal.reshape(len(a), -1).all(axis=1))
    return np.asarray(np.logical_and.reduce(same))


def _npy_rows(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _InOrder:
    """Return an array of an archive, whose head alone is read now; one of an honest size that holds numbers."""
    name = f"{member.filename} in {path}"
    if member.file_size > MAX_RATIO * member.compress_size + _HEADER_BYTES:
        raise DataError(f"{name} would take {member.file_size:,} bytes and takes {member.compress_size:,} in the file")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # the others inflate without bounds
        raise DataError(f"{name} is packed by method {member.compress_type}; only numpy's own (deflate) is read")
    with archive.open(member) as file:
        shape, dtype, fortran = _npy_head(file, name)
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if size != member.file_size - file.tell():
            raise DataError(f"{name} says that it has shape {shape} of {dtype}, which its size denies")
        if fortran and len(shape) > 1:
            raise DataError(f"{name} is stored column by column; store numpy.ascontiguousarray(it)")
    return _InOrder(path, member.filename, shape, dtype)


def _npy_head(file: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Read the head of an npy file: shape, dtype, whether it is stored column by column."""
    version = np.lib.format.read_magic(file)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if reader is None:
        raise DataError(f"{name} is of version {version} of the npy format; versions 1.0 and 2.0 are read")
    try:
        shape, fortran, dtype = reader(file, max_header_size=_HEADER_BYTES)
    except (SyntaxError, tokenize.TokenError) as error:
        raise DataError(f"{name} has a head that cannot be read: {error}") from error
    if dtype.kind not in NUMERIC:
        raise DataError(f"{name} holds pickled objects or text, which are never loaded; store numbers")
    if dtype.subdtype is not None or not shape or min(shape) < 0:
        raise DataError(f"{name} has shape {shape} of {dtype}; it must have a row per step")
    return shape, dtype, fortran


class _InOrder:
    """Reads rows of an array in an archive from the first one on; the newest row may be read once more."""

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path, self.name, self.shape, self.dtype = path, name, shape, dtype
        self.row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        self._file: IO[bytes] | None = None
        self._position = 0  # the row that comes next
        self._newest = b""

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows start .. stop - 1; quick where `start` is where the last call stopped, or one row before."""
        if self._file is None or start < self._position - 1 or start > self._position:
            self._open()
            while self._position < start:
                self._take(min(start - self._position, PART_ROWS))
        held = self._newest if start == self._position - 1 else b""
        data = held + self._take(stop - max(start, self._position))
        return np.frombuffer(data, self.dtype).reshape(stop - start, *self.shape[1:])

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        self.close()
        self._file = zipfile.ZipFile(self.path).open(self.name)  # noqa: SIM115  # the next call reads on
        _npy_head(self._file, self.name)
        self._position = 0

    def _take(self, rows: int) -> bytes:
        assert self._file is not None
        data = self._file.read(rows * self.row_bytes)
        if len(data) != rows * self.row_bytes:
            raise DataError(f"{self.name} in {self.path} ends too early")
        self._position += rows
        if rows:
            self._newest = data[len(data) - self.row_bytes :]
        if self._position == self.shape[0]:
            self._file.read(1)  # at the end the archive compares its checksum
        return data
