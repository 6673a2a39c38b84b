"""`argosy fleet status [NAME]`, `argosy fleet stop NAME`: look at running fleets, or end one."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from argosy.cli.fleetview import troubles
from argosy.cli.table import in_columns
from argosy.errors import CheckpointError, ConfigError, nearest
from argosy.files import damage_named, read_json


@dataclass(frozen=True, kw_only=True)
class FleetCommand:
    """Look at a running fleet, or end it."""

    action: Annotated[Literal["status", "stop"], tyro.conf.Positional]
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None
    """The fleet's name; status without it lists all fleets."""
    runs: str = "runs/fleet"
    """Folder of all fleets' runs."""
    wait_s: float = 60.0
    """stop: seconds to wait for its end."""
    json: bool = False
    """status: print the whole snapshot as one line of JSON."""

    def __call__(self) -> int:
        """Run the command."""
        if self.name is None:
            if self.action == "stop":
                raise ConfigError("which fleet? argosy fleet stop NAME; `argosy fleet status` lists them")
            return _list(Path(self.runs))
        folder = _find(Path(self.runs), self.name)
        return _stop(folder, self.wait_s) if self.action == "stop" else _status(folder, self.json)


def _find(runs: Path, name: str) -> Path:
    if not (runs / name / "fleet.json").is_file():
        known = [path.parent.name for path in runs.glob("*/fleet.json")]
        hint = nearest(name, known) if known else f"there is none in {str(runs)!r}"
        raise ConfigError(f"there is no fleet {name!r}; {hint}")
    return runs / name


def _status(folder: Path, as_json: bool) -> int:
    path = folder / "status.json"
    if not path.is_file():
        print(f"{folder.name}: {_state(folder, {})}")
        return 0
    status = read_json(path)
    if as_json:
        print(json.dumps(status))
        return 0
    age = time.time() - path.stat().st_mtime
    print(f"{folder.name}: {_state(folder, status)}, as of {age:.0f} s ago")
    with damage_named(path):
        wall_s = status["before_s"] + status["wall_s"]
        rates = f"{status['steps_per_s']:,.0f} steps/s, {status['updates_per_s']:,.1f} updates/s"
        print(f"  {wall_s:.0f} s, {rates}, {troubles(status['workers'])}")
        for name, steps in status["env_steps"].items():
            found = status["evaluations"].get(name)
            shown = "" if found is None else f", return {found['return_mean']:.1f} (version {found['version']})"
            print(f"  {name}: {steps:,} steps, {status['updates'][name]:,} updates{shown}")
        rows = [(name, worker["state"], str(worker["restarts"])) for name, worker in status["workers"].items()]
        print("", *in_columns(("worker", "state", "restarts"), rows), sep="\n  ")
    return 0


def _list(runs: Path) -> int:
    """Print a line for each fleet, the newest first."""
    files = sorted(runs.glob("*/fleet.json"), key=lambda file: -file.stat().st_mtime)
    if not files:
        print(f"there is no fleet in {str(runs)!r}")
        return 0
    rows = []
    for folder in (file.parent for file in files):
        path = folder / "status.json"
        try:
            status = read_json(path) if path.is_file() else {}
            with damage_named(path):
                evaluated = [f"{result['return_mean']:.1f}" for result in status.get("evaluations", {}).values()]
                counts = (sum(status.get(key, {}).values()) for key in ("env_steps", "updates"))
                shown = [f"{count:,}" for count in counts]
                rows.append((folder.name, *shown, ", ".join(evaluated) or "-", _state(folder, status)))
        except CheckpointError as error:  # the others are shown all the same
            rows.append((folder.name, "-", "-", "-", str(error)))
    print(*in_columns(("fleet", "steps", "updates", "evaluated", "state"), rows), sep="\n")
    return 0


def _state(folder: Path, status: Mapping[str, Any]) -> str:
    if status.get("done"):
        return f"done ({status.get('reason')})"
    if not _alive(folder):
        return "its driver is gone"
    return "running" if status else "starting"


def _stop(folder: Path, wait_s: float) -> int:
    if not _alive(folder):
        print(f"{folder.name} is not running")
        return 0
    (folder / "stop").touch()
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        status = folder / "status.json"
        if not _alive(folder) or (status.is_file() and read_json(status).get("done")):
            print(f"{folder.name} has stopped")
            return 0
        time.sleep(0.2)
    print(f"{folder.name} has been asked to stop, but runs on after {wait_s:.0f} s")
    return 1


def _alive(folder: Path) -> bool:
    """Whether the driver runs; one on another machine counts as running while it writes its status."""
    info = read_json(folder / "fleet.json")
    if info.get("host") != socket.gethostname():
        path = folder / "status.json"
        return path.is_file() and time.time() - path.stat().st_mtime < 30
    try:
        with contextlib.suppress(PermissionError), damage_named(folder / "fleet.json"):
            os.kill(info["pid"], 0)
    except ProcessLookupError:
        return False
    return True
