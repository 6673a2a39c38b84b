"""Vector env wrappers that normalise observations and rewards by running statistics, which are saved and restored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium.spaces import Box, Dict
from numpy.typing import NDArray

from argosy.data.running import RunningMeanStd
from argosy.data.tree import State
from argosy.env.actions import find_mask_key
from argosy.env.spaces import Space, leaves
from argosy.env.vector.protocol import AsyncVectorEnv, Ids, Infos, Obs, Received, StepReturn, VectorEnv, info_column
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

    @property
    def is_async(self) -> bool:
        """Whether `recv` may return before every started env has finished."""
        return bool(getattr(self.venv, "is_async", False))

    def seed(self, seed: int | list[int] | None = None) -> list[int | None]:
        """Let the next reset start every env anew."""
        return self.venv.seed(seed)

    def reset(self, id: Ids = None, **kwargs: object) -> tuple[Obs, Infos]:
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

    def _inner_state(self) -> State:
        """Return the state of the wrappers within, if they have any, as an entry of a state."""
        state = getattr(self.venv, "state_dict", None)
        return {} if state is None else {"venv": state()}

    def _load_inner_state(self, state: Mapping[str, object]) -> None:
        if "venv" in state and (load := getattr(self.venv, "load_state_dict", None)) is not None:
            load(state["venv"])

    def _async(self) -> AsyncVectorEnv:
        if not isinstance(self.venv, AsyncVectorEnv):
            raise EnvError(f"{type(self.venv).__name__} cannot start steps and fetch them later; use step")
        return self.venv


ObsRms: TypeAlias = "RunningMeanStd | dict[str, RunningMeanStd]"
"""Statistics of a Box observation, or by the dotted names of the parts of a Dict or Tuple."""


class VectorEnvNormObs(VectorEnvWrapper):
    """Observations minus their running mean, divided by their standard deviation, clipped to [-10, 10], float32.

    Of a Dict or Tuple, the Boxes of floats are normalised, each on its own; images, masks and numbers of a choice
    stay as they are.

    Args:
        venv: vector env whose observation is, or holds, a Box.
        update_obs_rms: whether the statistics take in what is seen; False for test envs, which are given the
            training envs' with `set_obs_rms`.

    Raises:
        SpaceError: there is nothing to normalise.
    """

    def __init__(self, venv: VectorEnv, update_obs_rms: bool = True) -> None:
        super().__init__(venv)
        space = venv.single_observation_space
        mask = find_mask_key(space, venv.single_action_space)
        floats = {  # only a Box holds any
            name: shape for name, shape, dtype in leaves(space) if dtype.kind == "f" and name != mask
        }
        shapes = {"": space.shape} if isinstance(space, Box) else floats
        if not shapes:
            raise SpaceError(
                f"VectorEnvNormObs needs a Box observation, or one that holds a Box of floats, got {space}"
            )
        self.update_obs_rms = update_obs_rms
        self._statistics = {name: RunningMeanStd(shape) for name, shape in shapes.items()}
        self._space = self._normalised_space(space)

    @property
    def single_observation_space(self) -> Space:
        """Space of one normalised observation."""
        return self._space

    def reset(self, id: Ids = None, **kwargs: object) -> tuple[Obs, Infos]:
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

    def get_obs_rms(self) -> ObsRms:
        """Return the statistics (the objects themselves, which go on changing)."""
        return self._statistics.get("", self._statistics)

    def set_obs_rms(self, obs_rms: ObsRms) -> None:
        """Use these statistics from now on (the objects themselves: test envs follow the training envs).

        Raises:
            SpaceError: they are of other parts of the observation.
        """
        given = {"": obs_rms} if isinstance(obs_rms, RunningMeanStd) else obs_rms
        if given.keys() != self._statistics.keys():
            raise SpaceError(f"statistics of {sorted(given)} given; this env normalises {sorted(self._statistics)}")
        self._statistics = given

    obs_rms = property(get_obs_rms, set_obs_rms)
    """The statistics; of a Dict or Tuple by the dotted names of its parts."""

    def state_dict(self) -> State:
        """Return the statistics, and what the wrappers within hold."""
        parts = {name: rms.state_dict() for name, rms in self._statistics.items()}
        return {"obs_rms": parts.get("", parts), **self._inner_state()}

    def load_state_dict(self, state: State) -> None:
        """Continue from saved statistics."""
        self._load_inner_state(state)
        for name, rms in self._statistics.items():
            rms.load_state_dict(state["obs_rms"][name] if name else state["obs_rms"])

    def _normalised_space(self, space: Space, name: str = "") -> Space:
        rms = self._statistics.get(name)
        if rms is not None:
            clip = rms.clip_max or np.inf
            return Box(-clip, clip, rms.shape, np.float32)
        if isinstance(space, Dict):
            return Dict({key: self._normalised_space(part, _join(name, key)) for key, part in space.items()})
        return space

    def _normalised(self, obs: Obs, info: Infos, name: str = "") -> Obs:
        if isinstance(obs, dict):
            return {key: self._normalised(part, info, _join(name, key)) for key, part in obs.items()}
        rms = self._statistics.get(name)
        if rms is None:
            return obs
        if self.update_obs_rms:
            _update(rms, obs, info_column(info, "env_id"), _join("obs", name))
        return rms.norm(obs)


def _update(rms: RunningMeanStd, values: NDArray[Any], env_ids: NDArray[Any] | None, field: str) -> None:
    """Take values [k, ...] of the envs `env_ids` [k] (None: of all) into statistics.

    Raises:
        EnvError: one is not finite; names env and field.
    """
    try:
        rms.update(values)
    except DataError as error:
        finite = np.isfinite(values.astype(np.float64)).reshape(len(values), -1).all(axis=1)
        bad = int(np.argmin(finite))
        raise EnvError(f"env {bad if env_ids is None else env_ids[bad]}, {field}: {error}") from error


def _join(name: str, key: object) -> str:
    return f"{name}.{key}" if name and key != "" else f"{name}{key}"


class VectorEnvNormReward(VectorEnvWrapper):
    """Rewards divided by the running standard deviation of the discounted return, clipped to [-10, 10].

    R_t = gamma * R_{t-1} + r_t per env, 0 again at an episode's end. For training envs only.

    Args:
        venv: vector env.
        gamma: discount of the running return, 0 .. 1.

    Raises:
        ConfigError: `gamma` is out of range.
    """

    def __init__(self, venv: VectorEnv, gamma: float = 0.99) -> None:
        super().__init__(venv)
        if not 0.0 <= gamma <= 1.0:
            raise ConfigError(f"gamma is {gamma}; it must be >= 0 and <= 1")
        self.gamma = gamma
        self.return_rms = RunningMeanStd(())
        self.returns = np.zeros(venv.num_envs, np.float64)

    def reset(self, id: Ids = None, **kwargs: object) -> tuple[Obs, Infos]:
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
        self.returns[got.env_id[got.is_reset]] = 0.0
        rew = got.rew.copy()
        done = (got.terminated | got.truncated)[moved]
        if moved.any():
            rew[moved] = self._normalised(rew[moved], done, got.env_id[moved])
        return dataclasses.replace(got, rew=rew)

    def state_dict(self) -> State:
        """Return the statistics, the running returns, and what the wrappers within hold."""
        return {"return_rms": self.return_rms.state_dict(), "returns": self.returns.copy(), **self._inner_state()}

    def load_state_dict(self, state: State) -> None:
        """Continue from saved statistics."""
        self._load_inner_state(state)
        self.return_rms.load_state_dict(state["return_rms"])
        self.returns = np.array(state["returns"], np.float64)

    def _normalised(
        self, rew: NDArray[np.float32], done: NDArray[np.bool_], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        if rew.ndim > 1:
            raise EnvError(f"rewards of shape {rew.shape[1:]} per env can't be normalised; one number per step can")
        returns = self.returns[rows] * self.gamma + rew
        _update(self.return_rms, returns, rows, "rew")
        self.returns[rows] = np.where(done, 0.0, returns)
        scaled = rew / np.sqrt(self.return_rms.var + self.return_rms.epsilon)
        return np.clip(scaled, -10.0, 10.0).astype(np.float32)
