"""The transitions of a buffer: a schema fixed by the first rows, checked writes, gathers along episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from argosy.data.buffer.field import Field, LeafMaker, Path, Plan, Tree, flatten, unflatten
from argosy.data.buffer.leaf import Array, as_array
from argosy.data.buffer.rings import Added, BoolArray, IntArray, Rings
from argosy.data.buffer.successors import Successors
from argosy.data.lazy import LazyArray
from argosy.data.tree import fields_of
from argosy.errors import DataError

OPTIONAL = ("info", "policy")
REQUIRED = ("obs", "act", "rew", "terminated", "truncated", "obs_next")
COLUMNS = (*REQUIRED, *OPTIONAL)
DTYPES = {"rew": np.dtype(np.float32), "terminated": np.dtype(np.bool_), "truncated": np.dtype(np.bool_)}


class TransitionLike(Protocol):
    """What `add` reads: these six, and `info` and `policy` where there are."""

    obs: Any
    act: Any
    rew: Any
    terminated: Any
    truncated: Any
    obs_next: Any


def info_columns(info: Any, keys: Sequence[str]) -> dict[str, object]:
    """Return the asked columns of `info`: a dict of arrays, or one dict per row; rows without a key hold zeros."""
    if info is None or not keys:
        return {}
    fields = fields_of(info)
    if fields is not None:
        return {key: fields[key] for key in keys if key in fields}
    columns: dict[str, object] = {}
    for key in keys:
        present = [row[key] for row in info if key in row]
        if present:
            blank = np.zeros_like(as_array(present[0], f"info.{key}"))
            columns[key] = [row.get(key, blank) for row in info]
    return columns


def last_frame(obs: Any, lift: bool) -> Any:
    """Return the newest frame of stacked observations [B, stack, ...] (`lift`: without B)."""
    fields = fields_of(obs)
    if fields is not None:
        return {key: last_frame(value, lift) for key, value in fields.items()}
    return obs[-1] if lift else obs[:, -1]


class Transitions:
    """Columns of transitions over `rings`. Empty until the first `add` says what the columns are."""

    def __init__(
        self,
        rings: Rings,
        make_leaf: LeafMaker,
        *,
        ignore_obs_next: bool,
        save_only_last_obs: bool,
        info_keys: tuple[str, ...],
    ) -> None:
        self.rings, self.make_leaf = rings, make_leaf
        self.ignore_obs_next, self.save_only_last_obs, self.info_keys = ignore_obs_next, save_only_last_obs, info_keys
        self.fields: dict[str, Field] = {}
        self.successors: Successors | None = None

    def allocate(self, given: dict[str, Any], lift: bool) -> None:
        """Fix the schema from the first rows.

        Raises:
            DataError: names the field that cannot be stored; the schema stays open.
        """
        slots = self.rings.slots
        fields: dict[str, Field] = {}
        for name in REQUIRED[:-1]:
            field = fields[name] = Field(name, slots, self.make_leaf)
            value = given[name]
            if name == "obs" and self.save_only_last_obs:
                value = last_frame(value, lift)
            field.declare_like(value, lift, DTYPES.get(name))
        for name in DTYPES:
            if fields[name].plain is None:
                raise DataError(f"{name} is a container; it must be an array")
        self._finish(fields)

    def _finish(self, fields: dict[str, Field]) -> None:
        """Add what follows from the other fields, and take the schema."""
        slots, make = self.rings.slots, self.make_leaf
        fields["obs_next"] = Field("obs_next", self.rings.num if self.ignore_obs_next else slots, make)
        for path, leaf in fields["obs"].leaves.items():  # a successor is an observation
            fields["obs_next"].declare(path, leaf.shape, leaf.dtype)
        for name in OPTIONAL:
            fields.setdefault(name, Field(name, slots, make, optional=True))
        if self.ignore_obs_next:
            self.successors = Successors(self.rings, fields["obs_next"])
        self.fields = fields

    def clear(self) -> None:
        """Forget what the side table holds; the columns stay allocated."""
        if self.successors is not None:
            self.successors = Successors(self.rings, self.fields["obs_next"])

    def plan(self, given: dict[str, Any], rows: int, lift: bool) -> Plan:
        """Check new rows against the schema; nothing is written.

        Raises:
            DataError: names the field that does not fit.
        """
        fields = self.fields
        obs, obs_next = given["obs"], given["obs_next"]
        if self.save_only_last_obs:
            obs, obs_next = last_frame(obs, lift), last_frame(obs_next, lift)
        plan: Plan = []
        for name in ("rew", "terminated", "truncated", "act"):
            fields[name].check(given[name], rows, lift, plan)
        fields["obs"].check(obs, rows, lift, plan)
        if self.info_keys:
            fields["info"].check(info_columns(given.get("info"), self.info_keys), rows, lift, plan)
        policy = given.get("policy")
        if policy is not None or fields["policy"].leaves:
            fields["policy"].check(policy, rows, lift, plan)
        fields["obs_next"].check(obs_next, rows, lift, plan)
        return plan

    def write(self, ids: IntArray | None, plan: Plan, rew: Array, done: BoolArray) -> Added:
        """Write checked rows, one to each ring of `ids` (None: all)."""
        if self.successors is not None:
            following = len(self.fields["obs_next"].leaves)
            added = self.successors.advance(ids, plan[-following:], rew, done)
            plan = plan[:-following]
        else:
            added = self.rings.advance(ids, rew, done)
        slot = added.slot
        for leaf, value in plan:
            leaf.put(slot, value)
        return added

    def stacked(self, name: str, index: IntArray, stack_num: int) -> Tree:
        """Gather a field, with `stack_num` frames on a new axis after those of `index`."""
        return self.fields[name].take(index if stack_num == 1 else self.rings.back(index, stack_num - 1))

    def obs_next(self, index: IntArray, stack_num: int, obs: Tree | None = None) -> Tree:
        """Gather the true successors: the last frames of `obs` and the one that followed.

        `obs` is what `stacked` gave for the same index, if that is there: its frames are copied, not gathered again.
        """
        if stack_num == 1 and self.successors is None:
            return self.fields["obs_next"].take(index)
        if stack_num == 1:
            return unflatten({path: self.next_leaf(path, index) for path in self.fields["obs"].leaves})
        given = flatten(obs if obs is not None else self.stacked("obs", index, stack_num))
        before: tuple[Any, ...] = (slice(None),) * index.ndim
        leaves: dict[Path, Array] = {}
        for path, leaf in self.fields["obs"].leaves.items():
            frames = cast(Array, given[path])
            shifted = leaf.blank(frames)
            shifted[(*before, slice(0, -1))] = frames[(*before, slice(1, None))]
            shifted[(*before, -1)] = self.next_leaf(path, index)
            leaves[path] = shifted
        return unflatten(leaves)

    def obs_and_next(self, index: IntArray, stack_num: int) -> tuple[Tree, Tree]:
        """Gather stacked observations and their successors as overlapping views of one block of stack_num + 1 frames.

        They have all but one frame in common, and moving frames is nearly all that such a sample costs: this takes
        three quarters of the time of two arrays.
        """
        rows = np.concatenate([self.rings.back(index, stack_num - 1), self.rings.next(index)[..., None]], axis=-1)
        lead: tuple[Any, ...] = (slice(None),) * index.ndim
        obs: dict[Path, Array] = {}
        obs_next: dict[Path, Array] = {}
        for path, leaf in self.fields["obs"].leaves.items():
            frames = leaf.take(rows)
            last = frames[(*lead, -1)]
            if self.successors is None:
                last[...] = self.fields["obs_next"].leaves[path].take(index)
            else:
                self.successors.patch(path, index, last)
            obs[path], obs_next[path] = frames[(*lead, slice(None, -1))], frames[(*lead, slice(1, None))]
        return unflatten(obs), unflatten(obs_next)

    def next_leaf(self, path: Path, index: IntArray) -> Array:
        """Gather one leaf of the true successors, as single frames."""
        if self.successors is None:
            return self.fields["obs_next"].leaves[path].take(index)
        frames = self.fields["obs"].leaves[path].take(self.rings.next(index))
        self.successors.patch(path, index, frames)
        return frames

    # ---- whole columns -------------------------------------------------------------------------------------------

    def columns(self, index: IntArray, ends_only: bool = False, lazy: bool = False) -> dict[str, Any]:
        """Return copies of the rows `index` of every column in host memory, as nested dicts.

        With `ends_only`, a buffer that does not store `obs_next` gives it only for the rows that end a segment. With
        `lazy`, the leaves are `LazyArray`s, which hold until rows are added.
        """
        found: dict[str, Any] = {}
        for name, field in self.fields.items():
            rows = index
            if name == "obs_next" and ends_only and self.successors is not None:
                rows = index[self.rings.stop[index]]
            found[name] = unflatten({path: self._column(name, path, rows, lazy) for path in field.leaves})
        return found

    def _column(self, name: str, path: Path, rows: IntArray, lazy: bool) -> Any:
        leaf = self.fields[name].leaves[path]

        def read(start: int, stop: int) -> Array:
            part = rows[start:stop]
            return leaf.host(self.next_leaf(path, part) if name == "obs_next" else leaf.take(part))

        return LazyArray((len(rows), *leaf.shape), leaf.dtype, read) if lazy else read(0, len(rows))

    def restore(self, columns: Mapping[str, Tree], index: IntArray) -> None:
        """Write what `columns` returned to the slots `index`, whose flags are set already; opens the schema if needed.

        Raises:
            DataError: a column is missing, unknown or does not fit the schema.
        """
        flat = {
            name: {path: as_array(value, name) for path, value in flatten(columns.get(name)).items()}
            for name in COLUMNS
        }
        if unknown := columns.keys() - flat.keys():
            raise DataError(f"{sorted(unknown)} are no fields of a buffer; it stores {', '.join(COLUMNS)}")
        if not self.fields:
            self._open(flat)
        ends = self.rings.stop[index]
        rows = len(index)
        for name, field in self.fields.items():
            values = flat[name]
            if name == "obs_next" and self.successors is not None:
                if all(len(value) == rows for value in values.values()):
                    values = {path: value[ends] for path, value in values.items()}
                plan: Plan = []
                field.check(unflatten(values), int(np.count_nonzero(ends)), False, plan)
                self.successors.release(index)
                self.successors.store(index[ends], values)
            else:
                plan = []
                field.check(unflatten(values), rows, False, plan)
                for leaf, value in plan:
                    leaf.put(index, value)

    def _open(self, columns: dict[str, dict[Path, Array]]) -> None:
        """Fix the schema from whole columns."""
        fields = {name: Field(name, self.rings.slots, self.make_leaf) for name in REQUIRED[:-1]}
        for name, field in fields.items():
            if not columns[name]:
                raise DataError(f"there is no column {name!r}; a buffer needs {', '.join(REQUIRED)}")
            for path, value in columns[name].items():
                field.declare(path, value.shape[1:], DTYPES.get(name, value.dtype))
        self._finish(fields)

    def drop(self, ring: int, index: IntArray) -> None:
        """Empty one ring, which holds the slots `index`."""
        if self.successors is not None:
            self.successors.release(index)
        self.rings.drop(ring)

    def append(self, ring: int, source: Transitions, index: IntArray) -> IntArray:
        """Copy the rows `index` of `source`, in order of time, to the end of one ring; return the slots that they got.

        Of more rows than the ring has slots, the last ones are kept.
        """
        stop = source.rings.stop[index]
        slot = self.rings.extend(ring, source.rings.first[index], stop)
        if len(slot):
            self.restore(source.columns(index[-len(slot) :]), slot)
        return slot
