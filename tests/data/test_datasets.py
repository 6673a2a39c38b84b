"""Data sets on the disk: what was written part by part is the buffer that would have been filled."""

import numpy as np
import pytest

from argosy.data import Batch, ReplayBuffer, Sampling, VectorReplayBuffer
from argosy.data.datasets import DatasetWriter, read_attributes
from argosy.errors import DataError

h5py = pytest.importorskip("h5py")


def steps(count, num_envs, seed=0, obs=None):
    """`count` steps of each env, [T, B, ...]; episodes end here and there."""
    rng = np.random.default_rng(seed)
    obs = obs or (lambda *shape: rng.normal(size=(*shape, 3)).astype(np.float32))
    return Batch(
        obs=obs(count, num_envs),
        act=rng.integers(4, size=(count, num_envs)),
        rew=rng.normal(size=(count, num_envs)).astype(np.float32),
        terminated=rng.random((count, num_envs)) < 0.2,
        truncated=rng.random((count, num_envs)) < 0.1,
        obs_next=obs(count, num_envs),
    )


def written(path, batch, parts, options=None, **attributes):
    count, num_envs = batch.rew.shape
    with DatasetWriter(path, num_envs, count, options) as writer:
        start = 0
        for part in parts:
            writer.write(batch[start : start + part])
            start += part
        writer.finish(attributes)
    return path


@pytest.mark.parametrize("parts", [[12], [5, 5, 2], [1] * 12])
def test_the_file_is_the_buffer_that_would_have_been_filled(tmp_path, parts):
    batch = steps(12, 3)
    filled = VectorReplayBuffer(36, 3, seed=1)
    for t in range(12):
        filled.add(batch[t])
    loaded = ReplayBuffer.load_hdf5(written(tmp_path / "a.hdf5", batch, parts))
    assert loaded[:] == filled[:]
    assert loaded.maxsize == len(loaded) == 36
    assert loaded.buffer_num == 3
    loaded.seed(1)
    for sampling in (Sampling(gamma=0.9, n_step=3), Sampling(n_step=2, sequence_length=4)):
        one, other = loaded.sample(36, sampling), filled.sample(36, sampling)
        assert one[0] == other[0]
    np.testing.assert_array_equal(loaded.rollout().cut, filled.rollout().cut)


def test_what_comes_after_loading_starts_new_episodes_over_the_oldest_rows(tmp_path):
    loaded = ReplayBuffer.load_hdf5(written(tmp_path / "a.hdf5", steps(4, 2), [4]))
    slots, _, _, begin = loaded.add(steps(1, 2, seed=1)[0])
    assert slots.tolist() == begin.tolist() == [0, 4]


def test_nested_observations_and_images(tmp_path):
    rng = np.random.default_rng(0)

    def obs(*shape):
        return Batch(
            {"a/b": rng.normal(size=(*shape, 2)), "im": rng.integers(255, size=(*shape, 8, 8), dtype=np.uint8)}
        )

    batch = steps(6, 2, obs=obs)
    path = written(tmp_path / "deep" / "a.hdf5", batch, [4, 2])
    loaded = ReplayBuffer.load_hdf5(path)
    np.testing.assert_array_equal(loaded[:].obs["a/b"][:6], batch.obs["a/b"][:, 0])
    np.testing.assert_array_equal(loaded[:].obs_next["im"][6:], batch.obs_next["im"][:, 1])
    with h5py.File(path) as file:
        assert file["columns/obs/im"].compression == "lzf"


def test_options_of_the_buffer_go_along(tmp_path):
    options = {"stack_num": 2, "ignore_obs_next": True}
    batch = steps(8, 2)
    batch.obs_next[:-1] = np.where((batch.terminated | batch.truncated)[:-1, :, None], 7.0, batch.obs[1:])
    loaded = ReplayBuffer.load_hdf5(written(tmp_path / "a.hdf5", batch, [3, 5], options))
    assert (loaded.stack_num, loaded.ignore_obs_next) == (2, True)
    np.testing.assert_array_equal(loaded[:].obs_next[:8, -1], batch.obs_next[:, 0])


def test_attributes_are_said(tmp_path):
    path = written(tmp_path / "a.hdf5", steps(2, 1), [2], action_scale="env", return_mean=1.5)
    found = read_attributes(path)
    assert (found["action_scale"], found["return_mean"]) == ("env", 1.5)


def _write_and_finish(writer, batch):
    writer.write(batch)
    writer.finish({})


def test_an_incomplete_file_leaves_nothing_and_the_old_one_as_it_was(tmp_path):
    path = written(tmp_path / "a.hdf5", steps(2, 1), [2])
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"a.hdf5 has 2 of 3 steps of each env"), DatasetWriter(path, 1, 3) as writer:
        _write_and_finish(writer, steps(2, 1))
    with pytest.raises(DataError, match=r"is for 3 steps of each env, not for 4"), DatasetWriter(path, 1, 3) as writer:
        writer.write(steps(4, 1))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.hdf5"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file/a.hdf5 could not be written"):
        DatasetWriter(tmp_path / "file" / "a.hdf5", 1, 1)


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "a.hdf5").write_text("text")
    with pytest.raises(DataError, match=r"a.hdf5 cannot be read as an HDF5 file"):
        read_attributes(tmp_path / "a.hdf5")


# reading: columns are mapped


def is_mapped(column):
    base = column
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    return isinstance(base, np.memmap)


def test_columns_that_lie_in_the_file_as_in_memory_are_mapped_and_the_file_stays_as_it_is(tmp_path):
    path = written(tmp_path / "a.hdf5", steps(12, 3), [5, 7])
    before = path.read_bytes()
    loaded = ReplayBuffer.load_hdf5(path)
    assert all(is_mapped(getattr(loaded, name)) for name in ("obs", "act", "rew", "obs_next"))
    assert not is_mapped(loaded.terminated)  # a file could hold a 7 there
    own = loaded[:]
    loaded.act[...] = 3
    loaded.add(steps(1, 3, seed=1)[0])
    assert (loaded.act == 3).sum() == 36 - 3 + (steps(1, 3, seed=1).act == 3).sum()
    assert path.read_bytes() == before
    path.unlink()  # what is mapped stays
    assert loaded[1].obs.tolist() == own[1].obs.tolist()


def test_a_ring_that_is_not_full_or_has_gone_round_is_read(tmp_path):
    for rows in (3, 7):
        buffer = VectorReplayBuffer(10, 2)
        for t in range(rows):
            buffer.add(steps(rows, 2)[t])
        buffer.save_hdf5(tmp_path / "a.hdf5")
        loaded = ReplayBuffer.load_hdf5(tmp_path / "a.hdf5")
        assert not is_mapped(loaded.obs)
        assert loaded[:] == buffer[:]
        np.testing.assert_array_equal(loaded.last_index, buffer.last_index)


def test_no_few_flips_are_lost_by_the_checksum(tmp_path):
    """Of the same bit of two words in a row, or in a column, highest bits above all; and blocks change places."""
    path = written(tmp_path / "a.hdf5", steps(20_000, 1), [20_000])
    data = path.read_bytes()
    assert len(data) > 3 << 18
    word = 21 + (1 << 18) + 8 * 640  # of the second block
    for flips in (
        [(word, 63), (word + 8, 63)],
        [(word, 63), (word + 512, 63)],
        [(word, 5), (word, 6)],
        [(word, 62), (word + 16, 62)],
    ):
        changed = bytearray(data)
        for at, bit in flips:
            changed[at + bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(DataError, match="its checksum does not fit"):
            read_attributes(path)
    blocks = [data[21 + (i << 18) : 21 + ((i + 1) << 18)] for i in range(2)]
    path.write_bytes(data[:21] + blocks[1] + blocks[0] + data[21 + (2 << 18) :])
    with pytest.raises(DataError, match="its checksum does not fit"):
        read_attributes(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(DataError, match="its checksum does not fit"):
        read_attributes(path)
    path.write_bytes(data)
    assert "options" in read_attributes(path)
