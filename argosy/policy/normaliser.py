"""Observations by running statistics that a policy keeps: shipped, saved and exported with its parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import tree
from argosy.data.protocols import Obs
from argosy.errors import ConfigError

CLIP = 10.0
EPSILON = 1e-8


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
        for name in ("", "waiting_"):
            self.register_buffer(f"{name}count", torch.zeros((), dtype=torch.float64))
            self.register_buffer(f"{name}mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("waiting_squares", torch.zeros(shape, dtype=torch.float64))
        self.count: torch.Tensor
        self.mean: torch.Tensor
        self.var: torch.Tensor
        self.waiting_count: torch.Tensor
        self.waiting_mean: torch.Tensor
        self.waiting_squares: torch.Tensor
        self.pool: Callable[[np.ndarray], np.ndarray] = _alone
        """Sums an array over all trainers of a group; by itself there is one."""

    @torch.no_grad()
    def take_in(self, rows: torch.Tensor) -> None:
        """Let rows [..., *shape] wait."""
        rows = rows.to(self.mean.device, torch.float64).reshape(-1, *self.shape)
        if len(rows) == 0:
            return
        mean = rows.mean(dim=0)
        squares = (rows - mean).square().sum(dim=0)
        total = self.waiting_count + len(rows)
        delta = mean - self.waiting_mean
        self.waiting_squares += squares + delta.square() * (self.waiting_count * len(rows) / total)
        self.waiting_mean += delta * (len(rows) / total)
        self.waiting_count.copy_(total)

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


class Normaliser(nn.Module):
    """Normalises the Boxes of floats in an observation, each by itself; images, masks and choices stay as they are.

    Args:
        space: the observation space.
        skip: top-level keys that are no input (an action mask).

    Raises:
        ConfigError: there is no Box of floats.
    """

    def __init__(self, space: spaces.Space[Any], skip: Collection[str] = ()) -> None:
        super().__init__()
        self.paths: list[tuple[str, ...]] = []
        parts: list[RunningStatistics] = []

        def visit(part: spaces.Space[Any], path: tuple[str, ...]) -> None:
            if isinstance(part, spaces.Dict):
                for key, value in part.spaces.items():
                    if path or key not in skip:
                        visit(value, (*path, str(key)))
            elif isinstance(part, spaces.Box) and part.dtype.kind == "f":
                self.paths.append(path)
                parts.append(RunningStatistics(part.shape))

        visit(space, ())
        if not parts:
            raise ConfigError(f"NetConfig.norm_obs is True, but {space} holds no Box of floats; leave it out")
        self.parts = nn.ModuleList(parts)
        self._held: tuple[Obs, torch.Tensor | None] | None = None

    def __call__(self, obs: Obs) -> Obs:
        """Normalise tensors [..., *obs], out of place."""
        return cast(Obs, self._mapped(obs, "norm"))

    def norm_arrays(self, obs: object) -> object:
        """Normalise numpy arrays [..., *obs], out of place."""
        return self._mapped(obs, "norm_array")

    def _mapped(self, obs: Any, method: str) -> Any:
        if self.paths[0] == ():
            return getattr(self.parts[0], method)(obs)
        out = tree.map_leaves(lambda leaf: leaf, obs)  # new containers over the same arrays
        for path, part in zip(self.paths, self.parts, strict=True):
            fields = tree.fields_of(out)
            for key in path[:-1]:
                fields = tree.fields_of((fields or {})[key])
            assert fields is not None
            fields[path[-1]] = getattr(part, method)(fields[path[-1]])
        return out

    def hold(self, obs: Obs, mask: torch.Tensor | None) -> None:
        """Keep what an update learns from, to be taken in at its end (see `merge`), and only if it succeeds."""
        self._held = obs, mask

    def take_in(self, obs: Any, mask: torch.Tensor | None = None) -> None:
        """Let observations [..., *obs] wait for the end of the next update; a `mask` [...] says which ones count."""
        for path, part in zip(self.paths, self.parts, strict=True):
            leaf = obs
            for key in path:
                leaf = leaf[key]
            rows = torch.as_tensor(leaf)
            cast(RunningStatistics, part).take_in(rows if mask is None else rows[mask])

    def merge(self) -> None:
        """Count what was held or taken in since the last time."""
        if self._held is not None:
            held, self._held = self._held, None
            self.take_in(*held)
        for part in self.parts:
            cast(RunningStatistics, part).merge()
