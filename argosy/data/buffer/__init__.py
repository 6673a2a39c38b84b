"""Buffers: transitions in rings of slots (`Storage`), and complete samples of them (`ReplayBuffer`)."""

from argosy.data.buffer.hindsight import Hindsight
from argosy.data.buffer.priority import Priority
from argosy.data.buffer.replay import ReplayBuffer, Sampling
from argosy.data.buffer.segtree import SegmentTree
from argosy.data.buffer.vector import (
    CachedReplayBuffer,
    HERReplayBuffer,
    HERReplayBufferManager,
    HERVectorReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedReplayBufferManager,
    PrioritizedVectorReplayBuffer,
    ReplayBufferManager,
    VectorReplayBuffer,
)
from argosy.data.protocols import TransitionLike

__all__ = [
    "CachedReplayBuffer",
    "HERReplayBuffer",
    "HERReplayBufferManager",
    "HERVectorReplayBuffer",
    "Hindsight",
    "PrioritizedReplayBuffer",
    "PrioritizedReplayBufferManager",
    "PrioritizedVectorReplayBuffer",
    "Priority",
    "ReplayBuffer",
    "ReplayBufferManager",
    "Sampling",
    "SegmentTree",
    "TransitionLike",
    "VectorReplayBuffer",
]
