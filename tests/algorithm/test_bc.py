import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gymnasium import spaces
from stand_ins import Recorder

from argosy.algorithm import BC, BCConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.errors import ConfigError
from argosy.net import NetConfig
from argosy.policy import RolloutRequest

OBS = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)

CASES = {
    "discrete": (BCConfig(), spaces.Discrete(3)),
    "multi-discrete": (BCConfig(optim=OptimConfig(kind="adamw", weight_decay=0.01)), spaces.MultiDiscrete([2, 3])),
    "box": (BCConfig(optim=OptimConfig(max_grad_norm=0.5)), BOX),
}
BOOTSTRAPS = False
RANGES = [("gamma", 1.5), ("log_std_init", 5.0)]


def make(space=None, net=None, **config):
    net = net or NetConfig(hidden_sizes=(16,))
    task = Task(observation_space=OBS, action_space=space or spaces.Discrete(3), net=net)
    return BC.make(BCConfig(**config), task, seed=0)


def batch(act, seed=0, **changes):
    act = np.asarray(act)
    obs = np.random.default_rng(seed).uniform(-1, 1, (len(act), 3)).astype(np.float32)
    return Batch({"obs": obs, "act": act, "weight": np.ones(len(act), np.float32), **changes})


def test_loss_by_hand():
    algorithm = make()
    algorithm.optim = Recorder()
    algorithm.policy.analyze = lambda sample: Batch(logp=torch.tensor([-1.0, -3.0]), entropy=torch.tensor([0.5, 0.7]))
    stats = algorithm.update(batch([0, 1], weight=np.array([1.0, 0.5], np.float32)))
    assert algorithm.optim.losses[0].item() == pytest.approx((1.0 + 0.5 * 3.0) / 2)
    assert (stats.loss, stats.entropy, stats.grad_norm) == (pytest.approx(1.25), pytest.approx(0.6), None)


def test_of_choices_it_is_the_cross_entropy():
    algorithm = make()
    data = batch([0, 2, 1, 1])
    logits = algorithm.policy(Batch(obs=data.obs)).logits
    assert algorithm.update(data).loss == pytest.approx(F.cross_entropy(logits, torch.tensor([0, 2, 1, 1])).item())


def test_of_numbers_it_is_the_density_of_a_gaussian_with_the_configured_deviation():
    algorithm = make(BOX, log_std_init=-1.0)
    data = batch(np.zeros((4, 2), np.float32))
    mean = algorithm.policy(Batch(obs=data.obs)).logits
    squares = (mean / math.exp(-1.0)).square().sum(-1).mean().item()
    assert algorithm.update(data).loss == pytest.approx(
        0.5 * squares + 2 * (0.5 * math.log(2 * math.pi) - 1.0), rel=1e-5
    )


def test_there_is_no_critic_and_nothing_is_looked_at_but_actions():
    algorithm = make()
    assert not any("critic" in name or "value" in name for name, _ in algorithm.policy.named_parameters())
    plain, other = make(), make()
    rows = {
        "rew": np.ones(4, np.float32),
        "obs_next": np.full((4, 3), 7, np.float32),
        "discount": np.ones(4, np.float32),
    }
    plain.update(batch([0, 1, 2, 0]))
    other.update(batch([0, 1, 2, 0], **rows))
    for a, b in zip(plain.policy.parameters(), other.policy.parameters(), strict=True):
        assert torch.equal(a, b)


def test_does_as_the_data_do():
    algorithm = make(optim=OptimConfig(lr=0.02))
    rng = np.random.default_rng(0)

    def draw(count):
        obs = rng.uniform(-1, 1, (count, 3)).astype(np.float32)
        return obs, obs.argmax(axis=1)

    for _ in range(200):
        obs, act = draw(64)
        stats = algorithm.update(batch(act, obs=obs))
    assert stats.loss < 0.3
    obs, act = draw(500)
    found = algorithm.policy.rollout(RolloutRequest(obs=obs, is_evaluation=np.ones(500, bool))).action
    assert (found == act).mean() > 0.9


def test_finds_mean_and_deviation_of_noisy_actions():
    algorithm = make(spaces.Box(-2.0, 2.0, (1,), np.float32), NetConfig(hidden_sizes=()), optim=OptimConfig(lr=0.02))
    rng = np.random.default_rng(0)
    for _ in range(500):
        obs = rng.uniform(-1, 1, (128, 3)).astype(np.float32)
        act = obs[:, :1] - 0.5 * obs[:, 1:2] + rng.normal(0.0, 0.2, (128, 1))
        algorithm.update(batch(act.astype(np.float32), obs=obs))
    head = algorithm.policy.action_head
    assert head.output.weight[:, 0].tolist() == pytest.approx([1.0, -0.5, 0.0], abs=0.05)
    assert math.exp(head.log_std.item()) == pytest.approx(0.2, rel=0.1)


def test_masked_rows_are_not_learned_from():
    algorithm = make(net=NetConfig(hidden_sizes=(4,), memory="gru", memory_size=3, sequence_length=2, burn_in=1))
    assert (algorithm.sampling.sequence_length, algorithm.sampling.burn_in) == (2, 1)
    rng = np.random.default_rng(0)
    data = Batch(
        obs=rng.uniform(-1, 1, (3, 2, 3)).astype(np.float32),
        act=rng.integers(3, size=(3, 2)),
        weight=np.ones(2, np.float32),
        on_reset=np.array([[True] * 2, [False] * 2, [False] * 2]),
        mask=np.array([[False] * 2, [True] * 2, [True, False]]),
        policy=Batch(state=np.zeros((3, 2, 3), np.float32)),
    )
    prepared = algorithm.prepare(data)
    logp = algorithm.policy.analyze(prepared).logp
    assert algorithm.update(data).loss == pytest.approx(-(logp[1, 0] + logp[1, 1] + logp[2, 0]).item() / 3, rel=1e-5)


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="log_std_init is 3"):
        make(BOX, log_std_init=3.0)
