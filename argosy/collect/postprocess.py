"""Returns and advantages of what was collected: computed on trajectories before they are sent, or on a buffer's rows.

Trajectory post-processors work in an actor worker. Each is called with the fields [T, B, ...] of what is handed out (a
segment, with `send_after_done` a whole episode) and the policy, and returns the fields to send. Any function of that
form is one. The functions on a buffer are for algorithms that are written by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch

from argosy.collect.recorder import Fields
from argosy.config import Checked, check_range, limited
from argosy.data import Batch, ReplayBuffer, as_tensors, to_numpy, tree
from argosy.data.buffer.replay import n_step_weights
from argosy.errors import ConfigError, DataError
from argosy.ops import gae
from argosy.policy import ActorCriticPolicy, Policy
from argosy.policy.rollouts import rollout_values
from argosy.policy.sequences import starts

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


Postprocess: TypeAlias = Callable[[Fields, Policy], Fields]
"""What an agent spec takes: returns the fields to send, [T, B, ...] each."""


@dataclass(frozen=True, kw_only=True)
class GAE(Checked):
    """Add `adv` and `returns` [T, B]: generalised advantages (https://arxiv.org/abs/1506.02438) and targets of values.

    Values are those that the policy stored when it acted, if it did; the successor of a row that was cut off is valued
    by `policy.analyze_next`. So the policy must act in the actor worker (inference="inline").

    Raises:
        ConfigError: a value is out of range; or, when it is called, the policy has no values.
    """

    gamma: float = limited(0.99, ge=0.0, le=1.0)
    """Discount factor."""
    gae_lambda: float = limited(0.95, ge=0.0, le=1.0)
    """0 is the one-step advantage, 1 the Monte-Carlo one."""

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
            value, following = rollout_values(cast(ActorCriticPolicy, policy), rollout)  # or else the error below
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


def compute_episodic_return(
    batch: Batch,
    buffer: ReplayBuffer,
    indices: Indices,
    value_next: Any = None,
    value: Any = None,
    gamma: float = 0.99,
    gae_lambda: float = 0.95,
) -> tuple[Floats, Floats]:
    """Returns and generalised advantages of rows in order of time, as `buffer.sample(0)` gives them.

    Where an episode terminated there is nothing behind; where it was truncated, still goes on, or the rows end, there
    is `value_next`.

    Args:
        batch: `rew` and `terminated` [N].
        buffer: what they came from.
        indices: [N] slots that they came from.
        value_next: [N] V(obs_next). None: 0, for Monte-Carlo returns of whole episodes.
        value: [N] V(obs). None, where `gae_lambda` is 1 or `value_next` is None: 0.
        gamma: discount factor.
        gae_lambda: 0 is the one-step advantage, 1 the Monte-Carlo one (always where `value_next` is None).

    Returns:
        (returns [N], advantages [N]) float32.

    Raises:
        DataError: `value_next` without `value`, and `gae_lambda` is below 1.
    """
    if value is None and value_next is not None and gae_lambda < 1:
        raise DataError(f"value is None and gae_lambda {gae_lambda}; advantages need V(obs), too: give value=...")
    after = buffer.next(indices)
    cut = (after == indices) | (after != np.append(indices[1:], -1))
    zeros = np.zeros(len(indices), np.float32)
    given = (batch.rew, zeros if value is None else value, zeros if value_next is None else value_next)
    rew, now, following = (torch.as_tensor(to_numpy(part), dtype=torch.float32).reshape(-1, 1) for part in given)
    ended, cuts = (torch.from_numpy(np.asarray(to_numpy(flags))).reshape(-1, 1) for flags in (batch.terminated, cut))
    adv, returns = gae(rew, now, following, ended, cuts, gamma, 1.0 if value_next is None else gae_lambda)
    return returns.flatten().numpy(), adv.flatten().numpy()


def compute_nstep_return(
    batch: Batch,
    buffer: ReplayBuffer,
    indices: Indices,
    target_q_fn: Callable[[ReplayBuffer, Indices], Any],
    gamma: float = 0.99,
    n_step: int = 1,
) -> Batch:
    """Add `returns`: discounted sums of up to `n_step` rewards of an episode, and what is behind them.

    `buffer.sample(n, Sampling(n_step=n_step, gamma=gamma))` brings the same sum as `rew`, with `obs_next` and
    `discount` of what is behind it, in one look-up.

    Args:
        batch: rows [B] that were sampled; gets the field `returns`.
        buffer: what they came from.
        indices: [B] slots that they came from.
        target_q_fn: gives the values [B] or [B, A] behind rows of the buffer, from their slots.
        gamma: discount factor.
        n_step: rewards at most.

    Returns:
        The batch; `returns` is float32, an array or a tensor as the values are.
    """
    ahead = buffer.rings.ahead(indices, n_step - 1)
    window = buffer.rings.shift(indices[:, None], np.minimum(np.arange(n_step), ahead[:, None]))
    weights, discount = n_step_weights(ahead, n_step, gamma)
    final = window[:, -1]
    discount[to_numpy(buffer.get(final, "terminated", stack_num=1))] = 0.0
    rewards = (to_numpy(buffer.get(window, "rew", stack_num=1)) * weights).sum(axis=1)
    with torch.no_grad():
        behind = target_q_fn(buffer, final)
    lead = (-1, *[1] * (behind.ndim - 1))
    factors = Batch(rewards=rewards.reshape(lead), discount=discount.reshape(lead))
    if isinstance(behind, torch.Tensor):
        factors.to_torch(device=behind.device)
    batch.returns = factors.rewards + factors.discount * behind
    return batch
