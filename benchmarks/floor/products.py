"""The matrix products of an update of SAC and of TD3 on HalfCheetah-v5, and nothing else: batch 256, MLPs 256x2.

Unit: one update. Gradients are those that are needed: of the critics' inputs for the actor, but not of their weights.
Each product is made by that of torch's two libraries, MKL and oneDNN, which takes less time for it on this machine.
"""

from __future__ import annotations

import itertools
import timeit
from collections.abc import Callable

import torch

BATCH, OBS, ACT, WIDTH = 256, 17, 6, 256
POLICY_FREQ = 2  # of TD3


def by_mkl(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    torch.bmm(a, b, out=out)


def by_onednn(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Its results lie in memory of their own."""
    for one, other in zip(a, b, strict=True):
        torch.ops.mkldnn._linear_pointwise(one, other.t(), None, "none", [], "")


def faster(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
    """Return the product of a and b [num, ...] by whichever takes less time."""
    ways = [lambda way=way: way(a, b, out) for way in (by_mkl, by_onednn)]
    return min(ways, key=lambda way: min(timeit.repeat(way, number=20, repeat=10)))


class Products:
    """Those of `num` networks of the same shape at once: x [num, BATCH, in] times weights [num, in, out]."""

    def __init__(self, num: int, size_in: int, size_out: int) -> None:
        sizes = [size_in, WIDTH, WIDTH, size_out]
        self.weights = [torch.randn(num, a, b) / a for a, b in itertools.pairwise(sizes)]
        self.values = [torch.randn(num, BATCH, size) for size in sizes]  # of each layer, and their gradients
        layers = [(x, w, y) for (x, y), w in zip(itertools.pairwise(self.values), self.weights, strict=True)]
        self.outputs = [faster(x, w, torch.empty_like(y)) for x, w, y in layers]
        self.to_weights = [faster(x.mT, y, torch.empty_like(w)) for x, w, y in layers]
        self.to_inputs = [faster(y, w.mT, torch.empty_like(x)) for x, w, y in layers]

    def forward(self) -> None:
        for product in self.outputs:
            product()

    def backward(self, *, weights: bool, inputs: bool) -> None:
        for i in (2, 1, 0):
            if weights:
                self.to_weights[i]()
            if i > 0 or inputs:
                self.to_inputs[i]()


def _prepared(seed: int, out: int, actor_critics: int, policy_freq: int) -> Callable[[int], dict[str, object]]:
    torch.manual_seed(seed)
    actor, critics = Products(1, OBS, out), Products(2, OBS + ACT, 1)
    climbed = Products(actor_critics, OBS + ACT, 1)

    def run(count: int) -> dict[str, object]:
        for done in range(count):
            actor.forward()  # of the successors
            critics.forward()  # of the targets
            critics.forward()
            critics.backward(weights=True, inputs=False)
            if done % policy_freq == 0:
                actor.forward()
                climbed.forward()
                climbed.backward(weights=False, inputs=True)
                actor.backward(weights=True, inputs=False)
        return {"steps": count, "gradient_steps": count, "finite": True}

    return run


ROWS = {
    "product_sac": lambda seed: _prepared(seed, 2 * ACT, 2, 1),
    "product_td3": lambda seed: _prepared(seed, ACT, 1, POLICY_FREQ),
}
