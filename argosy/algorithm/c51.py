"""Categorical DQN, C51 (Bellemare et al., 2017, https://arxiv.org/abs/1707.06887).

Details that matter:

1. The network gives, for each action, the probabilities of N fixed values of the return, equally spaced from `v_min` to
   `v_max`; an action's value is their mean. Returns outside of these bounds cannot be told from the bounds.
2. The target's values, reward plus discounted support, are projected onto the support: each one's probability goes to
   its two neighbours (`ops/categorical.py`). A terminated row's mass lies at its reward.
3. The loss is the cross entropy of the projected target and the prediction, whose gradient is that of their
   Kullback-Leibler divergence; this divergence is the priority (Hessel et al., 2018, https://arxiv.org/abs/1710.02298).
4. The target network values the greedy action: the online network's choice with `double`, as in double DQN, else its
   own, as in the paper.
5. n-step returns, dueling streams, noisy layers, masks and exploration are those of DQN.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, AlgorithmConfig, Task, batch_mean, batch_priorities
from argosy.algorithm.optim import OptimConfig
from argosy.config import check_range
from argosy.data import TrainingStats, TransitionBatch
from argosy.net import NetConfig, TargetUpdate, frozen_copy
from argosy.net.noisy import noise_of
from argosy.ops.categorical import categorical_projection
from argosy.policy import EpsilonConfig
from argosy.policy.categorical import CategoricalPolicy

# Shapes: B batch, A actions, N atoms. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class C51Config(AlgorithmConfig):
    """Hyper-parameters of C51; docs/glossary.md explains each at length."""

    n_step: int = 1
    """Rewards summed before the bootstrap values."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the network."""
    num_atoms: int = 51
    """Values N of the return that are told apart (detail 1)."""
    v_min: float = -10.0
    """The smallest of them."""
    v_max: float = 10.0
    """The largest of them."""
    double: bool = False
    """Choose the next action by the online network (detail 4)."""
    dueling: bool = False
    """Split the last hidden layer into a value and an advantage stream."""
    noisy_std: float = 0.0
    """Deviation with which the layers' noise starts, e.g. 0.5; 0: no noise."""
    target_update_freq: int = 500
    """Updates between two steps of the target network."""
    tau: float = 1.0
    """Length of the target network's step; 1 copies the online network."""
    exploration: EpsilonConfig = field(default_factory=EpsilonConfig)
    """Random actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "num_atoms", ge=2)
        check_range(self, "noisy_std", ge=0.0)
        for name in ("n_step", "target_update_freq"):
            check_range(self, name, ge=1)
        check_range(self, "tau", gt=0.0, le=1.0)
        check_range(self, "v_max", gt=self.v_min)


@dataclass(frozen=True, kw_only=True, eq=False)
class C51Stats(TrainingStats):
    """What one update reports."""

    loss: float
    """Mean (weighted) cross entropy."""
    q_mean: float
    """Mean value of the taken actions."""
    grad_norm: float | None = None
    """Norm before clipping; None without clipping."""


class C51(Algorithm[C51Config, C51Stats]):
    """Distributional Q-learning: probabilities of fixed returns instead of their mean."""

    kind = "offpolicy"
    config_type = C51Config
    action_spaces = (spaces.Discrete,)
    default_net = NetConfig(hidden_sizes=(128, 128))
    policy: CategoricalPolicy

    def __init__(self, config: C51Config, policy: CategoricalPolicy) -> None:
        super().__init__(config, policy)
        self.policy_target = frozen_copy(policy)
        self.optim = config.optim.build(policy)
        self.update_target = TargetUpdate(self.policy_target, policy, config.tau, config.target_update_freq)
        self.noise = noise_of(policy, self.policy_target)
        policy.explore_by(config.exploration.build(policy.num_actions))

    @classmethod
    def build(cls, config: C51Config, task: Task) -> Self:
        """Make the network and the algorithm."""
        policy = task.policy_or(
            lambda: CategoricalPolicy(
                task.observation_space,
                task.action_space,
                task.net or cls.default_net,
                num_atoms=config.num_atoms,
                v_min=config.v_min,
                v_max=config.v_max,
                dueling=config.dueling,
                noisy_std=config.noisy_std,
            )
        )
        return cls(config, policy)

    def update(self, batch: TransitionBatch) -> C51Stats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        with self.noise(self.rng):
            analysis = self.policy.analyze(batch)
            target_BN = self._target(batch)  # noqa: N806  # the suffix says the shape
        cross_entropy = -(target_BN * analysis.log_probs_taken).sum(dim=-1)
        loss = batch_mean(batch.weight * cross_entropy, batch)
        grad_norm = self.optim.step(loss)
        self.update_target()
        q_mean = batch_mean(analysis.q_taken.detach(), batch)
        metrics = self._finish(loss=loss, q_mean=q_mean, grad_norm=grad_norm)
        divergence = cross_entropy + torch.xlogy(target_BN, target_BN).sum(dim=-1)
        return C51Stats(**metrics, priorities=batch_priorities(divergence, batch))

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> torch.Tensor:
        """Probabilities [B, N] of reward and discounted return of the best allowed next action (details 2, 4)."""
        target = self.policy_target.analyze_next(batch)
        chooser = self.policy.analyze_next(batch) if self.config.double else target
        atoms_BN = batch.rew.unsqueeze(-1) + batch.discount.unsqueeze(-1) * target.support  # noqa: N806
        return categorical_projection(target.log_probs_of(chooser.greedy).exp(), atoms_BN, target.support)
