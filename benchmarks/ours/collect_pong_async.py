"""Pong through EnvPool's asynchronous mode: the CNN acts for 4 of 8 envs while the other 4 step. Unit: one env step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from argosy.env import EnvConfig, make_vector_env
from argosy.net import NatureCNN

NUM_ENVS = 8


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    torch.manual_seed(seed)
    config = EnvConfig(vector="envpool", wait_num=NUM_ENVS // 2, background=True, episodic_life=False)
    env = make_vector_env("Pong", NUM_ENVS, seed=seed, config=config)
    net = nn.Sequential(NatureCNN((4, 84, 84), 512, 1 / 255), nn.Linear(512, 6))
    env.reset()
    env.send(np.zeros(NUM_ENVS, np.int32))

    def run(count: int) -> dict[str, int]:
        steps = 0
        while steps < count:
            got = env.recv()
            done = got.terminated | got.truncated
            with torch.inference_mode():
                act = net(torch.from_numpy(got.obs)).argmax(1).numpy()
            if done.any():
                env.send_reset(got.env_id[done])
            if not done.all():
                env.send(act[~done], got.env_id[~done])
            steps += int((~got.is_reset).sum())
        return {"steps": steps}

    return run
