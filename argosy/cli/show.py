"""What the training commands say before and after."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from argosy.experiment import Experiment

if TYPE_CHECKING:
    from argosy.run.result import Result


def show_start(experiment: Experiment, source: str, *, to_stderr: bool) -> None:
    """Print what is trained and with which settings."""
    stream = sys.stderr if to_stderr else sys.stdout
    print(f"argosy: {experiment.algorithm} on {experiment.task}, seed {experiment.seed}   ({source})", file=stream)
    for name, path in (("data", experiment.data), ("expert", experiment.expert), ("init", experiment.init)):
        if path is not None:
            print(f"  {name:<8} {path}", file=stream)
    for section in ("config", "net", "env", "buffer", "trainer", "stop"):
        config = getattr(experiment, section)
        shown = [f"{name.replace('_', '-')} {_short(value)}" for name, value in _changed(config, type(config)())]
        if shown:
            print(f"  {experiment.algorithm if section == 'config' else section:<8} {'  '.join(shown)}", file=stream)
    print("  (the rest are defaults; all settings are in the run's config.json)", file=stream, flush=True)


def finish(result: Result, *, json: bool, quiet: bool) -> int:
    """Print the closing report, and return the exit code: 130 when Ctrl-C ended the run."""
    stream = sys.stderr if json else sys.stdout
    if not quiet:
        print(table(result), file=stream)
    if result.interrupted:
        print(f"\nstopped; everything is saved. Go on with: argosy resume {result.run_dir}", file=stream)
    if json:
        print(result.to_json(), flush=True)
    return 130 if result.interrupted else 0


def table(result: Result) -> str:
    """Return the short table at a run's end."""
    rows = [
        ("return", result.score),
        ("steps", f"{result.env_steps:,} of the environment, {result.gradient_steps:,} of the optimiser"),
        ("seconds", f"{result.wall_s:.1f}"),
        ("steps/s", f"{result.steps_per_s:,.0f}"),
        ("files", result.run_dir),
    ]
    if result.curve:
        rows.append(("picture", result.curve))
    return "\n" + "\n".join(f"  {name:<8} {value}" for name, value in rows)


def _changed(config: Any, default: Any) -> Iterator[tuple[str, object]]:
    """Yield the settings that are not as in `default`, nested ones with dots."""
    for name in (field.name for field in dataclasses.fields(config)):
        value, usual = getattr(config, name), getattr(default, name)
        if dataclasses.is_dataclass(value):
            yield from ((f"{name}.{inner}", changed) for inner, changed in _changed(value, usual))
        elif value != usual:
            yield name, value


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(_short(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if value is None else str(value)
