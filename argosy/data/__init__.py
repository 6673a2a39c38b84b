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
from argosy.data.running import RunningMeanStd
from argosy.data.stats import (
    CollectStats,
    EpochStats,
    InfoStats,
    SequenceSummaryStats,
    TimingStats,
    TrainingStats,
    TrainingStatsMean,
)
from argosy.data.tensors import as_tensors, to_numpy, to_torch, to_torch_as

__all__ = [
    "ActionBatchProtocol",
    "Batch",
    "BatchProtocol",
    "CollectStats",
    "EpochStats",
    "InfoStats",
    "NamedArray",
    "ObsBatchProtocol",
    "ReplayBuffer",
    "ReplayBufferManager",
    "RolloutBatchProtocol",
    "RunningMeanStd",
    "Sampling",
    "SequenceSummaryStats",
    "TimingStats",
    "TrainingStats",
    "TrainingStatsMean",
    "TrajectoryBatch",
    "TransitionBatch",
    "VectorReplayBuffer",
    "as_tensors",
    "namedarray",
    "to_numpy",
    "to_torch",
    "to_torch_as",
]
