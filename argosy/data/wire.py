"""Named arrays as bytes: one copy out, none back in. For sockets, files and shared memory.

A message is a head (magic, sizes), a header (a pickle or JSON that says what is where) and the arrays' bytes, each
at a multiple of 64 bytes. The raw methods have a JSON header: `loads` of such a message executes no code, takes only
classes that this process has declared with `@namedarray`, and makes arrays on the memory it was given. So a raw message
in shared memory IS the record: whoever loads it there reads and writes the same arrays. The pickle methods carry any
object, and loading one may run any code: `loads` takes them only where the caller says so.
"""

from __future__ import annotations

import copy
import functools
import json
import pickle
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import numpy as np
import torch

from argosy.data import tree
from argosy.data.batch import Batch
from argosy.data.namedarray import CLASSES, NamedArray
from argosy.errors import MALFORMED, DataError, nearest

Method = Literal[
    "pickle_dict",
    "pickle",
    "raw_bytes",
    "raw_compress",
    "compress_pickle",
    "pickle_compress",
    "obs_compress",
    "compress_except_policy_state",
]
Buffer = bytes | bytearray | memoryview


_METHODS: Final[dict[str, tuple[str, Callable[[str], bool] | None]]] = {
    "pickle_dict": ("dict", None),
    "pickle": ("pickle", None),
    "raw_bytes": ("raw", None),
    "raw_compress": ("raw", lambda path: True),
    "compress_pickle": ("pickle", lambda path: True),
    "pickle_compress": ("pickle", lambda path: True),
    "obs_compress": ("raw", lambda path: path.split(".")[0] == "obs"),
    "compress_except_policy_state": ("raw", lambda path: "policy_state" not in path.split(".")),
}
"""The kind of header, and whether the array at a path is compressed; None: none is."""
_HEAD = struct.Struct("<4sBII")  # magic, kind of header, bytes of header, number of buffers
# After the head, per buffer: bytes as stored and bytes as they were (uint64); they differ where it is compressed.
_MAGIC = b"ARGN"
_KINDS = ("dict", "pickle", "raw")
_ALIGN = 64
_ZEROS = bytes(_ALIGN)
_MAX_RATIO = 1032
"""Of what zlib can compress: https://zlib.net/zlib_tech.html."""
_NUMBERS = re.compile("[<>|][biufc][0-9]{1,2}")
_TENSORS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
_TENSORS += ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
"""Types of tensors; some that torch has beside, such as quantised ones, it does not survive without what they need."""
_MAX_DEPTH = 32
"""Of records within records."""


def dumps(x: NamedArray, method: Method = "raw_bytes") -> bytes:
    """Return `x` with its metadata as bytes.

    | method | header | what is compressed (zlib) |
    | --- | --- | --- |
    | pickle, pickle_dict | pickle of the record; of nested dicts, without classes | nothing |
    | pickle_compress, compress_pickle | pickle of the record | every array |
    | raw_bytes, raw_compress | JSON | nothing; every array |
    | obs_compress | JSON | what is under `obs` |
    | compress_except_policy_state | JSON | what is not under `policy_state` |

    Raises:
        DataError: the method is unknown, or a raw one and a field or metadata is neither array nor JSON; names it.
    """
    if method not in _METHODS:
        raise DataError(f"there is no method {method!r} to dump with; {nearest(method, _METHODS)}")
    kind, compressed = _METHODS[method]
    buffers: list[np.ndarray] = []
    paths: list[str] = []
    if kind == "raw":
        record = _layout(x, "", buffers, paths)
        try:
            metadata = json.dumps(dict(x.metadata))
        except TypeError as error:
            raise DataError(f"metadata {dict(x.metadata)!r:.200} is not JSON ({error}); use a pickle method") from error
        header = f'{{"record": {record}, "metadata": {metadata}}}'.encode()
    else:
        found: list[pickle.PickleBuffer] = []
        content = (x.to_dict(), dict(x.metadata)) if kind == "dict" else x
        header = pickle.dumps(content, protocol=5, buffer_callback=found.append)
        buffers = [np.frombuffer(buffer.raw(), np.uint8) for buffer in found]
        paths = [""] * len(buffers)
    stored = buffers
    if compressed is not None:
        stored = [_compress(b) if compressed(p) else b for b, p in zip(buffers, paths, strict=True)]
    sizes = [0] * (2 * len(stored))
    sizes[::2], sizes[1::2] = [part.nbytes for part in stored], [part.nbytes for part in buffers]
    parts: list[Buffer] = [
        _HEAD.pack(_MAGIC, _KINDS.index(kind), len(header), len(buffers)),
        struct.pack(f"<{len(sizes)}Q", *sizes),
        header,
    ]
    at = _HEAD.size + 8 * len(sizes) + len(header)
    for part, size in zip(stored, sizes[::2], strict=True):
        if padding := -at % _ALIGN:
            parts.append(_ZEROS[:padding])
        parts.append(part.data)
        at += padding + size
    return b"".join(parts)


def _compress(buffer: np.ndarray) -> np.ndarray:
    """Return the bytes compressed, or as they are where that would not make them fewer."""
    packed = np.frombuffer(zlib.compress(buffer.data, 1), np.uint8)
    return packed if packed.nbytes < buffer.nbytes else buffer


def loads(data: Buffer, *, allow_pickle: bool = False) -> NamedArray:
    """Undo `dumps`. Raw methods give arrays on the memory of `data`, read-only where that is.

    The pickle methods give arrays that can be written to. A class that this process has not declared becomes a plain
    `NamedArray` (raw methods). Messages of the pickle methods are taken with `allow_pickle` only: whoever wrote one
    decides what it executes.

    Raises:
        DataError: `data` is no such message, is damaged or cut short, or is a pickle that was not asked for.
    """
    view = memoryview(data).cast("B")
    kind, header, buffers = _parts(view)
    if kind == "raw":
        try:
            layout = _parse(bytes(header))
            left = iter(buffers)
            record = _is_record(_load_node(layout["record"], left))
            metadata = {str(key): value for key, value in copy.deepcopy(layout["metadata"]).items()}
        except (StopIteration, *MALFORMED) as error:
            raise DataError(f"the header of the message is damaged: {type(error).__name__}: {error}") from error
        if next(left, None) is not None:
            raise DataError("the message is damaged: it holds more buffers than its header says")
    elif not allow_pickle:
        raise DataError("the message is a pickle, which may run code when it is loaded; to trust it: allow_pickle=True")
    else:
        # Arrays that are unpickled are expected to be writable: that is the one copy on this way.
        loaded = pickle.loads(header, buffers=[bytearray(buffer) for buffer in buffers])
        if kind == "pickle":
            return _is_record(loaded)
        fields, metadata = loaded
        record = _is_record(_records(fields))
    if metadata:
        record.register_metadata(**metadata)
    return record


@functools.lru_cache(maxsize=32)
def _parse(header: bytes) -> dict[str, Any]:
    """Parse a JSON header; the result is not to be changed. Messages of one sender mostly have the same header."""
    parsed: dict[str, Any] = json.loads(header)
    return parsed


def _parts(view: memoryview) -> tuple[str, memoryview, list[memoryview]]:
    """Take a message apart: kind of header, header, buffers (decompressed)."""
    if len(view) < _HEAD.size or view[:4] != _MAGIC:
        raise DataError("these bytes were not made by dumps")
    _, kind, header_size, count = _HEAD.unpack_from(view)
    at = _HEAD.size + 16 * count
    if kind >= len(_KINDS) or at + header_size > len(view):
        raise DataError(f"the message is damaged or cut short: {len(view)} bytes")
    sizes = struct.unpack_from(f"<{2 * count}Q", view, _HEAD.size)
    header = view[at : at + header_size]
    at += header_size
    buffers, end = [], len(view)
    for stored, size in zip(sizes[::2], sizes[1::2], strict=True):
        first = at + -at % _ALIGN
        at = first + stored
        if at > end:
            raise DataError(f"the message is cut short: {end} bytes, {at} needed")
        buffers.append(view[first:at] if stored == size else _decompress(view[first:at], size))
    return _KINDS[kind], header, buffers


def _decompress(part: memoryview, size: int) -> memoryview:
    """Undo `_compress`; never makes more than the declared `size`, nor believes a size that zlib cannot reach."""
    if 0 < size <= _MAX_RATIO * len(part):
        stream = zlib.decompressobj()
        try:
            found = stream.decompress(part, size)
        except zlib.error as error:
            raise DataError(f"the message is damaged: {error}") from error
        if len(found) == size and not stream.unconsumed_tail:
            return memoryview(found)
    raise DataError(f"the message is damaged: {len(part)} compressed bytes are said to be {size}")


def _layout(node: object, path: str, buffers: list[np.ndarray], paths: list[str]) -> str:
    """Describe a node or leaf in JSON; contiguous arrays go to `buffers`, their paths to `paths`."""
    if type(node) is np.ndarray and node.dtype.kind in tree.NUMERIC:  # nearly every leaf is one: first and alone
        buffers.append(node if node.flags.c_contiguous else np.ascontiguousarray(node))
        paths.append(path)
        return _json_of_array(node.dtype, node.shape)
    fields = tree.fields_of(node)
    if fields is not None:
        name = _json_of_text(f"{type(node).__module__}.{type(node).__qualname__}")
        parts = [
            f"{_json_of_text(k)}: {_layout(v, f'{path}.{k}' if path else k, buffers, paths)}" for k, v in fields.items()
        ]
        return f'["node", {name}, {{{", ".join(parts)}}}]'
    if isinstance(node, torch.Tensor):
        flat = node.detach().cpu().contiguous()
        dtype = str(flat.dtype).removeprefix("torch.")
        if dtype not in _TENSORS:
            raise DataError(f"{path!r} is a tensor of {dtype}; raw methods take {', '.join(_TENSORS)}")
        buffers.append(flat.reshape(-1).view(torch.uint8).numpy())
        paths.append(path)
        return json.dumps(["tensor", dtype, list(flat.shape)])
    if isinstance(node, np.ndarray | np.generic) and np.asarray(node).dtype.kind in tree.NUMERIC:
        return _layout(np.asarray(node), path, buffers, paths)
    if node is None or isinstance(node, str | int | float):
        return json.dumps(["value", node])
    raise DataError(f"field {path!r} is {tree.describe(node)}: raw methods take arrays of numbers; use a pickle method")


# Messages of one sender mostly have the same fields: their JSON is kept.


@functools.lru_cache(maxsize=1024)
def _json_of_array(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return json.dumps(["array", dtype.str, shape])


@functools.lru_cache(maxsize=1024)
def _json_of_text(text: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"a field is called {text!r}: raw methods take names that are strings; use a pickle method")
    return json.dumps(text)


def _load_node(layout: Sequence[Any], buffers: Iterator[memoryview], depth: int = 0) -> object:
    if len(layout) == 3 and layout[0] == "array":  # nearly every leaf is one: first, and without the cost of matching
        buffer = next(buffers)
        array: np.ndarray = np.ndarray(layout[2], _dtype(layout[1]), buffer)
        if array.nbytes != len(buffer):
            raise DataError(f"an array of {array.nbytes} bytes lies in {len(buffer)}: the message is damaged")
        return array
    match layout:
        case ["node", str(name), dict(parts)] if depth < _MAX_DEPTH:
            fields = {key: _load_node(part, buffers, depth + 1) for key, part in parts.items()}
            if name == "builtins.dict":
                return fields
            like = Batch() if name == f"{Batch.__module__}.{Batch.__qualname__}" else _empty(name, fields)
            return tree.rebuild(like, fields)
        case ["tensor", str(dtype), list(shape)] if dtype in _TENSORS:
            buffer, kind = next(buffers), getattr(torch, dtype)
            data = bytearray(buffer) if buffer.readonly else buffer  # torch has no read-only tensors
            return (torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)).reshape(shape)
        case ["value", (None | str() | int() | float()) as value]:
            return value
    raise DataError(f"the header of the message is damaged: {layout!r:.80}")


@functools.lru_cache(maxsize=256)
def _dtype(text: str) -> np.dtype[Any]:
    """Return the type of an array; only numbers and booleans are ever read from the memory that a sender fills."""
    if not _NUMBERS.fullmatch(text):
        raise DataError(f"the message holds an array of {text!r:.40}; raw methods carry numbers only")
    return np.dtype(text)


def _empty(name: str, fields: dict[str, object]) -> NamedArray:
    """Return a record without fields of the declared class of that name, if its fields are these; else a plain one."""
    cls = CLASSES.get(name, NamedArray)
    return object.__new__(cls if cls.has_fields(fields) else NamedArray)


def _records(value: object) -> object:
    return NamedArray(**{k: _records(v) for k, v in value.items()}) if isinstance(value, dict) else value


def _is_record(value: object) -> NamedArray:
    if not isinstance(value, NamedArray):
        raise DataError(f"the message holds {tree.describe(value)}, not a named array")
    return value
