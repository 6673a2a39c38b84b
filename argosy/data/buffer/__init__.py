"""Buffers: storage and samplers."""

from argosy.data.buffer.base import ReplayBuffer
from argosy.data.buffer.sampling import Sampling
from argosy.data.buffer.vector import ReplayBufferManager, VectorReplayBuffer

__all__ = ["ReplayBuffer", "ReplayBufferManager", "Sampling", "VectorReplayBuffer"]
