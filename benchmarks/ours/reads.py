"""A file of a million transitions becomes a buffer. Unit: one file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from recorded import d4rl_file, own_file

from argosy.data import ReplayBuffer
from argosy.data.datasets import open_source


def _load(path: Path) -> ReplayBuffer:
    with open_source(path) as source:
        return source.load()


def _prepared(
    write: Callable[[int], Path], read: Callable[[Path], ReplayBuffer], seed: int
) -> Callable[[int], dict[str, object]]:
    path = write(seed)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            buffer = read(path)
        return {"files": count, "obs": list(buffer.obs.shape), "obs_next": list(buffer.obs_next.shape)}

    return run


ROWS = {
    "read_own": partial(_prepared, own_file, ReplayBuffer.load_hdf5),
    "read_checked": partial(_prepared, own_file, _load),
    "read_d4rl": partial(_prepared, d4rl_file, _load),
}
