"""The fleet: the same policies and algorithms on many processes and machines.

Importing this package needs no Ray; running a fleet in threads does not either.
"""

from argosy.collect.postprocess import GAE, NStep
from argosy.distributed.curriculum import CurriculumStage
from argosy.distributed.fleet import Fleet
from argosy.distributed.host.base import Resources, ThreadLauncher
from argosy.distributed.host.supervisor import Failure, FleetError, RestartConfig
from argosy.distributed.pipeline import test_pipeline
from argosy.distributed.run import FleetRun
from argosy.distributed.snapshot import Snapshot
from argosy.distributed.specs import (
    ActorGroup,
    AgentSpec,
    EvalGroup,
    FleetStop,
    PolicySpec,
    StalenessConfig,
)
from argosy.distributed.store.parameters import ParameterStore
from argosy.distributed.workers.evaluation import EvalResult

__all__ = [
    "GAE",
    "ActorGroup",
    "AgentSpec",
    "CurriculumStage",
    "EvalGroup",
    "EvalResult",
    "Failure",
    "Fleet",
    "FleetError",
    "FleetRun",
    "FleetStop",
    "NStep",
    "ParameterStore",
    "PolicySpec",
    "Resources",
    "RestartConfig",
    "Snapshot",
    "StalenessConfig",
    "ThreadLauncher",
    "test_pipeline",
]
