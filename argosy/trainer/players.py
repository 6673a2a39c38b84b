"""Who plays, and who learns, in a trainer of several agents: experiments, and a fleet's descriptions of policies."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, TypeGuard

from argosy.algorithm import algorithm_class
from argosy.algorithm.base import Algorithm, Space
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.policy import Policy
from argosy.trainer.parts import make_algorithm


class PlayerSpec(Protocol):
    """What counts of a fleet's `argosy.distributed.PolicySpec` in one process; its other fields keep their defaults."""

    @property
    def experiment(self) -> Experiment:
        """Task, algorithm and settings."""

    @property
    def learns(self) -> bool:
        """False: it only plays."""

    def make_algorithm(
        self, observation_space: Space, action_space: Space, seed: int | None, device: str = "cpu"
    ) -> Algorithm:
        """Make what learns."""

    def make_policy(
        self, observation_space: Space, action_space: Space, seed: int | None, device: str = "cpu"
    ) -> Policy:
        """Make what plays."""


@dataclass(frozen=True)
class _Learns:
    """An experiment by itself."""

    experiment: Experiment
    learns: bool = True

    def make_algorithm(
        self, observation_space: Space, action_space: Space, seed: int | None, device: str = "cpu"
    ) -> Algorithm:
        return make_algorithm(self.experiment, observation_space, action_space, seed, device)

    def make_policy(
        self, observation_space: Space, action_space: Space, seed: int | None, device: str = "cpu"
    ) -> Policy:
        return self.make_algorithm(observation_space, action_space, seed, device).policy


_OBEYED = ("experiment", "learns", "policy", "args", "algorithm", "load")
_UNUSED = ("logger", "callbacks", "data", "init", "stop.episodes", "trainer.checkpoint_epochs")


def player_spec(name: str, policy: Experiment | PlayerSpec) -> PlayerSpec:
    """Return what is said of a policy.

    Raises:
        ConfigError: it asks for what a trainer in one process does not do.
    """
    spec = _Learns(policy) if isinstance(policy, Experiment) else policy
    if _is_dataclass(spec) and not isinstance(policy, Experiment):
        for field in dataclasses.fields(spec):
            value = getattr(spec, field.name)
            if field.name not in _OBEYED and value != _default(field):
                raise ConfigError(
                    f"policy {name!r} has {field.name}={value!r}, which is for the workers of a fleet; leave it out, "
                    "or run a Fleet"
                )
    if not spec.learns:
        return spec
    experiment = spec.experiment
    kind = algorithm_class(experiment.algorithm).kind
    if kind == "offline":
        raise ConfigError(f"policy {name!r}: {experiment.algorithm} learns from a data set, not from what agents play")
    plain = Experiment(task=experiment.task, algorithm=experiment.algorithm, config=experiment.config)
    for setting in _UNUSED:
        value, usual = map(attrgetter(setting), (experiment, plain))
        if value != usual:
            raise ConfigError(
                f"policy {name!r} has {setting}={value!r}, which AgentsTrainer does not do (it returns what came of "
                "each epoch, and `save` is yours to call); leave it out"
            )
    return spec


def _is_dataclass(spec: object) -> TypeGuard[Any]:
    return dataclasses.is_dataclass(spec)


def _default(field: dataclasses.Field[Any]) -> object:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
