"""Acting in the env's own terms: one observation or a batch of them in, actions as the env takes them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from argosy.data import Batch, to_numpy, tree
from argosy.env.spaces import Space, is_array_space
from argosy.errors import DataError, SpaceError

if TYPE_CHECKING:
    from argosy.policy.base import Policy, PolicyState, RolloutRequest


def predict(self: Policy, obs: Any, state: PolicyState = None, deterministic: bool = True) -> tuple[Any, PolicyState]:
    """Act as a user's env wants it: observations as they come, actions in the env's scale and dtype.

    Normaliser, masks (entries of a dict observation), memory and the mapping of actions are seen to; no gradient. What
    only critics see (`NetConfig.critic_only`) may be left out.

    Args:
        self: the policy.
        obs: one observation or a batch [B, *obs], told apart by the observation space's shapes.
        state: what the call before has returned; None: episodes begin. In a batch, the row of an episode that begins
            is to be `default_policy_state`.
        deterministic: act without exploration, also where evaluation has some (`eps_test`).

    Returns:
        (action, or [B, *act]; state for the next call, None without memory).

    Raises:
        SpaceError: `obs` is not of the observation space, or `state` not of as many rows.
        DataError: a number in `obs` is not finite.
    """
    rows, is_one = _rows(self.acts_on, obs, "obs")
    if is_one:
        rows = tree.map_leaves(lambda leaf: leaf[None], rows)
        state = tree.map_leaves(lambda leaf: leaf[None], state)
    first = self.default_policy_state
    if state is not None and isinstance(first, np.ndarray):
        shape, wanted = np.shape(state), (_count(rows), *first.shape)
        if shape != wanted:
            raise SpaceError(f"state has shape {shape[is_one:]}; that of these observations has {wanted[is_one:]}")
    with torch.no_grad():
        if deterministic:
            before = self.first_states(_count(rows)) if state is None else state
            result = self(Batch(obs=rows), before)
            act, state = result.act, _with_noise(to_numpy(result.get("state")), before)
        else:
            answer = self.rollout(request(self, rows, state))
            act, state = answer.action, answer.policy_state
    act, state = to_numpy(act), to_numpy(state)
    env_act = np.asarray(self.map_action(act), dtype=self.action_space.dtype)
    return (env_act[0], tree.index(state, 0)) if is_one else (env_act, state)


def request(policy: Policy, rows: Any, state: PolicyState, *, evaluates: bool = False) -> RolloutRequest:
    """Ask for the actions of rows [B, *obs], exploring or evaluating ones; without states, episodes begin."""
    from argosy.policy.base import RolloutRequest  # here, because that module names this one

    count = _count(rows)
    asked = RolloutRequest(obs=rows, policy_state=state, is_evaluation=np.ones(count, bool) if evaluates else None)
    if policy.default_policy_state is not None:
        asked.on_reset = np.full(count, state is None)
        if state is None:
            asked.policy_state = policy.first_states(count)
    return asked


def _with_noise(after: Any, before: Any) -> Any:
    """Return the state after a step of which `forward` gives the memory alone: the exploration's columns stay."""
    if isinstance(after, np.ndarray) and isinstance(before, np.ndarray) and after.ndim == before.ndim == 2:
        return np.concatenate((after, before[:, after.shape[1] :]), axis=1)
    return after


def _count(rows: Any) -> int:
    return len(next(leaf for _, leaf in tree.leaves(rows)))


def _rows(space: Space, obs: Any, name: str) -> tuple[Any, bool]:
    """Return arrays of the space's dtypes, and whether they are one observation (else a batch).

    Raises:
        SpaceError: they are neither.
    """
    if isinstance(space, spaces.Dict):
        parts = {key: _rows(part, _entry(space, obs, key, name), f"{name}[{key!r}]") for key, part in space.items()}
        if len({is_one for _, is_one in parts.values()}) > 1:
            shown = {key: np.shape(part) for key, (part, _) in parts.items() if isinstance(part, np.ndarray)}
            raise SpaceError(f"some entries of {name} are one observation, others a batch of them; shapes: {shown}")
        return {key: part for key, (part, _) in parts.items()}, all(is_one for _, is_one in parts.values())
    if not is_array_space(space):
        raise SpaceError(
            f"{name} cannot be told from a batch: the policy was made for {space}; predict takes arrays, numbers and "
            "dicts of them (a policy of one's own must be given its observation_space)"
        )
    try:
        array, shape, dtype = np.asarray(obs), space.shape or (), np.dtype(space.dtype)
    except ValueError as error:
        raise SpaceError(
            f"{name} cannot be read as an array ({error}); give the observation alone: of what a reset returns, (obs, "
            "info), the first"
        ) from error
    is_one = array.shape == shape
    if not is_one and (array.ndim != len(shape) + 1 or array.shape[1:] != shape):
        raise SpaceError(
            f"{name} has shape {array.shape}; one observation has {shape}, a batch (B, {', '.join(map(str, shape))})"
        )
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise SpaceError(f"{name} has dtype {array.dtype}; the policy was made for {dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"{name} holds NaN or infinity, of which no action follows: {array!r:.200}")
    return array.astype(dtype, copy=False), is_one


def _entry(space: spaces.Dict, obs: Any, key: str, name: str) -> Any:
    """Return a part of a dict observation, or of a tuple, whose parts are numbered."""
    if isinstance(obs, tuple) and len(obs) == len(space.spaces) and key.isdecimal():
        return obs[int(key)]
    if not (isinstance(obs, Mapping) or hasattr(obs, "keys")) or key not in obs:
        shown = sorted(map(str, obs.keys())) if hasattr(obs, "keys") else f"a {type(obs).__name__}"
        raise SpaceError(f"{name} is {shown}; the policy was made for a dict with the keys {sorted(space.spaces)}")
    return obs[key]
