"""Acting with small networks: for a few rows, calling torch costs several times the arithmetic; numpy little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from argosy.net.encoder import Backbone
from argosy.net.mlp import Linear

MAX_PRODUCTS = 2**18
"""Multiplications of one layer up to which numpy wins; its BLAS uses one thread up to here, too."""

Floats = np.ndarray[Any, np.dtype[np.float32]]


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


ACTIVATIONS: dict[type[nn.Module], Callable[[Floats], object]] = {nn.ReLU: _relu, nn.Tanh: _tanh}


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

    def __call__(self, backbone: Backbone, head: nn.Module, obs: object) -> Floats | None:
        """[B, in] -> [B, out] float32; None where torch has to do it."""
        if type(obs) is not np.ndarray or obs.ndim != 2:
            return None
        layers = [backbone.encoder, *backbone.trunk, head]
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

    def _read(self, backbone: Backbone, layers: list[nn.Module]) -> None:
        """Take views of the parameters; `_max_rows` stays 0 where something is not plain."""
        self._layers, self._steps, self._max_rows = layers, [], 0
        plain = type(backbone) is Backbone and backbone.memory is None and getattr(backbone.encoder, "is_plain", False)
        if not plain:
            return
        steps: list[_Step] = []
        for layer in layers[1:]:
            if type(layer) in ACTIVATIONS and steps and steps[-1].activation is None:
                steps[-1] = steps[-1]._replace(activation=ACTIVATIONS[type(layer)])
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
