"""Looking for numbers that are none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from argosy.errors import DataError


def check_finite(batch: Any, *fields: str) -> None:
    """Check that float fields of a batch of tensors hold neither NaN nor infinity; costs one pass per field.

    Raises:
        DataError: names the first field that does.
    """
    sums: list[torch.Tensor] = []
    for field in fields:
        value = batch[field]
        leaves = ((field, value),) if type(value) is torch.Tensor else _float_leaves(value, field)
        for _, leaf in leaves:
            if not leaf.is_floating_point():
                continue
            if leaf.is_cpu and leaf.is_contiguous() and leaf.dtype is torch.float32:
                flat = leaf.detach().reshape(-1)
                if not math.isfinite(torch.dot(flat, flat).item()):  # a tenth of a sum, where rows are few
                    sums.append(leaf.sum())
            else:
                sums.append(leaf.sum())
    if sums and not all(math.isfinite(total) for total in torch.stack([s.double() for s in sums]).tolist()):
        for field in fields:
            for name, leaf in _float_leaves(batch[field], field):
                bad = ~torch.isfinite(leaf)
                if bad.any():
                    where = tuple(bad.nonzero()[0].tolist())
                    raise DataError(
                        f"batch.{name} holds {int(bad.sum())} NaN or infinite value(s), the first one"
                        f" {leaf[where].item()} at index {where}; no parameter has changed"
                    )


def _float_leaves(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield name, value
    elif value is not None:
        for key in value.keys():  # noqa: SIM118  # a Batch iterates over rows, not over keys
            yield from _float_leaves(value[key], f"{name}.{key}")
