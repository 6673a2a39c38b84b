"""All discrete policies honour an action mask in a dict observation, in rollout, forward and analyze."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.errors import SpaceError
from argosy.policy import ActorCriticPolicy, EpsilonConfig, QPolicy, RolloutRequest
from argosy.policy.quantile import QuantilePolicy


def dict_space(mask_key, size, mask_space=None):
    return spaces.Dict({"x": spaces.Box(-1, 1, (2,), np.float32), mask_key: mask_space or spaces.MultiBinary(size)})


def request(mask_key, mask):
    count = len(mask)
    x = np.random.default_rng(0).uniform(-1, 1, (count, 2)).astype(np.float32)
    return {"x": x, mask_key: mask}


@pytest.mark.parametrize("mask_key", ["action_mask", "mask"])
@pytest.mark.parametrize("dtype", [np.int8, bool, np.float32])
@pytest.mark.parametrize("policy_class", [QPolicy, QuantilePolicy, ActorCriticPolicy])
def test_forbidden_actions_are_never_taken(policy_class, mask_key, dtype):
    policy = policy_class(dict_space(mask_key, 4, spaces.Box(0, 1, (4,), np.float32)), spaces.Discrete(4))
    assert policy.mask_key == mask_key
    if policy_class is not ActorCriticPolicy:
        policy.explore_by(EpsilonConfig(eps_start=0.5).build(4))
    mask = np.random.default_rng(1).random((500, 4)) < 0.5
    mask[np.arange(500), np.arange(500) % 4] = True
    obs = request(mask_key, mask.astype(dtype))
    for evaluating in (None, np.ones(500, bool)):
        act = policy.rollout(RolloutRequest(obs=obs, is_evaluation=evaluating)).action
        assert mask[np.arange(500), act].all()
    greedy = policy(Batch(obs=obs)).act.numpy()
    assert mask[np.arange(500), greedy].all()


def test_random_actions_are_uniform_among_the_allowed_ones():
    policy = QPolicy(dict_space("mask", 4), spaces.Discrete(4))
    policy.explore_by(EpsilonConfig(eps_start=1.0).build(4))
    obs = request("mask", np.tile(np.array([1, 0, 1, 1], np.int8), (30_000, 1)))
    share = np.bincount(policy.rollout(RolloutRequest(obs=obs)).action, minlength=4) / 30_000
    assert share == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3], abs=0.015)


def test_probabilities_are_renormalised_over_the_allowed_actions():
    policy = ActorCriticPolicy(dict_space("mask", 3), spaces.Discrete(3))
    with torch.no_grad():
        for parameter in policy.action_head.parameters():
            parameter.zero_()  # uniform
    obs = request("mask", np.array([[1, 1, 0], [0, 1, 0]], np.int8))
    sample = Batch(obs={key: torch.from_numpy(value) for key, value in obs.items()}, act=torch.tensor([0, 1]))
    result = policy.analyze(sample)
    assert result.logp.tolist() == pytest.approx([np.log(0.5), 0.0])
    assert result.entropy.tolist() == pytest.approx([np.log(2), 0.0], abs=1e-6)
    result.entropy.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in policy.parameters() if p.grad is not None)


def test_multi_discrete_masks_are_side_by_side():
    policy = ActorCriticPolicy(dict_space("mask", 5), spaces.MultiDiscrete([2, 3]))
    obs = request("mask", np.tile(np.array([0, 1, 1, 0, 1], np.int8), (300, 1)))
    act = policy.rollout(RolloutRequest(obs=obs)).action
    assert (act[:, 0] == 1).all()
    assert set(act[:, 1]) == {0, 2}


def test_a_part_whose_mask_allows_nothing_still_draws_one_of_its_choices():
    policy = ActorCriticPolicy(dict_space("mask", 7), spaces.MultiDiscrete([2, 5]))
    obs = request("mask", np.tile(np.array([0, 0, 1, 1, 1, 1, 1], np.int8), (300, 1)))
    assert policy.rollout(RolloutRequest(obs=obs)).action[:, 0].max() == 1
    sample = Batch(obs={key: torch.from_numpy(value) for key, value in obs.items()}, act=torch.zeros(300, 2, dtype=int))
    assert policy.analyze(sample).logp.exp().mul(10.0).tolist() == pytest.approx([1.0] * 300, rel=0.5)


def test_the_networks_do_not_see_the_mask():
    policy = QPolicy(dict_space("mask", 4), spaces.Discrete(4))
    assert policy.backbone.encoder.out_features == 2


@pytest.mark.parametrize(("key", "shape"), [("action_mask", (7,)), ("action_mask", (2, 2)), ("mask", (3,))])
@pytest.mark.parametrize("action_space", [spaces.Discrete(4), spaces.MultiDiscrete([2, 2])])
def test_a_mask_of_another_length_is_refused(key, shape, action_space):
    with pytest.raises(SpaceError, match=rf"{key}' has shape .*, but an action mask for .* has \(4,\)"):
        ActorCriticPolicy(dict_space(key, 0, spaces.Box(0, 1, shape, np.int8)), action_space)


def test_a_picture_called_mask_is_an_ordinary_observation():
    policy = QPolicy(dict_space("mask", 0, spaces.Box(0, 1, (3, 3), np.float32)), spaces.Discrete(4))
    assert policy.mask_key is None
    assert policy.backbone.encoder.out_features == 11
