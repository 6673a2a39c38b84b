"""Critics that predict scaled returns."""

from __future__ import annotations

from typing import Literal

import torch

from argosy.net.backbone import Linear
from argosy.net.statistics import RunningStatistics

LEAST_STD = 1e-4


class ScaledLinear(Linear):
    """Last layer of a critic, [..., in_features] -> [..., out_features] in units of reward: std * (x @ w + b) + mean.

    What is learned are the numbers x @ w + b, the returns in units of their running deviation.

    Args:
        in_features: width of the input.
        out_features: number of values.
        scaling: "std" divides returns, without centring, and lets the outputs grow with the deviation; "popart" centres
            them as well, and keeps the outputs where the statistics move, by moving the layer the other way (van
            Hasselt et al., 2016, https://arxiv.org/abs/1602.07714, equation 9).
    """

    def __init__(self, in_features: int, out_features: int, scaling: Literal["std", "popart"]) -> None:
        super().__init__(in_features, out_features)
        self.keeps_outputs = scaling == "popart"
        self.statistics = RunningStatistics(())

    @property
    def std(self) -> torch.Tensor:
        """What one unit of the layer is worth in reward (a scalar)."""
        return self.statistics.var.sqrt().clamp(min=LEAST_STD).to(self.weight.dtype)

    @property
    def mean(self) -> torch.Tensor:
        """What 0 stands for (a scalar)."""
        return self.statistics.mean.to(self.weight.dtype) if self.keeps_outputs else torch.zeros_like(self.std)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features]."""
        return super().forward(x) * self.std + self.mean

    def scaled(self, values: torch.Tensor) -> torch.Tensor:
        """Return values or returns [...] in units of the layer."""
        return (values - self.mean) / self.std

    @torch.no_grad()
    def take_in(self, returns: torch.Tensor) -> None:
        """Let returns [...] count in the statistics, here and in all trainers of a group."""
        std, mean = self.std, self.mean
        self.statistics.take_in(returns)
        self.statistics.merge()
        if self.keeps_outputs:
            self.weight.mul_(std / self.std)
            self.bias.copy_((std * self.bias + mean - self.mean) / self.std)
