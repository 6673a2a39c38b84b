"""Functions over trees of arrays: nested dicts, `Batch`es and `NamedArray`s with arrays or tensors as leaves.

A node is a `dict` or a `Node`; everything else is a leaf. `None` is a leaf that stands for "absent". What fails at a
field fails with a `FieldError`, which names it.
Both `Batch` and `NamedArray` are built on these functions and those of `join`, so that one rule holds for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
import torch

from argosy.errors import DataError, nearest

TreeT = TypeVar("TreeT")
Fields: TypeAlias = dict[str, Any]
"""Of a record: arrays, tensors, records and None, by name."""
State: TypeAlias = dict[str, Any]
"""What a part of a run is saved as: nested dicts and lists of arrays, tensors, numbers and text."""
Path: TypeAlias = tuple[str, ...]
"""Where in a tree: ("camera", "left") of {"camera": {"left": ...}}; () where it is a leaf itself."""
NUMERIC: Final = frozenset("biufc")
"""Kinds of numpy dtypes (`dtype.kind`) that hold numbers or bools."""

_ndarray = np.ndarray


class FieldError(DataError):
    """Something is wrong with one field; `path` says with which ("obs.image")."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{f'field {self.path!r}' if self.path else 'the record'} {self.reason}"

    def within(self, key: str) -> FieldError:
        """Return the same error as seen from the node that holds this one as its field `key`."""
        return FieldError(f"{key}.{self.path}" if self.path else key, self.reason)


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


def map_leaves(fn: Callable[[Any], object], tree: TreeT) -> TreeT:
    """Apply `fn` to every leaf but None; the containers are new."""
    fields = fields_of(tree)
    if fields is None:
        return tree if tree is None else fn(tree)  # type: ignore[return-value]  # a leaf becomes what fn makes of it
    mapped: Fields = {}
    for key, value in fields.items():
        try:
            mapped[key] = fn(value) if type(value) is _ndarray else map_leaves(fn, value)
        except FieldError as error:
            raise error.within(key) from error.__cause__
        except DataError as error:  # says itself what the value is
            raise FieldError(key, f"is wrong: {error}") from error
        except (TypeError, ValueError) as error:
            raise FieldError(key, f"({describe(value)}): {error}") from error
    return rebuild(tree, mapped)


def leaves(tree: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf (None too) with its dotted path, e.g. ("obs.image", array)."""
    fields = fields_of(tree)
    if fields is None:
        yield path, tree
        return
    for key, value in fields.items():
        yield from leaves(value, f"{path}.{key}" if path else key)


def flatten(tree: object, path: Path = ()) -> dict[Path, Any]:
    """Return the leaves by their keys, e.g. {("obs", "image"): array}; None holds none."""
    if tree is None:
        return {}
    fields = fields_of(tree)
    if fields is None:
        return {path: tree}
    found: dict[Path, Any] = {}
    for key, child in fields.items():
        found.update(flatten(child, (*path, key)))
    return found


def unflatten(leaves: Mapping[Path, Any]) -> Any:
    """Return the inverse of `flatten`, of dicts."""
    if () in leaves:
        return leaves[()]
    tree: Fields = {}
    for path, leaf in leaves.items():
        node = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = leaf
    return tree


def index(tree: TreeT, at: Any) -> TreeT:
    """Index every leaf along its first axes (IndexError names the field); None stays None, empty nodes stay empty."""
    fields = fields_of(tree)
    if fields is None:
        return None if tree is None else tree[at]  # type: ignore[return-value, index]  # an array or a tensor
    try:
        return rebuild(tree, {k: v[at] if type(v) is _ndarray else index(v, at) for k, v in fields.items()})
    except (IndexError, TypeError):
        for path, leaf in leaves(tree):
            try:
                index(leaf, at)
            except (IndexError, TypeError) as error:
                raise IndexError(f"field {path!r} ({describe(leaf)}): {error}") from error
        raise


def assign(tree: object, at: object, value: object, *, absent: Literal["zero", "keep"] = "zero") -> None:
    """Write `value` (a tree of the same fields) into `tree` at an index along the first axes.

    A field that is missing or None in `value` becomes zero there ("zero": numbers 0, bool False, objects None)
    or is left alone ("keep"). Names and kinds are checked before anything is written.

    Raises:
        FieldError: `value` has a field that `tree` has not, a node where `tree` has an array, or the reverse.
    """
    _check_assignable(tree, value)
    _assign(tree, at, value, absent)


def _check_assignable(tree: object, value: object) -> None:
    target, source = fields_of(tree), fields_of(value)
    if target is None or source is None:
        if source or (target and value is not None):
            raise FieldError("", f"is {describe(tree)} and cannot take {describe(value)}")
        if tree is None and value is not None:
            raise FieldError("", f"is None and cannot take {describe(value)}")
        return
    for key, part in source.items():
        if key not in target:
            hint = nearest(key, target) if target else "the target is empty"
            raise FieldError(key, f"does not exist, and item assignment creates none; {hint}")
        if type(part) is _ndarray and type(target[key]) is _ndarray:
            continue
        try:
            _check_assignable(target[key], part)
        except FieldError as error:
            raise error.within(key) from None


def _assign(tree: object, at: Any, value: object, absent: Literal["zero", "keep"]) -> None:
    target, source = fields_of(tree), fields_of(value)
    if target is not None:
        for key, part in target.items():
            new = None if source is None else source.get(key)
            try:
                if type(part) is _ndarray and isinstance(new, np.ndarray | np.generic):
                    part[at] = new
                else:
                    _assign(part, at, new, absent)
            except FieldError as error:
                raise error.within(key) from error.__cause__
            except (TypeError, RuntimeError, ValueError) as error:
                raise FieldError(key, f"({describe(part)}) cannot take {describe(new)}: {error}") from error
        return
    if value is None or source is not None:
        if absent == "keep" or tree is None:
            return
        value = None if isinstance(tree, np.ndarray) and tree.dtype.kind not in NUMERIC else 0
    if isinstance(tree, np.ndarray):
        tree[at] = host(value)
    elif isinstance(tree, torch.Tensor):
        tree[at] = torch.as_tensor(value, dtype=tree.dtype, device=tree.device)
    else:
        raise FieldError("", f"is {describe(tree)}, which has no items to assign")


def fill(tree: TreeT, value: float = 0) -> TreeT:
    """Return a new tree of the same structure whose arrays hold `value` (objects: None)."""
    return map_leaves(lambda leaf: filled(leaf, value), tree)


def filled(leaf: object, value: float) -> Any:
    """Return an array or tensor like `leaf` that holds `value`, None for what is no array or number."""
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
    for key, value in (fields_of(tree) or {}).items():
        if value is None:
            continue
        size: int | None
        if type(value) is _ndarray and value.ndim:
            size = value.shape[0]
        elif isinstance(value, Node | dict):
            size = length(value)
        elif shape_of(value):
            size = value.shape[0]
        else:
            raise TypeError(f"field {key!r} is {describe(value)}, which has no len()")
        if smallest is None or (size is not None and size < smallest):
            smallest = size
    return smallest


def common_shape(tree: object) -> list[int]:
    """Return, per axis that all leaves have, the smallest size; [] where a node is empty or a leaf has no axes."""
    fields = fields_of(tree)
    if fields is None:
        return list(shape_of(tree))
    shapes = [common_shape(value) for value in fields.values() if value is not None]
    return [min(sizes) for sizes in zip(*shapes, strict=False)]


def equal(a: object, b: object) -> bool:
    """Compare structure, shapes and values (NaN equals NaN); arrays and tensors of equal values are equal."""
    left, right = fields_of(a), fields_of(b)
    if left is not None and right is not None:
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if left is not None or right is not None:
        return False
    arrays = np.ndarray | torch.Tensor | np.generic
    if not isinstance(a, arrays) or not isinstance(b, arrays):
        return a is b or (not isinstance(a, arrays) and not isinstance(b, arrays) and bool(a == b))
    x, y = _comparable(a), _comparable(b)
    if x.shape != y.shape:
        return False
    if x.dtype.kind not in NUMERIC or y.dtype.kind not in NUMERIC:
        return all(equal(p, q) for p, q in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True))
    return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc" and y.dtype.kind in "fc"))


def _comparable(leaf: Any) -> np.ndarray:
    if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.bfloat16:  # which numpy has not
        leaf = leaf.float()
    return np.asarray(host(leaf))


def host(leaf: Any) -> Any:
    """Return a tensor as an array in host memory, which is shared where it can be; anything else as it is."""
    return leaf.numpy(force=True) if isinstance(leaf, torch.Tensor) else leaf


def as_array(value: object) -> np.ndarray:
    """Make an array of numbers, or of objects where numpy would make text of them or fail on unequal lengths."""
    if isinstance(value, np.ndarray) and value.dtype.kind in NUMERIC:
        return value
    if isinstance(value, Node | dict):
        return object_array([value]).reshape(())
    try:
        array = np.asanyarray(value)
    except ValueError:
        return object_array(value)  # type: ignore[arg-type]  # only sequences have unequal lengths
    if array.dtype.kind in NUMERIC or array.dtype.kind == "O":
        return array
    return np.asanyarray(value, dtype=object)


def object_array(values: Sequence[object]) -> np.ndarray:
    """Make a 1-d array of objects, whatever the objects are."""
    return np.fromiter(values, object, len(values))


def shape_of(leaf: object) -> tuple[int, ...]:
    """Return the shape of an array, () for anything else."""
    return tuple(getattr(leaf, "shape", ()))


def describe(value: object) -> str:
    """Say in a few words what a leaf or node is, for error messages."""
    if isinstance(value, np.ndarray | torch.Tensor):
        return f"{type(value).__name__} of shape {shape_of(value)} and type {value.dtype}"
    return f"{type(value).__name__} {value!r:.60}" if fields_of(value) is None else type(value).__name__
