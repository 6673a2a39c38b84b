"""What the env checker reports, and what its parts share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

from argosy.env.actions import MASK_KEYS, choices
from argosy.env.spaces import Space, is_array_space, parts_of
from argosy.env.worker.base import Env as Env
from argosy.errors import told

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing about an env. An error breaks training, a warning often spoils it, a note is good to know."""

    level: Level
    where: str
    """The part it is about: "observation_space", "action_space", "reset", "step", "seed", "episode", "processes"."""
    text: str
    """What is the case, the value, and what to do."""

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.text}"


error, warning, note = (partial(Finding, level) for level in ("error", "warning", "note"))
same = partial(data_equivalence, exact=True)
"""Whether two nested values are equal, array by array."""


class StopCheckError(Exception):
    """What was found makes further checks meaningless."""

    def __init__(self, where: str, text: str, level: Level = "error") -> None:
        super().__init__(text)
        self.finding = Finding(level, where, text)


@contextlib.contextmanager
def stopping(where: str, what: str = "it", behind: str = "") -> Iterator[None]:
    """Run the env's own code: an error that comes out of it is the last finding."""
    try:
        yield
    except (Exception, SystemExit) as raised:
        raise StopCheckError(where, f"{what} raised {told(raised)}{behind}") from raised


def leaves(space: Space, obs: Any, name: str) -> Iterator[tuple[str, Space, object]]:
    """Yield (name, space, value) of every array in an observation."""
    parts = parts_of(space)
    for key, part in (parts or {}).items():
        yield from leaves(part, obs[key], f"{name}[{key!r}]")
    if parts is None and is_array_space(space):
        yield name, space, obs


def legal_action(space: Space, obs: object, info: Mapping[str, object]) -> object:
    """Draw an action; of choices only those that a mask in the observation or the info allows."""
    mask = mask_of(space, obs, info)
    if mask is not None and isinstance(space, spaces.Discrete):
        return space.sample(mask)
    if mask is not None and isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return space.sample(tuple(np.split(mask, np.cumsum(space.nvec)[:-1])))
    return space.sample()


def is_legal(space: Space, action: Any, obs: object, info: Mapping[str, object]) -> bool:
    """Say whether the mask of an observation or info, if there is one, allows an action."""
    mask = mask_of(space, obs, info)
    if mask is None or not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return True
    firsts = np.cumsum(np.append(0, space.nvec.ravel()[:-1])) if isinstance(space, spaces.MultiDiscrete) else 0
    return bool(mask[firsts + np.ravel(action - space.start)].all())


def mask_of(space: Space, obs: object, info: Mapping[str, object]) -> np.ndarray | None:
    """Return the mask of allowed actions, where the observation or the info holds one; see `find_mask_key`."""
    for key in MASK_KEYS:
        for source in (obs, info):
            if isinstance(source, Mapping) and key in source:
                mask = np.asarray(source[key], np.int8)
                if key == MASK_KEYS[0] or (source is obs and mask.shape == (sum(choices(space)),)):
                    return mask
    return None
