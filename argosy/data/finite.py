"""Looking for numbers that are none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from argosy.data import tree
from argosy.errors import DataError


def check_finite(batch: Any, *fields: str) -> None:
    """Check that float fields of a batch hold neither NaN nor infinity; costs one pass per field.

    Raises:
        DataError: names the first field that does.
    """
    sums: list[torch.Tensor] = []
    with np.errstate(all="ignore"):
        for field in fields:
            for name, leaf in _leaves(batch[field], field):
                if isinstance(leaf, torch.Tensor):
                    if leaf.is_floating_point():
                        sums.append(leaf.sum())
                elif leaf.dtype.kind == "f" and not _is_finite(leaf):
                    raise _named(name, torch.from_numpy(leaf))
    if sums and not all(math.isfinite(total) for total in torch.stack([s.double() for s in sums]).tolist()):
        for field in fields:
            for name, leaf in _leaves(batch[field], field):
                if not torch.as_tensor(leaf).isfinite().all():  # or else their sum was too large
                    raise _named(name, torch.as_tensor(leaf))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, np.ndarray | torch.Tensor]]:
    if isinstance(value, np.ndarray | torch.Tensor):
        yield name, value
    elif (parts := tree.fields_of(value)) is not None:
        for key, part in parts.items():
            yield from _leaves(part, f"{name}.{key}")


def _is_finite(array: np.ndarray) -> bool:
    flat = array.reshape(-1)
    return math.isfinite(flat.dot(flat)) or bool(np.isfinite(flat).all())  # the first takes a tenth of the second


def _named(name: str, leaf: torch.Tensor) -> DataError:
    bad = ~torch.isfinite(leaf)
    where = tuple(bad.nonzero()[0].tolist())
    return DataError(
        f"batch.{name} holds {int(bad.sum())} NaN or infinite value(s), the first one {leaf[where].item()} at index"
        f" {where}; no parameter has changed"
    )
