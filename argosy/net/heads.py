"""Last layers, and critics outside of policies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import nn

from argosy.data.protocols import SampleBatch
from argosy.net.config import ACTIVATIONS, NetConfig
from argosy.net.encoder import Backbone, Space
from argosy.net.mlp import EnsembleMLP, Linear


class DuelingHead(nn.Module):
    """Q = V + A - mean(A), with one hidden layer per stream (Wang et al., 2016, https://arxiv.org/abs/1511.06581).

    [..., in_features] -> [..., num_actions], or [..., num_actions * atoms]: the streams of each atom apart.
    """

    def __init__(
        self, in_features: int, hidden: int, num_actions: int, activation: str = "relu", *, atoms: int = 1
    ) -> None:
        super().__init__()
        self.atoms = atoms
        self.hidden = Linear(in_features, 2 * hidden)  # both streams side by side
        self.activation = ACTIVATIONS[activation]()
        self.value = Linear(hidden, atoms)
        self.advantage = Linear(hidden, num_actions * atoms)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., num_actions * atoms]."""
        value, advantage = self.activation(self.hidden(features)).chunk(2, dim=-1)
        adv = self.advantage(advantage).unflatten(-1, (-1, self.atoms))
        q: torch.Tensor = self.value(value).unsqueeze(-2) + adv - adv.mean(dim=-2, keepdim=True)
        return q.flatten(-2)


class EnsembleCritic(nn.Module):
    """K action values Q(obs, act) over one encoder and, where `config.memory` says so, one memory of its own.

    Args:
        space: the observation space.
        action_dim: number of elements of one action.
        config: kind, widths, activation and memory.
        size: K.
        skip: top-level keys of the observation that are no input.
    """

    def __init__(
        self, space: Space, action_dim: int, config: NetConfig, size: int = 2, skip: Collection[str] = ()
    ) -> None:
        super().__init__()
        self.backbone = Backbone(space, replace(config, hidden_sizes=()), skip)
        width = self.backbone.out_features + action_dim
        self.q = EnsembleMLP(size, width, config.hidden_sizes, 1, config.activation)

    def value(self, sample: SampleBatch, act: torch.Tensor) -> torch.Tensor:
        """Q [K, ...] of actions [..., *act] at the observations of a sample, [B, ...] or sequences [T, B, ...]."""
        return self._q(self.backbone.features(sample), act)

    def next_value(self, sample: SampleBatch, act_next: torch.Tensor) -> torch.Tensor:
        """Q [K, ...] of actions at the successors of a sample, with the memory's states carried on."""
        return self._q(self.backbone.features_next(sample), act_next)

    def _q(self, features: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        lead = features.shape[:-1]
        x = torch.cat((features, act.reshape(*lead, -1)), dim=-1)
        q: torch.Tensor = self.q(x if x.dim() == 2 else x.flatten(0, -2))
        return q.reshape(-1, *lead)
