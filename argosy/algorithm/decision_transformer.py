"""Decision transformer (Chen et al., 2021, https://arxiv.org/abs/2106.01345): cloning, told what return comes of it.

Details that matter:

1. A row is three tokens: the return that its episode still brought in the data (not discounted), the observation, the
   action. A causal transformer over K rows says the action from its return, its observation and all that was before.
   To act, it is told a return that is wanted: more than most of the data have makes it do what the best of them did.
2. Sequences may run across episodes; rows of one do not see the other. A row knows its place in what is seen of its
   episode, not how many steps the episode had before, which the paper tells it: told that, the policy goes by the
   clock, and errs more in episodes that are not in the data (docs/benchmarks.md, "From data").
3. Nobody tells a policy its rewards when it acts. A second head learns to expect the reward of an action; what is left
   of the wanted return is reckoned by that, where the paper subtracts what the env paid.
4. Returns and rewards are divided by the largest ones that were seen. Unless it is said otherwise, the highest return
   of a whole episode that was seen is the one that is wanted: of one whose recording stopped before its end, nobody
   knows what it would have brought. Only data without a whole episode have such pieces stand for them.
5. The loss is the cross-entropy of choices, the squared error of other actions, plus that of the rewards. Nothing is
   dropped out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, AlgorithmConfig, Task, batch_mean
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import Sampling, TrainingStats, TransitionBatch
from argosy.net import NetConfig
from argosy.ops.offline import squared_distance
from argosy.policy.decision import DecisionPolicy

# Shapes: T rows of a sequence, B batch, A choices or elements of an action.


@dataclass(frozen=True, kw_only=True)
class DecisionTransformerConfig(AlgorithmConfig):
    """Hyper-parameters of the decision transformer; docs/glossary.md explains each at length."""

    optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=1e-4, max_grad_norm=0.25))
    """Optimiser of the transformer."""
    gamma: float = limited(1.0, ge=1.0, le=1.0)
    """Returns that it is told are not discounted: while it acts, expected rewards are taken off them (details 1, 3)."""
    context: int = limited(20, ge=1)
    """Steps K that it attends to."""
    heads: int = limited(1, ge=1)
    """Heads of the attention."""
    target_return: float | None = limited(None, gt=-math.inf, lt=math.inf)
    """Return that is wanted of an episode; None: the highest of a whole one that it has seen (detail 4)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DecisionTransformerStats(TrainingStats):
    """What one update reports."""

    loss_actor: float
    """Mean cross-entropy of the stored choices, or mean squared error of other actions."""
    loss_reward: float
    """Mean squared error of the expected rewards, in units of the largest one."""
    best_return: float
    """Highest return of a whole episode so far: what is wanted, unless it is said otherwise."""
    grad_norm: float | None = None
    """Norm before clipping; None without clipping."""


class DecisionTransformer(Algorithm[DecisionTransformerConfig, DecisionTransformerStats]):
    """Imitation of actions in a data set by a transformer that knows what return came of them."""

    kind = "offline"
    config_type = DecisionTransformerConfig
    action_spaces = (spaces.Discrete, spaces.Box)
    needs_bounds = True
    default_net = NetConfig(hidden_sizes=(128, 128, 128), activation="gelu")
    goes_online = False
    policy: DecisionPolicy

    def __init__(self, config: DecisionTransformerConfig, policy: DecisionPolicy) -> None:
        super().__init__(config, policy)
        self.optim = config.optim.build(policy)

    @classmethod
    def build(cls, config: DecisionTransformerConfig, task: Task) -> Self:
        """Make the transformer and the algorithm."""
        policy = task.policy_or(
            DecisionPolicy,
            task.net or cls.default_net,
            context=config.context,
            heads=config.heads,
            target_return=config.target_return,
        )
        return cls(config, policy)

    @property
    def sampling(self) -> Sampling:
        """Sequences whose rows know when they were, what came of them and whether that is all."""
        return replace(super().sampling, fields=("returns", "ended"))

    def update(self, batch: TransitionBatch) -> DecisionTransformerStats:
        """One step on sequences: obs, act, rew, returns, step, ended, on_reset, mask, weight, all [T, B, ...]."""
        batch = self.prepare(batch)
        self.policy.take_in_returns(batch.rew, batch.returns, batch.on_reset & batch.ended)
        said = self.policy.analyze(batch)
        if self.policy.num_actions:
            error = -said.output.gather(-1, batch.act.long().unsqueeze(-1)).squeeze(-1)
        else:
            error = squared_distance(said.output, batch.act, 2) / self.policy.action_dim
        loss_actor = batch_mean(batch.weight * error, batch)
        loss_reward = batch_mean(batch.weight * (said.rew - batch.rew / self.policy.reward_scale).square(), batch)
        grad_norm = self.optim.step(loss_actor + loss_reward)
        best = self.policy.best_return
        found = self._finish(loss_actor=loss_actor, loss_reward=loss_reward, grad_norm=grad_norm)
        return DecisionTransformerStats(**found, best_return=torch.where(best.isfinite(), best, 0.0).item())
