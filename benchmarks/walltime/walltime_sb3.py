"""Stable-Baselines3's side, run in its own environment."""

from __future__ import annotations

import torch
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise


def dqn(env, seed, **s):
    model = DQN(
        "MlpPolicy",
        make_vec_env(env, n_envs=s["envs"], seed=seed),
        n_steps=s["n_step"],
        target_update_interval=s["target_every"] * s["envs"] // 2,
        train_freq=1,
        gradient_steps=2,
        max_grad_norm=float("inf"),
        seed=seed,
        **replaying(s),
    )
    # its own schedule follows the length that one call of `learn` is told
    model.exploration_schedule = lambda _: max(0.05, 1.0 - 0.95 * model.num_timesteps / s["eps_steps"])
    return learner(model)


def sac(env, seed, **s):
    return learner(SAC("MlpPolicy", make_vec_env(env, seed=seed), seed=seed, tau=s["tau"], **replaying(s)))


def td3(env, seed, **s):
    noise = NormalActionNoise(torch.zeros(1).numpy(), s["noise"] * torch.ones(1).numpy())
    settings = {"tau": s["tau"], "action_noise": noise, "train_freq": 1, "gradient_steps": 1}
    return learner(TD3("MlpPolicy", make_vec_env(env, seed=seed), seed=seed, **settings, **replaying(s)))


def ppo(env, seed, **s):
    return learner(
        PPO(
            "MlpPolicy",
            make_vec_env(env, n_envs=s["envs"], seed=seed),
            n_steps=s["rollout"],
            n_epochs=s["epochs"],
            batch_size=s["batch"],
            learning_rate=s["lr"],
            gamma=s["gamma"],
            policy_kwargs={"net_arch": list(s["hidden"])},
            seed=seed,
            device="cpu",
        )
    )


def replaying(s):
    return {
        "learning_rate": s["lr"],
        "batch_size": s["batch"],
        "learning_starts": s["start"],
        "buffer_size": s["buffer"],
        "gamma": s["gamma"],
        "policy_kwargs": {"net_arch": list(s["hidden"])},
        "device": "cpu",
    }


def learner(model):
    def train(steps):
        model.learn(steps, reset_num_timesteps=False)

    return train, lambda obs: model.predict(obs, deterministic=True)[0]
