"""Policy gradient algorithms of Tianshou 1.0.0, for `recorder`; recorded anew by `test_recorded.py`.

The batch is one env's rollout: episodes that end in either way, and one that goes on. What natural gradients do to the
actor, its new parameters less the old ones, is recorded as its gradient. Advantages are not normalised: Tianshou
divides by the deviation of a sample, argosy by that of all rows.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import recorder
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.policy import A2CPolicy, GAILPolicy, NPGPolicy, PGPolicy, PPOPolicy, TRPOPolicy
from torch import nn

ROWS, OBS, ACTIONS, GAMMA = 16, 4, 3, 0.9


class Actor(nn.Module):
    max_action = 1.0

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(OBS, 8), nn.Tanh(), nn.Linear(8, ACTIONS))

    def forward(self, obs, state=None, info=None):
        return self.layers(torch.as_tensor(obs)), state


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(OBS, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, obs):
        return self.layers(torch.as_tensor(obs))


def rollout():
    rng = np.random.default_rng(1)
    buffer, obs = ReplayBuffer(ROWS), rng.normal(size=OBS).astype(np.float32)
    for i in range(ROWS):
        terminated, truncated = i % 7 == 3, i % 7 == 5
        obs_next = rng.normal(size=OBS).astype(np.float32)
        fields = {"obs": obs, "act": int(rng.integers(ACTIONS)), "rew": float(rng.normal()), "obs_next": obs_next}
        buffer.add(Batch(**fields, terminated=terminated, truncated=truncated, info={}))
        obs = rng.normal(size=OBS).astype(np.float32) if terminated or truncated else obs_next
    return buffer


def learn(cls, losses, change=lambda actor: None, **settings):
    """Let a policy learn from all of a rollout, and record it; `change` sees the actor before it learns."""
    actor, modules = Actor(), {}
    modules["actor"] = actor
    if cls is not PGPolicy:
        settings["critic"] = modules["critic"] = Critic()
    natural = cls in (NPGPolicy, TRPOPolicy)
    learned = [p for name, module in modules.items() if name == "critic" or not natural for p in module.parameters()]
    policy = cls(
        actor=actor,
        optim=torch.optim.SGD(learned, lr=0.0),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=gym.spaces.Discrete(ACTIONS),
        action_scaling=False,
        discount_factor=GAMMA,
        **settings,
    )
    policy.train()
    buffer = rollout()
    batch, indices = buffer.sample(0)
    with torch.no_grad():
        logp = policy(batch).dist.log_prob(torch.as_tensor(batch.act)).numpy()
    given = {name: batch[name] for name in ("obs", "act", "obs_next", "terminated", "truncated")}
    given |= {"rew": batch.rew.astype(np.float32), "logp": logp}
    batch = policy.process_fn(batch, buffer, indices)
    change(actor)
    before = [p.detach().clone() for p in actor.parameters()]
    stats = policy.learn(batch, None, 1)
    if natural:
        for parameter, old in zip(actor.parameters(), before, strict=True):
            parameter.grad = parameter.detach() - old
            parameter.data.copy_(old)
    return recorder.record(modules, given, {ours: getattr(stats, theirs).mean for ours, theirs in losses.items()})


def elsewhere(actor):
    """Let the policy that learns be another one than the one that acted, so that clipping matters."""
    torch.manual_seed(2)
    for parameter in actor.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)


def imitate():
    """Let GAIL's discriminator learn from a rollout and as many rows of an expert, and record it with its rewards."""
    rng, actor, disc = np.random.default_rng(2), Actor(), Critic()
    actor.output_dim, disc.device = ACTIONS, "cpu"
    disc.layers[0] = nn.Linear(OBS + ACTIONS, 8)
    buffer, expert = rollout(), rollout()
    for data in (buffer, expert):
        data._meta.act = rng.uniform(-1, 1, (ROWS, ACTIONS)).astype(np.float32)
    given = {"expert_obs": expert[:].obs, "expert_act": expert[:].act}
    expert.sample = lambda size, sample=expert.sample: sample(0)
    critic = Critic()
    policy = GAILPolicy(
        actor=actor,
        critic=critic,
        optim=torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.0),
        dist_fn=lambda mean: torch.distributions.Independent(torch.distributions.Normal(mean, 1.0), 1),
        action_space=gym.spaces.Box(-1, 1, (ACTIONS,)),
        expert_buffer=expert,
        disc_net=disc,
        disc_optim=torch.optim.SGD(disc.parameters(), lr=0.0),
        disc_update_num=1,
    )
    batch, indices = buffer.sample(0)
    given |= {name: batch[name] for name in ("obs", "act", "obs_next", "terminated", "truncated")}
    batch = policy.process_fn(batch, buffer, indices)
    given["reward"] = batch.rew
    stats = policy.learn(batch, None, 1)
    return recorder.record({"disc": disc}, given, {"reward": stats.disc_loss.mean})


WHOLE, PARTS = {"loss": "loss"}, {"policy": "actor_loss", "value": "vf_loss"}
CLIPPED = {"advantage_normalization": False, "eps_clip": 0.1, "dual_clip": 1.5, "vf_coef": 0.25, "ent_coef": 0.02}
NATURAL = {"advantage_normalization": False, "optim_critic_iters": 1}

CASES = {
    "reinforce": lambda: learn(PGPolicy, WHOLE),
    "a2c": lambda: learn(A2CPolicy, WHOLE, gae_lambda=0.95, vf_coef=0.5, ent_coef=0.01),
    "ppo": lambda: learn(PPOPolicy, WHOLE, elsewhere, max_grad_norm=None, **CLIPPED),
    "npg": lambda: learn(NPGPolicy, PARTS, actor_step_size=0.5, **NATURAL),
    "gail": imitate,
    "trpo": lambda: learn(TRPOPolicy, PARTS, max_kl=0.01, backtrack_coeff=0.8, **NATURAL),
}

if __name__ == "__main__":
    recorder.main(CASES)
