"""Policy of deterministic policy gradients: one action per observation, and noise to explore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from argosy.data import Batch, SampleBatch
from argosy.data.protocols import ObsBatchProtocol
from argosy.env.spaces import is_bounded
from argosy.errors import SpaceError
from argosy.net import Backbone, Linear, NetConfig
from argosy.policy.base import NetPolicy, PolicyState, RolloutRequest, RolloutResult


@dataclass(frozen=True)
class DeterministicAnalysis:
    """What `DeterministicPolicy` says of a sample; [...] are its leading axes."""

    act: torch.Tensor
    """[..., *act] actions in [-1, 1], differentiable."""


class DeterministicPolicy(NetPolicy):
    """tanh of a network's output, in [-1, 1] and scaled to the Box's bounds; noise comes from the `exploration`.

    Args:
        observation_space: space of one observation.
        action_space: a Box with finite bounds.
        net: shape of the actor.

    Raises:
        SpaceError: the Box has infinite bounds.
    """

    action_spaces = (spaces.Box,)

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], net: NetConfig | None = None
    ) -> None:
        if isinstance(action_space, spaces.Box) and not is_bounded(action_space):
            raise SpaceError(f"{type(self).__name__} squashes actions into bounds; {action_space} has infinite ones")
        net = net or NetConfig(hidden_sizes=(256, 256))
        super().__init__(observation_space, action_space, net, action_scaling=True, action_bound_method=None)
        self.action_shape = action_space.shape or ()
        self.actor = Backbone(observation_space, net)
        self.head = Linear(self.actor.out_features, self.action_dim)
        self._remember(self.actor)

    def forward(self, batch: ObsBatchProtocol, state: PolicyState = None) -> Batch:
        """Actions without noise for `batch.obs`."""
        features, state = self._step(*self._inputs(batch, state))
        act = self._act(features[self.actor])
        return Batch(act=act, logits=act, state=state)

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Actions [B, *act] in [-1, 1]."""
        (output,), memory = self._outputs(requests, (self.actor, self.head))
        return self._result(np.tanh(output).reshape(-1, *self.action_shape), requests, memory)

    def analyze(self, sample: SampleBatch) -> DeterministicAnalysis:
        """Actions at the observations of a sample, with gradient."""
        return DeterministicAnalysis(self._act(self.actor.features(sample)))

    def analyze_next(self, sample: SampleBatch, rows: tuple[torch.Tensor, ...] | None = None) -> DeterministicAnalysis:
        """Actions at `obs_next`."""
        return DeterministicAnalysis(self._act(self.actor.features_next(sample, rows)))

    def _act(self, features: torch.Tensor) -> torch.Tensor:
        act: torch.Tensor = self.head(features).tanh()
        return act if len(self.action_shape) == 1 else act.reshape(*act.shape[:-1], *self.action_shape)
