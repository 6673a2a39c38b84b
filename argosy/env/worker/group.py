"""The envs of one worker, where they live: the loop over envs that every kind of worker runs, and the simplest one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self, TypeAlias

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from argosy.env.spaces import Space, check_sizes, mismatch, normal_form, put, write
from argosy.env.vector.protocol import Info
from argosy.env.worker.base import Actions, Command, EnvFn, EnvSpaces, EnvWorker, Given, StepArrays, common_spaces
from argosy.errors import ArgosyError, EnvError, told

Answer: TypeAlias = tuple[StepArrays, list[Info]]
FAILURES = (Exception, SystemExit)
"""What an env may raise; a KeyboardInterrupt is the user's."""
NUMBERS = (float, int, np.floating, np.integer, np.bool_)
"""Types of a reward; a bool counts as one."""


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
        found: dict[int, EnvSpaces] = {}
        try:
            for index, env_fn in enumerate(env_fns, first):
                self.current[0] = index
                if not callable(env_fn):
                    raise EnvError(f"{env_fn!r} is no function that makes an env; write [lambda: ..., lambda: ...]")
                self.envs.append(env_fn())
                found[index] = spaces_of(self.envs[-1])
            if len({id(getattr(env, "unwrapped", env)) for env in self.envs}) < len(self.envs):
                raise EnvError("the functions returned one env several times; each is to make one of its own")
        except FAILURES as error:
            index = int(self.current[0])
            self.close()
            raise EnvError(f"env {index} could not be made: {_told(error)}") from error
        self.current[0] = -1
        self.spaces = common_spaces(found)

    def step(self, ids: Sequence[int] | None, actions: Actions, out: StepArrays, rows: Sequence[int]) -> list[Info]:
        """Step the envs `ids` (None: all) and write the results into the rows `rows` of `out`, whose flags are False.

        Raises:
            EnvError: an env raised or returned what cannot be stored; names it.
        """
        first, envs, current = self.first, self.envs, self.current
        if ids is None:
            ids = range(first, first + len(envs))
        else:
            envs = [envs[index - first] for index in ids]
        obs_out, rew, terminated, truncated = out.obs, out.rew, out.terminated, out.truncated
        array = None if isinstance(obs_out, dict) else obs_out  # any type of element
        shape, dtype = (None, None) if array is None else (array.shape[1:], array.dtype)
        one_reward, ndarray = rew.ndim == 1, np.ndarray
        infos: list[Info] = []
        result: object = None
        try:
            for index, env, row, action in zip(ids, envs, rows, actions, strict=True):
                current[0], result = index, None
                result = env.step(action)
                if not isinstance(result, tuple):
                    raise TypeError(f"a {type(result).__name__}")
                obs, reward, over, cut, info = result
                # Looked at in the cheapest way; `_what_is_wrong` says it in words
                if one_reward and (type(reward) is float or isinstance(reward, NUMBERS)):
                    rew[row] = reward
                else:
                    rew = self._put_reward(out, row, reward)
                    one_reward = rew.ndim == 1
                if over is not False or cut is not False:
                    terminated[row], truncated[row] = _flag(over), _flag(cut)
                if array is None:
                    write(obs_out, row, obs)
                elif type(obs) is ndarray and obs.dtype is dtype and obs.shape == shape:
                    array[row] = obs
                else:
                    put(array, row, obs)
                infos.append({**info, "env_id": index})  # an env may give the same dict again
        except FAILURES as error:
            index = int(current[0])
            if result is not None and (sentence := _sentence(self.envs[index - first].observation_space, result)):
                raise EnvError(f"env {index}, step: {sentence}") from error
            raise EnvError(f"env {index} failed in step: {_told(error)}") from error
        current[0] = -1
        return infos

    def _put_reward(self, out: StepArrays, row: int, reward: object) -> NDArray[np.float32]:
        """Store rewards of several agents, for which `out` may have no room yet; return the array that they are in."""
        several = np.asarray(reward)
        if several.dtype.kind not in "biuf":
            raise TypeError(f"a reward of type {several.dtype}")
        if several.shape != out.rew.shape[1:]:
            if out.rew.ndim > 1 or several.ndim == 0 or several.size < 2:
                raise EnvError(f"a reward {reward!r:.60} where {out.rew.shape[1:] or 'float(reward)'} belongs")
            out.widen(several.shape)
            self.spaces = replace(self.spaces, reward_shape=several.shape)
        out.rew[row] = several
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
                info = {**info, "env_id": index}
            except EnvError as error:
                raise EnvError(f"env {index}, reset: {error}") from error
            except FAILURES as error:
                raise EnvError(f"env {index} failed in reset: {_told(error)}") from error
            out.rew[row] = 0.0
            out.terminated[row] = out.truncated[row] = False
            infos.append(info)
        self.current[0] = -1
        return infos

    def answer(self, command: Command, ids: Sequence[int] | None, given: Given) -> Answer:
        """Step the envs `ids` (None: all) with actions, or reset them with keyword arguments, into new arrays."""
        rows = range(len(self.envs) if ids is None else len(ids))
        out = StepArrays.empty(self.spaces, len(rows))
        return out, getattr(self, command)(ids, given, out, rows)

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
            with contextlib.suppress(*FAILURES):
                env.close()


def _sentence(space: Space, result: object) -> str | None:
    try:
        return _what_is_wrong(space, result)
    except FAILURES as error:  # of an object that cannot even be shown
        return f"it returned what cannot be looked at: {told(error)}"


def _what_is_wrong(space: Space, result: object) -> str | None:
    """Say why what an env's step returned cannot be stored; None if that is not why."""
    if not isinstance(result, tuple) or len(result) != 5:
        return f"it returned {kind_of(result)}; it has to return (obs, reward, terminated, truncated, info)"
    obs, rew, terminated, truncated, info = result
    if not isinstance(info, dict):
        return f"info is a {type(info).__name__}; it has to be a dict"
    if not isinstance(rew, NUMBERS) and np.asarray(rew).dtype.kind not in "biuf":
        return f"the reward is {rew!r:.60}; it has to be a number"
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            return f"{name} is {flag!r:.60} ({type(flag).__name__}); it has to be True or False"
    return mismatch(space, obs)


def _flag(flag: object) -> bool:
    if not isinstance(flag, bool | np.bool_):
        raise TypeError(f"a flag of type {type(flag).__name__}")
    return bool(flag)


def _reset_result(result: object) -> tuple[object, dict[str, object]]:
    """Return observation and info of a reset, if that is what it returned."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise EnvError(f"it returned {kind_of(result)}; it has to return (obs, info)")
    obs, info = result
    if not isinstance(info, dict):
        raise EnvError(f"info is a {type(info).__name__}; it has to be a dict")
    return obs, info


def kind_of(result: object) -> str:
    """Say what a reset or a step returned: how many values, or something else."""
    return f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, ArgosyError) else told(error)


def spaces_of(env: object) -> EnvSpaces:
    """Return the spaces of one env; an env with several rewards says so by an attribute `reward_shape`.

    Raises:
        EnvError: it is no gymnasium env, or has no spaces.
        SpaceError: a space has no elements.
    """
    if not isinstance(env, gym.Env):
        raise EnvError(f"what should make a gymnasium.Env made a {type(env).__name__}: {env!r:.60}")
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, gym.Space):
            given = "" if space is None else f" but {space!r:.60}"
            raise EnvError(
                f"{type(env.unwrapped).__name__} has no {name}{given}; set it to a space of gymnasium (for Python "
                "objects Graph, Sequence, Text, or a subclass of gymnasium.Space with `contains`)"
            )
        check_sizes(space, name)
    try:
        reward_shape = tuple(env.get_wrapper_attr("reward_shape"))
    except AttributeError:
        reward_shape = ()
    return EnvSpaces(normal_form(env.observation_space), env.action_space, reward_shape)


class DummyEnvWorker(EnvWorker):
    """Runs its envs one after the other when their results are asked for."""

    def __init__(self, env_fns: Sequence[EnvFn], first: int = 0) -> None:
        super().__init__(first, len(env_fns))
        self.group = EnvGroup(env_fns, first)

    def made(self) -> EnvSpaces:  # noqa: D102
        return self.group.spaces

    def _start(self, command: Command, ids: Sequence[int] | None, given: Given) -> Given:
        return given

    def recv(self, out: StepArrays, rows: Sequence[int]) -> list[Info]:  # noqa: D102
        command, ids, given = self.sent.popleft()
        infos: list[Info] = getattr(self.group, command)(ids, given, out, rows)
        return infos

    @classmethod
    def wait_any(cls, workers: Sequence[Self], limit_s: float | None) -> list[Self]:  # noqa: D102
        return [worker for worker in workers if worker.sent]

    def call(self, name: str, ids: Sequence[int], *args: object, **kwargs: object) -> list[object]:  # noqa: D102
        result: list[object] = getattr(self.group, name)(ids, *args, **kwargs)
        return result

    def close(self, deadline: float) -> None:  # noqa: D102
        self.group.close()
