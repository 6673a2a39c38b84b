"""Batch renormalisation: statistics of a batch while learning from it, running ones everywhere else.

Which of the two is not the mode of modules (`train`, `eval`), which acting and targets would have to heed, but said by
a `with` block around what shall take the batch's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

from argosy.net.backbone import MLP, Linear
from argosy.net.ensemble import EnsembleLinear, EnsembleMLP

EPS, MAX_R, MAX_D = 1e-3, 3.0, 5.0
ModuleT = TypeVar("ModuleT", bound=nn.Module)


class BatchRenorm(nn.Module):
    """Normalises each feature, by its running mean and variance or, within `batch_statistics`, by those of the batch.

    Batch normalisation (https://arxiv.org/abs/1502.03167); from `warmup` batches on it is batch renormalisation (Ioffe,
    2017, https://arxiv.org/abs/1702.03275), which differs from what is normalised by running statistics within bounds
    alone: r = std / running std within [1/3, 3], d = (mean - running mean) / running std within [-5, 5], and

        y = weight * ((x - mean) / std * r + d) + bias

    Args:
        features: how many.
        size: K members of an ensemble [K, B, features] have statistics of their own each; None: [..., features].
        momentum: what the running statistics keep of themselves at each batch.
        warmup: see above.
    """

    shares: torch.Tensor | None = None
    """[1, R] how much each row counts in the batch's statistics, 1 in sum; None: running ones are used."""

    def __init__(
        self, features: int, size: int | None = None, *, momentum: float = 0.99, warmup: int = 100_000
    ) -> None:
        super().__init__()
        shape = (1, features) if size is None else (size, 1, features)
        self.momentum, self.warmup = momentum, warmup
        self.weight, self.bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
        self.mean, self.var = nn.Buffer(torch.zeros(shape)), nn.Buffer(torch.ones(shape))
        self.batches = nn.Buffer(torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., features] and the same again."""
        std_running = (self.var + EPS).sqrt()
        if self.shares is None:
            scale = self.weight / std_running
            return torch.addcmul(self.bias - self.mean * scale, x, scale)
        rows = x if self.mean.dim() == 3 else x.flatten(0, -2)
        mean = self.shares @ rows
        var = self.shares @ (rows - mean).square()
        std = (var + EPS).sqrt()
        with torch.no_grad():
            is_warm = self.batches >= self.warmup
            r = torch.where(is_warm, (std / std_running).clamp(1.0 / MAX_R, MAX_R), 1.0)
            d = torch.where(is_warm, ((mean - self.mean) / std_running).clamp(-MAX_D, MAX_D), 0.0)
            self.mean.lerp_(mean, 1.0 - self.momentum)
            self.var.lerp_(var, 1.0 - self.momentum)
            self.batches.add_(1)
        scale = self.weight * r / std
        return torch.addcmul(self.bias + self.weight * d - mean * scale, x, scale)


def add_batch_norm(network: ModuleT, warmup: int) -> ModuleT:
    """Put batch renormalisation before the hidden layers of a network and after each of their activations; returns it.

    Encoders and heads stay as they are, and so does what has no hidden layers.
    """
    own = {layer for part in network.modules() if getattr(part, "is_own", False) for layer in part.modules()}
    for layers in list(network.modules()):
        if not isinstance(layers, MLP | EnsembleMLP) or layers in own:
            continue
        size = next((layer.weight.shape[0] for layer in layers if isinstance(layer, EnsembleLinear)), None)
        linear = [(at, layer) for at, layer in enumerate(layers) if isinstance(layer, Linear | EnsembleLinear)]
        for at, layer in reversed(linear):
            if at + 1 < len(layers):  # all but an ensemble's output
                layers.insert(at + 2, BatchRenorm(layer.weight.shape[-1], size, warmup=warmup))
        if linear:  # members of an ensemble share their input
            layers.insert(0, BatchRenorm(linear[0][1].weight.shape[-2], warmup=warmup))
    return network


@contextmanager
def batch_statistics(network: nn.Module, counts: torch.Tensor) -> Iterator[None]:
    """Let layers normalise by the statistics of the batch that passes, and learn these, as long as the block lasts.

    Args:
        network: its layers.
        counts: [..., B] bool, the leading axes of what passes: rows that count in the statistics.
    """
    shares = counts.flatten().to(torch.float32).unsqueeze(0)
    shares = shares / shares.sum().clamp(min=1.0)
    layers = [layer for layer in network.modules() if isinstance(layer, BatchRenorm)]
    for layer in layers:
        layer.shares = shares
    try:
        yield
    finally:
        for layer in layers:
            layer.shares = None
