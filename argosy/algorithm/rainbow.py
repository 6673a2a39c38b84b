"""Rainbow (Hessel et al., 2018, https://arxiv.org/abs/1710.02298).

Rainbow is C51 with five more of DQN's improvements, so that this file is a config. Details that matter:

1. Distributions of returns over fixed atoms (`c51.py`), with a value and an advantage stream for each atom.
2. Double Q-learning: the online network chooses the next action, the target network gives its distribution.
3. n-step returns of three steps.
4. Noisy layers (`net/noisy.py`) explore in the place of random actions: noise is drawn for each act that explores and,
   online and target apart, for each update; the online network's choice of the next action has the noise of its
   prediction. Policies are evaluated without noise.
5. Prioritised replay (Schaul et al., 2016, https://arxiv.org/abs/1511.05952): priorities are the divergence of target
   and prediction. Which rows are drawn is up to the buffer: the presets set `buffer.priority`, with the paper's 0.5 as
   `alpha` and `beta` rising from 0.4 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from argosy.algorithm.c51 import C51, C51Config
from argosy.policy import EpsilonConfig


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(C51Config):
    """Hyper-parameters of Rainbow: those of C51 with other defaults; docs/glossary.md explains each at length."""

    n_step: int = 3
    """Rewards summed before the bootstrap values (detail 3)."""
    double: bool = True
    """Choose the next action by the online network (detail 2)."""
    dueling: bool = True
    """Split the last hidden layer into a value and an advantage stream (detail 1)."""
    noisy_std: float = 0.5
    """Deviation with which the layers' noise starts; 0: no noise (detail 4)."""
    exploration: EpsilonConfig = field(default_factory=lambda: EpsilonConfig(eps_start=0.0, eps_end=0.0))
    """Random actions: none, as noisy layers explore."""


class Rainbow(C51):
    """C51 that explores by noisy layers, with dueling streams, double Q-learning, n-step returns and priorities."""

    config_type = RainbowConfig
    config: RainbowConfig
