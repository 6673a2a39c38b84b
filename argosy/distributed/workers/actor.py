"""The actor worker: steps environments with policies and sends what happens, cut into segments.

Its environments stand in a ring of groups. While one group steps, the others wait for their actions, so that the time
an answer takes does not matter as long as it is shorter than the steps of the other groups. Environments that fail are
made anew, as often as is tolerated; the run's folder says what the failures were.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from argosy.collect.player import InferenceStream, Player
from argosy.collect.recorder import Recorder, Segment
from argosy.collect.seats import Arena
from argosy.distributed.host.base import Progress
from argosy.distributed.streams.inference import ParameterReader
from argosy.distributed.streams.samples import SampleStream
from argosy.errors import EnvError
from argosy.rng import Rng

_WAIT_S = 0.005


@dataclass(eq=False)
class Seated:
    """One seat of one group: who plays, what is recorded, where it goes."""

    player: Player
    recorder: Recorder
    stream: SampleStream | None
    reader: ParameterReader | None
    random_segments: int
    throttled: bool = False
    """Step on only when the last segment has been taken by its receiver."""
    outbox: deque[Segment] = field(default_factory=deque)
    sent_at_token: int = -1
    """Token of the parameters with which the last segment was made."""


class Group:
    """A part of the ring: environments that step together.

    Args:
        make_arena: makes the environments; again after a failure, with another seed.
        seat: makes what belongs to a seat.
        rng: of this group: seeds and random actions.
    """

    def __init__(self, make_arena: Callable[[int], Arena], seat: Callable[[Arena], list[Seated]], rng: Rng) -> None:
        self._make_arena, self.rng = make_arena, rng
        self.arena = make_arena(rng.draw_seed())
        self.seated = seat(self.arena)
        self.fresh = True
        self.stage = ""
        """Of the curriculum, as the environments know it."""

    def renew(self) -> None:
        """Make the environments anew; their episodes under way are cut short."""
        with contextlib.suppress(Exception):  # it is broken already
            self.arena.close()
        self.arena = self._make_arena(self.rng.draw_seed())
        for seated, seat in zip(self.seated, self.arena.seats, strict=True):
            seated.player.seat = seat
            seated.player.forget()
            seated.recorder.cut()
        self.fresh, self.stage = True, ""


class ActorWorker:
    """Plays.

    Args:
        groups: the ring.
        readers: keep the inline policies up to date.
        streams: of other processes' policies, closed at the end.
        sync: after a segment, wait for parameters that were learned from it.
        env_failures: failures of environments to survive.
        stage: of the curriculum, "" without.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        readers: Mapping[str, ParameterReader],
        streams: Sequence[InferenceStream],
        *,
        sync: bool = False,
        env_failures: int = 100,
        stage: str = "",
    ) -> None:
        self._stage = stage
        self._ring = deque(groups)
        self._readers, self._streams = readers, streams
        self._sync, self._tolerance = sync, Tolerance(env_failures, "actors.env_failures")
        self._steps = self._segments = 0
        self._waited = {"inference": 0.0, "samples": 0.0, "parameters": 0.0}
        self._idle_since = time.monotonic()

    def poll(self) -> Progress:
        """Step the group at the head of the ring, if its actions are there."""
        for reader in self._readers.values():
            reader.poll()
        for group in self._ring:  # all, so that the first answers are waited for together
            if group.fresh and not self._reset(group):
                return Progress.BUSY
        for group in self._ring:  # all, or one that waits would keep back what another has made
            _deliver(group)
        group = self._ring[0]
        blocked = self._blocked_by(group)
        if blocked is not None:
            return self._idle(blocked)
        self._set_stage(group)
        if not all(seated.player.ready(_WAIT_S) for seated in group.seated):
            self._waited["inference"] += self._since_last()
            return Progress.BUSY  # it has waited already
        self._step(group)
        self._ring.rotate(-1)
        self._since_last()
        return Progress.BUSY

    def set_curriculum_stage(self, name: str) -> None:
        """Let the episodes that begin from now on be of this stage."""
        self._stage = name

    def stats(self) -> Mapping[str, float]:
        """Return counters; times in seconds since the start."""
        return {
            "steps": float(self._steps),
            "segments": float(self._segments),
            "env_failures": float(self._tolerance.count),
            "wait_inference_s": self._waited["inference"],
            "wait_samples_s": self._waited["samples"],
            "wait_parameters_s": self._waited["parameters"],
        }

    @property
    def survived(self) -> str:
        """Traceback of the last failure of an environment, "" if there was none."""
        return self._tolerance.last

    def close(self) -> None:
        """Close environments and streams."""
        for group in self._ring:
            group.arena.close()
        for stream in self._streams:
            stream.close()

    def _blocked_by(self, group: Group) -> str | None:
        """Say what the group has to wait for before it may step."""
        for seated in group.seated:
            if seated.outbox or (seated.throttled and seated.stream is not None and seated.stream.pending):
                return "samples"
        for seated in group.seated:
            reader = seated.reader
            if reader is not None and (reader.token == 0 or (self._sync and reader.token == seated.sent_at_token)):
                return "parameters"
        return None

    def _ask(self, group: Group) -> None:
        for seated in group.seated:
            # Inline answers must come from the newest parameters and are made when they are needed.
            if seated.reader is None:
                seated.player.ask()

    def _set_stage(self, group: Group) -> None:
        if group.stage != self._stage:
            group.stage = self._stage
            group.arena.set_curriculum_stage(group.stage)

    def _reset(self, group: Group) -> bool:
        self._set_stage(group)
        try:
            group.arena.reset()
        except Exception as error:  # whatever a user's environment raises
            self._survive(group, error)
            return False
        group.fresh = False
        self._ask(group)
        return True

    def _step(self, group: Group) -> None:
        actions: list[np.ndarray] = []
        for seated in group.seated:
            if seated.recorder.seq < seated.random_segments:
                actions.append(seated.player.act_randomly(group.rng.numpy))
                continue
            if seated.reader is not None:
                seated.player.ask()
            actions.append(seated.player.act())
        try:
            outcome = group.arena.step(actions)
        except Exception as error:  # whatever a user's environment raises
            self._survive(group, error)
            return
        for seated, stepped in zip(group.seated, outcome, strict=True):
            if len(stepped.rows) == 0:
                continue
            self._steps += len(stepped.rows)
            if seated.stream is None:
                continue
            for segment in seated.recorder.add(stepped.rows, seated.player.complete(stepped), stepped.info):
                self._segments += 1
                seated.outbox.append(segment)
                seated.sent_at_token = seated.reader.token if seated.reader is not None else -1
        self._ask(group)

    def _survive(self, group: Group, error: Exception) -> None:
        """Make the environments of a group anew after one of them failed.

        Raises:
            EnvError: that has happened too often.
        """
        self._tolerance.note(error)
        group.renew()

    def _idle(self, reason: str) -> Progress:
        self._waited[reason] += self._since_last()
        return Progress.IDLE

    def _since_last(self) -> float:
        now = time.monotonic()
        passed, self._idle_since = now - self._idle_since, now
        return passed


def _deliver(group: Group) -> None:
    """Send what the group has made, as far as it is taken."""
    for seated in group.seated:
        if seated.stream is not None:
            seated.stream.poll()
            while seated.outbox and seated.stream.offer(seated.outbox[0]):
                seated.outbox.popleft()


class Tolerance:
    """Counts the failures of a worker's environments.

    Args:
        allowed: how many may happen.
        setting: what says so, for the error.
    """

    def __init__(self, allowed: int, setting: str) -> None:
        self._allowed, self._setting = allowed, setting
        self.count = 0
        self.last = ""
        """Traceback of the last failure."""

    def note(self, error: Exception) -> None:
        """Count a failure that is being handled.

        Raises:
            EnvError: that has happened too often.
        """
        self.count += 1
        self.last = traceback.format_exc()
        if self.count > self._allowed:
            raise EnvError(
                f"environments failed {self.count} times, more than {self._setting}={self._allowed} allows; the last "
                f"time: {error!r}"
            ) from error
