"""Stacked observations for any gymnasium space: allocation, writing rows, checking one observation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from argosy.env.vector.protocol import Obs, Received
from argosy.errors import SpaceError

Space: TypeAlias = spaces.Space[Any]
ARRAYS = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
"""Kinds of spaces whose elements are arrays."""
Rows: TypeAlias = "slice | Sequence[int] | NDArray[Any]"


def parts_of(space: Space) -> dict[Any, Space] | None:
    """Return the parts of a Dict by their keys, of a Tuple by their numbers; None of other spaces."""
    if isinstance(space, spaces.Dict):
        return space.spaces
    return dict(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def normal_form(space: Space) -> Space:
    """Return `space` with every Tuple turned into a Dict with the keys "0", "1", ..."""
    parts = parts_of(space)
    if parts is None or (isinstance(space, spaces.Dict) and all(parts_of(part) is None for part in parts.values())):
        return space
    return spaces.Dict({str(key): normal_form(part) for key, part in parts.items()})


def is_array_space(space: Space) -> bool:
    """Whether elements are arrays (or nested dicts of arrays) of fixed shape and numeric type."""
    if (parts := parts_of(space)) is not None:
        return all(is_array_space(part) for part in parts.values())
    return isinstance(space, ARRAYS)


def check_sizes(space: Space, name: str) -> None:
    """Check that every part of a space has elements, and a name that is text.

    Raises:
        SpaceError: one has none; names it.
    """
    parts = parts_of(space)
    for key, part in (parts or {}).items():
        check_sizes(part, f"{name}[{key!r}]")
    if isinstance(space, spaces.Dict) and not all(isinstance(key, str) for key in space):
        raise SpaceError(f"{name} is {space}, whose keys {list(space)} are not all text; write 'a', not 1")
    if parts == {} or (is_array_space(space) and 0 in (space.shape or ())):
        raise SpaceError(f"{name} is {space}, which has no elements: there is nothing to see or to do; leave it out")


def merge_bounds(a: Space, b: Space, *, narrow: bool) -> Space | None:
    """Return one space for the elements of two whose shapes and dtypes agree; None where they do not.

    If `narrow`, its elements are those in both (actions); else it holds the elements of both (observations).
    """
    parts, others = parts_of(a), parts_of(b)
    if a == b or (parts is None and others is None and not is_array_space(a) and not is_array_space(b)):
        return a  # objects have room for any
    if type(a) is not type(b):
        return None
    if parts is not None and others is not None:
        if parts.keys() != others.keys():
            return None
        merged = {key: merge_bounds(part, others[key], narrow=narrow) for key, part in parts.items()}
        if None in merged.values():
            return None
        return spaces.Dict(merged) if isinstance(a, spaces.Dict) else spaces.Tuple(merged.values())  # type: ignore[arg-type]  # none is None
    if a.shape != b.shape or a.dtype != b.dtype:
        return None
    pick_low, pick_high = (np.maximum, np.minimum) if narrow else (np.minimum, np.maximum)
    (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
    low, high = pick_low(a_low, b_low), pick_high(a_high, b_high)
    if (low > high).any():
        return None
    if isinstance(a, spaces.Box):
        return spaces.Box(low, high, dtype=a.dtype.type)
    if isinstance(a, spaces.Discrete):
        return spaces.Discrete(int(high - low) + 1, start=int(low))
    return spaces.MultiDiscrete(high - low + 1, dtype=a.dtype.type, start=low)  # type: ignore[union-attr]  # has a dtype


def _bounds(space: Space) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the least and the greatest element of a Box, Discrete or MultiDiscrete."""
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.Discrete):
        return np.asarray(space.start), np.asarray(space.start + space.n - 1)
    assert isinstance(space, spaces.MultiDiscrete)
    return space.start, space.start + space.nvec - 1


def nearest_to_zero(space: Space) -> Any:
    """Return the element nearest to zero of a space: that of a Discrete may start at 1."""
    if (parts := parts_of(space)) is not None:
        nearest = {key: nearest_to_zero(part) for key, part in parts.items()}
        return nearest if isinstance(space, spaces.Dict) else tuple(nearest.values())
    zeros = np.zeros(space.shape or (), space.dtype or object)
    return (
        np.clip(zeros, *_bounds(space))
        if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete)
        else zeros
    )


UNBOUNDED = np.float64(1e18)  # float16 cannot say it
"""A bound of a Box that is as large as this bounds nothing: environments write 3e38 where they mean infinity."""


def bounded_sides(box: spaces.Box) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which elements of a Box are bounded below, and which above."""
    return box.bounded_below & (box.low > -UNBOUNDED), box.bounded_above & (box.high < UNBOUNDED)


def is_bounded(box: spaces.Box) -> bool:
    """Whether every element of a Box has a lower and an upper bound."""
    below, above = bounded_sides(box)
    return bool(below.all() and above.all())


def leaves(space: Space, name: str = "") -> Iterator[tuple[str, tuple[int, ...], np.dtype[np.generic]]]:
    """Yield (dotted name, shape, dtype) of every array in an element of `space` (in `normal_form`)."""
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            yield from leaves(part, f"{name}.{key}" if name else str(key))
    elif is_array_space(space):
        yield name, tuple(space.shape or ()), np.dtype(space.dtype)
    else:
        yield name, (), np.dtype(object)


def allocate(space: Space, n: int) -> Obs:
    """Return uninitialised storage for `n` elements of `space` (in `normal_form`)."""
    if isinstance(space, spaces.Box):  # once per step, and nearly every space is one
        return np.empty((n, *space.shape), space.dtype)
    return build(space, lambda _, shape, dtype: np.empty((n, *shape), dtype))


def build(
    space: Space,
    leaf: Callable[[str, tuple[int, ...], np.dtype[np.generic]], NDArray[np.generic]],
    name: str = "",
) -> Obs:
    """Return the tree of `space` with `leaf(name, shape, dtype)` at every array."""
    if isinstance(space, spaces.Dict):
        return {str(k): build(part, leaf, f"{name}.{k}" if name else str(k)) for k, part in space.items()}
    [(_, shape, dtype)] = leaves(space)
    return leaf(name, shape, dtype)


def write(out: Obs, row: int, element: object) -> None:
    """Write one element of a space into row `row` of its stacked storage."""
    if isinstance(out, dict):
        for key, part in out.items():
            # a Tuple's element is read by position
            value = element[key] if isinstance(element, Mapping) else element[int(key)]  # type: ignore[index]  # Tuple element
            write(part, row, value)
    else:
        put(out, row, element)


def put(out: NDArray[np.object_], row: int, element: object) -> None:
    """Write one element into row `row` of a stacked array, of objects or of numbers.

    Raises:
        ValueError: numpy would change it: spread it out, cut digits off, or take other numbers for those of text.
    """
    if out.dtype != object:
        array = element if type(element) is np.ndarray else np.asarray(element)
        if array.dtype != out.dtype and (sentence := _misfit(array, out.dtype)):
            raise ValueError(sentence)
        if array.shape != out.shape[1:]:
            raise ValueError(f"a part of shape {array.shape} where {out.shape[1:]} belongs")
    out[row] = element


def _misfit(array: NDArray[np.generic], dtype: np.dtype[np.generic]) -> str | None:
    """Say why an array cannot be stored with another dtype as the numbers that it holds; None if it can."""
    if np.can_cast(array.dtype, dtype, "safe"):
        return None
    if array.dtype == object or not np.can_cast(array.dtype, dtype, "same_kind"):
        return f"has dtype {array.dtype}; {dtype} belongs there"
    if dtype.kind in "iu" and (array.astype(dtype) != array).any():
        return f"holds {array[array.astype(dtype) != array].flat[0]}, which does not fit {dtype}"
    return None


def read(tree: Obs, row: int, space: Space) -> object:
    """Return a copy of row `row` of stacked storage as an element of `space` (Tuples as tuples again)."""
    if isinstance(tree, np.ndarray):
        return tree[row].copy()
    element = {key: read(tree[str(key)], row, part) for key, part in (parts_of(space) or {}).items()}
    return tuple(element.values()) if isinstance(space, spaces.Tuple) else element


def take(obs: Obs, rows: Rows) -> Obs:
    """Return the rows `rows` (an index array: a copy; a slice: a view) of every array."""
    if isinstance(obs, dict):
        return {key: take(part, rows) for key, part in obs.items()}
    return obs[rows]


def as_tree(space: Space, stacked: Any) -> Obs:
    """Turn stacked elements in gymnasium's form (tuples for Tuple spaces) into ours (dicts with numbered keys)."""
    if (parts := parts_of(space)) is not None:
        return {str(key): as_tree(part, stacked[key]) for key, part in parts.items()}
    return np.asarray(stacked)


def concatenate(parts: Sequence[Obs]) -> Obs:
    """Join stacked observations row after row."""
    if isinstance(parts[0], dict):
        return {key: concatenate([part[key] for part in parts]) for key in parts[0]}
    arrays: Sequence[Any] = parts
    return np.concatenate(arrays)


def join_received(parts: Sequence[Received]) -> Received:
    """Join what several workers handed out, row after row."""
    if len(parts) == 1:
        return parts[0]
    shape = max((part.rew.shape[1:] for part in parts), key=len)  # first resets may not know that rewards are several
    rewards = [part.rew if part.rew.shape[1:] == shape else np.zeros((len(part.rew), *shape)) for part in parts]
    columns: dict[str, Any] = {
        field.name: concatenate([getattr(part, field.name) for part in parts])
        for field in dataclasses.fields(Received)
        if field.name != "rew"
    }
    return Received(rew=np.concatenate(rewards, dtype=np.float32), **columns)


def copy_rows(source: Obs, out: Obs, rows: int | Rows) -> None:
    """Write stacked `source` into the rows `rows` of `out`."""
    if isinstance(out, dict):
        assert isinstance(source, dict)
        for key, part in out.items():
            copy_rows(source[key], part, rows)
    else:
        out[rows] = source


def mismatch(space: Space, element: object, name: str = "observation") -> str | None:
    """Say in one sentence why `element` is not in `space`, or None if it is.

    A wider float type than the space's is allowed: it is cast when stored.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(element, Mapping):
            return f"{name} is a {type(element).__name__}; its space is a Dict with keys {sorted(space.keys())}"
        if set(element) != set(space.keys()):
            return f"{name} has keys {sorted(map(str, element))}; its space has {sorted(space.keys())}"
    elif isinstance(space, spaces.Tuple) and (
        not isinstance(element, tuple | list) or len(element) != len(space.spaces)
    ):
        return f"{name} is {element!r:.80}; its space is a Tuple of {len(space.spaces)} parts"
    if (parts := parts_of(space)) is not None:
        values: Any = element
        found = (mismatch(part, values[key], f"{name}[{key!r}]") for key, part in parts.items())
        return next((sentence for sentence in found if sentence), None)
    if not is_array_space(space):
        return None if space.contains(element) else f"{name} {element!r:.80} is not in its space {space}"
    try:
        array = np.asarray(element)
    except Exception as error:  # whatever an object of the user's own raises
        return f"{name} {element!r:.80} is no array: {type(error).__name__}: {error}"
    shape, dtype = tuple(space.shape or ()), np.dtype(space.dtype)
    if array.dtype == object:
        return (
            f"{name} is or holds Python objects ({type(element).__name__}); its space {space} is of arrays: say Dict,"
            " Graph, Sequence, Text, or a subclass of gymnasium.Space with `contains`"
        )
    if array.shape != shape:
        return f"{name} has shape {array.shape}; its space {space} has {shape}"
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        return f"{name} has dtype {array.dtype}; its space {space} has {dtype}"
    if sentence := _misfit(array, dtype):
        return f"{name} {sentence}, the type of its space {space}"
    if array.dtype.kind == "f" and np.isnan(array).any():
        return f"{name} holds NaN at index {tuple(int(i[0]) for i in np.nonzero(np.isnan(array)))}"
    if isinstance(space, spaces.Box):
        cast_array = array.astype(dtype)
        outside = (cast_array < space.low) | (cast_array > space.high)
        if outside.any():
            at = tuple(int(i[0]) for i in np.nonzero(outside))
            return f"{name}{list(at)} is {array[at]}; its space allows {space.low[at]} to {space.high[at]}"
        return None
    return None if space.contains(array.astype(dtype)) else f"{name} {element!r:.80} is not in its space {space}"
