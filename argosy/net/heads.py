"""Last layers and whole networks made of a backbone and a head."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from gymnasium import spaces
from torch import nn

from argosy.data.protocols import Obs
from argosy.net.config import ACTIVATIONS, NetConfig
from argosy.net.encoder import Backbone, Encoder
from argosy.net.mlp import EnsembleMLP, Linear, apply


class DuelingHead(nn.Module):
    """Q = V + A - mean(A), with one hidden layer per stream (Wang et al., 2016, https://arxiv.org/abs/1511.06581).

    [..., in_features] -> [..., num_actions].
    """

    def __init__(self, in_features: int, hidden: int, num_actions: int, activation: str = "relu") -> None:
        super().__init__()
        self.hidden = Linear(in_features, 2 * hidden)  # both streams side by side
        self.activation = ACTIVATIONS[activation]()
        self.value = Linear(hidden, 1)
        self.advantage = Linear(hidden, num_actions)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., num_actions]."""
        value, advantage = self.activation(self.hidden(features)).chunk(2, dim=-1)
        adv = self.advantage(advantage)
        q: torch.Tensor = self.value(value) + adv - adv.mean(dim=-1, keepdim=True)
        return q


class QNet(nn.Module):
    """Observation -> Q [..., num_actions]; `skip` names keys that are no input (an action mask)."""

    def __init__(
        self, space: spaces.Space[Any], num_actions: int, config: NetConfig, skip: Collection[str] = ()
    ) -> None:
        super().__init__()
        self.backbone = Backbone(space, config, skip, drop_last=config.dueling)
        width, activation = self.backbone.out_features, config.activation
        self.head: nn.Module = Linear(width, num_actions)
        if config.dueling:
            self.head = DuelingHead(width, self.backbone.last_hidden, num_actions, activation)

    def forward(
        self, obs: Obs, state: object = None, on_reset: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, object]:
        """[..., *obs] -> (Q [..., num_actions], recurrent state)."""
        features, state = self.backbone.forward(obs, state, on_reset)
        return apply(self.head, features), state


class EnsembleCritic(nn.Module):
    """K action values Q(obs, act) over one encoder: ([B, *obs], [B, *act]) -> [K, B].

    `action_dim` is the number of elements of one action.
    """

    def __init__(
        self, space: spaces.Space[Any], action_dim: int, config: NetConfig, size: int = 2, skip: Collection[str] = ()
    ) -> None:
        super().__init__()
        self.encoder = Encoder(space, config, skip, config.cnn_features)
        width = self.encoder.out_features + action_dim
        self.q = EnsembleMLP(size, width, config.hidden_sizes, 1, config.activation)

    def forward(self, obs: Obs, act: torch.Tensor) -> torch.Tensor:
        """([B, *obs], [B, *act]) -> Q [K, B]."""
        q: torch.Tensor = self.q(torch.cat((self.encoder(obs), act.flatten(1)), dim=-1))
        return q.squeeze(-1)
