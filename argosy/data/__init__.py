"""Batches, named arrays, buffers, statistics."""

from argosy.data.batch import Batch
from argosy.data.buffer.hindsight import Hindsight
from argosy.data.buffer.priority import Priority, SegmentTree
from argosy.data.buffer.replay import ReplayBuffer, Sampling
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
from argosy.data.finite import check_finite
from argosy.data.hdf5 import sign_hdf5
from argosy.data.namedarray import (
    NamedArray,
    array_like,
    flatten,
    from_dict,
    from_flattened,
    namedarray,
    recursive_aggregate,
    recursive_apply,
)
from argosy.data.protocols import (
    ActionBatchProtocol,
    AdvantageBatch,
    BatchProtocol,
    ObsBatchProtocol,
    RolloutBatchProtocol,
    SampleBatch,
    TrajectoryBatch,
    TransitionBatch,
)
from argosy.data.running import MovAvg, RunningMeanStd
from argosy.data.stats import (
    CollectStats,
    EpochStats,
    InfoStats,
    SequenceSummaryStats,
    TimingStats,
    TrainingStats,
    TrainingStatsMean,
)
from argosy.data.tensors import as_tensors, channels_last, for_learning, take_rows, to_numpy, to_torch, to_torch_as
from argosy.data.tree import size_bytes
from argosy.data.wire import dumps, loads

__all__ = [
    "ActionBatchProtocol",
    "AdvantageBatch",
    "Batch",
    "BatchProtocol",
    "CachedReplayBuffer",
    "CollectStats",
    "EpochStats",
    "HERReplayBuffer",
    "HERReplayBufferManager",
    "HERVectorReplayBuffer",
    "Hindsight",
    "InfoStats",
    "MovAvg",
    "NamedArray",
    "ObsBatchProtocol",
    "PrioritizedReplayBuffer",
    "PrioritizedReplayBufferManager",
    "PrioritizedVectorReplayBuffer",
    "Priority",
    "ReplayBuffer",
    "ReplayBufferManager",
    "RolloutBatchProtocol",
    "RunningMeanStd",
    "SampleBatch",
    "Sampling",
    "SegmentTree",
    "SequenceSummaryStats",
    "TimingStats",
    "TrainingStats",
    "TrainingStatsMean",
    "TrajectoryBatch",
    "TransitionBatch",
    "VectorReplayBuffer",
    "array_like",
    "as_tensors",
    "channels_last",
    "check_finite",
    "dumps",
    "flatten",
    "for_learning",
    "from_dict",
    "from_flattened",
    "loads",
    "namedarray",
    "recursive_aggregate",
    "recursive_apply",
    "sign_hdf5",
    "size_bytes",
    "take_rows",
    "to_numpy",
    "to_torch",
    "to_torch_as",
]
