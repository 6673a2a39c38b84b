"""Trajectory post-processors: what an actor worker computes on its trajectories before it sends them.

Each is called with the fields [T, B, ...] of what is handed out (a segment, with `send_after_done` a whole episode) and
the policy, and returns the fields to send. Any function of that form is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from argosy.collect.recorder import Fields
from argosy.config import check_range
from argosy.data import Batch, as_tensors, tree
from argosy.data.buffer.replay import n_step_weights
from argosy.errors import ConfigError
from argosy.ops import gae
from argosy.policy import Policy
from argosy.policy.rollouts import rollout_values, starts


class Postprocess(Protocol):
    """What an agent spec takes."""

    def __call__(self, fields: Fields, policy: Policy, /) -> Fields:
        """Return the fields to send, [T, B, ...] each."""


@dataclass(frozen=True, kw_only=True)
class GAE:
    """Add `adv` and `returns` [T, B]: generalised advantages (https://arxiv.org/abs/1506.02438) and targets of values.

    Values are those that the policy stored when it acted, if it did; the successor of a row that was cut off is valued
    by `policy.analyze_next`. So the policy must act in the actor worker (inference="inline").

    Raises:
        ConfigError: a value is out of range; or, when it is called, the policy has no values.
    """

    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """0 is the one-step advantage, 1 the Monte-Carlo one."""

    def __post_init__(self) -> None:
        check_range(self, "gamma", "gae_lambda", ge=0.0, le=1.0)

    def __call__(self, fields: Fields, policy: Policy) -> Fields:
        """Add the two fields."""
        terminated = np.asarray(fields["terminated"])
        cut = terminated | np.asarray(fields["truncated"])
        cut[-1] = True
        rollout = as_tensors(Batch({"policy": Batch(), **fields, "cut": cut}), policy.device)
        if policy.normaliser is not None:
            rollout.obs, rollout.obs_next = policy.normaliser(rollout.obs), policy.normaliser(rollout.obs_next)
        if policy.is_recurrent:
            rollout.on_reset = starts(rollout.cut)
        try:
            value, following = rollout_values(policy, rollout)
        except AttributeError as error:
            raise ConfigError(
                f"GAE needs a policy with values; what {type(policy).__name__}.analyze says has none: {error}"
            ) from error
        given = rollout.rew.cpu(), value.cpu(), following.cpu(), rollout.terminated.cpu(), rollout.cut.cpu()
        adv, returns = gae(*given, self.gamma, self.gae_lambda)
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
        time, row = np.arange(len(rew))[:, None], np.arange(rew.shape[1])
        end = np.minimum.accumulate(np.where(cut, time, len(rew))[::-1])[::-1]  # last row of the episode
        ahead = np.minimum(end - time, self.n - 1)
        weights, discount = n_step_weights(ahead, self.n, self.gamma)
        window = time[..., None] + np.minimum(np.arange(self.n), ahead[..., None])
        last = window[..., -1], row
        discount[terminated[last]] = 0.0
        return {
            **fields,
            "rew": (rew[window, row[:, None]] * weights).sum(-1),
            "obs_next": tree.index(fields["obs_next"], last),
            "discount": discount,
        }
