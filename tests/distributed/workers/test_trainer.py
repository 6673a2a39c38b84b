import itertools
import json
import time
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from argosy.algorithm import DQN, PPO, Task
from argosy.collect.recorder import Segment
from argosy.data import NamedArray
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec
from argosy.distributed.host.base import PeerLostError, Progress
from argosy.distributed.workers.trainer import KIND, TrainerWorker
from argosy.env import Environment, StepResult, register, registered_environments
from argosy.errors import ConfigError
from argosy.logger.jsonl import read_jsonl
from argosy.presets import preset
from argosy.trainer.learning import OnpolicyLearning, make_learning
from argosy.trainer.statefile import read_state

ROLLOUT = 64
SAVE_UPDATES = 3


class Numbers(Environment):
    """Every observation is another number."""

    agent_count = 1
    observation_spaces = (spaces.Box(0, np.inf, (1,)),)
    action_spaces = (spaces.Discrete(2),)
    numbers = itertools.count()

    def reset(self):
        self.t = 0
        return self.see()

    def step(self, actions):
        self.t += 1
        return self.see(float(actions[0]), terminated=self.t == 10)

    def see(self, reward=0.0, terminated=False):
        return [StepResult(np.array([next(Numbers.numbers)], np.float32), reward, terminated=terminated)]


class Mortal(PPO):
    """Fails in its eighth update, once; notes what it learns from."""

    learned = ()
    calls = 0

    def update(self, batch):
        Mortal.calls += 1
        if Mortal.calls == 7:
            time.sleep(
                0.5
            )  # version 6 has arrived in the store, so version 7 goes there at once and is known to be lost
        if Mortal.calls == 8:
            raise RuntimeError("a planted fault")
        stats = super().update(batch)
        Mortal.learned.append(np.asarray(batch.obs).reshape(-1).copy())
        return stats


def test_trainer_that_dies_counts_and_learns_nothing_twice(tmp_path):
    if "numbers" not in registered_environments():
        register("numbers", Numbers)
    Mortal.learned, Mortal.calls = [], 0
    experiment = preset("ppo", "CartPole-v1", trainer={"step_per_collect": ROLLOUT}, env={"num_envs": 4}, lr=1e-5)
    spec = PolicySpec(experiment=replace(experiment, task="numbers"), algorithm=Mortal, save_updates=SAVE_UPDATES)
    fleet = Fleet(
        name="mortal",
        policies={"p": spec},
        agents=(AgentSpec(policy="p", sample_steps=8),),
        actors=ActorGroup(count=2),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(updates=12, wall_s=60),
    )
    with FleetRun(fleet, tmp_path / "run", interval_s=0.02) as driver:
        snapshots = list(driver)
    last = snapshots[-1]
    assert last.reason == "updates reached"
    (failure,) = driver.supervisor.failures
    assert failure.reason == "raised RuntimeError: a planted fault"
    lost = last.workers["trainer.p.0"]["updates_lost"]
    assert lost == 1  # 7 were made, 6 were saved

    updates = [snapshot.updates["p"] for snapshot in snapshots]
    assert [a - b for a, b in itertools.pairwise(updates) if b < a] in ([1], [])
    kept = Mortal.learned[:6] + Mortal.learned[7:]
    numbers = np.concatenate(kept)
    assert len(numbers) == len(set(numbers.tolist()))  # no step is learned from twice ...
    assert not set(Mortal.learned[6].tolist()) & set(numbers.tolist())  # ... and what was lost does not come back
    state = read_state(tmp_path / "run" / "trainer.p.0.safetensors", KIND)
    counters = state["counters"]
    waiting = sum(len(packed["rows"]) * 8 for packed in state["learning"]["waiting"])
    assert counters["env_steps"] == counters["updates"] * ROLLOUT + waiting
    assert counters["updates"] == len(kept)


class Told(PPO):
    """Fails once, when it is told to."""

    fails = False

    def update(self, batch):
        if Told.fails:
            Told.fails = False
            raise RuntimeError("a planted fault")
        return super().update(batch)


def test_what_a_trainer_has_lost_goes_from_the_record(tmp_path):
    """As after a resume: its rows of metrics, and evaluations of versions whose numbers others are given now."""
    if "numbers" not in registered_environments():
        register("numbers", Numbers)
    experiment = preset("ppo", "CartPole-v1", trainer={"step_per_collect": ROLLOUT}, env={"num_envs": 4}, lr=1e-5)
    spec = PolicySpec(experiment=replace(experiment, task="numbers"), algorithm=Told, save_updates=10**6)
    fleet = Fleet(
        name="told",
        policies={"p": spec},
        agents=(AgentSpec(policy="p", sample_steps=8),),
        evaluation=EvalGroup(num_envs=1, episodes=1, share=1.0),
        stop=FleetStop(wall_s=60),
    )
    lost = []
    with FleetRun(fleet, tmp_path / "run", interval_s=0.02) as driver:
        for snapshot in driver:
            if not lost and any(result.version >= 3 for result in driver.results):
                lost, Told.fails = list(driver.results), True
            found, trainer = snapshot.evaluations.get("p"), snapshot.workers["trainer.p.0"]
            if lost and trainer["restarts"] and found not in [None, *lost]:
                break
        else:
            raise AssertionError(driver.supervisor.failures)
    (failure,) = driver.supervisor.failures
    assert all(result.version == -1 or result.time > failure.time for result in driver.results)
    assert driver.best("p") in driver.results
    lines = (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["time"] for line in lines] == [result.time for result in driver.results]
    steps = [row["env_step"] for row in read_jsonl(tmp_path / "run" / "metrics.jsonl")]
    assert steps == sorted(steps)


class Store:
    """Answers as a parameter server, once it is there."""

    def __init__(self):
        self.there, self.versions = False, [0, 1, 2]

    def call(self, method, *args):
        answer = Future()
        if not self.there:
            answer.set_exception(PeerLostError("starting"))
        elif method == "roll_back":
            answer.set_result([version for version in self.versions if version > args[1]])
            self.versions = [version for version in self.versions if version <= args[1]]
        else:
            self.versions.append(args[2])
            answer.set_result(args[2])
        return answer


@pytest.fixture
def make_trainer(tmp_path):
    experiment = preset("ppo", "CartPole-v1", trainer={"step_per_collect": ROLLOUT})

    def make(incarnation, store=None, **spec):
        task = Task(observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Discrete(2))
        algorithm = PPO.make(experiment.config, task, seed=1)
        return TrainerWorker(
            "p",
            PolicySpec(experiment=experiment, **spec),
            algorithm,
            OnpolicyLearning(algorithm, experiment, sync=False),
            store or Store(),
            tmp_path / "trainer.safetensors",
            ["a"],
            capacity=2,
            length=10**6,
            incarnation=incarnation,
        )

    return make


def test_schedules_follow_the_fleet_s_length(make_trainer):
    """Not that of a local run, after which a falling rate would be 0."""
    trainer = make_trainer(0)
    seen = []
    trainer._algorithm.schedule = lambda step, length: seen.append((step, length))
    trainer._done.env_steps = 10**9
    trainer._schedule()
    assert seen == [(trainer._length, trainer._length)]
    assert trainer._length == 10**6


def test_trainer_that_was_replaced_saves_no_more(make_trainer, tmp_path):
    """It may have been taken for dead while it was only slow."""
    old = make_trainer(0)
    new = make_trainer(1)
    new._done.updates, old._done.updates = 5, 3
    new.close()
    old.close()
    assert read_state(tmp_path / "trainer.safetensors", KIND)["counters"]["updates"] == 5
    assert make_trainer(2).stats()["updates"] == 5


def test_store_forgets_what_was_not_saved_before_anything_is_published(make_trainer):
    """Also when the store is started later than the trainer, as after the death of their node."""
    store = Store()
    trainer = make_trainer(1, store)
    for _ in range(3):
        trainer.poll()
    assert store.versions == [0, 1, 2]
    assert "updates_lost" not in trainer.stats()  # nobody can know yet
    store.there = True
    deadline = time.monotonic() + 5
    while store.versions != [-1] and time.monotonic() < deadline:
        trainer.poll()
    assert store.versions == [-1]  # the version of a policy without any update
    assert trainer.stats()["updates_lost"] == 3.0


def test_segments_that_wait_for_their_rollout_are_saved(make_trainer):
    segment = Segment(
        producer="a",
        incarnation=0,
        seq=4,
        rows=np.arange(2),
        data=NamedArray(rew=np.arange(6.0).reshape(3, 2), obs={"x": np.ones((3, 2, 1))}, policy=None),
        episode_returns=np.array([1.0]),
        episode_lengths=np.array([3]),
    )
    first = make_trainer(0)
    first._learning.take([segment])
    state = first._learning.state_dict()
    second = make_trainer(1)
    second._learning.load_state_dict(state)
    (restored,) = second._learning._waiting
    assert (restored.producer, restored.seq, restored.steps) == ("a", 4, 6)
    np.testing.assert_array_equal(restored.data.rew, segment.data.rew)


def test_a_replay_buffer_of_other_actors_is_refused_or_left_behind(make_trainer, monkeypatch):
    experiment = preset("dqn", "CartPole-v1", buffer={"size": 1000})
    task = Task(observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Discrete(2))
    algorithm = DQN.make(experiment.config, task, seed=1)
    state = make_learning(algorithm, experiment, {"a": 2}).state_dict() | {"steps": 7}
    more = make_learning(algorithm, experiment, {"a": 2, "b": 2})
    monkeypatch.setattr(OnpolicyLearning, "load_state_dict", lambda *_: more.load_state_dict(state))
    first = make_trainer(0)
    first._done.updates = 1
    first.close()
    with pytest.raises(
        ConfigError, match=r"'p' was filled by other actors.* \[500, 500\].*; resume .* save_buffer=False"
    ):
        make_trainer(1)
    anew = make_learning(algorithm, experiment, {"a": 2, "b": 2}, save_buffer=False)
    anew.load_state_dict(state)
    assert len(anew.buffer) == 0
    assert anew.state_dict()["steps"] == 0  # it collects before it learns, as at the start


def test_the_last_version_is_published_before_a_trainer_is_done(make_trainer):
    """Also where several updates lie between two versions, and a push that is under way at the end."""
    store = Store()
    store.there = True
    trainer = make_trainer(0, store, publish_updates=100)
    while store.versions != [-1]:
        trainer.poll()
    trainer._algorithm.policy.version, trainer._done.updates = 6, 7
    trainer.finish()
    while trainer.poll() is not Progress.DONE:
        pass
    assert store.versions == [-1, 6]


@pytest.mark.parametrize(("kind", "saves"), [("offpolicy", 2), ("onpolicy", 20)])
def test_saving_a_replay_buffer_takes_no_more_than_a_tenth_of_the_time(kind, saves, make_trainer, monkeypatch):
    """On-policy states are small and saved in time; there is no buffer in them."""
    trainer, saved, now = make_trainer(0), [], 0.0
    monkeypatch.setattr(PolicySpec, "kind", kind)
    monkeypatch.setattr("argosy.distributed.workers.trainer.time.monotonic", lambda: 10.0 * len(saved) + now)

    def save():
        saved.append(trainer._done.updates)
        trainer._saved_updates = trainer._done.updates

    trainer._save = save
    for _ in range(400):  # an update takes 0.25 s, saving 10 s
        now += 0.25
        trainer._done.updates += 1
        trainer._end_of_round(False)
    assert len(saved) == saves


def test_what_comes_before_the_first_update_is_saved_by_its_steps(make_trainer, tmp_path):
    trainer, file = make_trainer(0), tmp_path / "trainer.safetensors"
    trainer._save_in_time()
    assert not file.exists()  # nothing comes before it
    trainer._first_steps = 1000
    trainer._done.env_steps = 99
    trainer._save_in_time()
    assert not file.exists()
    trainer._done.env_steps = 100
    trainer._save_in_time()
    trainer._done.env_steps, trainer._done.updates = 1000, 1
    trainer._save_in_time()
    assert make_trainer(1).stats()["env_steps"] == 100


def test_a_trainer_counts_on_for_those_that_are_no_more(make_trainer, tmp_path):
    for rank in (2, 1, 0):
        trainer = make_trainer(0)
        trainer._done.env_steps, trainer._done.updates = 10**rank, 1
        trainer.close()
        if rank:
            (tmp_path / "trainer.safetensors").rename(tmp_path / f"trainer.p.{rank}.safetensors")
    for incarnation in (1, 2):  # one that dies before it is saved, and another
        trainer = make_trainer(incarnation)
        assert trainer.stats()["env_steps"] == 111
    trainer._save()
    assert make_trainer(3).stats()["env_steps"] == 111


def test_what_is_of_no_synchronous_round_is_dropped_at_its_end(make_trainer):
    """Or the segment that an actor makes too many, told of a version twice, puts it one round behind for good."""

    def segment(seq):
        data = NamedArray(rew=np.zeros((2, 1)), policy=None)
        return Segment(
            producer="a", incarnation=0, seq=seq, rows=np.arange(1), data=data, episode_returns=np.zeros(0),
            episode_lengths=np.zeros(0, int),
        )  # fmt: skip

    trainer = make_trainer(0)
    trainer._sync = True
    trainer._round["a"].append(segment(1))
    answers = [trainer.put(segment(seq)) for seq in range(2, 7)]
    assert not all(answer.done() for answer in answers)  # there is room for two
    trainer._end_of_round(False)
    assert trainer._done.dropped == 6
    assert all(answer.result(0) for answer in answers)
    assert (len(trainer._inbox), len(trainer._round["a"])) == (0, 0)


def test_schedules_of_several_trainers_follow_what_all_have_done(make_trainer):
    """Also where one has done more than another, as after a resume with more of them."""
    trainer = make_trainer(0)
    trainer._done.env_steps = 30
    trainer._learning = SimpleNamespace(due=True, size=1)
    trainer._group = SimpleNamespace(
        size=2,
        agree=lambda *values: list(map(float, values)),
        weigh=lambda size, total: None,
        sum=lambda own: own + 1000,
    )
    assert trainer._agreed() == (True, False)
    assert trainer._all_steps() == 1030
