"""Post-processors, by numbers computed by hand."""

import numpy as np
import pytest
from gymnasium import spaces

from argosy.algorithm import PPO, PPOConfig, Task
from argosy.collect.postprocess import GAE, NStep
from argosy.data import Batch, ReplayBuffer, Sampling
from argosy.errors import ConfigError
from argosy.policy import QPolicy

OBS = spaces.Box(-10, 10, (1,), np.float32)


def fields(rew, terminated=(), truncated=(), value=None):
    rew = np.asarray(rew, np.float32)[:, None]
    steps = np.arange(len(rew), dtype=np.float32)[:, None]
    made = {
        "obs": steps[..., None],
        "obs_next": steps[..., None] + 1,
        "rew": rew,
        "terminated": np.isin(steps, terminated),
        "truncated": np.isin(steps, truncated),
        "act": np.zeros((len(rew), 1), np.int64),
    }
    if value is not None:
        made["policy"] = Batch(value=np.asarray(value, np.float32)[:, None])
    return made


@pytest.fixture
def policy():
    """Its value of an observation is the observation times ten."""
    policy = PPO.make(PPOConfig(), Task(observation_space=OBS, action_space=spaces.Discrete(2)), seed=0).policy
    policy.analyze = lambda sample: Batch(value=10.0 * sample.obs.squeeze(-1))
    policy.analyze_next = lambda sample, rows: Batch(value=10.0 * sample.obs_next[rows].squeeze(-1))
    return policy


def test_gae_bootstraps_from_stored_values_and_at_cuts_from_the_successor(policy):
    given = fields([1, 1, 1, 1], terminated=[0], truncated=[2], value=[2, 4, 6, 8])
    out = GAE(gamma=0.5, gae_lambda=0.5)(given, policy)
    # row 3 ends what is handed out: V(4) = 40; row 2 was truncated: V(3) = 30; row 1 goes on to row 2; row 0 ends
    delta = [1 - 2, 1 + 0.5 * 6 - 4, 1 + 0.5 * 30 - 6, 1 + 0.5 * 40 - 8]
    adv = [delta[0], delta[1] + 0.25 * delta[2], delta[2], delta[3]]
    np.testing.assert_allclose(out["adv"][:, 0], adv)
    np.testing.assert_allclose(out["returns"][:, 0], np.add(adv, [2, 4, 6, 8]))
    assert "adv" not in given


def test_gae_asks_for_values_that_were_not_stored(policy):
    with_values = GAE()(fields([1, 2], value=[0, 10]), policy)
    without = GAE()(fields([1, 2]), policy)
    np.testing.assert_allclose(with_values["adv"], without["adv"])


def test_gae_needs_values():
    with pytest.raises(ConfigError, match=r"needs a policy with values; what QPolicy\.analyze says has none"):
        GAE()(fields([1]), QPolicy(OBS, spaces.Discrete(2)))


def test_n_step_sums_rewards_until_the_episode_ends(policy):
    out = NStep(n=3, gamma=0.5)(fields([1, 2, 4, 8, 16, 32], terminated=[1], truncated=[3]), policy)
    assert out["rew"][:, 0].tolist() == [1 + 1, 2, 4 + 4, 8, 16 + 16, 32]
    assert out["obs_next"][:, 0, 0].tolist() == [2, 2, 4, 4, 6, 6]
    assert out["discount"][:, 0].tolist() == [0, 0, 0.25, 0.5, 0.25, 0.5]
    assert out["terminated"][:, 0].tolist() == [False, True, False, False, False, False]


def test_n_step_takes_all_steps_where_there_are_enough(policy):
    out = NStep(n=3, gamma=0.5)(fields([1, 2, 4, 8]), policy)
    assert out["rew"][:, 0].tolist() == [1 + 1 + 1, 2 + 2 + 2, 4 + 4, 8]
    assert out["obs_next"][:, 0, 0].tolist() == [3, 4, 4, 4]
    assert out["discount"][:, 0].tolist() == [0.125, 0.125, 0.25, 0.5]


def test_n_step_makes_the_transitions_of_a_buffer(policy):
    given = fields(np.arange(1, 9), terminated=[2], truncated=[5])
    out = NStep(n=3, gamma=0.9)(given, policy)
    buffer = ReplayBuffer(8)
    for t in range(8):
        buffer.add(Batch({name: value[t, 0] for name, value in given.items()}))
    for _ in range(8):
        sample, indices = buffer.sample(8, Sampling(n_step=3, gamma=0.9))
        for name in ("rew", "obs_next", "discount"):
            np.testing.assert_array_equal(sample[name], out[name][indices, 0])


@pytest.mark.parametrize("make", [lambda: NStep(n=0), lambda: GAE(gamma=2.0), lambda: GAE(gae_lambda=-1.0)])
def test_values_are_checked(make):
    with pytest.raises(ConfigError, match="must be"):
        make()
