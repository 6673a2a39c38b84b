"""Presets: settings that are known to work, picked by algorithm and family of tasks.

A preset is a dict with the names of the command's flags; what it does not name keeps its default. Values for Atari and
MuJoCo are those with which Tianshou's published results were made; those for classic control were tuned here for
all of five seeds (benchmarks/learning).
"""

from __future__ import annotations

from collections.abc import Mapping

from argosy.algorithm import algorithm_class
from argosy.env import task_family
from argosy.experiment import Experiment

Settings = Mapping[str, object]

# What all algorithms share on a family of tasks.
FAMILIES: dict[str, Settings] = {
    "classic": {"threads": 1},
    "mujoco": {"threads": 1, "trainer.max_epoch": 200, "trainer.step_per_epoch": 5000},
    "atari": {
        "env.num_envs": 10,
        "trainer.max_epoch": 100,
        "trainer.step_per_epoch": 100_000,
        "stop.episodes": 10,
        "device": "auto",
    },
    "other": {},
}

# What algorithms of a kind start from, under the presets below.
OFFPOLICY: Settings = {"trainer.update_per_step": 1.0, "trainer.batch_size": 64, "trainer.start_steps": 1000}
ONPOLICY: Settings = {"trainer.step_per_collect": 2048}

PRESETS: dict[tuple[str, str], Settings] = {
    ("dqn", "classic"): {
        "net.hidden_sizes": (128, 128),
        "lr": 1e-3,
        "n_step": 3,
        "max_grad_norm": 10.0,
        "tau": 0.01,
        "target_update_freq": 1,
        "eps_decay_steps": 10_000,
        "buffer.size": 50_000,
        "trainer.step_per_collect": 8,
        "trainer.update_per_step": 0.25,
        "trainer.batch_size": 128,
        "trainer.step_per_epoch": 5_000,
        "trainer.max_epoch": 20,
    },
    ("dqn", "atari"): {
        "lr": 1e-4,
        "n_step": 3,
        "loss": "mse",
        "eps_end": 0.05,
        "eps_decay_steps": 1_000_000,
        "eps_test": 0.005,
        "target_update_freq": 500,
        "net.scale_uint8": False,
        "buffer.size": 100_000,
        "buffer.stack_num": 4,
        "buffer.ignore_obs_next": True,
        "trainer.step_per_collect": 10,
        "trainer.update_per_step": 0.1,
        "trainer.batch_size": 32,
        "trainer.start_steps": 320,
    },
    ("ppo", "classic"): {
        "trainer.step_per_collect": 2048,
        "trainer.step_per_epoch": 10_240,
        "trainer.max_epoch": 15,
    },
    ("ppo", "mujoco"): {
        "lr": 3e-4,
        "lr_decay": True,
        "repeat_per_collect": 10,
        "batch_size": 64,
        "value_coef": 0.25,
        "normalize_adv": False,
        "recompute_advantage": True,
        "return_scaling": True,
        "net.hidden_sizes": (64, 64),
        "net.activation": "tanh",
        "net.log_std_init": -0.5,
        "env.num_envs": 64,
        "env.norm_obs": True,
        "trainer.step_per_collect": 2048,
        "trainer.step_per_epoch": 30_000,
        "trainer.max_epoch": 100,
    },
    ("ppo", "atari"): {
        "lr": 2.5e-4,
        "lr_decay": True,
        "repeat_per_collect": 4,
        "batch_size": 256,
        "clip_ratio": 0.1,
        "value_clip": True,
        "value_coef": 0.25,
        "entropy_coef": 0.01,
        "net.shared_backbone": True,
        "net.scale_uint8": True,
        "trainer.step_per_collect": 1000,
    },
    ("sac", "classic"): {
        "gamma": 0.98,
        "net.hidden_sizes": (64, 64),
        "env.num_envs": 1,
        "trainer.step_per_collect": 1,
        "trainer.batch_size": 128,
        "trainer.step_per_epoch": 1_000,
        "trainer.max_epoch": 20,
    },
    ("sac", "mujoco"): {
        "actor_lr": 1e-3,
        "critic_lr": 1e-3,
        "alpha": 0.2,
        "auto_alpha": False,
        "net.hidden_sizes": (256, 256),
        "env.num_envs": 1,
        "buffer.size": 1_000_000,
        "trainer.step_per_collect": 1,
        "trainer.batch_size": 256,
        "trainer.start_steps": 10_000,
    },
}

TASKS: dict[str, Settings] = {
    "CartPole-v0": {"stop.test_return": 195.0},
    "CartPole-v1": {"stop.test_return": 490.0},
    "Acrobot-v1": {"stop.test_return": -100.0},
    "MountainCar-v0": {"stop.test_return": -110.0},
    "MountainCarContinuous-v0": {"stop.test_return": 90.0},
    "Pendulum-v1": {"stop.test_return": -180.0},
}
"""Returns that end a run: a little better than what counts as solved (475 for CartPole-v1, -200 for Pendulum-v1), so
that whoever plays a policy again finds it solved, too."""


def preset(algorithm: str, task: str, **changes: object) -> Experiment:
    """Return the experiment that suits `algorithm` on `task`, with `changes` (see `Experiment.replaced`).

    Raises:
        ConfigError: algorithm, task or a changed setting are unknown (the nearest name is offered).
    """
    cls = algorithm_class(algorithm)
    family = task_family(task)
    base = Experiment(task=task, algorithm=algorithm, config=cls.config_type(), net=cls.default_net)
    settings: dict[str, object] = dict(FAMILIES[family])
    settings |= OFFPOLICY if cls.kind == "offpolicy" else ONPOLICY if cls.kind == "onpolicy" else {}
    settings |= PRESETS.get((algorithm, family), {})
    settings |= TASKS.get(task, {})
    return base.replaced(settings).replaced(changes)


def preset_name(algorithm: str, task: str) -> str:
    """Say in words which preset `preset` picks."""
    family = task_family(task)
    tuned = (algorithm, family) in PRESETS
    return f"{algorithm} on {family} tasks" if tuned else f"defaults (no preset for {algorithm} on {family} tasks)"
