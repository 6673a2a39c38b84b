"""Conversion between numpy and torch, for single arrays and whole trees. Nothing is copied that need not be."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch

from argosy.data import join, tree
from argosy.errors import DataError

TreeT = TypeVar("TreeT")
Device = str | int | torch.device


def tensor(leaf: object, device: Device = "cpu", dtype: torch.dtype | None = None) -> torch.Tensor:
    """Turn an array, number or list of numbers into a tensor; a tensor is moved and cast only where it differs."""
    if isinstance(leaf, torch.Tensor):
        return leaf.to(device=device, dtype=dtype)
    if isinstance(leaf, list | tuple) and any(isinstance(item, torch.Tensor) for item in leaf):
        return tensor(join.stack_leaves(leaf), device, dtype)
    array = tree.as_array(leaf)
    if array.dtype.kind not in tree.NUMERIC:
        raise DataError(f"{tree.describe(leaf)} cannot become a tensor, only numbers can")
    made = _shared(array)
    return made if dtype is None and device == "cpu" else made.to(device=device, dtype=dtype)


def _shared(array: np.ndarray) -> torch.Tensor:
    """Return a tensor on the array's memory; on a copy where torch cannot share it."""
    if not array.flags.writeable:  # whoever writes to such a tensor would write to memory that is not theirs
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except ValueError:  # negative strides
        return torch.from_numpy(array.copy())


def to_torch(x: Any, dtype: torch.dtype | None = None, device: Device = "cpu") -> Any:
    """Return `x` (array, number, list, dict, Batch, NamedArray) with tensors for arrays, out of place; None stays None.

    A list of dicts or Batches is stacked.

    Raises:
        DataError: a leaf holds objects; names the field.
    """
    return tree.map_leaves(lambda leaf: tensor(leaf, device, dtype), _stacked(x))


def to_torch_as(x: Any, y: torch.Tensor) -> Any:
    """Return `x` with tensors of the type and on the device of `y`."""
    return to_torch(x, dtype=y.dtype, device=y.device)


def to_numpy(x: Any) -> Any:
    """Return `x` (tensor, number, list, dict, Batch, NamedArray) with arrays, out of place; None stays None.

    A list of dicts or Batches is stacked.
    """
    return tree.map_leaves(_array, _stacked(x))


def _stacked(x: Any) -> Any:
    """Make one node of a list of nodes; return all else as it is."""
    if isinstance(x, list | tuple) and x and all(isinstance(item, tree.Node | dict) for item in x):
        return join.stack(x, like=x[0])
    return x


def _array(leaf: Any) -> Any:
    if isinstance(leaf, list | tuple) and any(isinstance(item, torch.Tensor) for item in leaf):
        leaf = join.stack_leaves(leaf)
    leaf = tree.host(leaf)
    return leaf if isinstance(leaf, np.ndarray | str | bytes) else tree.as_array(leaf)


def as_tensors(batch: TreeT, device: Device = "cpu") -> TreeT:
    """Return the batch with a tensor for every array of numbers, out of place and without a copy on the CPU.

    Fields of objects or text and None are passed on as they are.
    """
    target = torch.device(device)

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in tree.NUMERIC:
            leaf = _shared(leaf)
        return leaf.to(target) if isinstance(leaf, torch.Tensor) and leaf.device != target else leaf

    return tree.map_leaves(convert, batch)


def for_learning(batch: TreeT, device: Device = "cpu") -> TreeT:
    """Return `as_tensors(batch)` with float32 for float64, which numpy makes by default; not of observations."""
    made = as_tensors(batch, device)
    _narrow(tree.fields_of(made) or {})
    return made


def _narrow(fields: tree.Fields) -> None:
    for name, value in fields.items():
        if isinstance(value, torch.Tensor):
            if value.dtype is torch.float64 and not name.startswith("obs"):
                fields[name] = value.float()
        elif (parts := tree.fields_of(value)) is not None and not name.startswith("obs"):
            _narrow(parts)


def take_rows(x: torch.Tensor, index: torch.Tensor, axis: int = 0) -> torch.Tensor:
    """Return the rows `index` along an axis: of images in a tenth of the time of `x[index]`, in their memory layout."""
    if axis == 0 and x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
        return x.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
    return x.index_select(axis, index)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """Return images [N, C, H, W] laid out in memory with the channels last, which convolutions on CPUs read faster."""
    if x.is_contiguous(memory_format=torch.channels_last):
        return x
    return torch.stack(x.unbind(1), -1).permute(0, 3, 1, 2)  # 2.5x as fast as `contiguous` on bytes
