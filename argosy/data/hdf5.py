"""HDF5 files with a checksum; and files of unknown origin, of which nothing but arrays of bounded size is read.

The checksum stands before the HDF5 file proper, in its user block, which other programs pass over. Files without one
are read all the same. A damaged file can keep the HDF5 library busy for ever: it is refused before the library sees it.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any
from urllib.parse import unquote

import numpy as np

from argosy.data.lazy import LazyArray
from argosy.data.tree import NUMERIC
from argosy.errors import MALFORMED, ArgosyError, DataError, require

MAX_DEPTH = 16
"""Of groups within groups."""
MAX_RATIO = 1100
"""Bytes of an array per byte that it takes in the file, at most: what gzip reaches, and a little."""
_SPARE_BYTES = 1 << 16
"""That an array may have without taking any room in the file (fill values)."""
_SPARE_FLAGS = 1 << 26
"""The same of an array of flags: nobody has written the 0 of a data set's `timeouts`."""
_MAPPED = "iuf"
"""Kinds of numbers whose bits all mean something; of a boolean, a made-up file could hold a 7."""
_FILTERS = (None, "gzip", "lzf")
_BLOCK = 512  # the smallest user block there is
_ALIGNED_BYTES = 64
_MARK = b"argosy sum64 "
_BEHIND_SUM = len(_MARK) + 8
_HDF5 = b"\x89HDF\r\n\x1a\n"
UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, *MALFORMED)
"""What content that somebody made up, or a damaged file, raises in the libraries that look into it."""
_CHUNK = 1 << 18
_WEIGHTS = np.arange(1, 65, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)


@contextlib.contextmanager
def naming_errors(
    path: str, wrong: str = "cannot be learned from", broken: str = "is damaged, or no data set"
) -> Iterator[None]:
    """Let whatever goes wrong with a file end in a DataError that names it: it is `wrong`, or `broken` and unread."""
    try:
        yield
    except DataError as error:
        raise error if path in str(error) else DataError(f"{path} {wrong}: {error}") from error
    except ArgosyError:
        raise
    except UNREADABLE as error:
        raise DataError(f"{path} {broken}: {type(error).__name__}: {error}") from error


def create_hdf5(path: str | PathLike[str]) -> Any:
    """Return a new h5py file with room for a checksum; `sign_hdf5` it once it is closed."""
    aligned = {"alignment_threshold": _BLOCK, "alignment_interval": _ALIGNED_BYTES}  # so that arrays can be mapped
    return require("h5py", "hdf5").File(path, "w", userblock_size=_BLOCK, **aligned)


def sign_hdf5(path: str | PathLike[str]) -> None:
    """Write the checksum of a file of argosy's anew: for who has changed it, e.g. with h5py, and means it so.

    Raises:
        DataError: the file was not written by argosy, so that it has no room for a checksum (and needs none).
    """
    with open(path, "r+b") as file:
        if file.read(8) == _HDF5:
            raise DataError(f"{os.fspath(path)} has no room for a checksum, and is read without one")
        digest = _checksum(file)
        file.seek(0)
        file.write(_MARK + b"%08x" % digest)


def open_hdf5(path: str | PathLike[str]) -> Any:
    """Return the h5py file, to read.

    Raises:
        DataError: it cannot be read, or its checksum does not fit.
        MissingExtraError: h5py is not installed.
    """
    h5py, name = require("h5py", "hdf5"), os.fspath(path)
    try:
        with open(path, "rb") as file:
            head = file.read(_BEHIND_SUM)
            if not head.startswith((_MARK, _HDF5)):
                raise DataError(
                    f"{name} cannot be read as an HDF5 file: it is none, or damaged; it begins with {head[:12]!r}"
                )
            if head.startswith(_MARK) and b"%08x" % _checksum(file) != head[len(_MARK) :]:
                raise DataError(
                    f"{name} is damaged: its checksum does not fit. If you have changed it yourself, say so with "
                    f"argosy.data.sign_hdf5({name!r})"
                )
        return h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{name} cannot be read as an HDF5 file: {error}") from error


def is_hdf5(path: str | PathLike[str]) -> bool:
    """Say whether a file begins as an HDF5 file does, or one of argosy's."""
    with open(path, "rb") as file:
        return file.read(len(_MARK)).startswith((_MARK, _HDF5))


def _checksum(file: Any) -> int:
    """Checksum of all that stands behind it, as fast as memory is read: a CRC-32 alone takes three times as long.

    It is the CRC-32 of sums of blocks of words, [512, 64] of 8 bytes: a weighted sum for each row, which says in which
    word something changed, and a sum for each column, so that nothing that changed in two words of a row is lost.
    """
    file.seek(_BEHIND_SUM)
    buffer = bytearray(_CHUNK)
    words = np.frombuffer(buffer, "<u8").reshape(-1, len(_WEIGHTS))
    crc = length = 0
    while count := file.readinto(buffer):
        buffer[count:] = bytes(_CHUNK - count)
        for sums in (np.einsum("ij,j", words, _WEIGHTS), np.add.reduce(words, axis=0)):
            crc = zlib.crc32(sums.astype("<u8"), crc)
        length += count
    return zlib.crc32(length.to_bytes(8, "little"), crc)


def machine_memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class HDF5Tree:
    """A group of a file: names -> arrays of numbers and further groups, all of them in this very file.

    External links and storage, virtual data sets, references, text and objects are refused, and so is what would take
    more memory than its bytes in the file can stand for: an array, or one that is there under several names. For each
    there is a DataError that names it. `known` has the name of each object that was found so far, by its place in the
    file.
    """

    def __init__(self, group: Any, path: str, depth: int = 0, known: dict[int, str] | None = None) -> None:
        self._group, self.path, self._depth = group, path, depth
        self._known = {_place(group): group.name} if known is None else known
        self._newest: tuple[str, Any] = ("", None)  # what was found last, which is mostly asked for again
        if depth > MAX_DEPTH:
            raise DataError(f"{group.name} lies deeper than {MAX_DEPTH} groups")

    def close(self) -> None:
        """Close the file; what is mapped stays."""
        self._group.file.close()

    @property
    def attrs(self) -> Any:
        """Attributes of the group."""
        return self._group.attrs

    def __contains__(self, name: str) -> bool:
        return name in self._group

    def names(self) -> list[str]:
        """Return the names of what is in it."""
        return list(self._group)

    def is_group(self, name: str) -> bool:
        """Say whether it is a group, not an array."""
        return hasattr(self._found(name), "items")

    def is_foreign(self, name: str) -> bool:
        """Say whether it is no array of numbers, but text, a pickle or other objects."""
        node = self._found(name)
        kind = node.attrs.get("__data_type__", "ndarray")  # as Tianshou names them
        return kind not in ("ndarray", "Tensor", "Batch", "dict") or (
            hasattr(node, "dtype") and node.dtype.kind not in NUMERIC
        )

    def group(self, name: str) -> HDF5Tree:
        """Return the group of that name."""
        node = self._found(name)
        if not hasattr(node, "items"):
            raise DataError(f"{node.name} is an array; it must be a group")
        return HDF5Tree(node, self.path, self._depth + 1, self._known)

    def dataset(self, name: str, *, ragged: bool = False) -> Any:
        """Return the h5py data set of that name, not read, if it is what this class reads.

        Rows that are bytes, as many as each of them has, are let pass where they may be `ragged`.
        """
        node = self._found(name)
        if hasattr(node, "items"):
            raise DataError(f"{node.name} is a group; it must be an array")
        if node.external is not None or node.is_virtual:
            raise DataError(f"{node.name} has its numbers in another file; copy them into this one")
        is_ragged = require("h5py", "hdf5").check_vlen_dtype(node.dtype) == np.uint8
        if self.is_foreign(name) and not (ragged and is_ragged):
            raise DataError(
                f"{node.name} holds pickled objects or text, or rows of different lengths, which are never loaded; "
                "store numbers"
            )
        stored, filters = node.id.get_storage_size(), node.id.get_create_plist().get_nfilters()
        if node.compression not in _FILTERS or filters > 1 + bool(node.shuffle) + bool(node.fletcher32):
            raise DataError(f"{node.name} is packed by {filters} filters; at most one of gzip and lzf is read")
        spare = _SPARE_FLAGS if node.ndim == 1 and node.dtype.itemsize == 1 else _SPARE_BYTES
        if node.nbytes > MAX_RATIO * stored + spare:
            raise DataError(
                f"{node.name} would take {node.nbytes / 2**30:.2f} GiB of memory and takes {stored} bytes in the file; "
                "that is no honest array"
            )
        return node

    def lazy(self, name: str, *, ragged: bool = False) -> LazyArray:
        """Return the array of that name without reading it; its rows are read for as long as the file is open.

        `ragged`: it may be one of objects, each of which is an array of bytes.
        """
        found = self.dataset(name, ragged=ragged)
        return LazyArray(tuple(found.shape), found.dtype, lambda start, stop: np.asarray(found[start:stop]))

    def mapped(self, name: str) -> np.ndarray | LazyArray:
        """Return the array of that name mapped from the file where it lies there as in memory, else as a lazy one.

        What is written to it stays in memory: the file is not changed.
        """
        found = self.dataset(name)
        offset = found.id.get_offset()
        if offset is None or found.dtype.kind not in _MAPPED or not found.dtype.isnative or not found.size:
            return self.lazy(name)
        if offset % found.dtype.itemsize or offset + found.nbytes > os.path.getsize(self.path):
            return self.lazy(name)
        return np.memmap(self.path, found.dtype, "c", offset, found.shape)

    def array(self, name: str) -> np.ndarray:
        """Return the array of that name."""
        found = self.dataset(name)
        if found.nbytes > machine_memory():
            raise DataError(f"{found.name} takes {found.nbytes / 2**30:.2f} GiB, more than this machine has memory")
        return np.asarray(found[()])

    def values(self, read: Callable[[HDF5Tree, str], Any] | None = None) -> dict[str, Any]:
        """Return all that is in it: arrays, as `read` gives them, dicts for groups, and what JSON attributes say."""
        read = read or HDF5Tree.array
        found: dict[str, Any] = {unquote(name): json.loads(value) for name, value in self.attrs.items()}
        for name in self.names():
            found[unquote(name)] = self.group(name).values(read) if self.is_group(name) else read(self, name)
        return found

    def _found(self, name: str) -> Any:
        if name == self._newest[0]:
            return self._newest[1]
        h5py = require("h5py", "hdf5")
        link = self._group.get(name, getlink=True)
        if link is None:
            raise DataError(f"there is no {name!r} in {self._group.name}")
        if not isinstance(link, h5py.HardLink):
            raise DataError(f"{name!r} in {self._group.name} is a link to elsewhere; copy what it leads to")
        node = self._group[name]
        own = f"{self._group.name.rstrip('/')}/{name}"
        if (other := self._known.setdefault(_place(node), own)) != own:
            raise DataError(f"{own} is {other} by another name; store it once, or twice")
        self._newest = name, node
        return node


def _place(node: Any) -> int:
    return int(require("h5py", "hdf5").h5o.get_info(node.id).addr)
