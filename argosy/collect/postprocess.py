"""Trajectory post-processors: what an actor worker computes on its trajectories before it sends them.

Each is called with the fields [T, B, ...] of what is handed out (a segment, with `send_after_done` a whole episode) and
the policy, and returns the fields to send. Any function of that form is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from argosy.collect.recorder import Fields
from argosy.config import check_range
from argosy.data import Batch, as_tensors, tree
from argosy.errors import ConfigError
from argosy.ops import gae
from argosy.policy import Policy


class Postprocess(Protocol):
    """What an agent spec takes."""

    def __call__(self, fields: Fields, policy: Policy, /) -> Fields:
        """Return the fields to send, [T, B, ...] each."""


@dataclass(frozen=True, kw_only=True)
class GAE:
    """Add `adv` and `returns` [T, B]: generalised advantages (https://arxiv.org/abs/1506.02438) and targets of values.

    Values are those that the policy stored when it acted, if it did; the successor of a row that was cut off is valued
    by `policy.next_values`. So the policy must act in the actor worker (inference="inline").

    Raises:
        ConfigError: a value is out of range; or, when it is called, the policy has no values.
    """

    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """0 is the one-step advantage, 1 the Monte-Carlo one."""

    def __post_init__(self) -> None:
        check_range(self, "gamma", ge=0.0, le=1.0)
        check_range(self, "gae_lambda", ge=0.0, le=1.0)

    def __call__(self, fields: Fields, policy: Policy) -> Fields:
        """Add the two fields."""
        judge: Any = policy  # `values` and `next_values` are no part of every policy
        if not hasattr(policy, "next_values"):
            raise ConfigError(f"GAE needs a policy with values; {type(policy).__name__} has no method `next_values`")
        terminated = np.asarray(fields["terminated"])
        cut = terminated | np.asarray(fields["truncated"])
        cut[-1] = True
        rollout = as_tensors(Batch({**fields, "cut": cut}), policy.device)
        stored = rollout.policy["value"] if "value" in (rollout.get("policy") or ()) else judge.values(rollout)
        value = stored.cpu().numpy()
        value_next = np.concatenate((value[1:], np.zeros_like(value[:1])))
        bootstrap = (rollout.cut & ~rollout.terminated).nonzero(as_tuple=True)
        if len(bootstrap[0]):
            value_next[tuple(at.cpu().numpy() for at in bootstrap)] = (
                judge.next_values(rollout, bootstrap).cpu().numpy()
            )
        given = rollout.rew.cpu(), torch.from_numpy(value), torch.from_numpy(value_next)
        adv, returns = gae(*given, rollout.terminated.cpu(), rollout.cut.cpu(), self.gamma, self.gae_lambda)
        return {**fields, "adv": adv.numpy(), "returns": returns.numpy()}


@dataclass(frozen=True, kw_only=True)
class NStep:
    """Let each transition reach n steps ahead: `rew` the discounted sum, `obs_next` the observation behind it.

    A field `discount` [T, B] is added, the factor of a value at `obs_next`: gamma to the power of the steps taken, 0
    where the episode terminated. Fewer steps are taken where an episode, or what is handed out, ends; with
    `bootstrap_steps` of n - 1 every learned transition has all of them.

    Raises:
        ConfigError: a value is out of range.
    """

    n: int
    """Steps."""
    gamma: float = 0.99
    """Discount factor per step."""

    def __post_init__(self) -> None:
        check_range(self, "n", ge=1)
        check_range(self, "gamma", ge=0.0, le=1.0)

    def __call__(self, fields: Fields, policy: Policy) -> Fields:
        """Replace `rew` and `obs_next`, add `discount`; episode flags stay those of the first step."""
        rew, terminated = np.asarray(fields["rew"], np.float32), np.asarray(fields["terminated"])
        cut = terminated | np.asarray(fields["truncated"])
        cut[-1] = True
        time, row = np.indices(rew.shape)
        total, last = rew.copy(), np.array(time)  # the last step that is in
        for k in range(1, self.n):
            goes_on = ~cut[last, row] & (last == time + k - 1)
            last[goes_on] += 1
            total[goes_on] += self.gamma**k * rew[last, row][goes_on]
        discount = np.where(terminated[last, row], 0.0, self.gamma ** (last - time + 1)).astype(np.float32)
        return {**fields, "rew": total, "obs_next": tree.index(fields["obs_next"], (last, row)), "discount": discount}
