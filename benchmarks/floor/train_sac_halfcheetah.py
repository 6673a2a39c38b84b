"""SAC on HalfCheetah-v5, end to end: 1 env, 1 update per step, batch 256, MLPs 256x2, learned temperature.

Unit: one env step with its update. The 300 steps before the first update are done in `prepare`. The twin critics are
one batched ensemble, the actor's loss takes no gradient of the critics' parameters, targets follow by one foreach call.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BATCH, SLOTS, LR, GAMMA, TAU, START_STEPS = 256, 100_000, 3e-4, 0.99, 0.005, 300


class EnsembleLinear(nn.Module):
    """K linear layers as one batched matmul: [K, B, in] -> [K, B, out]."""

    def __init__(self, num: int, size_in: int, size_out: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(size_in)
        self.weight = nn.Parameter(torch.empty(num, size_in, size_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(num, 1, size_out).uniform_(-bound, bound))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class TwinCritic(nn.Module):
    def __init__(self, size_in: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            EnsembleLinear(2, size_in, 256),
            nn.ReLU(),
            EnsembleLinear(2, 256, 256),
            nn.ReLU(),
            EnsembleLinear(2, 256, 1),
        )

    def forward(self, obs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        x = torch.cat([obs, act], dim=1).expand(2, -1, -1)
        return self.net(x).squeeze(2)  # type: ignore[no-any-return]  # nn.Sequential returns Any


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = gym.make("HalfCheetah-v5")
    dim_obs, dim_act = 17, 6
    actor = nn.Sequential(
        nn.Linear(dim_obs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2 * dim_act)
    )
    critic = TwinCritic(dim_obs + dim_act)
    critic_target = copy.deepcopy(critic).requires_grad_(False)
    log_alpha = torch.zeros(1, requires_grad=True)
    critic_params: list[torch.Tensor] = list(critic.parameters())
    target_params: list[torch.Tensor] = list(critic_target.parameters())
    actor_optim = torch.optim.Adam(actor.parameters(), lr=LR, fused=True)
    critic_optim = torch.optim.Adam(critic_params, lr=LR, fused=True)
    alpha_optim = torch.optim.Adam([log_alpha], lr=LR, fused=True)

    obs_store = np.zeros((SLOTS, dim_obs), np.float32)
    obs_next_store = np.zeros((SLOTS, dim_obs), np.float32)
    act_store = np.zeros((SLOTS, dim_act), np.float32)
    rew_store = np.zeros(SLOTS, np.float32)
    discount_store = np.zeros(SLOTS, np.float32)
    ptr = size = 0
    obs, _ = env.reset(seed=seed)
    obs = obs.astype(np.float32)

    def act_logp(b_obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = actor(b_obs).chunk(2, dim=1)
        log_std = log_std.clamp(-20, 2)
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        # log|d tanh(x)/dx| = 2 (log 2 - x - softplus(-2 x))
        logp = (
            -0.5 * noise.square()
            - log_std
            - 0.5 * math.log(2 * math.pi)
            - 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        )
        return raw.tanh(), logp.sum(1)

    def step(act: np.ndarray) -> None:
        nonlocal obs, ptr, size
        obs_next, rew, terminated, truncated, _ = env.step(act)
        obs_next = obs_next.astype(np.float32)
        obs_store[ptr], act_store[ptr], rew_store[ptr], obs_next_store[ptr] = obs, act, rew, obs_next
        discount_store[ptr] = GAMMA * (not terminated)
        ptr, size = (ptr + 1) % SLOTS, min(size + 1, SLOTS)
        obs = env.reset()[0].astype(np.float32) if terminated or truncated else obs_next

    def update() -> tuple[float, ...]:
        rows = rng.integers(0, size, BATCH)
        b_obs, b_act = torch.from_numpy(obs_store[rows]), torch.from_numpy(act_store[rows])
        b_rew, b_discount = torch.from_numpy(rew_store[rows]), torch.from_numpy(discount_store[rows])
        b_obs_next = torch.from_numpy(obs_next_store[rows])
        with torch.no_grad():
            alpha = log_alpha.exp()
            act_next, logp_next = act_logp(b_obs_next)
            q_next = critic_target(b_obs_next, act_next).amin(0) - alpha * logp_next
            target_q = b_rew + b_discount * q_next
        loss_critic = (critic(b_obs, b_act) - target_q).square().mean(1).sum()
        critic_optim.zero_grad()
        loss_critic.backward()
        critic_optim.step()

        for p in critic_params:
            p.requires_grad_(False)
        act, logp = act_logp(b_obs)
        loss_actor = (alpha * logp - critic(b_obs, act).amin(0)).mean()
        actor_optim.zero_grad()
        loss_actor.backward()
        actor_optim.step()
        for p in critic_params:
            p.requires_grad_(True)

        loss_alpha = -(log_alpha * (logp.detach() - dim_act).mean()).sum()
        alpha_optim.zero_grad()
        loss_alpha.backward()
        alpha_optim.step()
        torch._foreach_lerp_(target_params, critic_params, TAU)
        return tuple(torch.stack([loss_critic.detach(), loss_actor.detach(), loss_alpha.detach()]).tolist())

    for _ in range(START_STEPS):
        step(env.action_space.sample())

    def run(count: int) -> dict[str, object]:
        losses: tuple[float, ...] = ()
        for _ in range(count):
            with torch.inference_mode():
                act, _ = act_logp(torch.from_numpy(obs).unsqueeze(0))
            step(act.squeeze(0).numpy())
            losses = update()
        return {"steps": count, "gradient_steps": count, "finite": all(map(math.isfinite, losses))}

    return run
