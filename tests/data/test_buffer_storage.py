"""Where columns live: torch tensors, memory-mapped files, HDF5 files, state dicts."""

from __future__ import annotations

import errno
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from argosy.data import (
    Batch,
    CachedReplayBuffer,
    HERReplayBuffer,
    Hindsight,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    Priority,
    ReplayBuffer,
    Sampling,
    VectorReplayBuffer,
)
from argosy.data.buffer.columns import REQUIRED
from argosy.data.buffer.state import save_state
from argosy.data.datasets import open_source
from argosy.errors import DataError

h5py = pytest.importorskip("h5py")


def fill(buffer: ReplayBuffer, steps: int, n: int) -> None:
    """Episodes of 4 rows ended by turns; dict observations, policy state and info."""
    for time in range(steps):
        place = np.arange(n) + 10.0 * time
        obs = Batch(image=np.full((n, 2, 3), time % 256, np.uint8), place=place)
        buffer.add(
            Batch(
                obs=obs,
                act=np.full((n, 2), time, np.float32),
                rew=place,
                terminated=np.full(n, time % 8 == 3),
                truncated=np.full(n, time % 8 == 7),
                obs_next=Batch(image=obs.image + np.uint8(1), place=place + 0.5),
                policy=Batch(logp=-place),
                info=Batch(lives=np.full(n, time)),
            )
        )


def assert_equal_batches(one: Batch, two: Batch) -> None:
    assert one.keys() == two.keys()
    for name, value in one.items():
        if isinstance(value, Batch):
            assert_equal_batches(value, two[name])
        else:
            first, second = np.asarray(value), np.asarray(two[name])
            assert first.dtype == second.dtype, name
            np.testing.assert_array_equal(first, second, err_msg=name)


SAMPLINGS = [
    Sampling(),
    Sampling(n_step=3, gamma=0.5),
    Sampling(n_step=2, gamma=0.5, sequence_length=3, burn_in=1),
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("options", [{}, {"ignore_obs_next": True, "stack_num": 3}, {"priority": Priority()}])
@pytest.mark.parametrize("kind", ["device", "mapped"])
def test_same_samples_wherever_the_columns_are(kind, options, sampling, tmp_path):
    where = {"device": "cpu"} if kind == "device" else {"storage_dir": tmp_path / "columns"}
    host = VectorReplayBuffer(30, 3, seed=0, info_keys=["lives"], **options)
    other = VectorReplayBuffer(30, 3, seed=0, info_keys=["lives"], **options, **where)
    for buffer in (host, other):
        fill(buffer, 13, 3)
        buffer.end_episodes([1])
        fill(buffer, 2, 3)
    for _ in range(3):
        one, two = host.sample(16, sampling)[0], other.sample(16, sampling)[0]
        if kind == "device":
            assert all(isinstance(two[name], torch.Tensor) for name in ("rew", "discount", "weight", "indices", "act"))
            assert isinstance(two.obs.image, torch.Tensor)
        assert_equal_batches(one, two)
    assert_equal_batches(host.rollout(), other.rollout())
    assert_equal_batches(host[:], other[:])


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("stack", [1, 2])
@pytest.mark.parametrize("where", [{}, {"device": "cpu"}])
def test_a_single_slot_is_read_as_one_of_several(where, stack, ignore):
    buffer = VectorReplayBuffer(12, 3, stack_num=stack, ignore_obs_next=ignore, info_keys=["lives"], **where)
    fill(buffer, 6, 3)
    for slot in (1, 3, 5):  # inside an episode, its last row, the newest row
        assert_equal_batches(buffer[slot], buffer[[slot]][0])
        assert buffer[slot].obs.place.shape == ((2,) if stack == 2 else ())
        for name in ("obs", "obs_next"):
            assert_equal_batches(buffer.get(slot, name), buffer[slot][name])
        for name in ("info", "policy"):
            assert_equal_batches(buffer.get(slot, name, stack_num=1), buffer[slot][name])


@pytest.mark.skipif(sys.platform != "linux", reason="says what a process has mapped")
def test_mapped_files_have_no_names(tmp_path):
    """So none can be left behind, whatever ends the process."""
    buffer = ReplayBuffer(1_000, storage_dir=tmp_path, ignore_obs_next=True)
    fill(buffer, 5, 1)
    assert list(tmp_path.iterdir()) == []
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
    assert len(mapped) == len([column for field in buffer.fields.values() for column in field.columns])


def test_more_than_the_disk_holds_is_refused(tmp_path, monkeypatch):
    def add(size):
        rows, no = np.broadcast_to(np.zeros(1, np.float32), (1, size)), np.zeros(1, bool)
        buffer = ReplayBuffer(10**7, storage_dir=tmp_path)
        buffer.add(Batch(obs=rows, act=no, rew=np.zeros(1), terminated=no, truncated=no, obs_next=rows))

    with pytest.raises(DataError, match=r"obs needs 3.73e\+07 GiB in .*, where .* GiB are free \(No space left"):
        add(10**9)

    def full(fd, offset, size):
        """Be a disk that others have filled since."""
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(DataError, match=r"obs needs 0.0373 GiB in .* free \(No space left on device\); make room"):
        add(1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", ["host", "device"])
@pytest.mark.parametrize("target", ["host", "device"])
def test_state_moves_between_storages(source, target):
    places = {"host": {}, "device": {"device": "cpu"}}
    one = VectorReplayBuffer(30, 3, info_keys=["lives"], ignore_obs_next=True, **places[source])
    fill(one, 14, 3)
    two = VectorReplayBuffer(30, 3, info_keys=["lives"], ignore_obs_next=True, **places[target])
    two.load_state_dict(one.state_dict())
    assert_equal_batches(one[:], two[:])
    assert one.sample_indices(20).tolist() == two.sample_indices(20).tolist()


def test_state_of_another_size_is_refused():
    one = VectorReplayBuffer(30, 3)
    with pytest.raises(DataError, match=r"\[10, 10, 10\], not \[15, 15\]"):
        VectorReplayBuffer(30, 2).load_state_dict(one.state_dict())


def test_state_of_other_columns_is_refused():
    one, two = ReplayBuffer(5), ReplayBuffer(5)
    fill(one, 2, 1)
    no = np.zeros(1, bool)
    two.add(Batch(obs=np.ones((1, 2)), act=no, rew=no, terminated=no, truncated=no, obs_next=np.ones((1, 2))))
    with pytest.raises(DataError, match="obs has the keys"):
        two.load_state_dict(one.state_dict())
    assert len(two) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReplayBuffer(10, stack_num=2, info_keys=["lives"]),
        lambda: VectorReplayBuffer(20, 2, ignore_obs_next=True),
        lambda: PrioritizedVectorReplayBuffer(20, 2, alpha=0.5, beta=0.3),
        lambda: CachedReplayBuffer(ReplayBuffer(10), 2, 8),
    ],
)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_hdf5_round_trip(make, compression, tmp_path):
    buffer = make()
    fill(buffer, 13, getattr(buffer, "cached_buffer_num", buffer.buffer_num))
    if buffer.priorities is not None:
        buffer.update_weight([1, 2], [3.0, 4.0])
    buffer.save_hdf5(tmp_path / "buffer.hdf5", compression=compression)
    again = type(buffer).load_hdf5(tmp_path / "buffer.hdf5")
    assert again.options() == buffer.options()
    for _ in range(3):
        assert_equal_batches(buffer.sample(8)[0], again.sample(8)[0])
    assert_equal_batches(buffer[:], again[:])
    assert [path.name for path in tmp_path.iterdir()] == ["buffer.hdf5"]
    for goes_on in (buffer, again):
        fill(goes_on, 3, getattr(buffer, "cached_buffer_num", buffer.buffer_num))
    assert_equal_batches(buffer[:], again[:])
    on_device = ReplayBuffer.load_hdf5(tmp_path / "buffer.hdf5", device="cpu")
    assert isinstance(on_device.rew, torch.Tensor)


def test_hdf5_of_hindsight_takes_the_function_again(tmp_path):
    def reward(achieved, desired):
        return -np.abs(achieved - desired)[:, 0]

    buffer = HERReplayBuffer(10, reward, 5)
    goal = {key: np.ones((1, 1)) for key in ("observation", "achieved_goal", "desired_goal")}
    no = np.zeros(1, bool)
    for _ in range(4):
        buffer.add(Batch(obs=goal, obs_next=goal, act=no, rew=np.ones(1), terminated=no, truncated=no))
    buffer.save_hdf5(tmp_path / "her.hdf5")
    again = HERReplayBuffer.load_hdf5(
        tmp_path / "her.hdf5", hindsight=Hindsight(compute_reward_fn=reward, horizon=5, future_k=8.0)
    )
    assert_equal_batches(buffer.sample(4)[0], again.sample(4)[0])


def test_lazy_columns_are_written_part_by_part(tmp_path, monkeypatch):
    monkeypatch.setattr("argosy.data.lazy.PART_BYTES", 100)
    buffer = VectorReplayBuffer(30, 3, ignore_obs_next=True, storage_dir=tmp_path / "columns")
    fill(buffer, 14, 3)
    for compression in (None, "gzip"):
        save_state(tmp_path / "buffer.hdf5", buffer.state_dict(lazy=True), buffer.options(), compression)
        assert_equal_batches(VectorReplayBuffer.load_hdf5(tmp_path / "buffer.hdf5")[:], buffer[:])


@pytest.mark.parametrize(("place", "compression"), [("missing/a.hdf5", None), (".", None), ("a.hdf5", "none")])
def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path, place, compression):
    (tmp_path / "runs").mkdir()
    with pytest.raises(DataError, match="could not be written"):
        ReplayBuffer(1).save_hdf5(tmp_path / "runs" / place, compression=compression)
    assert list(tmp_path.rglob("*")) == [tmp_path / "runs"]


def test_foreign_newer_and_damaged_files(tmp_path):
    path = tmp_path / "file.hdf5"
    with pytest.raises(DataError, match="cannot be read"):
        ReplayBuffer.load_hdf5(path)
    path.write_bytes(b"no HDF5")
    with pytest.raises(DataError, match="cannot be read"):
        ReplayBuffer.load_hdf5(path)
    with h5py.File(path, "w") as file:
        file["x"] = [1]
    with pytest.raises(DataError, match="is no buffer"):
        ReplayBuffer.load_hdf5(path)
    with h5py.File(path, "w") as file:
        file.attrs["argosy_buffer"] = 99
    with pytest.raises(DataError, match="layout 99"):
        ReplayBuffer.load_hdf5(path)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a file was unpickled",))


def write_tianshou(path: Path, ring: dict[str, object], *, with_next: bool, size: int, prioritised: bool) -> None:
    """Write a file in the layout of Tianshou's save_hdf5: `_meta` with typed groups, ring state in attributes."""

    def pickled(group, name, kind):
        group.create_dataset(name, data=np.frombuffer(pickle.dumps(Bomb()), np.int8)).attrs["__data_type__"] = kind

    time = np.array([6, 7, 2, 3, 4, 5]) if size == 6 else np.array([4, 5, 6, 3, 2, 3, 0, 0])
    with h5py.File(path, "w") as file:
        common = {"maxsize": size, "stack_num": 2, "_save_obs_next": with_next, "_save_only_last_obs": False}
        for key, value in {**common, "_sample_avail": False, **ring}.items():
            if isinstance(value, np.ndarray):
                file.create_dataset(key, data=value).attrs["__data_type__"] = "ndarray"
            else:
                file.attrs[key] = value
        if prioritised:
            file.attrs.update({"_alpha": 0.7, "_beta": 0.2, "_weight_norm": False, "_max_prio": 1.0})
            pickled(file, "weight", "SegmentTree")
        pickled(file, "buffers", "pickled_ndarray")
        meta = file.create_group("_meta")
        meta.attrs["__data_type__"] = "Batch"
        columns = {
            "obs": np.stack([time, time], 1).astype(np.float32),
            "act": time,
            "rew": time * 1.0,
            "terminated": time % 4 == 3,
            "truncated": np.zeros(size, bool),
            "done": time % 4 == 3,
        }
        if with_next:
            columns["obs_next"] = columns["obs"] + 1
        for key, value in columns.items():
            meta.create_dataset(key, data=value).attrs["__data_type__"] = "ndarray"
        info = meta.create_group("info")
        info.create_dataset("lives", data=time).attrs["__data_type__"] = "ndarray"
        pickled(info, "name", "pickled_ndarray")
        text = np.array(["north"] * size, dtype=object)  # of a full ring; with None among it, it would be pickled
        info.create_dataset("wind", data=text).attrs["__data_type__"] = "ndarray"
        meta.create_group("policy")


@pytest.mark.parametrize("head", ["_index", "_insertion_idx"])  # before Tianshou 2.0, and since
def test_tianshou_file_of_a_single_ring(tmp_path, head):
    ring = {head: 2, "_size": 6, "_ep_rew": 0.0, "_ep_len": 0, "_ep_idx": 2, "last_index": np.array([1])}
    write_tianshou(tmp_path / "a.hdf5", ring, with_next=True, size=6, prioritised=True)
    buffer = PrioritizedReplayBuffer.load_hdf5(tmp_path / "a.hdf5")
    batch, slots = buffer.sample(0, Sampling(n_step=2, gamma=0.5))
    assert slots.tolist() == [2, 3, 4, 5, 0, 1]  # as there
    assert not buffer.rings.first[2]  # the beginning of what it belongs to is overwritten
    assert batch.act.tolist() == [2, 3, 4, 5, 6, 7]
    assert batch.rew.tolist() == [2 + 1.5, 3, 4 + 2.5, 5 + 3, 6 + 3.5, 7]
    assert batch.obs[..., 0].tolist() == [[2, 2], [2, 3], [4, 4], [4, 5], [5, 6], [6, 7]]
    assert batch.obs_next[:, 1, 0].tolist() == [4, 4, 6, 7, 8, 8]
    assert batch.info.lives.tolist() == [2, 3, 4, 5, 6, 7]
    assert list(batch.info.keys()) == ["lives"]  # text and pickles are left out
    assert buffer.priorities.config == Priority(alpha=0.7, beta=0.2, weight_norm=False)
    assert len(set(buffer.priorities.tree[buffer.sample_indices(0)])) == 1


def test_tianshou_file_of_an_empty_buffer(tmp_path):
    ring = {"_index": 0, "_size": 0, "last_index": np.array([0])}
    write_tianshou(tmp_path / "e.hdf5", ring, with_next=True, size=6, prioritised=False)
    with h5py.File(tmp_path / "e.hdf5", "a") as file:
        file["_meta"].clear()
    buffer = ReplayBuffer.load_hdf5(tmp_path / "e.hdf5")
    assert (len(buffer), buffer.maxsize, buffer.stack_num) == (0, 6, 2)


def test_tianshou_file_that_lacks_a_column_is_refused(tmp_path):
    ring = {"_index": 2, "_size": 6, "last_index": np.array([1])}
    write_tianshou(tmp_path / "d.hdf5", ring, with_next=True, size=6, prioritised=False)
    with h5py.File(tmp_path / "d.hdf5", "a") as file:
        del file["_meta/done"]
    with pytest.raises(DataError, match=r"is no buffer, or a damaged one: there is no 'done' in /_meta"):
        ReplayBuffer.load_hdf5(tmp_path / "d.hdf5")


def test_tianshou_file_of_a_vector_buffer_without_obs_next(tmp_path):
    """Ring 0 is full (3, 4, 5, 6 in slots 3, 0, 1, 2), ring 1 holds 2, 3 in two of four slots."""
    ring = {
        "buffer_num": 2,
        "_extend_offset": np.array([0, 4, 8]),
        "_offset": np.array([0, 4]),
        "_lengths": np.array([4, 2]),
        "last_index": np.array([2, 5]),
    }
    write_tianshou(tmp_path / "v.hdf5", ring, with_next=False, size=8, prioritised=False)
    buffer = VectorReplayBuffer.load_hdf5(tmp_path / "v.hdf5")
    assert buffer.buffer_num == 2
    assert buffer.ignore_obs_next
    batch = buffer[:]
    assert batch.act.tolist() == [3, 4, 5, 6, 2, 3]
    assert batch.obs_next[:, 1, 0].tolist() == [3, 5, 6, 6, 3, 3]  # of episode ends the file does not know it
    assert buffer.unfinished_index().tolist() == []  # what was running there does not go on here


def test_tianshou_data_without_obs_next_leaves_out_the_rows_whose_successor_nobody_knows(tmp_path):
    """Ring 0: 3 (terminates), then 4, 5, 6, cut there by the recording; ring 1: 2, 3 (terminates)."""
    ring = {
        "_extend_offset": np.array([0, 4, 8]),
        "_offset": np.array([0, 4]),
        "_lengths": np.array([4, 2]),
        "last_index": np.array([2, 5]),
    }
    write_tianshou(tmp_path / "v.hdf5", ring, with_next=False, size=8, prioritised=False)
    for flag, cut in ((False, [False, False, True, False, False]), (True, [False] * 5)):
        with h5py.File(tmp_path / "v.hdf5", "a") as file:
            file["_meta/truncated"][2], file["_meta/done"][2] = flag, flag
        with open_source(tmp_path / "v.hdf5") as source:
            assert source.notes == (
                "1 rows at which an episode was cut are left out: it has no 'obs_next'",
                f"`argosy data convert` leaves out info.lives: it keeps {', '.join(REQUIRED)}",
            )
            rows = Batch.cat(list(source.parts()))
            buffer = source.load()
        assert rows.act.tolist() == [3, 4, 5, 2, 3]
        assert rows.terminated.tolist() == [True, False, False, False, True]
        assert rows.truncated.tolist() == [False, False, True, False, False]
        assert rows.cut.tolist() == cut  # whether the env cut it, or only the recording stopped
        assert rows.obs_next[[1, 2, 3], 0].tolist() == [5, 6, 3]
        assert (len(buffer), buffer.stack_num, buffer.ignore_obs_next) == (5, 2, True)
        assert buffer[:].obs_next[[1, 2, 3], 1, 0].tolist() == [5, 6, 3]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file["_meta"].pop("terminated"), r"no 'terminated' or no 'truncated' in it.*dones alone do not"),
        (lambda file: file.attrs.update({"_index": -3}), "the next row comes into slot -3 of 6"),
    ],
)
def test_tianshou_files_of_old_or_with_a_wrong_place_are_refused(tmp_path, damage, message):
    ring = {"_index": 2, "_size": 6, "last_index": np.array([1])}
    write_tianshou(tmp_path / "o.hdf5", ring, with_next=True, size=6, prioritised=False)
    with h5py.File(tmp_path / "o.hdf5", "a") as file:
        damage(file)
    with pytest.raises(DataError, match=message), open_source(tmp_path / "o.hdf5") as source:
        source.load()


def test_from_hdf5_datasets(tmp_path):
    with h5py.File(tmp_path / "data.hdf5", "w") as file:
        file["obs"] = np.arange(4.0)[:, None]
        file["act"] = np.arange(4)
        file["done"] = np.array([0, 1, 0, 1], bool)
        file["none"] = np.zeros(4, bool)
        group = file.create_group("dict")
        group["x"] = np.arange(4)
        buffer = ReplayBuffer.from_data(
            file["obs"], file["act"], file["act"], file["done"], file["none"], file["done"], file["obs"]
        )
        assert buffer.prev(np.arange(4)).tolist() == [0, 0, 2, 2]
        nested = ReplayBuffer.from_data(
            group, file["act"], file["act"], file["done"], file["none"], file["done"], group
        )
        assert nested[:].obs.x.tolist() == [0, 1, 2, 3]


@pytest.mark.skipif(sys.platform != "linux", reason="says what the pages of a process are")
def test_what_is_drawn_from_mapped_files_needs_no_memory_of_its_own(tmp_path):
    def own_mb():
        """Memory that is no file's: pages of these may be let go at any time."""
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1024

    steps, frames = 100, np.zeros((800, 28, 28), np.uint8)
    buffer = VectorReplayBuffer(100_000, 8, stack_num=4, ignore_obs_next=True, storage_dir=tmp_path, seed=0)
    no = np.zeros(800, np.bool_)
    part = Batch(obs=frames, act=no, rew=no, terminated=no, truncated=no, obs_next=frames)
    before = own_mb()
    for _ in range(100_000 // 800):
        buffer.add_steps(part, steps)
    for _ in range(2_000):
        buffer.sample(32)
    assert sum(column.data.nbytes for field in buffer.fields.values() for column in field.columns.values()) > 75e6
    assert own_mb() - before < 8
