"""8 envs with a busy step of 100 us, stepped one after the other on one core. Unit: one env step."""

from __future__ import annotations

from collections.abc import Callable

from busy import Busy

NUM_ENVS = 8


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    envs = [Busy(1e-4) for _ in range(NUM_ENVS)]
    for env in envs:
        env.reset()

    def run(count: int) -> dict[str, int]:
        for _ in range(-(-count // NUM_ENVS)):
            for env in envs:
                env.step(1)
        return {"steps": -(-count // NUM_ENVS) * NUM_ENVS}

    return run
