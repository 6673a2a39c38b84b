import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import GAMMA, NET, OBS_SPACE, PROBES, assert_solved, train_onpolicy

from argosy.algorithm import TRPO, OptimConfig, Task, TRPOConfig
from argosy.data import Batch
from argosy.distributed import PolicySpec
from argosy.errors import ConfigError, DataError
from argosy.net import NetConfig
from argosy.ops import flat_gradient
from argosy.presets import preset

OBS = spaces.Box(-10, 10, (2,), np.float32)

CASES = {
    "discrete": (TRPOConfig(critic_steps=2), spaces.Discrete(3)),
    "multi-discrete": (TRPOConfig(critic_steps=1, normalize_adv=False, popart=True), spaces.MultiDiscrete([2, 3])),
    "box": (TRPOConfig(critic_steps=2, return_scaling=True), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
RANGES = [
    ("gae_lambda", 1.5),
    ("max_kl", 0.0),
    ("backtrack", 1.0),
    ("max_backtracks", 0),
    ("damping", 0.0),
    ("cg_steps", 0),
    ("critic_steps", 0),
]


def make(space=None, **config):
    net = NetConfig(hidden_sizes=(3,), activation="tanh")
    task = Task(observation_space=OBS, action_space=space or spaces.Discrete(2), net=net)
    return TRPO.make(TRPOConfig(**config), task, seed=0)


def rows_of(algorithm, N=40):
    """A minibatch that the present policy acted in."""
    torch.manual_seed(1)
    obs, act = torch.randn(N, 2), torch.randint(2, (N,))
    if isinstance(algorithm.policy.action_space, spaces.Box):
        act = torch.randn(N, 1)
    with torch.no_grad():
        logp = algorithm.policy.analyze(Batch(obs=obs, act=act)).logp
    return Batch(obs=obs, act=act, adv=torch.randn(N), logp=logp, cut=torch.ones(N, dtype=torch.bool))


def flat(parameters):
    return torch.cat([p.detach().flatten() for p in parameters])


def natural_gradient(algorithm, mb):
    """The natural gradient of mean(logp * adv) by the explicit Fisher matrix E[score score'], and that matrix."""
    policy, parameters = algorithm.policy, algorithm.policy.actor_parameters()
    gradient = flat_gradient((policy.analyze(mb).logp * mb.adv).mean(), parameters)
    matrix = torch.zeros(len(gradient), len(gradient))
    for i in range(len(mb.adv)):
        for a in range(2):
            row = Batch(obs=mb.obs[i : i + 1], act=torch.tensor([a]))
            logp = policy.analyze(row).logp
            score = flat_gradient(logp.sum(), parameters)
            matrix += logp.exp().detach() * torch.outer(score, score) / len(mb.adv)
    matrix += algorithm.config.damping * torch.eye(len(gradient))
    return torch.linalg.solve(matrix, gradient), matrix


def test_the_step_is_as_long_as_the_divergence_allows_along_the_natural_gradient():
    algorithm = make(max_kl=1e-4, cg_steps=30, damping=0.1)
    mb, parameters = rows_of(algorithm), algorithm.policy.actor_parameters()
    direction, matrix = natural_gradient(algorithm, mb)
    expected = (2e-4 / (direction @ matrix @ direction)).sqrt() * direction
    before = flat(parameters)
    metrics = algorithm._move_actor(mb)
    torch.testing.assert_close(flat(parameters) - before, metrics["step_share"] * expected, rtol=1e-3, atol=2e-6)
    assert metrics["loss_policy"].item() == pytest.approx(-mb.adv.mean().item(), rel=1e-5)  # all ratios are 1
    assert 0.0 < metrics["approx_kl"].item() <= 1e-4


def test_a_step_too_far_is_shortened_until_divergence_and_objective_are_right():
    algorithm = make(spaces.Box(-1.0, 1.0, (1,)), max_kl=0.5, backtrack=0.5, damping=1e-4)
    mb = rows_of(algorithm)
    metrics = algorithm._move_actor(mb)
    assert metrics["step_share"].item() in (0.5, 0.25, 0.125, 0.0625)
    after = algorithm.policy.analyze(mb)
    assert metrics["approx_kl"].item() <= 0.5
    assert -((after.logp - mb.logp).exp() * mb.adv).mean() < metrics["loss_policy"]


def test_where_no_step_is_right_the_actor_stays_exactly():
    algorithm = make(max_backtracks=3)
    mb, parameters = rows_of(algorithm), algorithm.policy.actor_parameters()
    before, analyze = flat(parameters), algorithm.policy.analyze

    def worse(sample):
        now = analyze(sample)
        return now if torch.is_grad_enabled() else Batch(logp=now.logp, kl_from=lambda old: torch.ones(40))

    algorithm.policy.analyze = worse
    metrics = algorithm._move_actor(mb)
    assert torch.equal(flat(parameters), before)
    assert (metrics["step_share"].item(), metrics["approx_kl"].item()) == (0.0, 0.0)


def test_the_critic_learns_by_itself():
    algorithm = make(critic_steps=7)
    policy = algorithm.policy
    actor = {id(p) for p in policy.actor_parameters()}
    assert [id(p) for p in policy.parameters() if id(p) not in actor] == [id(p) for p in policy.critic_parameters()]
    assert [id(p) for p in algorithm.optim.parameters] == [id(p) for p in policy.critic_parameters()]
    steps, step = [], algorithm.optim.step
    algorithm.optim.step = lambda loss: steps.append(loss.item()) or step(loss)
    stats = algorithm.update(rollout(algorithm))
    assert (len(steps), stats.gradient_steps) == (7, 8)
    assert steps[-1] < steps[0]
    assert stats.loss_value == pytest.approx(steps[-1])


def rollout(algorithm, T=8, B=4):
    rng = np.random.default_rng(0)
    obs, obs_next = rng.normal(size=(2, T, B, 2)).astype(np.float32)
    ends = np.arange(T)[:, None].repeat(B, 1) == T - 1
    batch = Batch(
        obs=obs, obs_next=obs_next, act=rng.integers(2, size=(T, B)), cut=ends, terminated=np.zeros((T, B), bool)
    )
    batch.rew = rng.normal(size=(T, B)).astype(np.float32)
    with torch.no_grad():
        logp = algorithm.policy.analyze(Batch(obs=torch.from_numpy(obs), act=torch.from_numpy(batch.act))).logp
    batch.policy = Batch(logp=logp.numpy())
    return batch


def test_what_is_not_finite_moves_nothing():
    algorithm = make()
    mb = rows_of(algorithm)
    mb.adv[3] = float("inf")
    before = flat(algorithm.policy.parameters())
    with pytest.raises(DataError, match="no parameter has changed"):
        algorithm._move_actor(mb)
    assert torch.equal(flat(algorithm.policy.parameters()), before)


def test_shared_layers_and_groups_of_trainers_are_refused():
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2), net=NetConfig(shared_backbone=True))
    with pytest.raises(ConfigError, match=r"net\.shared_backbone is True, but TRPO lets actor and critic learn apart"):
        TRPO.make(TRPOConfig(), task)
    with pytest.raises(ConfigError, match="trainers is 2, but TRPO learns in one trainer only"):
        PolicySpec(experiment=preset("trpo", "CartPole-v1"), trainers=2)


@pytest.mark.parametrize(
    ("space", "name"),
    [(space, name) for space in (spaces.Discrete(2), spaces.Box(-1.0, 1.0, (1,))) for name in PROBES],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_probes(space, name):
    config = TRPOConfig(gamma=GAMMA, optim=OptimConfig(lr=0.02), max_kl=0.05)
    algorithm = TRPO.make(config, Task(observation_space=OBS_SPACE, action_space=space, net=NET), seed=0)
    train_onpolicy(algorithm, name, 40)
    assert_solved(algorithm, name, lambda obs: algorithm.policy.analyze(Batch(obs=obs)).value)
