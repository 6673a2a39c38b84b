"""Looking for numbers that are none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from argosy.data import tree
from argosy.errors import DataError


def check_finite(batch: Any, *fields: str) -> None:
    """Check that float fields of a batch hold neither NaN nor infinity, those that it has; costs one pass per field.

    Raises:
        DataError: names the first field that does.
    """
    held, sums = tree.fields_of(batch) or {}, list[torch.Tensor]()
    for field in fields:
        _add_sums(held.get(field), sums)
    on_cpu = all(total.is_cpu for total in sums)  # else all are fetched at once
    totals = [total.item() for total in sums] if on_cpu else torch.stack([total.double() for total in sums]).tolist()
    if not math.isfinite(sum(totals)):
        for field in fields:
            for name, leaf in tree.leaves(held.get(field), field):
                if _is_float(leaf) and not torch.as_tensor(leaf).isfinite().all():  # or else their sum was too large
                    raise _named(name, torch.as_tensor(leaf))


def _add_sums(value: Any, sums: list[torch.Tensor]) -> None:
    if _is_float(value):
        sums.append(torch.as_tensor(value).sum())
    elif (parts := tree.fields_of(value)) is not None:
        for part in parts.values():
            _add_sums(part, sums)


def _is_float(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point()
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _named(name: str, leaf: torch.Tensor) -> DataError:
    bad = ~torch.isfinite(leaf)
    where = tuple(bad.nonzero()[0].tolist())
    return DataError(
        f"batch.{name} holds {int(bad.sum())} NaN or infinite value(s), the first one {leaf[where].item()} at index"
        f" {where}; no parameter has changed"
    )
