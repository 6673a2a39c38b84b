"""Updates of Tianshou 1.0.0's algorithms, with the sizes and settings of `ours/updates.py`, in its own environment."""

from __future__ import annotations

from functools import partial

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, Collector, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import (
    A2CPolicy,
    BranchingDQNPolicy,
    C51Policy,
    DDPGPolicy,
    DiscreteCRRPolicy,
    DiscreteSACPolicy,
    DQNPolicy,
    FQFPolicy,
    GAILPolicy,
    IQNPolicy,
    NPGPolicy,
    PGPolicy,
    PPOPolicy,
    PSRLPolicy,
    QRDQNPolicy,
    RainbowPolicy,
    REDQPolicy,
    SACPolicy,
    TD3Policy,
    TRPOPolicy,
)
from tianshou.utils.net import continuous, discrete
from tianshou.utils.net.common import BranchingNet, EnsembleLinear, Net
from tianshou.utils.net.discrete import (
    FractionProposalNetwork,
    FullQuantileFunction,
    ImplicitQuantileNetwork,
    NoisyLinear,
)

DISCRETE, BOX = gym.spaces.Discrete(2), gym.spaces.Box(-1.0, 1.0, (6,), np.float32)
PARTS = gym.spaces.MultiDiscrete([5, 5, 5, 5])
OBS = 17


def filled(obs=4, act=None, choices=None, prioritized=False):
    rng = np.random.default_rng(0)

    def actions():
        if choices is not None:
            return rng.integers(0, choices, (8, len(choices)))
        return rng.integers(0, 2, 8) if act is None else rng.uniform(-1, 1, (8, act)).astype(np.float32)

    kind = partial(PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4) if prioritized else VectorReplayBuffer
    buffer = kind(20_000, 8)
    for t in range(2_500):
        buffer.add(
            Batch(
                obs=rng.standard_normal((8, obs)).astype(np.float32),
                act=actions(),
                rew=np.ones(8),
                terminated=np.full(8, t % 50 == 49),
                truncated=np.zeros(8, bool),
                obs_next=rng.standard_normal((8, obs)).astype(np.float32),
                info=[{} for _ in range(8)],
            )
        )
    return buffer


def adam(module, lr=1e-3):
    return torch.optim.Adam(module.parameters(), lr=lr)


def sampled(policy, buffer, rows):
    def run(count):
        for _ in range(count):
            policy.update(rows, buffer)
        return {"updates": count}

    return run


def value_based(cls, make, seed, prioritized=False, **settings):
    torch.manual_seed(seed)
    net, more = make()
    policy = cls(model=net, optim=adam(net), action_space=DISCRETE, target_update_freq=500, **more, **settings)
    policy.train()
    return sampled(policy, filled(prioritized=prioritized), 64)


def plain(**settings):
    return Net((4,), 2, hidden_sizes=[128, 128], **settings), {}


def rainbow():
    streams = {"hidden_sizes": [128], "linear_layer": NoisyLinear}
    shape = {"hidden_sizes": [128], "dueling_param": (streams, streams), "linear_layer": NoisyLinear}
    return Net((4,), 2, num_atoms=51, softmax=True, **shape), {}


def iqn():
    # the second hidden layer behind the embedding, as in argosy (and in Tianshou's Atari networks)
    net = ImplicitQuantileNetwork(Net((4,), hidden_sizes=[128]), 2, hidden_sizes=[128], num_cosines=64)
    return net, {"sample_size": 32, "online_sample_size": 8, "target_sample_size": 8}


def fqf():
    net = FullQuantileFunction(Net((4,), hidden_sizes=[128]), 2, hidden_sizes=[128], num_cosines=64)
    fractions = FractionProposalNetwork(32, net.input_dim)
    optim = torch.optim.RMSprop(fractions.parameters(), lr=2.5e-9)
    return net, {"fraction_model": fractions, "fraction_optim": optim, "num_fractions": 32}


def branching_dqn(seed):
    torch.manual_seed(seed)
    shape = {f"{part}_hidden_sizes": [128] for part in ("common", "value", "action")}
    net = BranchingNet((OBS,), num_branches=4, action_per_branch=5, **shape)
    policy = BranchingDQNPolicy(model=net, optim=adam(net), action_space=PARTS, target_update_freq=500)
    policy.train()
    return sampled(policy, filled(OBS, choices=PARTS.nvec), 64)


def discrete_sac(seed):
    torch.manual_seed(seed)
    nets = [Net((4,), hidden_sizes=[128, 128]) for _ in range(3)]
    modules = {"actor": discrete.Actor(nets[0], 2, softmax_output=False)}
    modules |= {"critic": discrete.Critic(nets[1], last_size=2), "critic2": discrete.Critic(nets[2], last_size=2)}
    return soft(DiscreteSACPolicy, modules, DISCRETE, filled(), 64, target_entropy=0.98 * np.log(2))


class Nature(torch.nn.Module):
    """As in Tianshou's Atari examples, which do not divide pixels by 255 either."""

    def __init__(self):
        super().__init__()
        layers = []
        for size_in, size_out, kernel, stride in ((4, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1)):
            layers += [torch.nn.Conv2d(size_in, size_out, kernel, stride), torch.nn.ReLU(inplace=True)]
        linear = [torch.nn.Linear(3136, 512), torch.nn.ReLU(inplace=True), torch.nn.Linear(512, 6)]
        self.net = torch.nn.Sequential(*layers, torch.nn.Flatten(), *linear)

    def forward(self, obs, state=None, info=None):
        return self.net(torch.as_tensor(obs, dtype=torch.float32)), state


def dqn_large(seed):
    torch.manual_seed(seed)
    rng, net = np.random.default_rng(0), Nature()
    buffer = VectorReplayBuffer(2_000, 8, stack_num=4, ignore_obs_next=True, save_only_last_obs=True)
    for t in range(250):
        buffer.add(
            Batch(
                obs=rng.integers(0, 256, (8, 4, 84, 84), np.uint8),
                act=rng.integers(0, 6, 8),
                rew=np.ones(8),
                terminated=np.full(8, t % 50 == 49),
                truncated=np.zeros(8, bool),
                obs_next=rng.integers(0, 256, (8, 4, 84, 84), np.uint8),
                info=[{} for _ in range(8)],
            )
        )
    policy = DQNPolicy(model=net, optim=adam(net), action_space=gym.spaces.Discrete(6), target_update_freq=500)
    policy.train()
    return sampled(policy, buffer, 32)


def discrete_crr(seed):
    torch.manual_seed(seed)
    modules = {
        "actor": discrete.Actor(Net((4,), hidden_sizes=[128, 128]), 2, softmax_output=False),
        "critic": discrete.Critic(Net((4,), hidden_sizes=[128, 128]), last_size=2),
    }
    optim = adam(torch.nn.ModuleDict(modules))
    policy = DiscreteCRRPolicy(**modules, optim=optim, action_space=DISCRETE, target_update_freq=100)
    policy.train()
    return sampled(policy, filled(), 64)


def critic(width=64, **settings):
    net = Net((OBS,), 6, hidden_sizes=[width, width], concat=True, **settings)
    last = {"linear_layer": settings["linear_layer"], "flatten_input": False} if settings else {}
    return continuous.Critic(net, **last)


def deterministic():
    return continuous.Actor(Net((OBS,), hidden_sizes=[64, 64]), 6)


def gaussian(width=64):
    net = Net((OBS,), hidden_sizes=[width, width])
    return continuous.ActorProb(net, 6, unbounded=True, conditioned_sigma=True)


def actor_critic(cls, modules, space, buffer, rows, **settings):
    optims = {f"{name}_optim": adam(module) for name, module in modules.items()}
    policy = cls(**modules, **optims, action_space=space, **settings)
    policy.train()
    return sampled(policy, buffer, rows)


def soft(cls, modules, space, buffer, rows, target_entropy, **settings):
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha = (target_entropy, log_alpha, torch.optim.Adam([log_alpha], lr=3e-4))
    return actor_critic(cls, modules, space, buffer, rows, alpha=alpha, **settings)


def ddpg(seed):
    torch.manual_seed(seed)
    return actor_critic(DDPGPolicy, {"actor": deterministic(), "critic": critic()}, BOX, filled(OBS, 6), 128)


def td3(seed):
    torch.manual_seed(seed)
    modules = {"actor": deterministic(), "critic": critic(), "critic2": critic()}
    return actor_critic(TD3Policy, modules, BOX, filled(OBS, 6), 128)


def sac(seed, width=64, rows=128):
    torch.manual_seed(seed)
    modules = {"actor": gaussian(width), "critic": critic(width), "critic2": critic(width)}
    return soft(SACPolicy, modules, BOX, filled(OBS, 6), rows, -6.0)


def redq(seed):
    torch.manual_seed(seed)
    modules = {"actor": gaussian(), "critic": critic(linear_layer=lambda x, y: EnsembleLinear(10, x, y))}
    # A temperature that is learned fails there
    settings = {"alpha": 0.2, "ensemble_size": 10, "subset_size": 2, "actor_delay": 20}
    return actor_critic(REDQPolicy, modules, BOX, filled(OBS, 6), 128, **settings)


def on_policy(cls, seed, width=64, batch_size=None, repeat=1, **settings):
    torch.manual_seed(seed)
    net = partial(Net, (4,), hidden_sizes=[width, width], activation=torch.nn.Tanh)
    actor, learned = discrete.Actor(net(), 2, softmax_output=False), []
    if cls is not PGPolicy:
        settings["critic"] = discrete.Critic(net())
        learned += settings["critic"].parameters()
    if cls not in (NPGPolicy, TRPOPolicy):
        learned += actor.parameters()
    policy = cls(
        actor=actor,
        optim=torch.optim.Adam(learned, lr=3e-4),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=DISCRETE,
        action_scaling=False,
        **settings,
    )
    return collected(policy, "CartPole-v1", seed, batch_size, repeat)


def gail(seed):
    torch.manual_seed(seed)
    space = gym.make("Pendulum-v1").action_space
    net = partial(Net, (3,), hidden_sizes=[64, 64], activation=torch.nn.Tanh)
    actor, critic_ = continuous.ActorProb(net(), 1, unbounded=True), continuous.Critic(net())
    told = continuous.Critic(net(action_shape=1, concat=True))
    policy = GAILPolicy(
        actor=actor,
        critic=critic_,
        optim=adam(torch.nn.ModuleList([actor, critic_]), lr=3e-4),
        dist_fn=lambda mean, std: torch.distributions.Independent(torch.distributions.Normal(mean, std), 1),
        action_space=space,
        expert_buffer=filled(3, 1),
        disc_net=told,
        disc_optim=adam(told, lr=3e-4),
        max_grad_norm=0.5,
    )
    return collected(policy, "Pendulum-v1", seed, 64, 10)


def psrl(seed):
    """What is best in the model that is drawn is found when the next action is asked for: once per update, too."""
    torch.manual_seed(seed)
    policy = PSRLPolicy(
        trans_count_prior=np.full((16, 4, 16), 1 / 17),
        rew_mean_prior=np.zeros((16, 4)),
        rew_std_prior=np.ones((16, 4)),
        action_space=gym.spaces.Discrete(4),
    )
    learn, asked = (
        collected(policy, "FrozenLake-v1", seed, None, 1, random=True),
        Batch(obs=np.zeros(1, np.int64), info={}),
    )

    def run(count):
        for _ in range(count):
            learn(1)
            policy(asked)
        return {"updates": count}

    return run


def collected(policy, task, seed, batch_size, repeat, random=False):
    envs = DummyVectorEnv([lambda: gym.make(task) for _ in range(8)])
    envs.seed(seed)
    collector = Collector(policy, envs, VectorReplayBuffer(1_024, 8))
    collector.collect(n_step=1_024, random=random)
    policy.train()

    def run(count):
        for _ in range(count):
            policy.update(0, collector.buffer, batch_size=batch_size, repeat=repeat)
        return {"updates": count}

    return run


ROWS = {
    "update_c51": partial(value_based, C51Policy, partial(plain, num_atoms=51, softmax=True)),
    "update_rainbow": partial(value_based, RainbowPolicy, rainbow, prioritized=True, estimation_step=3),
    "update_qrdqn": partial(value_based, QRDQNPolicy, partial(plain, num_atoms=200), num_quantiles=200),
    "update_iqn": partial(value_based, IQNPolicy, iqn),
    "update_fqf": partial(value_based, FQFPolicy, fqf),
    "update_discrete_sac": discrete_sac,
    "update_branching_dqn": branching_dqn,
    "update_ddpg": ddpg,
    "update_td3": td3,
    "update_sac": sac,
    "update_redq": redq,
    "update_ppo": partial(on_policy, PPOPolicy, batch_size=64, repeat=10, max_grad_norm=0.5),
    "update_a2c": partial(on_policy, A2CPolicy, gae_lambda=1.0, max_grad_norm=0.5),
    "update_reinforce": partial(on_policy, PGPolicy),
    "update_npg": partial(on_policy, NPGPolicy, optim_critic_iters=5, actor_step_size=1e-4),
    "update_trpo": partial(on_policy, TRPOPolicy, optim_critic_iters=5),
    "update_gail": gail,
    "update_psrl": psrl,
    "update_discrete_crr": discrete_crr,
    "update_sac_large": partial(sac, width=256, rows=256),
    "update_dqn_large": dqn_large,
    "update_ppo_large": partial(on_policy, PPOPolicy, width=256, batch_size=64, repeat=10, max_grad_norm=0.5),
}
