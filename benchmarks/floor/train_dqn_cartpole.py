"""DQN on CartPole-v1, end to end: 8 envs, one update per step of all of them, batch 64, MLP 128x2, plain target.

Unit: one env step. The 800 steps before the first update are done in `prepare`.
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

NUM_ENVS, SLOTS, BATCH, GAMMA, LR, EPS, TARGET_FREQ, START_STEPS = 8, 2_500, 64, 0.99, 1e-3, 0.1, 500, 800


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    envs = [gym.make("CartPole-v1") for _ in range(NUM_ENVS)]
    net = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    target = copy.deepcopy(net).requires_grad_(False)
    params, target_params = list(net.parameters()), list(target.parameters())
    optim = torch.optim.Adam(params, lr=LR, fused=True)

    # [slot, env, ...]
    obs_store, obs_next_store = np.zeros((2, SLOTS, NUM_ENVS, 4), np.float32)
    act_store, rew_store = np.zeros((SLOTS, NUM_ENVS), np.int64), np.zeros((SLOTS, NUM_ENVS), np.float32)
    discount_store = np.zeros((SLOTS, NUM_ENVS), np.float32)
    obs = np.stack([env.reset(seed=seed + i)[0] for i, env in enumerate(envs)])
    steps, updates, returns, ep_return = 0, 0, list[float](), np.zeros(NUM_ENVS)

    def step(eps: float) -> None:
        nonlocal obs, steps
        with torch.inference_mode():
            act = net(torch.from_numpy(obs)).argmax(1).numpy()
        act = np.where(rng.random(NUM_ENVS) < eps, rng.integers(0, 2, NUM_ENVS), act)
        at = steps % SLOTS
        obs_next, done = obs_next_store[at], []
        obs_store[at], act_store[at] = obs, act
        for i, env in enumerate(envs):
            obs_next[i], rew_store[at, i], terminated, truncated, _ = env.step(act[i])
            discount_store[at, i] = GAMMA * (not terminated)
            if terminated or truncated:
                done.append(i)
        ep_return[:] += rew_store[at]
        obs = obs_next
        if done:
            obs = obs_next.copy()
            for i in done:
                returns.append(ep_return[i])
                ep_return[i], obs[i] = 0.0, envs[i].reset()[0]
        steps += 1

    def update() -> float:
        nonlocal updates
        rows = rng.integers(0, min(steps, SLOTS), BATCH), rng.integers(0, NUM_ENVS, BATCH)
        stores = (obs_store, act_store, rew_store, obs_next_store, discount_store)
        b_obs, b_act, b_rew, b_obs_next, b_discount = (torch.from_numpy(store[rows]) for store in stores)
        with torch.no_grad():
            target_q = b_rew + b_discount * target(b_obs_next).amax(1)
        loss = F.huber_loss(net(b_obs).gather(1, b_act.unsqueeze(1)).squeeze(1), target_q)
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 10.0)
        optim.step()
        updates += 1
        if updates % TARGET_FREQ == 0:
            torch._foreach_copy_(target_params, params)
        return loss.item()

    for _ in range(START_STEPS // NUM_ENVS):
        step(1.0)

    def run(count: int) -> dict[str, object]:
        before, begun, losses = updates, steps, []
        while (steps - begun) * NUM_ENVS < count:
            step(EPS)
            losses.append(update())
        made = (steps - begun) * NUM_ENVS
        return {"steps": made, "gradient_steps": updates - before, "finite": all(map(math.isfinite, losses))}

    return run
