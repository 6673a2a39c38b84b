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
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from argosy.collect.player import Player
from argosy.collect.recorder import Recorder
from argosy.collect.seats import Arena, Seat, Stepped
from argosy.distributed.host.base import Progress
from argosy.distributed.streams.inference import ParameterReader
from argosy.distributed.streams.samples import Outbox
from argosy.errors import ConfigError, EnvError
from argosy.rng import Rng

T = TypeVar("T")
_WAIT_S = 0.005


class Renewed(Protocol):
    """What belongs to a seat."""

    def renew(self, seat: Seat) -> None:
        """Go on at a seat of new environments; the episodes under way are cut short."""


SeatedT = TypeVar("SeatedT", bound=Renewed)


class Group(Generic[SeatedT]):
    """Environments that step together, made anew where one of them fails, and what belongs to their seats.

    Args:
        make_arena: makes the environments; again after a failure, with another seed.
        seat: makes what belongs to each seat.
        rng: of this group: seeds and random actions.
    """

    def __init__(self, make_arena: Callable[[int], Arena], seat: Callable[[Arena], list[SeatedT]], rng: Rng) -> None:
        self._make_arena, self.rng = make_arena, rng
        self.arena = make_arena(rng.draw_seed())
        self.seated = seat(self.arena)
        self.fresh = True
        """Whether the environments are new, and wait for a reset."""
        self.stage = ""
        """Of the curriculum, as the environments know it."""

    def set_stage(self, stage: str) -> None:
        """Let the environments know the stage of the curriculum."""
        if self.stage != stage:
            self.stage = stage
            self.arena.set_curriculum_stage(stage)

    def reset(self, tolerance: Tolerance) -> bool:
        """Start new episodes; False where an environment fails, and all are `fresh` again."""
        self.fresh = False
        self._attempt(self.arena.reset, tolerance)
        return not self.fresh

    def step(self, actions: Sequence[np.ndarray], tolerance: Tolerance) -> list[Stepped]:
        """Step; [] where an environment fails, and all are `fresh`."""
        return self._attempt(lambda: self.arena.step(actions), tolerance) or []

    def _attempt(self, call: Callable[[], T], tolerance: Tolerance) -> T | None:
        try:
            return call()
        except Exception as error:  # whatever a user's environment raises
            tolerance.note(error)
            with contextlib.suppress(Exception):  # it is broken already
                self.arena.close()
            self.arena = self._make_arena(self.rng.draw_seed())
            for seated, seat in zip(self.seated, self.arena.seats, strict=True):
                seated.renew(seat)
            self.fresh, self.stage = True, ""
            return None


@dataclass(eq=False)
class Seated:
    """One seat of one group: who plays, what is recorded, where it goes."""

    player: Player
    recorder: Recorder
    outbox: Outbox | None
    reader: ParameterReader | None
    random_steps: int
    """Transitions that are still to be made without the policy."""
    throttled: bool = False
    """Step on only when the last segment has been taken by its receiver."""
    sent_at_token: int = -1
    """Token of the parameters with which the last segment was made."""

    @property
    def acts_randomly(self) -> bool:
        """Whether the policy is not asked yet."""
        return self.random_steps > 0

    def renew(self, seat: Seat) -> None:
        """Play and record on at a seat of new environments."""
        self.player.renew(seat)
        self.recorder.cut()


class ActorWorker:
    """Plays.

    Args:
        groups: the ring.
        readers: keep the inline policies up to date.
        sync: after a segment, wait for parameters that were learned from it.
        in_step: all rows must complete a transition at each step, since trainers wait for several seats' segments, and
            the seats for them.
        env_failures: failures of environments to survive.
        stage: of the curriculum, "" without.
    """

    def __init__(
        self,
        groups: Sequence[Group[Seated]],
        readers: Sequence[ParameterReader],
        *,
        sync: bool = False,
        in_step: bool = False,
        env_failures: int = 100,
        stage: str = "",
    ) -> None:
        self._stage, self._in_step = stage, in_step
        self._ring = deque(groups)
        self._readers = readers
        self._sync, self._tolerance = sync, Tolerance(env_failures, "actors.env_failures")
        self._steps = self._segments = 0
        self._waited = {"inference": 0.0, "samples": 0.0, "parameters": 0.0}
        self._idle_since = time.monotonic()

    def poll(self) -> Progress:
        """Step the group at the head of the ring, if its actions are there."""
        for reader in self._readers:
            reader.poll()
        for group in self._ring:  # all, so that the first answers are waited for together
            if group.fresh:
                group.set_stage(self._stage)
                if not group.reset(self._tolerance):
                    return Progress.BUSY
                self._ask(group)
        for group in self._ring:  # all, or one that waits would keep back what another has made
            for seated in group.seated:
                if seated.outbox is not None:
                    seated.outbox.poll()
        group = self._ring[0]
        blocked = self._blocked_by(group)
        if blocked is not None:
            self._waited[blocked] += self._since_last()
            return Progress.IDLE
        group.set_stage(self._stage)
        if not all(seated.player.ready(_WAIT_S) for seated in group.seated):
            self._waited["inference"] += self._since_last()
            return Progress.BUSY  # it has waited already
        self._step(group)
        if not group.fresh:  # whose environments failed steps again: the groups make as many steps
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
            **{f"wait_{what}_s": waited for what, waited in self._waited.items()},
        }

    @property
    def survived(self) -> str:
        """Traceback of the last failure of an environment, "" if there was none."""
        return self._tolerance.last

    def close(self) -> None:
        """Close environments and streams."""
        for group in self._ring:
            group.arena.close()
            for seated in group.seated:
                seated.player.close()

    def _blocked_by(self, group: Group[Seated]) -> str | None:
        """Say what the group has to wait for before it may step."""
        for seated in group.seated:
            outbox = seated.outbox
            if outbox is not None and (outbox.waits or (seated.throttled and outbox.pending)):
                return "samples"
        for seated in group.seated:
            reader = seated.reader
            if reader is not None and (reader.token == 0 or (self._sync and reader.token == seated.sent_at_token)):
                return "parameters"
        return None

    def _ask(self, group: Group[Seated]) -> None:
        for seated in group.seated:
            # Inline answers must come from the newest parameters and are made when they are needed.
            if seated.reader is None and not seated.acts_randomly:
                seated.player.ask()

    def _step(self, group: Group[Seated]) -> None:
        actions: list[np.ndarray] = []
        for seated in group.seated:
            if seated.acts_randomly:
                actions.append(seated.player.act_randomly(group.rng.numpy))
                continue
            if seated.reader is not None:
                seated.player.ask()
            actions.append(seated.player.act())
        outcome = group.step(actions, self._tolerance)
        if group.fresh:
            return
        for seated, stepped in zip(group.seated, outcome, strict=True):
            if self._in_step and seated.outbox is not None and len(stepped.rows) < seated.player.seat.rows:
                raise ConfigError(
                    f"sync=True needs agents that act in every step, but {len(stepped.rows)} of "
                    f"{seated.player.seat.rows} have; actors and trainers would wait for each other. Leave out sync, "
                    "or let one actor (count=1, ring=1) play one AgentSpec for each policy"
                )
            if len(stepped.rows) == 0:
                continue
            self._steps += len(stepped.rows)
            seated.random_steps -= len(stepped.rows)
            if seated.outbox is None:
                continue
            for segment in seated.recorder.add(stepped.rows, seated.player.complete(stepped), stepped.info):
                self._segments += 1
                seated.outbox.send(segment)
                seated.sent_at_token = seated.reader.token if seated.reader is not None else -1
        self._ask(group)

    def _since_last(self) -> float:
        now = time.monotonic()
        passed, self._idle_since = now - self._idle_since, now
        return passed


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
        """Count a failure that is being handled; an EnvError says that it has happened too often."""
        self.last = traceback.format_exc()  # first: who reads the count from another thread reads this, too
        self.count += 1
        if self.count > self._allowed:
            raise EnvError(
                f"environments failed {self.count} times, more than {self._setting}={self._allowed} allows; the last "
                f"time: {error!r}"
            ) from error
