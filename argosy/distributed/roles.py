"""From the description of a fleet to its workers: names, and functions that build each worker where it runs."""

from __future__ import annotations

import functools
import math
import threading
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from argosy.algorithm.base import Algorithm
from argosy.collect.player import InferenceStream, Inline, Player
from argosy.collect.recorder import Recorder
from argosy.collect.seats import Arena, Seat
from argosy.collect.source import EnvSource
from argosy.distributed.curriculum import present_stage
from argosy.distributed.fleet import Fleet
from argosy.distributed.folder import saved_counters
from argosy.distributed.host.base import Context, Resources, Worker
from argosy.distributed.host.supervisor import Role
from argosy.distributed.specs import AgentSpec, PolicySpec
from argosy.distributed.store.parameters import ParameterStore
from argosy.distributed.store.server import ParameterServer
from argosy.distributed.streams.inference import ParameterReader, Remote
from argosy.distributed.streams.samples import Outbox
from argosy.distributed.streams.shared_memory import Shared
from argosy.distributed.workers.actor import ActorWorker, Group, Seated
from argosy.distributed.workers.evaluation import EvalWorker
from argosy.distributed.workers.group import TrainerGroup
from argosy.distributed.workers.serving import BufferWorker, PolicyWorker
from argosy.distributed.workers.trainer import TrainerWorker
from argosy.env.spaces import Space
from argosy.errors import CheckpointError, ConfigError
from argosy.policy import Policy
from argosy.process import num_cores
from argosy.rng import Rng, policy_seed, spawn_seeds
from argosy.run.warm import warm_start
from argosy.trainer.blob import encode
from argosy.trainer.learning import Learning, make_learning

STORE = "parameters"
_FALLING = ("lr_schedule", "linear")
_MAKING = threading.Lock()  # layers draw their first values from torch's global generator; workers may be threads


@dataclass(frozen=True)
class Plan:
    """A fleet, checked against its environment, and all that the workers' builders need."""

    fleet: Fleet
    directory: Path
    source: EnvSource
    spaces: tuple[tuple[Space, Space], ...]
    """Of each agent spec."""
    rows: tuple[int, ...]
    """Of each agent spec in one group of environments."""

    @classmethod
    def make(cls, fleet: Fleet, directory: Path) -> Plan:
        """Look into the environment.

        Raises:
            ConfigError: agents and specs do not fit together.
            CheckpointError: a policy that is to be loaded or begun with is not there, or does not fit.
        """
        source = fleet.source()
        spaces = source.spaces()
        for name in fleet.policies:
            own = {i for i, agent in enumerate(fleet.agents) if name in (agent.policy, *fleet.samples(agent))}
            if any(spaces[i] != spaces[min(own)] for i in own):
                shown = {fleet.agents[i].agents: spaces[i] for i in sorted(own)}
                raise ConfigError(f"the agents of policy {name!r} differ in their spaces, by spec: {shown}")
        plan = cls(fleet, directory, source, tuple(spaces), tuple(source.rows(fleet.num_envs)))
        for name, spec in fleet.policies.items():
            if spec.load is not None:
                plan.policy(name, Resources())
            if spec.experiment.init is not None:
                _begun(plan, name, 0, "cpu")
            rates = [key for key, value in spec.experiment.settings().items() if (key[-11:], value) == _FALLING]
            if spec.learns and rates and fleet.ends.env_steps is fleet.ends.wall_s is None:
                warnings.warn(
                    f"{rates[0]} of policy {name!r} lets the rate fall to 0 within trainer.length="
                    f"{spec.experiment.trainer.length} steps, and nothing is learned after them; say by stop.env_steps "
                    "how long the fleet may run, or make the rate constant",
                    stacklevel=3,
                )
        return plan

    def check_kept(self) -> None:
        """Refuse other policies than those that are learned in this folder, whose description would be replaced.

        Raises:
            CheckpointError: names the policy.
        """
        store = ParameterStore(self.directory / "parameters")
        for name, spec in self.fleet.policies.items():
            if spec.learns and store.newest(name) is not None:
                try:
                    self.policy(name, Resources()).load_checkpoint(store.get(name))
                except CheckpointError as error:
                    raise CheckpointError(
                        f"policy {name!r} does not fit what was learned in {str(self.directory)!r}; resume with the "
                        f"task, algorithm and networks of before, or give the fleet another name. {error}"
                    ) from error

    def roles(self) -> list[Role]:
        """Return all workers; those that others wait for come first."""
        roles = [Role(STORE, functools.partial(_parameters, self), Resources(num_cpus=0.0))]
        for kind, policy, count, resources in self.fleet.workers:
            of = (policy,) if policy else ()
            experiment = self.fleet.policies[policy].experiment if policy else self.fleet.experiment
            group = f"trainer.{policy}" if kind == "trainer" and count > 1 else ""
            for index in range(count):
                build = functools.partial(_threaded, experiment.threads, _BUILDERS[kind], self, *of, index)
                roles.append(Role(worker_name(kind, *of, index), build, resources, group))
        return roles

    def producers(self, policy: str) -> dict[str, int]:
        """Return who sends segments to a policy's trainers, with the number of their rows."""
        fleet = self.fleet
        return {
            worker_name("actor", actor, group, index): self.rows[index]
            for actor in range(fleet.actors.count)
            for group in range(fleet.actors.ring)
            for index, agent in enumerate(fleet.agents)
            if policy in fleet.samples(agent) and self.rows[index]
        }

    def algorithm(self, policy: str, device: str = "cpu") -> Algorithm:
        """Make the algorithm of a policy, with the random numbers that the local trainer gives it."""
        with _MAKING:
            return self.fleet.policies[policy].make_algorithm(*self._what_it_plays(policy), device)

    def policy(self, name: str, resources: Resources) -> Policy:
        """Make a policy for a worker that acts: on a GPU if the worker was given (a share of) one."""
        with _MAKING:
            device = "cuda" if resources.num_gpus > 0 else "cpu"
            return self.fleet.policies[name].make_policy(*self._what_it_plays(name), device)

    def _what_it_plays(self, policy: str) -> tuple[Space, Space, int]:
        """Return a policy's spaces and its seed."""
        own, is_first = self.fleet.policies[policy].experiment.seed, policy == next(iter(self.fleet.policies))
        return *self.spaces_of(policy), policy_seed(own, policy, is_first=is_first)

    def spaces_of(self, policy: str) -> tuple[Space, Space]:
        """Return the observation and the action space of a policy."""
        return self.spaces[next(i for i, agent in enumerate(self.fleet.agents) if agent.policy == policy)]


def worker_name(kind: str, *of: object) -> str:
    """Return the name of a worker, or of a seat that sends segments: "trainer.ppo.0", "actor.0" and "actor.0.1.0"."""
    return ".".join(map(str, (kind, *of)))


def _threaded(threads: int, build: Callable[..., Worker], *args: object) -> Worker:
    """Build a worker that computes with so many threads; 0: torch's own choice."""
    if threads:
        torch.set_num_threads(threads)
    return build(*args)


def _parameters(plan: Plan, context: Context) -> Worker:
    """Policies that only play are published here, once: like all others, they act when they have been."""
    server = ParameterServer(context, plan.directory / "parameters")
    for name, spec in plan.fleet.policies.items():
        if not spec.learns:
            checkpoint = plan.policy(name, Resources()).get_checkpoint()
            server.push(name, encode(checkpoint), checkpoint["version"])
    return server


def _trainer(plan: Plan, policy: str, rank: int, context: Context) -> Worker:
    fleet = plan.fleet
    spec = fleet.policies[policy]
    algorithm = _begun(plan, policy, rank, spec.experiment.device)
    group = None
    if spec.trainers > 1:
        leader = context.connect(worker_name("trainer", policy, 0))
        group = TrainerGroup(rank, spec.trainers, leader, algorithm.device, context.address)
    return TrainerWorker(
        policy,
        spec,
        algorithm,
        _learning(plan, policy, algorithm),
        context.connect(STORE),
        _state_file(plan, policy, rank),
        list(plan.producers(policy)),
        length=fleet.ends.env_steps,
        capacity=_capacity(plan, policy, algorithm),
        sync=fleet.sync,
        incarnation=context.incarnation,
        group=group,
    )


def _begun(plan: Plan, policy: str, rank: int, device: str) -> Algorithm:
    """Make the algorithm of a trainer, which begins as its experiment says, unless there is a state to go on with."""
    algorithm, init = plan.algorithm(policy, device), plan.fleet.policies[policy].experiment.init
    if init is not None and not _state_file(plan, policy, rank).exists():
        warm_start(algorithm, init)
    return algorithm


def _state_file(plan: Plan, policy: str, rank: int) -> Path:
    return plan.directory / f"{worker_name('trainer', policy, rank)}.safetensors"


def _learning(plan: Plan, policy: str, algorithm: Algorithm) -> Learning:
    sync, spec = plan.fleet.sync, plan.fleet.policies[policy]
    plan.source.register_names()  # a buffer with hindsight asks an env for rewards
    prefetch = algorithm.device.type != "cpu" if spec.prefetch is None else spec.prefetch
    return make_learning(
        algorithm,
        spec.experiment,
        plan.producers(policy),
        sync=sync,
        save_buffer=spec.save_buffer,
        prefetch=prefetch and not sync,
        trainers=spec.trainers,
    )


def _capacity(plan: Plan, policy: str, algorithm: Algorithm) -> int:
    """Return how many segments may wait for a trainer."""
    fleet, spec, producers = plan.fleet, plan.fleet.policies[policy], plan.producers(policy)
    if fleet.sync:
        return len(producers)
    onpolicy = algorithm.kind == "onpolicy"
    if spec.staleness.rule == "throttle":
        steps = min(agent.sample_steps for agent in fleet.agents if policy in fleet.samples(agent))
        rollout = spec.experiment.trainer.step_per_collect
        per_batch = max(1, rollout // (steps * max(producers.values()))) if onpolicy else 1
        return max(0 if onpolicy else 1, spec.staleness.max_lag * per_batch)
    return 0 if onpolicy and not spec.corrects else 2 * len(producers)  # 0: see `PolicySpec.waits`


def _policy_worker(plan: Plan, policy: str, index: int, context: Context) -> Worker:
    resources = plan.fleet.policies[policy].worker_resources
    seed = _derived_seed(plan.fleet, f"{policy} in policy", index, context)
    return PolicyWorker(_reader(plan, policy, resources, seed, context))


def _buffer_worker(plan: Plan, policy: str, index: int, context: Context) -> Worker:
    spec = plan.fleet.policies[policy]
    assert spec.process is not None
    seed = _derived_seed(plan.fleet, f"{policy} in buffer", index, context)
    reader = _reader(plan, policy, spec.buffer_resources, seed, context)
    trainer = context.connect(worker_name("trainer", policy, index % spec.trainers))
    return BufferWorker(reader, spec.process, trainer)


def _reader(plan: Plan, policy: str, resources: Resources, seed: int | None, context: Context) -> ParameterReader:
    """Make a policy for a worker, and what keeps it up to date; None: with the local trainer's random numbers."""
    own = plan.policy(policy, resources)
    if seed is not None:
        own.seed(seed)
    return ParameterReader(context.connect(STORE), policy, own)


def _actor(plan: Plan, index: int, context: Context) -> Worker:
    fleet = plan.fleet
    is_first = index == 0 and context.incarnation == 0
    readers = {}
    for name in sorted({agent.policy for agent in fleet.agents}):
        seed = None if is_first else _derived_seed(fleet, f"{name} in actor", index, context)
        readers[name] = _reader(plan, name, fleet.actors.resources, seed, context)

    def seated(group: int, arena: Arena) -> list[Seated]:
        return [_seated(plan, index, group, seat, readers, context) for seat in arena.seats]

    senders = [len(plan.producers(name)) for name in fleet.policies]
    groups = []
    for number in range(fleet.actors.ring):
        seed = spawn_seeds(fleet.experiment.seed, 4)[2]
        if not is_first or number > 0:
            seed = _derived_seed(fleet, f"group {number} of actor", index, context)
        make_arena = functools.partial(plan.source.arena, fleet.num_envs)
        groups.append(Group(make_arena, functools.partial(seated, number), Rng(seed)))
    return ActorWorker(
        groups,
        [readers[name] for name in sorted({agent.policy for agent in fleet.agents if agent.inference == "inline"})],
        sync=fleet.sync,
        in_step=fleet.sync and max(senders) > 1 and sum(senders) > fleet.actors.count,
        env_failures=fleet.actors.env_failures,
        stage=present_stage(plan.directory),
    )


def _seated(
    plan: Plan, actor: int, group: int, seat: Seat, readers: Mapping[str, ParameterReader], context: Context
) -> Seated:
    fleet, agent = plan.fleet, plan.fleet.agents[seat.spec]
    reader, sender = readers[agent.policy], actor * fleet.actors.ring + group
    stream = _inference(fleet, agent, reader.policy, sender, context)
    process = agent.postprocess
    recorder = Recorder(
        worker_name("actor", actor, group, seat.spec),
        context.incarnation,
        seat.rows,
        agent,
        None if process is None else lambda fields: process(fields, reader.policy),
    )
    random_steps = 0
    if fleet.policies[agent.policy].learns and fleet.samples(agent):
        in_a_round = agent.sample_steps * max(1, sum(plan.producers(agent.policy).values()))
        rounds = -(-_steps_to_start(plan, agent.policy) // in_a_round)  # whole ones, as local runs do
        random_steps = rounds * agent.sample_steps * seat.rows
    return Seated(
        Player(seat, reader.policy, stream, deterministic=agent.deterministic),
        recorder,
        _outbox(fleet, agent, sender, context),
        reader if agent.inference == "inline" else None,
        random_steps,
        throttled=any(fleet.policies[name].waits for name in fleet.samples(agent)),
    )


def _steps_to_start(plan: Plan, policy: str) -> int:
    """Return how many steps a policy's trainers still wait for before they learn, by what they have saved."""
    spec = plan.fleet.policies[policy]
    steps = spec.experiment.trainer.start_steps
    for rank in range(spec.trainers):
        saved = saved_counters(_state_file(plan, policy, rank))
        if saved.get("updates"):
            return 0
        steps -= saved.get("env_steps", 0) if spec.save_buffer else 0
    return max(0, steps)


def _evaluation(plan: Plan, index: int, context: Context) -> Worker:
    fleet, group = plan.fleet, plan.fleet.evaluation
    own = {agent.policy for agent in fleet.agents}
    readers = {name: _reader(plan, name, fleet.evaluation.resources, None, context) for name in own}

    def seat(arena: Arena) -> list[Player]:
        seated = [(seat, readers[fleet.agents[seat.spec].policy].policy) for seat in arena.seats]
        return [Player(seat, policy, Inline(policy), deterministic=True) for seat, policy in seated]

    make_arena = functools.partial(plan.source.arena, fleet.eval_envs, test=True)
    rng = Rng(_derived_seed(fleet, "evaluation", index, context))
    return EvalWorker(
        context,
        Group(make_arena, seat, rng),
        readers,
        context.connect(STORE),
        num_envs=fleet.eval_envs,
        episodes=fleet.eval_episodes,
        cores=math.inf if group.share == 1.0 else group.share * num_cores() / group.count,
        targets=fleet.targets,
        env_failures=fleet.evaluation.env_failures,
        stage=present_stage(plan.directory),
    )


_BUILDERS: Mapping[str, Callable[..., Worker]] = {
    "trainer": _trainer,
    "buffer": _buffer_worker,
    "policy": _policy_worker,
    "actor": _actor,
    "eval": _evaluation,
}


def _inference(fleet: Fleet, agent: AgentSpec, policy: Policy, rank: int, context: Context) -> InferenceStream:
    if agent.inference == "inline":
        return Inline(policy)
    count = fleet.policies[agent.policy].workers
    peers = [context.connect(worker_name("policy", agent.policy, i)) for i in range(count)]
    return Shared(peers, rank) if agent.inference == "shared" else Remote(peers, rank)


def _outbox(fleet: Fleet, agent: AgentSpec, sender: int, context: Context) -> Outbox | None:
    """Connect to the trainers of each policy that gets this spec's experience."""
    receivers = []
    for name in fleet.samples(agent):
        ranks = range(fleet.policies[name].trainers)
        own = [context.connect(_receiver_name(name, fleet.policies[name], rank, sender)) for rank in ranks]
        first = sender % len(own)
        receivers.append(own[first:] + own[:first])
    return Outbox(receivers) if receivers else None


def _receiver_name(policy: str, spec: PolicySpec, rank: int, sender: int) -> str:
    """Return who takes a sender's segments for a trainer: itself, or always the same one of its buffer workers.

    Only so do a producer's segments reach a trainer in order.
    """
    own = range(rank, spec.buffers, spec.trainers)
    return worker_name("buffer", policy, own[sender % len(own)]) if own else worker_name("trainer", policy, rank)


def _derived_seed(fleet: Fleet, what: str, index: int, context: Context) -> int:
    """Return a seed that differs for every worker and each of its incarnations, and is the same in every run."""
    entropy = [fleet.experiment.seed, zlib.crc32(what.encode()), index, context.incarnation]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0]) & 0x7FFFFFFF
