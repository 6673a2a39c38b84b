"""Policies that act by their `forward` alone: scripted ones, those for Tianshou's collectors, and the random one."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces

from argosy.data import Batch, SampleBatch, to_numpy, tree
from argosy.env.actions import random_actions
from argosy.env.spaces import Space
from argosy.env.vector.protocol import Obs
from argosy.errors import ConfigError
from argosy.policy.base import Policy, PolicyState, RolloutRequest, RolloutResult
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
        observation_space: Space | None = None,
        action_space: Space | None = None,
        *,
        action_scaling: bool | None = None,
        action_bound_method: ActionBound = "auto",
    ) -> None:
        if action_space is None:
            raise ConfigError(f"{type(self).__name__} was given no action_space; it says what the policy acts in")
        observations: Space = spaces.Space() if observation_space is None else observation_space
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


class RandomPolicy(ForwardPolicy):
    """Draws uniformly among the (allowed) actions, in evaluation too: an opponent, or what others are compared with."""

    def __init__(self, observation_space: Space, action_space: Space) -> None:
        super().__init__(observation_space, action_space, action_scaling=False, action_bound_method=None)

    def forward(self, batch: Any, state: PolicyState = None) -> Batch:
        """Draw `act` for `batch.obs`."""
        count = len(next(leaf for _, leaf in tree.leaves(batch.obs)))
        act = random_actions(self.action_space, count, self.rng.numpy, self._mask(batch.obs))
        return Batch(act=self.map_action_inverse(act), state=state)


def act_randomly(policy: Policy, obs: Obs, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw actions [count, *act] instead of asking the policy, allowed ones where `obs` [count, ...] has a mask.

    Returns:
        (in the policy's scale, in the env's scale)
    """
    mask = obs[policy.mask_key] if policy.mask_key is not None and isinstance(obs, dict) else None
    env_act = random_actions(policy.action_space, count, rng, mask)
    return np.array(policy.map_action_inverse(env_act)), env_act  # an env may write into its own


def mixed(
    own: tuple[np.ndarray, np.ndarray], drawn: tuple[np.ndarray, np.ndarray], share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pair `own` of actions [N, *act], each row with probability `share` from `drawn` instead."""
    rows = rng.random(len(own[0])) < share
    act, env_act = (np.where(rows.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip(own, drawn, strict=True))
    return act, env_act
