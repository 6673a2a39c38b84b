"""What the training commands say before and after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from argosy.cli.flags import SideBySide
from argosy.experiment import Experiment
from argosy.run.folder import resume_command
from argosy.unread import defaults

if TYPE_CHECKING:
    from argosy.run.result import Result


def show_start(experiment: Experiment, source: str, stream: TextIO, seeds: str | None = None) -> None:
    """Print what is trained and with which settings."""
    seeded = f"seed {experiment.seed}" if seeds is None else f"seeds {seeds}"
    print(f"argosy: {experiment.algorithm} on {experiment.task}, {seeded}   ({source})", file=stream)
    for name, path in (("data", experiment.data), ("expert", experiment.expert), ("init", experiment.init)):
        if path is not None:
            print(f"  {name:<8} {path}", file=stream)
    usual, sections = defaults(experiment), ("config", "net", "env", "buffer", "trainer", "stop")
    shown: dict[str, list[str]] = {section: [] for section in sections}
    for name, value in experiment.settings().items():
        section, _, last = experiment.full_name(name).partition(".")
        if section in shown and value != usual[name]:
            shown[section].append(f"{last.replace('_', '-')} {_short(value)}")
    for section, changed in shown.items():
        if changed:
            print(f"  {experiment.algorithm if section == 'config' else section:<8} {'  '.join(changed)}", file=stream)
    print("  (the rest are defaults; all settings are in the run's config.json)", file=stream, flush=True)


def finish(result: Result, flags: SideBySide) -> int:
    """Print the closing report, and return the exit code: 130 when Ctrl-C ended the run."""
    if not flags.quiet:
        print(table(result), file=flags.stream)
    if result.interrupted:
        print(
            f"\nstopped; everything is saved. Go on with: {resume_command(_from_here(result.run_dir))}",
            file=flags.stream,
        )
    if flags.json:
        print(result.to_json(), flush=True)
    return 130 if result.interrupted else 0


def table(result: Result) -> str:
    """Return the short table at a run's end."""
    rows = [
        ("return", result.score),
        ("steps", f"{result.env_steps:,} of the environment, {result.gradient_steps:,} of the optimiser"),
        ("seconds", f"{result.wall_s:.1f}"),
        ("steps/s", f"{result.steps_per_s:,.0f}"),
        ("files", _from_here(result.run_dir)),
    ]
    if result.reason is not None:
        rows.insert(1, ("ended", f"early: {result.reason}"))
    if result.curve:
        rows.append(("picture", _from_here(result.curve)))
    return "\n" + "\n".join(f"  {name:<8} {value}" for name, value in rows)


def _from_here(path: str) -> Path:
    """Return a path as one would type it."""
    here = Path.cwd()
    return Path(path).relative_to(here) if Path(path).is_relative_to(here) else Path(path)


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(_short(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if value is None else str(value)
