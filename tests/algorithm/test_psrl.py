import math

import numpy as np
import pytest
import torch
from algorithm_checks import NUMBER
from chain import NChain
from gymnasium import spaces

import argosy
from argosy.algorithm import PSRL, PSRLConfig, Task
from argosy.data import Batch
from argosy.errors import ConfigError, SpaceError
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.policy.tabular import TabularPolicy

CASES = {"plain": (PSRLConfig(), spaces.Discrete(3)), "numbered": (PSRLConfig(), spaces.Discrete(3, start=1))}
MEMORIES = (None,)
FACES = ("table", "states", "num_states")
FOLLOWS = ("counts", "reward_sum", "reward_square_sum")
RANGES = [("gamma", 1.0), ("transition_prior", 0.0), ("reward_prior", 0.0), ("reward_std", 0.0)]


def make(states=2, net=None, **config):
    task = Task(observation_space=spaces.Discrete(states), action_space=spaces.Discrete(2), net=net)
    return PSRL.make(PSRLConfig(**config), task, seed=0)


def rollout(obs, act, rew, obs_next, terminated):
    rows = {"obs": obs, "act": act, "obs_next": obs_next, "terminated": terminated}
    fields = {key: np.asarray(value)[:, None] for key, value in rows.items()}
    ends = np.zeros((len(obs), 1), bool)
    return Batch(**fields, rew=np.asarray(rew, np.float32)[:, None], truncated=ends, cut=ends, policy=Batch())


def test_counts_and_surprise_by_hand():
    algorithm = make(transition_prior=3.0)  # one transition to each of state 0, state 1 and the end
    batch = rollout([0, 0, 1], [1, 1, 0], [2.0, 4.0, 1.0], [1, 1, 0], [False, False, True])
    assert algorithm.update(batch).loss == pytest.approx((2 * math.log(5 / 3) + math.log(4 / 2)) / 3)
    assert algorithm.counts[0, 1].tolist() == [0, 2, 0]
    assert algorithm.counts[1, 0].tolist() == [0, 0, 1]  # a terminated row leads to the end, whatever comes behind it
    assert algorithm.counts.sum() == 3
    assert (algorithm.reward_sum[0, 1], algorithm.reward_square_sum[0, 1]) == (6.0, 20.0)
    again = algorithm.update(batch)
    assert again.loss == pytest.approx((2 * math.log(7 / 5) + math.log(5 / 3)) / 3)
    assert again.visited == pytest.approx(2 / 4)


def test_much_experience_leaves_the_best_values_of_the_true_model():
    """State 0: action 1 goes on to state 1, action 0 ends; there action 0 pays 4 and ends, action 1 pays nothing."""
    algorithm = make(gamma=0.5, reward_std=0.1)
    once = ([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 0.0, 4.0, 0.0], [0, 1, 1, 0], [True, False, True, True])
    algorithm.update(rollout(*(np.tile(row, 5000) for row in once)))
    np.testing.assert_allclose(algorithm.policy.table, [[1.0, 2.0], [4.0, 0.0]], atol=0.05)
    act = algorithm.policy.rollout(RolloutRequest(obs=np.array([0, 1]))).action
    assert act.tolist() == [1, 0]


def test_draws_differ_while_little_is_known():
    algorithm = make()
    tables = []
    for _ in range(2):
        algorithm.update(rollout([0], [0], [0.0], [1], [False]))
        tables.append(algorithm.policy.table.clone())
    assert not torch.equal(*tables)


def test_states_and_actions_may_be_numbered_from_elsewhere():
    policy = TabularPolicy(NUMBER, spaces.Discrete(2, start=4))
    policy.table[3, 1] = 1.0
    assert policy.predict(np.array([2, 5]))[0].tolist() == [4, 5]
    with pytest.raises(SpaceError, match="observes Discrete spaces"):
        TabularPolicy(spaces.MultiBinary(3), spaces.Discrete(2))


def test_memory_is_refused():
    with pytest.raises(ConfigError, match="keeps a table, which has no memory"):
        make(net=NetConfig(memory="gru"))


@pytest.mark.parametrize("seed", range(3))
def test_it_goes_to_the_end_of_the_chain(seed, tmp_path):
    """Always forward pays 3.6 a step in the long run, of which 100 steps from the start lose a little; back pays 2."""
    run = argosy.train("psrl", NChain, seed=seed, trainer={"max_epoch": 2}, runs=tmp_path, show_progress=False)
    assert run.test_return_mean > 300.0


def test_it_crosses_the_frozen_lake(tmp_path):
    run = argosy.train(
        "psrl", "FrozenLake-v1", seed=0, trainer={"max_epoch": 5}, reward_std=0.1, runs=tmp_path, show_progress=False
    )
    assert run.test_return_mean > 0.5
