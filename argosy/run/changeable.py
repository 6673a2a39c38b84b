"""Which settings a training under way can change: those that neither shape what it learns nor are part of its state."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from argosy.algorithm import Algorithm
from argosy.env import make_vector_env
from argosy.errors import CheckpointError, ConfigError
from argosy.experiment import Experiment
from argosy.presets.search import Range
from argosy.trainer.parts import make_algorithm

_OF_TRAINER = ("trainer.batch_size", "trainer.update_per_step")


def check_changeable(experiment: Experiment, space: Mapping[str, Range]) -> None:
    """Check that a run of an experiment can go on with any settings of a space, and goes on by them.

    The algorithm is made with the experiment's settings, and with each end of a range, or choice, in their place; these
    must be able to take over the state of the first, and still differ from it in all that they differed in before.

    Raises:
        ConfigError: a run could not go on so, or would as if nothing had changed; names the setting.
    """
    env = make_vector_env(experiment.task, 1, config=dataclasses.replace(experiment.env, vector="dummy"))
    spaces = env.single_observation_space, env.single_action_space
    env.close()

    def made(settings: Mapping[str, object]) -> Algorithm[Any, Any]:
        return make_algorithm(experiment.replaced(settings), *spaces, experiment.seed)

    own = made({}).state_dict()
    for name, where in space.items():
        full = experiment.full_name(name)
        if full in _OF_TRAINER:
            continue
        if not full.startswith("config.") or full.endswith("lr_schedule"):
            raise ConfigError(f"{name} cannot change while a run goes on; leave it out of the space")
        for value in where.choices or (where.low, where.high):
            other = made({name: value})
            before = dict(_leaves(other.state_dict()))
            try:
                other.load_state_dict(own)
            except CheckpointError as error:
                raise ConfigError(
                    f"{name} cannot change while a run goes on: with {value!r}, {error}; leave it out of the space"
                ) from error
            other.schedule(0, experiment.trainer.length)
            after = dict(_leaves(other.state_dict()))
            changed = [key for key, leaf in _leaves(own) if not _equal(leaf, before[key])]
            if changed and all(_equal(after[key], leaf) for key, leaf in _leaves(own) if key in changed):
                raise ConfigError(
                    f"{name} says how a training begins, not how it goes on: {value!r} would change nothing; leave it "
                    "out of the space"
                )


def _leaves(state: object, at: str = "") -> Iterator[tuple[str, object]]:
    parts = state if isinstance(state, Mapping) else dict(enumerate(state)) if isinstance(state, list | tuple) else None
    if parts is None:
        yield at, state
    for key, part in (parts or {}).items():
        yield from _leaves(part, f"{at}.{key}")


def _equal(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    return bool(one == other)
