"""From an observation to features: fully connected layers, with an encoder and a memory before them.

For a few rows, calling torch costs several times the arithmetic, numpy little: `SmallForward` is for acting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import tree
from argosy.data.protocols import Obs, SampleBatch
from argosy.net.config import NetConfig
from argosy.net.memory import Memory
from argosy.ops import products
from argosy.process import check_memory

if TYPE_CHECKING:
    from argosy.net.ensemble import EnsembleLinear

Space: TypeAlias = spaces.Space[Any]
Rows: TypeAlias = tuple[torch.Tensor, ...]
"""Indices of some rows of a sample along its leading axes."""


FEW_OUTPUTS = 16
"""Outputs of a layer up to which products of matrices are slow unless each output's weights lie side by side."""


def parameters_of(layer: Linear | EnsembleLinear) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weight and bias, past nn.Module's look-up of attributes, which takes a tenth of a small layer's time."""
    weight, bias = layer._parameters.get("weight"), layer._parameters.get("bias")
    if weight is None or bias is None:  # torch.nn.utils.parametrize has taken them
        weight, bias = layer.weight, layer.bias
    return weight, bias


class Linear(nn.Module):
    """[..., in_features] -> [..., out_features]: x @ weight + bias, starting as an `nn.Linear` would.

    Its weight lies [in, out], not [out, in]. On CPUs a PPO update takes 4 % less for want of a transposition in each
    layer's gradient, and the product of few rows with a large weight, as when acting on images, half of the time.
    That of a layer of few outputs lies in memory output by output: its products then take a third of the time.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        check_memory(16 * in_features * out_features, f"to learn a layer of {in_features:,} x {out_features:,}")
        bound = 1.0 / math.sqrt(in_features)
        weight = torch.empty(out_features, in_features).uniform_(-bound, bound).t()
        self.weight = nn.Parameter(weight if 1 < out_features <= FEW_OUTPUTS else weight.contiguous())
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features]."""
        weight, bias = parameters_of(self)
        size_out = self.out_features
        if products.on and size_out >= products.WIDE and x.numel() * size_out >= products.LARGE:
            return products.affine(x, weight, bias)
        return torch.addmm(bias, x, weight) if x.dim() == 2 else x @ weight + bias

    def extra_repr(self) -> str:
        """Return the widths."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


class _NumpyTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.from_numpy(np.tanh(x.detach().numpy()))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(gradient, y)


class Tanh(nn.Tanh):
    """tanh; of many numbers on a CPU by numpy, so that an update of PPO takes 6 % less.

    On AMD's processors numpy takes a tenth of torch's time, which calls MKL, made for another maker's.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape, and the same again."""
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # torch's
            return x.tanh()  # asked first: a question of the size would bind an exported program to it
        if not x.is_cpu or x.dtype is not torch.float32 or x.numel() < 4096:
            return x.tanh()
        y: torch.Tensor = _NumpyTanh.apply(x)  # type: ignore[no-untyped-call]  # torch's
        return y


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


def activation_layer(name: str) -> nn.Module:
    """Make the nonlinearity after a layer; in place, as nobody else holds what that gives: updates take 1 % less."""
    return nn.ReLU(inplace=True) if name == "relu" else ACTIVATIONS[name]()


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
            layers += [Linear(width, size), activation_layer(activation)]
            width = size
        if out_features is not None:
            layers.append(Linear(width, out_features))
            width = out_features
        super().__init__(*layers)
        self.out_features = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features]."""
        for layer in self:  # `forward` itself: with small layers, a call through nn.Module costs half as much as one
            x = layer.forward(x)
        return x


class Backbone(nn.Module):
    """Encoder, memory where `config.memory` says so, hidden layers: observation -> features [..., out_features].

    Observations of images alone get no hidden layers after the CNN's own linear layer.

    Args:
        space: the observation space.
        config: kind, widths, activation and memory.
        skip: top-level keys that are no input (an action mask).
        drop_last: leave the last hidden layer to the head (dueling streams).
    """

    columns: slice | None = None
    """Where a sample's `policy.state` [T, B, S] holds this memory's states. None: they are not stored, so that every
    sequence starts from zero, as it does from data of another policy."""

    def __init__(self, space: Space, config: NetConfig, skip: Collection[str] = (), *, drop_last: bool = False) -> None:
        from argosy.net.encoder import Encoder, make_encoder  # here, because encoders are made of the layers above

        super().__init__()
        self.encoder, width = make_encoder(space, config, skip, config.cnn_features)
        sizes = config.hidden_sizes[:-1] if drop_last else config.hidden_sizes
        self.last_hidden = config.hidden_sizes[-1] if config.hidden_sizes else config.cnn_features
        if isinstance(self.encoder, Encoder) and self.encoder.only_images:
            sizes, self.last_hidden = (), config.cnn_features
            if drop_last:
                self.encoder, width = make_encoder(space, config, skip, None)
        self.takes_vectors = isinstance(self.encoder, Encoder) and self.encoder.is_plain
        """Vectors of floats go past the encoder, as they are."""
        self.memory: Memory | None = None
        if config.memory is not None:
            self.memory = Memory(config.memory, width, config.memory_size)
            width = self.memory.out_features
        self.trunk = MLP(width, sizes, activation=config.activation)
        self.out_features = self.trunk.out_features

    @property
    def is_plain(self) -> bool:
        """Whether it is its trunk alone: vectors of floats go in as they are, and nothing is remembered."""
        return type(self) is Backbone and self.memory is None and self.takes_vectors

    @property
    def state_size(self) -> int:
        """Width of the memory's state; 0 without one."""
        return 0 if self.memory is None else self.memory.state_size

    def forward(self, obs: Obs, state: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Make one step: ([..., *obs], states [..., S] before it) -> (features [..., out_features], states after it).

        Without memory, states are None.
        """
        x = self._encoded(obs)
        if self.memory is None:
            return self.trunk(x), None
        after = self.memory.step(x, state)
        return self.trunk(self.memory.output(after)), after

    def features(self, sample: SampleBatch) -> torch.Tensor:
        """Features [..., out_features] of `sample.obs` [..., *obs]; with memory of sequences [T, B, ...]."""
        if self.memory is None:
            x = self._encoded(sample.obs)
        else:
            x = self.memory.output(self.memory.states_after(sample, self.columns, self.encoder))
        features: torch.Tensor = self.trunk.forward(x)
        return features

    def features_next(self, sample: SampleBatch, rows: Rows | None = None) -> torch.Tensor:
        """Features of `sample.obs_next`, with the memory's states carried on; or of some `rows` of it [k, ...]."""
        x = self._encoded(sample.obs_next if rows is None else tree.index(sample.obs_next, rows))
        if self.memory is not None:
            after = self.memory.states_after(sample, self.columns, self.encoder)
            if "final" in sample:  # n-step: the successor comes some rows later
                after = after.gather(0, sample.final.unsqueeze(-1).expand_as(after))
            x = self.memory.output(self.memory.step(x, after if rows is None else after[rows]))
        features: torch.Tensor = self.trunk.forward(x)
        return features

    def _encoded(self, obs: Obs) -> torch.Tensor:
        """[..., *obs] -> [..., F]."""
        if self.takes_vectors and isinstance(obs, torch.Tensor) and obs.dtype is torch.float32:
            return obs
        x: torch.Tensor = self.encoder(obs)
        return x


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


_ZERO = np.zeros((), np.float32)  # to turn a number into an array costs a third of a small layer's activation
_IN_NUMPY: dict[type[nn.Module], Callable[[Floats], object]] = {
    nn.ReLU: lambda x: np.maximum(x, _ZERO, out=x),
    nn.Tanh: lambda x: np.tanh(x, out=x),
    Tanh: lambda x: np.tanh(x, out=x),
}


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
        layers = [*vars(backbone)["_modules"]["trunk"]._modules.values(), head]  # `.trunk` takes three times as long
        if layers != self._layers:
            self._read(backbone, layers)
        if not self._steps or len(obs) > self._max_rows:
            return None
        x = obs if obs.dtype == np.float32 else obs.astype(np.float32)
        for layer, weight, bias, addresses, matrix, offset, activation in self._steps:
            parameters = layer._parameters
            if (
                parameters.get("weight") is not weight
                or parameters.get("bias") is not bias
                or (weight.data_ptr(), bias.data_ptr()) != addresses
                or layer._forward_hooks
                or layer._forward_pre_hooks
            ):
                self._layers = []  # read anew at the next call
                return None
            x = x.dot(matrix)  # half a microsecond less than by @
            x += offset
            if activation is not None:
                activation(x)
        return x

    def _read(self, backbone: Backbone, layers: list[nn.Module]) -> None:
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
