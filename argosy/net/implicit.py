"""Quantile functions as networks: the value at any fraction of probability, and the fractions at which to look.

IQN (Dabney et al., 2018, https://arxiv.org/abs/1806.06923), FQF (Yang et al., 2019, https://arxiv.org/abs/1911.02140).
"""

from __future__ import annotations

import math

import torch
from torch import nn

from argosy.net.backbone import Linear, activation_layer


class EqualFractions(nn.Module):
    """N equal shares of probability, whatever the features [..., F] are -> [N]."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[..., F] -> [N]."""
        return features.new_full((self.count,), 1.0 / self.count)


class ProposedFractions(nn.Module):
    """N shares of probability that a linear layer proposes for features [..., F] -> [..., N].

    It starts with nearly equal shares. No gradient flows into the features.
    """

    def __init__(self, in_features: int, count: int) -> None:
        super().__init__()
        self.logits = Linear(in_features, count)
        nn.init.xavier_uniform_(self.logits.weight, gain=0.01)
        nn.init.zeros_(self.logits.bias)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[..., F] -> [..., N], which sum to 1."""
        shares: torch.Tensor = self.logits(features.detach()).softmax(dim=-1)
        return shares


class ImplicitHead(nn.Module):
    """Quantiles of every action's return, at any fractions, from features; one hidden layer.

        quantiles(tau) = out(activation(hidden(features * relu(embed(cos(pi * i * tau)))))),  i = 1 .. num_cosines

    Means are computed by `fractions`: features [..., F] -> shares of probability [..., N], or [N] for all.
    """

    def __init__(
        self,
        in_features: int,
        hidden: int,
        num_actions: int,
        fractions: nn.Module,
        num_cosines: int = 64,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.fractions = fractions
        self.embed = Linear(num_cosines, in_features)
        self.hidden = Linear(in_features, hidden)
        self.activation = activation_layer(activation)
        self.out = Linear(hidden, num_actions)
        self.frequencies = nn.Buffer(math.pi * torch.arange(1, num_cosines + 1), persistent=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[..., F] -> mean returns [..., A]: the staircase's area, with the quantile at each share's middle."""
        shares = self.fractions(features)
        q: torch.Tensor = (self.quantiles(features, middles(shares)) * shares.unsqueeze(-2)).sum(dim=-1)
        return q

    def quantiles(self, features: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """Features [..., F], fractions [..., N], or [N] for all -> quantiles [..., A, N]."""
        angles = (tau.unsqueeze(-1) * self.frequencies).cos_()
        embedding = self.embed(angles.flatten(0, -2)).relu_()  # rows in one axis: an update takes 4 % less
        rows = features.unsqueeze(-2) * embedding.reshape(*tau.shape, -1)
        out: torch.Tensor = self.out(self.activation(self.hidden(rows.flatten(0, -2))))
        return out.reshape(*rows.shape[:-1], -1).transpose(-1, -2)


def middles(shares: torch.Tensor) -> torch.Tensor:
    """Shares [..., N] side by side from 0 to 1 -> fractions [..., N] at their middles, without gradient."""
    return (shares.cumsum(dim=-1) - 0.5 * shares).detach()


def edges(shares: torch.Tensor) -> torch.Tensor:
    """Shares [..., N] side by side from 0 to 1 -> fractions [..., N - 1] at the edges between them."""
    return shares.cumsum(dim=-1)[..., :-1]


def fraction_parameters(network: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a network that propose fractions."""
    proposals = [module for module in network.modules() if isinstance(module, ProposedFractions)]
    return [parameter for module in proposals for parameter in module.parameters()]
