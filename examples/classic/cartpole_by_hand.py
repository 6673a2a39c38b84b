"""DQN on CartPole-v1 from parts: env, policy, algorithm, buffer, collectors, trainer. Solved in about 20 seconds."""

import gymnasium as gym

from argosy.algorithm import DQN, DQNConfig, OptimConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.trainer import OffpolicyTrainer


def main(seed: int = 1) -> float:
    train_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(8)])
    test_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(10)])

    task = Task(observation_space=train_envs.single_observation_space, action_space=train_envs.single_action_space)
    config = DQNConfig(n_step=3, target_update_freq=1, tau=0.01, optim=OptimConfig(max_grad_norm=10.0))
    algorithm = DQN.make(config, task, seed)

    buffer = VectorReplayBuffer(50_000, buffer_num=8, seed=seed)
    trainer = OffpolicyTrainer(
        algorithm=algorithm,
        train_collector=Collector(algorithm.policy, train_envs, buffer, exploration_noise=True, seed=seed),
        test_collector=Collector(algorithm.policy, test_envs, seed=seed + 1),
        max_epoch=40,
        step_per_epoch=2_500,
        step_per_collect=8,
        update_per_step=0.25,
        batch_size=128,
        episode_per_test=20,
        stop_fn=lambda mean_return: mean_return >= 475,
    )
    info = trainer.run()
    print(f"return {info.best_reward:.1f} after {info.train_step} steps, {info.timing.total_time:.0f} s")
    return info.best_reward


if __name__ == "__main__":
    main()
