"""A buffer that takes in whole episodes: running ones wait in small buffers of their own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy.data.buffer.base import ReplayBuffer
from argosy.data.buffer.rings import IntArray
from argosy.data.buffer.store import TransitionLike
from argosy.data.buffer.vector import ReplayBufferManager
from argosy.errors import ConfigError, DataError


class CachedReplayBuffer(ReplayBufferManager):
    """`main_buffer` behind `cached_buffer_num` buffers, one per environment, that collect its running episodes.

    An episode moves to the main ring (sub-buffer 0) when it is done, so that the main ring holds whole episodes in a
    row. Of an episode longer than `max_episode_length` the last rows stay. Samples come from all sub-buffers.

    Raises:
        ConfigError: a number below 1, or the main buffer has several sub-buffers.
    """

    def __init__(self, main_buffer: ReplayBuffer, cached_buffer_num: int, max_episode_length: int) -> None:
        if cached_buffer_num < 1 or max_episode_length < 1:
            raise ConfigError(
                f"cached_buffer_num is {cached_buffer_num!r}, max_episode_length {max_episode_length!r}; "
                "both must be >= 1"
            )
        self.cached_buffer_num = cached_buffer_num
        self.max_episode_length = max_episode_length
        super().__init__([main_buffer, *(main_buffer.empty_like(max_episode_length) for _ in range(cached_buffer_num))])

    def add(
        self, batch: TransitionLike, buffer_ids: npt.ArrayLike | None = None
    ) -> tuple[IntArray, npt.NDArray[np.float64], IntArray, IntArray]:
        """Store one transition per environment; `buffer_ids` 0 .. cached_buffer_num - 1 (None: all) name these.

        Returns:
            As `ReplayBuffer.add`. For an episode that ended, the slots of its last and first row in the main ring.
        """
        ids = self._environments(buffer_ids)
        slot, ep_rew, ep_len, ep_start = super().add(batch, ids + 1)
        for row in np.flatnonzero(ep_len):
            moved = self._move(int(ids[row]) + 1)
            slot[row], ep_start[row] = moved[-1], moved[0]
        return slot, ep_rew, ep_len, ep_start

    def _environments(self, buffer_ids: npt.ArrayLike | None) -> IntArray:
        """Return the environments meant by `buffer_ids`."""
        ids = (
            np.arange(self.cached_buffer_num) if buffer_ids is None else np.atleast_1d(np.asarray(buffer_ids, np.int64))
        )
        if len(ids) and (ids.min() < 0 or ids.max() >= self.cached_buffer_num):
            raise DataError(f"buffer_ids is {ids.tolist()}; ids must be within 0 .. {self.cached_buffer_num - 1}")
        return ids

    def _move(self, ring: int) -> IntArray:
        """Move the rows of one ring to the main ring; return their slots there."""
        held = self._rings.stored(ring)
        moved = self._data.append(0, self._data, held)
        self._appended(moved)
        self._data.drop(ring, held)
        if self.priorities is not None:
            self.priorities.dropped(held)
        return moved

    def end_episodes(self, buffer_ids: npt.ArrayLike | None = None) -> None:
        """Cut the running episodes of these environments (None: all) and move what there is of them."""
        ids = self._environments(buffer_ids)
        super().end_episodes(ids + 1)
        for ring in (ids + 1).tolist():
            if self._rings.count[ring]:
                self._move(ring)
