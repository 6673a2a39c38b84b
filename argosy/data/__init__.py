"""Batches, named arrays, buffers, statistics."""

from argosy.data.batch import Batch as Batch
from argosy.data.buffer.hindsight import Hindsight as Hindsight
from argosy.data.buffer.priority import Priority as Priority, SegmentTree as SegmentTree
from argosy.data.buffer.replay import ReplayBuffer as ReplayBuffer, Sampling as Sampling
from argosy.data.buffer.vector import (
    CachedReplayBuffer as CachedReplayBuffer,
    HERReplayBuffer as HERReplayBuffer,
    HERReplayBufferManager as HERReplayBufferManager,
    HERVectorReplayBuffer as HERVectorReplayBuffer,
    PrioritizedReplayBuffer as PrioritizedReplayBuffer,
    PrioritizedReplayBufferManager as PrioritizedReplayBufferManager,
    PrioritizedVectorReplayBuffer as PrioritizedVectorReplayBuffer,
    ReplayBufferManager as ReplayBufferManager,
    VectorReplayBuffer as VectorReplayBuffer,
)
from argosy.data.finite import check_finite as check_finite
from argosy.data.hdf5 import sign_hdf5 as sign_hdf5
from argosy.data.namedarray import (
    NamedArray as NamedArray,
    array_like as array_like,
    flatten as flatten,
    from_dict as from_dict,
    from_flattened as from_flattened,
    namedarray as namedarray,
    recursive_aggregate as recursive_aggregate,
    recursive_apply as recursive_apply,
)
from argosy.data.protocols import (
    ActionBatchProtocol as ActionBatchProtocol,
    BatchProtocol as BatchProtocol,
    ObsBatchProtocol as ObsBatchProtocol,
    RolloutBatchProtocol as RolloutBatchProtocol,
    SampleBatch as SampleBatch,
    TrajectoryBatch as TrajectoryBatch,
    TransitionBatch as TransitionBatch,
)
from argosy.data.running import MovAvg as MovAvg, RunningMeanStd as RunningMeanStd
from argosy.data.stats import (
    CollectStats as CollectStats,
    EpochStats as EpochStats,
    InfoStats as InfoStats,
    SequenceSummaryStats as SequenceSummaryStats,
    TimingStats as TimingStats,
    TrainingStats as TrainingStats,
    TrainingStatsMean as TrainingStatsMean,
)
from argosy.data.tensors import (
    as_tensors as as_tensors,
    channels_last as channels_last,
    take_rows as take_rows,
    to_numpy as to_numpy,
    to_torch as to_torch,
    to_torch_as as to_torch_as,
)
from argosy.data.tree import size_bytes as size_bytes
from argosy.data.wire import dumps as dumps, loads as loads
