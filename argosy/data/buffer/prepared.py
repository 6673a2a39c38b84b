"""Fields that a sample holds beside the usual, made once of a whole data set (`Sampling.fields`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from argosy.data.buffer.columns import Writes
from argosy.data.buffer.replay import ReplayBuffer, Sampling
from argosy.data.buffer.rings import IntArray
from argosy.data.buffer.state import own_fields
from argosy.data.tensors import to_numpy
from argosy.errors import DataError, nearest


def prepare(buffer: ReplayBuffer, sampling: Sampling) -> None:
    """Give every stored row the fields that samples are to hold; those of rows that come later are zero.

    Raises:
        DataError: a field is unknown.
    """
    slot = buffer.sample_indices(0)
    for name in sampling.fields:
        if name not in MAKERS:
            raise DataError(f"a sample is to hold {name!r}, which nothing makes: {nearest(name, MAKERS)}")
        values = MAKERS[name](buffer, slot, sampling)
        own_fields(buffer, [name])
        writes: Writes = []
        buffer.fields[name].check(values, len(slot), False, writes)
        for column, value in writes:
            column.put(slot, value)


def returns_to_go(buffer: ReplayBuffer, slot: IntArray, sampling: Sampling) -> np.ndarray:
    """Discounted sums [N] of the rewards from each row to the end of its episode, or of what is stored of it."""
    rew: Any = to_numpy(buffer.get(slot, "rew")).tolist()
    last = (buffer.next(slot) == slot).tolist()
    found, total = np.empty(len(slot), np.float32), 0.0
    for i in range(len(slot) - 1, -1, -1):
        total = rew[i] + (0.0 if last[i] else sampling.gamma * total)
        found[i] = total
    return found


def next_actions(buffer: ReplayBuffer, slot: IntArray, sampling: Sampling) -> np.ndarray:
    """The action [N, *act] of the row that follows each row in its episode, as floats; NaN where none does."""
    after = buffer.next(slot)
    found = np.array(to_numpy(buffer.get(after, "act")), np.float32)
    found[after == slot] = np.nan
    return found


MAKERS: dict[str, Callable[[ReplayBuffer, IntArray, Sampling], Any]] = {
    "returns": returns_to_go,
    "act_next": next_actions,
}
