"""Cut what rows live through into segments [T, B, ...]. Every row has its own time: rows may act in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from argosy.config import check_limits, limited
from argosy.data import Batch, NamedArray, tree
from argosy.data.join import join
from argosy.data.stats import CollectStats
from argosy.env.vector.protocol import Infos, info_column
from argosy.errors import ConfigError

Fields = Mapping[str, object]
Ended = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]  # returns, lengths, episode info


@dataclass(frozen=True, kw_only=True)
class Segment:
    """What some rows (env x agent) of one actor worker lived through in T steps of theirs."""

    producer: str
    incarnation: int
    seq: int
    """Counts the segments of this producer's incarnation for one agent spec, from 0."""
    rows: np.ndarray
    """[B] int64: which rows of the producer."""
    data: NamedArray
    """[T, B, ...]: obs, act, rew, terminated, truncated, obs_next, version, policy, ..."""
    episode_returns: np.ndarray
    """[E] sums of rewards of the episodes that ended within."""
    episode_lengths: np.ndarray
    """[E] their numbers of steps."""
    episode_info: Mapping[str, np.ndarray] = field(default_factory=dict)
    """[E] each: what the env said of them at their end, as far as it was asked for; NaN where it said nothing."""

    @property
    def steps(self) -> int:
        """Number of transitions to learn from: T * B, without those that the field `mask` hides."""
        mask = self.data.get("mask")
        return int(self.data["rew"].size if mask is None else np.count_nonzero(mask))

    def stats(self) -> CollectStats:
        """Return what it holds, counted."""
        returns, lens = self.episode_returns, self.episode_lengths
        return CollectStats(n_collected_episodes=len(lens), n_collected_steps=self.steps, returns=returns, lens=lens)

    @property
    def version(self) -> int:
        """The oldest version of the policy that acted."""
        version, mask = self.data["version"], self.data.get("mask")
        return int((version if mask is None else version[mask]).min())


@dataclass(frozen=True, kw_only=True)
class SegmentSpec:
    """How what rows live through is cut into segments.

    With burn-in or bootstrap steps segments have T = burn_in_steps + sample_steps + bootstrap_steps, and a field `mask`
    [T, B]: the steps in the middle, which alone are to be learned from. Segments overlap by the others, so that every
    transition is in the middle of exactly one. Before the first transition stand zeros that are `terminated`: what
    comes then does not go on from them, neither a recurrent state nor a return.

    Raises:
        ConfigError: a value is out of range, or contradicts another one.
    """

    sample_steps: int = limited(32, ge=1)
    """T: steps per segment to learn from; with `whole_episodes` the longest part of an episode that is sent."""
    burn_in_steps: int = limited(0, ge=0)
    """Steps before them that only warm a recurrent state up; `mask` [T, B] in the batch hides them."""
    bootstrap_steps: int = limited(0, ge=0)
    """Steps behind them to look ahead, for post-processors and algorithms that need it; `mask` hides them, too. (A
    transition's own successor is always there, as `obs_next`.)"""
    whole_episodes: bool = False
    """Send episodes as wholes (of at most `sample_steps`), each in its own length."""
    send_after_done: bool = False
    """Send segments when their episode is over: `postprocess` sees it as a whole, and no segment spans two."""
    pad: bool = False
    """Fill an episode's last segment up, so that all have one length; `mask` hides what was filled in, zeros that
    `terminated` ends."""
    episode_info: tuple[str, ...] = ()
    """Entries of the env's info at an episode's end whose means the trainer reports as `info/NAME`."""

    def __post_init__(self) -> None:
        check_limits(self)
        if self.whole_episodes and (self.burn_in_steps or self.bootstrap_steps or self.send_after_done):
            raise ConfigError(
                f"{type(self).__name__}.whole_episodes=True sends all that there is: burn_in_steps, bootstrap_steps and"
                " send_after_done have no place"
            )
        if self.pad and not (self.whole_episodes or self.send_after_done):
            raise ConfigError(
                f"{type(self).__name__}.pad=True needs whole_episodes or send_after_done: other segments are full "
                "anyway"
            )


def join_segments(segments: Sequence[Segment]) -> Batch:
    """Join segments into what an on-policy update takes: [T, B, ...] side by side, with `cut` [T, B].

    Segments of unequal lengths become one column [N, 1, ...], row after row. `mask` [T, B] is there if some steps are
    not to be learned from.
    """
    batches = [_batch(segment) for segment in segments]
    if len(batches) == 1:
        return batches[0]
    if any("mask" in batch for batch in batches):  # specs that differ feed one trainer
        for batch in batches:
            batch.mask = batch.get("mask", np.ones(batch.rew.shape, bool))
    if all(len(batch.rew) == len(batches[0].rew) for batch in batches):
        return join(batches, lambda leaves: np.concatenate(leaves, axis=1), like=Batch())
    columns = [tree.map_leaves(_column, batch) for batch in batches]
    return join(columns, np.concatenate, like=Batch())


class Recorder:
    """Writes transitions of R `rows` into storage [T, R, ...] and hands out full columns as segments.

    `producer` and `incarnation` are written into these; `postprocess` is applied to their fields [T, B, ...] first.
    """

    def __init__(
        self,
        producer: str,
        incarnation: int,
        rows: int,
        spec: SegmentSpec,
        postprocess: Callable[[Fields], Fields] | None = None,
    ) -> None:
        self.producer, self.incarnation = producer, incarnation
        self._rows, self._steps = rows, spec.sample_steps
        self._burn_in, self._bootstrap = spec.burn_in_steps, spec.bootstrap_steps
        self._whole, self._pad = spec.whole_episodes, spec.pad
        self._by_episode = spec.whole_episodes or spec.send_after_done
        self._postprocess, self._episode_info = postprocess, spec.episode_info
        self._masked = self._burn_in > 0 or self._bootstrap > 0 or spec.pad
        self.seq = 0
        """Number of the next segment."""
        # By episode, what is before and behind is added when an episode is cut.
        self._first = 0 if self._by_episode else self._burn_in
        self._full = self._steps + (0 if self._by_episode else self._burn_in + self._bootstrap)
        self._cursor = np.full(rows, self._first)
        self._in_step = True  # all rows stand at the same time
        self._storage: NamedArray | None = None
        self._leaves: list[np.ndarray] = []
        self._returns = np.zeros(rows)
        self._lengths = np.zeros(rows, np.int64)
        self._ended: list[Ended] = []
        self._late: list[Segment] = []

    def add(self, rows: np.ndarray, fields: Fields, info: Infos | None = None) -> list[Segment]:
        """Store one transition of each of `rows` [k]; return the segments that are full now.

        Args:
            rows: indices, each at most once.
            fields: [k, ...]; `rew`, `terminated` and `truncated` among them; the same names at each call.
            info: of the rows, where `episode_info` asks for entries.
        """
        if self._storage is None:
            self._storage = self._allocate(fields, self._full)
            self._leaves = _present(self._storage)
        elif fields.get("policy") is not None and self._storage.get("policy") is None:
            self._renew(self._storage, fields, len(self._storage["rew"]))  # so far another one acted, at random
        at = self._cursor[rows]
        if self._by_episode and not self._whole and at.max() == len(self._storage["rew"]):
            self._renew(self._storage, fields, 2 * len(self._storage["rew"]))
        everyone = len(rows) == self._rows and self._in_step
        for store, value in zip(self._leaves, _present(fields), strict=True):
            if everyone:
                store[at[0]] = value
            else:
                store[at, rows] = value
        if not everyone:
            self._in_step = False
        self._cursor[rows] += 1
        self._returns[rows] += np.asarray(fields["rew"])
        self._lengths[rows] += 1
        done = np.asarray(fields["terminated"]) | np.asarray(fields["truncated"])
        if done.any():
            self._note_end(rows, done, info)
        if self._by_episode:
            full = done | (self._cursor[rows] == self._full) if self._whole else done
        else:
            full = self._cursor[rows] == self._full
        segments = self._hand_out(rows[full]) if full.any() else []
        if self._late:
            segments, self._late = self._late + segments, []
        return segments

    def cut(self) -> None:
        """Say that the environments are new: what was recorded last is the end of an episode that was cut short."""
        begun = np.flatnonzero(self._cursor > (0 if self._by_episode else self._burn_in))
        held = np.flatnonzero(self._cursor > 0)  # it may have been sent already, and be the next segment's burn-in
        if self._storage is not None and len(held):
            at = self._cursor[held] - 1
            self._storage["truncated"][at, held] = ~self._storage["terminated"][at, held]
        if len(begun) < self._rows:
            self.seq += 1  # the gap tells the receiver that the next segment does not continue the last one
        self._returns[:], self._lengths[:] = 0.0, 0
        if self._by_episode and len(begun):
            self._late += self._hand_out(begun)

    def _note_end(self, rows: np.ndarray, done: np.ndarray, info: Infos | None) -> None:
        over = rows[done]
        told: dict[str, np.ndarray] = {}
        for name in self._episode_info:
            column = None if info is None else info_column(info, name, np.flatnonzero(done))
            told[name] = np.full(len(over), np.nan) if column is None else np.asarray(column, np.float64)
        self._ended.append((self._returns[over].copy(), self._lengths[over].copy(), told))
        self._returns[over], self._lengths[over] = 0.0, 0

    def _allocate(self, fields: Fields, length: int) -> NamedArray:
        # What is never written is seen where a burn-in precedes the first transition, or the policy did not act.
        storage = tree.map_leaves(
            lambda leaf: np.zeros((length, self._rows, *leaf.shape[1:]), leaf.dtype), NamedArray(**dict(fields))
        )
        storage["terminated"][: self._first] = True
        return storage

    def _renew(self, storage: NamedArray, fields: Fields, length: int) -> None:
        """Make room for episodes that last longer, or for what a policy stores; what is there stays."""
        renewed = self._storage = self._allocate(fields, length)
        self._leaves = _present(renewed)
        for name, held in storage.items():
            for new, old in zip(_present(renewed[name]), _present(held), strict=held is not None):
                new[: len(old)] = old

    def _hand_out(self, rows: np.ndarray) -> list[Segment]:
        assert self._storage is not None
        if self._by_episode:
            lengths = self._cursor[rows]
            return [s for length in np.unique(lengths) for s in self._episodes(rows[lengths == length], int(length))]
        old, overlap = self._storage, self._burn_in + self._bootstrap
        if self._in_step and len(rows) == self._rows:
            data = old
            self._storage = self._allocate(dict(old[0].items()), self._full)  # the receiver keeps the old storage
            self._leaves = _present(self._storage)
        else:
            data = old[:, rows]
        for new, leaf in zip(self._leaves, _present(old), strict=True) if overlap else ():
            new[:overlap, rows] = leaf[-overlap:, rows]
        self._cursor[rows] = overlap
        self._in_step = bool((self._cursor == self._cursor[0]).all())
        return [self._segment(self._processed(data), rows, self._steps)]

    def _episodes(self, rows: np.ndarray, total: int) -> list[Segment]:
        """Hand out episodes of equal length, or parts, in pieces of `steps` with what is before and behind each."""
        assert self._storage is not None
        data = self._processed(self._storage[:total, rows])
        self._cursor[rows] = 0
        self._in_step = bool((self._cursor == self._cursor[0]).all())
        window = self._burn_in + self._steps + self._bootstrap
        pieces = []
        for start in range(0, total, self._steps):
            begin, end = max(start - self._burn_in, 0), min(start + self._steps + self._bootstrap, total)
            before = self._burn_in - (start - begin)
            behind = window - before - (end - begin) if self._pad else 0
            piece = data[begin:end] if before == behind == 0 else _filled(data[begin:end], before, behind)
            pieces.append(self._segment(piece, rows, min(self._steps, total - start)))
        return pieces

    def _processed(self, data: NamedArray) -> NamedArray:
        return data if self._postprocess is None else NamedArray(**dict(self._postprocess(dict(data.items()))))

    def _segment(self, data: NamedArray, rows: np.ndarray, count: int) -> Segment:
        if self._masked:
            mask = np.zeros((len(data["rew"]), len(rows)), bool)
            mask[self._burn_in : self._burn_in + count] = True
            data = NamedArray(**dict(data.items()), mask=mask)
        ended, self._ended = self._ended, []
        self.seq += 1
        return Segment(
            producer=self.producer,
            incarnation=self.incarnation,
            seq=self.seq - 1,
            rows=rows,
            data=data,
            episode_returns=np.concatenate([r for r, _, _ in ended]) if ended else np.zeros(0),
            episode_lengths=np.concatenate([n for _, n, _ in ended]) if ended else np.zeros(0, np.int64),
            episode_info={name: np.concatenate([i[name] for _, _, i in ended]) for name in self._episode_info if ended},
        )


def _filled(data: NamedArray, before: int, behind: int) -> NamedArray:
    """Put zeros around; they are ends of episodes, so that nothing flows out of them."""
    filled = tree.map_leaves(lambda leaf: np.pad(leaf, [(before, behind), *[(0, 0)] * (leaf.ndim - 1)]), data)
    filled["terminated"][:before] = True
    filled["terminated"][before + len(data["rew"]) :] = True
    return filled


def _present(fields: object) -> list[np.ndarray]:
    leaves = tree.leaves(dict(fields) if isinstance(fields, Mapping) else fields)
    return [leaf for _, leaf in leaves if leaf is not None]


def _batch(segment: Segment) -> Batch:
    data = segment.data
    batch = tree.rebuild(
        Batch(), {name: value for name, value in data.items() if name != "version" and value is not None}
    )
    batch.cut = batch.terminated | batch.truncated
    batch.cut[-1] = True
    return batch


def _column(leaf: np.ndarray) -> np.ndarray:
    """[T, B, ...] -> [B * T, 1, ...], each row's time in one piece."""
    swapped = np.swapaxes(leaf, 0, 1)
    return swapped.reshape(-1, 1, *leaf.shape[2:])
