"""State is found, not listed: whatever an object holds that can be saved is saved."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.errors import CheckpointError, ConfigError


def find_state(owner: object) -> dict[str, Any]:
    """Return what the attributes of `owner` hold that has state, by name; entries of containers as "name.key".

    Found are objects with `state_dict` and `load_state_dict`, tensors, arrays, numbers and text, also in lists, tuples
    and dicts. Left out is what cannot change: frozen dataclasses, functions, devices, spaces.

    Raises:
        ConfigError: something may have state and does not say how to save it, or only a function knows of it.
    """
    found: dict[str, Any] = {}
    for name, value in vars(owner).items():
        _find(name, value, found, type(owner).__name__)
    known = {id(owner), *map(id, found.values())}
    for part in found.values():
        if isinstance(part, nn.Module):
            known.update(map(id, (*part.modules(), *part.parameters())))
    for name, value in vars(owner).items():
        for hidden in _hidden(value, set()):
            if id(hidden) not in known:
                raise ConfigError(
                    f"{type(owner).__name__}.{name} is all that knows of a {type(hidden).__name__}, which would not be "
                    "saved: give this an attribute of its own"
                )
    return found


def restore_state(owner: object, saved: Mapping[str, Any]) -> None:
    """Give everything that `find_state` finds the state it had.

    Raises:
        CheckpointError: names or shapes differ; nothing has changed.
    """
    found = find_state(owner)
    _check_fits({name: state_of(part) for name, part in found.items()}, saved, type(owner).__name__)
    for name, value in list(vars(owner).items()):
        restored = _restored(name, value, saved)
        if restored is not value:
            setattr(owner, name, restored)


def _find(name: str, value: Any, found: dict[str, Any], owner: str) -> None:
    """Put what has state under `name` into `found`."""
    if _says_its_state(value):
        found[name] = value
    elif isinstance(value, dict):
        for key, part in value.items():
            _find(f"{name}.{key}", part, found, owner)
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            _find(f"{name}.{i}", part, found, owner)
    elif isinstance(value, torch.Tensor | np.ndarray | np.generic | int | float | str | None):
        found[name] = value
    elif not _is_constant(value):
        raise ConfigError(
            f"{owner}.{name} is a {type(value).__name__}, which cannot be saved: give it the methods state_dict and "
            "load_state_dict, or keep tensors, arrays, numbers or text"
        )


def _says_its_state(value: object) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict") and not isinstance(value, type)


def _is_constant(value: object) -> bool:
    frozen = dataclasses.is_dataclass(value) and getattr(value, "__dataclass_params__").frozen  # noqa: B009
    function = inspect.isroutine(value) or isinstance(value, type | functools.partial)  # other callables may have state
    return frozen or function or isinstance(value, torch.device | torch.dtype | spaces.Space)


def _hidden(value: object, seen: set[int], *, inside: bool = False) -> Iterator[object]:
    """Yield what has state or is learned, and stands `inside` a function or a frozen dataclass."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if _says_its_state(value) or (isinstance(value, torch.Tensor) and value.requires_grad):
        if inside:
            yield value
        return
    is_container = isinstance(value, dict | list | tuple)
    for part in _parts(value):
        yield from _hidden(part, seen, inside=inside or not is_container)


def _parts(value: object) -> Iterable[object]:
    """Return what a container, a dataclass or a function holds."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, functools.partial):
        return value.func, *value.args, *value.keywords.values()
    if isinstance(value, MethodType):
        return (value.__self__,)
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]  # that one is empty
        return *(value.__defaults__ or ()), *held
    return ()


def state_of(part: Any) -> Any:
    """Return the state of what `find_state` found."""
    return dict(part.state_dict()) if _says_its_state(part) else part


def _restored(name: str, value: Any, saved: Mapping[str, Any]) -> Any:
    """Return `value`, in place where that can be, with the state that is saved under `name`."""
    if _says_its_state(value):
        value.load_state_dict(saved[name])
    elif isinstance(value, dict):
        for key, part in value.items():
            value[key] = _restored(f"{name}.{key}", part, saved)
    elif isinstance(value, list | tuple):
        parts = [_restored(f"{name}.{i}", part, saved) for i, part in enumerate(value)]
        if isinstance(value, list):
            value[:] = parts
        elif any(part is not old for part, old in zip(parts, value, strict=True)):
            return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    elif isinstance(value, torch.Tensor):
        value.detach().copy_(saved[name])
    elif isinstance(value, np.ndarray):
        value[...] = saved[name]
    elif name in saved:
        return saved[name]
    return value


def _check_fits(own: Any, saved: Any, name: str) -> None:
    """Check that a saved state has the names and shapes of one's own; a CheckpointError names what differs."""
    if isinstance(own, dict) and isinstance(saved, Mapping):
        if name.endswith(".rows") or (name.endswith(".slots") and not (own and saved)):
            return  # as many as happened to be kept; an optimiser of torch, before its first step
        if own.keys() != saved.keys():
            raise CheckpointError(f"the state does not fit: {name} has {sorted(own)}, the saved one {sorted(saved)}")
        for key, value in own.items():
            _check_fits(value, saved[key], f"{name}.{key}")
    elif _form(own) != _form(saved):
        raise CheckpointError(f"the state does not fit: {name} is {_form(own)}, the saved one {_form(saved)}")
    elif isinstance(own, list):
        for i, value in enumerate(own):
            _check_fits(value, saved[i], f"{name}[{i}]")


def _form(value: Any) -> str:
    if value is None or isinstance(value, int | float | str | np.generic):
        return "a number or text"
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"an array of shape {tuple(value.shape)}"
    return f"a list of {len(value)}" if isinstance(value, list) else f"a {type(value).__name__}"
