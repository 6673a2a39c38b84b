"""Vector env wrappers that normalise observations and rewards by running statistics, which are saved and restored."""

from __future__ import annotations

import dataclasses
from typing import TypedDict, cast

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from argosy.data.running import RunningMeanStd, RunningState
from argosy.env.base import AsyncVectorEnv, Ids, Info, Obs, Received, StepReturn, VectorEnv, info_column
from argosy.env.spaces import Space
from argosy.errors import ConfigError, DataError, EnvError, SpaceError


class VectorEnvWrapper:
    """A vector env around another one; everything that a subclass leaves out is the inner env's."""

    def __init__(self, venv: VectorEnv) -> None:
        self.venv = venv

    @property
    def num_envs(self) -> int:
        """How many envs."""
        return self.venv.num_envs

    def __len__(self) -> int:
        return self.venv.num_envs

    @property
    def single_observation_space(self) -> Space:
        """Space of one env's observation."""
        return self.venv.single_observation_space

    @property
    def single_action_space(self) -> Space:
        """Space of one env's action."""
        return self.venv.single_action_space

    def seed(self, seed: int | list[int] | None = None) -> list[int | None]:
        """Let the next reset start every env anew."""
        return self.venv.seed(seed)

    def reset(self, id: Ids = None, **kwargs: object) -> tuple[Obs, Info]:
        """Start new episodes in the envs `id`."""
        return self.venv.reset(id, **kwargs)

    def step(self, action: object, id: Ids = None) -> StepReturn:
        """Step the envs `id`."""
        return self.venv.step(action, id)

    def send(self, action: object, id: Ids = None) -> None:
        """Start a step in the envs `id`."""
        self._async().send(action, id)

    def send_reset(self, id: Ids = None, **kwargs: object) -> None:
        """Start a reset in the envs `id`."""
        self._async().send_reset(id, **kwargs)

    def recv(self) -> Received:
        """Wait for started envs."""
        return self._async().recv()

    def render(self, **kwargs: object) -> list[object]:
        """Return what each env's `render` gives."""
        return self.venv.render(**kwargs)

    def close(self) -> None:
        """Close the inner vector env."""
        self.venv.close()

    def __getattr__(self, name: str) -> object:
        if name == "venv":  # not set yet: no recursion
            raise AttributeError(name)
        return getattr(self.venv, name)

    def _async(self) -> AsyncVectorEnv:
        if not isinstance(self.venv, AsyncVectorEnv):
            raise EnvError(f"{type(self.venv).__name__} cannot start steps and fetch them later; use step")
        return self.venv


class NormObsState(TypedDict):
    """What `VectorEnvNormObs.state_dict` returns."""

    obs_rms: RunningState


class VectorEnvNormObs(VectorEnvWrapper):
    """Observations minus their running mean, divided by their standard deviation, clipped to [-10, 10], float32.

    Args:
        venv: vector env with a Box observation space.
        update_obs_rms: whether the statistics take in what is seen; False for test envs, which are given the
            training envs' with `set_obs_rms`.

    Raises:
        SpaceError: another observation space.
    """

    def __init__(self, venv: VectorEnv, update_obs_rms: bool = True) -> None:
        super().__init__(venv)
        space = venv.single_observation_space
        if not isinstance(space, Box):
            raise SpaceError(f"VectorEnvNormObs needs a Box observation space, got {space}")
        self.update_obs_rms = update_obs_rms
        self.obs_rms = RunningMeanStd(space.shape)
        clip = self.obs_rms.clip_max or np.inf
        self._space = Box(-clip, clip, space.shape, np.float32)

    @property
    def single_observation_space(self) -> Space:
        """Space of one normalised observation."""
        return self._space

    def reset(self, id: Ids = None, **kwargs: object) -> tuple[Obs, Info]:
        """Start new episodes in the envs `id`."""
        obs, info = self.venv.reset(id, **kwargs)
        return self._normalised(obs, info), info

    def step(self, action: object, id: Ids = None) -> StepReturn:
        """Step the envs `id`."""
        obs, rew, terminated, truncated, info = self.venv.step(action, id)
        return self._normalised(obs, info), rew, terminated, truncated, info

    def recv(self) -> Received:
        """Wait for started envs."""
        got = super().recv()
        return dataclasses.replace(got, obs=self._normalised(got.obs, got.info))

    def get_obs_rms(self) -> RunningMeanStd:
        """Return the statistics (the object itself, which goes on changing)."""
        return self.obs_rms

    def set_obs_rms(self, obs_rms: RunningMeanStd) -> None:
        """Use these statistics from now on (the object itself: test envs follow the training envs)."""
        self.obs_rms = obs_rms

    def state_dict(self) -> NormObsState:
        """Return the statistics."""
        return {"obs_rms": self.obs_rms.state_dict()}

    def load_state_dict(self, state: NormObsState) -> None:
        """Continue from saved statistics."""
        self.obs_rms.load_state_dict(state["obs_rms"])

    def _normalised(self, obs: Obs, info: Info) -> Obs:
        array = cast("NDArray[np.generic]", obs)
        if self.update_obs_rms:
            try:
                self.obs_rms.update(array)
            except DataError as error:
                axes = tuple(range(1, array.ndim))
                bad = int(np.flatnonzero(~np.isfinite(array.astype(np.float64)).all(axis=axes))[0])
                ids = info_column(info, "env_id")
                raise EnvError(f"env {bad if ids is None else ids[bad]}, obs: {error}") from error
        return self.obs_rms.norm(array)


class NormRewardState(TypedDict):
    """What `VectorEnvNormReward.state_dict` returns."""

    return_rms: RunningState
    returns: NDArray[np.float64]


class VectorEnvNormReward(VectorEnvWrapper):
    """Rewards divided by the running standard deviation of the discounted return, clipped to [-10, 10].

    R_t = gamma * R_{t-1} + r_t per env, 0 again at an episode's end. For training envs only.

    Args:
        venv: vector env.
        gamma: discount of the running return, 0 .. 1.
        update_return_rms: whether the statistics take in what is seen.

    Raises:
        ConfigError: `gamma` is out of range.
    """

    def __init__(self, venv: VectorEnv, gamma: float = 0.99, update_return_rms: bool = True) -> None:
        super().__init__(venv)
        if not 0.0 <= gamma <= 1.0:
            raise ConfigError(f"gamma is {gamma}; it must be >= 0 and <= 1")
        self.gamma, self.update_return_rms = gamma, update_return_rms
        self.return_rms = RunningMeanStd()
        self.returns = np.zeros(venv.num_envs, np.float64)

    def reset(self, id: Ids = None, **kwargs: object) -> tuple[Obs, Info]:
        """Start new episodes in the envs `id`."""
        obs, info = self.venv.reset(id, **kwargs)
        self.returns[slice(None) if id is None else np.atleast_1d(np.asarray(id))] = 0.0
        return obs, info

    def step(self, action: object, id: Ids = None) -> StepReturn:
        """Step the envs `id`."""
        obs, rew, terminated, truncated, info = self.venv.step(action, id)
        ids = info_column(info, "env_id")
        rows = np.arange(len(rew)) if ids is None else ids.astype(np.int64)
        return obs, self._normalised(rew, terminated | truncated, rows), terminated, truncated, info

    def recv(self) -> Received:
        """Wait for started envs."""
        got = super().recv()
        moved = ~got.is_reset
        rew = got.rew.copy()
        done = (got.terminated | got.truncated)[moved]
        if moved.any():
            rew[moved] = self._normalised(rew[moved], done, got.env_id[moved])
        return dataclasses.replace(got, rew=rew)

    def state_dict(self) -> NormRewardState:
        """Return the statistics and the running returns."""
        return {"return_rms": self.return_rms.state_dict(), "returns": self.returns.copy()}

    def load_state_dict(self, state: NormRewardState) -> None:
        """Continue from saved statistics."""
        self.return_rms.load_state_dict(state["return_rms"])
        self.returns = np.array(state["returns"], np.float64)

    def _normalised(
        self, rew: NDArray[np.float32], done: NDArray[np.bool_], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        returns = self.returns[rows] * self.gamma + rew
        if self.update_return_rms:
            try:
                self.return_rms.update(returns)
            except DataError as error:
                bad = rows[np.flatnonzero(~np.isfinite(returns))[0]]
                raise EnvError(f"env {bad}, rew: {error}") from error
        self.returns[rows] = np.where(done, 0.0, returns)
        scaled = rew / np.sqrt(self.return_rms.var + self.return_rms.epsilon)
        return np.clip(scaled, -10.0, 10.0).astype(np.float32)
