"""Copy the same bytes once, into one message. Unit: one copy."""

from __future__ import annotations

from collections.abc import Callable

from filled import keep_freed_memory, segment


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    arrays = [array.reshape(-1).view("u1") for array in segment(seed).values()]
    keep_freed_memory()

    def run(count: int) -> dict[str, int]:
        for _ in range(count):
            message = b"".join(arrays)
        return {"round_trips": count, "bytes": len(message)}

    return run
