"""Policy of soft actor-critic: a Gaussian squashed by tanh, its deviation conditioned on the observation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from argosy.ops import squashed_gaussian_log_prob
from argosy.policy.base import RolloutRequest, RolloutResult
from argosy.policy.deterministic import SquashingPolicy

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
EDGE = 0.999
"""Stored actions beyond it have its density: at the bounds themselves that of a squashed one has no limit."""


@dataclass(frozen=True)
class SquashedGaussianAnalysis:
    """What `SquashedGaussianPolicy` says of a sample; [...] are its leading axes, A the flattened action."""

    mean: torch.Tensor
    """[..., A] before tanh."""
    log_std: torch.Tensor
    """[..., A]"""
    shape: tuple[int, ...]
    """Of one action."""

    @property
    def act(self) -> torch.Tensor:
        """[..., *act] actions without noise, in [-1, 1]."""
        return self._shaped(self.mean.tanh())

    def sample(self, generator: torch.Generator, count: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw with noise from a CPU `generator`: -> (actions [..., *act] in [-1, 1], log-density [...]).

        Both are differentiable (reparametrised). Of a `count` of draws from each, [count, ...].
        """
        shape = self.mean.shape if count is None else (count, *self.mean.shape)
        noise = torch.empty(shape).normal_(generator=generator).to(self.mean.device)
        raw = torch.addcmul(self.mean, noise, self.log_std.exp())
        return self._shaped(raw.tanh()), squashed_gaussian_log_prob(raw, noise, self.log_std)

    def log_prob(self, act: torch.Tensor) -> torch.Tensor:
        """Log-density [...] of actions [..., *act] in [-1, 1], as if cut at 0.999 of the bounds."""
        raw = act.reshape(self.mean.shape).clamp(-EDGE, EDGE).atanh()
        return squashed_gaussian_log_prob(raw, (raw - self.mean) / self.log_std.exp(), self.log_std)

    def _shaped(self, act: torch.Tensor) -> torch.Tensor:
        return act if len(self.shape) == 1 else act.reshape(*act.shape[:-1], *self.shape)


class SquashedGaussianPolicy(SquashingPolicy[SquashedGaussianAnalysis]):
    """tanh(mean + std * noise); evaluating rows take tanh(mean). Arguments are those of `SquashingPolicy`."""

    outputs = 2

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Sampled actions [B, *act] in [-1, 1]."""
        (output,), memory = self._outputs(requests, (self.actor, self.head))
        mean, log_std = output[:, : self.action_dim], output[:, self.action_dim :]
        evaluating = requests.is_evaluation
        if evaluating is None or not evaluating.all():
            noise = self.rng.numpy.standard_normal(mean.shape, dtype=np.float32)
            if evaluating is not None:
                noise[evaluating] = 0.0
            mean = mean + noise * np.exp(log_std.clip(LOG_STD_MIN, LOG_STD_MAX))
        return self._result(np.tanh(mean).reshape(-1, *self.action_shape), requests, memory)

    def _best(self, features: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        analysis = self._analysis(features, mask)
        return analysis.act, torch.cat((analysis.mean, analysis.log_std), dim=-1)

    def _analysis(
        self, features: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None
    ) -> SquashedGaussianAnalysis:
        mean, log_std = self.head(features).chunk(2, dim=-1)
        return SquashedGaussianAnalysis(mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX), self.action_shape)
