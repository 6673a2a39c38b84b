"""A script as one writes it with Tianshou, in which only the imports changed. The numbers are those of Tianshou 1.0."""

import gymnasium as gym
import numpy as np
import torch

from argosy.collect import Collector
from argosy.data import Batch, VectorReplayBuffer
from argosy.env import DummyVectorEnv, ShmemVectorEnv
from argosy.policy import ForwardPolicy as BasePolicy


class Walk(gym.Env):
    """Counts its steps; the reward is the action; episodes of a given length."""

    observation_space = gym.spaces.Box(0, 100, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {"length": self.length}

    def _obs(self):
        return np.array([self.t, self.length], np.float32)

    def step(self, action):
        self.t += 1
        return self._obs(), float(action), self.t >= self.length, False, {"length": self.length}


class EveryOther(BasePolicy):
    """Acts 1 at even steps."""

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=(batch.obs[:, 0] % 2 == 0).astype(int), policy=Batch(time=batch.obs[:, 0]))

    def learn(self, batch, *args, **kwargs):
        raise NotImplementedError


def test_collect_sample_and_save(tmp_path):
    train_envs = ShmemVectorEnv([lambda n=n: Walk(n) for n in (3, 4, 5)])
    test_envs = DummyVectorEnv([lambda: Walk(6) for _ in range(2)])
    train_envs.seed(0)
    test_envs.seed(1)
    policy = EveryOther(action_space=Walk.action_space, observation_space=Walk.observation_space)
    buffer = VectorReplayBuffer(total_size=30, buffer_num=len(train_envs))
    train_collector = Collector(policy, train_envs, buffer, exploration_noise=True)
    test_collector = Collector(policy, test_envs)

    train_collector.collect(n_step=6, random=True)
    assert len(buffer) == 6
    assert buffer.unfinished_index().tolist() == [1, 11, 21]
    train_collector.reset()
    stats = train_collector.collect(n_step=42)  # 14 steps each
    assert (stats.n_collected_steps, stats.n_collected_episodes) == (42, 4 + 3 + 2)
    assert sorted(stats.lens) == [3] * 4 + [4] * 3 + [5] * 2
    assert sorted(stats.returns) == [2] * 7 + [3] * 2
    result = test_collector.collect(n_episode=4)
    assert result.n_collected_episodes == 4
    assert (result.returns_stat.mean, result.lens_stat.std) == (3, 0)
    assert (train_collector.collect_step, train_collector.collect_episode) == (42, 9)

    everything, indices = buffer.sample(0)  # the last ten steps of each env, oldest first
    assert indices[:10].tolist() == [4, 5, 6, 7, 8, 9, 0, 1, 2, 3]
    assert everything.obs[:10, 0].tolist() == [1, 2, 0, 1, 2, 0, 1, 2, 0, 1]
    assert everything.obs_next[:10, 0].tolist() == [2, 3, 1, 2, 3, 1, 2, 3, 1, 2]
    assert everything.act[:10].tolist() == [0, 1, 1, 0, 1, 1, 0, 1, 1, 0]
    assert everything.rew[:10].tolist() == [0, 1, 1, 0, 1, 1, 0, 1, 1, 0]
    assert np.flatnonzero(everything.done[:10]).tolist() == [1, 4, 7]
    assert (everything.policy.time == everything.obs[:, 0]).all()
    assert buffer.prev(indices)[:10].tolist() == [4, 4, 6, 6, 7, 9, 9, 0, 2, 2]
    assert buffer.next(indices)[:10].tolist() == [5, 5, 7, 8, 8, 0, 1, 1, 3, 3]
    target = everything.rew + 0.5 * ~everything.terminated
    assert target[:3].tolist() == [0.5, 1, 1.5]

    batch, indices = buffer.sample(8)
    batch.to_torch(device="cpu")
    batch.update(returns=torch.zeros(8))
    batch.info.seen = torch.ones(8)
    assert len(Batch.cat([batch, batch]).info.seen) == 16
    assert [len(mb) for mb in batch.split(3, shuffle=False, merge_last=True)] == [3, 5]

    buffer.save_hdf5(str(tmp_path / "buffer.hdf5"))
    loaded = VectorReplayBuffer.load_hdf5(str(tmp_path / "buffer.hdf5"))
    assert loaded.sample(0)[0] == everything

    train_collector.reset_buffer(keep_statistics=True)
    assert len(buffer) == 0
    train_collector.collect(n_episode=3)
    train_collector.reset(reset_buffer=False)
    assert len(buffer) > 0
    assert train_collector.collect_step == 0
    train_envs.close()
    test_envs.close()
