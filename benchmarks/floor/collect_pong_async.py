"""Pong through EnvPool, one after the other: all 8 envs step, then the CNN acts. Unit: one env step (4 frames)."""

from __future__ import annotations

from collections.abc import Callable

import envpool
import numpy as np
import torch
from torch import nn

NUM_ENVS = 8


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    torch.manual_seed(seed)
    env = envpool.make_gymnasium("Pong-v5", num_envs=NUM_ENVS, seed=seed)
    net = nn.Sequential(
        *(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6)),
    )
    obs = env.reset()[0]

    def run(count: int) -> dict[str, int]:
        nonlocal obs
        steps = 0
        while steps < count:
            with torch.inference_mode():
                act = net(torch.from_numpy(obs).float().div_(255)).argmax(1).numpy()
            obs = env.step(act.astype(np.int32))[0]
            steps += NUM_ENVS
        return {"steps": steps}

    return run
