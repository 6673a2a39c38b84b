"""Reading a buffer without drawing from it: indices in time, single transitions, whole rollouts, raw columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from argosy.data.batch import Batch
from argosy.data.buffer.field import Tree, unflatten
from argosy.data.buffer.rings import IntArray, Rings
from argosy.data.buffer.store import Transitions
from argosy.errors import DataError, nearest


class NoColumnError(DataError, AttributeError):
    """A column that is not there (yet); also an AttributeError, so that `hasattr(buffer, "obs")` says no."""


def as_batch(fields: dict[str, Any]) -> Batch:
    """Return a Batch over nested dicts of arrays without parsing the arrays."""
    batch: Batch = object.__new__(Batch)
    known = vars(batch)
    for key, value in fields.items():
        known[key] = as_batch(value) if type(value) is dict else value
    return batch


def _wrap(tree: Tree) -> Any:
    """Return a field as users get it: an array or a Batch."""
    return as_batch(tree) if isinstance(tree, dict) else tree


class BufferReader:
    """The half of `ReplayBuffer` that only looks at what is stored."""

    _rings: Rings
    _data: Transitions
    maxsize: int
    """Number of slots."""
    buffer_num: int
    """Number of sub-buffers."""
    stack_num: int

    def __len__(self) -> int:
        return self._rings.total

    def __repr__(self) -> str:
        rings = "" if self.buffer_num == 1 else f", {self.buffer_num} sub-buffers"
        return f"{type(self).__name__}({len(self)} of {self.maxsize} transitions{rings})"

    @property
    def last_index(self) -> IntArray:
        """Newest slot of each sub-buffer."""
        return self._rings.last.copy()

    def prev(self, index: npt.ArrayLike) -> IntArray:
        """Return the slots one step earlier in the same episode; an episode's first row returns itself."""
        return self._rings.prev(np.asarray(index, np.int64))

    def next(self, index: npt.ArrayLike) -> IntArray:
        """Return the slots one step later in the same episode; an episode's last row returns itself."""
        return self._rings.next(np.asarray(index, np.int64))

    def unfinished_index(self) -> IntArray:
        """Return the newest slots of the sub-buffers whose episode goes on."""
        return self._rings.last[~self._rings.closed]

    def episode_slots(self, last: int, length: int) -> IntArray:
        """Return the slots [<= length] of an episode of `length` rows up to its row `last`, in order of time.

        Rows that were overwritten since, or never stored, are left out.
        """
        slot = self._rings.back(np.array(last), min(length, self.maxsize) - 1)
        return np.asarray(slot[np.append(slot[1:] != slot[:-1], True)])  # where rows are missing the first one repeats

    def get(self, index: Any, key: str, default_value: Any = None, stack_num: int | None = None) -> Any:
        """Return one field at `index`, with `stack_num` frames (default: the buffer's).

        Raises:
            DataError: there is no such field and no default.
        """
        stack_num = self.stack_num if stack_num is None else stack_num
        slot = self._slots(index)
        fields = self._data.fields
        if key == "done" and fields:
            return self.done[slot]
        if key not in fields:
            if default_value is not None:
                return default_value
            raise DataError(f"the buffer stores no field {key!r}; {nearest(key, [*fields, 'done'])}")
        if key == "obs_next":
            return _wrap(self._data.obs_next(slot, stack_num))
        return _wrap(self._data.stacked(key, slot, stack_num))

    def _slots(self, index: Any) -> IntArray:
        """Return slot numbers for an int, slice, list, mask or array."""
        if isinstance(index, slice):
            stored = self._rings.all_stored()
            return stored if index == slice(None) else np.sort(stored)[index]
        slot = np.asarray(index)
        if slot.dtype == np.bool_:
            return np.flatnonzero(slot)
        if slot.size and (slot.min() < -self.maxsize or slot.max() >= self.maxsize):
            raise IndexError(f"index reaches from {slot.min()} to {slot.max()}; the buffer has {self.maxsize} slots")
        return np.asarray(slot.astype(np.int64) % self.maxsize)

    def __getitem__(self, index: Any) -> Batch:
        """Return the single transitions at `index` (slots; `[:]` is all that is stored, oldest first).

        Raises:
            DataError: nothing was ever stored.
        """
        data, fields = self._data, self._data.fields
        if not fields:
            raise DataError("the buffer is empty: there is nothing to index")
        slot = self._slots(index)
        terminated, truncated = fields["terminated"].leaves[()].take(slot), fields["truncated"].leaves[()].take(slot)
        obs = data.stacked("obs", slot, self.stack_num)
        return as_batch(
            {
                "obs": obs,
                "act": fields["act"].take(slot),
                "rew": fields["rew"].take(slot),
                "terminated": terminated,
                "truncated": truncated,
                "done": terminated | truncated,
                "obs_next": data.obs_next(slot, self.stack_num, obs),
                "info": fields["info"].take(slot),
                "policy": fields["policy"].take(slot),
            }
        )

    def rollout(self) -> Batch:
        """Return everything that is stored in order of time, for on-policy learning.

        Returns:
            Fields [T, B, ...], B the sub-buffers, when all hold equally many rows; else the sub-buffers one after
            the other as [sum, 1, ...]. Beside those of `__getitem__`: `indices` [T, B] and `cut` [T, B], True
            where the next row is not this row's successor (done, end of a segment, last row stored).

        Raises:
            DataError: the buffer is empty.
        """
        rings = self._rings
        if rings.total == 0:
            raise DataError("rollout() of an empty buffer; collect first")
        if (rings.count == rings.count[0]).all():
            index = np.stack([rings.stored(ring) for ring in range(rings.num)], axis=1)
        else:
            index = rings.all_stored()[:, None]
        batch = self[index]
        like = self._data.fields["rew"].leaves[()].like
        batch.cut, batch.indices = like(rings.stop[index]), like(index)
        return batch

    # ---- raw columns, all slots ----------------------------------------------------------------------------------

    def _column(self, name: str) -> Any:
        """Return the storage of one field."""
        if name not in self._data.fields:
            raise NoColumnError(f"the buffer has no column {name!r} yet: nothing was stored")
        if name == "obs_next" and self._data.successors is not None:
            raise NoColumnError(
                "the buffer has no column 'obs_next' (ignore_obs_next=True); index it: buffer[i].obs_next"
            )
        return _wrap(unflatten({path: leaf.data for path, leaf in self._data.fields[name].leaves.items()}))

    @property
    def obs(self) -> Any:
        """Storage of the observations [maxsize, ...]; single frames."""
        return self._column("obs")

    @property
    def act(self) -> Any:
        """Storage of the actions [maxsize, ...]."""
        return self._column("act")

    @property
    def rew(self) -> Any:
        """Storage of the rewards [maxsize] or [maxsize, N_agents]."""
        return self._column("rew")

    @property
    def terminated(self) -> Any:
        """Storage of `terminated` [maxsize]."""
        return self._column("terminated")

    @property
    def truncated(self) -> Any:
        """Storage of `truncated` [maxsize]."""
        return self._column("truncated")

    @property
    def done(self) -> Any:
        """`terminated` or `truncated` [maxsize]; a copy."""
        return self.terminated | self.truncated

    @property
    def obs_next(self) -> Any:
        """Storage of the successors [maxsize, ...]."""
        return self._column("obs_next")

    @property
    def info(self) -> Any:
        """Storage of the asked keys of `info`."""
        return self._column("info")

    @property
    def policy(self) -> Any:
        """Storage of what the policy gave."""
        return self._column("policy")
