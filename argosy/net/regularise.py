"""Dropout and normalisation between the layers of networks, for algorithms that make many updates per step."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from argosy.net.ensemble import EnsembleLinear, EnsembleMLP, Rows, RowWise


class Dropout(RowWise):
    """Sets numbers to 0 with some probability and enlarges the others, always, by draws from a generator of its own."""

    generator: torch.Generator | None = None
    """CPU generator that draws; see `draw_from`."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape, and the same again."""
        if self.probability == 0.0:
            return x
        keep = 1.0 - self.probability
        kept = torch.empty(x.shape, dtype=x.dtype).bernoulli_(keep, generator=self.generator)
        return x * kept.to(x.device).mul_(1.0 / keep)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"{self.probability}"


class EnsembleLayerNorm(RowWise):
    """K layer normalisations, each with its own scale and shift (Ba et al., 2016, https://arxiv.org/abs/1607.06450)."""

    def __init__(self, size: int, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, 1, features))
        self.bias = nn.Parameter(torch.zeros(size, 1, features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[K, B, features] and the same again."""
        return torch.addcmul(self.bias, F.layer_norm(x, x.shape[-1:]), self.weight)

    def of_members(self, size: int) -> list[Rows]:
        """What each of the `size` members does to rows of its own, [B, features] -> [B, features]."""
        own = zip(self.weight.squeeze(1).unbind(), self.bias.squeeze(1).unbind(), strict=True)
        return [partial(F.layer_norm, normalized_shape=weight.shape, weight=weight, bias=bias) for weight, bias in own]


def add_dropout_and_layer_norm(layers: EnsembleMLP, probability: float) -> None:
    """Put dropout and layer normalisation between each hidden linear layer and its activation."""
    linear = [(at, layer) for at, layer in enumerate(layers) if isinstance(layer, EnsembleLinear)]
    for at, layer in reversed(linear[:-1]):
        size, _, features = layer.weight.shape
        layers.insert(at + 1, EnsembleLayerNorm(size, features))
        layers.insert(at + 1, Dropout(probability))


def draw_from(generator: torch.Generator, network: nn.Module) -> None:
    """Let all dropout of a network draw from a generator."""
    for layer in network.modules():
        if isinstance(layer, Dropout):
            layer.generator = generator
