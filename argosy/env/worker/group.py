"""The envs of one worker, where they live: the loop over envs that every kind of worker runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from argosy.env.spaces import Space, mismatch, normal_form, row_shape, shape_of, write
from argosy.env.vector.protocol import Info
from argosy.env.worker.base import Actions, EnvFn, EnvSpaces, StepArrays, common_spaces
from argosy.errors import EnvError


class EnvGroup:
    """Consecutive envs of a vector env, starting at index `first`.

    Args:
        env_fns: functions that make the envs.
        first: index of the first one in the vector env.
        current: array [1] that always holds the index of the env at work (-1: none), so that whoever watches
            from outside can name it.

    Raises:
        EnvError: a function raised, or the envs' spaces differ.
    """

    def __init__(self, env_fns: Sequence[EnvFn], first: int = 0, current: NDArray[np.int32] | None = None) -> None:
        self.first = first
        self.current = np.full(1, -1, np.int32) if current is None else current
        self.envs: list[gym.Env[object, object]] = []
        self.checked = [False] * len(env_fns)
        try:
            for index, env_fn in enumerate(env_fns, first):
                self.current[0] = index
                self.envs.append(env_fn())
        except Exception as error:
            index = int(self.current[0])
            self.close()
            raise EnvError(f"env {index} could not be made: {type(error).__name__}: {error}") from error
        self.current[0] = -1
        self.spaces = common_spaces({index: spaces_of(env) for index, env in enumerate(self.envs, first)})

    def step(self, ids: Sequence[int] | None, actions: Actions, out: StepArrays, rows: Sequence[int]) -> list[Info]:
        """Step the envs `ids` (None: all) and write the results into the rows `rows` of `out`.

        Raises:
            EnvError: an env raised or returned what cannot be stored; names it.
        """
        first = self.first
        which = range(first, first + len(self.envs)) if ids is None else ids
        obs_out, rew, terminated, truncated = out.obs, out.rew, out.terminated, out.truncated
        array = None if isinstance(obs_out, dict) else cast("NDArray[np.object_]", obs_out)  # any type of element
        shape = row_shape(array)
        envs, current = self.envs, self.current
        infos: list[Info] = []
        result: object = None
        try:
            for index, row, action in zip(which, rows, actions, strict=True):
                current[0], result = index, None
                result = envs[index - first].step(action)
                obs, reward, terminated[row], truncated[row], info = result
                try:
                    rew[row] = reward
                except (TypeError, ValueError):
                    rew = self._widened(out, reward)
                    rew[row] = reward
                if array is not None:
                    if shape is not None and shape_of(obs) != shape:  # numpy would spread it out
                        raise ValueError(f"an observation of shape {shape_of(obs)}")
                    array[row] = obs
                else:
                    write(obs_out, row, obs)
                info["env_id"] = index
                infos.append(info)
        except Exception as error:
            index = int(current[0])
            if result is not None and (sentence := _what_is_wrong(envs[index - first].observation_space, result)):
                raise EnvError(f"env {index}, step: {sentence}") from error
            raise EnvError(f"env {index} failed in step: {type(error).__name__}: {error}") from error
        current[0] = -1
        return infos

    def _widened(self, out: StepArrays, reward: object) -> NDArray[np.float32]:
        """Return an array for rewards like `reward`, of several agents, which `out` had no room for."""
        several = np.asarray(reward)
        if out.rew.ndim > 1 or several.ndim == 0 or several.dtype.kind not in "biuf":
            raise EnvError(f"a reward {reward!r:.60} where {out.rew.shape[1:] or 'a number'} belongs")
        out.widen(several.shape)
        self.spaces = replace(self.spaces, reward_shape=several.shape)
        return out.rew

    def reset(
        self, ids: Sequence[int], kwargs: Sequence[Mapping[str, object]], out: StepArrays, rows: Sequence[int]
    ) -> list[Info]:
        """Reset the envs `ids`; the first observation of every env is checked against its space once.

        Raises:
            EnvError: an env raised, or its observation is not in its space; names it.
        """
        infos: list[Info] = []
        for index, row, env_kwargs in zip(ids, rows, kwargs, strict=True):
            self.current[0] = index
            env = self.envs[index - self.first]
            try:
                result: object = env.reset(**env_kwargs)  # type: ignore[arg-type]  # seed, options and the env's own
                obs, info = _reset_result(result)
                if not self.checked[index - self.first]:
                    if sentence := mismatch(env.observation_space, obs):
                        raise EnvError(sentence)
                    self.checked[index - self.first] = True
                write(out.obs, row, obs)
                info["env_id"] = index
            except EnvError as error:
                raise EnvError(f"env {index}, reset: {error}") from error
            except Exception as error:
                raise EnvError(f"env {index} failed in reset: {type(error).__name__}: {error}") from error
            out.rew[row] = 0.0
            out.terminated[row] = out.truncated[row] = False
            infos.append(info)
        self.current[0] = -1
        return infos

    def get_attr(self, ids: Sequence[int], name: str) -> list[object]:
        """Return the attribute `name` of each env; it is looked up through the wrappers."""
        return [self.envs[i - self.first].get_wrapper_attr(name) for i in ids]

    def set_attr(self, ids: Sequence[int], name: str, value: object) -> list[object]:
        """Set the attribute `name` of each env: where a wrapper or the env has it, else on the innermost env."""
        for i in ids:
            env = self.envs[i - self.first]
            if not env.set_wrapper_attr(name, value, force=False):
                setattr(env.unwrapped, name, value)
        return [None] * len(ids)

    def render(self, ids: Sequence[int], **kwargs: object) -> list[object]:
        """Return what each env's `render` gives."""
        return [self.envs[i - self.first].render(**kwargs) for i in ids]

    def close(self) -> None:
        """Close every env, also when one of them fails at it."""
        for env in self.envs:
            with contextlib.suppress(Exception):
                env.close()


def _what_is_wrong(space: Space, result: object) -> str | None:
    """Say why what an env's step returned cannot be stored; None if that is not why."""
    if not isinstance(result, tuple) or len(result) != 5:
        return f"it returned {_kind(result)}; it has to return (obs, reward, terminated, truncated, info)"
    obs, rew, _, _, info = result
    if not isinstance(info, dict):
        return f"info is a {type(info).__name__}; it has to be a dict"
    if np.asarray(rew).dtype.kind not in "biuf":
        return f"the reward is {rew!r:.60}; it has to be a number"
    return mismatch(space, obs)


def _reset_result(result: object) -> tuple[object, dict[str, object]]:
    """Return observation and info of a reset, if that is what it returned."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise EnvError(f"it returned {_kind(result)}; it has to return (obs, info)")
    obs, info = result
    if not isinstance(info, dict):
        raise EnvError(f"info is a {type(info).__name__}; it has to be a dict")
    return obs, info


def _kind(result: object) -> str:
    return f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"


def spaces_of(env: gym.Env[object, object]) -> EnvSpaces:
    """Return the spaces of one env; an env with several rewards says so by an attribute `reward_shape`."""
    for name in ("observation_space", "action_space"):
        if getattr(env, name, None) is None:
            raise EnvError(
                f"{type(env.unwrapped).__name__} has no {name}, by which memory is laid out; for Python objects it is "
                "a Graph, Sequence, Text, or a subclass of gymnasium.Space with `contains`"
            )
    try:
        reward_shape = tuple(env.get_wrapper_attr("reward_shape"))
    except AttributeError:
        reward_shape = ()
    return EnvSpaces(normal_form(env.observation_space), env.action_space, reward_shape)
