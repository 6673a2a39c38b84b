"""Probe environments: tiny ones whose values are known by hand; which of them fails says where a bug is.

| probe | tests | a failure means |
| --- | --- | --- |
| one | constant reward 1, one step: V = 1 | loss, learning rate, backward |
| sight | the observation is +1 or -1, the reward is the observation | the network does not see the observation |
| discount | two steps, reward 1 at the end: V = gamma, then 1 | bootstrapping, discount, end of episode |
| act | one step, reward 1 for the right action, else 0 | the gradient of the action |
| both | the right action depends on the observation | advantage or Q mixes rows up |
| endless | reward 1, cut by a time limit after each step: V = 1 / (1 - gamma) | truncation taken for termination |

A continuous action a counts as the discrete action 1 to the degree (1 + tanh(3 a)) / 2, which is smooth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.algorithm import OptimConfig, Task
from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import RolloutRequest

OBS_SPACE = spaces.Box(-1.0, 1.0, (1,), np.float32)
NET = NetConfig(hidden_sizes=(16,), activation="tanh")
DISCRETE, BOX = spaces.Discrete(2), spaces.Box(-1.0, 1.0, (1,))
GAMMA = 0.5
VALUES = {
    "one": {0.0: 1.0},
    "sight": {-1.0: -1.0, 1.0: 1.0},
    "discount": {0.0: GAMMA, 1.0: 1.0},
    "act": {0.0: 1.0},
    "both": {-1.0: 1.0, 1.0: 1.0},
    "endless": {0.0: 1.0 / (1.0 - GAMMA)},
}
"""The value of each observation of a probe under the best policy."""
PROBES = tuple(sorted(VALUES))

# Settings that learn fast: of algorithms with action values; with critics; with critics and a temperature; on a bandit.
FAST_VALUES = {"gamma": GAMMA, "optim": OptimConfig(lr=0.01), "target_update_freq": 20}
FAST_CRITIC = {"gamma": GAMMA, "actor_optim": OptimConfig(lr=0.02), "critic_optim": OptimConfig(lr=0.02)}
COOL = {"alpha": 0.01, "auto_alpha": False}
FAST_BANDIT = {**COOL, "actor_optim": OptimConfig(lr=0.003), "critic_optim": OptimConfig(lr=0.02)}


@dataclass
class Probe:
    """B copies of a probe environment; finished ones start anew after the step."""

    name: str
    count: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.obs = self.first(self.count)

    def first(self, count: int) -> np.ndarray:
        if self.name in ("sight", "both"):
            return self.rng.choice([-1.0, 1.0], (count, 1)).astype(np.float32)
        return np.zeros((count, 1), np.float32)

    def step(self, act: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """-> (rew [B] float32, terminated [B], truncated [B], true obs_next [B, 1]); `obs` moves on."""
        chosen = act.reshape(self.count)
        if chosen.dtype.kind == "f":
            chosen = 0.5 * (1.0 + np.tanh(3.0 * chosen))
        obs = self.obs[:, 0]
        rew = {
            "one": np.ones(self.count),
            "sight": obs,
            "discount": (obs == 1.0).astype(float),
            "act": chosen,
            "both": np.where(obs > 0, chosen, 1 - chosen),
            "endless": np.ones(self.count),
        }[self.name].astype(np.float32)
        obs_next = np.ones_like(self.obs) if self.name == "discount" else self.obs.copy()
        truncated = np.full(self.count, self.name == "endless")
        terminated = obs == 1.0 if self.name == "discount" else ~truncated
        self.obs = np.where((terminated | truncated)[:, None], self.first(self.count), obs_next)
        return rew, terminated, truncated, obs_next


def collect(algorithm: Any, probe: Probe, steps: int) -> Batch:
    """Step the probe with the exploring policy. -> transitions [T, B, ...] as a rollout."""
    rows = []
    for _ in range(steps):
        obs = probe.obs
        result = algorithm.policy.rollout(RolloutRequest(obs=obs))
        rew, terminated, truncated, obs_next = probe.step(result.action)
        policy = result.analyzed_result if result.analyzed_result is not None else Batch()
        fields = {"obs": obs, "act": result.action, "rew": rew, "terminated": terminated, "truncated": truncated}
        rows.append(Batch(**fields, obs_next=obs_next, cut=terminated | truncated, policy=policy))
    rows[-1].cut = np.ones(probe.count, bool)
    return Batch.stack(rows)


def train_onpolicy(algorithm: Any, name: str, updates: int) -> None:
    """`updates` rounds of collecting 8 steps of 8 copies and learning from them."""
    probe = Probe(name, 8, np.random.default_rng(0))
    for _ in range(updates):
        algorithm.update(collect(algorithm, probe, 8))


def train_offpolicy(algorithm: Any, name: str, updates: int) -> None:
    """`updates` updates on uniform samples of 512 transitions of the policy as it was at first."""
    rng = np.random.default_rng(0)
    rollout = collect(algorithm, Probe(name, 8, rng), 64)
    fields = ("obs", "act", "rew", "terminated", "truncated", "obs_next")
    flat = {key: rollout[key].reshape(512, *rollout[key].shape[2:]) for key in fields}
    flat["discount"] = (algorithm.config.gamma * ~flat["terminated"]).astype(np.float32)
    flat["weight"] = np.ones(512, np.float32)
    data = Batch(flat)
    for _ in range(updates):
        algorithm.update(data[rng.integers(512, size=64)])


def greedy(algorithm: Any, obs: float) -> float:
    """The evaluation action at one observation."""
    request = RolloutRequest(obs=np.full((1, 1), obs, np.float32), is_evaluation=np.ones(1, bool))
    return float(algorithm.policy.rollout(request).action.reshape(()))


def value_of(algorithm: Any, obs: torch.Tensor) -> torch.Tensor:
    """What it says that an observation [1, 1] is worth: its critic of the greedy action, or the policy by itself."""
    sample = Batch(obs=obs)
    if hasattr(algorithm, "critic"):
        found = greedy(algorithm, obs.item())
        act = torch.tensor([int(found)]) if algorithm.policy.num_actions else torch.full((1, 1), found)
        return (
            algorithm._value(sample, act) if hasattr(algorithm, "_value") else algorithm.critic.value(sample, act).min()
        )
    if hasattr(algorithm, "policy_target"):
        return algorithm.policy(sample).logits.max()
    return algorithm.policy.analyze(sample).value


@dataclass(frozen=True, kw_only=True)
class Probed:
    """How an algorithm solves probes."""

    config: Any
    updates: int
    space: spaces.Space[Any] = field(default_factory=lambda: DISCRETE)
    net: NetConfig = NET
    probes: Sequence[str] = PROBES
    value: Callable[[Any, torch.Tensor], torch.Tensor] | None = value_of
    """Its values; None: it has none."""


def of_both_spaces(config: Any, updates: int, **how: Any) -> dict[str, Probed]:
    """The same for choices and for a continuous action."""
    both = {"discrete": DISCRETE, "box": BOX}
    return {case: Probed(config=config, updates=updates, space=space, **how) for case, space in both.items()}


def check_probe(cls: Any, how: Probed, name: str) -> None:
    """Train on a probe; its values, and the actions where these count, must then be right."""
    task = Task(observation_space=OBS_SPACE, action_space=how.space, net=how.net)
    algorithm = cls.make(how.config, task, seed=0)
    (train_onpolicy if cls.kind == "onpolicy" else train_offpolicy)(algorithm, name, how.updates)
    for obs, expected in VALUES[name].items() if how.value is not None else ():
        found = how.value(algorithm, torch.tensor([[obs]])).item()
        assert found == pytest.approx(expected, abs=0.1), f"V({obs})"
    if name == "act":
        assert greedy(algorithm, 0.0) > 0
    if name == "both":
        assert greedy(algorithm, 1.0) > 0 >= greedy(algorithm, -1.0)
