"""Policy of a team: each agent's best choice by the values that one network gives it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces

from argosy.env.spaces import Space
from argosy.net import Linear, NetConfig
from argosy.net.team import AGENTS, TeamBackbone, team_parts
from argosy.policy.base import RolloutRequest, RolloutResult
from argosy.policy.branching import BranchingPolicy


class TeamPolicy(BranchingPolicy):
    """A `BranchingPolicy` whose parts are the choices of agents, each by what it sees; each explores by itself.

    Args:
        observation_space: with an entry "agents" [N, *obs] each agent sees its own row, else all see all.
        action_space: MultiDiscrete of one axis: a choice for each of N agents.
        net: shape of the network, which all agents share; of its memory each has a state of its own.

    Raises:
        SpaceError: the action space has several axes, or what agents see is not one row for each of them.
    """

    action_spaces = (spaces.MultiDiscrete,)

    def __init__(self, observation_space: Space, action_space: Space, net: NetConfig | None = None) -> None:
        super().__init__(observation_space, action_space, net)
        if parts := team_parts(observation_space, self.action_dim):
            self.acts_on = spaces.Dict({key: parts[key] for key in (AGENTS, *self.no_input)})

    def _make_networks(self, sizes: Sequence[int], net: NetConfig) -> None:
        self.backbone = TeamBackbone(self.observation_space, len(sizes), net, self.no_input)
        self.head = Linear(self.backbone.out_features, max(sizes))

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Choices [B, N]."""
        (q,), memory = self._outputs(requests, (self.backbone, self.head))
        allowed = self._allowed(requests.obs, q.shape)
        act = np.where(allowed, q, -np.inf).argmax(axis=-1)
        if self.exploration is not None:
            count, size = act.shape
            evaluates = None if requests.is_evaluation is None else requests.is_evaluation.repeat(size)
            rows = act.reshape(-1), evaluates, self.rng, allowed.reshape(count * size, -1), None
            act = self.exploration.explore(*rows)[0].reshape(count, size)
        return RolloutResult(action=act.astype(np.int64, copy=False), policy_state=memory)
