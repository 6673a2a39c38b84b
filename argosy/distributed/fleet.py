"""The description of a fleet: what is played, by which policies, learned how, by how many workers, until when.

It is made of the same `Experiment`s that the local trainer runs: a fleet adds who plays with which policy and what runs
where. A plain frozen dataclass; everything is checked before anything starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import NamedTuple

from argosy.collect.postprocess import GAE, NStep
from argosy.collect.source import Agents, EnvSource
from argosy.distributed.curriculum import CurriculumStage, check_stages
from argosy.distributed.host.base import Resources
from argosy.distributed.host.supervisor import RestartConfig
from argosy.distributed.specs import ActorGroup, AgentSpec, EvalGroup, FleetStop, PolicySpec
from argosy.env import EnvConfig
from argosy.errors import ConfigError, nearest
from argosy.experiment import Experiment


class Workers(NamedTuple):
    """Workers that differ in their number only."""

    kind: str
    policy: str
    """The one that they are for; "": all."""
    number: int
    resources: Resources


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Everything that says what a fleet does.

    Raises:
        ConfigError: something is out of range or contradicts something else: an agent without spec, a policy that
            nobody plays, experience that nobody takes.
    """

    name: str
    """Of the run's folder, and how `argosy fleet status` finds it."""
    policies: Mapping[str, PolicySpec]
    """By name. The first one's experiment says task, environment settings, seed and loggers."""
    stop: FleetStop | None = None
    """When it has done its work; None: when it is as long as the first policy's experiment says. The returns that
    experiments name (`stop.test_return`, confirmed by `stop.episodes`) end it, too, unless nothing is evaluated."""
    agents: tuple[AgentSpec, ...] = ()
    """Who plays with what; (): all agents with the only policy."""
    env_args: Mapping[str, object] = field(default_factory=dict)
    """Arguments of an environment that was registered, or is named as "MODULE:CLASS"."""
    actors: ActorGroup = field(default_factory=ActorGroup)
    evaluation: EvalGroup = field(default_factory=EvalGroup)
    curriculum: tuple[CurriculumStage, ...] = ()
    """Stages of a registered `Environment`, in order; (): it has none."""
    sync: bool = False
    """Collect and learn in turn: the same losses as the local trainer's, however the workers run."""
    restart: RestartConfig = field(default_factory=RestartConfig)

    def __post_init__(self) -> None:
        for what, named in (("Fleet.name", self.name), *(("a name in Fleet.policies", name) for name in self.policies)):
            if not (isinstance(named, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", named)):
                raise ConfigError(f"{what} is {named!r}; it must be made of letters, digits, '.', '_' and '-'")
        if not self.policies:
            raise ConfigError("Fleet.policies is empty; a fleet needs at least one policy")
        for name, spec in self.policies.items():
            if not isinstance(spec, PolicySpec):
                raise ConfigError(
                    f"Fleet.policies[{name!r}] is of the type {type(spec).__name__}; make it "
                    "PolicySpec(experiment=preset(ALGORITHM, TASK))"
                )
        if not self.agents:
            if len(self.policies) > 1:
                raise ConfigError("Fleet.agents is empty, but there are several policies; say which agent plays which")
            object.__setattr__(self, "agents", (AgentSpec(policy=next(iter(self.policies))),))
        self._check_streams()
        self._check_sync()
        tasks = {spec.experiment.task for spec in self.policies.values()}
        if len(tasks) > 1:
            raise ConfigError(f"the policies' experiments play different tasks: {sorted(tasks)}; a fleet plays one")
        self._check_returns()
        self._check_obeyed()

    @property
    def experiment(self) -> Experiment:
        """The one that says task, environment and seed."""
        return next(iter(self.policies.values())).experiment

    @property
    def ends(self) -> FleetStop:
        """When it has done its work."""
        return self.stop or FleetStop(env_steps=self.experiment.trainer.length)

    @property
    def targets(self) -> dict[str, tuple[float, int]]:
        """By policy, the return that its experiment asks for, and how many episodes must confirm it."""
        stops = {name: spec.experiment.stop for name, spec in self.policies.items() if spec.learns}
        if self.evaluation.count == 0:
            return {}
        own = self.ends.return_mean
        return {n: (s.test_return, s.episodes) for n, s in stops.items() if s.test_return is not None and n not in own}

    @property
    def wanted(self) -> dict[str, tuple[float, int]]:
        """By policy, the return that ends the fleet, and in how many episodes at least; all must be reached."""
        return self.targets | {name: (value, 1) for name, value in self.ends.return_mean.items()}

    def is_reached(self, policy: str, return_mean: float, episodes: int) -> bool:
        """Whether an evaluation is good and long enough to end the fleet, as far as this policy goes."""
        value, least = self.wanted.get(policy, (float("inf"), 1))
        return return_mean >= value and episodes >= least

    @property
    def eval_episodes(self) -> int:
        """Episodes per evaluation."""
        return self.evaluation.episodes or self.experiment.trainer.episode_per_test

    @property
    def eval_envs(self) -> int:
        """Environments per evaluation worker."""
        return self.evaluation.num_envs or min(self.experiment.env.test_num_envs, self.eval_episodes)

    @property
    def num_envs(self) -> int:
        """Environments per group of an actor worker's ring."""
        return self.actors.num_envs or self.experiment.env.num_envs

    @property
    def workers(self) -> list[Workers]:
        """All but the parameter server; those that others wait for come first."""
        found = []
        for name, spec in self.policies.items():
            if spec.learns:
                found.append(Workers("trainer", name, spec.trainers, spec.trainer_resources))
                found.append(Workers("buffer", name, spec.buffers, spec.buffer_resources))
            found.append(Workers("policy", name, spec.workers, spec.worker_resources))
        found.append(Workers("actor", "", self.actors.count, self.actors.resources))
        return [*found, Workers("eval", "", self.evaluation.count, self.evaluation.resources)]

    def num_cpus(self) -> float:
        """Return how many CPUs all workers ask for."""
        return sum(workers.number * workers.resources.num_cpus for workers in self.workers)

    def samples(self, agent: AgentSpec) -> tuple[str, ...]:
        """Return the policies whose trainers get this spec's experience."""
        if agent.samples is not None:
            return agent.samples
        return (agent.policy,) if self.policies[agent.policy].learns else ()

    def source(self) -> EnvSource:
        """Return what makes the environments, also in other processes."""
        agents = [Agents(spec.agents, spec.frame_stack) for spec in self.agents]
        return EnvSource.of(self.experiment.task, self.env_args, self.experiment.env, agents)

    def _check_streams(self) -> None:
        played = {agent.policy for agent in self.agents}
        fed: set[str] = set()
        for agent in self.agents:
            for name in (agent.policy, *(agent.samples or ())):
                if name not in self.policies:
                    raise ConfigError(
                        f"the agents {agent.agents!r} name a policy {name!r}; {nearest(name, self.policies)}"
                    )
            for name in self.samples(agent):
                if not self.policies[name].learns:
                    raise ConfigError(
                        f"the agents {agent.agents!r} send experience to {name!r}, which does not learn and takes none"
                    )
                n_step = isinstance(agent.postprocess, NStep) or isinstance(self.policies[name].process, NStep)
                if n_step and self.policies[name].kind == "offpolicy":
                    raise ConfigError(
                        f"the agents {agent.agents!r} send {name!r} n-step transitions, but a replay buffer makes them "
                        "itself; set n_step in the algorithm's config instead"
                    )
                made = [one for one in (agent.postprocess, self.policies[name].process) if isinstance(one, GAE | NStep)]
                learner = self.policies[name].learner
                if made and learner.__module__.startswith("argosy.algorithm."):
                    raise ConfigError(
                        f"the agents {agent.agents!r} send {name!r} what {type(made[0]).__name__} makes, but "
                        f"{learner.__name__} makes its returns and advantages itself; it is for algorithms of your own"
                    )
                if name != agent.policy and self.policies[name].staleness.rule == "drop":
                    raise ConfigError(
                        f"the agents {agent.agents!r} act by {agent.policy!r} and send {name!r} experience; its age is "
                        "that of another policy, and the rule 'drop' cannot judge it; choose another staleness"
                    )
                fed.add(name)
            if agent.inference != "inline" and self.policies[agent.policy].workers < 1:
                raise ConfigError(
                    f"the agents {agent.agents!r} ask policy workers ({agent.inference}), but {agent.policy!r} has "
                    "workers=0; give it some, or use inference='inline'"
                )
        for name, spec in self.policies.items():
            if name not in played:
                raise ConfigError(f"no agent plays with policy {name!r}")
            if spec.learns and name not in fed:
                raise ConfigError(f"policy {name!r} learns, but no agent sends it experience; set learns=False")

    def _check_returns(self) -> None:
        check_stages(self.curriculum)
        counted = [name for name in ("env_steps", "updates") if getattr(self.ends, name) is not None]
        if counted and not any(spec.learns for spec in self.policies.values()):
            raise ConfigError(
                f"stop.{counted[0]} is of those that learn, but no policy learns; use return_mean or wall_s"
            )
        wanted: list[tuple[str, Mapping[str, object]]] = [("stop", self.ends.return_mean)]
        wanted += [(f"stage {stage.name!r}", stage.return_mean) for stage in self.curriculum]
        for where, returns in wanted:
            for name, value in returns.items():
                if name not in self.policies:
                    raise ConfigError(f"{where}.return_mean names {name!r}; {nearest(name, self.policies)}")
                if not isinstance(value, Real) or value != value:
                    raise ConfigError(f"{where}.return_mean of {name!r} is {value!r}; it must be a number")
            if returns and self.evaluation.count == 0:
                raise ConfigError(f"{where}.return_mean waits for evaluations, but evaluation.count is 0")

    def _check_obeyed(self) -> None:
        """Refuse what only registered environments know for others, and the reverse."""
        by_name = self.source().registered is not None
        if self.env_args and not by_name:
            raise ConfigError(
                f"env_args are {dict(self.env_args)}, but {self.experiment.task!r} is no registered environment; "
                "`env` of the experiment has the settings of others"
            )
        if self.curriculum and not by_name:
            raise ConfigError(f"{self.experiment.task!r} is no `Environment`, so it has no stages of a curriculum")
        usual = EnvConfig()
        for setting in ("vector", "envs_per_worker", "hang_timeout_s"):
            value = getattr(self.experiment.env, setting)
            if by_name and value != getattr(usual, setting):
                raise ConfigError(
                    f"env.{setting} is {value!r}, but the actor workers themselves step {self.experiment.task!r}, a "
                    "registered environment; leave it out, and use more workers (ActorGroup.count)"
                )

    def _check_sync(self) -> None:
        if not self.sync:
            return
        if any(agent.inference != "inline" for agent in self.agents):
            raise ConfigError("sync=True needs inference='inline': who else would know which version acts")
        if any(spec.trainers > 1 for spec in self.policies.values()):
            raise ConfigError("sync=True needs trainers=1")
        for agent in self.agents:
            if set(self.samples(agent)) - {agent.policy}:
                raise ConfigError(
                    f"sync=True lets the agents {agent.agents!r} wait until {agent.policy!r} has learned from what "
                    f"they did, but they send it to {', '.join(self.samples(agent))}; leave out samples, or sync"
                )
        if any(spec.buffers > 0 for spec in self.policies.values()):
            raise ConfigError("sync=True needs buffers=0: the local trainer has nothing like them")
        for name in self.policies:
            lengths = {(a.sample_steps, a.bootstrap_steps) for a in self.agents if name in self.samples(a)}
            if len(lengths) > 1:
                raise ConfigError(
                    f"sync=True lets {name!r} learn when all its agents have sent a segment, and each waits for that; "
                    f"but theirs end at different steps: (sample_steps, bootstrap_steps) are {sorted(lengths)}. Make "
                    "them equal, or leave out sync"
                )
        if any(agent.whole_episodes or agent.send_after_done for agent in self.agents):
            raise ConfigError("sync=True needs segments of equal length; whole_episodes and send_after_done have none")
