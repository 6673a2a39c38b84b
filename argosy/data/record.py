"""What `Batch` and `NamedArray` have in common: access, indexing, arithmetic, comparison, printing."""

from __future__ import annotations

import operator
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from numbers import Number
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import torch

from argosy.data import tree
from argosy.errors import nearest

_ndarray = np.ndarray


class Record(tree.Node):
    """Fields by attribute and by key; numpy's indexing along the first axes, applied to every field."""

    if not TYPE_CHECKING:  # a type checker shall know the fields of a NamedArray; those of a Batch it cannot

        def __getattr__(self, name: str) -> Any:
            """Refuse what is neither field nor method, naming the nearest field."""
            if name[0] == "_":
                raise AttributeError(name)
            raise AttributeError(self._unknown(name), name=name, obj=self)

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__

    def keys(self) -> KeysView[str]:
        """Return the names of the fields."""
        return self.__dict__.keys()

    def values(self) -> ValuesView[Any]:
        """Return the values of the fields."""
        return self.__dict__.values()

    def items(self) -> ItemsView[str, Any]:
        """Return (name, value) pairs."""
        return self.__dict__.items()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or `default` where there is none of that name."""
        return self.__dict__.get(name, default)

    def to_dict(self) -> tree.Fields:
        """Return nested plain dicts that share the arrays."""
        return _plain(self.__dict__)

    @overload
    def __getitem__(self, index: str) -> Any: ...
    @overload
    def __getitem__(self, index: object) -> Self: ...
    def __getitem__(self, index: object) -> Any:
        if type(index) is str:
            try:
                return self.__dict__[index]
            except KeyError:
                raise KeyError(self._unknown(index)) from None
        fields = self.__dict__
        if not fields:
            raise IndexError(f"an empty {type(self).__name__} cannot be indexed")
        new = object.__new__(type(self))
        into = new.__dict__
        at: Any = index
        try:  # tree.index without its detours: rollouts are sliced often, and are mostly arrays
            for name, value in fields.items():
                into[name] = value[at] if type(value) is _ndarray else tree.index(value, at)
        except (IndexError, TypeError):
            return tree.index(self, index)  # names the field
        return new

    def __len__(self) -> int:
        """Return the smallest size of a first axis; empty nodes and None do not count.

        Raises:
            TypeError: there is no array, or a field has no first axis.
        """
        size = tree.length(self)
        if size is None:
            raise TypeError(f"a {type(self).__name__} without arrays has no len()")
        return size

    def __iter__(self) -> Iterator[Self]:
        """Iterate over rows; over nothing where there are none to be had (no len)."""
        try:
            size = len(self)
        except TypeError:
            return
        for i in range(size):
            yield self[i]

    @property
    def shape(self) -> list[int]:
        """The smallest size per axis that all fields have."""
        return tree.common_shape(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and tree.equal(self, other)

    __hash__ = None  # type: ignore[assignment]  # mutable and compared by value, like list and dict

    def __copy__(self) -> Self:
        return tree.map_leaves(lambda leaf: leaf, self)

    def copy(self) -> Self:
        """Return new containers that share the arrays (`copy.deepcopy` copies those too)."""
        return self.__copy__()

    def __add__(self, other: object) -> Self:
        return self._combine(other, operator.add)

    def __sub__(self, other: object) -> Self:
        return self._combine(other, operator.sub)

    def __mul__(self, other: object) -> Self:
        return self._combine(other, operator.mul)

    def __truediv__(self, other: object) -> Self:
        return self._combine(other, operator.truediv)

    def __iadd__(self, other: object) -> Self:
        return self._combine(other, operator.iadd, in_place=True)

    def __isub__(self, other: object) -> Self:
        return self._combine(other, operator.isub, in_place=True)

    def __imul__(self, other: object) -> Self:
        return self._combine(other, operator.imul, in_place=True)

    def __itruediv__(self, other: object) -> Self:
        return self._combine(other, operator.itruediv, in_place=True)

    def _combine(self, other: object, op: Callable[[Any, Any], Any], *, in_place: bool = False) -> Self:
        """Apply `op` field by field with a number, an array or a record of the same fields (matched by name)."""
        if not isinstance(other, Record | Number | np.generic | np.ndarray | torch.Tensor):
            raise TypeError(
                f"{type(self).__name__} and {type(other).__name__}: numbers, arrays and records combine with it"
            )
        combined: Self = _combine(self, other, op, in_place)
        return combined

    def _unknown(self, name: str) -> str:
        fields = self.__dict__
        hint = nearest(name, fields) if fields else "it is empty"
        return f"{type(self).__name__} has no field {name!r}; {hint}"

    def __repr__(self) -> str:
        if not self.__dict__:
            return f"{type(self).__name__}()"
        lines = []
        for name, value in self.__dict__.items():
            text = repr(value).replace("\n", "\n" + " " * (len(name) + 6))
            lines.append(f"    {name}: {text},\n")
        return f"{type(self).__name__}(\n{''.join(lines)})"


def _plain(fields: tree.Fields) -> tree.Fields:
    nested = {name: tree.fields_of(value) for name, value in fields.items()}
    return {name: fields[name] if inner is None else _plain(inner) for name, inner in nested.items()}


def _combine(left: Any, right: Any, op: Callable[[Any, Any], Any], in_place: bool) -> Any:
    fields, other = tree.fields_of(left), tree.fields_of(right)
    if fields is None:
        if left is None and other is None:
            return None
        if isinstance(left, torch.Tensor) and isinstance(right, np.ndarray):
            right = torch.as_tensor(right, device=left.device)
        elif isinstance(left, np.ndarray) and isinstance(right, torch.Tensor):
            right = tree.host(right)
        try:
            return op(left, right)
        except (TypeError, ValueError) as error:
            raise tree.FieldError("", f"({tree.describe(left)}): {error}") from error
    if other is not None and other.keys() != fields.keys():
        raise tree.FieldError("", f"needs the same fields on both sides, got {list(fields)} and {list(other)}")
    new = {}
    for key, value in fields.items():
        try:
            new[key] = _combine(value, right if other is None else other[key], op, in_place)
        except tree.FieldError as error:
            raise error.within(key) from error.__cause__
    if in_place:
        fields.update(new)
        return left
    return tree.rebuild(left, new)
