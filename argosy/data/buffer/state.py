"""Whole columns of a buffer: as attributes, as state, from another buffer, from recorded data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from argosy.data.batch import as_batch
from argosy.data.buffer.columns import OPTIONAL, REQUIRED, Array, Field, Tree, Writes, as_array
from argosy.data.buffer.devices import adopted
from argosy.data.buffer.rings import BoolArray, IntArray, compact
from argosy.data.lazy import LazyArray
from argosy.data.tree import Fields, Path, fields_of, flatten, map_leaves, unflatten
from argosy.errors import DataError

if TYPE_CHECKING:
    from argosy.data.buffer.storage import Storage

COLUMNS = (*REQUIRED, *OPTIONAL)
DERIVED = ("done", "discount", "weight", "indices", "mask", "on_reset", "final", "cut")
"""Fields that reading makes: they are not stored where a sample is added again."""
KNOWN = frozenset((*COLUMNS, *DERIVED))


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
    """Write what `columns_of` returned to the slots `index`, which the rings have taken; allocates if needed.

    Raises:
        DataError: a column is missing, unknown or does not fit the schema.
    """
    if derived := columns.keys() & set(DERIVED):
        raise DataError(f"{sorted(derived)} are no fields of a buffer: it makes them when it is read")
    if not storage.fields:
        storage.allocate(map_leaves(_begin, dict(columns)), lift=False)
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


def _begin(value: Any) -> Any:
    """Of a lazy array, its first row: enough to say what rows look like."""
    return value.read(0, 1) if isinstance(value, LazyArray) else value


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
        restore(storage, columns_of(source, index[-len(slot) :]), slot)
    return slot


def read_data(columns: Mapping[str, object], done: object) -> tuple[dict[str, Tree], BoolArray]:
    """Return recorded columns [N, ...] as nested dicts of arrays, and the flags `done` [N].

    Raises:
        DataError: a column has another length, or holds what cannot be stored.
    """
    read = {name: _read_columns(value, name) for name, value in columns.items()}
    stop = as_array(_read_columns(done, "done"), "done").astype(np.bool_)
    for path, array in flatten(read).items():
        if len(array) != len(stop):
            raise DataError(f"{'.'.join(path)} has {len(array)} rows and done has {len(stop)}")
    rew = as_array(read["rew"], "rew")
    if np.isnan(rew).any():
        raise DataError(f"rew is NaN in row {int(np.argwhere(np.isnan(rew))[0, 0])}")
    return read, stop


def _read_columns(value: object, name: str) -> Tree:
    """Return columns that may be arrays, tensors, HDF5 datasets or groups, or nested containers of these."""
    fields = fields_of(value)
    if fields is None and isinstance(value, Mapping):  # an HDF5 group
        fields = dict(value)
    if fields is not None:
        return {key: _read_columns(child, f"{name}.{key}") for key, child in fields.items()}
    read: Any = value
    return as_array(read[()] if hasattr(read, "file") else read, name)  # an HDF5 dataset is read whole
