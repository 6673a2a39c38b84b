"""Where an observation says which discrete actions are allowed."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

MASK_KEYS = ("action_mask", "mask")
"""Keys of a dict observation under which discrete policies look for the allowed actions."""


def find_mask_key(observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> str | None:
    """Find the action mask's key: an entry of a Dict observation with one element per (flattened) discrete action."""
    if not isinstance(observation_space, spaces.Dict):
        return None
    if isinstance(action_space, spaces.Discrete):
        size = int(action_space.n)
    elif isinstance(action_space, spaces.MultiDiscrete):
        size = int(action_space.nvec.sum())
    else:
        return None
    for key in MASK_KEYS:
        if key in observation_space.spaces and observation_space[key].shape == (size,):
            return key
    return None
