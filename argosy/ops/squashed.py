"""Log-probabilities of Gaussian draws that tanh has squashed."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from argosy.ops.distributions import gaussian_log_prob


def squashed_gaussian_log_prob(raw: torch.Tensor, mean: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
    """Log-density [...] of tanh(raw) for `raw` [..., A] from a diagonal Gaussian.

    Subtracts log(1 - tanh(raw)^2) = 2 * (log 2 - raw - softplus(-2 raw)), which stays exact for large `raw`
    (appendix C of Haarnoja et al., 2018, https://arxiv.org/abs/1801.01290).
    """
    log_det = 2.0 * (math.log(2.0) - raw - F.softplus(-2.0 * raw)).sum(dim=-1)
    return gaussian_log_prob(raw, mean, log_std) - log_det
