"""Actions of several parts, each chosen by its own branch."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.errors import ConfigError, SpaceError
from argosy.net import NetConfig
from argosy.net.heads import BranchingHead
from argosy.policy import EpsilonConfig, RolloutRequest
from argosy.policy.branching import BranchingPolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)
PARTS = spaces.MultiDiscrete([2, 4], start=[10, 20])
BOX = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32))
NET = NetConfig(hidden_sizes=(8, 6))


def test_head_is_value_and_centred_advantages_by_hand():
    torch.manual_seed(0)
    head = BranchingHead(3, 5, (2, 4))
    x = torch.randn(7, 3)
    found = head(x)
    hidden = (x @ head.hidden.weight + head.hidden.bias).relu()
    value = hidden[:, :5] @ head.value.weight + head.value.bias
    for part, size in enumerate((2, 4)):
        stream = hidden[:, 5 * (part + 1) : 5 * (part + 2)]
        adv = (stream @ head.advantage.weight[part] + head.advantage.bias[part])[:, :size]
        torch.testing.assert_close(found[:, part, :size], value + adv - adv.mean(dim=-1, keepdim=True))
    assert head(x.reshape(7, 1, 3)).shape == (7, 1, 2, 4)


def test_shared_layers_get_a_share_of_the_gradient():
    torch.manual_seed(0)
    head = BranchingHead(3, 5, (2, 4))
    x = torch.randn(7, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(head(x).sum(), x)
    plain = torch.autograd.grad(_undivided(head, x).sum(), x)[0]
    torch.testing.assert_close(gradient, plain / 3)


def _undivided(head, x):
    hidden = (x @ head.hidden.weight + head.hidden.bias).relu().reshape(-1, 3, 5)
    adv = torch.stack([hidden[:, k + 1] @ head.advantage.weight[k] + head.advantage.bias[k] for k in range(2)], 1)
    return (hidden[:, 0] @ head.value.weight + head.value.bias).unsqueeze(-1) + adv - (adv * head.share).sum(-1, True)


def test_actions_of_a_multi_discrete():
    policy = BranchingPolicy(OBS, PARTS, NET)
    obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    greedy = policy.rollout(RolloutRequest(obs=obs)).action
    assert (greedy.shape, greedy.dtype) == ((50, 2), np.int64)
    assert (greedy < [2, 4]).all()
    assert np.array_equal(greedy, policy(Batch(obs=torch.from_numpy(obs))).act.numpy())
    act, _ = policy.predict(obs)
    assert np.array_equal(act, np.add(greedy, [10, 20]))


def test_actions_of_a_box_are_its_bins():
    policy = BranchingPolicy(OBS, BOX, NET, bins=5)
    obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    policy.explore_by(EpsilonConfig().build(policy.num_actions))
    act = policy.rollout(RolloutRequest(obs=obs)).action
    assert (act.shape, act.dtype) == ((50, 2), np.float32)
    assert set(act.ravel().tolist()) == {-1.0, -0.5, 0.0, 0.5, 1.0}
    assert policy.map_action(act).max(axis=0).tolist() == [2.0, 1.0]
    choices = policy.choices(torch.from_numpy(act))
    assert torch.equal(policy.actions(choices), torch.from_numpy(act))
    assert policy.choices(torch.tensor([[0.2, 0.3], [-7.0, 7.0]])).tolist() == [[2, 3], [0, 4]]  # the nearest


def test_exploring_rows_draw_all_parts_among_the_allowed_choices():
    masked = spaces.Dict({"obs": OBS, "action_mask": spaces.MultiBinary(6)})
    policy = BranchingPolicy(masked, PARTS, NET)
    policy.seed(0)
    policy.explore_by(EpsilonConfig(eps_start=0.5).build(policy.num_actions))
    obs = {"obs": np.zeros((4000, 3), np.float32), "action_mask": np.tile(np.int8([1, 1, 1, 0, 1, 0]), (4000, 1))}
    greedy = policy.rollout(RolloutRequest(obs=obs, is_evaluation=np.ones(4000, bool))).action
    assert (greedy == greedy[0]).all()
    act = policy.rollout(RolloutRequest(obs=obs)).action
    assert sorted({tuple(row) for row in act.tolist()}) == [(0, 0), (0, 2), (1, 0), (1, 2)]
    assert (act != greedy).any(axis=1).mean() == pytest.approx(0.5 * 3 / 4, abs=0.03)  # whole rows explore


@pytest.mark.parametrize(
    ("space", "bins", "error", "message"),
    [
        (spaces.MultiDiscrete([[2, 3]]), 5, SpaceError, "one axis"),
        (spaces.Box(-np.inf, np.inf, (2,)), 5, SpaceError, "needs bounds"),
        (BOX, 1, ConfigError, "bins is 1; it must be >= 2"),
        (spaces.Discrete(3), 5, SpaceError, "MultiDiscrete or Box"),
    ],
)
def test_what_it_cannot_act_in(space, bins, error, message):
    with pytest.raises(error, match=message):
        BranchingPolicy(OBS, space, NET, bins=bins)
