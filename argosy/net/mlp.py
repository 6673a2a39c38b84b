"""Fully connected networks, single and as batched ensembles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from argosy.net.config import ACTIVATIONS


def apply(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return `layer(x)`; for a layer without hooks without nn.Module's detour, which costs as much as a small layer."""
    if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks:
        out: torch.Tensor = layer(x)
    elif type(layer) is Linear and x.dim() == 2:
        parameters = layer._parameters
        out = torch.addmm(parameters["bias"], x, parameters["weight"])  # type: ignore[arg-type]  # it has both
    else:
        out = layer.forward(x)
    return out


class Linear(nn.Module):
    """[..., in_features] -> [..., out_features]: x @ weight + bias, starting as an `nn.Linear` would.

    Its weight lies [in, out], not [out, in]: on CPUs the product of few rows takes two thirds of the time, half of it
    with a large weight. Way and way back together take the same, within 5 % for 16 rows and more.
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
            x = apply(layer, x)
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
