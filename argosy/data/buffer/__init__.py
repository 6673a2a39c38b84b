"""Buffers: storage and samplers composed."""

from argosy.data.buffer.base import ReplayBuffer
from argosy.data.buffer.cached import CachedReplayBuffer
from argosy.data.buffer.hindsight import Hindsight
from argosy.data.buffer.priority import Priority
from argosy.data.buffer.sampling import Sampling
from argosy.data.buffer.store import TransitionLike
from argosy.data.buffer.vector import (
    HERReplayBuffer,
    HERReplayBufferManager,
    HERVectorReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedReplayBufferManager,
    PrioritizedVectorReplayBuffer,
    ReplayBufferManager,
    VectorReplayBuffer,
)

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
    "TransitionLike",
    "VectorReplayBuffer",
]
