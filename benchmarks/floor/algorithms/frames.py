"""Frames: batch 32 of 4x84x84, Nature CNN."""

from __future__ import annotations

import numpy as np
import torch
from floor.algorithms.common import GAMMA, Adam, Run, follow, frozen, repeated
from torch import nn


def dqn_large(seed: int) -> Run:
    """From 2,000 single frames, stacked to 4 when they are drawn, of a state and its successor in one gather of 5."""
    torch.manual_seed(seed)
    rng, slots, steps = np.random.default_rng(seed), 2_000, 50
    frames, last = (rng.integers(0, 256, (count, 84, 84), np.uint8) for count in (slots, slots // steps))
    act, rew, slot = rng.integers(0, 6, slots), np.ones(slots, np.float32), np.arange(slots)
    terminated, start = slot % steps == steps - 1, slot // steps * steps
    discount, back = (GAMMA * ~terminated).astype(np.float32), np.arange(3, -2, -1)
    net = nn.Sequential(
        *(nn.Conv2d(4, 32, 8, 4), nn.ReLU(inplace=True), nn.Conv2d(32, 64, 4, 2), nn.ReLU(inplace=True)),
        *(nn.Conv2d(64, 64, 3), nn.ReLU(inplace=True), nn.Flatten()),
        *(nn.Linear(3_136, 512), nn.ReLU(inplace=True), nn.Linear(512, 6)),
    )
    target, optim, updates = frozen(net), Adam(net.parameters()), 0
    copy_over = follow(target, net, 1.0)

    def update() -> float:
        nonlocal updates
        at = rng.integers(0, slots, 32)
        five = frames.take(np.maximum(at[:, None] - back, start[at][:, None]), axis=0, mode="clip")
        five[terminated[at], -1] = last[at[terminated[at]] // steps]
        pixels = torch.from_numpy(five).float().div_(255)
        # with channels last the way back takes less time
        obs, obs_next = pixels[:, :4].contiguous(memory_format=torch.channels_last), pixels[:, 1:]
        taken, paid, kept = (torch.from_numpy(column[at]) for column in (act, rew, discount))
        with torch.no_grad():
            best = net(obs_next).argmax(1, keepdim=True)
            goal = paid + kept * target(obs_next).gather(1, best).squeeze(1)
        loss: torch.Tensor = (net(obs).gather(1, taken.unsqueeze(1)).squeeze(1) - goal).square().mean()
        optim.minimise(loss)
        updates += 1
        if updates % 500 == 0:
            copy_over()
        return loss.item()

    return repeated(update, optim.own)
