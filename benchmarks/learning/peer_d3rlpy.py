"""Learn from a data set with d3rlpy 2.8.1, in its own environment; prints the mean return of the final policy.

    benchmarks/peers/.env-d3rlpy/bin/python benchmarks/learning/peer_d3rlpy.py FILE.npz '{"algorithm": "iql", ...}'

`beside.py` calls it, with the settings of argosy's preset.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import time

import d3rlpy.algos
import gymnasium as gym
import numpy as np
import torch
from d3rlpy.dataset import MDPDataset
from d3rlpy.logging import NoopAdapterFactory
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.models.q_functions import QRQFunctionFactory
from d3rlpy.optimizers import AdamFactory
from d3rlpy.optimizers.lr_schedulers import LRSchedulerFactory
from d3rlpy.preprocessing import MinMaxActionScaler, StandardObservationScaler

CONFIGS = {
    "bc": "BCConfig",
    "td3_bc": "TD3PlusBCConfig",
    "iql": "IQLConfig",
    "awac": "AWACConfig",
    "cql": "CQLConfig",
    "bcq": "BCQConfig",
    "rebrac": "ReBRACConfig",
    "discrete_bcq": "DiscreteBCQConfig",
    "discrete_cql": "DiscreteCQLConfig",
}


@dataclasses.dataclass()
class LinearFactory(LRSchedulerFactory):
    """A learning rate that falls to 0 over `updates`: of the actor, whose optimiser alone counts them."""

    updates: int = 1

    def create(self, optim):
        return torch.optim.lr_scheduler.LambdaLR(optim, lambda step: max(0.0, 1 - step / self.updates))

    @staticmethod
    def get_type() -> str:
        return "linear"


def main() -> None:
    file, text = sys.argv[1:]
    asked = json.loads(text)
    torch.set_num_threads(1)
    d3rlpy.seed(asked["seed"])
    data, env = np.load(file), gym.make(asked["task"])
    chooses = isinstance(env.action_space, gym.spaces.Discrete)
    act = data["act"].reshape(-1, 1) if chooses else data["act"]
    dataset = MDPDataset(data["obs"], act, data["rew"], data["terminated"], data["truncated"])
    settings = dict(asked["settings"])
    config = getattr(d3rlpy.algos, CONFIGS[asked["algorithm"]])
    if chooses and asked["algorithm"] == "bc":
        config, settings["beta"] = d3rlpy.algos.DiscreteBCConfig, 0.0  # no price on logits, as in argosy's
    if "quantiles" in asked:
        settings["q_func_factory"] = QRQFunctionFactory(n_quantiles=asked["quantiles"])
    nets = {
        name: VectorEncoderFactory(asked["hidden"], use_layer_norm="critic" in name and asked["layer_norm"])
        for name in inspect.signature(config).parameters
        if name.endswith("encoder_factory")
    }
    shared = {
        "batch_size": asked["batch"],
        "observation_scaler": StandardObservationScaler() if asked["norm_obs"] else None,
    }
    if not chooses:
        shared["action_scaler"] = MinMaxActionScaler(minimum=env.action_space.low, maximum=env.action_space.high)
    if asked.get("actor_schedule") == "linear":
        given = inspect.signature(config).parameters
        name = "actor_optim_factory" if "actor_optim_factory" in given else "optim_factory"
        shared[name] = AdamFactory(lr_scheduler_factory=LinearFactory(asked.get("actor_updates", asked["updates"])))
    algorithm = config(**nets, **shared, **settings).create(False)
    start = time.perf_counter()
    algorithm.fit(
        dataset,
        n_steps=asked["updates"],
        n_steps_per_epoch=asked["updates"],
        logger_adapter=NoopAdapterFactory(),
        show_progress=False,
    )
    seconds = time.perf_counter() - start
    returns = []
    for episode in range(asked["episodes"]):
        obs, _ = env.reset(seed=asked["seed"] * 100_000 + episode)
        total, done = 0.0, False
        while not done:
            obs, rew, terminated, truncated, _ = env.step(algorithm.predict(np.float32(obs)[None])[0])
            total, done = total + float(rew), terminated or truncated
        returns.append(total)
    print(json.dumps({"return_mean": float(np.mean(returns)), "train_s": seconds}))


if __name__ == "__main__":
    main()
