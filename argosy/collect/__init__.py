"""Collecting: an env stepped with a policy, into a buffer or for evaluation."""

from argosy.collect.collector import Collector, CollectorState
from argosy.collect.hooks import CollectHook, EpisodeEvent, MonteCarloReturns, StepEvent

__all__ = ["CollectHook", "Collector", "CollectorState", "EpisodeEvent", "MonteCarloReturns", "StepEvent"]
