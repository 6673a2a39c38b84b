"""Value-based algorithms of Tianshou 1.0.0, for `recorder`; recorded anew by `test_peers.py`.

The batch is a whole buffer of random transitions, one step each; online and target networks differ.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import recorder
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.policy import C51Policy, DQNPolicy, QRDQNPolicy
from tianshou.utils.net.common import Net

ROWS, OBS, ACTIONS, GAMMA = 16, 4, 3, 0.9
DISCRETE = gym.spaces.Discrete(ACTIONS)


def filled(act, truncates=True):
    """Return a buffer of random transitions with actions of so many rows, some terminated, some truncated."""
    rng = np.random.default_rng(1)
    buffer = ReplayBuffer(ROWS)
    for i in range(ROWS):
        buffer.add(
            Batch(
                obs=rng.normal(size=OBS).astype(np.float32),
                act=act[i],
                rew=float(rng.normal()),
                terminated=i % 4 == 1,
                truncated=i % 4 == 3 and truncates,
                obs_next=rng.normal(size=OBS).astype(np.float32),
                info={},
            )
        )
    return buffer


def learn(policy, buffer, modules, weighted=True, draws=()):
    """Let a policy learn from all of a buffer, with importance weights, and record it."""
    policy.train()
    policy._iter = 1  # else the target network is copied first
    torch.manual_seed(2)
    for parameter in policy.model_old.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    batch, indices = buffer.sample(0)
    weight = np.random.default_rng(3).uniform(0.5, 1.0, ROWS).astype(np.float32) if weighted else np.ones(ROWS)
    given = {
        "obs": batch.obs,
        "act": batch.act,
        "rew": batch.rew.astype(np.float32),
        "obs_next": batch.obs_next,
        "discount": (GAMMA * ~batch.terminated).astype(np.float32),
        "weight": weight.astype(np.float32),
    }
    batch = policy.process_fn(batch, buffer, indices)
    batch.weight = torch.as_tensor(weight)
    stats = policy.learn(batch)
    modules = {"online": policy.model, "target": policy.model_old, **modules}
    return recorder.record(modules, given, stats.get_loss_stats_dict(), draws)


def discrete(cls, net, weighted=True, modules=None, draws=(), **settings):
    act = np.random.default_rng(0).integers(ACTIONS, size=ROWS)
    policy = cls(
        model=net,
        optim=torch.optim.SGD(net.parameters(), lr=0.0),
        action_space=DISCRETE,
        discount_factor=GAMMA,
        target_update_freq=100,
        **settings,
    )
    return learn(policy, filled(act), modules or {}, weighted, draws)


def net(**settings):
    return Net(OBS, ACTIONS, hidden_sizes=(8, 8), **settings)


CASES = {
    "dqn": lambda: discrete(DQNPolicy, net()),
    "dqn_single": lambda: discrete(DQNPolicy, net(), is_double=False),
    "dqn_huber": lambda: discrete(DQNPolicy, net(), weighted=False, clip_loss_grad=True),  # its Huber takes no weights
    "c51": lambda: discrete(C51Policy, net(num_atoms=7, softmax=True), num_atoms=7, v_min=-2.0, v_max=3.0),
    "qrdqn": lambda: discrete(QRDQNPolicy, net(num_atoms=5), num_quantiles=5),
}

if __name__ == "__main__":
    recorder.main(CASES)
