"""The policy of the decision transformer; what it learns is tested in tests/algorithm/test_decision_transformer.py."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.errors import ConfigError, SpaceError
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.policy.decision import DecisionPolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)


def make(space=None, net=None, observation_space=OBS, **how):
    torch.manual_seed(0)
    net = net or NetConfig(hidden_sizes=(8, 8))
    return DecisionPolicy(observation_space, space or spaces.Discrete(3), net, **{"context": 4, **how})


def sequences(T=4, B=2, seed=0, **changes):
    rng = np.random.default_rng(seed)
    fields = {
        "obs": rng.uniform(-1, 1, (T, B, 3)).astype(np.float32),
        "act": rng.integers(3, size=(T, B)),
        "rew": np.ones((T, B), np.float32),
        "returns": rng.uniform(1, 9, (T, B)).astype(np.float32),
        "on_reset": np.arange(T)[:, None].repeat(B, 1) == 0,
        "mask": np.ones((T, B), bool),
        "weight": np.ones((T, B), np.float32),
    }
    return Batch({**fields, **changes})


@pytest.mark.parametrize("changed", ["obs", "act", "returns"])
def test_a_step_knows_what_was_before_it_and_nothing_that_comes_after(changed):
    policy, data = make(), sequences()
    before = policy.analyze(as_tensors(data)).output
    data[changed] = data[changed].copy()
    data[changed][2, 0] = (data[changed][2, 0] + 1) % 3
    after = policy.analyze(as_tensors(data)).output
    same = (before == after).all(-1)
    own = changed == "act"  # an action is known from the next step on
    assert same[:, 0].tolist() == [True, True, own, False]
    assert same[:, 1].all()


def as_tensors(batch):
    batch = batch.copy()
    batch.to_torch()
    return batch


def test_an_episode_does_not_know_the_one_before_it():
    policy, data = make(), sequences()
    data.on_reset[2] = True
    whole = policy.analyze(as_tensors(data))
    second = policy.analyze(as_tensors(data[2:]))
    torch.testing.assert_close(whole.output[2:], second.output)
    data.obs[:2] = 0.0
    torch.testing.assert_close(policy.analyze(as_tensors(data)).output[2:], second.output)


def test_what_is_seen_of_an_episode_tells_not_when_it_was():
    """Told the step of the episode, it would go by the clock: neither what is learned nor acting depends on it."""
    policy, data = make(target_return=5.0), sequences()
    begun = policy.analyze(as_tensors(data)).output
    data.on_reset[0] = False
    torch.testing.assert_close(policy.analyze(as_tensors(data)).output, begun, rtol=0.0, atol=0.0)
    early = np.random.default_rng(0).normal(size=(2, 2 + 3 * 3 * 8)).astype(np.float32)
    early[:, 0] = 3.0  # all steps of the context are there
    late = early.copy()
    late[:, 0] = 700.0
    obs = Batch(obs=data.obs[0])
    assert torch.equal(*(policy(obs, torch.from_numpy(state)).logits for state in (early, late)))


@pytest.mark.parametrize("space", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
def test_acting_is_what_is_learned_with_what_is_left_of_the_return(space):
    """Along an episode no longer than the context; the state says how much reward was expected so far."""
    policy = make(space, target_return=5.0)
    policy.return_scale.fill_(4.0)
    policy.reward_scale.fill_(4.0)
    obs = np.random.default_rng(0).uniform(-1, 1, (4, 2, 3)).astype(np.float32)
    state, acts, left, expected = policy.first_states(2), [], [], []
    for row in obs:
        left.append(5.0 - state[:, 1])
        result = policy.rollout(RolloutRequest(obs=row, policy_state=state))
        state = result.policy_state
        acts.append(result.action)
        expected.append(5.0 - state[:, 1])
    assert state[:, 0].tolist() == [4.0, 4.0]
    data = sequences(obs=obs, act=np.stack(acts), returns=np.stack(left).astype(np.float32))
    with torch.no_grad():
        said = policy.analyze(as_tensors(data))
    found = said.output.argmax(-1) if policy.num_actions else said.output
    np.testing.assert_allclose(found, data.act, atol=1e-5)
    np.testing.assert_allclose(data.returns - said.rew.numpy() * 4.0, np.stack(expected), atol=1e-4)


def test_acting_beyond_the_context_forgets_the_oldest_step():
    policy = make(BOX, target_return=0.0)
    policy.reward_head[-1].weight.data.zero_(), policy.reward_head[-1].bias.data.zero_()
    obs = np.random.default_rng(0).uniform(-1, 1, (6, 1, 3)).astype(np.float32)

    def last(first):
        state = policy.first_states(1)
        for row in obs[first:]:
            result = policy.rollout(RolloutRequest(obs=row, policy_state=state))
            state = result.policy_state
        return result

    assert np.isfinite(last(0).action).all()
    one, other = policy.first_states(1), policy.first_states(1)
    one[0, 2 + 8 * 3 :] = other[0, 2 + 8 * 3 :] = 0.5  # all but the oldest of three steps of three tokens
    other[0, 2 : 2 + 8 * 3] = 9.0
    one[0, 0] = other[0, 0] = 3
    states = [policy.rollout(RolloutRequest(obs=obs[0], policy_state=state)).policy_state for state in (one, other)]
    np.testing.assert_array_equal(states[0][0, 2 : 2 + 2 * 24], states[1][0, 2 : 2 + 2 * 24])


def test_masked_choices_are_not_taken():
    space = spaces.Dict({"obs": OBS, "action_mask": spaces.MultiBinary(3)})
    policy = make(observation_space=space)
    obs = {"obs": np.zeros((3, 3), np.float32), "action_mask": np.eye(3, dtype=np.int8)}
    assert policy.rollout(RolloutRequest(obs=obs)).action.tolist() == [0, 1, 2]


def test_actions_without_bounds_are_refused():
    with pytest.raises(SpaceError, match=r"DecisionPolicy squashes actions into bounds"):
        make(spaces.Box(-np.inf, np.inf, (1,)))


def test_networks_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match=r"net.memory is 'gru', but a transformer remembers by itself"):
        make(net=NetConfig(memory="gru"))
    with pytest.raises(ConfigError, match=r"net.hidden_sizes is \(8, 16\); of a transformer each is a block"):
        make(net=NetConfig(hidden_sizes=(8, 16)))
    with pytest.raises(ConfigError, match=r"net.hidden_sizes is \(\); .*e.g. \(64,\)"):
        make(net=NetConfig(hidden_sizes=()))
    with pytest.raises(ConfigError, match=r"heads \(3\) share: e.g. \(6, 6\)"):
        make(heads=3)


@pytest.mark.parametrize("wanted", [None, 2.0])
def test_the_highest_return_of_a_whole_episode_is_wanted_unless_it_is_said(wanted):
    policy = make(target_return=wanted)
    assert policy._wanted() == (wanted or 0.0)  # nothing was seen yet
    begins = torch.tensor([True, False, True])
    policy.take_in_returns(torch.tensor([1.0, -3.0, 2.0]), torch.tensor([-5.0, 9.0, -4.0]), begins)
    assert (policy.reward_scale, policy.return_scale, policy.best_return) == (3.0, 9.0, -4.0)
    assert policy._wanted() == (wanted or -4.0)


def test_a_context_of_one_step_remembers_what_is_left_alone():
    policy = make(context=1, target_return=1.0)
    assert policy.default_policy_state.shape == (2,)
    result = policy.rollout(RolloutRequest(obs=np.zeros((2, 3), np.float32)))
    assert result.policy_state[:, 0].tolist() == [1.0, 1.0]
