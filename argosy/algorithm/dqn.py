"""Deep Q-networks (Mnih et al., 2015, https://doi.org/10.1038/nature14236).

Details that matter:

1. Double DQN (van Hasselt et al., 2016, https://arxiv.org/abs/1509.06461): the online network picks the next action,
   the target network values it. Action masks hold for the choice, the value is read unmasked, so that a terminal
   state without a legal action gives no NaN (its discount is 0).
2. The target network is copied every `target_update_freq` updates (tau = 1), or follows softly (tau < 1).
3. n-step returns (Sutton, 1988) are made by the sampler: `rew` is the discounted sum, `discount` = gamma^k for the k
   steps it covers, 0 if the last one was terminal. A truncated episode bootstraps from its true last observation.
4. The Huber loss with threshold 1 is the paper's clipping of the error to [-1, 1].
5. Dueling streams (Wang et al., 2016, https://arxiv.org/abs/1511.06581) are a matter of the network:
   `NetConfig(dueling=True)`.
6. Exploration falls linearly from `eps_start` to `eps_end` over the first `eps_decay_steps` env steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, AlgorithmConfig, Stateful, check_finite
from argosy.algorithm.optim import Adam
from argosy.config import check_choice, check_range
from argosy.data import TrainingStats, TransitionBatch, as_tensors
from argosy.errors import DataError
from argosy.net import NetConfig, TargetUpdate, frozen_copy
from argosy.policy import QPolicy

# Shapes: B batch, A actions.


@dataclass(frozen=True, kw_only=True)
class DQNConfig(AlgorithmConfig):
    """Hyper-parameters of DQN; docs/glossary.md explains each at length."""

    n_step: int = 1
    """Rewards summed before the bootstrap value."""
    lr: float = 1e-3
    """Adam's learning rate."""
    adam_eps: float = 1e-8
    """Adam's epsilon."""
    lr_decay: bool = False
    """Let the learning rate fall linearly to 0 over the run."""
    max_grad_norm: float | None = None
    """Clip gradients to this global norm; None: not."""
    double: bool = True
    """Choose the next action by the online network (detail 1)."""
    loss: Literal["huber", "mse"] = "huber"
    """Loss of the temporal-difference error (detail 4)."""
    target_update_freq: int = 500
    """Updates between two steps of the target network (detail 2)."""
    tau: float = 1.0
    """Length of the target network's step; 1 copies the online network."""
    eps_start: float = 1.0
    """Probability of a random action at the start."""
    eps_end: float = 0.05
    """Probability of a random action after `eps_decay_steps`."""
    eps_decay_steps: int = 10_000
    """Env steps over which it falls."""
    eps_test: float = 0.0
    """Probability of a random action in evaluation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "n_step", ge=1)
        check_range(self, "lr", gt=0.0)
        check_range(self, "adam_eps", gt=0.0)
        check_range(self, "max_grad_norm", gt=0.0)
        check_choice(self, "loss", ("huber", "mse"))
        check_range(self, "target_update_freq", ge=1)
        check_range(self, "tau", gt=0.0, le=1.0)
        check_range(self, "eps_decay_steps", ge=0)
        for field in ("eps_start", "eps_end", "eps_test"):
            check_range(self, field, ge=0.0, le=1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class DQNStats(TrainingStats):
    """What one update reports."""

    loss: float
    """Mean (weighted) loss."""
    q_mean: float
    """Mean value of the taken actions."""
    grad_norm: float | None = None
    """Norm before clipping; None without clipping."""


class DQN(Algorithm[DQNConfig, DQNStats]):
    """Q-learning from a replay buffer with a target network."""

    kind = "offpolicy"
    config_type = DQNConfig
    action_spaces = (spaces.Discrete,)
    default_net = NetConfig(hidden_sizes=(128, 128))
    policy: QPolicy

    def __init__(self, config: DQNConfig, policy: QPolicy) -> None:
        super().__init__(config, policy)
        self.target = frozen_copy(policy.net)
        self.optim = Adam(
            policy.net.parameters(), lr=config.lr, eps=config.adam_eps, max_grad_norm=config.max_grad_norm
        )
        self.update_target = TargetUpdate(self.target, policy.net, config.tau)
        policy.eps, policy.eps_test = config.eps_start, config.eps_test

    @classmethod
    def build(
        cls,
        config: DQNConfig,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        net: NetConfig,
        device: torch.device,
    ) -> Self:
        """Make the Q-network and the algorithm."""
        return cls(config, QPolicy(observation_space, action_space, net).to(device))

    def update(self, batch: TransitionBatch) -> DQNStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = as_tensors(batch, self.device)
        q_taken = self.policy.analyze(batch).q_taken
        td_error = q_taken - (batch.rew + batch.discount * self._next_value(batch.obs_next))
        loss = (batch.weight * self._loss(td_error)).mean()
        try:
            grad_norm = self.optim.step(loss)
        except DataError:
            check_finite(batch, "obs", "obs_next", "rew")  # names the field
            raise

        if (self.num_updates + 1) % self.config.target_update_freq == 0:
            self.update_target()
        metrics = self._finish(loss=loss, q_mean=q_taken.detach().mean(), grad_norm=grad_norm)
        return DQNStats(**metrics, priorities=td_error.detach().abs())

    @torch.no_grad()
    def _next_value(self, obs_next: Any) -> torch.Tensor:
        """Value [B] of the best allowed next action (detail 1)."""
        target_q, _ = self.target(obs_next)
        choosing_q = self.policy.net(obs_next)[0] if self.config.double else target_q
        best = self.policy.greedy(choosing_q, obs_next)
        value: torch.Tensor = target_q.gather(-1, best.unsqueeze(-1)).squeeze(-1)
        return value

    def _loss(self, td_error: torch.Tensor) -> torch.Tensor:
        """Loss [B] of each error (detail 4)."""
        if self.config.loss == "huber":
            return F.huber_loss(td_error, torch.zeros_like(td_error), reduction="none")
        return td_error.square()

    def schedule(self, env_step: int, max_env_step: int) -> None:
        """Set exploration and learning rate for the steps from `env_step` on."""
        config = self.config
        progress = min(env_step / config.eps_decay_steps, 1.0) if config.eps_decay_steps else 1.0
        self.policy.eps = (1.0 - progress) * config.eps_start + progress * config.eps_end
        if config.lr_decay:
            self.optim.scale_lr(max(1.0 - env_step / max_env_step, 0.0))

    def parts(self) -> Mapping[str, Stateful]:
        """Policy, target network, optimiser."""
        return {"policy": self.policy, "target": self.target, "optim": self.optim}
