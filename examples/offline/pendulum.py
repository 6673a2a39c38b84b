import gymnasium as gym
import numpy as np

import argosy
from argosy.data.datasets import open_source
from argosy.data.datasets.card import make_card

# Whatever program recorded them: here somebody's controller, which swings a pendulum up, with noise in its actions.
env, rng = gym.make("Pendulum-v1"), np.random.default_rng(0)
rows = {name: [] for name in ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")}
for episode in range(20):
    (obs, _), cut = env.reset(seed=episode), False
    while not cut:
        x, y, speed = obs
        torque = -8 * y - 2 * speed if x > 0.5 else 2 * np.sign(speed)
        act = np.clip([torque + rng.normal(0, 0.5)], -2, 2).astype(np.float32)
        obs_next, rew, terminated, cut, _ = env.step(act)
        for name, value in zip(rows, (obs, act, rew, terminated, cut, obs_next), strict=True):
            rows[name].append(value)
        obs = obs_next
np.savez("pendulum.npz", **rows)

with open_source("pendulum.npz") as source:
    print(*make_card(source).lines(), sep="\n")  # as `argosy data pendulum.npz` does
trainer = {"max_epoch": 2, "step_per_epoch": 1000, "batch_size": 256, "episode_per_test": 5}
result = argosy.train("iql", "Pendulum-v1", data="pendulum.npz", trainer=trainer, stop={"episodes": 10}, seed=1)
print(f"return {result.test_return_mean:.0f} of a policy that never acted before its tests")
