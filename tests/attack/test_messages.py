"""Damaged and made-up messages: refused by a named error, in bounded time and memory, or harmless."""

import json
import struct
from functools import partial

import numpy as np
import pytest
import torch
from tally import none_raw, tally

from argosy.data import Batch, NamedArray, dumps, loads, wire
from argosy.errors import DataError

METHODS = ("raw_bytes", "raw_compress", "obs_compress", "compress_except_policy_state")
PIECES = (b"[", b"]", b"{", b"}", b'"', b",", b"|O", b"<f8", b"1e400", b"-1", b"9" * 30, b"null", b"NaN", b"\\u0000")


def message(rng):
    """A valid message: some arrays, nested, compressed or not."""
    record = NamedArray(
        obs={"a": rng.random((int(rng.integers(1, 9)), 3)), "b": np.zeros(200, np.uint8)},
        act=rng.integers(0, 9, 5),
        n=NamedArray(x=np.float32(1), name="x", none=None),
        extra=Batch(flag=np.array([True])),
    )
    record.register_metadata(worker=3)
    return dumps(record, str(rng.choice(METHODS)))


def damaged(data, rng):
    """The message with bits flipped, bytes cut out, doubled, or replaced by what means something in a header."""
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data)))
        match int(rng.integers(5)):
            case 0:
                data[at] ^= 1 << int(rng.integers(8))
            case 1:
                del data[at : at + int(rng.integers(1, 64))]
            case 2:
                data[at:at] = data[at : at + int(rng.integers(1, 64))]
            case 3:
                piece = PIECES[int(rng.integers(len(PIECES)))]
                data[at : at + len(piece)] = piece
            case 4:
                data[:at] = data[:at][::-1] if rng.random() < 0.1 else data[:at]
        if not data:
            break
    return bytes(data)


def damaged_messages(count, seed, folder):
    """Read so many damaged messages; without a checksum, numbers may be others, but they are numbers."""
    rng = np.random.default_rng(seed)

    def read(data):
        found = vars(loads(data)).get("obs", {}).values()
        assert all(getattr(x, "dtype", np.dtype(int)).kind in "biufc" for x in found)

    reads = (partial(read, damaged(message(rng), rng)) for _ in range(count))
    return tally(reads, DataError)


@pytest.mark.parametrize(("seed", "count"), [(0, 2_000), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_damaged_messages_give_named_errors(tmp_path, seed, count):
    counts = damaged_messages(count, seed, tmp_path)
    assert none_raw(counts), counts
    assert counts["refused"] > count // 3


def crafted(metadata):
    """A message of an empty record."""
    header = json.dumps({"record": ["node", "x", {}], "metadata": metadata}).encode()
    return wire._HEAD.pack(b"ARGN", 2, len(header), 0) + struct.pack("<0Q") + header


@pytest.mark.parametrize("metadata", [[[1, 2]], [], [3], 3, None, "ab"])
def test_metadata_that_are_none_are_refused(metadata):
    with pytest.raises(DataError, match="header of the message is damaged"):
        loads(crafted(metadata))


def test_metadata_may_have_any_name():
    assert loads(crafted({"self": 1, "": 2})).metadata == {"self": 1, "": 2}


@pytest.mark.parametrize("dtype", ["qint8", "quint8", "qint32", "quint4x2", "bits8", "int4", "uint1", "nn", "__doc__"])
def test_tensors_of_numbers_alone_are_made(dtype):
    """One of a quantised type, made of bytes alone, ends the process as soon as somebody looks at it."""
    whole = dumps(NamedArray(x=torch.zeros(8, dtype=torch.float32)))
    with pytest.raises(DataError, match="header of the message is damaged"):
        repr(loads(crafted_header(whole, b'"float32"', f'"{dtype}"'.encode())))


def crafted_header(message, before, after):
    """The message with something else in its header."""
    size, head = struct.unpack_from("<I", message, 5)[0], 13 + 16
    header = message[head : head + size].replace(before, after)
    body = message[head + size :].lstrip(b"\0") or bytes(32)
    start = wire._HEAD.pack(b"ARGN", 2, len(header), 1) + struct.pack("<2Q", 32, 32) + header
    return start + bytes(-len(start) % 64) + body[:32].ljust(32, b"\0")
