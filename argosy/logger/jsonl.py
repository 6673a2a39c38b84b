"""Metrics as lines of JSON: what the learning curve is drawn from, and what `jq` and pandas read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Set
from pathlib import Path

from argosy.files import open_own, write_atomically
from argosy.logger.base import SafeLogger


class JSONLLogger(SafeLogger):
    """Appends one object per call: `env_step`, `gradient_step`, then the metrics; infinite and NaN become null.

    Args:
        path: the file; its folder is made. An existing file is continued.
        resume_step: drop the lines of an existing file that lie beyond this env step (they were written after the
            checkpoint that the run goes on from), and what is logged at this step again first, as a test is that came
            after the checkpoint. None keeps all.
    """

    def __init__(self, path: str | Path, *, resume_step: int | None = None) -> None:
        self.path = self.place = Path(path)
        self._fd: int | None = None
        self._torn = False
        self._resume_step = resume_step

    def _write(self, metrics: Mapping[str, float], env_step: int, gradient_step: int) -> None:
        if self._fd is None:
            self._fd = self._open(metrics.keys() if env_step == self._resume_step else set())
        row: dict[str, float | None] = {"env_step": env_step, "gradient_step": gradient_step}
        row |= {key: value if math.isfinite(value) else None for key, value in metrics.items()}
        # One unbuffered write per line: nothing is pending when the process dies. After a failed write the
        # file may end within a line, so the next one starts with a line break.
        data = (("\n" if self._torn else "") + json.dumps(row) + "\n").encode()
        self._torn = True
        while data:
            data = data[os.write(self._fd, data) :]
        self._torn = False

    def _open(self, again: Set[str]) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._resume_step is not None and self.path.is_file():
            known, step = read_jsonl(self.path), self._resume_step
            rows = [row for row in known if (row["env_step"] or 0) <= step]
            rows = [row for row in rows if row["env_step"] != step or not (again & row.keys())]
            write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in rows).encode())
            self._resume_step = None
        return open_own(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def _finish(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)


def read_jsonl(path: str | Path) -> list[dict[str, float | None]]:
    """Read the rows of a file by `JSONLLogger`, in order; a line torn by a crash or a full disk is skipped.

    So is all that is no number, or none to reckon with, in a file that somebody else has made.
    """
    rows: list[dict[str, float | None]] = []
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and _is_number(row.get("env_step", "")):
            rows.append({key: value for key, value in row.items() if _is_number(value)})
    return rows


def _is_number(value: object) -> bool:
    """Whether it is one to reckon with, or the null that stands for one."""
    return value is None or (isinstance(value, int | float) and -1e100 < value < 1e100)
