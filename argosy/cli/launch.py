"""`argosy launch FILE`: run a fleet, on this machine or on a Ray cluster, with a live view."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import tyro

from argosy.cli.fleetview import Screen, view
from argosy.errors import ConfigError

if TYPE_CHECKING:
    from argosy.distributed.fleet import Fleet
    from argosy.distributed.host.base import Launcher
    from argosy.distributed.run import FleetRun
    from argosy.distributed.snapshot import Snapshot


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
    """Run the fleet that a Python file describes."""

    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Python file that defines `fleet = argosy.distributed.Fleet(...)`."""
    address: str | None = None
    """Ray cluster to run on (auto: the one of this machine); None: a local one."""
    in_threads: bool = False
    """Run all workers in this process, without Ray."""
    resume: bool = False
    """Go on with the run of this fleet's name."""
    name: str | None = None
    """Name of the run, instead of the file's."""
    runs: str = "runs/fleet"
    """Folder of all fleets' runs."""
    json: bool = False
    """Print one line of JSON last, the view to standard error."""

    def __call__(self) -> int:
        """Run the command."""
        if self.in_threads and self.address:
            raise ConfigError("--in-threads runs in this process; --address names a cluster: give one of them")

        from argosy.distributed.fleet import Fleet
        from argosy.distributed.folder import FolderClaim
        from argosy.distributed.run import FleetRun

        module = load(self.file)
        fleet = getattr(module, "fleet", None)
        if not isinstance(fleet, Fleet):
            raise ConfigError(f"{self.file!r} defines no `fleet = argosy.distributed.Fleet(...)`")
        if self.name:
            fleet = dataclasses.replace(fleet, name=self.name)
        directory = Path(self.runs) / fleet.name
        FolderClaim.check(directory, resume=self.resume)
        launcher = _launcher(fleet, module, self.address, self.in_threads)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with FleetRun(fleet, directory, launcher, resume=self.resume) as run:
                return _watch(run, self.json)
        finally:
            launcher.close()


def load(file: str) -> ModuleType:
    """Import a Python file."""
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"there is no file {file!r}")
    spec = importlib.util.spec_from_file_location(f"argosy_fleet_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file!r} is no Python file: its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(path.resolve().parent))  # what lies beside it can be imported, as from any script
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file!r} is no Python file: {error}") from error
    return module


def _launcher(fleet: Fleet, module: ModuleType, address: str | None, in_threads: bool) -> Launcher:
    from argosy.distributed.host.base import ThreadLauncher

    if in_threads:
        return ThreadLauncher()
    from argosy.distributed.host.ray import RayLauncher, ship_module

    ship_module(module)
    # One machine is there to try things out: more workers than cores are slow, but right.
    cpus = max(float(os.cpu_count() or 1), fleet.num_cpus())
    return RayLauncher(address, namespace=f"argosy-{fleet.name}", num_cpus=None if address else math.ceil(cpus))


def _watch(run: FleetRun, as_json: bool) -> int:
    stream = sys.stderr if as_json else sys.stdout
    screen = Screen(stream) if stream.isatty() else None
    interrupted = False
    shown: deque[Snapshot] = deque(maxlen=10)  # numbers of a second jump
    print(f"argosy: fleet {run.fleet.name!r} in {run.directory}", file=stream, flush=True)
    try:
        for last in run:
            if screen is not None:
                failures = [f"! {failure.role} {failure.reason}" for failure in run.supervisor.failures[-3:]]
                title = f"fleet {run.fleet.name}"
                before = shown[0] if shown else None
                screen.show([*view(title, last, before, env_steps=run.fleet.ends.env_steps), *failures])
                shown.append(last)
            elif int(last.wall_s) % 10 == 0 or last.done:
                print(line(last), file=stream, flush=True)
    except KeyboardInterrupt:
        interrupted = True
        print("argosy: stopping the workers ...", file=stream, flush=True)
    run.close()
    if interrupted:
        print(f"stopped; what was learned is saved in {run.directory}. Go on with --resume", file=stream)
    if as_json and run.last is not None:
        print(json.dumps(result(run, run.last)), flush=True)
    return 130 if interrupted else 0


def result(run: FleetRun, snapshot: Snapshot) -> dict[str, object]:
    """Return what --json prints: the keys of `argosy train`; with several policies some of them are by policy."""
    specs, wall_s = run.fleet.policies, round(snapshot.total_wall_s, 3)
    best = {name: run.best(name) for name in specs}

    def by_policy(values: Mapping[str, object]) -> object:
        return values[next(iter(specs))] if len(specs) == 1 else dict(values)

    return {
        "algorithm": by_policy({name: spec.experiment.algorithm for name, spec in specs.items()}),
        "task": run.fleet.experiment.task,
        "seed": run.fleet.experiment.seed,
        "env_steps": by_policy(snapshot.env_steps),
        "gradient_steps": by_policy(snapshot.gradient_steps),
        "wall_s": wall_s,
        "steps_per_s": round(max(snapshot.env_steps.values(), default=0) / max(wall_s, 1e-9), 1),
        "test_return_mean": by_policy({name: None if r is None else r.return_mean for name, r in best.items()}),
        "test_return_std": by_policy({name: None if r is None else r.return_std for name, r in best.items()}),
        "run_dir": str(run.directory),
        "reason": snapshot.reason,
        "restarts": sum(int(worker["restarts"]) for worker in snapshot.workers.values()),
    }


def line(snapshot: Snapshot) -> str:
    """Say in one line how the fleet is doing."""
    parts = [f"{snapshot.wall_s:6.0f} s", f"{snapshot.steps_per_s:,.0f} steps/s"]
    for name, steps in snapshot.env_steps.items():
        parts.append(f"{name}: {steps:,} steps, {snapshot.updates[name]:,} updates")
        if name in snapshot.evaluations:
            parts.append(f"return {snapshot.evaluations[name].return_mean:.1f}")
    parts.append(snapshot.standstill or snapshot.bottleneck())
    if snapshot.done:
        parts.append(snapshot.reason)
    return ", ".join(parts)
