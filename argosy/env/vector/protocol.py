"""What a vector environment is, and how to read its infos."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from argosy.data import tree
from argosy.errors import ConfigError, EnvError

Obs: TypeAlias = "NDArray[Any] | dict[str, Obs]"
"""Stacked observations: an array [n, ...], or a nested dict of such arrays for Dict and Tuple spaces."""

Info: TypeAlias = "dict[str, object]"
"""What one env tells beside an observation."""

Infos: TypeAlias = "NDArray[np.object_] | dict[str, Any]"
"""Infos of n envs: an object array [n] of dicts (Python envs) or a dict of arrays [n, ...] (EnvPool, ale-py), nested
where gymnasium's vector envs stack infos that are."""

Ids: TypeAlias = "int | Iterable[int] | NDArray[np.integer] | None"
"""Which envs: one index, several, or None for all."""

StepReturn: TypeAlias = (
    "tuple[Obs, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], Infos]"  # obs, rew, terminated, truncated
)


@runtime_checkable
class VectorEnv(Protocol):
    """n environments behind one `reset` and one `step`.

    It never resets by itself: after `terminated | truncated` the caller resets those envs with `reset(ids)`,
    so an observation returned beside a done flag is the true last one of its episode.
    """

    @property
    def num_envs(self) -> int:
        """How many envs."""

    @property
    def single_observation_space(self) -> Space[Any]:
        """Space of one env's observation; Tuple spaces appear as Dict spaces with the keys "0", "1", ..."""

    @property
    def single_action_space(self) -> Space[Any]:
        """Space of one env's action."""

    def reset(self, id: Ids = None, **kwargs: object) -> tuple[Obs, Infos]:
        """Start new episodes in the envs `id`; rows come in the order of `id`."""

    def step(self, action: object, id: Ids = None) -> StepReturn:
        """Step the envs `id`, one action each; returns obs, rew [n] float32, terminated [n], truncated [n], info."""

    def seed(self, seed: int | list[int] | None = None) -> list[int | None]:
        """Let the next reset start every env anew from seeds derived from `seed`."""

    def render(self, **kwargs: object) -> list[object]:
        """Return what each env's `render` gives."""

    def close(self) -> None:
        """Free everything; calling twice is allowed."""

    def __len__(self) -> int:
        """Return the number of envs."""


@dataclass(frozen=True, slots=True)
class Received:
    """Rows that an asynchronous vector env hands out: whichever envs were ready, k of them.

    Rows with `is_reset` hold the first observation of an episode; their reward is 0 and their flags are False.
    """

    env_id: NDArray[np.int64]  # [k]
    is_reset: NDArray[np.bool_]  # [k]
    obs: Obs  # [k, ...]
    rew: NDArray[np.float32]  # [k]
    terminated: NDArray[np.bool_]  # [k]
    truncated: NDArray[np.bool_]  # [k]
    info: Infos


@runtime_checkable
class AsyncVectorEnv(VectorEnv, Protocol):
    """A vector env whose steps and resets can be started now and fetched later.

    A `reset` of all envs gives up what is at work.
    """

    @property
    def is_async(self) -> bool:
        """Whether `recv` may return before every started env has finished."""

    def send(self, action: object, id: Ids = None) -> None:
        """Start a step in the envs `id`."""

    def send_reset(self, id: Ids = None, **kwargs: object) -> None:
        """Start a reset in the envs `id`."""

    def recv(self) -> Received:
        """Wait for started envs (`wait_num` of them at least, or all) and return their rows."""


def check_ids(ids: Ids, n: int) -> list[int]:
    """Return `ids` as a list of different indices below `n` (all for None).

    Raises:
        EnvError: none, twice the same, or out of range.
    """
    if ids is None:
        return list(range(n))
    if np.asarray(ids).dtype == np.bool_:
        raise EnvError("id is a mask of bool; it must name envs by their numbers: numpy.flatnonzero(mask)")
    listed = [int(i) for i in ids] if isinstance(ids, Iterable) else [int(ids)]
    if not listed or len(set(listed)) < len(listed) or not all(0 <= i < n for i in listed):
        raise EnvError(f"id is {listed}; it must name some of the envs 0 to {n - 1}, each once")
    return listed


def env_seeds(seed: int | Iterable[int | None] | None, n: int) -> list[int | None]:
    """Return one seed per env: derived from a number, a list as it is, None for None.

    Raises:
        ConfigError: a list of another length than `n`.
    """
    if seed is None:
        return [None] * n
    if isinstance(seed, int | np.integer):
        from argosy.rng import spawn_seeds  # here: it brings torch, which spawned workers do without

        return [*spawn_seeds(int(seed), n)]
    seeds = [None if s is None else int(s) for s in seed]
    if len(seeds) != n:
        raise ConfigError(f"seed is a list of {len(seeds)}; {n} envs need as many seeds")
    return seeds


def successes(info: Infos, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what the infos of some rows say under `is_success` [n]; NaN where an env says nothing."""
    if not isinstance(info, Mapping):
        said = [entry.get("is_success") for entry in np.asarray(info)[rows]]
        return np.array([math.nan if one is None else float(np.asarray(one).ravel()[0]) for one in said])
    column, is_said = info.get("is_success"), info.get("_is_success")
    if column is None:
        return np.full(len(rows), math.nan)
    found = column[rows].reshape(len(rows), -1)[:, 0].astype(np.float64)
    return found if is_said is None else np.where(is_said[rows], found, math.nan)


def info_column(info: Infos, key: str, ids: Ids = None) -> NDArray[np.generic] | None:
    """Return one entry of the infos as an array with a row per env, from either form; None if no env has it.

    Rows whose env lacks the key hold 0 (None in an object array). Of a dict within a dict it is one of such arrays.

    Args:
        info: what `reset` or `step` returned.
        key: name of the entry.
        ids: rows of `info` to read (all by default).
    """
    rows = slice(None) if ids is None else np.atleast_1d(np.asarray(ids))
    if isinstance(info, Mapping):
        column: NDArray[np.generic] | None = tree.index(info.get(key), rows)
        return column
    values = [entry.get(key) for entry in np.asarray(info)[rows]]
    present = [value for value in values if value is not None]
    if not present:
        return None
    if len(present) < len(values):
        first = np.asarray(present[0])
        values = [np.zeros_like(first) if value is None and first.dtype != object else value for value in values]
    try:
        return np.asarray(values)
    except ValueError:  # shapes differ from env to env
        return np.fromiter(values, object, len(values))
