"""Last layers."""

from __future__ import annotations

import torch
from torch import nn

from argosy.net.backbone import Linear
from argosy.net.config import ACTIVATIONS


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
