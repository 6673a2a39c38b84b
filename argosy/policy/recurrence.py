"""Learning with policies that have a state: sequences, and the values of a rollout.

The state before each step, as it was used when acting, is stored as `policy.state`. `analyze` starts from it in the
first row of a sequence and wherever `on_reset` says that a row does not go on from the one before, and computes the
states between by itself, so that the gradient runs through time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from argosy.data import Batch, tree
from argosy.data.join import stack
from argosy.policy.base import Policy, PolicyState


def first_states(policy: Policy, count: int) -> PolicyState:
    """Return the states [count, ...] of episodes that begin; None for memoryless policies."""
    return tree.map_leaves(lambda leaf: np.stack([np.asarray(leaf)] * count), policy.default_policy_state)


def begin_anew(state: PolicyState, rows: np.ndarray, default: PolicyState) -> PolicyState:
    """Return states [R, ...] with the default one in the given rows (indices or mask); `state` stays as it was."""
    begun = tree.map_leaves(np.copy, state)
    tree.assign(begun, rows, default)
    return begun


def with_state(stored: Any, state: PolicyState) -> Any:
    """Put the state before a step to what the policy wants stored of it (`policy` in a buffer); None: there is none."""
    return stored if state is None else Batch({**(tree.fields_of(stored) or {}), "state": state})


def starts(cut: torch.Tensor) -> torch.Tensor:
    """[T, B] rows whose successor is not the next row -> [T, B] rows that do not go on from the row before."""
    return torch.cat((torch.ones_like(cut[:1]), cut[:-1]))


def rows_to_learn(policy: Policy, rollout: Any, rows: Batch) -> Batch:
    """Make what minibatches are drawn from: [T, B, ...] -> [N, ...], the rows that the rollout's mask leaves, if any.

    Observations are laid out as the policy reads them, once for all passes (on a CPU a copy of images). Rows of a
    recurrent policy stay [T, B, ...], with all that `sequences` needs beside them.
    """
    if policy.is_recurrent:
        beside = {name: rollout[name] for name in ("cut", "mask") if name in rollout}
        return tree.rebuild(rows, {**vars(rows), **beside, "policy": Batch(state=rollout.policy.state)})
    rows = tree.map_leaves(lambda leaf: leaf.flatten(0, 1), rows)
    rows = rows[rollout["mask"].flatten()] if "mask" in rollout else rows
    if "obs" in rows:
        rows.obs = policy.lay_out(rows.obs)
    return rows


def sequences(rows: Batch, length: int, burn_in: int = 0) -> Batch:
    """Cut a rollout into sequences, in the form of a replay buffer's samples of them.

    Args:
        rows: fields [T, B, ...] in order of time, `cut` among them: the next row is not this row's successor. Where it
            has a `mask`, this is kept within the result's.
        length: rows to learn from per sequence.
        burn_in: rows before them that warm the state up.

    Returns:
        The fields [burn_in + length, N, ...], N = ceil(T / length) * B; `mask`: rows to learn from, neither burn-in nor
        padding, each row of the rollout once; `on_reset`: rows that do not go on from the row before. Sequences
        without a row to learn from are left out.
    """
    T, B = rows.cut.shape  # noqa: N806  # shapes
    first = torch.arange(0, T, length, device=rows.cut.device)
    at = first - burn_in + torch.arange(burn_in + length, device=first.device).unsqueeze(-1)
    mask = (at >= first) & (at < T)
    marked = tree.rebuild(rows, {**vars(rows), "on_reset": starts(rows.cut)})
    found = tree.index(marked, at.clamp(0, T - 1))
    mask = mask.unsqueeze(-1).expand(*mask.shape, B)
    found.mask = mask & found.mask if "mask" in rows else mask
    found = tree.map_leaves(lambda leaf: leaf.flatten(1, 2), found)
    return found[:, found.mask.any(0)] if "mask" in rows else found


def values(policy: Policy, rollout: Any) -> torch.Tensor:
    """Return V(obs) [T, B] of a rollout: obs, act, cut, and policy.state where the policy has one."""
    rows = Batch(obs=rollout.obs, act=rollout.act, policy=rollout.policy)
    rows.on_reset = starts(rollout.cut)
    value: torch.Tensor = policy.analyze(rows)["value"]
    return value


def next_values(policy: Policy, rollout: Any, at: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Return V(obs_next) [k] of the rows `at` of a rollout, two steps after the state that is stored before each."""
    here = tree.index(Batch(obs=rollout.obs, act=rollout.act, policy=rollout.policy), at)
    there = tree.rebuild(here, {**vars(here), "obs": tree.index(rollout.obs_next, at)})
    both = stack([here, there], like=Batch())
    both.on_reset = torch.zeros(2, len(at[0]), dtype=torch.bool, device=at[0].device)
    value: torch.Tensor = policy.analyze(both)["value"][1]
    return value
