"""Fully connected networks, single and as batched ensembles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from argosy.net.config import ACTIVATIONS


class Linear(nn.Module):
    """[..., in_features] -> [..., out_features]: x @ weight + bias, starting as an `nn.Linear` would.

    Its weight lies [in, out], not [out, in]. On CPUs a PPO update takes 4 % less for want of a transposition in each
    layer's gradient, and the product of few rows with a large weight, as when acting on images, half of the time.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bound = 1.0 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound).t().contiguous())
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features]."""
        return torch.addmm(self.bias, x, self.weight) if x.dim() == 2 else x @ self.weight + self.bias

    def extra_repr(self) -> str:
        """Return the widths."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


class MLP(nn.Sequential):
    """[..., in_features] -> [..., out_features]: linear layers with an activation after each hidden one.

    Args:
        in_features: width of the input.
        hidden_sizes: widths of the hidden layers.
        out_features: width of a last layer without activation; None: the last hidden layer is the output.
        activation: name of the nonlinearity (see `NetConfig.activation`).
    """

    def __init__(
        self, in_features: int, hidden_sizes: Sequence[int], out_features: int | None = None, activation: str = "relu"
    ) -> None:
        layers: list[nn.Module] = []
        width = in_features
        for size in hidden_sizes:
            layers += [Linear(width, size), ACTIVATIONS[activation]()]
            width = size
        if out_features is not None:
            layers.append(Linear(width, out_features))
            width = out_features
        super().__init__(*layers)
        self.out_features = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features]."""
        for layer in self:
            x = layer.forward(x)
        return x


class EnsembleLinear(nn.Module):
    """K linear layers as one batched product: [K, B, in] (or [B, in], shared by all) -> [K, B, out].

    Each member starts as a `Linear` of its own would.
    """

    def __init__(self, size: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, in_features, out_features))
        self.bias = nn.Parameter(torch.empty(size, 1, out_features))
        bound = 1.0 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[K, B, in] or [B, in] -> [K, B, out]."""
        if x.dim() == 2:
            x = x.expand(self.weight.shape[0], -1, -1)
        return torch.baddbmm(self.bias, x, self.weight)


class EnsembleMLP(nn.Sequential):
    """K independent MLPs evaluated together: [B, in_features] -> [K, B, out_features]."""

    def __init__(
        self, size: int, in_features: int, hidden_sizes: Sequence[int], out_features: int, activation: str = "relu"
    ) -> None:
        layers: list[nn.Module] = []
        width = in_features
        for hidden in hidden_sizes:
            layers += [EnsembleLinear(size, width, hidden), ACTIVATIONS[activation]()]
            width = hidden
        layers.append(EnsembleLinear(size, width, out_features))
        super().__init__(*layers)
