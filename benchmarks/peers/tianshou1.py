"""Rows of the speed table in Tianshou 1.0.0, run in its own environment (see setup.sh)."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from busy import Busy
from tianshou.data import Batch, Collector, HERVectorReplayBuffer, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, ShmemVectorEnv
from tianshou.policy import DQNPolicy, PPOPolicy
from tianshou.trainer import OnpolicyTrainer
from tianshou.utils.net.common import ActorCritic, Net
from tianshou.utils.net.discrete import Actor, Critic


def cartpole(seed):
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(8)])
    envs.seed(seed)
    return envs


def dqn(lr=1e-3):
    net = Net((4,), 2, hidden_sizes=[128, 128])
    optim = torch.optim.Adam(net.parameters(), lr=lr)
    return DQNPolicy(model=net, optim=optim, action_space=gym.spaces.Discrete(2), target_update_freq=500)


def fill(buffer, num_envs, steps, make_obs, episode):
    for t in range(steps):
        end = np.full(num_envs, t % episode == episode - 1)
        buffer.add(
            Batch(
                obs=make_obs(),
                act=np.zeros(num_envs, np.int64),
                rew=np.ones(num_envs),
                terminated=end,
                truncated=np.zeros(num_envs, bool),
                obs_next=make_obs(),
                info=[{} for _ in range(num_envs)],
            )
        )


def balance(parameters):
    """Let a Q-network 4-128-128-2 push towards where the pole falls, so that all sides have episodes of one length."""
    with torch.no_grad():
        for parameter in parameters:
            parameter.zero_()
        first, _, second, _, last, _ = parameters
        first[0, 2:], first[1, 2:] = 1.0, -1.0
        second[0, 0] = second[1, 1] = last[1, 0] = last[0, 1] = 1.0


def prepare_collect_cartpole(seed):
    policy = dqn()
    balance(list(policy.model.parameters()))
    policy.set_eps(0.5)
    collector = Collector(policy, cartpole(seed), VectorReplayBuffer(20_000, 8), exploration_noise=True)

    def run(count):
        stats = collector.collect(n_step=count)
        episodes = int(stats.n_collected_episodes)
        return {"steps": int(stats.n_collected_steps), "stored": len(collector.buffer), "episodes": episodes}

    return run


def prepare_sample_uniform(seed):
    rng = np.random.default_rng(seed)
    buffer = VectorReplayBuffer(20_000, 8)
    fill(buffer, 8, 2_500, lambda: rng.standard_normal((8, 4)).astype(np.float32), 50)

    def run(count):
        for _ in range(count):
            batch, _ = buffer.sample(64)
        return {"samples": count, "obs": list(batch.obs.shape)}

    return run


def prepare_sample_prioritized(seed):
    rng = np.random.default_rng(seed)
    buffer = PrioritizedVectorReplayBuffer(20_000, 8, alpha=0.6, beta=0.4)
    fill(buffer, 8, 2_500, lambda: rng.standard_normal((8, 4)).astype(np.float32), 50)
    row = Batch(
        obs=rng.standard_normal((8, 4)).astype(np.float32),
        act=rng.integers(0, 2, 8),
        rew=np.ones(8),
        terminated=np.zeros(8, bool),
        truncated=np.zeros(8, bool),
        obs_next=rng.standard_normal((8, 4)).astype(np.float32),
        info=[{} for _ in range(8)],
    )
    priorities = rng.random(64) + 0.1

    def run(count):
        for _ in range(count):
            buffer.add(row)
            batch, indices = buffer.sample(64)
            buffer.update_weight(indices, priorities)
        return {"rounds": count, "obs": list(batch.obs.shape), "weight": list(batch.weight.shape)}

    return run


def prepare_sample_frames(seed):
    rng = np.random.default_rng(seed)
    buffer = VectorReplayBuffer(20_000, 8, stack_num=4, ignore_obs_next=True, save_only_last_obs=True)
    fill(buffer, 8, 2_500, lambda: rng.integers(0, 256, (8, 4, 84, 84), np.uint8), 250)

    def run(count):
        for _ in range(count):
            batch, _ = buffer.sample(32)
        return {"samples": count, "obs": list(batch.obs.shape), "obs_next": list(batch.obs_next.shape)}

    return run


def prepare_sample_hindsight(seed):
    rng = np.random.default_rng(seed)

    def reached(achieved, desired):
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.05).astype(np.float32)

    def obs():
        return Batch(
            observation=rng.standard_normal((8, 10), np.float32),
            achieved_goal=rng.standard_normal((8, 3), np.float32),
            desired_goal=rng.standard_normal((8, 3), np.float32),
        )

    buffer = HERVectorReplayBuffer(20_000, 8, compute_reward_fn=reached, horizon=50, future_k=8.0)
    for t in range(2_500):
        buffer.add(
            Batch(
                obs=obs(),
                act=rng.standard_normal((8, 4), np.float32),
                rew=-np.ones(8),
                terminated=np.zeros(8, bool),
                truncated=np.full(8, t % 50 == 49),
                obs_next=obs(),
                info=[{} for _ in range(8)],
            )
        )

    def run(count):
        for _ in range(count):
            batch, _ = buffer.sample(256)
        return {"samples": count, "goals": list(batch.obs.desired_goal.shape)}

    return run


def prepare_update_dqn(seed):
    rng = np.random.default_rng(seed)
    policy, buffer = dqn(), VectorReplayBuffer(20_000, 8)
    fill(buffer, 8, 2_500, lambda: rng.standard_normal((8, 4)).astype(np.float32), 50)

    def run(count):
        for _ in range(count):
            policy.update(64, buffer)
        return {"updates": count}

    return run


def prepare_train_ppo_cartpole(seed):
    torch.manual_seed(seed)
    actor = Actor(Net((4,), hidden_sizes=[64, 64], activation=torch.nn.Tanh), 2, softmax_output=False)
    critic = Critic(Net((4,), hidden_sizes=[64, 64], activation=torch.nn.Tanh))
    optim = torch.optim.Adam(ActorCritic(actor, critic).parameters(), lr=2.5e-4)
    policy = PPOPolicy(
        actor=actor,
        critic=critic,
        optim=optim,
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=gym.spaces.Discrete(2),
        action_scaling=False,
        max_grad_norm=0.5,
    )
    collector = Collector(policy, cartpole(seed), VectorReplayBuffer(8 * 128, 8))

    def run(count):
        info = OnpolicyTrainer(
            policy=policy,
            max_epoch=1,
            batch_size=256,
            train_collector=collector,
            test_collector=None,
            step_per_epoch=count,
            step_per_collect=8 * 128,
            repeat_per_collect=4,
            episode_per_test=0,
            verbose=False,
            show_progress=False,
            test_in_train=False,
        ).run()
        return {"steps": int(info.train_step), "gradient_steps": int(info.gradient_step)}

    return run


def step_busy(step_s, *shape_and_dtype):
    env = ShmemVectorEnv([lambda: Busy(step_s, *shape_and_dtype) for _ in range(8)])
    env.reset()
    action = np.ones(8, np.int64)

    def run(count):
        for _ in range(-(-count // 8)):
            env.step(action)
        return {"steps": -(-count // 8) * 8}

    return run


def prepare_step_1ms(seed):
    return step_busy(1e-3)


def prepare_step_100us(seed):
    return step_busy(1e-4)


def prepare_step_frames(seed):
    return step_busy(1e-4, (84, 84, 4), np.uint8)


ROWS = {name.removeprefix("prepare_"): fn for name, fn in list(globals().items()) if name.startswith("prepare_")}
