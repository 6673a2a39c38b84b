"""Noisy networks: linear layers with learned noise explore by themselves.

Fortunato et al., 2018, https://arxiv.org/abs/1706.10295. The noise is factorised; it is drawn for the length of a
`with` block, outside of which every layer is its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from argosy.net.backbone import Linear
from argosy.ops.products import affine
from argosy.rng import Rng

FEW_ROWS = 32
"""Of fewer rows, as when acting, the product with the noise is taken apart: they hold less than a layer's weights."""


class NoisyLinear(Linear):
    """[..., in_features] -> [..., out_features], with normal parameters whose means and deviations are learned.

        x @ (weight + weight_std * outer(e_in, e_out)) + bias + bias_std * e_out,  e = sign(z) * sqrt(|z|) for normal z

    Every deviation starts as std / sqrt(in_features).

    Args:
        plain: the layer whose place it takes; its weight and bias are the means.
        std: see above.
    """

    noise: tuple[torch.Tensor, torch.Tensor] | None = None
    """e_in [in_features] and e_out [out_features], or [B, out_features] for each row; None: there is none now."""
    noisy: tuple[torch.Tensor, torch.Tensor] | None = None
    """Weight and bias with this noise, once they are made: a pass without gradient takes those of the one before it."""

    def __init__(self, plain: Linear, std: float) -> None:
        super().__init__(plain.in_features, plain.out_features)
        self.weight, self.bias = plain.weight, plain.bias
        start = std / plain.in_features**0.5
        self.weight_std = nn.Parameter(torch.full_like(plain.weight, start))
        self.bias_std = nn.Parameter(torch.full_like(plain.bias, start))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features]."""
        if self.noise is None:
            return super().forward(x)
        e_in, e_out = self.noise
        if e_out.dim() > 1 or x.shape[:-1].numel() < FEW_ROWS:
            return super().forward(x) + ((x * e_in) @ self.weight_std + self.bias_std) * e_out
        if self.noisy is None or torch.is_grad_enabled():
            weight = torch.addcmul(self.weight, self.weight_std, torch.outer(e_in, e_out))
            self.noisy = weight, torch.addcmul(self.bias, self.bias_std, e_out)
        return affine(x, *self.noisy)


@dataclass(frozen=True)
class Noise:
    """The noise of some layers: `with noise(rng): ...`."""

    layers: tuple[NoisyLinear, ...]

    @contextmanager
    def __call__(self, rng: Rng, evaluates: np.ndarray | None = None) -> Iterator[None]:
        """Draw anew, for all rows or for those that do not evaluate ([B] bool); after the block there is none."""
        if evaluates is not None and evaluates.all():
            yield
            return
        sizes = [size for layer in self.layers for size in (layer.in_features, layer.out_features)]
        z = torch.empty(sum(sizes)).normal_(generator=rng.torch).to(self.layers[0].weight.device)
        e = torch.split(z.sign() * z.abs().sqrt(), sizes)
        explores = None if evaluates is None else torch.from_numpy(~evaluates).unsqueeze(-1).to(z.device)
        for layer, e_in, e_out in zip(self.layers, e[::2], e[1::2], strict=True):
            layer.noise = (e_in, e_out if explores is None else e_out * explores)
        try:
            yield
        finally:
            for layer in self.layers:
                layer.noise = layer.noisy = None


def add_noise(network: nn.Module, std: float) -> Noise:
    """Make the linear layers of a network noisy; networks of a user's own (`NetConfig.encoder`) stay as they are."""
    own = {layer for part in network.modules() if getattr(part, "is_own", False) for layer in part.modules()}
    for module in list(network.modules()):
        for name, layer in module.named_children():
            if type(layer) is Linear and layer not in own:
                setattr(module, name, NoisyLinear(layer, std))
    return _noise(network)


def noise_of(*networks: nn.Module) -> Callable[[Rng], AbstractContextManager[object]]:
    """Return the noise of all noisy layers of networks, for an algorithm's update; without such layers, nothing."""
    noise = _noise(*networks)
    return noise if noise.layers else nullcontext


def _noise(*networks: nn.Module) -> Noise:
    layers = (layer for network in networks for layer in network.modules())
    return Noise(tuple(layer for layer in layers if isinstance(layer, NoisyLinear)))
