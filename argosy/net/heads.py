"""Last layers: of dueling networks, and with one branch for each part of an action."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from argosy.net.backbone import Linear, activation_layer
from argosy.net.ensemble import EnsembleLinear


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
        self.activation = activation_layer(activation)
        self.value = Linear(hidden, atoms)
        self.advantage = Linear(hidden, num_actions * atoms)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., num_actions * atoms]."""
        value, advantage = self.activation(self.hidden(features)).chunk(2, dim=-1)
        adv = self.advantage(advantage).unflatten(-1, (-1, self.atoms))
        q: torch.Tensor = self.value(value).unsqueeze(-2) + adv - adv.mean(dim=-2, keepdim=True)
        return q.flatten(-2)


class BranchingHead(nn.Module):
    """Q_d = V + A_d - mean(A_d): one value stream for all, an advantage stream for each of D parts of an action.

    [..., in_features] -> [..., D, n], n the most choices that a part has (`sizes`); what lies behind a part's own is no
    value. Each stream has one hidden layer. The gradient that D + 1 streams send into the layers that they share is
    divided by their number (Tavakoli et al., 2018, https://arxiv.org/abs/1711.08946).
    """

    def __init__(self, in_features: int, hidden: int, sizes: Sequence[int], activation: str = "relu") -> None:
        super().__init__()
        self.streams = 1 + len(sizes)
        self.hidden = Linear(in_features, self.streams * hidden)  # all streams side by side
        self.activation = activation_layer(activation)
        self.value = Linear(hidden, 1)
        self.advantage = EnsembleLinear(len(sizes), hidden, max(sizes))
        choices = torch.tensor(sizes).unsqueeze(-1)
        self.share = nn.Buffer((torch.arange(max(sizes)) < choices) / choices, persistent=False)
        """[D, n] by which a mean over a part's own choices is taken."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., D, n]."""
        lead = features.shape[:-1]
        shared = torch.lerp(features.detach(), features, 1.0 / self.streams)  # the same, with less gradient
        streams = self.activation(self.hidden(shared)).reshape(-1, self.streams, self.value.in_features)
        adv = self.advantage(streams[:, 1:].transpose(0, 1)).transpose(0, 1)
        value = self.value(streams[:, 0]).unsqueeze(-1)
        q: torch.Tensor = value + adv - (adv * self.share).sum(dim=-1, keepdim=True)
        return q.reshape(*lead, *self.share.shape)
