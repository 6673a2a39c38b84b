"""Typed columns of a buffer: checked before anything is written, gathered with one look-up per column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from argosy.data.buffer.rings import IntArray
from argosy.data.tree import fields_of
from argosy.errors import DataError

Array: TypeAlias = npt.NDArray[Any]
Path: TypeAlias = tuple[str, ...]
Tree: TypeAlias = "Array | dict[str, Tree]"
LeafMaker: TypeAlias = "Callable[[str, tuple[int, ...], np.dtype[Any], int], Leaf]"


def as_array(value: object, name: str) -> Array:
    """Return `value` as a numpy array of numbers or booleans.

    Raises:
        DataError: names the field when it is ragged or holds objects or strings.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if not isinstance(value, np.ndarray):
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise DataError(f"{name} is ragged ({error}); every row must have the same shape") from error
    if value.dtype.kind not in "biufc":
        raise DataError(f"{name} has dtype {value.dtype}; a buffer stores numbers and booleans only")
    return value


def flatten(value: object, path: Path = ()) -> dict[Path, object]:
    """Return the leaves of a nested container (dict, Batch, named array) by their path; None holds no leaf."""
    if value is None:
        return {}
    fields = fields_of(value)
    if fields is None:
        return {path: value}
    found: dict[Path, object] = {}
    for key, child in fields.items():
        found.update(flatten(child, (*path, key)))
    return found


def unflatten(leaves: dict[Path, Array]) -> Tree:
    """Return the inverse of `flatten`."""
    if () in leaves:
        return leaves[()]
    tree: dict[str, Any] = {}
    for path, value in leaves.items():
        node = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = value
    return tree


class Leaf:
    """One contiguous array [slots, *shape] in host memory."""

    __slots__ = ("data", "dtype", "name", "shape")

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], slots: int) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self.data: Array = np.zeros((slots, *shape), dtype)

    def check(self, value: object, rows: int, lift: bool = False) -> Array:
        """Return `value` as an array [rows, *shape] that can be written; `lift` adds the leading axis.

        Raises:
            DataError: names the field, what came and what the schema asks for.
        """
        array = value if type(value) is np.ndarray and value.dtype is self.dtype else as_array(value, self.name)
        if lift:
            array = array[None]
        if array.shape[1:] != self.shape or len(array) != rows:
            raise DataError(f"{self.name} has shape {array.shape}; the buffer stores {(rows, *self.shape)} here")
        if array.dtype != self.dtype and not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise DataError(f"{self.name} has dtype {array.dtype}; the buffer stores {self.dtype}")
        return array

    def put(self, index: IntArray, value: Array | int) -> None:
        """Write rows."""
        self.data[index] = value

    def take(self, index: IntArray) -> Array:
        """Return a copy of the rows at `index` of any shape: [*index.shape, *shape]."""
        return self.data.take(index, axis=0) if self.shape else self.data[index]

    def grow(self, slots: int) -> None:
        """Append zero rows."""
        self.data = np.concatenate([self.data, np.zeros((slots - len(self.data), *self.shape), self.dtype)])


Plan: TypeAlias = "list[tuple[Leaf, Array | int]]"
"""Checked writes: a column and its new rows (0: fill)."""


class Field:
    """One field of the transitions: a leaf, or a fixed tree of leaves.

    An `optional` field may be absent or miss leaves at any time: leaves are added when they first come, and rows
    without them hold zero.
    """

    def __init__(self, name: str, slots: int, make_leaf: LeafMaker, optional: bool = False) -> None:
        self.name, self.slots, self.make_leaf, self.optional = name, slots, make_leaf, optional
        self.leaves: dict[Path, Leaf] = {}
        self.plain: Leaf | None = None

    def declare(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Leaf:
        """Allocate one leaf."""
        leaf = self.make_leaf(".".join((self.name, *path)), shape, dtype, self.slots)
        self.leaves[path] = leaf
        if path == ():
            self.plain = leaf
        return leaf

    def declare_like(self, value: object, lift: bool, dtype: npt.DTypeLike = None) -> None:
        """Allocate what the first value needs, in the `dtype` given or its own.

        Raises:
            DataError: the value is missing, ragged or of a dtype that cannot be stored.
        """
        flat = flatten(value)
        if not flat:
            raise DataError(f"{self.name} is missing or empty; a buffer needs it in every row")
        for path, item in flat.items():
            array = as_array(item, ".".join((self.name, *path)))
            if array.ndim == 0 and not lift:
                raise DataError(f"{'.'.join((self.name, *path))} is a single number; it must have one row per env")
            shape = array.shape if lift else array.shape[1:]
            self.declare(path, shape, np.dtype(dtype) if dtype is not None else array.dtype)

    def check(self, value: object, rows: int, lift: bool, plan: Plan) -> None:
        """Append to `plan` what has to be written; raises DataError before anything is."""
        if self.plain is not None and not self.optional:
            plan.append((self.plain, self.plain.check(value, rows, lift)))
            return
        flat = flatten(value)
        if self.optional:
            for path in flat.keys() - self.leaves.keys():
                array = as_array(flat[path], ".".join((self.name, *path)))
                self.declare(path, array.shape if lift else array.shape[1:], array.dtype)
        elif flat.keys() != self.leaves.keys():
            known, came = sorted(map(".".join, self.leaves)), sorted(map(".".join, flat))
            raise DataError(f"{self.name} has the keys {came}; the buffer stores {known}")
        for path, leaf in self.leaves.items():
            plan.append((leaf, leaf.check(flat[path], rows, lift) if path in flat else 0))

    def grow(self, slots: int) -> None:
        """Append zero rows."""
        self.slots = slots
        for leaf in self.leaves.values():
            leaf.grow(slots)

    def take(self, index: IntArray) -> Tree:
        """Gather the rows at `index`."""
        if self.plain is not None:
            return self.plain.take(index)
        return unflatten({path: leaf.take(index) for path, leaf in self.leaves.items()})
