"""Value-based algorithms of Tianshou 1.0.0, for `recorder`; recorded anew by `test_peers.py`.

The batch is a whole buffer of random transitions, one step each; online and target networks differ.
"""

from __future__ import annotations

from unittest import mock

import gymnasium as gym
import numpy as np
import recorder
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.policy import (
    BranchingDQNPolicy,
    C51Policy,
    DQNPolicy,
    FQFPolicy,
    IQNPolicy,
    QRDQNPolicy,
    RainbowPolicy,
    modelfree,
)
from tianshou.utils.net.common import BranchingNet, Net
from tianshou.utils.net.discrete import (
    FractionProposalNetwork,
    FullQuantileFunction,
    ImplicitQuantileNetwork,
    NoisyLinear,
)

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


def learn(policy, buffer, modules, weighted=True, draws=(), before=lambda model: None):
    """Let a policy learn from all of a buffer, with importance weights, and record it; `before` sees both networks."""
    policy.train()
    policy._iter = 1  # else the target network is copied first
    torch.manual_seed(2)
    for parameter in policy.model_old.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    before(policy.model)
    before(policy.model_old)
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


def made(cls, net, space=DISCRETE, **settings):
    return cls(
        model=net,
        optim=torch.optim.SGD(net.parameters(), lr=0.0),
        action_space=space,
        discount_factor=GAMMA,
        target_update_freq=100,
        **settings,
    )


def discrete(cls, net, weighted=True, modules=None, draws=(), before=lambda model: None, **settings):
    act = np.random.default_rng(0).integers(ACTIONS, size=ROWS)
    return learn(made(cls, net, **settings), filled(act), modules or {}, weighted, draws, before)


def branching_dqn():
    """The peer discounts by 0.99 whatever it is told; truncated rows, of which there are none, and the newest by 0."""
    act = np.random.default_rng(0).integers(ACTIONS, size=(ROWS, 2))
    online = BranchingNet(OBS, 2, ACTIONS, [8], [8], [8])
    policy = made(BranchingDQNPolicy, online, gym.spaces.MultiDiscrete([ACTIONS, ACTIONS]))
    found = learn(policy, filled(act, truncates=False), {})
    found["batch/discount"] *= np.float32(0.99 / GAMMA) * (np.arange(ROWS) < ROWS - 1)
    return found


def rainbow():
    """Noise is given; the first layers of both streams, one layer in argosy, share that of their input."""
    streams = {"hidden_sizes": [8], "linear_layer": NoisyLinear}
    online = Net(
        OBS,
        ACTIONS,
        hidden_sizes=(8,),
        num_atoms=7,
        softmax=True,
        dueling_param=(streams, streams),
        linear_layer=NoisyLinear,
    )
    modelfree.rainbow._sample_noise = lambda model: True
    draws = []

    def draw(model):
        value, advantage = model.V.model, model.Q.model
        for layer in (layer for layer in model.modules() if isinstance(layer, NoisyLinear)):
            layer.sample()
        advantage[0].eps_p.copy_(value[0].eps_p)
        for first, *more in ([model.model.model[0]], [value[0], advantage[0]], [value[2]], [advantage[2]]):
            draws.append(first.eps_p.clone())
            draws.append(torch.cat([layer.eps_q for layer in (first, *more)]))

    return discrete(RainbowPolicy, online, draws=draws, before=draw, num_atoms=7, v_min=-2.0, v_max=3.0)


def iqn():
    """The next action is chosen by quantiles at the middles of equal shares, as argosy does it."""
    online = ImplicitQuantileNetwork(Net(OBS, hidden_sizes=(8,)), ACTIONS, hidden_sizes=(8,), num_cosines=4)
    equal = (torch.arange(8.0) + 0.5).expand(ROWS, 8) / 8
    of_target, taken = torch.rand(ROWS, 5), torch.rand(ROWS, 8)
    with mock.patch.object(torch, "rand", side_effect=[equal, of_target, taken]):
        return discrete(
            IQNPolicy,
            online,
            draws=[taken, of_target],
            sample_size=8,
            online_sample_size=8,
            target_sample_size=5,
        )


def fqf():
    """Quantiles rise with the fraction, as they should: of others, gradients of shares differ by design."""
    online = FullQuantileFunction(Net(OBS, hidden_sizes=(8,)), ACTIONS, hidden_sizes=(8,), num_cosines=1)
    with torch.no_grad():
        online.embed_model.net[0].weight.abs_()
        online.last.model[0].weight.abs_().neg_()
        online.last.model[0].bias.fill_(1.0)
        online.last.model[2].weight.abs_()
    proposals = FractionProposalNetwork(6, 8)
    with torch.no_grad():
        proposals.net.weight.mul_(50.0)
    return discrete(
        FQFPolicy,
        online,
        weighted=False,  # of its two losses one takes weights
        modules={"proposals": proposals},
        fraction_model=proposals,
        fraction_optim=torch.optim.SGD(proposals.parameters(), lr=0.0),
        num_fractions=6,
        ent_coef=0.01,
    )


def net(**settings):
    return Net(OBS, ACTIONS, hidden_sizes=(8, 8), **settings)


CASES = {
    "dqn": lambda: discrete(DQNPolicy, net()),
    "dqn_single": lambda: discrete(DQNPolicy, net(), is_double=False),
    "dqn_huber": lambda: discrete(DQNPolicy, net(), weighted=False, clip_loss_grad=True),  # its Huber takes no weights
    "branching_dqn": branching_dqn,
    "c51": lambda: discrete(C51Policy, net(num_atoms=7, softmax=True), num_atoms=7, v_min=-2.0, v_max=3.0),
    "iqn": iqn,
    "fqf": fqf,
    "rainbow": rainbow,
    "qrdqn": lambda: discrete(QRDQNPolicy, net(num_atoms=5), num_quantiles=5),
}

if __name__ == "__main__":
    recorder.main(CASES)
