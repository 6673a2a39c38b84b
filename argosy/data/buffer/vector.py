"""Buffers with one sub-buffer per environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from argosy.data.buffer.base import ReplayBuffer
from argosy.errors import ConfigError


class BufferOptions(TypedDict, total=False):
    """The options of `ReplayBuffer` that its relatives pass on."""

    stack_num: int
    ignore_obs_next: bool
    save_only_last_obs: bool
    sample_avail: bool
    info_keys: Sequence[str]
    seed: int | None


class ReplayBufferManager(ReplayBuffer):
    """Several buffers behind one: rows of all of them are stored together, each keeps its own ring.

    Takes over the sizes, the options and the transitions of `buffer_list`; the buffers themselves are not kept.
    """

    def __init__(self, buffer_list: Sequence[ReplayBuffer]) -> None:
        if len(buffer_list) == 0:
            raise ConfigError("buffer_list is empty; it must hold at least 1 buffer")
        first = buffer_list[0]
        super().__init__(
            [buffer.maxsize for buffer in buffer_list],
            first.stack_num,
            first.ignore_obs_next,
            first.save_only_last_obs,
            first.sample_avail,
            info_keys=first.info_keys,
        )


class VectorReplayBuffer(ReplayBufferManager):
    """One ring per environment, `total_size / buffer_num` (rounded up) transitions each."""

    def __init__(self, total_size: int, buffer_num: int, **options: Unpack[BufferOptions]) -> None:
        if buffer_num < 1:
            raise ConfigError(f"buffer_num is {buffer_num!r}; it must be >= 1")
        ReplayBuffer.__init__(self, [-(-total_size // buffer_num)] * buffer_num, **options)
