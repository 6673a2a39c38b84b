"""Keep workers alive: heartbeats, a watchdog, restarts with back-off and a budget; the first traceback is kept."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Literal

from argosy.config import Checked, limited
from argosy.distributed.host.base import Beat, Build, Handle, Launcher, PeerLostError, Resources, end
from argosy.errors import ArgosyError, ConfigError

_LAST_WORDS_S = 1.0
_PLACED_S = 5.0
"""A worker that was not placed by then is looked for a node; also the time between two looks."""
_GAP_S = 2.0
"""Between two polls, after which this process was suspended, and perhaps all workers with it (docker pause, Ctrl-Z)."""
State = Literal["starting", "running", "done", "waiting", "stopped"]


class FleetError(ArgosyError, RuntimeError):
    """A worker failed more often than its budget allows; the message holds its traceback."""


@dataclass(frozen=True, kw_only=True)
class RestartConfig(Checked):
    """When and how often failed workers are started again."""

    budget: int = limited(10, ge=0)
    """Restarts of one worker within `window_s` before the fleet gives up."""
    window_s: float = limited(600.0, gt=0.0)
    """Seconds after which a restart counts no more."""
    backoff_s: float = limited(0.2, gt=0.0)
    """Seconds before the first restart; doubles with each one within the window."""
    max_backoff_s: float = limited(30.0, gt=0.0)
    """Longest wait before a restart."""
    beat_s: float = limited(0.5, gt=0.0)
    """Seconds between two questions how a worker is."""
    silence_s: float = limited(20.0, gt=0.0)
    """Seconds without an answer after which a worker counts as dead."""
    watchdog_s: float = limited(60.0, gt=0.0)
    """Seconds that one poll may take before the worker counts as hanging."""
    start_s: float = limited(120.0, gt=0.0)
    """Seconds that starting a worker may take."""
    failed_starts: int = limited(3, ge=1)
    """Starts of one worker in a row that may fail before the fleet gives up, however long they take."""


@dataclass(frozen=True)
class Role:
    """A worker to keep alive."""

    name: str
    build: Build
    resources: Resources = field(default_factory=Resources)
    group: str = ""
    """Workers of one group cannot go on without each other: when one fails, all are started again. "": none."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One worker's end that nobody asked for, or that of an environment which the worker survived (incarnation -1)."""

    role: str
    incarnation: int
    time: float
    """Seconds since 1970."""
    reason: str
    traceback: str


@dataclass
class _Charge:
    """A role and what is known of it now."""

    role: Role
    state: State = "waiting"
    handle: Handle | None = None
    incarnation: int = -1
    due: float = 0.0  # when waiting: start then; when running: ask then
    asked: Future[Beat] | None = None
    asked_at: float = 0.0
    started_at: float = 0.0
    beat: Beat | None = None
    restarts: deque[float] = field(default_factory=deque)
    failed_starts: int = 0
    """In a row."""

    @property
    def never_heard(self) -> bool:
        """Whether it was started and has given no sign of life yet."""
        return self.state == "starting" and self.beat is None


class Supervisor:
    """Starts roles with a launcher and starts those again that fail. Call `poll` a few times a second.

    Args:
        launcher: where the workers run.
        roles: the workers.
        config: how patient to be.
        on_failure: told of every failure, e.g. to log it.
        first_incarnation: number of each worker's first start; a resumed run takes one that was never used.
    """

    def __init__(
        self,
        launcher: Launcher,
        roles: Sequence[Role],
        config: RestartConfig | None = None,
        *,
        on_failure: Callable[[Failure], None] = lambda failure: None,
        first_incarnation: int = 0,
    ) -> None:
        self.config = config or RestartConfig()
        self.failures: list[Failure] = []
        self._launcher, self._on_failure = launcher, on_failure
        self._first = first_incarnation
        self._charges = {role.name: _Charge(role, incarnation=first_incarnation - 1) for role in roles}
        self._unplaced, self._looked_at = "", 0.0
        self._polled_at = math.inf
        self._gaps: list[tuple[float, float]] = []  # when one ended, and how long it was

    @property
    def suspended_s(self) -> float:
        """Seconds in which this process was suspended."""
        return sum(gap for _, gap in self._gaps)

    def pause(self) -> None:
        """Hear that `poll` will not be called for a while: that is no suspension."""
        self._polled_at = math.inf

    def poll(self) -> None:
        """Start what is due, ask how the others are, and deal with the answers.

        Raises:
            FleetError: a worker's budget is used up.
        """
        now = time.monotonic()
        if now - self._polled_at > _GAP_S:
            self._gaps.append((now, now - self._polled_at))
        self._polled_at = now
        for charge in self._charges.values():
            if charge.state == "waiting" and now >= charge.due:
                self._start(charge, now)
            elif charge.asked is not None:
                self._hear(charge, charge.asked, now)
            elif charge.handle is not None and now >= charge.due:
                charge.asked, charge.asked_at = charge.handle.beat(), now

    def beats(self) -> Mapping[str, Beat]:
        """Return the last sign of life of each worker that gave one."""
        return {name: charge.beat for name, charge in self._charges.items() if charge.beat is not None}

    def states(self) -> Mapping[str, State]:
        """Return what each worker is doing."""
        return {name: charge.state for name, charge in self._charges.items()}

    def restarts(self) -> Mapping[str, int]:
        """Return how often each worker was started again."""
        return {name: max(0, charge.incarnation - self._first) for name, charge in self._charges.items()}

    def unplaced(self) -> str:
        """Say which workers wait in vain for a node that has what they ask for, and for what; "" if none does."""
        now = time.monotonic()
        late = [
            charge.role
            for charge in self._charges.values()
            if charge.never_heard and now - charge.started_at > _PLACED_S
        ]
        if now - self._looked_at > _PLACED_S:  # the nodes are asked for over the network
            nodes, self._looked_at = self._launcher.nodes() if late else None, now
            self._unplaced = "; ".join(filter(None, (lacking(role.name, role.resources, nodes) for role in late)))
        return self._unplaced if late else ""

    def stacks(self, timeout_s: float = 5.0) -> dict[str, str]:
        """Return where each worker is, by name, as far as they tell within `timeout_s`."""
        asked = {name: charge.handle.stack() for name, charge in self._charges.items() if charge.handle is not None}
        wait(asked.values(), timeout_s)
        return {name: _told(stack) for name, stack in asked.items()}

    def stop(self, timeout_s: float = 5.0) -> None:
        """End all workers, giving them `timeout_s` to close, all at the same time."""
        end([charge.handle for charge in self._charges.values() if charge.handle is not None], timeout_s)
        for charge in self._charges.values():
            charge.handle, charge.asked, charge.state = None, None, "stopped"

    def _start(self, charge: _Charge, now: float) -> None:
        charge.incarnation += 1
        role = charge.role
        charge.handle = self._launcher.start(role.name, charge.incarnation, role.build, role.resources)
        charge.state, charge.beat, charge.asked = "starting", None, None
        charge.started_at = charge.due = now

    def _hear(self, charge: _Charge, asked: Future[Beat], now: float) -> None:
        config = self.config
        if not asked.done():
            # Before the first beat the actor may still be waiting for its node's resources or importing torch.
            limit = "start_s" if charge.beat is None else "silence_s"
            if self._awake_s(charge.asked_at, now) > (patience := getattr(config, limit)):
                self._failed(charge, now, f"gave no sign of life for {patience:.0f} s (restart.{limit})", "")
            return
        charge.asked, charge.due = None, now + config.beat_s
        fault = _fault(asked)
        if fault is not None:
            self._failed(charge, now, *fault)
            return
        beat = charge.beat = asked.result()
        limit = "watchdog_s" if beat.ready else "start_s"
        if self._awake_s(now - beat.busy_s, now) > getattr(config, limit):
            assert charge.handle is not None
            self._failed(
                charge, now, f"hangs for {beat.busy_s:.0f} s (restart.{limit})", _told(charge.handle.stack(), 5.0)
            )
        else:
            charge.state = "done" if beat.done else "running" if beat.ready else "starting"

    def _awake_s(self, since: float, now: float) -> float:
        """Return the seconds that have passed, but for those in which this process was suspended."""
        return now - since - sum(gap for end, gap in self._gaps if end > since)

    def _failed(self, charge: _Charge, now: float, reason: str, traceback: str) -> None:
        name, config = charge.role.name, self.config
        group = [c for c in self._charges.values() if c is charge or c.role.group == charge.role.group != ""]
        self._note(charge, reason, traceback)
        for other in group:
            if other is not charge and other.handle is not None:
                fault = _fault(other.handle.beat(), _LAST_WORDS_S)  # perhaps this one has failed because of that one
                if fault is not None:
                    self._note(other, *fault)
                    traceback += f"\nworker {other.role.name!r} of its group {fault[0]}:\n{fault[1]}"
        while charge.restarts and now - charge.restarts[0] > config.window_s:
            charge.restarts.popleft()
        charge.failed_starts = charge.failed_starts + 1 if charge.state == "starting" else 0
        wrong = reason.startswith("raised argosy.errors.ConfigError")
        spent = wrong or len(charge.restarts) >= config.budget or charge.failed_starts >= config.failed_starts
        too_often = "no restart would help" if wrong else self._too_often(charge) if spent else ""
        pause = min(config.max_backoff_s, config.backoff_s * 2 ** len(charge.restarts))
        for one in group:
            if one.handle is not None:
                one.handle.kill()
            one.handle, one.asked, one.state = None, None, "stopped" if spent else "waiting"
            one.due = max(one.due, now + pause)
        if spent:
            raise FleetError(f"worker {name!r} {reason}; {too_often}. Its last traceback:\n{traceback}")
        charge.restarts.append(now)

    def _too_often(self, charge: _Charge) -> str:
        config, role = self.config, charge.role
        said = f"{charge.failed_starts} starts in a row have failed, more are not allowed (restart.failed_starts)"
        if len(charge.restarts) >= config.budget:
            said = f"it was restarted {len(charge.restarts)} times within {config.window_s:.0f} s"
            said += ", more are not allowed (restart.budget)"
        why = lacking(role.name, role.resources, self._launcher.nodes() if charge.never_heard else None)
        return f"{said}; {why}" if why else said

    def _note(self, charge: _Charge, reason: str, traceback: str) -> None:
        failure = Failure(
            role=charge.role.name,
            incarnation=charge.incarnation,
            time=time.time(),
            reason=reason,
            traceback=traceback,
        )
        self.failures.append(failure)
        self._on_failure(failure)


def _told(stack: Future[str], timeout_s: float = 0.0) -> str:
    """Return a worker's answer, or why there is none in time."""
    wait([stack], timeout_s)
    if not stack.done():
        return "(it does not answer)"
    error = stack.exception()
    return stack.result() if error is None else f"(it cannot be asked: {error})"


def _fault(asked: Future[Beat], timeout_s: float = 0.0) -> tuple[str, str] | None:
    """Return why a worker has failed and its traceback, None if it has not, or does not answer in time."""
    wait([asked], timeout_s)
    if not asked.done():
        return None
    try:
        beat = asked.result()
    except Exception as error:  # the actor is gone, or what it says cannot be understood
        return "died" if isinstance(error, PeerLostError) else f"did not say how it is: {error!r}", str(error)
    if beat.error is None:
        return None
    lines = beat.error.strip().splitlines()  # the error's own text may have several
    named = (line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line))
    return "raised " + next(named, lines[-1]), beat.error


def check_resources(launcher: Launcher, wanted: Mapping[str, Resources]) -> None:
    """Refuse a fleet that the cluster can never hold.

    Raises:
        ConfigError: names what is asked for and what there is.
    """
    nodes = launcher.nodes()
    if nodes is None:
        return
    for name, resources in wanted.items():
        if why := lacking(name, resources, nodes):
            raise ConfigError(why)
    in_all, total = _sum([resources.amounts() for resources in wanted.values()]), _sum(nodes)
    if not _fits(in_all, total):
        raise ConfigError(
            f"the fleet's {len(wanted)} workers ask for {_shown(in_all)} in all, the cluster has {_shown(total)}; use "
            "fewer workers, smaller shares (Resources), or more machines"
        )


def lacking(name: str, resources: Resources, nodes: Sequence[Mapping[str, float]] | None) -> str:
    """Say what a worker asks for, and what there is, if no node has as much; "" where one has, in use or not."""
    asked = resources.amounts()
    if nodes is None or any(_fits(asked, node) for node in nodes):
        return ""
    there = "; ".join(map(_shown, nodes)) or "no nodes"
    return f"worker {name!r} asks for {_shown(asked)}, and no node has as much; there are {there}"


def _fits(asked: Mapping[str, float], has: Mapping[str, float]) -> bool:
    return all(amount <= has.get(key, 0.0) + 1e-9 for key, amount in asked.items())


def _sum(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    keys = sorted({key for part in parts for key in part})
    return {key: sum(part.get(key, 0.0) for part in parts) for key in keys}


def _shown(amounts: Mapping[str, float]) -> str:
    """Say amounts in words; Ray's own names of nodes, with a colon, are nobody's to ask for."""
    return ", ".join(f"{amount:g} {key}" for key, amount in amounts.items() if amount and ":" not in key) or "nothing"
