"""Losses of distributions that are given by quantiles. [...] are leading axes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

FEW_PAIRS = 1024
"""Of so many predictions and samples, comparing each with each takes no longer than sorting them."""


def quantile_huber_loss(
    quantiles: torch.Tensor, target: torch.Tensor, kappa: float = 1.0, tau: torch.Tensor | None = None
) -> torch.Tensor:
    """Quantile Huber loss (Dabney et al., 2018, https://arxiv.org/abs/1710.10044, equation 10).

        rho(u) = |tau_i - 1(u < 0)| * huber(u) / kappa,  u = target_j - quantiles_i

    On a CPU many quantiles take O((N + M) log M): 2 ms instead of 13 for 64 rows of 200 x 200, gradient included.

    Args:
        quantiles: [..., N] predictions.
        target: [..., M] samples of the target's distribution; they get no gradient.
        kappa: from where on the loss is linear.
        tau: [..., N] fractions of the predictions; None: the middles of equal shares, (2 i + 1) / (2 N).

    Returns:
        [...]: the sum over the N predictions of the mean over the M samples.
    """
    if tau is None:
        count = quantiles.shape[-1]
        tau = (torch.arange(count, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / count
    target = target.detach()
    if quantiles.device.type == "cpu" and quantiles.shape[-1] * target.shape[-1] > FEW_PAIRS:
        return _sorted_huber_loss(quantiles, target, kappa, tau)
    difference = target.unsqueeze(-2) - quantiles.unsqueeze(-1)  # [..., N, M]
    huber = F.huber_loss(difference, torch.zeros_like(difference), reduction="none", delta=kappa) / kappa
    weight = (tau.unsqueeze(-1) - (difference.detach() < 0.0).to(tau.dtype)).abs()
    return (weight * huber).mean(dim=-1).sum(dim=-1)


def _sorted_huber_loss(quantiles: torch.Tensor, target: torch.Tensor, kappa: float, tau: torch.Tensor) -> torch.Tensor:
    """Return the same, from sums over the samples within kappa below a prediction, within kappa above it, and beyond.

    Where the samples are sorted, these are differences of running sums of 1, z and z^2: in double precision, as what
    they differ by may be small.
    """
    predicted, order = quantiles.sort(dim=-1)  # so that each search ends near the one before, which makes it fast
    with torch.no_grad():
        q, z = predicted.double(), target.double().sort(dim=-1).values.expand(*predicted.shape[:-1], -1).contiguous()
        running = F.pad(torch.stack((torch.ones_like(z), z, z.square())).cumsum(dim=-1), (1, 0))
        places = torch.searchsorted(z, torch.cat((q - kappa, q, q + kappa), dim=-1))
        low, middle, high = running.gather(-1, places.expand(3, *places.shape)).chunk(3, dim=-1)
        (n_low, z_low, _), (n_below, z_below, zz_below) = low, middle - low
        (n_above, z_above, zz_above), (n_high, z_high, _) = high - middle, running[..., -1:] - high

        loss_below = n_low * (q - kappa / 2) - z_low + ((n_below * q - 2 * z_below) * q + zz_below) / (2 * kappa)
        loss_above = z_high - n_high * (q + kappa / 2) + ((n_above * q - 2 * z_above) * q + zz_above) / (2 * kappa)
        slope_below = n_low + (n_below * q - z_below) / kappa
        slope_above = (n_above * q - z_above) / kappa - n_high
        above = tau.expand_as(order).gather(-1, order).double() / target.shape[-1]
        below = 1.0 / target.shape[-1] - above
        loss = (below * loss_below + above * loss_above).to(quantiles.dtype)
        slope = (below * slope_below + above * slope_above).to(quantiles.dtype)
    # The gradient is known, so that no graph of all this is kept
    counted: torch.Tensor = loss + slope * (predicted - predicted.detach())
    return counted.sum(dim=-1)


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
