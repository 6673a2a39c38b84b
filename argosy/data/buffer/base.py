"""Replay buffer: contiguous typed storage, one ring of slots per environment, complete samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from argosy.data.batch import Batch
from argosy.data.buffer.rings import BoolArray, IntArray, Rings
from argosy.data.buffer.sampling import Sampling
from argosy.data.buffer.storage import Leaf, Tree
from argosy.data.buffer.store import REQUIRED, Transitions
from argosy.data.tree import fields_of, rebuild
from argosy.errors import ConfigError, DataError, nearest


class TransitionLike(Protocol):
    """What `add` reads: these six, and `info` and `policy` where there are."""

    obs: Any
    act: Any
    rew: Any
    terminated: Any
    truncated: Any
    obs_next: Any


_EMPTY = Batch()


def as_batch(fields: dict[str, Any]) -> Batch:
    """Return a Batch over nested dicts of arrays without parsing the arrays."""
    return rebuild(_EMPTY, {key: as_batch(v) if isinstance(v, dict) else v for key, v in fields.items()})


def _wrap(tree: Tree) -> Any:
    """Return a gathered field as users get it: an array or a Batch."""
    return as_batch(tree) if isinstance(tree, dict) else tree


class ReplayBuffer:
    """Ring of the newest `size` transitions of one environment.

    Storage is allocated at the first `add`, from the shapes and dtypes that come; later rows must agree.

    Args:
        size: number of transitions; a sequence gives one ring per environment.
        stack_num: frames per sampled observation, stacked on a new axis after the batch's; frames never cross the
            beginning of an episode (its first frame repeats).
        ignore_obs_next: do not store `obs_next` but read it from the next row. The true successors of episode ends
            and newest rows are kept in a side table.
        save_only_last_obs: of observations [stack, ...] store the last frame; use with `stack_num`.
        sample_avail: sample only rows with `stack_num - 1` stored predecessors in their episode.
        info_keys: keys of `info` to store.
        seed: of the sampler.

    Raises:
        ConfigError: a size below 1 or a `stack_num` below 1.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        stack_num: int = 1,
        ignore_obs_next: bool = False,
        save_only_last_obs: bool = False,
        sample_avail: bool = False,
        *,
        info_keys: Sequence[str] = (),
        seed: int | None = None,
    ) -> None:
        self._rings = Rings([size] if isinstance(size, int | np.integer) else list(size))
        if stack_num < 1:
            raise ConfigError(f"stack_num is {stack_num!r}; it must be >= 1")
        self.maxsize = self._rings.slots
        self.buffer_num = self._rings.num
        self.stack_num = stack_num
        self.ignore_obs_next = ignore_obs_next
        self.save_only_last_obs = save_only_last_obs
        self.sample_avail = sample_avail
        self.info_keys = tuple(info_keys)
        self._data = Transitions(
            self._rings,
            Leaf,
            ignore_obs_next=ignore_obs_next,
            save_only_last_obs=save_only_last_obs,
            info_keys=self.info_keys,
        )
        self.seed(seed)

    def seed(self, seed: int | None) -> None:
        """Start the sampler's random numbers anew."""
        self._rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return self._rings.total

    def __repr__(self) -> str:
        rings = "" if self.buffer_num == 1 else f", {self.buffer_num} sub-buffers"
        return f"{type(self).__name__}({len(self)} of {self.maxsize} transitions{rings})"

    def reset(self, keep_statistics: bool = False) -> None:
        """Forget all transitions; `keep_statistics` keeps the return and length of the running episodes."""
        self._rings.clear(keep_statistics)
        self._data.clear()

    @property
    def last_index(self) -> IntArray:
        """Newest slot of each sub-buffer."""
        return self._rings.last.copy()

    # ---- writing -------------------------------------------------------------------------------------------------

    def add(
        self, batch: TransitionLike, buffer_ids: npt.ArrayLike | None = None
    ) -> tuple[IntArray, npt.NDArray[np.float64], IntArray, IntArray]:
        """Store one transition per sub-buffer.

        Args:
            batch: `obs, act, rew, terminated, truncated, obs_next` [n, ...] and optionally `info` (asked keys are
                stored) and `policy`. With a scalar `terminated` it is one transition without the leading axis.
            buffer_ids: sub-buffer of each row; None: all, in order.

        Returns:
            ptr [n]: slots written; ep_rew [n] (or [n, N_agents]), ep_len [n]: return and length of the episodes that
            end with this row, else 0; ep_idx [n]: slot at which the row's episode began.

        Raises:
            DataError: a field is missing or does not fit the schema, or a reward is NaN. Nothing is written then.
        """
        given = fields_of(batch)
        if given is None:
            given = vars(batch)
        for name in REQUIRED:
            if name not in given:
                raise DataError(f"the batch has no field {name!r}; add() needs {', '.join(REQUIRED)}")
        lift = np.ndim(given["terminated"]) == 0
        rows = 1 if lift else len(given["terminated"])
        ids = self._rings.check_ids(buffer_ids, rows)
        data = self._data
        if not data.fields:
            data.allocate(given, lift)
        plan = data.plan(given, rows, lift)
        rew, terminated, truncated = plan[0][1], plan[1][1], plan[2][1]
        nan = np.isnan(rew)
        if np.count_nonzero(nan):
            bad = np.flatnonzero(nan.reshape(rows, -1).any(axis=1))
            where = (bad if ids is None else ids[bad]).tolist()
            raise DataError(f"rew is NaN in sub-buffer (environment) {where}; nothing was stored")
        added = data.write(ids, plan, rew, np.logical_or(terminated, truncated))
        return added.slot, added.ep_rew, added.ep_len, added.ep_start

    def end_episodes(self, buffer_ids: npt.ArrayLike | None = None) -> None:
        """Say that the environments were reset from outside: what comes next does not continue the newest rows.

        The newest rows become the end of their segment although they are not done: returns, advantages and frame
        stacks never run across.
        """
        rings = self._rings
        rings.close(rings.ids if buffer_ids is None else np.atleast_1d(np.asarray(buffer_ids, np.int64)))

    # ---- reading -------------------------------------------------------------------------------------------------

    def prev(self, index: npt.ArrayLike) -> IntArray:
        """Return the slots one step earlier in the same episode; an episode's first row returns itself."""
        return self._rings.prev(np.asarray(index, np.int64))

    def next(self, index: npt.ArrayLike) -> IntArray:
        """Return the slots one step later in the same episode; an episode's last row returns itself."""
        return self._rings.next(np.asarray(index, np.int64))

    def unfinished_index(self) -> IntArray:
        """Return the newest slots of the sub-buffers whose episode goes on."""
        return self._rings.last[~self._rings.closed]

    def sample_indices(self, batch_size: int | None) -> IntArray:
        """Draw slots uniformly, with replacement.

        None: as many as are stored. 0: all that are stored, each sub-buffer oldest first. Negative: none.

        Raises:
            ConfigError: `batch_size` is larger than the buffer.
            DataError: the buffer is empty.
        """
        if batch_size is None:
            batch_size = len(self)
        if batch_size < 0:
            return np.zeros(0, np.int64)
        if batch_size == 0:
            return self._available(self._rings.all_stored())
        if batch_size > self.maxsize:
            raise ConfigError(f"batch_size is {batch_size}; the buffer holds at most {self.maxsize} transitions")
        if len(self) == 0:
            raise DataError(f"cannot sample {batch_size} transitions: the buffer is empty (0 of {self.maxsize})")
        if self.sample_avail and self.stack_num > 1:
            candidates = self._available(self._rings.all_stored())
            if len(candidates) == 0:
                return candidates
            return candidates[self._rng.integers(0, len(candidates), batch_size)]
        return self._rings.draw(batch_size, self._rng)

    def _available(self, index: IntArray) -> IntArray:
        """Keep the rows that `sample_avail` allows."""
        if not self.sample_avail or self.stack_num == 1:
            return index
        frames = self._rings.back(index, self.stack_num - 1)
        return index[frames[:, 0] != frames[:, 1]]

    def sample(self, batch_size: int | None, sampling: Sampling | None = None) -> tuple[Batch, IntArray]:
        """Draw a complete training batch and the slots it came from.

        Returns:
            obs, act [B, ...] of the drawn row; rew [B]: discounted sum over up to `n_step` rows of the episode;
            obs_next, terminated, truncated, done [B]: of the last of these rows; discount [B]:
            gamma^steps * (1 - terminated); weight [B]: 1; indices [B]; info, policy of the drawn row.

        Raises:
            ConfigError: `batch_size` is larger than the buffer.
            DataError: the buffer is empty.
        """
        index = self.sample_indices(batch_size)
        return self._assemble(index, sampling if sampling is not None else Sampling()), index

    def _assemble(self, index: IntArray, sampling: Sampling) -> Batch:
        """Gather the batch for the slots [B]."""
        fields = self._data.fields
        rew_leaf = fields["rew"].leaves[()]
        gamma = np.float32(sampling.gamma)
        if sampling.n_step == 1:
            final = index
            rew = rew_leaf.data[index]
            reach = gamma
        else:
            steps = np.arange(sampling.n_step)
            ahead = self._rings.ahead(index, sampling.n_step - 1)
            window = self._rings.shift(index[:, None], np.minimum(steps, ahead[:, None]))
            final = window[:, -1]
            powers = np.where(steps <= ahead[:, None], gamma**steps, 0.0).astype(np.float32)
            rew = np.einsum("bn...,bn->b...", rew_leaf.data[window], powers)
            reach = (gamma ** (ahead + 1)).astype(np.float32)
        terminated = fields["terminated"].leaves[()].data[final]
        truncated = fields["truncated"].leaves[()].data[final]
        return as_batch(
            {
                "obs": self._data.stacked("obs", index, self.stack_num),
                "act": fields["act"].take(index),
                "rew": rew,
                "terminated": terminated,
                "truncated": truncated,
                "done": terminated | truncated,
                "obs_next": self._data.obs_next(final, self.stack_num),
                "discount": ~terminated * reach,
                "weight": np.ones(len(index), np.float32),
                "indices": index,
                "info": fields["info"].take(index),
                "policy": fields["policy"].take(index),
            }
        )

    def get(self, index: Any, key: str, default_value: Any = None, stack_num: int | None = None) -> Any:
        """Return one field at `index`, with `stack_num` frames (default: the buffer's)."""
        stack_num = self.stack_num if stack_num is None else stack_num
        slots = self._slots(index)
        if key == "obs_next":
            return _wrap(self._data.obs_next(slots, stack_num))
        if key == "done":
            return self._done()[slots]
        if key not in self._data.fields:
            if default_value is not None:
                return default_value
            raise DataError(
                f"the buffer stores no field {key!r}; {nearest(key, [*self._data.fields, 'done', 'obs_next'])}"
            )
        return _wrap(self._data.stacked(key, slots, stack_num))

    def _slots(self, index: Any) -> IntArray:
        """Return slot numbers for an int, slice, list, mask or array."""
        if isinstance(index, slice):
            stored = self._rings.all_stored()
            return stored if index == slice(None) else np.sort(stored)[index]
        slots = np.asarray(index)
        if slots.dtype == np.bool_:
            return np.flatnonzero(slots)
        return slots.astype(np.int64) % self.maxsize

    def __getitem__(self, index: Any) -> Batch:
        """Return the single transitions at `index` (slots; `[:]` is all that is stored, oldest first)."""
        if not self._data.fields:
            raise DataError("the buffer is empty: there is nothing to index")
        slots = self._slots(index)
        terminated, truncated = (self._data.fields[name].take(slots) for name in ("terminated", "truncated"))
        return as_batch(
            {
                "obs": self._data.stacked("obs", slots, self.stack_num),
                "act": self._data.fields["act"].take(slots),
                "rew": self._data.fields["rew"].take(slots),
                "terminated": terminated,
                "truncated": truncated,
                "done": np.logical_or(terminated, truncated),
                "obs_next": self._data.obs_next(slots, self.stack_num),
                "info": self._data.fields["info"].take(slots),
                "policy": self._data.fields["policy"].take(slots),
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
        batch.cut = rings.stop[index]
        batch.indices = index
        return batch

    def _done(self) -> BoolArray:
        """Return the end-of-episode flag of every slot."""
        return np.logical_or(
            self._data.fields["terminated"].leaves[()].data, self._data.fields["truncated"].leaves[()].data
        )
