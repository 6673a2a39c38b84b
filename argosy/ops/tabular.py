"""Tabular models: draws of mean rewards by what is known of them, and the best values of a model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def normal_gamma_draw(
    count: Array, total: Array, square_total: Array, prior: tuple[float, float, float], rng: np.random.Generator
) -> Array:
    """Draw means [...] of normal variables of which neither mean nor precision is known.

    The posterior is NG(m, k, a, b) (Murphy, 2007, Conjugate Bayesian analysis of the Gaussian distribution, section 3):
    k = k0 + n, m = (k0 m0 + sum x) / k, a = 1 + n / 2, b = s0^2 + (sum x^2 + k0 m0^2 - k m^2) / 2; the precision is
    drawn from Gamma(a, b), the mean from N(m, 1 / (k precision)).

    Args:
        count: [...] observations n.
        total: [...] their sums.
        square_total: [...] sums of their squares.
        prior: how many observations the prior counts for (k0), their mean (m0) and deviation (s0).
        rng: what is drawn from.
    """
    strength, mean, std = prior
    k = strength + count
    m = (strength * mean + total) / k
    rest = np.maximum(square_total + strength * mean**2 - k * m**2, 0.0)  # rounding may leave less than none
    precision = rng.standard_gamma(1.0 + count / 2) / (std**2 + rest / 2)
    drawn: Array = m + rng.standard_normal(m.shape) / np.sqrt(k * precision)
    return drawn


def best_values(transitions: Array, rewards: Array, gamma: float) -> Array:
    """Return the best action values [S, A] of a model, by policy iteration (Howard, 1960).

    V of the policy that is greedy by Q is the solution of V = r + gamma P V; Q of this V makes the next policy, until
    none is better. A few such solutions take the place of the hundreds of sweeps of value iteration at gamma = 0.99.

    Args:
        transitions: [S, A, S + 1] probabilities; the last state is an episode's end, of value 0.
        rewards: [S, A] mean rewards.
        gamma: discount per step, below 1.
    """
    states, actions = rewards.shape
    flat, here, one = transitions[..., :-1].reshape(states * actions, states), np.arange(states), np.eye(states)
    q, act = rewards, rewards.argmax(axis=-1)
    while True:
        moves = transitions[here, act, :-1]
        values = np.linalg.solve(one - gamma * moves, rewards[here, act])
        q = rewards + gamma * (flat @ values).reshape(states, actions)
        better = q.max(axis=-1) > q[here, act] + 1e-9 * (1.0 + np.abs(values))  # more than rounding
        if not better.any():
            return q
        act = np.where(better, q.argmax(axis=-1), act)
