"""The border to environments: what they give is looked at once per vector step, before it becomes rows of a buffer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from argosy.env.actions import choices, find_mask_key, without_choice
from argosy.env.spaces import Space, parts_of
from argosy.env.vector.protocol import Obs
from argosy.errors import EnvError

_BOOL = np.dtype(np.bool_)
ENDLESS = 30_000
"""Steps from which on an episode may have no end; an Atari game has 27,000 at most."""


class Border:
    """Refuses numbers that are NaN or infinite, choices that are out of range, and masks that allow nothing.

    Boxes are not held to their bounds: many envs overstep theirs by a little.

    Args:
        observation_space: of one env, or of one agent.
        action_space: of the same.

    Raises:
        SpaceError: an action mask of another length than the action space asks for.
    """

    def __init__(self, observation_space: Space, action_space: Space) -> None:
        self._limits = list(choice_limits(observation_space))
        self._mask_key = find_mask_key(observation_space, action_space)
        self._sizes = choices(action_space)
        self._steps = 0

    def check_step(
        self,
        obs_next: Obs,
        rew: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        env_ids: np.ndarray,
        lens: np.ndarray,
    ) -> None:
        """Check what a step of k envs gave; `lens` [k] are the steps of their episodes before it.

        Raises:
            EnvError: names env, step of the episode, and field.
        """
        if getattr(terminated, "dtype", None) is not _BOOL or getattr(truncated, "dtype", None) is not _BOOL:
            shown = f"{terminated!r:.60} and {truncated!r:.60}"
            raise EnvError(f"terminated and truncated are {shown}; they have to be arrays of bool, one for each env")
        check_finite("rew", rew, env_ids, lens)
        self._steps += 1
        if self._steps % 1000 == 0:
            warn_of_endless(lens)
        over = terminated | truncated if self._mask_key else None
        self.check_obs(obs_next, env_ids, "obs_next", over, lens)

    def check_obs(
        self,
        obs: Obs,
        env_ids: np.ndarray,
        field: str = "obs",
        over: np.ndarray | None = None,
        lens: np.ndarray | None = None,
    ) -> None:
        """Check observations [k, ...] of the envs `env_ids` [k], for all of which an action follows, but `over` [k].

        Raises:
            EnvError: names env and field; the step of the episode, too, where `lens` [k] are given.
        """
        check_finite(field, obs, env_ids, lens)
        for path, low, count in self._limits:
            value: Any = obs
            for key in path:
                value = value[key]
            # one pass: what is below `low` is a huge number then
            above = (value.astype(np.int64, copy=False) - low).view(np.uint64) >= count
            if np.count_nonzero(above):
                _refuse(field + "".join(f"[{key!r}]" for key in path), value, above, env_ids, lens)
        if self._mask_key is not None:
            mask: Any = obs[self._mask_key]
            stuck = without_choice(mask, self._sizes)
            if over is not None:
                stuck &= ~over
            if stuck.any():
                row = int(np.argmax(stuck))
                raise EnvError(
                    f"env {int(env_ids[row])} gave the action mask {mask[row].tolist()!s:.60} {_when(lens, row)}: it "
                    "allows no action, but one has to follow; nothing of this step was stored"
                )


def choice_limits(space: Space, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], np.ndarray, np.ndarray]]:
    """Yield (keys, least value, number of values) of every part of an observation or action that is a choice."""
    for key, part in (parts_of(space) or {}).items():
        yield from choice_limits(part, (*path, str(key)))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        count = space.n if isinstance(space, spaces.Discrete) else space.nvec
        yield path, np.asarray(space.start, np.int64), np.asarray(count, np.uint64)
    elif isinstance(space, spaces.MultiBinary):
        yield path, np.asarray(0, np.int64), np.asarray(2, np.uint64)


def warn_of_endless(lens: np.ndarray) -> None:
    """Warn where one of the episodes under way, `lens` [k] steps so far, may never end."""
    if lens.max(initial=0) >= ENDLESS:
        warnings.warn(
            f"an env has played {ENDLESS:,} steps of one episode, which has not ended; a test waits for its end. If it "
            "may have none, set env.max_episode_steps (--env.max-episode-steps), or let the env say truncated in time",
            stacklevel=2,
        )


def check_finite(field: str, value: object, env_ids: np.ndarray, lens: np.ndarray | None) -> None:
    """Refuse an array [k, ...], or a nested dict of them, with numbers that are NaN or infinite; see `check_obs`."""
    if isinstance(value, dict):
        for key, part in value.items():
            check_finite(f"{field}[{key!r}]", part, env_ids, lens)
        return
    if not isinstance(value, np.ndarray):
        raise EnvError(f"{field} is {value!r:.60} ({type(value).__name__}); it has to be an array with a row per env")
    if value.dtype.kind != "f":
        return
    squares = float(np.vdot(value, value))  # one pass and no new array; NaN and infinity survive a sum of squares
    if squares - squares == 0.0:
        return
    bad = ~np.isfinite(value)
    if bad.any():
        _refuse(field, value, bad, env_ids, lens)


def _refuse(field: str, value: np.ndarray, bad: np.ndarray, env_ids: np.ndarray, lens: np.ndarray | None) -> None:
    row = int(np.argmax(bad.reshape(len(value), -1).any(axis=1)))
    inner = np.argwhere(bad[row])[0].tolist()
    at = f"{field}{inner}" if inner else field
    raise EnvError(
        f"env {int(env_ids[row])} gave {at} = {value[row][tuple(inner)]} {_when(lens, row)}; nothing of this step was "
        "stored"
    )


def _when(lens: np.ndarray | None, row: int) -> str:
    return "at the reset" if lens is None else f"in step {int(lens[row]) + 1} of its episode"
