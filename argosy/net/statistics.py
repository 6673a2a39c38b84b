"""Running statistics that are part of a network: shipped, saved and pooled with it; and critics that scale by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from argosy.net.backbone import Linear

Scaling = Literal["std", "popart"]
CLIP = 10.0
EPSILON = 1e-8
LEAST_STD = 1e-4


def _alone(array: np.ndarray) -> np.ndarray:
    return array


class RunningStatistics(nn.Module):
    """Mean and population variance of the rows of one array, in float64, merged as by Chan, Golub and LeVeque (1979).

    New rows wait (`take_in`) until `merge`, so that what acts and what learns sees the same numbers in between.
    Before the first merge: mean 0, variance 1.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        self.count: torch.Tensor = nn.Buffer(torch.zeros((), dtype=torch.float64))
        self.mean: torch.Tensor = nn.Buffer(torch.zeros(shape, dtype=torch.float64))
        self.waiting_count: torch.Tensor = nn.Buffer(torch.zeros((), dtype=torch.float64))
        self.waiting_mean: torch.Tensor = nn.Buffer(torch.zeros(shape, dtype=torch.float64))
        self.var: torch.Tensor = nn.Buffer(torch.ones(shape, dtype=torch.float64))
        self.waiting_squares: torch.Tensor = nn.Buffer(torch.zeros(shape, dtype=torch.float64))
        self.pool: Callable[[np.ndarray], np.ndarray] = _alone
        """Sums an array over all trainers of a group; by itself there is one."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and pickles have: they belong to no group."""
        return {**self.__dict__, "pool": _alone}

    @torch.no_grad()
    def take_in(self, rows: torch.Tensor) -> None:
        """Let rows [..., *shape] wait; not such as no loss survives, or they would stay for ever."""
        rows = rows.to(self.mean.device, torch.float64).reshape(-1, *self.shape)
        if len(rows) == 0:
            return
        mean = rows.mean(dim=0)
        squares = (rows - mean).square().sum(dim=0)
        usable = torch.isfinite((squares + mean.square()).float()).all()  # no branch: a GPU would be waited for
        count = usable * len(rows)
        total = (self.waiting_count + count).clamp(min=1.0)
        delta = torch.where(usable, mean - self.waiting_mean, 0.0)
        squares = torch.where(usable, squares, 0.0) + delta.square() * (self.waiting_count * count / total)
        self.waiting_squares += squares
        self.waiting_mean += delta * (count / total)
        self.waiting_count += count

    @torch.no_grad()
    def merge(self) -> None:
        """Count the rows that wait, here and in all trainers of the group, which call this together."""
        count, mean = self._pooled(self.waiting_count), self.waiting_mean
        if count == 0:
            return
        mean = self._pooled(mean * self.waiting_count) / count
        spread = (self.waiting_mean - mean).square() * self.waiting_count
        squares = self._pooled(self.waiting_squares + spread)
        total, delta = self.count + count, mean - self.mean
        # Before the first rows `var` is a placeholder of weight 0
        squares = squares + self.var * self.count + delta.square() * (self.count * count / total)
        self.mean += delta * (count / total)
        self.var.copy_(squares / total)
        self.count.copy_(total)
        for waiting in (self.waiting_count, self.waiting_mean, self.waiting_squares):
            waiting.zero_()

    def _pooled(self, value: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.asarray(self.pool(value.cpu().numpy()))).to(value.device).reshape(value.shape)

    def norm(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows [..., *shape] minus their mean over their deviation, clipped to [-10, 10], as float32."""
        return ((rows.double() - self.mean) / (self.var + EPSILON).sqrt()).clamp(-CLIP, CLIP).float()

    def norm_array(self, rows: np.ndarray) -> np.ndarray:
        """Do the same in numpy, for acting on a CPU: to the last bit, and faster for a few rows."""
        scaled: np.ndarray = (rows - self.mean.numpy()) / np.sqrt(self.var.numpy() + EPSILON)
        return np.asarray(scaled.clip(-CLIP, CLIP), np.float32)


class Scaled(nn.Module):
    """What makes a critic's last layer one whose outputs are in units of reward: std * (what the layer gives) + mean.

    What is learned are the numbers that the layer gives, the returns in units of their running deviation. "std" divides
    returns, without centring, and lets the outputs grow with the deviation; "popart" centres them as well, and keeps
    the outputs where the statistics move, by moving the layer the other way (van Hasselt et al., 2016,
    https://arxiv.org/abs/1602.07714, equation 9).
    """

    weight: nn.Parameter
    bias: nn.Parameter
    keeps_outputs: bool
    statistics: RunningStatistics

    def scale(self, scaling: Scaling) -> None:
        """Begin to scale; nothing was seen yet."""
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

    def unscaled(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return numbers [...] in units of the layer as values in units of reward."""
        return numbers * self.std + self.mean

    def scaled(self, values: torch.Tensor) -> torch.Tensor:
        """Return values or returns [...] in units of the layer."""
        return (values - self.mean) / self.std

    @torch.no_grad()
    def take_in(self, returns: torch.Tensor) -> None:
        """Let returns [...] count in the statistics, here and in all trainers of a group."""
        std, mean = self.std, self.mean
        self.statistics.take_in(returns)
        self.statistics.merge()
        self._move(std, mean)

    @torch.no_grad()
    def take_over(self, other: Scaled) -> None:
        """Count in the units of another layer, as a target network does before it moves towards the online one.

        Both moved apart, weights and units, would be outputs that nobody has learned.
        """
        std, mean = self.std, self.mean
        for name in ("count", "mean", "var"):
            getattr(self.statistics, name).copy_(getattr(other.statistics, name))
        self._move(std, mean)

    def _move(self, std: torch.Tensor, mean: torch.Tensor) -> None:
        """Keep the outputs, where that is asked for, though one unit was `std` and 0 stood for `mean` before."""
        if self.keeps_outputs:
            self.weight.mul_(std / self.std)
            self.bias.copy_((std * self.bias + mean - self.mean) / self.std)


class ScaledLinear(Scaled, Linear):
    """[..., in_features] -> [..., out_features] in units of reward: std * (x @ w + b) + mean, see `Scaled`."""

    def __init__(self, in_features: int, out_features: int, scaling: Scaling) -> None:
        super().__init__(in_features, out_features)
        self.scale(scaling)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features]."""
        return self.unscaled(super().forward(x))


def keeping_layers(module: nn.Module) -> list[Scaled]:
    """Return the layers of a network that keep their outputs where their units change."""
    return [part for part in module.modules() if isinstance(part, Scaled) and part.keeps_outputs]


def moving_parts(module: nn.Module) -> list[torch.Tensor]:
    """Return parameters and buffers of real numbers, but not the units of layers that keep their outputs."""
    units = {id(buffer) for layer in keeping_layers(module) for buffer in layer.statistics.buffers()}
    buffers = (buffer for buffer in module.buffers() if buffer.is_floating_point() and id(buffer) not in units)
    return [*module.parameters(), *buffers]
