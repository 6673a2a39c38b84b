"""Whole columns of a buffer: as attributes, as state, from another buffer, from recorded data, in HDF5 files.

Files are of our own layout; Tianshou's are read, too. None is ever unpickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from argosy.data.batch import as_batch
from argosy.data.buffer.columns import OPTIONAL, REQUIRED, Array, Field, Tree, Writes, as_array
from argosy.data.buffer.devices import adopted
from argosy.data.buffer.priority import Priority
from argosy.data.buffer.rings import BoolArray, IntArray, Rings, compact
from argosy.data.hdf5 import HDF5Tree, create_hdf5, machine_memory, naming_errors, sign_hdf5
from argosy.data.lazy import LazyArray
from argosy.data.tree import Fields, Path, State, fields_of, flatten, map_leaves, unflatten
from argosy.errors import DataError

if TYPE_CHECKING:
    from argosy.data.buffer.storage import Storage

COLUMNS = (*REQUIRED, *OPTIONAL)
DERIVED = ("done", "discount", "weight", "indices", "mask", "on_reset", "final", "cut")
"""Fields that reading makes: they are not stored where a sample is added again."""
KNOWN = frozenset((*COLUMNS, *DERIVED))


MOST_FRAMES = 1000
"""Of a stack; a file of few rows may ask for more than it has, their first one is repeated."""
SLOT_BYTES = 16
"""That a buffer needs at least per transition."""
_EMPTY_SLOTS = 1 << 22
"""That a buffer without rows may have; the arrays of one with rows show how many it has."""
SCHEMA = 1
"""Version of the layout: groups for dicts, datasets for arrays, JSON attributes for the rest."""
_OPTIONS = {"stack_num", "ignore_obs_next", "save_only_last_obs", "sample_avail", "info_keys", "priority"}
"""That a file may name, see `ReplayBuffer.options`: not where columns are kept, for instance."""


class NoColumnError(DataError, AttributeError):
    """A column that is not there (yet); also an AttributeError, so that `hasattr(buffer, "obs")` says no."""


def as_attribute(storage_type: type[Storage], name: str) -> None:
    """Let buffers have the field `name` as an attribute, all slots [maxsize, ...], unless they have one so called.

    A property for each, because a class with `__getattr__` pays for every attribute: 6 % of a sample.
    """

    def column(storage: Storage) -> Any:
        field = vars(storage).get("fields", {}).get(name)
        if field is None:
            raise NoColumnError(f"the buffer has no column {name!r} yet: nothing was stored")
        if name == "obs_next" and storage.successors is not None:
            raise NoColumnError(
                "the buffer has no column 'obs_next' (ignore_obs_next=True); index it: buffer[i].obs_next"
            )
        return as_batch({name: unflatten({key: column.data for key, column in field.columns.items()})})[name]

    if not hasattr(storage_type, name):
        setattr(storage_type, name, property(column))


def own_fields(storage: Storage, given: Iterable[str] = ()) -> list[str]:
    """Return the names of fields that only the user knows; those that are new in `given` are made."""
    for name in given:
        if name not in storage.fields and name not in KNOWN:
            storage.fields[name] = Field(name, storage.maxsize, storage.make_column, optional=True)
            if name not in vars(storage):  # else it would hide what all buffers have
                as_attribute(type(storage), name)
    return [name for name, field in storage.fields.items() if name not in KNOWN and (given or field.columns)]


def columns_of(storage: Storage, index: IntArray, ends_only: bool = False, lazy: bool = False) -> Fields:
    """Return copies of the rows `index` of every column in host memory, as nested dicts.

    With `ends_only`, a buffer that does not store `obs_next` gives it only for the rows that end a segment. With
    `lazy`, the arrays are `LazyArray`s, which hold until rows are added.
    """
    found: Fields = {}
    for name, field in storage.fields.items():
        rows = index
        if name == "obs_next" and ends_only and storage.successors is not None:
            rows = index[storage.rings.stop[index]]
        found[name] = unflatten({key: _rows_of(storage, name, key, rows, lazy) for key in field.columns})
    return found


def _rows_of(storage: Storage, name: str, key: Path, rows: IntArray, lazy: bool) -> Any:
    column = storage.fields[name].columns[key]

    def read(start: int, stop: int) -> Array:
        part = rows[start:stop]
        return column.host(storage.successor(key, part) if name == "obs_next" else column.take(part))

    return LazyArray((len(rows), *column.shape), column.dtype, read) if lazy else read(0, len(rows))


def restore(storage: Storage, columns: Mapping[str, Tree], index: IntArray) -> None:
    """Write what `columns_of` returned to the slots `index`, which the rings have taken; allocates if needed."""
    if derived := columns.keys() & set(DERIVED):
        raise DataError(f"{sorted(derived)} are no fields of a buffer: it makes them when it is read")
    if not storage.fields:
        first = map_leaves(lambda value: value.read(0, 1) if isinstance(value, LazyArray) else value, dict(columns))
        storage.allocate(first, lift=False)
    own_fields(storage, columns)
    for name, field in storage.fields.items():
        flat = {
            key: value if isinstance(value, LazyArray) else as_array(value, name)
            for key, value in flatten(columns.get(name)).items()
        }
        successors, rows = (storage.successors if name == "obs_next" else None), index
        if successors is not None:
            successors.release(index)
            if any(len(value) != len(index) for value in flat.values()):
                rows = index[storage.rings.stop[index]]
        for part, given in _parts(flat, len(rows), name):
            writes: Writes = []
            field.check(unflatten(given), len(rows[part]), False, writes)
            if successors is not None:
                successors.store(rows[part], writes)
                continue
            for column, value in writes:
                if not adopted(column, storage.rings, value):
                    column.put(compact(rows[part]), value)
    if storage.priorities is not None:
        storage.priorities.tree.add(index)


def _parts(flat: dict[Path, Any], rows: int, name: str) -> Iterator[tuple[slice, dict[Path, Array]]]:
    """Yield what of a field's columns is written at a time: all of them, or parts of lazy ones."""
    lazy = [value for value in flat.values() if isinstance(value, LazyArray)]
    if not lazy:
        yield slice(0, rows), flat
        return
    if wrong := [len(value) for value in flat.values() if len(value) != rows]:
        raise DataError(f"{name} has {wrong[0]} rows, where {rows} are stored")
    for start, stop in max(lazy, key=lambda value: value.nbytes).parts():
        part = slice(start, stop)
        yield part, {key: v.read(start, stop) if isinstance(v, LazyArray) else v[part] for key, v in flat.items()}


def append(storage: Storage, ring: int, source: Storage, index: IntArray) -> IntArray:
    """Copy the rows `index` of `source`, in order of time, to the end of one ring; return the slots that they got.

    Of more rows than the ring has slots, the last ones are kept.
    """
    slot = storage.rings.extend(ring, source.rings.stop[index])
    if len(slot):
        kept = index[-len(slot) :]
        storage.rings.cut[slot] = source.rings.cut[kept]
        storage.rings.first[slot] &= source.rings.first[kept]
        restore(storage, columns_of(source, kept), slot)
    return slot


def read_data(columns: Mapping[str, object], done: object) -> tuple[dict[str, Tree], BoolArray]:
    """Return recorded columns [N, ...] as nested dicts of arrays, and the flags `done` [N]."""
    read = {name: _read_columns(value, name) for name, value in columns.items()}
    flags = {"done": _read_columns(done, "done"), **{name: read[name] for name in ("terminated", "truncated")}}
    given = {name: as_array(flag, name) for name, flag in flags.items()}
    if wrong := [name for name, flag in given.items() if flag.ndim != 1]:
        raise DataError(f"{wrong[0]} has shape {given[wrong[0]].shape}; it must hold a flag per row [N]")
    stop, *others = (flag.astype(np.bool_) for flag in given.values())
    for path, array in flatten(read).items():
        if len(array) != len(stop):
            raise DataError(f"{'.'.join(path)} has {len(array)} rows and done has {len(stop)}")
    rew = as_array(read["rew"], "rew")
    if np.isnan(rew).any():
        raise DataError(f"rew is NaN in row {int(np.argwhere(np.isnan(rew))[0, 0])}")
    return read, np.logical_or.reduce([stop, *others])


def _read_columns(value: object, name: str) -> Tree:
    """Return columns that may be arrays, tensors, HDF5 datasets or groups, or nested containers of these."""
    fields = fields_of(value)
    if fields is None and isinstance(value, Mapping):  # an HDF5 group
        fields = dict(value)
    if fields is not None:
        return {key: _read_columns(child, f"{name}.{key}") for key, child in fields.items()}
    read: Any = value
    return as_array(read[()] if hasattr(read, "file") else read, name)  # an HDF5 dataset is read whole


class Stored(NamedTuple):
    """What a file says about a buffer."""

    sizes: list[int]
    """Slots per sub-buffer."""
    options: dict[str, Any]
    """For `ReplayBuffer`, beside the sizes."""
    state: State
    """For `ReplayBuffer.load_state_dict`."""


def save_state(path: str | PathLike[str], state: State, options: dict[str, Any], compression: str | None) -> None:
    """Write a buffer's state; a file that is there is replaced only once the new one is complete.

    Raises:
        DataError: it cannot be written; nothing is left of it.
    """
    name = os.fspath(path)
    temporary = f"{name}.part"
    with naming_errors(name, broken="could not be written"):
        try:
            with create_hdf5(temporary) as file:
                file.attrs["argosy_buffer"] = SCHEMA
                file.attrs["options"] = json.dumps(options, default=asdict)
                _write(file, state, compression)
            sign_hdf5(temporary)
            os.replace(temporary, path)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)


def _write(group: Any, tree: State, compression: str | None) -> None:
    for key, value in tree.items():
        name = quote(key, safe="")
        if isinstance(value, dict):
            _write(group.create_group(name), value, compression)
        elif isinstance(value, LazyArray):
            made = group.create_dataset(name, value.shape, value.dtype, compression=compression)
            for start, stop in value.parts():
                made[start:stop] = value.read(start, stop)
        elif isinstance(value, np.ndarray):
            group.create_dataset(name, data=value, compression=compression if value.ndim else None)
        else:
            group.attrs[name] = json.dumps(value)


def read_state(file: HDF5Tree, read: Callable[[HDF5Tree, str], Any]) -> Stored:
    """Return what a file of `save_state`, or of Tianshou's `save_hdf5`, says about a buffer; `read` gives its columns.

    Raises:
        DataError: it is of a newer layout, of neither kind, or was made up.
    """
    stored = _read_tianshou(file) if is_tianshou(file) else _read_own(file, read)
    check_rings(stored.state["rings"])
    if not 1 <= stored.options.get("stack_num", 1) <= max(sum(stored.sizes), MOST_FRAMES):
        raise DataError(f"stack_num is {stored.options['stack_num']}, more frames than the buffer has")
    return stored


def is_tianshou(file: HDF5Tree) -> bool:
    """Say whether Tianshou wrote it."""
    return "_meta" in file


def _read_own(file: HDF5Tree, read: Callable[[HDF5Tree, str], Any]) -> Stored:
    schema = file.attrs.get("argosy_buffer")
    if schema is None:
        raise DataError("written neither by argosy nor by Tianshou")
    if not isinstance(schema, np.integer) or not 0 < schema <= SCHEMA:
        raise DataError(f"it has layout {schema!s:.40}, this version reads up to {SCHEMA}; update argosy")
    options = json.loads(file.attrs["options"])
    if foreign := options.keys() - _OPTIONS:
        raise DataError(f"it asks for {sorted(foreign)}; the options of a file are {sorted(_OPTIONS)}")
    if options.get("priority") is not None:
        options["priority"] = Priority(**options["priority"])
    state = {name: file.group(name).values(read if name == "columns" else None) for name in file.names()}
    return Stored([int(size) for size in state["rings"]["capacity"]], options, state)


def check_rings(state: dict[str, Array]) -> None:
    """Refuse what `Rings.state_dict` cannot have given, by a DataError; all other code trusts it."""
    capacity = np.asarray(state["capacity"])
    if capacity.ndim != 1 or capacity.dtype.kind not in "iu" or not len(capacity) or capacity.min() < 1:
        raise DataError(f"rings.capacity is {capacity!r:.80}; it must hold whole numbers >= 1")
    slots = sum(capacity.tolist())
    if slots * SLOT_BYTES > machine_memory():
        raise DataError(f"it is for {slots} transitions, which this machine's memory cannot hold")
    first = np.cumsum(capacity) - capacity
    for name, low, high in (
        ("count", 0, capacity),
        ("head", first, first + capacity - 1),
        ("last", first, first + capacity - 1),
        ("ep_start", first, first + capacity - 1),
        ("ep_len", 0, np.iinfo(np.int64).max),
    ):
        value = np.asarray(state[name])
        if value.shape != capacity.shape or value.dtype.kind not in "iu" or (value < low).any() or (value > high).any():
            raise DataError(f"rings.{name} is {value!r:.80}, which does not fit a capacity of {capacity!r:.80}")
    for name, shape in (("stop", (slots,)), ("first", (slots,)), ("cut", (slots,)), ("closed", capacity.shape)):
        value = np.asarray(state[name])
        if value.shape != shape or value.dtype != np.bool_:
            raise DataError(f"rings.{name} has shape {value.shape} and type {value.dtype}; it must be {shape} of bool")
    if not state["stop"][state["last"]].all():  # who walks through an episode would never come to its end
        raise DataError("rings.stop is not set at the newest row of each ring, which nothing follows")
    returns = np.asarray(state["ep_rew"])
    if returns.shape[:1] != capacity.shape or returns.dtype.kind != "f":
        raise DataError(f"rings.ep_rew has shape {returns.shape} and type {returns.dtype}")


def _read_tianshou(file: HDF5Tree) -> Stored:
    """Read Tianshou's layout: all columns in `_meta`, ring state beside it.

    Priorities and sub-buffers are pickled there and are not read: every row gets the largest priority. A file without
    `obs_next` knows no true successor of an episode's last row, so that row's own observation stands for it, which is
    only right where that terminates (a data set leaves out the others, see `open_buffer`).
    """
    meta = file.group("_meta")
    if "_extend_offset" in file:
        sizes = np.diff(file.array("_extend_offset")).tolist()
        counts, last = file.array("_lengths"), file.array("last_index")
    else:
        sizes = [int(file.attrs["maxsize"])]
        head = file.attrs["_insertion_idx" if "_insertion_idx" in file.attrs else "_index"]  # since 2.0, and before
        if not 0 <= head <= sizes[0]:
            raise DataError(f"it says that the next row comes into slot {head} of {sizes[0]}")
        counts, last = np.array([file.attrs["_size"]]), np.array([head - 1]) % sizes[0]
    rows = len(meta.dataset("done")) if "done" in meta else 0
    if sum(sizes) > max(rows, _EMPTY_SLOTS) or (np.asarray(counts) > sizes).any() or counts.min() < 0:
        raise DataError(f"it says that buffers of {sizes!s:.80} hold {counts!s:.80} rows, and has room for {rows}")
    rings = Rings(sizes)
    options: dict[str, Any] = {name: bool(file.attrs[f"_{name}"]) for name in ("save_only_last_obs", "sample_avail")}
    options |= {"stack_num": int(file.attrs["stack_num"]), "ignore_obs_next": not file.attrs["_save_obs_next"]}
    if "_alpha" in file.attrs:
        names = ("alpha", "beta", "weight_norm")
        options["priority"] = Priority(**{name: file.attrs[f"_{name}"].item() for name in names})
    if counts.sum() == 0:
        return Stored(sizes, options, {"rings": rings.state_dict(), "columns": {}})
    done = meta.array("done")
    if "terminated" not in meta or "truncated" not in meta:  # as Tianshou wrote it before 0.5
        raise DataError(
            "there is no 'terminated' or no 'truncated' in it, which must say whether an episode ended or was only cut "
            "(dones alone do not)"
        )
    order = []
    for ring in range(rings.num):
        offset, count = int(rings.offset[ring]), int(counts[ring])
        slot = (np.arange(int(last[ring]) - offset - count + 1, int(last[ring]) - offset + 1) % sizes[ring]) + offset
        stop = done[slot]
        rings.head[ring] = slot[0] if count else offset  # every row keeps its slot
        rings.extend(ring, stop)
        if count == sizes[ring] and slot[0] != offset:  # the beginning of its oldest episode is overwritten
            rings.first[slot[0]] = False
        order.append(slot)
    index = np.concatenate(order)
    columns = {name: _rows(meta, name, index, name) for name in meta.names() if name != "done"}
    options["ignore_obs_next"] = "obs_next" not in columns
    options["info_keys"] = list(columns.get("info", {}))
    state_slots = rings.all_stored()
    if "obs_next" not in columns:
        place = np.zeros(rings.slots, np.int64)
        place[state_slots] = np.arange(len(state_slots))
        columns["obs_next"] = _rows(meta, "obs", index[place[rings.next(state_slots)]], "obs")
    return Stored(sizes, options, {"rings": rings.state_dict(), "columns": columns})


def _rows(group: HDF5Tree, key: str, index: Array, name: str) -> Any:
    """Return, lazily, the rows `index` of a dataset, or of all in a group; pickles and text in `info` are left out."""
    if group.is_group(key):
        inner = group.group(key)
        kept = [child for child in inner.names() if not (name.startswith("info") and inner.is_foreign(child))]
        return {child: _rows(inner, child, index, f"{name}.{child}") for child in kept}
    return group.lazy(key).picked(index)
