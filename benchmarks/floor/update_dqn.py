"""DQN updates from a buffer of 20,000 slots: batch 64, MLP 128x2, double Q, hard target every 500 updates, fused Adam.

Unit: one update, its sample included.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

SLOTS, BATCH, GAMMA, LR, TARGET_FREQ = 20_000, 64, 0.99, 1e-3, 500


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    target = copy.deepcopy(net).requires_grad_(False)
    params: list[torch.Tensor] = list(net.parameters())
    target_params: list[torch.Tensor] = list(target.parameters())
    optim = torch.optim.Adam(params, lr=LR, fused=True)

    obs = rng.standard_normal((SLOTS, 4), np.float32)
    obs_next = rng.standard_normal((SLOTS, 4), np.float32)
    act = rng.integers(0, 2, SLOTS)
    rew = np.ones(SLOTS, np.float32)
    terminated = np.arange(SLOTS) % 50 == 49
    updates = 0

    def update() -> float:
        nonlocal updates
        rows = rng.integers(0, SLOTS, BATCH)
        b_obs, b_obs_next = torch.from_numpy(obs[rows]), torch.from_numpy(obs_next[rows])
        b_act, b_rew = torch.from_numpy(act[rows]), torch.from_numpy(rew[rows])
        b_discount = torch.from_numpy((GAMMA * ~terminated[rows]).astype(np.float32))
        with torch.no_grad():
            act_next = net(b_obs_next).argmax(1, keepdim=True)
            target_q = b_rew + b_discount * target(b_obs_next).gather(1, act_next).squeeze(1)
        q = net(b_obs).gather(1, b_act.unsqueeze(1)).squeeze(1)
        loss = (target_q - q).square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        updates += 1
        if updates % TARGET_FREQ == 0:
            torch._foreach_copy_(target_params, params)
        return float(loss.item())

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            loss = update()
        return {"updates": count, "finite": bool(np.isfinite(loss)), "parameters": sum(p.numel() for p in params)}

    return run
