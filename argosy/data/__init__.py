"""Batches, named arrays, buffers, statistics."""

from argosy.data.batch import Batch
from argosy.data.buffer import ReplayBuffer, ReplayBufferManager, Sampling, VectorReplayBuffer
from argosy.data.namedarray import (
    NamedArray,
    array_like,
    flatten,
    from_dict,
    from_flattened,
    namedarray,
    recursive_aggregate,
    recursive_apply,
    size_bytes,
)
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
from argosy.data.wire import dumps, loads

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
    "array_like",
    "as_tensors",
    "dumps",
    "flatten",
    "from_dict",
    "from_flattened",
    "loads",
    "namedarray",
    "recursive_aggregate",
    "recursive_apply",
    "size_bytes",
    "to_numpy",
    "to_torch",
    "to_torch_as",
]
