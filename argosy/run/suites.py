"""Tasks on which algorithms are compared, and which algorithm has presets for which of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.errors import ConfigError, nearest

if TYPE_CHECKING:
    from argosy.experiment import Experiment

SUITES: dict[str, dict[str, str]] = {
    "classic": {"CartPole-v1": "Discrete", "Acrobot-v1": "Discrete", "Pendulum-v1": "Box"},
    "minatar": dict.fromkeys(
        (f"MinAtar/{game}-v1" for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")), "Discrete"
    ),
    "mujoco5": dict.fromkeys(
        (f"{robot}-v5" for robot in ("HalfCheetah", "Hopper", "Walker2d", "Swimmer", "Ant")), "Box"
    ),
    "atari5": dict.fromkeys(
        (f"ALE/{game}-v5" for game in ("BattleZone", "DoubleDunk", "NameThisGame", "Phoenix", "Qbert")),
        "Discrete",
    ),
}
"""Kinds of actions of each suite's tasks. Atari-5: Aitchison et al., 2023, https://arxiv.org/abs/2210.02019."""


def suite(name: str, algorithms: Sequence[str], seeds: Sequence[int]) -> list[Experiment]:
    """Return the runs of one of the `SUITES`: algorithms x tasks x seeds, all of a seed first.

    No algorithms stand for all that learn online and have presets for the suite's tasks.
    """
    from argosy.env import task_family  # here: the suites' names need none of it
    from argosy.presets import preset, tuned_families

    if name not in SUITES:
        raise ConfigError(f"unknown suite {name!r}: {nearest(name, SUITES)}")
    tasks = SUITES[name]
    asked = algorithms or [one for one in ALGORITHMS if algorithm_class(one).kind != "offline"]
    pairs = [
        (algorithm, task)
        for algorithm, (task, actions) in product(asked, tasks.items())
        if actions in [space.__name__ for space in algorithm_class(algorithm).action_spaces]
        and (algorithms or task_family(task) in tuned_families(algorithm))
    ]
    if idle := sorted(set(algorithms) - {algorithm for algorithm, _ in pairs}):
        raise ConfigError(f"{', '.join(idle)} cannot act in any task of the suite {name!r} ({', '.join(tasks)})")
    return [preset(algorithm, task, seed=seed) for seed, (algorithm, task) in product(seeds, pairs)]
