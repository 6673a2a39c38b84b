"""`Batch`: a nested container of numpy arrays or torch tensors with attribute and key access."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from numbers import Number
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from argosy.data import join, tensors, tree
from argosy.data.record import Record
from argosy.errors import DataError

_ndarray = np.ndarray
_NUMERIC = tree.NUMERIC


class Batch(Record):
    """A nested container of arrays.

    `Batch(obs=array, info={"lives": [3, 2]})`, `Batch({"obs": array})` and `Batch([{"obs": a}, {"obs": b}])`
    (stacked) are the three forms. Values are parsed once, when they enter: a number becomes a 0-d array,
    a list an array, a dict a Batch, a list of dicts a stacked Batch; arrays, tensors and Batches
    are kept as they are (no copy unless `copy=True`). Anything else (text, None, a distribution) is kept as an object.

    `batch.obs` and `batch["obs"]` read a field; `batch[i]` indexes every field along the first axes.
    An empty `Batch()` inside a batch keeps a place for a field to come.

    Raises:
        DataError: a field's name is no string, or the form is none of the three.
    """

    def __init__(
        self,
        batch_dict: Mapping[str, Any] | Record | Sequence[Mapping[str, Any] | Record] | np.ndarray | None = None,
        copy: bool = False,
        **kwargs: Any,
    ) -> None:
        if copy:
            batch_dict, kwargs = deepcopy((batch_dict, kwargs))
        fields = self.__dict__
        if batch_dict is not None:
            fields.update(_fields_from(batch_dict))
        for name, value in kwargs.items():
            fields[name] = value if type(value) is _ndarray and value.dtype.kind in _NUMERIC else parse(value)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value if type(value) is _ndarray and value.dtype.kind in _NUMERIC else parse(value)

    def __setitem__(self, index: object, value: Any) -> None:
        """Set a field (`index` is a string), or rows of every field from a Batch or dict of the same fields.

        Fields that `value` lacks become zero there (objects: None).

        Raises:
            DataError: `value` is no Batch or dict, or has a field that this batch has not.
        """
        if isinstance(index, str):
            self.__dict__[index] = parse(value)
            return
        value = parse(value)
        if not isinstance(value, Record):
            raise DataError(f"rows of a Batch are assigned from a Batch or dict, got {type(value).__name__}")
        tree.assign(self, index, value)

    def __delitem__(self, name: str) -> None:
        if name not in self.__dict__:
            raise KeyError(self._unknown(str(name)))
        del self.__dict__[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a field and return it; KeyError where there is none and no default."""
        return self.__dict__.pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a field; where there is none of that name, set it first."""
        if name not in self.__dict__:
            self.__dict__[name] = parse(default)
        return self.__dict__[name]

    def update(self, batch: Mapping[str, Any] | Record | None = None, **kwargs: Any) -> None:
        """Set fields from a Batch or dict and from keywords; nested batches are replaced, not merged."""
        fields = batch.__dict__ if isinstance(batch, Record) else batch or {}
        for name, value in (*fields.items(), *kwargs.items()):
            self.__dict__[_checked(name)] = parse(value)

    def is_empty(self, recurse: bool = False) -> bool:
        """Say whether there is no field; with `recurse`, whether there are only empty batches at any depth."""
        if not recurse:
            return not self.__dict__
        return all(isinstance(leaf, Batch) and leaf.is_empty(True) for leaf in self.__dict__.values())

    def to_numpy(self) -> None:
        """Turn every tensor into an array, in place (memory is shared where it can be)."""
        _update_leaves(self, tree.host)

    def to_torch(self, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> None:
        """Turn every array into a tensor, in place (memory is shared where it can be). None stays None.

        Raises:
            DataError: a field holds objects; names it.
        """
        _update_leaves(self, lambda leaf: tensors.tensor(leaf, device, dtype))

    @classmethod
    def cat(cls, batches: Sequence[Mapping[str, Any] | Batch] | Batch) -> Self:
        """Concatenate along axis 0. What one part lacks is zero there (objects: None); empty batches are skipped."""
        parts = _parts(batches, "cat")
        return join.cat(parts, like=cls())

    def cat_(self, batches: Sequence[Mapping[str, Any] | Batch] | Batch) -> None:
        """Append the rows of `batches`, in place."""
        parts = [self, *_parts(batches, "cat_")]
        self._become(join.cat(parts, like=Batch()))

    @classmethod
    def stack(cls, batches: Sequence[Mapping[str, Any] | Batch] | Batch, axis: int = 0) -> Self:
        """Stack along a new axis. What one part lacks is zero there (objects: None), with axis 0 only."""
        return join.stack(_parts(batches, "stack"), axis=axis, like=cls())

    def stack_(self, batches: Sequence[Mapping[str, Any] | Batch] | Batch, axis: int = 0) -> None:
        """Stack this batch (unless it is empty) and `batches`, in place."""
        parts = [*([self] if self.__dict__ else []), *_parts(batches, "stack_")]
        self._become(join.stack(parts, axis=axis, like=Batch()))

    def empty_(self, index: object = None) -> Self:
        """Set all rows, or those at `index`, to zero (objects: None), in place."""
        if index is None:
            for name, value in self.__dict__.items():
                if isinstance(value, Batch):
                    value.empty_()
                elif isinstance(value, torch.Tensor | np.ndarray) and value.ndim:
                    tree.assign(value, ..., None)
                else:
                    self.__dict__[name] = tree.fill(value)
        else:
            tree.assign(self, index, Batch())
        return self

    @staticmethod
    def empty(batch: Batch, index: object = None) -> Batch:
        """Return a copy of `batch` in which all rows, or those at `index`, are zero (objects: None)."""
        return deepcopy(batch).empty_(index)

    def split(
        self, size: int, shuffle: bool = True, merge_last: bool = False, *, rng: np.random.Generator | None = None
    ) -> Iterator[Self]:
        """Yield parts of `size` rows; the last one may be smaller, or is merged into the one before.

        Args:
            size: rows per part; -1 is all of them.
            shuffle: draw rows without replacement, from `rng` or else from numpy's global generator. Without it the
                parts are views, as slices are.
            merge_last: make one part of the last two where the last is smaller than `size`.
            rng: where the order comes from; give one in whatever has to be reproducible.

        Raises:
            DataError: `size` is neither positive nor -1.
        """
        total = len(self)
        if size == -1:
            size = max(total, 1)
        if size < 1:
            raise DataError(f"split(size={size}): size must be >= 1, or -1 for all rows")
        starts = list(range(0, total, size))
        if merge_last and len(starts) > 1 and total % size:
            starts.pop()
        order = None
        if shuffle:
            order = np.random.permutation(total) if rng is None else rng.permutation(total)  # noqa: NPY002
        for start, stop in pairwise([*starts, total]):
            yield self[start:stop] if order is None else self[order[start:stop]]

    def _become(self, other: Batch) -> None:
        fields = self.__dict__
        fields.clear()
        fields.update(other.__dict__)


def as_batch(fields: tree.Fields) -> Batch:
    """Return a Batch over nested dicts of arrays without parsing the arrays."""
    batch: Batch = object.__new__(Batch)
    known = vars(batch)
    for key, value in fields.items():
        if type(value) is dict:
            value = as_batch(value)
        known[key] = value
    return batch


def parse(value: Any) -> Any:
    """Make of a value what a Batch keeps of it (see `Batch`)."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in _NUMERIC else _parse_objects(value)
    if value is None or isinstance(value, tree.Node | torch.Tensor | str | bytes):
        return value
    if isinstance(value, Mapping):
        return Batch(value)
    if isinstance(value, Number | np.generic):
        return tree.as_array(value)
    if isinstance(value, list | tuple | range | deque):
        return _parse_sequence(value)
    if hasattr(value, "__array__"):
        return parse(np.asarray(value))
    return value


def _parse_objects(array: np.ndarray) -> Any:
    if array.ndim == 0:
        return parse(array.item())
    if array.ndim == 1 and array.size and all(isinstance(item, Mapping | Record) for item in array):
        return Batch.stack(array.tolist())
    return array if array.dtype.kind == "O" else array.astype(object)


def _parse_sequence(values: Sequence[Any]) -> Any:
    if len(values) and all(isinstance(item, Mapping | Record) for item in values):
        return Batch.stack(values)
    if any(isinstance(item, torch.Tensor) for item in values):
        if not all(isinstance(item, torch.Tensor | np.ndarray | Number) for item in values):
            raise DataError(f"a list mixes tensors with {[type(v).__name__ for v in values]}: it can be no batch")
        return join.stack_leaves(values)
    if any(isinstance(item, Mapping | Record) for item in values):
        return tree.object_array(values)
    return tree.as_array(values)


def _fields_from(source: object) -> tree.Fields:
    if isinstance(source, Record):
        return source.__dict__
    if isinstance(source, Mapping):
        return {_checked(name): parse(value) for name, value in source.items()}
    if isinstance(source, np.ndarray | list | tuple):
        items = list(source) if not isinstance(source, np.ndarray) or source.ndim else [source.item()]
        if all(isinstance(item, Mapping | Record) for item in items):
            return Batch.stack(items).__dict__
    raise DataError(
        f"a Batch is made from a dict, a Batch or a list of these, got {type(source).__name__} {source!r:.80}"
    )


def _parts(batches: object, method: str) -> list[Batch]:
    if isinstance(batches, Mapping | Record):
        batches = [batches]
    parts = list(batches)  # type: ignore[call-overload]  # anything that can be iterated over
    for part in parts:
        if not isinstance(part, Mapping | Record):
            raise DataError(f"Batch.{method} takes batches and dicts, got {type(part).__name__} {part!r:.80}")
    return [part if isinstance(part, Batch) else Batch(part) for part in parts]


def _checked(name: object) -> str:
    if not isinstance(name, str):
        raise DataError(f"a field's name must be a string, got {name!r}")
    return name


def _update_leaves(batch: Batch, fn: Callable[[Any], object]) -> None:
    """Replace every leaf by `fn` of it, in place; nothing is replaced where `fn` raises."""
    _adopt(batch.__dict__, tree.map_leaves(fn, batch).__dict__)


def _adopt(fields: tree.Fields, source: tree.Fields) -> None:
    for name, value in fields.items():
        inner = tree.fields_of(value)
        if inner is None:
            fields[name] = source[name]
        else:
            _adopt(inner, tree.fields_of(source[name]) or {})
