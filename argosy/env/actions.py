"""Where an observation says which discrete actions are allowed; and uniform random actions of a space, many at once."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from argosy.env.spaces import Space, bounded_sides
from argosy.errors import SpaceError

MASK_KEYS = ("action_mask", "mask")
"""Keys of a dict observation under which discrete policies look for the allowed actions."""


def find_mask_key(observation_space: Space, action_space: Space) -> str | None:
    """Find the action mask's key: an entry of a Dict observation with one element per (flattened) discrete action.

    An entry "mask" of several axes (a picture's) is an ordinary part of the observation.

    Raises:
        SpaceError: the entry has another length.
    """
    sizes = choices(action_space)
    if not isinstance(observation_space, spaces.Dict) or not sizes:
        return None
    for key in MASK_KEYS:
        if key not in observation_space.spaces:
            continue
        shape = observation_space[key].shape
        if shape == (sum(sizes),):
            return key
        if key == MASK_KEYS[0] or (shape is not None and len(shape) == 1):
            raise SpaceError(
                f"the observations' {key!r} has shape {shape}, but an action mask for {action_space} has "
                f"({sum(sizes)},); mend it, or call what is no mask by another name"
            )
    return None


def choices(action_space: Space) -> list[int]:
    """Return how many actions each part of a discrete action space has; [] for other spaces."""
    if isinstance(action_space, spaces.Discrete):
        return [int(action_space.n)]
    return action_space.nvec.flatten().tolist() if isinstance(action_space, spaces.MultiDiscrete) else []


def all_choices(action_space: Space) -> list[int]:
    """Return the same; each flag of a MultiBinary, which no mask can forbid, is one among two."""
    if isinstance(action_space, spaces.MultiBinary):
        return [2] * int(np.prod(action_space.shape))
    return choices(action_space)


def without_choice(mask: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Return which rows of a mask [k, sum of sizes] allow nothing in one of the parts: [k] bool."""
    parts = np.split(mask != 0, np.cumsum(sizes)[:-1], axis=1)
    stuck: np.ndarray = ~np.logical_and.reduce([part.any(axis=1) for part in parts])
    return stuck


def random_actions(space: Space, count: int, rng: np.random.Generator, mask: object = None) -> np.ndarray:
    """Draw `count` actions, in the env's scale.

    Args:
        space: Discrete, Box, MultiDiscrete or MultiBinary. Unbounded sides of a Box: as `Box.sample` of gymnasium
            draws them (normal, or exponential off the one bound).
        count: rows.
        rng: where the randomness comes from.
        mask: [count, n] of allowed actions, drawn uniformly among these; for MultiDiscrete n is the sum of the parts.

    Returns:
        [count, *act] with the dtype of the space.

    Raises:
        SpaceError: another kind of space, or a row of the mask allows nothing.
    """
    if isinstance(space, spaces.Discrete):
        return int(space.start) + _random_choice(int(space.n), count, rng, mask)
    if isinstance(space, spaces.MultiDiscrete):
        sizes = np.asarray(space.nvec).ravel().tolist()
        masks = [None] * len(sizes) if mask is None else np.split(np.asarray(mask), np.cumsum(sizes)[:-1], axis=1)
        parts = [_random_choice(n, count, rng, part) for n, part in zip(sizes, masks, strict=True)]
        acts = np.stack(parts, axis=1).reshape(count, *space.shape) + np.asarray(space.start)
        return np.asarray(acts, dtype=space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, size=(count, *space.shape), dtype=space.dtype)
    if isinstance(space, spaces.Box):
        return _random_box(space, count, rng)
    raise SpaceError(f"random actions of {space} are not supported; Discrete, Box, MultiDiscrete and MultiBinary are")


def _random_choice(n: int, count: int, rng: np.random.Generator, mask: object) -> np.ndarray:
    if mask is None:
        return rng.integers(n, size=count)
    allowed = np.asarray(mask) != 0
    if not allowed.any(axis=1).all():
        raise SpaceError(f"the action mask of row {int(np.argmin(allowed.any(axis=1)))} allows no action")
    choice: np.ndarray = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)
    return choice


def _random_box(space: spaces.Box, count: int, rng: np.random.Generator) -> np.ndarray:
    shape = (count, *space.shape)
    below, above = bounded_sides(space)
    low, high = np.where(below, space.low, 0).astype(np.float64), np.where(above, space.high, 0).astype(np.float64)
    if np.issubdtype(space.dtype, np.integer):
        whole_low, whole_high = space.low.astype(np.int64), space.high.astype(np.int64)
        return rng.integers(whole_low, whole_high, size=shape, endpoint=True).astype(space.dtype)
    out = np.where(below & above, low + rng.random(shape) * (high - low), 0.0)
    if not (below & above).all():
        out = np.where(~below & ~above, rng.standard_normal(shape), out)
        out = np.where(below & ~above, low + rng.exponential(size=shape), out)
        out = np.where(~below & above, high - rng.exponential(size=shape), out)
    return out.astype(space.dtype)
