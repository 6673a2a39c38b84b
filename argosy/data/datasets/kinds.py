"""Finds out what kind of data set a file is."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from argosy.data.datasets.flat import has_columns, open_d4rl, open_npz
from argosy.data.datasets.lerobot import INFO, open_lerobot
from argosy.data.datasets.minari import find_minari, is_minari, open_minari, open_minari_folder
from argosy.data.datasets.own import is_buffer, open_buffer
from argosy.data.datasets.source import Progress, Source
from argosy.data.datasets.writer import DatasetWriter
from argosy.data.hdf5 import HDF5Tree, is_hdf5, naming_errors, open_hdf5
from argosy.errors import DataError

KINDS = (
    "argosy's or Tianshou's HDF5, D4RL's HDF5, Minari or LeRobot (their folders), npz, TFRecords of RL Unplugged Atari"
)

_DESCRIPTIONS = (".csv", ".html", ".json", ".log", ".md", ".py", ".txt", ".xml", ".yaml", ".yml")
"""What files end in that lie beside records to say what these are."""


def open_source(path: str | PathLike[str]) -> Source:
    """Return what a file holds, or a folder: of Minari, of LeRobot, or of TFRecords in the order of their names.

    Raises:
        DataError: there is no such file, it is of no known kind, or damaged; names the kinds that are known.
        MissingExtraError: h5py, pyarrow or Pillow is not installed.
    """
    name = os.fspath(path)
    with naming_errors(name):
        return _open(Path(path), name)


def _open(place: Path, name: str) -> Source:
    if (place / INFO).is_file():
        return open_lerobot(place)
    if place.is_dir():
        if source := _open_records(name, sorted(place.iterdir())):
            return source
        place = find_minari(place)
        if place.is_dir():
            return open_minari_folder(place)
    if not place.is_file():
        raise DataError(f"there is no file {name!r}")
    if place.stat().st_size == 0:
        raise DataError(f"{name} is empty: fetch or write it again")
    if is_hdf5(place):
        root = HDF5Tree(open_hdf5(place), str(place))
        if is_buffer(root):
            return open_buffer(root)
        names = root.names()
        if is_minari(names):
            return open_minari(root)
        if has_columns(names):
            return open_d4rl(root)
        shown = ", ".join(map(repr, names[:10]))
        raise DataError(f"{name} is an HDF5 file, but no data set: it holds {shown or 'nothing'}; known are {KINDS}")
    if zipfile.is_zipfile(place):
        return open_npz(place)
    if source := _open_records(name, [place]):
        return source
    raise DataError(f"{name} is of no known kind, or damaged; known are {KINDS}")


def _open_records(name: str, places: Sequence[Path]) -> Source | None:
    """Return what some files hold, all of records; None where none is."""
    from argosy.data.datasets.tfrecord import is_tfrecord  # brings numba along, which takes a second
    from argosy.data.datasets.unplugged import open_unplugged

    found = [place for place in places if not place.is_dir() and not _describes(place)]
    files = [place for place in found if is_tfrecord(place)]
    if not files:
        return None
    if others := [place for place in found if place not in files]:
        raise DataError(
            f"{others[0]} lies among TFRecords, but is empty or damaged, or none: fetch it again, or move it elsewhere "
            "if it is no part of the data set"
        )
    return open_unplugged(name, files)


def _describes(place: Path) -> bool:
    """Say whether a file beside records says what these are, or is hidden."""
    return place.name.startswith((".", "_", "README", "LICENSE")) or place.suffix in _DESCRIPTIONS


def convert(
    source: Source, path: str | PathLike[str], progress: Progress | None = None, *, packed: bool = True
) -> None:
    """Write a data set as argosy's own HDF5, in constant memory; a file that is there is replaced in the end.

    `packed` compresses images; those of a file without can be mapped instead of being read.

    Raises:
        DataError: the source is damaged or empty, or the file cannot be written.
    """
    if source.rows == 0:
        raise DataError("; ".join((f"{source.path} holds no transitions", *source.notes)))
    with DatasetWriter(path, 1, source.rows, source.options, packed=packed) as writer:
        for part in source.parts(progress):
            if len(part.rew):  # else all of it was left out
                rows = part[:, None]
                writer.write(rows, rows.get("cut"), rows.get("first"))
        kinds = str | int | float | np.number | np.bool_  # HDF5 gives numbers as numpy's
        told: dict[str, Any] = {key: value for key, value in source.attributes.items() if isinstance(value, kinds)}
        writer.finish({**told, "converted_from": source.format})
