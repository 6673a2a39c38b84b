"""Several trees of arrays into one: stack, concatenate, or join by any function, over the union of their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import torch

from argosy.data.tree import (
    NUMERIC,
    FieldError,
    Fields,
    Node,
    as_array,
    describe,
    fields_of,
    filled,
    host,
    length,
    object_array,
    rebuild,
    shape_of,
)

TreeT = TypeVar("TreeT")

ABSENT: Final[Any] = type("Absent", (), {"__repr__": lambda _: "(absent)"})()
"""Stands for a field that one of the trees has not."""


def join(trees: Sequence[object], leaf: Callable[[list[Any]], object], *, like: TreeT) -> TreeT:
    """Join trees field by field.

    `leaf(values)` joins one field; a tree that lacks it, or holds an empty node there, gives ABSENT.
    """
    tables = [fields_of(tree) or {} for tree in trees]
    joined: Fields = {}
    for key in dict.fromkeys(key for table in tables for key in table):
        values = [table.get(key, ABSENT) for table in tables]
        nodes = [value for value in values if isinstance(value, Node | dict)]
        try:
            if not nodes:
                joined[key] = leaf(values)
                continue
            arrays = [v for v in values if v is not ABSENT and v is not None and not isinstance(v, Node | dict)]
            full = [node for node in nodes if fields_of(node)]
            if full and arrays:
                raise FieldError("", f"is {describe(full[0])} in one part and {describe(arrays[0])} in another")
            if arrays:
                joined[key] = leaf([ABSENT if isinstance(value, Node | dict) else value for value in values])
            else:
                joined[key] = join(values, leaf, like=(full or nodes)[0])
        except FieldError as error:
            raise error.within(key) from error.__cause__
        except (RuntimeError, TypeError, ValueError) as error:
            raise FieldError(key, f"({', '.join(describe(value) for value in values)}): {error}") from error
    return rebuild(like, joined)


def _first_array(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None and value is not ABSENT), None)


def stack(trees: Sequence[object], *, axis: int = 0, like: TreeT) -> TreeT:
    """Stack trees along a new axis; what one of them lacks is zero there (objects: None), with axis 0 only.

    A None that a tree holds is kept, so numbers beside it become an array of objects; so do leaves of unequal shapes.
    """

    def leaf(values: list[Any]) -> object:
        if any(value is ABSENT for value in values):
            if axis != 0:
                raise FieldError("", "is missing in some parts: they can be stacked along axis 0 only")
            zero = filled(_first_array(values), 0)
            values = [zero if value is ABSENT else value for value in values]
        return stack_leaves(values, axis)

    return join(trees, leaf, like=like)


def stack_leaves(values: Sequence[Any], axis: int = 0) -> np.ndarray | torch.Tensor:
    """Stack arrays, tensors or objects; unequal shapes become a 1-d array of objects."""
    if all(isinstance(value, torch.Tensor) for value in values):
        try:
            return torch.stack(list(values), axis)
        except RuntimeError as error:
            raise FieldError("", f"has tensors that cannot be stacked: {error}") from error
    values = [host(value) for value in values]
    arrays = [as_array(value) for value in values]
    if all(array.shape == arrays[0].shape for array in arrays):
        return np.stack(arrays, axis)
    if axis != 0:
        raise FieldError("", f"has unequal shapes {[a.shape for a in arrays]}: they can be stacked along axis 0 only")
    return object_array(values)


def cat(trees: Sequence[object], *, like: TreeT) -> TreeT:
    """Concatenate trees along axis 0; what one of them lacks is zero there (objects: None). Empty trees are skipped."""
    trees = [tree for tree in trees if fields_of(tree)]
    sizes: list[int] = []  # rows of each tree, looked up when the first one lacks a field

    def leaf(values: list[Any]) -> object:
        first = _first_array(values)
        if first is None:
            return None
        for i, value in enumerate(values):
            if value is None or value is ABSENT:
                sizes[:] = sizes or [length(tree) or 0 for tree in trees]
                value = values[i] = _rows(first, sizes[i])
            if not shape_of(value):
                raise FieldError("", f"is {describe(value)}: only arrays with a first axis can be concatenated")
        if all(isinstance(value, torch.Tensor) for value in values):
            return torch.cat(values)
        return np.concatenate([host(value) for value in values])

    return join(trees, leaf, like=like)


def aggregate(trees: Sequence[object], fn: Callable[[list[Any]], object], *, like: TreeT) -> TreeT:
    """Join every field by `fn(list of leaves)`; None among arrays counts as zeros, None in all stays None."""

    def leaf(values: list[Any]) -> object:
        first = _first_array(values)
        if first is None:
            return None
        return fn([filled(first, 0) if value is None or value is ABSENT else value for value in values])

    return join(trees, leaf, like=like)


def _rows(like: object, count: int) -> object:
    """Return `count` rows of zeros (objects: None) that fit under `like`; `like` itself where it has no rows."""
    if isinstance(like, torch.Tensor) and like.ndim:
        return like.new_zeros((count, *like.shape[1:]))
    if isinstance(like, np.ndarray) and like.ndim:
        shape = (count, *like.shape[1:])
        return np.zeros(shape, like.dtype) if like.dtype.kind in NUMERIC else np.full(shape, None, dtype=object)
    return like
