"""Draw as many single rows as 32 sequences of 16 have, uniformly, from the same buffer. Unit: one sample."""

from __future__ import annotations

from collections.abc import Callable

from filled import filled_buffer

from argosy.data import Sampling


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    buffer = filled_buffer(seed)
    sampling = Sampling(gamma=0.99)

    def run(count: int) -> dict[str, int]:
        for _ in range(count):
            batch, _ = buffer.sample(32 * 16, sampling)
        return {"samples": count, "rows": batch.obs.size // 4}

    return run
