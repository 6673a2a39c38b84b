"""A data set as what a run learns from: checked against the task, its actions in the policy's scale."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from argosy.data import Batch, ReplayBuffer, tree
from argosy.data.datasets import Source, open_source
from argosy.env import VectorEnv
from argosy.env.spaces import Space, leaves, normal_form
from argosy.errors import ConfigError, DataError
from argosy.logger import ProgressBar
from argosy.policy import Policy

Form = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Shape and dtype of every array of an observation or action, by its dotted name ("" where there is one alone)."""


TOLERANCE = 1e-3
"""By which share of its range an action may lie out of bounds: files round."""


def load_data(
    path: str, policy: Policy, env: VectorEnv, seed: int | None = None, show_progress: bool = False
) -> ReplayBuffer:
    """Return the transitions of a data set for `policy` to learn from.

    Args:
        path: a file of any kind that `open_source` knows. If its attribute `action_scale` is "env", actions are mapped
            to the policy's scale; otherwise they are in that scale already, as in every buffer.
        policy: says what its scale is.
        env: of the task; observations and actions must be such as its spaces have.
        seed: of the sampler.
        show_progress: a progress bar while it is read, on standard error.

    Raises:
        ConfigError: there is no such file.
        DataError: it is damaged, holds numbers that are none, or does not fit the task.
    """
    if not Path(path).exists():
        raise ConfigError(f"data is {path!r}, but there is no such file; `argosy collect` writes one")
    bar = ProgressBar(show_progress, unit="row")
    with open_source(path) as source, contextlib.closing(bar):
        if source.rows == 0:
            raise DataError(f"data is {path!r}, which holds no transitions")
        bar.open(source.rows, 0)
        buffer = fitted(source, env.single_observation_space, env.single_action_space).load(bar.move)
    buffer.seed(seed)
    act, stored = buffer.act, buffer.sample_indices(0)
    if source.attributes.get("action_scale") == "env":
        check_bounds(path, act[stored], env.single_action_space)
        act[...] = policy.map_action_inverse(act)
    _check_choices(path, act[stored], env.single_action_space)
    return buffer


def fitted(
    source: Source, observation_space: Space, action_space: Space, *, bounds: Literal["check", "clip"] | None = None
) -> Source:
    """Return a data set as a task would have made it: its numbers have the types of the spaces.

    Args:
        source: the data set.
        observation_space: of the task.
        action_space: of the task.
        bounds: what becomes of actions in the env's scale that are out of bounds: an error as they are read, or they
            are cut to the bounds; None: they are not looked at.

    Raises:
        DataError: observations or actions have other names, shapes or kinds of numbers than the spaces; says both.
    """
    row = next(source.parts(finite=False))
    stack = source.options.get("stack_num", 1)
    forms: dict[str, Form] = {}
    is_bounded = bounds is not None and source.attributes.get("action_scale") == "env"
    differs = is_bounded
    for name, space in (("obs", observation_space), ("act", action_space)):
        before = (stack,) if name == "obs" and stack > 1 else ()
        found: Form = {at: (before + np.shape(leaf)[1:], np.asarray(leaf).dtype) for at, leaf in tree.leaves(row[name])}
        wanted: Form = {at: (shape, dtype) for at, shape, dtype in leaves(normal_form(space))}
        if _kinds(found) != _kinds(wanted):
            raise DataError(
                f"data is {source.path!r}, where {name} has {_said(found)}; the task's {name} has {_said(wanted)} "
                f"({space})"
            )
        forms[name] = wanted
        differs = differs or found != wanted
    if not differs:
        return source

    def read(size: int) -> Iterator[Batch]:
        done = 0
        for part in source.read(size):
            for name in ("obs", "act", "obs_next"):
                part[name] = _cast(part[name], forms["act" if name == "act" else "obs"])
            if is_bounded and bounds == "clip" and isinstance(action_space, gym.spaces.Box):
                part.act = part.act.clip(action_space.low, action_space.high)
            elif is_bounded:
                check_bounds(source.path, part.act, action_space, done)
            done += len(part.rew)
            yield part

    return dataclasses.replace(source, read=read, whole=None)


def _cast(value: Any, form: Form, at: str = "") -> Any:
    """Return a tree with the dtypes of a form."""
    fields = tree.fields_of(value)
    if fields is None:
        return value.astype(form[at][1], copy=False)
    return {key: _cast(child, form, f"{at}.{key}" if at else key) for key, child in fields.items()}


def check_bounds(path: str, act: np.ndarray, space: Space, first_row: int = 0) -> None:
    """Check that actions in the env's scale lie within the bounds of a Box.

    Raises:
        DataError: they do not; says how many, and what to do.
    """
    if not isinstance(space, gym.spaces.Box):
        return
    with np.errstate(invalid="ignore"):  # inf - inf
        slack = np.nan_to_num(TOLERANCE * (space.high - space.low).astype(np.float64), posinf=0.0)
    outside = ((act < space.low - slack) | (act > space.high + slack)).reshape(len(act), -1).any(axis=1)
    if outside.any():
        row = int(outside.argmax())
        raise DataError(
            f"data is {path!r}, where {int(outside.sum()):,} of {len(act):,} actions are out of bounds, the first in "
            f"row {first_row + row}: {act[row]}; the task has {space}. To cut them to the bounds: "
            "argosy data convert SRC DST --task TASK --clip"
        )


def _kinds(form: Form) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return names, shapes and kinds of numbers (float32 for float64 is no matter)."""
    return {name: (shape, dtype.kind) for name, (shape, dtype) in form.items()}


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
