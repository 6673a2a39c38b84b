"""Returns and advantages of rollouts [T, B]: T time, B envs.

Of each row there are its reward `rew`, `value` V(obs[t]), `value_next` V(obs_next[t]) of the true successor, and two
flags. A `terminated` row has no successor to bootstrap from: what stands for its value does not matter. Where `cut` is
set, row t+1 is not row t's successor (done, end of a segment); the last row counts as cut.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


def values_next(
    value: torch.Tensor,
    terminated: torch.Tensor,
    cut: torch.Tensor,
    at_cuts: Callable[[tuple[torch.Tensor, ...]], torch.Tensor],
) -> torch.Tensor:
    """Return V(obs_next) [T, B]: the value of the next row; at a cut, where that is another's, of the true successor.

    `at_cuts` gives V(obs_next) [k] of the rows that were cut off, by their indices (t [k], b [k]).
    """
    value_next = torch.cat((value[1:], torch.zeros_like(value[:1])))
    at = (torch.cat((cut[:-1], torch.ones_like(cut[-1:]))) & ~terminated).nonzero(as_tuple=True)
    if len(at[0]) > 0:
        value_next[at] = at_cuts(at)
    return value_next


def gae(
    rew: torch.Tensor,
    value: torch.Tensor,
    value_next: torch.Tensor,
    terminated: torch.Tensor,
    cut: torch.Tensor,
    gamma: float,
    gae_lambda: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Generalised advantage estimation (Schulman et al., 2016, https://arxiv.org/abs/1506.02438).

        delta[t] = rew[t] + gamma * value_next[t] * (1 - terminated[t]) - value[t]
        adv[t]   = delta[t] + gamma * gae_lambda * (1 - cut[t]) * adv[t+1],    adv[T] = 0
        returns  = adv + value

    A `gae_lambda` of 0 gives the one-step advantage, 1 the Monte-Carlo one.

    Returns:
        (adv [T, B], returns [T, B]), float, without gradient.
    """
    with torch.no_grad():
        delta = rew + gamma * value_next.masked_fill(terminated, 0.0) - value
        decay = (~cut).to(delta.dtype) * (gamma * gae_lambda)
        adv_TB = carried_back(delta, decay)  # noqa: N806  # the suffix says the shape
        return adv_TB, adv_TB + value


def carried_back(x: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    """Return y [T, B] with y[t] = x[t] + decay[t] * y[t+1] and y[T] = 0, of x and decay [T, B].

    Each round doubles how far y reaches: 7 rounds for 128 rows, where going back row by row calls torch 128 times.
    """
    y, step = x, 1
    while step < len(x):
        y = torch.cat((torch.addcmul(y[:-step], decay[: len(x) - step], y[step:]), y[-step:]))
        decay = decay[:-step] * decay[step:]
        step *= 2
    return y


def explained_variance(value: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Return 1 - Var(returns - value) / Var(returns), a scalar: 1 for a perfect critic, 0 for a constant one.

    Where there is a mask, it says which rows count.
    """
    if mask is not None:
        value, returns = value[mask], returns[mask]
    return 1.0 - (returns - value).var(correction=0) / returns.var(correction=0).clamp(min=1e-8)
