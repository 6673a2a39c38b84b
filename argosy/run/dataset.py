"""A data set as what a run learns from: checked against the task, its actions in the policy's scale."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from argosy.data import Batch, ReplayBuffer, tree
from argosy.data.datasets import Source, open_source
from argosy.data.datasets.card import ODD_SCALE, TOLERANCE
from argosy.data.datasets.source import is_same_kind
from argosy.env import VectorEnv
from argosy.env.spaces import Space, leaves, normal_form, parts_of
from argosy.env.tasks import atari_game
from argosy.env.vector.border import choice_limits
from argosy.errors import ConfigError, DataError
from argosy.logger import ProgressBar
from argosy.policy import Policy

Form = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Shape and dtype of every array of an observation or action, by its dotted name ("" where there is one alone)."""
Limit = tuple[tuple[str, ...], np.ndarray, np.ndarray]
"""Keys of a part that is a choice, its least value and how many there are."""
_LOOKED_AT = 10_000
"""Rows whose observations are held against the bounds of their space."""
_FAR = 0.05
"""Of a space's width: how far outside of it is odd."""


def load_data(
    path: str, task: str, policy: Policy, env: VectorEnv, seed: int | None = None, show_progress: bool = False
) -> ReplayBuffer:
    """Return the transitions of a data set, a file of any kind that `open_source` knows, for `policy` to learn `task`.

    If its attribute `action_scale` is "env", actions are mapped to the policy's scale; otherwise they are in that scale
    already, as in every buffer. Observations and actions must be such as the spaces of the task's `env` have.

    Raises:
        ConfigError: there is no such file.
        DataError: it is damaged, holds numbers that are none, or does not fit the task.
    """
    if not Path(path).exists():
        raise ConfigError(f"data is {path!r}, but there is no such file; `argosy collect` writes one")
    space = env.single_action_space
    bar = ProgressBar(show_progress, unit="row")
    with open_source(path) as source, contextlib.closing(bar):
        bar.open(source.rows, 0)
        made = fitted(source, env.single_observation_space, space)
        is_stored_so = not isinstance(space, gym.spaces.Box) or space.dtype == np.float32
        is_mapped_later = made.whole is not None and is_stored_so
        if made.attributes.get("action_scale") == "env" and not is_mapped_later:
            made = _in_policy_scale(fitted(source, env.single_observation_space, space, bounds="check"), policy)
        buffer = made.load(bar.move)
    buffer.seed(seed)
    act, stored = buffer.act, buffer.sample_indices(0)
    if made.attributes.get("action_scale") == "env":
        check_bounds(path, act[stored], space)
        act[...] = policy.map_action_inverse(act)
    elif policy.action_scaling and not source.attributes.keys() & {"task", "action_scale"}:  # else the file knows it
        reach = float(np.abs(act[stored]).max(initial=0.0))
        if reach > 1 + TOLERANCE:
            warnings.warn(f"data is {path!r}, where {ODD_SCALE.format(name='act', reach=reach)}", stacklevel=2)
    check_choices(path, "act, counted from 0,", act[stored], _from_0(space))
    seen = tree.index(buffer.obs, stored[:_LOOKED_AT])
    for odd in filter(None, [of_another_task(source, task), of_other_bounds(seen, env.single_observation_space)]):
        warnings.warn(f"data is {path!r}; {odd}", stacklevel=2)
    return buffer


def of_another_task(source: Source, task: str) -> str | None:
    """Return a sentence where a file says that its data are of another env than a task, in any module or version."""
    theirs = str(source.attributes.get("task", task))
    same = len({atari_game(name) or re.sub(r"^.*:|-v\d+$", "", name) for name in (theirs, task)}) == 1
    return None if same else f"it says that it is of {theirs!r}, and the task is {task!r}: spaces alone can be compared"


def of_other_bounds(obs: Any, space: Space, name: str = "obs") -> str | None:
    """Return a sentence where numbers of observations [n, ...] lie outside of the bounds of their space."""
    if (parts := parts_of(space)) is not None:
        said = (of_other_bounds(obs[str(key)], part, f"{name}.{key}") for key, part in parts.items())
        return next(filter(None, said), None)
    if not isinstance(space, gym.spaces.Box) or obs.dtype.kind != "f" or obs.shape[1:] != space.shape or not len(obs):
        return None
    low, high = obs.min(axis=0), obs.max(axis=0)
    with np.errstate(invalid="ignore"):  # inf - inf
        slack = np.nan_to_num(_FAR * (space.high - space.low).astype(np.float64), posinf=0.0)
    outside = (low < space.low - slack) | (high > space.high + slack)
    if not outside.any():
        return None
    at = np.unravel_index(outside.argmax(), outside.shape)
    return (
        f"{name}{list(map(int, at)) or ''} goes from {low[at]:.3g} to {high[at]:.3g}, and the task's from "
        f"{space.low[at]:.3g} to {space.high[at]:.3g}: it is in other units, or was normalised beforehand, which "
        "net.norm_obs does as a part of the policy"
    )


def fitted(
    source: Source, observation_space: Space, action_space: Space, *, bounds: Literal["check", "clip"] | None = None
) -> Source:
    """Return a data set as a task with these spaces would have made it: its numbers have the types of the spaces.

    `bounds` says what becomes of actions that are out of bounds: an error as they are read, or those in the env's scale
    are cut to the bounds; None: they are not looked at.

    Raises:
        DataError: it is empty; observations or actions have other names, shapes or kinds of numbers than the spaces
            (says both), or are none of their choices; actions are to be cut that are not in the env's scale.
    """
    row = next(source.parts(finite=False), None)
    if row is None:
        raise DataError(f"data is {source.path!r}, which holds no transitions")
    is_env_scale = source.attributes.get("action_scale") == "env"
    if bounds == "clip" and not is_env_scale:
        raise DataError(
            f"data is {source.path!r}, whose actions are in the policy's scale, where the task has no bounds to cut "
            "them to; leave --clip out"
        )
    stack = source.options.get("stack_num", 1)
    forms: dict[str, Form] = {}
    limits = {name: list(choice_limits(observation_space)) for name in ("obs", "obs_next")}
    if bounds is not None:
        limits["act"] = list(choice_limits(action_space)) if is_env_scale else _from_0(action_space)
    is_bounded = bounds is not None and is_env_scale
    differs = is_bounded or any(limits.values())
    for name, space in (("obs", observation_space), ("obs_next", observation_space), ("act", action_space)):
        before = (stack,) if name != "act" and stack > 1 else ()
        found: Form = {at: (before + np.shape(leaf)[1:], np.asarray(leaf).dtype) for at, leaf in tree.leaves(row[name])}
        wanted: Form = {at: (shape, dtype) for at, shape, dtype in leaves(normal_form(space))}
        if name == "act" and isinstance(space, gym.spaces.Box) and not is_env_scale:
            wanted = {at: (shape, np.dtype(np.float32)) for at, (shape, _) in wanted.items()}
        if not _fits(found, wanted):
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
            for name, form in forms.items():
                part[name] = _cast(part[name], form, name)
                check_choices(source.path, name, part[name], limits.get(name, ()), done)
            if is_bounded and bounds == "clip" and isinstance(action_space, gym.spaces.Box):
                part.act = part.act.clip(action_space.low, action_space.high)
            elif is_bounded:
                check_bounds(source.path, part.act, action_space, done)
            done += len(part.rew)
            yield part

    return dataclasses.replace(source, read=read, whole=None)


def _in_policy_scale(source: Source, policy: Policy) -> Source:
    """Return a data set whose actions are in the policy's scale: in a Box always float32, whatever the task's are."""

    def read(size: int) -> Iterator[Batch]:
        for part in source.read(size):
            part.act = policy.map_action_inverse(part.act)
            yield part

    return dataclasses.replace(source, read=read, whole=None, attributes={})


def _cast(value: Any, form: Form, name: str, at: str = "") -> Any:
    """Return a tree with the dtypes of a form; a row of one number is that number where the form has no axes."""
    fields = tree.fields_of(value)
    if fields is not None:
        return {key: _cast(child, form, name, f"{at}.{key}" if at else key) for key, child in fields.items()}
    shape, dtype = form[at]
    if not shape and value.ndim == 2:
        value = value[:, 0]
    if dtype.kind in "iu" and not np.can_cast(value.dtype, dtype) and value.size:
        known, low, high = np.iinfo(dtype), value.min(), value.max()
        if low < known.min or high > known.max:
            where = f"{name}.{at}" if at else name
            raise DataError(f"{where} holds integers from {low} to {high}, where the task's are {dtype}")
    return value.astype(dtype, copy=False)


def check_bounds(path: str, act: np.ndarray, space: Space, first_row: int = 0) -> None:
    """Check that actions in the env's scale lie within the bounds of a Box."""
    if not isinstance(space, gym.spaces.Box):
        return
    with np.errstate(invalid="ignore"):  # inf - inf
        slack = np.nan_to_num(TOLERANCE * (space.high - space.low).astype(np.float64), posinf=0.0)
    outside = ((act < space.low - slack) | (act > space.high + slack)).reshape(len(act), -1).any(axis=1)
    if outside.any():
        row = int(outside.argmax())
        raise DataError(
            f"data is {path!r}, where the action in row {first_row + row} is out of bounds: {act[row]}; the task has "
            f"{space}. To cut all to the bounds: argosy data convert SRC DST --task TASK --clip"
        )


def _fits(found: Form, wanted: Form) -> bool:
    """Say whether numbers have the names, shapes and kinds of a form.

    Float32 for float64 is no matter, nor are sizes of integers, and a row of one number may stand for the number.
    """
    return found.keys() == wanted.keys() and all(
        (shape == wanted[at][0] or (shape == (1,) and wanted[at][0] == ())) and is_same_kind(dtype, wanted[at][1])
        for at, (shape, dtype) in found.items()
    )


def _said(form: Form) -> str:
    return ", ".join(f"{name} {shape} {dtype}".strip() for name, (shape, dtype) in form.items())


def check_choices(path: str, name: str, value: Any, limits: Iterable[Limit], first_row: int = 0) -> None:
    """Check that choices in a tree of arrays [n, ...] are within the limits that `choice_limits` has returned.

    Path, name of the field and number of the first of the n rows are for the error.
    """
    for keys, low, count in limits:
        found, beyond = functools.reduce(operator.getitem, keys, value), low + count.astype(np.int64)
        outside = ((found < low) | (found >= beyond)).reshape(len(found), -1).any(axis=1)
        if outside.any():
            row = int(outside.argmax())
            where = ".".join((name, *keys))
            raise DataError(
                f"data is {path!r}, where {where} is {found[row]} in row {first_row + row}; the task has "
                f"{low} .. {beyond - 1}"
            )


def _from_0(action_space: Space) -> list[Limit]:
    """Return the limits of actions in the policy's scale, where choices are counted from 0."""
    return [(keys, np.zeros_like(low), count) for keys, low, count in choice_limits(action_space)]
