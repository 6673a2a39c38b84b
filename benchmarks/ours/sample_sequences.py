"""Draw 32 sequences of 16 rows from 20,000 slots, with masks and episode starts. Unit: one sample."""

from __future__ import annotations

from collections.abc import Callable

from filled import filled_buffer

from argosy.data import Sampling


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    buffer = filled_buffer(seed)
    sampling = Sampling(gamma=0.99, sequence_length=16)

    def run(count: int) -> dict[str, int]:
        for _ in range(count):
            batch, _ = buffer.sample(32, sampling)
        return {"samples": count, "rows": batch.obs.size // 4}

    return run
