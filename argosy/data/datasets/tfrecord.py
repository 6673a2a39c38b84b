"""Records of TensorFlow's files and the `Example` messages in them, read without TensorFlow.

A file is a sequence of records: length (8 bytes), its checksum (4), bytes, their checksum (4), all little-endian; the
whole file may be packed by gzip. An Example is a protocol buffer: a map of names to lists of bytes, floats or integers.
Nothing is taken from a record before its checksum fits, and no record, list or name may be longer than its bounds.
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

from argosy.data.buffer.sumtree import compiled
from argosy.data.hdf5 import naming_errors
from argosy.errors import DataError

MAX_RECORD_BYTES = 1 << 24
"""Of one record; a longer one is taken for damage."""
_GZIP = b"\x1f\x8b"
_POLYNOMIAL = 0x82F63B78  # CRC-32C, the bits of each byte reversed

Value: TypeAlias = list[bytes] | np.ndarray
"""Of a feature: byte strings, or [n] float32 or int64."""


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


_TABLE = _crc_table()


@compiled("uint32(Array(uint8, 1, 'C', readonly=True), Array(uint32, 1, 'C', readonly=True))")
def _crc(data: np.ndarray, table: np.ndarray) -> int:
    crc = np.uint32(0xFFFFFFFF)
    for byte in data:
        crc = table[(crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return crc ^ np.uint32(0xFFFFFFFF)  # type: ignore[return-value]  # compiled, it is a number


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C of bytes as the format writes it: rotated, and a constant added."""
    crc = int(_crc(np.frombuffer(data, np.uint8), _TABLE))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def open_records(path: Path) -> IO[bytes]:
    """Open a file of records, packed or not."""
    with open(path, "rb") as file:
        packed = file.read(2) == _GZIP
    return io.BufferedReader(gzip.open(path), 1 << 20) if packed else open(path, "rb")


def is_tfrecord(path: Path) -> bool:
    """Say whether a file begins as one of these does."""
    try:
        with open_records(path) as file:
            head = file.read(12)
    except (OSError, EOFError, zlib.error):
        return False
    return len(head) == 12 and masked_crc(head[:8]) == struct.unpack("<I", head[8:])[0]


def read_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a file.

    Raises:
        DataError: a checksum does not fit, a record is longer than the bound, or the file ends within one, or within
            what gzip packed.
    """
    with naming_errors(str(path), broken="is damaged"), open_records(path) as file:
        number = 0
        while head := file.read(12):
            if len(head) < 12 or masked_crc(head[:8]) != struct.unpack("<I", head[8:])[0]:
                raise DataError(f"{path} is damaged: the length of record {number} does not fit its checksum")
            (length,) = struct.unpack("<Q", head[:8])
            if length > MAX_RECORD_BYTES:
                raise DataError(f"{path}: record {number} has {length:,} bytes; at most {MAX_RECORD_BYTES:,} are read")
            data = file.read(length + 4)
            if len(data) < length + 4:
                raise DataError(f"{path} ends within record {number}; it is cut short")
            if masked_crc(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
                raise DataError(f"{path} is damaged: record {number} does not fit its checksum")
            yield data[:-4]
            number += 1


def parse_example(data: bytes) -> dict[str, Value]:
    """Return the features of an `Example` message.

    Raises:
        DataError: it is none.
    """
    found: dict[str, Value] = {}
    for number, features in _fields(memoryview(data)):
        if number != 1:
            continue
        for entry_number, entry in _fields(_bytes(features)):
            if entry_number != 1:
                continue
            parts = dict(_fields(_bytes(entry)))
            name, feature = bytes(_bytes(parts.get(1, memoryview(b"")))).decode(), _bytes(parts.get(2, memoryview(b"")))
            found[name] = _feature(feature, name)
    return found


def _feature(data: memoryview, name: str) -> Value:
    for kind, content in _fields(data):
        values = [value for number, value in _fields(_bytes(content)) if number == 1]
        if kind == 1:
            return [bytes(_bytes(value)) for value in values]
        if kind == 2:  # packed, or one by one (then they come as integers of 4 bytes)
            raw = b"".join(struct.pack("<I", v) if isinstance(v, int) else bytes(v) for v in values)
            return np.frombuffer(raw, "<f4")
        if kind == 3:
            numbers = [n for v in values for n in ([v] if isinstance(v, int) else _varints(v))]
            return np.array(numbers, np.uint64).view(np.int64)
    raise DataError(f"feature {name!r} holds nothing")


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield (number, value) of the fields of a message: integers, or the bytes of whatever has a length."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise DataError(f"a message has a field of wire type {kind}, which there is not")
        if size > len(data) - at:
            raise DataError(f"a message has a field of {size:,} bytes where {len(data) - at:,} are left")
        content = data[at : at + size]
        yield tag >> 3, content if kind == 2 else int.from_bytes(content, "little")
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise DataError("a message ends within a number, or holds one of more than 64 bits")


def _varints(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise DataError("a message has a number where a message or a string belongs")
    return value
