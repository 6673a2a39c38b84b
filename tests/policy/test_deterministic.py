import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.policy.deterministic import DeterministicPolicy

OBS = spaces.Box(-1, 1, (2,), np.float32)


def make(shape=(2,), **net):
    torch.manual_seed(0)
    return DeterministicPolicy(OBS, spaces.Box(-3.0, 3.0, shape, np.float32), NetConfig(**{"hidden_sizes": (), **net}))


def test_actions_are_the_tangent_of_the_network_and_stretched_at_the_border():
    policy = make()
    with torch.no_grad():
        policy.head.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, -2.0]]))
        policy.head.bias.copy_(torch.tensor([0.0, 1.0]))
    obs = np.array([[0.5, 0.5], [-100.0, -100.0]], np.float32)
    act = policy.rollout(RolloutRequest(obs=obs)).action
    assert act == pytest.approx(np.array([[np.tanh(0.5), 0.0], [-1.0, 1.0]]), abs=1e-6)
    assert act.dtype == np.float32
    assert policy.map_action(act) == pytest.approx(3.0 * act, abs=1e-6)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_acting_forward_and_analyses_agree(shape):
    policy = make(shape, hidden_sizes=(4,))
    obs = np.random.default_rng(0).uniform(-1, 1, (6, 2)).astype(np.float32)
    act = policy.rollout(RolloutRequest(obs=obs)).action
    assert act.shape == (6, *shape)
    assert policy(Batch(obs=obs)).act.detach().numpy() == pytest.approx(act, abs=1e-6)
    sample = Batch(
        obs=torch.from_numpy(obs.reshape(2, 3, 2)), obs_next=torch.from_numpy(obs[::-1].reshape(2, 3, 2).copy())
    )
    assert policy.analyze(sample).act.detach().numpy().reshape(6, *shape) == pytest.approx(act, abs=1e-6)
    assert policy.analyze_next(sample).act.detach().numpy().reshape(6, *shape) == pytest.approx(act[::-1], abs=1e-6)
    some = policy.analyze_next(sample, (torch.tensor([0, 1]), torch.tensor([2, 0])))
    assert some.act.detach().numpy() == pytest.approx(act[::-1][[2, 3]], abs=1e-6)
    assert policy.analyze(sample).act.requires_grad


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_steps_with_memory_give_the_actions_of_the_sequence(memory):
    policy = make(memory=memory, memory_size=3)
    obs = np.random.default_rng(0).uniform(-1, 1, (4, 2, 2)).astype(np.float32)
    state, states, actions = np.stack([policy.default_policy_state] * 2), [], []
    for row in obs:
        result = policy.rollout(RolloutRequest(obs=row, policy_state=state))
        states.append(state)
        actions.append(result.action)
        state = result.policy_state
    sample = Batch(obs=obs, on_reset=np.zeros((4, 2), bool), policy=Batch(state=np.stack(states)))
    sample.to_torch()
    assert policy.analyze(sample).act.detach().numpy() == pytest.approx(np.stack(actions), abs=1e-6)
    last = policy(Batch(obs=obs[3]), states[3])
    assert last.act.detach().numpy() == pytest.approx(actions[3], abs=1e-6)
    assert last.state.detach().numpy() == pytest.approx(state, abs=1e-6)
