"""Crafted and damaged HDF5 files: named errors, no other file read, memory bounded, nothing executed."""

import json
import resource
import shutil

import numpy as np
import pytest
from tally import all_refused, tally

from argosy.data import Batch, ReplayBuffer, VectorReplayBuffer
from argosy.data.hdf5 import sign_hdf5
from argosy.errors import ArgosyError, DataError

h5py = pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("whole") / "buffer.hdf5")


def filled(path):
    """Write a buffer with something in it."""
    buffer = VectorReplayBuffer(total_size=64, buffer_num=2, seed=0)
    for t in range(5):
        buffer.add(
            Batch(
                obs=np.full((2, 3), t, np.float32),
                act=np.array([0, 1]),
                rew=np.ones(2, np.float32),
                terminated=np.zeros(2, bool),
                truncated=np.zeros(2, bool),
                obs_next=np.full((2, 3), t + 1, np.float32),
            )
        )
    buffer.save_hdf5(path)
    return path


def replaced(name, **how):
    def change(file):
        del file[name]
        file.create_dataset(name, **how)

    return change


def without(name):
    return lambda file: file.__delitem__(name)


def attribute(name, value):
    return lambda file: file.attrs.__setitem__(name, value)


def external_link(file):
    del file["columns/obs"]
    file["columns/obs"] = h5py.ExternalLink(file.filename, "/columns/rew")


def soft_link(file):
    del file["columns/obs"]
    file["columns/obs"] = h5py.SoftLink("/columns/rew")


def cycle(file):
    file["columns/obs_next/loop"] = file["columns"] if isinstance(file["columns/obs_next"], h5py.Group) else None


def itself(file):
    file["columns/again"] = file["columns"]


def many_names(file):
    """100 MB of zeros in 100 KB, under a thousand names."""
    zeros = np.zeros((8 * 10**6, 3), np.float32)
    file.create_dataset("columns/own0", data=zeros, compression="gzip", chunks=(10**6, 3))
    for i in range(1, 1000):
        file[f"columns/own{i}"] = file["columns/own0"]


def ways_to_one(file):
    """A group to which 10^15 ways lead."""
    inner = file["columns"].create_group("0")
    for depth in range(1, 16):
        outer = file["columns"].create_group(str(depth))
        for i in range(10):
            outer[str(i)] = inner
        inner = outer


def virtual(file):
    del file["columns/obs"]
    layout = h5py.VirtualLayout((10, 3), np.float32)
    layout[:] = h5py.VirtualSource(file.filename, "columns/rew", (10, 3))
    file["columns"].create_virtual_dataset("obs", layout)


def reference(file):
    del file["columns/obs"]
    file["columns"].create_dataset("obs", (10,), h5py.ref_dtype)[0] = file.ref


def twice_packed(file):
    del file["columns/obs"]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((1000, 3))
    plist.set_deflate(9)
    plist.set_deflate(9)
    space = h5py.h5s.create_simple((1000, 3))
    made = h5py.h5d.create(file["columns"].id, b"obs", h5py.h5t.NATIVE_FLOAT, space, plist)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.zeros((1000, 3), np.float32))


CRAFTED = {
    "external storage": lambda file: replaced(
        "columns/obs", shape=(10, 3), dtype=np.float32, external=[(file.filename, 0, 120)]
    )(file),
    "external link": external_link,
    "soft link": soft_link,
    "a group within itself": itself,
    "an array of many names": many_names,
    "many ways to one group": ways_to_one,
    "virtual data set": virtual,
    "reference": reference,
    "packed twice": twice_packed,
    "240 GB of obs": replaced("columns/obs", shape=(2 * 10**10, 3), dtype=np.float32, chunks=(1024, 3)),
    "6 GB of obs": replaced("columns/obs", shape=(5 * 10**8, 3), dtype=np.float32, chunks=(1024, 3)),
    "options no JSON": attribute("options", "zzz"),
    "options deep": attribute("options", "[" * 60000),
    "options unknown": attribute("options", '{"foo": 1}'),
    "options a list": attribute("options", "[1]"),
    "options wrong type": attribute("options", json.dumps({"stack_num": "x"})),
    "options of a folder": attribute("options", json.dumps({"storage_dir": "/proc/none"})),
    "options huge stack": attribute("options", json.dumps({"stack_num": 10**12})),
    "no options": lambda file: file.attrs.__delitem__("options"),
    "layout text": attribute("argosy_buffer", "x"),
    "layout negative": attribute("argosy_buffer", -1),
    "capacity huge": replaced("rings/capacity", data=np.array([2**62, 2**62])),
    "capacity large": replaced("rings/capacity", data=np.array([2**33, 2**33])),
    "capacity negative": replaced("rings/capacity", data=np.array([-5, -5])),
    "capacity 0": replaced("rings/capacity", data=np.array([0, 0])),
    "capacity NaN": replaced("rings/capacity", data=np.array([np.nan, 1.0])),
    "capacity of one": replaced("rings/capacity", data=np.array([64])),
    "count huge": replaced("rings/count", data=np.array([10**6, 10**6])),
    "count negative": replaced("rings/count", data=np.array([-3, 2])),
    "head out of range": replaced("rings/head", data=np.array([10**6, -99])),
    "last of the other ring": replaced("rings/last", data=np.array([40, 3])),
    "stop too short": replaced("rings/stop", data=np.zeros(3, np.bool_)),
    "stop nowhere": replaced("rings/stop", data=np.zeros(64, np.bool_)),
    "stop of numbers": replaced("rings/stop", data=np.zeros(64)),
    "returns of text": replaced("rings/ep_rew", data=np.array([b"a", b"b"])),
    "no rings": without("rings"),
    "no columns": without("columns"),
    "no obs": without("columns/obs"),
    "no count": without("rings/count"),
    "obs text": replaced("columns/obs", data=np.array([b"abc"] * 10)),
    "obs text of any length": replaced("columns/obs", data=["abc"] * 10),
    "obs too few": replaced("columns/obs", data=np.zeros((3, 3), np.float32)),
    "rewards of text": replaced("columns/rew", data=np.array([b"a"] * 10)),
    "ends no flags": replaced("columns/terminated", data=np.full(10, 7)),
    "random state of another kind": lambda file: file["rng"].attrs.__setitem__("bit_generator", '"MT19937"'),
    "random state gone": without("rng"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_refused_or_harmless(name, whole, tmp_path):
    path = tmp_path / "crafted.hdf5"
    shutil.copy(whole, path)
    with h5py.File(path, "a") as file:
        CRAFTED[name](file)
    sign_hdf5(path)  # whoever makes up a file can do that, too
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if name == "random state gone":
        assert len(ReplayBuffer.load_hdf5(path)) == 10
        return
    with pytest.raises(ArgosyError) as caught:
        ReplayBuffer.load_hdf5(path)
    assert isinstance(caught.value, DataError) or "stack_num" in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


ROWS_OF_TIANSHOU = {
    "more rows than room": {"lengths": [2 * 10**9, 2]},
    "fewer rows than none": {"lengths": [-1, 2]},
    "more room than rows": {"offset": [0, 5 * 10**8, 10**9]},
    "rows of one buffer of two": {"lengths": [10**9]},
    "more frames than rows": {"stack_num": 10**12},
    "an empty one of any size": {"offset": [0, 5 * 10**8, 10**9], "lengths": [0, 0], "columns": ()},
}


@pytest.mark.parametrize("name", ROWS_OF_TIANSHOU)
def test_a_crafted_file_of_tianshou_is_refused_before_memory_is_asked_for(name, tmp_path):
    given = {
        "offset": [0, 4, 8],
        "lengths": [4, 2],
        "columns": ("obs", "act", "rew", "terminated", "truncated", "done"),
        **ROWS_OF_TIANSHOU[name],
    }
    with h5py.File(tmp_path / "t.hdf5", "w") as file:
        meta = file.create_group("_meta")
        for column in given["columns"]:
            meta[column] = np.zeros(8, bool if column == "done" else np.float32)
        for key in ("_save_obs_next", "save_only_last_obs", "_save_only_last_obs", "_sample_avail"):
            file.attrs[key] = False
        file.attrs["stack_num"] = given.get("stack_num", 1)
        file["_extend_offset"], file["_lengths"] = np.array(given["offset"]), np.array(given["lengths"])
        file["last_index"] = np.array([3, 5])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"t\.hdf5 is no buffer"):
        ReplayBuffer.load_hdf5(tmp_path / "t.hdf5")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def damaged_files(count, seed, folder):
    """Read so many damaged files."""
    rng, path = np.random.default_rng(seed), folder / "damaged.hdf5"
    data = filled(folder / "whole.hdf5").read_bytes()

    def reads():
        for _ in range(count):
            path.write_bytes(damaged(data, rng))
            yield lambda: ReplayBuffer.load_hdf5(path)

    return tally(reads(), DataError, r"checksum|cannot be read")


def damaged(data, rng):
    """The file with up to five bits flipped, maybe cut short."""
    damaged = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(30 if rng.random() < 0.1 else len(damaged)))  # mark and checksum are short
        damaged[at] ^= 1 << int(rng.integers(8))
    if rng.random() < 0.2:
        damaged = damaged[: int(rng.integers(len(damaged)))]
    return damaged if damaged != data else damaged[:-1]


@pytest.mark.parametrize(("seed", "count"), [(0, 300), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_no_damaged_file_is_accepted(tmp_path, seed, count):
    counts = damaged_files(count, seed, tmp_path)
    assert all_refused(counts), counts
