"""Batches, named arrays, buffers, statistics."""

from argosy.data.batch import Batch
from argosy.data.buffer import ReplayBuffer, ReplayBufferManager, Sampling, VectorReplayBuffer
from argosy.data.namedarray import NamedArray, namedarray
from argosy.data.tensors import as_tensors, to_numpy, to_torch, to_torch_as

__all__ = [
    "Batch",
    "NamedArray",
    "ReplayBuffer",
    "ReplayBufferManager",
    "Sampling",
    "VectorReplayBuffer",
    "as_tensors",
    "namedarray",
    "to_numpy",
    "to_torch",
    "to_torch_as",
]
