"""Behaviour cloning (Pomerleau, 1988): do as the data do, by maximum likelihood.

Details that matter:

1. The loss is the negative log-likelihood of the stored actions: a cross-entropy for discrete ones, for continuous ones
   that of a Gaussian whose deviation does not depend on the observation (a mean squared error, weighted by how well it
   fits).
2. Evaluating takes the likeliest action.
3. Rewards and successors are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from argosy.algorithm.base import Algorithm, AlgorithmConfig, Task, batch_mean
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.task import Kind
from argosy.config import limited
from argosy.data import TrainingStats, TransitionBatch
from argosy.env.spaces import ARRAYS
from argosy.net import NetConfig
from argosy.policy import ActorCriticPolicy

# Shapes: B batch. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class BCConfig(AlgorithmConfig):
    """Hyper-parameters of behaviour cloning; docs/glossary.md explains each at length."""

    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the policy."""
    log_std_init: float = limited(-0.5, ge=-10.0, le=2.0)
    """Continuous actions: initial logarithm of the deviation (detail 1)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BCStats(TrainingStats):
    """What one update reports."""

    loss: float
    """Mean negative log-likelihood of the stored actions, in nats."""
    entropy: float
    """Mean entropy of the policy, in nats."""
    grad_norm: float | None = None
    """Norm before clipping; None without clipping."""


class BC(Algorithm[BCConfig, BCStats]):
    """Imitation of the actions in a data set."""

    kind: Kind = "offline"
    config_type = BCConfig
    action_spaces = ARRAYS
    goes_online = False
    default_net = NetConfig(hidden_sizes=(256, 256))
    policy: ActorCriticPolicy

    def __init__(self, config: BCConfig, policy: ActorCriticPolicy) -> None:
        super().__init__(config, policy)
        self.optim = config.optim.build(policy)

    @classmethod
    def build(cls, config: BCConfig, task: Task) -> Self:
        """Make the actor and the algorithm."""
        net = task.net or cls.default_net
        return cls(config, task.policy_or(ActorCriticPolicy, net, log_std_init=config.log_std_init, critic=False))

    def update(self, batch: TransitionBatch) -> BCStats:
        """One step on a sample: obs, act, weight, all [B, ...]."""
        batch = self.prepare(batch)
        now = self.policy.analyze(batch)
        loss = -batch_mean(batch.weight * now.logp, batch)
        grad_norm = self.optim.step(loss)
        return BCStats(**self._finish(loss=loss, entropy=batch_mean(now.entropy, batch), grad_norm=grad_norm))
