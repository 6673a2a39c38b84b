"""Returns and advantages of a buffer's rows, for algorithms that are written by hand on a buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from argosy.data import Batch, ReplayBuffer, to_numpy
from argosy.data.buffer.replay import n_step_weights
from argosy.errors import DataError
from argosy.ops import gae

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


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
    discount[to_numpy(buffer.get(final, "terminated"))] = 0.0
    rewards = (to_numpy(buffer.get(window, "rew")) * weights).sum(axis=1)
    with torch.no_grad():
        behind = target_q_fn(buffer, final)
    lead = (-1, *[1] * (behind.ndim - 1))
    factors = Batch(rewards=rewards.reshape(lead), discount=discount.reshape(lead))
    if isinstance(behind, torch.Tensor):
        factors.to_torch(device=behind.device)
    batch.returns = factors.rewards + factors.discount * behind
    return batch
