"""Tianshou 2's side, run in its own environment."""

from __future__ import annotations

import gymnasium as gym
import torch
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.ppo import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.modelfree.sac import SAC, AutoAlpha, SACPolicy
from tianshou.algorithm.modelfree.td3 import TD3, ContinuousDeterministicPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import (
    ContinuousActorDeterministic,
    ContinuousActorProbabilistic,
    ContinuousCritic,
)
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic


def dqn(env, seed, **s):
    torch.manual_seed(seed)
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=(4,), action_shape=2, hidden_sizes=list(s["hidden"])),
        action_space=gym.spaces.Discrete(2),
        observation_space=gym.make(env).observation_space,
    )
    algorithm = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=s["lr"]),
        gamma=s["gamma"],
        n_step_return_horizon=s["n_step"],
        target_update_freq=s["target_every"],
        is_double=False,
        huber_loss_delta=1.0,
    )
    before = 0

    def explore(epoch, step):
        policy.set_eps_training(max(0.05, 1.0 - 0.95 * (before + step) / s["eps_steps"]))

    train, act = replaying(algorithm, env, seed, s, s["envs"], 2 / s["envs"], training_fn=explore)

    def counted(steps):
        nonlocal before
        train(steps)
        before += steps

    return counted, act


def nets(env, s, probabilistic):
    space = gym.make(env).action_space
    hidden = list(s["hidden"])
    shape = {"state_shape": (3,), "hidden_sizes": hidden}
    kind = ContinuousActorProbabilistic if probabilistic else ContinuousActorDeterministic
    settings = {"unbounded": True, "conditioned_sigma": True} if probabilistic else {}
    actor = kind(preprocess_net=Net(**shape), action_shape=(1,), **settings)
    critics = [ContinuousCritic(preprocess_net=Net(**shape, action_shape=(1,), concat=True)) for _ in range(2)]
    learned = {
        "policy_optim": AdamOptimizerFactory(lr=s["lr"]),
        "critic": critics[0],
        "critic2": critics[1],
        "critic_optim": AdamOptimizerFactory(lr=s["lr"]),
        "tau": s["tau"],
        "gamma": s["gamma"],
    }
    return actor, space, learned


def sac(env, seed, **s):
    torch.manual_seed(seed)
    actor, space, learned = nets(env, s, probabilistic=True)
    alpha = AutoAlpha(-1.0, 0.0, AdamOptimizerFactory(lr=s["lr"]))
    algorithm = SAC(policy=SACPolicy(actor=actor, action_space=space), alpha=alpha, **learned)
    return replaying(algorithm, env, seed, s, 1, 1.0)


def td3(env, seed, **s):
    torch.manual_seed(seed)
    actor, space, learned = nets(env, s, probabilistic=False)
    noise = GaussianNoise(sigma=s["noise"])
    policy = ContinuousDeterministicPolicy(actor=actor, exploration_noise=noise, action_space=space)
    return replaying(TD3(policy=policy, **learned), env, seed, s, 1, 1.0)


def ppo(env, seed, **s):
    torch.manual_seed(seed)
    shape = {"state_shape": (4,), "hidden_sizes": list(s["hidden"]), "activation": torch.nn.Tanh}
    actor = DiscreteActor(preprocess_net=Net(**shape), action_shape=2, softmax_output=False)
    algorithm = PPO(
        policy=DiscreteActorPolicy(actor=actor, action_space=gym.spaces.Discrete(2)),
        critic=DiscreteCritic(preprocess_net=Net(**shape)),
        optim=AdamOptimizerFactory(lr=s["lr"]),
        gamma=s["gamma"],
        max_grad_norm=0.5,
        ent_coef=0.0,
    )
    rows = s["rollout"] * s["envs"]
    collector = Collector(algorithm, envs_of(env, seed, s["envs"]), VectorReplayBuffer(rows, s["envs"]))

    def train(steps):
        algorithm.run_training(
            OnPolicyTrainerParams(
                training_collector=collector,
                max_epochs=1,
                epoch_num_steps=steps,
                collection_step_num_env_steps=rows,
                update_step_num_repetitions=s["epochs"],
                batch_size=s["batch"],
                verbose=False,
                show_progress=False,
            )
        )

    return train, acting(algorithm.policy)


def envs_of(env, seed, count):
    envs = DummyVectorEnv([lambda: gym.make(env) for _ in range(count)])
    envs.seed(seed)
    return envs


def replaying(algorithm, env, seed, s, envs, updates, **more):
    buffer = VectorReplayBuffer(s["buffer"], envs)
    collector = Collector(algorithm, envs_of(env, seed, envs), buffer, exploration_noise=True)
    started = False

    def train(steps):
        nonlocal started
        if not started:
            collector.reset()
            collector.collect(n_step=s["start"], random=True)
            steps -= s["start"]
            started = True
        if steps > 0:
            params = OffPolicyTrainerParams(
                training_collector=collector,
                max_epochs=1,
                epoch_num_steps=steps,
                collection_step_num_env_steps=envs,
                update_step_num_gradient_steps_per_sample=updates,
                batch_size=s["batch"],
                verbose=False,
                show_progress=False,
                **more,
            )
            # `run_training` would start all episodes anew, of which the longest then are of `steps / envs` steps
            algorithm.create_trainer(params).run(reset_collectors=False)

    return train, acting(algorithm.policy)


def acting(policy):
    def act(obs):
        policy.eval()
        with torch.no_grad():
            found = policy(Batch(obs=obs, info=Batch())).act
        return policy.map_action(found.numpy() if hasattr(found, "numpy") else found)

    return act
