"""Rows of the speed table in Stable-Baselines3 2.9.2, run in its own environment (see setup.sh)."""

from __future__ import annotations

from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env


def prepare_train_ppo_cartpole(seed):
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=seed),
        n_steps=128,
        n_epochs=4,
        batch_size=256,
        learning_rate=2.5e-4,
        ent_coef=0.01,
        seed=seed,
        device="cpu",
        verbose=0,
    )

    def run(count):
        before, updates = model.num_timesteps, model._n_updates
        model.learn(count, reset_num_timesteps=False)
        return {"steps": model.num_timesteps - before, "gradient_steps": (model._n_updates - updates) * 4}

    return run


def prepare_train_dqn_cartpole(seed):
    model = DQN(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=seed),
        buffer_size=20_000,
        batch_size=64,
        learning_rate=1e-3,
        learning_starts=800,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=4_000,  # env steps, that is 500 updates
        exploration_initial_eps=0.1,
        exploration_final_eps=0.1,
        max_grad_norm=10,
        policy_kwargs={"net_arch": [128, 128]},
        seed=seed,
        device="cpu",
        verbose=0,
    )
    model.learn(800)

    def run(count):
        before, updates = model.num_timesteps, model._n_updates
        model.learn(count, reset_num_timesteps=False)
        return {"steps": model.num_timesteps - before, "gradient_steps": model._n_updates - updates}

    return run


def prepare_train_sac_halfcheetah(seed):
    model = SAC(
        "MlpPolicy",
        make_vec_env("HalfCheetah-v5", n_envs=1, seed=seed),
        buffer_size=100_000,
        batch_size=256,
        learning_rate=3e-4,
        learning_starts=300,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        device="cpu",
        verbose=0,
    )
    model.learn(300)

    def run(count):
        before, updates = model.num_timesteps, model._n_updates
        model.learn(count, reset_num_timesteps=False)
        return {"steps": model.num_timesteps - before, "gradient_steps": model._n_updates - updates}

    return run


ROWS = {name.removeprefix("prepare_"): fn for name, fn in list(globals().items()) if name.startswith("prepare_")}
