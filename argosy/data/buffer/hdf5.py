"""Buffers in HDF5 files: our own layout, and reading Tianshou's. No file is ever unpickled."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from argosy.data.buffer.columns import Array, Tree, flatten, unflatten
from argosy.data.buffer.priority import Priority
from argosy.data.buffer.rings import Rings
from argosy.data.lazy import LazyArray
from argosy.errors import DataError, require

PART_BYTES = 1 << 24
"""About as many bytes of a lazy array are in memory at a time."""
SCHEMA = 1
"""Version of the layout: groups for dicts, datasets for arrays, JSON attributes for the rest."""


class Stored(NamedTuple):
    """What a file says about a buffer."""

    sizes: list[int]
    """Slots per sub-buffer."""
    options: dict[str, Any]
    """For `ReplayBuffer`, beside the sizes."""
    state: dict[str, Any]
    """For `ReplayBuffer.load_state_dict`."""


def save_state(
    path: str | PathLike[str], state: dict[str, Any], options: dict[str, Any], compression: str | None
) -> None:
    """Write a buffer's state; a file that is there is replaced only once the new one is complete."""
    h5py = require("h5py", "hdf5")
    temporary = Path(f"{os.fspath(path)}.part")
    with h5py.File(temporary, "w") as file:
        file.attrs["argosy_buffer"] = SCHEMA
        file.attrs["options"] = json.dumps(options, default=asdict)
        _write(file, state, compression)
    os.replace(temporary, path)


def _write(group: Any, tree: dict[str, Any], compression: str | None) -> None:
    for key, value in tree.items():
        name = quote(key, safe="")
        if isinstance(value, dict):
            _write(group.create_group(name), value, compression)
        elif isinstance(value, LazyArray):
            made = group.create_dataset(name, value.shape, value.dtype, compression=compression)
            rows = max(1, PART_BYTES // max(value.nbytes // max(len(made), 1), 1))
            for start in range(0, len(made), rows):
                stop = min(start + rows, len(made))
                made[start:stop] = value.read(start, stop)
        elif isinstance(value, np.ndarray):
            group.create_dataset(name, data=value, compression=compression if value.ndim else None)
        else:
            group.attrs[name] = json.dumps(value)


def _read(group: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {unquote(name): json.loads(value) for name, value in group.attrs.items()}
    for name, value in group.items():
        tree[unquote(name)] = _read(value) if hasattr(value, "items") else value[()]
    return tree


def load_state(path: str | PathLike[str]) -> Stored:
    """Read a file written by `save_state` or by Tianshou's `save_hdf5`.

    Raises:
        DataError: the file is missing, damaged, of a newer layout, or of neither kind.
    """
    h5py = require("h5py", "hdf5")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{os.fspath(path)} cannot be read as an HDF5 file: {error}") from error
    with file:
        if "_meta" in file:
            try:
                return _read_tianshou(file)
            except KeyError as error:
                raise DataError(f"{os.fspath(path)} is no whole buffer of Tianshou: {error}") from error
        schema = file.attrs.get("argosy_buffer")
        if schema is None:
            raise DataError(f"{os.fspath(path)} is no buffer: written neither by argosy nor by Tianshou")
        if schema > SCHEMA:
            raise DataError(f"{os.fspath(path)} has layout {schema}, this version reads up to {SCHEMA}; update argosy")
        state = {name: _read(group) for name, group in file.items()}
        options = json.loads(file.attrs["options"])
        if options.get("priority") is not None:
            options["priority"] = Priority(**options["priority"])
    return Stored([int(size) for size in state["rings"]["capacity"]], options, state)


def _read_tianshou(file: Any) -> Stored:
    """Read Tianshou's layout: all columns in `_meta`, ring state beside it.

    Priorities and sub-buffers are pickled there and are not read: every row gets the largest priority. A file without
    `obs_next` knows no true successor of an episode's last row, so that row's own observation stands for it.
    """
    meta = file["_meta"]
    if "_extend_offset" in file:
        sizes = np.diff(file["_extend_offset"][()]).tolist()
        counts, last = file["_lengths"][()], file["last_index"][()]
    else:
        sizes = [int(file.attrs["maxsize"])]
        head = file.attrs["_insertion_idx" if "_insertion_idx" in file.attrs else "_index"]  # since 2.0, and before
        counts, last = np.array([file.attrs["_size"]]), np.array([head - 1]) % sizes[0]
    rings = Rings(sizes)
    options: dict[str, Any] = {name: bool(file.attrs[f"_{name}"]) for name in ("save_only_last_obs", "sample_avail")}
    options |= {"stack_num": int(file.attrs["stack_num"]), "ignore_obs_next": not file.attrs["_save_obs_next"]}
    if "_alpha" in file.attrs:
        names = ("alpha", "beta", "weight_norm")
        options["priority"] = Priority(**{name: file.attrs[f"_{name}"].item() for name in names})
    if counts.sum() == 0:
        return Stored(sizes, options, {"rings": rings.state_dict(), "columns": {}})
    done = meta["done"][()]
    order = []
    for ring in range(rings.num):
        offset, count = int(rings.offset[ring]), int(counts[ring])
        slot = (np.arange(int(last[ring]) - offset - count + 1, int(last[ring]) - offset + 1) % sizes[ring]) + offset
        stop = done[slot]
        rings.head[ring] = slot[0] if count else offset  # every row keeps its slot
        rings.extend(ring, stop)
        order.append(slot)
    index = np.concatenate(order)
    columns = {name: _rows(meta[name], index, name) for name in meta if name != "done"}
    options["ignore_obs_next"] = "obs_next" not in columns
    options["info_keys"] = list(columns.get("info", {}))
    state_slots = rings.all_stored()
    if "obs_next" not in columns:
        place = np.zeros(rings.slots, np.int64)
        place[state_slots] = np.arange(len(state_slots))
        after = place[rings.next(state_slots)]
        obs = flatten(columns["obs"])
        columns["obs_next"] = unflatten({key: np.asarray(value)[after] for key, value in obs.items()})
    return Stored(sizes, options, {"rings": rings.state_dict(), "columns": columns})


def _rows(node: Any, index: Array, name: str) -> Tree:
    """Return the rows `index` of a dataset or of every dataset of a group; pickles and text in `info` are left out."""
    if hasattr(node, "items"):
        kept = {key: child for key, child in node.items() if not _no_numbers(child, name)}
        return {key: _rows(child, index, f"{name}.{key}") for key, child in kept.items()}
    if _no_numbers(node, name):
        raise DataError(f"{name} holds pickled objects, which are never loaded; store numbers")
    return np.asarray(node[()][index])


def _no_numbers(node: Any, name: str) -> bool:
    if not name.startswith("info"):
        return False
    kind = node.attrs.get("__data_type__", "ndarray")
    return kind not in ("ndarray", "Tensor", "Batch", "dict") or (hasattr(node, "dtype") and node.dtype.kind == "O")
