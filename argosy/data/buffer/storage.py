"""Transitions in rings of slots, one ring per environment: checked and stored, and read by slot or in order of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy.data.batch import Batch, as_batch
from argosy.data.buffer.columns import (
    DTYPES,
    OPTIONAL,
    REQUIRED,
    Array,
    Field,
    Tree,
    Writes,
    given_fields,
    info_columns,
    last_frame,
)
from argosy.data.buffer.devices import column_maker
from argosy.data.buffer.priority import Priorities, Priority
from argosy.data.buffer.rings import Added, BoolArray, IntArray, Rings, compact
from argosy.data.buffer.state import COLUMNS, KNOWN, as_attribute, own_fields
from argosy.data.buffer.successors import Successors
from argosy.data.protocols import TransitionLike
from argosy.data.tree import Fields, Path, unflatten
from argosy.errors import ConfigError, DataError, nearest


class Storage:
    """The transitions that a buffer holds; `ReplayBuffer`, which draws from them, says what the arguments are."""

    obs: Any
    """A field as it is stored, all slots [maxsize, ...]; so are the others, and fields of one's own."""
    act: Any
    rew: Any
    terminated: Any
    truncated: Any
    obs_next: Any
    info: Any
    policy: Any

    def __init__(
        self,
        size: int | Sequence[int],
        stack_num: int,
        ignore_obs_next: bool,
        save_only_last_obs: bool,
        info_keys: Sequence[str],
        priority: Priority | None,
        device: str | None,
        storage_dir: str | PathLike[str] | None,
    ) -> None:
        if stack_num < 1:
            raise ConfigError(f"stack_num is {stack_num!r}; it must be >= 1")
        self.rings = Rings([size] if isinstance(size, int | np.integer) else list(size))
        self.maxsize = self.rings.slots
        """Number of slots."""
        self.buffer_num = self.rings.num
        """Number of sub-buffers."""
        self.stack_num = stack_num
        self.ignore_obs_next = ignore_obs_next
        self.save_only_last_obs = save_only_last_obs
        self.info_keys = tuple(info_keys)
        self.make_column = column_maker(device, storage_dir)
        self.fields: dict[str, Field] = {}
        """By name; empty until the first rows come."""
        self.successors: Successors | None = None
        self.priorities = None if priority is None else Priorities(priority, self.maxsize)

    def __len__(self) -> int:
        return self.rings.total

    def __repr__(self) -> str:
        rings = "" if self.buffer_num == 1 else f", {self.buffer_num} sub-buffers"
        return f"{type(self).__name__}({len(self)} of {self.maxsize} transitions{rings})"

    def reset(self, keep_statistics: bool = False) -> None:
        """Forget all transitions; `keep_statistics` keeps the return and length of the running episodes."""
        self.rings.clear(keep_statistics)
        self.forget_rows()

    def forget_rows(self) -> None:
        """Empty what is kept beside the columns: successors and priorities."""
        if self.successors is not None:
            self.successors = Successors(self.rings, self.fields["obs_next"])
        if self.priorities is not None:
            self.priorities.tree.clear()

    # ---- writing -------------------------------------------------------------------------------------------------

    def add(self, batch: TransitionLike, buffer_ids: npt.ArrayLike | None = None) -> Added:
        """Store one transition per sub-buffer.

        Args:
            batch: `obs, act, rew, terminated, truncated, obs_next` [n, ...], optionally `info` (asked keys are stored),
                `policy` and fields of one's own, which samples bring, too. With `ignore_obs_next`, `obs_next` may be
                left out: the next row's `obs` is it, an episode's last row has its own. With a scalar `terminated` it
                is one transition without the leading axis.
            buffer_ids: sub-buffer of each row; None: all, in order.

        Returns:
            ptr [n]: slots written; ep_rew [n] (or [n, N_agents]), ep_len [n]: return and length of the episodes that
            end with this row, else 0; ep_idx [n]: slot at which the row's episode began.

        Raises:
            DataError: a field is missing or does not fit the schema, or a reward is NaN. Nothing is written then.
        """
        given = given_fields(batch, self.ignore_obs_next)
        ended = given["terminated"]
        lift = (ended.ndim if type(ended) is np.ndarray else np.ndim(ended)) == 0
        rows = 1 if lift else len(ended)
        ids = self.rings.check_ids(buffer_ids, rows)
        writes, rew, done = self._check(given, rows, lift, ids)
        if self.successors is not None:
            self.successors.release_newest(ids)
        added = self.rings.advance(ids, rew, done)
        self._write(added.slot, writes)
        return added

    def add_steps(self, batch: TransitionLike | Fields, steps: int, cut: BoolArray | None = None) -> IntArray:
        """Store several transitions of every sub-buffer; the same as as many calls of `add`, in a third of the time.

        Args:
            batch: fields as for `add`, [steps * buffer_num, ...]: the first step of all sub-buffers, the second, ...
            steps: at most as many as the smallest sub-buffer holds.
            cut: [steps * buffer_num] which rows are truncated only because the recording stopped; None: none.

        Returns:
            The slots written [steps, buffer_num].

        Raises:
            DataError: as `add`. Nothing is written then.
        """
        rings = self.rings
        assert 0 < steps <= rings.capacity.min()
        writes, rew, done = self._check(given_fields(batch, self.ignore_obs_next), steps * rings.num, False, None)
        if self.successors is not None:
            self.successors.release_newest(None)
        slot = rings.advance_steps(rew.reshape(steps, rings.num, *rew.shape[1:]), done.reshape(steps, rings.num), cut)
        self._write(slot.ravel(), writes, compact(slot.ravel()))
        return slot

    def _check(self, given: Fields, rows: int, lift: bool, ids: IntArray | None) -> tuple[Writes, Array, BoolArray]:
        """Check new rows against the schema; return what is to be written (`obs_next` last), rewards and ends."""
        obs, obs_next = given["obs"], given["obs_next"]
        if self.save_only_last_obs:
            obs, obs_next = last_frame(obs, lift), last_frame(obs_next, lift)
        if not self.fields:
            self.allocate({**given, "obs": obs}, lift)
        fields = self.fields
        writes: Writes = []
        for name in ("rew", "terminated", "truncated", "act"):
            fields[name].check(given[name], rows, lift, writes)
        fields["obs"].check(obs, rows, lift, writes)
        if self.info_keys:
            fields["info"].check(info_columns(given.get("info"), self.info_keys), rows, lift, writes)
        policy = given.get("policy")
        if policy is not None or fields["policy"].columns:
            fields["policy"].check(policy, rows, lift, writes)
        if len(fields) > len(COLUMNS) or (len(given) > len(REQUIRED) and not given.keys() <= KNOWN):
            for name in own_fields(self, given):
                fields[name].check(given.get(name), rows, lift, writes)
        fields["obs_next"].check(obs_next, rows, lift, writes)
        rew: Any = writes[0][1]
        nan = np.isnan(rew)
        if np.count_nonzero(nan):
            bad = np.flatnonzero(nan.reshape(rows, -1).any(axis=1))
            where = np.unique(bad % self.buffer_num if ids is None else ids[bad]).tolist()
            raise DataError(f"rew is NaN in sub-buffer (environment) {where}; nothing was stored")
        return writes, rew, np.logical_or(writes[1][1], writes[2][1])

    def allocate(self, given: Mapping[str, object], lift: bool) -> None:
        """Fix the schema by the first rows, or raise DataError and leave it open."""
        slots, make = self.maxsize, self.make_column
        fields = {name: Field(name, slots, make) for name in REQUIRED[:-1]}
        for name, field in fields.items():
            field.declare_like(given.get(name), lift, DTYPES.get(name))
            if name in DTYPES and (field.single is None or (name != "rew" and field.single.shape)):
                raise DataError(f"{name} is a container, or has several flags per row; it must be an array of one")
        fields["obs_next"] = Field("obs_next", self.buffer_num if self.ignore_obs_next else slots, make)
        for key, column in fields["obs"].columns.items():  # a successor is an observation
            fields["obs_next"].declare(key, column.shape, column.dtype)
        self.fields = fields | {name: Field(name, slots, make, optional=True) for name in OPTIONAL}
        if self.ignore_obs_next:
            self.successors = Successors(self.rings, fields["obs_next"])

    def _write(self, slot: IntArray, writes: Writes, place: IntArray | slice | None = None) -> None:
        """Write checked rows to slots that the rings have just taken; `place` is what `compact` makes of these."""
        if self.successors is not None:
            count = len(self.fields["obs_next"].columns)
            self.successors.store(slot, writes[-count:])
            writes = writes[:-count]
        for column, value in writes:
            column.put(slot if place is None else place, value)
        if self.priorities is not None:
            self.priorities.tree.add(slot)

    def end_episodes(self, buffer_ids: npt.ArrayLike | None = None) -> None:
        """Say that the environments were reset from outside: what comes next does not continue the newest rows.

        The newest rows become the end of their segment although they are not done: returns, advantages and frame
        stacks never run across.
        """
        rings = self.rings
        rings.close(rings.ids if buffer_ids is None else np.atleast_1d(np.asarray(buffer_ids, np.int64)))

    # ---- slots ---------------------------------------------------------------------------------------------------

    @property
    def last_index(self) -> IntArray:
        """Newest slot of each sub-buffer."""
        return self.rings.last.copy()

    def prev(self, index: npt.ArrayLike) -> IntArray:
        """Return the slots one step earlier in the same episode; an episode's first row returns itself."""
        return self.rings.prev(np.asarray(index, np.int64))

    def next(self, index: npt.ArrayLike) -> IntArray:
        """Return the slots one step later in the same episode; an episode's last row returns itself."""
        return self.rings.next(np.asarray(index, np.int64))

    def unfinished_index(self) -> IntArray:
        """Return the newest slots of the sub-buffers whose episode goes on."""
        return self.rings.last[~self.rings.closed]

    def episode_slots(self, last: int, length: int) -> IntArray:
        """Return the slots [<= length] of an episode of `length` rows up to its row `last`, in order of time.

        Rows that were overwritten since, or never stored, are left out.
        """
        slot = self.rings.back(np.array(last), min(length, self.maxsize) - 1)
        return np.asarray(slot[np.append(slot[1:] != slot[:-1], True)])  # where rows are missing the first one repeats

    def _slots(self, index: Any) -> IntArray:
        """Return slot numbers for an int, slice, list, mask or array."""
        if isinstance(index, slice):
            stored = self.rings.all_stored()
            return stored if index == slice(None) else np.sort(stored)[index]
        slot = np.asarray(index)
        if slot.dtype == np.bool_:
            return np.flatnonzero(slot)
        if slot.size and (slot.min() < -self.maxsize or slot.max() >= self.maxsize):
            raise IndexError(f"index reaches from {slot.min()} to {slot.max()}; the buffer has {self.maxsize} slots")
        return np.asarray(slot.astype(np.int64) % self.maxsize)

    # ---- reading -------------------------------------------------------------------------------------------------

    @property
    def done(self) -> Any:
        """`terminated` or `truncated` [maxsize]; a copy."""
        return self.terminated | self.truncated

    def get(self, index: Any, key: str, default_value: Any = None, stack_num: int | None = None) -> Any:
        """Return one field at `index`, with `stack_num` frames (default: the buffer's).

        Raises:
            DataError: there is no such field and no default.
        """
        stack_num = self.stack_num if stack_num is None else stack_num
        slot = self._slots(index)
        if key == "done" and self.fields:
            return self.done[slot]
        if key not in self.fields:
            if default_value is not None:
                return default_value
            raise DataError(f"the buffer stores no field {key!r}; {nearest(key, [*self.fields, 'done'])}")
        rows = np.atleast_1d(slot)
        if key == "obs_next":
            value = self._observations(rows, rows, stack_num)[1]
        else:
            value = self._stacked(key, rows, stack_num)
        batch = as_batch({key: value})
        return batch[key] if slot.ndim else batch[0][key]

    def __getitem__(self, index: Any) -> Batch:
        """Return the single transitions at `index` (slots; `[:]` is all that is stored, oldest first).

        Stacked `obs` and `obs_next` may have memory in common, as in `ReplayBuffer.sample`.

        Raises:
            DataError: nothing was ever stored.
        """
        if not self.fields:
            raise DataError("the buffer is empty: there is nothing to index")
        slot = self._slots(index)
        rows = np.atleast_1d(slot)
        batch = as_batch(self._transitions(rows, rows))
        return batch if slot.ndim else batch[0]

    def rollout(self) -> Batch:
        """Return everything that is stored in order of time, for on-policy learning.

        Returns:
            Fields [T, B, ...], B the sub-buffers, when all hold equally many rows; else the sub-buffers one after
            the other as [sum, 1, ...]. Beside those of `__getitem__`: `indices` [T, B] and `cut` [T, B], True
            where the next row is not this row's successor (done, end of a segment, last row stored).

        Raises:
            DataError: the buffer is empty.
        """
        rings, steps = self.rings, np.arange(self.rings.count[0])[:, None]
        if rings.total == 0:
            raise DataError("rollout() of an empty buffer; collect first")
        if (rings.count == rings.count[0]).all():
            index = rings.offset + (rings.head - rings.offset - rings.count + steps) % rings.capacity
        else:
            index = rings.all_stored()[:, None]
        like = self.fields["rew"].columns[()].like
        fields = self._transitions(index, index)
        return as_batch(fields | {"cut": like(rings.stop[index]), "indices": like(index)})

    def _transitions(self, index: IntArray, final: IntArray) -> Fields:
        """Gather all fields of the rows `index`; of how and where they end, those of the rows `final`."""
        fields = self.fields
        obs, obs_next = self._observations(index, final, self.stack_num)
        terminated = fields["terminated"].columns[()].take(final)
        truncated = fields["truncated"].columns[()].take(final)
        found = {
            "obs": obs,
            "act": fields["act"].take(index),
            "rew": fields["rew"].take(index),
            "terminated": terminated,
            "truncated": truncated,
            "done": terminated | truncated,
            "obs_next": obs_next,
            "info": fields["info"].take(index),
            "policy": fields["policy"].take(index),
        }
        return found if len(fields) == len(COLUMNS) else found | {n: fields[n].take(index) for n in own_fields(self)}

    def _observations(self, index: IntArray, final: IntArray, stack_num: int) -> tuple[Tree, Tree]:
        """Gather the observations of the rows `index` and the true successors of the rows `final`.

        Stacks of the same rows are overlapping views of one block of stack_num + 1 frames: moving frames is nearly all
        that such a sample costs, and this takes three quarters of the time of two arrays.
        """
        if stack_num == 1 and self.successors is None:
            return self.fields["obs"].take(index), self.fields["obs_next"].take(final)
        if stack_num == 1:
            successor = {key: self.successor(key, final) for key in self.fields["obs"].columns}
            return self.fields["obs"].take(index), unflatten(successor)
        if final is not index:
            return self._stacked("obs", index, stack_num), self._observations(final, final, stack_num)[1]
        rows = np.concatenate([self.rings.back(index, stack_num - 1), self.rings.next(index)[..., None]], axis=-1)
        lead: tuple[Any, ...] = (slice(None),) * index.ndim
        obs: dict[Path, Array] = {}
        obs_next: dict[Path, Array] = {}
        for key, column in self.fields["obs"].columns.items():
            frames = column.take(rows)
            last = frames[(*lead, -1)]
            if self.successors is None:
                last[...] = self.fields["obs_next"].columns[key].take(index)
            else:
                self.successors.patch(key, index, last)
            obs[key], obs_next[key] = frames[(*lead, slice(None, -1))], frames[(*lead, slice(1, None))]
        return unflatten(obs), unflatten(obs_next)

    def _stacked(self, name: str, index: IntArray, stack_num: int) -> Tree:
        """Gather a field, with `stack_num` frames on a new axis after those of `index`."""
        return self.fields[name].take(index if stack_num == 1 else self.rings.back(index, stack_num - 1))

    def successor(self, key: Path, index: IntArray) -> Array:
        """Gather one column of the true successors, as single frames."""
        if self.successors is None:
            return self.fields["obs_next"].columns[key].take(index)
        rows = self.fields["obs"].columns[key].take(self.rings.next(index))
        self.successors.patch(key, index, rows)
        return rows


for _name in COLUMNS:
    as_attribute(Storage, _name)
