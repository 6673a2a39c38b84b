"""Records of TensorFlow's files and the `Example` messages in them, read without TensorFlow.

A file is a sequence of records: length (8 bytes), its checksum (4), bytes, their checksum (4), all little-endian; the
whole file may be packed by gzip. An Example is a protocol buffer: a map of names to lists of bytes, or packed lists of
floats or integers. Nothing is taken from a record before its checksum fits, and no record, list or name may be longer
than its bounds.
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
    """Yield the records of a file; a DataError says where it is damaged or ends too early."""
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
    """Return the features of an `Example` message."""
    found: dict[str, Value] = {}
    for features in _values(memoryview(data)):
        for entry in _values(features):
            parts = dict(_fields(entry))
            name = bytes(parts.get(1, b"")).decode()
            found[name] = _feature(parts.get(2, memoryview(b"")), name)
    return found


def _feature(data: memoryview, name: str) -> Value:
    for kind, content in _fields(data):
        values = _values(content)
        if kind == 1:
            return list(map(bytes, values))
        if kind == 2:
            return np.frombuffer(b"".join(values), "<f4")
        if kind == 3:
            return np.array([number for packed in values for number in _varints(packed)], np.uint64).view(np.int64)
    raise DataError(f"feature {name!r} holds nothing")


def _values(data: memoryview) -> list[memoryview]:
    """Return the values of a message's first field, which may come several times."""
    return [value for number, value in _fields(data) if number == 1]


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield (number, bytes) of the fields of a message: all that an Example has are of a length that comes first."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 != 2:
            raise DataError(f"a message has a field of wire type {tag & 7} where a message or a string belongs")
        size, at = _varint(data, at)
        if size > len(data) - at:
            raise DataError(f"a message has a field of {size:,} bytes where {len(data) - at:,} are left")
        yield tag >> 3, data[at : at + size]
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
