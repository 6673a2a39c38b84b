"""Send a named array of 20 fields, 3.8 MB in all: `dumps` and `loads`, raw bytes. Unit: one round trip."""

from __future__ import annotations

from collections.abc import Callable

from filled import keep_freed_memory, segment

from argosy.data import dumps, loads


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    record = segment(seed)
    keep_freed_memory()

    def run(count: int) -> dict[str, int]:
        for _ in range(count):
            again = loads(dumps(record, "raw_bytes"))
        return {"round_trips": count, "bytes": sum(array.nbytes for array in again.values())}

    return run
