"""Log-probabilities, entropies and draws as plain functions. [...] are leading axes, A the last one."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

TINY = 1e-30
"""Keeps the logarithm of noise finite, so that no luck draws an action of probability 0."""
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def categorical_log_prob(log_probs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
    """Log-probability [...] of the indices `act` [...] under normalised `log_probs` [..., A]."""
    return log_probs.gather(-1, act.long().unsqueeze(-1)).squeeze(-1)


def categorical_entropy(log_probs: torch.Tensor) -> torch.Tensor:
    """Entropy [...] of normalised `log_probs` [..., A] (finite everywhere: mask with a large negative logit)."""
    return -(log_probs.exp() * log_probs).sum(dim=-1)


def categorical_kl(log_probs: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """KL(p || q) [...] of normalised `log_probs` [..., A] of p and `other` of q, in nats."""
    return (log_probs.exp() * (log_probs - other)).sum(dim=-1)


def gaussian_log_prob(act: torch.Tensor, mean: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
    """Log-density [...] of `act` [..., A] under a diagonal Gaussian; `log_std` broadcasts to [..., A]."""
    scaled = (act - mean) * (-log_std).exp()
    return -(0.5 * scaled.square() + log_std + LOG_SQRT_2PI).sum(dim=-1)


def gaussian_entropy(log_std: torch.Tensor) -> torch.Tensor:
    """Entropy [...] of a diagonal Gaussian with `log_std` [..., A]."""
    return (log_std + (0.5 + LOG_SQRT_2PI)).sum(dim=-1)


def gaussian_kl(
    mean: torch.Tensor, log_std: torch.Tensor, other_mean: torch.Tensor, other_log_std: torch.Tensor
) -> torch.Tensor:
    """KL(p || q) [...] of diagonal Gaussians, of which all four [..., A] or broadcast to it, in nats."""
    difference = log_std - other_log_std
    squares = (2.0 * difference).exp() + ((mean - other_mean) * (-other_log_std).exp()).square()
    return (0.5 * squares - difference - 0.5).sum(dim=-1)


def squashed_gaussian_log_prob(raw: torch.Tensor, noise: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
    """Log-density [...] of tanh(raw) for raw = mean + exp(log_std) * noise, all [..., A], and standard normal `noise`.

    Subtracts log(1 - tanh(raw)^2) = 2 * (log 2 - raw - softplus(-2 raw)), which stays exact for large `raw`
    (appendix C of Haarnoja et al., 2018, https://arxiv.org/abs/1801.01290). What the density owes to the noise has no
    gradient: the mean moves with what is drawn from it.
    """
    of_noise = 0.5 * noise.square().sum(dim=-1) + noise.shape[-1] * (LOG_SQRT_2PI + 2.0 * math.log(2.0))
    half_log_det = raw + F.softplus(-2.0 * raw)
    return -(torch.sub(log_std, half_log_det, alpha=2.0).sum(dim=-1) + of_noise)


# Draws, for acting: small arrays, for which numpy costs half of what torch does.


def categorical_sample(log_probs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw indices from normalised `log_probs` [..., A] by independent Exp(1) `noise` [..., A]; ones: the mode.

    argmin(noise / p) = argmax(log p - log noise): the Gumbel trick, as -log noise is a Gumbel variable.

    Returns:
        (indices [...], their log-probabilities [...]).
    """
    act = (log_probs - np.log(noise + TINY)).argmax(axis=-1)
    flat = log_probs.reshape(-1, log_probs.shape[-1])
    return act, flat[np.arange(len(flat)), act.ravel()].reshape(act.shape)


def gaussian_sample(mean: np.ndarray, log_std: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw mean + std * noise [..., A] by standard normal `noise` [..., A]; zeros: the mode.

    Returns:
        (draws [..., A], their log-densities [...]).
    """
    return mean + np.exp(log_std) * noise, -(0.5 * noise * noise + (log_std + LOG_SQRT_2PI)).sum(axis=-1)
