"""Losses of distributions that are given by quantiles. [...] are leading axes."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def quantile_huber_loss(quantiles: torch.Tensor, target: torch.Tensor, kappa: float = 1.0) -> torch.Tensor:
    """Quantile Huber loss (Dabney et al., 2018, https://arxiv.org/abs/1710.10044, equation 10).

        rho(u) = |tau_i - 1(u < 0)| * huber(u) / kappa,  u = target_j - quantiles_i,  tau_i = (2 i + 1) / (2 N)

    Args:
        quantiles: [..., N] predictions.
        target: [..., M] samples of the target's distribution.
        kappa: from where on the loss is linear.

    Returns:
        [...]: the sum over the N predictions of the mean over the M samples.
    """
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
