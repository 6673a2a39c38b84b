import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.errors import CheckpointError, ConfigError, SpaceError
from argosy.net import NetConfig
from argosy.policy import ActorCriticPolicy, EpsilonConfig, NoiseConfig, QPolicy, RolloutRequest, SquashedGaussianPolicy
from argosy.policy.deterministic import DeterministicPolicy
from argosy.policy.quantile import QuantilePolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
UNBOUNDED = spaces.Box(-np.inf, np.inf, (2,), np.float32)


def actor(space, **settings):
    return ActorCriticPolicy(OBS, space, **settings)


def test_actions_are_clipped_and_stretched_to_the_bounds():
    policy = actor(BOX)
    act = np.array([[0.0, 0.0], [1.0, -1.0], [3.0, -3.0]], dtype=np.float32)
    out = policy.map_action(act)
    assert out.tolist() == [[0.0, 5.0], [2.0, 0.0], [2.0, 0.0]]
    assert out.dtype == BOX.dtype
    assert act[2].tolist() == [3.0, -3.0]  # what is stored stays as it was


def test_tanh_squashes_before_stretching():
    out = actor(BOX, action_bound_method="tanh").map_action(np.array([[0.5, -50.0]], dtype=np.float32))
    assert out[0] == pytest.approx([2 * np.tanh(0.5), 0.0])


def test_without_scaling_actions_are_clipped_to_the_space_itself():
    policy = actor(BOX, action_scaling=False)
    assert policy.map_action(np.array([[-3.0, 4.0]])).tolist() == [[-2.0, 4.0]]
    assert policy.map_action_inverse(np.array([[1.0, 4.0]])).tolist() == [[1.0, 4.0]]


def test_no_bound_method_lets_actions_through():
    policy = actor(BOX, action_scaling=False, action_bound_method=None)
    assert policy.map_action(np.array([[-3.0, 40.0]])).tolist() == [[-3.0, 40.0]]


def test_unbounded_boxes_are_neither_scaled_nor_clipped():
    policy = actor(UNBOUNDED)
    assert not policy.action_scaling
    assert policy.map_action(np.array([[-30.0, 40.0]])).tolist() == [[-30.0, 40.0]]


@pytest.mark.parametrize("method", ["clip", "tanh"])
def test_inverse_undoes_map_action(method):
    policy = actor(BOX, action_bound_method=method)
    act = np.array([[0.25, -0.75]], dtype=np.float32)
    assert policy.map_action_inverse(policy.map_action(act)) == pytest.approx(act, abs=1e-5)
    assert np.isfinite(policy.map_action_inverse(BOX.high[None])).all()


def test_discrete_actions_count_from_the_spaces_start():
    policy = QPolicy(OBS, spaces.Discrete(3, start=5))
    assert policy.map_action(np.array([0, 2])).tolist() == [5, 7]
    assert policy.map_action_inverse(np.array([5, 7])).tolist() == [0, 2]
    policy = actor(spaces.MultiDiscrete([2, 3], start=[1, 10]))
    assert policy.map_action(np.array([[0, 2]])).tolist() == [[1, 12]]


@pytest.mark.parametrize(
    ("space", "settings", "message"),
    [
        (spaces.Discrete(2), {"action_scaling": True}, "action_scaling is True, but only Box"),
        (spaces.Discrete(2), {"action_bound_method": "tanh"}, "action_bound_method is 'tanh', but Discrete"),
        (BOX, {"action_bound_method": "squash"}, "'squash'; it must be one of 'auto', 'clip', 'tanh', None"),
        (UNBOUNDED, {"action_scaling": True}, "infinite bounds"),
        (BOX, {"action_scaling": False, "action_bound_method": "tanh"}, "needs action_scaling"),
    ],
)
def test_settings_that_contradict_the_space_are_refused(space, settings, message):
    with pytest.raises(ConfigError, match=message):
        actor(space, **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QPolicy(OBS, BOX), "QPolicy acts in Discrete spaces, not in Box"),
        (
            lambda: SquashedGaussianPolicy(OBS, spaces.Discrete(2)),
            "SquashedGaussianPolicy acts in Box spaces, not in Discrete",
        ),
        (lambda: SquashedGaussianPolicy(OBS, UNBOUNDED), "infinite"),
        (lambda: DeterministicPolicy(OBS, UNBOUNDED), "infinite"),
        (lambda: actor(spaces.MultiDiscrete([[2, 3], [4, 5]])), "one axis"),
        (lambda: actor(spaces.MultiBinary((2, 2))), "one axis"),
        (lambda: actor(spaces.Text(2)), "Discrete or MultiDiscrete or MultiBinary or Box spaces, not in Text"),
    ],
)
def test_wrong_action_spaces_are_refused(make, message):
    with pytest.raises(SpaceError, match=message):
        make()


def exploring(policy, exploration):
    policy.explore_by(exploration)
    return policy


POLICIES = {
    "q": lambda: exploring(QPolicy(OBS, spaces.Discrete(3)), EpsilonConfig().build(3)),
    "quantile": lambda: exploring(QuantilePolicy(OBS, spaces.Discrete(3), num_quantiles=5), EpsilonConfig().build(3)),
    "deterministic": lambda: exploring(DeterministicPolicy(OBS, BOX, NetConfig()), NoiseConfig().build(2)),
    "categorical": lambda: actor(spaces.Discrete(3)),
    "multi-categorical": lambda: actor(spaces.MultiDiscrete([2, 3])),
    "gaussian": lambda: actor(BOX),
    "squashed gaussian": lambda: SquashedGaussianPolicy(OBS, BOX, NetConfig()),
}


def observations(count=6):
    return np.random.default_rng(0).uniform(-1, 1, (count, 3)).astype(np.float32)


@pytest.mark.parametrize("name", POLICIES)
def test_a_checkpoint_carries_over_how_a_policy_acts(name):
    source, copied = POLICIES[name](), POLICIES[name]()
    source.version = 7
    checkpoint = pickle.loads(pickle.dumps(source.get_checkpoint()))
    copied.load_checkpoint(checkpoint)
    assert copied.version == 7
    for policy in (source, copied):
        policy.seed(3)
    request = RolloutRequest(obs=observations())
    assert np.array_equal(source.rollout(request).action, copied.rollout(request).action)


@pytest.mark.parametrize("name", POLICIES)
def test_a_checkpoint_is_a_copy_without_optimiser(name):
    policy = POLICIES[name]()
    checkpoint = policy.get_checkpoint()
    before = {key: value.clone() for key, value in checkpoint["state_dict"].items()}
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(checkpoint["state_dict"][key], value) for key, value in before.items())
    assert set(checkpoint) == {"version", "state_dict"}


def test_a_foreign_checkpoint_is_refused():
    policy = POLICIES["q"]()
    before = policy.get_checkpoint()["state_dict"]
    with pytest.raises(CheckpointError, match="does not fit this QPolicy"):
        policy.load_checkpoint(QPolicy(OBS, spaces.Discrete(4)).get_checkpoint())
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())  # nor a part of it


@pytest.mark.parametrize("name", POLICIES)
def test_evaluating_rows_are_greedy_while_others_explore(name):
    policy = POLICIES[name]()
    with torch.no_grad():  # an actor's last layer starts so small that all modes would be alike
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    obs = np.repeat(observations(1), 400, axis=0)
    evaluating = np.arange(400) % 2 == 0
    act = policy.rollout(RolloutRequest(obs=obs, is_evaluation=evaluating)).action
    greedy = policy.forward(RolloutRequest(obs=obs[:1])).act.detach().numpy()
    assert act[evaluating] == pytest.approx(np.repeat(greedy, 200, axis=0), abs=1e-5)
    assert len(np.unique(act[~evaluating], axis=0)) > 1
    everyone = policy.rollout(RolloutRequest(obs=obs, is_evaluation=np.ones(400, bool))).action
    assert everyone == pytest.approx(np.repeat(greedy, 400, axis=0), abs=1e-5)


@pytest.mark.parametrize("name", POLICIES)
def test_equal_seeds_give_equal_actions_and_leave_global_generators_alone(name):
    policy = POLICIES[name]()
    request = RolloutRequest(obs=observations(32))
    policy.seed(1)
    before = torch.get_rng_state()
    first = policy.rollout(request).action
    assert torch.equal(torch.get_rng_state(), before)
    policy.seed(2)
    other = policy.rollout(request).action
    policy.seed(1)
    assert np.array_equal(policy.rollout(request).action, first)
    assert not np.array_equal(other, first)


@pytest.mark.parametrize("name", POLICIES)
def test_rollout_gives_arrays_without_gradient(name):
    policy = POLICIES[name]()
    result = policy.rollout(RolloutRequest(obs=observations().astype(np.float64)))
    assert isinstance(result.action, np.ndarray)
    assert result.action.shape == (6, *policy.action_space.shape)
    assert result.action.dtype == (np.float32 if isinstance(policy.action_space, spaces.Box) else np.int64)
    assert result.policy_state is None
    assert all(parameter.grad is None for parameter in policy.parameters())


@pytest.mark.parametrize("name", POLICIES)
def test_policies_can_be_copied_and_pickled(name):
    policy = POLICIES[name]()
    policy.rollout(RolloutRequest(obs=observations()))
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert other.device == policy.device
        with torch.no_grad():
            next(other.parameters()).add_(1.0)
        assert not torch.equal(next(other.parameters()), next(policy.parameters()))


@pytest.mark.parametrize(
    ("net", "noise"),
    [({"memory": "gru"}, "gaussian"), ({}, "ou"), ({"memory": "lstm"}, "ou"), ({"memory": "gru"}, None)],
)
def test_without_a_state_every_row_starts_an_episode(net, noise):
    policy = DeterministicPolicy(OBS, BOX, NetConfig(**net))
    if noise is not None:
        policy.explore_by(NoiseConfig(noise=noise).build(2))
    obs = np.ones((4, 3), np.float32)
    results = []
    for state in (None, np.stack([policy.default_policy_state] * 4)):
        policy.seed(0)
        results.append(policy.rollout(RolloutRequest(obs=obs, policy_state=state)))
    assert (results[0].action == results[1].action).all()
    assert (results[0].policy_state == results[1].policy_state).all()
    assert results[0].policy_state.shape == (4, len(policy.default_policy_state))
