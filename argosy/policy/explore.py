"""Exploration: how the actions of exploring rows differ from the policy's own, and how that changes over env steps.

An exploration belongs to a policy. It is saved and shipped with the policy's parameters and draws from the policy's
random numbers, so that local and remote actors explore alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import nn

from argosy.config import Checked, limited
from argosy.rng import Rng

States: TypeAlias = np.ndarray | None
BY_HAND = -1.0
"""Stands for what the schedule says where somebody has set a rate or a deviation himself: it stays."""


class Exploration(nn.Module, ABC):
    """Changes actions of exploring rows; a module, so that its state is part of the policy's."""

    state_size: int = 0
    """Columns that it needs in the state of every row (see `Policy.default_policy_state`)."""

    @abstractmethod
    def explore(
        self, act: np.ndarray, evaluates: np.ndarray | None, rng: Rng, mask: np.ndarray | None, state: States
    ) -> tuple[np.ndarray, States]:
        """Explore.

        Args:
            act: [B, *act] the policy's own actions.
            evaluates: [B] bool, rows that do not explore; None: all do.
            rng: the policy's.
            mask: [B, n] bool, the discrete actions that are allowed; None: all are.
            state: [B, state_size] of the rows, zero at an episode's start; None where it needs none.

        Returns:
            (actions [B, *act], state after the step).
        """

    def schedule(self, env_step: int) -> None:
        """Take over what is right from `env_step` on; what was set by hand (a rate, a deviation) stays."""


@dataclass(frozen=True, kw_only=True)
class EpsilonConfig(Checked):
    """Epsilon-greedy exploration: its rate falls linearly."""

    eps_start: float = limited(1.0, ge=0.0, le=1.0)
    """Probability of a random action at the start."""
    eps_end: float = limited(0.05, ge=0.0, le=1.0)
    """Probability of a random action after `eps_decay_steps`."""
    eps_decay_steps: int = limited(10_000, ge=0)
    """Env steps over which it falls."""
    eps_test: float = limited(0.0, ge=0.0, le=1.0)
    """Probability of a random action in evaluation."""

    def build(self, num_actions: int) -> EpsilonGreedy:
        """Make the exploration for a Discrete space of so many actions."""
        return EpsilonGreedy(self, num_actions)


class EpsilonGreedy(Exploration):
    """A random allowed action with probability `eps` in exploring rows, `eps_test` in evaluating ones."""

    def __init__(self, config: EpsilonConfig, num_actions: int) -> None:
        super().__init__()
        self.config, self.num_actions = config, num_actions
        self._eps = self._scheduled = config.eps_start
        self.eps_test = config.eps_test

    @property
    def eps(self) -> float:
        """Probability of a random action in exploring rows; one that is set by hand stays."""
        return self._eps

    @eps.setter
    def eps(self, eps: float) -> None:
        self._eps, self._scheduled = eps, BY_HAND

    def schedule(self, env_step: int) -> None:
        """Let `eps` fall, unless it was set by hand."""
        if self.eps != self._scheduled:
            return
        config = self.config
        progress = min(env_step / config.eps_decay_steps, 1.0) if config.eps_decay_steps else 1.0
        eps = (1.0 - progress) * config.eps_start + progress * config.eps_end
        if eps != self.eps:  # a module is slow to set
            self._eps = self._scheduled = eps

    def explore(
        self, act: np.ndarray, evaluates: np.ndarray | None, rng: Rng, mask: np.ndarray | None, state: States
    ) -> tuple[np.ndarray, States]:
        """Replace some actions [B], or [B, D] of which the mask [B, D, n] says the choices."""
        eps: float | np.ndarray = self._eps
        if eps <= 0.0 and self.eps_test <= 0.0:
            return act, state
        draws = rng.numpy
        if evaluates is not None:
            eps = np.where(evaluates, self.eps_test, eps)
        explores = draws.random(len(act)) < eps
        if mask is None:
            anything = (draws.random(len(act)) * self.num_actions).astype(np.int64)  # integers() is slower
        else:  # a uniform draw among the allowed actions: the largest of one uniform number for each of them
            anything = np.where(mask, draws.random(mask.shape), -1.0).argmax(axis=-1)
        if act.ndim > 1:
            explores = explores.reshape(-1, *(1,) * (act.ndim - 1))
        return np.where(explores, anything, act), state

    def get_extra_state(self) -> torch.Tensor:
        """Return the rates."""
        return torch.tensor([self.eps, self.eps_test, self._scheduled], dtype=torch.float64)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Take over rates."""
        self._eps, self.eps_test, self._scheduled = state.tolist()
