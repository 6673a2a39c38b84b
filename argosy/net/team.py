"""Networks of a team: one for all agents, each with an observation of its own, and what mixes their values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Literal

import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional as F

from argosy.data.protocols import Obs
from argosy.errors import SpaceError
from argosy.net.backbone import MLP, Backbone, Space
from argosy.net.config import NetConfig
from argosy.net.encoder import make_encoder
from argosy.net.memory import Memory

AGENTS, ALIVE, STATE = "agents", "alive", "state"
"""Entries of a team's observation, see `argosy.env.agents.team`."""

# Shapes: [...] leading axes, N agents.


def team_parts(space: Space, agents: int) -> dict[str, Space]:
    """Return the entries of a team's observation; none where all of N agents see all of it.

    Raises:
        SpaceError: "agents" has not a row for each of them, or "alive" not a flag; or "agents" alone is missing.
    """
    parts = space.spaces if isinstance(space, spaces.Dict) else {}
    rows, alive = parts.get(AGENTS), parts.get(ALIVE)
    if not {AGENTS, ALIVE, STATE} & parts.keys():
        return {}
    is_of_each = isinstance(rows, spaces.Box) and rows.shape[:1] == (agents,)
    if not is_of_each or not (alive is None or alive == spaces.MultiBinary(agents)):
        raise SpaceError(
            f"a team of {agents} has a row of {AGENTS!r} for each of them, Box({agents}, ...), and where agents leave "
            f"{ALIVE!r}, MultiBinary({agents}); here these are {rows} and {alive}. Where all see all of an "
            f"observation, it has no entry called {AGENTS!r}, {ALIVE!r} or {STATE!r}"
        )
    return dict(parts)


class TeamEncoder(nn.Module):
    """Observations of a team -> inputs [..., N, out_features]: what each agent sees, and which one it is (one-hot).

    Args:
        of_agent: encoder of what one agent sees.
        agents: N.
        is_shared: all see all of an observation; else each has its row of the entry "agents".
    """

    def __init__(self, of_agent: nn.Module, agents: int, *, is_shared: bool) -> None:
        super().__init__()
        width: Any = of_agent.out_features
        self.of_agent, self.is_shared, self.out_features = of_agent, is_shared, width + agents
        self.identity = nn.Buffer(torch.eye(agents), persistent=False)

    def forward(self, obs: Obs) -> torch.Tensor:
        """[..., *obs] -> [..., N, out_features]."""
        entries: Any = obs
        x: torch.Tensor = self.of_agent(obs if self.is_shared else entries[AGENTS])
        if self.is_shared:
            x = x.unsqueeze(-2).expand(*x.shape[:-1], len(self.identity), -1)
        return torch.cat((x, self.identity.expand(*x.shape[:-1], -1)), dim=-1)


class TeamMemory(Memory):
    """One memory for all N agents, each with a state of its own: a team's state [..., N * S] is theirs in a row."""

    def __init__(self, kind: Literal["gru", "lstm"], in_features: int, size: int, agents: int) -> None:
        super().__init__(kind, in_features, size)
        self.agents, self.state_size = agents, agents * self.state_size

    def output(self, state: torch.Tensor) -> torch.Tensor:
        """States [..., N * S] -> outputs [..., N, H]."""
        return super().output(state.reshape(*state.shape[:-1], self.agents, -1))

    def step(self, x: torch.Tensor, state: torch.Tensor | None) -> torch.Tensor:
        """Return the states [..., N * S] after one step with inputs [..., N, F]."""
        own = None if state is None else state.reshape(*state.shape[:-1], self.agents, -1)
        return super().step(x, own).flatten(-2)


class TeamBackbone(Backbone):
    """Observations of a team -> features [..., N, out_features], by one network that is told which agent it is.

    Args:
        space: a team's observation, or one that all agents see.
        agents: N.
        config: kind, widths, activation and memory.
        skip: top-level keys that are no input.
    """

    def __init__(self, space: Space, agents: int, config: NetConfig, skip: Collection[str] = ()) -> None:
        rows = team_parts(space, agents).get(AGENTS)
        own = spaces.Box(rows.low[0], rows.high[0], dtype=rows.dtype.type) if isinstance(rows, spaces.Box) else None
        super().__init__(own or space, replace(config, memory=None, hidden_sizes=()), () if own else skip)
        self.encoder, self.takes_vectors = TeamEncoder(self.encoder, agents, is_shared=own is None), False
        width = self.encoder.out_features
        if config.memory is not None:
            self.memory = TeamMemory(config.memory, width, config.memory_size, agents)
            width = self.memory.out_features
        self.trunk = MLP(width, config.hidden_sizes, activation=config.activation)
        self.out_features = self.trunk.out_features


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
        parts = team_parts(space, agents)
        self.has_state, seen = STATE in parts, parts.get(STATE, space)
        self.encoder, width = make_encoder(seen, config, () if self.has_state else skip, config.cnn_features)
        self.sizes = agents * size, size, size, 1
        self.weights = MLP(width, (2 * size,), sum(self.sizes), activation="tanh")

    def forward(self, obs: Obs, q: torch.Tensor) -> torch.Tensor:
        """([..., *obs], values [..., N]) -> [...]."""
        entries: Any = obs
        state = self.encoder(entries[STATE] if self.has_state else obs)
        first, offset, second, last = self.weights(state).split(self.sizes, dim=-1)
        first = first.abs().reshape(*q.shape, -1)
        hidden = F.elu((q.unsqueeze(-2) @ first).squeeze(-2) + offset)
        mixed: torch.Tensor = (hidden * second.abs()).sum(dim=-1) + last.squeeze(-1)
        return mixed


class Sum(nn.Module):
    """Value of a team as the sum of its agents' values (VDN; Sunehag et al., 2018)."""

    def forward(self, obs: Obs, q: torch.Tensor) -> torch.Tensor:
        """([..., *obs], values [..., N]) -> [...]."""
        return q.sum(dim=-1)
