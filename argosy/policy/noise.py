"""Noise on continuous actions: how the library's policies explore, and what policies of one's own may add to theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from argosy.config import Checked, limited
from argosy.errors import ConfigError
from argosy.policy.explore import BY_HAND, Exploration, States
from argosy.rng import Rng

Size = int | Sequence[int]


@dataclass(frozen=True, kw_only=True)
class NoiseConfig(Checked):
    """Noise that is added to continuous actions in [-1, 1]; its deviation may fall linearly."""

    noise: Literal["gaussian", "ou", "none"] = limited("gaussian", among=("gaussian", "ou", "none"))
    """Independent Gaussian noise, an Ornstein-Uhlenbeck process per episode, or none."""
    noise_std: float = limited(0.1, ge=0.0)
    """Deviation of the noise at the start, in actions that reach from -1 to 1."""
    noise_std_end: float | None = limited(None, ge=0.0)
    """Deviation after `noise_decay_steps`; None: it stays."""
    noise_decay_steps: int = limited(100_000, ge=0.0)
    """Env steps over which the deviation changes."""
    ou_theta: float = limited(0.15, gt=0.0, le=1.0)
    """Ornstein-Uhlenbeck only: share of the noise that is lost per step."""

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
        self._std = self._scheduled = config.noise_std

    @property
    def std(self) -> float:
        """Deviation of the noise; one that is set by hand stays."""
        return self._std

    @std.setter
    def std(self, std: float) -> None:
        self._std, self._scheduled = std, BY_HAND

    def schedule(self, env_step: int) -> None:
        """Let the deviation change, unless it was set by hand."""
        config, std = self.config, self.config.noise_std
        if config.noise_std_end is not None:
            progress = min(env_step / config.noise_decay_steps, 1.0) if config.noise_decay_steps else 1.0
            std = (1.0 - progress) * std + progress * config.noise_std_end
        if self._std == self._scheduled != std:
            self._std = self._scheduled = std

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
        self._std, self._scheduled = state.tolist()


class GaussianNoise:
    """Independent normal numbers: `noise(act.shape)`.

    Args:
        mu: mean.
        sigma: deviation, >= 0.
        rng: where the numbers come from, e.g. the policy's `rng.numpy`, so that its seed covers them.

    Raises:
        ConfigError: `sigma` is negative.
    """

    def __init__(self, mu: float = 0.0, sigma: float = 1.0, *, rng: np.random.Generator | None = None) -> None:
        if sigma < 0:
            raise ConfigError(f"sigma is {sigma}; a deviation must be >= 0")
        self.mu, self.sigma = mu, sigma
        self.rng = np.random.default_rng() if rng is None else rng

    def reset(self) -> None:
        """Begin an episode: nothing to forget here."""

    def __call__(self, size: Size) -> npt.NDArray[np.float64]:
        """Draw numbers of this shape."""
        return self.rng.normal(self.mu, self.sigma, size)


class OUNoise(GaussianNoise):
    """Ornstein-Uhlenbeck process (1930): each call is a step on from the numbers of the call before.

        x += theta * (mu - x) * dt + sigma * sqrt(dt) * normal

    Args:
        mu: what it returns to.
        sigma: deviation per unit of time.
        theta: share of the way back per unit of time.
        dt: time of a step.
        x0: where an episode begins.
        rng: see `GaussianNoise`.
    """

    def __init__(
        self,
        mu: float = 0.0,
        sigma: float = 0.3,
        theta: float = 0.15,
        dt: float = 1e-2,
        x0: float | npt.NDArray[np.float64] = 0.0,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(mu, sigma, rng=rng)
        self.theta, self.dt, self.x0 = theta, dt, x0
        self.reset()

    def reset(self) -> None:
        """Begin an episode, at `x0`."""
        self.x: npt.NDArray[np.float64] = np.asarray(self.x0, np.float64)

    def __call__(self, size: Size) -> npt.NDArray[np.float64]:
        """Return the next numbers, of this shape; another one than before begins anew."""
        shape = (size,) if isinstance(size, int) else tuple(size)
        x = self.x if self.x.shape == shape else np.broadcast_to(self.x0, shape)
        drift = self.theta * (self.mu - x) * self.dt
        self.x = x + drift + self.sigma * self.dt**0.5 * self.rng.standard_normal(shape)
        return self.x
