"""What Tianshou's examples/atari/atari_dqn.py does, written after docs/migration.md; some thousand steps of Pong."""

import numpy as np
import pytest
import torch

from argosy.algorithm import DQN, DQNConfig, OptimConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import EnvConfig, make_vector_env
from argosy.logger import TensorBoardLogger
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig
from argosy.trainer import OffpolicyTrainer

STEPS, EPS_TRAIN, EPS_FINAL, EPS_TEST = 4_000, 1.0, 0.05, 0.005


@pytest.mark.slow  # a minute
@pytest.mark.timeout(600)
def test_atari_dqn(tmp_path):
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    frames = EnvConfig(vector="shmem", frame_stack=4)
    train_envs = make_vector_env("PongNoFrameskip-v4", 10, config=frames)
    test_envs = make_vector_env("PongNoFrameskip-v4", 2, config=frames, test=True)  # whole games, rewards as they are
    train_envs.seed(0)
    test_envs.seed(0)

    config = DQNConfig(
        gamma=0.99,
        n_step=3,
        target_update_freq=500,
        loss="mse",
        optim=OptimConfig(lr=1e-4),
        exploration=EpsilonConfig(eps_start=EPS_TRAIN, eps_end=EPS_FINAL, eps_decay_steps=1_000_000, eps_test=EPS_TEST),
    )
    space = train_envs.single_observation_space
    assert space.shape == (4, 84, 84)
    net = NetConfig(scale_uint8=False)  # 0 to 255, as they are
    task = Task(observation_space=space, action_space=train_envs.single_action_space, net=net)
    algorithm = DQN.make(config, task, 0)
    policy = algorithm.policy

    buffer = VectorReplayBuffer(
        20_000, buffer_num=len(train_envs), ignore_obs_next=True, save_only_last_obs=True, stack_num=4
    )
    train_collector = Collector(policy, train_envs, buffer, exploration_noise=True)
    test_collector = Collector(policy, test_envs)
    logger = TensorBoardLogger(tmp_path)
    rates = []

    def save_best_fn(policy):
        torch.save(policy.state_dict(), tmp_path / "policy.pth")

    def train_fn(epoch, env_step):
        rates.append((env_step, policy.exploration.eps))
        if env_step % 1000 == 0:
            logger.log({"train/eps": policy.exploration.eps}, env_step=env_step)

    train_collector.collect(n_step=32 * len(train_envs))
    result = OffpolicyTrainer(
        algorithm=algorithm,
        train_collector=train_collector,
        test_collector=test_collector,
        max_epoch=1,
        step_per_epoch=STEPS,
        step_per_collect=10,
        episode_per_test=2,
        batch_size=32,
        train_fn=train_fn,
        stop_fn=lambda mean_rewards: mean_rewards >= 20,
        save_best_fn=save_best_fn,
        logger=logger,
        update_per_step=0.1,
        test_in_train=False,
    ).run()
    assert (result.train_step, result.gradient_step) == (STEPS, STEPS // 10)
    assert -21 <= result.best_reward <= 21
    (env_step, eps) = rates[-1]
    assert eps == pytest.approx(EPS_TRAIN - (env_step - 10) / 1e6 * (EPS_TRAIN - EPS_FINAL))  # of the step before
    batch, _ = buffer.sample(32)
    assert batch.obs.shape == batch.obs_next.shape == (32, 4, 84, 84)
    assert set(np.unique(buffer.rew)) <= {-1, 0, 1}

    # watch: play a saved policy, keep what it does, read it back
    again = DQN.make(config, task).policy
    again.load_state_dict(torch.load(tmp_path / "policy.pth"))
    kept = VectorReplayBuffer(
        1_000, buffer_num=len(test_envs), ignore_obs_next=True, save_only_last_obs=True, stack_num=4
    )
    stats = Collector(again, test_envs, kept).collect(n_step=1_000)
    kept.save_hdf5(tmp_path / "pong.hdf5")
    assert stats.n_collected_steps == len(VectorReplayBuffer.load_hdf5(tmp_path / "pong.hdf5")) == 1_000
    train_envs.close()
    test_envs.close()
