"""The names by which buffers are known: vector forms, managers, prioritised and hindsight buffers.

All are `ReplayBuffer`s: what they add are other arguments of the constructor. A prioritised hindsight buffer is
`VectorReplayBuffer(total_size, buffer_num, priority=Priority(...), hindsight=Hindsight(...))`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from argosy.data.buffer.base import ReplayBuffer
from argosy.data.buffer.hindsight import Hindsight, RewardFn
from argosy.data.buffer.priority import Priority
from argosy.errors import ConfigError


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


class BufferOptions(CommonOptions, total=False):
    """What a plain buffer can be made."""

    priority: Priority | None
    hindsight: Hindsight | None


def ring_sizes(total_size: int, buffer_num: int) -> list[int]:
    """Return the sizes of `buffer_num` rings: `total_size / buffer_num`, rounded up.

    Raises:
        ConfigError: `buffer_num` is below 1.
    """
    if buffer_num < 1:
        raise ConfigError(f"buffer_num is {buffer_num!r}; it must be >= 1")
    return [-(-total_size // buffer_num)] * buffer_num


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
        super().__init__(
            [buffer.maxsize for buffer in buffer_list],
            first.stack_num,
            first.ignore_obs_next,
            first.save_only_last_obs,
            first.sample_avail,
            info_keys=first.info_keys,
            priority=None if first.priorities is None else first.priorities.config,
            hindsight=first.hindsight,
        )
        self._data.make_leaf = first._data.make_leaf
        self._rng.bit_generator.state = first._rng.bit_generator.state
        for ring, buffer in enumerate(buffer_list):
            if len(buffer):
                self._append(ring, buffer)


class VectorReplayBuffer(ReplayBufferManager):
    """One ring per environment, `total_size / buffer_num` (rounded up) transitions each."""

    def __init__(self, total_size: int, buffer_num: int, **options: Unpack[BufferOptions]) -> None:
        ReplayBuffer.__init__(self, ring_sizes(total_size, buffer_num), **options)


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


class PrioritizedReplayBufferManager(PrioritizedReplayBuffer, ReplayBufferManager):
    """`ReplayBufferManager` of prioritised buffers."""

    def __init__(self, buffer_list: Sequence[PrioritizedReplayBuffer]) -> None:
        ReplayBufferManager.__init__(self, buffer_list)


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


class HERReplayBufferManager(HERReplayBuffer, ReplayBufferManager):
    """`ReplayBufferManager` of hindsight buffers."""

    def __init__(self, buffer_list: Sequence[HERReplayBuffer]) -> None:
        ReplayBufferManager.__init__(self, buffer_list)


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
