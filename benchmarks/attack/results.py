"""Results of attacks: a line of JSON for each time that one was run, `results/NAME.jsonl`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


def add(attack: str, counts: Mapping[str, float], *, seed: int, seconds: float) -> None:
    """Append what one run of an attack has counted."""
    RESULTS.mkdir(exist_ok=True)
    line = {"date": time.strftime("%Y-%m-%d"), "commit": commit(), "seed": seed, "seconds": round(seconds, 1), **counts}
    with (RESULTS / f"{attack}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def read(attack: str) -> list[dict[str, float]]:
    """Return the lines of an attack, oldest first."""
    path = RESULTS / f"{attack}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def commit() -> str:
    """Return the commit that is attacked, with a mark if files of the package differ from it."""
    changed = _git("status", "--porcelain", "--", str(HERE.parents[1] / "argosy"))
    return (_git("rev-parse", "--short=8", "HEAD") or "unknown") + "-dirty" * bool(changed)


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()
