"""Rewards for what is new: by value, around every kind of algorithm, and where nothing else leads to the goal."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch
from algorithm_checks import differences, flat, make_batch
from curious import make
from gymnasium import spaces

import argosy
from argosy.algorithm import OptimConfig, Task
from argosy.algorithm.curiosity import Curiosity, Surprise
from argosy.data import as_tensors
from argosy.errors import ConfigError

WRAPPERS = ("icm", "rnd")


class Loud(Curiosity):
    """Is surprised by the first number of where a step led, and by how often it has learned."""

    def __init__(self, inner, batch_size=256):
        policy = inner.policy
        task = Task(observation_space=policy.observation_space, action_space=policy.action_space)
        super().__init__(inner, task, scale=0.5, batch_size=batch_size)
        self.normaliser = None
        self.steps = torch.nn.Parameter(torch.zeros(()))
        self.optim = OptimConfig(kind="sgd", lr=1.0).build([self.steps])

    def surprise(self, obs, act, obs_next):
        return Surprise(obs_next[:, 0] + self.steps.detach(), -self.steps, {"loss_loud": self.steps + 0.0})


def size(bonuses):
    return np.sqrt(np.mean(np.square(bonuses)))


def test_bonuses_are_in_units_of_the_size_of_all_so_far():
    loud = Loud(make("dqn"))
    firsts = []
    for i in range(2):
        batch = make_batch(loud, seed=i)
        changed = as_tensors(batch)
        metrics = loud.change(changed)
        bonus = batch.obs_next[:, 0] + i
        firsts = [*firsts, *bonus]
        np.testing.assert_allclose(changed.rew - batch.rew, 0.5 * bonus / size(firsts), rtol=1e-4, atol=1e-5)
        assert metrics == pytest.approx({"loss_loud": i, "bonus_mean": 0.5 * bonus.mean() / size(firsts)}, rel=1e-4)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_where_all_is_the_same_bonuses_stay_small(wrap):
    around = make("dqn", wrap)
    batch = make_batch(around)
    batch.obs[:], batch.obs_next[:], batch.act[:] = 0.5, 0.5, 1
    for _ in range(3):
        changed = as_tensors(batch)
        around.change(changed)
        assert np.abs(changed.rew - batch.rew).max() < 2.0


def test_a_rollout_is_gone_through_once_and_paid_for_before_it_is_learned():
    loud = Loud(make("ppo"), batch_size=10)
    batch = make_batch(loud)
    changed = as_tensors(batch)
    loud.change(changed)
    scale = (loud.bonuses.var + loud.bonuses.mean**2).sqrt() / 0.5
    added = (changed.rew - batch.rew) * scale - batch.obs_next[..., 0]
    assert sorted(np.round(added.flatten().numpy()).tolist()) == [0] * 11 + [1] * 11 + [2] * 10


def test_rows_that_a_mask_hides_are_paid_for_and_not_learned():
    """What stands behind a row counts in its advantage: where bonuses end, values of returns with them would not."""
    around = make("sac", "rnd", memory="gru")
    batch = make_batch(around)
    assert not batch.mask.all()
    changed = as_tensors(batch)
    around.change(changed)
    assert (changed.rew.numpy() > batch.rew).all()
    assert around.bonuses.count == batch.mask.sum()


def test_fewer_rows_than_parts_are_learned_as_often():
    """All trainers of a group make equally many steps, however many rows each has."""
    loud = Loud(make("sac", memory="gru"), batch_size=1)
    batch = make_batch(loud)
    batch.mask[:] = False
    batch.mask[0, 0] = True
    changed = as_tensors(batch)
    loud.change(changed)
    assert loud.steps.item() == batch.rew.size
    assert np.isfinite(changed.rew.numpy()).all()


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize(
    ("name", "observation", "memory"),
    [
        ("dqn", "mask", None),
        ("dqn", "dict", "gru"),
        ("ppo", "image", None),
        ("sac", "vector", "gru"),
        ("a2c", "dict", None),
        ("branching_dqn", "vector", None),
    ],
)
def test_it_goes_around_every_kind_of_algorithm(wrap, name, observation, memory):
    one, other = (make(name, wrap, seed=i, observation=observation, memory=memory) for i in range(2))
    for i in range(3):
        batch = make_batch(one, seed=i)
        before = copy.deepcopy(batch.rew)
        stats = one.update(batch)
        np.testing.assert_array_equal(batch.rew, before)
        assert stats.bonus_mean > 0.0
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    last = make_batch(one, seed=9)
    for algorithm in (one, other):
        algorithm.update(last)
    states = [flat(algorithm.state_dict()["parts"]) for algorithm in (one, other)]
    assert not differences(*states)


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_what_was_seen_often_is_paid_for_less(wrap, name):
    """ICM knows what actions do there, RND what it looks like; elsewhere neither does."""
    around = make(name, wrap)
    known, new = make_batch(around, seed=0, size=(16, 16)), make_batch(around, seed=1, size=(16, 16))
    known.obs, known.obs_next = 0.1 * known.obs, 0.1 * known.obs
    for _ in range(200):
        around.change(as_tensors(known))
    paid = []
    for batch in (known, new):
        changed = as_tensors(batch)
        around.change(changed)
        paid.append(float((changed.rew - batch.rew).mean()))
    assert paid[1] > 10.0 * paid[0] > 0.0


@pytest.mark.parametrize(
    ("name", "wrap", "says"),
    [
        ("bc", "rnd", "RND pays for new experience, but BC learns from a data set or an expert"),
        ("gail", "icm", "ICM pays for new experience, but GAIL learns from"),
        ("dagger", "icm", "ICM pays for new experience, but DAgger learns from"),
        ("dqn", "rnd(scale=0.0)", r"RND: scale is 0\.0, batch_size 256; allowed are numbers above 0"),
        ("dqn", "rnd(batch_size=0)", r"RND: scale is 1\.0, batch_size 0; allowed"),
        ("dqn", "icm(forward_weight=2.0)", r"forward_weight is 2\.0; it must be from 0 to 1"),
    ],
)
def test_what_cannot_be_is_refused(name, wrap, says):
    with pytest.raises(ConfigError, match=says):
        make(name, wrap)


def test_sums_of_several_steps_are_for_rnd_alone():
    with pytest.raises(ConfigError, match="ICM explains single steps, but DQN samples sums of n_step=3; use n_step=1"):
        make("dqn", "icm", n_step=3)
    around = make("dqn", "rnd", n_step=3)
    around.update(make_batch(around))


class Chain(gym.Env):
    """Forty steps to the right, of eighty, are paid for; who draws lots comes so far once in 100,000 episodes."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.at, self.t = max(0, self.at + (1 if action == 1 else -1)), self.t + 1
        arrived = self.at == 40
        return np.array([self.at / 40], np.float32), 10.0 * arrived, arrived, self.t == 80, {}


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_it_finds_what_chance_does_not(wrap):
    def final_return(seed, *wraps):
        trainer = {"max_epoch": 3, "step_per_epoch": 2048, "step_per_collect": 512}
        run = argosy.preset("ppo", Chain, wrap=wraps, seed=seed, trainer=trainer, env={"num_envs": 8})
        return [epoch.test_collect_stat.returns_stat.mean for epoch in argosy.build(run)][-1]

    assert [final_return(seed, f"{wrap}(scale=0.1)") for seed in (2, 3)] == [10.0, 10.0]
    assert final_return(2) == 0.0
