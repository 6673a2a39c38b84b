"""Replay buffer: stored transitions, and complete samples of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from argosy.config import Checked, limited
from argosy.data.batch import Batch, as_batch
from argosy.data.buffer.columns import REQUIRED, Array
from argosy.data.buffer.hindsight import Hindsight, look_up, relabel
from argosy.data.buffer.priority import Priorities, Priority
from argosy.data.buffer.rings import IntArray
from argosy.data.buffer.state import Stored, append, check_rings, columns_of, read_data, read_state, restore, save_state
from argosy.data.buffer.storage import Storage
from argosy.data.hdf5 import HDF5Tree, naming_errors, open_hdf5
from argosy.data.tree import Fields, State
from argosy.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Sampling(Checked):
    """How a buffer turns stored transitions into a training batch. `Algorithm.sampling` says what it needs."""

    gamma: float = limited(0.99, ge=0.0, le=1.0)
    """Discount per step."""
    n_step: int = limited(1, ge=1, le=100_000)
    """Steps summed into the reward before the value of `obs_next` is used; episodes and sequences end them earlier."""
    sequence_length: int | None = limited(None, ge=1, le=100_000)
    """Rows to learn from per sequence; batches are then [burn_in + sequence_length, B, ...]. None: single rows."""
    burn_in: int = limited(0, ge=0, le=100_000)
    """Rows before them that only warm up the recurrent state."""
    fields: tuple[str, ...] = ()
    """What rows are to hold beside the usual: `returns` to the episode's end, `act_next` that follows, `step` of it,
    whether it has `ended`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.burn_in and self.sequence_length is None:
            raise ConfigError(f"Sampling.burn_in is {self.burn_in} without sequence_length; set both or neither")

    @property
    def span(self) -> int:
        """Rows per drawn sequence; 1 for single rows."""
        return 1 if self.sequence_length is None else self.burn_in + self.sequence_length


_SINGLE = Sampling()


def n_step_weights(ahead: IntArray, n_step: int, gamma: float) -> tuple[Array, Array]:
    """Return what rewards count for in n-step sums [..., n_step], and the discount [...] of what is behind them.

    `ahead` [...] are the rows that follow each row in its window, 0 .. n_step - 1; rewards behind it count 0.
    """
    powers = np.float32(gamma) ** np.arange(n_step + 1, dtype=np.float32)
    return np.where(np.arange(n_step) <= ahead[..., None], powers[:-1], np.float32(0)), powers[ahead + 1]


class ReplayBuffer(Storage):
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
        storage_dir: keep the columns in memory-mapped files in this folder, for buffers larger than memory. The files
            have no names and go with the buffer; `save_hdf5` keeps what they hold.

    Raises:
        ConfigError: a size or `stack_num` below 1, or both `device` and `storage_dir`, or this cannot be written to.
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
        super().__init__(size, stack_num, ignore_obs_next, save_only_last_obs, info_keys, priority, device, storage_dir)
        self.sample_avail = sample_avail
        self.hindsight = hindsight
        self.seed(seed)

    def seed(self, seed: int | None) -> None:
        """Start the sampler's random numbers anew."""
        self._rng = np.random.default_rng(seed)

    # ---- sampling ------------------------------------------------------------------------------------------------

    def sample_indices(self, batch_size: int | None) -> IntArray:
        """Draw slots with replacement, uniformly or by priority.

        None: as many as are stored. 0: all that are stored, each sub-buffer oldest first. Negative: none.

        Raises:
            ConfigError: `batch_size` is larger than the buffer.
            DataError: the buffer is empty, or `sample_avail` leaves nothing to sample.
        """
        return self._draw(batch_size, 1)

    def _draw(self, batch_size: int | None, span: int) -> IntArray:
        """Draw the (first) slots of rows, or of sequences of `span` rows; as many as `sample_indices` says."""
        if batch_size == 0:
            return self._available(self.rings.all_stored())
        size = len(self) if batch_size is None else batch_size
        if size <= 0:
            return np.zeros(0, np.int64)
        if size > self.maxsize:
            raise ConfigError(f"batch_size is {size}; the buffer holds at most {self.maxsize} transitions")
        rings, rng = self.rings, self._rng
        if rings.total == 0:
            raise DataError(f"cannot sample {size} transitions: the buffer is empty (0 of {self.maxsize})")
        slot = rings.draw(size, rng, span) if self.priorities is None else self.priorities.draw(size, rng)
        if self.sample_avail and self.stack_num > 1:
            allowed = self._available(rings.all_stored())
            if len(allowed) == 0:
                raise DataError(f"no row of {len(self)} has {self.stack_num - 1} predecessors, as sample_avail asks")
            missing = ~np.isin(slot, allowed)
            weight = None if self.priorities is None else self.priorities.tree[allowed]
            share = None if weight is None else weight / weight.sum()
            slot[missing] = rng.choice(allowed, np.count_nonzero(missing), p=share)
        return slot

    def _available(self, index: IntArray) -> IntArray:
        """Keep the rows that `sample_avail` allows."""
        if not self.sample_avail or self.stack_num == 1:
            return index
        frames = self.rings.back(index, self.stack_num - 1)
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
            time, and there are also `mask` [T, B], True for rows to learn from (neither burn-in, which is shorter where
            a ring is short of rows, nor padding; `weight` is 0 elsewhere), `on_reset` [T, B], True for first rows of
            episodes, and with n_step > 1 `final` [T, B]: the row, 0 .. T-1, after which this row's `obs_next` comes
            (padding: its own). Sequences run across episodes; the steps summed end with the episode or the sequence,
            whichever is first.

        Raises:
            ConfigError: `batch_size` is larger than the buffer.
            DataError: the buffer is empty.
        """
        sampling = _SINGLE if sampling is None else sampling
        slot = self._draw(batch_size, sampling.span)
        if len(slot) == 0 or not self.fields:
            raise DataError(f"sample({batch_size}) of a buffer with {len(self)} transitions would be empty")
        like = self.fields["rew"].columns[()].like
        priorities = self.priorities
        if sampling.sequence_length is None:
            index = slot
            fields = self._gather(index, sampling)
            if priorities is None:
                weight = np.empty(len(slot), np.float32)
                weight.fill(1.0)
            else:
                weight = priorities.weights(slot, len(self))
        else:
            index, rows = self.rings.sequences(slot, sampling.span)
            fields = self._gather(index, sampling)
            mask, first = np.empty(index.shape, np.bool_), self.rings.first[index]
            first[1:] |= self.rings.stop[index[:-1]]  # of what is left of an episode, too
            if rows is None:
                mask.fill(True)
                mask[: sampling.burn_in] = False
            else:
                step = np.arange(len(index))[:, None]
                first &= step < rows
                np.logical_and(step < rows, step >= rows - sampling.sequence_length, mask)  # few rows are all learned
            weight = mask.astype(np.float32) if priorities is None else priorities.weights(slot, len(self)) * mask
            fields["mask"], fields["on_reset"] = like(mask), like(first)
        fields["weight"], fields["indices"] = like(weight), like(index)
        if priorities is not None:
            priorities.step()
        return as_batch(fields), slot

    def _gather(self, index: IntArray, sampling: Sampling) -> Fields:
        """Gather the fields of a sample for the slots `index` [B] or [T, B]."""
        rings, rew_column, n_step = self.rings, self.fields["rew"].columns[()], sampling.n_step
        if n_step == 1:
            window = final = index
            discount = np.empty(index.shape, np.float32)
            discount.fill(sampling.gamma)
        else:
            ahead = rings.ahead(index, n_step - 1)
            if index.ndim == 2:
                ahead = np.minimum(ahead, np.arange(len(index))[::-1, None])  # windows end with the sequence
            window = rings.shift(index[..., None], np.minimum(np.arange(n_step), ahead[..., None]))
            final = window[..., -1]
            weights, discount = n_step_weights(ahead, n_step, sampling.gamma)
        fields = self._transitions(index, final)
        rew = fields["rew"] if n_step == 1 else rew_column.take(window)
        if self.hindsight is not None:
            relabel(self, self.hindsight, window.reshape(*index.shape, n_step), fields, rew, self._rng)
        if n_step > 1:
            weights = weights.reshape(*weights.shape, *(1,) * len(rew_column.shape))
            fields["rew"] = (rew * rew_column.like(weights)).sum(index.ndim)
        fields["discount"] = discounts = rew_column.like(discount)
        discounts[fields["terminated"]] = 0.0
        if index.ndim == 2 and n_step > 1:
            fields["final"] = rew_column.like(np.arange(len(index))[:, None] + ahead)
        return fields | look_up(self, index, final, sampling) if sampling.fields else fields

    def update_weight(self, indices: npt.ArrayLike, priorities: Any) -> None:
        """Set the priorities of sampled slots: indices and priorities of the same shape, [B] or [T, B].

        Raises:
            ConfigError: the buffer draws uniformly.
            DataError: shapes differ, a slot holds no row, or a priority is NaN or infinite. Nothing changes then.
        """
        self._prioritised("update_weight").update(indices, priorities)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights by hand.

        Raises:
            ConfigError: the buffer draws uniformly, `beta` is negative, or a schedule is set.
        """
        self._prioritised("set_beta").set_beta(beta)

    def _prioritised(self, method: str) -> Priorities:
        if self.priorities is None:
            raise ConfigError(f"{method}() of a buffer that draws uniformly; give it priority=Priority(...)")
        return self.priorities

    # ---- state ---------------------------------------------------------------------------------------------------

    def state_dict(self, lazy: bool = False) -> State:
        """Return everything that changes as nested dicts of host arrays (copies), numbers and strings.

        Args:
            lazy: give the columns as `LazyArray`s, which read from the buffer as it then is: no copy in memory.
        """
        slot = self.rings.all_stored()
        state: State = {
            "rings": self.rings.state_dict(),
            "columns": columns_of(self, slot, ends_only=True, lazy=lazy),
            "rng": dict(self._rng.bit_generator.state),
        }
        if self.priorities is not None:
            state["priorities"] = self.priorities.state_dict(slot)
        return state

    def load_state_dict(self, state: State) -> None:
        """Continue exactly where `state` was taken.

        Raises:
            DataError: it is of a buffer with other sizes (nothing changes) or other columns (the buffer is empty then).
        """
        check_rings(state["rings"])
        self.rings.load_state_dict(state["rings"])
        self.forget_rows()
        slot = self.rings.all_stored()
        try:
            if state["columns"]:
                restore(self, state["columns"], slot)
            if self.priorities is not None and "priorities" in state:
                self.priorities.load_state_dict(state["priorities"], slot)
            if "rng" in state:
                self._rng.bit_generator.state = dict(state["rng"])
        except Exception:
            self.reset()
            raise

    def update(self, buffer: ReplayBuffer) -> IntArray:
        """Append the transitions of another buffer, sub-buffer after sub-buffer; return the slots that they got.

        Raises:
            ConfigError: this buffer has several sub-buffers, so that it is open where the rows belong.
        """
        if self.buffer_num > 1:
            raise ConfigError(
                f"update() of a buffer with {self.buffer_num} sub-buffers; only a single ring can be extended"
            )
        return append(self, 0, buffer, buffer.rings.all_stored())

    def save_hdf5(self, path: str | PathLike[str], compression: str | None = None) -> None:
        """Write everything that is stored to an HDF5 file (needs the extra `hdf5`); `compression` e.g. "gzip"."""
        save_state(path, self.state_dict(lazy=True), self.options(), compression)

    @classmethod
    def from_data(cls, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, done: Any, obs_next: Any) -> Self:
        """Return a full buffer over recorded transitions [N, ...] in order of time, e.g. of an HDF5 file.

        `done`, `terminated` and `truncated` end episodes; `done` alone is set where the recording stopped.

        Raises:
            DataError: a column has another length, or holds what cannot be stored.
        """
        given = dict(zip(REQUIRED, (obs, act, rew, terminated, truncated, obs_next), strict=True))
        columns, stop = read_data(given, done)
        buffer = cls(len(stop))
        slot = buffer.rings.extend(0, stop)
        restore(buffer, columns, slot)
        return buffer

    @classmethod
    def load_hdf5(
        cls, path: str | PathLike[str], device: str | None = None, *, hindsight: Hindsight | None = None
    ) -> Self:
        """Return the buffer of an HDF5 file that `save_hdf5`, or Tianshou's, wrote.

        Columns that lie in the file as in memory are mapped, not read; what changes in them stays in memory. A file
        holds no code: to go on with hindsight, give it again.

        Raises:
            DataError: the file is missing, damaged, newer than this version, or no buffer.
        """
        name, wrong = os.fspath(path), "is no buffer, or a damaged one"
        with naming_errors(name, wrong, wrong), open_hdf5(path) as file:
            return cls.from_stored(read_state(HDF5Tree(file, name), HDF5Tree.mapped), device, hindsight=hindsight)

    @classmethod
    def from_stored(cls, stored: Stored, device: str | None = None, *, hindsight: Hindsight | None = None) -> Self:
        """Return the buffer that a file says, see `load_hdf5`."""
        buffer = cls.__new__(cls)
        ReplayBuffer.__init__(buffer, stored.sizes, **stored.options, device=device, hindsight=hindsight)
        buffer.load_state_dict(stored.state)
        return buffer

    def options(self) -> dict[str, Any]:
        """Return the arguments that say what is stored and how it is drawn, all but `hindsight`, which holds code."""
        return {
            "stack_num": self.stack_num,
            "ignore_obs_next": self.ignore_obs_next,
            "save_only_last_obs": self.save_only_last_obs,
            "sample_avail": self.sample_avail,
            "info_keys": list(self.info_keys),
            "priority": None if self.priorities is None else self.priorities.config,
        }
