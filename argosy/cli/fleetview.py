"""What `argosy launch` and `argosy fleet status` show of a fleet: rates, policies, a line per worker, failures."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from argosy.cli.table import in_columns

if TYPE_CHECKING:
    from argosy.distributed.snapshot import Snapshot

Counts = Mapping[str, Any]


class Screen:
    """Writes lines over those that it wrote last; what was on the terminal before stays where it was."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._height = stream, 0

    def show(self, lines: Sequence[str]) -> None:
        """Replace the lines."""
        columns, rows = shutil.get_terminal_size((120, 40))
        shown = [line[: columns - 1] for line in fitting(lines, rows - 1)]
        back = f"\x1b[{self._height}F" if self._height else ""
        self._stream.write(back + "".join(f"{line}\x1b[K\n" for line in shown) + "\x1b[J")
        self._stream.flush()
        self._height = len(shown)


def fitting(lines: Sequence[str], rows: int) -> list[str]:
    """Return the first lines and how many more there are, `rows` in all."""
    if len(lines) <= rows:
        return list(lines)
    return [*lines[: rows - 1], f"... and {len(lines) - rows + 1} more lines; make the window higher to see them"]


def view(title: str, snapshot: Snapshot, before: Snapshot | None = None, *, env_steps: int | None = None) -> list[str]:
    """Return the lines that show how a fleet is, which stops at so many `env_steps`.

    Rates and shares are of the time since the snapshot `before`, without it of the whole run.
    """
    seconds = snapshot.wall_s - (before.wall_s if before is not None else 0.0)
    rates = [f"{snapshot.steps_per_s:,.0f} steps/s", f"{snapshot.updates_per_s:,.1f} updates/s", snapshot.bottleneck()]
    lines = [
        f"{title}   {clock(snapshot.total_wall_s)}   {snapshot.reason if snapshot.done else 'running'}",
        "   ".join([*rates, troubles(snapshot.workers)]),
        *([f"! {snapshot.standstill}"] if snapshot.standstill else []),
        "",
        *in_columns(
            ("policy", "steps", "updates", "training return", "evaluated", "version", "lag", "queue"),
            [_policy(snapshot, name, env_steps) for name in snapshot.env_steps],
        ),
        "",
    ]
    rows = []
    for name, worker in snapshot.workers.items():
        old = before.workers.get(name, {}) if before is not None else {}
        rows.append((name, str(worker["state"]), str(worker["restarts"]), _said(name, worker, old, seconds)))
    return lines + in_columns(("worker", "state", "restarts", ""), rows)


def troubles(workers: Mapping[str, Counts]) -> str:
    """Say how often workers were restarted, and how often environments failed and were made anew."""
    restarts, failures = (sum(int(one.get(key, 0)) for one in workers.values()) for key in ("restarts", "env_failures"))
    return f"restarts {restarts}" + (f"   env failures {failures}" if failures else "")


def clock(seconds: float) -> str:
    """Return h:mm:ss."""
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"


def _policy(snapshot: Snapshot, name: str, env_steps: int | None) -> tuple[str, ...]:
    trainers = [worker for key, worker in snapshot.workers.items() if key.startswith(f"trainer.{name}.")]
    first = trainers[0] if trainers else {}
    evaluated = snapshot.evaluations.get(name)
    of = f" of {env_steps:,}" if env_steps is not None else ""
    return (
        name,
        f"{snapshot.env_steps[name]:,}{of}",
        f"{snapshot.updates[name]:,}",
        _number(first.get("return_mean")),
        "-" if evaluated is None else f"{evaluated.return_mean:.1f} +- {evaluated.return_std:.1f}",
        _number(first.get("version")),
        _number(first.get("lag_mean")),
        _number(sum(worker.get("queue", 0.0) for worker in trainers)),
    )


def _said(name: str, worker: Counts, old: Counts, seconds: float) -> str:
    """Say what a worker does, in the words of its kind."""

    def rate(key: str) -> float:
        grown = float(worker.get(key, 0.0)) - float(old.get(key, 0.0))
        return max(grown, 0.0) / max(seconds, 1e-9)

    kind = name.split(".")[0]
    return "  ".join(_SAID[kind](worker, rate)) if kind in _SAID and len(worker) > 2 else ""


def _actor(worker: Counts, rate: Callable[[str], float]) -> list[str]:
    said = [f"{rate('steps'):,.0f} steps/s"]
    for what in ("samples", "inference", "parameters"):
        share = _share(rate(f"wait_{what}_s"))
        if share != "0%":
            said.append(f"waits {_FOR[what]} {share}")
    return said + _if_any(worker, env_failures="env failures")


def _trainer(worker: Counts, rate: Callable[[str], float]) -> list[str]:
    said = [
        f"{rate('updates'):,.1f} updates/s",
        f"learns {_share(rate('update_s'))}",
        f"waits {_share(rate('wait_s'))}",
    ]
    return said + _if_any(worker, dropped="dropped", duplicates="duplicates", updates_lost="updates lost")


def _policy_worker(worker: Counts, rate: Callable[[str], float]) -> list[str]:
    batch = rate("rows") / max(rate("batches"), 1e-9)
    return [f"{rate('rows'):,.0f} rows/s", f"{batch:.1f} rows per batch", *_if_any(worker, queue="waiting")]


def _buffer(worker: Counts, rate: Callable[[str], float]) -> list[str]:
    said = [f"{rate('segments'):,.1f} segments/s", f"works {_share(rate('process_s'))}"]
    return said + _if_any(worker, queue="waiting")


def _counters(*keys: str) -> Callable[[Counts, Callable[[str], float]], list[str]]:
    return lambda worker, rate: [f"{_number(worker.get(key))} {key}" for key in keys]


def _if_any(worker: Counts, **words: str) -> list[str]:
    return [f"{word} {worker[key]:,.0f}" for key, word in words.items() if worker.get(key)]


def _share(value: float) -> str:
    return f"{min(value, 1.0):.0%}"  # workers count at times of their own, so that a second may seem longer than one


def _number(value: object) -> str:
    if not isinstance(value, float) or not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


_FOR = {"samples": "to send", "inference": "for actions", "parameters": "for parameters"}
_SAID: Mapping[str, Callable[[Counts, Callable[[str], float]], list[str]]] = {
    "actor": _actor,
    "trainer": _trainer,
    "policy": _policy_worker,
    "buffer": _buffer,
    "parameters": _counters("pushes", "reads"),
    "eval": lambda worker, rate: [
        *_counters("evaluations", "steps")(worker, rate),
        *_if_any(worker, env_failures="env failures"),
    ],
}
