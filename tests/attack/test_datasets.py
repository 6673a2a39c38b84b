"""Crafted and damaged data sets of other programs: named errors, memory bounded, nothing executed."""

import io
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tally import none_raw, tally

pytest.importorskip("h5py")
sys.path.insert(0, str(Path(__file__).parents[1] / "data"))

from filed import atari_rows, columns, write_hdf5, write_minari, write_records

from argosy.data.datasets import open_source
from argosy.data.datasets.tfrecord import masked_crc, parse_example
from argosy.errors import DataError


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a file was unpickled",))


def record(data, *, length=None):
    head = struct.pack("<Q", len(data) if length is None else length)
    return head + struct.pack("<I", masked_crc(head)) + data + struct.pack("<I", masked_crc(data))


def feature(name, content):
    """A map entry of a message whose lists are written by hand."""
    entry = b"\x0a" + bytes([len(name)]) + name + b"\x12" + varint(len(content)) + content
    features = b"\x0a" + varint(len(entry)) + entry
    return b"\x0a" + varint(len(features)) + features


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


MESSAGES = {
    "no message": b"\xff" * 40,
    "a number without end": b"\x80" * 200,
    "a field longer than the message": b"\x0a\xff\xff\xff\xff\x0f",
    "a field of 2^63 bytes": b"\x0a" + b"\xff" * 8 + b"\x7f",
    "a wire type that there is not": b"\x0b\x0a\x0c",
    "a number where a message belongs": b"\x08\x01",
    "a name that is no text": feature(b"\xff\xfe", b"\x1a\x03\x0a\x01\x01"),
    "floats of three bytes": feature(b"r_t", b"\x12\x05\x0a\x03abc"),
    "a feature of nothing": feature(b"r_t", b""),
    "nothing": b"",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_crafted_message_is_refused(name, tmp_path):
    (tmp_path / "run").write_bytes(record(MESSAGES[name]))
    with pytest.raises(DataError, match=r"run"):
        open_source(tmp_path / "run").load()


def test_a_list_of_numbers_takes_no_more_than_its_bytes():
    found = parse_example(feature(b"a", b"\x1a" + varint(4 + 100_000) + b"\x0a" + varint(100_000) + b"\x01" * 100_000))
    assert found["a"].nbytes == 800_000


@pytest.mark.parametrize("length", [1 << 40, (1 << 64) - 1, (1 << 24) + 1])
def test_a_record_that_claims_to_be_large_is_refused_unread(length, tmp_path):
    (tmp_path / "run").write_bytes(record(b"abc", length=length))
    with pytest.raises(DataError, match=r"record 0 has .* bytes; at most"):
        open_source(tmp_path / "run")


def npy(descr="'<f4'", shape="(12, 3)", order="False", body=b"\0" * 144):
    head = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + body


def pickled():
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([Bomb()] * 12, dtype=object))
    return file.getvalue()


ARRAYS = {
    "pickled objects": pickled(),
    "a pickle": pickle.dumps(Bomb()),
    "code as a shape": npy(shape="__import__('os').abort()"),
    "brackets without end": npy(shape="(" * 90),
    "more than there is": npy(shape="(1000000000, 3)"),
    "a shape of 2^200": npy(shape=f"({2**100}, {2**100})"),
    "a negative shape": npy(shape="(-12, 3)"),
    "no rows": npy(shape="()", body=b"\0" * 4),
    "text": npy(descr="'<U3'", body=b"\0" * 432),
    "column by column": npy(order="True"),
    "records": npy(descr="[('a', '<f4', (3,))]", shape="(12,)"),
    "too long a head": b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30) + b" " * 200,
    "nothing": b"",
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_crafted_array_is_refused(name, tmp_path):
    np.savez(tmp_path / "a.npz", **{key: value for key, value in columns().items() if key != "observations"})
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("observations.npy", ARRAYS[name])
    with pytest.raises(DataError, match=r"a.npz"):
        open_source(tmp_path / "a.npz").load()


def test_an_archive_that_inflates_without_bounds_is_refused_unread(tmp_path):
    body = npy(shape="(80000, 3)", body=b"\0" * 960_000)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("observations.npy", body)
    with pytest.raises(DataError, match=r"would take 960,128 bytes and takes"):
        open_source(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("observations.npy", np.random.default_rng(0).bytes(1000))
    with pytest.raises(DataError, match=r"is packed by method 12"):
        open_source(tmp_path / "b.npz")


def whole_files(folder):
    """A file of each kind, as bytes: npz of both sorts, TFRecords of both sorts."""
    np.savez(folder / "a.npz", **columns())
    np.savez_compressed(folder / "b.npz", **columns())
    write_records(folder / "c", atari_rows(6, end=3, side=4))
    write_records(folder / "d", atari_rows(6, end=3, side=4), packed=False)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def damaged_files(count, seed, folder):
    """Read so many damaged files: bits flipped, cut short, bytes put in or taken out."""
    rng = np.random.default_rng(seed)
    whole = whole_files(folder)

    def reads():
        for i in range(count):
            name = sorted(whole)[i % len(whole)]
            (folder / name).write_bytes(damaged(whole[name], rng))
            yield lambda: open_source(folder / name).load()  # noqa: B023  # it is called before the next one is made

    return tally(reads(), DataError)


def damaged(data, rng):
    data = bytearray(data)
    at = int(rng.integers(len(data)))
    kind = rng.integers(4)
    if kind == 0:
        return data[:at]
    if kind == 1:
        data[at:at] = rng.bytes(3)
    elif kind == 2:
        del data[at : at + 3]
    else:
        for _ in range(int(rng.integers(1, 6))):
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return data


@pytest.mark.parametrize(("seed", "count"), [(0, 400), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_what_is_damaged_is_refused_by_name_or_read(tmp_path, seed, count):
    counts = damaged_files(count, seed, tmp_path)
    assert none_raw(counts), counts
    assert counts["refused"] > 0.8 * count


def test_hdf5_files_that_are_cut_short_are_refused(tmp_path):
    paths = [
        write_hdf5(tmp_path / "a.hdf5", columns()),
        write_minari(tmp_path / "m", columns()) / "data/main_data.hdf5",
    ]
    for path in paths:
        data = path.read_bytes()
        for share in (0.1, 0.5, 0.9, 0.999):
            path.write_bytes(data[: int(len(data) * share)])
            with pytest.raises(DataError, match=path.name):
                open_source(path).load()


def test_links_of_other_programs_files_are_not_followed(tmp_path):
    import h5py

    write_hdf5(tmp_path / "secret.hdf5", {"x": np.ones((12, 3), np.float32)})
    path = write_hdf5(tmp_path / "a.hdf5", {key: value for key, value in columns().items() if key != "observations"})
    with h5py.File(path, "a") as file:
        file["observations"] = h5py.ExternalLink("secret.hdf5", "/x")
    with pytest.raises(DataError, match=r"'observations' in / is a link to elsewhere"):
        open_source(path)
    path = write_minari(tmp_path / "m", columns()) / "data" / "main_data.hdf5"
    with h5py.File(path, "a") as file:
        del file["episode_1/observations"]
        file["episode_1/observations"] = h5py.ExternalLink("../../secret.hdf5", "/x")
    with pytest.raises(DataError, match=r"'observations' in /episode_1 is a link to elsewhere"):
        open_source(path)
