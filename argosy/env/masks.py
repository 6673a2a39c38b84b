"""Where an observation says which discrete actions are allowed."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from argosy.env.spaces import Space
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


def without_choice(mask: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Return which rows of a mask [k, sum of sizes] allow nothing in one of the parts: [k] bool."""
    parts = np.split(mask != 0, np.cumsum(sizes)[:-1], axis=1)
    stuck: np.ndarray = ~np.logical_and.reduce([part.any(axis=1) for part in parts])
    return stuck
