"""From segments to updates: on-policy or from a replay buffer, in a trainer of several agents or a fleet's workers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

from argosy.algorithm.base import Algorithm
from argosy.collect.recorder import Segment, join_segments
from argosy.data import Batch, as_tensors
from argosy.data.stats import TrainingStats
from argosy.data.tree import State
from argosy.data.wire import dumps, loads
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.rng import spawn_seeds
from argosy.trainer.offpolicy import update_is_due
from argosy.trainer.parts import make_buffer


def make_learning(
    algorithm: Algorithm,
    experiment: Experiment,
    producers: Mapping[str, int],
    *,
    sync: bool = False,
    save_buffer: bool = True,
    prefetch: bool = False,
    trainers: int = 1,
) -> Learning:
    """Make what suits the algorithm's kind; see there. Each of several `trainers` gets its share of the steps."""
    if algorithm.kind == "onpolicy":
        return OnpolicyLearning(algorithm, experiment, sync=sync)
    seed = spawn_seeds(experiment.seed, 4)[1]
    start_steps = -(-experiment.trainer.start_steps // trainers)
    return OffpolicyLearning(
        algorithm, experiment, producers, seed, start_steps, save_buffer=save_buffer, prefetch=prefetch
    )


class OnpolicyLearning:
    """One update of each `step_per_collect` transitions; they are forgotten then.

    Args:
        algorithm: learns.
        experiment: says how many steps make a rollout.
        sync: every call of `take` brings a whole rollout.
    """

    def __init__(self, algorithm: Algorithm, experiment: Experiment, *, sync: bool) -> None:
        self._algorithm, self._steps, self._sync = algorithm, experiment.trainer.step_per_collect, sync
        self._waiting: list[Segment] = []

    def take(self, segments: Sequence[Segment]) -> None:
        """Put segments to those that wait for the rollout to be complete."""
        self._waiting += segments

    @property
    def due(self) -> bool:
        """Whether the rollout is complete."""
        return bool(self._waiting) and (self._sync or self.size >= self._steps)

    @property
    def size(self) -> int:
        """All that wait."""
        return sum(segment.steps for segment in self._waiting)

    def update(self) -> TrainingStats:
        """Learn from the rollout and forget it.

        Raises:
            ConfigError: it lacks what the algorithm's own policy stores when it acts.
        """
        segments, self._waiting = self._waiting, []
        rollout = join_segments(segments)
        try:
            stats: TrainingStats = self._algorithm.update(rollout)
        except AttributeError as error:
            if "policy" in rollout:
                raise
            raise ConfigError(
                f"{type(self._algorithm).__name__} learns from what its own policy stores when it acts "
                "(log-probabilities, values), and a policy that stores nothing has sent it experience (random, or a "
                "script); send that to nobody (samples=()), or to an off-policy algorithm"
            ) from error
        return stats

    def state_dict(self) -> State:
        """Return the segments that wait: who sent them will not send them again."""
        return {"waiting": [_packed(segment) for segment in self._waiting]}

    def load_state_dict(self, state: State) -> None:
        """Go on where `state` was taken."""
        self._waiting = [_unpacked(packed) for packed in state["waiting"]]


class OffpolicyLearning:
    """Updates from a replay buffer, `update_per_step` for each transition that came in.

    Args:
        algorithm: learns.
        experiment: says sizes and rates.
        producers: number of rows of each producer; each row gets a sub-buffer.
        seed: of the sampler.
        start_steps: that come in before they earn updates.
        save_buffer: whether the transitions belong to the state.
        prefetch: draw the next batch, and bring it to the algorithm's device, while the present one is learned from;
            priorities are then those before the present update.

    Raises:
        ConfigError: the buffer is smaller than a batch.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        experiment: Experiment,
        producers: Mapping[str, int],
        seed: int,
        start_steps: int,
        *,
        save_buffer: bool,
        prefetch: bool = False,
    ) -> None:
        self._drawer = ThreadPoolExecutor(1, "prefetch") if prefetch else None
        self._drawn: Future[tuple[Batch, np.ndarray]] | None = None
        self._lock = threading.Lock()  # of the buffer, where two threads use it
        settings, config = experiment.trainer, experiment.buffer
        self._algorithm = algorithm
        self._batch_size = settings.batch_size or 64
        self._update_per_step = settings.update_per_step or 1.0
        self._start_steps = start_steps
        self._save_buffer = save_buffer
        rows = sum(producers.values())
        if config.size < self._batch_size:
            raise ConfigError(f"buffer.size is {config.size}; batches of {self._batch_size} need more")
        self.buffer = make_buffer(experiment, rows, seed)
        ends = np.cumsum(list(producers.values()))
        self._rows = dict(zip(producers, np.split(np.arange(rows), ends[:-1]), strict=True))  # their sub-buffers
        self._newest: dict[str, tuple[int, int]] = {}
        self._steps = 0
        self._owed = 0.0

    def take(self, segments: Sequence[Segment]) -> None:
        """Store the transitions, time by time."""
        warming_up = self._steps < self._start_steps
        ids = np.concatenate([self._rows[s.producer][s.rows] for s in segments])
        data = join_segments(segments)
        length = len(data.rew)
        if data.rew.shape[1] != len(ids):  # segments of unequal lengths came as one long column: store them one by one
            for segment in segments:
                self.take([segment])
            return
        for segment in segments:
            self._check_continuity(segment)
        mask = data.pop("mask", None)  # a buffer makes its own sequences, with what is before and behind
        self._algorithm.take_in(data.obs, mask)
        for t in range(length):
            if mask is None or mask[t].all():
                self.buffer.add(data[t], None if len(ids) == self.buffer.buffer_num else ids)
            elif mask[t].any():
                self.buffer.add(data[t][mask[t]], ids[mask[t]])
        steps = sum(segment.steps for segment in segments)
        self._steps += steps
        if not warming_up and len(self.buffer) >= self._batch_size:
            self._owed += steps * self._update_per_step

    @property
    def due(self) -> bool:
        """Whether the transitions so far have earned an update."""
        return update_is_due(self._owed)

    @property
    def size(self) -> int:
        """The batch's."""
        return self._batch_size

    def update(self) -> TrainingStats:
        """Learn from one sample."""
        batch, indices = self._draw() if self._drawn is None else self._drawn.result()
        self._drawn = None
        # The next update follows before anything is taken in
        if self._drawer is not None and update_is_due(self._owed - 1):
            self._drawn = self._drawer.submit(self._draw)
        stats: TrainingStats = self._algorithm.update(batch)
        if self.buffer.priorities is not None and stats.priorities is not None:
            with self._lock:
                self.buffer.update_weight(indices, stats.priorities)
        self._owed -= 1
        return stats

    def state_dict(self) -> State:
        """Return counters, and the buffer if asked for."""
        with self._lock:
            buffer = self.buffer.state_dict() if self._save_buffer else None
        return {
            "owed": self._owed,
            "steps": self._steps,
            "newest": {producer: list(at) for producer, at in self._newest.items()},
            "buffer": buffer,
        }

    def load_state_dict(self, state: State) -> None:
        """Go on where `state` was taken; with an empty buffer where it is not saved."""
        self._owed, self._steps = float(state["owed"]), int(state["steps"])
        if state["buffer"] is not None and self._save_buffer:
            self.buffer.load_state_dict(state["buffer"])
            self._newest = {producer: (int(at[0]), int(at[1])) for producer, at in state["newest"].items()}
        else:
            self._owed, self._steps = 0.0, 0  # it collects anew before it learns

    def _draw(self) -> tuple[Batch, np.ndarray]:
        with self._lock:
            batch, indices = self.buffer.sample(self._batch_size, self._algorithm.sampling)
        return (batch if self._drawer is None else as_tensors(batch, self._algorithm.device)), indices

    def _check_continuity(self, segment: Segment) -> None:
        """End the producer's episodes in the buffer where this segment does not follow the one before."""
        at = (segment.incarnation, segment.seq)
        before = self._newest.get(segment.producer)
        if before is None or at != (before[0], before[1] + 1):  # its rows may have been another's
            self.buffer.end_episodes(self._rows[segment.producer])
        self._newest[segment.producer] = at


Learning: TypeAlias = OnpolicyLearning | OffpolicyLearning
"""Takes segments, one at a time or (synchronous) one of each producer in their order, and makes updates of them."""


def _packed(segment: Segment) -> State:
    """Return a segment as what a state file can hold."""
    return {**vars(segment), "data": np.frombuffer(dumps(segment.data, "raw_bytes"), np.uint8)}


def _unpacked(packed: State) -> Segment:
    return Segment(**{**packed, "data": loads(packed["data"].tobytes())})
