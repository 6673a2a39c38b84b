"""Foreign envs behind the VectorEnv contract: gymnasium's vector envs, ale-py's, EnvPool's and plain envs."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector import VectorEnv as ForeignVectorEnv
from numpy.typing import NDArray

from argosy.data.tree import equal
from argosy.env.actions import find_mask_key, random_actions
from argosy.env.agents.pettingzoo import joint_env
from argosy.env.spaces import as_tree, check_sizes, copy_rows, normal_form, take
from argosy.env.vector.envpool import EnvPoolVectorEnv, Pool
from argosy.env.vector.kinds import DummyVectorEnv
from argosy.env.vector.protocol import Ids, Infos, Obs, StepReturn, VectorEnv, check_ids, env_seeds
from argosy.errors import ConfigError, EnvError
from argosy.rng import spawn_seeds


class GymVectorEnv:
    """A gymnasium vector env (SyncVectorEnv, AsyncVectorEnv, ale-py's AtariVectorEnv) that never resets by itself.

    NEXT_STEP and DISABLED: `reset(ids)` resets those envs through gymnasium's `reset_mask`, before they would do so
    themselves. SAME_STEP: a step returns the last observations from the infos and keeps the first ones of the new
    episodes, which `reset(ids)` hands out. All its envs step together: those that `step` leaves out are moved by any
    action and have to be reset before they take part again.

    ale-py's AtariVectorEnv with `episodic_life` starts a new game after each lost life, so that the later lives are
    never played (a warning says so when that is seen); EnvPool and AtariPreprocessing go on with the game.

    Args:
        env: the vector env; it has to support `options={"reset_mask": ...}`, as gymnasium's and ale-py's do.

    Raises:
        SpaceError: a space has no elements.
        ConfigError: it is gymnasium's AsyncVectorEnv with NEXT_STEP and without shared memory.
        EnvError: at the first reset of some of its envs: it resets all of them.
    """

    moves_left_out = True

    def __init__(self, env: ForeignVectorEnv[object, object, object]) -> None:
        self.env = env
        self.num_envs = self.env_num = env.num_envs
        self._mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self._foreign_space = env.single_observation_space
        self.single_observation_space = normal_form(self._foreign_space)
        self.single_action_space = env.single_action_space
        check_sizes(self.single_observation_space, "observation_space")
        check_sizes(self.single_action_space, "action_space")
        self._seeds: list[int | None] | None = None
        self._started = False  # the first reset is of all envs
        self._stale = np.ones(self.num_envs, np.bool_)  # to be reset before the next step
        self._ended = np.zeros(self.num_envs, np.bool_)  # in the last step
        self._warned = False
        self._lives = np.zeros(self.num_envs, np.int64)
        self._kept: tuple[Obs, dict[str, object]] | None = None  # SAME_STEP: first observations of new episodes
        self._last: Obs = {}  # of all envs
        self._mask_key = find_mask_key(self.single_observation_space, self.single_action_space)
        is_next, of_env = self._mode is AutoresetMode.NEXT_STEP, env.unwrapped
        if is_next and isinstance(of_env, AsyncVectorEnv) and not of_env.shared_memory:
            raise ConfigError(
                "an AsyncVectorEnv without shared memory resets an env once more after its reset (gymnasium 1.4), so "
                "that a step leads from one episode to the next; give it shared_memory=True, or AutoresetMode.SAME_STEP"
            )

    def __len__(self) -> int:
        return self.num_envs

    def seed(self, seed: int | list[int] | None = None) -> list[int | None]:
        """Let the next reset of all envs start them from seeds derived from `seed` (one per env if it is a list).

        Of a vector env with one generator for all its envs (CartPole's own, for one) only the first seed counts.

        Raises:
            ConfigError: a list of another length than the number of envs.
        """
        seeds = env_seeds(seed, self.num_envs)
        self._seeds = None if seed is None else seeds
        return [*seeds]

    def reset(self, id: Ids = None, **kwargs: Any) -> tuple[Obs, Infos]:
        """Start new episodes in the envs `id` (all by default); rows come in the order of `id`.

        Args:
            id: which envs; all of them at the first reset and at the first one after `seed`.
            **kwargs: `seed` (see `seed`) and `options` for the envs.

        Raises:
            EnvError: some envs where it has to be all.
        """
        if (seed := kwargs.pop("seed", None)) is not None:
            self.seed(seed)
        options = dict(kwargs.pop("options", None) or {})
        ids = np.asarray(check_ids(id, self.num_envs))
        if self._kept is not None and self._seeds is None and self._ended[ids].all() and not options:
            self._stale[ids] = self._ended[ids] = False
            return take(self._kept[0], ids), self._tidy(self._kept[1], ids)
        if len(ids) == self.num_envs:
            seeds, self._seeds = self._seeds, None
            given = None if seeds is None else self._seeds_as_taken(seeds)
            if seeds is not None:
                self.env.action_space.seed(seeds[0])  # of the actions that move those that `step` leaves out
            obs, info = self.env.reset(seed=given, options=options or None)
        else:
            if self._seeds is not None or not self._started:
                raise EnvError(f"reset: envs {ids.tolist()}; the first reset (after seed) has to be of all envs")
            obs, info = self._reset_some(ids, options)
        if id is not None:  # by name after their episodes' ends, as a collector does
            self._warn_of_lost_lives(ids, info)
        self._started = True
        self._stale[ids] = self._ended[ids] = False
        return take(self._tree(obs), ids), self._tidy(info, ids)

    def step(self, action: object, id: Ids = None) -> StepReturn:
        """Step the envs `id` (all by default) with one action each.

        Raises:
            EnvError: an env is done and was not reset, or the number of actions is wrong.
        """
        ids = np.asarray(check_ids(id, self.num_envs))
        whole = len(ids) == self.num_envs and bool((np.diff(ids) == 1).all())
        if self._stale[ids].any():
            which = ids[np.argmax(self._stale[ids])]
            raise EnvError(f"step: the episode of env {which} has ended or was never started; reset it first")
        if isinstance(action, np.ndarray | list) and len(action) != len(ids):
            raise EnvError(f"step: {len(action)} action(s) for {len(ids)} env(s); give one row per env")
        if not whole:
            action = self._with_fillers(action, ids)
        obs, rew, terminated, truncated, info = self.env.step(
            np.asarray(action) if isinstance(action, list) else action
        )
        terminated, truncated = _flags("terminated", terminated), _flags("truncated", truncated)
        if np.asarray(rew).dtype.kind not in "biuf":
            raise EnvError(f"step: the rewards are {rew!r:.60}; they have to be numbers")
        self._ended = terminated | truncated
        if "lives" in info:
            self._lives = np.where(truncated, 0, info["lives"])
        tree = self._tree(obs)
        if self._mode is AutoresetMode.SAME_STEP and self._ended.any():
            first = {key: value for key, value in info.items() if key != "final_info"}
            self._kept = tree, first
            tree, info = self._with_last(tree, info), _with_last_told(first, info.get("final_info", {}), self._ended)
        self._stale = self._stale | self._ended
        rewards, infos = np.asarray(rew, np.float32), self._tidy(info, ids)
        if whole:
            return tree, rewards, terminated, truncated, infos
        self._stale[np.setdiff1d(np.arange(self.num_envs), ids)] = True
        return take(tree, ids), rewards[ids], terminated[ids], truncated[ids], infos

    def render(self, **kwargs: object) -> list[object]:
        """Return what each env's `render` gives."""
        return list(self.env.render() or [None] * self.num_envs)

    def close(self) -> None:
        """Close the vector env; calling twice is allowed."""
        self.env.close()

    def _tree(self, obs: object) -> Obs:
        """Observations in normal form, in memory that the env does not write to at its next step."""
        tree = as_tree(self._foreign_space, obs)
        self._last = tree if getattr(self.env.unwrapped, "copy", True) else take(tree, np.arange(self.num_envs))
        return self._last

    def _reset_some(self, ids: NDArray[np.int64], options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Reset the envs `ids` alone."""
        mask = np.zeros(self.num_envs, np.bool_)
        mask[ids] = True
        try:
            obs, info = self.env.reset(options={**options, "reset_mask": mask})
        except ValueError as error:
            if "partial reset" not in str(error):  # but an env's own
                raise
            raise EnvError(
                f"reset: {self.env} cannot begin episodes in some of its envs alone: {error} Instead of gymnasium's "
                "wrapper around a vector env take VectorEnvNormObs, or wrap each env"
            ) from error
        rest, now = np.flatnonzero(~mask), as_tree(self._foreign_space, obs)
        if not equal(take(self._last, rest), take(now, rest)):
            raise EnvError(
                f"reset: {type(self.env.unwrapped).__name__} takes no notice of options['reset_mask'] and restarts all "
                "its envs where one has ended; make_vector_env makes one that does not, or gymnasium.make_vec with "
                "vectorization_mode='sync'"
            )
        return obs, info

    def _seeds_as_taken(self, seeds: list[int | None]) -> Any:
        """Return one seed per env as this kind takes them, or the first one where all envs have one generator."""
        if type(self.env).__module__.startswith("ale_py"):
            return np.asarray(seeds)
        return seeds if isinstance(self.env.unwrapped, SyncVectorEnv | AsyncVectorEnv) else seeds[0]

    def _with_last(self, tree: Obs, info: dict[str, Any]) -> Obs:
        """Put the true last observations of the done envs in the place of their first new ones."""
        last = info["final_obs"]
        tree = take(tree, np.arange(self.num_envs))  # a copy: the original belongs to the env
        for i in np.flatnonzero(self._ended):
            copy_rows(as_tree(self._foreign_space, last[i]), tree, int(i))
        return tree

    def _with_fillers(self, action: object, ids: NDArray[np.int64]) -> NDArray[np.generic]:
        """Give the envs that are left out an action, too; those of them that must not be stepped are reset first."""
        out = np.ones(self.num_envs, np.bool_)
        out[ids] = False
        unfit = out & self._stale & self._ended
        if unfit.any() and self._mode is AutoresetMode.DISABLED:
            obs, _ = self.env.reset(options={"reset_mask": unfit})
            self._tree(obs)
        if self._mask_key is None:
            every = np.array(self.env.action_space.sample())
        else:
            allowed = np.asarray(self._last[self._mask_key]) != 0
            allowed[self._ended & (self._mode is AutoresetMode.NEXT_STEP)] = True  # it is reset instead
            every = random_actions(self.single_action_space, self.num_envs, self.env.action_space.np_random, allowed)
        every[ids] = np.asarray(action)
        return every

    def _warn_of_lost_lives(self, ids: NDArray[np.int64], info: dict[str, Any]) -> None:
        if "lives" not in info or self._warned:
            return
        lives = info["lives"]
        before = self._lives[ids]
        if (self._ended[ids] & (before > 0) & (lives[ids] > before)).any():
            self._warned = True
            warnings.warn(
                "this vector env ends an episode with a life and starts a new game then, so that the later lives are "
                "never played; make_vector_env's Atari envs go on with the game",
                stacklevel=3,
            )

    def _tidy(self, info: dict[str, object], ids: NDArray[np.int64]) -> dict[str, Any]:
        """Keep the arrays with a row per env, for the envs asked for."""
        if not isinstance(info, dict):
            raise EnvError(f"{self.env} gives its infos as a {type(info).__name__}; they have to be a dict of arrays")
        return {**_rows_of(info, ids, self.num_envs), "env_id": ids}


def _rows_of(info: dict[str, Any], ids: NDArray[np.int64], n: int) -> dict[str, Any]:
    """Return the rows of the arrays [n, ...] in a tree; what else is in it is left out."""
    return {
        key: _rows_of(value, ids, n) if isinstance(value, dict) else value[ids]
        for key, value in info.items()
        if isinstance(value, dict) or (isinstance(value, np.ndarray) and value.shape[:1] == (n,))
    }


def _with_last_told(info: dict[str, Any], last: dict[str, Any], ended: NDArray[np.bool_]) -> dict[str, Any]:
    """Put what the envs that `ended` told of their last steps in the place of what they told of their resets."""
    told = dict(info)
    for key, value in last.items():
        before = info.get(key)
        if isinstance(value, dict):
            told[key] = _with_last_told(before if isinstance(before, dict) else {}, value, ended)
        elif isinstance(value, np.ndarray) and value.shape[:1] == ended.shape:
            is_alike = isinstance(before, np.ndarray) and before.shape == value.shape
            told[key] = np.array(before, value.dtype) if is_alike else np.zeros_like(value)
            told[key][ended] = value[ended]
    return told


def _flags(name: str, flags: object) -> NDArray[np.bool_]:
    array = np.asarray(flags)
    if array.dtype != np.bool_:
        raise EnvError(f"step: {name} is {flags!r:.60}; it has to be an array of bool")
    return array


def as_vector_env(env: Any) -> VectorEnv:
    """Accept whatever a user has as a vector env.

    Args:
        env: a vector env of ours; a gymnasium env; a gymnasium vector env or ale-py's AtariVectorEnv; a pool of
            `envpool.make_gymnasium`; a PettingZoo game; a function that makes a gymnasium env, or a list of these.

    Raises:
        ConfigError: anything else.
    """
    if hasattr(env, "async_reset") and hasattr(env, "config"):
        return _from_pool(env)
    if isinstance(env, ForeignVectorEnv):
        return GymVectorEnv(env)
    if isinstance(env, gym.Env):
        return DummyVectorEnv([lambda: env])
    if hasattr(env, "possible_agents"):
        game = joint_env(env)
        return DummyVectorEnv([lambda: game])
    if isinstance(env, VectorEnv):
        return env
    if callable(env):
        return DummyVectorEnv([env])
    if isinstance(env, list | tuple) and env and all(callable(one) for one in env):
        return DummyVectorEnv(env)
    raise ConfigError(
        f"{env!r:.80} is no environment that could be stepped; give a gymnasium env, a gymnasium vector env, "
        "an EnvPool pool, a function that makes an env, or a list of such functions"
    )


def _from_pool(env: Any) -> VectorEnv:
    if "Gymnasium" not in type(env).__name__:
        raise ConfigError(f"{type(env).__name__} speaks another dialect; make the pool with envpool.make_gymnasium")
    pool_class, spec_class, config = type(env), type(env.spec), env.config
    given: list[Pool] = [env]

    def make(seeds: list[int]) -> Pool:
        if given:
            return given.pop()
        pool: Pool = pool_class(spec_class(spec_class.gen_config(**{**config, "env_seed": seeds})))
        return pool

    return EnvPoolVectorEnv(make, spawn_seeds(None, int(config["num_envs"])))
