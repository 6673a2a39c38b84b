"""Draw 32 transitions from 20,000 single frames of 84x84, stacked to 4 at sample time. Unit: one sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from filled import filled_frames

from argosy.data import Sampling


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    buffer = filled_frames(seed, 20_000, episode=250)
    sampling = Sampling(gamma=0.99)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            batch, _ = buffer.sample(32, sampling)
        return {"samples": count} | {
            name: list(batch[name].shape) for name in sorted(batch.keys()) if isinstance(batch[name], np.ndarray)
        }

    return run
