"""argosy's side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import argosy
from argosy.process import tune_process
from argosy.run.build import build


def dqn(env: str, seed: int, **s: Any) -> tuple[Callable[[int], None], Callable[[Any], Any]]:
    changes = {
        "n_step": s["n_step"],
        "tau": 1.0,
        "target_update_freq": s["target_every"],
        "max_grad_norm": None,
        "double": False,  # SB3 has no other
        "exploration.eps_decay_steps": s["eps_steps"],
        "trainer.step_per_collect": s["envs"],
        "trainer.update_per_step": 2 / s["envs"],
    }
    return _replaying("dqn", env, seed, s, changes | {"lr": s["lr"], "env.num_envs": s["envs"]})


def sac(env: str, seed: int, **s: Any) -> tuple[Callable[[int], None], Callable[[Any], Any]]:
    temperature = {"alpha": 1.0, "alpha_optim.lr": s["lr"]}  # where the others begin, and how they go on
    return _replaying("sac", env, seed, s, _rates(s) | temperature)


def td3(env: str, seed: int, **s: Any) -> tuple[Callable[[int], None], Callable[[Any], Any]]:
    return _replaying("td3", env, seed, s, _rates(s) | {"noise_std": s["noise"]})


def ppo(env: str, seed: int, **s: Any) -> tuple[Callable[[int], None], Callable[[Any], Any]]:
    changes = {
        "lr": s["lr"],
        "repeat_per_collect": s["epochs"],
        "batch_size": s["batch"],
        "env.num_envs": s["envs"],
        "trainer.step_per_collect": s["rollout"] * s["envs"],
    }
    return _learner("ppo", env, seed, s, changes)


def _rates(s: dict[str, Any]) -> dict[str, Any]:
    return {"actor_optim.lr": s["lr"], "critic_optim.lr": s["lr"], "tau": s["tau"]}


def _replaying(name: str, env: str, seed: int, s: dict[str, Any], changes: dict[str, Any]) -> Any:
    sizes = {"trainer.batch_size": s["batch"], "trainer.start_steps": s["start"], "buffer.size": s["buffer"]}
    return _learner(name, env, seed, s, sizes | changes)


def _learner(name: str, env: str, seed: int, s: dict[str, Any], changes: dict[str, Any]) -> Any:
    tune_process()
    shared = {"gamma": s["gamma"], "net.hidden_sizes": s["hidden"], "trainer.max_epoch": 10**6}
    experiment = argosy.preset(name, env, seed=seed, **shared, **changes)
    trainer = build(experiment)
    trainer.test_collector = None

    def train(steps: int) -> None:
        trainer.step_per_epoch = steps
        next(trainer)

    return train, lambda obs: trainer.algorithm.policy.predict(obs, deterministic=True)[0]
