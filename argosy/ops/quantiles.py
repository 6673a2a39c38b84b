"""Losses of distributions that are given by quantiles. [...] are leading axes."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def quantile_huber_loss(
    quantiles: torch.Tensor, target: torch.Tensor, kappa: float = 1.0, tau: torch.Tensor | None = None
) -> torch.Tensor:
    """Quantile Huber loss (Dabney et al., 2018, https://arxiv.org/abs/1710.10044, equation 10).

        rho(u) = |tau_i - 1(u < 0)| * huber(u) / kappa,  u = target_j - quantiles_i

    Args:
        quantiles: [..., N] predictions.
        target: [..., M] samples of the target's distribution.
        kappa: from where on the loss is linear.
        tau: [..., N] fractions of the predictions; None: the middles of equal shares, (2 i + 1) / (2 N).

    Returns:
        [...]: the sum over the N predictions of the mean over the M samples.
    """
    if tau is None:
        count = quantiles.shape[-1]
        tau = (torch.arange(count, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / count
    difference = target.unsqueeze(-2) - quantiles.unsqueeze(-1)  # [..., N, M]
    huber = F.huber_loss(difference, torch.zeros_like(difference), reduction="none", delta=kappa) / kappa
    weight = (tau.unsqueeze(-1) - (difference.detach() < 0.0).to(tau.dtype)).abs()
    return (weight * huber).mean(dim=-1).sum(dim=-1)


def truncated_mixture(quantiles: torch.Tensor, num_dropped: int) -> torch.Tensor:
    """Pool the quantiles of several distributions and leave out the largest (https://arxiv.org/abs/2005.04269).

    Args:
        quantiles: [K, ..., N] of K distributions, in any order.
        num_dropped: how many of the K * N.

    Returns:
        [..., K * N - num_dropped] in rising order.
    """
    pooled = quantiles.movedim(0, -2).flatten(-2)
    return pooled.sort(dim=-1).values[..., : pooled.shape[-1] - num_dropped]


def fraction_gradient(at_fractions: torch.Tensor, at_middles: torch.Tensor) -> torch.Tensor:
    """How the distance of a quantile function from its staircase changes with the stairs' edges.

    The staircase has the function's value at the middle of each step; the distance is the 1-Wasserstein one (Yang et
    al., 2019, https://arxiv.org/abs/1911.02140, proposition 1). Of a rising function:

        2 F(tau_i) - F(middle_i-1) - F(middle_i),  with absolute differences also right of one that falls somewhere

    Args:
        at_fractions: [..., N - 1] values F(tau) at the inner edges of N steps.
        at_middles: [..., N] values at their middles.

    Returns:
        [..., N - 1]
    """
    below, above = at_middles[..., :-1], at_middles[..., 1:]
    return (at_fractions - below).abs() - (above - at_fractions).abs()
