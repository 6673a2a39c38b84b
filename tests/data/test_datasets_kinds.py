"""Data sets of other programs: what a buffer holds of them, and what is refused."""

import dataclasses
import itertools
import tracemalloc

import numpy as np
import psutil
import pytest

pytest.importorskip("h5py")

from filed import FIELDS, atari_rows, columns, rows_of, write_hdf5, write_minari, write_records

from argosy.data import Batch, ReplayBuffer, Sampling, VectorReplayBuffer
from argosy.data.datasets import DatasetWriter, convert, open_source, read_attributes
from argosy.data.datasets.card import make_card
from argosy.data.datasets.episodes import best_episodes
from argosy.data.datasets.tfrecord import masked_crc, parse_example
from argosy.errors import DataError


@pytest.fixture
def given():
    return columns()


# D4RL and npz


def check_d4rl_rows(buffer, given):
    """The buffer holds all rows of the data set, with its true successors and ends."""
    data = buffer[:]
    for ours, theirs in FIELDS:
        np.testing.assert_array_equal(data[ours], given[theirs])
    assert np.flatnonzero(data.terminated).tolist() == [3]
    assert np.flatnonzero(data.truncated).tolist() == [6]
    batch, _ = buffer.sample(0, Sampling(n_step=3, gamma=0.5))
    rewards = given["rewards"]
    assert batch.rew[2] == pytest.approx(rewards[2] + 0.5 * rewards[3])  # no sum runs across an end
    assert batch.discount[2] == 0.0
    np.testing.assert_array_equal(batch.obs_next[5], given["next_observations"][6])
    assert batch.discount[5] == 0.25


def test_d4rl_with_successors(tmp_path, given):
    source = open_source(write_hdf5(tmp_path / "a.hdf5", given, compression="gzip"))
    assert (source.format, source.rows, source.attributes["action_scale"]) == ("D4RL", 12, "env")
    check_d4rl_rows(source.load(), given)


def test_d4rl_without_successors_leaves_out_the_rows_whose_successor_nobody_knows(tmp_path, given):
    """An episode that terminates needs none; one that is cut ends a row earlier, truncated, with a true successor."""
    del given["next_observations"]
    source = open_source(write_hdf5(tmp_path / "a.hdf5", given))
    assert source.rows == 10
    assert source.notes == ("2 rows at which an episode was cut are left out: it has no 'next_observations'",)
    data = source.load()[:]
    kept = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]
    np.testing.assert_array_equal(data.obs, given["observations"][kept])
    assert np.flatnonzero(data.terminated).tolist() == [3]
    assert np.flatnonzero(data.truncated).tolist() == [5, 9]
    after = np.array(kept)[data.terminated == 0] + 1
    np.testing.assert_array_equal(data.obs_next[~data.terminated], given["observations"][after])
    for size in (1, 3, 100):
        assert rows_of(source, size) == rows_of(source)


def test_d4rl_without_timeouts_is_cut_where_the_next_row_is_no_successor(tmp_path, given):
    del given["timeouts"]
    data = open_source(write_hdf5(tmp_path / "a.hdf5", given)).load()[:]
    assert np.flatnonzero(data.terminated).tolist() == [3]
    assert np.flatnonzero(data.truncated).tolist() == [6, 11]


def test_successors_of_a_coarser_type_still_follow(tmp_path, given):
    del given["timeouts"]
    given["observations"] = given["observations"].astype(np.float64) + 0.1  # which float32 rounds
    given["next_observations"] = (given["next_observations"].astype(np.float64) + 0.1).astype(np.float32)
    data = open_source(write_hdf5(tmp_path / "a.hdf5", given)).load()[:]
    assert np.flatnonzero(data.truncated).tolist() == [6, 11]


def test_flags_that_nobody_has_written_are_read(tmp_path, given):
    import h5py

    path = write_hdf5(tmp_path / "a.hdf5", {**columns(), "timeouts": np.zeros(12, bool)})
    many = 100_000
    with h5py.File(path, "r+") as file:
        for name in list(file):
            value = np.resize(file[name][()], (many, *file[name].shape[1:]))
            del file[name]
            if name == "timeouts":
                file.create_dataset(name, (many,), bool)
            else:
                file[name] = value
    assert not next(open_source(path).read(10)).truncated.any()


def test_an_archive_is_given_back(tmp_path, given):
    np.savez(tmp_path / "a.npz", **given)
    with open_source(tmp_path / "a.npz") as source:
        source.load()
    assert str(tmp_path / "a.npz") not in [file.path for file in psutil.Process().open_files()]


def test_a_first_row_that_is_left_out_says_nothing_of_the_size_of_rows(tmp_path, given, monkeypatch):
    monkeypatch.setattr("argosy.data.datasets.source.PART_BYTES", 200)
    del given["next_observations"]
    given["timeouts"][0] = True  # an episode of one row, of which nobody knows the successor
    sizes = [len(part.rew) for part in open_source(write_hdf5(tmp_path / "a.hdf5", given)).parts()]
    assert max(sizes) < 6


@pytest.mark.parametrize("kind", ["hdf5", "npz"])
def test_a_part_of_which_all_rows_are_left_out_and_the_other_order_of_bytes(tmp_path, given, kind, monkeypatch):
    monkeypatch.setattr("argosy.data.datasets.source.PART_ROWS", 11)  # of 12: the last one's successor is not known
    del given["next_observations"]
    turned = {name: value.astype(value.dtype.newbyteorder(">")) for name, value in given.items()}
    path = tmp_path / f"a.{kind}"
    np.savez(path, **turned) if kind == "npz" else write_hdf5(path, turned)
    convert(open_source(path), tmp_path / "b.hdf5")
    data = open_source(tmp_path / "b.hdf5").load()[:]
    np.testing.assert_array_equal(data.obs, given["observations"][[0, 1, 2, 3, 4, 5, 7, 8, 9, 10]])
    assert data.obs_next.dtype.isnative


def test_an_episode_of_a_single_row_that_is_cut_leaves_the_one_before_it_alone(tmp_path, given):
    del given["next_observations"]
    given["terminals"][:], given["timeouts"][:] = False, False
    given["terminals"][[3, 11]] = True
    given["timeouts"][4] = True
    data = open_source(write_hdf5(tmp_path / "a.hdf5", given)).load()[:]
    assert len(data.rew) == 11
    assert np.flatnonzero(data.terminated).tolist() == [3, 10]
    assert not data.truncated.any()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, given, save):
    save(tmp_path / "a.npz", **given, other=np.array(["text"]))
    source = open_source(tmp_path / "a.npz")
    check_d4rl_rows(source.load(), given)
    for size in (1, 3, 100):
        assert rows_of(source, size) == rows_of(source)


def test_npz_of_nested_observations_under_other_names(tmp_path, given):
    obs = {"observations/a": given["observations"][:, 0], "observations/b": given["observations"][:, 1:]}
    ends = {"terminations": given["terminals"].astype(np.float32), "truncations": given["timeouts"][:, None]}
    np.savez(tmp_path / "a.npz", action=np.arange(12) % 3, reward=given["rewards"][:, None], **obs, **ends)
    data = open_source(tmp_path / "a.npz").load()[:]
    np.testing.assert_array_equal(data.obs.b, given["observations"][[0, 1, 2, 3, 4, 5, 7, 8, 9, 10], 1:])
    np.testing.assert_array_equal(data.obs_next.a[:3], given["observations"][1:4, 0])
    assert data.rew.shape == (10,)


@pytest.mark.parametrize("turned", [False, True])
def test_an_array_that_is_a_group_as_well_is_named(tmp_path, given, turned):
    both = {**given, "observations/cam": np.zeros(12)}
    np.savez(tmp_path / "a.npz", **dict(reversed(both.items()) if turned else both.items()))
    with pytest.raises(DataError, match=r"a.npz .*'observations' is an array, and there is 'observations/cam' within"):
        open_source(tmp_path / "a.npz")


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_names_for_a_field_the_first_known_one_counts(tmp_path, given, turned):
    twice = {"states": np.zeros(12), "obs/camera": np.zeros(12), **given}
    np.savez(tmp_path / "a.npz", **dict(reversed(twice.items()) if turned else twice.items()))
    np.testing.assert_array_equal(rows_of(open_source(tmp_path / "a.npz")).obs, given["observations"])


@pytest.mark.parametrize("with_timeouts", [False, True])
def test_successors_of_another_shape_than_observations_are_named(tmp_path, given, with_timeouts):
    given["next_observations"] = given["next_observations"][:, :1]
    np.savez(tmp_path / "a.npz", **{name: given[name] for name in given if with_timeouts or name != "timeouts"})
    with pytest.raises(DataError, match=r"a.npz.* obs has rows of obs \(3,\), but obs_next, .*, has obs_next \(1,\)"):
        open_source(tmp_path / "a.npz").load()


def test_successors_of_another_kind_than_observations_are_named(tmp_path, given):
    """No conversion writes what nothing could load again, nor cuts numbers to what the observations are."""
    ints = (given["observations"] * 100).astype(np.int64)
    np.savez(tmp_path / "a.npz", **given | {"observations": ints})
    with pytest.raises(DataError, match=r"a.npz.* obs holds int64, but obs_next, which must hold the same, .* float32"):
        convert(open_source(tmp_path / "a.npz"), tmp_path / "b.hdf5")
    assert not (tmp_path / "b.hdf5").exists()
    doubles = given["next_observations"].astype(np.float64)
    for seen, after in ((ints, ints.astype(np.int16)), (given["observations"], doubles)):
        np.savez(tmp_path / "a.npz", **given | {"observations": seen, "next_observations": after})
        np.testing.assert_array_equal(open_source(tmp_path / "a.npz").load()[:].obs_next, after)


def test_hdf5_of_nested_observations(tmp_path, given):
    nested = {f"{name}/a": given.pop(name)[:, 0] for name in ("observations", "next_observations")}
    data = open_source(write_hdf5(tmp_path / "a.hdf5", given | nested)).load()[:]
    np.testing.assert_array_equal(data.obs.a, nested["observations/a"])
    np.testing.assert_array_equal(data.obs_next.a, nested["next_observations/a"])


@pytest.mark.parametrize("kind", ["hdf5", "npz"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": None}, r"there is no 'actions' or 'act' in it, which must say the action of every row"),
        ({"rewards": None}, r"no 'rewards' or 'rew' in it, .* the reward of every row; it has .*'terminals'"),
        ({"terminals": None}, r"there is no 'terminals' or 'terminated' in it.*dones alone do not say"),
        ({"timeouts": None, "next_observations": None}, r"neither 'timeouts' nor 'next_observations'.*add 'timeouts'"),
        ({"actions": np.zeros((7, 2))}, r"actions has shape \(7, 2\); the file has 12 rows"),
        ({"terminals": np.arange(12)}, r"terminals has shape .* it must hold a flag"),
        ({"rewards": np.zeros((12, 2))}, r"rewards has shape \(\d+, 2\) .* a number per row"),
        ({"rewards": np.zeros((1, 12))}, r"rewards has shape \(1, 12\) where it must hold a number per row"),
        ({"rewards": None, "rewards/a": np.zeros(12)}, r"rewards is a group where it must hold a number per row"),
        (
            {"observations": np.full((12, 3), np.nan, np.float32)},
            r"obs holds NaN or infinite numbers, the first in row 0",
        ),
        ({"actions": np.where(np.arange(12)[:, None] == 8, np.inf, 0.0)}, r"act holds NaN or infinite .* row 8"),
        ({"rewards": np.where(np.arange(12) == 5, np.nan, 0.0)}, r"rew holds NaN or infinite .* row 5"),
        ({"next_observations": np.zeros((12, 4), np.float32)}, r"obs_next"),
        ({"observations": np.zeros((12, 3), "S3")}, r"pickled objects or text"),
    ],
)
def test_columns_that_do_not_fit_are_named(tmp_path, given, kind, changes, message):
    arrays = {name: value for name, value in {**given, **changes}.items() if value is not None}
    path = tmp_path / f"a.{kind}"
    if kind == "npz":
        np.savez(path, **arrays)
    else:
        write_hdf5(path, arrays)
    with pytest.raises(DataError, match=message) as caught:
        open_source(path).load()
    assert str(path) in str(caught.value)


def test_a_file_without_rows_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", **{name: value[:0] for name, value in columns().items()})
    with pytest.raises(DataError, match=r"a.npz holds no transitions"):
        open_source(tmp_path / "a.npz").load()


# RL Unplugged


def test_checksums_and_messages_are_tensorflow_s():
    crc = 0xE3069283  # of RFC 3720's kind: CRC-32C of "123456789"
    assert masked_crc(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    from filed import example_message

    example = example_message()()
    example.features.feature["i"].int64_list.value.extend([-1, 2**40, 0])
    example.features.feature["f"].float_list.value.extend([0.5, -2.0])
    example.features.feature["b"].bytes_list.value.extend([b"", b"xyz"])
    found = parse_example(example.SerializeToString())
    assert found["i"].tolist() == [-1, 2**40, 0]
    assert found["f"].tolist() == [0.5, -2.0]
    assert found["b"] == [b"", b"xyz"]


@pytest.mark.parametrize("packed", [True, False])
def test_rows_that_follow_each_other_are_stored_as_single_frames(tmp_path, packed, monkeypatch):
    monkeypatch.setattr("argosy.data.datasets.unplugged.MEAN_SEGMENT", 5)
    rows = atari_rows()
    source = open_source(write_records(tmp_path / "run_1-00000-of-00100", rows, packed=packed))
    assert (source.format, source.rows) == ("RL Unplugged Atari", 12)
    buffer = source.load()
    assert (buffer.obs.shape, buffer.stack_num, buffer.ignore_obs_next) == ((12, 8, 8), 4, True)
    data = buffer[:]
    np.testing.assert_array_equal(data.obs, [row["o_t"] for row in rows])
    np.testing.assert_array_equal(data.obs_next, [row["o_tp1"] for row in rows])
    assert data.act.tolist() == [row["a_t"] for row in rows]
    assert data.rew.tolist() == [row["r_t"] for row in rows]
    assert np.flatnonzero(data.terminated).tolist() == [6]
    assert not data.truncated.any()
    for size in (1, 4, 100):
        assert rows_of(source, size) == rows_of(source)


def test_shuffled_rows_are_stored_as_whole_stacks(tmp_path):
    rows = atari_rows()
    mixed = [rows[i] for i in np.random.default_rng(0).permutation(12)]
    source = open_source(write_records(tmp_path / "run", mixed))
    data = source.load()[:]
    np.testing.assert_array_equal(data.obs, [row["o_t"] for row in mixed])
    np.testing.assert_array_equal(data.obs_next, [row["o_tp1"] for row in mixed])
    followed = [np.array_equal(one["o_tp1"], other["o_t"]) for one, other in itertools.pairwise(mixed)]
    for row, goes_on in enumerate(followed):
        assert data.truncated[row] == (not goes_on and not data.terminated[row])


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_piece_that_starts_in_mid_episode_is_no_beginning_of_one(tmp_path, monkeypatch, size):
    """Of one episode, which ends in row 9, and the next one rows 4, 5 and 13 are missing."""
    monkeypatch.setattr("argosy.data.datasets.unplugged.MEAN_SEGMENT", 3)
    monkeypatch.setattr("argosy.data.datasets.source.PART_ROWS", size)
    rows = atari_rows(count=16, end=9)
    source = open_source(write_records(tmp_path / "run", [rows[t] for t in range(16) if t not in (4, 5, 13)]))
    convert(source, tmp_path / "a.hdf5")
    for each in (source, open_source(tmp_path / "a.hdf5")):
        assert each.load().rings.first.nonzero()[0].tolist() == [0, 8]
        card = make_card(each)
        assert (card.lengths, card.unfinished) == ([], 4)
        with pytest.raises(DataError, match=r"no episode is whole in 13 rows"):
            best_episodes(each, 1.0)


def test_of_shuffled_rows_none_is_known_to_begin_an_episode(tmp_path):
    rows = atari_rows()
    mixed = [rows[i] for i in np.random.default_rng(0).permutation(12)]
    source = open_source(write_records(tmp_path / "run", mixed))
    assert not source.load().rings.first.any()
    assert make_card(source).wrong == ["no episode is whole in 12 rows: nobody knows what came of it"]


def test_a_folder_of_records_is_read_in_the_order_of_names(tmp_path):
    rows = atari_rows()
    write_records(tmp_path / "run_1-00001-of-00002", rows[5:])
    write_records(tmp_path / "run_1-00000-of-00002", rows[:5])
    data = open_source(tmp_path).load()[:]
    assert data.act.tolist() == [row["a_t"] for row in rows]
    assert np.flatnonzero(data.truncated).tolist() == []  # the second file goes on where the first one stops


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("names", ["run_1-0000{}-of-00003", "a.tfrecord-0000{}-of-00003", "part{}.rec", "{}.tfrecord"])
@pytest.mark.parametrize("damage", ["empty", "25 bytes", "head", "half"])
def test_a_damaged_file_among_records_is_named_not_left_out(tmp_path, packed, names, damage):
    rows = atari_rows()
    for number in range(3):
        write_records(tmp_path / names.format(number), rows[4 * number : 4 * number + 4], packed=packed)
    broken = tmp_path / names.format(1)
    data = broken.read_bytes()
    half = data[: len(data) // 2 - 1]  # not where a record ends
    changed = {"empty": b"", "25 bytes": data[:25], "head": bytes([data[0] ^ 0xFF]) + data[1:], "half": half}
    broken.write_bytes(changed[damage])
    with pytest.raises(DataError, match=rf"{names.format(1)} .*(is empty or damaged|is damaged|ends within record)"):
        open_source(tmp_path).load()


def test_what_gzip_packed_is_named_where_it_ends_too_early(tmp_path):
    """It is so long that its head can be read."""
    rng = np.random.default_rng(0)
    large = [rng.integers(256, size=(200, 200), dtype=np.uint8) for _ in range(4)]
    path = write_records(tmp_path / "run_1-00000-of-00001", [{**row, "o_t": large} for row in atari_rows(12)])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"run_1-00000-of-00001 is damaged: EOFError"):
        open_source(tmp_path)


@pytest.mark.parametrize("name", ["empty", "packed.gz", "run_1-00001-of-00002"])
def test_what_seems_to_hold_records_and_cannot_be_read_is_refused(tmp_path, name):
    write_records(tmp_path / "run_1-00000-of-00002", atari_rows())
    if name == "run_1-00001-of-00002":
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    else:
        (tmp_path / name).write_bytes(b"" if name == "empty" else b"\x1f\x8b\x08")
    with pytest.raises(
        DataError,
        match=rf"{name} lies among TFRecords, but is empty or damaged, .* fetch it again, or move it elsewhere",
    ):
        open_source(tmp_path)


def test_what_lies_beside_records_to_describe_them_is_passed_over(tmp_path):
    rows = atari_rows()
    write_records(tmp_path / "run_1-00000-of-00001", rows)
    for name in ("README", "features.json", "notes.txt", ".run_1-00000-of-00001", "._a.tfrecord"):
        (tmp_path / name).write_text("anything")
    for name in ("_SUCCESS", ".DS_Store", "empty.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "run_1-00000-of-00002").mkdir()
    assert open_source(tmp_path).rows == len(rows)


def test_records_of_another_kind_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"record 0 of .*a has no 4 images 'o_t'; it is of another kind"):
        open_source(write_records(tmp_path / "a", [{"a_t": 1, "r_t": 0.0, "d_t": 1.0}]))
    row = atari_rows(1)[0]
    with pytest.raises(DataError, match=r"record 0 of .*b has no number 'r_t'"):
        open_source(write_records(tmp_path / "b", [{name: row[name] for name in ("o_t", "a_t", "d_t", "o_tp1")}]))
    large = np.zeros((2000, 2), np.uint8)
    source = open_source(write_records(tmp_path / "c", [{**row, "o_t": [large] * 4, "o_tp1": [large] * 4}]))
    with pytest.raises(DataError, match=r"an image is no PNG of at most 1024 x 1024 pixels"):
        source.load()


# buffers' files, and files of no kind


def filled(num_envs=2, **options):
    rng = np.random.default_rng(0)
    buffer = VectorReplayBuffer(16 * num_envs, num_envs, **options)
    obs = rng.normal(size=(num_envs, 3)).astype(np.float32)
    for t in range(19):  # more than there is room for
        following = rng.normal(size=(num_envs, 3)).astype(np.float32)
        done = np.full(num_envs, t % 5 == 4)
        buffer.add(
            Batch(
                obs=obs,
                act=rng.integers(2, size=num_envs),
                rew=rng.normal(size=num_envs),
                terminated=done & (t < 9),
                truncated=done & (t > 9),
                obs_next=following,
            )
        )
        obs = np.where(done[:, None], rng.normal(size=(num_envs, 3)), following).astype(np.float32)
    return buffer


@pytest.mark.parametrize("options", [{}, {"ignore_obs_next": True}, {"ignore_obs_next": True, "stack_num": 2}])
def test_a_buffer_s_file_is_a_data_set(tmp_path, options):
    buffer = filled(**options)
    buffer.save_hdf5(tmp_path / "a.hdf5")
    source = open_source(tmp_path / "a.hdf5")
    assert (source.format, source.rows) == ("argosy", 32)
    assert source.load()[:] == buffer[:]
    single = VectorReplayBuffer.load_hdf5(tmp_path / "a.hdf5")
    for size in (1, 3, 100):
        data = rows_of(source, size)
        np.testing.assert_array_equal(data.obs, single.get(slice(None), "obs", stack_num=1))
        np.testing.assert_array_equal(data.obs_next, single.get(slice(None), "obs_next", stack_num=1))
        assert np.flatnonzero(data.truncated & ~buffer[:].truncated).tolist() == [15, 31]  # where the rings end


@pytest.mark.parametrize("options", [{}, {"ignore_obs_next": True, "stack_num": 2}])
def test_what_is_converted_is_the_same_data_set(tmp_path, options):
    buffer = filled(**options)
    buffer.save_hdf5(tmp_path / "a.hdf5")
    done = []
    convert(open_source(tmp_path / "a.hdf5"), tmp_path / "b.hdf5", done.append)
    again, told = ReplayBuffer.load_hdf5(tmp_path / "b.hdf5"), buffer[:]
    told.truncated[[15, 31]] = told.done[[15, 31]] = True
    assert again[:] == told
    assert done[-1] == 32
    assert read_attributes(tmp_path / "b.hdf5")["converted_from"] == "argosy"


def test_what_a_file_says_of_its_data_is_kept(tmp_path):
    told = {"task": "t", "seed": 3, "version": 7, "eps": 0.5, "return_mean": np.float32(1.5), "whole": True}
    with DatasetWriter(tmp_path / "a.hdf5", 2, 16) as writer:
        writer.write(filled().rollout())
        writer.finish(told)
    with open_source(tmp_path / "a.hdf5") as source:
        convert(source, tmp_path / "b.hdf5")
    found = read_attributes(tmp_path / "b.hdf5")
    assert {name: found[name] for name in told} == told
    assert found["converted_from"] == "argosy"


def test_columns_that_a_conversion_leaves_out_are_told(tmp_path):
    buffer = ReplayBuffer(2, info_keys=["k"])
    for t in range(2):
        obs, ends = np.float32([t]), {"terminated": t == 1, "truncated": False}
        buffer.add(Batch(obs=obs, act=0, rew=1.0, obs_next=obs + 1, **ends, info={"k": t, "other": t}, mine=t))
    buffer.save_hdf5(tmp_path / "a.hdf5")
    source = open_source(tmp_path / "a.hdf5")
    kept = "it keeps obs, act, rew, terminated, truncated, obs_next"
    assert source.notes == (f"`argosy data convert` leaves out info.k, mine: {kept}",)
    assert source.load()[:].mine.tolist() == [0, 1]  # only who converts loses them
    convert(source, tmp_path / "b.hdf5")
    assert open_source(tmp_path / "b.hdf5").notes == ()


@pytest.mark.parametrize("kind", ["minari", "npz"])
def test_a_recording_that_only_stops_is_no_end_also_when_it_is_converted(tmp_path, given, kind):
    if kind == "npz":
        del given["next_observations"]  # the last row is left out, and the one before it is cut
        np.savez(tmp_path / "a.npz", **given)
    first = open_source(tmp_path / "a.npz" if kind == "npz" else write_minari(tmp_path / "a", given))
    rows = 10 if kind == "npz" else 12
    convert(first, tmp_path / "b.hdf5")
    convert(open_source(tmp_path / "b.hdf5"), tmp_path / "c.hdf5")
    for source in (first, open_source(tmp_path / "b.hdf5"), open_source(tmp_path / "c.hdf5")):
        assert np.flatnonzero(rows_of(source).cut).tolist() == [rows - 1]
        for buffer in (source.load(), dataclasses.replace(source, whole=None).load()):
            whole = buffer.sample(0, Sampling(fields=("ended",)))[0].ended
            assert np.flatnonzero(~whole).tolist() == list(range(rows - (4 if kind == "npz" else 5), rows))


def test_frames_are_written_once_and_packed(tmp_path, monkeypatch):
    import h5py

    monkeypatch.setattr("argosy.data.datasets.unplugged.MEAN_SEGMENT", 5)
    rows = atari_rows()
    source = open_source(write_records(tmp_path / "run", rows))
    for packed in (True, False):
        convert(source, tmp_path / "a.hdf5", packed=packed)
        with h5py.File(tmp_path / "a.hdf5") as file:
            assert file["columns/obs"].shape == (12, 8, 8)
            assert file["columns/obs_next"].shape == (2, 8, 8)  # an episode's end, and the last row
            assert file["columns/obs"].compression == ("lzf" if packed else None)
        data = ReplayBuffer.load_hdf5(tmp_path / "a.hdf5")[:]
        np.testing.assert_array_equal(data.obs, [row["o_t"] for row in rows])
        np.testing.assert_array_equal(data.obs_next, [row["o_tp1"] for row in rows])


def test_conversion_takes_constant_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("argosy.data.datasets.source.PART_BYTES", 1 << 16)
    peaks = []
    for n in (2_000, 2_000, 20_000):  # the first one imports
        arrays = {"observations": np.zeros((n, 20)), "actions": np.zeros((n, 2)), "rewards": np.zeros(n)}
        ends = {"terminals": np.arange(n) % 100 == 99, "timeouts": np.zeros(n, bool)}
        with open_source(write_hdf5(tmp_path / "a.hdf5", {**arrays, **ends})) as source:
            tracemalloc.start()
            convert(source, tmp_path / "b.hdf5")
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert (tmp_path / "b.hdf5").stat().st_size > 6_000_000
    assert peaks[2] - peaks[1] < 800_000  # 40 bytes a row: flags, not observations


def test_a_conversion_that_fails_leaves_nothing_and_what_was_there_as_it_was(tmp_path, given):
    given["observations"][8, 1] = np.nan
    source = open_source(write_hdf5(tmp_path / "a.hdf5", given))
    (tmp_path / "b.hdf5").write_text("before")
    with pytest.raises(DataError, match=r"a.hdf5 cannot be learned from: obs.* holds NaN .* row 8"):
        convert(source, tmp_path / "b.hdf5")
    assert (tmp_path / "b.hdf5").read_text() == "before"
    assert {file.name for file in tmp_path.iterdir()} == {"a.hdf5", "b.hdf5"}


def test_fewer_rows_than_frames_in_a_stack_can_be_opened_again(tmp_path):
    buffer = ReplayBuffer(3, stack_num=4)
    for t in range(3):
        obs = np.full((2,), t, np.float32)
        buffer.add(Batch(obs=obs, act=0, rew=0.0, terminated=False, truncated=False, obs_next=obs + 1))
    buffer.save_hdf5(tmp_path / "a.hdf5")
    convert(open_source(tmp_path / "a.hdf5"), tmp_path / "b.hdf5")
    assert open_source(tmp_path / "b.hdf5").load()[:].obs.shape == (3, 4, 2)


def test_files_of_no_kind_are_named(tmp_path):
    (tmp_path / "a").write_bytes(b"anything")
    with pytest.raises(DataError, match=r"a is of no known kind, or damaged; known are argosy's or Tianshou's HDF5"):
        open_source(tmp_path / "a")
    write_hdf5(tmp_path / "b.hdf5", {"x": np.zeros(3)})
    with pytest.raises(DataError, match=r"is an HDF5 file, but no data set: it holds 'x'; known are"):
        open_source(tmp_path / "b.hdf5")
    with pytest.raises(DataError, match=r"there is no file .*nowhere"):
        open_source(tmp_path / "nowhere")
    (tmp_path / "c.hdf5").touch()
    with pytest.raises(DataError, match=r"c.hdf5 is empty: fetch or write it again"):
        open_source(tmp_path / "c.hdf5")
