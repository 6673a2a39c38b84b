"""Transitions on their way to a buffer: gathered for some steps, then stored together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from argosy.data.buffer import ReplayBuffer
from argosy.data.tree import fields_of

STEPS = 64
MAX_BYTES = 1 << 16
"""Larger steps (images) go straight to the buffer: copying them twice would cost more than it spares."""


class Staging:
    """Room for some vector steps of all envs. Checking and storing them together costs a third of doing it one by one.

    Args:
        buffer: where they go.
        num_envs: rows of a step; only a buffer with as many sub-buffers is staged.
    """

    def __init__(self, buffer: ReplayBuffer, num_envs: int) -> None:
        self.buffer = buffer
        own_way = type(buffer).add is not ReplayBuffer.add  # a class that adds rows otherwise
        self.usable = not own_way and buffer.buffer_num == num_envs and not buffer.info_keys
        self.steps = min(STEPS, buffer.maxsize // buffer.buffer_num)
        self._columns: dict[str, np.ndarray] = {}
        self._policy: dict[str, np.ndarray] = {}
        self._filled = 0

    def put(self, fields: Mapping[str, object]) -> bool:
        """Take one step of all envs; False (all before is stored then) where it has to go to the buffer itself."""
        if not self._columns:
            self._open(fields)
        if not self.usable:
            return False
        policy = fields.get("policy")
        if not self._write(self._columns, fields) or not self._write(self._policy, fields_of(policy) or {}):
            self.flush()
            return False
        self._filled += 1
        if self._filled == self.steps:
            self.flush()
        return True

    def flush(self) -> None:
        """Store what has been taken.

        Raises:
            DataError: it does not fit the buffer's schema; it is dropped.
        """
        steps, self._filled = self._filled, 0
        if steps:
            fields: dict[str, object] = {name: _rows(column, steps) for name, column in self._columns.items()}
            if self._policy:
                fields["policy"] = {name: _rows(column, steps) for name, column in self._policy.items()}
            self.buffer.add_steps(fields, steps)

    def _open(self, fields: Mapping[str, object]) -> None:
        """Make room as the first step needs it."""
        plain = {name: value for name, value in fields.items() if name != "policy"}
        policy = fields_of(fields.get("policy")) or {}
        arrays = [value for value in (*plain.values(), *policy.values()) if isinstance(value, np.ndarray)]
        if len(arrays) < len(plain) + len(policy) or sum(array.nbytes for array in arrays) > MAX_BYTES:
            self.usable = False
            return
        columns = iter([np.empty((self.steps, *array.shape), array.dtype) for array in arrays])
        self._columns, self._policy = (dict(zip(group, columns, strict=False)) for group in (plain, policy))

    def _write(self, columns: dict[str, np.ndarray], values: Mapping[str, object]) -> bool:
        """Write one step, unless it looks otherwise than the first one."""
        at = self._filled
        for name, column in columns.items():
            value = values.get(name)
            if type(value) is not np.ndarray or value.dtype != column.dtype or value.shape != column.shape[1:]:
                return False
            column[at] = value
        return True


def _rows(column: np.ndarray, steps: int) -> np.ndarray:
    """Return the first steps of [STEPS, B, ...] as rows [steps * B, ...]."""
    return column[:steps].reshape(-1, *column.shape[2:])
