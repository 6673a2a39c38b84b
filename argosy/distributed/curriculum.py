"""Curricula: stages of an environment, one after the other, as the policies get better.

The driver keeps the stage in a file of the run's folder, where workers that are restarted and drivers that resume find
it; running workers are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.distributed.host.base import Peer, Repeated
from argosy.errors import CheckpointError, ConfigError
from argosy.files import write_atomically

if TYPE_CHECKING:
    from argosy.distributed.workers.evaluation import EvalResult


FILE = "stage"
"""Of a run's folder: the stage that it is in."""


@dataclass(frozen=True, kw_only=True)
class CurriculumStage:
    """One stage; environments change to it by `Environment.set_curriculum_stage`."""

    name: str
    """What the environment calls it."""
    return_mean: Mapping[str, float] = field(default_factory=dict)
    """Per policy, the mean return of an evaluation in this stage that leads to the next one; all must be reached.
    {}: it is the last stage."""


def check_stages(stages: Sequence[CurriculumStage]) -> None:
    """Refuse stages that do not follow one another: two have one name, one has no end, or the last one has."""
    names = [stage.name for stage in stages]
    if len(set(names)) < len(names):
        raise ConfigError(f"Fleet.curriculum has the stages {names}; each needs a name of its own")
    for stage in stages[:-1]:
        if not stage.return_mean:
            raise ConfigError(f"stage {stage.name!r} of the curriculum would never end; give it a return_mean")
    if stages and stages[-1].return_mean:
        raise ConfigError(f"stage {stages[-1].name!r} is the curriculum's last; Fleet.stop says when it ends")


def present_stage(directory: Path) -> str:
    """Return the stage that a run is in, "" without curriculum."""
    file = directory / FILE
    return file.read_text(errors="replace") if file.exists() else ""


class Curriculum:
    """The driver's view: hears evaluations, goes on to the next stage, and tells the workers.

    Args:
        stages: in order; none: nothing ever changes.
        directory: of the run; a stage that is kept there is gone on with.
        workers: those with environments. They begin in the stage that is kept when they are made.

    Raises:
        CheckpointError: the stage that is kept is none of them.
    """

    def __init__(self, stages: Sequence[CurriculumStage], directory: Path, workers: Sequence[Peer]) -> None:
        self._stages, self._directory, self._workers = list(stages), directory, list(workers)
        self._telling: list[Repeated[None]] = []  # those who may not know of the present stage
        self._reached: set[str] = set()
        names = [stage.name for stage in stages]
        kept = present_stage(directory)
        if kept not in ("", *names):
            raise CheckpointError(f"{str(directory / FILE)!r} says stage {kept!r}, which the curriculum lacks: {names}")
        self._at = names.index(kept) if kept in names else 0
        self._keep()

    @property
    def stage(self) -> str:
        """Name of the present stage, "" without curriculum."""
        return self._stages[self._at].name if self._stages else ""

    @property
    def is_last(self) -> bool:
        """Whether no stage follows."""
        return self._at >= len(self._stages) - 1

    def hear(self, result: EvalResult) -> None:
        """Take note of an evaluation, after which the next stage may begin."""
        if self.is_last or result.stage != self.stage:
            return
        wanted = self._stages[self._at].return_mean
        if result.return_mean >= wanted.get(result.policy, float("inf")):
            self._reached.add(result.policy)
        if not self._reached >= set(wanted):
            return
        self._at, self._reached = self._at + 1, set()
        self._keep()
        self._telling = [Repeated(partial(worker.call, "set_curriculum_stage", self.stage)) for worker in self._workers]

    def forget(self) -> None:
        """Forget the evaluations in the present stage; those that still count will be heard again."""
        self._reached.clear()

    def poll(self) -> None:
        """Tell the workers of a new stage, again if need be: one that is just being made has read the old one."""
        self._telling = [call for call in self._telling if call.poll() is None]

    def _keep(self) -> None:
        if self._stages:
            write_atomically(self._directory / FILE, self.stage.encode())
