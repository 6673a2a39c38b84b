"""Who plays, and who learns, in a trainer of several agents: experiments, and a fleet's descriptions of policies."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from argosy.algorithm.base import Algorithm, Space
from argosy.config import check_arguments
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.policy import Policy, policy_class
from argosy.process import usable_device
from argosy.rng import seeded
from argosy.trainer.parts import make_algorithm


@dataclass(frozen=True, kw_only=True)
class PlayerSpec:
    """One policy that agents play with, as its experiment says or as one's own code makes it.

    Raises:
        ConfigError: the policy is unknown, or does not take its arguments.
    """

    experiment: Experiment
    """Algorithm, its settings, network, buffer and trainer settings, as for the local trainer."""
    policy: Callable[..., Policy] | str | None = None
    """A policy class, its registered name or "MODULE:CLASS", made as policy(observation_space, action_space, **args);
    None: the algorithm's."""
    args: Mapping[str, object] = field(default_factory=dict)
    """For `policy`; checked against its signature."""
    algorithm: Callable[[Any, Any], Algorithm] | None = None
    """An algorithm class of one's own, made as algorithm(config, policy); None: the experiment's."""
    learns: bool = True
    """False: only plays, e.g. as an opponent; nothing is sent to a trainer. `policy` may then be "random", or follow a
    script (`argosy.policy.ForwardPolicy`); the experiment says task and seed."""

    def __post_init__(self) -> None:
        name = f"{type(self).__name__}.args"
        if isinstance(self.policy, str):
            # Here, where the name is known: workers in other processes get the class.
            object.__setattr__(self, "policy", policy_class(self.policy))
        if self.policy is None and self.args:
            raise ConfigError(f"{name} are {dict(self.args)}, but there is no policy that takes them")
        if callable(self.policy):
            check_arguments(self.policy, self.args, name, first=("the observation space", "the action space"))

    def make_algorithm(
        self, observation_space: Space, action_space: Space, seed: int | None, device: str = "cpu"
    ) -> Algorithm:
        """Make the algorithm and with it its policy; equal seeds give equal parameters and random numbers."""
        make_policy = functools.partial(self.policy, **self.args) if callable(self.policy) else None
        spaces = observation_space, action_space
        return make_algorithm(self.experiment, *spaces, seed, device, make_policy, self.algorithm)

    def make_policy(
        self, observation_space: Space, action_space: Space, seed: int | None, device: str = "cpu"
    ) -> Policy:
        """Make the policy to act with, in the same way; one that only plays as it is to play."""
        make = self.policy
        if self.learns or not callable(make):
            return self.make_algorithm(observation_space, action_space, seed, device).policy
        with seeded(seed or 0):
            policy = make(observation_space, action_space, **self.args).to(usable_device(device))
        policy.seed(seed)
        return policy


_OBEYED = {*(field.name for field in dataclasses.fields(PlayerSpec)), "load"}
_UNUSED = (
    "logger", "callbacks", "init", "stop.episodes", "env.norm_rew", "env.vector", "env.envs_per_worker", "env.wait_num",
    "env.background", "trainer.checkpoint_epochs", "trainer.keep_checkpoints", "trainer.standstill_s",
)  # fmt: skip


def player_spec(name: str, policy: Experiment | PlayerSpec) -> PlayerSpec:
    """Return what is said of a policy.

    Raises:
        ConfigError: it asks for what a trainer in one process does not do.
    """
    spec = PlayerSpec(experiment=policy) if isinstance(policy, Experiment) else policy
    for one in dataclasses.fields(spec):
        value = getattr(spec, one.name)
        if one.name not in _OBEYED and value != _default(one):
            raise ConfigError(
                f"policy {name!r} has {one.name}={value!r}, which is for the workers of a fleet; leave it out, or run "
                "a Fleet"
            )
    if not spec.learns:
        return spec
    experiment = spec.experiment
    if experiment.beside is not None:
        raise ConfigError(
            f"policy {name!r}: {experiment.algorithm} learns from {experiment.beside}, not from what agents play"
        )
    plain = Experiment(task=experiment.task, algorithm=experiment.algorithm, config=experiment.config)
    for setting in _UNUSED:
        value, usual = map(attrgetter(setting), (experiment, plain))
        if value != usual:
            raise ConfigError(
                f"policy {name!r} has {setting}={value!r}, which AgentsTrainer does not do (it returns what came of "
                "each epoch, and `save` is yours to call); leave it out"
            )
    return spec


def _default(one: dataclasses.Field[Any]) -> object:
    return one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
