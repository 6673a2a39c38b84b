"""What only a policy with memory can do, and policies and algorithms that check what they remember."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy import net
from argosy.algorithm.base import Algorithm, AlgorithmConfig
from argosy.data import Batch, NamedArray, TrainingStats
from argosy.env import Environment, StepResult
from argosy.policy import RolloutResult, SingleModelPytorchPolicy


class Recall(gym.Env):
    """The first observation says left or right, those after it say anything; the last action is paid 1 for the first.

    Without memory the mean return is 0.5 whatever one does.
    """

    observation_space = spaces.Box(-1, 1, (3,))
    action_space = spaces.Discrete(2)

    def __init__(self, steps=6):
        self.steps = steps

    def _look(self):
        shown = self.sign if self.t == 0 else self.np_random.choice([-1.0, 1.0])
        return np.array([shown, self.t == 0, self.t == self.steps - 1], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.sign = 0, self.np_random.choice([-1.0, 1.0])
        return self._look(), {}

    def step(self, action):
        self.t += 1
        over = self.t == self.steps
        return self._look(), float(over and (action == 1) == (self.sign > 0)), over, False, {}


class OneAgent(Environment):
    """A gymnasium env as a game for one."""

    agent_count = 1

    def __init__(self, env):
        self.env, self.next_seed = env, None
        self.observation_spaces, self.action_spaces = [env.observation_space], [env.action_space]

    def seed(self, seed):
        self.next_seed = seed

    def reset(self):
        seed, self.next_seed = self.next_seed, None
        return [StepResult(self.env.reset(seed=seed)[0])]

    def step(self, actions):
        obs, rew, terminated, truncated, _ = self.env.step(actions[0])
        return [StepResult(obs, rew, terminated, truncated)]


def recall_game(steps=6):
    return OneAgent(Recall(steps))


class Addends(gym.Env):
    """Small numbers; episodes of 1 to 6 steps end in both ways."""

    observation_space = spaces.Box(0, 9, (1,))
    action_space = spaces.Discrete(1000)

    def _look(self):
        return self.np_random.integers(1, 10, 1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 7))
        return self._look(), {}

    def step(self, action):
        self.left -= 1
        terminated = self.left == 0 and self.np_random.random() < 0.5
        return self._look(), float(action), terminated, self.left == 0 and not terminated, {}


def addends_game():
    return OneAgent(Addends())


class Memory(SingleModelPytorchPolicy):
    """Actor and critic on a GRU: all that a user writes for a recurrent policy."""

    def __init__(self, observation_space, action_space, hidden=16, **kwargs):
        parts = nn.ModuleDict(
            {
                "gru": net.Memory("gru", observation_space.shape[0], hidden),
                "actor": nn.Linear(hidden, int(action_space.n)),
                "critic": nn.Linear(hidden, 1),
            }
        )
        super().__init__(observation_space, action_space, parts, default_policy_state=np.zeros(hidden, "f4"), **kwargs)

    def rollout(self, requests):
        with torch.inference_mode():
            obs, state = self._tensors(requests.obs), self._tensors(requests.policy_state)
            state = self.net["gru"].step(obs, state)
            logp = self.net["actor"](state).log_softmax(-1)
            gumbel = -np.log(self.rng.numpy.standard_exponential(logp.shape, dtype=np.float32))
            if requests.is_evaluation is not None:
                gumbel[requests.is_evaluation] = 0.0
            act = (logp + torch.from_numpy(gumbel)).argmax(-1, keepdim=True)
            stored = NamedArray(logp=logp.gather(-1, act).squeeze(-1).numpy())
        return RolloutResult(action=act.squeeze(-1).numpy(), policy_state=state.numpy(), analyzed_result=stored)

    def analyze(self, sample):
        return self._analysis(self.net["gru"](sample.obs, sample.policy.state, sample.on_reset), sample)

    def analyze_next(self, sample, rows=None):
        state = self.net["gru"](sample.obs, sample.policy.state, sample.on_reset)
        obs_next = sample.obs_next if rows is None else sample.obs_next[rows]
        state = self.net["gru"].step(obs_next, state if rows is None else state[rows])
        return Batch(value=self.net["critic"](state).squeeze(-1))

    def _analysis(self, state, sample):
        logp = self.net["actor"](state).log_softmax(-1)
        return Batch(
            logp=logp.gather(-1, sample.act.unsqueeze(-1)).squeeze(-1),
            entropy=-(logp.exp() * logp).sum(-1),
            value=self.net["critic"](state).squeeze(-1),
        )


class CheckSums(Algorithm):
    """Learns nothing: adds up what a SumPolicy has seen and compares, row by row, over all rollouts."""

    kind = "onpolicy"
    config_type = AlgorithmConfig
    action_spaces = (spaces.Discrete,)

    def __init__(self, config, policy):
        super().__init__(config, policy)
        self.sums = None

    @classmethod
    def build(cls, config, task):
        raise NotImplementedError

    def update(self, batch):
        T, B = batch.rew.shape
        sums = np.zeros(B) if self.sums is None else self.sums
        resets = 0
        for t in range(T):
            np.testing.assert_array_equal(batch.policy.state.total[t, :, 0], sums)  # the state that was used
            sums = sums + batch.obs[t, :, 0]
            np.testing.assert_array_equal(batch.act[t], sums)  # what was made of it
            done = batch.terminated[t] | batch.truncated[t]
            sums, resets = np.where(done, 0.0, sums), resets + done.sum()
        assert 0 < resets < T * B
        self.sums = sums
        self._finish(loss=torch.zeros(()))
        return TrainingStats()
