"""A data set as what a run learns from: checked against the task, its actions in the policy's scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from argosy.data import ReplayBuffer, tree
from argosy.data.datasets import read_attributes
from argosy.env import VectorEnv
from argosy.env.spaces import Space, leaves, normal_form
from argosy.errors import ConfigError, DataError
from argosy.policy import Policy

Form = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Shape and dtype of every array of an observation or action, by its dotted name ("" where there is one alone)."""


def load_data(path: str, policy: Policy, env: VectorEnv, seed: int | None = None) -> ReplayBuffer:
    """Return the transitions of an HDF5 file for `policy` to learn from.

    Args:
        path: a file that `argosy collect` or `ReplayBuffer.save_hdf5` wrote. If its attribute `action_scale` is "env",
            actions are mapped to the policy's scale; otherwise they are in that scale already, as in every buffer.
        policy: says what its scale is.
        env: of the task; observations and actions must be such as its spaces have.
        seed: of the sampler.

    Raises:
        ConfigError: there is no such file.
        DataError: it is damaged, or does not fit the task.
    """
    if not Path(path).is_file():
        raise ConfigError(f"data is {path!r}, but there is no such file; `argosy collect` writes one")
    buffer = ReplayBuffer.load_hdf5(path)
    buffer.seed(seed)
    stored = buffer.sample_indices(0)
    if len(stored) == 0:
        raise DataError(f"data is {path!r}, which holds no transitions")
    row = buffer[stored[:1]]
    for name, space in (("obs", env.single_observation_space), ("act", env.single_action_space)):
        found: Form = {at: (np.shape(leaf)[1:], np.asarray(leaf).dtype) for at, leaf in tree.leaves(row[name])}
        wanted: Form = {at: (shape, dtype) for at, shape, dtype in leaves(normal_form(space))}
        if not _fits(found, wanted):
            raise DataError(
                f"data is {path!r}, where {name} has {_said(found)}; the task's {name} has {_said(wanted)} ({space})"
            )
    act = buffer.act
    if read_attributes(path).get("action_scale") == "env":
        act[...] = policy.map_action_inverse(act)
    _check_choices(path, act[stored], env.single_action_space)
    return buffer


def _fits(found: Form, wanted: Form) -> bool:
    """Whether names, shapes and kinds of numbers are the same (float32 for float64 is no matter)."""
    kinds = [{name: (shape, dtype.kind) for name, (shape, dtype) in form.items()} for form in (found, wanted)]
    return kinds[0] == kinds[1]


def _said(form: Form) -> str:
    return ", ".join(f"{name} {shape} {dtype}".strip() for name, (shape, dtype) in form.items())


def _check_choices(path: str, act: np.ndarray, space: Space) -> None:
    """Check that discrete actions, in the policy's scale, are among those that there are."""
    if isinstance(space, gym.spaces.Discrete):
        counts = np.asarray(space.n)
    elif isinstance(space, gym.spaces.MultiDiscrete):
        counts = np.asarray(space.nvec)
    else:
        return
    if (act < 0).any() or (act >= counts).any():
        low, high = act.min(axis=0), act.max(axis=0)
        raise DataError(f"data is {path!r}, with actions {low} .. {high} (counted from 0); the task has {space}")
