"""Wrappers around one env: by name, and those of our own (action spaces, ends of episodes, stacked frames, masks)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsFloat, TypeAlias, TypeVar, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from argosy.config import check_arguments
from argosy.env.actions import all_choices, choices
from argosy.env.spaces import Space, is_array_space, is_bounded, parts_of
from argosy.env.vector.protocol import Info
from argosy.env.worker.base import Env
from argosy.errors import ConfigError, EnvError, SpaceError
from argosy.named import Registry, Source

Array: TypeAlias = "NDArray[np.generic]"
EnvT = TypeVar("EnvT")


_OWN = (
    "ActionMaskFromInfo",
    "ContinuousToDiscrete",
    "FlatAction",
    "FrameStack",
    "MultiDiscreteToDiscrete",
    "TruncatedAsTerminated",
)
_SOURCES = {name: (name, __name__) for name in _OWN} | {
    name: (name, f"argosy.env.agents.{module}") for name, module in (("CentralState", "central"), ("Team", "team"))
}
_WRAPPERS = Registry("wrapper", _SOURCES, has=("reset", "step"))

register_wrapper = _WRAPPERS.register
"""Give a name for `EnvConfig.wrappers` to a wrapper's class, or to a function that takes an env and returns one."""


def wrapper_sources(wrappers: Iterable[str]) -> dict[str, Source]:
    """Return what stands behind the registered names among `EnvConfig.wrappers`, for processes that lack them."""
    names = {wrapper.partition("(")[0] for wrapper in wrappers}
    return {name: _WRAPPERS.source(name) for name in sorted(names) if name in _WRAPPERS}


def register_missing(sources: Mapping[str, Source]) -> None:
    """Register those of another process's wrappers that are unknown here."""
    for name, (cls, module) in sources.items():
        if name not in _WRAPPERS:
            _WRAPPERS.register(name, cls, module)


def wrapped(make: Callable[[], EnvT], wrappers: Sequence[str], kind: type[EnvT] | None = None) -> Callable[[], EnvT]:
    """Return a function that makes an env and puts wrappers around it, the first one innermost.

    Args:
        make: makes the env.
        wrappers: as in `EnvConfig.wrappers`.
        kind: of env, which wrappers must return; None: gymnasium's.

    Raises:
        ConfigError: a wrapper is unknown, cannot be imported, or does not take its arguments.
    """
    if not wrappers:
        return make
    calls = [(wrapper, *_WRAPPERS.call(wrapper)) for wrapper in wrappers]
    for wrapper, cls, kwargs in calls:
        check_arguments(cls, kwargs, f"wrapper {wrapper!r}", first=("the environment",))
        if kind is not None and isinstance(cls, type) and issubclass(cls, gym.Wrapper):
            raise ConfigError(
                f"wrapper {wrapper!r} goes around gymnasium envs, not around one of several agents: it is for a "
                "task of `argosy.train`"
            )

    kind = cast("type[EnvT]", gym.Env) if kind is None else kind

    def make_wrapped() -> EnvT:
        env = make()
        for wrapper, cls, kwargs in calls:
            try:
                outer = cls(env, **kwargs)
            except Exception as error:
                raise EnvError(f"wrapper {wrapper!r} does not fit {env}: {type(error).__name__}: {error}") from error
            if not isinstance(outer, kind):
                wanted = "a gymnasium.Env" if kind is gym.Env else f"an {kind.__name__}"
                raise EnvError(f"wrapper {wrapper!r} returned a {type(outer).__name__}; it must return {wanted}")
            env = outer
        return env

    return make_wrapped


class ContinuousToDiscrete(gym.ActionWrapper[object, object, object]):
    """Choose each dimension of a bounded Box action [d] from evenly spaced values, both bounds among them.

    Args:
        env: env with a bounded one-dimensional Box action space.
        action_per_dim: how many values per dimension: one number, or one for each.

    Raises:
        SpaceError: another action space.
        ConfigError: `action_per_dim` has the wrong length or a number below 2.
    """

    def __init__(self, env: Env, action_per_dim: int | Sequence[int]) -> None:
        super().__init__(env)
        box = env.action_space
        if not isinstance(box, spaces.Box) or len(box.shape) != 1 or not is_bounded(box):
            raise SpaceError(f"ContinuousToDiscrete needs a bounded Box action space of one axis, got {box}")
        dims = box.shape[0]
        counts = [action_per_dim] * dims if isinstance(action_per_dim, int) else list(action_per_dim)
        if len(counts) != dims or min(counts) < 2:
            raise ConfigError(f"action_per_dim is {action_per_dim}; give {dims} whole number(s) >= 2")
        self.action_space = spaces.MultiDiscrete(counts)
        self._values = [
            np.linspace(low, high, n, dtype=box.dtype) for low, high, n in zip(box.low, box.high, counts, strict=True)
        ]

    def action(self, action: object) -> Array:
        """Return the Box actions [..., d] that actions [..., d] of indices stand for."""
        indices = np.asarray(action, np.int64)
        return np.stack([values[indices[..., i]] for i, values in enumerate(self._values)], axis=-1)


class MultiDiscreteToDiscrete(gym.ActionWrapper[object, object, object]):
    """Number the combinations of a MultiDiscrete action [d]; the last dimension changes fastest.

    Args:
        env: env with a MultiDiscrete action space of one axis.

    Raises:
        SpaceError: another action space.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        multi = env.action_space
        if not isinstance(multi, spaces.MultiDiscrete) or multi.nvec.ndim != 1:
            raise SpaceError(f"MultiDiscreteToDiscrete needs a MultiDiscrete action space of one axis, got {multi}")
        self._sizes = tuple(int(n) for n in multi.nvec)
        self._start = np.asarray(multi.start)
        self.action_space = spaces.Discrete(int(np.prod(self._sizes)))

    def action(self, action: object) -> Array:
        """Return the combinations [..., d] with these numbers [...]."""
        combination = np.unravel_index(np.asarray(action, np.int64), self._sizes)
        moved: Array = np.add(np.stack(combination, axis=-1), self._start, dtype=np.int64)
        return moved


class FlatAction(gym.ActionWrapper[object, object, object]):
    """Lay the parts of a Tuple or Dict action side by side, in their order.

    Where all of them are choices, the action is a MultiDiscrete; a flag of a MultiBinary is a choice of two. Where one
    is a Box, it is a Box: a choice among n is n numbers in [-1, 1], of which the largest one says what is chosen, and
    numbers of a Box of integers are rounded.

    Args:
        env: env whose Tuple or Dict action space holds Discrete, MultiDiscrete, MultiBinary and Box, however deep.

    Raises:
        SpaceError: another action space.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        nested = env.action_space
        if parts_of(nested) is None or not is_array_space(nested):
            raise SpaceError(
                "FlatAction needs a Tuple or Dict action space of Discrete, MultiDiscrete, MultiBinary and Box parts, "
                f"got {nested}"
            )
        parts = list(_leaves(nested))
        self._continuous = any(isinstance(part, spaces.Box) for part in parts)
        if self._continuous:
            boxes = [_as_box(part) for part in parts]
            low, high = (np.concatenate(side) for side in zip(*((box.low, box.high) for box in boxes), strict=True))
            self.action_space, widths = spaces.Box(low, high), [len(box.low) for box in boxes]
        else:
            sizes = [all_choices(part) for part in parts]
            self.action_space, widths = spaces.MultiDiscrete(np.concatenate(sizes)), [len(size) for size in sizes]
        self._ends = np.cumsum(widths)[:-1]
        self._parts = [(part, np.cumsum(all_choices(part))[:-1]) for part in parts]

    def action(self, action: object) -> object:
        """Return the Tuple or Dict that an action [d] stands for."""
        values = np.split(np.asarray(action), self._ends)
        elements = (self._element(*part, value) for part, value in zip(self._parts, values, strict=True))
        return _nested(self.env.action_space, elements)

    def _element(self, space: Space, cuts: NDArray[np.int64], value: Array) -> object:
        """Return what the numbers of a part stand for; `cuts` are between its choices."""
        if isinstance(space, spaces.Box):
            if np.issubdtype(space.dtype, np.integer):
                value = np.rint(value).clip(space.low.ravel(), space.high.ravel())
            return value.astype(space.dtype).reshape(space.shape)
        if self._continuous:
            value = np.array([each.argmax() for each in np.split(value, cuts)])
        if isinstance(space, spaces.Discrete):
            return space.start + space.dtype.type(value[0])
        start = space.start if isinstance(space, spaces.MultiDiscrete) else 0
        return (value.reshape(space.shape) + start).astype(space.dtype)


def _leaves(space: Space) -> Iterator[Space]:
    """Yield the parts that have no parts."""
    parts = parts_of(space)
    if parts is None:
        yield space
    for part in (parts or {}).values():
        yield from _leaves(part)


def _nested(space: Space, elements: Iterator[object]) -> object:
    """Return elements of the parts that have no parts, in their order, as one of the space."""
    parts = parts_of(space)
    if parts is None:
        return next(elements)
    made = {key: _nested(part, elements) for key, part in parts.items()}
    return made if isinstance(space, spaces.Dict) else tuple(made.values())


def _as_box(space: Space) -> spaces.Box:
    """Return what a part is beside a Box: [d]. Each integer has as much room as any other."""
    if not isinstance(space, spaces.Box):
        return spaces.Box(-1.0, 1.0, (sum(all_choices(space)),))
    room = 0.5 if np.issubdtype(space.dtype, np.integer) else 0.0
    return spaces.Box((space.low.ravel() - room).astype(np.float32), (space.high.ravel() + room).astype(np.float32))


class TruncatedAsTerminated(gym.Wrapper[object, object, object, object]):
    """Report a truncated episode as terminated, for algorithms that know one kind of end (no bootstrap there)."""

    def step(self, action: object) -> tuple[object, SupportsFloat, bool, bool, Info]:
        """Step; whatever is truncated is terminated too."""
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew, terminated or truncated, truncated, info


class _Seeing(gym.Wrapper[object, object, object, object]):
    """Shows its observations otherwise, by what `_seen` makes of them."""

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[Any, Info]:
        """Start an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._seen(obs, info, is_first=True), info

    def step(self, action: object) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """Step."""
        obs, rew, terminated, truncated, info = self.env.step(action)
        return self._seen(obs, info, is_first=False), rew, terminated, truncated, info

    def _seen(self, obs: object, info: Info, *, is_first: bool) -> object:
        raise NotImplementedError


class FrameStack(_Seeing):
    """Stack the last observations along a new first axis, oldest first; a reset fills the stack with the first one.

    Args:
        env: env with a Box observation space.
        num_stack: how many.

    Raises:
        SpaceError: another observation space.
        ConfigError: `num_stack` is below 1.
    """

    def __init__(self, env: Env, num_stack: int) -> None:
        super().__init__(env)
        box = env.observation_space
        if not isinstance(box, spaces.Box):
            raise SpaceError(f"FrameStack needs a Box observation space, got {box}")
        if num_stack < 1:
            raise ConfigError(f"num_stack is {num_stack}; it must be >= 1")
        self._frames: deque[object] = deque(maxlen=num_stack)
        self.observation_space = batch_space(box, num_stack)

    def _seen(self, obs: object, info: Info, *, is_first: bool) -> Array:
        frame = np.array(obs)  # an env may use the same array again
        self._frames.extend([frame] * (self._frames.maxlen or 1) if is_first else [frame])
        return np.stack(self._frames)  # type: ignore[arg-type]  # a deque is a sequence


class ActionMaskFromInfo(_Seeing):
    """Carry the allowed actions from the infos to the policy: the observation becomes {"obs", "action_mask"}.

    Policies for discrete actions honour the entry "action_mask" of a dict observation. A Dict observation keeps its
    keys and gains that one. An info without mask means that everything is allowed.

    Args:
        env: env with a Discrete or MultiDiscrete action space; the mask has one element per action, or per value of
            each dimension, one after the other.
        key: entry of the infos.

    Raises:
        SpaceError: another action space, or the observation has that key already.
    """

    def __init__(self, env: Env, key: str = "action_mask") -> None:
        super().__init__(env)
        space, actions = env.observation_space, env.action_space
        self._size = sum(choices(actions))
        if not self._size:
            raise SpaceError(f"ActionMaskFromInfo needs a Discrete or MultiDiscrete action space, got {actions}")
        self._key, self._is_dict = key, isinstance(space, spaces.Dict)
        parts: dict[str, Space] = dict(space.spaces) if isinstance(space, spaces.Dict) else {"obs": space}
        if "action_mask" in parts:
            raise SpaceError("ActionMaskFromInfo: the observation has an entry 'action_mask' already")
        mask_space = spaces.MultiBinary(self._size)
        self.observation_space = spaces.Dict({**parts, "action_mask": mask_space})

    def _seen(self, obs: object, info: Info, *, is_first: bool) -> dict[str, object]:
        mask = info.get(self._key)
        flags = np.ones(self._size, np.int8) if mask is None else np.asarray(mask, np.int8).reshape(-1)
        if flags.shape != (self._size,):
            raise SpaceError(f"info[{self._key!r}] has {flags.size} elements; the actions need {self._size}")
        parts = dict(obs) if isinstance(obs, dict) and self._is_dict else {"obs": obs}
        return {**parts, "action_mask": flags}
