import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.policy.implicit import ImplicitPolicy

OBS = spaces.Box(-1, 1, (4,), np.float32)


def make(space=OBS, **options):
    torch.manual_seed(1)
    return ImplicitPolicy(space, spaces.Discrete(3), NetConfig(hidden_sizes=(16, 8)), num_fractions=6, **options)


@pytest.mark.parametrize("proposes", [False, True])
def test_acting_is_what_the_analysis_says(proposes):
    policy, obs = make(proposes=proposes), np.random.default_rng(0).normal(0, 5, (50, 4)).astype(np.float32)
    policy.head.out.bias.data.zero_()
    result = policy(Batch(obs=obs))
    found = policy.analyze(Batch(obs=torch.from_numpy(obs), act=torch.zeros(50, dtype=torch.int64)))
    assert len(set(result.act.tolist())) > 1
    assert torch.equal(found.greedy, result.act)
    assert policy.rollout(RolloutRequest(obs=obs)).action.tolist() == result.act.tolist()
    middles = found.shares.cumsum(-1) - found.shares / 2
    mean = (found.quantiles_taken(middles) * found.shares).sum(-1)
    torch.testing.assert_close(mean, result.logits[:, 0])
    with pytest.raises(AssertionError, match="successors have no stored actions"):
        policy.analyze_next(Batch(obs_next=torch.from_numpy(obs))).quantiles_taken(middles)


def test_leading_axes_are_kept_and_forbidden_actions_are_not_greedy():
    policy = make(spaces.Dict({"x": OBS, "mask": spaces.MultiBinary(3)}))
    obs = {"x": torch.randn(3, 2, 4), "mask": torch.tensor([[0, 1, 0], [0, 0, 1]]).expand(3, 2, 3)}
    found = policy.analyze(Batch(obs=obs, act=torch.ones(3, 2, dtype=torch.int64)))
    assert found.greedy.tolist() == [[1, 2]] * 3
    assert found.quantiles_taken(torch.rand(3, 2, 5)).shape == (3, 2, 5)


def test_the_last_hidden_layer_comes_behind_the_embedding_and_an_only_one_on_both_sides():
    assert make().backbone.out_features == 16
    assert make().head.hidden.out_features == 8
    only = ImplicitPolicy(OBS, spaces.Discrete(2), NetConfig(hidden_sizes=(5,)))
    assert (only.backbone.out_features, only.head.hidden.out_features) == (5, 5)
    image = ImplicitPolicy(spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(2), NetConfig(cnn_features=32))
    assert (image.head.embed.out_features, image.head.hidden.out_features) == (3136, 32)
