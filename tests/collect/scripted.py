"""Envs and a policy whose every number is known in advance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from argosy.data import Batch
from argosy.env import DummyVectorEnv, Received
from argosy.policy import Policy, RolloutRequest, RolloutResult


class ScriptedEnv(gym.Env[np.ndarray, np.int64]):
    """Episodes of given lengths, in turn; obs = [env, episode, step], reward = step number (1, 2, ...).

    `bad` maps (episode, step) to what goes wrong there: "obs", "rew" (NaN), "raise"; step 0 is the reset.
    """

    def __init__(
        self, index: int, lengths: Sequence[int], truncates: bool = False, bad: dict[tuple[int, int], str] | None = None
    ) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(4)
        self.index, self.lengths, self.truncates, self.bad = index, lengths, truncates, bad or {}
        self.episode, self.t, self.resets, self.closed = -1, 0, 0, True
        self.actions: list[int] = []
        self.seeds: list[int | None] = []

    def _obs(self) -> np.ndarray:
        obs = np.array([self.index, self.episode, self.t], dtype=np.float32)
        if self.bad.get((self.episode, self.t)) == "obs":
            obs[1] = np.nan
        return obs

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self.seeds.append(seed)
        self.episode, self.t, self.closed = self.episode + 1, 0, False
        self.resets += 1
        return self._obs(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert not self.closed, "step after the end of an episode"
        self.actions.append(int(action))
        self.t += 1
        what = self.bad.get((self.episode, self.t))
        if what == "raise":
            raise RuntimeError("the simulator broke")
        done = self.t >= self.lengths[self.episode % len(self.lengths)]
        self.closed = done
        rew = float("nan") if what == "rew" else float(self.t)
        return self._obs(), rew, done and not self.truncates, done and self.truncates, {"speed": 10.0 * self.t}


class ScriptedPolicy(Policy):
    """Acts by (step of the episode) mod 4; remembers what it was asked. Optionally recurrent: counts steps."""

    action_spaces = (gym.spaces.Discrete,)

    def __init__(self, env: Any, recurrent: bool = False) -> None:
        super().__init__(env.single_observation_space, env.single_action_space)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.requests: list[RolloutRequest] = []
        self.default_policy_state = np.zeros(1, dtype=np.float32) if recurrent else None

    def forward(self, batch: Any, state: Any = None) -> Batch:
        raise NotImplementedError

    def analyze(self, sample: Any) -> object:
        raise NotImplementedError

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        self.requests.append(requests)
        obs, state = requests.obs, None
        assert isinstance(obs, np.ndarray)
        act = obs[:, 2].astype(np.int64) % 4
        if self.default_policy_state is not None:
            assert isinstance(requests.policy_state, np.ndarray)
            assert requests.on_reset is not None
            state = np.where(requests.on_reset[:, None], 0.0, requests.policy_state) + 1
        return RolloutResult(action=act, policy_state=state, analyzed_result=Batch(value=obs[:, 2] * 0.5))


def make_env(*lengths: Sequence[int], **kwargs: Any) -> DummyVectorEnv:
    """Make a vector env of scripted envs, one per list of lengths."""
    return DummyVectorEnv([lambda i=i, n=n: ScriptedEnv(i, n, **kwargs) for i, n in enumerate(lengths)])


class ScriptedAsyncEnv:
    """Asynchronous: `recv` hands out `wait_num` of the envs at work, picked at random; the others stay at work."""

    is_async = True

    def __init__(self, *lengths: Sequence[int], wait_num: int = 1, seed: int = 0, **kwargs: Any) -> None:
        self.inner = make_env(*lengths, **kwargs)
        self.num_envs, self.wait_num = len(lengths), wait_num
        self.single_observation_space = self.inner.single_observation_space
        self.single_action_space = self.inner.single_action_space
        self.rng = np.random.default_rng(seed)
        self.work: dict[int, Any] = {}

    def __len__(self) -> int:
        return self.num_envs

    def send(self, action: Any, id: Any = None) -> None:
        for i, act in zip(id, action, strict=True):
            assert i not in self.work
            self.work[int(i)] = act

    def send_reset(self, id: Any = None, **kwargs: Any) -> None:
        self.send(["reset"] * len(id), id)

    def recv(self) -> Received:
        assert self.work
        ids = self.rng.permutation(sorted(self.work))[: self.wait_num]
        rows = []
        for i in ids.tolist():
            act = self.work.pop(i)
            if isinstance(act, str):
                obs, info = self.inner.reset([i])
                rows.append((obs[0], 0.0, False, False, info[0]))
            else:
                rows.append(tuple(column[0] for column in self.inner.step([act], [i])))
        obs, rew, terminated, truncated, info = zip(*rows, strict=True)
        reset = np.array([r[4].get("speed") is None for r in rows])
        infos = np.empty(len(rows), dtype=object)
        infos[:] = info
        return Received(
            ids, reset, np.stack(obs), np.array(rew, np.float32), np.array(terminated), np.array(truncated), infos
        )

    def reset(self, id: Any = None, **kwargs: Any) -> Any:
        self.work.clear()
        return self.inner.reset(id, **kwargs)

    def step(self, action: Any, id: Any = None) -> Any:
        raise NotImplementedError

    def seed(self, seed: Any = None) -> Any:
        return self.inner.seed(seed)

    def render(self, **kwargs: Any) -> Any:
        return self.inner.render(**kwargs)

    def close(self) -> None:
        self.inner.close()

    def get_env_attr(self, name: str) -> Any:
        return self.inner.get_env_attr(name)
