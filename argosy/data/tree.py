"""Functions over trees of arrays: nested dicts, `Batch`es and `NamedArray`s with arrays or tensors as leaves.

A node is a `dict` or a `Node`; everything else is a leaf. `None` is a leaf that stands for "absent".
Both `Batch` and `NamedArray` are built on these functions, so that one rule holds for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

import numpy as np
import torch

from argosy.errors import DataError, nearest

TreeT = TypeVar("TreeT")
Fields = dict[str, Any]
ABSENT: Final[Any] = type("Absent", (), {"__repr__": lambda _: "(absent)"})()
"""Stands in `join` for a field that one of the trees has not."""
NUMERIC: Final = frozenset("biufc")
"""Kinds of numpy dtypes (`dtype.kind`) that hold numbers or bools."""


class Node:
    """A container whose fields are its instance dictionary."""


def fields_of(tree: object) -> Fields | None:
    """Return the fields of a node (not a copy), None for a leaf."""
    if isinstance(tree, Node):
        return tree.__dict__
    return tree if isinstance(tree, dict) else None


def rebuild(like: TreeT, fields: Fields) -> TreeT:
    """Make a node of the kind of `like` that holds `fields`, without parsing or checking them."""
    if isinstance(like, Node):
        new = object.__new__(type(like))
        new.__dict__.update(fields)
        return new
    return fields  # type: ignore[return-value]  # a dict is rebuilt as a dict


def map_leaves(fn: Callable[[Any], object], tree: TreeT, *, name: str = "") -> TreeT:
    """Apply `fn` to every leaf but None; the containers are new.

    Raises:
        DataError: `fn` raised a TypeError or ValueError; names the field.
    """
    fields = fields_of(tree)
    if fields is not None:
        return rebuild(tree, {key: map_leaves(fn, value, name=f"{name}.{key}") for key, value in fields.items()})
    if tree is None:
        return tree
    try:
        return fn(tree)  # type: ignore[return-value]  # a leaf: its type is what fn makes of it
    except (TypeError, ValueError) as error:
        raise DataError(f"field {name[1:] or '(the array itself)'}: {error}") from error


def leaves(tree: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf (None too) with its dotted path, e.g. ("obs.image", array)."""
    fields = fields_of(tree)
    if fields is None:
        yield name, tree
        return
    for key, value in fields.items():
        yield from leaves(value, f"{name}.{key}" if name else key)


def index(tree: TreeT, at: Any) -> TreeT:
    """Index every leaf along its first axes; None stays None, empty nodes stay empty.

    Raises:
        IndexError: a leaf cannot be indexed so; names the field.
    """
    fields = fields_of(tree)
    if fields is None:
        return None if tree is None else tree[at]  # type: ignore[return-value, index]  # an array or a tensor
    try:
        return rebuild(
            tree,
            {k: v[at] if type(v) is np.ndarray else index(v, at) for k, v in fields.items()},
        )
    except (IndexError, TypeError) as error:
        for key, value in fields.items():
            _check_index(key, value, at, error)
        raise


def _check_index(key: str, value: object, at: object, error: Exception) -> None:
    """Raise the IndexError that names the field where `error` came from."""
    if isinstance(value, Node | dict):
        index(value, at)
        return
    try:
        index(value, at)
    except (IndexError, TypeError):
        raise IndexError(f"field {key!r} of shape {_shape(value)}: {error}") from error


def assign(
    tree: object, at: object, value: object, *, absent: Literal["zero", "keep"] = "zero", name: str = ""
) -> None:
    """Write `value` (a tree of the same fields) into `tree` at an index along the first axes.

    A field that is missing or None in `value` becomes zero there ("zero": numbers 0, bool False, objects None)
    or is left alone ("keep"). Names are checked before anything is written.

    Raises:
        DataError: `value` has a field that `tree` has not, or a node where `tree` has an array, or the reverse.
    """
    _check_assignable(tree, value, name)
    _assign(tree, at, value, absent, name)


def _check_assignable(tree: object, value: object, name: str) -> None:
    target, source = fields_of(tree), fields_of(value)
    if target is None or source is None:
        if (source is not None and source) or (target and value is not None):
            raise DataError(f"field {name or '(top)'}: cannot assign {_kind(value)} to {_kind(tree)}")
        if tree is None and value is not None:
            raise DataError(f"field {name}: cannot assign into None")
        return
    for key, part in source.items():
        path = f"{name}.{key}" if name else key
        if key not in target:
            hint = nearest(key, target) if target else "there is none"
            raise DataError(f"field {path!r} does not exist and item assignment creates none; {hint}")
        _check_assignable(target[key], part, path)


def _assign(tree: object, at: Any, value: object, absent: Literal["zero", "keep"], name: str) -> None:
    target, source = fields_of(tree), fields_of(value)
    if target is not None:
        for key, part in target.items():
            _assign(part, at, None if source is None else source.get(key), absent, f"{name}.{key}" if name else key)
        return
    if value is None or source is not None:
        if absent == "keep" or tree is None:
            return
        value = None if isinstance(tree, np.ndarray) and tree.dtype.kind not in NUMERIC else 0
    try:
        if isinstance(tree, np.ndarray):
            tree[at] = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
        elif isinstance(tree, torch.Tensor):
            tree[at] = torch.as_tensor(value, dtype=tree.dtype, device=tree.device)
        else:
            raise DataError(f"field {name!r} is {_kind(tree)}, which has no items to assign")
    except (TypeError, ValueError) as error:
        raise DataError(f"field {name!r} of shape {_shape(tree)} cannot take {_kind(value)}: {error}") from error


def fill(tree: TreeT, value: float = 0) -> TreeT:
    """Return a new tree of the same structure whose arrays hold `value` (objects: None)."""
    return map_leaves(lambda leaf: _filled(leaf, value), tree)


def _filled(leaf: object, value: float) -> object:
    if isinstance(leaf, torch.Tensor):
        return torch.full_like(leaf, value)
    if isinstance(leaf, np.ndarray | np.generic | int | float | complex):
        array = np.asanyarray(leaf)
        return np.full_like(array, value if array.dtype.kind in NUMERIC else None)
    return None


def size_bytes(tree: object) -> int:
    """Add up the bytes of all arrays and tensors."""
    return sum(int(leaf.nbytes) for _, leaf in leaves(tree) if isinstance(leaf, np.ndarray | torch.Tensor | np.generic))


def length(tree: object) -> int | None:
    """Return the smallest size of a first axis over all leaves; None where there is no leaf (None does not count).

    Raises:
        TypeError: a leaf has no first axis; names the field.
    """
    smallest: int | None = None
    for name, leaf in leaves(tree):
        if leaf is None or isinstance(leaf, Node | dict):
            continue
        shape = getattr(leaf, "shape", ())
        if not shape:
            raise TypeError(f"field {name!r} is {_kind(leaf)} and has no len()")
        if smallest is None or shape[0] < smallest:
            smallest = int(shape[0])
    return smallest


def common_shape(tree: object) -> list[int]:
    """Return, per axis that all leaves have, the smallest size; [] where a node is empty or a leaf has no axes."""
    fields = fields_of(tree)
    if fields is None:
        return list(_shape(tree))
    shapes = [common_shape(value) for value in fields.values() if value is not None]
    return [min(sizes) for sizes in zip(*shapes, strict=False)]


def equal(a: object, b: object) -> bool:
    """Compare structure, shapes and values (NaN equals NaN); arrays and tensors of equal values are equal."""
    left, right = fields_of(a), fields_of(b)
    if left is not None and right is not None:
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if left is not None or right is not None:
        return False
    if not isinstance(a, np.ndarray | torch.Tensor | np.generic) or not isinstance(
        b, np.ndarray | torch.Tensor | np.generic
    ):
        return bool(a is b or a == b)
    x, y = (leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf) for leaf in (a, b))
    if x.shape != y.shape:
        return False
    if x.dtype.kind in "OUS" or y.dtype.kind in "OUS":
        return all(equal(p, q) for p, q in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True))
    return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc" and y.dtype.kind in "fc"))


# Joining several trees into one.

Join = Callable[[list[Any], str], object]


def join(trees: Sequence[object], leaf: Join, *, like: TreeT, name: str = "") -> TreeT:
    """Join trees field by field over the union of their fields.

    `leaf(values, path)` joins one field; a tree that lacks it, or holds an empty node there, gives ABSENT.

    Raises:
        DataError: a field is a node in one tree and an array in another.
    """
    tables = [fields_of(tree) or {} for tree in trees]
    joined: Fields = {}
    for key in dict.fromkeys(key for table in tables for key in table):
        path = f"{name}.{key}" if name else key
        values = [table.get(key, ABSENT) for table in tables]
        nodes = [value for value in values if isinstance(value, Node | dict)]
        arrays = [value for value in values if value is not ABSENT and value is not None and fields_of(value) is None]
        full = [node for node in nodes if fields_of(node)]
        if full and arrays:
            raise DataError(f"field {path!r} is {_kind(full[0])} in one part and {_kind(arrays[0])} in another")
        if nodes and not arrays:
            joined[key] = join(values, leaf, like=(full or nodes)[0], name=path)
        else:
            joined[key] = leaf([ABSENT if isinstance(value, Node | dict) else value for value in values], path)
    return rebuild(like, joined)


def _first_array(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None and value is not ABSENT), None)


def stack(trees: Sequence[object], *, axis: int = 0, like: TreeT) -> TreeT:
    """Stack trees along a new axis; what one of them lacks is zero there (objects: None), with axis 0 only.

    A None that a tree holds is kept, so numbers beside it become an array of objects; so do leaves of unequal shapes.
    """

    def leaf(values: list[Any], path: str) -> object:
        if any(value is ABSENT for value in values):
            if axis != 0:
                raise DataError(f"field {path!r} is missing in some parts: they can be stacked along axis 0 only")
            zero = _filled(_first_array(values), 0)
            values = [zero if value is ABSENT else value for value in values]
        return stack_leaves(values, axis, path)

    return join(trees, leaf, like=like)


def stack_leaves(values: Sequence[Any], axis: int = 0, name: str = "") -> np.ndarray | torch.Tensor:
    """Stack arrays, tensors or objects; unequal shapes become a 1-d array of objects.

    Raises:
        DataError: shapes differ and `axis` is not 0, or they are tensors.
    """
    if all(isinstance(value, torch.Tensor) for value in values):
        try:
            return torch.stack(list(values), axis)
        except RuntimeError as error:
            raise DataError(f"field {name!r}: tensors of unequal shapes cannot be stacked ({error})") from error
    if any(isinstance(value, torch.Tensor) for value in values):
        values = [value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value for value in values]
    arrays = [as_array(value) for value in values]
    if all(array.shape == arrays[0].shape for array in arrays):
        return np.stack(arrays, axis)
    if axis != 0:
        raise DataError(f"field {name!r}: unequal shapes {[a.shape for a in arrays]} can be stacked along axis 0 only")
    return object_array(values)


def cat(trees: Sequence[object], *, like: TreeT) -> TreeT:
    """Concatenate trees along axis 0; what one of them lacks is zero there (objects: None). Empty trees do not count.

    Raises:
        DataError: a leaf has no first axis, or the other axes differ; names the field.
    """
    trees = [tree for tree in trees if fields_of(tree)]
    sizes: list[int] | None = None

    def leaf(values: list[Any], path: str) -> object:
        nonlocal sizes
        first = _first_array(values)
        if first is None:
            return None
        lacks = any(value is None or value is ABSENT for value in values)
        if lacks and sizes is None:
            sizes = [length(tree) or 0 for tree in trees]
        for i, value in enumerate(values):
            if sizes is not None and (value is None or value is ABSENT):
                values[i] = _rows(first, sizes[i], path)
            elif not _shape(value):
                raise DataError(f"field {path!r} is {_kind(value)}: only arrays with a first axis can be concatenated")
        try:
            if all(isinstance(value, torch.Tensor) for value in values):
                return torch.cat(values)
            return np.concatenate([v.detach().cpu().numpy() if isinstance(v, torch.Tensor) else v for v in values])
        except (RuntimeError, ValueError) as error:
            raise DataError(f"field {path!r}: shapes {[_shape(v) for v in values]} do not fit ({error})") from error

    return join(trees, leaf, like=like)


def aggregate(trees: Sequence[object], fn: Callable[[list[Any]], object], *, like: TreeT) -> TreeT:
    """Join every field by `fn(list of leaves)`; None among arrays counts as zeros, None in all stays None.

    Raises:
        DataError: `fn` raised; names the field.
    """

    def leaf(values: list[Any], path: str) -> object:
        first = _first_array(values)
        if first is None:
            return None
        values = [_filled(first, 0) if value is None or value is ABSENT else value for value in values]
        try:
            return fn(values)
        except (RuntimeError, TypeError, ValueError) as error:
            raise DataError(f"field {path!r}: shapes {[_shape(v) for v in values]}: {error}") from error

    return join(trees, leaf, like=like)


def _rows(like: np.ndarray | torch.Tensor, count: int, name: str) -> np.ndarray | torch.Tensor:
    """Return `count` rows of zeros (objects: None) that fit under `like`."""
    if not _shape(like):
        raise DataError(f"field {name!r} is {_kind(like)}: only arrays with a first axis can be concatenated")
    if isinstance(like, torch.Tensor):
        return like.new_zeros((count, *like.shape[1:]))
    shape = (count, *like.shape[1:])
    return np.zeros(shape, like.dtype) if like.dtype.kind in NUMERIC else np.full(shape, None, dtype=object)


def as_array(value: object) -> np.ndarray:
    """Make an array of numbers, or of objects where numpy would make text or fail on ragged input."""
    if isinstance(value, np.ndarray) and value.dtype.kind in NUMERIC:
        return value
    if isinstance(value, Node | dict):
        return object_array([value]).reshape(())
    try:
        array = np.asanyarray(value)
    except ValueError:  # ragged
        return object_array(value)  # type: ignore[arg-type]  # only sequences are ragged
    if array.dtype.kind in NUMERIC or array.dtype.kind == "O":
        return array
    return np.asanyarray(value, dtype=object)


def object_array(values: Sequence[object]) -> np.ndarray:
    """Make a 1-d array of objects, whatever the objects are."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def _shape(leaf: object) -> tuple[int, ...]:
    return tuple(getattr(leaf, "shape", ()))


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray | torch.Tensor):
        return f"{type(value).__name__} of shape {_shape(value)} and type {value.dtype}"
    return f"{type(value).__name__} {value!r:.60}" if fields_of(value) is None else type(value).__name__
