"""Fields that a sample holds beside the usual where `Sampling.fields` asks for them; looked up as it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from argosy.data.buffer.columns import Array
from argosy.data.buffer.rings import IntArray
from argosy.errors import DataError, nearest

if TYPE_CHECKING:
    from argosy.data.buffer.replay import ReplayBuffer, Sampling

_BLOCK = 128
_NOTHING = 1e-6


def look_up(buffer: ReplayBuffer, index: IntArray, final: IntArray, sampling: Sampling) -> dict[str, Array]:
    """Return the fields that a sample asks for, of the slots `index`, whose n-step windows end with the slots `final`.

    Raises:
        DataError: a field is unknown.
    """
    for name in sampling.fields:
        if name not in MAKERS:
            raise DataError(f"a sample is to hold {name!r}, which nothing makes: {nearest(name, MAKERS)}")
    like = buffer.fields["rew"].columns[()].like
    return {name: like(MAKERS[name](buffer, index, final, sampling)) for name in sampling.fields}


def returns_to_go(buffer: ReplayBuffer, index: IntArray, final: IntArray, sampling: Sampling) -> Array:
    """Discounted sums of the rewards from each row to the end of its episode, or of what is stored of it."""
    from argosy.data.buffer.replay import n_step_weights

    rings, rew = buffer.rings, buffer.fields["rew"].columns[()]
    found, scale = np.zeros(index.shape, np.float32), np.ones(index.shape, np.float32)
    while scale.max() > _NOTHING:
        ahead = rings.ahead(index, _BLOCK - 1)
        window = rings.shift(index[..., None], np.minimum(np.arange(_BLOCK), ahead[..., None]))
        found += scale * (rew.host(rew.take(window)) * n_step_weights(ahead, _BLOCK, sampling.gamma)[0]).sum(axis=-1)
        scale *= np.where(rings.stop[window[..., -1]], 0.0, sampling.gamma**_BLOCK).astype(np.float32)
        index = rings.next(window[..., -1])
    return found


def next_actions(buffer: ReplayBuffer, index: IntArray, final: IntArray, sampling: Sampling) -> Array:
    """The action of the row that follows the window, as floats; NaN where its episode ends, or what is stored of it."""
    act = buffer.fields["act"].columns[()]
    after = buffer.rings.next(final)
    found = act.host(act.take(after)).astype(np.float32)
    found[after == final] = np.nan
    return found


def steps_before(buffer: ReplayBuffer, index: IntArray, final: IntArray, sampling: Sampling) -> Array:
    """How many rows of its episode, or of what is stored of it, are before each row; as floats."""
    rings = buffer.rings
    if index.ndim == 2:  # of sequences the first row's is looked up, the others follow
        found = np.empty(index.shape, np.float32)
        found[0] = steps_before(buffer, index[0], final[0], sampling)
        for t in range(1, len(index)):
            found[t] = np.where(rings.first[index[t]], 0.0, found[t - 1] + 1.0)
        return found
    found, walked = np.zeros(index.shape, np.float32), index
    while len(walked):
        first = rings.back(index, _BLOCK)[..., 0]
        walked = (index - first) % rings.capacity[rings.ring_of(index)]
        found += walked
        index, walked = first, walked[walked == _BLOCK]
    return found


MAKERS: dict[str, Callable[[ReplayBuffer, IntArray, IntArray, Sampling], Array]] = {
    "returns": returns_to_go,
    "act_next": next_actions,
    "step": steps_before,
}
