"""The fleet: the same policies and algorithms on many processes and machines.

Importing this package needs no Ray; running a fleet in threads does not either.
"""

from argosy.collect.postprocess import GAE as GAE, NStep as NStep
from argosy.distributed.curriculum import CurriculumStage as CurriculumStage
from argosy.distributed.fleet import Fleet as Fleet
from argosy.distributed.host.base import Resources as Resources, ThreadLauncher as ThreadLauncher
from argosy.distributed.host.supervisor import (
    Failure as Failure,
    FleetError as FleetError,
    RestartConfig as RestartConfig,
)
from argosy.distributed.run import FleetRun as FleetRun, Snapshot as Snapshot, test_pipeline as test_pipeline
from argosy.distributed.specs import (
    ActorGroup as ActorGroup,
    AgentSpec as AgentSpec,
    EvalGroup as EvalGroup,
    FleetStop as FleetStop,
    PolicySpec as PolicySpec,
    StalenessConfig as StalenessConfig,
)
from argosy.distributed.store.parameters import ParameterStore as ParameterStore
from argosy.distributed.workers.evaluation import EvalResult as EvalResult
