import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.algorithm import (
    A2C,
    PPO,
    REINFORCE,
    SAC,
    A2CConfig,
    OptimConfig,
    PPGConfig,
    PPOConfig,
    REINFORCEConfig,
    SACConfig,
    Task,
)
from argosy.data import Batch
from argosy.errors import ConfigError, SpaceError
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.policy.state_dependent import (
    KeptNoise,
    StateDependentActorCriticPolicy,
    StateDependentGaussianPolicy,
    log_std_of,
)
from argosy.rng import Rng

OBS, BOX = spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32)
NET = NetConfig(hidden_sizes=(8,))
KINDS = {"squashed": StateDependentGaussianPolicy, "actor-critic": StateDependentActorCriticPolicy}


def make(kind, steps=4, **settings):
    torch.manual_seed(0)
    settings.setdefault("log_std_init", -0.5)
    policy = KINDS[kind](OBS, BOX, NET, noise_steps=steps, **settings)
    policy.seed(0)
    return policy


def before_bounds(kind, act):
    return np.arctanh(act) if kind == "squashed" else act


def start(policy, rows):
    return np.repeat(policy.default_policy_state[None], rows, axis=0)


def test_deviation_by_hand():
    # variance of features (2, 0) with deviations (0.5, 3) and (1, 7): 4 * 0.25 and 4 * 1
    log_std = torch.tensor([[0.5, 1.0], [3.0, 7.0]]).log()
    assert log_std_of(torch.tensor([2.0, 0.0]), log_std).exp().tolist() == pytest.approx([1.0, 2.0], rel=1e-5)
    features = torch.ones(3, 2, requires_grad=True)
    assert not log_std_of(features, log_std.requires_grad_()).sum().isnan()
    (gradient,) = torch.autograd.grad(log_std_of(features, log_std).sum(), features, allow_unused=True)
    assert gradient is None


def test_weights_are_kept_for_so_many_steps_and_drawn_anew_where_an_episode_begins():
    noise, rng = KeptNoise(3, 2, steps=3), Rng(0)
    state, ones, seen = np.zeros((2, noise.state_size), np.float32), np.ones((2, 3, 2), np.float32), []
    for t in range(7):
        if t == 4:
            state[1] = 0.0  # its episode begins
        drawn, state = noise.explore(ones, None, rng, None, state)
        seen.append(drawn[:, 0].tolist())
    first, second = zip(*seen, strict=True)
    assert [first[t] == first[t - 1] for t in range(1, 7)] == [True, True, False, True, True, False]
    assert [second[t] == second[t - 1] for t in range(1, 7)] == [True, True, False, False, True, True]
    assert first[0] != second[0]


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_a_function_of_what_is_seen_while_weights_are_kept(kind):
    policy = make(kind, steps=1000)
    obs = np.random.default_rng(0).uniform(-1, 1, (2, 3)).astype(np.float32)
    state, acts = start(policy, 1), []
    for t in (0, 1, 0, 1):
        result = policy.rollout(RolloutRequest(obs=obs[t : t + 1], policy_state=state))
        state = result.policy_state
        acts.append(result.action)
    assert np.array_equal(acts[0], acts[2])
    assert np.array_equal(acts[1], acts[3])
    assert not np.array_equal(acts[0], acts[1])


@pytest.mark.parametrize("kind", KINDS)
def test_over_many_draws_actions_have_the_distribution_that_is_learned_from(kind):
    policy = make(kind)
    obs = np.full((40_000, 3), 0.7, np.float32)
    act = before_bounds(kind, policy.rollout(RolloutRequest(obs=obs)).action)
    sample = Batch(obs=torch.from_numpy(obs[:1]), act=torch.zeros(1, 2))
    if kind == "squashed":
        analysis = policy.analyze(sample)
        mean, std = analysis.mean[0], analysis.log_std[0].exp()
    else:
        params = policy.analyze(sample).params
        mean, std = params[0, :2], log_std_of(params[0, 2:], policy.action_head.log_std).exp()
    assert act.mean(0) == pytest.approx(mean.detach().numpy(), abs=0.02)
    assert act.std(0) == pytest.approx(std.detach().numpy(), rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluating_rows_have_no_noise_and_mixed_ones_do_not_mix(kind):
    policy = make(kind)
    evaluates = np.arange(10) % 2 == 0
    obs = np.full((10, 3), 0.3, np.float32)
    act = policy.rollout(RolloutRequest(obs=obs, policy_state=start(policy, 10), is_evaluation=evaluates)).action
    plain = policy(Batch(obs=obs[:1])).act.detach().numpy()
    assert act[evaluates] == pytest.approx(np.repeat(plain, 5, axis=0), abs=1e-6)
    assert len(np.unique(act[~evaluates])) == 10


def test_stored_log_probabilities_are_those_that_are_learned_from():
    policy = make("actor-critic")
    obs = np.random.default_rng(0).uniform(-1, 1, (50, 3)).astype(np.float32)
    result = policy.rollout(RolloutRequest(obs=obs))
    analysis = policy.analyze(Batch(obs=torch.from_numpy(obs), act=torch.from_numpy(result.action)))
    np.testing.assert_allclose(analysis.logp.detach().numpy(), result.analyzed_result.logp, rtol=1e-4, atol=1e-4)
    params = analysis.params
    std = log_std_of(params[:, 2:], policy.action_head.log_std).exp()
    normal = torch.distributions.Normal(params[:, :2], std)
    torch.testing.assert_close(analysis.logp, normal.log_prob(torch.from_numpy(result.action)).sum(-1))
    torch.testing.assert_close(analysis.entropy, normal.entropy().sum(-1))
    other = torch.distributions.Normal(params[:, :2] + 0.3, 2.0 * std)
    distribution = torch.stack((other.mean, other.stddev.log()), dim=-2)
    expected = torch.distributions.kl_divergence(other, normal).sum(-1)
    torch.testing.assert_close(analysis.kl_from(distribution), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_with_memory_states_are_the_memorys_and_the_noises(kind):
    torch.manual_seed(0)
    net = NetConfig(hidden_sizes=(8,), memory="gru", memory_size=5)
    policy = KINDS[kind](OBS, BOX, net, noise_steps=2, log_std_init=-0.5)
    memory = policy.default_policy_state.size - (8 * 2 + 1)
    assert memory == (5 if kind == "squashed" else 10)
    state = policy.rollout(RolloutRequest(obs=np.ones((3, 3), np.float32), policy_state=start(policy, 3))).policy_state
    assert state.shape == (3, policy.default_policy_state.size)
    assert state[:, -1].tolist() == [1.0] * 3
    assert np.abs(state[:, :memory]).max() < 1.0  # a GRU's
    assert np.abs(state[:, memory:-1]).max() > 1.0


def test_only_continuous_actions_have_it():
    with pytest.raises(SpaceError, match=r"gsde_steps is 4; it acts in Box spaces, not in Discrete"):
        StateDependentActorCriticPolicy(OBS, spaces.Discrete(2), noise_steps=4)


@pytest.mark.parametrize(
    ("cls", "config"), [(PPO, PPOConfig), (A2C, A2CConfig), (REINFORCE, REINFORCEConfig), (SAC, SACConfig)]
)
def test_a_config_names_it(cls, config):
    task = Task(observation_space=OBS, action_space=BOX, net=NET)
    policy = cls.make(config(gsde_steps=5), task, seed=0).policy
    assert isinstance(policy, tuple(KINDS.values()))
    assert policy.exploration.steps == 5
    assert not isinstance(cls.make(config(), task, seed=0).policy, tuple(KINDS.values()))


def test_the_critic_s_features_can_be_the_actor_s():
    policy = StateDependentActorCriticPolicy(
        OBS, BOX, NetConfig(hidden_sizes=(8,), shared_backbone=True), noise_steps=4
    )
    stored = policy.rollout(RolloutRequest(obs=np.ones((3, 3), np.float32))).analyzed_result
    assert stored.value.shape == stored.logp.shape == (3,)


def test_deviations_are_learned():
    """A bandit whose best action is known: the noise becomes small."""
    config = SACConfig(
        gsde_steps=4, gsde_log_std_init=0.0, alpha=1e-3, auto_alpha=False, actor_optim=OptimConfig(lr=0.01)
    )
    algorithm = SAC.make(
        config, Task(observation_space=OBS, action_space=BOX, net=NetConfig(hidden_sizes=(32,))), seed=0
    )
    before, rng = algorithm.policy.log_std.mean().item(), np.random.default_rng(0)
    for _ in range(200):
        obs, act = rng.uniform(-1, 1, (64, 3)).astype(np.float32), rng.uniform(-1, 1, (64, 2)).astype(np.float32)
        fields = {"obs": obs, "obs_next": obs, "act": act, "rew": -np.square(act).sum(-1)}
        algorithm.update(Batch(**fields, discount=np.zeros(64, np.float32), weight=np.ones(64, np.float32)))
    assert algorithm.policy.log_std.mean().item() < before - 0.3


def test_a_policy_of_another_kind_refuses_it():
    with pytest.raises(ConfigError, match=r"PPGConfig\.gsde_steps is 4"):
        PPGConfig(gsde_steps=4)


def test_wide_noise_is_learned_from_as_it_is_drawn():
    policy = make("squashed")
    with torch.no_grad():
        policy.log_std.fill_(2.0)
    obs = torch.full((1, 3), 0.7)
    features = policy.head(policy.actor.features(Batch(obs=obs)))[:, 2:]
    analysis = policy.analyze(Batch(obs=obs, act=torch.zeros(1, 2)))
    want = log_std_of(features, policy.log_std)
    torch.testing.assert_close(analysis.log_std, want)


def test_with_memory_it_acts_without_what_only_its_critic_sees():
    space = spaces.Dict(seen=spaces.Box(-1, 1, (3,)), hidden=spaces.Box(-1, 1, (2,)))
    net = NetConfig(hidden_sizes=(8,), memory="gru", memory_size=4, critic_only=("hidden",))
    policy = StateDependentActorCriticPolicy(space, spaces.Box(-1, 1, (1,)), net, noise_steps=4)
    act, _ = policy.predict({"seen": np.zeros(3, np.float32)}, deterministic=False)
    assert act.shape == (1,)
