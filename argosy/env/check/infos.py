"""The env checker's look at infos: they travel between processes, and others keep them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

from argosy.env.check.finding import Finding

RESERVED = ("env_id", "final_obs", "final_info")


class InfoChecker:
    """Looks at one info after another; says each thing once."""

    def __init__(self) -> None:
        self._last: dict[str, object] | None = None
        self._said: set[str] = set()

    def check(self, info: dict[str, object], where: str) -> Iterator[Finding]:
        """Check what `where` ("reset" or "step") returned."""
        if info is self._last and "same" not in self._said:
            self._said.add("same")
            yield Finding(
                "warning",
                where,
                "info is the dict that the call before returned: what was kept of it changes; return a new one.",
            )
        self._last = info
        for key in RESERVED:
            if key in info:
                yield Finding("warning", where, f"info has the key {key!r}, which vector envs overwrite; rename it.")
        if "TimeLimit.truncated" in info:
            yield Finding(
                "warning", where, "info['TimeLimit.truncated'] is of the old gym; return truncated=True instead."
            )
        for key, value in info.items():
            if key not in self._said and (problem := _pickling_problem(value)):
                self._said.add(key)
                yield Finding(
                    "warning",
                    where,
                    f"info[{key!r}] cannot be pickled ({problem}), so envs in worker processes cannot return it; "
                    "keep numbers, text and arrays there.",
                )


def _pickling_problem(value: object) -> str | None:
    try:
        pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # whatever the object's own methods raise
        return f"{type(error).__name__}: {error}"
    return None
