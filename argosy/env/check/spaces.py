"""The env checker's look at the spaces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gymnasium import spaces

from argosy.env.actions import find_mask_key
from argosy.env.check.finding import Env, Finding, StopCheckError
from argosy.env.spaces import Space, check_sizes, is_array_space, is_bounded
from argosy.errors import SpaceError


def check_spaces(env: Env) -> Iterator[Finding]:
    """Check the observation and the action space."""
    for name in ("observation_space", "action_space"):
        space: object = getattr(env, name, None)
        if not isinstance(space, spaces.Space):
            raise StopCheckError(name, f"it is {space!r:.60}; set it to a space of gymnasium.spaces in __init__.")
        if not is_array_space(space):
            yield Finding(
                "warning",
                name,
                f"{space} has no arrays of fixed shape: policies and shared memory cannot take it; encode it as "
                "Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these.",
            )
        try:
            check_sizes(space, name)
        except SpaceError as error:
            raise StopCheckError(name, f"{error}.") from error
    yield from _check_observation_space(env.observation_space, "observation_space")
    action = env.action_space
    try:
        find_mask_key(env.observation_space, action)
    except SpaceError as error:
        raise StopCheckError("observation_space", f"{error}.") from error
    if isinstance(action, spaces.Box):
        if not is_bounded(action):
            yield Finding("error", "action_space", f"{action} has infinite bounds; give the limits of each action.")
        elif (np.asarray(action.low) != -1).any() or (np.asarray(action.high) != 1).any():
            yield Finding("note", "action_space", f"{action} is not [-1, 1]; policies scale their actions to it.")
        if (action.low >= action.high).any():
            yield Finding("error", "action_space", f"{action} leaves no choice where low >= high; leave that part out.")
        if action.dtype is not None and action.dtype.kind != "f":
            yield Finding("warning", "action_space", f"{action} holds whole numbers; MultiDiscrete says that better.")
        elif action.dtype != np.float32:
            yield Finding("note", "action_space", f"{action}: policies give float32; declare dtype=np.float32.")
    if isinstance(action, spaces.Discrete) and action.start != 0:
        yield Finding("note", "action_space", f"{action} starts at {action.start}; policies number actions from 0.")
    if isinstance(action, spaces.Discrete) and action.n < 2:
        yield Finding("warning", "action_space", f"{action} has one action: there is nothing to learn.")


def _check_observation_space(space: Space, where: str) -> Iterator[Finding]:
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            yield from _check_observation_space(part, f"{where}[{key!r}]")
    if isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from _check_observation_space(part, f"{where}[{i}]")
    if not isinstance(space, spaces.Box):
        return
    if (space.low >= space.high).all():
        yield Finding(
            "error", where, f"no value lies between its bounds: low {space.low.min()}, high {space.high.max()}."
        )
    if len(space.shape) not in (1, 3):
        yield Finding(
            "note", where, f"shape {space.shape} is neither a vector nor an image [C, H, W]: networks will flatten it."
        )
    if len(space.shape) == 3:
        if space.dtype != np.uint8:
            yield Finding(
                "warning", where, f"it looks like an image of type {space.dtype}; uint8 takes a quarter of the memory."
            )
        elif space.low.min() != 0 or space.high.max() != 255:
            yield Finding(
                "warning", where, "images of type uint8 should have the bounds 0 and 255; networks divide by 255."
            )
        if space.shape[-1] in (1, 3, 4) and space.shape[0] not in (1, 3, 4):
            yield Finding(
                "note", where, f"shape {space.shape} has the channels last; convolutions want them first: transpose it."
            )
        if min(sorted(space.shape)[1:]) < 36:
            yield Finding("note", where, f"images of shape {space.shape} are too small for the default CNN (36x36).")
