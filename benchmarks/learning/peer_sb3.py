"""Learn in an environment with Stable-Baselines3 2.9.2, in its own environment; prints the test curve as JSON.

    benchmarks/peers/.env-sb3/bin/python benchmarks/learning/peer_sb3.py '{"algorithm": "sac", "task": ...}'

`beside_sb3.py` calls it, with the settings of argosy's preset.
"""

from __future__ import annotations

import json
import sys
import time

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.noise import NormalActionNoise


def main() -> None:
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    env, test_env = gym.make(asked["task"]), gym.make(asked["task"])
    settings, width = dict(asked["settings"]), env.action_space.shape[0]
    if (std := settings.pop("noise_std", None)) is not None:
        settings["action_noise"] = NormalActionNoise(np.zeros(width), std * np.ones(width))
    kind = getattr(stable_baselines3, asked["algorithm"].upper())
    nets = {"net_arch": asked["hidden"]}
    model = kind("MlpPolicy", env, policy_kwargs=nets, seed=asked["seed"], device="cpu", **settings)
    curve, seconds = [], 0.0
    for epoch in range(1, asked["steps"] // asked["every"] + 1):
        start = time.perf_counter()
        model.learn(asked["every"], reset_num_timesteps=False)
        seconds += time.perf_counter() - start
        curve.append([epoch * asked["every"], float(np.mean(returns(model, test_env, asked["tests"], epoch)))])
    final = float(np.mean(returns(model, test_env, asked["episodes"], 0)))
    print(json.dumps({"return_mean": final, "train_s": seconds, "test_curve": curve}))


def returns(model, env, episodes, epoch):
    """Return those of episodes that the best actions play; each has a seed of its own."""
    found = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=10_000 * (epoch + 1) + episode)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(model.predict(obs, deterministic=True)[0])
            total, over = total + float(reward), terminated or truncated
        found.append(total)
    return found


if __name__ == "__main__":
    main()
