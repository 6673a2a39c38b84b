"""QMIX (Rashid et al., 2018, https://arxiv.org/abs/1803.11485), and VDN (Sunehag et al., 2018, 1706.05296 there).

A team of agents that is paid together, as one task: an action has a part for each of them. Details that matter:

1. All agents share one network, which sees what its agent sees, and a one-hot number that says which agent it is. An
   agent's choice follows from its own values alone, so that each could act by itself.
2. The team's value is a function of the agents' values that grows with each of them: so each agent's best choice is the
   team's. Of "qmix" its weights are functions of the state (`net/team.py`), of "vdn" it is the sum.
3. The target is the reward and the discounted value that the target networks, the mixer among them, give the online
   network's choices (double Q-learning), or their own.
4. Values of agents that have left count as 0.
5. Each agent explores by itself (epsilon-greedy).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm.base import Task, batch_mean, batch_priorities
from argosy.algorithm.q_learning import QLearning, QLearningConfig, QLearningStats
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.data.protocols import Obs
from argosy.net import NetConfig, TargetUpdate, frozen_copy
from argosy.net.team import ALIVE, Mixer, Sum, team_parts
from argosy.policy.team import TeamPolicy

# Shapes: B batch, N agents.


@dataclass(frozen=True, kw_only=True)
class QMIXConfig(QLearningConfig):
    """Hyper-parameters of QMIX; docs/glossary.md explains each at length."""

    mixer: Literal["qmix", "vdn"] = limited("qmix", among=("qmix", "vdn"))
    """How the team's value follows from those of its agents (detail 2)."""
    mixing_units: int = limited(32, ge=1)
    """Width of the layer that mixes (qmix)."""
    double: bool = True
    """Choose the next actions by the online network (detail 3)."""

    def build_policy(self, task: Task, net: NetConfig) -> TeamPolicy:
        """Make the policy of a task, or take the task's own."""
        return task.policy_or(TeamPolicy, net)


class QMIX(QLearning[QMIXConfig, QLearningStats]):
    """Q-learning of a team, whose value is mixed from its agents' values.

    Args:
        net: how the mixer reads the state.
    """

    config_type = QMIXConfig
    action_spaces = (spaces.MultiDiscrete,)
    policy: TeamPolicy
    policy_target: TeamPolicy

    def __init__(self, config: QMIXConfig, policy: TeamPolicy, net: NetConfig) -> None:
        space, agents = policy.observation_space, policy.action_dim
        mixer = Mixer(space, agents, net, policy.no_input, config.mixing_units) if config.mixer == "qmix" else Sum()
        super().__init__(config, policy, [*policy.parameters(), *mixer.to(policy.device).parameters()])
        self.mixer: nn.Module = mixer
        self.mixer_target = frozen_copy(mixer)
        both = nn.ModuleList([self.policy_target, self.mixer_target]), nn.ModuleList([policy, mixer])
        self.update_target = TargetUpdate(*both, config.tau, config.target_update_freq)
        self._has_alive = ALIVE in team_parts(space, agents)

    @classmethod
    def build(cls, config: QMIXConfig, task: Task) -> QMIX:
        """Make the networks and the algorithm."""
        net = task.net or cls.default_net
        return cls(config, config.build_policy(task, net), net)

    def update(self, batch: TransitionBatch) -> QLearningStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        q = self._mixed(self.mixer, batch.obs, self.policy.analyze(batch).q_taken)
        error = q - self._target(batch)
        loss = batch_mean(batch.weight * error.square(), batch)
        grad_norm = self.optim.step(loss)
        self.update_target()
        metrics = self._finish(loss=loss, q_mean=batch_mean(q.detach(), batch), grad_norm=grad_norm)
        return QLearningStats(**metrics, priorities=batch_priorities(error.abs(), batch))

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> torch.Tensor:
        """Return [B]: reward and discounted value of the team's best allowed choices (detail 3)."""
        target = self.policy_target.analyze_next(batch)
        chooser = self.policy.analyze_next(batch) if self.config.double else target
        best = self._mixed(self.mixer_target, batch.obs_next, target.of(chooser.best))
        return batch.rew + batch.discount * best

    def _mixed(self, mixer: nn.Module, obs: Obs, q_BN: torch.Tensor) -> torch.Tensor:  # noqa: N803
        """Return [B] of values [B, N] of agents (detail 4)."""
        entries: Any = obs
        q: torch.Tensor = mixer(obs, q_BN * entries[ALIVE] if self._has_alive else q_BN)
        return q
