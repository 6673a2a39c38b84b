"""Generative adversarial imitation (Ho and Ermon, 2016, https://arxiv.org/abs/1606.03476): PPO whose reward is learned.

Details that matter:

1. A discriminator tells the expert's rows from the policy's own. D is its probability that a row is the expert's; it
   learns by cross-entropy, from the rollout and as many rows of the data set, before the policy does.
2. The policy learns by PPO from the reward -log(1 - D), as the discriminator is after its update; what the env pays
   is not looked at. This reward is positive: it likes long episodes.
3. Adversarial inverse reinforcement learning (Fu et al., 2018, https://arxiv.org/abs/1710.11248), `airl`: the logit of
   D is f - log pi(a | s) with f = g(s, a) + gamma h(s') - h(s), where nothing follows a termination. The reward is f;
   what -log pi would add to it in the mean is the policy's entropy, for which `entropy_coef` pays. h takes up what
   shapes the reward, so that g is left with what the expert is after.
4. The discriminator sees actions as the env took them, back in the policy's scale: one beyond the bounds, which only
   the policy's Gaussian makes, would betray it. Several choices at once enter one-hot. Observations are those that
   the policy sees, normalised where it normalises. It has layers of its own and no memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import nn

from argosy.algorithm.critics import action_critic, state_critic
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.ppo import PPO, PPOConfig, PPOStats
from argosy.config import limited
from argosy.data import AdvantageBatch, Batch, SampleBatch, TrajectoryBatch, TransitionBatch, as_tensors, to_numpy, tree
from argosy.errors import DataError
from argosy.net import NetConfig
from argosy.net.encoder import OneHotEncoder
from argosy.policy import ActorCriticPolicy

_SEEN = ("obs", "act", "obs_next", "terminated")  # by the discriminator
# Shapes: T time, B envs, N = T * B rows of the rollout, E rows of the expert.


@dataclass(frozen=True, kw_only=True)
class GAILConfig(PPOConfig):
    """Hyper-parameters of GAIL; docs/glossary.md explains each at length."""

    reward_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the discriminator."""
    reward_sizes: tuple[int, ...] = (64, 64)
    """Widths of its hidden layers."""
    reward_steps: int = limited(4, ge=1)
    """Its steps per rollout, each on an equal share of the rows (detail 1)."""
    airl: bool = False
    """Learn a reward that is apart from its shaping: AIRL (detail 3)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GAILStats(PPOStats):
    """What one update reports."""

    loss_reward: float
    """Mean cross-entropy of the discriminator: of the expert's rows plus of its own, log 4 where it cannot tell."""
    expert_accuracy: float
    """Share of the expert's rows that the discriminator tells as such."""
    own_accuracy: float
    """Share of the policy's rows that it tells as such."""
    reward_mean: float
    """Mean of the learned reward."""


class GAIL(PPO):
    """PPO whose reward is how much the policy's actions look like an expert's."""

    config_type = GAILConfig
    expert_rows = True
    config: GAILConfig

    def __init__(self, config: GAILConfig, policy: ActorCriticPolicy) -> None:
        super().__init__(config, policy)
        net = NetConfig(hidden_sizes=config.reward_sizes, activation="tanh")
        self.several = _encoder(policy)
        width = None if self.several is None else self.several.out_features
        self.reward, self.shaping = action_critic(policy, net, 1, action_dim=width), state_critic(policy, net)
        learned = nn.ModuleList((self.reward, self.shaping)) if config.airl else self.reward
        self.reward_optim = config.reward_optim.build(learned)

    def update(self, batch: TrajectoryBatch) -> GAILStats:
        """Learn from a rollout as PPO does; its `expert` are rows of the data set: obs, act, obs_next, terminated."""
        rollout = self.prepare(batch)
        if "expert" not in rollout:
            raise DataError(
                f"{type(self).__name__} learns from rollouts beside which an expert's rows lie, batch.expert; "
                "give the trainer a data set: --data FILE, or OnpolicyTrainer(data=...)"
            )
        expert = self.prepare(_alone(rollout.expert))
        for rows in (rollout, expert):  # as the env took them: an unclipped draw would tell them apart (detail 4)
            taken = self.policy.map_action_inverse(self.policy.map_action(to_numpy(rows.act)))
            rows.act = torch.as_tensor(taken, device=self.device)
        with torch.no_grad():
            own_logp, expert_logp = self.policy.analyze(rollout).logp, self.policy.analyze(expert).logp
        metrics, steps = self._learn_reward(_rows(rollout, own_logp), _rows(expert, expert_logp))
        with torch.no_grad():
            score = self._score(rollout)
        changed = as_tensors(batch, self.device)
        changed.rew = score if self.config.airl else F.softplus(score)  # details 2, 3
        stats = super().update(changed)
        mask = changed.get("mask")
        metrics["reward_mean"] = (changed.rew if mask is None else changed.rew[mask]).mean().item()
        return GAILStats(**{**vars(stats), **metrics, "gradient_steps": stats.gradient_steps + steps})

    def _learn_reward(self, own: AdvantageBatch, expert: AdvantageBatch) -> tuple[dict[str, float], int]:
        """Learn to tell rows [N, ...] of the policy from those [E, ...] of the expert. -> metrics, steps."""
        steps, found = min(self.config.reward_steps, len(own), len(expert)), []
        order = torch.randperm(len(own), generator=self.rng.torch).to(self.device).tensor_split(steps)
        for rows, expert_rows in zip(order, torch.arange(len(expert)).tensor_split(steps), strict=True):
            mine, theirs = (self._logit(part) for part in (own[rows], expert[expert_rows]))
            loss = F.softplus(mine).mean() + F.softplus(-theirs).mean()  # -log(1 - D) and -log D
            self.reward_optim.step(loss)
            found.append(torch.stack((loss.detach(), (theirs > 0).float().mean(), (mine < 0).float().mean())))
        names = ("loss_reward", "expert_accuracy", "own_accuracy")
        return dict(zip(names, torch.stack(found).mean(dim=0).tolist(), strict=True)), steps

    def _logit(self, rows: AdvantageBatch) -> torch.Tensor:
        """Logit of D [N] of rows: obs, act, with AIRL obs_next, terminated and logp, too."""
        return self._score(rows) - rows.logp if self.config.airl else self._score(rows)

    def _score(self, rows: SampleBatch) -> torch.Tensor:
        """What the discriminator makes of rows [...], whoever does so how often."""
        act = rows.act if self.several is None else self.several(rows.act)
        score = self.reward.value(rows, act)[0]
        if self.config.airl:
            after = self.config.gamma * ~rows.terminated * self.shaping.next_value(rows)[0]
            score = score + after - self.shaping.value(rows)[0]
        return score


def _encoder(policy: ActorCriticPolicy) -> OneHotEncoder | None:
    """Return what encodes several choices at once, each counted from 0 in a policy's actions; None: there is one."""
    space = policy.action_space
    if not isinstance(space, spaces.MultiDiscrete):
        return None
    sizes = tuple(space.nvec.flatten().tolist())
    return OneHotEncoder(sizes, (0,) * len(sizes), len(space.shape)).to(policy.device)


def _alone(expert: TransitionBatch) -> Batch:
    """[E, ...] -> [1, E, ...]: a rollout of one step, before which a memory has seen nothing."""
    rows = Batch({name: expert[name] for name in _SEEN}, cut=torch.ones(len(expert), dtype=torch.bool), policy=Batch())
    return tree.map_leaves(lambda leaf: leaf[None], rows)


def _rows(rollout: TrajectoryBatch, logp: torch.Tensor) -> Batch:
    """[T, B, ...] -> [N, ...]: what the discriminator learns from, where the rollout's mask leaves it."""
    fields = Batch({name: rollout[name] for name in _SEEN}, logp=logp)
    rows = tree.map_leaves(lambda leaf: leaf.flatten(0, 1), fields)
    return rows[rollout.mask.flatten()] if "mask" in rollout else rows
