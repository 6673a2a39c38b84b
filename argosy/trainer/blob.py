"""Policy parameters as bytes: one safetensors blob with a checksum, the same on disk, on its way and in memory."""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import Any, TypeAlias

import numpy as np
import torch

from argosy.errors import MALFORMED, CheckpointError
from argosy.policy.base import PolicyCheckpoint
from argosy.trainer.statefile import TORCH_DTYPES, safetensors_header, tensor_bytes

Blob: TypeAlias = np.ndarray
"""A checkpoint as safetensors bytes, uint8 [n]."""
_VERSION_KEY, _SUM_KEY = "argosy_version", "crc32"
_NO_SUM = "0" * 8  # stands in the header while the sum is taken
_DTYPES = {code: dtype for dtype, code in TORCH_DTYPES.items()}


def encode(checkpoint: PolicyCheckpoint) -> Blob:
    """Turn a checkpoint into the blob that is stored and shipped.

    Its bytes are copied once: every version goes this way, and safetensors' own `save` takes eight times as long.

    Raises:
        CheckpointError: a tensor has a type that safetensors lacks.
    """
    tensors = checkpoint["state_dict"]
    for key, tensor in tensors.items():
        if tensor.dtype not in TORCH_DTYPES:
            raise CheckpointError(f"{key!r} is a tensor of {tensor.dtype}; a checkpoint holds {list(TORCH_DTYPES)}")
    head = safetensors_header(tensors, {_SUM_KEY: _NO_SUM, _VERSION_KEY: str(checkpoint["version"])})
    blob = np.concatenate([np.frombuffer(head, np.uint8), *map(tensor_bytes, tensors.values())])
    place = _place_of_sum(head)
    blob[place] = np.frombuffer(b"%08x" % zlib.crc32(blob.data), np.uint8)
    return blob


def check(blob: Blob) -> Blob:
    """Return the blob, if it is whole.

    Raises:
        CheckpointError: it is torn, damaged, or not one of ours.
    """
    try:
        begin = _header_end(blob)
        head = bytearray(blob[:begin])
        place = _place_of_sum(head)
        given, head[place] = bytes(head[place]), _NO_SUM.encode()
    except (ValueError, struct.error) as error:
        raise CheckpointError(f"these {len(blob)} bytes are not a policy checkpoint of argosy: {error!r}") from error
    if b"%08x" % zlib.crc32(np.ascontiguousarray(blob[begin:]).data, zlib.crc32(head)) != given:
        raise CheckpointError(f"these {len(blob)} bytes are damaged: their checksum does not fit")
    return blob


def decode(blob: Blob) -> PolicyCheckpoint:
    """Turn a blob back into a checkpoint, whose tensors are copies; refuses what `check` refuses."""
    check(blob)
    try:
        begin = _header_end(blob)
        header = json.loads(blob[8:begin].tobytes())
        version = int(header.pop("__metadata__")[_VERSION_KEY])
        state = {key: _tensor(blob[begin:], entry) for key, entry in header.items()}
    except MALFORMED as error:
        raise CheckpointError(f"these {len(blob)} bytes are not a policy checkpoint of argosy: {error!r}") from error
    return {"version": version, "state_dict": state}


def _header_end(blob: Blob) -> int:
    end: int = 8 + struct.unpack("<Q", blob[:8].tobytes())[0]
    if end > len(blob):
        raise ValueError(f"a header of {end - 8} bytes")
    return end


def _place_of_sum(head: bytes | bytearray) -> slice:
    """Where the checksum stands; it is the first entry of the metadata, which come first."""
    start = head.index(f'"{_SUM_KEY}": "'.encode()) + len(_SUM_KEY) + 5
    return slice(start, start + len(_NO_SUM))


def _tensor(data: Blob, entry: dict[str, Any]) -> torch.Tensor:
    dtype, shape, given = _DTYPES[entry["dtype"]], entry["shape"], data[slice(*entry["data_offsets"])]
    if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != len(given):
        raise ValueError(f"{len(given)} bytes for {shape} of {dtype}")
    tensor = torch.empty(shape, dtype=dtype)
    tensor_bytes(tensor)[:] = given
    return tensor
