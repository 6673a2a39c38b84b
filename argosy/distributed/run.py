"""Run a fleet: start its workers, watch them, log what they say, stop when the work is done."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from argosy.config import to_plain
from argosy.distributed.curriculum import Curriculum
from argosy.distributed.fleet import Fleet
from argosy.distributed.folder import FolderClaim, counted_before, describe, results_of, saved_version
from argosy.distributed.host.base import Beat, Launcher, Repeated, ThreadLauncher
from argosy.distributed.host.supervisor import Failure, FleetError, Supervisor, check_resources
from argosy.distributed.roles import STORE, Plan, worker_name
from argosy.distributed.snapshot import Rates, Snapshot, Standstill, is_due, logged
from argosy.distributed.specs import PolicySpec
from argosy.distributed.store.parameters import ParameterStore
from argosy.distributed.workers.evaluation import EvalResult, Listener
from argosy.errors import CheckpointError
from argosy.files import append, write_atomically
from argosy.logger import Loggers
from argosy.run.folder import located
from argosy.run.loggers import make_loggers
from argosy.stacks import shown
from argosy.unread import warn_of_unread

_GENERATION = 1_000_000
"""Incarnations of each driver's workers: a resumed fleet starts counting at the next multiple."""
_BY_STEPS = ("env_steps reached", "updates reached")
_LAST_SHARE = 0.1
"""Of the time so far, that the last evaluation may take, or as long as a worker may hang, if that is more."""


class FleetRun:
    """Iterate to run the fleet: one `Snapshot` per turn, about one a second; the last one is `done`.

    Use it as a context manager, so that whatever happens no worker is left behind.

    Args:
        fleet: what to run.
        directory: folder of this run.
        launcher: where the workers run, closed by whoever made it; None: threads of this process.
        resume: go on with what is in the folder.
        interval_s: seconds between two snapshots.

    Raises:
        ConfigError: the folder holds a run and `resume` is not asked for, or the reverse; another driver is at it; or
            the description does not fit the environment or the cluster's resources.
        CheckpointError: a policy does not fit to what it has learned in the folder.
        FleetError: (while it runs) a worker failed too often, or what the workers run on is gone.
    """

    def __init__(
        self,
        fleet: Fleet,
        directory: str | Path,
        launcher: Launcher | None = None,
        *,
        resume: bool = False,
        interval_s: float = 1.0,
    ) -> None:
        directory = Path(directory).absolute()  # an environment may change the working directory
        fleet = dataclasses.replace(fleet, policies={name: _located(spec) for name, spec in fleet.policies.items()})
        self.fleet, self.directory = fleet, directory
        self._launcher = launcher or ThreadLauncher()
        self._interval_s = interval_s
        self._closed = False
        for spec in fleet.policies.values():
            warn_of_unread(spec.experiment, tests_after_epochs=False)
        plan = Plan.make(fleet, directory)
        roles = plan.roles()
        check_resources(self._launcher, {role.name: role.resources for role in roles})
        for spec in fleet.policies.values():
            spec.experiment.to_dict()  # before anything is written: it may hold what JSON cannot
        learning = {name: spec.trainers for name, spec in fleet.policies.items() if spec.learns}
        self._trainers = {n: [worker_name("trainer", n, i) for i in range(count)] for n, count in learning.items()}
        actors = [self._launcher.connect(worker_name("actor", i)) for i in range(fleet.actors.count)]
        self._evaluators = [worker_name("eval", i) for i in range(fleet.evaluation.count)]
        evaluators = [self._launcher.connect(name) for name in self._evaluators]
        self._claim = FolderClaim(directory, fleet.name, resume=resume)
        with contextlib.ExitStack() as on_error:
            on_error.callback(self._claim.give_up)
            plan.check_kept()
            describe(plan)
            self.curriculum = Curriculum(fleet.curriculum, directory, [*actors, *evaluators])
            self._logger = None if resume else self._make_loggers()
            on_error.pop_all()
        self.supervisor = Supervisor(
            self._launcher,
            roles,
            fleet.restart,
            on_failure=self._note_failure,
            first_incarnation=self._claim.generation * _GENERATION,
        )
        self._before_s, self._before = counted_before(directory / "status.json")
        self._results_file = directory / "evaluations.jsonl"
        self._listeners = [Listener(peer) for peer in evaluators]
        self._survived: dict[str, float] = {}  # failures of environments that each worker counts
        self._stats: dict[str, Mapping[str, float]] = {}
        self._standstill = Standstill(fleet.experiment.trainer.standstill_s)
        self._started, self._threads = time.monotonic(), torch.get_num_threads()
        self._rates = Rates()
        self.last: Snapshot | None = None  # the newest one; after `close` with all that was done
        self._logged_s, self._logged_steps = 0.0, 0
        self._restarts: dict[str, int] = {}  # of the first trainer of each policy
        self._saved: dict[str, float] = {}  # versions from which restarted trainers go on, until the store does, too
        self._take_up(self._trainers)
        self._heard = False  # of all trainers, how far they are
        self._lost = self._failed = ""

    def __enter__(self) -> FleetRun:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Snapshot]:
        while True:
            try:
                snapshot = self._wait()
                write_atomically(self.directory / "status.json", snapshot.to_json().encode())
            except FleetError as error:
                self._failed = str(error).splitlines()[0]
                raise
            except CheckpointError as error:
                raise CheckpointError(
                    f"the fleet ends: {error}. When there is room, go on with it (--resume)"
                ) from error
            self.supervisor.pause()  # whoever takes the snapshot may take their time
            yield snapshot
            if snapshot.done:
                return

    def run(self) -> Snapshot:
        """Run to the end and stop everything; returns the last snapshot."""
        with self:
            *_, last = self
        return self.last or last

    @property
    def results(self) -> list[EvalResult]:
        """All evaluations of this run so far, oldest first; they are in the folder's evaluations.jsonl, too."""
        return list(self._results)

    def best(self, policy: str) -> EvalResult | None:
        """Return the best evaluation of a policy in the present stage of the curriculum, None before the first."""
        own = [one for one in self._results if (one.policy, one.stage) == (policy, self.curriculum.stage)]
        return max(own, key=lambda result: result.return_mean, default=None)

    def store(self) -> ParameterStore:
        """Return the versions that are kept, read from the folder; e.g. `.get("ppo", "best")`."""
        return ParameterStore(self.directory / "parameters")

    def close(self) -> None:
        """Stop all workers; trainers save what they have learned. Calling twice is allowed."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self._lost:  # then there is nobody who could tell them, but for what stops them
                self._finish_trainers()
                if self.last is not None and self.last.reason in _BY_STEPS and self._listeners:
                    self._evaluate_last()
        finally:
            self.supervisor.stop()
            self._claim.release()
            torch.set_num_threads(self._threads)  # workers in threads have set them, see `Plan`
            if self.last is not None:
                reason = self.last.reason or self._lost or self._failed or "stopped"
                with contextlib.suppress(CheckpointError):  # there is an older one
                    last = self.last if self._lost else self._snapshot()
                    self.last = dataclasses.replace(last, done=True, reason=reason, standstill="")
                    self._log(self.last)
                    write_atomically(self.directory / "status.json", self.last.to_json().encode())
            if self._logger is not None:
                self._logger.close()

    def _finish_trainers(self) -> None:
        """Let the trainers save; those of a group must stop after the same update, or one would wait for another."""
        names = [name for own in self._trainers.values() for name in own]
        told: set[tuple[str, int, bool]] = set()
        timeout_s = self.fleet.restart.watchdog_s  # who takes longer for an update counts as hanging
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            states, restarts = self.supervisor.states(), self.supervisor.restarts()
            alone = states[STORE] == "stopped"  # it has failed too often
            running = {(name, restarts[name], alone) for name in names if states[name] == "running"}
            if not running and not (told and any(states[name] == "starting" for name in names)):
                return
            for name, *_ in running - told:  # one that is started again has to be told again
                self._launcher.connect(name).call("finish", alone)
            told |= running
            try:
                self.supervisor.poll()
                self._hear_evaluations()
            except CheckpointError:  # there is no room to write down what was found or has failed: nor to save
                return
            except FleetError:
                pass
            time.sleep(0.05)
        else:
            late = ", ".join(sorted({name for name, *_ in running}))
            warnings.warn(
                f"fleet {self.fleet.name!r}: {late} did not end within {timeout_s:g} s (restart.watchdog_s); what was "
                "learned since the last saved state is lost",
                stacklevel=3,
            )

    def _evaluate_last(self) -> None:
        """Let what the trainers have published last be evaluated, too, unless that takes unusually long."""
        beats, passed_s = self.supervisor.beats(), time.monotonic() - self._started
        versions = {n: beats[own[0]].stats.get("version", -1) for n, own in self._trainers.items() if own[0] in beats}
        tell = [Repeated(partial(self._launcher.connect(name).call, "hurry")) for name in self._evaluators]
        left_s = (self.fleet.ends.wall_s or math.inf) - passed_s
        deadline = time.monotonic() + min(left_s, max(self.fleet.restart.watchdog_s, _LAST_SHARE * passed_s))
        with contextlib.suppress(FleetError, CheckpointError):  # who evaluates has failed, or there is no room
            while time.monotonic() < deadline and not (self.directory / "stop").exists():
                self.supervisor.poll()
                self._hear_evaluations()
                if all(name in self._newest and self._newest[name].version >= v for name, v in versions.items()):
                    return
                tell = [call for call in tell if call.poll() is None]
                time.sleep(0.05)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _wait(self) -> Snapshot:
        """Look after the workers until the next snapshot is due, or the work is done."""
        due = time.monotonic() + self._interval_s
        while True:
            self._check_launcher()
            self.supervisor.poll()
            snapshot = self._snapshot()
            if snapshot.done or time.monotonic() >= due:
                if snapshot.standstill and not (self.last and self.last.standstill):
                    self._warn(snapshot.standstill)
                self._log(snapshot)
                self.last = snapshot
                self._rates.add(snapshot)
                return snapshot
            time.sleep(0.05)

    def _check_launcher(self) -> None:
        """End a fleet whose workers have nothing to run on any more; say what is gone and kept, and how to go on."""
        self._lost = self._launcher.lost()
        if self._lost:
            bounds = [f"{spec.save_updates} of {n!r}" for n, spec in self.fleet.policies.items() if spec.learns]
            raise FleetError(
                f"fleet {self.fleet.name!r} cannot go on: {self._lost}. What it has learned is in "
                f"{str(self.directory)!r}, but for the last updates, about {', '.join(bounds) or 'none'} "
                "(save_updates); go on with --resume (resume=True)"
            )

    def _warn(self, standstill: str) -> None:
        """Say that nothing moves, and write down where every worker is."""
        log = self.directory / "standstill.log"
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        with contextlib.suppress(CheckpointError):  # a full disk: the warning is what counts
            append(log, f"{when} {standstill}\n{shown(self.supervisor.stacks()).rstrip()}")
        warnings.warn(f"fleet {self.fleet.name!r}: {standstill}; where each worker is: {str(log)!r}", stacklevel=5)

    def _snapshot(self) -> Snapshot:
        self._hear_evaluations()
        beats, states, restarts = self.supervisor.beats(), self.supervisor.states(), self.supervisor.restarts()
        workers: dict[str, dict[str, Any]] = {}
        for name, state in states.items():
            workers[name] = {"state": state, "restarts": restarts[name]}
            if (beat := beats.get(name)) is not None:
                workers[name] |= {"pid": beat.pid, "node": beat.node}
                self._stats[name] = beat.stats or self._stats.get(name, {})
                self._note_survived(name, beat)
            workers[name] |= self._stats.get(name, {})  # a worker that is being restarted has done what it has done
        trainers = {name: [workers[one] for one in own] for name, own in self._trainers.items()}
        wall_s = time.monotonic() - self._started
        heard = {name: own for name, own in trainers.items() if all("updates" in one for one in own)}
        self._heard = len(heard) == len(trainers)

        def counted(what: str, by: int | None) -> dict[str, int]:
            """Return a counter of each policy's trainers, or of the first `by` of them."""
            said = {name: sum(int(one[what]) for one in own[:by]) for name, own in heard.items()}
            return {name: self._before[what].get(name, 0) for name in trainers} | said

        snapshot = Snapshot(
            wall_s=wall_s,
            before_s=self._before_s,
            env_steps=counted("env_steps", None),
            updates=counted("updates", 1),
            gradient_steps=counted("gradient_steps", 1),
            evaluations=dict(self._newest),
            workers=workers,
            stage=self.curriculum.stage,
        )
        steps_per_s, updates_per_s = self._rates.of(snapshot)
        reason, awake_s = self._reason_to_stop(snapshot), wall_s - self.supervisor.suspended_s
        return dataclasses.replace(
            snapshot,
            steps_per_s=steps_per_s,
            updates_per_s=updates_per_s,
            done=reason != "",
            reason=reason,
            standstill="" if reason else self.supervisor.unplaced() or self._standstill.look(workers, awake_s),
        )

    def _hear_evaluations(self) -> None:
        self._forget_lost()
        for listener in self._listeners:
            for result in listener.poll():
                if result.version > self._saved.get(result.policy, math.inf):
                    continue
                self._results.append(result)
                append(self._results_file, json.dumps(dataclasses.asdict(result)))
                self._note(result)
        self.curriculum.poll()

    def _forget_lost(self) -> None:
        """Forget evaluations of versions that a trainer had not saved: the next one gives their numbers to others."""
        beats, restarts = self.supervisor.beats(), self.supervisor.restarts()
        for name, (leader, *_) in self._trainers.items():
            if restarts[leader] > self._restarts.get(name, 0):
                self._restarts[name], self._saved[name] = restarts[leader], saved_version(self.directory, name)
                self._take_up([name])
            elif leader in beats and "updates_lost" in beats[leader].stats:  # the store has forgotten them, too
                self._saved.pop(name, None)

    def _take_up(self, policies: Iterable[str]) -> None:
        """Go on from what was found so far, but of these policies only for versions that are saved."""
        self._results = results_of(self._results_file, policies)
        self._tested = list(self._results)  # those that are in the record
        self._newest: dict[str, EvalResult] = {}
        self._reached: set[str] = set()
        self.curriculum.forget()
        for result in self._results:  # what a policy has reached then counts on
            self._note(result)

    def _note(self, result: EvalResult) -> None:
        self._newest[result.policy] = result
        in_last_stage = self.curriculum.is_last and result.stage == self.curriculum.stage
        if in_last_stage and self.fleet.is_reached(result.policy, result.return_mean, result.episodes):
            self._reached.add(result.policy)
        self.curriculum.hear(result)

    def _reason_to_stop(self, snapshot: Snapshot) -> str:
        stop, wanted = self.fleet.ends, self.fleet.wanted
        if (self.directory / "stop").exists():
            return "asked to stop"
        if wanted and self._reached >= set(wanted):
            return "return reached"
        if self._heard and stop.env_steps is not None and min(snapshot.env_steps.values(), default=0) >= stop.env_steps:
            return "env_steps reached"
        if self._heard and stop.updates is not None and min(snapshot.updates.values(), default=0) >= stop.updates:
            return "updates reached"
        if stop.wall_s is not None and snapshot.wall_s >= stop.wall_s:
            return "wall_s reached"
        states = {worker["state"] for name, worker in snapshot.workers.items() if name.startswith("trainer.")}
        return "all trainers are done" if states == {"done"} else ""

    def _make_loggers(self, resume_step: int | None = None) -> Loggers:
        description = {name: to_plain(spec.experiment) for name, spec in self.fleet.policies.items()}
        return make_loggers(self.fleet.experiment.logger, self.directory, description, resume_step)

    def _log(self, snapshot: Snapshot) -> None:
        steps = max(snapshot.env_steps.values(), default=0)
        if self._logger is not None and steps < self._logged_steps:  # a trainer has lost what was logged beyond
            self._logger.close()
            self._logger = None
        if self._logger is None:  # where the trainers go on is known when they have said it
            if not self._heard:
                return
            self._logger, self._logged_steps = self._make_loggers(steps), steps
        if not is_due(snapshot, self._logged_s, self._tested):
            return
        self._logged_s, self._logged_steps = snapshot.total_wall_s, steps
        metrics = logged(snapshot, self.fleet.policies, self._tested)
        self._logger.log(metrics, env_step=steps, gradient_step=max(snapshot.gradient_steps.values(), default=0))
        self._tested = list(snapshot.evaluations.values())

    def _note_survived(self, name: str, beat: Beat) -> None:
        """Write down the last failure of a worker's environments, if one has failed since the last time."""
        count = beat.stats.get("env_failures", 0.0)
        if count > 0.0 and count != self._survived.get(name, 0.0):
            reason = f"an environment failed, {count:.0f} so far; the worker goes on"
            failure = Failure(role=name, incarnation=-1, time=time.time(), reason=reason, traceback=beat.survived)
            self._note_failure(failure)
        self._survived[name] = count

    def _note_failure(self, failure: Failure) -> None:
        append(self.directory / "failures.jsonl", json.dumps(dataclasses.asdict(failure)))


def _located(spec: PolicySpec) -> PolicySpec:
    """Return a policy that finds what it begins or plays with from any folder."""
    played = None if spec.load is None else os.path.realpath(spec.load)
    return dataclasses.replace(spec, experiment=located(spec.experiment), load=played)
