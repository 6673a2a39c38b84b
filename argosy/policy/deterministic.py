"""Policy of deterministic policy gradients: one action per observation, and noise to explore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.env.spaces import Space, is_bounded
from argosy.errors import SpaceError
from argosy.net import Backbone, Linear, NetConfig
from argosy.policy.base import AnalysisT_co, OneNetPolicy, RolloutRequest, RolloutResult


@dataclass(frozen=True)
class DeterministicAnalysis:
    """What `DeterministicPolicy` says of a sample; [...] are its leading axes."""

    act: torch.Tensor
    """[..., *act] actions in [-1, 1], differentiable."""


class SquashingPolicy(OneNetPolicy[AnalysisT_co]):
    """Base of policies that squash actions into [-1, 1] by tanh; from there they are scaled to the Box's bounds.

    Takes the arguments of `NetPolicy`.

    Raises:
        SpaceError: the Box has infinite bounds.
    """

    action_spaces = (spaces.Box,)
    outputs: ClassVar[int] = 1
    """Of the network, for each element of an action."""

    def __init__(self, observation_space: Space, action_space: Space, net: NetConfig | None = None) -> None:
        if isinstance(action_space, spaces.Box) and not is_bounded(action_space):
            raise SpaceError(f"{type(self).__name__} squashes actions into bounds; {action_space} has infinite ones")
        net = net or NetConfig(hidden_sizes=(256, 256))
        # tanh is part of the policy, of its density, too: there is nothing left to bound at the border
        super().__init__(observation_space, action_space, net, action_scaling=True)
        self.action_shape = action_space.shape or ()
        self.actor = Backbone(self.acts_on, net)
        self.head: nn.Module = Linear(self.actor.out_features, self.outputs * self.action_dim)
        self._remember(self.actor)


class DeterministicPolicy(SquashingPolicy[DeterministicAnalysis]):
    """tanh of a network's output; noise comes from the `exploration`. Arguments are those of `SquashingPolicy`."""

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Actions [B, *act] in [-1, 1]."""
        (output,), memory = self._outputs(requests, (self.actor, self.head))
        return self._result(np.tanh(output).reshape(-1, *self.action_shape), requests, memory)

    def _best(self, features: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        act = self._analysis(features, mask).act
        return act, act

    def _analysis(
        self, features: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None
    ) -> DeterministicAnalysis:
        own: torch.Tensor = self.head(features).tanh()
        one_axis = len(self.action_shape) == 1
        return DeterministicAnalysis(own if one_axis else own.reshape(*own.shape[:-1], *self.action_shape))
