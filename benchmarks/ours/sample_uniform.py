"""Draw 64 complete transitions (reward, discount, weight, true successor) from 20,000 slots. Unit: one sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from filled import filled_buffer

from argosy.data import Sampling


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    buffer = filled_buffer(seed)
    sampling = Sampling(gamma=0.99)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            batch, _ = buffer.sample(64, sampling)
        return {"samples": count} | {
            name: list(batch[name].shape) for name in sorted(batch.keys()) if isinstance(batch[name], np.ndarray)
        }

    return run
