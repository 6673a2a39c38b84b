"""Exploration: how the actions of exploring rows differ from the policy's own, and how that changes over env steps.

An exploration belongs to a policy. It is saved and shipped with the policy's parameters and draws from the policy's
random numbers, so that local and remote actors explore alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import nn

from argosy.config import check_choice, check_range
from argosy.rng import Rng

States: TypeAlias = np.ndarray | None


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
class EpsilonConfig:
    """Epsilon-greedy exploration: its rate falls linearly."""

    eps_start: float = 1.0
    """Probability of a random action at the start."""
    eps_end: float = 0.05
    """Probability of a random action after `eps_decay_steps`."""
    eps_decay_steps: int = 10_000
    """Env steps over which it falls."""
    eps_test: float = 0.0
    """Probability of a random action in evaluation."""

    def __post_init__(self) -> None:
        check_range(self, "eps_decay_steps", ge=0)
        for field in ("eps_start", "eps_end", "eps_test"):
            check_range(self, field, ge=0.0, le=1.0)

    def build(self, num_actions: int) -> EpsilonGreedy:
        """Make the exploration for a Discrete space of so many actions."""
        return EpsilonGreedy(self, num_actions)


class EpsilonGreedy(Exploration):
    """A random allowed action with probability `eps` in exploring rows, `eps_test` in evaluating ones."""

    def __init__(self, config: EpsilonConfig, num_actions: int) -> None:
        super().__init__()
        self.config, self.num_actions = config, num_actions
        self.eps, self.eps_test = config.eps_start, config.eps_test
        self._scheduled = self.eps

    def schedule(self, env_step: int) -> None:
        """Let `eps` fall, unless it was set by hand."""
        if self.eps != self._scheduled:
            return
        config = self.config
        progress = min(env_step / config.eps_decay_steps, 1.0) if config.eps_decay_steps else 1.0
        self.eps = self._scheduled = (1.0 - progress) * config.eps_start + progress * config.eps_end

    def explore(
        self, act: np.ndarray, evaluates: np.ndarray | None, rng: Rng, mask: np.ndarray | None, state: States
    ) -> tuple[np.ndarray, States]:
        """Replace some actions [B]."""
        if self.eps <= 0.0 and self.eps_test <= 0.0:
            return act, state
        draws = rng.numpy
        eps = self.eps if evaluates is None else np.where(evaluates, self.eps_test, self.eps)
        explores = draws.random(len(act)) < eps
        if mask is None:
            anything = (draws.random(len(act)) * self.num_actions).astype(np.int64)  # integers() is slower
        else:  # a uniform draw among the allowed actions: the largest of one uniform number for each of them
            anything = np.where(mask, draws.random(mask.shape), -1.0).argmax(axis=-1)
        return np.where(explores, anything, act), state

    def get_extra_state(self) -> torch.Tensor:
        """Return the rates."""
        return torch.tensor([self.eps, self.eps_test, self._scheduled], dtype=torch.float64)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Take over rates."""
        self.eps, self.eps_test, self._scheduled = state.tolist()


@dataclass(frozen=True, kw_only=True)
class NoiseConfig:
    """Noise that is added to continuous actions in [-1, 1]; its deviation may fall linearly."""

    noise: Literal["gaussian", "ou", "none"] = "gaussian"
    """Independent Gaussian noise, an Ornstein-Uhlenbeck process per episode, or none."""
    noise_std: float = 0.1
    """Deviation of the noise at the start, in actions that reach from -1 to 1."""
    noise_std_end: float | None = None
    """Deviation after `noise_decay_steps`; None: it stays."""
    noise_decay_steps: int = 100_000
    """Env steps over which the deviation changes."""
    ou_theta: float = 0.15
    """Ornstein-Uhlenbeck only: share of the noise that is lost per step."""

    def __post_init__(self) -> None:
        check_choice(self, "noise", ("gaussian", "ou", "none"))
        for field in ("noise_std", "noise_std_end", "noise_decay_steps"):
            check_range(self, field, ge=0.0)
        check_range(self, "ou_theta", gt=0.0, le=1.0)

    def build(self, action_dim: int) -> ActionNoise:
        """Make the exploration for actions of so many elements."""
        return ActionNoise(self, action_dim)


class ActionNoise(Exploration):
    """Adds noise to actions and clips the sum to [-1, 1].

    The Ornstein-Uhlenbeck process (1930; Lillicrap et al., 2016, https://arxiv.org/abs/1509.02971) is noise with
    memory: x[t+1] = (1 - theta) * x[t] + std * normal. Its x is part of the row's state and starts at 0.
    """

    def __init__(self, config: NoiseConfig, action_dim: int) -> None:
        super().__init__()
        self.config = config
        self.state_size = action_dim if config.noise == "ou" else 0
        self.std = self._scheduled = config.noise_std

    def schedule(self, env_step: int) -> None:
        """Let the deviation change, unless it was set by hand."""
        config = self.config
        if config.noise_std_end is not None and self.std == self._scheduled:
            progress = min(env_step / config.noise_decay_steps, 1.0) if config.noise_decay_steps else 1.0
            self.std = self._scheduled = (1.0 - progress) * config.noise_std + progress * config.noise_std_end

    def explore(
        self, act: np.ndarray, evaluates: np.ndarray | None, rng: Rng, mask: np.ndarray | None, state: States
    ) -> tuple[np.ndarray, States]:
        """Add noise to actions [B, *act]."""
        if self.config.noise == "none" or (evaluates is not None and evaluates.all()):
            return act, state
        noise = self.std * rng.numpy.standard_normal(act.shape, dtype=np.float32)
        if self.config.noise == "ou":
            assert state is not None
            state = ((1.0 - self.config.ou_theta) * state + noise.reshape(state.shape)).astype(np.float32)
            noise = state.reshape(act.shape)
        if evaluates is not None:
            noise = np.where(evaluates.reshape(-1, *[1] * (act.ndim - 1)), 0.0, noise)
        return (act + noise).clip(-1.0, 1.0).astype(np.float32), state

    def get_extra_state(self) -> torch.Tensor:
        """Return the deviation."""
        return torch.tensor([self.std, self._scheduled], dtype=torch.float64)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Take over a deviation."""
        self.std, self._scheduled = state.tolist()
