"""EnvPool behind the VectorEnv contract: a C++ thread pool of envs, synchronous or asynchronous."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from argosy.env.spaces import Space, concatenate, normal_form, take
from argosy.env.vector.protocol import Ids, Infos, Obs, Received, StepReturn, check_ids, env_seeds
from argosy.errors import ConfigError, EnvError
from argosy.rng import spawn_seeds

Arrays = dict[str, NDArray[np.generic]]
Batch5 = tuple[Obs, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], Arrays]


class Pool(Protocol):
    """What is used of a pool made by `envpool.make_gymnasium`."""

    @property
    def config(self) -> dict[str, Any]:
        """All settings."""

    @property
    def single_observation_space(self) -> Space:
        """Space of one env's observation."""

    @property
    def single_action_space(self) -> Space:
        """Space of one env's action."""

    def reset(self, env_id: NDArray[np.int32]) -> tuple[Obs, Arrays]:
        """Start new games in the envs `env_id` (synchronous only)."""

    def step(self, action: object, env_id: NDArray[np.int32]) -> Batch5:
        """Step the envs `env_id`; one whose episode has ended starts the next one instead (synchronous only)."""

    def async_reset(self) -> None:
        """Start new games everywhere."""

    def send(self, action: object, env_id: NDArray[np.int32]) -> None:
        """Start steps."""

    def recv(self) -> Batch5:
        """Wait for `batch_size` envs."""

    def render(self, env_ids: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Draw the envs `env_ids`."""

    def close(self) -> None:
        """Free the threads."""


class EnvPoolVectorEnv:
    """An EnvPool pool that never resets by itself.

    A pool steps an env whose episode has ended into its next episode, with an action that is thrown away; its own
    `reset` starts a new game even where only a life was lost. So `reset(ids)` here is that extra step for the envs
    that are done, and the pool's `reset` for the others: with episodic life, the reset after a lost life goes on with
    the game. Stepping an env that is done without a reset is an error.

    Asynchronous when the pool's `batch_size` is below its `num_envs` (which has to be a multiple of it): then
    `step(action, id)` starts those envs and returns `batch_size` others, `info["env_id"]` says which; done envs are
    started with `send_reset(id)`; and at least `batch_size` envs have to be at work when `recv` is called.

    Args:
        make: makes a pool from a list with one seed per env; called again by the first reset after `seed`, because
            the seeds of a pool are fixed when it is made.
        seeds: one seed per env for the first pool.

    Raises:
        ConfigError: the number of envs is no multiple of the batch size.
    """

    def __init__(self, make: Callable[[list[int]], Pool], seeds: list[int]) -> None:
        self._make = make
        self.num_envs = self.env_num = len(seeds)
        self._fresh_seeds: list[int] | None = None  # of the pool that the next reset makes
        self._closed = False
        self._open(seeds)
        self._batch_size = int(self._pool.config["batch_size"]) or self.num_envs
        self.is_async = self._batch_size < self.num_envs
        if self.num_envs % self._batch_size:
            self.close()
            raise ConfigError(f"{self.num_envs} envs are no multiple of the batch size {self._batch_size}")
        self.single_observation_space = _with_true_bounds(normal_form(self._pool.single_observation_space))
        self.single_action_space = self._pool.single_action_space
        any_action = np.asarray(self.single_action_space.sample())
        self._any_actions = np.repeat(any_action[None], self.num_envs, axis=0)  # the pool throws them away

    def _open(self, seeds: list[int]) -> None:
        self._pool = self._make(seeds)
        self._seeds = seeds
        self._started = False
        n = self.num_envs
        self._done, self._resetting, self._at_work = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_)

    def __len__(self) -> int:
        return self.num_envs

    def seed(self, seed: int | list[int] | None = None) -> list[int | None]:
        """Let the next reset make the pool anew with seeds derived from `seed` (one per env if it is a list).

        Raises:
            ConfigError: a list of another length than the number of envs.
        """
        drawn = env_seeds(seed, self.num_envs)
        seeds = [s for s in drawn if s is not None]
        if seed is not None and len(seeds) < self.num_envs:
            raise ConfigError(f"seed is {seed}; a pool needs a number for each env")
        self._fresh_seeds = seeds if seeds and (self._started or seeds != self._seeds) else None
        return drawn

    def reset(self, id: Ids = None, **kwargs: Any) -> tuple[Obs, Infos]:
        """Start new episodes in the envs `id` (all by default); rows come in the order of `id`.

        Args:
            id: which envs; all of them at the first reset after `seed` and when asynchronous.
            **kwargs: only `seed`, for all envs: see `seed`.

        Raises:
            EnvError: other keyword arguments, or some envs where it has to be all.
        """
        if (seed := kwargs.pop("seed", None)) is not None:
            self.seed(seed)
        if kwargs:
            raise EnvError(f"reset: EnvPool takes no {', '.join(kwargs)}")
        ids = self._ids(id)
        if self.is_async:
            if self._started and self._fresh_seeds is None:  # a pool at work cannot be stopped and reset
                self._fresh_seeds = spawn_seeds(self._seeds[0], self.num_envs)
            self.send_reset(ids)
            parts = [self.recv() for _ in range(self.num_envs // self._batch_size)]
            order = np.argsort(np.concatenate([part.env_id for part in parts]))[ids]
            return _joined([(part.obs, part.info) for part in parts], order)
        self._renew(ids)
        self._started = True
        over = self._done[ids]
        self._done[ids] = False
        if not over.any():
            return self._new_game(ids)
        if over.all():
            return self._next_episode(ids)
        order = np.argsort(np.concatenate([np.flatnonzero(over), np.flatnonzero(~over)]))
        return _joined([self._next_episode(ids[over]), self._new_game(ids[~over])], order)

    def _renew(self, ids: NDArray[np.int32]) -> None:
        """Make the pool anew if it was seeded."""
        if self._fresh_seeds is not None:
            self._need_all(ids)
            self._pool.close()
            self._open(self._fresh_seeds)
            self._fresh_seeds = None

    def _new_game(self, ids: NDArray[np.int32]) -> tuple[Obs, Infos]:
        obs, info = self._pool.reset(ids)
        return obs, _tidy(info)

    def _next_episode(self, ids: NDArray[np.int32]) -> tuple[Obs, Infos]:
        obs, _, _, _, info = self._pool.step(self._any_actions[ids], ids)
        return obs, _tidy(info)

    def step(self, action: object, id: Ids = None) -> StepReturn:
        """Step the envs `id` (all by default), one action each; asynchronous: start them, return `batch_size` others.

        Raises:
            EnvError: the number of actions is wrong, or an env is done and was not reset.
        """
        if self.is_async:
            if action is not None:
                self.send(action, id)
            got = self.recv()
            return got.obs, got.rew, got.terminated, got.truncated, got.info
        ids = self._ids(id)
        obs, rew, terminated, truncated, info = self._pool.step(self._actions(action, ids), ids)
        self._done[ids] = terminated | truncated
        return obs, rew, terminated, truncated, _tidy(info)

    def send(self, action: object, id: Ids = None) -> None:
        """Start a step in the envs `id`; `recv` fetches the results."""
        ids = self._ids(id)
        actions = self._actions(action, ids)
        self._claim(ids)
        self._pool.send(actions, ids)

    def send_reset(self, id: Ids = None, **kwargs: object) -> None:
        """Start a reset in the envs `id`; `recv` fetches the first observations (rows with `is_reset`).

        Raises:
            EnvError: an env is in the middle of an episode (EnvPool can only go on from an episode's end).
        """
        ids = self._ids(id)
        self._renew(ids)
        if not self._started:
            self._need_all(ids)
            self._claim(ids)
            self._started = True
            self._pool.async_reset()
        elif not self._done[ids].all():
            raise EnvError(f"send_reset: env {ids[~self._done[ids]][0]} is in the middle of an episode; reset all")
        else:
            self._claim(ids)
            self._pool.send(self._any_actions[ids], ids)
        self._done[ids] = False
        self._resetting[ids] = True

    def recv(self) -> Received:
        """Wait for `batch_size` of the started envs (synchronous: for all of them) and return their rows.

        Raises:
            EnvError: fewer envs than that are at work.
        """
        working = int(self._at_work.sum())
        if working < self._batch_size and (self.is_async or not working):
            raise EnvError(
                f"recv: {working} env(s) at work, EnvPool hands out {self._batch_size} together; send more actions"
            )
        obs, rew, terminated, truncated, info = self._pool.recv()
        ids = info["env_id"].astype(np.int64)
        is_reset = self._resetting[ids]
        self._at_work[ids] = self._resetting[ids] = False
        self._done[ids] = terminated | truncated
        return Received(ids, is_reset, obs, rew, terminated, truncated, _tidy(info))

    def render(self, **kwargs: object) -> list[object]:
        """Return a frame [height, width, 3] of each env; the pool has to be made with `render_mode="rgb_array"`."""
        return [*self._pool.render(np.arange(self.num_envs, dtype=np.int32))]

    def close(self) -> None:
        """Free the pool; calling twice is allowed."""
        if not self._closed:
            self._closed = True
            self._pool.close()

    def _ids(self, id: Ids) -> NDArray[np.int32]:
        if self._closed:
            raise EnvError("this vector env is closed")
        return np.asarray(check_ids(id, self.num_envs), np.int32)

    def _need_all(self, ids: NDArray[np.int32]) -> None:
        if len(ids) < self.num_envs:
            raise EnvError(f"reset: envs {ids.tolist()}; EnvPool has to reset all {self.num_envs} envs together here")

    def _claim(self, ids: NDArray[np.int32]) -> None:
        if self._at_work[ids].any():
            raise EnvError(f"env {ids[self._at_work[ids]][0]} is still at work; fetch its result with recv first")
        self._at_work[ids] = True

    def _actions(self, action: object, ids: NDArray[np.int32]) -> NDArray[np.generic]:
        if self._done[ids].any():
            raise EnvError(f"step: the episode of env {ids[self._done[ids]][0]} has ended; reset it first")
        if not self._started:
            raise EnvError("step: call reset first")
        actions = np.asarray(action)
        if actions.shape[:1] != ids.shape:
            raise EnvError(f"step: actions of shape {actions.shape} for {len(ids)} env(s); give one row per env")
        return actions


def _with_true_bounds(space: Space) -> Space:
    """Free the Boxes that are said to begin at the smallest positive number, where the least one is meant."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _with_true_bounds(part) for key, part in space.items()})
    if isinstance(space, spaces.Box) and space.dtype.kind == "f" and (space.low == np.finfo(space.dtype).tiny).all():
        return spaces.Box(-np.inf, np.inf, space.shape, space.dtype.type)
    return space


def _tidy(info: Arrays) -> dict[str, NDArray[np.generic]]:
    """Keep the arrays that have a row per env."""
    return {key: value for key, value in info.items() if type(value) is np.ndarray}


def _joined(parts: Sequence[tuple[Obs, Infos]], order: NDArray[np.intp]) -> tuple[Obs, Infos]:
    infos = [cast(Arrays, info) for _, info in parts]
    obs = take(concatenate([obs for obs, _ in parts]), order)
    return obs, {key: np.concatenate([info[key] for info in infos])[order] for key in infos[0]}
