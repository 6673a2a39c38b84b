"""Presets: settings that are known to work, picked by algorithm and family of tasks.

They are data: one file per algorithm (`dqn.toml`), with a section per family of tasks, on top of what all share
(`families.toml`, `kinds.toml`), under what a task brings (`tasks.toml`). Settings are named as the command's flags are;
what no file names keeps its default. Values for Atari and MuJoCo are those with which Tianshou's published results were
made; those for classic control were tuned here for all of five seeds (benchmarks/learning). For MinAtar, value-based
algorithms have those of the games' paper (Young and Tian, 2019, https://arxiv.org/abs/1903.03176) with the optimiser of
Obando-Ceron and Castro (2021, https://arxiv.org/abs/2011.14826); for Box2D, those of RL Baselines3 Zoo
for BipedalWalker.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from argosy.algorithm import ALGORITHMS, Algorithm, algorithm_class, algorithm_name
from argosy.env import task_family
from argosy.env.agents.registry import environment_name
from argosy.env.tasks import TaskOf
from argosy.errors import ConfigError, nearest
from argosy.experiment import NO_CODE, Experiment
from argosy.named import check_trusted

MEMORY = "-memory"
"""Sections of this ending stand on their family's where `net.memory` is asked for."""
Settings = Mapping[str, object]
Sections = Mapping[str, Settings]


def preset(algorithm: str | type[Algorithm[Any, Any]], task: TaskOf, **changes: object) -> Experiment:
    """Return the experiment that suits `algorithm` on `task`, with `changes` (see `Experiment.replaced`).

    An algorithm of one's own is given as the class, as "MODULE:CLASS" or by its registered name; its presets are what
    its class has as `presets`, on top of those of the algorithm of argosy that it is a subclass of, if it is of the
    same kind. A task may be the class, or a function, that makes its envs.

    Raises:
        ConfigError: algorithm, task or a changed setting are unknown (the nearest name is offered).
    """
    family, name, task = task_family(task), algorithm_name(algorithm), environment_name(task)
    experiment = _by_family(name, task)[family]
    # how good a policy becomes from data is up to the data
    if algorithm_class(name).kind != "offline" and experiment.replaced(changes).collects:
        experiment = _replaced(experiment, "tasks.toml", task, read_sections("tasks.toml"))
    if experiment.replaced(changes).net.memory is not None:
        experiment = _with_own(experiment, _own_sections(name), f"{family}{MEMORY}")
    return experiment.replaced(changes)


def preset_name(algorithm: str, task: str, memory: str | None = None) -> str:
    """Say in words which preset `preset` picks; `memory` is the `net.memory` that is asked for."""
    family = task_family(task)
    if memory is not None and any(f"{family}{MEMORY}" in own for own in _own_sections(algorithm).values()):
        return f"{algorithm} with memory on {family} tasks"
    if family in tuned_families(algorithm):
        return f"{algorithm} on {family} tasks"
    return f"defaults (no preset for {algorithm} on {family} tasks)"


def tuned_families(algorithm: str) -> list[str]:
    """Return the families of tasks for which an algorithm has settings of its own."""
    sections = dict.fromkeys(section for own in _own_sections(algorithm).values() for section in own)
    return [section for section in sections if not section.endswith(MEMORY)]


@cache
def read_sections(file: str) -> Sections:
    """Return the sections of a file, of this folder if its path is relative.

    Raises:
        ConfigError: it cannot be read.
    """
    return _read(Path(__file__).parent / file)


def own_settings(file: str | Path, *, trust: bool = False) -> dict[str, Any]:
    """Return settings from a file of the user's own: TOML, or a JSON object where its name ends so.

    Args:
        file: settings, named as the command's flags are.
        trust: let it name code to import ("MODULE:CLASS") that nobody has named in this process.

    Raises:
        ConfigError: it cannot be read, or says what is learned where only settings are asked for.
        TrustError: it names such code, and `trust` is not set.
    """
    settings = _read(Path(file))
    if about := settings.keys() & {"algorithm", "task"}:
        raise ConfigError(f"{str(file)!r} holds {' and '.join(sorted(about))}; it can hold settings only")
    check_trusted(settings, repr(str(file)), but=NO_CODE, trust=trust)
    return settings


def _read(file: Path) -> dict[str, Any]:
    kind = "JSON" if file.suffix == ".json" else "TOML"
    try:
        text = file.read_text(encoding="utf-8")
        found = json.loads(text) if kind == "JSON" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{str(file)!r} is not a readable {kind} file ({error})") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{str(file)!r} holds {type(found).__name__}; settings are an object")
    return found


def _own_sections(algorithm: str) -> dict[str, Sections]:
    """Return an algorithm's presets by where they stand, with a section per family of tasks; the last ones win.

    Raises:
        ConfigError: there is no such family.
    """
    cls = algorithm_class(algorithm)
    if algorithm in ALGORITHMS:
        found = {f"{algorithm}.toml": read_sections(f"{algorithm}.toml")}
    else:
        bases = [(base.__name__, base.__module__) for base in cls.__mro__]
        parent = next((name for base in bases for name, defined in ALGORITHMS.items() if defined == base), None)
        found, of = {}, cls if parent is None else algorithm_class(parent)
        if parent is not None and of.kind == cls.kind and issubclass(cls.config_type, of.config_type):
            found = _own_sections(parent)
        if isinstance(cls.presets, Path):
            found[str(cls.presets)] = read_sections(str(cls.presets.absolute()))
        else:
            found[f"{cls.__name__}.presets"] = cls.presets
    families = read_sections("families.toml")
    for file, sections in found.items():
        for section in sections:
            if section.removesuffix(MEMORY) not in families:
                raise ConfigError(f"unknown section [{section}] of {file}: {nearest(section, families)}")
    return found


def _by_family(algorithm: str, task: str) -> dict[str, Experiment]:
    """Return the preset for every family; all of them, so that a slip anywhere in a file is refused."""
    cls, own = algorithm_class(algorithm), _own_sections(algorithm)
    plain = Experiment(task=task, algorithm=algorithm, config=cls.config_type(), net=cls.default_net)
    found = {}
    for family in read_sections("families.toml"):
        experiment = _replaced(plain, "families.toml", family, read_sections("families.toml"))
        experiment = _replaced(experiment, "kinds.toml", cls.kind, read_sections("kinds.toml"))
        found[family] = _with_own(experiment, own, family)
        _with_own(found[family], own, f"{family}{MEMORY}")
    return found


def _with_own(experiment: Experiment, own: Mapping[str, Sections], section: str) -> Experiment:
    for file, sections in own.items():
        experiment = _replaced(experiment, file, section, sections)
    return experiment


def _replaced(experiment: Experiment, file: str, section: str, sections: Sections) -> Experiment:
    """Return a copy with the settings of one section of a file.

    Raises:
        ConfigError: a setting is unknown (the nearest one is offered) or has a wrong value; names file and section.
    """
    try:
        return experiment.replaced(sections.get(section, {}))
    except ConfigError as error:
        raise ConfigError(f"[{section}] of {file}: {error}") from None
