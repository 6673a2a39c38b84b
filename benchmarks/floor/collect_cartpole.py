"""CartPole-v1, 8 environments in this process, epsilon-greedy MLP 128x2, all stored. Unit: one env step."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from torch import nn

NUM_ENVS, SLOTS, EPS = 8, 2500, 0.5


def balance(parameters: list[torch.nn.Parameter]) -> None:
    """Let a Q-network 4-128-128-2 push towards where the pole falls, so that all sides have episodes of one length."""
    with torch.no_grad():
        for parameter in parameters:
            parameter.zero_()
        first, _, second, _, last, _ = parameters
        first[0, 2:], first[1, 2:] = 1.0, -1.0
        second[0, 0] = second[1, 1] = last[1, 0] = last[0, 1] = 1.0


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    envs = [gym.make("CartPole-v1") for _ in range(NUM_ENVS)]
    net = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    balance(list(net.parameters()))

    # [slot, env, ...]
    obs_store = np.zeros((SLOTS, NUM_ENVS, 4), np.float32)
    obs_next_store = np.zeros((SLOTS, NUM_ENVS, 4), np.float32)
    act_store = np.zeros((SLOTS, NUM_ENVS), np.int64)
    rew_store = np.zeros((SLOTS, NUM_ENVS), np.float32)
    terminated_store = np.zeros((SLOTS, NUM_ENVS), bool)
    truncated_store = np.zeros((SLOTS, NUM_ENVS), bool)

    obs = np.zeros((NUM_ENVS, 4), np.float32)
    for i, env in enumerate(envs):
        obs[i] = env.reset(seed=seed + i)[0]
    ptr = stored = 0
    ep_return, ep_len = np.zeros(NUM_ENVS), np.zeros(NUM_ENVS, np.int64)

    def run(count: int) -> dict[str, int]:
        nonlocal obs, ptr, stored
        episodes: list[tuple[float, int]] = []
        done_steps = 0
        while done_steps < count:
            with torch.inference_mode():
                act = net(torch.from_numpy(obs)).argmax(1).numpy()
            explore = rng.random(NUM_ENVS) < EPS
            act = np.where(explore, rng.integers(0, 2, NUM_ENVS), act)

            obs_next = np.empty_like(obs)
            rew = np.empty(NUM_ENVS, np.float32)
            terminated, truncated = np.empty(NUM_ENVS, bool), np.empty(NUM_ENVS, bool)
            for i, env in enumerate(envs):
                obs_next[i], rew[i], terminated[i], truncated[i], _ = env.step(act[i])

            obs_store[ptr] = obs
            act_store[ptr] = act
            rew_store[ptr] = rew
            terminated_store[ptr] = terminated
            truncated_store[ptr] = truncated
            obs_next_store[ptr] = obs_next
            ptr = (ptr + 1) % SLOTS
            stored += NUM_ENVS

            ep_return[:] += rew
            ep_len[:] += 1
            done = terminated | truncated
            obs = obs_next
            if done.any():
                obs = obs_next.copy()
                for i in np.flatnonzero(done).tolist():
                    episodes.append((float(ep_return[i]), int(ep_len[i])))
                    obs[i] = envs[i].reset()[0]
                ep_return[done] = 0
                ep_len[done] = 0
            done_steps += NUM_ENVS
        return {"steps": done_steps, "stored": min(stored, SLOTS * NUM_ENVS), "episodes": len(episodes)}

    return run
