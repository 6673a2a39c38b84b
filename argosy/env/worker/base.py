"""A worker holds some consecutive envs of a vector env, in this process or in another one, each with its own action."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from argosy.env.spaces import Space, allocate, copy_rows, merge_bounds
from argosy.env.vector.protocol import Info, Obs
from argosy.errors import EnvError

Env: TypeAlias = gym.Env[Any, Any]
EnvFn: TypeAlias = Callable[[], Env]
Actions: TypeAlias = "NDArray[np.generic] | Sequence[object]"
Command: TypeAlias = Literal["step", "reset"]
Given: TypeAlias = "Actions | Sequence[Mapping[str, object]]"
"""What a command is sent with: actions for a step, the keyword arguments of each env for a reset."""


@dataclass(slots=True)
class StepArrays:
    """Where the rows of one vector step are written. Rewards are [n] or, with several agents, [n, N]."""

    obs: Obs
    rew: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]

    @classmethod
    def empty(cls, spaces: EnvSpaces, n: int) -> StepArrays:
        """Return arrays for `n` rows; rewards and flags start as 0 and False."""
        return cls(
            obs=allocate(spaces.observation, n),
            rew=np.zeros((n, *spaces.reward_shape), np.float32),
            terminated=np.zeros(n, np.bool_),
            truncated=np.zeros(n, np.bool_),
        )

    def widen(self, reward_shape: tuple[int, ...]) -> None:
        """Make room for rewards of this shape, where an env did not say by `reward_shape` that it has several."""
        rew = np.zeros((len(self.rew), *reward_shape), np.float32)
        rew[:] = self.rew.reshape(len(rew), *[1] * len(reward_shape))
        self.rew = rew

    def write(self, rows: slice | Sequence[int], part: StepArrays) -> None:
        """Write what one worker returned into `rows`."""
        if part.rew.ndim > self.rew.ndim:
            self.widen(part.rew.shape[1:])
        elif part.rew.ndim < self.rew.ndim:
            part.widen(self.rew.shape[1:])
        copy_rows(part.obs, self.obs, rows)
        self.rew[rows], self.terminated[rows], self.truncated[rows] = part.rew, part.terminated, part.truncated


@dataclass(frozen=True, slots=True)
class EnvSpaces:
    """What a worker says about its envs: spaces (observation in `normal_form`), shape of one reward."""

    observation: Space
    action: Space
    reward_shape: tuple[int, ...] = ()


def common_spaces(of_envs: Mapping[int, EnvSpaces]) -> EnvSpaces:
    """Return the spaces of a vector env, from those of its envs by their index.

    Where they differ in bounds alone, it observes what any of them may show, and acts as all of them allow.

    Raises:
        EnvError: they differ in more; names an env.
    """
    (first, common), *others = of_envs.items()
    for index, own in others:
        observation = merge_bounds(common.observation, own.observation, narrow=False)
        action = merge_bounds(common.action, own.action, narrow=True)
        if observation is None or action is None or own.reward_shape != common.reward_shape:
            raise EnvError(
                f"env {index} has other spaces than env {first}: {own} and {common}; the envs of a vector env may "
                "differ in bounds alone (shapes and dtypes are the same), and have an action in common"
            )
        common = EnvSpaces(observation, action, common.reward_shape)
    return common


class EnvWorker(ABC):
    """Runs the envs `first` .. `first + num_envs - 1`; commands are answered in the order they were sent.

    Every method that reaches an env raises EnvError when the env raises, or its process dies or hangs.
    """

    siblings: Sequence[EnvWorker] = ()
    """The workers of the same vector env; whoever waits long for its own answer looks after the others, too."""
    hang_timeout_s: float | None = None
    """A command that takes longer is an error, and what runs the envs is killed; None: it may take for ever."""

    def __init__(self, first: int, num_envs: int) -> None:
        self.ids = range(first, first + num_envs)
        self.sent: deque[tuple[Command, Sequence[int] | None, Any]] = deque()
        """Commands whose results were not received yet, with their envs and by what `_start` returned."""
        self.sent_at = 0.0
        """When the newest one was sent (time.monotonic)."""

    @abstractmethod
    def made(self) -> EnvSpaces:
        """Wait until the envs are made; return their spaces. To be called once."""

    @property
    def held(self) -> str:
        """Which envs it runs, in words."""
        first, last = self.ids[0], self.ids[-1]
        return f"env {first}" if last == first else f"envs {first} to {last}"

    def send(self, command: Command, ids: Sequence[int] | None, given: Given) -> None:
        """Start a step or a reset of the envs `ids` (indices in the vector env; None: all of this worker)."""
        self.sent.append((command, ids, self._start(command, ids, given)))
        self.sent_at = time.monotonic()

    @abstractmethod
    def _start(self, command: Command, ids: Sequence[int] | None, given: Given) -> object:
        """Do as `send`; return what `recv` knows the command by."""

    @abstractmethod
    def recv(self, out: StepArrays, rows: Sequence[int]) -> list[Info]:
        """Wait for the oldest command that was sent; write its results into the rows `rows` of `out`."""

    @classmethod
    def ready(cls, workers: Sequence[Self], timeout_s: float | None) -> Sequence[Self]:
        """Return those whose `recv` returns at once, or says that they hang; waits for the first for `timeout_s`."""
        start = time.monotonic()
        left = {w: w.sent_at + w.hang_timeout_s - start for w in workers if w.hang_timeout_s is not None}
        limit_s = min([*left.values(), *([] if timeout_s is None else [timeout_s])], default=None)
        found = cls.wait_any(workers, None if limit_s is None else max(0.0, limit_s))
        waited = time.monotonic() - start
        return [*found, *(worker for worker, rest in left.items() if rest <= waited and worker not in found)]

    @classmethod
    @abstractmethod
    def wait_any(cls, workers: Sequence[Self], limit_s: float | None) -> Sequence[Self]:
        """Return those whose results are there; waits for the first at most `limit_s` (None: for ever)."""

    def check(self) -> None:  # noqa: B027  # envs in the caller's own process cannot be gone
        """Raise EnvError if whatever runs the envs is gone."""

    @abstractmethod
    def call(self, name: str, ids: Sequence[int], *args: object, **kwargs: object) -> list[object]:
        """Run the method `name` of `EnvGroup` (get_attr, set_attr, render) and wait for it."""

    @abstractmethod
    def close(self, deadline: float) -> None:
        """Close the envs; a process that has not ended at `deadline` (time.monotonic) is killed. Never raises."""

    def start_close(self) -> None:  # noqa: B027  # most workers have nothing to begin
        """Begin closing without waiting, so that several workers close at the same time."""


def action_rows(action: object, n: int, space: Space) -> Actions:
    """Return actions in a form whose i-th element is env i's action.

    Args:
        action: array or list [n, ...], or stacked parts (dict, tuple) for Dict and Tuple action spaces.
        n: how many envs.
        space: one env's action space.

    Raises:
        EnvError: not `n` actions.
    """
    if isinstance(action, np.ndarray) and action.ndim and len(action) == n:
        return action
    rows: Actions
    if hasattr(action, "keys") or (isinstance(space, spaces.Tuple) and isinstance(action, tuple)):
        rows = [_action_at(action, i, space) for i in range(n)]
    elif isinstance(action, list | tuple):
        rows = action
    else:
        rows = np.asarray(action)
    count = 1 if isinstance(rows, np.ndarray) and rows.ndim == 0 else len(rows)
    if count != n or (isinstance(rows, np.ndarray) and rows.ndim == 0):
        raise EnvError(f"step: {count} action(s) for {n} env(s); give one row per env")
    return rows


def _action_at(action: Any, row: int, space: Space) -> object:
    """Cut one env's action out of stacked parts."""
    if isinstance(space, spaces.Dict):
        return {key: _action_at(action[key], row, part) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        numbered = action if isinstance(action, tuple | list) else [action[str(i)] for i in range(len(space.spaces))]
        return tuple(_action_at(numbered[i], row, part) for i, part in enumerate(space.spaces))
    return action[row]


def as_slice(rows: Sequence[int]) -> slice | list[int]:
    """Return rows in the cheapest form to index an array with."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else list(rows)


def select_rows(given: Given, rows: Sequence[int]) -> Given:
    """Return the actions, or the keyword arguments, of some rows."""
    return given[as_slice(rows)] if isinstance(given, np.ndarray) else [given[row] for row in rows]
