"""Losses and gradients of argosy beside those of a peer, on the peer's weights and batch.

`PEER_ROOM.py` runs in the peer's environment (`benchmarks/peers/setup.sh PEER` makes it) and records its cases in
`recorded/PEER_ROOM-CASE.npz`; these lie in the repository, so that `test_PEER_ROOM.py` compares without the peer:

    recorded = load("tianshou1_value-dqn")
    online = layers([*policy.backbone.trunk, policy.head], ["online.model.model.0", ...])
    take_over(online, recorded)               # our parameters become the peer's
    algorithm.optim = Gradients(online)       # stands for the optimiser: keeps loss and gradients, moves nothing
    algorithm.update(recorded.batch)
    algorithm.optim.check(recorded, "loss")   # the loss and every gradient are equal

A new case: a function in the peer's file, `python PEER_ROOM.py recorded CASE` in the peer's environment, a test.
`test_recorded.py` (slow) records all of them anew and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import nn

from argosy.data import Batch
from argosy.net import Linear

RECORDED = Path(__file__).parent / "recorded"


@dataclass(frozen=True)
class Recorded:
    """What a peer's `recorder.record` wrote."""

    batch: Batch
    weights: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]
    losses: dict[str, float]
    draws: list[np.ndarray]


def load(name: str) -> Recorded:
    with np.load(RECORDED / f"{name}.npz") as file:
        parts: dict[str, dict[str, np.ndarray]] = {}
        for key in file.files:
            part, _, rest = key.partition("/")
            parts.setdefault(part, {})[rest] = file[key]
    losses = {key: float(value) for key, value in parts["loss"].items()}
    draws = list(parts.get("draw", {}).values())
    return Recorded(Batch(parts["batch"]), parts["weight"], parts["gradient"], losses, draws)


@dataclass(frozen=True)
class Pair:
    """A parameter and the peer's: several of these lie one after the other along the first axis."""

    parameter: nn.Parameter
    names: tuple[str, ...]
    view: Callable[[torch.Tensor], torch.Tensor]
    """Shows the parameter, or its gradient, as the peer lays it out."""

    def of(self, arrays: dict[str, np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([arrays[name] for name in self.names]))


def layers(
    ours: Iterable[nn.Module], theirs: Sequence[str | tuple[str, ...]], names: Mapping[str, str] = MappingProxyType({})
) -> list[Pair]:
    """Pair the parameters of layers with the peer's, in order; modules without parameters are left out.

    Args:
        ours: the layers.
        theirs: MODULE.LAYER of the peer, or several whose parameters lie one after the other in one of ours.
        names: how the peer calls a layer's `weight` and so on, where it has another name.
    """
    own = [layer for layer in ours if next(layer.parameters(), None) is not None]
    pairs = []
    for layer, prefixes in zip(own, theirs, strict=True):
        prefixes = (prefixes,) if isinstance(prefixes, str) else prefixes
        for name, parameter in layer.named_parameters():
            lies = isinstance(layer, Linear) and parameter.dim() == 2
            keys = tuple(f"{prefix}.{names.get(name, name)}" for prefix in prefixes)
            pairs.append(Pair(parameter, keys, torch.t if lies else torch.Tensor.detach))
    return pairs


@dataclass(frozen=True)
class Members(Pair):
    """A parameter of a batched ensemble, and those of the peer's networks, one for each member."""

    def of(self, arrays: dict[str, np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.stack([arrays[name] for name in self.names]))


def members(ours: Iterable[nn.Module], theirs: Sequence[Sequence[str]]) -> list[Pair]:
    """Pair the layers [K, in, out] of an ensemble, in order, with those of the peer's K networks, MODULE.LAYER each."""
    pairs: list[Pair] = []
    for layer, prefixes in zip((layer for layer in ours if hasattr(layer, "weight")), theirs, strict=True):
        weights, biases = (tuple(f"{prefix}.{name}" for prefix in prefixes) for name in ("weight", "bias"))
        pairs.append(Members(layer.weight, weights, lambda x: x.detach().transpose(1, 2)))
        pairs.append(Members(layer.bias, biases, lambda x: x.detach().squeeze(1)))
    return pairs


@torch.no_grad()
def take_over(pairs: Iterable[Pair], recorded: Recorded) -> None:
    """Give parameters the peer's values."""
    for pair in pairs:
        pair.view(pair.parameter).copy_(pair.of(recorded.weights))


class Gradients:
    """Stands for an optimiser: keeps the loss and its gradient, moves nothing."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs

    def step(self, loss: torch.Tensor) -> None:
        self.loss = loss.item()
        self.found = torch.autograd.grad(loss, [pair.parameter for pair in self.pairs], retain_graph=True)

    def check(self, recorded: Recorded, loss: str, scale: float = 1.0) -> None:
        """Compare with the peer's loss of this name, of which ours is `scale` times as much."""
        np.testing.assert_allclose(self.loss, scale * recorded.losses[loss], rtol=2e-5, atol=1e-6)
        for pair, gradient in zip(self.pairs, self.found, strict=True):
            expected = scale * pair.of(recorded.gradients).numpy()
            np.testing.assert_allclose(pair.view(gradient), expected, rtol=1e-4, atol=2e-6, err_msg=str(pair.names))
            assert np.abs(expected).max() > 1e-5, f"{pair.names} has no gradient to compare"
