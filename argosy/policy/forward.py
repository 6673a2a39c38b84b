"""Policies that act by their `forward` alone: scripted ones, and those written for Tianshou's collectors."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces

from argosy.data import Batch, SampleBatch, to_numpy
from argosy.errors import ConfigError
from argosy.policy.base import Policy, RolloutRequest, RolloutResult
from argosy.policy.boxes import ActionBound


class ForwardPolicy(Policy):
    """Acts with what a subclass's `forward(batch, state)` gives: scripted policies, and those written for Tianshou.

    `batch.obs` is the numpy observation [B, *obs]. The result's `act` [B, *act] is taken to the env, its `state` comes
    again with the next step, and its `policy` (a Batch) is stored in the buffer. A recurrent policy sets
    `default_policy_state`. It has no `analyze`: algorithms of this library cannot train it.

    Args:
        observation_space: space of one observation; needed for action masks only.
        action_space: space of one action.
        action_scaling: as in `Policy`.
        action_bound_method: as in `Policy`.

    Raises:
        ConfigError: `action_space` is missing.
    """

    action_spaces = (spaces.Space,)

    def __init__(
        self,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
        *,
        action_scaling: bool | None = None,
        action_bound_method: ActionBound = "auto",
    ) -> None:
        if action_space is None:
            raise ConfigError(f"{type(self).__name__} was given no action_space; it says what the policy acts in")
        observations: spaces.Space[Any] = spaces.Space() if observation_space is None else observation_space
        super().__init__(
            observations, action_space, action_scaling=action_scaling, action_bound_method=action_bound_method
        )

    def exploration_noise(self, act: np.ndarray, batch: Batch) -> np.ndarray:
        """Return the actions [B, *act] with noise; called for rows that explore. None by default."""
        return act

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Act by `forward`, with `exploration_noise` where a row explores."""
        batch = Batch(obs=requests.obs, info=Batch())
        with torch.no_grad():
            result = self(batch, requests.policy_state)
        act = np.asarray(to_numpy(result.act))
        evaluates = requests.is_evaluation
        if evaluates is None or not evaluates.all():
            noisy = self.exploration_noise(act, batch)
            act = noisy if evaluates is None else np.where(evaluates.reshape(-1, *[1] * (act.ndim - 1)), act, noisy)
        stored = result.get("policy")
        return RolloutResult(
            action=act,
            policy_state=to_numpy(result.get("state")),
            analyzed_result=to_numpy(stored),
        )

    def analyze(self, sample: SampleBatch) -> NoReturn:
        """Not there: what an algorithm needs of a policy, `forward` does not say."""
        raise NotImplementedError(f"{type(self).__name__} acts by forward() only; write analyze() to train it")
