"""Uniform random actions instead of a policy's."""

from __future__ import annotations

import numpy as np

from argosy.env.random_actions import random_actions
from argosy.env.vector.protocol import Obs
from argosy.policy import Policy


def act_randomly(policy: Policy, obs: Obs, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw actions [count, *act] instead of asking the policy, allowed ones where `obs` [count, ...] has a mask.

    Returns:
        (in the policy's scale, in the env's scale)
    """
    mask = obs[policy.mask_key] if policy.mask_key is not None and isinstance(obs, dict) else None
    env_act = random_actions(policy.action_space, count, rng, mask)
    return policy.map_action_inverse(env_act), env_act


def mixed(
    own: tuple[np.ndarray, np.ndarray], drawn: tuple[np.ndarray, np.ndarray], share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pair `own` of actions [N, *act], each row with probability `share` from `drawn` instead."""
    rows = rng.random(len(own[0])) < share
    act, env_act = (np.where(rows.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip(own, drawn, strict=True))
    return act, env_act
