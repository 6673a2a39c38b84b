"""All arrays of the same file, read by h5py. Unit: one file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import h5py
from recorded import d4rl_file, own_file


def _prepared(
    write: Callable[[int], Path], group: str, names: tuple[str, str], seed: int
) -> Callable[[int], dict[str, object]]:
    path = write(seed)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            with h5py.File(path) as file:
                found = {name: item[()] for name, item in file[group].items() if isinstance(item, h5py.Dataset)}
        obs, obs_next = (list(found[name].shape) for name in names)
        return {"files": count, "obs": obs, "obs_next": obs_next}

    return run


ROWS = {
    "read_own": partial(_prepared, own_file, "columns", ("obs", "obs_next")),
    "read_checked": partial(_prepared, own_file, "columns", ("obs", "obs_next")),
    "read_d4rl": partial(_prepared, d4rl_file, "/", ("observations", "next_observations")),
}
