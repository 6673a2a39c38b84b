"""Copy the same bytes out into one message and back into writable memory, field by field. Unit: one round trip."""

from __future__ import annotations

from collections.abc import Callable

from filled import keep_freed_memory, segment


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    arrays = [array.reshape(-1).view("u1") for array in segment(seed).values()]
    keep_freed_memory()

    def run(count: int) -> dict[str, int]:
        for _ in range(count):
            view, at, again = memoryview(b"".join(arrays)), 0, []
            for array in arrays:
                again.append(bytearray(view[at : at + array.size]))
                at += array.size
        return {"round_trips": count, "bytes": sum(map(len, again))}

    return run
