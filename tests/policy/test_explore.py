"""Exploration by hand: which rows explore, what noise is added, how it changes, that it is saved with the policy."""

import numpy as np
import pytest
from gymnasium import spaces

from argosy.errors import ConfigError
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig, NoiseConfig, QPolicy, RolloutRequest
from argosy.policy.deterministic import DeterministicPolicy
from argosy.rng import Rng

OBS = spaces.Box(-1, 1, (3,), np.float32)
NET = NetConfig(hidden_sizes=(4,))


def box(shape=(2,)):
    return spaces.Box(-1.0, 1.0, shape, np.float32)


def deterministic(exploration, shape=(2,), **net):
    policy = DeterministicPolicy(OBS, box(shape), NetConfig(hidden_sizes=(4,), **net))
    policy.explore_by(exploration.build(policy.action_dim))
    policy.seed(0)
    return policy


def request(count, **fields):
    return RolloutRequest(obs=np.zeros((count, 3), np.float32), **fields)


# ----------------------------------------------------------------------------------------------------------------------
# epsilon-greedy
# ----------------------------------------------------------------------------------------------------------------------


def test_epsilon_falls_linearly_and_stays_at_its_end():
    exploration = EpsilonConfig(eps_start=1.0, eps_end=0.2, eps_decay_steps=100, eps_test=0.01).build(4)
    assert (exploration.eps, exploration.eps_test, exploration.state_size) == (1.0, 0.01, 0)
    found = []
    for env_step in (0, 25, 50, 100, 1000):
        exploration.schedule(env_step)
        found.append(exploration.eps)
    assert found == pytest.approx([1.0, 0.8, 0.6, 0.2, 0.2])
    assert exploration.eps_test == 0.01


def test_epsilon_without_steps_is_at_its_end_at_once():
    exploration = EpsilonConfig(eps_end=0.3, eps_decay_steps=0).build(4)
    exploration.schedule(0)
    assert exploration.eps == 0.3


@pytest.mark.parametrize("value", [0.7, "as scheduled"])
@pytest.mark.parametrize(
    ("config", "rate"),
    [
        (EpsilonConfig(eps_decay_steps=100), "eps"),
        (NoiseConfig(noise_std_end=0.5, noise_decay_steps=100), "std"),
    ],
)
def test_what_is_set_by_hand_stays(config, rate, value):
    """Also in a copy, and after a resume; and if it is what the schedule said, too."""
    exploration, other = config.build(4), config.build(4)
    exploration.schedule(10)
    value = getattr(exploration, rate) if value == "as scheduled" else value
    setattr(exploration, rate, value)
    exploration.schedule(20)
    assert getattr(exploration, rate) == value
    other.load_state_dict(exploration.state_dict())
    other.schedule(30)
    assert getattr(other, rate) == value
    fresh, follower = config.build(4), config.build(4)
    fresh.schedule(10)
    follower.load_state_dict(fresh.state_dict())
    fresh.schedule(50), follower.schedule(50)
    assert getattr(follower, rate) == getattr(fresh, rate) not in (0.7, getattr(config.build(4), rate))


def test_random_actions_are_those_that_the_generator_says():
    exploration = EpsilonConfig(eps_start=0.5).build(4)
    act, evaluates = np.full(64, 3), np.arange(64) % 4 == 0
    found, state = exploration.explore(act, evaluates, Rng(7), None, None)
    draws = Rng(7).numpy
    explores = draws.random(64) < np.where(evaluates, 0.0, 0.5)
    assert found.tolist() == np.where(explores, (draws.random(64) * 4).astype(int), 3).tolist()
    assert state is None
    assert (found[evaluates] == 3).all()
    assert (act == 3).all()


def test_random_actions_are_allowed_ones():
    exploration = EpsilonConfig(eps_start=1.0).build(3)
    mask = np.array([[True, False, False], [False, True, True]]).repeat(3000, axis=0)
    act, _ = exploration.explore(np.zeros(6000, int), None, Rng(0), mask, None)
    assert (act[:3000] == 0).all()
    assert np.bincount(act[3000:], minlength=3) / 3000 == pytest.approx([0, 0.5, 0.5], abs=0.03)


def test_without_epsilon_nothing_is_drawn():
    rng, act = Rng(3), np.arange(5)
    exploration = EpsilonConfig(eps_start=0.0).build(5)
    found, _ = exploration.explore(act, None, rng, None, None)
    assert found.tolist() == [0, 1, 2, 3, 4]
    assert rng.numpy.random() == Rng(3).numpy.random()


@pytest.mark.parametrize(
    ("field", "value"), [("eps_start", 1.5), ("eps_end", -0.1), ("eps_test", 2.0), ("eps_decay_steps", -1)]
)
def test_epsilon_is_checked(field, value):
    with pytest.raises(ConfigError, match=rf"EpsilonConfig\.{field} is {value}; it must be"):
        EpsilonConfig(**{field: value})


# ----------------------------------------------------------------------------------------------------------------------
# noise on continuous actions
# ----------------------------------------------------------------------------------------------------------------------


def test_gaussian_noise_is_added_and_the_sum_is_clipped():
    exploration = NoiseConfig(noise_std=0.5).build(2)
    act = np.array([[0.0, 0.5], [0.9, -0.9], [-1.0, 1.0]], np.float32)
    found, state = exploration.explore(act, None, Rng(5), None, None)
    noise = 0.5 * Rng(5).numpy.standard_normal((3, 2), dtype=np.float32)
    assert found == pytest.approx((act + noise).clip(-1, 1))
    assert found.dtype == np.float32
    assert state is None
    assert np.abs(found).max() == 1.0  # something was clipped
    assert act[2].tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("noise", ["gaussian", "ou"])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_rows_that_evaluate_get_no_noise(noise, shape):
    policy = deterministic(NoiseConfig(noise=noise, noise_std=0.3), shape)
    evaluates = np.arange(6) % 2 == 0
    fields = {"policy_state": np.zeros((6, policy.action_dim), np.float32)} if noise == "ou" else {}
    plain = policy.rollout(request(6, is_evaluation=np.ones(6, bool), **fields)).action
    act = policy.rollout(request(6, is_evaluation=evaluates, **fields)).action
    assert act.shape == (6, *shape)
    assert np.array_equal(act[evaluates], plain[evaluates])
    assert (act[~evaluates] != plain[~evaluates]).all()


def test_no_noise_leaves_actions_and_generator():
    exploration, rng = NoiseConfig(noise="none").build(2), Rng(3)
    act = np.ones((2, 2), np.float32)
    assert exploration.explore(act, None, rng, None, None)[0] is act
    assert rng.numpy.random() == Rng(3).numpy.random()


def test_the_deviation_changes_linearly_or_stays():
    falling = NoiseConfig(noise_std=0.5, noise_std_end=0.1, noise_decay_steps=100).build(1)
    staying = NoiseConfig(noise_std=0.5).build(1)
    at_once = NoiseConfig(noise_std=0.5, noise_std_end=0.2, noise_decay_steps=0).build(1)
    found = []
    for env_step in (0, 50, 100, 1000):
        for exploration in (falling, staying, at_once):
            exploration.schedule(env_step)
        found.append((falling.std, staying.std, at_once.std))
    assert np.array(found) == pytest.approx(
        np.array([[0.5, 0.5, 0.2], [0.3, 0.5, 0.2], [0.1, 0.5, 0.2], [0.1, 0.5, 0.2]])
    )
    staying.set_extra_state(NoiseConfig(noise_std=0.3).build(1).get_extra_state())  # of a run with other settings
    staying.schedule(0)
    assert staying.std == 0.5


def test_the_ornstein_uhlenbeck_process_by_hand():
    exploration = NoiseConfig(noise="ou", noise_std=0.1, ou_theta=0.25).build(2)
    assert exploration.state_size == 2
    act, rng, again = np.zeros((3, 2), np.float32), Rng(1), Rng(1)
    x = np.array([[0.0, 0.0], [0.4, -0.4], [0.2, 0.0]], np.float32)  # the second and third row are in mid-episode
    for _ in range(3):
        found, after = exploration.explore(act, None, rng, None, x)
        expected = 0.75 * x + 0.1 * again.numpy.standard_normal((3, 2), dtype=np.float32)
        assert after == pytest.approx(expected, abs=1e-6)
        assert found == pytest.approx(after, abs=1e-6)
        assert after.dtype == found.dtype == np.float32
        x = after


def test_each_row_has_a_process_of_its_own_that_starts_at_zero():
    policy = deterministic(NoiseConfig(noise="ou", noise_std=0.0, ou_theta=0.5))
    assert policy.default_policy_state.tolist() == [0.0, 0.0]
    assert not policy.is_recurrent  # nothing that learning has to know
    plain = policy.rollout(request(2, policy_state=np.zeros((2, 2), np.float32))).action
    state = np.array([[0.2, -0.2], [0.0, 0.0]], np.float32)
    for factor in (0.5, 0.25, 0.125):
        result = policy.rollout(request(2, policy_state=state))
        assert result.action - plain == pytest.approx(factor * np.array([[0.2, -0.2], [0.0, 0.0]]), abs=1e-6)
        state = result.policy_state
        assert state == pytest.approx(factor * np.array([[0.2, -0.2], [0.0, 0.0]]), abs=1e-6)


def test_noise_that_goes_on_is_correlated_in_time():
    policy = deterministic(NoiseConfig(noise="ou", noise_std=0.05, ou_theta=0.1))
    state, found = np.zeros((2000, 2), np.float32), []
    for _ in range(30):
        state = policy.rollout(request(2000, policy_state=state)).policy_state
        found.append(state[:, 0])
    assert np.corrcoef(found[-1], found[-2])[0, 1] == pytest.approx(0.9, abs=0.03)
    # the stationary deviation is std / sqrt(1 - 0.9^2); after 30 steps it is there within sqrt(1 - 0.9^60)
    assert found[-1].std() == pytest.approx(0.05 / np.sqrt(1 - 0.81), rel=0.05)


@pytest.mark.parametrize(("memory", "width"), [("gru", 3), ("lstm", 6)])
def test_beside_a_memory_the_process_has_the_last_columns(memory, width):
    policy = deterministic(NoiseConfig(noise="ou", noise_std=0.0, ou_theta=0.5), memory=memory, memory_size=3)
    assert policy.default_policy_state.shape == (width + 2,)
    assert policy.is_recurrent
    assert policy.actor.columns == slice(0, width)
    state = np.concatenate((np.zeros((1, width)), [[0.2, -0.2]]), axis=1, dtype=np.float32)
    result = policy.rollout(request(1, policy_state=state))
    assert result.policy_state[0, width:].tolist() == pytest.approx([0.1, -0.1])
    assert (result.policy_state[0, :width] != 0).all()
    other = policy.rollout(request(1, policy_state=np.zeros((1, width + 2), np.float32)))
    assert np.array_equal(other.policy_state[0, :width], result.policy_state[0, :width])


@pytest.mark.parametrize(
    ("field", "value"),
    [("noise_std", -0.1), ("noise_std_end", -0.1), ("noise_decay_steps", -1), ("ou_theta", 0.0), ("ou_theta", 1.5)],
)
def test_noise_is_checked(field, value):
    with pytest.raises(ConfigError, match=rf"NoiseConfig\.{field} is {value}; it must be"):
        NoiseConfig(**{field: value})


def test_unknown_noise_is_refused():
    with pytest.raises(ConfigError, match=r"NoiseConfig\.noise is 'pink'"):
        NoiseConfig(noise="pink")


# ----------------------------------------------------------------------------------------------------------------------
# with the policy
# ----------------------------------------------------------------------------------------------------------------------


def test_what_it_has_come_to_is_in_the_policys_checkpoint():
    source = deterministic(NoiseConfig(noise_std=0.5, noise_std_end=0.1, noise_decay_steps=100))
    copied = deterministic(NoiseConfig(noise_std=0.5, noise_std_end=0.1, noise_decay_steps=100))
    source.exploration.schedule(75)
    copied.load_checkpoint(source.get_checkpoint())
    assert copied.exploration.std == pytest.approx(0.2)
    assert np.array_equal(source.rollout(request(20)).action, copied.rollout(request(20)).action)

    q, other = (QPolicy(OBS, spaces.Discrete(3), NET) for _ in range(2))
    for policy in (q, other):
        policy.explore_by(EpsilonConfig(eps_end=0.0, eps_decay_steps=10).build(3))
    q.exploration.schedule(5)
    other.load_checkpoint(q.get_checkpoint())
    assert (other.exploration.eps, other.exploration.eps_test) == (0.5, 0.0)


def test_it_draws_from_the_policys_random_numbers():
    policy = deterministic(NoiseConfig())
    first = policy.rollout(request(8)).action
    assert not np.array_equal(policy.rollout(request(8)).action, first)
    policy.seed(0)
    assert np.array_equal(policy.rollout(request(8)).action, first)
