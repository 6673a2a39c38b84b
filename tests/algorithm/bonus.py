"""Wrappers that somebody has outside of the package: a reward for rare observations, and a learned one."""

import numpy as np
import torch

from argosy.algorithm import AlgorithmWrapper, OptimConfig


class CountBonus(AlgorithmWrapper):
    """Adds scale / sqrt(number of visits) of an observation's cell (Bellemare et al., 2016, section 5)."""

    def __init__(self, inner, task, scale: float = 0.1, cells: int = 64):
        super().__init__(inner, task)
        self.scale, self.counts = scale, torch.zeros(cells)
        size = int(np.prod(task.observation_space.shape))
        self.projection = torch.randn(size, 6)

    def change(self, batch):
        rows = batch.obs_next.reshape(-1, len(self.projection)).float()
        cell = ((rows @ self.projection > 0) * 2 ** torch.arange(6)).sum(-1)
        self.counts += torch.bincount(cell, minlength=len(self.counts))
        bonus = (self.scale / self.counts[cell].sqrt()).reshape(batch.rew.shape)
        batch.rew = batch.rew + bonus
        return {"bonus_mean": float(bonus.mean())}


class Surprise(AlgorithmWrapper):
    """Pays for what its own network, with an optimiser of its own, fails to foretell: the simplest curiosity."""

    def __init__(self, inner, task, lr: float = 1e-3):
        super().__init__(inner, task)
        size = int(np.prod(task.observation_space.shape))
        self.net = torch.nn.Linear(size, size).to(self.device)
        self.optim = OptimConfig(lr=lr).build(self.net)

    def change(self, batch):
        obs, obs_next = (x.reshape(*batch.rew.shape, -1).float() for x in (batch.obs, batch.obs_next))
        error = (self.net(obs) - obs_next).square().mean(-1)
        loss = error.mean()
        self.optim.step(loss)
        batch.rew = batch.rew + error.detach()
        return {"loss_surprise": float(loss.detach())}


class Twice(AlgorithmWrapper):
    """Rewards count twice."""

    def change(self, batch):
        batch.rew = 2 * batch.rew
        return {}


class SeesThreads(AlgorithmWrapper):
    """Reports with how many threads it learns."""

    def change(self, batch):
        return {"threads": float(torch.get_num_threads())}


class Hears:
    """A callback that does nothing."""

    def on_epoch(self, trainer, stats):
        pass


def flat(observation_space):
    """An encoder: the observation in one row."""
    return torch.nn.Flatten()
