"""Collecting: an env stepped with a policy, into a buffer or for evaluation."""

from argosy.collect.async_collector import AsyncCollector
from argosy.collect.collector import Collector
from argosy.collect.hooks import CollectHook, EpisodeEvent, MonteCarloReturns, StepEvent
from argosy.collect.postprocess import compute_episodic_return, compute_nstep_return
from argosy.collect.state import CollectorState
from argosy.collect.video import VideoRecorder

__all__ = [
    "AsyncCollector",
    "CollectHook",
    "Collector",
    "CollectorState",
    "EpisodeEvent",
    "MonteCarloReturns",
    "StepEvent",
    "VideoRecorder",
    "compute_episodic_return",
    "compute_nstep_return",
]
