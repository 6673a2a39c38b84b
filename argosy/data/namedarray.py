"""`NamedArray`: a typed record of arrays with fixed fields; `None` fields stay None. Pickles cheaply."""

from __future__ import annotations

import inspect
import operator
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, SupportsIndex, TypeVar, dataclass_transform

import numpy as np
import torch

from argosy.data import join, tree
from argosy.data.record import Record
from argosy.errors import DataError, nearest

ClassT = TypeVar("ClassT", bound="type[NamedArray]")
TreeT = TypeVar("TreeT")
_REQUIRED = object()
CLASSES: dict[str, type[NamedArray]] = {}
"""Every class that `@namedarray` has declared, by module and name."""


class NamedArray(Record):
    """A record of arrays, tensors, nested records, dicts of them, or None.

    Declared, with `@namedarray`:

        @namedarray
        class Step(NamedArray):
            obs: np.ndarray
            reward: np.ndarray | None = None

    or made on the spot: `NamedArray(obs=array, reward=None)`. Fields cannot be added or removed later.
    Indexing (`x[3:5]`) applies to every field and keeps None; `len` and iteration are over rows, as for `Batch`.

    Raises:
        DataError: a field is unknown (the nearest name is offered), missing or given twice.
    """

    __slots__ = ("_metadata",)
    _template: ClassVar[dict[str, Any] | None] = None
    _metadata: dict[str, object] | None

    def __init__(self, *args: Any, **fields: Any) -> None:
        template = self._template
        if template is None:
            if args:
                raise DataError("NamedArray takes fields by keyword; declare a class with @namedarray for positions")
            self.__dict__.update(fields)
            return
        if args:
            fields = self._by_position(args, fields)
        values = {**template, **fields}
        if len(values) != len(template):
            unknown = next(name for name in fields if name not in template)
            raise DataError(f"{type(self).__name__} has no field {unknown!r}; {nearest(unknown, template)}")
        if len(fields) != len(template):
            missing = [name for name, value in values.items() if value is _REQUIRED]
            if missing:
                raise DataError(f"{type(self).__name__} needs {', '.join(map(repr, missing))}")
        self.__dict__.update(values)

    def _by_position(self, args: tuple[Any, ...], fields: tree.Fields) -> tree.Fields:
        names = tuple(self._template or ())
        if len(args) > len(names):
            raise DataError(f"{type(self).__name__} has {len(names)} fields, got {len(args)} values")
        given = dict(zip(names, args, strict=False))
        twice = given.keys() & fields.keys()
        if twice:
            raise DataError(f"{type(self).__name__}: {sorted(twice)} given twice")
        return given | fields

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise AttributeError(self._unknown(name), name=name, obj=self)
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"the fields of {type(self).__name__} are fixed: {name!r} cannot be removed")

    def __setitem__(self, index: object, value: Any) -> None:
        """Set a field (`index` is a string), or write rows: a number into every field, or a record of the same fields.

        Fields that are None on either side are left alone.

        Raises:
            DataError: the fields differ, or a field's shape does not fit; names it.
        """
        if isinstance(index, str):
            if index not in self.__dict__:
                raise KeyError(self._unknown(index))
            self.__dict__[index] = value
            return
        fields = tree.fields_of(value)
        if fields is not None:
            missing = self.__dict__.keys() - fields.keys()
            if missing:
                raise DataError(f"{type(self).__name__}: the value lacks {sorted(missing)}")
            tree.assign(self, index, value, absent="keep")
        else:
            tree.assign(self, index, tree.map_leaves(lambda _: value, self), absent="keep")

    @classmethod
    def has_fields(cls, names: Iterable[str]) -> bool:
        """Say whether the declared fields are these (in any order); a class without a declaration takes any."""
        return cls._template is None or set(cls._template) == set(names)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields, in the order in which they were declared."""
        return tuple(self.__dict__)

    def length(self, dim: int = 0) -> int:
        """Return the size of axis `dim` of the first field that is an array (nested records do not count).

        Raises:
            IndexError: no field is an array with such an axis.
        """
        for value in self.__dict__.values():
            if isinstance(value, np.ndarray | torch.Tensor) and -value.ndim <= dim < value.ndim:
                return int(value.shape[dim])
        raise IndexError(f"no field of {type(self).__name__} is an array with axis {dim}")

    # Metadata travels with pickles and `dumps`, not with slices, `recursive_apply` and `recursive_aggregate`.

    @property
    def metadata(self) -> Mapping[str, object]:
        """What was registered, read-only."""
        return MappingProxyType(self._meta())

    def register_metadata(self, /, **metadata: object) -> None:
        """Attach values that are no arrays.

        Raises:
            DataError: a name is that of a field.
        """
        clash = metadata.keys() & self.__dict__.keys()
        if clash:
            raise DataError(f"metadata {sorted(clash)} would have the names of fields")
        object.__setattr__(self, "_metadata", self._meta() | metadata)

    def pop_metadata(self, name: str) -> object:
        """Remove one entry and return it; KeyError where there is none."""
        metadata = dict(self._meta())
        value = metadata.pop(name)
        object.__setattr__(self, "_metadata", metadata)
        return value

    def clear_metadata(self) -> None:
        """Remove all of it."""
        object.__setattr__(self, "_metadata", {})

    def _meta(self) -> dict[str, object]:
        try:
            return self._metadata or {}
        except AttributeError:
            return {}

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Give plain arrays as bare buffers: numpy's own way of pickling takes three times as long for each."""
        if operator.index(protocol) < 5:
            return _restore, (type(self), self.__dict__, self._meta())
        layout: list[tuple[str, str | None, object]] = []
        buffers = []
        for name, value in self.__dict__.items():
            if type(value) is np.ndarray and value.dtype.kind in tree.NUMERIC and value.flags.c_contiguous:
                layout.append((name, value.dtype.str, value.shape))
                buffers.append(pickle.PickleBuffer(value.data))
            else:
                layout.append((name, None, value))
        return _restore_arrays, (type(self), self._meta(), layout, *buffers)

    # Statistics of one field, e.g. of the policy's version, for reports of staleness.

    def unique_of(self, field: str, exclude: Iterable[float] = ()) -> list[Any]:
        """Return the sorted distinct values of a field, without those to `exclude`."""
        excluded = set(exclude)
        return [value for value in np.unique(self._values_of(field)).tolist() if value not in excluded]

    def average_of(self, field: str, ignore_negative: bool = True) -> float | None:
        """Return the mean of a field; None where there is nothing to average."""
        return self._reduce_of(field, np.mean, ignore_negative)

    def max_of(self, field: str, ignore_negative: bool = True) -> float | None:
        """Return the largest value of a field; None where there is none."""
        return self._reduce_of(field, np.max, ignore_negative)

    def min_of(self, field: str, ignore_negative: bool = True) -> float | None:
        """Return the smallest value of a field; None where there is none."""
        return self._reduce_of(field, np.min, ignore_negative)

    def _reduce_of(self, field: str, fn: Callable[[np.ndarray], Any], ignore_negative: bool) -> float | None:
        values = self._values_of(field)
        if ignore_negative:
            values = values[values >= 0]
        return float(fn(values)) if values.size else None

    def _values_of(self, field: str) -> np.ndarray:
        value = self[field]
        return np.empty(0) if value is None else np.asarray(tree.host(value))


@dataclass_transform()
def namedarray(cls: ClassT) -> ClassT:
    """Make the annotated names of a `NamedArray` subclass its fields, with their defaults; a decorator.

    Raises:
        DataError: the class is no `NamedArray`, or a field has the name of a method.
    """
    if not issubclass(cls, NamedArray):
        raise DataError(f"@namedarray is for subclasses of NamedArray: write class {cls.__name__}(NamedArray)")
    template = dict(cls._template or {})
    for name, annotation in inspect.get_annotations(cls).items():
        if "ClassVar" in str(annotation):
            continue
        if name.startswith("_") or hasattr(NamedArray, name):
            raise DataError(f"{cls.__name__}: no field can be called {name!r}, NamedArray uses that name")
        template[name] = cls.__dict__.get(name, _REQUIRED)
        if name in cls.__dict__:
            delattr(cls, name)
    cls._template = template
    CLASSES[f"{cls.__module__}.{cls.__qualname__}"] = cls
    return cls


def _restore(cls: type[NamedArray], fields: tree.Fields, metadata: dict[str, object]) -> NamedArray:
    new = object.__new__(cls)
    new.__dict__.update(fields)
    if metadata:
        object.__setattr__(new, "_metadata", metadata)
    return new


def _restore_arrays(
    cls: type[NamedArray],
    metadata: dict[str, object],
    layout: list[tuple[str, str | None, Any]],
    *buffers: bytes | bytearray | memoryview,
) -> NamedArray:
    """Make a record of buffers and, where the type is None, of values as they are."""
    left = iter(buffers)
    fields = {name: shape if kind is None else np.ndarray(shape, kind, next(left)) for name, kind, shape in layout}
    return _restore(cls, fields, metadata)


def recursive_apply(x: TreeT, fn: Callable[[Any], object]) -> TreeT:
    """Apply `fn` to every array at any depth; None stays None."""
    return tree.map_leaves(fn, x)


def recursive_aggregate(xs: Sequence[object], fn: Callable[[list[Any]], object]) -> NamedArray:
    """Join several records field by field: `fn` gets the list of one field's arrays (e.g. `np.stack`).

    None among arrays counts as zeros; a field that is None in all of them stays None.

    Raises:
        DataError: `fn` failed on a field, which the message names, or `xs` is empty.
    """
    if not xs:
        raise DataError("there is nothing to aggregate: the list is empty")
    return join.aggregate(xs, fn, like=NamedArray())


def from_dict(values: Mapping[str, Any]) -> NamedArray | None:
    """Make a record of nested dicts; an empty dict becomes None."""
    if not values:
        return None
    return NamedArray(**{k: from_dict(v) if isinstance(v, Mapping) else v for k, v in values.items()})


def array_like(x: TreeT, value: float = 0) -> TreeT:
    """Return a record of the same shapes and types, filled with `value`."""
    return tree.fill(x, value)


def flatten(x: object) -> list[tuple[str, Any]]:
    """Return [("a.b", array), ...], None fields included."""
    return list(tree.leaves(x))


def from_flattened(pairs: Iterable[tuple[str, Any]]) -> NamedArray:
    """Undo `flatten`."""
    return from_dict(tree.unflatten({tuple(path.split(".")): value for path, value in pairs})) or NamedArray()
