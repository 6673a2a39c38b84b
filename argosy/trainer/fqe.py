"""Fitted Q evaluation (Le et al., 2019, https://arxiv.org/abs/1903.08738): what a policy is worth, from data alone.

Details that matter:

1. A critic of its own regresses r + discount * Q'(s', pi(s')) on the data's transitions, pi(s') being what the policy
   does where it is tested; Q' follows Q slowly. The policy is told of nothing, nor are its random numbers drawn from.
2. The value is the mean of Q(s, pi(s)) over observations at which episodes of the data begin: a discounted return.
3. Targets stay within what the data's rewards can sum up to, so that nothing diverges: over the longest episode if all
   of them terminate, else over 1 / (1 - gamma) steps.
4. A critic that begins knows nothing of what is far away: at first it learns until it has looked `HORIZONS` horizons
   ahead, of 1 / (1 - gamma) rows each, but no more than the data's longest episode has (or `SHORTEST`, if that is
   more). Then it goes on where it was, since the policy changes little, and lags behind it a little.
5. The more a policy does what the data do not, the less this says: it ranks versions of a policy, it is no test.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from argosy.algorithm import Algorithm
from argosy.algorithm.critics import action_critic
from argosy.algorithm.optim import OptimConfig
from argosy.data import Batch, ReplayBuffer
from argosy.data.tree import State, host
from argosy.errors import ConfigError, DataError
from argosy.net import NetConfig, TargetUpdate, frozen_copy
from argosy.policy import Policy
from argosy.rng import seeded

HORIZONS = 4
SHORTEST = 100
"""Rows within which the data bound no horizon: rows that were shuffled are episodes of one row each, and a policy may
last longer than what the data show."""
MAX_STARTS = 4096
"""Beginnings of episodes by which a policy is judged."""


def can_be_judged(policy: Policy, data: ReplayBuffer | None = None) -> bool:
    """Say whether a policy is one that this can judge, by data where an episode begins."""
    is_known = not policy.is_recurrent and isinstance(policy.action_space, spaces.Discrete | spaces.Box)
    return is_known and (data is None or len(_beginnings(data)) > 0)


def _beginnings(data: ReplayBuffer) -> NDArray[np.int64]:
    """Return the places of the rows at which episodes begin."""
    slots = data.rings.all_stored()
    return slots[data.rings.first[slots]]


def check_judgeable(policy: Policy, data: object) -> None:
    """Raise ConfigError where there is no data set (None), or the policy is none that this can judge."""
    if data is None:
        raise ConfigError("fqe judges a policy by a data set, and this run has none; give it one with --data FILE")
    if not can_be_judged(policy):
        what = "a policy with memory" if policy.is_recurrent else f"actions of {policy.action_space}"
        raise ConfigError(f"fitted Q evaluation cannot judge {what}; it judges Discrete and Box actions, no memory")


class FittedQ:
    """A critic of an algorithm's policy, fitted to a data set.

    Args:
        algorithm: says policy, discount and how observations are normalised.
        data: transitions, actions in the policy's scale.
        tau: by which share the target moves per update.
        seed: of the critic and of the batches.

    Raises:
        ConfigError: the policy has memory, or acts in a space other than Discrete and Box.
        DataError: no episode begins in the data.
    """

    def __init__(self, algorithm: Algorithm, data: ReplayBuffer, *, tau: float = 0.05, seed: int = 0) -> None:
        self.algorithm, self.data, self._rng = algorithm, data, np.random.default_rng(seed)
        policy = algorithm.policy
        check_judgeable(policy, data)
        with seeded(seed):
            self.critic = action_critic(policy, NetConfig(hidden_sizes=(256, 256)), 1)
        self.target = frozen_copy(self.critic)
        self._optim = OptimConfig(lr=1e-3).build(self.critic)
        self._parts: dict[str, Any] = {"critic": self.critic, "target": self.target, "optim": self._optim}
        self._follow = TargetUpdate(self.target, self.critic, tau)
        self._slots = data.rings.all_stored()
        starts = _beginnings(data)
        if not len(starts):
            raise DataError(
                "fitted Q evaluation judges a policy where episodes begin, and none does in the "
                f"{len(self._slots):,} rows of the data; give it data that hold the first row of an episode"
            )
        self._starts = self._rng.permutation(starts)[:MAX_STARTS]
        rew, gamma = host(data.get(self._slots, "rew", stack_num=1)), algorithm.config.gamma
        longest = float(np.diff(np.flatnonzero(data.rings.stop[self._slots]), prepend=-1).max())
        self._horizon = min(1.0 / (1.0 - gamma) if gamma < 1.0 else math.inf, max(longest, SHORTEST))
        reach = self._horizon
        if gamma < 1.0 and not data.terminated[self._slots][data.rings.stop[self._slots]].all():
            reach = 1.0 / (1.0 - gamma)  # what was cut off goes on
        self._bounds = min(0.0, float(rew.min())) * reach, max(0.0, float(rew.max())) * reach
        self.updates = 0
        """Made so far."""

    def fit(self, updates: int, batch_size: int) -> float:
        """Make updates for the policy as it now is; return the last batch's mean squared error.

        At first they are as many as it takes to look several horizons ahead (detail 4).
        """
        if not self.updates:
            updates = max(updates, math.ceil(HORIZONS * self._horizon / self._follow.tau))
        loss = torch.zeros(())
        for _ in range(updates):
            rows = self.data[self._slots[self._rng.integers(len(self._slots), size=batch_size)]]
            batch: Any = self.algorithm.prepare(rows)
            discount = self.algorithm.config.gamma * (~batch.terminated).float()
            with torch.no_grad():
                value = self.target.next_value(batch, self._act(rows.obs_next))[0]
                target = (batch.rew + discount * value).clamp(*self._bounds)  # detail 3
            loss = (self.critic.value(batch, batch.act)[0] - target).square().mean()
            self._optim.step(loss)
            self._follow()
            self.updates += 1
        return float(loss.detach())

    def value(self) -> float:
        """Return the mean value of the policy's actions where episodes of the data begin."""
        rows = self.data[self._starts]
        batch: Any = self.algorithm.prepare(rows)
        with torch.no_grad():
            return float(self.critic.value(batch, self._act(rows.obs))[0].mean())

    def _act(self, obs: Any) -> torch.Tensor:
        """Return what the policy does where it is tested, as the env would take it, in the policy's scale."""
        policy = self.algorithm.policy
        act = policy(Batch(obs=obs)).act.cpu().numpy()
        if isinstance(policy.action_space, spaces.Box):
            act = policy.map_action_inverse(policy.map_action(act))
        return torch.as_tensor(act, device=policy.device)

    def state_dict(self) -> State:
        """Return what a checkpoint keeps."""
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        return {**parts, "rng": self._rng.bit_generator.state, "updates": self.updates}

    def load_state_dict(self, state: State) -> None:
        """Go on where `state` was taken."""
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        self._rng.bit_generator.state, self.updates = state["rng"], int(state["updates"])
