"""Observations by running statistics that a policy keeps: shipped, saved and exported with its parameters."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import getitem
from typing import Any, cast

import torch
from gymnasium import spaces
from torch import nn

from argosy.data import tree
from argosy.data.protocols import Obs
from argosy.env.spaces import Space
from argosy.errors import ConfigError
from argosy.net import RunningStatistics
from argosy.net.encoder import leaf_spaces


class Normaliser(nn.Module):
    """Normalises the Boxes of floats in an observation, each by itself; images, masks and choices stay as they are.

    Args:
        space: the observation space.
        skip: top-level keys that are no input (an action mask).

    Raises:
        ConfigError: there is no Box of floats.
    """

    def __init__(self, space: Space, skip: Collection[str] = ()) -> None:
        super().__init__()
        shapes = float_boxes(space, skip)
        if not shapes:
            raise ConfigError(f"NetConfig.norm_obs is True, but {space} holds no Box of floats; leave it out")
        self.paths = list(shapes)
        self.parts = nn.ModuleList(map(RunningStatistics, shapes.values()))
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
            if path[0] not in out:  # acting does not need what only critics see
                continue
            fields = tree.fields_of(out)
            for key in path[:-1]:
                fields = tree.fields_of((fields or {})[key])
            assert fields is not None
            fields[path[-1]] = getattr(part, method)(fields[path[-1]])
        return out

    def held(self) -> Obs:
        """Return what the update under way learns from, as it came."""
        assert self._held is not None
        return self._held[0]

    def hold(self, obs: Obs, mask: torch.Tensor | None) -> None:
        """Keep what an update learns from, to be taken in at its end (see `merge`), and only if it succeeds."""
        self._held = obs, mask

    def take_in(self, obs: Any, mask: torch.Tensor | None = None) -> None:
        """Let observations [..., *obs] wait for the end of the next update; a `mask` [...] says which ones count."""
        for path, part in zip(self.paths, self.parts, strict=True):
            rows = torch.as_tensor(reduce(getitem, path, obs))
            cast(RunningStatistics, part).take_in(rows if mask is None else rows[mask])

    def merge(self) -> None:
        """Count what was held or taken in since the last time."""
        if self._held is not None:
            held, self._held = self._held, None
            self.take_in(*held)
        for part in self.parts:
            cast(RunningStatistics, part).merge()


def float_boxes(space: Space, skip: Collection[str] = ()) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Return the shapes of the Boxes of floats in a space, by the keys that lead there; `skip` are keys left out."""
    leaves = leaf_spaces(space, skip)
    return {path: part.shape for path, part in leaves if isinstance(part, spaces.Box) and part.dtype.kind == "f"}
