"""Collecting: an env stepped with a policy, into a buffer or for evaluation."""

from argosy.collect.async_collector import AsyncCollector as AsyncCollector
from argosy.collect.collector import Collector as Collector
from argosy.collect.hooks import (
    CollectHook as CollectHook,
    EpisodeEvent as EpisodeEvent,
    MonteCarloReturns as MonteCarloReturns,
    StepEvent as StepEvent,
)
from argosy.collect.postprocess import (
    compute_episodic_return as compute_episodic_return,
    compute_nstep_return as compute_nstep_return,
)
from argosy.collect.state import CollectorState as CollectorState
from argosy.collect.video import VideoRecorder as VideoRecorder
