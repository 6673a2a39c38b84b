"""The matrix products of an update of SAC and of TD3 on HalfCheetah-v5, and nothing else: batch 256, MLPs 256x2.

Unit: one update. Gradients are those that are needed: of the critics' inputs for the actor, but not of their weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch

BATCH, OBS, ACT, WIDTH = 256, 17, 6, 256
POLICY_FREQ = 2  # of TD3


class Products:
    """Those of `num` networks of the same shape at once: x [num, BATCH, in] times weights [num, in, out]."""

    def __init__(self, num: int, size_in: int, size_out: int) -> None:
        sizes = [size_in, WIDTH, WIDTH, size_out]
        self.weights = [torch.randn(num, a, b) / a for a, b in itertools.pairwise(sizes)]
        self.values = [torch.randn(num, BATCH, size) for size in sizes]  # of each layer, and their gradients
        self.gradients = [torch.empty_like(weight) for weight in self.weights]

    def forward(self) -> None:
        for i, weight in enumerate(self.weights):
            torch.bmm(self.values[i], weight, out=self.values[i + 1])

    def backward(self, *, weights: bool, inputs: bool) -> None:
        for i in (2, 1, 0):
            if weights:
                torch.bmm(self.values[i].mT, self.values[i + 1], out=self.gradients[i])
            if i > 0 or inputs:
                torch.bmm(self.values[i + 1], self.weights[i].mT, out=self.values[i])


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
