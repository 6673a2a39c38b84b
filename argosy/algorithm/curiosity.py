"""What rewards of an algorithm's own for new experience share: rows, bonuses in units of their size, learning."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import nn

from argosy.algorithm.base import Algorithm, Task
from argosy.algorithm.critics import as_taken
from argosy.algorithm.optim import Optim, OptimConfig
from argosy.algorithm.wrapper import AlgorithmWrapper
from argosy.data import Batch, tree
from argosy.data.protocols import Obs
from argosy.errors import ConfigError
from argosy.net import Backbone, NetConfig, RunningStatistics
from argosy.policy.normaliser import Normaliser, float_boxes

LEAST = 1e-8
"""Size that bonuses are divided by, at the least."""
# Shapes: N rows of a batch, whatever its axes; n rows of one step.


class Surprise(NamedTuple):
    """What networks make of n rows."""

    bonus: torch.Tensor
    """[n], in units of its own."""
    loss: torch.Tensor
    """What their optimiser climbs down."""
    metrics: dict[str, torch.Tensor]
    """Parts of it, by the names that `AlgorithmWrapper.change` says."""


class Curiosity(AlgorithmWrapper):
    """Adds a bonus to each reward: high where networks of its own are surprised, which then learn from the row.

    Bonuses are divided by the root mean square of all so far, so that `scale` means the same in every task, and what is
    known is worth less and less. Floats among the observations are normalised by running statistics of its own.

    Args:
        inner: learns from both, the reward and the bonus.
        task: what both are made for.
        scale: what a bonus of that size is worth in reward.
        batch_size: rows per step of the networks' optimiser; a rollout is gone through once, in random order.

    Raises:
        ConfigError: an argument is out of range, or the inner algorithm collects nothing, or looks at no reward.
    """

    optim: Optim
    """A subclass makes it, and the networks that it steps."""

    def __init__(self, inner: Algorithm[Any, Any], task: Task, scale: float, batch_size: int) -> None:
        super().__init__(inner, task)
        name = type(self).__name__
        if not (0.0 < scale < math.inf and batch_size >= 1):
            raise ConfigError(f"{name}: scale is {scale}, batch_size {batch_size}; allowed are numbers above 0")
        if inner.kind == "offline" or inner.expert_rows or inner.needs_expert:
            raise ConfigError(
                f"{name} pays for new experience, but {type(inner).__name__} learns from a data set or an expert; "
                "leave it out of `wrap`"
            )
        self.scale, self.batch_size = scale, batch_size
        self.bonuses = RunningStatistics(()).to(self.device)
        seen, skip = task.observation_space, self.policy.no_input
        self.normaliser = Normaliser(seen, skip).to(self.device) if float_boxes(seen, skip) else None

    @abstractmethod
    def surprise(self, obs: Obs, act: torch.Tensor, obs_next: Obs) -> Surprise:
        """Return what the networks make of transitions [n, ...], normalised; actions are as the env took them."""

    def change(self, batch: Batch) -> dict[str, float]:
        """Add the bonuses, each from before the networks learned from its row.

        Rows beside the mask are not learned from, but what stands behind one that is counts in its advantage.
        """
        lead, mask = batch.rew.shape, batch.get("mask")
        fields = Batch(obs=batch.obs, act=as_taken(self.policy, batch.act), obs_next=batch.obs_next)
        rows = tree.map_leaves(lambda leaf: leaf.flatten(0, len(lead) - 1), fields)
        if self.normaliser is not None:
            self.normaliser.take_in(rows.obs_next if mask is None else tree.index(rows.obs_next, mask.flatten()))
            self.normaliser.merge()
            rows.obs, rows.obs_next = self.normaliser(rows.obs), self.normaliser(rows.obs_next)
        bonus, sums = torch.zeros(lead.numel(), device=self.device), dict[str, torch.Tensor]()
        order = torch.arange(lead.numel()) if mask is None else mask.flatten().nonzero().squeeze(-1).cpu()
        order = order[torch.randperm(len(order), generator=self.rng.torch)].to(self.device)
        parts = order.tensor_split(max(1, lead.numel() // self.batch_size))  # as many in all trainers of a group
        if mask is not None:
            others = (~mask.flatten()).nonzero().squeeze(-1)
            with torch.no_grad():
                for part in others.split(self.batch_size):
                    bonus[part] = self.surprise(**rows[part]).bonus
        for part in (part if len(part) else order for part in parts):  # few rows may be fewer than parts
            found = self.surprise(**rows[part])
            self.optim.step(found.loss)
            bonus[part] = found.bonus.detach()
            for name, value in found.metrics.items():
                sums[name] = sums.get(name, 0.0) + value.detach() / len(parts)
        self.bonuses.take_in(bonus[order])
        self.bonuses.merge()
        size = (self.bonuses.var + self.bonuses.mean.square()).sqrt().clamp(min=LEAST)
        bonus = self.scale * bonus / size.float()
        batch.rew = batch.rew + bonus.view(lead)
        sums["bonus_mean"] = bonus[order].mean()
        return {name: value.item() for name, value in sums.items()}

    def backbone(self, task: Task, hidden_sizes: tuple[int, ...]) -> Backbone:
        """Make a network of observations, without memory; images go through a CNN."""
        net = NetConfig(hidden_sizes=hidden_sizes)
        return Backbone(task.observation_space, net, self.policy.no_input).to(self.device)

    def learn(self, network: nn.Module, lr: float) -> None:
        """Let Adam step a network."""
        self.optim = OptimConfig(lr=lr).build(network)
