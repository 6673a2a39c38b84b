"""Fields of a buffer: one column or a fixed tree of columns, checked before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import torch

from argosy.data.buffer.leaf import Array, DeviceLeaf, Leaf, MappedLeaf, as_array
from argosy.data.buffer.rings import IntArray
from argosy.data.tree import fields_of
from argosy.errors import ConfigError, DataError

Path: TypeAlias = tuple[str, ...]
Tree: TypeAlias = "Array | dict[str, Tree]"
LeafMaker: TypeAlias = Callable[[str, tuple[int, ...], "np.dtype[Any]", int], Leaf]


def leaf_maker(device: str | None, storage_dir: str | PathLike[str] | None) -> LeafMaker:
    """Return what makes the columns of a buffer: in host memory, on a device, or in files.

    Raises:
        ConfigError: both are given, or there is no such device.
    """
    if device is not None and storage_dir is not None:
        raise ConfigError(f"device is {device!r} and storage_dir {str(storage_dir)!r}; choose one of them")
    if device is not None:
        try:
            torch.empty(0, device=device)
        except (AssertionError, RuntimeError) as error:
            raise ConfigError(f"device is {str(device)!r}, which cannot be used: {error}") from error
        return partial(DeviceLeaf, device=str(device))
    return Leaf if storage_dir is None else partial(MappedLeaf, directory=str(storage_dir))


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


def read_columns(value: object, name: str) -> Tree:
    """Return recorded columns (arrays, tensors, HDF5 datasets or groups, nested containers) as nested dicts of arrays.

    Raises:
        DataError: names the field that cannot be stored.
    """
    fields = fields_of(value)
    if fields is None and isinstance(value, Mapping):  # an HDF5 group
        fields = dict(value)
    if fields is not None:
        return {key: read_columns(child, f"{name}.{key}") for key, child in fields.items()}
    read: Any = value
    return as_array(read[()] if hasattr(read, "file") else read, name)  # an HDF5 dataset is read whole


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

    def declare_like(self, value: object, lift: bool, dtype: np.dtype[Any] | None = None) -> None:
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
            self.declare(path, shape, dtype or array.dtype)

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
        if not self.leaves:
            return {}
        return unflatten({path: leaf.take(index) for path, leaf in self.leaves.items()})
