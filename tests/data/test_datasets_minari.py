"""Data sets of Minari: by hand in its layout, and one that Minari 0.5.4 wrote in each of its formats.

The latter has three episodes: one terminates, one is cut, one just stops. Observations are a colour and a grey picture,
packed as JPEGs, a matrix, and a Tuple; beside the data sets lies what Minari reads in them.
"""

import contextlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("h5py")
pytest.importorskip("pyarrow")
pytest.importorskip("PIL")

import h5py
import pyarrow as pa
from filed import FIELDS, columns, rows_of, write_minari

from argosy.data.datasets import convert, open_source
from argosy.errors import DataError, MissingExtraError

WRITTEN = Path(__file__).parent / "files" / "minari.tar.gz"


@pytest.fixture
def given():
    return columns()


@pytest.fixture
def written(tmp_path):
    with tarfile.open(WRITTEN) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.mark.parametrize("place", [".", "data", "data/main_data.hdf5"])
def test_minari(tmp_path, given, place):
    source = open_source(write_minari(tmp_path / "set", given) / place)
    assert (source.format, source.rows, source.attributes["task"]) == ("Minari", 12, "Hopper-v5")
    assert source.notes == ("1 episodes stop without an end: their last rows count as truncated",)
    data = source.load()[:]
    for ours, theirs in FIELDS:
        np.testing.assert_array_equal(data[ours], given[theirs])
    assert np.flatnonzero(data.terminated).tolist() == [3]
    assert np.flatnonzero(data.truncated).tolist() == [6, 11]
    for size in (1, 2, 100):
        assert rows_of(source, size) == rows_of(source)


def test_minari_of_a_tuple_and_without_metadata(tmp_path, given):
    source = open_source(write_minari(tmp_path / "set", given, nested=True, metadata=False))
    data = source.load()[:]
    np.testing.assert_array_equal(data.obs["1"], given["observations"][:, 1:])
    np.testing.assert_array_equal(data.obs_next["0"], given["next_observations"][:, :1])
    assert "task" not in source.attributes


def test_minari_s_episodes_come_in_the_order_of_their_numbers(tmp_path):
    with h5py.File(tmp_path / "main_data.hdf5", "w") as file:
        for number in (10, 9, 2):
            group = file.create_group(f"episode_{number}")
            group["observations"], group["actions"] = np.zeros((2, 1)), np.array([number])
            group["rewards"], group["terminations"], group["truncations"] = [0.0], [True], [False]
    assert open_source(tmp_path).load()[:].act.tolist() == [2, 9, 10]


def test_minari_with_an_empty_episode_or_too_few_observations_is_refused(tmp_path, given):
    path = write_minari(tmp_path / "set", given) / "data" / "main_data.hdf5"
    with h5py.File(path, "a") as file:
        for name in ("rewards", "terminations", "truncations"):
            del file[f"episode_1/{name}"]
            file[f"episode_1/{name}"] = np.zeros(0)
    with pytest.raises(DataError, match=r"main_data.hdf5 cannot be learned from: episode_1 has no steps"):
        open_source(path)
    with h5py.File(path, "a") as file:
        del file["episode_0/observations"]
        file["episode_0/observations"] = np.zeros((4, 3))
    with pytest.raises(DataError, match=r"episode_0/observations has shape \(4, 3\); the file has 5 rows"):
        open_source(path)
    with h5py.File(path, "a") as file:
        del file["episode_0/observations"]
        file.create_dataset("episode_0/observations", (5,), h5py.vlen_dtype(np.uint8))
    with pytest.raises(
        DataError, match=r"observations holds rows of different lengths: JPEGs, if metadata.json beside"
    ):
        open_source(path)
    with pytest.raises(DataError, match=r"is a folder without TFRecords, without main_data.hdf5.*name one"):
        open_source(tmp_path)


FORMATS = ("hdf5", "arrow", "parquet")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("place", [".", "data"])
def test_what_minari_wrote_is_what_it_reads(written, kind, place):
    with open_source(written / f"{kind}-v0" / place) as source:
        assert (source.format, source.rows, source.attributes["task"]) == ("Minari", 7, "CartPole-v1")
        data = source.load()[:]
        for size in (1, 2, 100):
            assert rows_of(source, size).to_dict().keys() == rows_of(source).to_dict().keys()
            np.testing.assert_array_equal(rows_of(source, size).obs_next.camera, data.obs_next.camera)
    with np.load(written / "read.npz") as read:
        for name in read.files:
            first, *keys = name.split("/")
            found = data[first]
            for key in keys:
                found = found[key]
            np.testing.assert_array_equal(found, read[name], err_msg=name)
    assert data.obs.camera.dtype == data.obs.depth.dtype == np.uint8
    assert data.obs.state.dtype == np.float32
    assert np.flatnonzero(data.terminated).tolist() == [2]
    assert np.flatnonzero(data.truncated).tolist() == [4, 6]


@pytest.mark.parametrize("kind", FORMATS)
def test_pictures_are_the_same_when_they_are_converted(written, kind):
    with open_source(written / f"{kind}-v0") as source:
        convert(source, written / "a.hdf5")
        np.testing.assert_array_equal(open_source(written / "a.hdf5").load()[:].obs.depth, source.load()[:].obs.depth)


def edit(folder, **changes):
    path = folder / "data" / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def space_of(folder, change):
    """Let `change` edit what a data set says of its observations."""
    space = json.loads(json.loads((folder / "data" / "metadata.json").read_text())["observation_space"])
    change(space["subspaces"])
    return edit(folder, observation_space=json.dumps(space))


@pytest.mark.parametrize("kind", FORMATS)
def test_what_the_metadata_deny_is_named(written, kind):
    folder = edit(written / f"{kind}-v0", total_steps=8)
    with pytest.raises(DataError, match=r"holds 7 steps in 3 episodes, where metadata.json announces 8"):
        open_source(folder)
    edit(folder, total_steps=7)
    space_of(folder, lambda parts: parts["camera"].update(shape=[33, 32, 3]))
    with pytest.raises(
        DataError, match=r"a picture has 32 x 33 pixels \(RGB\), where metadata.json says \(33, 32, 3\)"
    ):
        open_source(folder).load()
    space_of(folder, lambda parts: parts["camera"].update(shape=[32, 33]))
    with pytest.raises(DataError, match=r"a picture has 32 x 33 pixels \(RGB\), where metadata.json says \(32, 33\)"):
        open_source(folder).load()


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_folders_of_episodes_that_are_not_whole_are_named(written, kind):
    folder = written / f"{kind}-v0"
    file = folder / "data" / "1" / f"part-0.{kind}"
    file.rename(file.with_suffix(".old"))
    with pytest.raises(DataError, match=rf"data/1 must hold one file \*\.{kind}; it holds 0"):
        open_source(folder)
    file.with_suffix(".old").rename(file)
    (folder / "data" / "10").mkdir()
    with pytest.raises(DataError, match=rf"data/10 must hold one file \*\.{kind}"):
        open_source(folder)
    (folder / "data" / "10").rmdir()
    data = file.read_bytes()
    for share in (0.2, 0.8, 0.999):
        file.write_bytes(data[: int(len(data) * share)])
        with pytest.raises(DataError, match=r"is damaged, or no data set"):
            open_source(folder).load()


def write_arrow(folder, **arrays):
    """Write a data set of one episode, of lists and numbers."""
    (folder / "data" / "0").mkdir(parents=True)
    (folder / "data" / "metadata.json").write_text(json.dumps({"data_format": "arrow"}))
    table = pa.table(arrays)
    with pa.ipc.new_file(folder / "data" / "0" / "part-0.arrow", table.schema) as file:
        file.write_table(table)
    return folder


PLAIN = {
    "observations": pa.array([[1.0], [2.0], [3.0]], pa.list_(pa.float32(), 1)),
    "actions": pa.array([0, 1, 0]),
    "rewards": pa.array([0.0, 1.0, 0.0]),
    "terminations": pa.array([False, True, False]),
    "truncations": pa.array([False, False, False]),
}


def test_arrow_without_spaces_is_read_as_it_lies(tmp_path):
    source = open_source(write_arrow(tmp_path / "a", **PLAIN))
    data = source.load()[:]
    assert data.obs.tolist() == [[1.0], [2.0]]
    assert data.obs_next.tolist() == [[2.0], [3.0]]
    assert (data.act.tolist(), data.rew.tolist(), data.terminated.tolist()) == ([0, 1], [0.0, 1.0], [False, True])
    assert source.attributes == {"action_scale": "env"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": ["left", "right", "left"]}, r"actions holds string; only numbers and JPEGs are read"),
        ({"observations": [b"x", b"y", b"z"]}, r"observations holds binary; only"),
        ({"observations": pa.array([[1.0], None, [3.0]], pa.list_(pa.float32(), 1))}, r"observations lacks some"),
        ({"actions": pa.array([0, None, 1])}, r"actions lacks some"),
        ({"rewards": pa.array([[0.0, 1.0]] * 3, pa.list_(pa.float32(), 2))}, r"rewards has shape \(2, 2\)"),
        ({name: value[:1] for name, value in PLAIN.items()}, r"episode 0 has no steps"),
        ({name: value[:0] for name, value in PLAIN.items()}, r"episode 0 has no steps"),
    ],
)
def test_arrow_that_cannot_be_learned_from_is_named(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        open_source(write_arrow(tmp_path / "a", **{**PLAIN, **changes})).load()


def test_rows_that_take_no_room_in_parquet_are_not_read(written, monkeypatch):
    monkeypatch.setattr("argosy.data.datasets.minari.machine_memory", lambda: 100)
    with pytest.raises(DataError, match=r"part-0.parquet would take [\d,]+ bytes, more than this machine has"):
        open_source(written / "parquet-v0")


def test_pictures_that_are_none_or_too_large_are_refused(written, monkeypatch):
    from PIL import Image

    folder = written / "hdf5-v0"
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/observations/depth"]
        file.create_dataset("episode_0/observations/depth", data=np.full((4, 9), 65, np.uint8))
    with (
        open_source(folder) as source,
        pytest.raises(DataError, match=r"is damaged, or no data set: UnidentifiedImageError"),
    ):
        source.load()
    png = io.BytesIO()
    Image.new("L", (33, 32)).save(png, "PNG")
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/observations/depth"]
        file.create_dataset(
            "episode_0/observations/depth", data=np.tile(np.frombuffer(png.getvalue(), np.uint8), (4, 1))
        )
    with pytest.raises(DataError, match=r"UnidentifiedImageError"):  # Minari writes JPEGs alone
        open_source(folder).load()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match=r"a picture is no honest one"):
        open_source(written / "arrow-v0").load()


@pytest.mark.parametrize(
    ("kind", "missing"), [("hdf5", "PIL.Image"), ("arrow", "pyarrow"), ("parquet", "pyarrow.parquet")]
)
def test_the_extra_is_named(written, kind, missing, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'argosy\[minari\]'"):
        open_source(written / f"{kind}-v0").load()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_flipped_bits_are_refused_by_name_or_read(written, kind, seed):
    rng = np.random.default_rng(seed)
    file = written / f"{kind}-v0" / "data" / "0" / f"part-0.{kind}"
    whole = file.read_bytes()
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        outcome = "refused"
        with contextlib.suppress(DataError):
            outcome = open_source(written / f"{kind}-v0").load()[:].act.shape
        assert outcome in ("refused", (7,))
