"""PPO on CartPole-v1, end to end: 8 envs x 128 steps, 4 epochs, minibatches of 256, two MLPs 64x2. Unit: one env step.

GAE bootstraps a truncated episode from its true last observation, advantages are normalised per minibatch, gradients
clipped at 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import gymnasium as gym
import numpy as np
import torch
from torch import nn

NUM_ENVS, STEPS, EPOCHS, MINIBATCH = 8, 128, 4, 256
LR, GAMMA, GAE_LAMBDA, CLIP, VALUE_COEF, ENTROPY_COEF, MAX_GRAD_NORM = 2.5e-4, 0.99, 0.95, 0.2, 0.5, 0.01, 0.5


def mlp(*sizes: int, last_gain: float) -> nn.Sequential:
    linears = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    for i, linear in enumerate(linears):
        nn.init.orthogonal_(linear.weight, last_gain if i == len(linears) - 1 else math.sqrt(2))
        nn.init.zeros_(linear.bias)
    layers = [layer for linear in linears for layer in (linear, nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    envs = [gym.make("CartPole-v1") for _ in range(NUM_ENVS)]
    actor, critic = mlp(4, 64, 64, 2, last_gain=0.01), mlp(4, 64, 64, 1, last_gain=1.0)
    params = [*actor.parameters(), *critic.parameters()]
    optim = torch.optim.Adam(params, lr=LR, eps=1e-5, fused=True)

    obs_store = np.zeros((STEPS, NUM_ENVS, 4), np.float32)
    obs_next_store = np.zeros((STEPS, NUM_ENVS, 4), np.float32)
    act_store = np.zeros((STEPS, NUM_ENVS), np.int64)
    logp_store = np.zeros((STEPS, NUM_ENVS), np.float32)
    rew_store = np.zeros((STEPS, NUM_ENVS), np.float32)
    terminated_store = np.zeros((STEPS, NUM_ENVS), bool)
    cut_store = np.zeros((STEPS, NUM_ENVS), bool)
    obs = np.stack([env.reset(seed=seed + i)[0] for i, env in enumerate(envs)])
    ep_return, returns_seen = np.zeros(NUM_ENVS), []
    updates = 0

    def collect() -> None:
        nonlocal obs
        for t in range(STEPS):
            with torch.inference_mode():
                logp_all = actor(torch.from_numpy(obs)).log_softmax(1)
                act_t = torch.multinomial(logp_all.exp(), 1)
                logp_store[t] = logp_all.gather(1, act_t).squeeze(1).numpy()
                act = act_t.squeeze(1).numpy()
            obs_store[t], act_store[t] = obs, act
            obs_next = obs_next_store[t]
            for i, env in enumerate(envs):
                obs_next[i], rew_store[t, i], terminated_store[t, i], truncated, _ = env.step(act[i])
                cut_store[t, i] = terminated_store[t, i] or truncated
            ep_return[:] += rew_store[t]
            obs = obs_next
            if cut_store[t].any():
                obs = obs_next.copy()
                for i in np.flatnonzero(cut_store[t]).tolist():
                    returns_seen.append(ep_return[i])
                    ep_return[i] = 0
                    obs[i] = envs[i].reset()[0]
        cut_store[-1] = True

    def advantages(values: np.ndarray) -> np.ndarray:
        next_values = np.empty_like(values)
        next_values[:-1] = values[1:]
        with torch.inference_mode():
            next_values[cut_store] = critic(torch.from_numpy(obs_next_store[cut_store])).squeeze(1).numpy()
        delta = rew_store + GAMMA * next_values * ~terminated_store - values
        carry = GAMMA * GAE_LAMBDA * ~cut_store
        adv, running = np.empty_like(values), np.zeros(NUM_ENVS, np.float32)
        for t in range(STEPS - 1, -1, -1):
            adv[t] = running = delta[t] + carry[t] * running
        return adv

    def update() -> float:
        nonlocal updates
        b_obs = torch.from_numpy(obs_store).view(-1, 4)
        with torch.inference_mode():
            values = critic(b_obs).view(STEPS, NUM_ENVS).numpy()
        adv = advantages(values)
        b_adv, b_returns = torch.from_numpy(adv).view(-1), torch.from_numpy(adv + values).view(-1)
        b_act, b_logp_old = torch.from_numpy(act_store).view(-1), torch.from_numpy(logp_store).view(-1)
        losses = []
        for _ in range(EPOCHS):
            for rows in torch.split(torch.from_numpy(rng.permutation(STEPS * NUM_ENVS)), MINIBATCH):
                mb_obs, mb_adv = b_obs[rows], b_adv[rows]
                mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)
                logp_all = actor(mb_obs).log_softmax(1)
                logp = logp_all.gather(1, b_act[rows].unsqueeze(1)).squeeze(1)
                ratio = (logp - b_logp_old[rows]).exp()
                loss_policy = -torch.min(ratio * mb_adv, ratio.clamp(1 - CLIP, 1 + CLIP) * mb_adv).mean()
                loss_value = (b_returns[rows] - critic(mb_obs).squeeze(1)).square().mean()
                entropy = -(logp_all.exp() * logp_all).sum(1).mean()
                loss = loss_policy + VALUE_COEF * loss_value - ENTROPY_COEF * entropy
                optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(params, MAX_GRAD_NORM)
                optim.step()
                updates += 1
                losses.append(loss.detach())
        return float(torch.stack(losses).mean())

    def run(count: int) -> dict[str, object]:
        before, steps, loss = updates, 0, 0.0
        while steps < count:
            collect()
            loss = update()
            steps += STEPS * NUM_ENVS
        return {"steps": steps, "gradient_steps": updates - before, "finite": math.isfinite(loss)}

    return run
