"""Noise for the actions of policies of one's own; the library's policies take theirs from `NoiseConfig`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from argosy.errors import ConfigError

Size = int | Sequence[int]


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
