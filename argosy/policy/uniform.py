"""The policy that knows nothing."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from argosy.data import Batch, tree
from argosy.env.random_actions import random_actions
from argosy.policy.base import PolicyState
from argosy.policy.forward import ForwardPolicy


class RandomPolicy(ForwardPolicy):
    """Draws uniformly among the (allowed) actions, in evaluation too: an opponent, or what others are compared with."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        super().__init__(observation_space, action_space, action_scaling=False, action_bound_method=None)

    def forward(self, batch: Any, state: PolicyState = None) -> Batch:
        """Draw `act` for `batch.obs`."""
        count = len(next(leaf for _, leaf in tree.leaves(batch.obs)))
        act = random_actions(self.action_space, count, self.rng.numpy, self._mask(batch.obs))
        return Batch(act=self.map_action_inverse(act), state=state)
