"""Parameters after 50 updates, recorded before the contract between algorithms and policies was changed.

Batches are made here, without the policy, so that what is compared is the update alone. Values are float32 in the order
of the parameters, weights as [out, in]; equal but for rounding, which 50 updates amplify a little.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.algorithm import DQN, PPO, SAC, DQNConfig, OptimConfig, PPOConfig, SACConfig, Task
from argosy.data import Batch
from argosy.net import Linear, NetConfig

RECORDED = Path(__file__).parent / "recorded" / "parameters.npz"
OBS = spaces.Box(-1.0, 1.0, (3,), np.float32)
DISCRETE, BOX = spaces.Discrete(3), spaces.Box(-2.0, 2.0, (2,), np.float32)
MULTI = spaces.MultiDiscrete([2, 3])
TANH = NetConfig(hidden_sizes=(16, 16), activation="tanh")
RELU = NetConfig(hidden_sizes=(16, 16))

CASES = {
    "dqn": (DQN, DQNConfig(target_update_freq=5), DISCRETE, RELU),
    "dqn dueling": (
        DQN,
        DQNConfig(
            loss="mse",
            tau=0.1,
            target_update_freq=1,
            double=False,
            dueling=True,
            optim=OptimConfig(max_grad_norm=1.0),
        ),
        DISCRETE,
        RELU,
    ),
    "ppo": (PPO, PPOConfig(repeat_per_collect=2, batch_size=8), DISCRETE, TANH),
    "ppo box": (
        PPO,
        PPOConfig(
            repeat_per_collect=2,
            batch_size=16,
            return_scaling=True,
            recompute_advantage=True,
            value_clip=True,
            dual_clip=3.0,
            entropy_coef=0.01,
            log_std_init=-0.5,
            optim=OptimConfig(lr=3e-4, eps=1e-5, max_grad_norm=0.5, lr_schedule="linear"),
        ),
        BOX,
        TANH,
    ),
    "ppo shared": (
        PPO,
        PPOConfig(repeat_per_collect=2, batch_size=None),
        MULTI,
        NetConfig(hidden_sizes=(16, 16), shared_backbone=True),
    ),
    "sac": (SAC, SACConfig(), BOX, RELU),
    "sac fixed": (SAC, SACConfig(auto_alpha=False, num_critics=3), BOX, RELU),
}


def batch(kind, space, gamma, seed, T=8, B=4):
    """A batch of random numbers in the form of the kind's trainer: [T, B, ...] or [T * B, ...]."""
    rng = np.random.default_rng(seed)
    lead = (T, B) if kind == "onpolicy" else (T * B,)
    obs, obs_next = rng.uniform(-1, 1, (2, *lead, 3)).astype(np.float32)
    terminated, truncated = rng.random((2, *lead)) < 0.2
    if isinstance(space, spaces.Discrete):
        act, logp = rng.integers(3, size=lead), np.full(lead, -np.log(3.0))
    elif isinstance(space, spaces.MultiDiscrete):
        act, logp = np.stack([rng.integers(n, size=lead) for n in space.nvec], -1), np.full(lead, -np.log(6.0))
    else:
        act = rng.uniform(-1, 1, (*lead, 2)).astype(np.float32)
        logp = -0.5 * (act**2).sum(-1) - np.log(2 * np.pi)
    out = Batch(obs=obs, act=act, obs_next=obs_next, terminated=terminated, truncated=truncated & ~terminated)
    out.rew = rng.normal(size=lead).astype(np.float32)
    if kind == "onpolicy":
        out.policy = Batch(logp=logp.astype(np.float32))
        out.cut = terminated | truncated
        out.cut[-1] = True
    else:
        out.discount = (gamma * ~terminated).astype(np.float32)
        out.weight = rng.uniform(0.5, 1.0, lead).astype(np.float32)
    return out


def parameters(module):
    """Flat parameters of a module in order, weights as [out, in]."""
    lying = {id(layer.weight) for layer in module.modules() if isinstance(layer, Linear)}
    return [(p.detach().t() if id(p) in lying else p.detach()).reshape(-1) for p in module.parameters()]


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_those_that_were_recorded(name):
    cls, config, space, net = CASES[name]
    algorithm = cls.make(config, Task(observation_space=OBS, action_space=space, net=net), seed=0)
    for i in range(50):
        algorithm.schedule(10 * i, 1000)
        algorithm.update(batch(cls.kind, space, config.gamma, i))
    modules = [algorithm.policy] + ([algorithm.critic] if hasattr(algorithm, "critic") else [])
    found = torch.cat([p for module in modules for p in parameters(module)]).numpy()
    with np.load(RECORDED) as recorded:
        np.testing.assert_allclose(found, recorded[name], rtol=1e-4, atol=1e-5)
