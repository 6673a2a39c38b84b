"""What algorithms share that learn the values of discrete actions from a replay buffer, with a target network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Self, TypeVar

import torch
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, AlgorithmConfig, StatsT
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.task import Kind, Space, Task
from argosy.config import limited
from argosy.data import TrainingStats
from argosy.net import NetConfig, TargetUpdate, frozen_copy
from argosy.net.noisy import noise_of
from argosy.policy import EpsilonConfig, Policy


@dataclass(frozen=True, kw_only=True)
class QLearningConfig(AlgorithmConfig, ABC):
    """Settings of the network that learns, of its target, and of random actions."""

    n_step: int = limited(1, ge=1)
    """Rewards summed before the bootstrap value."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the network."""
    double: bool = False
    """Choose the next action by the online network."""
    target_update_freq: int = limited(500, ge=1)
    """Updates between two steps of the target network."""
    tau: float = limited(1.0, gt=0.0, le=1.0)
    """Length of the target network's step; 1 copies the online network."""
    exploration: EpsilonConfig = field(default_factory=EpsilonConfig)
    """Random actions."""

    @abstractmethod
    def build_policy(self, task: Task, net: NetConfig) -> Policy:
        """Make the policy of a task, or take the task's own."""


QConfigT = TypeVar("QConfigT", bound=QLearningConfig)


@dataclass(frozen=True, kw_only=True, eq=False)
class QLearningStats(TrainingStats):
    """What one update reports."""

    loss: float
    """Mean (weighted) loss."""
    q_mean: float
    """Mean value of the taken actions."""
    grad_norm: float | None = None
    """Norm before clipping; None without clipping."""


class QLearning(Algorithm[QConfigT, StatsT]):
    """A policy that acts by the values it learns, and a target network that follows it.

    Args:
        learned: parameters of `optim`; None: all of the policy's.
    """

    kind: Kind = "offpolicy"
    action_spaces: ClassVar[tuple[type[Space], ...]] = (spaces.Discrete,)
    default_net = NetConfig(hidden_sizes=(128, 128))
    policy: Policy
    policy_target: Policy

    def __init__(self, config: QConfigT, policy: Policy, learned: Iterable[torch.Tensor] | None = None) -> None:
        super().__init__(config, policy)
        self.policy_target = frozen_copy(policy)
        self.optim = config.optim.build(policy if learned is None else learned)
        self.update_target = TargetUpdate(self.policy_target, policy, config.tau, config.target_update_freq)
        self.noise = noise_of(policy, self.policy_target)
        policy.explore_by(config.exploration.build(policy.num_actions))

    @classmethod
    def build(cls, config: QConfigT, task: Task) -> Self:
        """Make the network and the algorithm."""
        return cls(config, config.build_policy(task, task.net or cls.default_net))
