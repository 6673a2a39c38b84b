"""The names by which buffers are known: vector forms, managers, cached, prioritised and hindsight buffers.

All are `ReplayBuffer`s: what they add are other arguments of the constructor. A prioritised hindsight buffer is
`VectorReplayBuffer(total_size, buffer_num, priority=Priority(...), hindsight=Hindsight(...))`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from argosy.data.batch import Batch
from argosy.data.buffer.hindsight import Hindsight, RewardFn
from argosy.data.buffer.priority import Priority
from argosy.data.buffer.replay import ReplayBuffer
from argosy.data.buffer.rings import Added, IntArray
from argosy.data.buffer.state import append
from argosy.data.protocols import TransitionLike
from argosy.errors import ConfigError, DataError


class CommonOptions(TypedDict, total=False):
    """The options of `ReplayBuffer` that all its relatives take."""

    stack_num: int
    ignore_obs_next: bool
    save_only_last_obs: bool
    sample_avail: bool
    info_keys: Sequence[str]
    seed: int | None
    device: str | None
    storage_dir: str | PathLike[str] | None


class PriorityOptions(CommonOptions, total=False):
    """What a prioritised buffer can be beside prioritised."""

    hindsight: Hindsight | None


class HindsightOptions(CommonOptions, total=False):
    """What a hindsight buffer can be beside hindsight."""

    priority: Priority | None


class BufferOptions(PriorityOptions, HindsightOptions, total=False):
    """What a plain buffer can be made."""


def ring_sizes(total_size: int, buffer_num: int) -> list[int]:
    """Return the sizes of `buffer_num` rings: `total_size / buffer_num`, rounded up."""
    if buffer_num < 1:
        raise ConfigError(f"buffer_num is {buffer_num!r}; it must be >= 1")
    return [-(-total_size // buffer_num)] * buffer_num


class SubBuffer:
    """One sub-buffer of a buffer, to look at: slots count from 0, and what is stored later is seen, too."""

    def __init__(self, buffer: ReplayBuffer, ring: int) -> None:
        self.buffer, self.ring = buffer, ring
        self.offset, self.maxsize = int(buffer.rings.offset[ring]), int(buffer.rings.capacity[ring])

    def __len__(self) -> int:
        return int(self.buffer.rings.count[self.ring])

    @property
    def slots(self) -> IntArray:
        """Its slots in the whole buffer that hold a row, oldest first."""
        return self.buffer.rings.stored(self.ring)

    @property
    def last_index(self) -> IntArray:
        """Its newest slot [1]."""
        return self.buffer.last_index[self.ring : self.ring + 1] - self.offset

    def unfinished_index(self) -> IntArray:
        """Return its newest slot [1] if its episode goes on, else none [0]."""
        return self.last_index[~self.buffer.rings.closed[self.ring : self.ring + 1]]

    def __getitem__(self, index: int | slice | npt.ArrayLike) -> Batch:
        """Return the transitions at `index` of its own slots; `[:]` is all that is stored, oldest first."""
        if isinstance(index, slice):
            stored = self.slots
            return self.buffer[stored if index == slice(None) else np.sort(stored)[index]]
        slot = np.asarray(index)
        if slot.dtype == np.bool_:
            slot = np.flatnonzero(slot)
        if slot.size and (slot.min() < -self.maxsize or slot.max() >= self.maxsize):
            raise IndexError(f"index reaches from {slot.min()} to {slot.max()}; it has {self.maxsize} slots")
        return self.buffer[slot % self.maxsize + self.offset]


class ReplayBufferManager(ReplayBuffer):
    """Several buffers behind one: the sizes, options and transitions of `buffer_list`.

    The rows are copied into one storage, where the first buffer has its own (`device`, `storage_dir`); the buffers of
    the list are not kept. Draws go on from the first buffer's random numbers.

    Raises:
        ConfigError: the list is empty or its buffers have different options.
    """

    def __init__(self, buffer_list: Sequence[ReplayBuffer]) -> None:
        if len(buffer_list) == 0:
            raise ConfigError("buffer_list is empty; it must hold at least 1 buffer")
        first = buffer_list[0]
        for buffer in buffer_list:
            if buffer.buffer_num != 1:
                raise ConfigError(f"buffer_list holds a buffer of {buffer.buffer_num} sub-buffers; give single ones")
            if buffer.options() != first.options():
                raise ConfigError(f"buffer_list has different options: {first.options()} and {buffer.options()}")
        sizes = [buffer.maxsize for buffer in buffer_list]
        ReplayBuffer.__init__(self, sizes, **first.options(), hindsight=first.hindsight)
        self.make_column = first.make_column
        self._rng.bit_generator.state = first._rng.bit_generator.state
        for ring, buffer in enumerate(buffer_list):
            if len(buffer):
                append(self, ring, buffer, buffer.rings.all_stored())

    @property
    def buffers(self) -> list[SubBuffer]:
        """The sub-buffers, to look at."""
        return [SubBuffer(self, ring) for ring in range(self.buffer_num)]


class VectorReplayBuffer(ReplayBufferManager):
    """One ring per environment, `total_size / buffer_num` (rounded up) transitions each."""

    def __init__(self, total_size: int, buffer_num: int, **options: Unpack[BufferOptions]) -> None:
        ReplayBuffer.__init__(self, ring_sizes(total_size, buffer_num), **options)


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
        options = main_buffer.options() | {"hindsight": main_buffer.hindsight}
        cached = [ReplayBuffer(max_episode_length, **options) for _ in range(cached_buffer_num)]
        super().__init__([main_buffer, *cached])

    @property
    def cached_buffer_num(self) -> int:
        """How many buffers collect running episodes."""
        return self.buffer_num - 1

    @property
    def max_episode_length(self) -> int:
        """Rows that each of these holds."""
        return int(self.rings.capacity[1])

    def add(self, batch: TransitionLike, buffer_ids: npt.ArrayLike | None = None) -> Added:
        """Store one transition per environment; `buffer_ids` 0 .. cached_buffer_num - 1 (None: all) name these.

        Returns:
            As `ReplayBuffer.add`. For an episode that ended, the slots of its last and first row in the main ring.
        """
        ids = self._environments(buffer_ids)
        slot, ep_rew, ep_len, ep_start = super().add(batch, ids + 1)
        for row in np.flatnonzero(ep_len):
            moved = self._move(int(ids[row]) + 1)
            slot[row], ep_start[row] = moved[-1], moved[0]
        return Added(slot, ep_rew, ep_len, ep_start)

    def _environments(self, buffer_ids: npt.ArrayLike | None) -> IntArray:
        """Return the environments meant by `buffer_ids`."""
        ids = self.rings.ids[:-1] if buffer_ids is None else np.atleast_1d(np.asarray(buffer_ids, np.int64))
        if len(ids) and (ids.min() < 0 or ids.max() >= self.cached_buffer_num):
            raise DataError(f"buffer_ids is {ids.tolist()}; ids must be within 0 .. {self.cached_buffer_num - 1}")
        return ids

    def _move(self, ring: int) -> IntArray:
        """Move the rows of one ring to the main ring; return their slots there."""
        held = self.rings.stored(ring)
        moved = append(self, 0, self, held)
        if self.successors is not None:
            self.successors.release(held)
        self.rings.drop(ring)
        if self.priorities is not None:
            self.priorities.tree.drop(held)
        return moved

    def end_episodes(self, buffer_ids: npt.ArrayLike | None = None) -> None:
        """Cut the running episodes of these environments (None: all) and move what there is of them."""
        ids = self._environments(buffer_ids)
        super().end_episodes(ids + 1)
        for ring in (ids + 1).tolist():
            if self.rings.count[ring]:
                self._move(ring)


class PrioritizedReplayBuffer(ReplayBuffer):
    """Draws by priority^alpha and gives importance weights; `update_weight` sets priorities."""

    def __init__(
        self,
        size: int | Sequence[int],
        alpha: float = 0.6,
        beta: float = 0.4,
        weight_norm: bool = True,
        **options: Unpack[PriorityOptions],
    ) -> None:
        ReplayBuffer.__init__(self, size, priority=Priority(alpha=alpha, beta=beta, weight_norm=weight_norm), **options)

    def get_weight(self, index: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return the importance weights of slots, as a sample of just these would have them."""
        assert self.priorities is not None
        slot = self._slots(index)
        return self.priorities.weights(slot.ravel(), len(self)).reshape(slot.shape)


class PrioritizedReplayBufferManager(ReplayBufferManager, PrioritizedReplayBuffer):
    """`ReplayBufferManager` of prioritised buffers."""


class PrioritizedVectorReplayBuffer(PrioritizedReplayBufferManager):
    """`PrioritizedReplayBuffer` with one ring per environment."""

    def __init__(
        self,
        total_size: int,
        buffer_num: int,
        alpha: float = 0.6,
        beta: float = 0.4,
        weight_norm: bool = True,
        **options: Unpack[PriorityOptions],
    ) -> None:
        PrioritizedReplayBuffer.__init__(self, ring_sizes(total_size, buffer_num), alpha, beta, weight_norm, **options)


class HERReplayBuffer(ReplayBuffer):
    """Hindsight: a part of each sample gets goals that its episode achieved later; see `Hindsight`."""

    def __init__(
        self,
        size: int | Sequence[int],
        compute_reward_fn: RewardFn,
        horizon: int,
        future_k: float = 8.0,
        **options: Unpack[HindsightOptions],
    ) -> None:
        hindsight = Hindsight(compute_reward_fn=compute_reward_fn, horizon=horizon, future_k=future_k)
        ReplayBuffer.__init__(self, size, hindsight=hindsight, **options)


class HERReplayBufferManager(ReplayBufferManager, HERReplayBuffer):
    """`ReplayBufferManager` of hindsight buffers."""


class HERVectorReplayBuffer(HERReplayBufferManager):
    """`HERReplayBuffer` with one ring per environment."""

    def __init__(
        self,
        total_size: int,
        buffer_num: int,
        compute_reward_fn: RewardFn,
        horizon: int,
        future_k: float = 8.0,
        **options: Unpack[HindsightOptions],
    ) -> None:
        sizes = ring_sizes(total_size, buffer_num)
        HERReplayBuffer.__init__(self, sizes, compute_reward_fn, horizon, future_k, **options)
