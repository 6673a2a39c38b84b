"""Any state (nested dicts and lists of arrays, tensors, numbers, strings) in one safetensors file.

The tensors of the file are the arrays and tensors of the state. Its metadata hold the rest: a JSON skeleton that says
where each of them belongs, the version of this format, and a SHA-256 over skeleton and tensor bytes. Reading executes
no code. Writing replaces the old file only when the new one is safely on the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from argosy.data.lazy import LazyArray
from argosy.errors import MALFORMED, ArgosyError, CheckpointError, told
from argosy.files import replacing

FORMAT = "argosy-state"
VERSION = 1
_CHUNK = 1 << 24


def write_state(path: str | Path, kind: str, state: object) -> None:
    """Write `state` to `path`, all or nothing: a crash at any moment leaves the old file or the new one.

    Arrays are written from where they lie, and lazy ones part by part, without a second copy in memory.

    Args:
        path: the file; its folder is made.
        kind: what the state is of, e.g. "checkpoint"; `read_state` asks for the same.
        state: nested dicts (keys: strings or ints), lists, tuples; leaves: numpy and lazy arrays, torch tensors,
            numbers, strings, bools, None.

    Raises:
        CheckpointError: something in the state cannot be written; names its place. Or the disk refuses.
    """
    path = Path(path)
    tensors, metadata = _taken_apart(kind, state)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            _write_tensors(file, tensors, metadata)
        _sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"{str(path)!r} could not be written: {error}; the old file is unchanged") from error


@contextlib.contextmanager
def or_as_before(path: str | Path, undo: Callable[[], None]) -> Iterator[None]:
    """Let what takes in the state of a file change nothing if that does not fit: `undo` is called.

    Raises:
        CheckpointError: it does not fit.
    """
    try:
        yield
    except (ArgosyError, *MALFORMED) as error:
        undo()
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{str(path)!r} does not fit this trainer: {told(error)}") from error


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
    return _put_together(name, kind, metadata, tensors)


def dump_state(kind: str, state: object) -> bytes:
    """Return what `write_state` would write; see there."""
    tensors, metadata = _taken_apart(kind, state)
    file = io.BytesIO()
    _write_tensors(file, tensors, metadata)
    return file.getvalue()


def load_state(data: bytes, kind: str) -> Any:
    """Return the state that `dump_state` turned into bytes; refuses what `read_state` refuses."""
    name = f"a message of {len(data)} bytes"
    try:
        tensors = safetensors.torch.load(data)
        metadata = json.loads(data[8 : 8 + struct.unpack_from("<Q", data)[0]])["__metadata__"]
    except (SafetensorError, struct.error, *MALFORMED) as error:
        raise CheckpointError(f"{name} is no state of argosy: {error}") from error
    return _put_together(name, kind, metadata, tensors)


def _taken_apart(kind: str, state: object) -> tuple[dict[str, Stored], dict[str, str]]:
    """Return the tensors of a state, and the metadata that stand beside them."""
    tensors: dict[str, Stored] = {}
    skeleton = json.dumps(_Packer(tensors).pack(state, ""))
    return tensors, {"format": FORMAT, "version": str(VERSION), "kind": kind, "skeleton": skeleton}


def _put_together(name: str, kind: str, metadata: Mapping[str, str], tensors: Mapping[str, torch.Tensor]) -> Any:
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{name} was not written by argosy (a safetensors file without format {FORMAT!r})")
    version = metadata.get("version", "")
    if version != str(VERSION):
        raise CheckpointError(
            f"{name} has format version {version!r:.20}; this argosy reads versions up to {VERSION}: update argosy"
        )
    if metadata.get("kind") != kind:
        raise CheckpointError(f"{name} holds a {metadata.get('kind')!r}, not a {kind!r}")
    skeleton = metadata.get("skeleton", "")
    if _digest(skeleton, tensors) != metadata.get("sha256"):
        raise CheckpointError(f"{name} is damaged: its checksum does not fit its contents")
    try:
        return _unpack(json.loads(skeleton), tensors)
    except MALFORMED as error:  # a right checksum is made by whoever writes the file
        raise CheckpointError(f"{name} is damaged: its skeleton {skeleton!r:.80} makes no state: {error!r}") from error


# In the skeleton a dict with one special key stands for what JSON lacks:
#   {"$torch": name}, {"$numpy": name}, {"$tuple": [...]}, {"$dict": [[key, value], ...]} (keys that are no strings,
#   or begin with $)


Stored = torch.Tensor | LazyArray


class _Packer:
    """Takes a state apart into a skeleton and tensors; a tensor that occurs twice is written once."""

    def __init__(self, tensors: dict[str, Stored]) -> None:
        self.tensors = tensors
        self.written: dict[tuple[object, ...], str] = {}

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
        if isinstance(value, torch.Tensor) and value.dtype in TORCH_DTYPES:
            return {"$torch": self._tensor(value, at)}
        if isinstance(value, np.ndarray | np.generic | LazyArray) and value.dtype in DTYPES:
            return {"$numpy": self._name(value, at) if isinstance(value, LazyArray) else self._array(value, at)}
        what = f"{type(value).__name__} of {value.dtype}" if hasattr(value, "dtype") else type(value).__name__
        raise CheckpointError(f"state{at} is a {what}, which a state file cannot hold; nothing was written")

    def _array(self, value: np.ndarray | np.generic, at: str) -> str:
        array = np.asarray(value)
        native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        # A copy of what is read-only: torch warns about memory that it may not write
        return self._tensor(torch.from_numpy(native if native.flags.writeable else native.copy()), at)

    def _tensor(self, tensor: torch.Tensor, at: str) -> str:
        same = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() and same in self.written:
            return self.written[same]
        name = self._name(tensor.detach(), at)
        self.written[same] = name
        return name

    def _name(self, value: Stored, at: str) -> str:
        name = at.removeprefix(".") or "state"
        while name in self.tensors or name == "__metadata__":  # keys with dots make paths that are not unique
            name += "_"
        self.tensors[name] = value
        return name


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


# The file is laid out as safetensors says: length of the header (8 bytes), header (JSON), bytes of the tensors.

_NUMBERS = ("u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8")
DTYPES: dict[np.dtype[Any], str] = {np.dtype(bool): "BOOL"} | {
    np.dtype(name): f"{name[0].upper()}{8 * int(name[1])}" for name in _NUMBERS
}
TORCH_DTYPES = {torch.from_numpy(np.empty(0, dtype)).dtype: code for dtype, code in DTYPES.items()}
TORCH_DTYPES[torch.bfloat16] = "BF16"
_DIGEST = "0" * 64  # its place in the header, until it is known


def safetensors_header(tensors: Mapping[str, Stored], metadata: Mapping[str, str]) -> bytes:
    """Return the header of a file in which the bytes of these tensors follow, in this order."""
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name, value in tensors.items():
        start, end = end, end + value.dtype.itemsize * int(np.prod(value.shape, dtype=np.int64))
        header[name] = {"dtype": _code(value), "shape": list(value.shape), "data_offsets": [start, end]}
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    return struct.pack("<Q", len(encoded)) + encoded


def tensor_bytes(tensor: torch.Tensor) -> np.ndarray:
    """Return the bytes of a tensor, uint8 [n]; no copy where it lies in one piece on the CPU."""
    flat: np.ndarray = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return flat


def _write_tensors(file: IO[bytes], tensors: Mapping[str, Stored], metadata: Mapping[str, str]) -> None:
    """Write header and tensors in one pass; the checksum is put in afterwards."""
    head = safetensors_header({name: tensors[name] for name in _order(tensors)}, {**metadata, "sha256": _DIGEST})
    file.write(head)
    digest = _digest(metadata["skeleton"], tensors, file.write)
    file.seek(head.index(_DIGEST.encode()))
    file.write(digest.encode())


def _order(tensors: Mapping[str, Stored]) -> list[str]:
    """Return the names in the order of the file, large items first, so that each lies aligned."""
    return sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))


def _digest(skeleton: str, tensors: Mapping[str, Stored], write: Callable[[memoryview], object] | None = None) -> str:
    """Return the checksum over a skeleton and tensors, whose bytes `write` is given, part by part."""
    digest = hashlib.sha256(skeleton.encode())
    for name in _order(tensors):
        value = tensors[name]
        digest.update(f"{name} {_code(value)} {list(value.shape)};".encode())
        for part in _parts(value):
            digest.update(part)
            if write is not None:
                write(part)
    return digest.hexdigest()


def _parts(value: Stored) -> Iterator[memoryview]:
    """Yield the bytes of a tensor in parts."""
    if isinstance(value, LazyArray):
        rows = max(1, _CHUNK // max(1, value.nbytes // max(1, value.shape[0])))
        for start in range(0, value.shape[0], rows):
            part = np.ascontiguousarray(value.read(start, min(start + rows, value.shape[0])))
            yield part.reshape(-1).view(np.uint8).data
    elif value.numel():
        flat = tensor_bytes(value)
        for start in range(0, len(flat), _CHUNK):
            yield flat[start : start + _CHUNK].data


def _code(value: Stored) -> str:
    return DTYPES[value.dtype] if isinstance(value, LazyArray) else TORCH_DTYPES[value.dtype]


def _sync_folder(path: Path) -> None:
    """Make sure that a folder's entries are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
