"""Data sets of LeRobot: one that LeRobot 0.4.4 wrote of a pendulum, its form of version 2, and what is refused.

The pendulum's has three episodes of 7, 4 and 9 frames in two files; the second one stops without being done. Beside the
pendulum's state an observation is the number of its episode, and a picture.
"""

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

import argosy
from argosy.data import Batch
from argosy.data.datasets import convert, open_source
from argosy.errors import DataError

WRITTEN = Path(__file__).parent / "files" / "lerobot"
FIRST = Path("data", "chunk-000", "file-000.parquet")


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(WRITTEN, tmp_path / "pendulum"))


def described(folder, change):
    """Let `change` edit what a folder says of itself."""
    path = folder / "meta" / "info.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))


def rows_of(folder, size=3):
    return Batch.cat(list(open_source(folder).read(size)))


def pendulum_reward(state, torque):
    """Of Pendulum-v1's source: minus the squares of angle, speed and torque."""
    angle = np.arctan2(state[:, 1], state[:, 0])
    return -(angle**2 + 0.1 * state[:, 2] ** 2 + 0.001 * torque[:, 0] ** 2)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_frames_become_transitions(folder, size):
    source = open_source(folder)
    assert (source.format, source.rows, source.attributes["action_scale"]) == ("LeRobot", 19, "env")
    rows = rows_of(folder, size)
    assert rows.obs.goal[:, 0].tolist() == [0] * 7 + [1] * 3 + [2] * 9
    assert np.flatnonzero(rows.terminated).tolist() == [6, 18]
    assert np.flatnonzero(rows.truncated).tolist() == [9]  # nobody knows what followed the last frame of that episode
    np.testing.assert_allclose(rows.rew, pendulum_reward(rows.obs.state, rows.act), rtol=1e-4)
    inner = ~rows.terminated
    torque, speed = rows.act[inner, 0], rows.obs.state[inner, 2]
    speed = speed + (15.0 * rows.obs.state[inner, 1] + 3.0 * torque) * 0.05  # its equation of motion
    np.testing.assert_allclose(rows.obs_next.state[inner, 2], speed, atol=1e-4)
    assert source.notes[0] == "pictures are not read: observation.images.top"
    assert source.notes[1].startswith("1 rows at which an episode was cut are left out")


def test_one_observation_is_no_dict_and_demonstrations_need_no_rewards(folder):
    def without(info):
        for name in ("observation.goal", "next.reward", "next.done"):
            del info["features"][name]

    described(folder, without)
    rows, source = rows_of(folder), open_source(folder)
    assert rows.obs.shape == (17, 3)
    assert rows.rew.tolist() == [0.0] * 17
    assert np.flatnonzero(rows.truncated).tolist() == [5, 8, 16]
    assert "only imitation learns" in source.notes[1]


@pytest.mark.parametrize(("success", "terminated"), [(None, []), ([6], [6])])
def test_a_flag_in_every_last_frame_does_not_tell_an_end_from_a_cut(folder, success, terminated):
    """As LeRobot's converters write `next.done`; `next.success` does tell, where it is there."""
    at = 0
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path)
        rows, at = range(at, at + len(table)), at + len(table)
        done = pa.array([row in (6, 10, 19) for row in rows])
        table = table.set_column(table.column_names.index("next.done"), "next.done", done)
        if success is not None:
            table = table.append_column("next.success", pa.array([row in success for row in rows]))
        pq.write_table(table, path)
    if success is not None:
        described(folder, lambda info: info["features"].update({"next.success": info["features"]["next.done"]}))
    source, rows = open_source(folder), rows_of(folder)
    assert np.flatnonzero(rows.terminated).tolist() == terminated
    assert any("does not tell" in note or "'next.done' is set in every" in note for note in source.notes) == (
        success is None
    )


def test_a_file_for_each_episode_as_in_version_2(folder):
    table = pa.concat_tables([pq.read_table(path) for path in sorted(folder.rglob("*.parquet"))])
    expected = rows_of(folder)
    shutil.rmtree(folder / "data")
    (folder / "data" / "chunk-000").mkdir(parents=True)
    for episode, start, length in ((0, 0, 7), (1, 7, 4), (2, 11, 9)):
        path = folder / "data" / "chunk-000" / f"episode_{episode:06d}.parquet"
        pq.write_table(table.slice(start, length), path, row_group_size=2)
    described(folder, lambda info: info.update(codebase_version="v2.1"))
    found = rows_of(folder)
    for name in ("obs", "act", "rew", "terminated", "truncated", "obs_next"):
        for one, other in zip(*(Batch(x=rows[name]).to_dict().values() for rows in (found, expected)), strict=True):
            np.testing.assert_equal(one, other)


def test_it_is_converted_and_cloned(folder, tmp_path):
    described(folder, lambda info: info["features"].pop("observation.goal"))
    convert(open_source(folder), tmp_path / "own.hdf5")
    np.testing.assert_array_equal(open_source(tmp_path / "own.hdf5").load()[:].act, 0.0 + rows_of(folder).act)
    trainer = {"trainer.max_epoch": 1, "trainer.step_per_epoch": 5, "trainer.batch_size": 8}
    result = argosy.train("bc", "Pendulum-v1", data=str(folder), runs=tmp_path, show_progress=False, **trainer)
    assert result.gradient_steps == 5


def rewritten(change):
    """Return what lets `change` make another table of the first file's."""

    def write(folder):
        pq.write_table(change(pq.read_table(folder / FIRST)), folder / FIRST)

    return write


def replaced(name, values):
    return rewritten(lambda table: table.set_column(table.column_names.index(name), name, values(len(table))))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda folder: (folder / FIRST).unlink(), "hold 9 rows, where .* announces 20"),
        (lambda folder: (folder / FIRST).write_bytes((folder / FIRST).read_bytes()[:-9]), "is damaged, or no data set"),
        (lambda folder: described(folder, lambda info: info.pop("features")), "names no 'features'"),
        (
            lambda folder: described(folder, lambda info: info["features"].pop("action")),
            "needs numbers .* 'action' and 'episode_index'",
        ),
        (
            lambda folder: described(folder, lambda info: info["features"].pop("episode_index")),
            "needs numbers .* 'action' and 'episode_index'",
        ),
        (rewritten(lambda table: table.drop_columns("action")), "has no column 'action'"),
        (replaced("action", lambda n: pa.array([None, *np.zeros(n - 1)])), "'action' in .* has 10 values, not 11"),
        (
            replaced("observation.state", lambda n: pa.array([[0.0]] + [[0.0, 1.0, 2.0]] * (n - 1))),
            "'observation.state' in .* has 31 values, not 33",
        ),
        (
            replaced("next.reward", lambda n: pa.array([np.nan, *np.zeros(n - 1)])),
            "rew holds NaN or infinite numbers, the first in row 0",
        ),
        (
            lambda folder: described(folder, lambda info: info["features"]["action"].update(shape=[10**12])),
            "would take .* more than this machine has",
        ),
        (
            lambda folder: described(folder, lambda info: info["features"]["action"].update(dtype="object")),
            "'action' is of type object",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(folder, harm, said):
    harm(folder)
    with pytest.raises(DataError, match=said) as error:
        open_source(folder).load()
    assert str(folder) in str(error.value)


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bits_are_refused_by_name_or_read(folder, seed):
    rng = np.random.default_rng(seed)
    path = rng.choice(sorted(folder.rglob("*.*")))
    data = bytearray(path.read_bytes())
    for at in rng.integers(len(data), size=4):
        data[at] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)
    outcome = "refused"
    with contextlib.suppress(DataError):
        outcome = open_source(folder).load()[:].act.shape
    assert outcome in ("refused", (19, 1))
