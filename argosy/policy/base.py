"""What every policy offers: act (`rollout`), evaluate stored data (`analyze`), ship itself (checkpoints)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypedDict

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import Batch, NamedArray, namedarray
from argosy.rng import Rng


@namedarray
class RolloutRequest(NamedArray):
    """Observations that want actions; axis 0 mixes rows of any envs and agents."""

    obs: object
    """[B, *obs] numpy array, or a nested dict of them."""
    policy_state: object = None
    """[B, ...] recurrent state, None for memoryless policies."""
    is_evaluation: np.ndarray | None = None
    """[B] bool: act without exploration. None: every row explores."""
    on_reset: np.ndarray | None = None
    """[B] bool: first step of an episode, so the recurrent state starts anew. None: no row does."""


@namedarray
class RolloutResult(NamedArray):
    """Actions and what the policy wants to find again in the stored batch."""

    action: np.ndarray
    """[B, *act] in the policy's own scale; `Policy.map_action` takes it to the env's."""
    policy_state: object = None
    """[B, ...] recurrent state after this step."""
    analyzed_result: Batch | None = None
    """Stored under `policy` in the buffer, e.g. log-probabilities and values [B]."""


class PolicyCheckpoint(TypedDict):
    """What acting needs; never an optimiser."""

    version: int
    state_dict: dict[str, torch.Tensor]


class Policy(nn.Module, ABC):
    """Observation -> action. Shipped to whoever acts: no optimiser, no target network.

    `version` counts updates: -1 before the first one.
    """

    version: int = -1

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        super().__init__()
        self.observation_space = observation_space
        self.action_space = action_space
        self.rng = Rng()

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device
