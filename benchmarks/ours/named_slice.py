"""Take two rows of every field of a named array of 20 fields. Unit: one slice."""

from __future__ import annotations

from collections.abc import Callable

from filled import segment


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    record = segment(seed)

    def run(count: int) -> dict[str, int]:
        for _ in range(count):
            part = record[3:5]
        return {"slices": count, "rows": len(part)}

    return run
