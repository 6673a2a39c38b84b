"""An algorithm that only counts, an env whose returns are known, and a logger that remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import gymnasium as gym
import numpy as np

from argosy.algorithm import Algorithm, Task
from argosy.collect import Collector
from argosy.data import TrainingStats, VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.policy import QPolicy


class Corridor(gym.Env[np.ndarray, np.int64]):
    """Episodes of 5 steps with reward 1."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.array([self.t, self.np_random.normal()], dtype=np.float32).clip(-10, 10)

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._obs(), 1.0, self.t == 5, False, {}


@dataclass(frozen=True, kw_only=True)
class CountingConfig:
    gamma: float = 0.9
    n_step: int = 2
    repeat_per_collect: int = 1
    batch_size: int = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class CountingStats(TrainingStats):
    loss: float


class Notes(list[Any]):
    """What a test looks at afterwards: no state of learning, so a checkpoint holds nothing of it."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Any) -> None:
        pass


class Counting(Algorithm[CountingConfig, CountingStats]):
    """Learns nothing; remembers the batches and the schedule."""

    kind = "offpolicy"
    config_type = CountingConfig
    action_spaces = (gym.spaces.Discrete,)

    def __init__(self, config: CountingConfig, policy: QPolicy) -> None:
        super().__init__(config, policy)
        self.batches, self.scheduled = Notes(), Notes()

    @classmethod
    def build(cls, config: CountingConfig, task: Task) -> Self:
        return cls(config, QPolicy(task.observation_space, task.action_space, NetConfig(hidden_sizes=(4,))))

    def schedule(self, env_step: int, max_env_step: int) -> None:
        self.scheduled.append((env_step, max_env_step))

    def update(self, batch: Any) -> CountingStats:
        self.batches.append(batch)
        self.num_updates += 1
        return CountingStats(loss=float(len(self.batches)), gradient_steps=3 if self.kind == "onpolicy" else 1)


class OnpolicyCounting(Counting):
    kind = "onpolicy"


class MemoryLogger:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, dict[str, float]]] = []

    def log(self, metrics: Mapping[str, float], *, env_step: int, gradient_step: int = 0) -> None:
        self.records.append((env_step, gradient_step, dict(metrics)))

    def close(self) -> None:
        pass


def envs(count: int) -> DummyVectorEnv:
    return DummyVectorEnv([Corridor for _ in range(count)])


def counting(kind: str = "offpolicy") -> Counting:
    env = Corridor()
    cls = OnpolicyCounting if kind == "onpolicy" else Counting
    task = Task(observation_space=env.observation_space, action_space=env.action_space)
    return cls.make(CountingConfig(), task, seed=0)


def parts(kind: str = "offpolicy", num_envs: int = 2, size: int = 200) -> dict[str, Any]:
    """Return algorithm and collectors, as keyword arguments of a trainer, with settings that keep it quiet."""
    algorithm = counting(kind)
    buffer = VectorReplayBuffer(size, num_envs, seed=0)
    return {
        "algorithm": algorithm,
        "train_collector": Collector(algorithm.policy, envs(num_envs), buffer, exploration_noise=True, seed=0),
        "test_collector": Collector(algorithm.policy, envs(2), seed=1),
        "episode_per_test": 2,
        "verbose": False,
        "show_progress": False,
    }
