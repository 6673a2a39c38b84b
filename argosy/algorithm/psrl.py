"""Posterior sampling for reinforcement learning (Strens, 2000; Osband et al., 2013, https://arxiv.org/abs/1306.0940).

Details that matter:

1. What is known of the environment is a distribution over models of it: of each state and action, a Dirichlet
   distribution over what comes next, and a normal-gamma distribution over mean and precision of the reward.
2. After each rollout its transitions are counted, one model is drawn, and its best values (`ops/tabular.py`) are what
   the policy acts by until the next one. What is little known is drawn differently each time: that is the exploration,
   and there is no other. The paper draws at each episode's start; drawing after `step_per_collect` steps gets out of
   states in which an action that was drawn as good does nothing.
3. The end of an episode is a state of its own, of value 0, into which terminated transitions lead. A truncated one
   leads to its true last observation.
4. States and actions are numbered: observations and actions are Discrete. There is no network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, AlgorithmConfig, Task
from argosy.algorithm.task import Kind
from argosy.config import limited
from argosy.data import Batch, TrainingStats, TrajectoryBatch, to_numpy
from argosy.errors import ConfigError
from argosy.ops.tabular import best_values, normal_gamma_draw
from argosy.policy.tabular import TabularPolicy

# Shapes: T time, B batch, S states, A actions; state S is the end.

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PSRLConfig(AlgorithmConfig):
    """Hyper-parameters of posterior sampling; docs/glossary.md explains each at length."""

    gamma: float = limited(0.99, ge=0.0, lt=1.0)
    """Discount factor per env step."""
    transition_prior: float = limited(1.0, gt=0.0)
    """Transitions, spread over all states, that count as seen before any was (detail 1)."""
    reward_prior: float = limited(1.0, gt=0.0)
    """Rewards that count as seen before any was (detail 1)."""
    reward_mean: float = 0.0
    """Their mean; above what can be had it explores more."""
    reward_std: float = limited(1.0, gt=0.0)
    """Their deviation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PSRLStats(TrainingStats):
    """What one update reports."""

    loss: float
    """Mean surprise at the rollout's transitions: minus their log-probability by what is known then, in nats."""
    value: float
    """Mean value of the visited states in the drawn model."""
    visited: float
    """Share of all pairs of state and action that were ever seen."""


_READ = ("obs", "act", "obs_next", "terminated", "rew", "mask")


class PSRL(Algorithm[PSRLConfig, PSRLStats]):
    """Tabular models of the environment: draws one by what is known, and acts as is best in it."""

    kind: Kind = "onpolicy"
    config_type = PSRLConfig
    action_spaces = (spaces.Discrete,)
    observation_spaces = (spaces.Discrete,)
    averages_gradients = False  # it counts transitions, and has no gradients
    policy: TabularPolicy

    def __init__(self, config: PSRLConfig, policy: TabularPolicy) -> None:
        super().__init__(config, policy)
        pairs = (policy.num_states, policy.num_actions)
        self.counts: Array = np.zeros((*pairs, policy.num_states + 1))
        """[S, A, S + 1] transitions seen."""
        self.reward_sum: Array = np.zeros(pairs)
        self.reward_square_sum: Array = np.zeros(pairs)

    @classmethod
    def build(cls, config: PSRLConfig, task: Task) -> Self:
        """Make the policy and the algorithm.

        Raises:
            ConfigError: a network with memory is asked for.
        """
        if task.net is not None and task.net.memory is not None:
            raise ConfigError(f"NetConfig.memory is {task.net.memory!r}, but PSRL keeps a table, which has no memory")
        return cls(config, task.policy_or(TabularPolicy))

    def update(self, rollout: TrajectoryBatch) -> PSRLStats:
        """Count the transitions of a rollout [T, B, ...], draw a model, and act by it (details 1, 2)."""
        prepared = self.prepare(rollout)
        batch = to_numpy(Batch({name: prepared[name] for name in _READ if name in prepared}))
        rows = (batch[name][batch.mask] if "mask" in batch else batch[name].reshape(-1) for name in _READ[:5])
        obs, act, obs_next, terminated, rew = rows
        state, succ, end = self.policy.states(obs), self.policy.states(obs_next), self.policy.num_states
        rew = rew.astype(np.float64)
        pair = state * self.policy.num_actions + act  # one index instead of two or three: half the time
        move = pair * (end + 1) + np.where(terminated, end, succ)
        np.add.at(self.counts.reshape(-1), move, 1.0)
        np.add.at(self.reward_sum.reshape(-1), pair, rew)
        np.add.at(self.reward_square_sum.reshape(-1), pair, rew**2)
        visits, known = self.counts.sum(axis=-1), self._known
        surprise = np.log((visits + self.config.transition_prior).take(pair) / known.take(move)).mean()
        values = best_values(*self._drawn_model(visits, known), self.config.gamma)
        self.policy.table.copy_(torch.from_numpy(values))
        numbers = surprise, values.max(axis=-1).take(state).mean(), (visits > 0).mean()
        names = ("loss", "value", "visited")
        return PSRLStats(**self._finish(**{n: torch.tensor(x) for n, x in zip(names, numbers, strict=True)}))

    @property
    def _known(self) -> Array:
        """[S, A, S + 1] of the Dirichlet distributions: transitions seen, and those that count as seen (detail 1)."""
        known: Array = self.counts + self.config.transition_prior / self.counts.shape[-1]
        return known

    def _drawn_model(self, visits: Array, known: Array) -> tuple[Array, Array]:
        """Probabilities of transitions [S, A, S + 1] and mean rewards [S, A], drawn by what is known (detail 1)."""
        config, draws = self.config, self.rng.numpy
        weights = draws.standard_gamma(known) + np.finfo(np.float64).tiny
        prior = (config.reward_prior, config.reward_mean, config.reward_std)
        sums = (visits, self.reward_sum, self.reward_square_sum)
        return weights / weights.sum(axis=-1, keepdims=True), normal_gamma_draw(*sums, prior, draws)
