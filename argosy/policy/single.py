"""Base of a policy of one's own around one network: write `rollout` and `analyze`, the rest is there."""

from __future__ import annotations

from typing import Any

from torch import nn

from argosy.config import check_range
from argosy.data import Batch
from argosy.env.spaces import ARRAYS, Space
from argosy.policy.base import Policy, PolicyState
from argosy.policy.predict import request


class SingleModelPytorchPolicy(Policy):
    """A policy whose parameters are those of one network.

    A subclass makes the network, hands it over, and writes `rollout` and `analyze`; a recurrent one sets
    `default_policy_state`. Device, version, checkpoints, seeds and the mapping of actions are done. The page of an
    algorithm says what it wants to find in `analyze`.

    `rollout` of a recurrent policy finds the state of each row in `policy_state` (at an episode's first step the
    default one) and returns the one after the step. `analyze` finds sequences [T, B, ...] with the states before each
    step, as they were used, in `sample.policy.state`; it starts from these in the first row and where
    `sample.on_reset` is True. `argosy.net.Memory` does both. Algorithms that bootstrap from `obs_next` ask for
    `analyze_next`, too.

    Args:
        observation_space: space of one observation.
        action_space: space of one action.
        net: the network.
        default_policy_state: recurrent state [...] of one row at an episode's start, None for memoryless policies.
        sequence_length: rows of a sequence to learn from, for recurrent policies.
        burn_in: rows before them that only warm the state up.

    Raises:
        ConfigError: a number is out of range.
    """

    action_spaces = ARRAYS

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: nn.Module,
        *,
        default_policy_state: PolicyState = None,
        sequence_length: int = 16,
        burn_in: int = 0,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.net = net
        self.default_policy_state = default_policy_state
        self.sequence_length, self.burn_in = sequence_length, burn_in
        check_range(self, "sequence_length", ge=1)
        check_range(self, "burn_in", ge=0)

    def forward(self, batch: Any, state: PolicyState = None) -> Batch:
        """Return `act`, the evaluation actions of `rollout`, and `state`; without `state` an episode starts."""
        result = self.rollout(request(self, batch.obs, state, evaluates=True))
        return Batch(act=result.action, state=result.policy_state)
