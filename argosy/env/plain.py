"""Spaces as plain data, for JSON, and back."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from argosy.config import Plain
from argosy.env.spaces import Space, parts_of

MAX_ELEMENTS = 1 << 26
"""Of a space that is read; more would be memory that somebody's file asks for."""


def space_to_plain(space: Space) -> dict[str, Plain] | None:
    """Return what `space_from_plain` makes an equal space of; None for spaces whose elements are no arrays."""
    if (own := parts_of(space)) is not None:
        parts: list[Plain] = [space_to_plain(part) for part in own.values()]
        if None in parts:
            return None
        if isinstance(space, spaces.Tuple):
            return {"type": "Tuple", "spaces": parts}
        return {"type": "Dict", "keys": [str(key) for key in own], "spaces": parts}
    if isinstance(space, spaces.Box):
        bounds: dict[str, Plain] = {"low": _shortened(space.low), "high": _shortened(space.high)}
        return {"type": "Box", **bounds, "shape": list(space.shape), "dtype": np.dtype(space.dtype).name}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        dtype = np.dtype(space.dtype).name
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist(), "dtype": dtype}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.shape)}
    return None


def space_from_plain(data: Mapping[str, Any]) -> Space:
    """Make the space.

    Raises:
        KeyError, TypeError, ValueError: `space_to_plain` has not returned this.
    """
    kind = data["type"]
    if kind == "Tuple":
        return spaces.Tuple([space_from_plain(part) for part in data["spaces"]])
    if kind == "Dict":  # a plain dict would be sorted, and networks read the parts in their order
        pairs = zip(data["keys"], map(space_from_plain, data["spaces"]), strict=True)
        return spaces.Dict(OrderedDict(pairs))
    if kind == "Box":
        dtype, shape = np.dtype(data["dtype"]).type, tuple(data["shape"])
        if math.prod(shape) > MAX_ELEMENTS:
            raise ValueError(f"a Box of shape {shape}")
        low, high = (np.broadcast_to(np.asarray(data[bound], dtype), shape) for bound in ("low", "high"))
        return spaces.Box(low, high, dtype=dtype)
    if kind == "Discrete":
        return spaces.Discrete(data["n"], start=data["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(data["nvec"], dtype=np.dtype(data["dtype"]).type, start=data["start"])
    if kind == "MultiBinary":
        shape = tuple(data["n"]) if isinstance(data["n"], list) else (data["n"],)
        if math.prod(shape) > MAX_ELEMENTS:
            raise ValueError(f"a MultiBinary space of shape {shape}")
        return spaces.MultiBinary(data["n"])
    raise ValueError(f"unknown space {kind!r}")


def _shortened(bound: np.ndarray) -> Plain:
    """Return the elements of a bound; one number where they are all the same, as an image's are."""
    same = bound.size > 0 and bool((bound == bound.flat[0]).all())
    plain: Plain = bound.flat[0].item() if same else bound.tolist()
    return plain
