"""Fully connected networks: single, as batched ensembles, and in numpy for acting.

For a few rows, calling torch costs several times the arithmetic; numpy little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
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


MAX_PRODUCTS = 2**18
"""Multiplications of one layer up to which numpy wins; its BLAS uses one thread up to here, too."""

Floats = np.ndarray[Any, np.dtype[np.float32]]


class PlainBackbone(Protocol):
    """What `SmallForward` needs to know of a backbone."""

    @property
    def is_plain(self) -> bool:
        """Whether it is its trunk alone: vectors of floats go in as they are, and nothing is remembered."""

    @property
    def trunk(self) -> nn.Sequential:
        """Linear layers and activations."""


class _Step(NamedTuple):
    """One linear layer and the activation after it; the arrays are views of the parameters."""

    layer: nn.Module
    weight: torch.Tensor
    bias: torch.Tensor
    addresses: tuple[int, int]
    matrix: Floats
    offset: Floats
    activation: Callable[[Floats], object] | None


def _relu(x: Floats) -> None:
    np.maximum(x, 0.0, out=x)


def _tanh(x: Floats) -> None:
    np.tanh(x, out=x)


_IN_NUMPY: dict[type[nn.Module], Callable[[Floats], object]] = {nn.ReLU: _relu, nn.Tanh: _tanh}


class SmallForward:
    """`head(backbone(obs))` without gradient in numpy, for vector observations, plain layers on the CPU and few rows.

    Reads the parameters where torch keeps them, so that it sees every update; it looks at each call whether they are
    still there (a network may be moved, or get other layers). Copies and pickles of it start empty.
    """

    def __init__(self) -> None:
        self._layers: list[nn.Module] = []
        self._steps: list[_Step] = []
        self._max_rows = 0

    def __reduce__(self) -> tuple[type[SmallForward], tuple[()]]:
        return SmallForward, ()

    def __call__(self, backbone: PlainBackbone, head: nn.Module, obs: object) -> Floats | None:
        """[B, in] -> [B, out] float32; None where torch has to do it."""
        if type(obs) is not np.ndarray or obs.ndim != 2:
            return None
        layers = [*backbone.trunk, head]
        if layers != self._layers:
            self._read(backbone, layers)
        if len(obs) > self._max_rows:
            return None
        x = obs if obs.dtype == np.float32 else obs.astype(np.float32)
        for layer, weight, bias, addresses, matrix, offset, activation in self._steps:
            parameters = layer._parameters
            if (
                parameters["weight"] is not weight
                or parameters["bias"] is not bias
                or (weight.data_ptr(), bias.data_ptr()) != addresses
                or layer._forward_hooks
                or layer._forward_pre_hooks
            ):
                self._layers = []  # read anew at the next call
                return None
            x = x @ matrix
            x += offset
            if activation is not None:
                activation(x)
        return x

    def _read(self, backbone: PlainBackbone, layers: list[nn.Module]) -> None:
        """Take views of the parameters; `_max_rows` stays 0 where something is not plain."""
        self._layers, self._steps, self._max_rows = layers, [], 0
        if not backbone.is_plain:
            return
        steps: list[_Step] = []
        for layer in layers:
            if type(layer) in _IN_NUMPY and steps and steps[-1].activation is None:
                steps[-1] = steps[-1]._replace(activation=_IN_NUMPY[type(layer)])
                continue
            if not (type(layer) is Linear or type(layer) is nn.Linear) or layer.bias is None:
                return
            weight, bias = layer.weight, layer.bias
            if not weight.is_cpu or weight.dtype is not torch.float32:
                return
            addresses = (weight.data_ptr(), bias.data_ptr())
            matrix = weight.detach().numpy() if isinstance(layer, Linear) else weight.detach().numpy().T
            steps.append(_Step(layer, weight, bias, addresses, matrix, bias.detach().numpy(), None))
        self._steps = steps
        self._max_rows = MAX_PRODUCTS // max(step.matrix.size for step in steps)
