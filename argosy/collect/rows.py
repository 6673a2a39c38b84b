"""State of the episodes under way: one row per env that waits for an action."""

from __future__ import annotations

from typing import Any

import numpy as np

from argosy.data import Batch, tree
from argosy.env.spaces import copy_rows, take
from argosy.env.vector.protocol import Obs
from argosy.errors import EnvError
from argosy.policy import Policy, PolicyState


def first_states(policy: Policy, count: int) -> PolicyState:
    """Return the states [count, ...] of episodes that begin; None for memoryless policies."""
    return tree.map_leaves(lambda leaf: np.stack([np.asarray(leaf)] * count), policy.default_policy_state)


def begin_anew(state: PolicyState, rows: np.ndarray, default: PolicyState) -> PolicyState:
    """Return states [R, ...] with the default one in the given rows (indices or mask); `state` stays as it was."""
    begun = tree.map_leaves(np.copy, state)
    tree.assign(begun, rows, default)
    return begun


def with_state(policy: Policy, stored: Any, state: PolicyState) -> Any:
    """Put the state before a step to what the policy wants stored of it (`policy` in a buffer), if it has memory."""
    return Batch({**(tree.fields_of(stored) or {}), "state": state}) if policy.is_recurrent else stored


class Rows:
    """k episodes under way.

    Attributes:
        env_ids: [k] int64.
        obs: [k, ...] what the next action is for.
        policy_state: [k, ...] state before the next step, None for policies without one.
        first_state: [...] that of an episode's first step.
        on_reset: [k] bool, True at an episode's first step; None for policies without state, which do not care.
        returns: [k] or [k, N] (N agents) float64, undiscounted, so far.
        lens: [k] int64, steps so far.
        is_all: the rows are all envs, in order.
    """

    __slots__ = ("env_ids", "first_state", "is_all", "lens", "obs", "on_reset", "policy_state", "returns")

    def __init__(
        self,
        env_ids: np.ndarray,
        obs: Obs,
        policy_state: object,
        on_reset: np.ndarray | None,
        returns: np.ndarray,
        lens: np.ndarray,
        is_all: bool = False,
        first_state: object = None,
    ) -> None:
        self.env_ids = env_ids
        self.obs = obs
        self.policy_state = policy_state
        self.on_reset = on_reset
        self.returns = returns
        self.lens = lens
        self.is_all = is_all
        self.first_state = first_state

    @classmethod
    def first(cls, obs: Obs, count: int, policy: Policy) -> Rows:
        """Start `count` episodes from their first observations [count, ...]."""
        return cls(
            env_ids=np.arange(count),
            obs=obs,
            policy_state=first_states(policy, count),
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
        self.lens += 1

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
            if isinstance(self.policy_state, np.ndarray):
                self.policy_state[which] = part.policy_state
            else:
                tree.assign(self.policy_state, which, part.policy_state)
        if self.returns.ndim != part.returns.ndim:
            self.returns = np.zeros((len(self), *part.returns.shape[1:]))
        self.returns[which] = part.returns
        self.lens[which] = part.lens

    def restart(self, which: np.ndarray, obs: Obs, *, in_place: bool = False) -> None:
        """Begin new episodes in the rows `which` (mask or indices), from their first observations."""
        if not in_place:  # the last observations are the env's, and others may hold on to them
            self.obs = self.obs.copy() if isinstance(self.obs, np.ndarray) else tree.map_leaves(np.copy, self.obs)
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
    if isinstance(kept, np.ndarray):
        kept[which] = value
    else:
        tree.assign(kept, which, value)
    return kept


def check_finite(field: str, value: object, env_ids: np.ndarray, lens: np.ndarray | None) -> None:
    """Refuse NaN in observations and rewards (and infinite rewards) before they reach a buffer.

    Args:
        field: what `value` is, for the message.
        value: array [k, ...] or nested dict of them.
        env_ids: [k] envs of the rows.
        lens: [k] steps of the episodes before this one; None at a reset.

    Raises:
        EnvError: names env, step of the episode, and field.
    """
    if isinstance(value, dict):
        for key, part in value.items():
            check_finite(f"{field}[{key!r}]", part, env_ids, lens)
        return
    assert isinstance(value, np.ndarray)
    if value.dtype.kind != "f":
        return
    squares = float(np.vdot(value, value))  # one pass and no new array; NaN and infinity survive a sum of squares
    if squares - squares == 0.0:
        return
    bad = ~np.isfinite(value) if field == "rew" else np.isnan(value)
    rows = bad.reshape(len(value), -1).any(axis=1)
    if not rows.any():
        return
    row = int(np.argmax(rows))
    inner = np.argwhere(bad[row])[0].tolist()
    at = f"{field}{inner}" if inner else field
    when = "at the reset" if lens is None else f"in step {int(lens[row]) + 1} of its episode"
    raise EnvError(
        f"env {int(env_ids[row])} gave {at} = {value[row][tuple(inner)]} {when}; nothing of this step was stored"
    )
