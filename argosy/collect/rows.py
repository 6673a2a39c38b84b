"""Rows of the episodes under way, one per env that waits for an action; and transitions on their way to a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from argosy.data import Batch, ReplayBuffer, tree
from argosy.data.tree import fields_of
from argosy.env.spaces import copy_rows, take
from argosy.env.vector.protocol import Obs
from argosy.errors import ConfigError
from argosy.policy import Policy, PolicyState

_ONE = np.ones((), np.int64)  # numpy adds an array in half the time that it takes to add the number 1


def begin_anew(state: PolicyState, rows: np.ndarray, default: PolicyState) -> PolicyState:
    """Return states [R, ...] with the default one in the given rows (indices or mask); `state` stays as it was."""
    begun = tree.map_leaves(np.copy, state)
    tree.assign(begun, rows, default)
    return begun


def with_state(policy: Policy, stored: Any, state: PolicyState) -> Any:
    """Put the state before a step to what the policy wants stored of it (`policy` in a buffer), if it has memory."""
    return Batch({**(fields_of(stored) or {}), "state": state}) if policy.is_recurrent else stored


@dataclass(slots=True, eq=False)
class Rows:
    """k episodes under way."""

    env_ids: np.ndarray
    """[k] int64."""
    obs: Obs
    """[k, ...] what the next action is for."""
    policy_state: object
    """[k, ...] state before the next step, None for policies without one."""
    on_reset: np.ndarray | None
    """[k] bool, True at an episode's first step; None for policies without state, which do not care."""
    returns: np.ndarray
    """[k] or [k, N] (N agents) float64, undiscounted, so far."""
    lens: np.ndarray
    """[k] int64, steps so far."""
    is_all: bool = False
    """The rows are all envs, in order."""
    first_state: object = None
    """[...] state at an episode's first step."""

    @classmethod
    def first(cls, obs: Obs, count: int, policy: Policy) -> Rows:
        """Start `count` episodes from their first observations [count, ...]."""
        return cls(
            env_ids=np.arange(count),
            obs=obs,
            policy_state=policy.first_states(count),
            on_reset=np.ones(count, dtype=bool) if policy.default_policy_state is not None else None,
            returns=np.zeros(count),
            lens=np.zeros(count, dtype=np.int64),
            is_all=True,
            first_state=policy.default_policy_state,
        )

    def __len__(self) -> int:
        return len(self.env_ids)

    def take(self, which: np.ndarray) -> Rows:
        """Return copies of some rows, by mask or index."""
        return Rows(
            self.env_ids[which],
            take(self.obs, which),
            tree.index(self.policy_state, which),
            None if self.on_reset is None else self.on_reset[which],
            self.returns[which],
            self.lens[which],
            first_state=self.first_state,
        )

    def count(self, rew: np.ndarray) -> None:
        """Add the rewards [k] or [k, N] of one step."""
        if self.returns.ndim != rew.ndim:
            self.returns = np.zeros(rew.shape)
        self.returns += rew
        self.lens += _ONE

    def advance(self, obs_next: Obs, policy_state: object) -> None:
        """Go on from the successors; the arrays are kept, not copied."""
        self.obs = obs_next
        if self.on_reset is not None:
            self.policy_state = policy_state
            self.on_reset = np.zeros(len(self), dtype=bool)

    def put(self, which: np.ndarray, part: Rows) -> None:
        """Write the rows that `take(which)` gave back; into the arrays as they are, so only where those are our own."""
        copy_rows(part.obs, self.obs, which)
        if self.on_reset is not None and part.on_reset is not None:
            self.on_reset[which] = part.on_reset
            put_rows(self.policy_state, len(self), which, part.policy_state)
        if self.returns.ndim != part.returns.ndim:
            self.returns = np.zeros((len(self), *part.returns.shape[1:]))
        self.returns[which] = part.returns
        self.lens[which] = part.lens

    def restart(self, which: np.ndarray, obs: Obs, *, in_place: bool = False) -> None:
        """Begin new episodes in the rows `which` (mask or indices), from their first observations."""
        if not in_place:  # the last observations are the env's, and others may hold on to them
            self.obs = tree.map_leaves(np.copy, self.obs)
        copy_rows(obs, self.obs, which)
        self.returns[which] = 0
        self.lens[which] = 0
        if self.on_reset is not None:
            self.on_reset[which] = True
            self.policy_state = begin_anew(self.policy_state, which, self.first_state)


def put_rows(kept: object, count: int, which: np.ndarray, value: object) -> object:
    """Write `value` [k, ...] to rows of `kept` [count, ...], which is made (zeros elsewhere) where it is None."""
    if kept is None:
        kept = tree.map_leaves(lambda leaf: np.zeros((count, *leaf.shape[1:]), leaf.dtype), value)
    tree.assign(kept, which, value)
    return kept


STEPS = 64
MAX_BYTES = 1 << 16
"""Larger steps (images) go straight to the buffer: copying them twice would cost more than it spares."""
_Column: TypeAlias = tuple[np.ndarray, "np.dtype[Any]", tuple[int, ...]]
"""Room [STEPS, B, ...] for a field; type and shape [B, ...] of one step of it, which are looked at at every step."""


class Staging:
    """Room for some vector steps of all envs. Checking and storing them together costs a third of doing it one by one.

    Only a buffer with as many sub-buffers as there are envs is staged.
    """

    def __init__(self, buffer: ReplayBuffer, num_envs: int) -> None:
        self.buffer = buffer
        own_way = type(buffer).add is not ReplayBuffer.add  # a class that adds rows otherwise
        self.usable = not own_way and buffer.buffer_num == num_envs and not buffer.info_keys
        self.steps = min(STEPS, int(buffer.rings.capacity.min()))
        self._columns: dict[str, _Column] = {}
        self._policy: dict[str, _Column] = {}
        self._filled = 0

    def put(self, fields: Mapping[str, object]) -> bool:
        """Take one step of all envs; False (all before is stored then) where it has to go to the buffer itself."""
        policy = fields_of(fields.get("policy")) or {}
        if self.usable and (not self._columns or policy.keys() != self._policy.keys()):  # as after random actions
            self.flush()
            self._open(fields)
        if not self.usable or not self._write(self._columns, fields) or not self._write(self._policy, policy):
            self.flush()
            return False
        self._filled += 1
        if self._filled == self.steps:
            self.flush()
        return True

    def flush(self) -> None:
        """Store what has been taken.

        Raises:
            DataError: it does not fit the buffer's schema; it is dropped.
        """
        steps, self._filled = self._filled, 0
        if steps:
            fields: dict[str, object] = {name: _rows(column, steps) for name, (column, *_) in self._columns.items()}
            if self._policy:
                fields["policy"] = {name: _rows(column, steps) for name, (column, *_) in self._policy.items()}
            self.buffer.add_steps(fields, steps)

    def _open(self, fields: Mapping[str, object]) -> None:
        """Make room as the first step needs it."""
        plain = {name: value for name, value in fields.items() if name != "policy"}
        policy = fields_of(fields.get("policy")) or {}
        arrays = [value for value in (*plain.values(), *policy.values()) if isinstance(value, np.ndarray)]
        if len(arrays) < len(plain) + len(policy) or sum(array.nbytes for array in arrays) > MAX_BYTES:
            self.usable = False
            return
        columns = iter([(np.empty((self.steps, *a.shape), a.dtype), a.dtype, a.shape) for a in arrays])
        self._columns, self._policy = (dict(zip(group, columns, strict=False)) for group in (plain, policy))

    def _write(self, columns: dict[str, _Column], values: Mapping[str, object]) -> bool:
        """Write one step, unless it looks otherwise than the first one."""
        at = self._filled
        for name, (column, dtype, shape) in columns.items():
            value = values[name]
            if type(value) is not np.ndarray or value.shape != shape:
                return False
            if value.dtype is not dtype and value.dtype != dtype:  # the first half costs next to nothing
                return False
            column[at] = value
        return True


def _rows(column: np.ndarray, steps: int) -> np.ndarray:
    """Return the first steps of [STEPS, B, ...] as rows [steps * B, ...]."""
    return column[:steps].reshape(-1, *column.shape[2:])


def planned(n_step: int | None, n_episode: int | None, num_envs: int) -> tuple[np.ndarray | None, int]:
    """Return the episodes of every env (None: no quotas) and how many transitions or episodes are to come.

    Raises:
        ConfigError: neither or both are asked for, or not a whole number >= 1.
    """
    if (n_step is None) == (n_episode is None):
        raise ConfigError(f"collect takes either n_step or n_episode; got n_step={n_step}, n_episode={n_episode}")
    name, wanted = ("n_step", n_step) if n_step is not None else ("n_episode", n_episode)
    if not isinstance(wanted, int | np.integer) or wanted <= 0:
        raise ConfigError(f"collect: {name} is {wanted!r}; it must be a whole number >= 1")
    if n_step is not None:
        return None, int(wanted)
    return int(wanted) // num_envs + (np.arange(num_envs) < wanted % num_envs), int(wanted)
