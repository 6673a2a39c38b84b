"""From stacked actions to one action per env."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from argosy.env.spaces import Space
from argosy.env.worker.base import Actions
from argosy.errors import EnvError


def action_rows(action: object, n: int, space: Space) -> Actions:
    """Return actions in a form whose i-th element is env i's action.

    Args:
        action: array or list [n, ...], or stacked parts (dict, tuple) for Dict and Tuple action spaces.
        n: how many envs.
        space: one env's action space.

    Raises:
        EnvError: not `n` actions.
    """
    rows: Actions
    if isinstance(action, np.ndarray):
        rows = action
    elif hasattr(action, "keys") or (isinstance(space, spaces.Tuple) and isinstance(action, tuple)):
        rows = [_action_at(action, i, space) for i in range(n)]
    elif isinstance(action, list | tuple):
        rows = action
    else:
        rows = np.asarray(action)
    count = 1 if isinstance(rows, np.ndarray) and rows.ndim == 0 else len(rows)
    if count != n or (isinstance(rows, np.ndarray) and rows.ndim == 0):
        raise EnvError(f"step: {count} action(s) for {n} env(s); give one row per env")
    return rows


def _action_at(action: Any, row: int, space: Space) -> object:
    """Cut one env's action out of stacked parts."""
    if isinstance(space, spaces.Dict):
        return {key: _action_at(action[key], row, part) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        numbered = action if isinstance(action, tuple | list) else [action[str(i)] for i in range(len(space.spaces))]
        return tuple(_action_at(numbered[i], row, part) for i, part in enumerate(space.spaces))
    return action[row]


def select_rows(actions: Actions, rows: list[int]) -> Actions:
    """Return the actions of some rows."""
    return actions[rows] if isinstance(actions, np.ndarray) else [actions[row] for row in rows]
