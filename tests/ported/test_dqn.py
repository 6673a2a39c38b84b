"""What Tianshou's test/discrete/test_dqn.py does, written after docs/migration.md: same settings, same bar."""

import gymnasium as gym
import pytest
import torch

from argosy.algorithm import DQN, DQNConfig, OptimConfig, Task
from argosy.collect import Collector
from argosy.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.logger import TensorBoardLogger
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig
from argosy.trainer import OffpolicyTrainer

pytestmark = pytest.mark.slow  # a minute
TASK, EPS_TRAIN, EPS_TEST = "CartPole-v0", 0.1, 0.05


@pytest.mark.filterwarnings("ignore:.*CartPole-v0 is out of date")
@pytest.mark.parametrize(("prioritized", "gamma", "seed"), [(False, 0.9, 1626), (True, 0.95, 1)])
def test_dqn(tmp_path, prioritized, gamma, seed):
    env = gym.make(TASK)
    train_envs = DummyVectorEnv([lambda: gym.make(TASK) for _ in range(10)])
    test_envs = DummyVectorEnv([lambda: gym.make(TASK) for _ in range(100)])
    train_envs.seed(seed)
    test_envs.seed(seed)

    net = NetConfig(hidden_sizes=(128, 128, 128, 128))
    config = DQNConfig(
        gamma=gamma,
        n_step=3,
        target_update_freq=320,
        loss="mse",
        optim=OptimConfig(lr=1e-3),
        exploration=EpsilonConfig(eps_start=EPS_TRAIN, eps_test=EPS_TEST),
    )
    task = Task(observation_space=env.observation_space, action_space=env.action_space, net=net)
    algorithm = DQN.make(config, task, seed)
    policy = algorithm.policy

    if prioritized:
        buffer = PrioritizedVectorReplayBuffer(20_000, buffer_num=len(train_envs), alpha=0.6, beta=0.4)
    else:
        buffer = VectorReplayBuffer(20_000, buffer_num=len(train_envs))
    train_collector = Collector(policy, train_envs, buffer, exploration_noise=True)
    test_collector = Collector(policy, test_envs)
    train_collector.collect(n_step=64 * len(train_envs))
    rates = {}

    def save_best_fn(policy):
        torch.save(policy.state_dict(), tmp_path / "policy.pth")

    def stop_fn(mean_rewards):
        return mean_rewards >= env.spec.reward_threshold

    def train_fn(epoch, env_step):
        if env_step <= 10_000:
            policy.exploration.eps = EPS_TRAIN
        elif env_step <= 50_000:
            policy.exploration.eps = EPS_TRAIN - (env_step - 10_000) / 40_000 * (0.9 * EPS_TRAIN)
        else:
            policy.exploration.eps = 0.1 * EPS_TRAIN

    def test_fn(epoch, env_step):
        rates[env_step] = policy.exploration.eps

    result = OffpolicyTrainer(
        algorithm=algorithm,
        train_collector=train_collector,
        test_collector=test_collector,
        max_epoch=20,
        step_per_epoch=10_000,
        step_per_collect=10,
        episode_per_test=100,
        batch_size=64,
        update_per_step=0.1,
        train_fn=train_fn,
        test_fn=test_fn,
        stop_fn=stop_fn,
        save_best_fn=save_best_fn,
        logger=TensorBoardLogger(tmp_path),
    ).run()
    assert stop_fn(result.best_reward)
    assert rates[10_000] == EPS_TRAIN
    falling = {step: rate for step, rate in rates.items() if 10_010 < step <= 50_000}
    assert all(rate == pytest.approx(0.1 - (step - 10_010) / 40_000 * 0.09) for step, rate in falling.items())

    again = DQN.make(config, task).policy
    again.load_state_dict(torch.load(tmp_path / "policy.pth"))
    stats = Collector(again, DummyVectorEnv([lambda: gym.make(TASK) for _ in range(20)]), seed=seed).collect(
        n_episode=20
    )
    assert stats.returns_stat.mean >= 150
