"""Batches, named arrays, buffers, statistics."""

from argosy.data.batch import Batch
from argosy.data.buffer import ReplayBuffer, ReplayBufferManager, Sampling, VectorReplayBuffer
from argosy.data.namedarray import NamedArray, namedarray
from argosy.data.protocols import (
    ActionBatchProtocol,
    BatchProtocol,
    ObsBatchProtocol,
    RolloutBatchProtocol,
    TrajectoryBatch,
    TransitionBatch,
)
from argosy.data.tensors import as_tensors, to_numpy, to_torch, to_torch_as

__all__ = [
    "ActionBatchProtocol",
    "Batch",
    "BatchProtocol",
    "NamedArray",
    "ObsBatchProtocol",
    "RolloutBatchProtocol",
    "TrajectoryBatch",
    "TransitionBatch",
    "as_tensors",
    "namedarray",
    "to_numpy",
    "to_torch",
    "to_torch_as",
]
