"""The transitions of a buffer: a schema fixed by the first rows, checked writes, gathers along episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy.data.buffer.rings import Added, BoolArray, IntArray, Rings
from argosy.data.buffer.storage import Array, Field, LeafMaker, Path, Plan, Tree, as_array, unflatten
from argosy.data.buffer.successors import Successors
from argosy.data.tree import fields_of
from argosy.errors import DataError

REQUIRED = ("obs", "act", "rew", "terminated", "truncated", "obs_next")
DTYPES: dict[str, npt.DTypeLike] = {"rew": np.float32, "terminated": np.bool_, "truncated": np.bool_}


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
        fields["obs_next"] = Field("obs_next", self.rings.num if self.ignore_obs_next else slots, self.make_leaf)
        for path, leaf in fields["obs"].leaves.items():  # a successor is an observation
            fields["obs_next"].declare(path, leaf.shape, leaf.dtype)
        fields["info"] = Field("info", slots, self.make_leaf, optional=True)
        fields["policy"] = Field("policy", slots, self.make_leaf, optional=True)
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

    def obs_next(self, index: IntArray, stack_num: int) -> Tree:
        """Gather the true successors: the last frames of `obs` and the one that followed."""
        successors = self.successors
        if stack_num == 1 and successors is None:
            return self.fields["obs_next"].take(index)
        rows = self.rings.next(index) if successors is not None else index
        if stack_num > 1:
            rows = np.concatenate([self.rings.back(index, stack_num - 2), rows[..., None]], axis=-1)
        leaves: dict[Path, Array] = {}
        for path, leaf in self.fields["obs"].leaves.items():
            value = leaf.take(rows)
            newest = value if stack_num == 1 else value[(slice(None),) * index.ndim + (-1,)]
            if successors is not None:
                successors.patch(path, index, newest)
            else:
                newest[...] = self.fields["obs_next"].leaves[path].take(index)
            leaves[path] = value
        return unflatten(leaves)
