"""What Tianshou's test/continuous/test_sac_with_il.py does, written after docs/migration.md: its settings and bars."""

import gymnasium as gym
import pytest
import torch

from argosy.algorithm import BC, SAC, BCConfig, OptimConfig, SACConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.logger import TensorBoardLogger
from argosy.net import NetConfig
from argosy.trainer import OffpolicyTrainer

TASK, SEED = "Pendulum-v1", 1
THRESHOLD = -250.0


@pytest.mark.slow  # three minutes
@pytest.mark.timeout(900)
def test_sac_with_il(tmp_path):
    env = gym.make(TASK)
    train_envs = DummyVectorEnv([lambda: gym.make(TASK) for _ in range(10)])
    test_envs = DummyVectorEnv([lambda: gym.make(TASK) for _ in range(100)])
    train_envs.seed(SEED)
    test_envs.seed(SEED + 1)

    net = NetConfig(hidden_sizes=(128, 128))
    task = Task(observation_space=env.observation_space, action_space=env.action_space, net=net)
    config = SACConfig(
        gamma=0.99,
        n_step=3,
        tau=0.005,
        auto_alpha=True,
        alpha=1.0,  # the exponential of a log_alpha that starts at 0
        actor_optim=OptimConfig(lr=1e-3),
        critic_optim=OptimConfig(lr=1e-3),
        alpha_optim=OptimConfig(lr=3e-4),
    )
    algorithm = SAC.make(config, task, SEED)
    buffer = VectorReplayBuffer(20_000, len(train_envs))
    train_collector = Collector(algorithm.policy, train_envs, buffer, exploration_noise=True)
    test_collector = Collector(algorithm.policy, test_envs)
    logger = TensorBoardLogger(tmp_path)

    def save_best_fn(policy):
        torch.save(policy.state_dict(), tmp_path / "policy.pth")

    result = OffpolicyTrainer(
        algorithm=algorithm,
        train_collector=train_collector,
        test_collector=test_collector,
        max_epoch=10,
        step_per_epoch=24_000,
        step_per_collect=10,
        episode_per_test=100,
        batch_size=128,
        update_per_step=0.1,
        stop_fn=lambda mean_rewards: mean_rewards >= THRESHOLD,
        save_best_fn=save_best_fn,
        logger=logger,
    ).run()
    assert result.best_reward >= THRESHOLD

    # The one that imitates learns from what the other one, now an expert, goes on to collect.
    imitator = BC.make(BCConfig(optim=OptimConfig(lr=1e-3)), task, SEED)
    il_test_env = gym.make(TASK)
    il_test_env.reset(seed=SEED + 2)
    il_test_collector = Collector(imitator.policy, il_test_env)
    train_collector.reset()
    result = OffpolicyTrainer(
        algorithm=imitator,
        train_collector=train_collector,
        test_collector=il_test_collector,
        max_epoch=10,
        step_per_epoch=500,
        step_per_collect=10,
        episode_per_test=100,
        batch_size=128,
        stop_fn=lambda mean_rewards: mean_rewards >= THRESHOLD - 50,
        save_best_fn=save_best_fn,
        logger=logger,
    ).run()
    assert result.best_reward >= THRESHOLD - 50
