"""Policy of soft actor-critic: a Gaussian squashed by tanh, its deviation conditioned on the observation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from argosy.data import Batch, NamedArray, namedarray
from argosy.data.protocols import Obs
from argosy.errors import SpaceError
from argosy.net import Backbone, Linear, NetConfig, SmallForward
from argosy.ops import squashed_gaussian_log_prob
from argosy.policy.base import Policy, PolicyState, RolloutRequest, RolloutResult

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


@namedarray
class SACAnalysis(NamedArray):
    """What `SACPolicy.analyze` computes; [...] are the sample's leading axes."""

    act: torch.Tensor
    """[..., *act] freshly drawn actions in [-1, 1], differentiable (reparametrised)."""
    logp: torch.Tensor
    """[...] their log-density."""


class SACPolicy(Policy):
    """tanh(mean + std * noise); evaluating rows take tanh(mean). Actions are in [-1, 1] and scaled to the Box's bounds.

    Args:
        observation_space: space of one observation.
        action_space: a Box with finite bounds.
        net: shape of the actor.
    """

    action_spaces = (spaces.Box,)

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], net: NetConfig | None = None
    ) -> None:
        if isinstance(action_space, spaces.Box) and not action_space.is_bounded():
            raise SpaceError(f"SACPolicy squashes actions into bounds; {action_space} has infinite ones")
        # tanh is part of the policy's density, so there is nothing left to bound at the border
        super().__init__(observation_space, action_space, action_scaling=True, action_bound_method=None)
        net = net or NetConfig(hidden_sizes=(256, 256))
        self.action_shape = action_space.shape or ()
        self.action_dim = int(np.prod(self.action_shape))
        self.actor = Backbone(observation_space, net)
        self.head = Linear(self.actor.out_features, 2 * self.action_dim)
        self._small = SmallForward()

    def forward(self, batch: Any, state: PolicyState = None) -> Batch:
        """Actions without noise for `batch.obs`; `logits` are mean and log deviation side by side."""
        mean, log_std, state = self._run(self._tensors(batch.obs), state)
        return Batch(act=self._shaped(mean.tanh()), logits=torch.cat((mean, log_std), dim=-1), state=state)

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Sampled actions [B, *act] in [-1, 1]."""
        evaluating, state = requests.is_evaluation, requests.policy_state
        output: np.ndarray | None = self._small(self.actor, self.head, requests.obs)
        if output is None:
            with torch.inference_mode():
                features, state = self.actor(self._tensors(requests.obs), state, requests.on_reset)
                output = self.head(features).cpu().numpy()
        assert output is not None
        mean, log_std = output[:, : self.action_dim], output[:, self.action_dim :]
        if evaluating is None or not evaluating.all():
            noise = self.rng.numpy.standard_normal(mean.shape, dtype=np.float32)
            if evaluating is not None:
                noise[evaluating] = 0.0
            mean = mean + noise * np.exp(log_std.clip(LOG_STD_MIN, LOG_STD_MAX))
        return RolloutResult(action=np.tanh(mean).reshape(-1, *self.action_shape), policy_state=state)

    def analyze(self, sample: Any, target: str = "") -> SACAnalysis:
        """Draw actions for the stored observations (noise from the policy's own generator), with gradient."""
        act, logp = self.sample(sample.obs, self.rng.torch)
        return SACAnalysis(act=act, logp=logp)

    def sample(self, obs: Obs, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (actions [..., *act] in [-1, 1], log-density [...]), differentiable; noise from a CPU `generator`."""
        mean, log_std, _ = self._run(obs)
        noise = torch.empty(mean.shape).normal_(generator=generator).to(mean.device)
        raw = torch.addcmul(mean, noise, log_std.exp())
        return self._shaped(raw.tanh()), squashed_gaussian_log_prob(raw, mean, log_std)

    def _run(
        self, obs: Obs, state: PolicyState = None, on_reset: np.ndarray | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, PolicyState]:
        """-> (mean [..., A], log deviation [..., A], recurrent state)."""
        features, state = self.actor(obs, state, on_reset)
        mean, log_std = self.head(features).chunk(2, dim=-1)
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX), state

    def _shaped(self, act: torch.Tensor) -> torch.Tensor:
        return act if len(self.action_shape) == 1 else act.reshape(*act.shape[:-1], *self.action_shape)
