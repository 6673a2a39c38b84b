"""Networks of a team: one for all agents, each with an observation of its own, and what mixes their values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional as F

from argosy.data.protocols import Obs
from argosy.errors import ConfigError
from argosy.net.backbone import MLP, Backbone, Linear, Space
from argosy.net.config import NetConfig
from argosy.net.encoder import make_encoder

AGENTS, ALIVE, STATE = "agents", "alive", "state"
"""Entries of a team's observation, see `argosy.env.agents.team`."""

# Shapes: [...] leading axes, N agents.


def agent_space(space: Space) -> spaces.Box | None:
    """Return what one agent sees of a team's observation; None where all see all of it."""
    rows = space.spaces.get(AGENTS) if isinstance(space, spaces.Dict) else None
    return spaces.Box(rows.low[0], rows.high[0], dtype=rows.dtype.type) if isinstance(rows, spaces.Box) else None


class TeamBackbone(Backbone):
    """Observations of a team -> features [..., N, out_features], by one network that is told which agent it is.

    Args:
        space: a team's observation, or one that all agents see.
        agents: N.
        config: kind, widths, activation; there is no memory.
        skip: top-level keys that are no input.
    """

    def __init__(self, space: Space, agents: int, config: NetConfig, skip: Collection[str] = ()) -> None:
        if config.memory is not None:
            raise ConfigError(
                f"net.memory is {config.memory!r}, but agents of a team have none yet; stack their frames"
            )
        own = agent_space(space)
        super().__init__(own or space, config, () if own else skip)
        width: Any = self.encoder.out_features
        self.trunk = MLP(width + agents, config.hidden_sizes, activation=config.activation)
        self.out_features, self.of_team = self.trunk.out_features, own is not None
        self.identity = nn.Buffer(torch.eye(agents), persistent=False)

    def _encoded(self, obs: Obs) -> torch.Tensor:
        """[..., *obs] -> [..., N, F]."""
        entries: Any = obs
        x: torch.Tensor = self.encoder(entries[AGENTS] if self.of_team else obs)
        if not self.of_team:
            x = x.unsqueeze(-2).expand(*x.shape[:-1], len(self.identity), -1)
        return torch.cat((x, self.identity.expand(*x.shape[:-1], -1)), dim=-1)


class Mixer(nn.Module):
    """Value of a team from those of its agents, which grows with each of them (Rashid et al., 2018, section 4.1).

    Weights of a layer of `size` units and of what follows it are linear functions, without their signs, of what a
    hidden layer of tanh makes of the state. The paper's are functions of the state itself, and grow with it: in a game
    without walls (simple spread), agents that flew away were worth more and more, until values were 1e9.

    Args:
        space: a team's observation; its state, where it has one, else all of it is what weights follow from.
        agents: N.
        config: how the state is read.
        skip: top-level keys that are no input.
        size: units.
    """

    def __init__(self, space: Space, agents: int, config: NetConfig, skip: Collection[str], size: int) -> None:
        super().__init__()
        parts = space.spaces if agent_space(space) is not None and isinstance(space, spaces.Dict) else {}
        self.has_state, seen = STATE in parts, parts.get(STATE, space)
        self.encoder, width = make_encoder(seen, config, () if self.has_state else skip, config.cnn_features)
        self.bounded = MLP(width, (2 * size,), activation="tanh")
        self.first, self.offset = Linear(2 * size, agents * size), Linear(2 * size, size)
        self.second, self.last = Linear(2 * size, size), Linear(2 * size, 1)

    def forward(self, obs: Obs, q: torch.Tensor) -> torch.Tensor:
        """([..., *obs], values [..., N]) -> [...]."""
        entries: Any = obs
        state = self.bounded(self.encoder(entries[STATE] if self.has_state else obs))
        first = self.first(state).abs().unflatten(-1, (q.shape[-1], -1))
        hidden = F.elu((q.unsqueeze(-2) @ first).squeeze(-2) + self.offset(state))
        mixed: torch.Tensor = (hidden * self.second(state).abs()).sum(dim=-1) + self.last(state).squeeze(-1)
        return mixed


class Sum(nn.Module):
    """Value of a team as the sum of its agents' values (VDN; Sunehag et al., 2018)."""

    def forward(self, obs: Obs, q: torch.Tensor) -> torch.Tensor:
        """([..., *obs], values [..., N]) -> [...]."""
        return q.sum(dim=-1)
