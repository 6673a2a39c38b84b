"""Policy of soft actor-critic: a Gaussian squashed by tanh, its deviation conditioned on the observation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.env.spaces import Space, is_bounded
from argosy.errors import SpaceError
from argosy.net import Backbone, Linear, NetConfig
from argosy.ops import squashed_gaussian_log_prob
from argosy.policy.base import OneNetPolicy, RolloutRequest, RolloutResult

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


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

    def sample(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw with noise from a CPU `generator`: -> (actions [..., *act] in [-1, 1], log-density [...]).

        Both are differentiable (reparametrised).
        """
        noise = torch.empty(self.mean.shape).normal_(generator=generator).to(self.mean.device)
        raw = torch.addcmul(self.mean, noise, self.log_std.exp())
        return self._shaped(raw.tanh()), squashed_gaussian_log_prob(raw, self.mean, self.log_std)

    def _shaped(self, act: torch.Tensor) -> torch.Tensor:
        return act if len(self.shape) == 1 else act.reshape(*act.shape[:-1], *self.shape)


class SquashedGaussianPolicy(OneNetPolicy[SquashedGaussianAnalysis]):
    """tanh(mean + std * noise); evaluating rows take tanh(mean). Actions are in [-1, 1] and scaled to the Box's bounds.

    Args:
        observation_space: space of one observation.
        action_space: a Box with finite bounds.
        net: shape of the actor.

    Raises:
        SpaceError: the Box has infinite bounds.
    """

    action_spaces = (spaces.Box,)

    def __init__(self, observation_space: Space, action_space: Space, net: NetConfig | None = None) -> None:
        if isinstance(action_space, spaces.Box) and not is_bounded(action_space):
            raise SpaceError(f"{type(self).__name__} squashes actions into bounds; {action_space} has infinite ones")
        net = net or NetConfig(hidden_sizes=(256, 256))
        # tanh is part of the policy's density, so there is nothing left to bound at the border
        super().__init__(observation_space, action_space, net, action_scaling=True, action_bound_method=None)
        self.action_shape = action_space.shape or ()
        self.actor = Backbone(observation_space, net)
        self.head: nn.Module = Linear(self.actor.out_features, 2 * self.action_dim)
        self._remember(self.actor)

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
