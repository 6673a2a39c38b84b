"""The folder of a fleet's run: one driver at a time, each with a number of its own; what plays there, as files."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from argosy.config import from_plain
from argosy.distributed.workers.evaluation import EvalResult
from argosy.errors import MALFORMED, CheckpointError, ConfigError
from argosy.files import claim, damage_named, make_folder, read_json, write_atomically
from argosy.run.fleet import write_agents
from argosy.run.folder import RunFolder
from argosy.run.machine import machine
from argosy.run.saved import Own, write_description

if TYPE_CHECKING:
    from argosy.distributed.fleet import Fleet
    from argosy.distributed.roles import Plan
    from argosy.distributed.specs import PolicySpec

HOW_TO_END = "end it first, e.g. by `argosy fleet stop`"


class FolderClaim:
    """Holds a run's folder for this driver until `release`, or until its process ends in whatever way.

    Args:
        directory: the folder; made if need be.
        name: of the fleet.
        resume: whether to go on with what is there.

    Raises:
        ConfigError: the folder holds a run and `resume` is not asked for, or the reverse; another driver has it; or it
            cannot be made.
        CheckpointError: nothing can be written there.
    """

    def __init__(self, directory: Path, name: str, *, resume: bool) -> None:
        if resume:
            self._check(directory, resume)
        make_folder(directory)
        self._file = claim(directory, HOW_TO_END)
        try:
            self._info = info = self._check(directory, resume)  # again: now it stays as it is
            with damage_named(info):
                self.generation = int(read_json(info)["generation"]) + 1 if resume else 0
                """Number of drivers that this run has had before."""
            host = socket.gethostname()
            content = {"name": name, "generation": self.generation, "pid": os.getpid(), "host": host}
            write_atomically(info, json.dumps(content).encode())
        except BaseException:
            self.release()
            raise
        (directory / "stop").unlink(missing_ok=True)

    @classmethod
    def check(cls, directory: Path, *, resume: bool) -> None:
        """Refuse beforehand what a claim would be refused for, before what is expensive starts."""
        if cls._check(directory, resume).exists():
            os.close(claim(directory, HOW_TO_END))

    def release(self) -> None:
        """Let the next driver have the folder."""
        os.close(self._file)

    def give_up(self) -> None:
        """Do so before anything has begun: a new run can be begun again."""
        if self.generation == 0:
            self._info.unlink()
        self.release()

    @staticmethod
    def _check(directory: Path, resume: bool) -> Path:
        """Return the file that says whose folder it is, which is there if the run is to be resumed, else not."""
        info = directory / "fleet.json"
        if resume and not info.exists():
            raise ConfigError(f"there is no fleet to resume in {str(directory)!r}")
        if not resume and info.exists():
            raise ConfigError(
                f"{str(directory)!r} holds a fleet already; go on with it by --resume (resume=True), or give the "
                "new one another name"
            )
        return info


def describe(plan: Plan) -> None:
    """Write what evaluation, films and `argosy.load` need to know: the policies, and who plays with which."""
    fleet = plan.fleet
    for name, spec in fleet.policies.items():
        folder = plan.directory / "parameters" / name
        folder.mkdir(parents=True, exist_ok=True)
        spec.experiment.save(folder / "config.json")
        seen = machine() | {"scale": _scale(fleet, spec)}
        write_atomically(RunFolder(folder).machine, json.dumps(seen).encode())
        policy = spec.policy if callable(spec.policy) else None
        write_description(folder, *plan.spaces_of(name), Own.of(policy, spec.args, spec.algorithm, spec.learns))
    agents = [(agent.policy, agent.agents, agent.frame_stack) for agent in fleet.agents]
    write_agents(plan.directory, next(iter(fleet.policies)), agents, fleet.env_args)


def _scale(fleet: Fleet, spec: PolicySpec) -> str:
    """Return by what a policy's run differs from one of the same experiment in a single process."""
    counts = {
        "actor": fleet.actors.count,
        "trainer": spec.trainers,
        "policy worker": spec.workers,
        "buffer": spec.buffers,
    }
    workers = ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in counts.items() if count)
    rule = f"{spec.staleness.rule} {spec.staleness.max_lag}" if spec.staleness.rule in ("drop", "throttle") else ""
    how = [f"rings of {fleet.actors.ring}" * (fleet.actors.ring > 1), "in sync" * fleet.sync, rule]
    return "; ".join([workers, *filter(None, how)])


def results_of(file: Path, learning: Iterable[str]) -> list[EvalResult]:
    """Return what a run has found so far, when it is resumed or trainers are started again.

    Lines that a dying driver left half-written go from the file, and those of versions that were lost.
    """
    saved = {name: saved_version(file.parent, name) for name in learning}
    results, lines = [], file.read_bytes().splitlines() if file.exists() else []
    for line in lines:
        with contextlib.suppress(*MALFORMED):
            result = from_plain(EvalResult, json.loads(line))
            if result.version <= saved.get(result.policy, result.version):
                results.append(result)
    if len(results) < len(lines):
        write_atomically(file, "".join(f"{json.dumps(asdict(result))}\n" for result in results).encode())
    return results


def saved_version(directory: Path, policy: str) -> float:
    """Return the version from which a policy's trainers go on, without a look at their replay buffers."""
    state_file = directory / f"trainer.{policy}.0.safetensors"
    if not state_file.exists():
        return -1
    with contextlib.suppress(SafetensorError, OSError, *MALFORMED):
        return int(_numbers(state_file)["algorithm"]["version"])
    return math.inf  # it is damaged, as the trainer will say


def saved_counters(state_file: Path) -> Mapping[str, int]:
    """Return what a trainer's state has counted, nothing where there is none that can be read."""
    with contextlib.suppress(SafetensorError, OSError, *MALFORMED):
        return {name: int(count) for name, count in _numbers(state_file)["counters"].items()}
    return {}


def _numbers(state_file: Path) -> Any:
    """Return a trainer's state without its arrays, the replay buffer among them."""
    with safe_open(state_file, framework="np") as file:
        return json.loads(file.metadata()["skeleton"])


def counted_before(status: Path) -> tuple[float, Mapping[str, Mapping[str, int]]]:
    """Return seconds and counters of a run's earlier drivers: shown until its trainers say how far they are."""
    counters = ("env_steps", "updates", "gradient_steps")
    with contextlib.suppress(CheckpointError, *MALFORMED):
        said = read_json(status)
        before_s = float(said["before_s"]) + float(said["wall_s"])
        return before_s, {what: {name: int(n) for name, n in said[what].items()} for what in counters}
    return 0.0, {what: {} for what in counters}
