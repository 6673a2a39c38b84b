"""Any state (nested dicts and lists of arrays, tensors, numbers, strings) in one safetensors file.

The tensors of the file are the arrays and tensors of the state. Its metadata hold the rest: a JSON skeleton that says
where each of them belongs, the version of this format, and a SHA-256 over skeleton and tensor bytes. Reading executes
no code. Writing replaces the old file only when the new one is safely on the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from argosy.errors import CheckpointError

FORMAT = "argosy-state"
VERSION = 1
_CHUNK = 1 << 24


def write_state(path: str | Path, kind: str, state: object) -> None:
    """Write `state` to `path`, all or nothing: a crash at any moment leaves the old file or the new one.

    Large arrays are written from where they lie, without a second copy in memory.

    Args:
        path: the file; its folder is made.
        kind: what the state is of, e.g. "checkpoint"; `read_state` asks for the same.
        state: nested dicts (keys: strings or ints), lists, tuples; leaves: numpy arrays, torch tensors, numbers,
            strings, bools, None.

    Raises:
        CheckpointError: something in the state cannot be written; names its place. Or the disk refuses.
    """
    path = Path(path)
    tensors: dict[str, torch.Tensor] = {}
    skeleton = json.dumps(_Packer(tensors).pack(state, ""))
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "kind": kind,
        "skeleton": skeleton,
        "sha256": _digest(skeleton, tensors),
    }
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, part, metadata)
        _sync(part)
        os.replace(part, path)
        _sync(path.parent)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{str(path)!r} could not be written: {error}; what was there before is unchanged"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def read_state(path: str | Path, kind: str) -> Any:
    """Return the state that `write_state` wrote.

    Large arrays are mapped from the file and read when they are touched; writing to them changes this process's
    memory only.

    Raises:
        CheckpointError: the file is missing, torn, damaged, of another kind or origin, or of a newer version.
    """
    path = Path(path)
    name = repr(str(path))
    if not path.is_file():
        raise CheckpointError(f"there is no file {name}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{name} is torn or no state file of argosy: {error}") from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{name} was not written by argosy (a safetensors file without format {FORMAT!r})")
    version = metadata.get("version", "")
    if not version.isdecimal() or int(version) > VERSION:
        raise CheckpointError(
            f"{name} has format version {version!r}; this argosy reads versions up to {VERSION}: update argosy"
        )
    if metadata.get("kind") != kind:
        raise CheckpointError(f"{name} holds a {metadata.get('kind')!r}, not a {kind!r}")
    skeleton = metadata.get("skeleton", "")
    if _digest(skeleton, tensors) != metadata.get("sha256"):
        raise CheckpointError(f"{name} is damaged: its checksum does not fit its contents")
    return _unpack(json.loads(skeleton), tensors)


# In the skeleton a dict with one special key stands for what JSON lacks:
#   {"$torch": name}, {"$numpy": name}, {"$tuple": [...]}, {"$dict": [[key, value], ...]} (keys that are no strings,
#   or begin with $)


class _Packer:
    """Takes a state apart into a skeleton and tensors; a tensor that occurs twice is written once."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self.tensors = tensors
        self.written: dict[tuple[object, ...], str] = {}
        self.storages: set[int] = set()

    def pack(self, value: Any, at: str) -> object:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Mapping):
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: self.pack(item, f"{at}.{key}") for key, item in value.items()}
            if all(isinstance(key, str | int) for key in value):
                return {"$dict": [[key, self.pack(item, f"{at}.{key}")] for key, item in value.items()]}
        if isinstance(value, tuple):
            return {"$tuple": [self.pack(item, f"{at}.{i}") for i, item in enumerate(value)]}
        if isinstance(value, list):
            return [self.pack(item, f"{at}.{i}") for i, item in enumerate(value)]
        if isinstance(value, torch.Tensor):
            return {"$torch": self._tensor(value, at)}
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
            return {"$numpy": self._tensor(torch.from_numpy(_native(value)), at)}
        what = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise CheckpointError(f"state{at} is an {what}, which a state file cannot hold; nothing was written")

    def _tensor(self, tensor: torch.Tensor, at: str) -> str:
        tensor = tensor.detach()
        same = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() and same in self.written:
            return self.written[same]
        name = at.removeprefix(".") or "state"
        while name in self.tensors:  # keys with dots make paths that are not unique
            name += "_"
        packed = tensor.cpu().contiguous()
        # Two different views of one memory are written as two: safetensors refuses them otherwise
        storage = packed.untyped_storage().data_ptr()
        if packed.numel() and storage in self.storages:
            packed = packed.clone()
        self.storages.add(packed.untyped_storage().data_ptr())
        self.tensors[name] = packed
        self.written[same] = name
        return name


def _native(value: np.ndarray | np.generic) -> np.ndarray:
    array = np.asarray(value)
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.writeable else array.copy()  # torch warns about memory that it may not write


def _unpack(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(key, inner)] = value.items()
        if key == "$torch":
            return tensors[inner]
        if key == "$numpy":
            return tensors[inner].numpy()
        if key == "$tuple":
            return tuple(_unpack(item, tensors) for item in inner)
        if key == "$dict":
            return {name: _unpack(item, tensors) for name, item in inner}
    return {key: _unpack(item, tensors) for key, item in value.items()}


def _digest(skeleton: str, tensors: Mapping[str, torch.Tensor]) -> str:
    digest = hashlib.sha256(skeleton.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        if tensor.numel():
            octets = tensor.reshape(-1).view(torch.uint8)
            for start in range(0, len(octets), _CHUNK):
                digest.update(octets[start : start + _CHUNK].numpy().data)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    """Make sure that a file's (or a folder's) contents are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
