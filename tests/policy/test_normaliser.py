"""Statistics of observations by hand: what counts, from when on, what is normalised, in numpy as in torch."""

import copy
import functools
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.algorithm import BC, DQN, PPO, SAC, BCConfig, DQNConfig, PPOConfig, SACConfig, Task
from argosy.data import Batch
from argosy.errors import ConfigError, DataError
from argosy.net import NetConfig, RunningStatistics
from argosy.policy import Normaliser, QPolicy, RolloutRequest

VECTOR = spaces.Box(-np.inf, np.inf, (2,), np.float32)
MIXED = spaces.Dict(
    {
        "action_mask": spaces.Box(0, 1, (3,), np.float32),
        "image": spaces.Box(0, 255, (4, 4), np.uint8),
        "inner": spaces.Dict({"heat": spaces.Box(-np.inf, np.inf, (), np.float64), "room": spaces.Discrete(3)}),
        "speed": VECTOR,
    }
)


def rows(*values):
    return torch.tensor(values, dtype=torch.float32)


def test_rows_count_only_after_the_merge():
    normaliser = Normaliser(VECTOR)
    obs = rows([1, 10], [3, 30])
    assert torch.equal(normaliser(obs), rows([1, 10], [3, 10]))  # mean 0, variance 1, clipped
    normaliser.take_in(obs)
    assert torch.equal(normaliser(obs), rows([1, 10], [3, 10]))
    normaliser.merge()
    # means 2 and 20, deviations 1 and 10
    assert normaliser(obs).tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    assert normaliser(rows([2, 520])).tolist() == [[0.0, 10.0]]
    normaliser.merge()  # nothing waits any more
    assert normaliser.parts[0].count == 2


def test_statistics_of_pieces_are_those_of_the_whole():
    everything = np.random.default_rng(0).normal(5.0, [0.1, 30.0], (100, 2))
    statistics = RunningStatistics((2,))
    for at, to in ((0, 1), (1, 40), (40, 41), (41, 100)):
        statistics.take_in(torch.from_numpy(everything[at:to]))
        if to != 40:
            statistics.merge()
    assert statistics.count == 100
    assert statistics.mean.numpy() == pytest.approx(everything.mean(0), rel=1e-12)
    assert statistics.var.numpy() == pytest.approx(everything.var(0), rel=1e-12)


def test_leading_axes_are_rows_and_none_is_no_row():
    statistics = RunningStatistics((2,))
    statistics.take_in(torch.arange(12.0).reshape(3, 2, 2))
    statistics.take_in(torch.zeros(0, 2))
    statistics.merge()
    assert (statistics.count.item(), statistics.mean.tolist()) == (6, [5.0, 6.0])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_and_torch_agree_to_the_last_bit(shape, dtype):
    normaliser = Normaliser(spaces.Box(-np.inf, np.inf, shape, dtype))
    rng = np.random.default_rng(0)
    obs = rng.normal(3.3, 7.7, (2000, *shape)).astype(dtype)
    normaliser.take_in(obs[:700])
    for _ in range(2):  # before and after the first rows have counted
        by_numpy, by_torch = normaliser.norm_arrays(obs), normaliser(torch.from_numpy(obs)).numpy()
        assert by_numpy.dtype == by_torch.dtype == np.float32
        assert np.array_equal(by_numpy, by_torch)
        normaliser.merge()
    part = normaliser.parts[0]
    wide = (obs.astype(np.float64) - part.mean.numpy()) / np.sqrt(part.var.numpy() + 1e-8)
    assert np.array_equal(by_numpy, wide.clip(-10, 10).astype(np.float32))


def mixed(count=3):
    return {
        "action_mask": np.ones((count, 3), np.float32),
        "image": np.full((count, 4, 4), 200, np.uint8),
        "inner": {"heat": np.array([10.0, 20.0, 30.0])[:count], "room": np.arange(count)},
        "speed": np.array([[1, -1], [1, 1], [1, 0]], np.float32)[:count],
    }


@pytest.mark.parametrize("container", [dict, Batch])
def test_of_dicts_every_box_of_floats_is_normalised_and_the_rest_is_left(container):
    normaliser = Normaliser(MIXED, skip=("action_mask",))
    assert normaliser.paths == [("inner", "heat"), ("speed",)]
    normaliser.take_in(mixed())
    normaliser.merge()
    arrays = mixed()
    obs = container(mixed())
    out = normaliser.norm_arrays(obs)
    assert out["inner"]["heat"] == pytest.approx(np.array([-1, 0, 1]) * np.sqrt(1.5))
    assert out["speed"][:, 0].tolist() == [0.0, 0.0, 0.0]
    assert out["speed"][:, 1] == pytest.approx(np.array([-1, 1, 0]) * np.sqrt(1.5))
    assert out["image"].dtype == np.uint8
    for key in ("action_mask", "image"):
        assert np.array_equal(out[key], arrays[key])
    assert out["inner"]["room"].tolist() == [0, 1, 2]
    assert obs["inner"]["heat"].tolist() == [10, 20, 30]  # out of place
    assert obs["speed"].tolist() == arrays["speed"].tolist()


def test_a_mask_says_which_rows_count():
    normaliser = Normaliser(MIXED, skip=("action_mask",))
    normaliser.take_in(mixed(), torch.tensor([True, False, True]))
    normaliser.merge()
    heat, speed = normaliser.parts
    assert (heat.count, heat.mean, speed.mean.tolist()) == (2, 20.0, [1.0, -0.5])


def test_a_space_without_floats_is_refused():
    with pytest.raises(ConfigError, match=r"NetConfig\.norm_obs is True, but .* holds no Box of floats"):
        Normaliser(spaces.Box(0, 255, (4, 4), np.uint8))
    with pytest.raises(ConfigError, match="holds no Box of floats"):
        Normaliser(spaces.Dict({"mask": spaces.Box(0, 1, (2,), np.float32)}), skip=("mask",))


def q_policy(space=VECTOR):
    torch.manual_seed(0)
    return QPolicy(space, spaces.Discrete(3), NetConfig(hidden_sizes=(4,), norm_obs=True))


def test_it_is_saved_and_shipped_with_the_policy():
    policy, other = q_policy(), q_policy()
    policy.normaliser.take_in(rows([1, 10], [3, 30]))
    policy.normaliser.merge()
    policy.normaliser.take_in(rows([5, 5]))  # what waits is saved, too, so that a resumed run goes on exactly
    shipped = [copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))]
    other.load_checkpoint(policy.get_checkpoint())
    obs = np.array([[1.5, 25.0], [2.5, 11.0]], np.float32)
    for each in (other, *shipped):
        assert np.array_equal(each.normaliser.norm_arrays(obs), policy.normaliser.norm_arrays(obs))
        assert torch.equal(each(Batch(obs=obs)).logits, policy(Batch(obs=obs)).logits)
        each.normaliser.merge()
        assert each.normaliser.parts[0].mean.tolist() == [3.0, 15.0]
        assert each.normaliser.parts[0].count == 3
    assert policy.normaliser.parts[0].count == 2


@pytest.mark.parametrize("space", [VECTOR, MIXED], ids=["vector", "dict"])
def test_acting_and_forward_see_normalised_observations(space):
    policy = q_policy(space)
    obs = mixed() if space is MIXED else np.array([[1, 10], [3, 30], [2, 0]], np.float32)
    policy.normaliser.take_in(obs)
    policy.normaliser.merge()
    normalised = policy.normaliser.norm_arrays(obs)
    as_tensors = Batch(obs=normalised)
    as_tensors.to_torch()
    q = policy.analyze(Batch(obs=as_tensors.obs, act=torch.zeros(3, dtype=torch.int64))).q  # prepared before
    torch.testing.assert_close(policy(Batch(obs=obs)).logits, q)
    assert policy.rollout(RolloutRequest(obs=obs)).action.tolist() == q.argmax(-1).tolist()


def test_two_that_pool_have_the_statistics_of_all_rows_and_both_count_them_once():
    generator = np.random.default_rng(0)
    whole = [generator.normal(5.0, 3.0, (n, 2)) for n in (40, 7, 0, 11)]
    alone, pair = RunningStatistics((2,)), [RunningStatistics((2,)) for _ in range(2)]
    alone.take_in(torch.from_numpy(np.concatenate(whole[:2])))
    alone.merge()
    alone.take_in(torch.from_numpy(np.concatenate(whole[2:])))
    alone.merge()
    for part in (whole[:2], whole[2:]):
        for one, own in zip(pair, part, strict=True):
            one.take_in(torch.from_numpy(own))
        merge_together(*pair)
    for one in pair:
        assert one.count == 58
        torch.testing.assert_close(one.mean, alone.mean, rtol=1e-12, atol=0)
        torch.testing.assert_close(one.var, alone.var, rtol=1e-12, atol=0)


def merge_together(*group):
    """Let all merge at once, each in a thread; every sum is taken over what all have given."""
    barrier, given = threading.Barrier(len(group), timeout=30), [None] * len(group)

    def pool(k, value):
        given[k] = value
        barrier.wait()
        total = np.sum(given, axis=0)
        barrier.wait()
        return total

    for k, one in enumerate(group):
        one.pool = functools.partial(pool, k)
    with ThreadPoolExecutor(len(group)) as threads:
        list(threads.map(RunningStatistics.merge, group))


# ----------------------------------------------------------------------------------------------------------------------
# in algorithms
# ----------------------------------------------------------------------------------------------------------------------


def algorithm(cls, config, action_space):
    net = NetConfig(hidden_sizes=(4,), norm_obs=True)
    return cls.make(config, Task(observation_space=VECTOR, action_space=action_space, net=net), seed=0)


def transitions(act, count=4):
    rng = np.random.default_rng(0)
    return Batch(
        obs=rng.normal(3.0, 2.0, (count, 2)).astype(np.float32),
        obs_next=rng.normal(3.0, 2.0, (count, 2)).astype(np.float32),
        act=act,
        rew=np.ones(count, np.float32),
        discount=np.ones(count, np.float32),
        weight=np.ones(count, np.float32),
        terminated=np.zeros(count, bool),
    )


def test_what_is_taken_in_counts_from_the_end_of_the_next_update_on():
    for learner, act in (
        (algorithm(DQN, DQNConfig(), spaces.Discrete(2)), np.zeros(4, int)),
        (algorithm(SAC, SACConfig(), spaces.Box(-1, 1, (1,), np.float32)), np.zeros((4, 1), np.float32)),
        (algorithm(BC, BCConfig(), spaces.Discrete(2)), np.zeros(4, int)),
    ):
        part = learner.policy.normaliser.parts[0]
        learner.take_in(np.array([[1, 10], [3, 30], [100, 100]], np.float32), np.array([True, True, False]))
        assert part.count == 0
        data = transitions(act)
        assert learner.prepare(data).obs.numpy() == pytest.approx(data.obs.clip(-10, 10))
        learner.update(data)
        assert (part.count, part.mean.tolist()) == (2, [2.0, 20.0])  # samples do not count, they came in before
        prepared = learner.prepare(data)
        for key in ("obs", "obs_next"):
            assert prepared[key].numpy() == pytest.approx((data[key] - [2, 20]) / [1, 10], abs=1e-5)
        assert data.obs.mean() > 1.0  # the caller's batch stays as it is


def rollout(value=0.0):
    rng = np.random.default_rng(0)
    cut = np.zeros((4, 2), bool)
    cut[-1] = True
    return Batch(
        obs=rng.normal(3.0, 2.0, (4, 2, 2)).astype(np.float32),
        obs_next=rng.normal(3.0, 2.0, (4, 2, 2)).astype(np.float32),
        act=np.zeros((4, 2), int),
        rew=np.full((4, 2), value, np.float32),
        terminated=np.zeros((4, 2), bool),
        cut=cut,
        policy=Batch(logp=np.full((4, 2), -0.7, np.float32)),
        mask=np.arange(8).reshape(4, 2) > 1,
    )


def test_on_policy_a_rollout_counts_when_it_was_learned_and_only_its_own_rows():
    learner, data = algorithm(PPO, PPOConfig(batch_size=None), spaces.Discrete(2)), rollout()
    part = learner.policy.normaliser.parts[0]
    learner.update(data)
    assert part.count == 6
    assert part.mean.numpy() == pytest.approx(data.obs[data.mask].mean(0), rel=1e-6)
    assert part.var.numpy() == pytest.approx(data.obs[data.mask].var(0), rel=1e-5)


def test_an_update_that_fails_counts_nothing():
    learner = algorithm(PPO, PPOConfig(batch_size=None), spaces.Discrete(2))
    part = learner.policy.normaliser.parts[0]
    with pytest.raises(DataError):
        learner.update(rollout(np.nan))
    with pytest.raises(DataError):
        learner.update(rollout(5e18))  # finite, but not the squares of returns: the optimiser refuses
    assert (part.count, part.waiting_count) == (0, 0)
    learner.update(rollout())
    assert part.count == 6
