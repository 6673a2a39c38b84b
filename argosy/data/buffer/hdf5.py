"""Buffers in HDF5 files."""

from __future__ import annotations

from os import PathLike
from typing import Any


def save_state(
    path: str | PathLike[str], state: dict[str, Any], options: dict[str, Any], compression: str | None
) -> None:
    raise NotImplementedError
