"""Policy with a table: the best action by the values of a numbered state's actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import Batch, SampleBatch, tree
from argosy.data.protocols import ObsBatchProtocol
from argosy.env.spaces import Space
from argosy.errors import SpaceError
from argosy.policy.base import Policy, PolicyState, RolloutRequest, RolloutResult
from argosy.policy.q import QAnalysis


class TabularPolicy(Policy):
    """argmax of a table of values, all 0 at first; exploring rows act as evaluating ones do.

    Raises:
        SpaceError: observations or actions are not Discrete.
    """

    action_spaces = (spaces.Discrete,)

    def __init__(self, observation_space: Space, action_space: Space) -> None:
        super().__init__(observation_space, action_space)
        if not isinstance(observation_space, spaces.Discrete):
            raise SpaceError(f"TabularPolicy observes Discrete spaces, not {observation_space}")
        self.num_states = int(observation_space.n)
        self._first = int(observation_space.start)
        self.table = nn.Buffer(torch.zeros(self.num_states, self.num_actions))
        """[num_states, num_actions] values; whoever learns writes them."""

    def states(self, obs: Any) -> Any:
        """Number states from 0: observations [...] -> [...]."""
        return obs - self._first

    def forward(self, batch: ObsBatchProtocol, state: PolicyState = None) -> Batch:
        """Greedy actions [...] for `batch.obs`, and their values [..., num_actions] as `logits`."""
        analysis = self._analysis(self._tensors(batch.obs))
        return Batch(act=analysis.greedy, logits=analysis.q, state=None)

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Actions [B] int64."""
        values = self.table.cpu().numpy()[self.states(np.asarray(requests.obs))]
        return RolloutResult(action=values.argmax(axis=-1))

    def analyze(self, sample: SampleBatch) -> QAnalysis:
        """Values of the states [...] and of the stored actions."""
        return self._analysis(sample.obs, sample.act)

    def analyze_next(self, sample: SampleBatch, rows: tuple[torch.Tensor, ...] | None = None) -> QAnalysis:
        """Values of the successors, or of some of them."""
        return self._analysis(sample.obs_next if rows is None else tree.index(sample.obs_next, rows))

    def _analysis(self, obs: Any, act: torch.Tensor | None = None) -> QAnalysis:
        return QAnalysis(self.table[self.states(obs).long()], None, act)
