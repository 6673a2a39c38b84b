"""Trainer of several policies at once: those of the agents of one environment, in this process."""

from __future__ import annotations

import copy
import dataclasses
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self, TypeAlias

from argosy.algorithm.base import Algorithm
from argosy.collect.player import Inline, Player, play_out
from argosy.collect.recorder import Recorder, Segment, SegmentSpec
from argosy.collect.seats import Seat
from argosy.collect.source import Agents, EnvSource
from argosy.data.stats import CollectStats, EpochStats, TrainingStats, TrainingStatsMean
from argosy.data.tree import State
from argosy.errors import CheckpointError, ConfigError, nearest
from argosy.experiment import Experiment
from argosy.policy import Policy
from argosy.process import computing_threads
from argosy.rng import Rng, policy_seed, spawn_seeds
from argosy.trainer.base import TrainerState
from argosy.trainer.learning import make_learning
from argosy.trainer.players import PlayerSpec, player_spec
from argosy.trainer.statefile import or_as_before, read_state, write_state

Epoch: TypeAlias = dict[str, EpochStats[TrainingStats]]
KIND = "checkpoint of agents"


class AgentsTrainer:
    """Trains several policies that play with and against each other, each as its own experiment says.

    An iterator over epochs, as the other trainers are. It does in turn what a fleet does with one actor: every (env,
    agent) pair is a row, whose policy is asked when the agent acts, and what it lives through goes to that policy's
    algorithm. An epoch is over when every policy has got `step_per_epoch` more transitions; the run ends after
    `max_epoch`, or when the tests reach the `stop.test_return` of all experiments that have one.

        policies = {"first": preset("ppo", "game"), "second": preset("dqn", "game")}
        trainer = AgentsTrainer(policies, {"0": "first", "1": "second"})
        for epoch in trainer:
            print({name: stats.line() for name, stats in epoch.items()})

    Policies that do not learn (`PolicySpec(learns=False)`: at random, by a script, or as they were trained before) play
    with the others.

    Args:
        policies: by name, experiments of the same task, a registered `Environment`, or the `PolicySpec`s of a fleet.
            The first that learns says how many environments, which seed, and how long epochs, tests and the run are.
        agents: which agents play with which policy: regular expressions that match the whole of an agent's number ("0",
            "1", ...); the first that fits wins.
        env_args: arguments of the environment.

    Raises:
        ConfigError: the task has no agents, agents and policies do not fit together, no policy learns, or something is
            asked for that only other trainers, or fleets, do.
    """

    def __init__(
        self,
        policies: Mapping[str, Experiment | PlayerSpec],
        agents: Mapping[str, str],
        env_args: Mapping[str, object] | None = None,
    ) -> None:
        specs = {name: player_spec(name, policy) for name, policy in policies.items()}
        lead = self._lead = _lead(specs, agents)
        self._source = EnvSource.of(lead.task, env_args or {}, lead.env, map(Agents, agents))
        if self._source.registered is None:
            raise ConfigError(f"{lead.task!r} is no registered `Environment` of several agents; use argosy.train")
        self._owners = list(agents.values())  # policies, of each regular expression
        self._length = lead.trainer.length
        self._learners: dict[str, _Learner] = {}
        self.opponents: dict[str, Policy] = {}
        """The policies that only play, by name."""
        spaces, rows = self._source.spaces(), self._source.rows(lead.env.num_envs)
        for name, spec in specs.items():
            own = [i for i, owner in enumerate(self._owners) if owner == name]
            if any(spaces[i] != spaces[own[0]] for i in own):
                raise ConfigError(f"the agents of policy {name!r} differ in their spaces: {[spaces[i] for i in own]}")
            seed = policy_seed(spec.experiment.seed, name, is_first=name == next(iter(specs)))
            made_for = *spaces[own[0]], seed, spec.experiment.device
            if spec.learns:
                algorithm, producers = spec.make_algorithm(*made_for), {str(i): rows[i] for i in own}
                self._learners[name] = _Learner(spec.experiment, algorithm, producers, self._length)
            else:
                self.opponents[name] = spec.make_policy(*made_for)
        self.algorithms = {name: learner.algorithm for name, learner in self._learners.items()}
        """By the policy's name, of those that learn."""
        self._policies = {**{name: own.policy for name, own in self.algorithms.items()}, **self.opponents}
        self.epoch = 0
        """Epochs completed."""
        self._rng = Rng(spawn_seeds(lead.seed, 4)[2])
        self._begin()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Epoch:
        """Run one epoch and its test; returns by the name of each policy that learns what came of it."""
        learners, settings = self._learners.values(), self._lead.trainer
        aimed = [learner.state.stopped for learner in learners if learner.target is not None]
        if self.epoch >= settings.epochs or (aimed and all(aimed)):
            raise StopIteration
        for learner in learners:
            learner.collected, learner.updates = [], TrainingStatsMean()
        start, updated_s = time.perf_counter(), sum(learner.state.update_time for learner in learners)
        end = min((self.epoch + 1) * settings.step_per_epoch, self._length)
        with computing_threads(self._lead.threads):
            while min(learner.state.env_step for learner in learners) < end:
                self._step()
            trained_s = time.perf_counter() - start
            tested = self._test()
        self.epoch += 1
        collect_s = trained_s + updated_s - sum(learner.state.update_time for learner in learners)
        for learner in learners:
            learner.collected.append(CollectStats(collect_time=collect_s))
            learner.state.collect_time += collect_s
            learner.state.total_time += time.perf_counter() - start
        return {name: learner.end_epoch(self.epoch, tested[name]) for name, learner in self._learners.items()}

    def run(self) -> Epoch:
        """Run all epochs that are left; returns what came of the last one."""
        epochs: list[Epoch] = [{}, *self]
        return epochs[-1]

    def save(self, path: str | Path) -> None:
        """Save, between two epochs, all that is needed to go on.

        Environments cannot be saved: they are made anew, here as in the run that is resumed; both are the same run.
        """
        write_state(path, KIND, self._state())
        self.close()
        self._begin()

    def load(self, path: str | Path) -> None:
        """Go on exactly where `save` was called, with a trainer that was made as that one.

        Raises:
            CheckpointError: the file is missing, damaged or foreign, or it does not fit; nothing has changed then.
        """
        state, before = read_state(path, KIND), copy.deepcopy(self._state())
        with or_as_before(path, lambda: self._restore(before)):
            for role in ("learners", "opponents"):
                if state[role].keys() != before[role].keys():
                    raise CheckpointError(
                        f"{str(path)!r} is of the {role} {sorted(state[role])}; this trainer has {sorted(before[role])}"
                    )
            self._restore(state)
        self.close()
        self._begin()

    def _state(self) -> State:
        learners = {name: learner.state_dict() for name, learner in self._learners.items()}
        drawn = {name: policy.rng.state_dict() for name, policy in self.opponents.items()}
        return {"epoch": self.epoch, "rng": self._rng.state_dict(), "learners": learners, "opponents": drawn}

    def _restore(self, state: State) -> None:
        self.epoch = int(state["epoch"])
        self._rng.load_state_dict(state["rng"])
        for name, learner in self._learners.items():
            learner.load_state_dict(state["learners"][name])
        for name, policy in self.opponents.items():
            policy.rng.load_state_dict(state["opponents"][name])

    def close(self) -> None:
        """Close the environments."""
        self._arena.close()
        self._test_arena.close()

    def _player(self, seat: Seat, *, deterministic: bool = False) -> Player:
        policy = self._policies[self._owners[seat.spec]]
        return Player(seat, policy, Inline(policy), deterministic=deterministic)

    def _begin(self) -> None:
        """Make the environments, and what is about their episodes."""
        episodes, config, source = self._lead.trainer.episode_per_test, self._lead.env, self._source
        num_tests = min(config.test_num_envs, episodes)
        self._quota = -(-episodes // num_tests)
        self._arena = source.arena(config.num_envs, self._rng.draw_seed())
        self._test_arena = source.arena(num_tests, self._rng.draw_seed(), test=True)
        self._seats: list[tuple[Player, _Learner | None, Recorder]] = []
        for seat in self._arena.seats:
            learner = self._learners.get(self._owners[seat.spec])
            cuts = SegmentSpec(sample_steps=1 if learner is None else learner.segment_steps)
            recorder = Recorder(str(seat.spec), 0, seat.rows, cuts)
            self._seats.append((self._player(seat), learner, recorder))
        self._testers = [self._player(seat, deterministic=True) for seat in self._test_arena.seats]
        self._arena.reset()

    def _step(self) -> None:
        """Let all rows that act now do so, and learn from what that earned."""
        actions = [
            player.act_randomly(self._rng.numpy) if learner is not None and learner.warming_up else player.play()
            for player, learner, _ in self._seats
        ]
        for (player, learner, recorder), stepped in zip(self._seats, self._arena.step(actions), strict=True):
            if len(stepped.rows) and learner is not None:
                for segment in recorder.add(stepped.rows, player.complete(stepped), stepped.info):
                    learner.take(segment)

    def _test(self) -> dict[str, CollectStats]:
        """Play the test episodes, without exploration."""
        start = time.perf_counter()
        for player in self._testers:
            player.renew(player.seat)
        parts: dict[str, list[CollectStats]] = {name: [] for name in self._policies}
        for player, stats in zip(self._testers, play_out(self._test_arena, self._testers, self._quota), strict=True):
            parts[self._owners[player.seat.spec]].append(stats)
        merged = {name: CollectStats.merged(own) or CollectStats() for name, own in parts.items()}
        test_s = time.perf_counter() - start
        return {name: dataclasses.replace(stats, collect_time=test_s) for name, stats in merged.items()}


class _Learner:
    """One policy: how it learns, and how far it is."""

    def __init__(self, experiment: Experiment, algorithm: Algorithm, producers: Mapping[str, int], length: int) -> None:
        settings, self.algorithm = experiment.trainer, algorithm
        self._learning = make_learning(self.algorithm, experiment, producers)
        self.segment_steps = -(-settings.step_per_collect // sum(producers.values()))
        self._start_steps, self._length, self.target = settings.start_steps, length, experiment.stop.test_return
        self.state = TrainerState()
        self.collected: list[CollectStats] = []
        self.updates = TrainingStatsMean[TrainingStats]()
        self._schedule()

    @property
    def warming_up(self) -> bool:
        """Whether its agents still act at random."""
        return self.state.env_step < self._start_steps

    def take(self, segment: Segment) -> None:
        """Take in what some rows lived through, and make the updates that it earned."""
        self.collected.append(segment.stats())
        self.state.env_step += segment.steps
        self.state.train_episode += len(segment.episode_returns)
        self._learning.take([segment])
        while self._learning.due:
            start = time.perf_counter()
            stats = self._learning.update()
            self.state.update_time += time.perf_counter() - start
            self.updates.add(stats)
            self.state.count_update(stats)
        self._schedule()

    def end_epoch(self, epoch: int, tested: CollectStats) -> EpochStats[TrainingStats]:
        """Count a test; return what came of the epoch."""
        self.state.count_test(tested)
        self.state.epoch = epoch
        self.state.stopped = self.target is not None and tested.returns.mean() >= self.target
        return EpochStats(
            epoch=epoch,
            train_collect_stat=CollectStats.merged(self.collected),
            test_collect_stat=tested,
            training_stat=self.updates.mean(),
            info_stat=self.state.info(),
        )

    def state_dict(self) -> State:
        """Return all that changes."""
        parts = {"algorithm": self.algorithm.state_dict(), "learning": self._learning.state_dict()}
        return {**parts, "state": dataclasses.asdict(self.state)}

    def load_state_dict(self, state: State) -> None:
        """Go on where `state` was taken."""
        self.algorithm.load_state_dict(state["algorithm"])
        self._learning.load_state_dict(state["learning"])
        self.state = TrainerState(**state["state"])
        self._schedule()

    def _schedule(self) -> None:
        self.algorithm.schedule(min(self.state.env_step, self._length), self._length)


def _lead(policies: Mapping[str, PlayerSpec], agents: Mapping[str, str]) -> Experiment:
    """Check that policies and agents fit together; return the experiment that says what all share."""
    if not policies:
        raise ConfigError("there are no policies; give at least one, by name")
    for pattern, name in agents.items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"the agents {pattern!r} are no regular expression: {error}; '.*' means all") from error
        if name not in policies:
            raise ConfigError(f"the agents {pattern!r} name a policy {name!r}; {nearest(name, policies)}")
    for name in policies.keys() - agents.values():
        raise ConfigError(f"no agent plays with policy {name!r}")
    tasks = {spec.experiment.task for spec in policies.values()}
    if len(tasks) > 1:
        raise ConfigError(f"the policies' experiments play different tasks: {sorted(tasks)}; agents share one")
    learning = [spec.experiment for spec in policies.values() if spec.learns]
    if not learning:
        raise ConfigError(f"none of the policies {sorted(policies)} learns, so there is nothing to train")
    return learning[0]
