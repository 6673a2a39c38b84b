"""Recurrent replay distributed DQN, R2D2 (Kapturowski et al., 2019, https://openreview.net/forum?id=r1lyTjAqYX).

R2D2 is DQN with memory, on another scale of values. Details that matter:

1. The network has memory: it learns from sequences of the buffer, which start from the states that were stored when
   acting (`net.memory`, `net.sequence_length`); `net.burn_in` rows before them warm the state up and have no loss (the
   gradient goes back through them, too, the paper's does not). The paper has 80 and 40; the default is that of all
   algorithms with memory.
2. Values are learned on the scale h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x (Pohlen et al., 2018,
   https://arxiv.org/abs/1805.11593), in the place of clipped rewards: the target is h(rew + discount * h^-1(Q')).
3. Double Q-learning, dueling streams and n-step returns of five steps.
4. Priorities of a sequence mix its largest and its mean error (`batch_priorities`); that sequences are drawn by
   priority is up to the buffer, and set by the presets.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.dqn import DQN, DQNConfig
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.errors import ConfigError
from argosy.net import NetConfig
from argosy.ops.rescaling import rescale, unrescale

# Shapes: B batch. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class R2D2Config(DQNConfig):
    """Hyper-parameters of R2D2: those of DQN with other defaults, and the scale; docs/glossary.md explains each."""

    gamma: float = 0.997
    """Discount factor per env step."""
    n_step: int = 5
    """Rewards summed before the bootstrap value (detail 3)."""
    dueling: bool = True
    """Split the last hidden layer into a value and an advantage stream (detail 3)."""
    target_update_freq: int = 2500
    """Updates between two steps of the target network."""
    rescale_eps: float = limited(1e-3, gt=0.0)
    """Slope of the scale of values where they are large (detail 2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.munchausen_alpha:
            raise ConfigError(
                f"R2D2Config.munchausen_alpha is {self.munchausen_alpha}, but log-probabilities have no place among"
                " rescaled values; it must be 0.0 (DQN has it, also with memory)"
            )


class R2D2(DQN):
    """DQN with memory, that learns from sequences, with rescaled values."""

    config_type = R2D2Config
    default_net = NetConfig(hidden_sizes=(128, 128), memory="lstm", memory_size=128)
    config: R2D2Config

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> torch.Tensor:
        """Rescaled return [B]: reward and discounted value of the best allowed next action (detail 2)."""
        target, eps = self.policy_target.analyze_next(batch), self.config.rescale_eps
        chooser = self.policy.analyze_next(batch) if self.config.double else target
        return rescale(batch.rew + batch.discount * unrescale(target.of(chooser.greedy), eps), eps)
