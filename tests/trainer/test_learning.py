import numpy as np
import pytest
import torch

from argosy.algorithm import A2C, DQN, Task
from argosy.collect.recorder import Recorder, SegmentSpec
from argosy.env import task_spaces
from argosy.errors import ConfigError
from argosy.presets import preset
from argosy.trainer.learning import make_learning


def off_policy(**settings):
    experiment = preset("dqn", "CartPole-v1", **settings.pop("changes", {}))
    observation_space, action_space = task_spaces("CartPole-v1")
    task = Task(observation_space=observation_space, action_space=action_space)
    algorithm = DQN.make(experiment.config, task, seed=0)
    return make_learning(algorithm, experiment, {"a": 1}, save_buffer=False, **settings), algorithm


def transition(value):
    obs = np.full((1, 4), value, np.float32)
    return {
        "obs": obs,
        "obs_next": obs + 1,
        "act": np.zeros(1, np.int64),
        "rew": np.full(1, value, np.float32),
        "terminated": np.zeros(1, bool),
        "truncated": np.zeros(1, bool),
        "policy": None,
    }


def test_hidden_rows_are_no_part_of_a_replay_buffer():
    learning, _ = off_policy()
    recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=2, burn_in_steps=1, bootstrap_steps=2))
    for value in range(1, 8):
        for segment in recorder.add(np.array([0]), transition(value)):
            learning.take([segment])
    assert learning.buffer.rew[:5].tolist() == [1, 2, 3, 4, 0]


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_batches_drawn_ahead_are_those_drawn_in_time(alpha):
    learned = []
    for prefetch in (False, True):
        changes = {"trainer": {"start_steps": 0, "batch_size": 8, "update_per_step": 1.0}}
        changes["buffer"] = {"priority": {"alpha": alpha}}
        learning, algorithm = off_policy(prefetch=prefetch, changes=changes)
        recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=10))
        for value in range(1, 31):
            for segment in recorder.add(np.array([0]), transition(value)):
                learning.take([segment])
            while learning.due:
                learning.update()
        learned.append(torch.cat([p.detach().flatten() for p in algorithm.policy.parameters()]))
        assert algorithm.num_updates == 30
    # drawn from the same buffer in the same order; only priorities are one update old
    assert torch.equal(*learned) == (alpha == 0.0)


@pytest.mark.parametrize("trainers", [1, 2])
def test_each_of_several_trainers_waits_for_its_share_of_the_first_steps(trainers):
    changes = {"trainer": {"start_steps": 30, "batch_size": 8, "update_per_step": 1.0}}
    learning, _ = off_policy(trainers=trainers, changes=changes)
    recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=10))
    due = []
    for value in range(1, 41):
        for segment in recorder.add(np.array([0]), transition(value)):
            learning.take([segment])
            due.append(learning.due)
    assert due.index(True) == {1: 3, 2: 2}[trainers]


def test_a_policy_that_stores_nothing_cannot_feed_an_on_policy_learner():
    experiment = preset("a2c", "CartPole-v1", trainer={"step_per_collect": 10})
    observation_space, action_space = task_spaces("CartPole-v1")
    task = Task(observation_space=observation_space, action_space=action_space)
    learning = make_learning(A2C.make(experiment.config, task, seed=0), experiment, {"random": 1})
    recorder = Recorder("random", 0, 1, SegmentSpec(sample_steps=10))
    for value in range(10):
        for segment in recorder.add(np.array([0]), transition(value)):
            learning.take([segment])
    with pytest.raises(ConfigError, match="A2C learns from what its own policy stores when it acts"):
        learning.update()


@pytest.mark.parametrize("together", [True, False])
def test_segments_of_unequal_lengths_that_come_together_go_on_from_those_before(together):
    experiment = preset("dqn", "CartPole-v1")
    observation_space, action_space = task_spaces("CartPole-v1")
    algorithm = DQN.make(
        experiment.config, Task(observation_space=observation_space, action_space=action_space), seed=0
    )
    learning = make_learning(algorithm, experiment, {"a": 1, "b": 1}, save_buffer=False)
    recorders = [Recorder("a", 0, 1, SegmentSpec(sample_steps=3)), Recorder("b", 0, 1, SegmentSpec(sample_steps=2))]
    waiting = [[], []]
    for value in range(1, 13):
        for own, recorder in zip(waiting, recorders, strict=True):
            own += recorder.add(np.array([0]), transition(value))
    for pair in zip(*waiting, strict=False):
        for segments in [pair] if together else [[one] for one in pair]:
            learning.take(segments)
    rings = learning.buffer.rings
    for ring, rows in ((0, 12), (1, 8)):
        stops = rings.stop[rings.stored(ring)]
        assert len(stops) == rows
        assert not stops[:-1].any()


def test_who_is_new_to_a_buffer_goes_on_with_no_one_elses_episodes():
    """Its rows may have been another producer's, of a run with other actors."""
    learning, _ = off_policy()
    steps = [transition(value) for value in range(1, 7)]
    for producer, part in (("a", steps[:4]), ("b", steps[4:])):
        learning._rows["b"] = learning._rows["a"]
        recorder = Recorder(producer, 0, 1, SegmentSpec(sample_steps=2))
        for fields in part:
            for segment in recorder.add(np.array([0]), fields):
                learning.take([segment])
    assert learning.buffer.rew[:6].tolist() == [1, 2, 3, 4, 5, 6]
    assert learning.buffer.next(np.arange(6)).tolist() == [1, 2, 3, 3, 5, 5]
