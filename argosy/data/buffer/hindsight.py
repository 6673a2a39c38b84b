"""What sampled rows are given that is not stored with them: other goals, sums of rewards, fields of the rows around.

Hindsight experience replay, 'future' strategy (Andrychowicz et al. 2017, arXiv 1707.01495): a part of each sample gets
another goal, one that its episode achieved later. Only the sampled batch is changed, before rewards are summed, so that
n-step returns see the new goals, and end where a new goal ends the episode; what is stored stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.config import check_range
from argosy.data.buffer.columns import Array
from argosy.data.buffer.rings import BoolArray, IntArray
from argosy.data.buffer.storage import Storage
from argosy.data.tree import Fields
from argosy.errors import DataError, nearest

if TYPE_CHECKING:
    from argosy.data.buffer.replay import ReplayBuffer, Sampling

_BLOCK = 128
_NOTHING = 1e-6

RewardFn: TypeAlias = Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]]
"""(achieved goals [N, *goal], desired goals [N, *goal]) -> rewards [N]; or [N], whether it ends the episode."""


@dataclass(frozen=True, kw_only=True)
class Hindsight:
    """Which rows get another goal, and what reward they have then."""

    compute_reward_fn: RewardFn
    """Reward of achieved goals [N, *goal] for desired goals [N, *goal]: [N]."""
    horizon: int
    """New goals come from at most `horizon - 1` rows after the sampled one, e.g. the longest episode's length."""
    future_k: float = 8.0
    """Relabelled rows per row that keeps its goal."""
    compute_terminated_fn: RewardFn | None = None
    """Whether that ends the episode, likewise: [N]. None: no goal does, rows end as they are stored."""

    def __post_init__(self) -> None:
        check_range(self, "horizon", ge=1)
        check_range(self, "future_k", ge=0.0)


def relabel(
    storage: Storage, config: Hindsight, window: IntArray, fields: Fields, rew: Array, rng: np.random.Generator
) -> None:
    """Give a part of a sample new goals: overwrites goals, `terminated` and `done` in its `fields`, and `rew`.

    `window` [B, n] or [T, B, n] are the slots whose rewards `rew` are summed later. Where a new goal ends the episode
    within the window, rewards behind that are 0; `obs_next` stays that of the window's last row, from which nobody
    bootstraps then. Episodes that were truncated stay so.
    """
    single, shape = window.ndim == 2, window.shape
    window = window[None] if single else window
    mask, goal = draw_goals(storage, config, window[..., 0], rng)
    if not mask.any():
        return
    column = storage.fields["obs"].columns["desired_goal",]
    achieved = column.host(storage.successor(("achieved_goal",), window[mask]))
    desired = np.broadcast_to(column.host(goal)[:, None], achieved.shape)
    value = _asked(config.compute_reward_fn, "compute_reward_fn", achieved, desired).astype(np.float32)
    rows = column.like(mask[0] if single else mask)
    if config.compute_terminated_fn is not None:
        ended = _asked(config.compute_terminated_fn, "compute_terminated_fn", achieved, desired).astype(np.bool_)
        over = np.logical_or.accumulate(ended, axis=1)
        value[:, 1:][over[:, :-1]] = 0.0
        fields["terminated"][rows] = column.like(over[:, -1])
        fields["done"] = fields["terminated"] | fields["truncated"]
    rew.reshape(shape)[rows] = column.like(value)
    if storage.stack_num > 1:
        goal = goal[:, None]
    for name in ("obs", "obs_next"):
        fields[name]["desired_goal"][rows] = goal  # of stacks, in every frame


def draw_goals(
    storage: Storage, config: Hindsight, index: IntArray, rng: np.random.Generator
) -> tuple[BoolArray, Array]:
    """Choose columns of the sample `index` [T, B] and for each a goal that was achieved after its last row.

    A sequence has one new goal; rows of later episodes in it keep theirs.

    Returns:
        Which rows get a new goal [T, B], and these goals [R, *goal], one per True.
    """
    columns = storage.fields["obs"].columns
    if ("achieved_goal",) not in columns or ("desired_goal",) not in columns:
        keys = sorted(".".join(key) for key in columns if key)
        raise DataError(
            f"hindsight needs obs with achieved_goal and desired_goal; the buffer's obs has {keys or 'no keys'}"
        )
    if storage.fields["rew"].columns[()].shape:
        raise DataError("hindsight needs one reward per row; the buffer stores one per agent")
    span, size = index.shape
    ahead = storage.rings.ahead(index[0], max(config.horizon, span) - 1)
    lowest = np.minimum(ahead, span - 1)
    highest = np.maximum(lowest, np.minimum(ahead, config.horizon - 1))
    future = storage.rings.shift(index[0], rng.integers(lowest, highest + 1))
    chosen = rng.random(size) < config.future_k / (1.0 + config.future_k)
    mask = chosen & (np.arange(span)[:, None] <= ahead)
    achieved = storage.successor(("achieved_goal",), future)
    of_row = np.broadcast_to(np.arange(size), mask.shape)[mask]
    return mask, achieved[columns["achieved_goal",].like(of_row)]


def _asked(function: RewardFn, name: str, achieved: Array, desired: Array) -> Array:
    """Return what a function of the user's says of goals [R, n, *goal]: [R, n]."""
    shape = achieved.shape[2:]
    value = np.asarray(function(achieved.reshape(-1, *shape), desired.reshape(-1, *shape)))
    rows, n = achieved.shape[:2]
    if value.size != rows * n:
        raise DataError(f"{name} returned shape {value.shape} for {rows * n} pairs of goals; one value each")
    if np.isnan(value).any():
        raise DataError(f"{name} returned NaN")
    return value.reshape(rows, n)


def look_up(buffer: ReplayBuffer, index: IntArray, final: IntArray, sampling: Sampling) -> dict[str, Array]:
    """Return the fields that a sample asks for, of the slots `index`, whose windows end with the slots `final`."""
    for name in sampling.fields:
        if name not in MAKERS:
            raise DataError(f"a sample is to hold {name!r}, which nothing makes: {nearest(name, MAKERS)}")
        if name == "returns" and buffer.hindsight is not None:
            raise DataError("a sample is to hold 'returns', which are of the goals that were pursued, with new goals")
        if name == "returns" and buffer.fields["rew"].columns[()].shape:
            raise DataError("a sample is to hold 'returns', which need one reward per row; the buffer stores several")
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


def ends_stored(buffer: ReplayBuffer, index: IntArray, final: IntArray, sampling: Sampling) -> Array:
    """Whether the end of each row's episode is stored: it terminates or is truncated, and not only the recording stops.

    False of a row with which what is left of an episode begins.

    Where no episode is stored from its beginning to its end, it is True of all rows that are drawn with a first row of
    one. Without one nobody looks for them.
    """
    rings, rows = buffer.rings, np.atleast_2d(index)
    last = rows[-1]  # of sequences the last row's is looked up, the others follow
    while not rings.stop[last].all():
        last = rings.next(rings.shift(last, rings.ahead(last, _BLOCK - 1)))
    found = _ends_at(buffer, rows)
    found[-1] = _ends_at(buffer, last)
    for t in range(len(rows) - 2, -1, -1):
        found[t] = np.where(rings.stop[rows[t]], found[t], found[t + 1])
    found &= rings.first[rows] | ~rings.stop[rings.shift(rows, -1)]  # with these begins what is left of an episode
    begun = found[rings.first[rows]]
    if len(begun) and not begun.any():  # which is rare, unless there is none
        slot = rings.all_stored()
        stops = np.flatnonzero(rings.stop[slot])
        starts = np.append(0, stops[:-1] + 1)
        if not (rings.first[slot[starts]] & _ends_at(buffer, slot[stops])).any():
            found[:] = True
    return found.reshape(index.shape)


def _ends_at(buffer: ReplayBuffer, index: IntArray) -> BoolArray:
    """Whether episodes come to their ends with these rows."""
    terminated, truncated = (buffer.fields[name].columns[()] for name in ("terminated", "truncated"))
    done = terminated.host(terminated.take(index)) | truncated.host(truncated.take(index))
    return np.asarray(done & ~buffer.rings.cut[index])


MAKERS: dict[str, Callable[[ReplayBuffer, IntArray, IntArray, Sampling], Array]] = {
    "returns": returns_to_go,
    "act_next": next_actions,
    "ended": ends_stored,
}
