"""Tasks on which algorithms are compared, and which algorithm has presets for which of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from gymnasium import spaces

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.algorithm.task import Space
from argosy.env import task_family
from argosy.errors import ConfigError, nearest
from argosy.experiment import Experiment
from argosy.presets import preset, tuned_families

SUITES: dict[str, dict[str, type[Space]]] = {
    "classic": {"CartPole-v1": spaces.Discrete, "Acrobot-v1": spaces.Discrete, "Pendulum-v1": spaces.Box},
    "minatar": dict.fromkeys(
        (f"MinAtar/{game}-v1" for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")),
        spaces.Discrete,
    ),
    "mujoco5": dict.fromkeys(
        (f"{robot}-v5" for robot in ("HalfCheetah", "Hopper", "Walker2d", "Swimmer", "Ant")), spaces.Box
    ),
    "atari5": dict.fromkeys(
        (f"ALE/{game}-v5" for game in ("BattleZone", "DoubleDunk", "NameThisGame", "Phoenix", "Qbert")),
        spaces.Discrete,
    ),
}
"""Kinds of actions of each suite's tasks. Atari-5: Aitchison et al., 2023, https://arxiv.org/abs/2210.02019."""


def suite(name: str, algorithms: Sequence[str], seeds: Sequence[int]) -> list[Experiment]:
    """Return the runs of one of the `SUITES`: algorithms x tasks x seeds, all of a seed first.

    No algorithms stand for all that learn online and have presets for the suite's tasks.
    """
    if name not in SUITES:
        raise ConfigError(f"unknown suite {name!r}: {nearest(name, SUITES)}")
    tasks = SUITES[name]
    asked = algorithms or [one for one in ALGORITHMS if algorithm_class(one).kind != "offline"]
    pairs = [
        (algorithm, task)
        for algorithm, (task, actions) in product(asked, tasks.items())
        if actions in algorithm_class(algorithm).action_spaces
        and (algorithms or task_family(task) in tuned_families(algorithm))
    ]
    if idle := sorted(set(algorithms) - {algorithm for algorithm, _ in pairs}):
        raise ConfigError(f"{', '.join(idle)} cannot act in any task of the suite {name!r} ({', '.join(tasks)})")
    return [preset(algorithm, task, seed=seed) for seed, (algorithm, task) in product(seeds, pairs)]
