"""The trainer worker: takes segments, lets the algorithm learn, publishes parameters, saves its state."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from argosy.algorithm.base import Algorithm
from argosy.collect.recorder import Segment
from argosy.distributed.host.base import Peer, PeerLostError, Progress, Repeated
from argosy.distributed.specs import PolicySpec
from argosy.distributed.streams.samples import Inbox
from argosy.distributed.workers.group import Meeting, TrainerGroup
from argosy.errors import ConfigError, DataError
from argosy.files import numbered, write_atomically
from argosy.trainer.blob import encode
from argosy.trainer.learning import Learning
from argosy.trainer.statefile import read_state, write_state

KIND = "fleet trainer"
_WAIT_S = 0.005
_SAVE_SHARE = 0.1
"""Of the time, for saving states with a replay buffer, at most."""
_START_SHARE = 0.1
"""Of the steps before the first update, between two saved states."""
_RECENT = 1000
_RECENT_EPISODES = 100


@dataclass
class Counters:
    """What a trainer has done, over its restarts."""

    env_steps: int = 0
    updates: int = 0
    gradient_steps: int = 0
    episodes: int = 0
    dropped: int = 0
    """Segments that lagged too much."""
    updates_lost: int = 0
    """Published by a trainer before this one, which did not save them."""


class TrainerWorker:
    """Learns one policy.

    Args:
        name: of the policy.
        spec: how it learns.
        algorithm: learns.
        learning: turns segments into updates.
        store: the parameter server.
        state_file: where the state is saved, and found after a restart.
        producers: who sends segments; the order in which a synchronous round takes them.
        capacity: segments that may wait in the inbox; those that do not fit wait at their senders' expense.
        sync: learn from one segment of each producer, publish, and wait for the next ones.
        incarnation: of this worker; once a later one has begun, this one saves no more.
        group: the trainers that learn this policy together; None: this one alone.
    """

    def __init__(
        self,
        name: str,
        spec: PolicySpec,
        algorithm: Algorithm,
        learning: Learning,
        store: Peer,
        state_file: Path,
        producers: Sequence[str],
        *,
        capacity: int,
        length: int | None = None,
        sync: bool = False,
        incarnation: int = 0,
        group: TrainerGroup | None = None,
    ) -> None:
        self._name, self._spec, self._algorithm, self._learning, self._store = name, spec, algorithm, learning, store
        self._state_file, self._sync, self._group = state_file, sync, group
        self._finishing = self._finished = self._alone = False
        self._length = length or spec.experiment.trainer.length
        self._inbox = Inbox(capacity)
        self._round: dict[str, collections.deque[Segment]] = {producer: collections.deque() for producer in producers}
        self._push: Future[int] | None = None
        self._leads = group is None or group.rank == 0
        self._unpublished = self._leads
        self._healthy = True
        self._done = Counters()
        self._saved_updates = self._published_updates = self._saved_steps = 0
        self._first_steps = spec.experiment.trainer.start_steps / spec.trainers
        self._save_due = 0.0
        self._group_steps = 0
        self._left: list[Path] = []
        self._wait_s = self._update_s = 0.0
        self._returns: collections.deque[float] = collections.deque(maxlen=_RECENT_EPISODES)
        self._info: dict[str, collections.deque[float]] = collections.defaultdict(
            lambda: collections.deque(maxlen=_RECENT)
        )
        self._lags: collections.deque[int] = collections.deque(maxlen=_RECENT)
        self._all_lags: collections.Counter[int] = collections.Counter()
        self._history: collections.deque[dict[str, float]] = collections.deque(maxlen=_RECENT)
        self._forgetting: Repeated[list[int]] = Repeated(
            lambda: store.call("roll_back", name, algorithm.policy.version)
        )
        self._store_is_ahead = self._leads
        self._incarnation = incarnation
        self._owner_file = state_file.with_suffix(".owner")
        write_atomically(self._owner_file, str(incarnation).encode())
        if state_file.exists():
            self._restore()
        self._schedule()

    # -- called by others ----------------------------------------------------------------------------------------------

    def put(self, segment: Segment) -> Future[bool]:
        """Take a segment, as soon as there is room for it."""
        return self._inbox.put(segment)

    def finish(self, alone: bool = False) -> None:
        """Make no more updates; all trainers of a group stop after the same one.

        `alone` says that there will be no store any more: what is learned is saved, and published by a later resume.
        """
        self._finishing, self._alone = True, alone

    def group_address(self) -> Meeting | None:
        """Return where the trainers of this policy meet."""
        assert self._group is not None
        return self._group.address()

    def stats(self) -> Mapping[str, float]:
        """Return counters, the last update's metrics, the last 100 episodes' mean return, the lag of experience.

        `lag_steps/4` counts steps that lagged by 4 updates or more, but less than by the next such number, 8.
        """
        lags, counters = np.array(self._lags or [0]), asdict(self._done)
        if self._store_is_ahead:
            del counters["updates_lost"]  # not known yet
        return {
            **(self._history[-1] if self._history else {}),
            **{f"info/{name}": float(np.mean(values)) for name, values in list(self._info.items()) if values},
            **{name: float(count) for name, count in counters.items()},
            "return_mean": float(np.mean(self._returns)) if self._returns else float("nan"),
            "version": float(self._algorithm.policy.version),
            "queue": float(len(self._inbox)),
            "duplicates": float(self._inbox.duplicates),
            "lag_mean": float(lags.mean()),
            "lag_max": float(lags.max()),
            **{f"lag_steps/{lag}": float(steps) for lag, steps in list(self._all_lags.items())},
            "wait_s": self._wait_s,
            "update_s": self._update_s,
        }

    def history(self) -> list[dict[str, float]]:
        """Return the metrics of the last updates, oldest first."""
        return list(self._history)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def poll(self) -> Progress:
        """Make one update, or take in what has arrived."""
        self._healthy = False
        progress = self._advance()
        self._healthy = True
        return progress

    def close(self) -> None:
        """Save what was learned since the last time."""
        self._inbox.close()
        if self._group is not None:
            self._group.leave()
        if self._healthy and self._done.updates > self._saved_updates:
            self._save()

    def _advance(self) -> Progress:
        if self._group is not None and not self._group.joined:
            return self._join(self._group)
        if self._store_is_ahead and not self._alone and not self._go_back():
            return Progress.IDLE
        self._publish()
        if self._finished:
            return Progress.DONE if self._push is None else Progress.IDLE
        if self._sync and self._push is not None:
            return Progress.IDLE  # the round is not over before its parameters are out
        due, finishing = self._agreed()
        if finishing:
            self._save()
            self._finished = True
            self._unpublished |= self._leads and self._done.updates > self._published_updates
            return Progress.BUSY
        if due:
            self._update()
            if not self._sync or not self._learning.due:
                self._end_of_round(
                    self._sync or self._done.updates - self._published_updates >= self._spec.publish_updates
                )
        elif self._learning.due:
            return Progress.IDLE  # the others have not got their shares yet; all must be equal, so no more is taken in
        elif self._collect():
            self._end_of_round(True)  # a synchronous round that has earned no update
        return Progress.BUSY

    def _go_back(self) -> bool:
        """Let the store forget what a trainer before this one published and did not save; returns whether it has."""
        gone, version = self._forgetting.poll(), self._algorithm.policy.version
        if gone is None:
            return False  # the store is being started; without it there is nobody to learn for
        self._done.updates_lost += max(gone.result(), default=version) - version
        self._store_is_ahead = False
        return True

    def _agreed(self) -> tuple[bool, bool]:
        """Return whether an update is due and whether to finish: here, or in a group for all of it."""
        if self._group is None:
            return self._learning.due, self._finishing
        size = self._learning.size
        due, running, least, minus_most = self._group.agree(self._learning.due, not self._finishing, size, -size)
        if due and least != -minus_most and getattr(self._algorithm.config, "batch_size", None) is not None:
            raise ConfigError(
                f"the trainers of policy {self._name!r} would learn from {least:.0f} to {-minus_most:.0f} transitions, "
                "each in another number of minibatches; send segments of equal size, or set batch_size=None"
            )
        if due:
            total, steps = self._group.sum(np.array([size, self._done.env_steps], np.float64))
            self._group.weigh(size, total)
            self._group_steps = int(steps)
        return bool(due), not running

    def _update(self) -> None:
        start = time.perf_counter()
        stats = self._learning.update()
        self._update_s += time.perf_counter() - start
        self._done.updates += 1
        self._done.gradient_steps += stats.gradient_steps
        self._history.append(stats.metrics())

    def _collect(self) -> bool:
        """Take in what has arrived; returns whether a synchronous round is over without an update."""
        start = time.perf_counter()
        segment = self._inbox.get(_WAIT_S)
        self._wait_s += time.perf_counter() - start
        if segment is None:
            return False
        if not self._sync:
            if self._spec.staleness.rule == "drop" and self._lag(segment) > self._spec.staleness.max_lag:
                self._done.dropped += 1
            else:
                self._take([segment])
                self._save_in_time()
            return False
        self._round[segment.producer].append(segment)
        if not all(self._round.values()):
            return False
        self._take([waiting.popleft() for waiting in self._round.values()])
        return not self._learning.due

    def _join(self, group: TrainerGroup) -> Progress:
        """Meet the other trainers and go on from where the first of them is."""
        if not group.join():
            return Progress.IDLE
        counters = (self._done.updates, self._done.gradient_steps)
        shared = group.share({"algorithm": self._algorithm.state_dict(), "counters": counters})
        self._algorithm.load_state_dict(shared["algorithm"])
        self._done.updates, self._done.gradient_steps = shared["counters"]
        self._group_steps = int(group.sum(np.array(self._done.env_steps)))
        self._saved_updates = self._published_updates = self._done.updates
        self._schedule()
        group.tie(self._algorithm)
        return Progress.BUSY

    def _take(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self._done.env_steps += segment.steps
            self._done.episodes += len(segment.episode_returns)
            self._returns.extend(segment.episode_returns.tolist())
            for name, values in segment.episode_info.items():
                self._info[name].extend(values[~np.isnan(values)].tolist())
            self._lags.append(lag := self._lag(segment))
            self._all_lags[1 << lag.bit_length() >> 1] += segment.steps  # 0, 1, 2 (to 3), 4 (to 7), ...
        self._learning.take(segments)

    def _lag(self, segment: Segment) -> int:
        # A segment that a policy made before this trainer went back to a saved state is newer than the trainer.
        return max(0, self._algorithm.policy.version - segment.version)

    def _end_of_round(self, publish: bool) -> None:
        if self._sync and self._group is None:
            self._drop_surplus()
        self._schedule()
        if publish and self._leads:
            self._unpublished = True
            self._published_updates = self._done.updates
            self._publish()
        self._save_in_time()

    def _save_in_time(self) -> None:
        """Save after so many updates, or of the steps before the first one, unless that takes too much of the time."""
        due = self._done.updates - self._saved_updates >= self._spec.save_updates
        if self._done.updates == 0 and self._first_steps > 0:
            due = self._done.env_steps - self._saved_steps >= _START_SHARE * self._first_steps
        start = time.monotonic()
        if due and start >= self._save_due:
            self._save()
            if self._spec.kind == "offpolicy":  # a large buffer takes long
                self._save_due = start + (time.monotonic() - start) / _SAVE_SHARE

    def _drop_surplus(self) -> None:
        """Drop what is of no round: who is told of one version twice, as after a restart, makes a segment too many.

        Without this, all later rounds would be of the parameters before. In a group it may be the next round's, as the
        trainer that publishes may be ahead of this one.
        """
        self._done.dropped += self._inbox.clear() + sum(map(len, self._round.values()))
        for waiting in self._round.values():
            waiting.clear()

    def _schedule(self) -> None:
        """Follow the run's length, in a group by a number that is the same in all its members."""
        self._algorithm.schedule(min(self._all_steps(), self._length), self._length)

    def _all_steps(self) -> int:
        """Return the steps that the policy has been trained with, in a group by all trainers together."""
        return self._done.env_steps if self._group is None else self._group_steps

    def _publish(self) -> None:
        """Send the newest parameters to the store, again if need be; one push is under way at a time."""
        if self._alone:
            self._push = None
            return
        if self._push is not None and self._push.done():
            push, self._push = self._push, None
            try:
                push.result()
            except PeerLostError:
                self._unpublished = True
        if self._unpublished and self._push is None:
            self._unpublished = False
            checkpoint = self._algorithm.policy.get_checkpoint()
            metadata = {"env_steps": self._all_steps(), "updates": self._done.updates}
            self._push = self._store.call("push", self._name, encode(checkpoint), checkpoint["version"], (), metadata)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if int(self._owner_file.read_text()) > self._incarnation:
            return  # taken for dead, and replaced
        state = {
            "counters": asdict(self._done),
            "algorithm": self._algorithm.state_dict(),
            "learning": self._learning.state_dict(),
            "seen": self._inbox.seen(),
        }
        write_state(self._state_file, KIND, state)
        while self._left:
            self._left.pop().unlink(missing_ok=True)
        self._saved_updates, self._saved_steps = self._done.updates, self._done.env_steps

    def _restore(self) -> None:
        state = read_state(self._state_file, KIND)
        self._algorithm.load_state_dict(state["algorithm"])
        try:
            self._learning.load_state_dict(state["learning"])
        except DataError as error:
            raise ConfigError(
                f"the replay buffer of policy {self._name!r} was filled by other actors, or is another one: {error}; "
                "resume with the ActorGroup's count, ring and num_envs and the `buffer` of before, or with "
                "save_buffer=False, which begins with an empty one"
            ) from error
        self._inbox.restore(state["seen"])
        self._done = Counters(**state["counters"])
        size = self._group.size if self._group else 1
        files = numbered(self._state_file.parent, f"trainer.{self._name}.").items()
        self._left = [file for rank, file in files if rank >= size and self._leads]
        for file in self._left:  # of trainers that the fleet had before: their steps count on
            left = Counters(**read_state(file, KIND)["counters"])
            self._done.env_steps += left.env_steps
            self._done.episodes += left.episodes
        self._saved_updates = self._published_updates = self._done.updates
        self._saved_steps = self._done.env_steps
