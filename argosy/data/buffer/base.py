"""Replay buffer: contiguous typed storage, one ring of slots per environment, complete samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from argosy.data.batch import Batch
from argosy.data.buffer.assemble import assemble, sequences
from argosy.data.buffer.field import flatten, leaf_maker, read_columns
from argosy.data.buffer.hdf5 import load_state, save_state
from argosy.data.buffer.hindsight import Hindsight
from argosy.data.buffer.leaf import as_array
from argosy.data.buffer.priority import Priorities, Priority
from argosy.data.buffer.reader import BufferReader, as_batch
from argosy.data.buffer.rings import IntArray, Rings
from argosy.data.buffer.sampling import Sampling
from argosy.data.buffer.store import REQUIRED, TransitionLike, Transitions
from argosy.data.tree import fields_of
from argosy.errors import ConfigError, DataError

_SINGLE = Sampling()
_NEEDED = frozenset(REQUIRED)


class ReplayBuffer(BufferReader):
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
        info_keys: keys of `info` to store; rows that lack one hold zero.
        seed: of the sampler.
        priority: draw by priority instead of uniformly.
        hindsight: give a part of each sample goals that were achieved later.
        device: keep the columns on this torch device, e.g. "cuda"; samples are tensors there. None: numpy arrays.
        storage_dir: keep the columns in memory-mapped files in this folder, for buffers larger than memory.

    Raises:
        ConfigError: a size or `stack_num` below 1, or both `device` and `storage_dir`.
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
        priority: Priority | None = None,
        hindsight: Hindsight | None = None,
        device: str | None = None,
        storage_dir: str | PathLike[str] | None = None,
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
        self.hindsight = hindsight
        self.priorities = None if priority is None else Priorities(priority, self.maxsize)
        self._data = Transitions(
            self._rings,
            leaf_maker(device, storage_dir),
            ignore_obs_next=ignore_obs_next,
            save_only_last_obs=save_only_last_obs,
            info_keys=self.info_keys,
        )
        self.seed(seed)

    @classmethod
    def from_data(cls, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, done: Any, obs_next: Any) -> Self:
        """Return a full buffer over recorded transitions [N, ...] in order of time, e.g. of an HDF5 file.

        `done` ends episodes; it may also be True where neither `terminated` nor `truncated` is (recording stopped).

        Raises:
            DataError: a column has another length, or holds what cannot be stored.
        """
        given = zip(REQUIRED, (obs, act, rew, terminated, truncated, obs_next), strict=True)
        columns = {name: read_columns(value, name) for name, value in given}
        stop = as_array(read_columns(done, "done"), "done").astype(np.bool_)
        for name, value in columns.items():
            for path, leaf in flatten(value).items():
                rows = len(as_array(leaf, name))
                if rows != len(stop):
                    raise DataError(f"{'.'.join((name, *path))} has {rows} rows and done has {len(stop)}")
        rew = as_array(columns["rew"], "rew")
        if np.isnan(rew).any():
            raise DataError(f"rew is NaN in row {int(np.argwhere(np.isnan(rew))[0, 0])}")
        buffer = cls(len(stop))
        slot = buffer._rings.extend(0, np.concatenate([[True], stop[:-1]]), stop)
        buffer._data.restore(columns, slot)
        buffer._appended(slot)
        return buffer

    def seed(self, seed: int | None) -> None:
        """Start the sampler's random numbers anew."""
        self._rng = np.random.default_rng(seed)

    def reset(self, keep_statistics: bool = False) -> None:
        """Forget all transitions; `keep_statistics` keeps the return and length of the running episodes."""
        self._rings.clear(keep_statistics)
        self._data.clear()
        if self.priorities is not None:
            self.priorities.clear()

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
        if not given.keys() >= _NEEDED:
            name = next(name for name in REQUIRED if name not in given)
            raise DataError(f"the batch has no field {name!r}; add() needs {', '.join(REQUIRED)}")
        ended = given["terminated"]
        lift = (ended.ndim if type(ended) is np.ndarray else np.ndim(ended)) == 0
        rows = 1 if lift else len(ended)
        ids = self._rings.check_ids(buffer_ids, rows)
        data = self._data
        if not data.fields:
            data.allocate(given, lift)
        plan = data.plan(given, rows, lift)
        rew: Any = plan[0][1]
        terminated: Any = plan[1][1]
        truncated: Any = plan[2][1]
        nan = np.isnan(rew)
        if np.count_nonzero(nan):
            bad = np.flatnonzero(nan.reshape(rows, -1).any(axis=1))
            where = (bad if ids is None else ids[bad]).tolist()
            raise DataError(f"rew is NaN in sub-buffer (environment) {where}; nothing was stored")
        added = data.write(ids, plan, rew, np.logical_or(terminated, truncated))
        if self.priorities is not None:
            self.priorities.added(added.slot)
        return added.slot, added.ep_rew, added.ep_len, added.ep_start

    def end_episodes(self, buffer_ids: npt.ArrayLike | None = None) -> None:
        """Say that the environments were reset from outside: what comes next does not continue the newest rows.

        The newest rows become the end of their segment although they are not done: returns, advantages and frame
        stacks never run across.
        """
        rings = self._rings
        rings.close(rings.ids if buffer_ids is None else np.atleast_1d(np.asarray(buffer_ids, np.int64)))

    def update(self, buffer: ReplayBuffer) -> IntArray:
        """Append the transitions of another buffer, sub-buffer after sub-buffer; return the slots that they got.

        Raises:
            ConfigError: this buffer has several sub-buffers, so that it is open where the rows belong.
        """
        if self.buffer_num > 1:
            raise ConfigError(
                f"update() of a buffer with {self.buffer_num} sub-buffers; only a single ring can be extended"
            )
        if len(buffer) == 0:
            return np.zeros(0, np.int64)
        return self._append(0, buffer)

    def _append(self, ring: int, buffer: ReplayBuffer) -> IntArray:
        """Copy the rows of `buffer` to the end of one ring."""
        slot = self._data.append(ring, buffer._data, buffer._rings.all_stored())
        self._appended(slot)
        return slot

    def _appended(self, slot: IntArray) -> None:
        """Follow rows that were written in bulk."""
        if self.priorities is not None:
            self.priorities.added(slot)

    # ---- sampling ------------------------------------------------------------------------------------------------

    def sample_indices(self, batch_size: int | None) -> IntArray:
        """Draw slots with replacement, uniformly or by priority.

        None: as many as are stored. 0: all that are stored, each sub-buffer oldest first. Negative: none.

        Raises:
            ConfigError: `batch_size` is larger than the buffer.
            DataError: the buffer is empty, or `sample_avail` leaves nothing to sample.
        """
        if batch_size == 0:
            return self._available(self._rings.all_stored())
        return self._draw(len(self) if batch_size is None else batch_size, 1)

    def _draw(self, size: int, span: int) -> IntArray:
        """Draw the (first) slots of `size` rows or sequences."""
        if size <= 0:
            return np.zeros(0, np.int64)
        if size > self.maxsize:
            raise ConfigError(f"batch_size is {size}; the buffer holds at most {self.maxsize} transitions")
        rings, rng = self._rings, self._rng
        if rings.total == 0:
            raise DataError(f"cannot sample {size} transitions: the buffer is empty (0 of {self.maxsize})")
        slot = rings.draw(size, rng, span) if self.priorities is None else self.priorities.draw(size, rng)
        if self.sample_avail and self.stack_num > 1:
            allowed = self._available(rings.all_stored())
            if len(allowed) == 0:
                raise DataError(f"no row of {len(self)} has {self.stack_num - 1} predecessors, as sample_avail asks")
            missing = ~np.isin(slot, allowed)
            if self.priorities is None:
                slot[missing] = rng.choice(allowed, np.count_nonzero(missing))
            elif np.count_nonzero(missing):
                weight = self.priorities.tree[allowed]
                slot[missing] = rng.choice(allowed, np.count_nonzero(missing), p=weight / weight.sum())
        return slot

    def _available(self, index: IntArray) -> IntArray:
        """Keep the rows that `sample_avail` allows."""
        if not self.sample_avail or self.stack_num == 1:
            return index
        frames = self._rings.back(index, self.stack_num - 1)
        return np.asarray(index[frames[:, 0] != frames[:, 1]])

    def sample(self, batch_size: int | None, sampling: Sampling | None = None) -> tuple[Batch, IntArray]:
        """Draw a complete training batch and the slots [B] it came from.

        Sampling is with replacement, so a batch may be larger than what is stored, but not than the buffer.

        Returns:
            obs, act [B, ...] of the drawn row; rew [B]: discounted sum over up to `n_step` rows of the episode;
            obs_next, terminated, truncated, done [B]: of the last of these rows; discount [B]:
            gamma^steps * (1 - terminated); weight [B]: importance weight, 1 for uniform draws; indices [B]; info,
            policy of the drawn row.

            With frame stacks, `obs` and `obs_next` may be views of one block that holds their common frames once:
            copy before changing one of them in place.

            With `sampling.sequence_length`, fields are [T, B, ...], T = burn_in + sequence_length rows in order of
            time, and there are also `mask` [T, B], True for rows to learn from (neither burn-in nor padding; `weight`
            is 0 elsewhere), `on_reset` [T, B], True for first rows of episodes, and `final` [T, B]: the row, 0 .. T-1,
            after which this row's `obs_next` comes (its own for n_step=1 and for padding). Sequences run across
            episodes; the steps summed end with the episode or the sequence, whichever is first.

        Raises:
            ConfigError: `batch_size` is larger than the buffer.
            DataError: the buffer is empty.
        """
        sampling = _SINGLE if sampling is None else sampling
        if batch_size == 0:
            slot = self.sample_indices(0)
        else:
            slot = self._draw(len(self) if batch_size is None else batch_size, sampling.span)
        if len(slot) == 0 or not self._data.fields:
            raise DataError(f"sample({batch_size}) of a buffer with {len(self)} transitions would be empty")
        here = self._data.fields["rew"].leaves[()].like
        weight = np.ones(len(slot), np.float32) if self.priorities is None else self.priorities.weights(slot, len(self))
        index = slot
        if sampling.sequence_length is not None:
            index, rows = sequences(self._rings, slot, sampling.span)
            mask = rows.copy()
            mask[: sampling.burn_in] = False
            weight = weight * mask
        fields = assemble(self._data, index, sampling, self.stack_num, self.hindsight, self._rng)
        fields["weight"] = here(weight)
        fields["indices"] = here(index)
        if sampling.sequence_length is not None:
            fields["mask"] = here(mask)
            fields["on_reset"] = here(self._rings.first[index] & rows)
        if self.priorities is not None:
            self.priorities.step()
        return as_batch(fields), slot

    def update_weight(self, indices: npt.ArrayLike, priorities: Any) -> None:
        """Set the priorities of sampled slots: indices and priorities of the same shape, [B] or [T, B].

        Raises:
            ConfigError: the buffer draws uniformly.
            DataError: shapes differ, a slot holds no row, or a priority is NaN or infinite. Nothing changes then.
        """
        if self.priorities is None:
            raise ConfigError("update_weight() of a buffer that draws uniformly; give it priority=Priority(...)")
        self.priorities.update(indices, priorities)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights by hand.

        Raises:
            ConfigError: the buffer draws uniformly, `beta` is negative, or a schedule is set.
        """
        if self.priorities is None:
            raise ConfigError("set_beta() of a buffer that draws uniformly; give it priority=Priority(...)")
        self.priorities.set_beta(beta)

    # ---- state ---------------------------------------------------------------------------------------------------

    def state_dict(self, lazy: bool = False) -> dict[str, Any]:
        """Return everything that changes as nested dicts of host arrays (copies), numbers and strings.

        Args:
            lazy: give the columns as `LazyArray`s, which read from the buffer as it then is: no copy in memory.
        """
        slot = self._rings.all_stored()
        state: dict[str, Any] = {
            "rings": self._rings.state_dict(),
            "columns": self._data.columns(slot, ends_only=True, lazy=lazy) if self._data.fields else {},
            "rng": dict(self._rng.bit_generator.state),
        }
        if self.priorities is not None:
            state["priorities"] = self.priorities.state_dict(slot)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state` was taken.

        Raises:
            DataError: it is of a buffer with other sizes (nothing changes) or other columns (the buffer is empty then).
        """
        self._rings.load_state_dict(state["rings"])
        self._data.clear()
        slot = self._rings.all_stored()
        if state["columns"]:
            try:
                self._data.restore(state["columns"], slot)
            except DataError:
                self.reset()
                raise
        if "rng" in state:
            self._rng.bit_generator.state = dict(state["rng"])
        if self.priorities is not None:
            if "priorities" in state:
                self.priorities.load_state_dict(state["priorities"], slot)
            else:
                self.priorities.clear()
                self.priorities.added(slot)

    def save_hdf5(self, path: str | PathLike[str], compression: str | None = None) -> None:
        """Write everything that is stored to an HDF5 file (needs the extra `hdf5`); `compression` e.g. "gzip"."""
        save_state(path, self.state_dict(lazy=True), self.options(), compression)

    @classmethod
    def load_hdf5(
        cls, path: str | PathLike[str], device: str | None = None, *, hindsight: Hindsight | None = None
    ) -> Self:
        """Return the buffer of an HDF5 file that `save_hdf5`, or Tianshou's, wrote.

        A file holds no code: to go on with hindsight, give it again.

        Raises:
            DataError: the file is missing, damaged, newer than this version, or no buffer.
        """
        sizes, options, state = load_state(path)
        priority = options.pop("priority", None)
        buffer = cls.__new__(cls)
        ReplayBuffer.__init__(
            buffer,
            sizes,
            **options,
            device=device,
            hindsight=hindsight,
            priority=None if priority is None else Priority(**priority),
        )
        buffer.load_state_dict(state)
        return buffer

    def options(self) -> dict[str, Any]:
        """Return the options that say what is stored and how it is drawn, as numbers and strings."""
        options: dict[str, Any] = {
            "stack_num": self.stack_num,
            "ignore_obs_next": self.ignore_obs_next,
            "save_only_last_obs": self.save_only_last_obs,
            "sample_avail": self.sample_avail,
            "info_keys": list(self.info_keys),
        }
        if self.priorities is not None:
            options["priority"] = asdict(self.priorities.config)
        return options

    def empty_like(self, size: int) -> ReplayBuffer:
        """Return an empty buffer of one ring with the same options."""
        options = self.options() | {"priority": None if self.priorities is None else self.priorities.config}
        return ReplayBuffer(size, **options, hindsight=self.hindsight)
