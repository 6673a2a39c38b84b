"""Plain networks of a user's own, wherever observations are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data.protocols import Obs
from argosy.errors import ConfigError, SpaceError


class PlainNetwork(nn.Module):
    """A network that maps rows [N, *obs] to [N, out_features], as an encoder of observations with any leading axes.

    It is given Box and MultiBinary observations as float32, Discrete and MultiDiscrete ones as int64, dicts of these
    for Dict spaces. How wide its output is, it is asked.

    Args:
        network: the network.
        space: the observation space.
        scale_uint8: divide uint8 observations by their upper bound.

    Raises:
        ConfigError: it cannot read two observations of the space, or gives no vector for each.
        SpaceError: the space has parts that no tensor holds.
    """

    def __init__(self, network: nn.Module, space: spaces.Space[Any], *, scale_uint8: bool) -> None:
        super().__init__()
        self.network, self.space, self.scale_uint8 = network, space, scale_uint8
        was_training = network.training
        network.eval()
        try:
            with torch.no_grad():
                out: object = self(_zeros(space))
        except SpaceError:
            raise
        except Exception as error:
            raise ConfigError(f"{type(network).__name__} cannot read observations of {space}: {error}") from error
        network.train(was_training)
        if not isinstance(out, torch.Tensor) or out.dim() != 2 or len(out) != 2:
            shown = f"shape {tuple(out.shape)}" if isinstance(out, torch.Tensor) else f"a {type(out).__name__}"
            raise ConfigError(
                f"{type(network).__name__} gave {shown} for two observations; it must give a vector for each: "
                "[2, features]"
            )
        self.out_features = out.shape[1]

    def forward(self, obs: Obs) -> torch.Tensor:
        """[..., *obs] -> [..., out_features]."""
        lead = _lead(self.space, obs)
        out: torch.Tensor = self.network(self._rows(self.space, obs))
        return out if len(lead) == 1 else out.reshape(*lead, *out.shape[1:])

    def _rows(self, space: spaces.Space[Any], obs: Any) -> Any:
        """[..., *obs] -> [N, *obs], as the network reads them."""
        if isinstance(space, spaces.Dict):
            return {key: self._rows(part, obs[key]) for key, part in space.items()}
        rows = obs.reshape(-1, *(space.shape or ()))
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            return rows.long()
        if isinstance(space, spaces.Box) and space.dtype == np.uint8 and self.scale_uint8:
            return rows.float() / max(float(space.high.max()), 1.0)
        return rows.float()


def _lead(space: spaces.Space[Any], obs: Any) -> torch.Size:
    """Return the leading axes of observations."""
    while isinstance(space, spaces.Dict):
        key = next(iter(space))
        space, obs = space[key], obs[key]
    shape: torch.Size = obs.shape[: obs.dim() - len(space.shape or ())]
    return shape


def _zeros(space: spaces.Space[Any]) -> Any:
    """Return two observations, to ask the network with."""
    if isinstance(space, spaces.Dict):
        return {key: _zeros(part) for key, part in space.items()}
    if not isinstance(space, spaces.Box | spaces.MultiBinary | spaces.Discrete | spaces.MultiDiscrete):
        raise SpaceError(f"networks read Box, Discrete, MultiDiscrete, MultiBinary and Dict of these, not {space}")
    return torch.zeros(2, *(space.shape or ()))
